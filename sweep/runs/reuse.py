"""Find the results of an older space that a larger one can reuse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweep import __version__
from sweep.errors import StoreError
from sweep.space import Dimension, KernelSpace, Plan, Space

__all__ = ["Reuse", "reuse_of"]

Array = NDArray[Any]

SETTINGS = ("variant", "precision", "outputs", "derive", "constraints")
"""Keys of a plan that affect its results, besides the swept values."""


@dataclass(frozen=True)
class Reuse:
    """The points of a space that an older space has, and their indices there.

    Attributes
    ----------
    models : array of int
        For each model its index in the older space, -1 if missing.
    places : mapping
        By kernel and dimension, the older index for each index of the dimension, -1 if missing. If
        the older space lacks the dimension, its fixed value has index 0.
    """

    models: Array
    places: Mapping[str, Mapping[str, Array]]


def reuse_of(old: Space, new: Space, record: Mapping[str, Any], where: str) -> Reuse:
    """Find an older space within a larger one.

    Parameters
    ----------
    old, new : Space
        The space of the store, and the larger space.
    record : mapping
        The store's record.
    where : str
        The store, for messages.

    Raises
    ------
    StoreError
        The larger space lacks values of the older one, or its results would differ.
    """
    version = record["identity"]["sweep_version"]
    if version != __version__:
        raise StoreError(
            f"'{where}' was computed by sweep {version}, this is {__version__}: results of two "
            "versions do not go into one store; run the larger plan into a new one"
        )
    _check_settings(old.plan, new.plan, where)
    models = _places(old.plan.models, new.plan.models, "model", where, new)
    known = {space.kernel.key: space for space in new.kernels}
    places: dict[str, Mapping[str, Array]] = {}
    for space in old.kernels:
        key = space.kernel.key
        if key not in known:
            raise _lack(where, "kernel", key, new)
        if known[key].kernel.sha256 != space.kernel.sha256:
            raise StoreError(f"'{where}': the file of kernel '{key}' has changed since its run")
        places[key] = _of_kernel(space, known[key], where, new)
    return Reuse(models, places)


def _check_settings(old: Plan, new: Plan, where: str) -> None:
    for name in SETTINGS:
        one, other = getattr(old, name), getattr(new, name)
        if one != other:
            raise StoreError(
                f"'{where}' has {name} = {_said(one)}, {new.origin} has {_said(other)}: "
                "an extension changes what is swept, nothing else"
            )
    for model in old.models:
        if dict(old.options.get(model, {})) != dict(new.options.get(model, {})):
            raise StoreError(f"'{where}' and {new.origin} give model '{model}' other options")


def _said(value: Any) -> str:
    return "nothing" if value is None else repr(list(value) if isinstance(value, tuple) else value)


def _lack(where: str, name: str, value: Any, new: Space) -> StoreError:
    return StoreError(
        f"'{where}' has {name} = {value!r}, which {new.plan.origin} lacks: "
        "an extension keeps everything that the store has"
    )


def _places(old: Sequence[Any], new: Sequence[Any], name: str, where: str, space: Space) -> Array:
    """Return for each new value its index among the old ones, -1 if missing."""
    at = {value: i for i, value in enumerate(old)}
    found = np.array([at.get(value, -1) for value in new], np.int64)
    absent = set(range(len(old))) - set(found.tolist())
    if absent:
        raise _lack(where, name, old[min(absent)], space)
    return found


def _of_kernel(old: KernelSpace, new: KernelSpace, where: str, space: Space) -> dict[str, Array]:
    """Return the older indices for the dimensions of one kernel."""
    before = {d.name: d for d in old.grid.dimensions}
    found: dict[str, Array] = {}
    for dimension in new.grid.dimensions:
        name = dimension.name
        if name in before:
            one, other = _labels(before.pop(name)), _labels(dimension)
        elif name in old.fixed:
            one, other = [old.fixed[name]], _labels(dimension)
        elif dimension.kind in ("core", "memory") and name.endswith("_ratio"):
            one, other = [1.0], _labels(dimension)  # the store has the nominal clock
        else:
            raise StoreError(
                f"'{where}' has no dimension '{name}' of kernel '{new.kernel.key}': an extension "
                "adds values, sizes, or ratios of clocks that hold 1.0"
            )
        found[name] = _places(one, other, name, where, space)
    for name, dimension in before.items():
        if name not in new.fixed or [new.fixed[name]] != list(dimension.values):
            raise _lack(where, name, dimension.values[0], space)
        raise StoreError(f"'{where}' sweeps {name}, which {space.plan.origin} does not")
    for name, value in old.fixed.items():
        if name in new.fixed and new.fixed[name] != value:
            raise _lack(where, name, value, space)
    for device in old.devices:
        same = next((d for d in new.devices if d.key == device.key), device)
        if same.sha256 != device.sha256:
            raise StoreError(f"'{where}': the file of device '{device.key}' has changed")
    return found


def _labels(dimension: Dimension) -> Sequence[Any]:
    """Return the labels of a dimension; for a list of configurations, the parameters' values."""
    if dimension.stacked is None:
        return dimension.values
    columns = (dimension.stacked.column(name).tolist() for name in dimension.stacked.axes)
    return list(zip(*columns, strict=True))
