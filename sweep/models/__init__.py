"""The registry of models: one file per paper, one line here.

Modules are imported when a model is first asked for, so that listing the models, reading a plan
or opening a store compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sweep.errors import PlanError, nearest

if TYPE_CHECKING:
    from sweep.models.base import Model

__all__ = ["MODULES", "get_model", "model_names"]

MODULES: dict[str, str] = {
    "hong_kim": "sweep.models.hong_kim_2009",
    "wang_chu": "sweep.models.wang_chu_2017",
    "luo_suda": "sweep.models.luo_suda_2011",
    "zhang_owens": "sweep.models.zhang_owens_2011",
    "lemeire": "sweep.models.lemeire_2016",
    "combined": "sweep.models.combined",
}
"""Model name to the module of its paper."""


def model_names() -> tuple[str, ...]:
    """Return the names of all registered models, in registration order."""
    return tuple(MODULES)


def get_model(name: str) -> Model:
    """Return a registered model.

    Raises
    ------
    PlanError
        No model has this name; the message gives the nearest right one.
    """
    if name not in MODULES:
        raise PlanError(
            f"unknown model '{name}'{nearest(name, MODULES)} (known: {', '.join(MODULES)})"
        )
    model: Model = importlib.import_module(MODULES[name]).MODEL
    return model
