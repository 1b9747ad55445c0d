"""Maps over two parameters: any result, and time beside energy over the two clocks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import ListedColormap, to_rgb

from sweep.errors import QueryError
from sweep.fields import COMMON_FIELDS, Array
from sweep.plot import draw
from sweep.plot.subject import Subject
from sweep.query import Row
from sweep.query.texts import scaled

MAX_CELLS = 200_000
POINTS_PER_CHARACTER = 5.6  # of a label's text, its box included
BEST = draw.STAR | {"mec": "black"}
LARGER_IS_BETTER = ("occupancy", "active_blocks_per_sm", "active_warps_per_sm")
CLOSE = 1.05  # what lies within 5 % of the best is framed
JUMP = 1.25  # between neighbours with different configurations: a line divides them
FRAME: dict[str, Any] = {"color": "#D0104C", "linewidth": 1.8, "linestyle": "-"}
OTHER: dict[str, Any] = {"marker": "D", "mfc": "none", "mec": "black", "mew": 1.4, "ms": 8}
SMALLEST = {"execution_time": "smallest execution time", "energy": "smallest energy"}


def heatmap(
    data: Any,
    x: str,
    y: str,
    *,
    variable: str = "execution_time",
    sense: str | None = None,
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
    sense : str, optional
        ``"min"`` or ``"max"``; by default ``"max"`` for occupancy and what is resident with it.
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
    sense = sense or ("max" if variable in LARGER_IS_BETTER else "min")
    subject = Subject(data, "a heat map", [variable], [sense], select, where, single)
    shown = Map(subject, x, y, variable, sense)
    title = f"{draw.words(shown.variable).capitalize()} of {subject.place((x, y))}"
    with draw.picture(7.4, 5.4, title=title) as (figure, panels):
        handles = shown.draw(panels[0, 0])
        if shown.over:
            best = "smallest" if sense == "min" else "largest"
            draw.subtitle(panels[0, 0], f"{best} over {', '.join(shown.over)}", 5.6)
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
        Two maps side by side. A star marks the optimum, a diamond that of the other map, a red
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
    fixed = [clock for clock in clocks if not {clock, f"{clock}_ratio"} & set(subject.grid.dims)]
    if fixed:
        what = f"{' and '.join(fixed)} of kernel '{subject.grid.kernel}' not swept"
        raise QueryError(f"{what}: a plot over the clocks has both as axes")
    maps = [Map(subject, *clocks, name) for name in SMALLEST]
    title = f"Time and energy over the clocks: {subject.place()}"
    with draw.picture(11.0, 5.4, 1, 2, title=title) as (figure, panels):
        for axes, side, shown, other in zip(
            panels[0], ("left", "right"), maps, maps[::-1], strict=True
        ):
            parts = [SMALLEST[shown.variable], ", ".join(shown.over)]
            draw.subtitle(axes, " over ".join(filter(None, parts)), 4.2)
            handles = shown.draw(axes)
            handles[1:1] = shown.compare(axes, other)
            draw.legend(figure, handles, f"outside lower {side}", 0.5)
    return figure


class Map:
    """The best value of a variable in each cell of two axes, over everything else.

    Parameters
    ----------
    subject : Subject
        The results.
    x, y : str
        The axes.
    variable, sense : str
        What is shown, and whether the smallest (``"min"``) or the largest is the best.

    Attributes
    ----------
    values, statuses, regimes, chosen : array, shape (y, x)
        Values, NaN where there is none; words, empty where there is no answer; a number for each
        configuration that is the best of a cell.
    best : tuple of int, optional
        The best cell.
    row : Row
        The answer's row there.
    over : list of str
        The dimensions over which each cell holds the best.

    Raises
    ------
    QueryError
        Both axes are the same, or there would be more cells than a picture shows.
    """

    def __init__(self, subject: Subject, x: str, y: str, variable: str, sense: str = "min") -> None:
        self.subject, self.x, self.y, self.sense = subject, subject.axis(x), subject.axis(y), sense
        across, up = self.x, self.y
        if across.dim == up.dim:
            raise QueryError(f"a map needs two different axes, not '{x}' twice")
        shape = (len(up.keys), len(across.keys))
        if shape[0] * shape[1] > MAX_CELLS:
            text = f"{shape[0]} x {shape[1]} cells are more than a map shows: select fewer"
            raise QueryError(text)
        rows = np.full(shape, {}, object)
        for row in subject.best(variable, (up.dim, across.dim), sense=sense):
            rows[up.keys.index(row[up.dim]), across.keys.index(row[across.dim])] = row
        self.variable = subject.grid.resolve(variable)
        self.over = subject.varied(across.dim, up.dim)
        self.values = np.array([row.get(self.variable) for row in rows.flat], float).reshape(shape)
        self.statuses, self.regimes = (
            np.array([row.get(key) or "" for row in rows.flat], object).reshape(shape)
            for key in ("status", "regime")
        )
        self.best: tuple[int, int] | None = None
        if not np.isnan(self.values).all():
            ranked = self.values if sense == "min" else -self.values
            order = [*subject.grid.axes, *subject.grid.listed].index
            turn = -1 if order(across.dim) < order(up.dim) else 1  # of ties, which `best` names
            row, column = min(np.argwhere(ranked == np.nanmin(ranked))[:, ::turn].tolist())[::turn]
            self.best = row, column
        self.row: Row = rows[self.best or (0, 0)]
        codes: dict[Any, int] = {}
        chosen = (tuple(row.get(dim) for dim in self.over) for row in rows.flat)
        self.chosen = np.reshape([codes.setdefault(c, len(codes) + 1) for c in chosen], shape)

    def draw(self, axes: Axes) -> list[Any]:
        """Draw the map with its colour bar, regimes and optimum; return the legend's entries."""
        grid, best = self.subject.grid, self.best
        finite = self.values[np.isfinite(self.values)].tolist()
        factor, unit = scaled(finite, grid.units(self.variable))
        values = np.ma.masked_invalid(self.values / factor)
        mesh = axes.pcolormesh(
            *_edges(values),
            values,
            norm=draw.norm_of(self.values / factor),
            cmap="viridis_r" if self.sense == "min" else "viridis",  # the best is bright
            rasterized=values.size > 5000,
        )
        axes.set(xlabel=self.x.label, ylabel=self.y.label)
        draw.set_ticks(axes, "x", self.x.shown)
        draw.set_ticks(axes, "y", self.y.shown)
        axes.spines[:].set_visible(False)
        if finite:
            draw.colour_bar(mesh, self.subject.label(self.variable, unit))
        else:
            box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": draw.GREY}
            y, x = ((n - 1) / 2 for n in values.shape)
            text = f"no configuration has a valid {draw.words(self.variable)}"
            axes.text(x, y, text, ha="center", va="center", bbox=box, zorder=5)
        # The occupancy, say, does not depend on the model's case.
        field = COMMON_FIELDS.get(self.variable)
        regimes = self._draw_regimes(axes) if not field or field.depends == "model" else []
        handles: list[Any] = []
        if best is not None:
            axes.plot(best[1], best[0], **BEST, ms=13, clip_on=False, zorder=6)
            value = draw.quantity(self.values[best], grid.units(self.variable))
            at = ", ".join(self.subject.coordinates(self.row, (self.x.dim, self.y.dim, *self.over)))
            handles = [draw.entry(f"best: {value} at {at}", **BEST, ms=11)]
            size = abs(self.values[best])
            spread = np.nanmax(np.abs(self.values - self.values[best]))
            if self.values.size > 1 and spread < draw.LEAST_SPAN * size:  # too little for colours
                close = f"within {100 * spread / size:.1g} % of the best" if spread else "equal"
                handles.append(draw.entry(f"all valid cells are {close}"))
        return [*handles, *regimes, *self._draw_invalid(axes)]

    def compare(self, axes: Axes, other: Map) -> list[Any]:
        """Mark the other map's optimum and frame what is close to one's own; return the entries."""
        handles: list[Any] = []
        if self.best is None:
            return handles
        least = self.values[self.best]
        if other.best not in (None, self.best) and np.isfinite(here := self.values[other.best]):
            axes.plot(*other.best[::-1], **OTHER, linestyle="none", zorder=6, clip_on=False)
            value = draw.quantity(here, self.subject.grid.units(self.variable))
            more = f"{100 * (here / least - 1):.0f} % more"
            handles.append(draw.entry(f"{SMALLEST[other.variable]}: here {value}, {more}", **OTHER))
        close = self.values <= CLOSE * least
        lines = borders(np.where(np.isnan(self.values), 0, 1 + close))
        if lines.size:
            axes.add_collection(LineCollection(list(lines), **FRAME))
            handles.append(draw.entry(f"within {100 * (CLOSE - 1):.0f} % of the best", **FRAME))
        lines = borders(self.chosen)
        middles = lines.mean(axis=1)[:, ::-1].T
        pair = [self.values[*ends.astype(int)] for ends in (np.floor(middles), np.ceil(middles))]
        lines = lines[np.maximum(*pair) > JUMP * np.minimum(*pair)]
        if lines.size and len({*self.regimes.flat} - {""}) == 1:  # no border of regimes is in sight
            _divide(axes, lines)
            text = f"another configuration is best, over {100 * (JUMP - 1):.0f} % apart"
            handles.append(draw.entry(text, color="black", linestyle="-"))
        return handles

    def _draw_invalid(self, axes: Axes) -> list[Any]:
        """Hatch the cells without a valid configuration; return the legend's entries."""
        invalid = (self.statuses != "valid") & (self.statuses != "")
        if not invalid.any():
            return []
        look = {key: draw.INVALID[key] for key in ("hatch", "edgecolor", "linewidth")}
        cells = np.ma.masked_array(np.zeros(invalid.shape), ~invalid)
        colours = ListedColormap([draw.INVALID["facecolor"]])
        axes.pcolor(*_edges(invalid), cells, cmap=colours, **look)
        return [draw.invalid_patch(self.statuses[invalid])]

    def _draw_regimes(self, axes: Axes) -> list[Any]:
        """Draw borders where the regime changes and name the regimes; small ones in the legend."""
        model = self.subject.model
        colours = regime_colours(self.subject)
        present = [name for name in colours if (self.regimes == name).any()]
        if not present:
            return []
        codes = sum(code * (self.regimes == name) for code, name in enumerate(present, 1))
        _divide(axes, borders(codes))
        if len(present) == 1:
            return [draw.entry(f"regime {draw.regime_label(present[0], model)} everywhere")]
        handles = []
        figure: Any = axes.figure
        cell = axes.get_position().width * figure.get_figwidth() * 72 / codes.shape[1]
        letters = iter("abcdefghijklmnopqrstuvwxyz")
        for code, name in enumerate(present, 1):
            row, column, length = innermost(codes == code)
            text = draw.regime_label(name, model)
            if len(text) * POINTS_PER_CHARACTER > length * cell * 0.8:
                letter = next(letters)
                handles.append(draw.entry(f"{letter}: regime {text}"))
                text = letter
            is_bright = np.dot(to_rgb(colours[name]), (0.299, 0.587, 0.114)) > 0.55
            box = {"boxstyle": "round,pad=0.25", "facecolor": colours[name], "edgecolor": "white"}
            axes.text(column, row, text, ha="center", va="center", fontweight="bold",
                      color="black" if is_bright else "white", bbox=box, zorder=5)  # fmt: skip
        return handles


def _divide(axes: Axes, lines: Array) -> None:
    """Draw borders that colours do not hide."""
    for width, colour in ((3.2, "white"), (1.3, "black")):
        axes.add_collection(LineCollection(list(lines), colors=colour, linewidths=width))


def _edges(cells: Array) -> tuple[Array, Array]:
    """Return the edges of cells whose centres are 0, 1, 2, ... along x and along y."""
    rows, columns = cells.shape
    return np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5


def regime_colours(subject: Subject) -> dict[str, str]:
    """Return a colour for each of a model's regimes, the same in every picture."""
    if "regime" not in subject.grid.variables:
        return {}
    known = [str(name) for name in subject.grid.meanings("regime")]
    known = [name for name in known if not name.startswith(("none", "not computed", "unknown"))]
    own = [name for name in known if name.startswith(f"{subject.model}_")]
    return {name: draw.colour_of(i) for i, name in enumerate(own or known)}


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


def innermost(mask: Array) -> tuple[int, int, int]:
    """Return the cell of a region that is farthest from its edge, of several the most central.

    The third number is how many of the region's cells lie side by side in a row around it.
    """
    region = inner = np.asarray(mask, bool)
    while inner.any():
        mask, padded = inner, np.pad(inner, 1)
        inner = mask & padded[:-2, 1:-1] & padded[2:, 1:-1] & padded[1:-1, :-2] & padded[1:-1, 2:]
    rows, columns = np.nonzero(mask)
    best = int(np.argmin((rows - rows.mean()) ** 2 + (columns - columns.mean()) ** 2))
    row, column = int(rows[best]), int(columns[best])
    outside = np.flatnonzero(np.pad(~region[row], 1, constant_values=True))
    after = int(np.searchsorted(outside, column + 1))
    return row, column, int(outside[after] - outside[after - 1] - 1)
