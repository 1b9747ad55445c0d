"""Tables laid out for compiled passes: contiguous rows with strides."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sweep.compiler.passes import input_names
from sweep.evaluation import limits
from sweep.evaluation.tables import Index, restrict, sequence_length
from sweep.models.base import Model
from sweep.models.workload import Array

__all__ = ["Packed", "Packer", "form_of"]


class Row(NamedTuple):
    """A table as a pass reads it, its stride along the outer axes, and what it depends on.

    ``is_spread`` says whether it has a number for each point of the inner loop.
    """

    numbers: Array
    stride: list[int]
    is_spread: bool
    key: tuple[Any, ...]


@dataclass(frozen=True)
class Packed:
    """A pass's inputs: tables as contiguous rows, their strides, and the loops over them.

    ``varying`` are the inputs of the form ``sizes`` that are read along the inner loop.
    """

    form: str
    length: int
    tables: tuple[Array, ...]
    stride: Any
    shape: Any
    n_inner: int
    n_rows: int
    varying: tuple[str, ...]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What a pass takes before its output arrays."""
        return self.tables, self.stride, self.shape, self.n_inner


class Packer:
    """Lays out a model's tables; a row that does not depend on where a box has moved is kept."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._rows: dict[str, Row] = {}

    def __call__(
        self,
        inputs: Mapping[str, Array],
        index: Index,
        at: Index | None = None,
        form: str | None = None,
        spread: Collection[str] = (),
    ) -> Packed:
        """Lay out a part of tables for a pass.

        A table keeps length 1 along what it does not depend on (stride 0). Only along the inner
        loop's axes is it spread out, so that the loop reads contiguous rows.

        Parameters
        ----------
        inputs : mapping
            Every input of the model's pass over a box.
        index : tuple of slice
            The part of the box, clocks included.
        at : tuple of slice, optional
            The same part as slices of the grid; by default the box is the only one.
        form : str, optional
            Form of the pass; follows from the shape by default.
        spread : collection of str
            Inputs that are spread out in the form ``sizes`` even if they are constant.
        """
        at = at or index
        shape = tuple(part.stop - part.start for part in index)
        length = sequence_length(inputs, self.model)
        launch_names, clock_names = input_names(self.model, length)
        form = form or form_of(shape)
        n_outer = _outer_axes(shape, form)
        inner = shape[n_outer:]
        rows: dict[str, Row] = {}
        for name in launch_names + clock_names:
            table = inputs[name]
            is_spread = form == "rows" or name in clock_names
            if form == "sizes":
                is_spread = name in spread or any(
                    extent > 1 < n for extent, n in zip(table.shape[n_outer:], inner, strict=True)
                )
            # Along an axis of one place nothing shows whether the table depends on it.
            places = [
                None if extent == 1 < n else (part.start, part.stop)
                for extent, n, part in zip(table.shape, shape, at, strict=True)
            ]
            key = (form, n_outer, inner if is_spread else None, places)
            kept = self._rows.get(name)
            if kept is None or kept.key != key:
                if not is_spread and math.prod(table.shape[n_outer:]) != 1:
                    raise AssertionError(f"{self.model.name}: input {name} depends on the clocks")
                kept = _row(table[restrict(table, index)], n_outer, inner, is_spread, key)
            rows[name] = kept
        self._rows = rows
        return Packed(
            form=form,
            length=length,
            tables=tuple(row.numbers for row in rows.values()),
            stride=np.array([row.stride for row in rows.values()], dtype=np.int64).reshape(
                len(rows), n_outer
            ),
            shape=np.array(shape[:n_outer], dtype=np.int64),
            n_inner=math.prod(inner),
            n_rows=math.prod(shape[:n_outer]),
            varying=tuple(n for n, row in rows.items() if form == "sizes" and row.is_spread),
        )


def _row(
    table: Array, n_outer: int, inner: tuple[int, ...], is_spread: bool, key: tuple[Any, ...]
) -> Row:
    if is_spread:
        table = np.broadcast_to(table, table.shape[:n_outer] + inner)
    stride = []
    step = math.prod(inner) if is_spread else 1
    for extent in reversed(table.shape[:n_outer]):
        stride.append(0 if extent == 1 else step)
        step *= extent
    numbers = np.ascontiguousarray(table, dtype=np.float64).reshape(-1)
    numbers.flags.writeable = False  # some are, as broadcast: one type, one compilation
    return Row(numbers, stride[::-1], is_spread, key)


def form_of(shape: tuple[int, ...]) -> str:
    """Return the form of the pass over a box of the given shape (clocks included)."""
    return "clocks" if shape[-2] * shape[-1] >= limits.CLOCKS_FORM else "rows"


def _outer_axes(shape: tuple[int, ...], form: str) -> int:
    """Return the number of axes outside the inner loop."""
    if form == "clocks":
        return len(shape) - 2
    if form == "sizes":
        return len(shape) - 3
    n_outer, n_inner = len(shape), 1
    while n_outer > 0 and (
        n_inner < limits.SHORT_ROW or n_inner * shape[n_outer - 1] <= limits.ROW
    ):
        n_outer -= 1
        n_inner *= shape[n_outer]
    return n_outer
