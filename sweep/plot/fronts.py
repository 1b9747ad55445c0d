"""The Pareto front together with the configurations that it dominates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from sweep.errors import QueryError
from sweep.fields import Array
from sweep.fronts import knee
from sweep.plot import draw
from sweep.plot.subject import Subject
from sweep.query import pareto
from sweep.query.answer import Row, rows_by
from sweep.query.question import SENSES, ask
from sweep.query.reduce import cloud
from sweep.query.texts import NoResult, scaled

CLOUD = 400_000  # configurations looked at
SHOWN = 10_000  # and drawn, of those within the axes
KNEES_NAMED = 4
REAR_MARGIN = 1.2  # of the fronts' extent: room for dominated configurations
IDEAL_MARGIN = 0.45  # and on the empty side for the text on a single knee
SLIM_MARGIN = 0.08
KNEE: dict[str, Any] = {"marker": "o", "mfc": "none", "mec": "black", "mew": 1.3,
                        "linestyle": "none"}  # fmt: skip
LINES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Front:
    """One front: labels, rows, the knee's place among them; points and cloud as axes show them.

    ``points`` and ``dots`` have a row for each objective.
    """

    labels: dict[str, Any]
    rows: list[Row]
    knee: int
    points: Array
    dots: Array


def pareto_plot(
    data: Any,
    objectives: Sequence[str] = ("execution_time", "energy"),
    senses: Sequence[str] = ("min", "min"),
    *,
    colour: str | None = None,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
) -> draw.Picture:
    """Draw the Pareto fronts of one kernel's devices and models, and its configurations.

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
    subject = Subject(data, "a Pareto plot", objectives, senses, select, where)
    if colour not in (None, "device", "model"):
        raise QueryError(f"colours tell apart 'device' or 'model', not '{colour}'")
    by = [d for d in ("device", "model") if len(subject.selected(d)) > 1]
    answer = pareto(data, objectives, senses, by=by, where=where, select=subject.select)
    clouds = cloud(ask(data, objectives, senses, by, where, subject.select), CLOUD)
    names = [subject.grid.resolve(name) for name in objectives]
    units = [subject.grid.units(name) for name in names]
    scales = [scaled(answer.column(n), unit) for n, unit in zip(names, units, strict=True)]
    factors = np.array([[factor] for factor, _ in scales])
    signs = np.array([[SENSES[sense]] for sense in senses])
    fronts = []
    for key, rows in rows_by(answer, by).items():
        points = np.array([[row[name] for row in rows] for name in names])
        dots = np.array(clouds[key]) / factors
        labels = dict(zip(by, key, strict=True))
        fronts.append(Front(labels, rows, knee(*(signs * points)), points / factors, dots))
    varied = [dim for dim in by if len({front.labels[dim] for front in fronts}) > 1]
    colour = colour or ("model" if varied == ["model"] else "device")
    with draw.picture(7.4, 6.0, title=_title(subject, names, fronts, varied)) as (figure, panels):
        axes = panels[0, 0]
        draw.grid(axes)
        for axis, name, (_, unit) in zip("xy", names, scales, strict=True):
            axes.set(**{f"{axis}label": subject.label(name, unit)})
        if fronts:
            _set_limits(axes, senses, fronts)
        else:
            axes.text(0.5, 0.5, "no valid configuration", ha="center", transform=axes.transAxes)
        handles = []
        for front in fronts:
            handle = _draw(axes, subject, front, varied, colour, SHOWN // len(fronts))
            row = front.rows[front.knee]
            values = (draw.quantity(row[n], u) for n, u in zip(names, units, strict=True))
            value = " and ".join(values)
            place = subject.coordinates(row, subject.varied("device", "model"))
            if len(fronts) == 1:
                _annotate(axes, senses, front, value, place)
            elif len(fronts) <= KNEES_NAMED:
                handle.set_label(f"{handle.get_label()}; knee: {value} at {', '.join(place)}")
            handles.append(handle)
        handles += _entries(axes, fronts)
        handles += [draw.entry(note) for note in answer.notes if isinstance(note, NoResult)]
        draw.legend(figure, handles)
    return figure


def _title(
    subject: Subject, names: Sequence[str], fronts: Sequence[Front], varied: Sequence[str]
) -> str:
    """Return the title: the axes, and the device and the model if all fronts share them."""
    across, up = map(draw.words, names)
    shared = [(d, v) for front in fronts[:1] for d, v in front.labels.items() if d not in varied]
    places = "".join(f" {'on' if dim == 'device' else 'by'} {value}" for dim, value in shared)
    return f"{up.capitalize()} against {across}: {subject.place()}{places}"


def _entries(axes: Axes, fronts: Sequence[Front]) -> list[Any]:
    """Return the legend's entries for the knees and the clouds of fronts, if there are any."""
    if not fronts:
        return []
    everything = np.hstack([front.dots for front in fronts])
    beyond = 100 * (1 - _within(axes, everything).shape[1] / everything.shape[1])
    farther = f"; {beyond:.0f} % lie farther off" if beyond >= 1 else ""
    dominated = f"dominated configurations (a sample{farther})"
    return [
        draw.entry("knee of a front", **KNEE, ms=9),
        draw.entry(dominated, marker="o", ms=3, color="#777777"),
    ]


def _set_limits(axes: Axes, senses: Sequence[str], fronts: Sequence[Front]) -> None:
    """Limit the axes to the fronts: far dominated configurations may lie beyond."""
    both = (np.hstack([f.points for f in fronts]), np.hstack([f.dots for f in fronts]))
    for axis, sense, points, dots in zip("xy", senses, *both, strict=True):
        span = np.ptp(points) or abs(points[0]) or 1.0
        near = (IDEAL_MARGIN if len(fronts) == 1 else SLIM_MARGIN) * span
        far = REAR_MARGIN * span
        if sense == "min":
            low = max(points.min() - near, min(0.0, points.min()))
            high = min(points.max() + far, dots.max() + 0.05 * span)
        else:
            low, high = max(points.min() - far, dots.min() - 0.05 * span), points.max() + near
        if draw.scale_axis(axes, axis, points):
            low, high = points.min() / 1.6, points.max() * 1.6
        axes.set(**{f"{axis}lim": (low, high)})


def _draw(
    axes: Axes, subject: Subject, front: Front, varied: Sequence[str], colour: str, share: int
) -> Any:
    """Draw one front, its knee and its cloud; return the legend's entry."""
    # Colour and line style are steady under other selections.
    look: dict[str, Any] = {"color": draw.colour_of(0), "linestyle": "-"}
    for dim in varied:
        index = subject.grid.coordinates[dim].values.tolist().index(front.labels[dim])
        if dim == colour:
            look["color"] = draw.colour_of(index)
        else:
            look["linestyle"] = LINES[index % len(LINES)]
    dots = _within(axes, front.dots)
    x, y = dots[:, :: max(1, dots.shape[1] // share)]
    axes.scatter(x, y, s=6, color=look["color"], alpha=0.16, lw=0, rasterized=True, zorder=2)
    # The border between what the front dominates and what it does not. Points come best first in
    # x, so that it turns at the next point's x, whatever the senses.
    x, y = front.points
    axes.plot(np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1], lw=2.0, zorder=3, **look)
    axes.plot(x, y, "o", ms=5, mec="white", mew=0.7, color=look["color"], zorder=4)
    axes.plot(x[front.knee], y[front.knee], **KNEE, ms=12, zorder=5)
    named = ", ".join(str(front.labels[dim]) for dim in varied) or "Pareto front"
    return draw.entry(named, marker="o", mec="white", **look)


def _within(axes: Axes, dots: Array) -> Array:
    """Return the configurations within the axes."""
    low, high = np.array([axes.get_xlim(), axes.get_ylim()]).T[..., np.newaxis]
    return dots[:, ((dots >= low) & (dots <= high)).all(axis=0)]


def _annotate(
    axes: Axes, senses: Sequence[str], front: Front, value: str, place: Sequence[str]
) -> None:
    """Write the knee's values and configuration into the ideal corner, which is always empty."""
    x, y = (0.02 if sense == "min" else 0.98 for sense in senses)
    lines = [f"knee: {value}", *(", ".join(place[i : i + 2]) for i in range(0, len(place), 2))]
    axes.annotate(
        "\n".join(lines),
        tuple(front.points[:, front.knee]),
        xytext=(x, y),
        textcoords="axes fraction",
        ha="left" if senses[0] == "min" else "right",
        va="bottom" if senses[1] == "min" else "top",
        fontsize=8.5,
        arrowprops={"arrowstyle": "-", "color": "black", "lw": 0.8, "shrinkB": 6},
        bbox={"boxstyle": "round,pad=0.3", "facecolor": "white", "edgecolor": "#bbbbbb"},
        zorder=6,
    )
