"""The registry of models: one file per paper, and models of other packages.

A package registers its models under the entry point group ``sweep.models``: the entry point's name
is the model's, its value the :class:`~sweep.models.base.Model`, as in
``my_model = "my_package.my_module:MODEL"``. Modules are imported when a model is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from sweep.errors import ModelError, PlanError, check_known

if TYPE_CHECKING:
    from sweep.hardware.derived import DeviceFacts, Value
    from sweep.models.base import Model

__all__ = [
    "GROUP",
    "MODULES",
    "derived_parameters",
    "get_model",
    "model_names",
    "packages_of",
    "stated_facts",
]

GROUP = "sweep.models"
"""The entry point group of models from other packages."""

MODULES: dict[str, str] = {
    "hong_kim": "sweep.models.hong_kim_2009",
    "wang_chu": "sweep.models.wang_chu_2017",
    "luo_suda": "sweep.models.luo_suda_2011",
    "zhang_owens": "sweep.models.zhang_owens_2011",
    "lemeire": "sweep.models.lemeire_2016",
    "combined": "sweep.models.combined",
}
"""This package's models: name to the module of the paper."""


@cache
def _foreign() -> dict[str, EntryPoint]:
    """Return the entry points of models from other packages by name."""
    found = {point.name: point for point in entry_points(group=GROUP)}
    return {name: point for name, point in sorted(found.items()) if name not in MODULES}


def model_names() -> tuple[str, ...]:
    """Return the names of all registered models: this package's, then those of others."""
    return (*MODULES, *_foreign())


def packages_of(models: Iterable[str]) -> dict[str, str]:
    """Return the other packages that some models come from, with their versions."""
    points = (point for name, point in _foreign().items() if name in models)
    return {point.dist.name: point.dist.version for point in points if point.dist is not None}


@cache
def get_model(name: str) -> Model:
    """Return a registered model.

    Raises
    ------
    PlanError
        No model has this name; the message gives the nearest right one.
    ModelError
        A model of another package cannot be imported, or does not declare what a model must.
    """
    if name in MODULES:
        return importlib.import_module(MODULES[name]).MODEL
    check_known(name, model_names(), f"unknown model '{name}'", "known:", PlanError)
    point = _foreign()[name]
    where = f"model '{name}' ({point.value})"
    try:
        found = point.load()
    except Exception as error:  # another package's code: anything can go wrong in it
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ModelError(f"{where} cannot be imported: {text}") from error
    return importlib.import_module("sweep.models.foreign").checked(found, name, where)


def stated_facts(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return what models' own tables in a device file say of facts that models share.

    Parameters
    ----------
    parameters : mapping
        The tables by model. The first model that states a fact counts.
    """
    found: dict[str, Any] = {}
    for name in model_names():
        for fact, value in get_model(name).facts(parameters.get(name, {})).items():
            if value is not None and not isinstance(value, str):
                found.setdefault(fact, value)
    return found


def derived_parameters(
    device: DeviceFacts, models: Iterable[str], given: Mapping[str, Mapping[str, object]]
) -> Iterator[tuple[str, str, Value, tuple[str, str]]]:
    """Yield model, parameter, value and source for what a device's file lacks.

    A source is a kind and the rule in words: ``derived`` where the value follows from the file,
    ``assumed`` where it also takes a fact that no data sheet states.

    Parameters
    ----------
    device : DeviceFacts
        What the device's file says.
    models : iterable of str
        The models whose parameters to complete.
    given : mapping
        By model the parameters that the file has.
    """
    from sweep.hardware.rule_inputs import in_words, with_assumptions

    rules = [
        (name, parameter.key, parameter.rule)
        for name in models
        for parameter in get_model(name).parameters
        if parameter.rule is not None and parameter.key not in given.get(name, {})
    ]
    found = set()
    for facts, assumption in ((device, ""), *with_assumptions(device)):
        for name, key, rule in rules:
            if (name, key) not in found and (value := rule(facts)) is not None:
                found.add((name, key))
                words = in_words(rule)
                if assumption:
                    yield name, key, value, ("assumed", f"{words}; {assumption}")
                else:
                    yield name, key, value, ("derived", words)
