"""The front that a reducing pass gathers, against that of all points at once."""

import numpy as np
import pytest

from sweep.compiler import reductions
from sweep.compiler.reductions import TILE, Front, gathering, take_front
from sweep.fronts import front


def kept(columns, signs=(1, 1, 1), tile=2048, order=None):
    """Return the positions of the front, of tiles that come in some order."""
    signs = signs[: len(columns)]
    state = Front(signs, columns[0].dtype, gathering(columns[0].dtype))
    inner = np.arange(columns[0].size)
    starts = range(0, columns[0].size, tile)
    for at in starts if order is None else order(list(starts)):
        rows = tuple(column[at : at + tile] for column in columns)
        while not take_front(state.arguments, rows, 0, inner, at, order is not None):
            state.make_room()
    state.make_room()
    return np.sort(state.positions), state


def sphere(rng, n):
    points = np.abs(rng.normal(size=(3, n)))
    return list(1.0 - points / np.linalg.norm(points, axis=0))


CASES = {
    "random": lambda rng, n: list(rng.random((3, n))),
    "all on the front": sphere,
    "two of few values": lambda rng, n: [
        rng.random(n), rng.integers(0, 4, n) / 4, rng.integers(0, 3, n) / 8],
    "the first of few values": lambda rng, n: [rng.integers(0, 3, n) / 2, *rng.random((2, n))],
    "equal points": lambda rng, n: list(rng.integers(0, 12, (3, n)) / 16),
    "one staircase, downwards": lambda rng, n: [sign * np.arange(n, dtype=float)
                                                for sign in (1, -1, 1)],
    "the last beats all": lambda rng, n: [np.arange(n, 0, -1.0)] * 3,
}  # fmt: skip


@pytest.mark.parametrize("objectives", [2, 3])
@pytest.mark.parametrize("order", [None, lambda starts: starts[::-1]], ids=["rising", "falling"])
@pytest.mark.parametrize("case", CASES)
def test_take_front__is_the_front(case, order, objectives, monkeypatch):
    monkeypatch.setattr(reductions, "ROOM", TILE)
    rng = np.random.default_rng(list(CASES).index(case))
    for dtype in (np.float32, np.float64):
        columns = [column.astype(dtype) for column in CASES[case](rng, 12_000)][:objectives]
        found, _ = kept(columns, order=order)
        assert found.tolist() == front(columns).tolist()


def test_take_front__nan_is_nothing_and_infinity_a_number():
    rng = np.random.default_rng(7)
    columns = [rng.choice([0.0, 1.0, 2.0, np.inf, -np.inf, np.nan], 3000) for _ in range(3)]
    for part in (slice(None), slice(0, 40), slice(5, 6), slice(0, 0)):
        some = [column[part] for column in columns]
        assert kept(some, tile=100)[0].tolist() == front(some).tolist()
    infinite = [np.full(100, np.inf)] * 3
    assert kept(infinite)[0].tolist() == [0]


def test_take_front__signs_maximise():
    rng = np.random.default_rng(8)
    columns = list(rng.random((3, 4000)))
    found, _ = kept(columns, (1, -1, -1))
    assert found.tolist() == front([columns[0], -columns[1], -columns[2]]).tolist()


def test_take_front__few_points_are_gathered_in_vain():
    """A front recognises nearly every point that it beats."""
    rng = np.random.default_rng(9)
    columns = sphere(rng, 4000)
    _, state = kept(columns)
    size = state.positions.size
    behind = tuple(np.tile(column, 2)[:TILE] + 0.1 * rng.random(TILE) for column in columns)
    assert take_front(state.arguments, behind, 5000, np.arange(TILE), 0, False)
    gathered = int(state.arguments[7][0])
    assert size > 3900 and 0 < gathered < 0.2 * TILE
