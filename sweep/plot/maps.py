"""Maps over two parameters: any result, and time beside energy over the two clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, LogNorm
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.fields import COMMON_FIELDS
from sweep.plot import draw
from sweep.plot.subject import Axis, Subject
from sweep.query import Row
from sweep.query.answer import scaled

Array = NDArray[Any]

MAX_CELLS = 200_000
POINTS_PER_CHARACTER = 5.6  # of a label's text, its box included
BEST = draw.STAR | {"mec": "black"}
CLOSE = 1.05  # what lies within 5 % of the best is framed
FRAME: dict[str, Any] = {"color": "#D0104C", "linewidth": 1.8, "linestyle": (0, (3, 1.5))}
OTHER: dict[str, Any] = {"marker": "D", "mfc": "none", "mec": "black", "mew": 1.4, "ms": 8}
SMALLEST = {"execution_time": "smallest execution time", "energy": "smallest energy"}


def heatmap(
    data: Any,
    x: str,
    y: str,
    *,
    variable: str = "execution_time",
    sense: str = "min",
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw the best of a result over two parameters.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    x, y : str
        Two dimensions; ``core_clock`` and ``memory_clock`` also where these are ratios.
    variable : str
        What is shown; each cell holds its best value over all other dimensions.
    sense : str
        ``"min"`` or ``"max"``.
    select, where
        As in :func:`sweep.query.best`; one kernel, device and model must remain.

    Returns
    -------
    matplotlib.figure.Figure
        Cells without a valid configuration are hatched, lines divide regimes, a star marks the best
        cell.

    Raises
    ------
    QueryError
        The question does not fit the results, or several kernels, devices or models remain.
    """
    single = [dim for dim in ("device", "model") if dim not in (x, y)]
    subject = Subject(data, "a heat map", [variable], [sense], select, where, single)
    found = best_map(subject, subject.axis(x), subject.axis(y), variable, sense)
    over = subject.varied(found.x.dim, found.y.dim)
    title = f"{draw.words(found.variable).capitalize()} of {subject.place((x, y))}"
    with draw.picture(7.4, 5.4, title=title) as (figure, panels):
        handles = draw_map(panels[0, 0], found, subject, over)
        if over:
            best = "smallest" if sense == "min" else "largest"
            draw.subtitle(panels[0, 0], f"{best} over {', '.join(over)}", 5.6)
        draw.legend(figure, handles)
    return figure


def clocks_plot(
    data: Any, *, select: Mapping[str, Any] | None = None, where: str | None = None
) -> draw.Picture:
    """Draw the smallest execution time and the smallest energy over core and memory clock.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    select, where
        As in :func:`sweep.query.best`; one kernel, device and model must remain. Each cell holds
        the best over all other dimensions that remain.

    Returns
    -------
    matplotlib.figure.Figure
        Two maps side by side. A star marks the optimum, a diamond that of the other map, a dashed
        line frames what lies within 5 % of the optimum.

    Raises
    ------
    QueryError
        The question does not fit the results, several kernels, devices or models remain, or the
        clocks were not swept.
    """
    subject = Subject(data, "a plot over the clocks", ["execution_time"], ["min"], select, where,
                      ("device", "model"))  # fmt: skip
    clocks = ("core_clock", "memory_clock")
    if not all({clock, f"{clock}_ratio"} & set(subject.grid.dims) for clock in clocks):
        kernel = subject.grid.kernel
        raise QueryError(f"the clocks of kernel '{kernel}' were not swept: no such axes")
    x, y = map(subject.axis, clocks)
    over = subject.varied(x.dim, y.dim)
    time, energy = (best_map(subject, x, y, name) for name in SMALLEST)
    title = f"Time and energy over the clocks: {subject.place()}"
    with draw.picture(11.0, 5.4, 1, 2, title=title) as (figure, panels):
        for axes, side, found, other in zip(
            panels[0], ("left", "right"), (time, energy), (energy, time), strict=True
        ):
            shown = [SMALLEST[found.variable], ", ".join(over)]
            draw.subtitle(axes, " over ".join(filter(None, shown)), 4.2)
            handles = draw_map(axes, found, subject, over)
            handles[1:1] = _mark_other(axes, found, other, subject) + _frame_close(axes, found)
            draw.legend(figure, handles, f"outside lower {side}", 0.5)
    return figure


@dataclass(frozen=True)
class Map:
    """The best value in each cell: arrays of shape (y, x), NaN where there is none.

    ``statuses`` and ``regimes`` are words, empty where there is no answer; ``best`` is the best
    cell and ``row`` the answer's row there.
    """

    x: Axis
    y: Axis
    variable: str
    sense: str
    values: Array
    statuses: Array
    regimes: Array
    best: tuple[int, int] | None
    row: Row


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
    rows = np.full(shape, {}, object)
    for row in subject.best(variable, (y.dim, x.dim), sense=sense):
        rows[y.keys.index(row[y.dim]), x.keys.index(row[x.dim])] = row
    name = subject.grid.resolve(variable)
    values = np.array([row.get(name) for row in rows.flat], float).reshape(shape)
    statuses, regimes = (
        np.array([row.get(key) or "" for row in rows.flat], object).reshape(shape)
        for key in ("status", "regime")
    )
    best = None
    if not np.isnan(values).all():
        place = np.nanargmin(values if sense == "min" else -values)
        best = divmod(int(place), shape[1])
    return Map(x, y, name, sense, values, statuses, regimes, best, rows[best] if best else {})


def draw_map(axes: Axes, found: Map, subject: Subject, over: Sequence[str]) -> list[Any]:
    """Draw a map with its colour bar, regime borders and optimum; return the legend's entries.

    Each cell is the best over the dimensions ``over``; the legend names the optimum's.
    """
    grid, best = subject.grid, found.best
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
    axes.set(xlabel=found.x.label, ylabel=found.y.label)
    draw.set_ticks(axes, "x", found.x.shown)
    draw.set_ticks(axes, "y", found.y.shown)
    axes.spines[:].set_visible(False)
    # The occupancy, say, does not depend on the model's case.
    field = COMMON_FIELDS.get(found.variable)
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
    regimes = _draw_regimes(axes, found, subject) if not field or field.depends == "model" else []
    handles: list[Any] = []
    if best is not None:
        axes.plot(best[1], best[0], **BEST, ms=13, clip_on=False, zorder=6)
        value = draw.quantity(found.values[best], grid.units(found.variable))
        at = ", ".join(subject.coordinates(found.row, (found.x.dim, found.y.dim, *over)))
        handles = [draw.entry(f"best: {value} at {at}", **BEST, ms=11)]
        size = abs(found.values[best])
        spread = np.nanmax(np.abs(found.values - found.values[best]))
        if found.values.size > 1 and spread < draw.LEAST_SPAN * size:  # too little for colours
            close = f"within {100 * spread / size:.1g} % of the best" if spread else "equal"
            handles.append(draw.entry(f"all valid cells are {close}"))
    return [*handles, *regimes, *_draw_invalid(axes, found)]


def _mark_other(axes: Axes, found: Map, other: Map, subject: Subject) -> list[Any]:
    """Mark the optimum of the other map, and name its cost; return the legend's entries."""
    if found.best is None or other.best is None or found.best == other.best:
        return []
    here, least = found.values[other.best], found.values[found.best]
    if not np.isfinite(here):
        return []
    axes.plot(other.best[1], other.best[0], **OTHER, linestyle="none", zorder=6, clip_on=False)
    value = draw.quantity(here, subject.grid.units(found.variable))
    more = f"{100 * (here / least - 1):.0f} % more"
    return [draw.entry(f"{SMALLEST[other.variable]}: here {value}, {more}", **OTHER)]


def _frame_close(axes: Axes, found: Map) -> list[Any]:
    """Frame the cells that are nearly as good as the best one; return the legend's entries."""
    if found.best is None:
        return []
    close = found.values <= CLOSE * found.values[found.best]
    lines = borders(np.where(np.isnan(found.values), 0, 1 + close))
    if not lines.size:
        return []
    axes.add_collection(LineCollection(list(lines), **FRAME))
    return [draw.entry(f"within {100 * (CLOSE - 1):.0f} % of the best", **FRAME)]


def _edges(cells: Array) -> tuple[Array, Array]:
    """Return the edges of cells whose centres are 0, 1, 2, ... along x and along y."""
    rows, columns = cells.shape
    return np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5


def _draw_invalid(axes: Axes, found: Map) -> list[Any]:
    """Hatch the cells without a valid configuration; return the legend's entries."""
    invalid = (found.statuses != "valid") & (found.statuses != "")
    if not invalid.any():
        return []
    look = {key: draw.INVALID[key] for key in ("hatch", "edgecolor", "linewidth")}
    cells = np.ma.masked_array(np.zeros(invalid.shape), ~invalid)
    colours = ListedColormap([draw.INVALID["facecolor"]])
    axes.pcolor(*_edges(invalid), cells, cmap=colours, **look)
    return [draw.invalid_patch([str(status) for status in found.statuses[invalid]])]


def _draw_regimes(axes: Axes, found: Map, subject: Subject) -> list[Any]:
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
                  color=_text_colour(colours[name]), bbox=box, zorder=5)  # fmt: skip
    return handles


def _regime_colours(subject: Subject) -> Mapping[str, str]:
    """Return a colour for each of a model's regimes, the same in every picture."""
    if "regime" not in subject.grid.variables:
        return {}
    known = [str(name) for name in subject.grid.meanings("regime")]
    known = [name for name in known if not name.startswith(("none", "not computed", "unknown"))]
    own = [name for name in known if name.startswith(f"{subject.model}_")]
    return {name: draw.colour_of(i) for i, name in enumerate(own or known)}


def _text_colour(background: str) -> str:
    """Return black or white, whichever is more readable on a colour."""
    red, green, blue = (int(background[i : i + 2], 16) for i in (1, 3, 5))
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

    def upright(cells: Array) -> Array:
        left, right = cells[:, :-1], cells[:, 1:]
        row, column = np.nonzero((left != right) & (left != 0) & (right != 0))
        ends = np.stack([column + 0.5, row - 0.5, column + 0.5, row + 0.5], axis=-1)
        return ends.reshape(-1, 2, 2)

    return np.concatenate([upright(codes), upright(codes.T)[..., ::-1]])


def innermost(mask: Array) -> tuple[int, int]:
    """Return the cell of a region that is farthest from its edge, of several the most central."""
    inner = np.asarray(mask, bool)
    while inner.any():
        mask, padded = inner, np.pad(inner, 1)
        inner = mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    rows, columns = np.nonzero(mask)
    best = int(np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2))
    return int(rows[best]), int(columns[best])


def run_length(mask: Array, row: int, column: int) -> int:
    """Return how many cells of a region lie side by side in a row around a cell."""
    line = np.asarray(mask[row], bool)
    outside = np.concatenate([[-1], np.flatnonzero(~line), [line.size]])
    after = int(np.searchsorted(outside, column))
    return int(outside[after] - outside[after - 1] - 1)
