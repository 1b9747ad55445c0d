"""Models of other packages: a wrong declaration or a failing function is one line that names it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial, wraps
from itertools import chain, starmap
from pathlib import Path
from traceback import extract_tb
from types import FunctionType
from typing import Any

from sweep.errors import ModelError, SweepError, nearest
from sweep.fields import COMMON_FIELDS, VARIANTS, Parameter
from sweep.models.base import HEAD, Finding, Model

FOREIGN_CODES = range(128, 256)
"""Codes that the regimes of other packages' models may have."""

_HERE = str(Path(__file__).parents[1])

Require = Callable[[Any, str], None]
"""Refuses a model with a text unless something holds."""


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

    def require(holds: Any, text: str) -> None:
        if not holds:
            raise ModelError(f"{where}: {text}")

    try:
        _check(model, name, require)
    except (AttributeError, TypeError) as error:  # something of another type
        raise ModelError(f"{where}: is declared wrongly: {error}") from error
    guarded = partial(_guarded, where)
    rules = {p.key: guarded(f"rule of '{p.key}'", p.rule, partial(_in_range, require, p))
             for p in model.parameters if p.rule}  # fmt: skip
    for key, value in {
        "prepare": guarded("prepare", model.prepare, partial(_fitting, require, model)),
        "facts": guarded("facts", model.facts, lambda found, *_: dict(found)),
        "findings": guarded(
            "findings", model.findings, lambda found, *_: [*starmap(Finding, found)]
        ),
        "parameters": tuple(replace(p, rule=rules.get(p.key)) for p in model.parameters),
    }.items():
        object.__setattr__(model, key, value)  # not `replace`, which would complete it again
    return model  # type: ignore[no-any-return]


def _check(model: Any, name: str, require: Require) -> None:
    """Refuse a foreign model whose declaration contradicts itself or another model."""

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


def _guarded(
    where: str, what: str, function: Callable[..., Any], check: Callable[..., Any]
) -> Callable[..., Any]:
    """Return a function whose results are checked, and whose errors name the model and its line."""

    @wraps(function)
    def call(*arguments: Any) -> Any:
        try:
            return check(function(*arguments), *arguments)
        except SweepError:
            raise
        except Exception as error:  # another package's code: anything can go wrong in it
            text = f"{where}: {what}: {type(error).__name__}: {error}"
            frames = extract_tb(error.__traceback__)
            own = [frame for frame in frames if not frame.filename.startswith(_HERE)]
            for frame in [frame for frame in own if frame.filename == own[0].filename][-1:]:
                text += f" ({frame.filename}:{frame.lineno})"
            raise ModelError(text) from error

    return call


def _fitting(require: Require, model: Model, found: Mapping[str, Any], work: Any, _: str) -> Any:
    """Return what a model prepares, if it has its inputs and their factors as arrays."""
    wanted = {i.symbol for i in model.inputs} | {i.factor for i in model.inputs if i.factor}
    for name in sorted(wanted ^ found.keys()):
        what = "gives no" if name in wanted else "gives what is no input:"
        require(False, f"prepare {what} '{name}'")
    lengths = {len(found[i.symbol]) for i in model.inputs if i.sequence}
    require(len(lengths) < 2, "prepare gives sequences of different lengths")
    n_axes = work.n_sm.ndim
    for i in model.inputs:
        factor = [found[i.factor]] if i.factor else []
        for one in (*(found[i.symbol] if i.sequence else [found[i.symbol]]), *factor):
            text = f"prepare needs {'lists of ' if i.sequence else ''}arrays of numbers with"
            text += f" {n_axes} axes, like the workload's, for '{i.symbol}'"
            require(getattr(one, "ndim", None) == n_axes and one.dtype.kind in "fiub", text)
    return found


def _in_range(require: Require, one: Parameter, value: Any, _: Any) -> Any:
    """Return what a rule gives, if the parameter may have this value."""
    text = f"rule of '{one.key}' gives {value!r}, beyond {one.minimum:g} to {one.maximum:g}"
    require(value is None or one.columns or one.minimum <= value <= one.maximum, text)
    return value
