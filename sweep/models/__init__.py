"""The registry of models: one file per paper, and models of other packages.

A package registers its models under the entry point group ``sweep.models``: the entry point's name
is the model's, its value the :class:`~sweep.models.base.Model`, as in
``my_model = "my_package.my_module:MODEL"``. Modules are imported when a model is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, wraps
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sweep.errors import ModelError, PlanError, SweepError, check_known, nearest

if TYPE_CHECKING:
    from sweep.fields import Parameter
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

_HERE = str(Path(__file__).parents[1])

FOREIGN_CODES = range(128, 256)
"""Codes that the regimes of other packages' models may have."""


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
    try:
        _check(found, name, where)
    except (AttributeError, TypeError) as error:  # something of another type
        raise ModelError(f"{where} is declared wrongly: {error}") from error
    return _guarded(found, where)


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


def _check(model: Any, name: str, where: str) -> None:
    """Refuse a foreign model whose declaration contradicts itself or another model."""
    from sweep.fields import COMMON_FIELDS, VARIANTS, Parameter
    from sweep.models.base import HEAD, Model

    def require(holds: Any, text: str) -> None:
        if not holds:
            raise ModelError(f"{where} {text}")

    def require_once(kind: str, names: Iterable[Any], taken: Iterable[Any] = ()) -> None:
        known = set(taken)
        for one in names:
            require(one not in known, f"has the {kind} '{one}', which is taken")
            known.add(one)

    require(isinstance(model, Model), "is not a sweep.models.base.Model")
    require(model.name == name and name.isidentifier(), f"calls itself '{model.name}'")
    are_functions = all(isinstance(body, FunctionType) for body in model.bodies.values())
    text = f"needs one body, a function, for each of {', '.join(VARIANTS)}"
    require(set(model.bodies) == set(VARIANTS) and are_functions, text)
    for regime, code in model.regimes.items():
        text = f"has the regime '{regime}' = {code!r}: names begin with '{name}_', codes are"
        text += f" {FOREIGN_CODES.start} to {FOREIGN_CODES.stop - 1}"
        require(code in FOREIGN_CODES and regime.startswith(f"{name}_"), text)
    require_once("regime's code", model.regimes.values())
    require_once("field", (own.name for own in model.fields), (*HEAD, *COMMON_FIELDS))
    require_once("input", (i.symbol for i in model.inputs))
    for symbol in {i.symbol for i in model.inputs} - model.symbols.keys():
        require(False, f"has no symbol for its input '{symbol}' (see symbols_of)")
    for one in model.parameters:
        require(isinstance(one, Parameter), f"has a parameter that is none: {one!r}")
        require(one.minimum <= one.maximum, f"has an empty range of the parameter '{one.key}'")
        text = f"has a rule of '{one.key}' without a docstring, whose first line is the source"
        require(one.rule is None or (one.rule.__doc__ or "").strip(), text)
    for key, symbol in ((key, i.symbol) for i in model.inputs for key in i.device_keys):
        known, own = [one.key for one in model.parameters], key.removeprefix(f"model.{name}.")
        text = f"has no parameter '{own}' for its input '{symbol}'{nearest(own, known)}"
        require(own == key or own in known, text)
    for option, values in model.options.items():
        require(isinstance(values, tuple) and values, f"has no tuple of values of '{option}'")
    require(model.accuracy is None or len(model.accuracy) == 3, "has no three accuracies")
    model.errata.items(), model.revisions.items()


def _guarded(model: Model, where: str) -> Model:
    """Return a foreign model whose functions' errors name it, and the line of its code."""

    def guarded(function: Callable[..., Any], what: str) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except SweepError:
                raise
            except Exception as error:  # another package's code: anything can go wrong in it
                frames = extract_tb(error.__traceback__)
                own = [f for f in frames if not f.filename.startswith(_HERE)] or [frames[0]]
                place = f"{own[-1].filename}:{own[-1].lineno}"
                text = f"{type(error).__name__}: {error} ({place})"
                raise ModelError(f"{where}: {what}: {text}") from error

        return call

    given, facts, findings = model.prepare, model.facts, model.findings
    wanted = {i.symbol for i in model.inputs} | {i.factor for i in model.inputs if i.factor}

    def prepare(work: Any, variant: str) -> Any:
        found = given(work, variant)
        for name in sorted(wanted ^ found.keys()):
            what = "gives no" if name in wanted else "gives what is no input:"
            raise ModelError(f"{where}: prepare {what} '{name}'")
        for i in model.inputs:
            for one in found[i.symbol] if i.sequence else [found[i.symbol]]:
                if getattr(one, "ndim", None) != work.n_sm.ndim or one.dtype.kind not in "fiub":
                    text = f"needs {'lists of ' if i.sequence else ''}arrays of numbers with"
                    text += f" {work.n_sm.ndim} axes, like the workload's, for '{i.symbol}'"
                    raise ModelError(f"{where}: prepare {text}")
        return found

    def in_range(one: Parameter) -> Parameter:
        given = one.rule
        if given is None:
            return one

        @wraps(given)
        def rule(device: DeviceFacts) -> Any:
            value = given(device)
            if not (value is None or one.columns or one.minimum <= value <= one.maximum):
                text = f"gives {value!r}, beyond {one.minimum:g} to {one.maximum:g}"
                raise ModelError(f"{where}: rule of '{one.key}' {text}")
            return value

        return replace(one, rule=guarded(rule, f"rule of '{one.key}'"))

    for key, value in {
        "prepare": guarded(prepare, "prepare"),
        "facts": guarded(lambda own: dict(facts(own)), "facts"),
        "findings": guarded(lambda *arguments: list(findings(*arguments)), "findings"),
        "parameters": tuple(map(in_range, model.parameters)),
    }.items():
        object.__setattr__(model, key, value)  # not `replace`, which would complete it again
    return model
