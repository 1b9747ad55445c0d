"""What is kept of groups, against brute force: ties, NaN and infinities included."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.query.optima import relative_distance
from sweep.reduction import FRONT, NOWHERE, Collected, Keep, Kept, smallest

# Few different values, so that ties are common.
NUMBERS = [-math.inf, -1.5, 0.0, -0.0, 1.0, 2.0, 3.0, math.inf]
VALUES = st.sampled_from([math.nan, *NUMBERS])
DTYPES = st.sampled_from([np.float32, np.float64])
ROWS = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=4)
)


def brute_smallest(values, n):
    ordered = sorted((v, i) for i, v in enumerate(values) if not math.isnan(v))
    return [(i, v) for v, i in ordered[:n]]


@given(ROWS, st.integers(1, 12), DTYPES, st.booleans(), st.booleans())
def test_smallest__is_brute_force(rows, n, dtype, value_only, writeable):
    values = np.array(rows, dtype)
    values.flags.writeable = writeable
    before, bounds = values.copy(), np.full(len(rows), np.inf)
    at, columns, found = smallest(values, n, bounds, value_only=value_only)
    assert np.array_equal(values, before, equal_nan=True)
    for i, row in enumerate(rows):
        mine = list(zip(columns[at == i].tolist(), found[at == i].tolist(), strict=True))
        expected = brute_smallest(row, n)
        if value_only and n <= 4 and len(expected) == n:
            expected[-1] = (-1, expected[-1][1])
        assert sorted(mine) == sorted(expected)


@given(ROWS, st.integers(1, 12))
def test_smallest__a_true_bound_changes_nothing(rows, n):
    values, every = np.array(rows), np.full(len(rows), np.inf)
    found = smallest(values, n, every)
    bounds = every.copy()
    for i, row in enumerate(rows):
        kept = brute_smallest(row, n)
        bounds[i] = kept[-1][1] if len(kept) == n else np.inf
    again = smallest(values, n, bounds)
    assert sorted(zip(*map(np.ndarray.tolist, found), strict=True)) == sorted(
        zip(*map(np.ndarray.tolist, again), strict=True)
    )


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(NUMBERS)), max_size=40),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(1, 6),
    st.randoms(),
)
def test_collected__does_not_depend_on_parts_or_their_order(rows, cuts, n, random):
    edges = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    parts = list(zip(edges[:-1], edges[1:], strict=True))
    random.shuffle(parts)
    for keep in (Keep("smallest", n), FRONT):
        collected = Collected(keep, 3)
        for start, stop in parts:
            groups, values = zip(*rows[start:stop], strict=True)
            collected.add(Kept(np.array(groups), (np.array(values),), np.arange(start, stop)))
        kept = collected.merge()
        for group in range(3):
            mine = [(v, i) for i, (g, v) in enumerate(rows) if g == group]
            expected = sorted(mine)[: n if keep is not FRONT else 1]
            held = None if kept is None else collected.front(group)
            found = [] if held is None else list(zip(held[0][0], held[1], strict=True))
            assert found == expected
            if keep is not FRONT and kept is not None:
                limits = tuple(limit[group] for limit in collected.limits())
                assert limits == (expected[-1] if len(expected) == n else limits)


def test_collected__limits_of_a_runner_up():
    """As the runner-up only a smaller value counts; as the best an equal one further ahead."""
    collected = Collected(Keep("smallest", 2, value_only=True), 4)
    values, places = np.array([1.0, 2.0, 5.0, 5.0, 3.0]), np.array([7, NOWHERE, 4, NOWHERE, 1])
    collected.add(Kept(np.array([0, 0, 1, 1, 2]), (values,), places))
    bounds, positions = collected.limits()
    assert bounds.tolist() == [2.0, 5.0, np.inf, np.inf]
    assert positions.tolist()[:2] == [-1, 4] and positions[2] == positions[3] > NOWHERE


def test_counts__of_parts_are_added():
    parts = [Kept.counted([0, 2], np.ones((2, 1, 3), int)), Kept.counted([2], np.ones((1, 1, 3)))]
    kept = Keep("bins", cuts=(1.0,)).merged(parts)
    assert kept.groups.tolist() == [0, 2] and kept.columns[0][:, 0, 0].tolist() == [1, 2]


@pytest.mark.parametrize(("best", "runner_up", "expected"), [
    (2.0, 3.0, 0.5), (-3.0, -2.0, 1 / 3), (2.0, 2.0, 0.0), (0.0, 0.0, 0.0), (0.0, 1.0, None),
    (1.0, math.inf, None), (math.inf, math.inf, 0.0), (1.0, None, None),
])  # fmt: skip
def test_relative_distance(best, runner_up, expected):
    assert relative_distance(best, runner_up) == pytest.approx(expected)
