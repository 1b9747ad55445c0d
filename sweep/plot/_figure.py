"""What all pictures share: figure, colours, labels with units, scales, files."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from sweep.errors import QueryError
from sweep.query.answer import number, scaled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sweep.query.grid import Grid

__all__ = [
    "INVALID",
    "LEAST_SPAN",
    "PALETTE",
    "TIED",
    "Picture",
    "colour_of",
    "is_wide",
    "laid_out",
    "log_ticks",
    "norm_of",
    "regime_colours",
    "regime_label",
    "save",
    "scale_axis",
    "set_ticks",
    "show",
    "spell",
    "style",
    "ticks",
]

Array = NDArray[Any]

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#332288")
"""Okabe and Ito's colours, which colour-blind people tell apart (black replaced by indigo)."""

INVALID: dict[str, Any] = {
    "facecolor": "#d9d9d9",
    "edgecolor": "#8c8c8c",
    "hatch": "////",
    "linewidth": 0.0,
}
"""How configurations without a result look."""

TIED = "\N{NO-BREAK SPACE}"  # between number and unit
DECADES = 2.0  # a range wider than this gets a logarithmic axis
COLOUR_DECADES = 1.0  # and this logarithmic colours: they tell fewer steps apart than lengths do
LEAST_SPAN = 0.05  # of the smallest value: the least that the colours span
TICKS = 9
STYLE: dict[str, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.5,
    "axes.formatter.useoffset": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.titlesize": 11.0,
    "figure.titleweight": "bold",
    "hatch.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "svg.hashsalt": "sweep",
}


class Picture(Figure):
    """A figure that notebooks display, without pyplot and its register of open figures."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()


@contextmanager
def style() -> Iterator[None]:
    """Draw in the pictures' style, whatever the user's settings."""
    with mpl.rc_context():
        mpl.rcdefaults()
        known: Any = mpl.rcParams
        known.update(STYLE)
        yield


def laid_out(figure: Picture) -> Picture:
    """Return the figure with its layout settled: every file of it will then be the same."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure


def is_wide(values: Array, decades: float = DECADES) -> bool:
    """Return whether values are all positive and spread over more than some decades."""
    finite = values[np.isfinite(values)]
    if finite.size == 0 or finite.min() <= 0:
        return False
    return bool(math.log10(finite.max() / finite.min()) > decades)


def norm_of(values: Array) -> Normalize:
    """Return the colour scale for values; next to no difference must not look like one."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if is_wide(values, COLOUR_DECADES):
        return LogNorm(low, high)
    return Normalize(low, max(high, low + (LEAST_SPAN * abs(low) or 1.0)))


def scale_axis(axes: Axes, axis: str, values: Array) -> None:
    """Make an axis logarithmic if its values spread over more than two decades."""
    if is_wide(values):
        getattr(axes, f"set_{axis}scale")("log")
        log_ticks(getattr(axes, f"{axis}axis"))


def set_ticks(axes: Axes, axis: str, values: Sequence[Any]) -> None:
    """Label cells 0, 1, 2, ... with their values; of many values only some."""
    count = len(values)
    shown = list(range(count))
    if count > 12:
        shown = np.unique(np.linspace(0, count - 1, TICKS).round().astype(int)).tolist()
    texts = ticks([values[i] for i in shown])
    crowded = axis == "x" and sum(map(len, texts)) > 55
    getattr(axes, f"set_{axis}ticks")(
        shown, texts, rotation=35 if crowded else 0, **({"ha": "right"} if crowded else {})
    )


def log_ticks(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers, 1, 2 and 5 of each decade."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value), 3)))
    axis.set_minor_formatter(NullFormatter())


def ticks(values: Sequence[Any]) -> list[str]:
    """Return values as short as they can be told apart and are right within a percent.

    >>> ticks([563.0, 653.08, 1238.6]), ticks([0.5, 0.75, 1.0]), ticks(["row", 4])
    (['563', '653', '1239'], ['0.5', '0.75', '1'], ['row', '4'])
    """
    if not all(isinstance(value, float) for value in values):
        return [number(value) for value in values]
    for decimals in range(6):
        texts = [number(round(value, decimals)) for value in values]
        if len(set(texts)) == len(set(values)) and all(
            abs(float(text) - value) <= 0.01 * abs(value)
            for text, value in zip(texts, values, strict=True)
        ):
            return texts
    return [number(value) for value in values]


def colour_of(index: int) -> str:
    """Return a colour of the palette, which repeats after its end."""
    return PALETTE[index % len(PALETTE)]


def regime_colours(grid: Grid, model: str | None) -> dict[str, str]:
    """Return a colour for each of a model's regimes, the same in every picture."""
    if "regime" not in grid.variables:
        return {}
    known = [str(name) for name in grid.meanings("regime") if not str(name).startswith("unknown")]
    known = [name for name in known if name not in ("none", "not computed")]
    mine = [name for name in known if model is None or name.startswith(f"{model}_")] or known
    return {name: colour_of(i) for i, name in enumerate(mine)}


def regime_label(regime: str, model: str | None) -> str:
    """Return a regime's name without the model's, which stands in the title.

    >>> regime_label("hong_kim_eq24", "hong_kim")
    'eq24'
    """
    return regime.removeprefix(f"{model}_").replace("_", " ") if model else regime


def spell(value: float, unit: str) -> str:
    r"""Return a value with a readable unit.

    >>> spell(2.5e-5, "s")
    '25\xa0µs'
    """
    factor, unit = scaled([value], unit)
    text = number(float(value) / factor, 4)
    return text if unit in ("", "1") else f"{text}{TIED}{unit}"


def save(figure: Figure, path: str | os.PathLike[str], *, dpi: float = 160) -> Path:
    """Write a picture to a file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The picture.
    path : path
        Where to; the suffix gives the format (png, svg, pdf, ...).
    dpi : float
        Pixels per inch of a png.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    QueryError
        The format is unknown, or the file cannot be written.
    """
    target = Path(path)
    known = sorted(figure.canvas.get_supported_filetypes())
    if target.suffix.removeprefix(".").lower() not in known:
        raise QueryError(f"cannot save '{target}': the suffix must be one of {', '.join(known)}")
    # Dates and versions would make two files of the same picture differ.
    blank = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {"Software": None}}
    try:
        with style():
            figure.savefig(target, dpi=dpi, metadata=blank.get(target.suffix.lower()))
    except OSError as error:
        raise QueryError(f"cannot save '{target}': {error.strerror or error}") from None
    return target


def show(figure: Figure) -> None:
    """Open a window with the picture and wait until it is closed.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The picture.

    Raises
    ------
    QueryError
        There is no screen that matplotlib can draw on.
    """
    from matplotlib import pyplot as plt

    if mpl.get_backend().lower() in ("agg", "cairo", "pdf", "pgf", "ps", "svg", "template"):
        raise QueryError("no screen to show a picture on: save it to a file")
    window = plt.figure(figsize=figure.get_size_inches())
    # The window's canvas takes the finished picture in the place of its own empty one.
    window.canvas.figure = figure
    figure.set_canvas(window.canvas)
    plt.show()
