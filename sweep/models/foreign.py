"""Models of other packages: a wrong declaration or a failing function is one line that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from itertools import chain
from pathlib import Path
from traceback import extract_tb
from types import FunctionType
from typing import Any

from sweep.errors import ModelError, SweepError, nearest
from sweep.fields import COMMON_FIELDS, VARIANTS, Parameter
from sweep.hardware.derived import DeviceFacts
from sweep.models.base import HEAD, Finding, Model

FOREIGN_CODES = range(128, 256)
"""Codes that the regimes of other packages' models may have."""

_HERE = str(Path(__file__).parents[1])


def checked(model: Any, name: str, where: str) -> Model:
    """Return a model of another package whose functions' errors name it.

    Parameters
    ----------
    model : Model
        What its entry point leads to.
    name, where : str
        The entry point's name, and what messages call it.

    Raises
    ------
    ModelError
        Its declaration contradicts itself or another model.
    """
    try:
        _check(model, name, where)
    except (AttributeError, TypeError) as error:  # something of another type
        raise ModelError(f"{where} is declared wrongly: {error}") from error
    return _guarded(model, where)


def _check(model: Any, name: str, where: str) -> None:
    """Refuse a foreign model whose declaration contradicts itself or another model."""

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
    for one in model.parameters:
        require(isinstance(one, Parameter), f"has a parameter that is no Parameter: {one!r}")
        require(one.minimum <= one.maximum, f"has an empty range of the parameter '{one.key}'")
        text = f"has a rule of '{one.key}' without a docstring, whose first line is the source"
        require(one.rule is None or (one.rule.__doc__ or "").strip(), text)
    known = [one.key for one in model.parameters]
    for i in model.inputs:
        text = f"has no symbol for its input '{i.symbol}' (see symbols_of)"
        require(i.symbol in model.symbols, text)
        for key in i.device_keys:
            own = key.removeprefix(f"model.{name}.")
            text = f"has no parameter '{own}' for its input '{i.symbol}'{nearest(own, known)}"
            require(own == key or own in known, text)
    for option, values in model.options.items():
        require(isinstance(values, tuple) and values, f"has no tuple of values of '{option}'")
    require(model.accuracy is None or len(model.accuracy) == 3, "has no three accuracies")
    for one in (model.title, model.reference, model.doi, model.purpose,
                *chain(*model.errata.items(), *model.revisions.items())):  # fmt: skip
        require(isinstance(one, str), f"has {one!r} where a text belongs")


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
                text = f"{where}: {what}: {type(error).__name__}: {error}"
                frames = extract_tb(error.__traceback__)
                own = [f for f in frames if not f.filename.startswith(_HERE)]
                for frame in [f for f in own if f.filename == own[0].filename][-1:]:
                    text += f" ({frame.filename}:{frame.lineno})"
                raise ModelError(text) from error

        return call

    given, facts, findings = model.prepare, model.facts, model.findings
    wanted = {i.symbol for i in model.inputs} | {i.factor for i in model.inputs if i.factor}

    def prepare(work: Any, variant: str) -> Any:
        found = given(work, variant)
        for name in sorted(wanted ^ found.keys()):
            what = "gives no" if name in wanted else "gives what is no input:"
            raise ModelError(f"{where}: prepare {what} '{name}'")
        if len({len(found[i.symbol]) for i in model.inputs if i.sequence}) > 1:
            raise ModelError(f"{where}: prepare gives sequences of different lengths")
        for i in model.inputs:
            factor = [found[i.factor]] if i.factor else []
            for one in (*(found[i.symbol] if i.sequence else [found[i.symbol]]), *factor):
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
        "findings": guarded(lambda *given: [Finding(*one) for one in findings(*given)], "findings"),
        "parameters": tuple(map(in_range, model.parameters)),
    }.items():
        object.__setattr__(model, key, value)  # not `replace`, which would complete it again
    return model
