"""Compiled passes over boxes: tiles, invalid launches, and memory that is used again."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from support.standard import assembled, same_bits

from sweep.compiler.reductions import TILE
from sweep.evaluation import limits
from sweep.evaluation.chunk import Buffers, evaluate_box
from sweep.evaluation.tables import Packed
from sweep.evaluation.variables import variables
from sweep.fields import POWER_STATUS, STATUS
from sweep.hardware.clocks import finish
from sweep.space import KernelSpace, Plan, resolve

RATIOS = {"start": 0.8, "stop": 1.2, "step": 0.005}
FEW = [0.9, 1.0, 1.1]


def laid_out(clocks, **options) -> tuple[KernelSpace, Plan]:
    plan = Plan(
        kernels=["matrixmul_shared"],
        devices=["gtx_280", "gtx_980_paper"],
        models=["hong_kim", "wang_chu"],
        axes={"tile": [16, 64], "work_per_thread": [1, 8], "unroll": [1, 16], **clocks},
        **options,
    )
    return resolve(plan).kernels[0], plan


@pytest.mark.parametrize("clocks", [{}, {"core_clock_ratio": RATIOS}])
def test_invalid_launch__nothing_but_its_status(clocks):
    space, plan = laid_out(clocks)
    found = evaluate_box(space, plan, space.grid.whole)
    invalid = ~np.isin(found["status"], [STATUS["valid"], STATUS["model_domain"]])
    assert 0 < invalid.mean() < 1
    time, is_valid = found["execution_time"], found["status"] == STATUS["valid"]
    assert (np.isfinite(time) == is_valid).all() and (found["bound"][is_valid] > 0).all()
    for variable in variables(space, plan):
        values = found[variable.name]
        if values.shape != invalid.shape or variable.name == "status":
            continue
        if variable.name == "power_status":
            assert set(values[invalid]) == {POWER_STATUS["no_time"]}
        elif variable.is_code:
            assert not values[invalid].any(), variable.name
        else:
            assert np.isnan(values[invalid]).all(), variable.name


@pytest.mark.parametrize(
    ("memory", "most", "points"),
    [(FEW, 0, 150), (FEW, 0, 25), (FEW, limits.WHOLE_TABLES, 150), (RATIOS, 0, 2000)],
)
def test_boxes_are_parts_of_the_whole__buffers_used_again(monkeypatch, memory, most, points):
    """With tables of each box or of the whole grid, in both forms, and in rows of several tiles."""
    monkeypatch.setattr(limits, "WHOLE_TABLES", most)
    clocks = {"core_clock_ratio": RATIOS, "memory_clock_ratio": memory}
    space, plan = laid_out(clocks, chunk_points=points)
    assert (math.prod(space.grid.shape[-2:]) > TILE > points) == (memory is RATIOS)
    buffers, boxes = Buffers(), list(space.grid.boxes())
    assert len({box.n_points for box in boxes}) > 1
    found = assembled(space, plan, buffers)
    same_bits(evaluate_box(space, plan, space.grid.whole), found)
    largest = max(box.n_points for box in boxes) * len(plan.models)
    assert buffers["execution_time"].size == largest


@pytest.mark.parametrize(("kernel", "axes", "passes"), [
    ("matrixmul_shared", {"tile": [16, 64]}, {("buffers",)}),
    ("matrixmul_shared", {"tile": [16], "core_clock_ratio": RATIOS}, {("buffers",)}),
    ("triton_softmax", {"num_stages": [1, 4]}, {("buffers",), ()}),
])  # fmt: skip
def test_switch_that_is_0__a_pass_without_it_gives_the_same_bits(monkeypatch, kernel, axes, passes):
    """Of softmax one box of two has copies: results are those of the whole grid, too."""
    plan = Plan([kernel], ["rtx_a4000"], ["combined"], axes=axes, chunk_points=1)
    space, seen, read_by = resolve(plan).kernels[0], [], Packed.read_by
    monkeypatch.setattr(limits, "WHOLE_TABLES", 0)
    without = assembled(space, plan, Buffers())

    def with_all(packed: Packed, *args):
        seen.append(packed.zeros)
        return read_by(dataclasses.replace(packed, zeros=()), *args)

    monkeypatch.setattr(Packed, "read_by", with_all)
    same_bits(assembled(space, plan, Buffers()), without)
    same_bits(evaluate_box(space, plan, space.grid.whole), without)
    assert set(seen) == passes


@pytest.mark.parametrize(("cycles", "status"), [(3.4e38, "valid"), (3.5e38, "model_domain")])
def test_cycles__that_float32_cannot_hold_are_no_result(cycles, status):
    found = finish(cycles, 0.5, 0.5, 0.0, 0.0, 0.0, 20.0, 1e9, 100.0, 50.0)
    assert found["status"] == STATUS[status]
    assert np.isfinite(np.float32(list(found.values()))).all()


SOURCES = """
from sweep.compiler.passes import pass_source
from sweep.compiler.source import Pass
from sweep.models import model_names
for name in model_names():
    for variant in ("corrected", "printed"):
        print(pass_source(Pass(name, variant, "clocks", ("energy", "regime"), 3)))
"""


@pytest.mark.slow
def test_source_is_the_same_in_every_process():
    """Python orders sets anew in each process; a pass with another text would be compiled again."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", SOURCES],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(texts) == 1
