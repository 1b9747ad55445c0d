"""How a paper's module declares its model: symbols, equations, inputs, bodies.

Names, units and texts of a model stand in a TOML file beside its module (:func:`declaration`); the
module has the equations and bodies, plain Python on numbers. What a body may consist of is
documented in CONTRIBUTING; :mod:`sweep.compiler.lowering` reads the source of bodies and equations
and refuses the rest.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sweep.fields import BOUND, Field, Flags, Parameter
from sweep.hardware.derived import Rule
from sweep.models.workload import Array, Workload

VARIANTS = ("corrected", "printed")
"""``printed`` follows the paper to the letter, ``corrected`` applies the documented errata."""

HEAD = (
    "execution_cycles",
    "cycles_per_instruction",
    "core_activity",
    "memory_activity",
    "regime",
    "bound",
)
"""The results of every model; each model adds its own fields."""


COMPUTE, MEMORY, SHARED, LATENCY, SYNCHRONISATION = (
    float(BOUND[name]) for name in ("compute", "memory", "shared", "latency", "synchronisation")
)
"""What bounds a time, as numbers that bodies return."""


class Symbol(NamedTuple):
    """One symbol of a paper: how it is printed, its unit and what it means."""

    symbol: str
    units: str
    meaning: str


@dataclass(frozen=True)
class EquationInfo:
    """What an equation function knows about itself.

    ``kind`` is ``"equation"`` or ``"condition"`` (a regime's condition, which returns a truth
    value).
    """

    model: str
    number: str
    result: Symbol
    arguments: Mapping[str, Symbol]
    kind: str


def equations(
    model: str, symbols: Mapping[str, Symbol]
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return the decorator of one paper's equations.

    Parameters
    ----------
    model : str
        The model's name.
    symbols : mapping
        Every argument name (and result name) to its :class:`Symbol`. Docstrings are completed from
        it, so that meaning and unit are written once.

    Returns
    -------
    callable
        ``decorator(number, result=None, kind="equation")``. ``result`` names the symbol of the
        returned value (the function's own name by default). The decorated function stays plain
        Python and has its :class:`EquationInfo` as the attribute ``info``.

    Raises
    ------
    KeyError
        An argument or result has no symbol.
    """

    def decorator(
        number: str, result: str | None = None, kind: str = "equation"
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            arguments = {name: symbols[name] for name in _parameters(function)}
            if kind == "condition":
                returned = Symbol(f"condition ({number})", "1", "whether the case applies")
            else:
                returned = symbols[result or function.__name__]
            info = EquationInfo(model, number, returned, arguments, kind)
            function.__doc__ = _docstring(function.__doc__ or "", info)
            function.info = info  # type: ignore[attr-defined]
            return function

        return wrap

    return decorator


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]


def _docstring(text: str, info: EquationInfo) -> str:
    """Append the units of arguments and result to an equation's own words."""
    lines = [f"{text.strip()}", "", f"Equation ({info.number}) of {info.model}.", ""]
    if info.arguments:
        lines += ["Parameters", "----------"]
    for name, symbol in info.arguments.items():
        lines += [f"{name} : float", f"    ``{symbol.symbol}``: {symbol.meaning} [{symbol.units}]"]
    kind = "bool" if info.kind == "condition" else "float"
    lines += ["", "Returns", "-------", kind]
    lines += [f"    ``{info.result.symbol}``: {info.result.meaning} [{info.result.units}]", ""]
    return "\n".join(lines)


@dataclass(frozen=True)
class Input:
    """A number that a model takes from kernel, device and clocks; a parameter of its bodies.

    Attributes
    ----------
    symbol : str
        The parameter's name in the bodies.
    printed, units, meaning : str
        The paper's symbol, its unit and what it means.
    origin : str
        Where the number comes from, in words.
    device_keys : tuple of str
        The dotted paths in the device file that it rests on. A key without a dot is one of the
        model's own table: ``issue_cycles`` stands for ``model.NAME.issue_cycles``.
    clocked : bool
        Whether it depends on the clocks; the others are constant along the clock axes.
    sequence : bool
        Whether it has one number for each part of the kernel (period, stage, instruction type).
        Bodies get a tuple; ``prepare`` gives a list of arrays. All sequences of a model are equally
        long, and a pass is compiled for each length.
    factor : str
        For an input that depends on both the launch and the clocks: ``prepare`` gives it at the
        nominal clocks, and what the clocks multiply it by under this name. The pass multiplies, so
        that no table has a number for each pair of launch and clocks.
    value : str
        The workload's value that it is, as a dotted path (``occupancy.active_sm``,
        ``parameters.issue_cycles``); empty where ``prepare`` computes it.
    """

    symbol: str
    printed: str
    units: str
    meaning: str
    origin: str
    device_keys: tuple[str, ...] = ()
    clocked: bool = False
    sequence: bool = False
    factor: str = ""
    value: str = ""


def declaration(module: str) -> dict[str, Any]:
    """Return what the TOML file beside a model's module declares, as arguments of :class:`Model`.

    Parameters
    ----------
    module : str
        The module's ``__file__``.
    """
    given = tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))
    inputs = tuple(
        Input(name, *table.pop("symbol"), **table) for name, table in given["inputs"].items()
    )
    given["symbols"] = symbols_of(inputs) | {
        name: Symbol(*words) for name, words in given["symbols"].items()
    }
    given["fields"] = tuple(_field(name, **table) for name, table in given["fields"].items())
    given["parameters"] = tuple(
        _parameter(key, **table) for key, table in given["parameters"].items()
    )
    return given | {"inputs": inputs}


def _field(
    name: str, symbol: Sequence[str], equation: str, codes: Mapping[str, int] | None = None
) -> Field:
    printed, units, meaning = symbol
    kind, flags = ("code", Flags(codes)) if codes else ("float", None)
    return Field(name, units, meaning, printed, equation, kind, flags=flags)


def _parameter(
    key: str,
    symbol: Sequence[str],
    range: tuple[float, float],
    required: bool = True,
    columns: Sequence[str] = (),
) -> Parameter:
    return Parameter(key, *symbol, required, *range, tuple(columns))


class Finding(NamedTuple):
    """A section that a model adds to the explanation of a configuration.

    ``lines`` are (name, value, units, meaning, formula or words); ``notes`` are sentences.
    """

    title: str
    lines: tuple[tuple[str, float, str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


def symbols_of(inputs: Sequence[Input]) -> dict[str, Symbol]:
    """Return the symbols of inputs by name."""
    return {i.symbol: Symbol(i.printed, i.units, i.meaning) for i in inputs}


Findings = Callable[[Workload, str, Mapping[str, float], Callable[[float], str]], Iterable[Finding]]


@dataclass(frozen=True)
class Model:
    """A published model, ready to be evaluated, explained and documented.

    Attributes
    ----------
    name : str
        Short name, the coordinate label in results.
    title, reference, doi : str
        The paper.
    symbols : mapping
        Symbols of the paper by snake-case name, those of the inputs among them.
    inputs : tuple of Input
        What the bodies may have as parameters.
    fields : tuple of Field
        The model's own results, besides those of :data:`HEAD`.
    regimes : mapping
        Permanent codes of the model's cases, unique over all models.
    bodies : mapping
        Variant to the plain Python function that joins the equations. Its parameters are inputs by
        name; one called ``corrected`` is whether the variant is the corrected one. It returns a
        dictionary of all results by name.
    prepare : callable
        ``prepare(workload, variant)`` returns the inputs by symbol, and their factors by name, as
        broadcastable arrays; an input that a device cannot give is NaN there. What is given here
        may leave out inputs that are values of the workload (:attr:`Input.value`).
    parameters : tuple of Parameter
        What the model reads from ``[model.NAME]`` of a device file.
    options : mapping
        Option name to its allowed values, the default first.
    facts : callable
        ``facts(own)`` returns what the model's own table in a device file says of facts that models
        share, by name (see :class:`sweep.hardware.derived.DeviceFacts`); ``None`` where it lacks
        one.
    rules : mapping
        Parameter to the rule that derives it where a device file lacks it.
    errata : mapping
        Documented differences between the variants.
    findings : callable
        ``findings(workload, variant, results, write)`` returns what the model says of a
        configuration beyond its results, for ``sweep explain``: ``results`` are numbers by name,
        ``write(number)`` returns a number as an explanation writes it. None by default.
    """

    name: str
    title: str
    reference: str
    doi: str
    symbols: Mapping[str, Symbol]
    inputs: tuple[Input, ...]
    fields: tuple[Field, ...]
    regimes: Mapping[str, int]
    bodies: Mapping[str, Callable[..., Any]]
    prepare: Callable[[Workload, str], Mapping[str, Array | Sequence[Array]]]
    parameters: tuple[Parameter, ...]
    errata: Mapping[str, str]
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda own: {}
    rules: Mapping[str, Rule] = field(default_factory=dict)
    findings: Findings = lambda work, variant, results, write: ()

    def __post_init__(self) -> None:
        """Complete the keys of the model's own table in device files, and ``prepare``."""
        inputs = []
        for i in self.inputs:
            keys = (key if "." in key else f"model.{self.name}.{key}" for key in i.device_keys)
            inputs.append(replace(i, device_keys=tuple(keys)))
        object.__setattr__(self, "inputs", tuple(inputs))
        values = {i.symbol: i.value for i in inputs if i.value}
        object.__setattr__(self, "prepare", partial(_prepared, values, self.prepare))

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what bodies return."""
        return (*HEAD, *(own.name for own in self.fields))

    def evaluate(self, variant: str, inputs: Mapping[str, Any]) -> dict[str, float]:
        """Return the results of one configuration by name, computed by the body as plain Python.

        Parameters
        ----------
        variant : str
            ``"corrected"`` or ``"printed"``.
        inputs : mapping
            Inputs by symbol: a number or an array of one, for sequences several of them.
        """
        body = self.bodies[variant]
        known: dict[str, Any] = {"corrected": variant == "corrected"}
        for i in self.inputs:
            if i.symbol in inputs:
                value = inputs[i.symbol]
                known[i.symbol] = tuple(map(_number, value)) if i.sequence else _number(value)
        with np.errstate(all="ignore"):
            results: dict[str, float] = body(*(known[name] for name in _parameters(body)))
        return results


def _prepared(
    values: Mapping[str, str],
    prepare: Callable[[Workload, str], Mapping[str, Array | Sequence[Array]]],
    work: Workload,
    variant: str,
) -> dict[str, Array | Sequence[Array]]:
    """Return the inputs that are values of the workload, and those that ``prepare`` computes."""
    return {name: work.value(path) for name, path in values.items()} | {**prepare(work, variant)}


def _number(value: Any) -> np.float64:
    """Return an array's only number; by NumPy's arithmetic it divides by zero without raising."""
    return np.float64(np.reshape(value, -1)[0])
