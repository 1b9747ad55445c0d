"""The search space of measured configurations, for tuners whose files state none."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np

from sweep.fields import Array
from sweep.importers.tuners.measurements import Measurements
from sweep.importers.tuners.search_space import SearchSpace, Value
from sweep.importers.tuners.skeleton import AXES

MOST_DIVISORS = 3
"""Most parameters whose product is tried as what divides a grid along one axis."""

MOST_TRIED = 24
"""Most parameters that are tried."""


def measured_space(measured: Measurements) -> SearchSpace:
    """Return the search space that measured configurations belong to.

    Parameters
    ----------
    measured : Measurements
        The rows. Parameters have the values that the file declares, then those measured besides.

    Returns
    -------
    SearchSpace
        Without conditions, which no file of results states. Its specification has the problem size
        and, where the rows have the launches, the parameters that these follow.
    """
    parameters: dict[str, tuple[Value, ...]] = {}
    for name, column in measured.parameters.items():
        known = dict.fromkeys(measured.declared.get(name, ()))
        parameters[name] = tuple(known | dict.fromkeys(np.unique(column).tolist()))
    specification: dict[str, Any] = _launch(measured)
    if measured.problem_size:
        specification["ProblemSize"] = list(measured.problem_size)
    return SearchSpace(measured.kernel, parameters, (), specification)


def _launch(measured: Measurements) -> dict[str, Any]:
    """Return which parameters the measured launches follow, in the words of T1.

    An axis of the block is a parameter, or a constant. An axis of the grid is a problem size over a
    product of parameters, rounded up; the smallest product that fits all rows is taken, and the
    smallest size. Empty where an axis follows no such rule, or the rows have no launches.
    """
    block = [measured.further.get(f"block_{axis.lower()}") for axis in AXES]
    grid = [measured.further.get(f"grid_{axis.lower()}") for axis in AXES]
    if any(sides is None for sides in (*block, *grid)):
        return {}
    launched = np.all([np.isfinite(sides) for sides in (*block, *grid)], axis=0)  # type: ignore[arg-type]
    numeric = {
        name: column[launched].astype(np.float64)
        for name, column in measured.parameters.items()
        if column.dtype.kind in "iuf" and len(np.unique(column[launched])) > 1
    }
    found: dict[str, Any] = {"LocalSize": {}, "ProblemSize": []}
    if not launched.any():
        return {}
    for axis, own, blocks in zip(AXES, block, grid, strict=True):
        side = _side(own[launched], numeric)  # type: ignore[index]
        divided = _divided(blocks[launched], numeric)  # type: ignore[index]
        if side is None or divided is None:
            return {}
        found["LocalSize"][axis] = side
        size, found[f"GridDiv{axis}"] = divided
        found["ProblemSize"].append(size)
    return found


def _side(sides: Array, parameters: Mapping[str, Array]) -> str | None:
    """Return the parameter that a block's side is, or its constant length."""
    if len(np.unique(sides)) == 1:
        return f"{sides[0]:.0f}"
    return next(
        (name for name, column in parameters.items() if np.array_equal(sides, column)), None
    )


def _divided(blocks: Array, parameters: Mapping[str, Array]) -> tuple[int, list[str]] | None:
    """Return a problem size and the parameters over which it has so many blocks in every row."""
    tried = list(parameters)[:MOST_TRIED]
    for n in range(MOST_DIVISORS + 1):
        for names in combinations(tried, n):
            divisor = np.prod([parameters[name] for name in names], axis=0) * np.ones(len(blocks))
            # ceil(size / divisor) = blocks for all sizes above the first, up to the second.
            size = float(np.min(blocks * divisor))
            if size > float(np.max((blocks - 1.0) * divisor)):
                return int(size), list(names)
    return None
