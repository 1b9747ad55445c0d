"""The Pareto front before the cloud of configurations that it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.plot._figure import Picture, colour_of, is_wide, label, spell, style
from sweep.plot._maps import one_view, over_dims, selected, spelt, where_we_are
from sweep.query import Row, pareto
from sweep.query.grid import Grid
from sweep.query.question import ask
from sweep.query.render import number, scaled
from sweep.query.sample import cloud
from sweep.query.select import knee
from sweep.query.view import SENSES, View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pareto_plot"]

Array = NDArray[Any]

CLOUD = 12_000
KNEES_NAMED = 3
LINES = ("-", "--", ":", "-.")


def pareto_plot(
    data: Any,
    objectives: Sequence[str] = ("execution_time", "energy"),
    senses: Sequence[str] = ("min", "min"),
    *,
    colour: str | None = None,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> Picture:
    """Draw the Pareto fronts of one kernel's devices and models before their configurations.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    objectives : sequence of str
        Two variables: the horizontal and the vertical axis.
    senses : sequence of str
        ``min`` or ``max`` for each.
    colour : str, optional
        ``"device"`` or ``"model"``: what colours tell apart; line styles tell the other apart. By
        default the device if there are several, else the model.
    select, where
        As in :func:`sweep.query.best`; one kernel must remain.

    Returns
    -------
    matplotlib.figure.Figure
        Small dots are configurations (a sample of them), large ones the front; a ring marks its
        knee, where a step to either side costs the most.

    Raises
    ------
    QueryError
        The question does not fit the results, or several kernels remain.
    """
    objectives, senses = list(objectives), list(senses)
    if len(objectives) != 2 or len(senses) != 2:
        raise QueryError(f"a Pareto plot has two objectives, not {len(objectives)}")
    view = one_view(
        data,
        objectives,
        senses,
        select=select,
        where=where,
        single=(),
        what="a Pareto plot",
    )
    by = [d for d in ("device", "model") if len(selected(view, d)) > 1]
    colour = colour or (by[0] if by else "device")
    if colour not in ("device", "model"):
        raise QueryError(f"colours tell apart 'device' or 'model', not '{colour}'")
    narrowed = {**(select or {}), "kernel": view.grid.kernel}
    fronts: dict[tuple[Any, ...], list[Row]] = {}
    for row in pareto(data, objectives, senses, by=by, where=where, select=narrowed):
        fronts.setdefault(tuple(row[d] for d in by), []).append(row)
    clouds = cloud(ask(data, objectives, senses, by, where, narrowed), CLOUD)
    with style():
        return _draw(view, objectives, senses, by, colour, fronts, clouds)


def _draw(
    view: View,
    objectives: Sequence[str],
    senses: Sequence[str],
    by: Sequence[str],
    colour: str,
    fronts: Mapping[tuple[Any, ...], list[Row]],
    clouds: Mapping[tuple[Any, ...], tuple[Array, ...]],
) -> Picture:
    figure = Picture(figsize=(7.4, 5.4), layout="constrained")
    axes = figure.add_subplot()
    grid = view.grid
    x, y = (grid.resolve(name) for name in objectives)
    figure.suptitle(f"{_words(x)} against {y.replace('_', ' ')} of {where_we_are(view)}")
    everything = [np.concatenate([np.empty(0), *(c[i] for c in clouds.values())]) for i in (0, 1)]
    factors, units = zip(
        *(scaled(v.tolist(), grid.units(n)) for v, n in zip(everything, (x, y), strict=True)),
        strict=True,
    )
    for axis, name, unit, values in zip("xy", (x, y), units, everything, strict=True):
        _prepare_axis(axes, axis, label(grid.long_name(name), unit), values)
    handles = []
    for i, (key, rows) in enumerate(fronts.items()):
        look = _look(view, by, key, colour)
        dots = [column / factor for column, factor in zip(clouds[key], factors, strict=True)]
        axes.scatter(
            *dots, s=5, color=look["color"], alpha=0.22, linewidths=0, rasterized=True, zorder=2
        )
        shown = [
            np.array([row[n] for row in rows]) / f for n, f in zip((x, y), factors, strict=True)
        ]
        axes.plot(*_stairs(*shown, senses), lw=1.6, zorder=3, **look)
        axes.plot(*shown, "o", ms=4.5, mec="white", mew=0.6, color=look["color"], zorder=4)
        text = ", ".join(map(str, key)) or "Pareto front"
        handles.append(Line2D([], [], marker="o", mec="white", label=text, **look))
        signs = [SENSES[sense] for sense in senses]
        at = knee(*(sign * values for sign, values in zip(signs, shown, strict=True)))
        axes.plot(
            shown[0][at], shown[1][at], "o", ms=12, mfc="none", mec="black", mew=1.3, zorder=5
        )
        if i < KNEES_NAMED:
            _name_knee(axes, (shown[0][at], shown[1][at]), rows[at], view, (x, y), i)
    ring = {"marker": "o", "ms": 9, "mfc": "none", "mec": "black", "ls": "none"}
    handles.append(Line2D([], [], **ring, label="knee of a front"))
    dot = {"marker": "o", "ms": 3, "color": "#777777", "ls": "none"}
    handles.append(Line2D([], [], **dot, label="dominated configurations (a sample)"))
    if not fronts:
        axes.text(0.5, 0.5, "no valid configuration", ha="center", transform=axes.transAxes)
        handles = []
    if handles:
        figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)))
    return figure


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()


def _prepare_axis(axes: Axes, axis: str, text: str, values: Array) -> None:
    getattr(axes, f"set_{axis}label")(text)
    if is_wide(values):
        getattr(axes, f"set_{axis}scale")("log")
        shown = getattr(axes, f"{axis}axis")
        shown.set_major_formatter(FuncFormatter(lambda value, _: number(float(value), 3)))
        shown.set_minor_formatter(NullFormatter())
    axes.grid(True, axis=axis, color="#e6e6e6", lw=0.7)  # type: ignore[arg-type]
    axes.set_axisbelow(True)


def _look(view: View, by: Sequence[str], key: Sequence[Any], colour: str) -> dict[str, Any]:
    """Return colour and line style of a front, steady under other selections."""
    look: dict[str, Any] = {"color": colour_of(0), "linestyle": "-"}
    for dim, value in zip(by, key, strict=True):
        index = view.grid.coordinates[dim].values.tolist().index(value)
        if dim == colour:
            look["color"] = colour_of(index)
        else:
            look["linestyle"] = LINES[index % len(LINES)]
    return look


def _stairs(x: Array, y: Array, senses: Sequence[str]) -> tuple[Array, Array]:
    """Return the corner points of the border between dominated and not."""
    corners_x = np.repeat(x, 2)[1:]
    corners_y = np.repeat(y, 2)[:-1]
    del senses  # rows come best first in x: the border always turns at the next point's x
    return corners_x, corners_y


def _name_knee(
    axes: Axes,
    at: tuple[float, float],
    row: Row,
    view: View,
    names: tuple[str, str],
    index: int,
) -> None:
    """Write a knee's values and configuration beside it."""
    grid: Grid = view.grid
    values = " and ".join(spell(row[name], grid.units(name)) for name in names)
    dims = [d for d in over_dims(view, ("device", "model")) if row.get(d) is not None]
    words = [spelt(row, dim, grid) for dim in dims]
    lines = [values, *(", ".join(words[i : i + 2]) for i in range(0, len(words), 2))]
    axes.annotate(
        "\n".join(lines),
        at,
        xytext=(28, 26 + 14 * index),
        textcoords="offset points",
        fontsize=8,
        arrowprops={"arrowstyle": "-", "color": "black", "lw": 0.8, "shrinkB": 6},
        bbox={
            "boxstyle": "round,pad=0.3",
            "facecolor": "white",
            "edgecolor": "#bbbbbb",
            "alpha": 0.9,
        },
        zorder=6,
    )
