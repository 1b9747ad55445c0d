"""Explanations of one configuration, step by step."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweep import open_store, run
from sweep.cli import main
from sweep.compiler.program import OPERATORS
from sweep.errors import QueryError, StoreError, SweepError
from sweep.evaluation import limits
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.planned import evaluate
from sweep.evaluation.variables import variables
from sweep.explanation.explaining import explain
from sweep.fields import STATUS, VARIANTS
from sweep.models import get_model, model_names
from sweep.query import best
from sweep.runs.record import record_of
from sweep.space import Plan, resolve
from sweep.specs import list_devices, load_device, load_kernel

CLOCKS = {"core_clock_ratio": [0.8, 0.9, 1.0, 1.1, 1.3], "memory_clock_ratio": [0.85, 1.0, 1.15]}
# Without global accesses, with and without shared memory, many registers, few blocks.
KERNELS = ("sepia", "matrixmul_shared", "transpose", "vector_add", "micro_uncoalesced", "svm")
DEVICES = ("gtx_280", "gtx_980_paper")
CASES = tomllib.loads(Path(__file__).with_name("cases.toml").read_text(encoding="utf-8"))


def usual(of: str, **changes: Any) -> dict[str, Any]:
    return CASES["usual"][of] | changes


def cases(kind: str) -> Any:
    """Parametrise a test by the configurations of cases and what is expected of them."""
    found = []
    for case in CASES["cases"][kind]:
        configuration = usual(case["of"], **case.get("with", {}))
        configuration.pop(case.get("without"), None)
        found.append((configuration, case))
    return pytest.mark.parametrize(("configuration", "case"), found)


def line(explanation: Any, section: str, name: str, number: str = "") -> Any:
    """Return the last line of a section with a name, and the number of an equation."""
    return [found for found in explanation[section].lines
            if found.name == name and (not number or found.number == number)][-1]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("model", model_names())
def test_results_are_those_of_the_compiled_pass(model, variant, monkeypatch):
    monkeypatch.setattr(limits, "UNCOMPILED", 0)
    able = [key for key in list_devices() if model in load_device(key).model_parameters][:4]
    plan = Plan(KERNELS, able or DEVICES, (model,), variant=variant, axes=CLOCKS,
                precision="float64")  # fmt: skip
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
            found = explain(space, configuration | named_at(kernel, index))
            seen.add(found.results.get("regime", found.status))
            for variable in wanted:
                array = arrays[variable.name]
                _compare(found, variable, (array if variable.model else array[0])[index])
    assert not able or any(regime.startswith(model) for regime in seen)


def named_at(kernel: Any, index: Any) -> dict[str, Any]:
    """Return the values of a configuration at a place of a kernel's grid, by name."""
    return {d.name: d.values[i] for d, i in zip(kernel.grid.dimensions, index, strict=True)}


def _compare(found: Any, variable: Any, compiled: Any) -> None:
    """Compare one variable of an explanation with the result of the compiled pass."""
    if variable.name == "status":
        assert STATUS.meaning(int(compiled)) == found.status
    elif found.status != "valid":
        assert variable.is_code or np.isnan(compiled)
    elif variable.is_code:
        values, words = (variable.attributes[f"flag_{key}"] for key in ("values", "meanings"))
        meanings = dict(zip(values, words.split(), strict=True))
        assert found.results[variable.name] == meanings[int(compiled)]
    elif variable.name in ("power", "energy") and found.results["power_status"] != "valid":
        assert np.isnan(compiled)
    else:
        np.testing.assert_allclose(found.results[variable.name], compiled, rtol=1e-12)


def test_without_the_compiler_the_text_is_the_same():
    code = f"import sweep; print(sweep.explain(None, {usual('sepia')!r}).to_text())"
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.rstrip("\n") == explain(None, usual("sepia")).to_text(), done.stderr


def test_an_answers_row_is_explained_with_the_same_numbers():
    plan = Plan(("matrixmul_shared",), ("gtx_980_paper", "gtx_280"), ("hong_kim", "wang_chu"),
                axes=CLOCKS)  # fmt: skip
    space = resolve(plan)
    rows = [r for r in best(evaluate(space), by=("device", "model")) if r["execution_time"]]
    assert len(rows) == 4
    for row in rows:
        results = explain(record_of(space), row.configuration).results
        assert np.float32(results["execution_time"]) == np.float32(row["execution_time"])
        assert (results["regime"], results["bound"]) == (row["regime"], row["bound"])


def test_the_tree_of_a_store_is_explained_and_other_trees_are_refused(tmp_path):
    plan = Plan(("vector_add",), ("gtx_980_paper",), ("wang_chu",))
    (row,) = best(evaluate(plan))
    run(plan, tmp_path / "one.zarr")
    tree = open_store(tmp_path / "one.zarr")
    for source in (tree, tree["vector_add"]):
        assert explain(source, row.configuration) == explain(plan, row.configuration)
    with pytest.raises(StoreError, match="no store's record: give their plan instead"):
        explain(evaluate(plan), row.configuration)


@cases("by_hand")
def test_by_hand(configuration, case):
    value = line(explain(None, configuration), *case["line"]).value
    assert value == pytest.approx(case["value"], rel=1e-12)


def test_results_by_hand():
    found = explain(None, usual("sepia"))
    assert found.results["regime"] == "hong_kim_eq23"
    assert found.results["execution_time"] == pytest.approx(0.136, abs=5e-4)
    assert found.results["power_status"] == "missing_parameters"
    assert "No power and energy: devices/quadro_fx_5600.toml lacks power.static_W" in str(found)
    clocked = explain(None, usual("clocked"))
    hit = line(clocked, "Inputs", "l2_hr").value
    latency, delay = (line(clocked, "Equations", f"agl_{name}").value for name in ("lat", "del"))
    assert latency == pytest.approx(222 * hit + (222.78 * 1.5 + 277.32) * (1 - hit))
    assert delay == pytest.approx(hit + 14.31 * (1 - hit))  # Table III
    watts = 26.39 + 40.31 * 0.1891 * 1.099**2 * 0.9 + 9.14 * 0.001963 * 0.6  # without activity
    for name in ("core", "memory"):
        names = f"{name}_activity", f"P_{name}"
        watts += np.prod([line(clocked, "Time", part).value for part in names])
    assert clocked.results["power"] == pytest.approx(watts)
    assert clocked.results["energy"] == pytest.approx(watts * clocked.results["execution_time"])


def test_every_equation_of_the_path_is_there_with_its_unit():
    found = explain(None, usual("sepia"))
    lines = found["Equations"].lines
    numbers = {line.number for line in lines if line.used}
    assert {str(n) for n in (*range(5, 20), 21, 23, 24, 25, 26, 27)} <= numbers
    assert all(line.units for line in lines if not isinstance(line.value, bool))
    assert [line.number for line in lines if not line.used and line.number] == ["22"]
    rows = found.to_text().splitlines()
    at = next(i for i, row in enumerate(rows) if row.startswith("  Comp_cycles  "))
    assert rows[at].endswith(" (19)") and len(rows[at]) == 100
    assert "308 [cycle] Issue_cycles * #Total_insts (19)" in " ".join(rows[at].split())
    assert rows[at + 1].strip() == "= 4 * 77"


def test_conditions_have_both_sides_and_their_truth():
    plan = Plan(("sepia",), ("gtx_280",), ("hong_kim",), variant="printed")
    printed = str(explain(plan, {"block_size": 256}))
    assert "Comp_cycles > Mem_cycles: " in printed and "HK-" not in printed
    operators = {sign: function for function, sign in OPERATORS.values()}
    for one in (usual("sepia"), usual("product"), usual("sepia", device="gtx_280")):
        compared = [c for line in explain(None, one)["Regime"].lines for c in line.comparisons]
        assert compared and all(made.left and made.right for made in compared)
        for made in compared:
            assert operators[made.operator](made.left_value, made.right_value) == made.holds


@pytest.mark.parametrize(
    ("model", "kernel", "device"),
    [("hong_kim", "sepia", "gtx_280"), ("wang_chu", "transpose", "gtx_980_paper"),
     ("wang_chu", "mat_tiled", "gtx_980_paper"), ("luo_suda", "transpose", "gtx_260")],
)  # fmt: skip
def test_only_errata_that_act_in_the_variant_are_named(model, kernel, device):
    declared = get_model(model)
    own = {name: values[0] for name, values in load_kernel(kernel).parameters.items()}
    named = {}
    for variant in VARIANTS:
        text = explain(Plan((kernel,), (device,), (model,), variant=variant), own).to_text()
        named[variant] = set(re.findall(r"\b[A-Z]{2}-[0-9]+|\bCLK\b", text))
        assert named[variant] <= set(declared.errata_in(variant))
    assert not named["printed"] and named["corrected"]
    assert named["revised"] & set(declared.revisions)


@pytest.mark.parametrize("model", ["lemeire", "combined"])
def test_inputs__sequences_are_as_long_as_what_the_equations_take(model):
    lines = explain(None, usual("sepia", device="gtx_680", model=model))["Inputs"].lines
    shown = Counter(line.name.partition("[")[0] for line in lines if "[" in line.name)
    assert len(shown) == sum(i.sequence for i in get_model(model).inputs)
    assert len(set(shown.values())) == 1


def test_inputs_say_where_they_come_from():
    clocks = {"core_clock_ratio": 1.1, "memory_clock_ratio": 0.9}
    found = explain(None, usual("sepia", device="gtx_280", **clocks))
    latency = line(found, "Inputs", "Mem_LD")
    assert latency.formula == "device, at the clocks: model.hong_kim.mem_ld_cycles = 450 cycles"
    assert latency.source.startswith("paper: Hong & Kim 2009, Table 6")
    assert latency.comment == "CLK" and latency.value > 450
    bandwidth = line(found, "Inputs", "Mem_Bandwidth")
    assert "chip.memory_bandwidth_GBps = 141.7 GB/s" in bandwidth.formula
    assert line(found, "Clocks", "core/memory clock ratio").value == pytest.approx(1.1 / 0.9)
    blocks = line(found, "Kernel", "launch.blocks")
    assert blocks.formula == "ceil(width * height / block_size)"
    assert blocks.source.startswith("derived: ")
    found = explain(None, usual("sepia", block_size=160))
    least = line(found, "Occupancy", "active blocks on an SM")
    assert least.formula == "the least of them: limited by warps"


@cases("invalid")
def test_an_invalid_configuration_has_a_reason(configuration, case):
    found = explain(None, configuration)
    assert (found.status, found.results) == (case["status"], {})
    assert case["words"] in " ".join(found[f"No time: {case['status']}"].notes)
    json.loads(found.to_json())


def test_what_a_device_or_a_model_lacks_is_named():
    plan = Plan(("sepia",), ("gtx_8800",), ("wang_chu",), derive=False)
    (reason,) = explain(plan, {"block_size": 128})["No time: missing_parameters"].notes
    assert reason.startswith("devices/gtx_8800.toml lacks what wang_chu needs: ")
    assert "model.wang_chu.dm_del_table (DRAM service time by memory clock)" in reason
    derived = explain(None, usual("sepia", device="gtx_8800", model="wang_chu"))
    assert derived.status == "valid"
    sources = [found.source for found in derived["Parameters"].lines]
    assert all(source.startswith(("derived: ", "derived from ")) for source in sources)
    assert sources[0].startswith("derived from chip.lanes_per_sm, chip.warp_size: ")
    # Outside of the model's domain: the number that failed.
    plan = Plan(("micro_coalesced",), ("gtx_980_paper",), ("wang_chu",), variant="printed")
    (kernel,) = resolve(plan).kernels
    status = evaluate_box(kernel, plan, kernel.grid.whole)["status"][0]
    index = np.argwhere(status == STATUS["model_domain"])[0]
    found = explain(plan, named_at(kernel, index))
    assert found.status == "model_domain"
    assert "wang_chu has no sense here: avr_inst (7a) = " in " ".join(found.sections[0].notes)


@cases("wrong")
def test_what_is_wrong_is_named(configuration, case):
    with pytest.raises(SweepError) as caught:
        explain(None, configuration)
    assert case["words"] in str(caught.value) and "\n" not in str(caught.value)


def test_a_plan_with_several_needs_a_choice():
    plan = Plan(("sepia", "svm"), ("gtx_8800", "gtx_280"), ("hong_kim",))
    for configuration, message in (
        ({}, "explain: kernel is missing: one of sepia, svm"),
        ({"kernel": "svm"}, "device is missing: one of gtx_8800, gtx_280"),
        ({"kernel": "svm", "device": "gtx_980_paper"}, "no device 'gtx_980_paper'"),
    ):
        with pytest.raises(QueryError, match=message):
            explain(plan, configuration)


def test_values_outside_the_plan_are_answered_with_a_note_and_clocks_in_either_form():
    plan = Plan(("sepia",), ("gtx_980_paper",), ("hong_kim",), axes={"block_size": [64, 128]})
    found = explain(plan, {"block_size": 72, "width": 100, "core_clock": 800})
    notes = found["Result"].notes
    assert "block_size = 72 is not among the plan's values (64, 128)" in notes
    assert "width = 100 is not among the plan's values (7000)" in notes
    assert any(note.startswith("core_clock = 800 is not among") for note in notes)
    assert found.configuration["width"] == 100
    own = {line.name: line.value for line in found["Result"].lines}  # what the model adds
    assert own["memory warp parallelism"] == found.results["hong_kim_memory_warp_parallelism"]
    assert "not among" not in str(explain(plan, {"block_size": 64, "core_clock": 700}))
    axes = {"block_size": 64, "core_clock_ratio": [0.9, 1.1], "memory_clock": 600}
    plan = Plan(("sepia",), ("gtx_980_paper",), ("hong_kim",), axes=axes)
    both = {"core_clock": 770.0, "core_clock_ratio": 1.1}
    of_ratio, of_clock = ({name: both[name]} for name in ("core_clock_ratio", "core_clock"))
    first, *others = (explain(plan, clocks).results for clocks in (of_ratio, of_clock, both))
    assert others == [first, first]
    with pytest.raises(QueryError, match="core_clock_ratio is missing: one of 0.9, 1.1"):
        explain(plan, {})


@pytest.mark.parametrize("model", model_names())
@pytest.mark.parametrize("device", ["gtx_8800", "gtx_980_paper"])
def test_the_text_is_aligned_and_fits_the_page(model, device):
    for kernel in resolve(Plan(KERNELS, (device,), (model,))).kernels:
        spec = kernel.kernel
        configuration = {"kernel": spec.key, "device": device, "model": model}
        middle = {name: values[len(values) // 2] for name, values in spec.parameters.items()}
        found = explain(None, configuration | middle)
        text = found.to_text()
        assert text == repr(found) and max(map(len, text.splitlines())) <= 100
        assert all(row == row.rstrip() for row in text.splitlines())
        data = json.loads(found.to_json())
        assert [s["title"] for s in data["sections"]] == [s.title for s in found.sections]
        assert "<script" not in found._repr_html_()


@pytest.mark.parametrize("layout", ["grid", "stacked"])
def test_command_explains_why_no_configuration_has_a_time(tmp_path, capsys, layout):
    plan = tmp_path / "p.toml"
    plan.write_text(
        'schema = 1\nkernels = ["sepia", "transpose"]\ndevices = ["gtx_8800"]\nderive = false\n'
        f'models = ["wang_chu"]\nlayout = "{layout}"\n[axes]\ncore_clock_ratio = [0.9, 1.0]\n'
    )
    for kernel in ("sepia", "transpose"):
        assert main(["explain", str(plan), f"kernel={kernel}", "core_clock=1350"]) == 0
        text = capsys.readouterr().out
        assert "No time: missing_parameters" in text and "model.wang_chu.issue_cycles" in text
    assert main(["explain", str(plan)]) == 2
    assert "kernel is missing: one of sepia, transpose" in capsys.readouterr().err


def test_files_of_a_user_are_named_as_such_in_a_store_too(folder, capsys):
    Path("mine.toml").write_text(Path(load_kernel("sepia").path).read_text("utf-8"))
    plan = ('schema = 1\nkernels = ["./mine.toml"]\ndevices = ["gtx_280"]\nmodels = ["hong_kim"]\n'
            "[axes]\nblock_size = [64]\n")  # fmt: skip
    Path("plan.toml").write_text(plan)
    assert main(["run", "plan.toml", "--store", "a.zarr", "--no-report"]) == 0
    for data in ("plan.toml", "a.zarr"):
        capsys.readouterr()
        assert main(["explain", data]) == 0
        out = capsys.readouterr().out
        assert "Kernel: mine.toml" in out and "Device: devices/gtx_280.toml" in out
