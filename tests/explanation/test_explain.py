"""Explanations of one configuration, step by step."""

from __future__ import annotations

import json
import operator
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sweep.errors import QueryError, SweepError
from sweep.evaluation import evaluate, evaluate_box
from sweep.evaluation.variables import variables
from sweep.explanation.explaining import explain
from sweep.fields import STATUS
from sweep.models import model_names
from sweep.query import best
from sweep.runs.record import record_of
from sweep.space import Plan, resolve
from sweep.specs import list_devices, load_device

CLOCKS = {"core_clock_ratio": [0.8, 0.9, 1.0, 1.1, 1.3], "memory_clock_ratio": [0.85, 1.0, 1.15]}
# Without global accesses, with and without shared memory, many registers, few blocks.
KERNELS = ("sepia", "matrixmul_shared", "transpose", "vector_add", "micro_uncoalesced", "svm")
DEVICES = ("gtx_280", "gtx_980")
OPERATORS = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
    "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def sepia(**changes: Any) -> dict[str, Any]:
    given = {"kernel": "sepia", "device": "quadro_fx_5600", "model": "hong_kim", "block_size": 128}
    return {k: v for k, v in {**given, **changes}.items() if v is not None}


def product(**changes: Any) -> dict[str, Any]:
    given = {"kernel": "matrixmul_shared", "device": "gtx_980", "model": "wang_chu",
             "tile": 16, "work_per_thread": 1, "unroll": 1}  # fmt: skip
    return {**given, **changes}


def value(explanation: Any, section: str, name: str, number: str = "") -> Any:
    found = [line for line in explanation[section].lines
             if line.name == name and (not number or line.number == number)]  # fmt: skip
    assert found, f"{section} has no {name}"
    return found[-1].value


# ---------------------------------------------------------------------------- the same numbers


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["corrected", "printed"])
@pytest.mark.parametrize("model", model_names())
def test_worked_out_results_are_those_of_the_compiled_pass(model, variant):
    able = [key for key in list_devices() if model in load_device(key).model_parameters][:4]
    devices = able or DEVICES
    plan = Plan(KERNELS, devices, (model,), variant=variant, axes=CLOCKS, precision="float64")
    space = resolve(plan)
    draw = np.random.default_rng(20170105)
    seen: set[str] = set()
    for kernel in space.kernels:
        wanted = [v for v in variables(kernel, plan) if "model" in v.dims or v.model is not None]
        arrays = evaluate_box(kernel, plan, kernel.grid.whole, wanted)
        status = arrays["status"][0]
        valid, invalid = (np.argwhere(pick) for pick in (status == 0, status != 0))
        some = [draw.permutation(valid)[:12], draw.permutation(invalid)[:4]]
        for index in map(tuple, np.concatenate(some)):
            configuration = {"kernel": kernel.kernel.key, "model": model}
            for dimension, i in zip(kernel.grid.dimensions, index, strict=True):
                configuration[dimension.name] = dimension.values[i]
            found = explain(space, configuration)
            seen.add(found.results.get("regime", found.status))
            for variable in wanted:
                array = arrays[variable.name]
                compiled = (array if variable.model else array[0])[index]
                _compare(found, variable, compiled)
    assert not able or any(regime.startswith(model) for regime in seen)


def _compare(found: Any, variable: Any, compiled: Any) -> None:
    """Compare one variable of an explanation with the result of the compiled pass."""
    if variable.name == "status":
        assert STATUS.meaning(int(compiled)) == found.status
    elif found.status != "valid":
        assert variable.is_code or np.isnan(compiled)
    elif variable.is_code:
        attributes = variable.attributes
        words = attributes["flag_meanings"].split()
        meanings = dict(zip(attributes["flag_values"], words, strict=True))
        assert found.results[variable.name] == meanings[int(compiled)]
    elif variable.name in ("power", "energy") and found.results["power_status"] != "valid":
        assert np.isnan(compiled)
    else:
        np.testing.assert_allclose(found.results[variable.name], compiled, rtol=1e-12)


def test_without_the_compiler_the_text_is_the_same():
    code = (
        "from sweep.explanation.explaining import explain; print(explain(None, dict(kernel='sepia',"
        " device='quadro_fx_5600', model='hong_kim', block_size=128)).to_text())"
    )
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip("\n") == explain(None, sepia()).to_text()


# ---------------------------------------------------------------------------- by hand


def test_hong_kim_by_hand():
    """Sepia, 128 threads a block, on the Quadro FX 5600: Tables 1, 3, 5 and 6 of the paper."""
    found = explain(None, sepia())
    assert value(found, "Equations", "Mem_L_Uncoal", "10") == pytest.approx(730)
    assert value(found, "Equations", "Departure_delay", "15") == pytest.approx(320)
    assert value(found, "Equations", "MWP", "5") == pytest.approx(730 / 320)
    assert value(found, "Equations", "Comp_cycles", "19") == 4 * (71 + 6)
    assert value(found, "Equations", "CWP", "9") == pytest.approx((6 * 730 + 308) / 308)
    assert value(found, "Inputs", "N") == 24
    assert found.results["regime"] == "hong_kim_eq23"
    assert found.results["execution_time"] == pytest.approx(0.136, abs=5e-4)


def test_wang_chu_by_hand():
    """DRAM latency by (4) and the service time of Table III, away from the nominal clocks."""
    found = explain(None, product(core_clock=900, memory_clock=600))
    hit = value(found, "Inputs", "l2_hr")
    assert value(found, "Equations", "dm_lat'", "4") == pytest.approx(222.78 * 1.5 + 277.32)
    expected = 222 * hit + (222.78 * 1.5 + 277.32) * (1 - hit)
    assert value(found, "Equations", "agl_lat", "5a") == pytest.approx(expected)
    assert value(found, "Equations", "agl_del", "5b") == pytest.approx(hit + 14.31 * (1 - hit))
    assert value(found, "Time, power", "V_core") == 0.98
    assert value(found, "Time, power", "P_core") == pytest.approx(65 * 0.98**2 * 0.9)
    watts = 30.0
    for name in ("core", "memory"):
        watts += value(found, "Time", f"{name}_activity") * value(found, "Time", f"P_{name}")
    assert found.results["power"] == pytest.approx(watts)
    assert found.results["energy"] == pytest.approx(watts * found.results["execution_time"])


def test_every_equation_of_the_path_is_there_with_its_unit():
    lines = explain(None, sepia())["Equations"].lines
    numbers = {line.number for line in lines if line.used}
    assert {str(n) for n in (*range(5, 20), 21, 23, 24, 25, 26, 27)} <= numbers
    assert all(line.units for line in lines if not isinstance(line.value, bool))
    assert [line.number for line in lines if not line.used and line.number] == ["22"]


@pytest.mark.parametrize("configuration", [sepia(), product(), sepia(model="hong_kim",
                                           device="gtx_280")])  # fmt: skip
def test_conditions_have_both_sides_and_their_truth(configuration):
    found = explain(None, configuration)
    compared = [c for line in found["Regime"].lines for c in line.comparisons]
    assert compared
    for made in compared:
        assert OPERATORS[made.operator](made.left_value, made.right_value) == made.holds
        assert made.left and made.right


def test_the_printed_variant_shows_the_printed_conditions():
    text = explain(Plan(("sepia",), ("gtx_280",), ("hong_kim",), variant="printed"),
                   {"block_size": 256}).to_text()  # fmt: skip
    assert "Comp_cycles > Mem_cycles: " in text
    assert "HK-" not in text


def test_inputs_say_where_they_come_from():
    found = explain(None, sepia(device="gtx_280", core_clock_ratio=1.1, memory_clock_ratio=0.9))
    (latency,) = [line for line in found["Inputs"].lines if line.name == "Mem_LD"]
    assert latency.formula == "device, at the clocks: model.hong_kim.mem_ld_cycles = 450 cycles"
    assert latency.source.startswith("paper: Hong & Kim 2009, Table 6")
    assert latency.comment == "CLK"
    assert latency.value > 450
    (bandwidth,) = [line for line in found["Inputs"].lines if line.name == "Mem_Bandwidth"]
    assert "chip.memory_bandwidth_GBps = 141.7 GB/s" in bandwidth.formula
    assert value(found, "Clocks", "core/memory clock ratio") == pytest.approx(1.1 / 0.9)
    blocks = next(line for line in found["Kernel"].lines if line.name == "launch.blocks")
    assert blocks.formula == "ceil(width * height / block_size)"
    assert blocks.source.startswith("derived: ")


def test_occupancy_is_shown_limit_by_limit():
    found = explain(None, sepia(block_size=160))
    assert value(found, "Occupancy", "blocks: warps") == 4
    assert value(found, "Occupancy", "active warps on an SM") == 20
    least = next(line for line in found["Occupancy"].lines if line.name.startswith("active blocks"))
    assert least.formula == "the least of them: limited by warps"


# ---------------------------------------------------------------------------- no result


@pytest.mark.parametrize(
    ("configuration", "status", "words"),
    [
        (product(tile=8, unroll=16), "constraint",
         "`tile % unroll == 0` of kernels_spec/matrixmul_shared.toml does not hold with tile = 8,"
         " unroll = 16"),
        (product(tile=32, device="gtx_8800", model="hong_kim"), "block_too_large",
         "A block of 1024 threads is 32 warps; compute capability 1.0 has at most 512 threads"),
        (product(tile=64, work_per_thread=16, unroll=64, device="gtx_8800", model="hong_kim"),
         "registers", "A block needs 26624 registers (104 a thread, 8 warps"),
        (sepia(block_size=0), "kernel_expression",
         "launch.blocks = `ceil(width * height / block_size)` divides by zero"),
        (sepia(block_size=-4), "kernel_expression",
         "launch.threads_per_block = `block_size` gives -4 with block_size = -4; it cannot be"),
        (sepia(core_clock=1e4), "clock_out_of_range",
         "The core clock of 10000 MHz is outside the range of devices/quadro_fx_5600.toml, 1080"),
    ],
)  # fmt: skip
def test_an_invalid_configuration_is_told_why(configuration, status, words):
    found = explain(None, configuration)
    assert found.status == status
    assert found.results == {}
    assert words in " ".join(found[f"No time: {status}"].notes)
    json.loads(found.to_json())


def test_missing_parameters_are_named():
    plan = Plan(("sepia",), ("gtx_8800",), ("wang_chu",), derive=False)
    found = explain(plan, {"block_size": 128})
    assert found.status == "missing_parameters"
    (reason,) = found["No time: missing_parameters"].notes
    assert reason.startswith("devices/gtx_8800.toml lacks what wang_chu needs: ")
    assert "model.wang_chu.dm_del_table (DRAM service time by memory clock)" in reason
    derived = explain(None, sepia(device="gtx_8800", model="wang_chu"))
    assert derived.status == "valid"
    sources = [line.source for line in derived["Parameters"].lines]
    assert all(source.startswith("derived: ") for source in sources)


def test_a_printed_model_without_sense_says_which_number_failed(tmp_path):
    text = explain(None, {"kernel": "sepia", "device": "gtx_980", "model": "wang_chu",
                          "block_size": 64}).to_text()  # fmt: skip
    assert "No time" not in text
    plan = Plan(("micro_coalesced",), ("gtx_980",), ("wang_chu",), variant="printed")
    parameters = {n: v[0] for n, v in resolve(plan).kernels[0].kernel.parameters.items()}
    space = resolve(plan)
    for index in np.argwhere(_statuses(space) == STATUS["model_domain"])[:1]:
        names = [d.name for d in space.kernels[0].grid.dimensions]
        values = [d.values[i] for d, i in zip(space.kernels[0].grid.dimensions, index, strict=True)]
        parameters = dict(zip(names, values, strict=True))
    found = explain(space, parameters)
    assert found.status == "model_domain"
    assert "wang_chu has no sense here: avr_inst (7a) = " in " ".join(found.sections[0].notes)


def _statuses(space: Any) -> Any:
    kernel = space.kernels[0]
    return evaluate_box(kernel, space.plan, kernel.grid.whole)["status"][0]


def test_no_power_table_is_a_note_beside_a_valid_time():
    found = explain(None, sepia())
    assert found.results["power_status"] == "missing_parameters"
    assert "No power and energy: devices/quadro_fx_5600.toml lacks power.static_W" in str(found)


# ---------------------------------------------------------------------------- what may be asked


def test_an_answers_row_is_explained_with_the_same_numbers():
    plan = Plan(("matrixmul_shared",), ("gtx_980", "gtx_280"), ("hong_kim", "wang_chu"),
                axes=CLOCKS)  # fmt: skip
    space = resolve(plan)
    for row in best(evaluate(space), by=("device", "model")):
        if row["execution_time"] is None:
            continue
        found = explain(record_of(space), row.configuration)
        assert np.float32(found.results["execution_time"]) == np.float32(row["execution_time"])
        assert found.results["regime"] == row["regime"]
        assert found.results["bound"] == row["bound"]


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        (sepia(block_size=None), "block_size is missing: one of 4, 8, 16, 32"),
        (sepia(blocksize=64), "kernel 'sepia' has no 'blocksize'; did you mean 'block_size'?"),
        (sepia(block_size="many"), "block_size = 'many': a number"),
        (sepia(block_size=[4, 8]), "block_size = [4, 8]: one value makes a configuration"),
        (sepia(width=-1), "width = -1: a number above 0"),
        (sepia(core_clock=1000, core_clock_ratio=1.2), "core_clock = 1000 MHz contradicts"),
        (sepia(core_clock=0.9), "for values relative to nominal write core_clock_ratio"),
        (sepia(kernel=None), "kernel is missing: without a plan it must be named"),
        (sepia(device="gtx_890"), "no device 'gtx_890'; did you mean 'gtx_980'?"),
        (sepia(model="hongkim"), "unknown 'hongkim'; did you mean 'hong_kim'?"),
    ],
)
def test_what_is_wrong_is_named(configuration, message):
    with pytest.raises(SweepError) as caught:
        explain(None, configuration)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_plan_with_several_needs_a_choice():
    plan = Plan(("sepia", "svm"), ("gtx_8800", "gtx_280"), ("hong_kim",))
    with pytest.raises(QueryError, match="explain: kernel is missing: one of sepia, svm"):
        explain(plan, {})
    with pytest.raises(QueryError, match="device is missing: one of gtx_8800, gtx_280"):
        explain(plan, {"kernel": "svm"})
    with pytest.raises(QueryError, match="no device 'gtx_980'"):
        explain(plan, {"kernel": "svm", "device": "gtx_980"})


def test_values_outside_the_plan_are_answered_and_said_to_be_so():
    plan = Plan(("sepia",), ("gtx_980",), ("hong_kim",), axes={"block_size": [64, 128]})
    found = explain(plan, {"block_size": 72, "width": 100, "core_clock": 800})
    notes = found["Result"].notes
    assert "block_size = 72 is not among the plan's values (64, 128)" in notes
    assert "width = 100 is not among the plan's values (7000)" in notes
    assert any(note.startswith("core_clock = 800 is not among") for note in notes)
    assert found.configuration["width"] == 100
    assert not [n for n in explain(plan, {"block_size": 64, "core_clock": 700})["Result"].notes
                if "not among" in n]  # fmt: skip


def test_clocks_are_taken_in_either_form():
    axes = {"block_size": 64, "core_clock_ratio": [0.9, 1.1], "memory_clock": 600}
    plan = Plan(("sepia",), ("gtx_980",), ("hong_kim",), axes=axes)
    by_ratio = explain(plan, {"core_clock_ratio": 1.1})
    assert by_ratio.results == explain(plan, {"core_clock": 770.0}).results
    assert by_ratio.results == explain(plan, {"core_clock": 770.0, "core_clock_ratio": 1.1}).results
    with pytest.raises(QueryError, match="core_clock_ratio is missing: one of 0.9, 1.1"):
        explain(plan, {})


# ---------------------------------------------------------------------------- how it reads


@pytest.mark.parametrize("model", model_names())
@pytest.mark.parametrize("device", ["gtx_8800", "gtx_980"])
def test_the_text_is_aligned_and_fits_the_page(model, device):
    for kernel in resolve(Plan(KERNELS, (device,), (model,))).kernels:
        spec = kernel.kernel
        configuration = {name: values[len(values) // 2] for name, values in spec.parameters.items()}
        found = explain(None, {"kernel": spec.key, "device": device, "model": model,
                               **configuration})  # fmt: skip
        text = found.to_text()
        assert max(map(len, text.splitlines())) <= 100
        assert all(line == line.rstrip() for line in text.splitlines())
        assert text == repr(found)
        data = json.loads(found.to_json())
        assert [s["title"] for s in data["sections"]] == [s.title for s in found.sections]
        assert "<script" not in found._repr_html_()


def test_text_of_one_equation():
    lines = explain(None, sepia()).to_text().splitlines()
    row = next(i for i, line in enumerate(lines) if line.startswith("  Comp_cycles  "))
    assert lines[row].endswith(" (19)") and len(lines[row]) == 100
    assert "308 [cycle] Issue_cycles * #Total_insts (19)" in " ".join(lines[row].split())
    assert lines[row + 1].strip() == "= 4 * 77"
