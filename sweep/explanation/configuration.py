"""Select one configuration of a space by name, as a grid of one point."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sweep.errors import QueryError, nearest
from sweep.models import model_names
from sweep.runs.record import Source, recorded_space, space_of
from sweep.space import CLOCK_AXES, Dimension, Grid, KernelSpace, Plan, Space, resolve
from sweep.space.axes import check_clocks
from sweep.specs import Device
from sweep.store import is_store

__all__ = ["Single", "single"]

SAME = 1e-6
"""Relative difference below which two clocks count as equal, since printed clocks are rounded."""


@dataclass(frozen=True)
class Single:
    """One configuration.

    Attributes
    ----------
    space : KernelSpace
        The kernel's space, reduced to one point.
    plan : Plan
        The plan that it came from.
    model : str
        The model.
    values : mapping
        Problem sizes, tuning parameters and swept clocks, by name.
    notes : tuple of str
        Remarks for the reader, such as values that are not in the plan.
    """

    space: KernelSpace
    plan: Plan
    model: str
    values: Mapping[str, Any]
    notes: tuple[str, ...]

    @property
    def device(self) -> Device:
        """The device."""
        return self.space.devices[0]


def single(source: Source | None, configuration: Mapping[str, Any]) -> Single:
    """Find a configuration.

    Parameters
    ----------
    source : Plan, Space, mapping, str, path or None
        Where to look: a plan or its name, a space, a store's record or path; ``None`` for the
        files that the configuration names.
    configuration : mapping
        ``kernel``, ``device``, ``model``, problem sizes, tuning parameters and clocks
        (``core_clock`` in MHz or ``core_clock_ratio``; likewise for the memory). Names for which
        the source has only one value may be omitted. Omitted clocks that are not swept are nominal.

    Raises
    ------
    QueryError
        A name or value is missing or does not exist; the message lists the possible ones.
    """
    wanted = {name: _plain(name, value) for name, value in configuration.items()}
    space = _space(source, wanted)
    kernel = _chosen("kernel", wanted, [k.kernel.key for k in space.kernels])
    device = _chosen("device", wanted, [d.key for d in space.devices])
    model = _chosen("model", wanted, space.plan.models)
    full = space[kernel]
    own = (*full.kernel.sizes, *full.kernel.parameters)
    known = ("kernel", "device", "model", *own, *CLOCK_AXES)
    for name in wanted:
        if name not in known:
            raise QueryError(
                f"explain: kernel '{kernel}' has no '{name}'{nearest(name, known)}"
                f" (known: {', '.join(known)})"
            )
    of_device = next(d for d in space.devices if d.key == device)
    notes: list[str] = []
    fixed = dict(full.fixed)
    dimensions = [Dimension("device", (device,), "device")]
    swept = {axis.name: axis for d in full.grid.dimensions for axis in d.axes}
    for name in own:
        if name in swept:
            value = _value(full, name, wanted, swept[name], notes)
            dimensions.append(Dimension(name, (value,), swept[name].kind))
        elif name in wanted:
            fixed[name] = _size(full, name, wanted[name], notes)
    for clock in ("core", "memory"):
        found = _clock(clock, wanted, swept, of_device, notes)
        if found is not None:
            dimensions.append(found)
    cut = replace(full, devices=(of_device,), grid=Grid(tuple(dimensions)), fixed=fixed)
    values = {**fixed, **{d.name: d.values[0] for d in dimensions[1:]}}
    return Single(cut, space.plan, model, values, tuple(notes) if source is not None else ())


def _plain(name: str, value: Any) -> Any:
    """Return a Python scalar from a scalar, a NumPy scalar or a list of one element."""
    if isinstance(value, (list, tuple)):
        if len(value) != 1:
            raise QueryError(f"explain: {name} = {value!r}: one value makes a configuration")
        value = value[0]
    return value.item() if hasattr(value, "item") else value


def _space(source: Source | None, wanted: Mapping[str, Any]) -> Space:
    if isinstance(source, (str, os.PathLike)) and is_store(source):
        return recorded_space(source)
    if source is not None:
        return space_of(source)
    for name in ("kernel", "device"):
        if not isinstance(wanted.get(name), str):
            raise QueryError(f"explain: {name} is missing: without a plan it must be named")
    models = [wanted["model"]] if "model" in wanted else list(model_names())
    return resolve(Plan((wanted["kernel"],), (wanted["device"],), tuple(models)))


def _chosen(what: str, wanted: Mapping[str, Any], known: Iterable[str]) -> str:
    """Return the selected kernel, device or model."""
    known = list(known)
    given = wanted.get(what)
    if given is None:
        if len(known) == 1:
            return known[0]
        raise QueryError(f"explain: {what} is missing: one of {', '.join(known)}")
    name = Path(str(given)).stem if str(given).endswith(".toml") else str(given)
    if name not in known:
        raise QueryError(
            f"explain: the plan has no {what} '{given}'{nearest(name, known)}"
            f" (it has {', '.join(known)})"
        )
    return name


def _listed(values: Iterable[Any]) -> str:
    texts = [str(value) for value in values]
    return ", ".join(texts) if len(texts) <= 12 else f"{', '.join(texts[:10])} ... {texts[-1]}"


def _value(
    space: KernelSpace, name: str, wanted: Mapping[str, Any], axis: Dimension, notes: list[str]
) -> Any:
    """Return the value of a swept size or parameter, with the type used in the kernel file."""
    if name not in wanted:
        if len(axis) == 1:
            return axis.values[0]
        raise QueryError(f"explain: {name} is missing: one of {_listed(axis.values)}")
    if axis.kind == "size":
        value = _number(name, wanted[name], positive=True)
    else:
        value = _of_kind(name, wanted[name], space.kernel.parameters[name])
    if value not in axis.values:
        notes.append(f"{name} = {value} is not among the plan's values ({_listed(axis.values)})")
    return value


def _size(space: KernelSpace, name: str, given: Any, notes: list[str]) -> float:
    """Return a problem size that the plan does not sweep."""
    value = _number(name, given, positive=True)
    if value != space.fixed[name]:
        notes.append(f"{name} = {value} is not among the plan's values ({space.fixed[name]})")
    return value


def _of_kind(name: str, given: Any, like: tuple[Any, ...]) -> Any:
    """Return a parameter's value, converted to the type of its other values."""
    if isinstance(like[0], bool):
        words = {"true": True, "false": False}
        value = words.get(str(given).lower())
        if value is None:
            raise QueryError(f"explain: {name} = {given!r}: true or false")
        return value
    if isinstance(like[0], str):
        if not isinstance(given, str):
            raise QueryError(f"explain: {name} = {given!r}: a word like {_listed(like)}")
        return given
    return _number(name, given)


def _number(name: str, given: Any, *, positive: bool = False) -> float:
    try:
        if isinstance(given, bool):
            raise ValueError
        value = float(given)
    except (TypeError, ValueError):
        raise QueryError(f"explain: {name} = {given!r}: a number") from None
    if value != value or abs(value) == float("inf") or (positive and value <= 0):
        raise QueryError(f"explain: {name} = {given!r}: a number{' above 0' * positive}")
    return int(value) if value.is_integer() else value


def _clock(
    clock: str,
    wanted: Mapping[str, Any],
    swept: Mapping[str, Dimension],
    device: Device,
    notes: list[str],
) -> Dimension | None:
    """Return the dimension of a requested or swept clock, ``None`` for the nominal clock."""
    name, of_ratio = f"{clock}_clock", f"{clock}_clock_ratio"
    nominal = device.values[f"clocks.{clock}_nominal"] / 1e6
    given = {n: _number(n, wanted[n]) for n in (name, of_ratio) if n in wanted}
    for key, value in given.items():
        check_clocks(f"explain: {key}", key, (value,))
    axis = swept.get(name) or swept.get(of_ratio)
    if len(given) == 2:
        megahertz = given[of_ratio] * nominal
        if abs(given[name] - megahertz) > SAME * megahertz:
            raise QueryError(
                f"explain: {name} = {given[name]} MHz contradicts {of_ratio} = {given[of_ratio]}:"
                f" that is {megahertz:.6g} MHz of nominal {nominal:.6g} MHz"
            )
    if not given:
        if axis is None:
            return None
        if len(axis) > 1:
            raise QueryError(f"explain: {axis.name} is missing: one of {_listed(axis.values)}")
        return Dimension(axis.name, axis.values, clock)
    if axis is None:
        megahertz = given.get(name, given.get(of_ratio, 1.0) * nominal)
        if abs(megahertz - nominal) <= SAME * nominal:
            return None
        axis = Dimension(next(iter(given)), (), clock)
    if axis.name in given:
        value = given[axis.name]
    else:  # the plan gives the clock in the other form
        value = given[of_ratio] * nominal if axis.name == name else given[name] / nominal
    # Replace a rounded clock by the plan's own value, so that the results are identical.
    near = [own for own in axis.values if abs(own - value) <= SAME * abs(own)]
    if near:
        return Dimension(axis.name, (min(near, key=lambda own: abs(own - value)),), clock)
    plural = f"({_listed(axis.values)})" if axis.values else f"(nominal, {nominal:.6g} MHz)"
    notes.append(f"{axis.name} = {value:.6g} is not among the plan's values {plural}")
    return Dimension(axis.name, (value,), clock)
