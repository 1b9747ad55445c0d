"""The N best that differ in chosen dimensions: against a search by hand, from every source."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support import synthetic
from support.planned_spaces import assert_same

from sweep.errors import QueryError
from sweep.evaluation.planned import Planned
from sweep.query import top
from sweep.query.answer import Answer

TREE = synthetic.three_kernels()
ONE = synthetic.dataset(parameters={"block_size": (64, 128, 256), "layout": ("row", "column")})


def by_hand(data, n, distinct, by=(), **options) -> list[dict]:
    """Return the rows by a look at all of them, in order."""
    every = top(data, 1_000_000, by=by, ties=True, **options)
    seen, found = {}, []
    for row in every:
        group = tuple(row[name] for name in by)
        combination = tuple(row[name] for name in distinct)
        own = seen.setdefault(group, set())
        if combination not in own and len(own) < n:
            own.add(combination)
            found.append({**row, "rank": len(own)})
    return found


def rows_of(answer: Answer) -> list[dict]:
    return [dict(row) for row in answer]


@pytest.mark.parametrize(
    ("distinct", "by"),
    [
        (("block_size",), ()),
        (("block_size",), ("device", "model")),
        (("block_size", "layout"), ("device",)),
        (("core_clock_ratio",), ("model",)),
        (("kernel", "device", "model"), ()),
        (("block_size", "model"), ("block_size",)),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 5, 1000])
@pytest.mark.parametrize("options", [{}, {"sense": "max"}, {"where": "occupancy > 0.4"}], ids=str)
def test_distinct__is_the_best_member_of_each_combination(distinct, by, n, options):
    found = top(ONE, n, by=by, distinct=distinct, **options)
    assert rows_of(found) == by_hand(ONE, n, distinct, by, **options)
    assert len(found)


def test_distinct__of_ties_the_first_in_order():
    data = ONE.copy(deep=True)
    data["execution_time"][:] = data["execution_time"].where(data["execution_time"].isnull(), 1.0)
    for n in (1, 3, 100):
        found = top(data, n, distinct=["layout", "core_clock_ratio"])
        assert rows_of(found) == by_hand(data, n, ["layout", "core_clock_ratio"])


@pytest.mark.parametrize("distinct", [("kernel",), ("block_size",), ("kernel", "device")])
def test_distinct__over_several_kernels(distinct):
    select = {} if "block_size" not in distinct else {"kernel": ["black_scholes", "transpose"]}
    for n in (1, 2, 50):
        found = top(TREE, n, distinct=distinct, select=select)
        assert rows_of(found) == by_hand(TREE, n, distinct, select=select)


def test_distinct__refuses_too_many_combinations(monkeypatch):
    monkeypatch.setattr("sweep.query.reduce.MAX_ROWS", 2)
    with pytest.raises(QueryError, match="combinations of .* are too many to compare"):
        top(ONE, 2, distinct=["device", "block_size"])


def test_distinct__random_results_from_grids_and_lists():
    random = np.random.default_rng(7)
    for _ in range(6):
        data = ONE.copy(deep=True)
        times = random.integers(1, 6, data["execution_time"].shape).astype("f4")
        data["execution_time"][:] = np.where(random.random(times.shape) < 0.2, np.nan, times)
        free = [d for d in data["execution_time"].dims if d != "model"]
        for names in itertools.combinations(free, 2):
            for n in (1, 4):
                found = top(data, n, by=["model"], distinct=names)
                assert rows_of(found) == by_hand(data, n, names, ["model"])


def test_distinct__refuses_what_is_no_dimension():
    with pytest.raises(QueryError, match="'blok_size' is no dimension.*did you mean 'block_size'"):
        top(ONE, 3, distinct=["blok_size"])


def test_distinct__of_a_plan_of_a_store_and_of_results(spaces):
    for space, results, path in spaces.values():
        for names in (["kernel", "device"], ["core_clock_ratio"], ["tile", "unroll"]):
            found = assert_same(top, path, results, 3, by=["model"], distinct=names)
            assert_same(top, Planned(space, threads=2), results, 3, by=["model"], distinct=names)
            select = {} if "tile" not in names else {"kernel": "matrixmul_shared"}
            assert rows_of(found) == by_hand(results, 3, names, ["model"], select=select)
