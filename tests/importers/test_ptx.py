"""Kernel files from compiled PTX that can be evaluated, compared with the papers' examples."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.ptx_texts import (
    CASES,
    FOLDER,
    computation_instructions,
    fixture,
    memory_instructions,
    value,
    with_derived,
)

import sweep
from sweep.fields import STATUS
from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.kernel_file import kernel_text
from sweep.importers.ptx.parser import read_ptx
from sweep.importers.ptx.stages import STAGES, Cost, instruction_costs
from sweep.models import model_names
from sweep.specs import load_device, parse_kernel
from sweep.specs.kernel import key_of

KERNELS = [
    (path.stem, entry)
    for path in sorted(FOLDER.glob("*.ptx"))
    for entry in read_ptx(path.read_text(encoding="utf-8")).entries
]


def written(name, entry, **options):
    """Return the analysis of a fixture's kernel and its kernel file."""
    found = analyse(fixture(name).entry(entry), **options)
    return found, parse_kernel(kernel_text(found), key_of(entry))


# ---------------------------------------------------------------------------- the papers


def test_figure13__gives_table2():
    """27 computation and 6 memory instructions, 6 barriers: three iterations, counted as there."""
    found = analyse(fixture("figure13").entry(), trips={"$OUTERLOOP": 3})
    assert computation_instructions(found) == 27
    assert memory_instructions(found) == 6
    assert found.instructions()["barrier"] == 6
    assert {s.bytes for s in found.accesses() if s.space == "global"} == {4}
    # The kernel file agrees: classes, shared accesses and barriers add up.
    file = parse_kernel(kernel_text(found), "figure13")
    counts = [value(e) for stage in file.stages for k, e in stage.expressions.items()
              if k != "executions"]  # fmt: skip
    assert sum(counts) + sum(value(a.count) for a in file.shared_accesses) == 27
    assert sum(value(a.count) for a in file.global_accesses) == 6


def test_figure13__is_an_expression_of_its_open_loop():
    found = analyse(fixture("figure13").entry())
    for trips in (1, 3, 100):
        sizes = {"trip_OUTERLOOP": trips}
        assert computation_instructions(found, sizes) == 9 * trips
        assert memory_instructions(found, sizes) == 2 * trips
    file = parse_kernel(kernel_text(found), "figure13")
    assert file.sizes["trip_OUTERLOOP"] == 1
    assert sum(value(a.count, trip_OUTERLOOP=7) for a in file.global_accesses) == 14


def test_figure13__tasks_cost_what_table1_says():
    """On a GTX 260: loads 200; stores to shared memory, barriers and so on by class; mad too."""
    costs = instruction_costs(load_device("gtx_260"))
    found = analyse(fixture("figure13").entry(), trips={"OUTERLOOP": 3})
    tasks = [costs.of_stage(stage) for stage in found.stages]
    shared, barrier = costs.classes["shared"], costs.classes["barrier"]
    rest = costs.classes["fp32"] + costs.classes["integer"] + costs.classes["control"]
    # The end of an iteration precedes the next one's first load.
    # In three executions.
    assert tasks == [(3 * (3 * shared + 2 * barrier + rest), 600), (3 * shared, 600)]
    computation = 4 * shared + 2 * barrier + rest
    share = f"P = {computation / (computation + 400):.4f}."
    assert share in kernel_text(found, costs=costs)


def test_costs__by_row_then_by_class():
    """Table 1 of Luo & Suda 2011."""
    costs = instruction_costs(load_device("gtx_260"))
    assert costs.cost_of(Cost("add")) == 65
    assert costs.cost_of(Cost("add", has_constant=True)) == 22
    assert costs.cost_of(Cost("mul")) == 136
    assert costs.cost_of(Cost("mul", is_float=True)) == 65
    assert costs.cost_of(Cost("div", is_float=True, has_constant=True)) == 748
    assert costs.cost_of(Cost("ld", kind="global")) == 200
    assert costs.cost_of(Cost("frobnicate", kind="move")) == costs.classes["move"]
    assert costs.cost_of(Cost("frobnicate", kind="fp64")) == costs.classes["computation"]
    with pytest.raises(sweep.SweepError, match="gtx_980 has no table of instruction costs"):
        instruction_costs(load_device("gtx_980"))


def test_costs__of_an_inner_loop_by_hand():
    costs = instruction_costs(load_device("gtx_260"))
    found = analyse(fixture("fixed_loop").entry("nested_loops"))
    # fma 65, three additions of constants and a comparison, a branch; executed 2000 times.
    compare, branch = costs.classes["integer"], costs.classes["control"]
    inner = 65 + 2 * 22 + compare + branch
    assert (2000 * inner, 2000 * 200) in [costs.of_stage(s) for s in found.stages]
    comment = f"in cycles of one execution: computation {inner:.6g}, memory 200."
    assert comment in kernel_text(found, costs=costs)


# ---------------------------------------------------------------------------- compilers


@pytest.mark.parametrize("case", CASES["kernels"].values(), ids=CASES["kernels"])
def test_compiled_kernels__are_counted_right(case):
    found, file = written(case["fixture"], case["entry"])
    sizes = case.get("sizes", {})
    expected = case.get("instructions", {})
    assert {kind: found.instructions(sizes)[kind] for kind in expected} == expected
    accesses = [
        [s.space, s.direction, s.bytes, s.pattern, s.x, bool(s.assumed), n]
        for s, n in found.accesses(sizes).items()
    ]
    assert sorted(accesses) == case["accesses"]
    loops = [
        [c.label.name, c.trips or "unknown", c.origin, c.header.depth] for c in found.graph.loops
    ]
    assert loops == case.get("loops", [])
    assert not found.unknown and not found.notes
    stages = [value(stage.expressions["executions"], **sizes) for stage in file.stages]
    assert stages == case.get("executions", stages)
    expected = case.get("expressions", {})
    assert {name: value(file.expressions[name], **sizes) for name in expected} == expected


def test_stages__are_memory_tasks_in_the_loops_of_the_text():
    _, file = written("vector_add", "vector_add")
    # Loads are one memory task, the store another; ret belongs to the last.
    assert [len(stage.expressions) for stage in file.stages] == [5, 6]
    assert file.name == "vector_add" and file.parameters["block_size"][0] == 32
    _, file = written("fixed_loop", "nested_loops")
    outer, inner = "$L__BB1_1", "$L__BB1_2"
    assert [stage.loop for stage in file.stages] == [None, outer, inner, outer, None]


def test_reduction__shared_memory_of_the_launch():
    found, file = written("reduction", "reduction")
    assert (found.shared_bytes, found.has_dynamic_shared) == (0, True)
    text = kernel_text(found, dynamic_shared=2048)
    assert file.sizes["dynamic_shared_bytes"] == 0
    assert parse_kernel(text, "k").sizes["dynamic_shared_bytes"] == 2048
    atomics = [s for s in found.accesses() if s.origin == "atomic"]
    assert [(s.direction, s.pattern) for s in atomics] == [("load", "broadcast")]
    found, file = written("reduction", "fixed")
    assert [c.text for c in file.constraints] == ["block_size <= 256"]
    assert max(file.parameters["block_size"]) == 256


def test_modern__instructions_are_known():
    notes = {}
    for entry in ("matrix_units", "staged", "lanes"):
        found, _ = written("modern", entry)
        assert not found.unknown
        notes[entry] = found.notes
    assert list(found.sizes) == ["trip_WAIT"]
    assert "multiplies whole matrices and counts as one instruction" in notes["matrix_units"][0]


def test_registers__estimated_are_near_what_the_assembler_takes():
    """Estimates are 0.3 to 1.5 of the assembler's numbers (CUDA 13.0) atop each fixture."""
    compared = 0
    for path in sorted(FOLDER.glob("*.ptx")):
        text = path.read_text(encoding="utf-8")
        for entry, used in re.findall(r"(\w+) (\d+) registers", text.splitlines()[0]):
            estimate = analyse(read_ptx(text).entry(entry)).registers
            assert 0.3 * int(used) < estimate < 1.5 * int(used), entry
            compared += 1
    assert compared >= 18


@pytest.mark.parametrize(("name", "entry"), KERNELS)
@pytest.mark.parametrize("stages", STAGES)
def test_kernel_files__load_and_hold_the_same_counts(name, entry, stages):
    found, file = written(name, entry, stages=stages)
    sizes = {size: 3.0 for size in found.sizes}
    values = with_derived(file, sizes)
    own = {path.partition(".")[2]: expression for path, expression in file.expressions.items()
           if path.startswith(("instructions.", "synchronisation."))}  # fmt: skip
    total = Counter()
    for expressions in [stage.expressions for stage in file.stages] or [own]:
        for key, expression in expressions.items():
            if key != "executions":
                total["barrier" if key == "barriers" else key] += value(expression, **values)
    assert {k: v for k, v in total.items() if v} == pytest.approx(found.instructions(sizes))
    accesses = sum(value(a.count, **values) for a in (*file.global_accesses, *file.shared_accesses))
    assert accesses == pytest.approx(sum(found.accesses(sizes).values()))
    whole = computation_instructions(found, sizes) + memory_instructions(found, sizes)
    assert accesses + sum(total.values()) == pytest.approx(whole)


def test_cutting__does_not_change_totals():
    for name, entry in KERNELS:
        kernel = fixture(name).entry(entry)
        totals = [analyse(kernel, stages=how).instructions() for how in STAGES]
        assert totals[0] == pytest.approx(totals[1]) and totals[0] == pytest.approx(totals[2])


def test_barriers__cut_the_code_where_asked():
    found = analyse(fixture("matrix_tiled").entry(), stages="barriers")
    names = [stage.name for stage in parse_kernel(kernel_text(found), "k").stages]
    assert names == ["stretch_1", "stretch_2", "stretch_3", "stretch_4", "stretch_5"]
    barriers = [stage.of(str).get("barrier", {}) for stage in found.stages]
    assert [sum(amount.values()) for amount in barriers] == [0, 1, 1, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernels", "models"),
    [
        (KERNELS, ["hong_kim"]),
        ([("matrix_tiled", "matrix_tiled"), ("transpose", "transpose_plain")], [*model_names()]),
    ],
    ids=["all", "every_model"],
)
def test_kernel_files__are_evaluated(kernels, models, tmp_path):
    paths = []
    for number, (name, entry) in enumerate(kernels):
        found = analyse(fixture(name).entry(entry), stages=STAGES[number % 3], block=(256, 1, 1))
        paths.append(str(tmp_path / f"{key_of(f'{name}_{number}')}.toml"))
        Path(paths[-1]).write_text(kernel_text(found, grid=(4096,)), encoding="utf-8")
    results = sweep.evaluate(sweep.Plan(kernels=paths, devices=["gtx_280"], models=models))
    assert len(results.children) == len(kernels)
    for result in results.children.values():
        dataset = result.to_dataset().compute()
        assert dataset["execution_time"].size == len(models)
        assert np.all(dataset["status"].values == STATUS["valid"])
        assert np.all(dataset["execution_time"].values > 0)


def test_kernel_file__of_a_given_launch():
    found = analyse(fixture("transpose").entry("transpose_padded"), block=(32, 8, 1))
    file = parse_kernel(kernel_text(found, grid=(32, 32), registers=26, source="a.ptx"), "k")
    assert value(file.expressions["launch.threads_per_block"]) == 256
    assert [value(file.expressions[f"launch.block_{a}"]) for a in "xy"] == [32, 8]
    assert file.sizes == {"grid_blocks": 1024}
    assert value(file.expressions["resources.registers_per_thread"]) == 26
    assert file.source_of("resources.registers_per_thread").kind == "assumed"
    plain = parse_kernel(kernel_text(found), "k")
    assert str(plain.source_of("resources.registers_per_thread")).startswith("derived: estimate")


def test_required_block__is_the_launch():
    text = (FOLDER / "vector_add.ptx").read_text(encoding="utf-8")
    module = read_ptx(text.replace(")\n{", ")\n.reqntid 16, 16, 1\n.maxnreg 8\n{"))
    found = analyse(module.entry())
    assert (found.block, found.registers) == ((16, 16, 1), 8)
    file = parse_kernel(kernel_text(found), "k")
    assert value(file.expressions["launch.threads_per_block"]) == 256 and not file.parameters


def test_keys__of_any_name():
    assert key_of("_Z10vector_addPKf") == "z10vector_addpkf"
    assert key_of("$123") == "kernel_123"
    assert key_of("Sum") == "sum"
