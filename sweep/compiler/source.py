"""The lines that work out one point of a grid, written from a model's program.

The same lines are the inner loop of a compiled pass, in Python, and that of the benchmarks' C++.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from sweep.compiler.lowering import lower, lowered
from sweep.compiler.program import Assignment, Program, names_in, parts_of
from sweep.compiler.rounds import Rounds, rolled
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
    zeros : tuple of str
        The switches (:class:`sweep.models.base.Input`) that are 0 at all points.
    """

    model: str
    variant: str
    form: str
    outputs: tuple[str, ...]
    length: int = 0
    keeps: str = ""
    varying: tuple[str, ...] = ()
    zeros: tuple[str, ...] = ()

    def inputs(self) -> dict[str, bool]:
        """Return the inputs in order, and whether each is constant along the inner loop."""
        launch, clocked = input_names(get_model(self.model), self.length)
        varying = self.varying if self.form == "sizes" else clocked
        return {n: self.form != "rows" and n not in varying for n in launch + clocked}

    def sequences(self) -> dict[str, tuple[str, ...]]:
        """Return the sequences among the inputs: the names of the numbers of each."""
        return sequences_of(get_model(self.model), self.length)


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


def sequences_of(model: Model, length: int) -> dict[str, tuple[str, ...]]:
    """Return the sequences among a pass's inputs: the names of the numbers of each."""
    names = [nominal(i.symbol) if i.factor else i.symbol for i in model.inputs if i.sequence]
    return {name: parts_of(name, length) for name in names}


@cache
def finishing() -> Program:
    """Return the program that follows every model: time, power and energy from cycles."""
    names = (*LAUNCH_INPUTS, *CLOCK_INPUTS, "execution_cycles", "core_activity", "memory_activity")
    return lower(finish, dict.fromkeys(names))


Write = Callable[[ast.expr, Mapping[str, str]], str]
"""Writes an expression as text; the mapping has texts to write in place of names."""


class Line(NamedTuple):
    """One value of a point: its name, its text, and whether it differs along the inner loop.

    ``is_read`` if it is an input's number; ``is_truth`` if it is true or false.
    """

    name: str
    text: str
    varies: bool
    is_read: bool = False
    is_truth: bool = False


class Carried(NamedTuple):
    """What a loop's rounds leave to the next: its name, and the texts of its values."""

    name: str
    before: str
    after: str
    varies: bool
    is_truth: bool


class Loop(NamedTuple):
    """Rounds that are alike, with the lines of one of them.

    ``read`` are the sequences of which each round reads its own number.
    """

    first: int
    rounds: int
    carried: tuple[Carried, ...]
    lines: tuple[Line, ...]
    read: tuple[str, ...]


class Point:
    """Writes the code that computes a pass's outputs at one point, each value once.

    Parameters
    ----------
    which : Pass
        The pass.
    inputs : mapping
        The pass's inputs: the text of each at the point, and whether it differs along the inner
        loop. With sequences among them rounds that are alike become loops.
    write : callable
        Writes expressions in a programming language: :func:`written`, or another one.

    Attributes
    ----------
    lines : list of Line or Loop
        In order; no line rests on a later one.
    results : dict
        Outputs, ``status`` and ``power_status`` to the text of their value.
    read : set of str
        The pass's inputs that are read outside of loops.
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
        self.lines: list[Any] = []
        self.read: set[str] = set()
        self._names: dict[str, str] = {}
        self._varying: set[str] = set()
        self._truths: set[str] = set()
        self._of_rounds: dict[str, str] = {}
        body, after = lowered(which.model, which.variant, which.length), finishing()
        wanted = {"status", *which.outputs}
        wanted |= {"power_status"} if wanted & {*POWERED} else set()
        last = after.needed(wanted & after.results.keys())
        read = {name for assignment in last for name in names_in(assignment.expression)}
        own = ((wanted - after.results.keys()) | read) & body.results.keys()
        steps: Sequence[Assignment | Rounds] = body.needed(own)
        sequences = {i.symbol for i in get_model(which.model).inputs if i.sequence}
        if sequences and which.sequences().keys() <= inputs.keys():
            numbers = {name: parts_of(name, which.length) for name in sequences}
            parts = {
                p: (name, at) for name in sorted(numbers) for at, p in enumerate(numbers[name])
            }
            steps = rolled(body.needed(own), {body.results[name] for name in own}, parts)
        self._write(body, steps, "v_")
        self.results = {name: self._names[body.results[name]] for name in own}
        self._names = dict(self.results)
        self._write(after, last, "f_")
        for name in wanted & after.results.keys():
            self.results[name] = self._names[after.results[name]]

    def _write(self, program: Program, steps: Sequence[Assignment | Rounds], prefix: str) -> None:
        """Append the lines of some of a program's assignments, each after those that it needs."""
        for name, value in program.constants.items():
            self._names[name] = f"({self._written(ast.Constant(value), {})})"
        for step in steps:
            if isinstance(step, Rounds):
                self._loop(step, prefix)
            else:
                self._assign(step, prefix)

    def _assign(self, assignment: Assignment, prefix: str) -> None:
        for name in names_in(assignment.expression):
            self._read(name, prefix)
        self._add(assignment.name, prefix, assignment.expression)

    def _add(self, name: str, prefix: str, expression: ast.expr) -> None:
        text = self._written(expression, self._names)
        if isinstance(expression, (ast.Name, ast.Constant)):
            self._names[name] = text
        else:
            varies = any(self._names.get(n) in self._varying for n in names_in(expression))
            line = Line(f"{prefix}{name}", text, varies, is_truth=self._is_truth(expression))
            self._line(name, line)

    def _is_truth(self, node: ast.expr) -> bool:
        match node:
            case ast.Compare() | ast.BoolOp() | ast.UnaryOp(op=ast.Not()):
                return True
            case ast.IfExp(body=body):
                return self._is_truth(body)
            case ast.Name(id=name):
                return self._names.get(name) in self._truths
        return isinstance(node, ast.Constant) and isinstance(node.value, bool)

    def _line(self, name: str, line: Line) -> None:
        self._names[name] = line.name
        self.lines.append(line)
        if line.varies:
            self._varying.add(line.name)
        if line.is_truth:
            self._truths.add(line.name)

    def _read(self, name: str, prefix: str) -> None:
        """Read an input, or the product of an input and its factor, unless it has a value."""
        if name in self._names:
            return
        source = self._of_rounds.get(name, name)
        if source in self._inputs:
            self.read.add(source)
            text, varies = self._inputs[source]
            if varies:
                self._line(name, Line(f"{prefix}{name}", text, True, is_read=True))
            else:
                self._names[name] = text
        else:
            base, factor = nominal(name), self._factors[name]
            self._read(base, prefix)
            self._read(factor, prefix)
            self._add(name, prefix, ast.BinOp(ast.Name(base), ast.Mult(), ast.Name(factor)))

    # ------------------------------------------------------------------------ loops

    def _loop(self, rounds: Rounds, prefix: str) -> None:
        """Append the loop of rounds that are alike."""
        own = {a.name for a in rounds.body}
        for assignment in rounds.body:  # what is no number of a sequence is read before the loop
            for name in names_in(assignment.expression):
                if name not in rounds.parts and name not in own:
                    self._read(name, prefix)
        for part in rounds.parts:
            for factor in {self._factors[part]} - {""}:
                self._read(factor, prefix)
        starts = {new: self._names[old] for old, new in rounds.carried.items()}
        varying = {new for new, text in starts.items() if text in self._varying}
        while True:
            loop, found = self._rounds(rounds, prefix, starts, varying)
            if found == varying:
                break
            varying = found
        self.lines.append(loop)
        for name, new in rounds.last.items():
            self._names[name] = f"c_{new}"

    def _rounds(
        self, rounds: Rounds, prefix: str, starts: Mapping[str, str], varying: Collection[str]
    ) -> tuple[Loop, set[str]]:
        """Return the loop if some of what is carried varies, and what of it then does."""
        around = self.lines, self.read, self._names
        numbers = {name for part in rounds.parts for name in (part, nominal(part))}
        self.lines, self.read = [], set()
        self._names = {name: text for name, text in self._names.items() if name not in numbers}
        carried = {new: f"c_{new}" for new in [*starts, *rounds.last.values()]}
        self._varying -= {*carried.values()}
        self._varying |= {carried[new] for new in varying}
        self._names |= {old: carried[new] for old, new in rounds.carried.items()}
        self._truths |= {carried[new] for new, text in starts.items() if text in self._truths}
        self._of_rounds = {name: name.removesuffix(f"_{rounds.first}") for name in sorted(numbers)}
        for assignment in rounds.body:
            self._assign(assignment, prefix)
        after = {new: self._names[new] for new in carried}
        found = {new for new, text in after.items() if text in self._varying} | {*varying}
        kept = tuple(
            Carried(c, starts.get(new, "0.0"), after[new], new in found, after[new] in self._truths)
            for new, c in carried.items()
        )
        loop = Loop(rounds.first, rounds.count, kept, tuple(self.lines), tuple(sorted(self.read)))
        self._truths |= {c.name for c in kept if c.is_truth}
        self.lines, self.read, self._names = around
        self._of_rounds = {}
        return loop, found
