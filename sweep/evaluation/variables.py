"""Which variables a kernel's results have, with their dimensions and attributes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweep.errors import PlanError, nearest
from sweep.fields import COMMON_FIELDS, Field
from sweep.models import get_model, model_names
from sweep.space import KernelSpace, Plan

__all__ = ["Variable", "all_fields", "kept_names", "regime_attributes", "variables"]

DEFAULT_OUTPUTS = (
    "execution_time",
    "execution_cycles",
    "cycles_per_instruction",
    "power",
    "energy",
    "regime",
    "bound",
    "status",
    "power_status",
    "occupancy",
    "occupancy_limiter",
)
"""Kept when a plan does not say, together with the models' own variables."""


@dataclass(frozen=True)
class Variable:
    """One variable of a kernel's results.

    ``model`` is set for a variable that only this model gives (it has no ``model`` dimension and
    is named ``MODEL_NAME``); ``source`` is the name under which passes know it.
    """

    name: str
    source: str
    dims: tuple[str, ...]
    dtype: np.dtype[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    model: str | None = None

    @property
    def is_code(self) -> bool:
        """Whether the variable holds flags rather than numbers."""
        return self.dtype.kind == "u"

    @property
    def is_launch(self) -> bool:
        """Whether only the launch decides the variable: it has neither models nor clocks."""
        return self.model is None and COMMON_FIELDS[self.source].depends == "launch"


def all_fields() -> dict[str, Field]:
    """Return every variable that a plan may keep, by the name it has in results."""
    fields = dict(COMMON_FIELDS)
    for name in model_names():
        for own in get_model(name).fields:
            fields[f"{name}_{own.name}"] = own
    return fields


def regime_attributes() -> dict[str, Any]:
    """Return the CF flags of ``regime``: one enumeration over all models, codes permanent."""
    codes = {"none": 0}
    for name in model_names():
        for regime, code in get_model(name).regimes.items():
            if code in codes.values() or regime in codes or not 0 < code < 256:
                raise AssertionError(f"regime {regime}: code {code} is taken or out of range")
            codes[regime] = code
    return {"flag_values": list(codes.values()), "flag_meanings": " ".join(codes)}


def kept_names(plan: Plan) -> tuple[str, ...]:
    """Return the names of the variables that a plan keeps, ``status`` always among them.

    Raises
    ------
    PlanError
        An output is unknown; the message gives the nearest name.
    """
    own = {
        f"{model}_{own.name}": own.name for model in plan.models for own in get_model(model).fields
    }
    if plan.outputs is None:
        return (*DEFAULT_OUTPUTS, *own)
    kept: list[str] = []
    for given in plan.outputs:
        matches = [full for full, short in own.items() if short == given] or [given]
        for name in matches:
            if name not in COMMON_FIELDS and name not in own:
                known = [*COMMON_FIELDS, *own, *own.values()]
                raise PlanError(
                    f"{plan.origin}: outputs: unknown variable '{given}'{nearest(given, known)}"
                )
            if name not in kept:
                kept.append(name)
    for always in ("status", "power_status"):
        needed = always == "status" or {"power", "energy"} & set(kept)
        if needed and always not in kept:
            kept.append(always)
    return tuple(kept)


def variables(space: KernelSpace, plan: Plan) -> tuple[Variable, ...]:
    """Return the variables of one kernel's results, in order.

    A variable has only the dimensions it depends on: what the launch decides has neither
    ``model`` nor clock dimensions.
    """
    clocked = space.grid.names
    launch = tuple(d.name for d in space.grid.dimensions if d.kind not in ("core", "memory"))
    number = np.dtype(plan.precision)
    result = []
    fields = all_fields()
    for name in kept_names(plan):
        described = fields[name]
        dtype = np.dtype(np.uint8) if described.kind == "code" else number
        attributes = {**described.attributes(), **_provenance(described, plan)}
        if name == "regime":
            attributes.update(regime_attributes())
        if name not in COMMON_FIELDS:
            owner = next(m for m in plan.models if name == f"{m}_{described.name}")
            attributes["model"] = owner
            result.append(Variable(name, described.name, clocked, dtype, attributes, owner))
        elif described.depends == "launch":
            result.append(Variable(name, name, launch, dtype, attributes))
        else:
            result.append(Variable(name, name, ("model", *clocked), dtype, attributes))
    return tuple(result)


def _provenance(described: Field, plan: Plan) -> dict[str, Any]:
    """Return where a variable comes from: the paper, or the rule, that gives it."""
    owner = described.equation.split(" ")[0]
    if owner in model_names():
        return {"source": get_model(owner).reference}
    if described.depends == "launch":
        return {"source": "launch geometry and occupancy rules of the compute capability"}
    return {"source": f"the models of the model dimension, variant {plan.variant}"}
