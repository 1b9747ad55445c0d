"""Questions to plans over sizes: passes whose inner loop decides the number of blocks alone."""

from __future__ import annotations

import numpy as np
import pytest

import sweep
from sweep import query
from sweep.evaluation import evaluate, limits, reducing
from sweep.evaluation.launch import grid_axes
from sweep.evaluation.planned import Planned
from sweep.models import model_names
from sweep.space import Plan, resolve

AXES = {
    "n": {"start": 1000, "stop": 900_000, "step": 13_000},
    "block_size": [32, 96, 1024],
    "elements_per_thread": [1, 4],
}
OUTPUTS = ["execution_time", "cycles_per_instruction", "core_activity", "energy", "status"]


def laid_out(models, **given):
    plan = {
        "kernels": ["vector_add"],
        "devices": ["gtx_280", "gtx_980"],  # the first has no blocks of 1024 threads
        "models": models,
        "outputs": OUTPUTS,
        "axes": AXES,
    }
    return resolve(Plan(**{**plan, **given}))


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Tables box by box, several boxes a grid."""
    monkeypatch.setattr(limits, "WHOLE_TABLES", 0)
    monkeypatch.setattr(limits, "BLOCK", 100)
    monkeypatch.setattr(limits, "LAUNCHES", 400)
    monkeypatch.setattr(limits, "SIZES", 5)
    monkeypatch.setattr(limits, "FEW", 0)


@pytest.fixture
def forms(monkeypatch):
    """Form of every pass that was used."""
    seen, get = [], reducing.get_pass
    monkeypatch.setattr(reducing, "get_pass", lambda *key: seen.append(key[2]) or get(*key))
    return seen


SLOW = [pytest.param(m, marks=pytest.mark.slow) for m in model_names() if m != "hong_kim"]


@pytest.mark.parametrize("model", ["hong_kim", *SLOW])
def test_same_answers_as_results(model, forms):
    space = laid_out([model])
    results, planned = evaluate(space).compute(), Planned(space, threads=2)
    for by in ([], ["device", "block_size"]):
        for sense in ("min", "max"):
            options = {"by": by, "sense": sense}
            expected = query.top(results, 20, **options)
            assert query.top(planned, 20, **options).to_json() == expected.to_json()
    assert set(forms) == {"sizes"}


def test_groups_of_one_size(forms):
    """There the inner loop has nothing to run over."""
    space = laid_out(["hong_kim"])
    options = {"by": ["n"], "select": {"n": (1000, 100_000)}}
    expected = query.best(evaluate(space).compute(), **options)
    assert sweep.best(space, **options).to_json() == expected.to_json()
    assert set(forms) == {"rows"}


def test_ties_go_to_the_first_configuration(forms):
    """Rows of another order than the grid's meet equal values in any order."""
    space = laid_out(["hong_kim"])
    results = evaluate(space).compute()
    counts = np.unique(results["vector_add"]["core_activity"].values, return_counts=True)[1]
    assert counts.max() > 10
    for n in (1, 3, 50, 700):
        options = {"objective": "core_activity", "sense": "max"}
        expected = query.top(results, n, **options)
        assert sweep.top(space, n, **options).to_json() == expected.to_json()
    assert "sizes" in forms


def test_grids_without_blocks_and_constraints(forms):
    """Sizes of which no block is left, and launches that a constraint excludes."""
    space = laid_out(
        ["hong_kim"],
        axes={**AXES, "n": [1e-9, *range(1000, 20_000, 1000)]},
        constraints=["block_size * elements_per_thread <= 2048"],
    )
    results = evaluate(space).compute()
    for by in ([], ["device", "elements_per_thread"]):
        expected = query.top(results, 9, by=by)
        assert sweep.top(space, 9, by=by).to_json() == expected.to_json()
    assert "sizes" in forms


def test_grid_axes():
    def names(kernel, **given):
        (space,) = laid_out(["hong_kim"], kernels=[kernel], **given).kernels
        return list(grid_axes(space))

    assert names("vector_add") == ["n"]
    assert names("vector_add", constraints=["n % block_size == 0"]) == []
    assert names("matrixmul_shared", axes={"n": [512, 1024]}) == []  # the loop's length, too
