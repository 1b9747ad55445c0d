"""Few configurations that together lose least over many problem sizes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known, counted
from sweep.evaluation.problems import Problems, distinct_rows, selected_values
from sweep.evaluation.reducing import Progress
from sweep.fields import PROBLEM, Array
from sweep.query import Answer
from sweep.query.question import DEFAULT_BY
from sweep.query.texts import LeftOut
from sweep.runs.record import Source, space_of
from sweep.space import KernelSpace, Space

LARGEST = 1 << 28
"""Most problems times configurations whose times are held at once."""

HOPELESS = 1e3
"""Largest loss that counts [1]; also that of a configuration without a time for a problem."""

LEGEND = {
    "best_for": "number of problems for which this row is the best of all rows",
    "loss_mean": "mean slowdown of problems that choose from the rows down to this one",
}


def best_few(
    source: Source,
    most: int,
    *,
    by: Sequence[str] = (),
    select: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Answer:
    """Return few configurations of which one is good for each problem, best first.

    Each next one is that which lowers the mean loss over the problems most (a greedy choice).

    Parameters
    ----------
    source : Plan, Space, str or path
        A plan, its name or path.
    most : int
        Most configurations, of each kernel, device and model; fewer where more lower nothing.
    by : sequence of str
        The sizes whose values, in all combinations, are the problems; by default all that the plan
        has several values of. Of a list of problems each different row counts once; with
        ``problem`` each row.
    select : mapping, optional
        As in :func:`sweep.best`.
    progress : callable, optional
        Receives how many evaluations are done, of how many.

    Returns
    -------
    Answer
        A row for each configuration, in their order, with mean, 90 % quantile and maximum of the
        loss [1].

    Raises
    ------
    QueryError
        A name in ``by`` is no size, another size has several values, or there is no time.
    """
    if isinstance(most, bool) or not isinstance(most, int) or most < 1:
        raise QueryError(f"--most {most!r}: a whole number, 1 or more")
    space = space_of(source)
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    names: dict[str, None] = {}
    for own, sizes in groups_of(space, by, dict(select or {})):
        problems = Problems.of(space, sizes, select=own)
        names |= dict.fromkeys(problems.configurations.axes)
        losses, without = _losses(problems, progress)
        place = {name: own[name] for name in DEFAULT_BY}
        if losses is None:
            raise QueryError(f"no configuration has a time ({', '.join(map(str, place.values()))})")
        chosen = least_loss(losses, most)
        of_chosen = np.take(losses.T, chosen, axis=0)
        best_for = np.bincount(of_chosen.argmin(axis=0), minlength=len(chosen)).tolist()
        for i, left in enumerate(np.minimum.accumulate(of_chosen)):
            numbers = {"best_for": best_for[i], "loss_mean": float(left.mean()),
                       "loss_p90": float(np.quantile(left, 0.9)),
                       "loss_max": float(left.max())}  # fmt: skip
            rows.append(place | {"rank": i + 1} | problems.configurations[chosen[i]] | numbers)
        shapes = f"{counted(len(losses), 'problem')} by {', '.join(sizes)}"
        notes.append(f"{', '.join(map(str, place.values()))}: {shapes},"
                     f" {counted(losses.shape[1], 'configuration')}")  # fmt: skip
        if without:
            notes.append(LeftOut(f"left out, as nothing has a time: {counted(without, 'problem')}"))
    title = f"at most {counted(most, 'configuration')} that together lose least"
    coordinates = (*DEFAULT_BY, *names)
    return Answer.of(title, rows, coordinates, notes=tuple(dict.fromkeys(notes)), legend=LEGEND)


def groups_of(
    space: Space, by: Sequence[str], select: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], dict[str, Array]]]:
    """Yield selections of a kernel, device and model, and the sizes of the problems in each.

    Parameters
    ----------
    space : Space
        A plan's space.
    by : sequence of str
        The sizes whose values make the problems, or ``problem`` for each row of the plan's list;
        all with several values by default. Equal problems are one, unless ``problem`` is named.
    select : dict
        As in :func:`sweep.best`.

    Raises
    ------
    QueryError
        A name in ``by`` is no size of any kernel.
    """

    def chosen(name: str, known: Sequence[str]) -> list[str]:
        wanted = select.get(name, list(known))
        return [wanted] if isinstance(wanted, str) else list(wanted)

    kernels = chosen("kernel", [one.kernel.key for one in space.kernels])
    tables = {one.kernel.key: _tables(one) for one in space.kernels}
    known = {key: [name for table in of for name in table] for key, of in tables.items()}
    for name in by:
        if name not in DEFAULT_BY:
            names = dict.fromkeys(size for key in kernels for size in known.get(key, ()))
            check_known(name, names, f"--by {name}: problems differ in sizes only", "sizes:")
    for kernel in kernels:
        sizes = _sizes(tables[kernel], by, select)
        rest = {name: value for name, value in select.items() if name not in (*sizes, PROBLEM)}
        devices = chosen("device", [device.key for device in space.devices])
        for device, model in itertools.product(devices, chosen("model", space.plan.models)):
            yield rest | {"kernel": kernel, "device": device, "model": model}, sizes


def _tables(space: KernelSpace) -> list[dict[str, Array]]:
    """Return the sizes of a kernel in tables: values that vary together are columns of one."""
    found = {
        d.name: {d.name: np.array(d.values)} for d in space.grid.dimensions if d.kind == "size"
    }
    rows = next((d for d in space.grid.dimensions if d.kind == "problem"), None)
    listed: dict[str, Array] = {}
    if rows is not None and rows.stacked is not None:
        listed = {name: rows.stacked.column(name) for name in rows.stacked.axes}
    tables = [] if rows is None else [{PROBLEM: np.array(rows.values), **listed}]
    for name, default in space.kernel.sizes.items():
        if name not in listed:
            tables.append(found.get(name, {name: np.array([default])}))
    return tables


def _sizes(
    tables: Sequence[Mapping[str, Array]], by: Sequence[str], select: Mapping[str, Any]
) -> dict[str, Array]:
    """Return the sizes of the problems: all combinations of the tables' rows."""
    parts: list[dict[str, Array]] = []
    for table in tables:
        each = PROBLEM in by and PROBLEM in table
        names = [
            name
            for name, values in table.items()
            if name != PROBLEM and (each or (name in by if by else len({*values.tolist()}) > 1))
        ]
        if not names:
            continue
        kept = np.ones(len(table[names[0]]), bool)
        for name in (name for name in table if select.get(name) is not None):
            kept &= np.isin(table[name], selected_values(name, table[name].tolist(), select[name]))
            if not kept.any():
                raise QueryError(f"{name}={select[name]}: the plan has none of these values")
        part = {name: table[name][kept] for name in names}
        if PROBLEM in table and not each:
            first = np.sort(distinct_rows(part)[0])
            part = {name: column[first] for name, column in part.items()}
        parts.append(part)
    if not parts:  # one problem
        parts.append({n: values[:1] for n, values in tables[0].items() if n != PROBLEM})
    places = np.indices([len(next(iter(part.values()))) for part in parts]).reshape(len(parts), -1)
    return {name: column[at] for part, at in zip(parts, places, strict=True)
            for name, column in part.items()}  # fmt: skip


def _losses(problems: Problems, progress: Progress | None) -> tuple[Array | None, int]:
    """Return the loss of each configuration for each problem, and how many have no time at all."""
    points = len(problems) * len(problems.configurations)
    if points > LARGEST:
        raise QueryError(
            f"{len(problems):,} problems times {len(problems.configurations):,} configurations are"
            f" more than {LARGEST:,}: select fewer values"
        )
    found, n = np.empty((len(problems), len(problems.configurations)), np.float32), 0
    for _, times in problems.batches(progress):
        losses = regrets(times)
        found[n : n + len(losses)] = losses
        n += len(losses)
    return (np.minimum(found[:n], HOPELESS) if n else None), len(found) - n


def regrets(times: Array) -> Array:
    """Return by how much each configuration is slower than the best of its row [1].

    Parameters
    ----------
    times : array
        A row for each problem or sample, a column for each configuration; NaN is no time: an
        infinite regret. Rows in which none has a time are left out.
    """
    known = np.where(np.isfinite(times), times, np.inf)
    best = known.min(axis=1)
    there = np.isfinite(best)
    return known[there] / best[there, np.newaxis] - 1.0


def least_loss(losses: Array, most: int) -> list[int]:
    """Return few columns whose smallest loss of each row is small on average, one after the other.

    Parameters
    ----------
    losses : array
        A row for each problem, a column for each configuration; not negative.
    most : int
        Most columns; fewer where no further one lowers the mean.

    Examples
    --------
    >>> least_loss(np.array([[0.0, 0.1, 0.5], [0.9, 0.1, 0.0], [0.0, 0.1, 0.9]]), 3)
    [1, 0, 2]
    """
    left = np.full(len(losses), np.inf, losses.dtype)
    found: list[int] = []
    while len(found) < most:
        means = np.array([np.minimum(left, column).mean() for column in losses.T])
        number = int(means.argmin())
        if found and means[number] >= left.mean():
            break
        found.append(number)
        left = np.minimum(left, losses[:, number])
    return found
