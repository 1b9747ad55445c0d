"""Changes between two results: configurations, optima, fronts and regimes.

Both results are read block by block, and what a block adds is kept in a few numbers for each
kernel, device and model, so that memory does not grow with the results.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from sweep.errors import QueryError, check_known
from sweep.fields import Array
from sweep.fronts import front, merge_fronts
from sweep.query.agreement import or_none
from sweep.query.answer import Answer
from sweep.query.filters import dim_of
from sweep.query.grid import Grid, grids_of
from sweep.query.pairing import GROUPED, Common, common_labels, remarks

OUTCOME = ("what", "before", "after", "change", "regime_before", "regime_after")
NONE = np.iinfo(np.int64).max
"""Stands for no configuration; larger than the number of any."""


@dataclass
class Change:
    """One kernel on one device by one model, before and after.

    Attributes
    ----------
    group : mapping
        The kernel, the device and the model; measured times have no model. Then the values of the
        dimensions that are judged apart.
    objective, units : str
        What is compared.
    tolerance : float
        Relative change that counts.
    n : int
        How many changed configurations are kept.
    only_before, only_after : int
        Configurations that only one of the results has.
    common : Common
        What is read of both results.
    where : mapping
        The place of the model, the device and those values among the common ones.
    remarks : tuple of str
        What a reader of all changes must know.
    """

    group: Mapping[str, Any]
    objective: str
    units: str
    tolerance: float
    n: int
    only_before: int
    only_after: int
    common: Common
    where: Mapping[str, slice]
    remarks: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    smallest: Any = np.inf  # ratio of after to before
    largest: Any = -np.inf
    worst: int = NONE  # the configuration with the largest ratio
    least: tuple[Any, Any] = (np.inf, np.inf)  # value before, and after
    firsts: tuple[int, int, int] = (NONE, NONE, NONE)  # with the least before, after, and both
    most: tuple[Array, Array] = (np.zeros(0), np.zeros(0, np.int64))  # sizes of changes, and where
    fronts: list[tuple[Array, Array, Array]] | None = None  # times, energies and where, by side

    def add(self, sides: Sequence[Mapping[str, Array]], numbers: Array) -> None:
        """Add a block: the variables before and after, and its configurations' numbers."""
        before, after = (side[self.common.names[0]] for side in sides)
        was, now = np.isfinite(before), np.isfinite(after)
        both = was & now
        ratio = after[both] / before[both]
        large = np.abs(ratio - 1.0) > self.tolerance
        for name, value in (("compared", before.size), ("changed", large.sum()),
                            ("became_invalid", (was & ~now).sum()),
                            ("became_valid", (~was & now).sum()), ("valid", (was | now).sum()),
                            ("was", was.sum()), ("now", now.sum())):  # fmt: skip
            self.counts[name] += int(value)
        if ratio.size:
            self.smallest = min(self.smallest, ratio.min())
            top = ratio.max()
            first = int(numbers[both][np.argmax(ratio)])
            if top > self.largest or (top == self.largest and first < self.worst):
                self.largest, self.worst = top, first
        self._add_best(before, after, numbers)
        if self.n:
            size = np.where(was ^ now, np.inf, 0.0)
            size[both] = np.where(large, np.abs(np.log(ratio)), 0.0)
            sizes = np.concatenate([self.most[0], size])
            places = np.concatenate([self.most[1], numbers])
            kept = np.lexsort((places, -sizes))[: self.n]
            self.most = sizes[kept], places[kept]
        if "energy" in sides[0]:
            self._add_fronts([(before, sides[0]["energy"]), (after, sides[1]["energy"])], numbers)

    def _add_best(self, before: Array, after: Array, numbers: Array) -> None:
        """Keep the least values, and the first configurations that have one, the other, or both."""
        sides = (before, after)
        with np.errstate(invalid="ignore"):
            own = [np.nanmin(values, initial=np.inf) for values in sides]
        least = [a if a < b else b for a, b in zip(own, self.least, strict=True)]
        has = [values == low for values, low in zip(sides, least, strict=True)]
        same = [bool(low == old) for low, old in zip(least, self.least, strict=True)]
        found = []
        for mask, is_same, old in zip((*has, has[0] & has[1]), (*same, all(same)), self.firsts,
                                      strict=True):  # fmt: skip
            own_first = int(numbers[mask].min()) if mask.any() else NONE
            found.append(min(own_first, old) if is_same else own_first)
        self.least, self.firsts = (least[0], least[1]), (found[0], found[1], found[2])

    def _add_fronts(self, sides: Sequence[tuple[Array, Array]], numbers: Array) -> None:
        """Merge the time-energy fronts of a block, before and after, into those so far."""
        merged = []
        for number, (values, energy) in enumerate(sides):
            own = front([values, energy])
            parts = [(values[own], energy[own], numbers[own])]
            if self.fronts is not None:
                parts.append(self.fronts[number])
            x, y, places = (np.concatenate(columns) for columns in zip(*parts, strict=True))
            kept = merge_fronts((x, y), places)
            merged.append((x[kept], y[kept], places[kept]))
        self.fronts = merged

    @property
    def optimum(self) -> float | None:
        """Relative change of the best value; ``None`` where either has none."""
        if not (self.counts["was"] and self.counts["now"]):
            return None
        return float(self.least[1] / self.least[0] - 1.0)

    @property
    def best(self) -> tuple[int, int]:
        """The numbers of the best configurations before and after; of several, one that is both."""
        was, now, both = self.firsts
        return (both, both) if both != NONE else (was, now)

    @property
    def moved(self) -> bool:
        """Whether no configuration that was best is still best."""
        was, now = (self.counts[name] > 0 for name in ("was", "now"))
        return was != now or (was and self.firsts[2] == NONE)

    @property
    def left_and_joined(self) -> tuple[set[int], set[int]]:
        """The configurations that are on the time-energy front only before, and only after."""
        if self.fronts is None:
            return set(), set()
        was, now = (set(places.tolist()) for *_, places in self.fronts)
        return was - now, now - was

    def outcome(self, number: int) -> tuple[list[float], list[str | None]]:
        """Return a configuration's values and regimes, before and after."""
        sides = self.common.read_one(number, self.where)
        values = [float(side[self.common.names[0]]) for side in sides]
        return values, [side.get("regime") for side in sides]

    def worst_regime(self) -> str | None:
        """Return the regimes (before > after) of the configuration that slowed down most."""
        if self.worst == NONE:
            return None
        was, now = self.outcome(self.worst)[1]
        return was if was == now else f"{was} > {now}"

    def fails(self) -> bool:
        """Whether this is a regression: a slower optimum, or a best value lost."""
        lost = self.counts["was"] and not self.counts["now"]
        return bool(lost) or (self.optimum is not None and self.optimum > self.tolerance)

    def row(self) -> dict[str, Any]:
        """Return the change as a row of the answer."""
        counts, has_ratio = self.counts, self.worst != NONE
        left, joined = self.left_and_joined
        return {
            **self.group,
            **{n: counts[n] for n in ("compared", "changed", "became_invalid", "became_valid")},
            "only_before": self.only_before,
            "only_after": self.only_after,
            "largest_slowdown": max(float(self.largest - 1.0), 0.0) if has_ratio else None,
            "largest_speedup": max(float(1.0 - self.smallest), 0.0) if has_ratio else None,
            "optimum_change": self.optimum,
            "optimum_moved": "yes" if self.moved else "no",
            "front_changes": None if self.fronts is None else len(left | joined),
            "worst_regime": self.worst_regime(),
            "verdict": "slower" if self.fails() else "ok",
            "valid": counts["valid"],
        }

    def changed(self) -> Iterator[dict[str, Any]]:
        """Yield rows of configurations: the optima, then what changed most, then the fronts."""
        events: dict[int, list[str]] = defaultdict(list)
        for number, event in zip(self.best, ("best before", "best after"), strict=True):
            if number != NONE:
                events[number].append(event)
        known = {}
        for size, number in zip(*(values.tolist() for values in self.most), strict=True):
            if size > 0.0:
                known[number] = (was, now), _ = self.outcome(number)
                of_one = "became valid" if np.isfinite(now) else "became invalid"
                of_both = "slower" if now > was else "faster"
                events[number].append(of_both if np.isfinite([was, now]).all() else of_one)
        left, joined = self.left_and_joined
        for number in sorted(left | joined)[: self.n]:
            events[number].append("left the front" if number in left else "joined the front")
        for number, happened in events.items():
            values, regimes = known.get(number) or self.outcome(number)
            one, other = map(or_none, values)
            change = None if one is None or other is None else other / one - 1.0
            outcome = (", ".join(happened), one, other, change, *regimes)
            named = dict(zip(OUTCOME, outcome, strict=True))
            yield {**self.group, **self.common.labels(self.common.at(number)), **named}


def changes(
    before: Any,
    after: Any,
    objective: str = "execution_time",
    *,
    tolerance: float = 0.01,
    n: int = 0,
    by: Sequence[str] = (),
) -> list[Change]:
    """Return what changed, per kernel, device and (in predictions) model that both results have.

    Parameters
    ----------
    before, after : xarray.DataTree, xarray.Dataset, mapping or path
        Results; configurations are matched by their labels.
    objective : str
        A variable of all models; smaller is better.
    tolerance : float
        Relative change that counts.
    n : int
        How many changed configurations to keep for :func:`changed_table`.
    by : sequence of str
        Further dimensions, each of whose values is judged by itself.

    Raises
    ------
    QueryError
        The results have no kernel, device or model in common, a number is out of range, or no
        kernel has a dimension of ``by``.
    """
    if not 0 <= tolerance < np.inf:
        raise QueryError(f"tolerance = {tolerance}: a relative change from 0 on")
    if n < 0:
        raise QueryError(f"n = {n}: a number of configurations from 0 on")
    old = {grid.kernel: grid for grid in grids_of(before)}
    new = {grid.kernel: grid for grid in grids_of(after)}
    pairs = [(old[kernel], new[kernel]) for kernel in old if kernel in new]
    if not pairs:
        raise QueryError("the two results have no kernel, device and model in common")
    known = dict.fromkeys(
        name for grid, _ in pairs for name in (*grid.dims, *grid.listed) if name not in GROUPED
    )
    by = [name for name in by if name not in ("kernel", *GROUPED)]  # always judged apart
    for name in by:
        check_known(name, known, f"by: no dimension '{name}'", "there are")
    said = tuple(remarks(old, new, by))
    return [c for p in pairs for c in _of_kernel(*p, objective, tolerance, n, by, said)]


def _of_kernel(
    old: Grid, new: Grid, objective: str, tolerance: float, n: int, by: Sequence[str], said: Any
) -> list[Change]:
    """Return the changes of one kernel: by device, model and the dimensions of ``by``."""
    name = old.resolve(objective)
    if name not in new.variables:
        raise QueryError(f"kernel '{new.kernel}' has no variable '{name}' in the later results")
    _check_dimensions(old, new)
    places = {dim: common_labels(old, new, dim) for dim in old.dims}
    asked = {dim_of(old, name) for name in by}
    # Measured times have no model.
    apart = [d for d in old.dims if d in asked] + [d for d in GROUPED if d in places]
    pooled = [dim for dim in old.dims if dim not in apart]
    compared = math.prod(len(places[dim][0]) for dim in pooled)
    only_before, only_after = (
        math.prod(grid.sizes[dim] for dim in pooled) - compared for grid in (old, new)
    )
    names = [v for v in (name, "regime", "energy") if v in old.variables and v in new.variables]
    common = Common((old, new), names, places, pooled)
    found = []
    for at in product(*(range(len(places[dim][0])) for dim in apart)):
        one = dict(zip(apart, at, strict=True))
        group = {"kernel": old.kernel, "device": None, "model": None, **common.labels(one)}
        where = {dim: slice(i, i + 1) for dim, i in one.items()}
        found.append(Change(group, objective, old.units(name), tolerance, n, only_before,
                            only_after, common, where, said))  # fmt: skip
    for block, numbers in common.blocks():
        # All models of the same device and size in turn: a plan evaluates them together.
        for change in sorted(found, key=_but_model):
            change.add(common.read({**block, **change.where}), numbers)
    return found


def _check_dimensions(old: Grid, new: Grid) -> None:
    """Refuse two results of a kernel with different dimensions."""
    sides = (("before", old, new), ("after", new, old))
    lacks = ((when, [d for d in one.dims if d not in other.dims]) for when, one, other in sides)
    if only := " and ".join(f"{', '.join(dims)} only {when}" for when, dims in lacks if dims):
        raise QueryError(f"kernel '{old.kernel}': other dimensions ({only})")


def _but_model(change: Change) -> list[int]:
    """Return the place of a change along the dimensions besides the model."""
    return [place.start for dim, place in change.where.items() if dim != "model"]


def compare_results(
    before: Any,
    after: Any,
    objective: str = "execution_time",
    *,
    tolerance: float = 0.01,
    by: Sequence[str] = (),
) -> Answer:
    """Return what changed between two results as a table.

    Parameters
    ----------
    before, after, objective
        As in :func:`changes`.
    tolerance : float
        Relative change that counts: a configuration is ``changed`` beyond it, and a group's
        ``verdict`` is ``slower`` where its best value became worse by more than it, or was lost.
    by : sequence of str
        Further dimensions, such as problem sizes, each of whose values is judged by itself.

    Returns
    -------
    Answer
        One row per kernel, device, model and value of ``by``. Only configurations that both results
        have are compared; a note names other kernels, devices, models and values of ``by``.
    """
    return changes_table(changes(before, after, objective, tolerance=tolerance, by=by))


def changes_table(found: Sequence[Change]) -> Answer:
    """Return the table of :func:`compare_results` for changes that were found before."""
    tolerance = found[0].tolerance
    rows = [change.row() for change in found]
    worse = sum(row["verdict"] == "slower" for row in rows)
    most = f"{100 * tolerance:.9g} %"
    note = f"the best is slower by more than {most} in {worse} of {len(rows)} groups"
    title = f"changes of {found[0].objective}"
    names = dict.fromkeys(name for change in found for name in change.group)
    return Answer.of(title, rows, tuple(names), notes=(note, *found[0].remarks))


def changed_configurations(
    before: Any,
    after: Any,
    n: int = 10,
    objective: str = "execution_time",
    *,
    tolerance: float = 0.01,
    by: Sequence[str] = (),
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
    objective, tolerance, by
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
    return changed_table(changes(before, after, objective, tolerance=tolerance, n=n, by=by))


def changed_table(found: Sequence[Change]) -> Answer:
    """Return the table of :func:`changed_configurations` for changes that were found before."""
    rows = [row for change in found for row in change.changed()]
    names = dict.fromkeys(name for row in rows for name in row if name not in OUTCOME)
    title = f"changed configurations, {found[0].objective}"
    units = dict.fromkeys(("before", "after"), found[0].units)
    return Answer.of(title, rows, tuple(names), units, found[0].remarks, (*names, *OUTCOME))
