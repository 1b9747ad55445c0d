"""The best over everything else for each pair of two axes, and how to draw such a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, LogNorm
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.fields import COMMON_FIELDS
from sweep.plot import draw
from sweep.plot.subject import Axis, Subject
from sweep.query import Row
from sweep.query.answer import scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Array = NDArray[Any]

MAX_CELLS = 200_000
POINTS_PER_CHARACTER = 5.6  # of a label's text, its box included
BEST = draw.STAR | {"mec": "black"}


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
    best: tuple[int, int] | None = None
    row: Row | None = None


def best_map(subject: Subject, x: Axis, y: Axis, variable: str, sense: str = "min") -> Map:
    """Return the best of a variable over everything but two axes.

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
    answer = subject.best(variable, (y.dim, x.dim), sense)
    rows = np.full(shape, None, object)
    for row in answer:
        rows[y.keys.index(row[y.dim]), x.keys.index(row[x.dim])] = row
    name = subject.grid.resolve(variable)
    asked = [row or {} for row in rows.flat]
    values = np.array([row.get(name) for row in asked], float).reshape(shape)
    statuses, regimes = (
        np.array([row.get(key) or "" for row in asked], object).reshape(shape)
        for key in ("status", "regime")
    )
    if np.isnan(values).all():
        return Map(x, y, name, sense, values, statuses, regimes)
    at = divmod(int(np.nanargmin(values) if sense == "min" else np.nanargmax(values)), shape[1])
    return Map(x, y, name, sense, values, statuses, regimes, at, rows[at])


def draw_map(axes: Axes, found: Map, subject: Subject, over: Sequence[str]) -> list[Any]:
    """Draw a map with its colour bar, regime borders and optimum; return the legend's entries.

    ``over`` names the dimensions that each cell is the best of; the optimum's are spelt out.
    """
    grid = subject.grid
    finite = found.values[np.isfinite(found.values)].tolist()
    factor, unit = scaled(finite, grid.units(found.variable))
    values = np.ma.masked_invalid(found.values / factor)
    mesh = axes.pcolormesh(
        *_edges(values),
        values,
        norm=draw.norm_of(found.values / factor),
        cmap="viridis_r" if found.sense == "min" else "viridis",  # the best is bright
        rasterized=values.size > 5000,
    )
    for name, axis in (("x", found.x), ("y", found.y)):
        draw.set_ticks(axes, name, axis.shown)
        getattr(axes, f"set_{name}label")(axis.label)
    axes.spines[:].set_visible(False)
    if finite:
        text = subject.label(found.variable, unit)
        bar = axes.figure.colorbar(mesh, ax=axes, label=text, pad=0.02)
        if isinstance(mesh.norm, LogNorm):
            draw.log_ticks(bar.ax.yaxis)
    else:
        box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": draw.GREY}
        y, x = ((n - 1) / 2 for n in values.shape)
        text = f"no configuration has a valid {draw.words(found.variable)}"
        axes.text(x, y, text, ha="center", va="center", bbox=box, zorder=5)
    handles: list[Any] = []
    # The occupancy, say, does not depend on the model's case.
    field = COMMON_FIELDS.get(found.variable)
    regimes = _draw_regimes(axes, found, subject) if not field or field.depends == "model" else []
    if found.best is not None and found.row is not None:
        axes.plot(found.best[1], found.best[0], **BEST, ms=13, clip_on=False, zorder=6)
        value = draw.quantity(found.values[found.best], grid.units(found.variable))
        at = ", ".join(subject.spelt(found.row, (found.x.dim, found.y.dim, *over)))
        handles = [draw.entry(f"best: {value} at {at}", **BEST, ms=11), *_flatness(found)]
    return [*handles, *regimes, *_draw_invalid(axes, found)]


def _edges(cells: Array) -> tuple[Array, Array]:
    """Return the edges of cells whose centres are 0, 1, 2, ... along x and along y."""
    rows, columns = cells.shape
    return np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5


def _flatness(found: Map) -> list[Line2D]:
    """Return a remark where the cells differ too little for colours."""
    best = found.values[found.best]
    spread = np.nanmax(np.abs(found.values - best))
    if found.values.size < 2 or spread >= draw.LEAST_SPAN * abs(best):
        return []
    if spread == 0:
        return [draw.entry("all valid cells are equal")]
    return [draw.entry(f"all valid cells are within {100 * spread / abs(best):.1g} % of the best")]


def _draw_invalid(axes: Axes, found: Map) -> list[Any]:
    """Hatch the cells without a valid configuration."""
    invalid = (found.statuses != "valid") & (found.statuses != "")
    if not invalid.any():
        return []
    axes.pcolor(
        *_edges(invalid),
        np.ma.masked_array(np.zeros(invalid.shape), ~invalid),
        cmap=ListedColormap([draw.INVALID["facecolor"]]),
        hatch=draw.INVALID["hatch"],
        edgecolor=draw.INVALID["edgecolor"],
        linewidth=0.0,
    )
    return [draw.invalid_patch([str(status) for status in found.statuses[invalid]])]


def _draw_regimes(axes: Axes, found: Map, subject: Subject) -> list[Line2D]:
    """Draw borders where the regime changes and name the regimes; small ones in the legend."""
    colours = _regime_colours(subject)
    present = [name for name in colours if (found.regimes == name).any()]
    if not present:
        return []
    codes = sum(code * (found.regimes == name) for code, name in enumerate(present, 1))
    for width, colour in ((3.2, "white"), (1.3, "black")):
        axes.add_collection(LineCollection(list(borders(codes)), colors=colour, linewidths=width))
    if len(present) == 1:
        return [draw.entry(f"regime {draw.regime_label(present[0], subject.model)} everywhere")]
    handles = []
    figure: Any = axes.figure
    cell = axes.get_position().width * figure.get_figwidth() * 72 / codes.shape[1]
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for code, name in enumerate(present, 1):
        row, column = innermost(codes == code)
        text = draw.regime_label(name, subject.model)
        room = run_length(codes == code, row, column) * cell * 0.8
        if len(text) * POINTS_PER_CHARACTER > room:
            letter = next(letters)
            handles.append(draw.entry(f"{letter}: regime {text}"))
            text = letter
        box = {"boxstyle": "round,pad=0.25", "facecolor": colours[name], "edgecolor": "white"}
        axes.text(column, row, text, ha="center", va="center", fontweight="bold",
                  color=_readable(colours[name]), bbox=box, zorder=5)  # fmt: skip
    return handles


def _regime_colours(subject: Subject) -> Mapping[str, str]:
    """Return a colour for each of a model's regimes, the same in every picture."""
    if "regime" not in subject.grid.variables:
        return {}
    known = [str(name) for name in subject.grid.meanings("regime")]
    known = [
        name
        for name in known
        if name not in ("none", "not computed") and not name.startswith("unknown")
    ]
    own = [name for name in known if name.startswith(f"{subject.model}_")]
    return {name: draw.colour_of(i) for i, name in enumerate(own or known)}


def _readable(colour: str) -> str:
    """Return black or white, whichever is read better on a colour."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "black" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "white"


def borders(codes: Array) -> Array:
    """Return the line segments between cells of different codes.

    Parameters
    ----------
    codes : ndarray of int, shape (rows, columns)
        0 where there is nothing; such cells have no border.

    Returns
    -------
    ndarray, shape (segments, 2, 2)
        Ends as (x, y); cell (row, column) has its centre at x = column, y = row.
    """
    left, right = codes[:, :-1], codes[:, 1:]
    row, column = np.nonzero((left != right) & (left != 0) & (right != 0))
    upright = [[column + 0.5, row - 0.5], [column + 0.5, row + 0.5]]
    below, above = codes[:-1], codes[1:]
    row, column = np.nonzero((below != above) & (below != 0) & (above != 0))
    across = [[column - 0.5, row + 0.5], [column + 0.5, row + 0.5]]
    segments = np.concatenate([np.array(upright, float), np.array(across, float)], axis=2)
    return segments.transpose(2, 0, 1)


def innermost(mask: Array) -> tuple[int, int]:
    """Return the cell of a region that is farthest from its edge, of several the most central."""
    mask = np.asarray(mask, bool)
    while True:
        padded = np.pad(mask, 1)
        inner = mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
        if not inner.any():
            break
        mask = inner
    rows, columns = np.nonzero(mask)
    middle = (rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2
    best = int(np.argmin(middle))
    return int(rows[best]), int(columns[best])


def run_length(mask: Array, row: int, column: int) -> int:
    """Return how many cells of a region lie side by side in a row around a cell."""
    line = np.asarray(mask[row], bool)
    outside = np.concatenate([[-1], np.flatnonzero(~line), [line.size]])
    after = int(np.searchsorted(outside, column))
    return int(outside[after] - outside[after - 1] - 1)
