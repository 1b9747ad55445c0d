"""What a reducing pass writes to, from one block of a grid to the next, and what is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sweep.compiler.front_of_three import LEVELS, settle
from sweep.compiler.passes import TILE

__all__ = ["Counts", "Kept", "Key", "Least", "State"]

Array = np.ndarray[Any, Any]
CODES = 256
Key = tuple[int, ...]
"""A group: along each dimension of ``by`` the number of the selected value."""


@dataclass
class State:
    """What a pass writes to: columns ascending or in no order, and how many there are.

    ``steps`` is what a front of three objectives has besides (see :mod:`._front_of_three`).
    """

    columns: Array
    positions: Array
    held: Array
    signs: Array
    alive: Array
    steps: tuple[Array, ...] = ()

    @classmethod
    def empty(cls, signs: tuple[int, ...], dtype: np.dtype[Any], room: int) -> State:
        """Return a state in which nothing was seen, for objectives of these signs."""
        steps: tuple[Array, ...] = ()
        if len(signs) == 3:
            steps = (*(np.full((n, room), np.nan, dtype) for n in (1, LEVELS)),
                     np.full(LEVELS, np.nan, dtype))  # fmt: skip
        return cls(
            np.full((len(signs), room), np.inf, dtype),
            np.full(room, -1, np.int64),
            np.zeros(2, np.int64),
            np.array(signs, dtype),
            np.empty(TILE, np.bool_),
            steps,
        )

    def grown(self) -> State:
        """Return the same with twice the room."""
        columns = np.concatenate([self.columns, np.full_like(self.columns, np.inf)], axis=1)
        positions = np.concatenate([self.positions, np.full_like(self.positions, -1)])
        steps = (*(np.tile(table, 2) for table in self.steps[:2]), *self.steps[2:])
        return replace(self, columns=columns, positions=positions, steps=steps)

    def settle(self) -> None:
        """Leave only the points of a front of three objectives; any other is one at any time."""
        if self.steps:
            settle(self.columns, self.positions, self.held, *self.steps)

    def arguments(self, keeps: str) -> tuple[Array, ...]:
        """Return what a pass writes to."""
        if keeps == "least_of_each":
            return self.columns[0], self.columns[1], self.positions, self.signs
        if keeps == "smallest":
            return self.columns[0], self.positions, self.held, self.signs
        return self.columns, self.positions, self.held, self.signs, self.alive, *self.steps


@dataclass
class Counts:
    """How often a pass saw each code of each variable, or how many values are in each bin.

    ``counts`` has a line for each variable: of 256 codes, or of the bins between ``cuts`` with
    those below and above before and behind them and NaN at the end. ``cuts`` are filled up with
    infinity to a power of two; ``place`` is the memory of a tile.
    """

    counts: Array
    cuts: Array
    place: Array

    @classmethod
    def empty(cls, variables: int, cuts: tuple[float, ...] | None) -> Counts:
        """Return a state that has seen nothing."""
        if cuts is None:
            return cls(np.zeros((variables, CODES), np.int64), np.empty(0), np.empty(0, np.int64))
        size = 1 << len(cuts).bit_length()
        filled = np.full(size, np.inf)
        filled[: len(cuts)] = cuts
        shape = variables, len(cuts) + 2
        return cls(np.zeros(shape, np.int64), filled, np.empty(TILE, np.int64))

    def arguments(self, keeps: str) -> tuple[Array, ...]:
        """Return what a pass writes to."""
        return (self.counts,) if keeps == "counts" else (self.counts, self.cuts, self.place)

    def grown(self) -> Counts:
        """Refuse: counts never need more room."""
        raise AssertionError("a pass that counts has room for everything")


@dataclass(frozen=True)
class Kept:
    """What is left of a group.

    Attributes
    ----------
    columns : tuple of ndarray
        Per objective, negated where it is maximised.
    positions : ndarray of int
        In the whole grid, ``model`` first.
    """

    columns: tuple[Array, ...]
    positions: Array


@dataclass(frozen=True)
class Least:
    """The smallest of each pair of clocks.

    Attributes
    ----------
    key : tuple of int
        The group, but for the clocks.
    value, runner_up : ndarray
        Negated where they are maximised; NaN where there is none; over the clocks.
    positions : ndarray of int
        In the whole grid, ``model`` first.
    """

    key: Key
    value: Array
    runner_up: Array
    positions: Array
