"""The variants of a source that a kernel's space needs: its macros, a sample, the nearest ones."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sweep.errors import PlanError, SweepError, check_known
from sweep.space import KernelSpace
from sweep.space.valid import Names, spread, valid_configurations
from sweep.specs import Device, Kernel

Macros = dict[str, float | str | bool]
"""The macros of a variant with their values."""

OTHER = 1000.0
"""Distance of two variants in a switch: more than in any list of numbers."""

_NO_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")


def macros_of(source: str, kernel: Kernel, also: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the parameters that occur in a source, and what else shall be macros.

    Parameters
    ----------
    source : str
        The source; comments and strings do not count.
    kernel : Kernel
        The kernel file.
    also : sequence of str
        Problem sizes and parameters that the source takes as macros, or that decide how often its
        loops turn. A size is usually an argument.

    Raises
    ------
    SweepError
        One of ``also`` is no size.
    """
    for name in also:
        what = f"--define {name}: no problem size or parameter of {kernel.key}"
        check_known(name, (*kernel.sizes, *kernel.parameters), what, "", SweepError)
    words = {*_WORD.findall(_NO_CODE.sub(" ", source)), *also}
    sizes = (name for name in also if name in kernel.sizes)
    return (*(name for name in kernel.parameters if name in words), *sizes)


@dataclass(frozen=True, eq=False)
class Variants:
    """The distinct sources of a space: all valid combinations of the macros' values.

    Attributes
    ----------
    axes : mapping of str to tuple
        Each macro's values in the space.
    rows : ndarray of int, shape (variants, macros)
        The positions of each variant's values, in the order of the space.
    fixed : mapping of str to float
        Problem sizes with one value.
    kernel : Kernel
        The kernel file.
    devices : sequence of Device
        Those of the space; formulas may read what is known of them.
    """

    axes: Mapping[str, Sequence[Any]]
    rows: np.ndarray
    fixed: Mapping[str, float]
    kernel: Kernel
    devices: Sequence[Device] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Macros:
        """Return one variant's macros."""
        places = zip(self.axes.items(), self.rows[number], strict=True)
        return {name: values[int(place)] for (name, values), place in places}

    def sample(self, most: int) -> list[int]:
        """Return the numbers of at most so many variants, spread over all of them."""
        return sorted(spread(len(self), most))

    @cached_property
    def _places(self) -> np.ndarray:
        """Positions as points: adjacent values are 1 apart, those of a switch `OTHER`."""
        weights = [
            1.0 if len(values) > 2 and not isinstance(values[0], str) else OTHER
            for values in self.axes.values()
        ]
        return self.rows * np.asarray(weights)

    def nearest(self, number: int, known: Sequence[int]) -> int:
        """Return the one of some variants that differs least from another; the first of equals."""
        places = self._places
        distance = np.abs(places[np.asarray(known)] - places[number]).sum(axis=1)
        return known[int(np.argmin(distance))]

    def block(self, number: int) -> tuple[int, int, int] | None:
        """Return the width, height and depth of a variant's block, if its macros decide them."""
        width, height = (float(side[number]) for side in self._launch[:2])
        if not (1 <= width < math.inf and 1 <= height < math.inf):
            return None
        return int(width), int(height), 1

    def blocks(self, number: int) -> int | None:
        """Return the blocks of a variant's grid, if its macros decide them."""
        blocks = float(self._launch[2][number])
        return int(blocks) if 1 <= blocks < math.inf else None

    @cached_property
    def _launch(self) -> list[np.ndarray]:
        return self.evaluated(["launch.block_x", "launch.block_y", "launch.blocks"], {})

    def evaluated(self, paths: Sequence[str], names: Mapping[str, Any]) -> list[np.ndarray]:
        """Return what formulas of the kernel file are for each variant, NaN where nothing says.

        Parameters
        ----------
        paths : sequence of str
            Dotted paths of the formulas, such as ``instructions.fp32``.
        names : mapping
            What they may read beside macros, sizes and derived names, each a number.

        Returns
        -------
        list of ndarray, shape (variants,)
        """
        values: dict[str, Any] = {**names, **self.fixed}
        for (name, numbers), places in zip(self.axes.items(), self.rows.T, strict=True):
            column = np.asarray(numbers)[places]
            values[name] = column.astype(np.float64) if column.dtype.kind in "iu" else column
        faults: dict[str, Any] = {}
        for name, expression in self.kernel.derived.items():
            if expression.names <= values.keys():
                values[name], faults[name] = expression.evaluate(values, faults)
        found = []
        for path in paths:
            own, number = self.kernel.expressions.get(path), np.full(len(self), np.nan)
            if own is not None and own.names <= values.keys():
                value, fault = own.evaluate(values, faults)
                number = np.where(fault, np.nan, value) + np.zeros(len(self))
            found.append(number)
        return found


def variants_of(source: str, space: KernelSpace, also: Sequence[str] = ()) -> Variants:
    """Return the variants of a source over a kernel's space.

    Conditions that read the device or the launch are not applied, so a variant may be compiled that
    no device can launch.

    Raises
    ------
    SweepError
        No configuration is valid, or there are too many.
    """
    kernel = space.kernel
    axes: dict[str, tuple[Any, ...]] = {}
    for dimension in space.grid.dimensions:
        if dimension.stacked is not None:
            axes |= {name: tuple(values) for name, values in dimension.stacked.axes.items()}
        elif dimension.kind in ("parameter", "size"):
            axes[dimension.name] = tuple(dimension.values)
    names = Names(axes, space.fixed, kernel.derived)
    conditions = [c for c in space.constraints if names.knows(c)]
    try:
        found = valid_configurations(axes, conditions, fixed=space.fixed, derived=kernel.derived)
    except PlanError as error:
        raise PlanError(f"kernel '{kernel.key}': {error}") from None
    if not len(found):
        raise PlanError(f"kernel '{kernel.key}': no configuration satisfies all constraints")
    macros = macros_of(source, kernel, also)
    chosen = {name: axes.get(name) or (space.fixed[name],) for name in macros}
    places = np.zeros((len(found), len(chosen)), int)
    for column, (name, values) in zip(places.T, chosen.items(), strict=True):
        if name in axes:
            column[:] = np.searchsorted(np.unique(values), found.column(name))
    sorted_axes = {name: tuple(np.unique(values).tolist()) for name, values in chosen.items()}
    rows = np.unique(places, axis=0) if chosen else places[:1]
    return Variants(sorted_axes, rows, space.fixed, kernel, space.devices)


def definition(name: str, value: float | str | bool) -> str:
    """Return the compiler's option for a macro.

    >>> definition("tile", 4.0), definition("padded", True)
    ('-Dtile=4', '-Dpadded=1')
    """
    if isinstance(value, str):
        return f"-D{name}={value}"
    number = float(value)
    return f"-D{name}={int(number) if number.is_integer() else number!r}"
