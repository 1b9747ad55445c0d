"""The Pareto front before the cloud of configurations that it leaves behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.fronts import knee
from sweep.plot._figure import Picture, colour_of, laid_out, scale_axis, spell, style
from sweep.plot._legend import label, legend, remark, title
from sweep.plot._maps import one_kernel, over_dims, selected, spelt, where_we_are
from sweep.query import Row, pareto
from sweep.query.answer import scaled
from sweep.query.grid import Grid
from sweep.query.kernel_part import SENSES, KernelPart
from sweep.query.question import lay_out
from sweep.query.reduce import cloud

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["pareto_plot"]

Array = NDArray[Any]

CLOUD = 400_000  # configurations looked at
SHOWN = 10_000  # and drawn, of those within the axes
KNEES_NAMED = 4
REAR_MARGIN = 1.2  # of the fronts' extent: room for dominated configurations
IDEAL_MARGIN = 0.45  # and on the empty side for a single knee's words
SLIM_MARGIN = 0.08
KNEE: dict[str, Any] = {"marker": "o", "mfc": "none", "mec": "black", "mew": 1.3, "ls": "none"}
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
    part = one_kernel(
        data,
        objectives,
        senses,
        select=select,
        where=where,
        single=(),
        what="a Pareto plot",
    )
    if colour not in (None, "device", "model"):
        raise QueryError(f"colours tell apart 'device' or 'model', not '{colour}'")
    by = [d for d in ("device", "model") if len(selected(part, d)) > 1]
    narrowed = {**(select or {}), "kernel": part.grid.kernel}
    answer = pareto(data, objectives, senses, by=by, where=where, select=narrowed)
    clouds = cloud(lay_out(data, objectives, senses, by, where, narrowed), CLOUD)
    names = [part.grid.resolve(name) for name in objectives]
    columns = [answer.column(name) for name in names]
    scales = [scaled(c, part.grid.units(n)) for c, n in zip(columns, names, strict=True)]
    fronts = []
    for key in dict.fromkeys(tuple(row[d] for d in by) for row in answer):
        rows = [row for row in answer if tuple(row[d] for d in by) == key]
        points = [
            np.array([row[n] for row in rows]) / factor
            for n, (factor, _) in zip(names, scales, strict=True)
        ]
        dots = [c / factor for c, (factor, _) in zip(clouds[key], scales, strict=True)]
        fronts.append(Front(dict(zip(by, key, strict=True)), rows, points, dots))
    missing = [note for note in answer.notes if note.startswith("no valid")]
    with style():
        return _draw(part, names, senses, [unit for _, unit in scales], colour, fronts, missing)


@dataclass(frozen=True)
class Front:
    """One front: its labels, rows, points and cloud, in the units of the axes."""

    labels: dict[str, Any]
    rows: list[Row]
    points: list[Array]
    dots: list[Array]


def _draw(
    part: KernelPart,
    names: Sequence[str],
    senses: Sequence[str],
    units: Sequence[str],
    colour: str | None,
    fronts: Sequence[Front],
    missing: Sequence[str],
) -> Picture:
    figure = Picture(figsize=(7.4, 6.0), layout="constrained")
    axes = figure.add_subplot()
    varying = [
        dim for dim in ("device", "model") if len({front.labels.get(dim) for front in fronts}) > 1
    ]
    fixed = {d: v for d, v in fronts[0].labels.items() if d not in varying} if fronts else {}
    words = [f"{'on' if dim == 'device' else 'by'} {value}" for dim, value in fixed.items()]
    shown = [name.replace("_", " ") for name in names]
    text = f"{shown[1].capitalize()} against {shown[0]}: {where_we_are(part)}"
    title(figure, " ".join([text, *words]))
    _prepare_axes(axes, part.grid, names, senses, units, fronts)
    share = SHOWN // max(1, len(fronts))
    colour = colour or (varying or ["device"])[0]
    handles: list[Any] = []
    for front in fronts:
        look = _look(part, {d: front.labels[d] for d in varying}, colour)
        dots = _within(axes, front.dots)
        x, y = (column[:: max(1, len(column) // share)] for column in dots)
        axes.scatter(x, y, s=6, color=look["color"], alpha=0.16, lw=0, rasterized=True, zorder=2)
        axes.plot(*_stairs(*front.points), lw=2.0, zorder=3, **look)
        axes.plot(*front.points, "o", ms=5, mec="white", mew=0.7, color=look["color"], zorder=4)
        signed = (SENSES[s] * values for s, values in zip(senses, front.points, strict=True))
        at = knee(*signed)
        axes.plot(*(values[at] for values in front.points), **KNEE, ms=12, zorder=5)
        named = ", ".join(str(front.labels[dim]) for dim in varying) or "Pareto front"
        said = _knee_words(part, names, front.rows[at])
        if len(fronts) == 1:
            _annotate(axes, senses, [values[at] for values in front.points], said)
        elif len(fronts) <= KNEES_NAMED:
            named += f"; knee: {said[0]} at {', '.join(said[1:])}"
        handles.append(Line2D([], [], marker="o", mec="white", label=named, **look))
    if fronts:
        handles.append(Line2D([], [], **KNEE, ms=9, label="knee of a front"))
        small = Line2D([], [], marker="o", ms=3, color="#777777", ls="none")
        small.set_label(f"dominated configurations (a sample{_beyond(axes, fronts)})")
        handles.append(small)
    else:
        axes.text(0.5, 0.5, "no valid configuration", ha="center", transform=axes.transAxes)
    handles += [remark(note) for note in missing]
    legend(figure, handles, "outside lower center")
    return laid_out(figure)


def _prepare_axes(
    axes: Axes,
    grid: Grid,
    names: Sequence[str],
    senses: Sequence[str],
    units: Sequence[str],
    fronts: Sequence[Front],
) -> None:
    """Label the axes and turn them to the fronts: far dominated configurations may lie beyond."""
    axes.grid(True, color="#e6e6e6", lw=0.7)
    axes.set_axisbelow(True)
    for i, axis in enumerate("xy"):
        text = label(grid.long_name(names[i]), units[i])
        getattr(axes, f"set_{axis}label")(text)
        if not fronts:
            continue
        points = np.concatenate([front.points[i] for front in fronts])
        dots = np.concatenate([front.dots[i] for front in fronts])
        span = np.ptp(points) or abs(points[0]) or 1.0
        near = (IDEAL_MARGIN if len(fronts) == 1 else SLIM_MARGIN) * span
        far = REAR_MARGIN * span
        if senses[i] == "min":
            low, high = (
                max(points.min() - near, min(0.0, points.min())),
                min(points.max() + far, dots.max() + 0.05 * span),
            )
        else:
            low, high = max(points.min() - far, dots.min() - 0.05 * span), points.max() + near
        scale_axis(axes, axis, points)
        if getattr(axes, f"get_{axis}scale")() == "log":
            low, high = points.min() / 1.6, points.max() * 1.6
        getattr(axes, f"set_{axis}lim")(low, high)


def _within(axes: Axes, dots: Sequence[Array]) -> list[Array]:
    """Return the configurations within the axes."""
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x, y = dots
    inside = (x >= left) & (x <= right) & (y >= bottom) & (y <= top)
    return [x[inside], y[inside]]


def _beyond(axes: Axes, fronts: Sequence[Front]) -> str:
    """Return how many configurations of the sample lie beyond the axes, in words."""
    everything = sum(len(front.dots[0]) for front in fronts)
    inside = sum(len(_within(axes, front.dots)[0]) for front in fronts)
    share = 100 * (1 - inside / everything)
    return f"; {share:.0f} % lie farther off" if share >= 1 else ""


def _look(part: KernelPart, labels: Mapping[str, Any], colour: str) -> dict[str, Any]:
    """Return colour and line style of a front, steady under other selections."""
    look: dict[str, Any] = {"color": colour_of(0), "linestyle": "-"}
    for dim, value in labels.items():
        index = part.grid.coordinates[dim].values.tolist().index(value)
        if dim == colour:
            look["color"] = colour_of(index)
        else:
            look["linestyle"] = LINES[index % len(LINES)]
    return look


def _stairs(x: Array, y: Array) -> tuple[Array, Array]:
    """Return the corners of the border between what the front dominates and what it does not.

    Points come best first in x, so that the border turns at the next point's x, whatever the
    senses.
    """
    return np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]


def _knee_words(part: KernelPart, names: Sequence[str], row: Row) -> list[str]:
    """Return a knee's values, then its configuration, coordinate by coordinate."""
    grid = part.grid
    dims = [d for d in over_dims(part, ("device", "model")) if row.get(d) is not None]
    values = " and ".join(spell(row[name], grid.units(name)) for name in names)
    return [values, *(spelt(row, dim, grid) for dim in dims)]


def _annotate(axes: Axes, senses: Sequence[str], at: Sequence[float], words: Sequence[str]) -> None:
    """Write the knee's values and configuration into the ideal corner, which is always empty."""
    x, y = (0.02 if sense == "min" else 0.98 for sense in senses)
    lines = [f"knee: {words[0]}", *(", ".join(words[i : i + 2]) for i in range(1, len(words), 2))]
    axes.annotate(
        "\n".join(lines),
        (at[0], at[1]),
        xytext=(x, y),
        textcoords="axes fraction",
        ha="left" if senses[0] == "min" else "right",
        va="bottom" if senses[1] == "min" else "top",
        fontsize=8.5,
        arrowprops={"arrowstyle": "-", "color": "black", "lw": 0.8, "shrinkB": 6},
        bbox={"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "#bbbbbb"},
        zorder=6,
    )
