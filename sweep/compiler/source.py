"""The lines that work out one point of a grid, written from a model's program.

The same lines are the inner loop of a compiled pass, in Python, and that of the benchmarks' C++.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from sweep.compiler.lowering import lower, lowered
from sweep.compiler.program import Assignment, Program, names_in, parts_of
from sweep.compiler.selections import written
from sweep.hardware.clocks import finish
from sweep.models import get_model
from sweep.models.base import Model

LAUNCH_INPUTS = ("launch_status",)
"""What every pass reads besides the model's own inputs, constant along the clocks."""

CLOCK_INPUTS = ("clock_status", "power_input_status", "static_power", "core_hz", "core_watts",
                "memory_watts")  # fmt: skip
"""What every pass reads besides the model's own inputs, depending on the clocks."""

POWERED = ("power", "energy")


class Pass(NamedTuple):
    """All that decides the source of a pass (see :mod:`sweep.compiler.passes`).

    Attributes
    ----------
    model : str
        Name of the model to evaluate.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.
    form : str
        ``"clocks"``, ``"rows"`` or ``"sizes"``.
    outputs : tuple of str
        Variables to store, each an array of rows (codes as bytes); of a pass that keeps no results
        each is the memory of one tile.
    length : int
        Numbers in each sequence input.
    keeps : str
        What a pass keeps in place of results: ``KIND`` of a function ``take_KIND`` in
        :mod:`sweep.compiler.reductions`. Empty for a pass that stores results.
    varying : tuple of str
        The inputs of the form ``sizes`` that are not constant along the inner loop.
    """

    model: str
    variant: str
    form: str
    outputs: tuple[str, ...]
    length: int = 0
    keeps: str = ""
    varying: tuple[str, ...] = ()

    def inputs(self) -> dict[str, bool]:
        """Return the inputs in order, and whether each is constant along the inner loop."""
        launch, clocked = input_names(get_model(self.model), self.length)
        varying = self.varying if self.form == "sizes" else clocked
        return {n: self.form != "rows" and n not in varying for n in launch + clocked}


def nominal(name: str) -> str:
    """Return the name of an input before its factor."""
    return f"nominal_{name}"


def input_names(model: Model, length: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a pass's inputs: constant along the clocks, and depending on them.

    Parameters
    ----------
    model : Model
        The model.
    length : int
        Numbers in each sequence input.
    """
    names: dict[bool, list[str]] = {False: [], True: []}
    for i in model.inputs:
        own = parts_of(i.symbol, length if i.sequence else None)
        if i.factor:
            names[False] += map(nominal, own)
            names[True] += [i.factor] if i.factor not in names[True] else []
        else:
            names[i.clocked] += own
    return LAUNCH_INPUTS + tuple(names[False]), CLOCK_INPUTS + tuple(names[True])


@cache
def finishing() -> Program:
    """Return the program that follows every model: time, power and energy from cycles."""
    names = (*LAUNCH_INPUTS, *CLOCK_INPUTS, "execution_cycles", "core_activity", "memory_activity")
    return lower(finish, dict.fromkeys(names))


Write = Callable[[ast.expr, Mapping[str, str]], str]
"""Writes an expression as text; the mapping has texts to write in place of names."""


class Line(NamedTuple):
    """One value of a point: its name, its text, and whether it differs along the inner loop."""

    name: str
    text: str
    varies: bool


class Point:
    """Writes the code that computes a pass's outputs at one point, each value once.

    Parameters
    ----------
    which : Pass
        The pass.
    inputs : mapping
        The pass's inputs: the text of each at the point, and whether it differs along the inner
        loop.
    write : callable
        Writes expressions in a programming language: :func:`written`, or another one.

    Attributes
    ----------
    lines : list of Line
        In order; no line rests on a later one.
    results : dict
        Outputs, ``status`` and ``power_status`` to the text of their value.
    read : set of str
        The pass's inputs that are read.
    """

    def __init__(
        self, which: Pass, inputs: Mapping[str, tuple[str, bool]], write: Write = written
    ) -> None:
        self._inputs, self._written = inputs, write
        self._factors = {
            part: i.factor
            for i in get_model(which.model).inputs
            for part in parts_of(i.symbol, which.length if i.sequence else None)
        }
        self.lines: list[Line] = []
        self.read: set[str] = set()
        self._names: dict[str, str] = {}
        self._varying: set[str] = set()
        body, after = lowered(which.model, which.variant, which.length), finishing()
        wanted = {"status", *which.outputs}
        wanted |= {"power_status"} if wanted & {*POWERED} else set()
        last = after.needed(wanted & after.results.keys())
        read = {name for assignment in last for name in names_in(assignment.expression)}
        own = ((wanted - after.results.keys()) | read) & body.results.keys()
        self._write(body, body.needed(own), "v_")
        self.results = {name: self._names[body.results[name]] for name in own}
        self._names = dict(self.results)
        self._write(after, last, "f_")
        for name in wanted & after.results.keys():
            self.results[name] = self._names[after.results[name]]

    def _write(self, program: Program, assignments: Sequence[Assignment], prefix: str) -> None:
        """Append the lines of some of a program's assignments, each after those that it needs."""
        for name, value in program.constants.items():
            self._names[name] = f"({self._written(ast.Constant(value), {})})"
        for assignment in assignments:
            for name in names_in(assignment.expression):
                self._read(name, prefix)
            self._add(assignment.name, prefix, assignment.expression)

    def _add(self, name: str, prefix: str, expression: ast.expr) -> None:
        text = self._written(expression, self._names)
        if isinstance(expression, (ast.Name, ast.Constant)):
            self._names[name] = text
        else:
            varies = any(self._names.get(n) in self._varying for n in names_in(expression))
            self._line(name, f"{prefix}{name}", text, varies)

    def _line(self, name: str, variable: str, text: str, varies: bool) -> None:
        self._names[name] = variable
        self.lines.append(Line(variable, text, varies))
        if varies:
            self._varying.add(variable)

    def _read(self, name: str, prefix: str) -> None:
        """Read an input, or the product of an input and its factor, unless it has a value."""
        if name in self._names:
            return
        if name in self._inputs:
            self.read.add(name)
            text, varies = self._inputs[name]
            if varies:
                self._line(name, f"{prefix}{name}", text, True)
            else:
                self._names[name] = text
        else:
            base, factor = nominal(name), self._factors[name]
            self._read(base, prefix)
            self._read(factor, prefix)
            self._add(name, prefix, ast.BinOp(ast.Name(base), ast.Mult(), ast.Name(factor)))
