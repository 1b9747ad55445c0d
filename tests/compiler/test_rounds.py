"""Rounds that are alike: one loop in a pass, the same bits, and a length that does not grow."""

from functools import partial

import numpy as np
import pytest
from support.standard import same_bits

import sweep
from sweep.compiler import passes, rounds
from sweep.compiler.lowering import lower
from sweep.compiler.passes import pass_source
from sweep.compiler.program import parts_of
from sweep.compiler.rounds import Rounds, rolled
from sweep.compiler.source import Pass
from sweep.evaluation import limits
from sweep.evaluation.chunk import evaluate_box
from sweep.models import get_model, model_names
from sweep.space import Plan, resolve

STAGED = [name for name in model_names() if any(i.sequence for i in get_model(name).inputs)]
CLOCKS = {
    "core_clock_ratio": {"start": 0.8, "stop": 1.2, "step": 0.005},
    "memory_clock_ratio": [0.9, 1.1],
}


@pytest.mark.parametrize("form", ["rows", "clocks"])
@pytest.mark.parametrize("model", STAGED)
def test_source__does_not_grow_with_stages(model, form):
    lines = [
        len(pass_source(Pass(model, "corrected", form, ("energy", "regime"), length)).splitlines())
        for length in (3, 8, 25)
    ]
    assert lines[1] == lines[2] < 2 * lines[0], lines


@pytest.mark.parametrize(
    ("variant", "clocks"), [("corrected", {}), ("printed", CLOCKS)], ids=["rows", "clocks"]
)
def test_ten_stages__have_the_bits_of_numpy_and_of_unrolled_passes(variant, clocks, monkeypatch):
    """Cyclic reduction has ten stages that differ, on devices where some models bound by each."""
    found = []
    for compiled, least in ((True, rounds.LEAST), (True, 1000), (False, 1000)):
        monkeypatch.setattr(limits, "UNCOMPILED", 0 if compiled else 1 << 40)
        monkeypatch.setattr(rounds, "LEAST", least)
        passes._built.cache_clear()
        plan = Plan(
            kernels=["cyclic_reduction"],
            devices=["gtx_280", "gtx_980_paper"],
            models=STAGED,
            variant=variant,
            axes={"systems": {"start": 1, "stop": 401, "step": 16}, **clocks},
        )
        space = resolve(plan).kernels[0]
        found.append(evaluate_box(space, plan, space.grid.whole))
    assert np.isfinite(found[0]["execution_time"]).mean() > 0.4
    same_bits(found[0], found[1])
    same_bits(found[0], found[2])


@pytest.mark.parametrize("question", [sweep.pareto, partial(sweep.best, by=["padding"])])
def test_answers__are_those_of_unrolled_passes(question, monkeypatch):
    """Passes that keep no results, along the number of blocks too."""
    axes = {"systems": {"start": 1, "stop": 3001, "step": 1}}
    plan = Plan(["cyclic_reduction"], ["gtx_980_paper"], ["combined"], axes=axes, store=False)
    found = []
    for compiled_from, least in ((0, rounds.LEAST), (0, 1000), (1 << 40, rounds.LEAST)):
        monkeypatch.setattr(limits, "UNCOMPILED", compiled_from)
        monkeypatch.setattr(rounds, "LEAST", least)
        passes._built.cache_clear()
        found.append([repr(sorted(row.items())) for row in question(plan)])
    assert found[0] == found[1] == found[2] and found[0]


@pytest.fixture(autouse=True)
def _passes_of_other_tests():
    """Passes are kept by what they compute: those that these tests unroll are not kept."""
    yield
    passes._built.cache_clear()


# --- Small bodies ---------------------------------------------------------------------------------


def parts_in(body, length):
    program = lower(body, {"x": None, "values": length})
    parts = {name: ("values", at) for at, name in enumerate(parts_of("values", length))}
    steps = rolled(program.assignments, set(program.results.values()), parts)
    return [step for step in steps if isinstance(step, Rounds)]


def summed(x, values):
    total = before = 0.0
    for i in range(len(values)):
        total += before * values[i] + x
        before = values[i] * 2.0
    return {"total": total, "before": before}


def of_neighbours(x, values):
    total = 0.0
    for i in range(len(values) - 1):
        total += values[i] * values[i + 1] + x
    return {"total": total}


def counted(x, values):
    total = 0.0
    for i in range(len(values)):
        total += values[i] * i
    return {"total": total + x}


def with_a_middle(x, values):
    total = middle = 0.0
    for i in range(len(values)):
        total += values[i]
        if i == 3:
            middle = total
    return {"total": total + x, "middle": middle}


def test_alike__is_all_but_the_first():
    (found,) = parts_in(summed, 6)
    assert (found.first, found.count) == (1, 5) and found.parts == {"values_1": "values"}
    assert len(found.carried) == 2 and set(found.last.values()) == set(found.carried.values())


@pytest.mark.parametrize(
    ("body", "length"), [(summed, 3), (of_neighbours, 9), (counted, 9), (with_a_middle, 6)]
)
def test_not_alike__stays_unrolled(body, length):
    """Too few rounds; numbers of two places; the round's own number; a value kept on the way."""
    assert parts_in(body, length) == []
