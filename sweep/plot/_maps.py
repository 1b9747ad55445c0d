"""The best over everything else for each pair of two axes, and how to draw such a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, LogNorm
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.fields import COMMON_FIELDS
from sweep.plot._figure import (
    INVALID,
    LEAST_SPAN,
    TIED,
    log_ticks,
    norm_of,
    regime_colours,
    regime_label,
    set_ticks,
    spell,
    ticks,
)
from sweep.plot._legend import invalid_patch, label, remark
from sweep.plot._regions import borders, innermost, run_length
from sweep.query import Row, best
from sweep.query.answer import scaled
from sweep.query.grid import Grid
from sweep.query.kernel_part import KernelPart
from sweep.query.question import lay_out

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Axis",
    "Map",
    "axis_of",
    "best_map",
    "draw_map",
    "one_kernel",
    "over_dims",
    "where_we_are",
]

Array = NDArray[Any]

MAX_CELLS = 200_000
POINTS_PER_CHARACTER = 5.6  # of a label's text, its box included


@dataclass(frozen=True)
class Axis:
    """One axis of a picture: the grid's dimension and how its values are shown."""

    name: str
    dim: str
    keys: list[Any]
    shown: list[Any]
    label: str


@dataclass(frozen=True)
class Map:
    """The best value in each cell: arrays of shape (y, x), NaN where there is none.

    ``statuses`` and ``regimes`` are words, empty where there is no answer; ``row`` is that of
    the best cell.
    """

    x: Axis
    y: Axis
    variable: str
    sense: str
    values: Array
    statuses: Array
    regimes: Array
    best: tuple[int, int] | None
    row: Row | None


def one_kernel(
    data: Any,
    objectives: Sequence[str],
    senses: Sequence[str],
    *,
    select: Mapping[str, Any] | None,
    where: Any,
    single: Sequence[str],
    what: str,
) -> KernelPart:
    """Return the question's only part, with a single value of each dimension in ``single``.

    Raises
    ------
    QueryError
        Several kernels, or several values of such a dimension, are selected; the message lists
        them.
    """
    parts = lay_out(data, objectives, senses, (), where, select).parts
    if len(parts) > 1:
        names = ", ".join(part.grid.kernel for part in parts)
        raise QueryError(f"{what} shows one kernel: select one of {names}")
    (part,) = parts
    for dim in single:
        if dim in part.grid.axes and len(selected(part, dim)) > 1:
            names = ", ".join(map(str, selected(part, dim)))
            raise QueryError(f"{what} shows one {dim}: select one of {names}")
    return part


def selected(part: KernelPart, dim: str) -> list[Any]:
    """Return the selected values of a dimension, or the scalar coordinate's."""
    coordinate = part.grid.coordinates.get(dim)
    if coordinate is None:
        return []
    if dim in part.grid.axes:
        return part.grid.axis_values(dim)[part.grouping.places(dim)].tolist()
    return [coordinate.values.item()] if coordinate.values.ndim == 0 else []


def axis_of(part: KernelPart, name: str) -> Axis:
    """Return an axis; a clock in MHz may stand for the ratio that is the dimension.

    Raises
    ------
    QueryError
        There is no such dimension; the message lists them.
    """
    grid = part.grid
    dim = name if name in grid.axes else f"{name}_ratio"
    if dim not in grid.axes:
        known = ", ".join(grid.axes)
        raise QueryError(f"'{name}' is no dimension of kernel '{grid.kernel}' (known: {known})")
    keys = selected(part, dim)
    shown = keys
    if dim != name:
        coordinate = grid.coordinates[name]
        index = tuple(part.selection.indices[d] for d in coordinate.dims)
        values = coordinate.values[np.ix_(*index)].reshape(-1, len(keys))
        shown = values[0].tolist()
    return Axis(name, dim, keys, shown, label(grid.long_name(name), grid.units(name)))


def where_we_are(part: KernelPart, without: Sequence[str] = ()) -> str:
    """Return kernel, device and model for a title."""
    parts = [part.grid.kernel]
    for dim, text in (("device", "on {}"), ("model", "({})")):
        values = [] if dim in without else selected(part, dim)
        if len(values) == 1:
            parts.append(text.format(values[0]))
    return " ".join(parts)


def over_dims(part: KernelPart, without: Sequence[str]) -> list[str]:
    """Return the dimensions with several selected values that are not shown."""
    return [dim for dim in part.grid.axes if dim not in without and len(selected(part, dim)) > 1]


def best_map(
    data: Any,
    part: KernelPart,
    x: Axis,
    y: Axis,
    *,
    variable: str,
    sense: str,
    select: Mapping[str, Any] | None,
    where: Any,
) -> Map:
    """Return the best of ``variable`` over everything but two axes.

    Raises
    ------
    QueryError
        Both axes are the same, or there would be more cells than a picture shows.
    """
    if x.dim == y.dim:
        raise QueryError(f"a map needs two different axes, not '{x.name}' twice")
    shape = (len(y.keys), len(x.keys))
    if shape[0] * shape[1] > MAX_CELLS:
        raise QueryError(f"{shape[0]} x {shape[1]} cells are more than a map shows: select fewer")
    narrowed = {**(select or {}), "kernel": part.grid.kernel}
    answer = best(data, variable, by=(y.dim, x.dim), sense=sense, select=narrowed, where=where)
    place_x = {key: i for i, key in enumerate(x.keys)}
    place_y = {key: i for i, key in enumerate(y.keys)}
    statuses, regimes = np.full(shape, "", object), np.full(shape, "", object)
    values = np.full(shape, np.nan)
    owner = np.full(shape, -1)
    name = part.grid.resolve(variable)
    for i, row in enumerate(answer):
        cell = place_y[row[y.dim]], place_x[row[x.dim]]
        owner[cell], statuses[cell], regimes[cell] = i, row["status"], row.get("regime") or ""
        if row[name] is not None:
            values[cell] = row[name]
    found, chosen = None, None
    if not np.isnan(values).all():
        flat = np.nanargmin(values) if sense == "min" else np.nanargmax(values)
        at = np.unravel_index(flat, shape)
        found, chosen = (int(at[0]), int(at[1])), answer[int(owner[at])]
    return Map(x, y, name, sense, values, statuses, regimes, found, chosen)


def draw_map(
    axes: Axes, found: Map, grid: Grid, model: str | None, over: Sequence[str] = ()
) -> list[Any]:
    """Draw a map with its colour bar, regime borders and optimum; return the legend's entries.

    ``over`` names the dimensions that each cell is the best of; the optimum's are spelt out.
    """
    factor, unit = scaled(
        found.values[np.isfinite(found.values)].tolist(), grid.units(found.variable)
    )
    values = np.ma.masked_invalid(found.values / factor)
    mesh = axes.pcolormesh(
        np.arange(values.shape[1] + 1) - 0.5,
        np.arange(values.shape[0] + 1) - 0.5,
        values,
        norm=norm_of(found.values / factor),
        cmap="viridis_r" if found.sense == "min" else "viridis",  # the best is bright
        rasterized=values.size > 5000,
    )
    for axis, of in (("x", found.x), ("y", found.y)):
        set_ticks(axes, axis, of.shown)
        getattr(axes, f"set_{axis}label")(of.label)
    axes.spines[:].set_visible(False)
    handles: list[Any] = []
    if found.best is None:
        text = f"no configuration has a valid {found.variable.replace('_', ' ')}"
        box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": "#8c8c8c"}
        middle = [(n - 1) / 2 for n in found.values.shape]
        axes.text(middle[1], middle[0], text, ha="center", va="center", bbox=box, zorder=5)
    else:
        text = label(grid.long_name(found.variable), unit)
        bar = axes.figure.colorbar(mesh, ax=axes, label=text, pad=0.02)
        if isinstance(mesh.norm, LogNorm):
            log_ticks(bar.ax.yaxis)
    if _has_regimes(found.variable):
        handles += _draw_regimes(axes, found, regime_colours(grid, model), model)
    if found.best is not None:
        handles.insert(0, _draw_best(axes, found, grid, over))
        handles[1:1] = _flatness(found)
    return handles + _draw_invalid(axes, found)


def _flatness(found: Map) -> list[Line2D]:
    """Return a remark where the cells differ too little for colours."""
    best = found.values[found.best]
    spread = np.nanmax(np.abs(found.values - best))
    if found.values.size < 2 or spread >= LEAST_SPAN * abs(best):
        return []
    if spread == 0:
        return [remark("all valid cells are equal")]
    return [remark(f"all valid cells are within {100 * spread / abs(best):.1g} % of the best")]


def spelt(row: Mapping[str, Any], dim: str, grid: Grid) -> str:
    """Return one coordinate of a row in words; a clock in MHz where the dimension is a ratio."""
    name = dim.removesuffix("_ratio") if row.get(dim.removesuffix("_ratio")) is not None else dim
    unit = grid.units(name)
    (text,) = ticks([row[name]])
    return f"{name}{TIED}{text}" + ("" if unit in ("", "1") else f"{TIED}{unit}")


def _has_regimes(variable: str) -> bool:
    """Return whether a variable depends on the model's case: the occupancy, say, does not."""
    return variable not in COMMON_FIELDS or COMMON_FIELDS[variable].depends == "model"


def _draw_best(axes: Axes, found: Map, grid: Grid, over: Sequence[str]) -> Line2D:
    assert found.best is not None and found.row is not None
    look: dict[str, Any] = {
        "marker": "*",
        "markersize": 13,
        "markerfacecolor": "white",
        "markeredgecolor": "black",
        "linestyle": "none",
    }
    axes.plot(found.best[1], found.best[0], **look, clip_on=False, zorder=6)
    value = spell(found.values[found.best], grid.units(found.variable))
    row = found.row
    named = [d for d in (found.x.dim, found.y.dim, *over) if row.get(d) is not None]
    text = f"best: {value} at {', '.join(spelt(row, d, grid) for d in named)}"
    return Line2D([], [], **(look | {"markersize": 11}), label=text)


def _draw_invalid(axes: Axes, found: Map) -> list[Any]:
    """Hatch the cells without a valid configuration."""
    invalid = (found.statuses != "valid") & (found.statuses != "")
    if not invalid.any():
        return []
    ny, nx = invalid.shape
    axes.pcolor(
        np.arange(nx + 1) - 0.5,
        np.arange(ny + 1) - 0.5,
        np.ma.masked_array(np.zeros(invalid.shape), ~invalid),
        cmap=ListedColormap([INVALID["facecolor"]]),
        hatch=INVALID["hatch"],
        edgecolor=INVALID["edgecolor"],
        linewidth=0.0,
    )
    return [invalid_patch([str(status) for status in found.statuses[invalid]])]


def _draw_regimes(
    axes: Axes, found: Map, colours: Mapping[str, str], model: str | None
) -> list[Any]:
    """Draw borders where the regime changes and name the regimes; small ones in the legend."""
    names = np.where(found.regimes == "", "none", found.regimes)
    present = [name for name in colours if (names == name).any()]
    if not present:
        return []
    codes = np.select([names == name for name in present], range(1, len(present) + 1), 0)
    for width, colour in ((3.2, "white"), (1.3, "black")):
        axes.add_collection(LineCollection(list(borders(codes)), colors=colour, linewidths=width))
    if len(present) == 1:
        text = f"regime {regime_label(present[0], model)} everywhere"
        return [remark(text)]
    handles = []
    figure: Any = axes.figure
    cell = axes.get_position().width * figure.get_figwidth() * 72 / codes.shape[1]
    tags = iter("abcdefghijklmnopqrstuvwxyz")
    for code, name in enumerate(present, 1):
        row, column = innermost(codes == code)
        text = regime_label(name, model)
        room = run_length(codes == code, row, column) * cell * 0.8
        if len(text) * POINTS_PER_CHARACTER > room:
            tag = next(tags)
            handles.append(Line2D([], [], linestyle="none", marker=f"${tag}$", color="black"))
            handles[-1].set_label(f"regime {text}")
            text = tag
        axes.text(
            column,
            row,
            text,
            ha="center",
            va="center",
            fontweight="bold",
            color=_readable(colours[name]),
            bbox={"boxstyle": "round,pad=0.25", "facecolor": colours[name], "edgecolor": "white"},
            zorder=5,
        )
    return handles


def _readable(colour: str) -> str:
    """Return black or white, whichever is read better on a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"
