"""The lines that work out one point of a grid, written from a model's program.

The same lines are the inner loop of a compiled pass, in Python, and that of the benchmarks' C++.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from sweep.compiler.lowering import lower, lowered
from sweep.compiler.program import OPERATORS, Assignment, Program, names_in, parts_of
from sweep.hardware.clocks import finish
from sweep.models.base import Model

LAUNCH_INPUTS = ("launch_status", "static_power")
"""What every pass reads besides the model's own inputs, constant along the clocks."""

CLOCK_INPUTS = ("clock_status", "power_input_status", "core_hz", "core_watts", "memory_watts")
"""What every pass reads besides the model's own inputs, depending on the clocks."""

POWERED = ("power", "energy")


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


# ---------------------------------------------------------------------------- expressions as text


@dataclass(frozen=True)
class Language:
    """How a programming language writes expressions.

    Attributes
    ----------
    signs : mapping
        Operators.
    choice, power, square : str
        Templates of a conditional expression and of powers.
    words : mapping
        Names of functions and special numbers.
    """

    signs: Mapping[type, str]
    choice: str
    power: str
    square: str
    words: Mapping[str, str]


PYTHON = Language(
    {op: sign for op, (_, sign) in OPERATORS.items()},
    "({body} if {test} else {orelse})",
    "({base} ** {exponent})",
    "({base} ** 2)",
    {name: f"np.{name}" for name in ("ceil", "floor", "sqrt", "nan", "inf")}
    | {name: name for name in ("min", "max", "abs", "True", "False")},
)


def written(expression: ast.expr, names: Mapping[str, str], language: Language = PYTHON) -> str:
    """Return the text of an expression of a program.

    Parameters
    ----------
    expression : ast.expr
        An assignment's expression.
    names : mapping
        What is written for each name.
    language : Language
        ``PYTHON``, or another one.
    """

    def text(part: ast.expr) -> str:
        return written(part, names, language)

    signs = language.signs
    match expression:
        case ast.Constant(value=bool() as value):
            return language.words[str(value)]
        case ast.Constant(value=int() | float() as value):
            return repr(value if language is PYTHON else float(value))
        case ast.Name(id=name):
            return names[name]
        case ast.Attribute(attr=name):
            return language.words[name]
        case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
            is_square = isinstance(exponent, ast.Constant) and exponent.value == 2
            template = language.square if is_square else language.power
            return template.format(base=text(base), exponent=text(exponent))
        case ast.BinOp(left=left, op=op, right=right):
            return f"({text(left)} {signs[type(op)]} {text(right)})"
        case ast.UnaryOp(op=op, operand=operand):
            return f"({signs[type(op)]}{text(operand)})"
        case ast.BoolOp(op=op, values=values):
            return f"({f' {signs[type(op)]} '.join(map(text, values))})"
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = zip([left, *others], ops, others, strict=False)
            found = [f"({text(a)} {signs[type(op)]} {text(b)})" for a, op, b in sides]
            return found[0] if len(found) == 1 else f"({f' {signs[ast.And]} '.join(found)})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return language.choice.format(test=text(test), body=text(body), orelse=text(orelse))
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *others]):
            result = text(first)
            for other in others:
                result = f"{language.words[name]}({result}, {text(other)})"
            return result if others else f"{language.words[name]}({result})"
    raise AssertionError(ast.dump(expression))


# ---------------------------------------------------------------------------- one point


class Line(NamedTuple):
    """One value of a point: its name, its text, and whether it differs along the inner loop."""

    name: str
    text: str
    varies: bool


@dataclass(frozen=True)
class Point:
    """What works out one point.

    Attributes
    ----------
    lines : list of Line
        In order; no line rests on a later one.
    results : mapping
        Outputs, ``status`` and ``power_status`` to the text of their value.
    inputs : set of str
        The pass's inputs that are read.
    """

    lines: list[Line]
    results: Mapping[str, str]
    inputs: Set[str]


@cache
def finishing() -> Program:
    """Return what follows every model, from cycles to energy, as a program."""
    names = (*LAUNCH_INPUTS, *CLOCK_INPUTS, "execution_cycles", "core_activity", "memory_activity")
    return lower(finish, dict.fromkeys(names))


def point(
    model: Model,
    variant: str,
    inputs: Mapping[str, tuple[str, bool]],
    outputs: Sequence[str],
    length: int,
    language: Language = PYTHON,
) -> Point:
    """Return what works out some results at one point, each value once.

    Parameters
    ----------
    model : Model
        The model to evaluate.
    variant : str
        ``"corrected"`` or ``"printed"``.
    inputs : mapping
        The pass's inputs: the text of each at the point, and whether it differs along the inner
        loop.
    outputs : sequence of str
        Results.
    length : int
        Numbers in each sequence input.
    language : Language
        ``PYTHON``, or another one.
    """
    body, after = lowered(model.name, variant, length), finishing()
    wanted = {"status", *outputs} | ({"power_status"} if {*outputs} & {*POWERED} else set())
    last = after.needed(wanted & after.results.keys())
    read = {name for assignment in last for name in names_in(assignment.expression)}
    own = ((wanted - after.results.keys()) | read) & body.results.keys()
    writer = _Writer(model, inputs, length, language)
    writer.write(body, body.needed(own), "v_")
    results = {name: writer.names[body.results[name]] for name in own}
    writer.names = dict(results)
    writer.write(after, last, "f_")
    results |= {name: writer.names[after.results[name]] for name in wanted & after.results.keys()}
    return Point(writer.lines, results, writer.read)


class _Writer:
    """Writes assignments of programs as lines, each after what it rests on."""

    def __init__(
        self,
        model: Model,
        inputs: Mapping[str, tuple[str, bool]],
        length: int,
        language: Language,
    ) -> None:
        self.inputs, self.language = inputs, language
        self.read: set[str] = set()
        self.factors: dict[str, str] = {}
        for i in model.inputs:
            for part in parts_of(i.symbol, length if i.sequence else None):
                self.factors[part] = i.factor
        self.lines: list[Line] = []
        self.names: dict[str, str] = {}
        self.varying: set[str] = set()

    def write(self, program: Program, assignments: Sequence[Assignment], prefix: str) -> None:
        """Append the lines of some of a program's assignments."""
        for name, value in program.constants.items():
            self.names[name] = written(ast.Constant(value), {}, self.language)
        for assignment in assignments:
            for name in names_in(assignment.expression):
                if name not in self.names:
                    self._read(name, prefix)
            self._add(assignment.name, prefix, assignment.expression)

    def _add(self, name: str, prefix: str, expression: ast.expr) -> None:
        text = written(expression, self.names, self.language)
        if isinstance(expression, (ast.Name, ast.Constant)):
            self.names[name] = text
            return
        varies = any(self.names.get(read) in self.varying for read in names_in(expression))
        self._line(name, f"{prefix}{name}", text, varies)

    def _line(self, name: str, variable: str, text: str, varies: bool) -> None:
        self.names[name] = variable
        self.lines.append(Line(variable, text, varies))
        if varies:
            self.varying.add(variable)

    def _read(self, name: str, prefix: str) -> None:
        """Read an input, or the product of an input and its factor."""
        if name in self.inputs:
            self.read.add(name)
            text, varies = self.inputs[name]
            if varies:
                self._line(name, f"{prefix}{name}", text, True)
            else:
                self.names[name] = text
        elif factor := self.factors.get(name):
            parts = (nominal(name), factor)
            for part in parts:
                if part not in self.names:
                    self._read(part, prefix)
            self._add(name, prefix, ast.BinOp(ast.Name(parts[0]), ast.Mult(), ast.Name(parts[1])))
