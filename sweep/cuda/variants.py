"""The variants of a source that a kernel's space needs: its macros, a sample, the nearest ones."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sweep.errors import PlanError, SweepError, nearest
from sweep.space import KernelSpace
from sweep.space.space import GOLDEN
from sweep.space.valid import Names, valid_configurations
from sweep.specs import Kernel

Macros = dict[str, float | str | bool]
"""The macros of a variant with their values."""

OTHER = 1000.0
"""Distance of two variants in a switch: more than in any list of numbers."""

_NO_CODE = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]\w*")


def macros_of(source: str, kernel: Kernel, also: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the parameters that occur in a source, and the sizes that shall be macros, too.

    Parameters
    ----------
    source : str
        The source; comments and strings do not count.
    kernel : Kernel
        The kernel file.
    also : sequence of str
        Problem sizes that the source takes as macros. A size is usually an argument.

    Raises
    ------
    SweepError
        One of ``also`` is no size.
    """
    for name in also:
        if name not in kernel.sizes:
            known = nearest(name, kernel.sizes)
            raise SweepError(f"--define {name}: no problem size of {kernel.key}{known}")
    words = set(_WORD.findall(_NO_CODE.sub(" ", source)))
    return (*(name for name in kernel.parameters if name in words), *also)


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
    """

    axes: Mapping[str, Sequence[Any]]
    rows: np.ndarray
    fixed: Mapping[str, float]
    kernel: Kernel

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Macros:
        """Return one variant's macros."""
        places = zip(self.axes.items(), self.rows[number], strict=True)
        return {name: values[int(place)] for (name, values), place in places}

    def sample(self, most: int) -> list[int]:
        """Return the numbers of at most so many variants, spread over all of them."""
        total = len(self)
        if total <= most:
            return list(range(total))
        step = max(1, int(total * GOLDEN))
        while math.gcd(step, total) > 1:  # so that none comes twice
            step += 1
        return sorted(i * step % total for i in range(most))

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
        values: dict[str, Any] = {**self.fixed, **self[number]}
        for name, expression in self.kernel.derived.items():
            if expression.names <= values.keys():
                values[name], _ = expression.evaluate(values)
        sides = []
        for side in ("launch.block_x", "launch.block_y"):
            expression = self.kernel.expressions[side]
            if not expression.names <= values.keys():
                return None
            value, fault = expression.evaluate(values)
            if fault.any() or not 1 <= float(value) < math.inf:
                return None
            sides.append(int(value))
        return sides[0], sides[1], 1


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
    return Variants(sorted_axes, rows, space.fixed, kernel)


def definition(name: str, value: float | str | bool) -> str:
    """Return the compiler's option for a macro.

    >>> definition("tile", 4.0), definition("padded", True)
    ('-Dtile=4', '-Dpadded=1')
    """
    if isinstance(value, str):
        return f"-D{name}={value}"
    number = float(value)
    return f"-D{name}={int(number) if number.is_integer() else number!r}"
