"""What a run says at its end: the best configurations, the fronts, a figure, what to ask next."""

from __future__ import annotations

import shlex
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweep.errors import QueryError
from sweep.query import Answer, Row, best, pareto
from sweep.query.answer import scaled
from sweep.query.grid import CLOCKS, Grid, grids_of

WIDTH = 110
MOST_ROWS = 48
"""Rows of a table; who wants more asks for it."""

Key = tuple[str, str, str]
"""Kernel, device and model."""


@dataclass(frozen=True)
class Front:
    """A time-energy Pareto front in three points.

    Attributes
    ----------
    key : tuple of str
        Kernel, device and model.
    size : int
        Configurations of the front.
    fastest, knee, thriftiest : Row
        Its ends, and the point furthest below the line between them.
    """

    key: Key
    size: int
    fastest: Row
    knee: Row
    thriftiest: Row

    @property
    def saving(self) -> float:
        """Share of the fastest point's energy that the thriftiest saves [1]."""
        return 1.0 - float(self.thriftiest["energy"] / self.fastest["energy"])


def report(results: Any, figure: Path | None, source: str) -> str:
    """Return the answers that a run ends with, and save its figure.

    Parameters
    ----------
    results : path or whatever else queries take
        Results of a run; the path of a store, whose index then answers what it can.
    figure : Path, optional
        Where to save the figure: time and energy over the clocks, or the Pareto front, of the
        kernel, device and model whose front spans most. None is drawn where there is no energy.
    source : str
        What the commands at the end ask: the store, or the plan that keeps none.

    Returns
    -------
    str
        Best configuration per kernel, device and model, fronts in three points each, the figure's
        path, and commands to go on with.
    """
    answer = best(results)
    parts = [best_text(results, answer)]
    fronts, notes = fronts_of(results)
    if fronts:
        parts.append(fronts_text(fronts, notes))
    # The front that spans most has most to tell.
    shown = max(fronts, key=lambda front: front.saving).key if fronts else _first(answer)
    if shown is not None:
        grid = _grids(results)[shown[0]]
        lines = _commands(grid, source, shown, bool(fronts))
        if fronts and figure is not None:
            lines.insert(0, _figure_line(results, grid, figure, shown))
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def _grids(results: Any) -> dict[str, Grid]:
    return {grid.kernel: grid for grid in grids_of(results)}


def best_text(results: Any, answer: Answer) -> str:
    """Return the best configuration per kernel, device and model as text.

    Models that choose the same configuration share a row. Groups without any time are named below
    the table, by reason, not listed.
    """
    valid = [row for row in answer if row["execution_time"] is not None]
    if not valid:
        return "\n".join(["No configuration has a time.", *_absent(answer)])
    models = list(dict.fromkeys(row["model"] for row in valid))
    width = max(len(_time(row)) for row in valid)
    grids = _grids(results)
    table: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}
    for row in valid:
        grid = grids[row["kernel"]]
        place = (row["device"], _configuration(grid, row), _clocks(row))
        cells = table.setdefault(_titled(grid), {}).setdefault(place, {})
        bound = f" {row['bound']}" if len(models) < 3 and row.get("bound") else ""
        cells[row["model"]] = _time(row).rjust(width) + bound
    rows: list[tuple[str, ...]] = [("device", "configuration", "core/memory", *models)]
    heads: dict[int, str] = {}
    for title, places in table.items():
        if rows[MOST_ROWS:]:
            break
        heads[len(rows)] = title
        last = ""
        for (device, *rest), cells in places.items():
            shown = "" if device == last else f"  {device}"
            rows.append((shown, *rest, *(cells.get(model, "") for model in models)))
            last = device
    text = _aligned(rows)
    for number in sorted(heads, reverse=True):
        text.insert(number, heads[number])
    left = len(table) - len(heads)
    return "\n".join(
        [
            "Fastest configuration of each kernel on each device, as the models predict it "
            "(clocks in MHz)",
            "",
            *text,
            *([f"... and {left} more kernels: sweep best"] if left else []),
            *_notes(answer.notes),
            *_absent(answer),
        ]
    )


def _titled(grid: Grid) -> str:
    """Return a kernel's name with the problem sizes that were not swept."""
    sizes = [
        f"{name}={coordinate.values.item():.15g}"
        for name, coordinate in sorted(grid.coordinates.items())
        if not coordinate.dims and coordinate.values.dtype.kind in "iuf" and name not in CLOCKS
    ]
    return f"{grid.kernel} ({', '.join(sizes)})" if sizes else grid.kernel


def _configuration(grid: Grid, row: Row) -> str:
    values = [(name, row[name]) for name in _swept(grid) if name not in CLOCKS]
    return " ".join(f"{n}={v:g}" if isinstance(v, float) else f"{n}={v}" for n, v in values) or "-"


def _swept(grid: Grid) -> list[str]:
    """Return sizes, parameters and clocks that were swept."""
    return [name for name in grid.axes if name not in ("model", "device")]


def _clocks(row: Row) -> str:
    core, memory = (row.get(f"{name}_clock") for name in ("core", "memory"))
    return "/".join("-" if value is None else f"{value:.4g}" for value in (core, memory))


def _time(row: Row) -> str:
    """Return a time, marked where it rests on assumed values."""
    return _quantity(row["execution_time"], "s") + ("*" if row["rests_on_assumed"] else "")


def _quantity(value: float, unit: str) -> str:
    factor, unit = scaled([value], unit)
    return f"{value / factor:#.4g}".rstrip(".") + f" {unit}"


def _absent(answer: Answer) -> list[str]:
    """Return which models give no time where, and why."""
    kernels = {row["kernel"] for row in answer}
    places: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in answer:
        if row["execution_time"] is None:
            places[row["model"], str(row["status"]), row["device"]].append(row["kernel"])
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (model, status, device), missing in places.items():
        everywhere = len(missing) == len(kernels)
        reasons[model, status].append(device if everywhere else f"{device} ({', '.join(missing)})")
    lines = (
        f"{model} gives no time on {', '.join(devices)}: {status.replace('_', ' ')}"
        for (model, status), devices in reasons.items()
    )
    return [part for line in lines for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ")]


def fronts_of(results: Any) -> tuple[list[Front], tuple[str, ...]]:
    """Return every time-energy front in three points, and what must be known about them.

    Empty where the results have no energy.
    """
    try:
        answer = pareto(results)
    except QueryError:
        return [], ()
    rows: dict[Key, list[Row]] = defaultdict(list)
    for row in answer:
        if row["energy"] is not None:
            rows[row["kernel"], row["device"], row["model"]].append(row)
    fronts = [
        Front(key, len(points), points[0], points[_knee(points)], points[-1])
        for key, points in rows.items()
    ]
    return fronts, tuple(note for note in answer.notes if note.startswith("*"))


def _knee(points: list[Row]) -> int:
    """Return the point of a front that lies furthest below the line between its ends."""
    times = [float(p["execution_time"]) for p in points]
    energies = [float(p["energy"]) for p in points]
    spans = (times[-1] - times[0]) or 1.0, (energies[0] - energies[-1]) or 1.0
    gains = [
        (energies[0] - e) / spans[1] - (t - times[0]) / spans[0]
        for t, e in zip(times, energies, strict=True)
    ]
    return max(range(len(points)), key=gains.__getitem__)


def fronts_text(fronts: Sequence[Front], notes: Iterable[str]) -> str:
    """Return fronts as text: the fastest point, and what the others cost and save."""
    notes = _notes(notes)
    shown = fronts[:MOST_ROWS]
    devices = list(dict.fromkeys(front.key[1] for front in fronts))
    head = ("clocks", "time", "energy*" if notes else "energy")
    points = {
        "fastest": [_point(front.fastest, None) for front in shown],
        "knee": [_point(front.knee, front.fastest) for front in shown],
        "least energy": [_point(front.thriftiest, front.fastest) for front in shown],
    }
    columns: list[list[str]] = [
        ["", title, *(front.key[i] for front in shown)]
        for i, title in enumerate(("kernel", "device", "model"))
        if i != 1 or len(devices) > 1
    ]
    columns.append(["", "points", *(f"{front.size:>6}" for front in shown)])
    for title, cells in points.items():
        columns.append([title, *_aligned([head, *cells], right=(1, 2))])
    where = f" on {devices[0]}" if len(devices) == 1 else ""
    left = len(fronts) - len(shown)
    return "\n".join(
        [
            f"Time against energy{where}: three points of each Pareto front, with the change from "
            "its fastest",
            "",
            *_aligned(list(zip(*columns, strict=True))),
            *([f"... and {left} more fronts: sweep pareto"] if left > 0 else []),
            *notes,
        ]
    )


def _point(row: Row, fastest: Row | None) -> tuple[str, str, str]:
    """Return a point's clocks, time and energy, the latter two relative to the fastest."""
    clocks = _clocks(row)
    if fastest is None:
        return clocks, _quantity(row["execution_time"], "s"), _quantity(row["energy"], "J")
    if row is fastest:
        return "same", "", ""
    time, energy = (float(row[n] / fastest[n]) - 1.0 for n in ("execution_time", "energy"))
    return clocks, f"{100 * time:+.1f} %", f"{100 * energy:+.1f} %"


def _aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Return rows as text with aligned columns; ``right`` are those aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numbers = set(right)
    return [
        "  ".join(
            cell.rjust(width) if number in numbers else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _notes(notes: Iterable[str]) -> list[str]:
    return [line for note in notes for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]


def _first(answer: Answer) -> Key | None:
    """Return kernel, device and model of the first row with a time."""
    for row in answer:
        if row["execution_time"] is not None:
            return row["kernel"], row["device"], row["model"]
    return None


def _figure_line(results: Any, grid: Grid, path: Path, shown: Key) -> str:
    """Save the figure; return the line that names it."""
    from sweep.plot import clocks_plot, pareto_plot, save

    kernel, device, model = shown
    select = {"kernel": kernel, "device": device}
    dims = set(grid.dims)
    try:
        if all({f"{clock}_clock", f"{clock}_clock_ratio"} & dims for clock in ("core", "memory")):
            picture = clocks_plot(results, select={**select, "model": model})
        else:
            picture = pareto_plot(results, select=select)
        save(picture, path)
    except QueryError as error:
        return f"No figure: {error}"
    return f"Figure: {path} ({picture.get_suptitle()})"


def _commands(grid: Grid, source: str, shown: Key, has_energy: bool) -> list[str]:
    """Return commands that ask on about one kernel on one device."""
    kernel, device, model = shown
    place = f"kernel={kernel} device={device}"
    data = shlex.quote(source)
    dims = [name for name in _swept(grid) if len(set(grid.axis_values(name).tolist())) > 1]
    lines = ["Next:", f"  sweep explain {data} {place} model={model}"]
    if has_energy:
        lines.append(f"  sweep pareto {data} {place} model={model}")
    else:
        lines.append(f"  sweep top {data} 10 {place}")
    if len(dims) > 1:
        axes = f"-x {dims[0]} -y {dims[1]}"
        lines.append(f"  sweep plot {data} heatmap {axes} {place} model={model}")
    return lines
