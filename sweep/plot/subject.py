"""What one picture is about: the selected results of one kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sweep.errors import QueryError
from sweep.fields import PROBLEM
from sweep.plot import draw
from sweep.query import Answer, Row, best
from sweep.query.question import ask


class Axis(NamedTuple):
    """One axis of a picture: the grid's dimension, its values and how they are shown."""

    dim: str
    keys: list[Any]
    shown: list[Any]
    label: str


class Subject:
    """The selected results of one kernel.

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
        select: Mapping[str, Any] | None,
        where: str | None,
        single: Sequence[str] = (),
    ) -> None:
        parts = ask(data, objectives, senses, (), where, select).parts
        self.data, self.part, self.grid, self.where = data, parts[0], parts[0].grid, where
        self.select = {**(select or {}), "kernel": self.grid.kernel}
        choices = {"kernel": [part.grid.kernel for part in parts]}
        choices |= {dim: self.selected(dim) for dim in single}
        several = {kind: [*map(str, values)] for kind, values in choices.items() if values[1:]}
        if several:
            lists = (f"one {kind}: select one of {', '.join(v)}" for kind, v in several.items())
            example = " ".join(f"{kind}={values[0]}" for kind, values in several.items())
            raise QueryError(f"{picture} shows {'; '.join(lists)} (such as {example})")

    def selected(self, dim: str) -> list[Any]:
        """Return the selected values of a dimension, or the scalar coordinate's."""
        if dim in self.grid.axes:
            return self.part.labels(dim)
        if dim in self.grid.listed:  # of the selected problems, each value once
            chosen = self.part.selection.indices[PROBLEM]
            return np.unique(self.grid.coordinates[dim].values[chosen]).tolist()
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
        """Return the dimensions with several selected values, except for some."""
        return [d for d in self.grid.axes if d not in without and len(self.selected(d)) > 1]

    def axis(self, name: str) -> Axis:
        """Return an axis; a clock in MHz may stand for the ratio that is the dimension.

        Raises
        ------
        QueryError
            There is no such dimension; the message lists them.
        """
        grid = self.grid
        dim = name if name in (*grid.axes, *grid.listed) else f"{name}_ratio"
        if dim not in (*grid.axes, *grid.listed):
            known = ", ".join((*grid.axes, *grid.listed))
            raise QueryError(f"'{name}' is no dimension of kernel '{grid.kernel}' (known: {known})")
        keys = shown = self.selected(dim)
        if dim != name:
            coordinate = grid.coordinates[name]
            index = (self.part.selection.indices[d] for d in coordinate.dims)
            shown = coordinate.values[np.ix_(*index)].reshape(-1, len(keys))[0].tolist()
        return Axis(dim, keys, shown, self.label(name))

    def label(self, name: str, unit: str | None = None, width: int = 48) -> str:
        """Return the label of an axis that shows a variable or a coordinate."""
        return draw.label(self.grid.long_name(name), unit or self.grid.units(name), width)

    def best(self, objective: str, by: Sequence[str], **options: Any) -> Answer:
        """Return the best selected configuration of every group (see :func:`sweep.query.best`)."""
        options = {"select": self.select, **options}
        return best(self.data, objective, by=by, where=self.where, **options)

    def coordinates(self, row: Row, dims: Sequence[str]) -> list[str]:
        """Return coordinates of a row in words; a clock in MHz where the dimension is a ratio."""
        texts = []
        for dim in dims:
            clock = dim.removesuffix("_ratio")
            name = clock if row.get(clock) is not None else dim
            if row.get(name) is not None:
                unit = self.grid.units(name)
                units = [] if unit in ("", "1") else [unit]
                texts.append(draw.TIED.join([name, *draw.ticks([row[name]]), *units]))
        return texts
