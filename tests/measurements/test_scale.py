"""Scaling of a measured time to other clocks, with every model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.errors import QueryError, SpecError
from sweep.fields import BOUND
from sweep.measurements.scaling import OUTPUTS, at_other_clocks
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
@pytest.mark.parametrize(("name", "time"), [("vector_add", 2.0), ("figure12_tiled", 900.0)])
def test_scale__adds_what_models_miss_by_the_core_clock_unless_dram_limits(name, time, base):
    kernel, select = anchored(name, time, *base), ONE if name == "vector_add" else {}
    models = ["hong_kim", "wang_chu"]
    answer = sweep.scale(kernel, models=models, core_clock=[400, 1000], memory_clock=[500, 800],
                         select=select)  # fmt: skip
    axes = {"core_clock": [400, base[0], 1000], "memory_clock": [500, 800, base[1]]}
    own = {name: {key: [value] for key, value in select.items()}}
    plan = sweep.Plan([name], ["gtx_980"], models, precision="float64", axes=axes, kernel_axes=own,
                      outputs=OUTPUTS)  # fmt: skip
    found = sweep.evaluate(plan)[name].to_dataset().squeeze().compute()
    for row in answer:
        clocks = {"core_clock": row["core_clock"], "memory_clock": row["memory_clock"]}
        for model in models:
            base_at = found.sel(model=model, core_clock=base[0], memory_clock=base[1])
            at = found.sel(model=model, **clocks)
            predicted, before = float(at["execution_time"]), float(base_at["execution_time"])
            by_dram = int(base_at["bound"]) == BOUND["memory"] and (
                base_at["memory_activity"] >= base_at["core_activity"]
            )
            seconds, slower = time * 1e-3, base[0] / row["core_clock"]
            expected = predicted * seconds / before
            if not by_dram and seconds > before:
                added = predicted + (seconds - before) * slower
                hidden = max(added - seconds * slower, 0) * float(at["memory_activity"])
                expected = max(predicted, added - hidden)
            assert row[model] == pytest.approx(expected, rel=1e-12)


def test_rule__of_a_chip_and_a_dram_that_work_side_by_side():
    """A launch of which the model knows half of the chip's work: max(2 A, M) is the truth."""
    for core, memory in [(1, 1), (2, 1), (0.5, 1), (1, 0.5), (1, 0.1), (4, 0.2), (1, 3)]:
        chip, dram = xr.DataArray(3.0 / core), xr.DataArray(2.0 / memory)
        predicted = np.maximum(chip, dram)
        scaled = at_other_clocks(6.0, xr.DataArray(3.0), predicted, 1 / core, dram / predicted,
                                 xr.DataArray(False))  # fmt: skip
        assert float(scaled) == pytest.approx(max(6.0 / core, float(dram)))
    less = at_other_clocks(2.0, xr.DataArray(4.0), predicted, 2.0, 0.0, xr.DataArray(False))
    assert float(less) == 0.5 * float(predicted)  # a model that predicts too much


def test_several_kernels__are_rows_of_one_answer(tmp_path, capsys):
    kernels = [anchored("figure12_tiled", time) for time in (900.0, 800.0)]
    kernels[1] = replace(kernels[1], key="other")
    answer = sweep.scale(kernels, models=["hong_kim"], core_clock=[500, 700], memory_clock=[700])
    assert answer.column("kernel") == ["figure12_tiled"] * 2 + ["other"] * 2
    assert answer.column("hong_kim")[1::2] == [0.9, 0.8]
    for kernel, rows in zip(kernels, (answer.rows[:2], answer.rows[2:]), strict=True):
        alone = sweep.scale(kernel, models=["hong_kim"], core_clock=[500, 700], memory_clock=[700])
        assert [row["hong_kim"] for row in rows] == alone.column("hong_kim")
    assert any(note.startswith("other: time that models miss") for note in answer.notes)
    folder = tmp_path / "kernels"
    folder.mkdir()
    main(["profile", str(FOLDER / "ncu_raw.csv"), "--device", "gtx_980", "--core-clock", "700",
          "-o", str(folder)])  # fmt: skip
    files = sorted(folder.glob("*.toml"))
    assert [file.stem for file in files] == ["matrixmulcuda", "vectoradd"]
    capsys.readouterr()
    assert main(["scale", *map(str, files), "--model", "hong_kim", "--core-clock", "700"]) == 0
    assert capsys.readouterr().out.startswith("2 kernels, each from its measured time")


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
