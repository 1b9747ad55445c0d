"""Scaling of a measured time to other clocks, with every model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.errors import QueryError, SpecError
from sweep.specs import parse_kernel

FOLDER = Path(__file__).parents[1] / "data" / "profiles"
ONE = {name: values[0] for name, values in sweep.load_kernel("vector_add").parameters.items()}
ONE["block_size"] = 256
MEASURED = """
[measured]
time_ms = {time}
device = "gtx_980"
core_clock_MHz = {core}
memory_clock_MHz = {memory}
"""


def anchored(name, time=2.0, core=700, memory=700):
    """Return a shipped kernel with a measured time."""
    text = sweep.load_kernel(name).text
    return parse_kernel(text + MEASURED.format(time=time, core=core, memory=memory), name)


@pytest.fixture
def profiled(tmp_path):
    """Return the path of a kernel file created from a profile."""
    paths = [str(FOLDER / f"nvprof_{name}.csv") for name in ("metrics", "trace")]
    target = tmp_path / "matmul.toml"
    assert main(["profile", *paths, "--outer", "32", "-o", str(target)]) == 0
    return target


@pytest.mark.slow
def test_scale__is_the_measured_time_where_it_was_measured(profiled):
    slower, same = sweep.scale(profiled, core_clock=[600, 700], memory_clock=[700])
    assert (slower["core_clock"], same["core_clock"]) == (600, 700)
    time = sweep.load_kernel(profiled).measured.time
    assert [same[model] for model in sweep.model_names()] == [time] * len(sweep.model_names())


@pytest.mark.parametrize("base", [(700, 700), (450, 900)])
def test_scale__is_measured_times_predicted_over_predicted(base):
    kernel = anchored("vector_add", 2.0, *base)
    models = ["hong_kim", "wang_chu"]
    answer = sweep.scale(kernel, models=models, core_clock=[400, 1000], memory_clock=[500, 800],
                         select=ONE)  # fmt: skip
    axes = {"core_clock": [400, base[0], 1000], "memory_clock": [500, 800, base[1]]}
    own = {"vector_add": {name: [value] for name, value in ONE.items()}}
    plan = sweep.Plan(["vector_add"], ["gtx_980"], models, precision="float64", axes=axes,
                      kernel_axes=own)  # fmt: skip
    times = sweep.evaluate(plan)["vector_add"]["execution_time"].squeeze().compute()
    ratios = times / times.sel(core_clock=base[0], memory_clock=base[1])
    for row in answer:
        at = {"core_clock": row["core_clock"], "memory_clock": row["memory_clock"]}
        for model in models:
            ratio = float(ratios.sel(model=model, **at))
            assert row[model] == pytest.approx(2e-3 * ratio, rel=1e-12)


def test_scale__a_memory_bound_kernel_follows_the_memory_clock():
    def ratio(**clocks):
        found = sweep.scale(anchored("vector_add"), models=["wang_chu"], **clocks, select=ONE)
        slow, fast = found.column("wang_chu")
        return slow / fast

    assert 1.8 < ratio(core_clock=[700], memory_clock=[500, 1000]) <= 2.2
    assert ratio(core_clock=[500, 1000], memory_clock=[700]) < 1.1


def test_energy_and_notes__of_a_single_model_and_of_what_is_assumed(profiled):
    answer = sweep.scale(profiled, models=["wang_chu"], core_clock=[500, 900], memory_clock=[700])
    for row in answer:
        assert row["energy"] == pytest.approx(row["power"] * row["wang_chu"])
    assert any("power.static_W" in note for note in answer.notes)
    several = sweep.scale(profiled, models=["wang_chu", "hong_kim"], core_clock=[500])
    assert "power" not in several.columns
    text = profiled.read_text(encoding="utf-8").replace('"gtx_980"', '"gtx_260"')
    text = text.replace("core_clock_MHz = 700", "core_clock_MHz = 1242")
    text = text.replace("memory_clock_MHz = 700", "memory_clock_MHz = 999")
    with pytest.raises(QueryError, match=r"no predicted time on gtx_260 .* block too large"):
        sweep.scale(parse_kernel(text, "matmul"), models=["hong_kim"])
    answer = sweep.scale(sweep.load_kernel(profiled), models=["hong_kim"], memory_clock=[700])
    assert any("measured.core_clock_MHz" in note for note in answer.notes)


def test_clocks__of_a_range_and_seven_over_the_range_of_the_device(profiled):
    found = sweep.scale(anchored("figure12_tiled"), models=["hong_kim"], memory_clock=700,
                        core_clock={"start": 600, "stop": 800, "step": 100})  # fmt: skip
    assert found.column("core_clock") == [600, 700, 800]
    assert found[1]["hong_kim"] == 2e-3
    every = sweep.scale(profiled, models=["hong_kim"])
    assert sorted(set(every.column("core_clock"))) == [400, 500, 600, 700, 800, 900, 1000]
    assert len(every) == 49


def test_command__prints_a_table_or_data(capsys, profiled):
    capsys.readouterr()
    command = [str(profiled), "--model", "hong_kim,wang_chu", "--core-clock", "500:900:200",
               "--memory-clock", "700,800"]  # fmt: skip
    assert main(["scale", *command]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith("matrixMulCUDA on gtx_980: 2.2102 ms at 700/700 MHz, scaled by each")
    assert main(["scale", *command, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    pairs = [(m, c) for m in (700, 800) for c in (500, 700, 900)]
    assert [(row["memory_clock"], row["core_clock"]) for row in rows] == pairs


BAD = {
    "no measured time": (["vector_add"], "no [measured] time to scale: `sweep profile` writes one"),
    "no kernel": (["vectoradd"], "did you mean 'vector_add'?"),
    "no model": (["FILE", "--model", "wang"], "models: unknown 'wang'"),
    "clocks": (["FILE", "--core-clock", "a:b"], "--core-clock a:b: must be MHz, such as 700,800"),
    "empty range": (["FILE", "--core-clock", "9:8:1"], "the axis is empty"),
    "unit": (["FILE", "--core-clock", "0.7"], "a clock must be 1 to 20000 MHz"),
    "parameter": (["FILE", "tile=8"], "kernel 'matmul' has no 'tile'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input__one_line_and_exit_code_2(case, capsys, profiled):
    capsys.readouterr()
    arguments, message = BAD[case]
    assert message in refused(capsys, "scale", *(profiled if a == "FILE" else a for a in arguments))


def test_bad_input__a_parameter_is_open():
    with pytest.raises(QueryError, match="which block_size was measured is open: block_size=VALUE"):
        sweep.scale(anchored("vector_add"))
    with pytest.raises(SpecError, match="no device 'gtx_981'"):
        text = anchored("vector_add").text.replace('"gtx_980"', '"gtx_981"')
        sweep.scale(parse_kernel(text, "vector_add"))
