"""The best configuration of each of very many groups, as arrays: an answer without rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep.errors import QueryError
from sweep.expressions import Expression
from sweep.fields import PROBLEM, STACKED, Array
from sweep.query.filters import dim_of
from sweep.query.question import ask
from sweep.query.reduce import reduce
from sweep.reduction import Keep
from sweep.runs import of_plans

if TYPE_CHECKING:
    import xarray as xr


@of_plans
def choices(
    data: Any,
    objective: str = "execution_time",
    *,
    by: Sequence[str],
    sense: str = "min",
    where: str | Expression | None = None,
    select: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return the best configuration of every group as arrays: the answer of :func:`best` in bulk.

    A hundred thousand problems take as long as their evaluation, where rows would take longer.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping, path or Plan
        Results of one kernel, or a plan; select one where there are more.
    objective : str
        Any variable that is a number.
    by : sequence of str
        Dimensions that form groups, such as the sizes of a problem; of a list of problems
        ``problem``, or all of its columns that differ.
    sense, where, select
        As in :func:`best`.

    Returns
    -------
    xarray.Dataset
        Over the dimensions ``by``: the objective, and each other coordinate of the best
        configuration. Groups without a valid one have NaN, and an empty text. A list of problems
        is one dimension ``problem`` with a place for each row, and its columns along it.

    Raises
    ------
    QueryError
        The question does not fit the results, there are several kernels, or ``by`` is empty or
        names something else than dimensions.
    """
    import xarray as xr

    question = ask(data, [objective], [sense], by, where, select)
    if len(question.parts) != 1:
        kernels = ", ".join(part.grid.kernel for part in question.parts)
        raise QueryError(f"choices: one kernel at a time: select kernel=NAME, one of {kernels}")
    (part,) = question.parts
    grid, name = part.grid, part.objectives[0]
    if not part.by or set(part.by) != {dim_of(grid, n) for n in by}:
        raise QueryError(f"choices: by = {list(by)!r}: dimensions, one of {', '.join(grid.axes)}")
    listed = {n: grid.coordinates[n].values[part.selection.indices[PROBLEM]]
              for n in grid.listed if PROBLEM in part.by}  # fmt: skip
    differing = [n for n, values in listed.items() if (values != values[0]).any()]
    if PROBLEM not in by and not {*differing} <= {*by}:
        raise QueryError(
            f"choices: by = {list(by)!r}: problems differ in {', '.join(differing)}: name all"
        )
    kept = reduce(replace(question, by=part.by), Keep("smallest", 1))
    names = [n for n in grid.coordinates if n not in (*part.by, STACKED, *listed)]
    found = grid.gather(names, part.places(kept.positions))
    found[name] = part.signs[0] * kept.columns[0]
    shape = tuple(len(part.labels(n)) for n in part.by)
    data_vars = {}
    for n, values in found.items():
        attributes = {"units": grid.units(n)} if grid.units(n) else {}
        data_vars[n] = (part.by, _spread(values, kept.groups, shape), attributes)
    coordinates: dict[str, Any] = {n: part.labels(n) for n in part.by}
    coordinates |= {n: (PROBLEM, values) for n, values in listed.items()}
    return xr.Dataset(data_vars, coordinates)


def _spread(values: Array, groups: Array, shape: tuple[int, ...]) -> Array:
    """Return one value for each group, NaN or an empty text where it has none."""
    if len(values) == math.prod(shape):
        return values.reshape(shape)
    is_number = values.dtype.kind in "biuf"
    whole = np.full(math.prod(shape), np.nan if is_number else "", float if is_number else object)
    whole[groups] = values
    return whole.reshape(shape)
