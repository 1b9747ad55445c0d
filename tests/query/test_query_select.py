"""Selection on arrays against brute force: ties, NaN, infinities and repetitions included."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep.query import select

# Few different values, so that ties and repeated points are common.
VALUES = st.sampled_from([math.nan, -math.inf, -1.5, 0.0, -0.0, 1.0, 2.0, 3.0, math.inf])
DTYPES = st.sampled_from([np.float32, np.float64])


def rows_of_equal_length(max_rows: int = 4, max_columns: int = 12):
    return st.integers(1, max_columns).flatmap(
        lambda n: st.lists(st.lists(VALUES, min_size=n, max_size=n), min_size=1, max_size=max_rows)
    )


def points(objectives: int, max_size: int = 40):
    return st.lists(st.tuples(*[VALUES] * objectives), max_size=max_size)


def is_same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


def brute_minimum(values: list[float]) -> tuple[float, int, float]:
    ordered = sorted((v, i) for i, v in enumerate(values) if not math.isnan(v))
    value, position = ordered[0] if ordered else (math.nan, -1)
    return value, position, ordered[1][0] if len(ordered) > 1 else math.nan


def dominates(p: tuple, q: tuple) -> bool:
    return all(a <= b for a, b in zip(p, q, strict=True)) and p != q


def brute_front(rows: list[tuple]) -> list[int]:
    valid = [i for i, p in enumerate(rows) if not any(map(math.isnan, p))]
    return [
        i
        for i in valid
        if not any(dominates(rows[j], rows[i]) or (rows[j] == rows[i] and j < i) for j in valid)
    ]


def columns_of(rows: list[tuple], objectives: int, dtype=np.float64) -> list[np.ndarray]:
    return list(np.array(rows, dtype).reshape(-1, objectives).T)


@given(rows_of_equal_length(), DTYPES)
def test_first_min__is_brute_force(rows, dtype):
    values = np.array(rows, dtype)
    before = values.copy()
    found = select.first_min(values)
    assert np.array_equal(values, before, equal_nan=True)
    for row, value, position, runner_up in zip(rows, *found, strict=True):
        expected = brute_minimum(row)
        assert is_same(value, expected[0])
        assert position == expected[1]
        assert is_same(runner_up, expected[2])


def test_first_min__leaves_read_only_arrays_alone():
    values = np.array([[2.0, 1.0, 1.0]])
    values.flags.writeable = False
    assert select.first_min(values) == (1.0, 1, 1.0)


def test_first_min__of_nothing():
    value, position, runner_up = select.first_min(np.empty((2, 0)))
    assert np.isnan(value).all() and np.isnan(runner_up).all() and (position == -1).all()


@given(rows_of_equal_length(max_rows=1), st.lists(st.integers(0, 12)), st.randoms())
def test_merge_minima__does_not_depend_on_blocks_or_their_order(rows, cuts, random):
    edges = sorted({0, len(rows[0]), *(c for c in cuts if c <= len(rows[0]))})
    blocks = list(zip(edges[:-1], edges[1:], strict=True))
    random.shuffle(blocks)
    total = select.no_minima(1)
    for start, stop in blocks:
        part = select.first_min(np.array(rows)[:, start:stop])
        shifted = np.where(part.position >= 0, part.position + start, -1)
        total = select.merge_minima(total, part._replace(position=shifted))
    expected = brute_minimum(rows[0])
    assert is_same(total.value[0], expected[0])
    assert total.position[0] == expected[1]
    assert is_same(total.runner_up[0], expected[2])


@pytest.mark.parametrize(
    ("best", "runner_up", "expected"),
    [
        (2.0, 3.0, 0.5),
        (-3.0, -2.0, 1 / 3),
        (2.0, 2.0, 0.0),
        (0.0, 0.0, 0.0),
        (0.0, 1.0, None),
        (1.0, math.inf, None),
        (math.inf, math.inf, 0.0),
        (1.0, math.nan, None),
        (math.nan, math.nan, None),
    ],
)
def test_relative_distance(best, runner_up, expected):
    assert select.relative_distance(best, runner_up) == pytest.approx(expected)


@given(st.lists(VALUES, max_size=40), st.integers(1, 12), DTYPES)
def test_n_best__is_brute_force(values, n, dtype):
    ordered = sorted((v, i) for i, v in enumerate(values) if not math.isnan(v))
    assert select.n_best(np.array(values, dtype), n).tolist() == [i for _, i in ordered[:n]]


@given(st.lists(VALUES, min_size=1, max_size=40), st.integers(1, 12))
def test_n_best__a_true_bound_changes_nothing(values, n):
    found = select.n_best(np.array(values), n)
    if len(found) == n:
        bound = values[found[-1]]
        assert select.n_best(np.array(values), n, bound).tolist() == found.tolist()


@given(st.lists(VALUES, max_size=30), st.lists(VALUES, max_size=30), st.integers(1, 8))
def test_merge_best__of_two_blocks_is_the_whole(first, second, n):
    whole = np.array(first + second)
    later = select.n_best(np.array(second), n) + len(first)
    candidates = np.concatenate([later, select.n_best(np.array(first), n)])
    kept = select.merge_best(whole[candidates], candidates, n)
    assert candidates[kept].tolist() == select.n_best(whole, n).tolist()


@pytest.mark.parametrize("objectives", [1, 2, 3])
@pytest.mark.parametrize("small", [False, True], ids=["as shipped", "every branch"])
def test_front__is_brute_force(objectives, small):
    sizes = {"LEAF": 2, "SAMPLE": 5, "KILLERS": 2} if small else {"LEAF": select.LEAF}

    @given(points(objectives), DTYPES)
    def check(rows, dtype):
        with mock.patch.multiple(select, **sizes):
            found = select.front(columns_of(rows, objectives, dtype))
        assert found.tolist() == brute_front(rows)

    check()


@pytest.mark.parametrize("objectives", [2, 3])
def test_front__killers_and_blocks_change_nothing(objectives):
    @given(points(objectives), st.integers(0, 40), st.booleans())
    def check(rows, cut, reverse):
        columns = columns_of(rows, objectives)
        cut = min(cut, len(rows))
        blocks = [slice(0, cut), slice(cut, len(rows))]
        held, positions = [column[:0] for column in columns], np.empty(0, np.int64)
        for block in reversed(blocks) if reverse else blocks:
            part = [column[block] for column in columns]
            chosen = select.front(part, killers=held)
            held = [np.concatenate([h, p[chosen]]) for h, p in zip(held, part, strict=True)]
            positions = np.concatenate([positions, chosen + block.start])
            kept = select.merge_fronts(held, positions)
            held, positions = [column[kept] for column in held], positions[kept]
        assert positions.tolist() == brute_front(rows)

    check()


@pytest.mark.parametrize("objectives", [2, 3])
def test_front__of_many_points(objectives):
    generator = np.random.default_rng(objectives)
    # Integers on a plane: a large front with many repeated points.
    shares = generator.integers(0, 60, (objectives, 6000)).astype(float)
    shares[-1] = 90 - shares[:-1].sum(axis=0) + generator.integers(0, 3, 6000)
    rows = [tuple(point) for point in shares.T.tolist()]
    unique = sorted(set(rows))
    best = {p for p in unique if not any(dominates(q, p) for q in unique)}
    expected = sorted(rows.index(p) for p in best)
    assert select.front(list(shares)).tolist() == expected


def test_front__is_idempotent():
    generator = np.random.default_rng(5)
    columns = list(generator.random((3, 3000)))
    chosen = select.front(columns)
    again = select.front([column[chosen] for column in columns])
    assert again.tolist() == list(range(len(chosen)))


def test_knee__is_the_corner_of_the_front():
    x = np.array([1.0, 1.1, 1.3, 4.0, 16.0])
    y = np.array([40.0, 9.0, 2.0, 1.8, 1.7])
    assert select.knee(x, y) == 2


@pytest.mark.parametrize("y", [[3.0], [3.0, 3.0], [3.0, math.inf]])
def test_knee__of_a_degenerate_front_is_its_first_point(y):
    assert select.knee(np.arange(1.0, 1.0 + len(y)), np.array(y)) == 0


def test_spread__keeps_both_ends():
    assert select.spread(np.arange(100), 4).tolist() == [0, 33, 66, 99]
    assert select.spread(np.arange(3), 4).tolist() == [0, 1, 2]
