"""A histogram, or shares of codes, group by group."""

from __future__ import annotations

from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.plot._figure import PALETTE, TIED, Picture, laid_out, log_ticks, style
from sweep.query import Answer
from sweep.query.answer import scaled

__all__ = ["histogram_plot"]

COUNTS = ("lowest", "highest", "count", "share")
MOST_GROUPS = len(PALETTE)


def histogram_plot(answer: Answer) -> Picture:
    """Draw what :func:`sweep.histogram` answered.

    Parameters
    ----------
    answer : Answer
        Its answer, with at most eight groups.

    Returns
    -------
    matplotlib.figure.Figure
        A line of steps for each group over the bins, logarithmic where the bins are; or bars of the
        shares of codes.

    Raises
    ------
    QueryError
        It is another answer, it is empty, or it has more groups than can be told apart.
    """
    if not {"count", "share"} <= set(answer.columns) or not len(answer):
        raise QueryError("only the answer of a histogram that counts something can be drawn")
    groups: dict[str, list[Any]] = {}
    for row in answer:
        name = ", ".join(str(row[key]) for key in answer.coordinates)
        groups.setdefault(name, []).append(row)
    if len(groups) > MOST_GROUPS:
        raise QueryError(
            f"{len(groups)} groups are more than the {MOST_GROUPS} that can be told apart: "
            "select fewer, or name fewer dimensions in `by`"
        )
    with style():
        figure = Picture(figsize=(7.4, 4.6), layout="constrained")
        axes = figure.add_subplot()
        draw = _steps if "lowest" in answer.columns else _bars
        draw(axes, answer, groups)
        axes.set_ylabel("share of configurations")
        axes.set_ylim(bottom=0.0)
        if any(groups):
            axes.legend(title=", ".join(answer.coordinates))
        figure.suptitle(answer.title.partition(",")[0].capitalize())
        return laid_out(figure)


def _steps(axes: Any, answer: Answer, groups: dict[str, list[Any]]) -> None:
    """Draw the shares of bins as steps; what lies outside of the bins is left out."""
    unit = answer.units.get("lowest", "1")
    inside = {n: [r for r in rows if None not in (r["lowest"], r["highest"])]
              for n, rows in groups.items()}  # fmt: skip
    edges = np.array([r["lowest"] for r in next(iter(inside.values()))]
                     + [next(iter(inside.values()))[-1]["highest"]])  # fmt: skip
    factor, unit = scaled([float(np.abs(edges).max())], unit)
    for number, (name, rows) in enumerate(inside.items()):
        shares = [row["share"] or 0.0 for row in rows]
        axes.stairs(shares, edges / factor, color=PALETTE[number], label=name, linewidth=1.4)
    widths = np.diff(edges)
    if len(widths) > 1 and edges[0] > 0 and not np.allclose(widths, widths[0]):
        axes.set_xscale("log")
        log_ticks(axes.xaxis)
    axes.set_xlabel(f"{_variable(answer)}{f'{TIED}[{unit}]' if unit not in ('', '1') else ''}")


def _bars(axes: Any, answer: Answer, groups: dict[str, list[Any]]) -> None:
    """Draw the shares of meanings as bars beside each other."""
    name = next(c for c in answer.columns if c not in (*answer.coordinates, *COUNTS))
    meanings = list(dict.fromkeys(row[name] for row in answer))
    width = 0.8 / len(groups)
    for number, (group, rows) in enumerate(groups.items()):
        shares = {row[name]: row["share"] or 0.0 for row in rows}
        at = np.arange(len(meanings)) + (number - (len(groups) - 1) / 2) * width
        heights = [shares.get(meaning, 0.0) for meaning in meanings]
        axes.bar(at, heights, width, color=PALETTE[number], label=group)
    labels = [meaning.replace("_", " ") for meaning in meanings]
    axes.set_xticks(range(len(labels)), labels, rotation=35, ha="right")
    axes.set_xlabel(name.replace("_", " "))


def _variable(answer: Answer) -> str:
    """Return the variable's name in words, from the question."""
    return answer.title.removeprefix("histogram of ").split(" ")[0].rstrip(",").replace("_", " ")
