"""Scaling of a measured time to other clocks, with every model."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.compiler.passes import get_pass
from sweep.errors import QueryError, SpecError
from sweep.evaluation import chunk, limits
from sweep.measurements.effective_clocks import effective, searched
from sweep.measurements.scaling import OUTPUTS
from sweep.specs import parse_kernel

FOLDER = Path(__file__).parents[1] / "data" / "profiles"
ONE = {name: values[0] for name, values in sweep.load_kernel("vector_add").parameters.items()}
ONE["block_size"] = 256
MEASURED = """
[measured]
time_ms = {time}
device = "gtx_980_paper"
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
    assert (
        main(["profile", *paths, "--device", "gtx_980_paper", "--outer", "32", "-o", str(target)])
        == 0
    )
    return target


@pytest.mark.slow
def test_scale__is_the_measured_time_where_it_was_measured(profiled):
    slower, same = sweep.scale(profiled, core_clock=[600, 700], memory_clock=[700])
    assert (slower["core_clock"], same["core_clock"]) == (600, 700)
    time = sweep.load_kernel(profiled).measured.time
    assert [same[model] for model in sweep.model_names()] == [time] * len(sweep.model_names())


@pytest.mark.parametrize("base", [(700, 700), (450, 900)])
@pytest.mark.parametrize(("name", "time"), [("vector_add", 2.0), ("figure12_tiled", 0.04)])
def test_scale__predicts_at_the_clock_at_which_it_meets_the_measured_time(
    name, time, base, tmp_path
):
    """The effective clock is found here on fine lines of clocks."""
    text = sweep.load_device("gtx_980_paper").text
    text = re.sub(r"(core|memory)_min_MHz = 400", r"\1_min_MHz = 50", text)
    text = re.sub(r"(core|memory)_max_MHz = 1000", r"\1_max_MHz = 5000", text)
    device = tmp_path / "wide.toml"
    device.write_text(text, encoding="utf-8")
    select = ONE if name == "vector_add" else {}
    own = {name: {key: [value] for key, value in select.items()}}

    def predicted(model, core, memory):
        axes = {"core_clock": sorted(core), "memory_clock": sorted(memory)}
        plan = sweep.Plan([name], [str(device)], [model], precision="float64", axes=axes,
                          kernel_axes=own, outputs=OUTPUTS)  # fmt: skip
        found = sweep.evaluate(plan)[name]["execution_time"].squeeze().compute()
        return found.transpose("core_clock", "memory_clock").values

    lines = [clock * np.geomspace(1 / 8, 5.0, 2001) for clock in base]
    for model in ("hong_kim", "wang_chu"):
        along = [predicted(model, lines[0], [base[1], 5000.0])[:, 0],
                 predicted(model, [base[0], 5000.0], lines[1])[0]]  # fmt: skip
        meets = [np.interp(-np.log(time * 1e-3), -np.log(along[i]), np.log(lines[i] / base[i]),
                           left=np.inf, right=np.inf) for i in (0, 1)]  # fmt: skip
        chosen = int(4 * abs(meets[1]) < abs(meets[0]))
        ratio = np.exp(meets[chosen])
        kernel = anchored(name, time, *base)
        answer = sweep.scale(kernel, models=[model], core_clock=[400, 1000],
                             memory_clock=[500, 800], select=select)  # fmt: skip
        clocks = np.array([[400.0, 1000.0], [500.0, 800.0]])
        clocks[chosen] *= ratio
        rows = np.reshape(answer.column(model), (2, 2)).T  # the core clock is the inner one
        assert rows == pytest.approx(predicted(model, *clocks), rel=5e-3)


CLOCKS = {name: np.geomspace(100.0, 4900.0, 801) for name in ("core", "memory")}
OWN = {name: line[400] for name, line in CLOCKS.items()}


def met(measured, chip, dram, joined):
    """Return how a model with some work of chip and DRAM meets a measured time."""
    lines = {"core": chip * OWN["core"] / CLOCKS["core"],
             "memory": dram * OWN["memory"] / CLOCKS["memory"]}  # fmt: skip
    times = {"core": joined(lines["core"], dram), "memory": joined(chip, lines["memory"])}
    return effective(measured, times, CLOCKS, OWN)


SMOOTH = {
    "side by side": np.maximum,
    "one after the other": np.add,
    "in between": lambda chip, dram: np.cbrt(chip**3 + dram**3),
}


@pytest.mark.parametrize("way", SMOOTH)
@pytest.mark.parametrize(("factor", "clock"), [(1.9, "core"), (0.7, "core"), (1.05, "memory")])
def test_effective_clock__finds_the_work_that_a_model_does_not_know(way, factor, clock):
    """A model that counts half of the chip's work, or too much, or a little less than DRAM's."""
    joined = SMOOTH[way]
    chip, dram = (3.0, 2.0) if clock == "core" else (0.5, 3.0)
    true = {"core": chip, "memory": dram}
    true[clock] *= factor
    found = met(joined(*true.values()), chip, dram, joined)
    assert (found.clock, found.predicted) == (clock, pytest.approx(joined(chip, dram)))
    for core, memory in [(1, 1), (2, 1), (0.5, 1), (1, 0.5), (1, 0.1), (4, 0.2), (1, 3)]:
        (core_at,), (memory_at,) = found.of("core", [core]), found.of("memory", [memory])
        truth = joined(true["core"] / core, true["memory"] / memory)
        if truth >= joined(*true.values()) * 0.3:
            assert joined(chip / core_at, dram / memory_at) == pytest.approx(truth, rel=1e-3)


def test_effective_clock__takes_much_missing_time_as_cycles_of_the_chip():
    """Counted traffic of DRAM does not take twice its time. The chip does not explain less."""
    clocks = [met(time, 2.0, 3.0, np.maximum).clock for time in (3.1, 6.0, 2.1)]
    assert clocks == ["memory", "core", "memory"]


def test_effective_clock__out_of_reach_is_that_of_the_nearest_time():
    slow = met(0.1, 3.0, 2.0, np.maximum)  # DRAM alone takes longer
    assert slow.clock == "core" and slow.ratio == pytest.approx(1.5, rel=0.01)
    fixed = effective(2.0, {name: np.ones(801) for name in CLOCKS}, CLOCKS, OWN)
    assert fixed.ratio == 1.0  # a time that follows no clock


def test_clocks__searched_are_those_of_device_files_for_all_that_is_asked():
    line = searched("core", 700.0, 400.0, 1000.0)
    assert 700.0 in line.tolist() and np.all(np.diff(line) > 0)
    assert line[0] / 700 * 400 >= 50 and line[-1] / 700 * 1000 <= 5000


def test_several_kernels__are_rows_of_one_answer(tmp_path, capsys):
    kernels = [anchored("figure12_tiled", time) for time in (900.0, 800.0)]
    kernels[1] = replace(kernels[1], key="other")
    answer = sweep.scale(kernels, models=["hong_kim"], core_clock=[500, 700], memory_clock=[700])
    assert answer.column("kernel") == ["figure12_tiled"] * 2 + ["other"] * 2
    assert answer.column("hong_kim")[1::2] == [0.9, 0.8]
    for kernel, rows in zip(kernels, (answer.rows[:2], answer.rows[2:]), strict=True):
        alone = sweep.scale(kernel, models=["hong_kim"], core_clock=[500, 700], memory_clock=[700])
        assert [row["hong_kim"] for row in rows] == alone.column("hong_kim")
    assert any(note.startswith("other: of the measured time, taken as") for note in answer.notes)
    folder = tmp_path / "kernels"
    folder.mkdir()
    main(["profile", str(FOLDER / "ncu_raw.csv"), "--device", "gtx_980_paper",
          "--core-clock", "700", "-o", str(folder)])  # fmt: skip
    files = sorted(folder.glob("*.toml"))
    assert [file.stem for file in files] == ["matrixmulcuda", "vectoradd"]
    capsys.readouterr()
    assert main(["scale", *map(str, files), "--model", "hong_kim", "--core-clock", "700"]) == 0
    assert capsys.readouterr().out.startswith("2 kernels, each from its measured time")


COUNTERS = {
    "smsp__inst_executed.sum": 409600,
    "smsp__sass_thread_inst_executed_op_fp64_pred_on.sum": 819200,
    "smsp__inst_executed_op_global_ld.sum": 8192,
    "lts__t_sectors_op_read.sum": 65536,
    "smsp__inst_executed_op_global_st.sum": 4096,
    "lts__t_sectors_op_write.sum": 16384,
    "smsp__inst_executed_op_shared_ld.sum": 32768,
    "smsp__sass_thread_inst_executed_op_integer_pred_on.sum": 409600,
}


def test_passes__are_compiled_once_for_kernels_of_any_counters(tmp_path, monkeypatch):
    wanted = set()
    monkeypatch.setattr(limits, "UNCOMPILED", 0)
    monkeypatch.setattr(chunk, "get_pass", lambda which: wanted.add(which) or get_pass(which))
    head = (
        '"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"\n'
    )
    numbers = []
    for n in (len(COUNTERS), 2, 4, 6):
        names = list(COUNTERS)[:n]
        rows = [f'"0","k{n}","(256, 1, 1)","(512, 1, 1)","{c}","","{COUNTERS[c]}"' for c in names]
        path = tmp_path / f"k{n}.csv"
        path.write_text(head + "\n".join(rows), encoding="utf-8")
        found = sweep.read_profile([path], device="gtx_980_paper", time=2e-3)
        kernel = parse_kernel(found.text, found.key)
        clocks = {"core_clock": [700.0] if n % 4 else None, "memory_clock": [700.0]}
        sweep.scale(kernel, models=["luo_suda", "lemeire"], **clocks)
        numbers.append(len(wanted))
    assert numbers == [2, 2, 2, 2]


def test_clock__of_the_measurement_beyond_the_range_extends_it():
    kernel = anchored("figure12_tiled", 2.0, core=1216)
    rows = sweep.scale(kernel, models=["hong_kim"], core_clock=[1000, 1216, 1300],
                       memory_clock=[700])  # fmt: skip
    slower, own, beyond = rows.column("hong_kim")
    assert slower > own == 2e-3 and beyond is None


def test_scale__a_memory_bound_kernel_follows_the_memory_clock():
    def ratio(**clocks):
        found = sweep.scale(anchored("vector_add"), models=["wang_chu"], **clocks, select=ONE)
        slow, fast = found.column("wang_chu")
        return slow / fast

    assert 1.8 < ratio(core_clock=[700], memory_clock=[500, 1000]) <= 2.2
    assert ratio(core_clock=[500, 1000], memory_clock=[700]) < 1.1


def test_energy_and_notes__of_a_single_model_and_of_what_is_assumed(profiled, tmp_path):
    device, text = tmp_path / "guessed.toml", profiled.read_text(encoding="utf-8")
    card = sweep.load_device("gtx_980_paper").text.replace('W" = "fitted:', 'W" = "assumed:')
    device.write_text(card, encoding="utf-8")
    kernel = parse_kernel(text.replace('"gtx_980_paper"', f'"{device}"'), "matmul")
    answer = sweep.scale(kernel, models=["wang_chu"], core_clock=[500, 900], memory_clock=[700])
    for row in answer:
        assert row["energy"] == pytest.approx(row["power"] * row["wang_chu"])
    assert any("power.static_W" in note for note in answer.notes)
    several = sweep.scale(profiled, models=["wang_chu", "hong_kim"], core_clock=[500])
    assert "power" not in several.columns
    text = text.replace('"gtx_980_paper"', '"gtx_260"')
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
    assert out.startswith(
        "matrixMulCUDA on gtx_980_paper: 2.2102 ms at 700/700 MHz, scaled by each"
    )
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
        text = anchored("vector_add").text.replace('"gtx_980_paper"', '"gtx_981"')
        sweep.scale(parse_kernel(text, "vector_add"))
