"""Titles, labels and legends that fit, whatever their length."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from sweep.plot._figure import INVALID, TIED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["invalid_patch", "label", "legend", "remark", "subtitle", "title"]

CHARACTERS_PER_INCH = 13.0  # of a legend's text, markers included


def title(figure: Figure, text: str) -> None:
    """Write the title, in as many lines as it needs."""
    width = int(figure.get_figwidth() * 9.5)
    figure.suptitle("\n".join(textwrap.wrap(text, width)))


def subtitle(axes: Axes, text: str, inches: float) -> None:
    """Write what a panel shows above it, in as many lines as its width takes."""
    lines = textwrap.wrap(text, int(inches * CHARACTERS_PER_INCH))
    axes.set_title("\n".join(lines), color="#555555")


def label(long_name: str, unit: str, width: int = 48) -> str:
    r"""Return an axis label: the name with its unit, in lines of at most ``width``.

    >>> label("core clock", "MHz")
    'core clock\xa0[MHz]'
    """
    text = long_name if unit in ("", "1") else f"{long_name}{TIED}[{unit}]"
    lines = -(-len(text) // width)
    balanced = min(width, len(text) // lines + 8)  # no last line of a single word
    return "\n".join(textwrap.wrap(text, balanced))


def legend(figure: Figure, handles: Sequence[Any], loc: Any, share: float = 1.0) -> None:
    """Put a legend outside the axes, within a share of the figure's width."""
    if not handles:
        return
    room = figure.get_figwidth() * share * CHARACTERS_PER_INCH
    for handle in handles:
        handle.set_label("\n".join(textwrap.wrap(str(handle.get_label()), int(room) - 8)))
    longest = max(len(line) for h in handles for line in str(h.get_label()).split("\n"))
    columns = max(1, min(len(handles), int(room // (longest + 8))))
    figure.legend(handles=list(handles), loc=loc, ncols=columns)


def remark(text: str) -> Line2D:
    """Return a legend entry that is words alone."""
    return Line2D([], [], linestyle="none", label=text)


def invalid_patch(reasons: Sequence[str]) -> Patch:
    """Return the legend entry for hatched cells, with the reasons."""
    names = ", ".join(dict.fromkeys(reason.replace("_", " ") for reason in reasons))
    return Patch(**INVALID, label=f"no valid configuration ({names})")
