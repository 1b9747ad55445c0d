"""What one picture is about: one kernel's results, as far as they are selected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.plot import draw
from sweep.query import Answer, Row, best
from sweep.query.grid import Grid
from sweep.query.question import ask


@dataclass(frozen=True)
class Axis:
    """One axis of a picture: the grid's dimension and how its values are shown."""

    name: str
    dim: str
    keys: list[Any]
    shown: list[Any]
    label: str


class Subject:
    """One kernel's results, as far as they are selected.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    picture : str
        What is drawn, for messages: ``"a heat map"``.
    objectives, senses : sequence of str
        What the picture needs.
    select, where
        As in :func:`sweep.query.best`.
    single : sequence of str
        Dimensions of which one value must be selected.

    Raises
    ------
    QueryError
        Several kernels, or several values of such a dimension, are selected; the message lists
        them.
    """

    def __init__(
        self,
        data: Any,
        picture: str,
        objectives: Sequence[str],
        senses: Sequence[str],
        *,
        select: Mapping[str, Any] | None,
        where: str | None,
        single: Sequence[str] = (),
    ) -> None:
        parts = ask(data, objectives, senses, (), where, select).parts
        if len(parts) > 1:
            names = ", ".join(part.grid.kernel for part in parts)
            raise QueryError(f"{picture} shows one kernel: select one of {names}")
        self.data = data
        self.part = parts[0]
        self.grid: Grid = self.part.grid
        self.select = {**(select or {}), "kernel": self.grid.kernel}
        self.where = where
        for dim in single:
            if len(self.selected(dim)) > 1:
                names = ", ".join(map(str, self.selected(dim)))
                raise QueryError(f"{picture} shows one {dim}: select one of {names}")

    def selected(self, dim: str) -> list[Any]:
        """Return the selected values of a dimension, or the scalar coordinate's."""
        if dim in self.grid.axes:
            return self.grid.axis_values(dim)[self.part.places(dim)].tolist()
        coordinate = self.grid.coordinates.get(dim)
        if coordinate is None or coordinate.values.ndim:
            return []
        return [coordinate.values.item()]

    @property
    def model(self) -> str | None:
        """The model, if there is a single one."""
        models = self.selected("model")
        return models[0] if len(models) == 1 else None

    def place(self, without: Sequence[str] = ()) -> str:
        """Return kernel, device and model for a title."""
        parts = [self.grid.kernel]
        for dim, text in (("device", "on {}"), ("model", "({})")):
            values = [] if dim in without else self.selected(dim)
            if len(values) == 1:
                parts.append(text.format(values[0]))
        return " ".join(parts)

    def varied(self, *without: str) -> list[str]:
        """Return the dimensions with several selected values, but for some."""
        dims = (dim for dim in self.grid.axes if dim not in without)
        return [dim for dim in dims if len(self.selected(dim)) > 1]

    def axis(self, name: str) -> Axis:
        """Return an axis; a clock in MHz may stand for the ratio that is the dimension.

        Raises
        ------
        QueryError
            There is no such dimension; the message lists them.
        """
        grid = self.grid
        dim = name if name in grid.axes else f"{name}_ratio"
        if dim not in grid.axes:
            known = ", ".join(grid.axes)
            raise QueryError(f"'{name}' is no dimension of kernel '{grid.kernel}' (known: {known})")
        keys = self.selected(dim)
        shown = keys
        if dim != name:
            coordinate = grid.coordinates[name]
            index = (self.part.selection.indices[d] for d in coordinate.dims)
            shown = coordinate.values[np.ix_(*index)].reshape(-1, len(keys))[0].tolist()
        return Axis(name, dim, keys, shown, self.label(name))

    def label(self, name: str, unit: str | None = None, width: int = 48) -> str:
        """Return the label of an axis that shows a variable or a coordinate."""
        return draw.label(self.grid.long_name(name), unit or self.grid.units(name), width)

    def best(
        self,
        objective: str,
        by: Sequence[str],
        sense: str = "min",
        include: Sequence[str] = (),
        **select: Any,
    ) -> Answer:
        """Return the best configuration of every group, of what is selected."""
        narrowed = self.select | select
        return best(
            self.data, objective, by=by, sense=sense, select=narrowed, where=self.where,
            include=include,
        )  # fmt: skip

    def spelt(self, row: Row, dims: Sequence[str]) -> list[str]:
        """Return coordinates of a row in words; a clock in MHz where the dimension is a ratio."""
        found = []
        for dim in dims:
            clock = dim.removesuffix("_ratio")
            name = clock if row.get(clock) is not None else dim
            if row.get(name) is not None:
                unit = self.grid.units(name)
                (text,) = draw.ticks([row[name]])
                words = [name, text] if unit in ("", "1") else [name, text, unit]
                found.append(draw.TIED.join(words))
        return found
