"""The report of a run: best configurations, fronts, a figure, and further commands."""

from __future__ import annotations

import shlex
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sweep.errors import QueryError
from sweep.query import Answer, Row, best, pareto
from sweep.query.answer import scaled
from sweep.query.grid import CLOCKS, Grid, grids_of

WIDTH = 110
MOST_ROWS = 48
"""Most rows of a table; questions show the others."""

Key = tuple[str, str, str]
"""Kernel, device and model."""

Fronts = Mapping[Key, Sequence[Row]]
"""The points of each time-energy front, the fastest first."""


def report(results: Any, figure: Path | None, source: str) -> str:
    """Return the answers with which a run ends, and save its figure.

    Parameters
    ----------
    results : path or anything else that queries take
        Results of a run; the path of a store, whose index then answers what it can.
    figure : Path, optional
        Where to save the figure: time and energy over the clocks, or the Pareto front, of the
        kernel, device and model with the largest saving of energy. None is drawn without energy.
    source : str
        The store, or the plan without one, for the commands at the end.

    Returns
    -------
    str
        Best configuration per kernel, device and model, fronts in three points each, the figure's
        path, and further commands.
    """
    answer = best(results)
    grids = {grid.kernel: grid for grid in grids_of(results)}
    parts = [best_text(grids, answer)]
    fronts, notes = fronts_of(results)
    if fronts:
        parts.append(fronts_text(fronts, notes))
        shown = max(fronts, key=lambda key: saving(fronts[key]))
    else:
        timed = (row for row in answer if row["execution_time"] is not None)
        found = next(((r["kernel"], r["device"], r["model"]) for r in timed), None)
        if found is None:
            return "\n\n".join(parts)
        shown = found
    lines = _commands(grids[shown[0]], source, shown, bool(fronts))
    if fronts and figure is not None:
        lines.insert(0, _figure_line(results, grids[shown[0]], figure, shown))
    return "\n\n".join([*parts, "\n".join(lines)])


def best_text(grids: Mapping[str, Grid], answer: Answer) -> str:
    """Return the best configuration per kernel, device and model as text.

    Models that choose the same configuration share a row. Groups without a time are not listed;
    the lines below the table give the reasons.
    """
    valid = [row for row in answer if row["execution_time"] is not None]
    if not valid:
        return "\n".join(["No configuration has a time.", *_absent(answer)])
    models = list(dict.fromkeys(row["model"] for row in valid))
    width = max(len(_time(row)) for row in valid)
    table: dict[str, dict[tuple[str, ...], dict[str, str]]] = defaultdict(dict)
    for row in valid:
        grid = grids[row["kernel"]]
        place = (row["device"], _configuration(grid, row), _clocks(row))
        bound = f" {row['bound']}" if len(models) < 3 and row.get("bound") else ""
        times = table[_title(grid)].setdefault(place, {})
        times[row["model"]] = _time(row).rjust(width) + bound
    rows: list[tuple[str, ...]] = [("device", "configuration", "clocks", *models)]
    titles: dict[int, str] = {}
    for title, places in table.items():
        if len(rows) > MOST_ROWS:
            break
        titles[len(rows)] = title
        last = ""
        for (device, *rest), times in places.items():
            shown = "" if device == last else f"  {device}"
            rows.append((shown, *rest, *(times.get(model, "") for model in models)))
            last = device
    lines = []
    for number, line in enumerate(_aligned(rows)):
        lines += [titles[number], line] if number in titles else [line]
    if len(table) > len(titles):
        lines.append(f"... and {len(table) - len(titles)} more kernels: sweep best")
    head = "Fastest configuration of each kernel on each device, as the models predict it"
    notes = [*_wrapped(answer.notes), *_absent(answer)]
    return "\n".join([f"{head} (core/memory clocks in MHz)", "", *lines, *notes])


def _title(grid: Grid) -> str:
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
    """Return a time, marked if it rests on assumed values."""
    return _quantity(row["execution_time"], "s") + ("*" if row["rests_on_assumed"] else "")


def _quantity(value: float, unit: str) -> str:
    factor, unit = scaled([value], unit)
    return f"{value / factor:#.4g}".rstrip(".") + f" {unit}"


def _absent(answer: Answer) -> list[str]:
    """Return lines with the models and devices without a time, and the reasons."""
    kernels = {row["kernel"] for row in answer}
    places: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for row in answer:
        if row["execution_time"] is None:
            places[row["model"], str(row["status"]), row["device"]].append(row["kernel"])
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (model, status, device), missing in places.items():
        everywhere = len(missing) == len(kernels)
        reasons[model, status].append(device if everywhere else f"{device} ({', '.join(missing)})")
    return _wrapped(
        f"{model} gives no time on {', '.join(devices)}: {status.replace('_', ' ')}"
        for (model, status), devices in reasons.items()
    )


def fronts_of(results: Any) -> tuple[Fronts, tuple[str, ...]]:
    """Return every time-energy front, and notes about assumed values; none without energy."""
    try:
        answer = pareto(results)
    except QueryError:
        return {}, ()
    fronts: dict[Key, list[Row]] = defaultdict(list)
    for row in answer:
        if row["energy"] is not None:
            fronts[row["kernel"], row["device"], row["model"]].append(row)
    return fronts, tuple(note for note in answer.notes if note.startswith("*"))


def saving(front: Sequence[Row]) -> float:
    """Return the share of the fastest point's energy that the last point saves [1]."""
    return 1.0 - float(front[-1]["energy"] / front[0]["energy"])


def knee(front: Sequence[Row]) -> Row:
    """Return the point of a front that lies furthest below the line between its ends."""
    first, last = front[0], front[-1]
    spans = {name: last[name] - first[name] or 1.0 for name in ("execution_time", "energy")}
    return min(front, key=lambda row: sum((row[n] - first[n]) / abs(spans[n]) for n in spans))


def fronts_text(fronts: Fronts, notes: Iterable[str]) -> str:
    """Return fronts as text: the fastest point, and what the others cost and save."""
    notes = _wrapped(notes)
    keys = list(fronts)[:MOST_ROWS]
    devices = list(dict.fromkeys(device for _, device, _ in fronts))
    columns: list[list[str]] = [
        ["", title, *(key[i] for key in keys)]
        for i, title in enumerate(("kernel", "device", "model"))
        if i != 1 or len(devices) > 1
    ]
    columns.append(["", "points", *(f"{len(fronts[key]):>6}" for key in keys)])
    head = ("clocks", "time", "energy*" if notes else "energy")
    chosen = {"fastest": lambda front: front[0], "knee": knee, "least energy": lambda f: f[-1]}
    for title, choose in chosen.items():
        points = [_point(choose(fronts[key]), fronts[key][0], title) for key in keys]
        columns.append([title, *_aligned([head, *points], right=(1, 2))])
    where = f" on {devices[0]}" if len(devices) == 1 else ""
    lines = _aligned(list(zip(*columns, strict=True)))
    if len(fronts) > len(keys):
        lines.append(f"... and {len(fronts) - len(keys)} more fronts: sweep pareto")
    head_line = f"Time against energy{where}: three points of each Pareto front, with the change"
    return "\n".join([f"{head_line} from its fastest", "", *lines, *notes])


def _point(row: Row, fastest: Row, title: str) -> tuple[str, str, str]:
    """Return a point's clocks, time and energy, the latter two relative to the fastest."""
    if title == "fastest":
        return _clocks(row), _quantity(row["execution_time"], "s"), _quantity(row["energy"], "J")
    if row is fastest:
        return "same", "", ""
    time, energy = (float(row[n] / fastest[n]) - 1.0 for n in ("execution_time", "energy"))
    return _clocks(row), f"{100 * time:+.1f} %", f"{100 * energy:+.1f} %"


def _aligned(lines: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Return rows as text with aligned columns; ``right`` are those aligned to the right."""
    columns = []
    for number, column in enumerate(zip(*lines, strict=True)):
        side = ">" if number in right else "<"
        columns.append([f"{cell:{side}{max(map(len, column))}}" for cell in column])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def _wrapped(notes: Iterable[str]) -> list[str]:
    return [line for note in notes for line in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]


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
    """Return further commands about one kernel on one device."""
    kernel, device, model = shown
    place = f"kernel={kernel} device={device}"
    data = shlex.quote(source)
    lines = ["Next:", f"  sweep explain {data} {place} model={model}"]
    if has_energy:
        lines.append(f"  sweep pareto {data} {place} model={model}")
    else:
        lines.append(f"  sweep top {data} 10 {place}")
    dims = [name for name in _swept(grid) if len(set(grid.axis_values(name).tolist())) > 1]
    if len(dims) > 1:
        axes = f"-x {dims[0]} -y {dims[1]}"
        lines.append(f"  sweep plot {data} heatmap {axes} {place} model={model}")
    return lines
