"""What a run says at its end: the best configurations, the fronts, a figure."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from sweep.errors import QueryError
from sweep.query import Answer, Row, best, pareto

__all__ = ["best_table", "front_table", "report"]

BEST_COLUMNS = ("kernel", "device", "model", "execution_time", "energy", "occupancy", "regime",
                "bound", "runner_up")  # fmt: skip


def report(results: Any, figure: Path | None) -> str:
    """Return the answers that a run ends with, and save its figure.

    Parameters
    ----------
    results : xarray.DataTree
        Results of a run.
    figure : Path, optional
        Where to save the figure; none is drawn where no configuration has an energy.

    Returns
    -------
    str
        Best configuration per kernel, device and model; time-energy fronts in three points each.
    """
    parts = [best_table(results)]
    fronts = front_table(results)
    if fronts is not None:
        parts.append(fronts.to_table())
    if figure is not None and fronts is not None and len(fronts):
        from sweep.plot import pareto_plot, save

        first = fronts[0]
        chosen = {name: first[name] for name in ("kernel", "device")}
        save(pareto_plot(results, select=chosen), figure)
        parts.append(f"figure: {figure}")
    return "\n\n".join(part.rstrip("\n") for part in parts)


def best_table(results: Any) -> str:
    """Return the best configuration per kernel, device and model as text.

    Groups without any time are named below the table, by reason, not listed.
    """
    answer = best(results)
    found = [row for row in answer if row["execution_time"] is not None]
    absent: dict[tuple[str, str], set[str]] = defaultdict(set)
    for row in answer:
        if row["execution_time"] is None:
            absent[row["model"], str(row["status"])].add(row["device"])
    dropped = {"status", "power", "core_clock_ratio", "memory_clock_ratio", "active_blocks_per_sm"}
    columns = tuple(name for name in answer.columns if name not in dropped)
    notes = [
        f"{model} gives no time on {', '.join(sorted(devices))}: {status}"
        for (model, status), devices in absent.items()
    ]
    shown = Answer(
        answer.title, columns, found, answer.units, answer.coordinates, (*answer.notes, *notes)
    )
    return shown.to_table()


def front_table(results: Any) -> Answer | None:
    """Return every time-energy front in three points: fastest, knee, least energy.

    ``None`` where the results have no energy.
    """
    try:
        answer = pareto(results)
    except QueryError:
        return None
    fronts: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in answer:
        if row["energy"] is not None:
            fronts[tuple(row[name] for name in ("kernel", "device", "model"))].append(row)
    if not fronts:
        return None
    rows = []
    for key, points in fronts.items():
        labels = dict(zip(("kernel", "device", "model"), key, strict=True))
        picked = {"fastest": 0, "knee": _knee(points), "least energy": len(points) - 1}
        for name, index in picked.items():
            point = points[index]
            rows.append(
                Row(
                    {**labels, "front": len(points), "point": name}
                    | {c: point.get(c) for c in CHOSEN},
                    answer.coordinates,
                )
            )
    units = dict(answer.units)
    return Answer(
        "time-energy Pareto fronts, three points of each",
        ("kernel", "device", "model", "front", "point", *CHOSEN),
        rows,
        units,
        ("kernel", "device", "model"),
        tuple(note for note in answer.notes if "no valid" not in note),
    )


CHOSEN = ("core_clock", "memory_clock", "execution_time", "power", "energy")


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
