"""A model's program evaluated for one configuration, step by step, as on paper.

The program that the passes are compiled from (:mod:`sweep.compiler.lowering`) is evaluated here in
NumPy's float64 scalars: the same operations in the same order give the same numbers, and no
equation is written a second time. Every equation, condition and intermediate becomes a
:class:`Step` with its formula in symbols and in numbers. The side of a conditional that is not
chosen is not evaluated; all sides of ``and`` and ``or`` are, because a reader wants to see them.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sweep.compiler.program import Assignment, Program
from sweep.explanation import operands as formula
from sweep.explanation.operands import Comparison, Operand
from sweep.models.base import Symbol

__all__ = ["Decision", "Step", "Trace", "trace"]

BINARY: dict[type, tuple[Callable[[Any, Any], Any], str]] = {
    ast.Add: (operator.add, "+"),
    ast.Sub: (operator.sub, "-"),
    ast.Mult: (operator.mul, "*"),
    ast.Div: (operator.truediv, "/"),
    ast.FloorDiv: (operator.floordiv, "//"),
    ast.Mod: (operator.mod, "%"),
    ast.Pow: (operator.pow, "**"),
}
COMPARE: dict[type, tuple[Callable[[Any, Any], Any], str]] = {
    ast.Lt: (operator.lt, "<"),
    ast.LtE: (operator.le, "<="),
    ast.Gt: (operator.gt, ">"),
    ast.GtE: (operator.ge, ">="),
    ast.Eq: (operator.eq, "=="),
    ast.NotEq: (operator.ne, "!="),
}
UNARY: dict[type, tuple[Callable[[Any], Any], str]] = {
    ast.USub: (operator.neg, "-"),
    ast.UAdd: (operator.pos, "+"),
    ast.Not: (operator.not_, "not "),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "max": max, "min": min, "ceil": np.ceil, "floor": np.floor, "sqrt": np.sqrt,
}  # fmt: skip


@dataclass
class Step:
    """One value and how it comes about.

    Attributes
    ----------
    name : str
        Variable of the body that took the value, ``""`` inside an expression.
    symbol : Symbol
        How it is printed, its unit, its meaning.
    value : float or bool
        The result.
    number : str
        The equation's number; ``""`` for what only joins equations.
    kind : str
        ``"equation"``, ``"condition"`` (its value is a truth value), ``"intermediate"``,
        ``"choice"`` (one of several values, by a condition) or ``"code"`` (of a regime or status).
    formula, worked : str
        The right-hand side in symbols and in numbers.
    comparisons : tuple of Comparison
        What was compared, with both sides.
    comment : str
        The words beside the line in the source: mostly the erratum that it applies.
    used : bool
        Whether the results rest on it.
    """

    name: str
    symbol: Symbol
    value: Any
    number: str
    kind: str
    formula: str
    worked: str
    comparisons: tuple[Comparison, ...] = ()
    comment: str = ""
    used: bool = False


@dataclass(frozen=True)
class Decision:
    """A condition that chose between two values: what it was, and whether it held."""

    condition: str
    holds: bool
    comparisons: tuple[Comparison, ...]
    number: str = ""


@dataclass
class _Evaluation:
    """What the evaluation of one assignment did and read."""

    steps: list[Step] = field(default_factory=list)
    reads: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    source: str = ""  # the assignment whose value a variable took over


@dataclass(frozen=True)
class Trace:
    """A program evaluated to its results.

    Attributes
    ----------
    results : mapping of str to float
        What the function returned.
    steps : tuple of Step
        In the order of evaluation.
    """

    results: Mapping[str, float]
    steps: tuple[Step, ...]
    _program: Program = field(repr=False)
    _evaluations: Mapping[str, _Evaluation] = field(repr=False)

    def decisions(self, result: str) -> tuple[Decision, ...]:
        """Return the conditions that chose the value of a result, in order."""
        found: list[Decision] = []
        name = self._program.results[result]
        while name in self._evaluations:
            found[:0] = self._evaluations[name].decisions
            name = self._evaluations[name].source
        return tuple(found)


def trace(
    program: Program,
    inputs: Mapping[str, tuple[Symbol, float | tuple[float, ...]]],
    *,
    symbols: Mapping[str, Symbol] | None = None,
    returns: Mapping[str, Symbol] | None = None,
) -> Trace:
    """Evaluate a program with every intermediate.

    Parameters
    ----------
    program : Program
        A model's body, or another function, lowered.
    inputs : mapping of str to (Symbol, float or tuple of float)
        The function's inputs; a tuple for a sequence.
    symbols : mapping, optional
        Symbols of variables that are not results of equations, by the variable's name.
    returns : mapping, optional
        Symbols of the results, for those that nothing else names.

    Returns
    -------
    Trace
        Results and steps.
    """
    tracer = _Tracer(program, inputs, symbols or {}, returns or {})
    with np.errstate(all="ignore"):
        tracer.run()
    results = {name: float(tracer.operands[at].value) for name, at in program.results.items()}
    return Trace(results, tuple(tracer.steps), program, tracer.evaluations)


class _Tracer:
    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, tuple[Symbol, float | tuple[float, ...]]],
        symbols: Mapping[str, Symbol],
        returns: Mapping[str, Symbol],
    ) -> None:
        self.program, self.symbols, self.returns = program, symbols, returns
        self.assignments = {made.name: made for made in program.assignments}
        self.operands = {
            name: formula.constant(value, name) for name, value in program.constants.items()
        }
        self.variables: dict[str, Operand] = {}
        for name, (symbol, value) in inputs.items():
            operand = self.variables[name] = replace(formula.given(symbol, value), variable=name)
            self.operands[name] = operand
            self.operands.update((f"{name}_{i}", part) for i, part in enumerate(operand.parts))
        self.returned = {
            self.assignments[at].variable: returns[name]
            for name, at in program.results.items()
            if name in returns and self.assignments[at].kind != "result"
        }
        self.steps: list[Step] = []
        self.evaluations: dict[str, _Evaluation] = {}
        self.set_by: dict[str, str] = {}

    def run(self) -> None:
        """Evaluate what the body's text assigns, and mark what the results rest on."""
        for made in self.program.assignments:
            if all(bool(self._read(name).value) == holds for name, holds in made.when):
                if made.kind == "choice":
                    self._choose(made)
                elif made.kind in ("variable", "result"):
                    self._assign(made)
        pending, seen = list(self.program.results.values()), set()
        while pending:
            name = pending.pop()
            if name in self.evaluations and name not in seen:
                seen.add(name)
                pending += self.evaluations[name].reads
                for step in self.evaluations[name].steps:
                    step.used = True

    def _choose(self, made: Assignment) -> None:
        """Take over a variable's value from the branch that was taken."""
        node = made.expression
        assert isinstance(node, ast.IfExp)
        here = self.evaluations[made.name] = _Evaluation()
        operand = self._evaluate(node, here)
        side = node.body if here.decisions[0].holds else node.orelse
        here.source = side.id if isinstance(side, ast.Name) else ""
        self._bind(made, operand)

    def _bind(self, made: Assignment, operand: Operand) -> None:
        operand = replace(operand, variable=made.variable)
        self.operands[made.name] = self.variables[made.variable] = operand
        self.set_by[made.variable] = made.name

    def _assign(self, made: Assignment) -> None:
        here = self.evaluations[made.name] = _Evaluation()
        operand = self._evaluate(made.expression, here)
        if made.kind == "variable":
            here.source = self.set_by.get(operand.variable, "")
            self._bind(made, self._named(made, here, operand))
            return
        self.operands[made.name] = operand
        if made.variable in self.returns:
            symbol = self.returns[made.variable]
            self._record(made, here, Step("", symbol, operand.value, "", "intermediate",
                                          operand.text, operand.worked))  # fmt: skip

    def _named(self, made: Assignment, here: _Evaluation, operand: Operand) -> Operand:
        """Record what an assignment adds, and return the operand under its new name."""
        name, its = made.variable, operand.symbol
        compared = tuple(c for decision in here.decisions for c in decision.comparisons)
        if its is None:
            return self._intermediate(made, here, operand, compared)
        if not operand.variable:
            for step in reversed(self.steps):
                if step.value is operand.value and step.number == operand.number:
                    step.name = name
                    symbol = self.symbols.get(name, its)
                    if symbol is not its:
                        operand = replace(operand, text=formula.write(symbol.symbol))
                    operand = self._told_apart(name, replace(operand, symbol=symbol))
                    step.symbol = operand.symbol or symbol
                    break
        elif (here.decisions or made.is_decided) and operand.variable != name:
            of = f" ({operand.number})" if operand.number else ""
            text = operand.text.removesuffix(of) + of
            own = self.symbols.get(name) or self.symbols.get(name.lower()) or its
            self._record(made, here, Step(name, own, operand.value, operand.number, "choice", text,
                                          operand.worked, compared))  # fmt: skip
            if own is not its:
                chosen = formula.named(own, operand.value)
                return self._told_apart(name, replace(chosen, variable=operand.variable))
        return operand

    def _intermediate(
        self,
        made: Assignment,
        here: _Evaluation,
        operand: Operand,
        compared: tuple[Comparison, ...],
    ) -> Operand:
        """Record what no equation gives, and return it under its name."""
        name = made.variable
        symbol = self._symbol(name)
        if not symbol.units and not operand.is_truth:
            symbol = symbol._replace(units=formula.units_text(operand.units))
        kind = "condition" if operand.is_truth else "intermediate"
        if operand.text.isidentifier() and operand.text.isupper():
            kind = "code"
        result = self._told_apart(name, formula.named(symbol, operand.value))
        symbol = result.symbol or symbol
        if operand.is_computed or compared or kind == "code":  # and not `total = 0.0`
            compared = (*operand.comparisons, *compared)
            self._record(made, here, Step(name, symbol, operand.value, "", kind, operand.text,
                                          operand.worked, compared))  # fmt: skip
        return replace(result, comparisons=operand.comparisons)

    def _symbol(self, name: str) -> Symbol:
        """Return the symbol of a variable: as before, of the model, of the result, its name."""
        before = self.variables.get(name)
        if before is not None and before.symbol is not None:
            return before.symbol
        found = self.symbols.get(name) or self.symbols.get(name.lower()) or self.returned.get(name)
        return found or Symbol(name, "", "")

    def _told_apart(self, name: str, operand: Operand) -> Operand:
        """Return an operand with primes after its symbol until no other variable has the same."""
        symbol = operand.symbol
        taken = {other.text for key, other in self.variables.items() if key != name}
        while symbol is not None and operand.text in taken:
            symbol = symbol._replace(symbol=f"{symbol.symbol}'")
            operand = replace(operand, symbol=symbol, text=f"{operand.text}'")
        return operand

    def _record(self, made: Assignment, here: _Evaluation, step: Step) -> None:
        step.comment = made.comment
        here.steps.append(step)
        self.steps.append(step)

    # expressions

    def _read(self, name: str, reader: _Evaluation | None = None) -> Operand:
        """Return a value by name. Equations and their parts are evaluated when first read."""
        if reader is not None:
            reader.reads.append(name)
        if name not in self.operands:
            made, here = self.assignments[name], _Evaluation()
            self.evaluations[name] = here
            if made.equation is not None:
                self.operands[name] = self._equation(made, here)
            else:
                self.operands[name] = self._evaluate(made.expression, here)
                if reader is not None:
                    reader.decisions += here.decisions
        return self.operands[name]

    def _equation(self, made: Assignment, here: _Evaluation) -> Operand:
        """Evaluate one equation and record it as a step."""
        assert made.equation is not None
        info = made.equation
        for name in made.arguments:
            self._read(name, here)
        here.decisions.clear()  # those of the arguments belong to the statement
        result = self._evaluate(made.expression, here)
        comparisons = tuple(c for d in here.decisions for c in d.comparisons) + result.comparisons
        self._record(made, here, Step("", info.result, result.value, info.number, info.kind,
                                      result.text, result.worked, comparisons))  # fmt: skip
        text = formula.write(info.result.symbol)
        if info.kind != "condition" and made.is_ambiguous:
            text = f"{text} ({info.number})"
        operand = formula.named(info.result, result.value, text=text, number=info.number)
        return replace(operand, comparisons=comparisons if info.kind == "condition" else ())

    def _evaluate(self, node: ast.expr, here: _Evaluation) -> Operand:
        def evaluate(part: ast.expr) -> Operand:
            return self._evaluate(part, here)

        match node:
            case ast.Constant(value=value):
                return formula.constant(np.float64(value) if isinstance(value, float) else value)
            case ast.Name(id=name):
                return self._read(name, here)
            case ast.Attribute(attr=name):
                return formula.constant(getattr(np, name), name)
            case ast.BinOp(left=left, op=op, right=right):
                function, sign = BINARY[type(op)]
                a, b = evaluate(left), evaluate(right)
                return formula.arithmetic(function(a.value, b.value), sign, a, b)
            case ast.UnaryOp(op=op, operand=inner):
                negate, sign = UNARY[type(op)]
                a = evaluate(inner)
                return formula.negate(negate(a.value), sign, a)
            case ast.BoolOp(op=op, values=values):
                sides = [evaluate(value) for value in values]
                both = isinstance(op, ast.And)
                truth = (all if both else any)(side.value for side in sides)
                return formula.connect(truth, "and" if both else "or", sides)
            case ast.Compare():
                return self._compare(node, here)
            case ast.IfExp():
                test = evaluate(node.test)
                here.decisions.append(
                    Decision(test.text, bool(test.value), test.comparisons, test.number)
                )
                return evaluate(node.body if test.value else node.orelse)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args):
                operands = [evaluate(argument) for argument in args]
                value = FUNCTIONS[name](*(operand.value for operand in operands))
                return formula.call(value, name, operands)
        raise AssertionError(ast.dump(node))

    def _compare(self, node: ast.Compare, here: _Evaluation) -> Operand:
        sides = [self._evaluate(side, here) for side in (node.left, *node.comparators)]
        made = []
        for left, op, right in zip(sides[:-1], node.ops, sides[1:], strict=True):
            function, sign = COMPARE[type(op)]
            made.append(formula.compare(sign, left, right, function(left.value, right.value)))
        if len(made) == 1:
            return made[0]
        return formula.connect(all(part.value for part in made), "and", made)
