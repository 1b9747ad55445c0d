"""The front that a reducing pass keeps of three objectives, against that of a query."""

from __future__ import annotations

import numpy as np
import pytest

from sweep.compiler.front_of_three import take_front_of_three
from sweep.compiler.reduction_state import State
from sweep.query.select import front

TILE = 2048


def kept(columns, signs=(1, 1, 1), room=64):
    """Return the positions of the front, of tiles that follow each other."""
    state, at = State.empty(signs, columns[0].dtype, room), 0
    inner = np.arange(columns[0].size)
    while at < columns[0].size:
        rows = tuple(column[at : at + TILE] for column in columns)
        if take_front_of_three(state.arguments("front_of_three"), rows, 0, inner, at, False):
            at += TILE
        else:
            state, at = state.grown(), 0  # as a pass that begins its block again
    state.settle()
    return np.sort(state.positions[: state.held[0]]), state


def sphere(rng, n):
    points = np.abs(rng.normal(size=(3, n)))
    return list(1.0 - points / np.linalg.norm(points, axis=0))


CASES = {
    "random": lambda rng, n: list(rng.random((3, n))),
    "all on the front": sphere,
    "two of few values": lambda rng, n: [
        rng.random(n),
        rng.integers(0, 4, n) / 4,
        rng.integers(0, 3, n) / 8,
    ],
    "the first of few values": lambda rng, n: [rng.integers(0, 3, n) / 2, *rng.random((2, n))],
    "equal points": lambda rng, n: list(rng.integers(0, 12, (3, n)) / 16),
    "one staircase, downwards": lambda rng, n: [
        np.arange(n, dtype=float),
        -np.arange(n, dtype=float),
        np.arange(n, dtype=float),
    ],
    "the last beats all": lambda rng, n: [np.arange(n, 0, -1.0)] * 3,
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_front_of_three__is_that_of_a_query(case, dtype):
    rng = np.random.default_rng(list(CASES).index(case))
    columns = [column.astype(dtype) for column in CASES[case](rng, 6000)]
    found, _ = kept(columns)
    assert found.tolist() == front(columns).tolist()


def test_front_of_three__nan_is_nothing_and_infinity_a_number():
    rng = np.random.default_rng(7)
    columns = [rng.choice([0.0, 1.0, 2.0, np.inf, -np.inf, np.nan], 3000) for _ in range(3)]
    for part in (slice(None), slice(0, 40), slice(5, 6), slice(0, 0)):
        some = [column[part] for column in columns]
        assert kept(some)[0].tolist() == front(some).tolist()
    infinite = [np.full(100, np.inf)] * 3
    assert kept(infinite)[0].tolist() == [0]


def test_front_of_three__signs_maximise():
    rng = np.random.default_rng(8)
    columns = list(rng.random((3, 4000)))
    found, _ = kept(columns, (1, -1, -1))
    assert found.tolist() == front([columns[0], -columns[1], -columns[2]]).tolist()


def test_front_of_three__few_points_are_gathered_in_vain():
    """A settled front tells of nearly every other point that it is beaten."""
    rng = np.random.default_rng(9)
    columns = sphere(rng, 4000)
    _, state = kept(columns, room=1 << 14)
    size = int(state.held[0])
    behind = tuple(np.tile(column, 2) + 0.1 * rng.random(8000) for column in columns)
    given = state.arguments("front_of_three")
    assert take_front_of_three(given, tuple(c[:TILE] for c in behind), 5000, np.arange(TILE), 0, 0)
    gathered = int(state.held[0]) - size
    assert size > 3900 and 0 < gathered < 0.2 * TILE
