"""The record in a store of how it was computed, and the store's layout."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Mapping
from functools import cache
from typing import Any

from sweep import __version__
from sweep.errors import StoreError
from sweep.evaluation.variables import assumptions, coordinates, group_attributes, variables
from sweep.fields import VARIANTS
from sweep.models import get_model, packages_of
from sweep.space import KernelSpace, Plan, Space, laid_out, parse_plan, resolve
from sweep.store.buckets import is_store
from sweep.store.layout import GroupLayout, StoreLayout, Units, Variable, static
from sweep.store.root import inspect

Source = Plan | Space | Mapping[str, Any] | str | os.PathLike[str]
"""What determines a space: a plan, its name or path, a space, or the record of a store."""

PACKAGES = ("numba", "llvmlite", "numpy", "xarray", "dask", "zarr", "numcodecs")


def record_of(space: Space) -> dict[str, Any]:
    """Return the root record: everything needed to compute the results again."""
    plan = space.plan
    devices = {d.key: {"sha256": d.sha256, "text": d.text} for d in space.devices}
    kernels = {k.kernel.key: {"sha256": k.kernel.sha256, "text": k.kernel.text}
               for k in space.kernels}  # fmt: skip
    models = {
        name: {
            "title": model.title,
            "reference": model.reference,
            "doi": model.doi,
            "errata": model.errata_in(plan.variant),
        }
        for name, model in zip(plan.models, map(get_model, plan.models), strict=True)
    }
    packages = packages_of(plan.models)
    return {
        "identity": {
            "plan": plan.digest(),
            "devices": {key: value["sha256"] for key, value in devices.items()},
            "kernels": {key: value["sha256"] for key, value in kernels.items()},
            "sweep_version": __version__,
            **({"packages": packages} if packages else {}),
        },
        "plan": plan.as_dict(),
        "variant": plan.variant,
        "devices": devices,
        "kernels": kernels,
        "models": models,
        "versions": {**_versions(), **packages},
    }


@cache  # each version is read from a file
def _versions() -> Mapping[str, str]:
    found = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {"python": platform.python_version(), **found}


def space_of(source: Source) -> Space:
    """Return the space of a plan, or of a store's record or tree.

    Raises
    ------
    SweepError
        The plan or a file that it names is wrong, or a record has no plan, because its store
        contains measured times; or data of xarray have no record.
    """
    if isinstance(source, Mapping):
        attrs = getattr(getattr(source, "root", source), "attrs", None)
        if attrs is not None and "record" not in attrs:
            raise StoreError("these results have no store's record: give their plan instead")
        source = source if attrs is None else attrs["record"]
        if "plan" not in source:
            raise StoreError("the store holds measured times; only predictions have a plan")
        return resolve(parse_plan(source["plan"], origin="the store's plan"), texts_of(source))
    return laid_out(source)


def recorded_space(store: str | os.PathLike[str]) -> Space:
    """Return the space of a store, from the plan and specs in its record.

    Raises
    ------
    SweepError
        The store or its record cannot be read.
    """
    return space_of(inspect(store).record)


def space_behind(source: Source) -> Space:
    """Return the space of a plan, or of the store of a path, as for :func:`space_of`."""
    if isinstance(source, str | os.PathLike) and is_store(source):
        return recorded_space(source)
    return space_of(source)


def texts_of(record: Any) -> dict[str, dict[str, str]]:
    """Return the texts of specs in a record, for :func:`sweep.space.resolve`."""
    return {
        kind: {key: value["text"] for key, value in record[kind].items()}
        for kind in ("devices", "kernels")
    }


def layout_of(space: Space) -> StoreLayout:
    """Return the layout of a space's store, with one group per kernel."""
    plan = space.plan
    return StoreLayout(
        groups=[_group(kernel, plan) for kernel in space.kernels],
        record=record_of(space),
        attrs={
            "title": plan.description or plan.name,
            "plan": plan.name,
            "variant": plan.variant,
            "variant_meaning": VARIANTS[plan.variant],
        },
    )


def _group(space: KernelSpace, plan: Plan) -> GroupLayout:
    grid = space.grid
    sizes = {**dict(zip(grid.names, grid.shape, strict=True)), "model": len(plan.models)}
    # One model per chunk: most questions are about one, and similar numbers compress better.
    chunks = {**dict(zip(grid.names, grid.chunk_shape, strict=True)), "model": 1}
    found = []
    for v in variables(space, plan):
        shape, extents = (tuple(along[d] for d in v.dims) for along in (sizes, chunks))
        found.append(Variable(v.name, v.dims, shape, extents, v.dtype.name, v.attributes))
    return GroupLayout(
        name=space.kernel.key,
        attrs=group_attributes(space, plan),
        # Texts about the results are coordinates, so arithmetic and masks do not affect them.
        coordinates=[
            static(c.name, c.dims, c.values, c.attributes)
            for c in (*coordinates(space, plan), *assumptions(space, plan))
        ],
        variables=found,
        n_chunks=grid.n_chunks,
        units=Units(grid.names, grid.shape, grid.chunk_shape, len(plan.models)),
    )
