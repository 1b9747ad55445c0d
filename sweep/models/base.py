"""How a paper's module declares its model: symbols, equations, inputs, bodies.

Equations and bodies are plain Python on numbers. What a body may consist of is documented in
CONTRIBUTING; :mod:`sweep.compiler.lowering` reads their source and refuses the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from sweep.fields import Field, Parameter
from sweep.models.workload import Array, Workload

HEAD = (
    "execution_cycles",
    "cycles_per_instruction",
    "core_activity",
    "memory_activity",
    "regime",
    "bound",
)
"""The results of every model; each model adds its own fields."""


class Symbol(NamedTuple):
    """One symbol of a paper: how it is printed, its unit and what it means."""

    symbol: str
    units: str
    meaning: str


@dataclass(frozen=True)
class EquationInfo:
    """What an equation function knows about itself.

    ``kind`` is ``"equation"`` or ``"condition"`` (a regime's condition, which returns a truth
    value); ``symbols`` and ``functions`` are those of the paper, ``functions`` in its order.
    """

    model: str
    number: str
    result: Symbol
    names: tuple[str, ...]
    symbols: Mapping[str, Symbol] = field(repr=False, compare=False)
    functions: Sequence[Any] = field(repr=False, compare=False)
    kind: str = "equation"

    @property
    def arguments(self) -> dict[str, Symbol]:
        """The symbols of the arguments by name."""
        return {name: self.symbols[name] for name in self.names}

    @property
    def is_ambiguous(self) -> bool:
        """Whether several equations of the paper have this one's symbol on the left."""
        same = (f.info for f in self.functions if f.info.result.symbol == self.result.symbol)
        return len({info.number for info in same}) > 1


def equations(
    model: str, symbols: dict[str, Symbol]
) -> Callable[..., Callable[[Callable[..., Any]], Callable[..., Any]]]:
    """Return the decorator of one paper's equations.

    Parameters
    ----------
    model : str
        The model's name.
    symbols : dict
        Argument names to their :class:`Symbol`. Equations add those of their results. Docstrings
        are completed from it, so that meaning and unit are written once.

    Returns
    -------
    callable
        ``decorator(number, *result, kind="equation")``. ``result`` is the printed symbol, unit and
        meaning of the returned value, which the symbols then have under the function's name, or the
        name of a symbol that they have already (the function's own name by default). The decorated
        function stays plain Python and has its :class:`EquationInfo` as the attribute ``info``.

    Raises
    ------
    KeyError
        A result has no symbol.
    """
    functions: list[Any] = []
    waiting: list[Any] = []  # for the symbols of arguments that later equations give

    def decorator(
        number: str, *result: str, kind: str = "equation"
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def wrap(function: Any) -> Callable[..., Any]:
            if len(result) > 1:
                symbols[function.__name__] = Symbol(*result)
            if kind == "condition":
                returned = Symbol(f"condition ({number})", "1", "whether the case applies")
            else:
                returned = symbols[result[0] if len(result) == 1 else function.__name__]
            names = _parameters(function)
            function.info = EquationInfo(model, number, returned, names, symbols, functions, kind)
            functions.append(function)
            waiting.append(function)
            for known in [f for f in waiting if symbols.keys() >= {*f.info.names}]:
                known.__doc__ = _docstring(known.__doc__ or "", known.info)
                waiting.remove(known)
            return function  # type: ignore[no-any-return]

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
    is_switch : bool
        Whether much of a body is idle where it is 0. A pass over such points alone is compiled
        without it: branches on numbers become selections, which cost both sides.
    only_with : str
        Key of a kernel's global accesses; on a kernel without it the device keys change nothing.
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
    is_switch: bool = False
    only_with: str = ""


def symbols_of(inputs: Sequence[Input]) -> dict[str, Symbol]:
    """Return the symbols of inputs by name."""
    return {i.symbol: Symbol(i.printed, i.units, i.meaning) for i in inputs}


def counted(symbol: str, printed: str, meaning: str, origin: str) -> Input:
    """Return an input that is a number of something in each part of the kernel (a sequence).

    Parameters
    ----------
    symbol, printed, meaning, origin : str
        As for :class:`Input`.
    """
    return Input(symbol, printed, "1", meaning, origin, sequence=True)


def regimes(model: str, first: int, *cases: str) -> dict[str, int]:
    """Return the permanent codes of a model's cases by stored name: ``first`` and those after it.

    New cases come last, as no code may change.
    """
    return {f"{model}_{case}": first + i for i, case in enumerate(cases)}


class Finding(NamedTuple):
    """A section that a model adds to the explanation of a configuration.

    ``lines`` are (name, value, units, meaning, formula or words); ``notes`` are sentences.
    """

    title: str
    lines: tuple[tuple[str, float, str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


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
        The model's own results, besides those of :data:`HEAD`. What is given here may leave the
        model's name out of their equations: ``"(5)"`` for ``"hong_kim (5)"``.
    regimes : mapping
        Permanent codes of the model's cases, unique over all models.
    bodies : mapping
        Variant to the plain Python function that joins the equations, that of ``revised`` by
        default that of ``corrected``. Its parameters are inputs by name; besides them ``corrected``
        is whether errata act (in ``revised`` too) and ``revised`` whether revisions do. It returns
        a dictionary of all results by name.
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
    errata : mapping
        Contradictions and undefined cases that ``corrected`` mends, by code.
    revisions : mapping
        What ``revised`` changes beyond that, by code; without any, ``revised`` is ``corrected``.
    purpose : str
        What to use the model for, in half a sentence.
    accuracy : tuple of float, optional
        How far off ``revised`` was seen to be, in per cent: how much slower than the optimum the
        best of its first ten is, for a convolution on an RTX A4000 and an SGEMM on an RTX 2080 Ti,
        and its mean error at other clocks on a GTX Titan X.
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
    revisions: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    facts: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda own: {}
    purpose: str = ""
    accuracy: tuple[float, float, float] | None = None
    findings: Findings = lambda work, variant, results, write: ()

    def __post_init__(self) -> None:
        """Complete keys of the model's own table, the fields' equations and ``prepare``."""
        inputs = []
        for i in self.inputs:
            keys = (key if "." in key else f"model.{self.name}.{key}" for key in i.device_keys)
            inputs.append(replace(i, device_keys=tuple(keys)))
        fields = (
            replace(f, equation=f"{self.name} {f.equation}") if f.equation.startswith("(") else f
            for f in self.fields
        )
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "inputs", tuple(inputs))
        values = {i.symbol: i.value for i in inputs if i.value}
        given = partial(_prepared, values, self.prepare, bool(self.revisions))
        object.__setattr__(self, "prepare", given)
        if "corrected" in self.bodies:
            object.__setattr__(self, "bodies", {"revised": self.bodies["corrected"], **self.bodies})

    @property
    def results(self) -> tuple[str, ...]:
        """The names of what bodies return."""
        return (*HEAD, *(own.name for own in self.fields))

    def errata_in(self, variant: str) -> dict[str, str]:
        """Return what acts in a variant, by code: its differences from the paper."""
        acting = flags(variant)
        errata = self.errata if acting["corrected"] else {}
        return {**errata, **(self.revisions if acting["revised"] else {})}

    def evaluate(self, variant: str, inputs: Mapping[str, Any]) -> dict[str, float]:
        """Return the results of one configuration by name, computed by the body as plain Python.

        Parameters
        ----------
        variant : str
            One of :data:`sweep.fields.VARIANTS`.
        inputs : mapping
            Inputs by symbol: a number or an array of one, for sequences several of them.
        """
        body = self.bodies[variant]
        known: dict[str, Any] = {**flags(variant)}
        for i in self.inputs:
            if i.symbol in inputs:
                value = inputs[i.symbol]
                known[i.symbol] = tuple(map(_number, value)) if i.sequence else _number(value)
        with np.errstate(all="ignore"):
            results: dict[str, float] = body(*(known[name] for name in _parameters(body)))
        return results


def added(first: Any, second: Any) -> Any:
    """Return a record (a ``NamedTuple``) of the sums of two records, number by number."""
    return first._make(a + b for a, b in zip(first, second, strict=True))


def flags(variant: str) -> dict[str, bool]:
    """Return the parameters of bodies that say what acts in a variant."""
    return {"corrected": variant != "printed", "revised": variant == "revised"}


def _prepared(
    values: Mapping[str, str],
    prepare: Callable[[Workload, str], Mapping[str, Array | Sequence[Array]]],
    has_revisions: bool,
    work: Workload,
    variant: str,
) -> dict[str, Array | Sequence[Array]]:
    """Return the inputs that are values of the workload, and those that ``prepare`` computes.

    Without revisions ``revised`` is ``corrected``.
    """
    own = "corrected" if variant == "revised" and not has_revisions else variant
    return {name: work.value(path) for name, path in values.items()} | {**prepare(work, own)}


def _number(value: Any) -> np.float64:
    """Return an array's only number; by NumPy's arithmetic it divides by zero without raising."""
    return np.float64(np.reshape(value, -1)[0])
