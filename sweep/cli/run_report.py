"""The report of a run: best configurations, fronts, a figure, and further commands."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.fields import PARAMETER, PROBLEM
from sweep.fronts import knee
from sweep.query import Answer, Row, best, pareto
from sweep.query.answer import rows_by
from sweep.query.grid import CLOCKS, Grid, grids_of
from sweep.query.question import DEFAULT_BY
from sweep.query.resting import resting_note
from sweep.query.shown import NOTES, absent_line, note_lines
from sweep.query.table import aligned
from sweep.query.texts import Stars, number, quantity, terminal_width, wrapped
from sweep.query.tuning import PREFERRED, conclusions, tunings

MOST_ROWS, MOST_PAIRS = 48, 16
"""Most rows of a table, and most results with a row each; questions show the others."""

Key = tuple[Any, ...]
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
        kernel, device and model with the largest saving of energy; without energy, what tuning is
        worth.
    source : str
        The store, or the plan without one, for the commands at the end.

    Returns
    -------
    str
        Best configuration per kernel, device and model, fronts in three points each or else what
        tuning is worth, the figure's path, and further commands.
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
    elif not fronts:
        parts += _tuning_text(results, figure)
    return "\n\n".join([*parts, "\n".join(lines)])


def best_text(grids: Mapping[str, Grid], answer: Answer) -> str:
    """Return the best configuration per kernel, device and model as text.

    Models that choose the same configuration share a row. Groups without a time are not listed;
    a line below the table gives the reasons. Where the output is too narrow, bounds are left out,
    then parameters named once for each kernel, then models left out, the preferred one never.
    """
    valid = [row for row in answer if row["execution_time"] is not None]
    absent = absent_line(answer.rows, answer.coordinates)
    others = [note for note in answer.notes if not isinstance(note, Stars)]
    notes = [*resting_note(_of_times(valid)), *others][:NOTES] + ([absent] if absent else [])
    if not valid:
        return "\n".join(["No configuration has a time.", *_wrapped(notes)])
    models = list(dict.fromkeys(row["model"] for row in valid))
    kept = sorted(models, key=lambda model: model != PREFERRED)  # the last ones are left out first
    sizes = range(len(models), 0, -1)
    forms = [(len(models) < 3, False, len(models))]
    for with_bound, is_short, most in forms + [(False, s, n) for n in sizes for s in (False, True)]:
        shown = [model for model in models if model in kept[:most]]
        own = [row for row in valid if row["model"] in shown]
        table = _by_place(grids, own, with_bound=with_bound, is_short=is_short)
        if PREFERRED in models and len(valid) > MOST_PAIRS:
            table = _of_one_model(table)
        rows, titles = _rows_of(table, shown)
        if max(map(len, aligned(rows))) <= terminal_width():
            break
    if kept[most:]:
        notes.append(f"models left out: {', '.join(kept[most:])} (all: sweep best)")
    lines = []
    for place, line in enumerate(aligned(rows)):
        lines += [*(wrapped(titles[place], terminal_width()) if place in titles else []), line]
    if len(table) > len(titles):
        lines.append(f"... and {len(table) - len(titles)} more kernels: sweep best")
    head = "Fastest configuration of each kernel on each device, as predicted"
    what = "clocks: core/memory MHz"
    if PREFERRED in models and len(models) > 1 and len(valid) > MOST_PAIRS:
        what += f"; configurations: {PREFERRED}'s best; times: each model's own best"
    return "\n".join([*_wrapped([f"{head} ({what})"]), "", *lines, *_wrapped(notes)])


def _of_times(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows without what power and energy rest on, which are not shown."""
    return [
        row
        | {"rests_on_assumed": [n for n in row["rests_on_assumed"] if not n.startswith("power.")]}
        for row in rows
    ]


Places = Mapping[str, Mapping[tuple[str, ...], Mapping[str, str]]]
"""By kernel, then by device, configuration and clocks, the time by each model."""


def _by_place(
    grids: Mapping[str, Grid], rows: Sequence[Row], *, with_bound: bool, is_short: bool
) -> Places:
    width = max(len(_time(row)) for row in rows)
    table: dict[str, dict[tuple[str, ...], dict[str, str]]] = defaultdict(dict)
    for row in rows:
        grid = grids[row["kernel"]]
        values = {name: number(row[name], 6) for name in _swept(grid) if name not in CLOCKS}
        words = [f"{name}={value}" for name, value in values.items()]
        title, rest = _title(grid), " ".join(words)
        if is_short and len(values) > 1:
            title, rest = f"{title}: {'/'.join(values)}", "/".join(values.values())
        place = (row["device"], rest or "-", _clocks(row))
        bound = f" {row['bound']}" if with_bound and row.get("bound") else ""
        table[title].setdefault(place, {})[row["model"]] = _time(row).rjust(width) + bound
    return table


def _of_one_model(table: Places) -> Places:
    """Return a row per device: the configuration of the preferred model, the times of all."""
    found: dict[str, dict[tuple[str, ...], dict[str, str]]] = {}
    for title, places in table.items():
        chosen: dict[str, tuple[str, ...]] = {}
        times: dict[str, dict[str, str]] = defaultdict(dict)
        for place, own in places.items():
            if PREFERRED in own or place[0] not in chosen:
                chosen[place[0]] = place
            times[place[0]] |= own
        found[title] = {place: times[device] for device, place in chosen.items()}
    return found


def _rows_of(table: Places, models: Sequence[str]) -> tuple[list[tuple[str, ...]], dict[int, str]]:
    """Return the rows, the first of them the header, and the titles above some of them."""
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
    return rows, titles


def _title(grid: Grid) -> str:
    """Return a kernel's name with the problem sizes that have one value."""
    fixed = {n: c.values.item() for n, c in sorted(grid.coordinates.items()) if c.values.size == 1}
    fixed |= {name: grid.axis_values(name).tolist()[0] for name in grid.axes}
    left_out = {*_swept(grid), *CLOCKS, "model", "device", PROBLEM}
    left_out |= {name for name in fixed if grid.long_name(name).startswith(PARAMETER)}
    values = [
        f"{name}={number(value, 15)}" for name, value in fixed.items() if name not in left_out
    ]
    return f"{grid.kernel} ({', '.join(values)})" if values else grid.kernel


def _swept(grid: Grid) -> list[str]:
    """Return sizes, parameters and clocks that have several values."""
    axes = (name for name in grid.axes if name not in ("model", "device"))
    names = [name for axis in axes for name in (grid.listed if axis == PROBLEM else (axis,))]
    return [name for name in names if len(set(grid.axis_values(name).tolist())) > 1]


def _clocks(row: Row) -> str:
    """Return the clocks that a configuration runs at, of which a limit may have lowered one."""
    core, memory = (row.get(f"{name}_clock") for name in ("core", "memory"))
    core = row.get("actual_core_clock") or core
    return "/".join("-" if value is None else f"{value:.5g}" for value in (core, memory))


def _time(row: Row) -> str:
    """Return a time, marked if it rests on assumed values."""
    star = "*" if "execution_time" in (row.stars or ()) else ""
    return quantity(row["execution_time"], "s") + star


def fronts_of(results: Any) -> tuple[Fronts, tuple[str, ...]]:
    """Return every time-energy front, and notes about assumed values; none without energy."""
    try:
        answer = pareto(results)
    except QueryError:
        return {}, ()
    known = [row for row in answer if row["energy"] is not None]
    notes = tuple(note for note in answer.notes if isinstance(note, Stars))
    return rows_by(known, DEFAULT_BY), notes


def saving(front: Sequence[Row]) -> float:
    """Return the share of the fastest point's energy that the last point saves [1]."""
    return 1.0 - float(front[-1]["energy"] / front[0]["energy"])


def _knee(front: Sequence[Row]) -> Row:
    times, energies = (np.array([row[n] for row in front]) for n in ("execution_time", "energy"))
    return front[knee(times, energies)]


def fronts_text(fronts: Fronts, notes: Iterable[str]) -> str:
    """Return fronts as text: the fastest point, and what the others cost and save.

    Where the output is too narrow, the knees are left out, then numbers of points and, at last, the
    energy of the fastest.
    """
    notes = _wrapped(notes)
    names = [set(of_kind) for of_kind in zip(*fronts, strict=True)]  # kernels, devices, models
    varied = [i for i, of_kind in enumerate(names) if len(of_kind) > 1 or i == 0]
    shown = dict(islice(fronts.items(), MOST_ROWS))
    for narrow in range(4):
        lines = _fronts_lines(shown, varied, narrow, "energy*" if notes else "energy")
        if max(map(len, lines)) <= terminal_width():
            break
    where = f" on {min(names[1])}" if len(names[1]) == 1 else ""
    if len(fronts) > len(shown):
        lines.append(f"... and {len(fronts) - len(shown)} more fronts: sweep pareto")
    what = f"{'two' if narrow else 'three'} points of each Pareto front"
    first = f"Time against energy{where}: {what}, the others relative to the fastest"
    return "\n".join([*_wrapped([first]), "", *lines, *notes])


def _fronts_lines(fronts: Fronts, varied: Sequence[int], narrow: int, energy: str) -> list[str]:
    """Return a line for each front, the narrower (0 to 3) the less is in it."""
    columns = [["", DEFAULT_BY[i], *(key[i] for key in fronts)] for i in varied]
    if narrow < 2:
        columns.append(["", "points", *(f"{len(front):>6}" for front in fronts.values())])
    chosen = {"fastest": lambda front: front[0], "knee": _knee, "least energy": lambda f: f[-1]}
    for title, choose in chosen.items():
        points: list[tuple[str, ...]] = [("clocks", "time", energy)]
        points += [_point(choose(front), front[0], title) for front in fronts.values()]
        if narrow == 3 and title == "fastest":
            points = [point[:2] for point in points]
        if not (narrow and title == "knee"):
            columns.append([title, *aligned(points, right=(1, 2))])
    return aligned(list(zip(*columns, strict=True)))


def _point(row: Row, fastest: Row, title: str) -> tuple[str, str, str]:
    """Return a point's clocks, time and energy, the latter two relative to the fastest."""
    if title == "fastest":
        return _clocks(row), quantity(row["execution_time"], "s"), quantity(row["energy"], "J")
    if row is fastest:
        return "same", "", ""
    time, energy = (float(row[n] / fastest[n]) - 1.0 for n in ("execution_time", "energy"))
    return _clocks(row), f"{100 * time:+.1f} %", f"{100 * energy:+.1f} %"


def _wrapped(notes: Iterable[str]) -> list[str]:
    return note_lines(notes, terminal_width())


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
    return "\n".join(_wrapped([f"Figure: {path} ({picture.get_suptitle()})"]))


def _tuning_text(results: Any, path: Path | None) -> list[str]:
    """Return what tuning is worth, with the figure's path; nothing without choices."""
    try:
        found = tunings(results)
    except QueryError:
        return []
    lines = [f"What to conclude, if {found[0].model} is right:"]
    lines += [f"- {sentence}" for sentence in conclusions(found)]
    if path is not None:
        from sweep.plot import save, tuning_plot

        save(tuning_plot(results), path)
        lines.append(f"Figure: {path} (the same for each kernel and device)")
    return ["\n".join(_wrapped(lines))]


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
    dims = _swept(grid)
    if len(dims) > 1:
        axes = f"-x {dims[0]} -y {dims[1]}"
        lines.append(f"  sweep plot {data} heatmap {axes} {place} model={model}")
    return lines
