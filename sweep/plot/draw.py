"""What all pictures share: figure, colours, titles, legends, labels with units, scales, files."""

from __future__ import annotations

import io
import math
import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from sweep.errors import QueryError, SweepError
from sweep.fields import Array
from sweep.importers.files import MARK, write_whole
from sweep.query.texts import number, scaled

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#332288")
"""Okabe and Ito's colours, which colour-blind people tell apart (black replaced by indigo)."""

INVALID: dict[str, Any] = {"facecolor": "#d9d9d9", "edgecolor": "#8c8c8c", "hatch": "////",
                           "linewidth": 0.0}  # fmt: skip
"""How configurations without a result look."""

STAR: dict[str, Any] = {"marker": "*", "mfc": "white", "linestyle": "none"}
"""How the best looks."""

GREY = "#8c8c8c"

TIED = "\N{NO-BREAK SPACE}"  # between number and unit
DECADES = 2.0  # a range wider than this gets a logarithmic axis
COLOUR_DECADES = 1.0  # and this logarithmic colours: they tell fewer steps apart than lengths do
LEAST_SPAN = 0.05  # of the smallest value: the least that the colours span
TICKS = 9
CROWDED = 2e4  # ratio of an axis' ends
CHARACTERS_PER_INCH = 13.0  # of a legend's text, markers included
STYLE = Path(__file__).with_name("style.mplstyle")


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
        mpl.rc_file(STYLE)
        yield


@contextmanager
def picture(
    width: float, height: float, rows: int = 1, columns: int = 1, title: str = "", **options: Any
) -> Iterator[tuple[Picture, NDArray[Any]]]:
    """Yield a new figure and its panels, an array of rows; draw into them in the block.

    At the end of the block the layout is settled: every file of the figure is then the same.

    Parameters
    ----------
    width, height : float
        Of the figure [inches].
    rows, columns : int
        How many panels.
    title : str
        The figure's title, written in as many lines as it needs.
    **options
        Of ``Figure.subplots``.
    """
    with style():
        figure = Picture(figsize=(width, height), layout="constrained")
        if title:
            figure.suptitle("\n".join(textwrap.wrap(title, int(width * 9.5))))
        yield figure, figure.subplots(rows, columns, squeeze=False, **options)
        engine = figure.get_layout_engine()
        assert engine is not None
        for _ in range(2):  # the first time the ticks may change, and with them their width
            engine.execute(figure)
        figure.set_layout_engine(None)


def _is_wide(values: Array, decades: float = DECADES) -> bool:
    """Return whether values are all positive and spread over more than some decades."""
    finite = values[np.isfinite(values)]
    if finite.size == 0 or finite.min() <= 0:
        return False
    return bool(math.log10(finite.max() / finite.min()) > decades)


def norm_of(values: Array) -> Normalize:
    """Return the colour scale for values; next to no difference must not look like one."""
    finite = values[np.isfinite(values)]
    low, high = (finite.min(), finite.max()) if finite.size else (0.0, 1.0)
    if _is_wide(values, COLOUR_DECADES):
        return LogNorm(low, high)
    return Normalize(low, max(high, low + (LEAST_SPAN * abs(low) or 1.0)))


def scale_axis(axes: Axes, axis: str, values: Array | None = None) -> bool:
    """Make an axis logarithmic, and return whether it is.

    Given values make it logarithmic only if they spread over more than two decades.
    """
    is_log = values is None or _is_wide(values)
    if is_log:
        axes.set(**{f"{axis}scale": "log"})
        log_ticks(getattr(axes, f"{axis}axis"))
    return is_log


def set_ticks(axes: Axes, axis: str, values: Sequence[Any]) -> None:
    """Label cells 0, 1, 2, ... with their values; of many values only some."""
    count = len(values)
    shown = list(range(count))
    if count > 12:
        shown = np.unique(np.linspace(0, count - 1, TICKS).round().astype(int)).tolist()
    texts = ticks([values[i] for i in shown])
    crowded = axis == "x" and sum(map(len, texts)) > 55
    look: dict[str, Any] = {"rotation": 35, "ha": "right"} if crowded else {}
    getattr(axes, f"set_{axis}ticks")(shown, texts, **look)


class DecadeLocator(LogLocator):
    """Ticks at 1, 2 and 5 of each decade; at 1 alone where these would meet."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the ticks between two values."""
        self.set_params(subs=(1.0,) if vmax > CROWDED * vmin else (1.0, 2.0, 5.0))
        return super().tick_values(vmin, vmax)


def log_ticks(axis: Any) -> None:
    """Label a logarithmic axis with plain numbers."""
    axis.set_major_locator(DecadeLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(value), 3)))
    axis.set_minor_formatter(NullFormatter())


def colour_bar(shown: Any, text: str) -> None:
    """Add the colour bar of what is drawn beside its axes."""
    bar = shown.figure.colorbar(shown, ax=shown.axes, label=text, pad=0.02)
    if isinstance(shown.norm, LogNorm):
        log_ticks(bar.ax.yaxis)


def ticks(values: Sequence[Any]) -> list[str]:
    """Return values as short as they can be told apart and are right within a percent.

    >>> ticks([563.0, 653.08, 1238.6]), ticks([0.5, 0.75, 1.0]), ticks(["row", 4])
    (['563', '653', '1239'], ['0.5', '0.75', '1'], ['row', '4'])
    """
    for decimals in range(6 if all(isinstance(value, float) for value in values) else 0):
        texts = [number(round(value, decimals)) for value in values]
        if len(set(texts)) == len(set(values)) and np.allclose(
            [*map(float, texts)], values, rtol=0.01, atol=0.0
        ):
            return texts
    return [number(value) for value in values]


def colour_of(index: int) -> str:
    """Return a colour of the palette, which repeats after its end."""
    return PALETTE[index % len(PALETTE)]


def words(name: str) -> str:
    """Return a name as people write it."""
    return name.replace("_", " ")


def grid(axes: Axes, axis: Literal["both", "y"] = "both") -> None:
    """Draw thin lines behind the data."""
    axes.grid(True, axis=axis, color="#e6e6e6", lw=0.7)
    axes.set_axisbelow(True)


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


def regime_label(regime: str, model: str | None) -> str:
    """Return a regime's name without the model's, which stands in the title.

    >>> regime_label("hong_kim_eq24", "hong_kim")
    'eq24'
    """
    return words(regime.removeprefix(f"{model}_")) if model else regime


def entry(text: str, **look: Any) -> Line2D:
    """Return a legend entry: a text, beside the marker or line that it explains, if any."""
    return Line2D([], [], label=text, **{"linestyle": "none", **look})


def invalid_patch(reasons: Sequence[str]) -> Patch:
    """Return the legend entry for hatched cells, with the reasons."""
    names = ", ".join(dict.fromkeys(map(words, reasons)))
    return Patch(**INVALID, label=f"no valid configuration ({names})")


def legend(
    figure: Figure, handles: Sequence[Any], loc: Any = "outside lower center", share: float = 1.0
) -> None:
    """Put a legend outside the axes, within a share of the figure's width."""
    if not handles:
        return
    room = figure.get_figwidth() * share * CHARACTERS_PER_INCH
    texts = [textwrap.wrap(str(handle.get_label()), int(room) - 8) for handle in handles]
    for handle, lines in zip(handles, texts, strict=True):
        handle.set_label("\n".join(lines))
    widths = [8 + max(map(len, lines)) for lines in texts]
    columns = next(n for n in range(len(handles), 0, -1)
                   if n == 1 or sum(map(max, np.array_split(widths, n))) <= room)  # fmt: skip
    figure.legend(handles=list(handles), loc=loc, ncols=columns)


def quantity(value: float, unit: str) -> str:
    r"""Return a value with a readable unit.

    >>> quantity(2.5e-5, "s")
    '25\xa0µs'
    """
    factor, unit = scaled([value], unit)
    text = number(float(value) / factor, 4)
    return text if unit in ("", "1") else f"{text}{TIED}{unit}"


def save(
    figure: Figure, path: str | os.PathLike[str], *, dpi: float = 160, overwrite: bool = False
) -> Path:
    """Write a picture to a file.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The picture.
    path : path
        Where to; the suffix gives the format (png, svg, pdf, ...).
    dpi : float
        Pixels per inch of a png.
    overwrite : bool
        Whether to replace a file that is there and is no picture by this function.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    QueryError
        The format is unknown, or the file is there already or cannot be written.
    """
    target = Path(path)
    suffix = target.suffix.removeprefix(".").lower()
    known = sorted(figure.canvas.get_supported_filetypes())
    if suffix not in known:
        raise QueryError(f"cannot save '{target}': the suffix must be one of {', '.join(known)}")
    # Dates and versions would make two files of the same picture differ.
    facts = {
        "svg": {"Date": None, "Creator": MARK},
        "pdf": {"CreationDate": None, "Creator": MARK},
        "png": {"Software": MARK},
    }
    write = partial(figure.savefig, format=suffix, dpi=dpi, metadata=facts.get(suffix))
    try:
        with style():
            write_whole(target, write, overwrite=overwrite)
    except SweepError as error:
        raise QueryError(str(error)) from None
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
