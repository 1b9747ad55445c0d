"""Kernel files from compiled PTX that can be evaluated, compared with the papers' examples."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.ptx_texts import (
    CASES,
    FOLDER,
    computation_instructions,
    file_of,
    fixture,
    kernel,
    memory_instructions,
    total,
    value,
    with_derived,
)

import sweep
from sweep.errors import SweepError
from sweep.fields import STATUS
from sweep.importers.ptx.analysis import analyse
from sweep.importers.ptx.kernel_file import kernel_text
from sweep.importers.ptx.parser import read_ptx
from sweep.importers.ptx.stages import STAGES, Cost, instruction_costs
from sweep.importers.ptx.summary import summary
from sweep.models import model_names
from sweep.specs import load_device
from sweep.specs.kernel import key_of

KERNELS = [
    (path.stem, entry)
    for path in sorted(FOLDER.glob("*.ptx"))
    for entry in read_ptx(path.read_text(encoding="utf-8")).entries
]


def written(name, entry=None, **options):
    """Return the analysis of a fixture's kernel and its kernel file."""
    found = analyse(fixture(name).entry(entry), **options)
    return found, file_of(found)


# ---------------------------------------------------------------------------- the papers


def test_figure13__gives_table2():
    """27 computation and 6 memory instructions, 6 barriers: three iterations, counted as there."""
    found, file = written("figure13", trips={"$OUTERLOOP": 3})
    assert computation_instructions(found) == 27
    assert memory_instructions(found) == 6
    assert found.instructions()["barrier"] == 6
    assert {s.bytes for s in found.accesses() if s.space == "global"} == {4}
    # The kernel file agrees: classes, shared accesses and barriers add up.
    counts = [value(e) for stage in file.stages for k, e in stage.expressions.items()
              if k != "executions"]  # fmt: skip
    assert sum(counts) + total(*file.shared_accesses) == 27
    assert total(*file.global_accesses) == 6


def test_figure13__is_an_expression_of_its_open_loop():
    found, file = written("figure13")
    for trips in (1, 3, 100):
        sizes = {"trip_OUTERLOOP": trips}
        assert computation_instructions(found, sizes) == 9 * trips
        assert memory_instructions(found, sizes) == 2 * trips
    assert file.sizes["trip_OUTERLOOP"] == 1
    assert total(*file.global_accesses, trip_OUTERLOOP=7) == 14


COSTS = instruction_costs(load_device("gtx_260"))
"""Table 1 of Luo & Suda 2011."""

CLASSES = COSTS.classes
REST = CLASSES["integer"] + CLASSES["control"]


@pytest.mark.parametrize(("name", "entry", "trips", "n_stages", "tasks"), [
    # Loads 200; stores to shared memory, barriers and so on by class; mad too. The end of an
    # iteration precedes the next one's first load. In three executions.
    ("figure13", None, {"OUTERLOOP": 3}, 2,
     [(3 * (3 * CLASSES["shared"] + 2 * CLASSES["barrier"] + CLASSES["fp32"] + REST), 600),
      (3 * CLASSES["shared"], 600)]),
    # fma 65, three additions of constants and a comparison, a branch; executed 2000 times.
    ("fixed_loop", "nested_loops", {}, 5, [(2000 * (65 + 2 * 22 + REST), 2000 * 200)]),
])  # fmt: skip
def test_tasks__cost_what_table1_says(name, entry, trips, n_stages, tasks):
    found, _ = written(name, entry, trips=trips)
    costs = [COSTS.of_stage(stage) for stage in found.stages]
    assert len(costs) == n_stages and [cost for cost in costs if cost in tasks] == tasks
    text = kernel_text(found, costs=COSTS)
    computation, memory = map(sum, zip(*costs, strict=True))
    assert f"P = {computation / (computation + memory):.4f}." in text
    often = tasks[0][1] / 200
    comment = f"in cycles of one execution: computation {tasks[0][0] / often:.6g}, memory 200."
    assert comment in text


@pytest.mark.parametrize(("key", "cost"), [
    (Cost("add"), 65), (Cost("add", has_constant=True), 22), (Cost("mul"), 136),
    (Cost("mul", is_float=True), 65), (Cost("div", is_float=True, has_constant=True), 748),
    (Cost("ld", kind="global"), 200), (Cost("frobnicate", kind="move"), CLASSES["move"]),
    (Cost("frobnicate", kind="fp64"), CLASSES["computation"]),
])  # fmt: skip
def test_costs__by_row_then_by_class(key, cost):
    assert COSTS.cost_of(key) == cost


# ---------------------------------------------------------------------------- compilers


@pytest.mark.parametrize("case", CASES["kernels"].values(), ids=CASES["kernels"])
def test_compiled_kernels__are_counted_right(case):
    found, file = written(case["fixture"], case["entry"])
    sizes = case.get("sizes", {})
    expected = case.get("instructions", {})
    assert {kind: found.instructions(sizes)[kind] for kind in expected} == expected
    accesses = [[s.space, s.direction, s.bytes, s.pattern, s.x, bool(s.assumed), n]
                for s, n in found.accesses(sizes).items()]  # fmt: skip
    assert sorted(accesses) == case["accesses"]
    loops = found.graph.loops
    found_loops = [[c.label.name, c.trips or "unknown", c.origin, c.header.depth] for c in loops]
    assert found_loops == case.get("loops", [])
    notes = [note.partition(":")[0] for note in found.notes if "--grid" not in note]
    has_atomics = any(shape.origin == "atomic" for shape in found.accesses())
    expected = ["atomic operations count as plain accesses"] * has_atomics
    assert not found.unknown and notes == expected
    stages = [value(stage.expressions["executions"], **sizes) for stage in file.stages]
    assert stages == case.get("executions", stages)
    expected = case.get("expressions", {})
    assert {name: value(file.expressions[name], **sizes) for name in expected} == expected


def test_stages__are_memory_tasks_in_the_loops_of_the_text():
    _, file = written("vector_add", "vector_add")
    # Loads are one memory task, the store another; ret belongs to the last.
    assert [len(stage.expressions) for stage in file.stages] == [6, 7]
    assert file.name == "vector_add" and file.parameters["block_size"][0] == 32
    _, file = written("fixed_loop", "nested_loops")
    outer, inner = "$L__BB1_1", "$L__BB1_2"
    assert [stage.loop for stage in file.stages] == [None, outer, inner, outer, None]


def test_tail__belongs_to_the_last_period():
    load = "ld.global.f32 %f1, [%rd1];"
    body = f"@%p1 bra S; {load} add.f32 %f1, %f1, %f1; {load}\nS: st.shared.f32 [%r9], %f1; ret;"
    found = kernel(body, branches={"S": 0.5})
    assert [stage.share for stage in found.stages] == [1, 1]
    assert "# Line 14 of the PTX.\n" in kernel_text(found)


def test_reduction__shared_memory_of_the_launch():
    found, file = written("reduction", "reduction")
    assert (found.shared_bytes, found.has_dynamic_shared) == (0, True)
    assert file.sizes["dynamic_shared_bytes"] == 0
    assert file_of(found, dynamic_shared=2048).sizes["dynamic_shared_bytes"] == 2048
    atomics = [s for s in found.accesses() if s.origin == "atomic"]
    assert [(s.direction, s.pattern) for s in atomics] == [("load", "broadcast")]
    for text in (kernel_text(found), "\n".join(summary(found))):
        assert "atomic operations count as plain accesses" in text
    found, file = written("reduction", "fixed")
    assert [c.text for c in file.constraints] == ["block_size <= 256"]
    assert max(file.parameters["block_size"]) == 256


def test_modern__instructions_are_known():
    found = [written("modern", entry)[0] for entry in ("matrix_units", "staged", "lanes")]
    assert not any(one.unknown or one.sizes for one in found[1:])
    assert found[0].products() == {("fp16", 16**3, 0): 4}


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
    counts = Counter()
    for expressions in [stage.expressions for stage in file.stages] or [own]:
        for key, expression in expressions.items():
            if key != "executions":
                counts["barrier" if key == "barriers" else key] += value(expression, **values)
    assert {k: v for k, v in counts.items() if v} == pytest.approx(found.instructions(sizes))
    accesses = total(*file.global_accesses, *file.shared_accesses, **values)
    assert accesses == pytest.approx(sum(found.accesses(sizes).values()))
    # Cutting the code changes no totals.
    uncut = analyse(found.function, stages="none")
    assert found.instructions() == pytest.approx(uncut.instructions())


def test_barriers__cut_the_code_where_asked():
    found, file = written("matrix_tiled", stages="barriers")
    assert [stage.name for stage in file.stages] == [f"stretch_{i}" for i in range(1, 6)]
    barriers = [stage.of(str).get("barrier", {}) for stage in found.stages]
    assert [sum(amount.values()) for amount in barriers] == [0, 1, 1, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(("kernels", "models"), [
    (KERNELS, ["hong_kim"]),
    ([("matrix_tiled", "matrix_tiled"), ("transpose", "transpose_plain")], [*model_names()]),
], ids=["all", "every_model"])  # fmt: skip
def test_kernel_files__are_evaluated(kernels, models, tmp_path):
    paths = []
    for number, (name, entry) in enumerate(kernels):
        found = analyse(fixture(name).entry(entry), stages=STAGES[number % 3], block=(256, 1, 1))
        paths.append(str(tmp_path / f"{key_of(f'{name}_{number}')}.toml"))
        Path(paths[-1]).write_text(kernel_text(found, grid=(4096,)), encoding="utf-8")
    results = sweep.evaluate(sweep.Plan(kernels=paths, devices=["gtx_280"], models=models))
    assert len(results.children) == len(kernels)
    for key, result in results.children.items():
        dataset = result.to_dataset().compute()
        assert dataset["execution_time"].size == len(models)
        # Matrix units and copies that this GPU lacks.
        is_too_new = "compute_capability >= " in (tmp_path / f"{key}.toml").read_text("utf-8")
        assert is_too_new == (key in ("modern_8", "modern_9"))
        status = STATUS["constraint" if is_too_new else "valid"]
        assert np.all(dataset["status"].values == status)
        assert np.all((dataset["execution_time"].values > 0) != is_too_new)


def test_kernel_file__of_a_given_launch():
    found, plain = written("transpose", "transpose_padded", block=(32, 8, 1))
    file = file_of(found, grid=(32, 32), registers=26, source="a.ptx")
    sides, registers = ("threads_per_block", "block_x", "block_y"), "resources.registers_per_thread"
    assert [value(file.expressions[f"launch.{side}"]) for side in sides] == [256, 32, 8]
    assert file.sizes == {"grid_blocks": 1024} and value(file.expressions[registers]) == 26
    assert file.source_of(registers).kind == "assumed"
    assert str(plain.source_of(registers)).startswith("derived: estimate")


def test_required_block__is_the_launch():
    text = (FOLDER / "vector_add.ptx").read_text(encoding="utf-8")
    found = analyse(read_ptx(text.replace(")\n{", ")\n.reqntid 16, 16\n.maxnreg 8\n{")).entry())
    assert (found.block, found.registers) == ((16, 16, 1), 8)
    file = file_of(found)
    assert value(file.expressions["launch.threads_per_block"]) == 256 and not file.parameters


def test_keys__of_any_name():
    keys = {"_Z10vector_addPKf": "z10vector_addpkf", "$123": "kernel_123", "Sum": "sum"}
    assert {name: key_of(name) for name in keys} == keys


def test_instruction_costs__keys_that_a_device_needs_for_them():
    with pytest.raises(SweepError, match="needs dram_latency_cycles and fp32_latency_cycles in"):
        instruction_costs(load_device("gtx_980_paper"))
