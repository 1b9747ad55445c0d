"""Questions to plans over sizes: passes whose inner loop decides the number of blocks alone."""

import numpy as np
import pytest

from sweep import query
from sweep.compiler.source import input_names
from sweep.evaluation import limits, reducing
from sweep.evaluation.counts import StepCache
from sweep.evaluation.launch import grid_axes
from sweep.evaluation.planned import Planned, evaluate
from sweep.evaluation.tables import Tables, pack
from sweep.models import get_model, model_names
from sweep.space import Plan, cut_box, resolve

AXES = {
    "n": {"start": 1000, "stop": 900_000, "step": 13_000},
    "block_size": [32, 96, 1024],
    "elements_per_thread": [1, 4],
}
OUTPUTS = ["execution_time", "cycles_per_instruction", "core_activity", "energy", "status"]


def laid_out(model="hong_kim", kernel="vector_add", **more):
    # The first device has no blocks of 1024 threads.
    named = {"kernels": [kernel], "devices": ["gtx_280", "gtx_980_paper"], "models": [model]}
    return resolve(Plan(**{**named, "outputs": OUTPUTS, "axes": AXES, **more}))


@pytest.fixture
def forms(monkeypatch):
    """Form of every pass that was used, as if grids were large: several boxes with own tables."""
    for name, value in dict(WHOLE_TABLES=0, BLOCK=100, LAUNCHES=400, SIZES=5, FEW=0).items():
        monkeypatch.setattr(limits, name, value)
    seen, get = [], reducing.get_pass
    monkeypatch.setattr(reducing, "get_pass", lambda key: seen.append(key.form) or get(key))
    return seen


def check_same(space, results, question, *arguments, **options):
    expected = getattr(query, question)(results, *arguments, **options)
    found = getattr(query, question)(Planned(space, threads=2), *arguments, **options)
    assert found.to_json() == expected.to_json()


SLOW = [pytest.param(m, marks=pytest.mark.slow) for m in model_names() if m != "hong_kim"]


@pytest.mark.parametrize("model", ["hong_kim", *SLOW])
def test_same_answers_as_results(model, forms):
    space = laid_out(model)
    results = evaluate(space).compute()
    for by in ([], ["device", "block_size"]):
        for sense in ("min", "max"):
            check_same(space, results, "top", 20, by=by, sense=sense)
    assert set(forms) == {"sizes"}


def test_groups_of_one_size(forms):
    """There the inner loop has nothing to run over."""
    space = laid_out()
    check_same(space, evaluate(space).compute(), "best", by=["n"], select={"n": (1000, 100_000)})
    assert set(forms) == {"rows"}


def test_ties_go_to_the_first_configuration(forms):
    """Rows of another order than the grid's meet equal values in any order."""
    space = laid_out()
    results = evaluate(space).compute()
    counts = np.unique(results["vector_add"]["core_activity"].values, return_counts=True)[1]
    assert counts.max() > 10
    for n in (1, 3, 50, 700):
        check_same(space, results, "top", n, objective="core_activity", sense="max")
    assert "sizes" in forms


def test_grids_without_blocks_and_constraints(forms):
    """Sizes that leave no block, and launches that a constraint excludes."""
    axes = {**AXES, "n": [1e-9, *range(1000, 20_000, 1000)]}
    space = laid_out(axes=axes, constraints=["block_size * elements_per_thread <= 2048"])
    results = evaluate(space).compute()
    for by in ([], ["device", "elements_per_thread"]):
        check_same(space, results, "top", 9, by=by)
    assert "sizes" in forms


def test_order_of_axes_does_not_matter(forms, monkeypatch):
    """Where the last axis is short the longest one comes behind it, and back in the results."""
    space = laid_out()
    found = evaluate(space).compute()
    monkeypatch.setattr(limits, "SHORT_ROW", 0)
    assert found.identical(evaluate(space).compute())


def test_grid_axes():
    assert grid_axes(laid_out().kernels[0]) == ("n",)
    assert grid_axes(laid_out(constraints=["n % block_size == 0"]).kernels[0]) == ()
    loops = laid_out(kernel="matrixmul_shared", axes={"n": [512, 1024]})
    assert grid_axes(loops.kernels[0]) == ()  # the loop's length depends on it, too


def test_tables_that_boxes_share(monkeypatch):
    """What is kept from the box before is what would be made anew."""
    monkeypatch.setattr(limits, "ROW", 8)
    monkeypatch.setattr(limits, "SHORT_ROW", 2)
    space, model = laid_out(), get_model("hong_kim")
    kernel, names = space.kernels[0], sum(input_names(model, 0), ())
    rows, steps, last, kept = {}, StepCache(), (), set()
    for part in cut_box(kernel.clocked.whole, 200):
        inputs = [Tables(kernel, part, of).inputs(space.plan, "hong_kim") for of in (steps, None)]
        packed, anew = (
            pack(model, inputs[0], part, part, rows=rows),
            pack(model, inputs[1], part, part),
        )
        for one, other in zip(packed.tables, anew.tables, strict=True):
            np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(packed.stride, anew.stride)
        kept |= {n for n, a, b in zip(names, last, packed.tables, strict=False) if a is b}
        last = packed.tables
    assert "comp_insts" in kept and "blocks" not in kept
