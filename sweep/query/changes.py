"""Changes between two results: configurations, optima, fronts and regimes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from sweep.errors import QueryError
from sweep.fronts import front
from sweep.query.agreement import or_none
from sweep.query.answer import Answer
from sweep.query.grid import Array, Grid, grids_of
from sweep.query.pairing import labels_of, match

OUTCOME = ("what", "before", "after", "change", "regime_before", "regime_after")


@dataclass(frozen=True)
class Change:
    """One kernel on one device by one model, before and after.

    Attributes
    ----------
    group : mapping
        The kernel, the device and the model; measured times have no model.
    objective, units : str
        What is compared.
    before, after : array
        The objective of the configurations that both results have, NaN where invalid.
    sides : pair of dict
        As far as both results have them, the names of the ``regime`` and the ``energy``, before and
        after.
    only_before, only_after : int
        Configurations that only one of the results has.
    axes : tuple of dict
        For each dimension besides model and device the labels, by name; the arrays above have
        these dimensions, flattened.
    """

    group: Mapping[str, str | None]
    objective: str
    units: str
    before: Array
    after: Array
    sides: Sequence[Mapping[str, Array]]
    only_before: int
    only_after: int
    axes: tuple[dict[str, Array], ...]

    @cached_property
    def valid(self) -> tuple[Array, Array]:
        """Which configurations were valid, and which are."""
        return np.isfinite(self.before), np.isfinite(self.after)

    @cached_property
    def both(self) -> Array:
        """Which configurations were valid and still are."""
        return np.logical_and(*self.valid)

    @cached_property
    def ratio(self) -> Array:
        """After over before where both are valid."""
        return self.after[self.both] / self.before[self.both]

    @property
    def optimum(self) -> float | None:
        """Relative change of the best value; ``None`` where either has none."""
        if not all(valid.any() for valid in self.valid):
            return None
        return float(np.nanmin(self.after) / np.nanmin(self.before) - 1.0)

    def best(self) -> tuple[Array, Array]:
        """Return which configurations were best and which are; of several, those that are both."""
        with np.errstate(invalid="ignore"):
            was, now = (v == np.nanmin(v, initial=np.inf) for v in (self.before, self.after))
        both = was & now
        return (both, both) if both.any() else (was, now)

    @property
    def moved(self) -> bool:
        """Whether no configuration that was best is still best."""
        was, now = (valid.any() for valid in self.valid)
        return bool(was != now or (was and not np.logical_and(*self.best()).any()))

    def fronts(self) -> tuple[set[int], set[int]] | None:
        """Return the configurations on the time-energy fronts before and after."""
        if "energy" not in self.sides[0]:
            return None
        both = zip((self.before, self.after), self.sides, strict=True)
        was, now = (set(front([values, side["energy"]]).tolist()) for values, side in both)
        return was, now

    def configuration(self, number: int) -> dict[str, Any]:
        """Return the coordinates of one of the compared configurations."""
        shape = [len(next(iter(columns.values()))) for columns in self.axes]
        places = np.unravel_index(number, shape)
        pairs = zip(self.axes, places, strict=True)
        return {name: column[i].item() for columns, i in pairs for name, column in columns.items()}

    def regimes_of(self, number: int) -> tuple[str | None, str | None]:
        """Return a configuration's regimes before and after."""
        was, now = (side["regime"][number] if "regime" in side else None for side in self.sides)
        return was, now

    def worst_regime(self) -> str | None:
        """Return the regimes (before > after) of the configuration that slowed down most."""
        if not self.ratio.size:
            return None
        was, now = self.regimes_of(np.flatnonzero(self.both)[np.argmax(self.ratio)])
        return was if was == now else f"{was} > {now}"

    def fails(self, tolerance: float) -> bool:
        """Whether this is a regression: a slower optimum, or a best value lost."""
        was, now = (valid.any() for valid in self.valid)
        return bool(was and not now) or (self.optimum is not None and self.optimum > tolerance)

    def row(self, tolerance: float) -> dict[str, Any]:
        """Return the change as a row of the answer."""
        ratio, fronts, (was, now) = self.ratio, self.fronts(), self.valid
        return {
            **self.group,
            "compared": int(self.before.size),
            "changed": int((np.abs(ratio - 1.0) > tolerance).sum()),
            "became_invalid": int((was & ~now).sum()),
            "became_valid": int((~was & now).sum()),
            "only_before": self.only_before,
            "only_after": self.only_after,
            "largest_slowdown": max(float(ratio.max() - 1.0), 0.0) if ratio.size else None,
            "largest_speedup": max(float(1.0 - ratio.min()), 0.0) if ratio.size else None,
            "optimum_change": self.optimum,
            "optimum_moved": "yes" if self.moved else "no",
            "front_changes": None if fronts is None else len(fronts[0] ^ fronts[1]),
            "worst_regime": self.worst_regime(),
            "verdict": "slower" if self.fails(tolerance) else "ok",
            "valid": int((was | now).sum()),
        }

    def changed(self, n: int, tolerance: float) -> Iterator[dict[str, Any]]:
        """Yield rows of configurations: the optima, then what changed most, then the fronts."""
        events: dict[int, list[str]] = defaultdict(list)
        for best, event in zip(self.best(), ("best before", "best after"), strict=True):
            if best.any():
                events[int(np.argmax(best))].append(event)
        size = np.where(np.logical_xor(*self.valid), np.inf, 0.0)
        size[self.both] = np.where(
            np.abs(self.ratio - 1.0) > tolerance, np.abs(np.log(self.ratio)), 0.0
        )
        for number in np.argsort(-size, kind="stable")[:n].tolist():
            if size[number] > 0.0:
                of_both = "slower" if self.after[number] > self.before[number] else "faster"
                of_one = "became valid" if self.valid[1][number] else "became invalid"
                events[number].append(of_both if self.both[number] else of_one)
        was, now = self.fronts() or (set(), set())
        for number in sorted(was ^ now)[:n]:
            events[number].append("left the front" if number in was else "joined the front")
        for number, happened in events.items():
            one, other = (or_none(float(side[number])) for side in (self.before, self.after))
            change = None if one is None or other is None else other / one - 1.0
            outcome = (", ".join(happened), one, other, change, *self.regimes_of(number))
            known = dict(zip(OUTCOME, outcome, strict=True))
            yield {**self.group, **self.configuration(number), **known}


def changes(before: Any, after: Any, objective: str = "execution_time") -> list[Change]:
    """Return what changed, per kernel, device and (in predictions) model that both results have.

    Parameters
    ----------
    before, after : xarray.DataTree, xarray.Dataset, mapping or path
        Results; configurations are matched by their labels.
    objective : str
        A variable of all models; smaller is better.

    Raises
    ------
    QueryError
        The results have no kernel, device or model in common.
    """
    old = {grid.kernel: grid for grid in grids_of(before)}
    new = {grid.kernel: grid for grid in grids_of(after)}
    found = [c for k in old if k in new for c in _of_kernel(old[k], new[k], objective)]
    if not found:
        raise QueryError("the two results have no kernel, device and model in common")
    return found


def _of_kernel(old: Grid, new: Grid, objective: str) -> Iterator[Change]:
    name = old.resolve(objective)
    if name not in new.variables:
        raise QueryError(f"kernel '{new.kernel}' has no variable '{name}' in the later results")
    if set(old.dims) != set(new.dims):
        raise QueryError(
            f"kernel '{old.kernel}': other dimensions ({', '.join(old.dims)} before, "
            f"{', '.join(new.dims)} after)"
        )
    places = {dim: _common(old, new, dim) for dim in old.dims}
    inner = [dim for dim in old.dims if dim not in ("model", "device")]
    compared = math.prod(len(places[dim][0]) for dim in inner)
    only_before, only_after = (
        int(np.prod([grid.sizes[dim] for dim in inner], dtype=object)) - compared
        for grid in (old, new)
    )
    names = [n for n in (name, "regime", "energy") if n in old.variables and n in new.variables]
    axes = tuple(labels_of(old, dim, places[dim][0]) for dim in inner)
    groups = [
        # Measured times have no model.
        list(enumerate(old.coordinates[dim].values[places[dim][0]].tolist()))
        if dim in places
        else [(0, None)]
        for dim in ("model", "device")
    ]
    for (m, model), (d, device) in product(*groups):
        group = {"model": slice(m, m + 1), "device": slice(d, d + 1)}
        read = [
            grid.read_flat(
                names,
                {dim: of[side][group.get(dim, slice(None))] for dim, of in places.items()},
                old.dims,
            )
            for side, grid in enumerate((old, new))
        ]
        before, after = (found[name] for found in read)
        labels = {"kernel": old.kernel, "device": device, "model": model}
        yield Change(
            labels, objective, old.units(name), before, after, read, only_before, only_after, axes
        )


def _common(old: Grid, new: Grid, dim: str) -> tuple[Array, Array]:
    """Return the indices of a dimension's common labels, in the order of the earlier results."""
    places, is_common = match(labels_of(old, dim), labels_of(new, dim))
    if not is_common.any():
        raise QueryError(f"kernel '{old.kernel}': no value of {dim} is in both results")
    return np.flatnonzero(is_common), places[is_common]


def compare_results(
    before: Any, after: Any, objective: str = "execution_time", *, tolerance: float = 0.01
) -> Answer:
    """Return what changed between two results as a table.

    Parameters
    ----------
    before, after, objective
        As in :func:`changes`.
    tolerance : float
        Relative change that counts: a configuration is ``changed`` beyond it, and a group's
        ``verdict`` is ``slower`` where its best value became worse by more than it, or was lost.

    Returns
    -------
    Answer
        One row per kernel, device and model.
    """
    return changes_table(changes(before, after, objective), tolerance)


def changes_table(found: Sequence[Change], tolerance: float) -> Answer:
    """Return the table of :func:`compare_results` for changes that were found before."""
    _check_tolerance(tolerance)
    rows = [change.row(tolerance) for change in found]
    worse = sum(row["verdict"] == "slower" for row in rows)
    note = f"{worse} of {len(rows)} groups are slower at their best by more than {tolerance:.3g}"
    title = f"changes of {found[0].objective}"
    return Answer.of(title, rows, ("kernel", "device", "model"), notes=(note,))


def _check_tolerance(tolerance: float) -> None:
    """Refuse a tolerance that is negative or not finite."""
    if not 0 <= tolerance < np.inf:
        raise QueryError(f"tolerance = {tolerance}: a relative change from 0 on")


def changed_configurations(
    before: Any,
    after: Any,
    n: int = 10,
    objective: str = "execution_time",
    *,
    tolerance: float = 0.01,
) -> Answer:
    """Return which configurations changed between two results: optima, fronts, largest changes.

    Parameters
    ----------
    before, after
        As in :func:`compare_results`.
    n : int
        Configurations to list per kernel, device and model, besides the best before and after:
        those that became valid or invalid, then the largest changes beyond the tolerance, and as
        many that entered or left the time-energy front.
    objective, tolerance
        As in :func:`compare_results`.

    Returns
    -------
    Answer
        A row per configuration: what happened to it, its objective before and after, the relative
        change and its regimes.

    Raises
    ------
    QueryError
        As :func:`compare_results`.
    """
    return changed_table(changes(before, after, objective), n, tolerance)


def changed_table(found: Sequence[Change], n: int, tolerance: float) -> Answer:
    """Return the table of :func:`changed_configurations` for changes that were found before."""
    _check_tolerance(tolerance)
    if n < 0:
        raise QueryError(f"n = {n}: a number of configurations from 0 on")
    rows = [row for change in found for row in change.changed(n, tolerance)]
    names = dict.fromkeys(name for row in rows for name in row if name not in OUTCOME)
    title = f"changed configurations, {found[0].objective}"
    units = dict.fromkeys(("before", "after"), found[0].units)
    return Answer.of(title, rows, tuple(names), units, columns=(*names, *OUTCOME))
