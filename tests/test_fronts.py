"""The front of two and three objectives against brute force: ties, NaN, infinities, repetitions."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweep import fronts

# Few different values, so that ties and repeated points are common.
VALUES = st.sampled_from([math.nan, -math.inf, -1.5, 0.0, -0.0, 1.0, 2.0, 3.0, math.inf])
DTYPES = st.sampled_from([np.float32, np.float64])


def points(objectives: int, max_size: int = 40):
    return st.lists(st.tuples(*[VALUES] * objectives), max_size=max_size)


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


@pytest.mark.parametrize("objectives", [1, 2, 3])
@pytest.mark.parametrize("small", [False, True], ids=["as shipped", "every branch"])
def test_front__is_brute_force(objectives, small):
    sizes = {"LEAF": 2, "SAMPLE": 5, "KILLERS": 2} if small else {"LEAF": fronts.LEAF}

    @given(points(objectives), DTYPES)
    def check(rows, dtype):
        with mock.patch.multiple(fronts, **sizes):
            found = fronts.front(columns_of(rows, objectives, dtype))
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
            chosen = fronts.front(part, killers=held)
            held = [np.concatenate([h, p[chosen]]) for h, p in zip(held, part, strict=True)]
            positions = np.concatenate([positions, chosen + block.start])
            kept = fronts.merge_fronts(held, positions)
            held, positions = [column[kept] for column in held], positions[kept]
        assert positions.tolist() == brute_front(rows)

    check()


@pytest.mark.parametrize("objectives", [2, 3])
def test_front__of_many_points(objectives):
    generator = np.random.default_rng(objectives)
    # Integers on a plane: a large front with many repeated points.
    shares = generator.integers(0, 60, (objectives, 3000)).astype(float)
    shares[-1] = 90 - shares[:-1].sum(axis=0) + generator.integers(0, 3, 3000)
    rows = [tuple(point) for point in shares.T.tolist()]
    unique = sorted(set(rows))
    best = {p for p in unique if not any(dominates(q, p) for q in unique)}
    expected = sorted(rows.index(p) for p in best)
    assert fronts.front(list(shares)).tolist() == expected


def test_knee__is_the_corner_of_the_front():
    x = np.array([1.0, 1.1, 1.3, 4.0, 16.0])
    y = np.array([40.0, 9.0, 2.0, 1.8, 1.7])
    assert fronts.knee(x, y) == 2


@pytest.mark.parametrize("y", [[3.0], [3.0, 3.0], [3.0, math.inf]])
def test_knee__of_a_degenerate_front_is_its_first_point(y):
    assert fronts.knee(np.arange(1.0, 1.0 + len(y)), np.array(y)) == 0


def test_spread__keeps_both_ends():
    assert fronts.spread(np.arange(100), 4).tolist() == [0, 33, 66, 99]
    assert fronts.spread(np.arange(3), 4).tolist() == [0, 1, 2]
