"""A model's program evaluated for one configuration, step by step, as on paper.

The program that the passes are compiled from (:mod:`sweep.compiler.lowering`) is evaluated here in
NumPy's float64 scalars: the same operations in the same order give the same numbers, and no
equation is written a second time. Every equation, condition and intermediate becomes a
:class:`Step` with its formula in symbols and in numbers. The side of a conditional that is not
chosen is not evaluated; all sides of ``and`` and ``or`` are, because a reader wants to see them.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sweep.compiler.program import Assignment, Program
from sweep.explanation.formulas import Comparison, Operand, combined, constant, named, units_text
from sweep.models.base import Symbol

__all__ = ["Decision", "Step", "Trace", "trace"]

Value = float | tuple[float, ...]


@dataclass
class Step:
    """One value and how it is computed.

    Attributes
    ----------
    symbol : Symbol
        How it is printed, its unit, its meaning.
    operand : Operand
        The value with its formula, in symbols and with numbers inserted.
    kind : str
        ``"equation"``, ``"condition"`` (its value is a truth value), ``"intermediate"``,
        ``"choice"`` (one of several values, by a condition) or ``"code"`` (of a regime or status).
    comparisons : tuple of Comparison
        What was compared, with both sides.
    comment : str
        The comment beside the line in the source: mostly the erratum that it applies.
    number : str
        The equation's number; ``""`` for what only joins equations.
    name : str
        The variable of the body that took the value, ``""`` inside an expression.
    used : bool
        Whether the results depend on it.
    """

    symbol: Symbol
    operand: Operand
    kind: str
    comparisons: tuple[Comparison, ...]
    comment: str
    number: str = ""
    name: str = ""
    used: bool = False

    @property
    def value(self) -> Any:
        """The result: a number or a truth value."""
        return self.operand.value


@dataclass(frozen=True)
class Decision:
    """A condition that chose between two values: what it was, and whether it held."""

    condition: str
    holds: bool
    comparisons: tuple[Comparison, ...]
    number: str = ""


@dataclass
class _Evaluation:
    """The evaluation of one assignment: its step, what it read, what was decided in it."""

    step: Step | None = None
    reads: list[str] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    origin: str = ""  # the assignment whose value a variable took over

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """What the decisions compared."""
        return tuple(made for decision in self.decisions for made in decision.comparisons)


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
            name = self._evaluations[name].origin
        return tuple(found)


def trace(
    program: Program,
    inputs: Mapping[str, tuple[Symbol, Value]],
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
    """The state of one evaluation.

    ``operands`` has every value by its name in the program, ``variables`` the latest value of each
    variable in the body's text, and ``assigned`` the name of that value.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, tuple[Symbol, Value]],
        symbols: Mapping[str, Symbol],
        returns: Mapping[str, Symbol],
    ) -> None:
        self.program, self.symbols, self.returns = program, symbols, returns
        self.assignments = {made.name: made for made in program.assignments}
        self.operands = {name: constant(value, name) for name, value in program.constants.items()}
        self.variables: dict[str, Operand] = {}
        for name, (symbol, value) in inputs.items():
            if isinstance(value, tuple):
                self.variables[name] = replace(constant(0.0, symbol.symbol), symbol=symbol)
                for i, part in enumerate(value):
                    own = symbol._replace(symbol=f"{symbol.symbol}[{i}]")
                    self.operands[f"{name}_{i}"] = named(own, np.float64(part))
            else:
                operand = replace(named(symbol, np.float64(value)), variable=name)
                self.operands[name] = self.variables[name] = operand
        self.returned = {
            self.assignments[at].variable: returns[name]
            for name, at in program.results.items()
            if name in returns and self.assignments[at].kind != "result"
        }
        self.steps: list[Step] = []
        self.evaluations: dict[str, _Evaluation] = {}
        self.assigned: dict[str, str] = {}

    def run(self) -> None:
        """Evaluate what the body's text assigns, and mark what the results depend on."""
        for made in self.program.assignments:
            if made.kind in ("variable", "choice", "result") and all(
                bool(self._read(name).value) == holds for name, holds in made.when
            ):
                self._assign(made)
        pending, seen = list(self.program.results.values()), set()
        while pending:
            name = pending.pop()
            if name in self.evaluations and name not in seen:
                seen.add(name)
                evaluation = self.evaluations[name]
                pending += evaluation.reads
                if evaluation.step is not None:
                    evaluation.step.used = True

    def _assign(self, made: Assignment) -> None:
        """Evaluate one assignment of the body's text, or one of its results."""
        here = self.evaluations[made.name] = _Evaluation()
        operand = self._evaluate(made.expression, here)
        if made.kind == "result":
            self.operands[made.name] = operand
            if made.variable in self.returns:
                self._record(made, here, self.returns[made.variable], operand, "intermediate", ())
            return
        if made.kind == "choice":  # of the values after the two branches of an `if`
            assert isinstance(made.expression, ast.IfExp)
            side = made.expression.body if here.decisions[0].holds else made.expression.orelse
            here.origin = side.id if isinstance(side, ast.Name) else ""
        else:
            here.origin = self.assigned.get(operand.variable, "")
            operand = self._named(made, here, operand)
        operand = replace(operand, variable=made.variable)
        self.operands[made.name] = self.variables[made.variable] = operand
        self.assigned[made.variable] = made.name

    def _named(self, made: Assignment, here: _Evaluation, operand: Operand) -> Operand:
        """Record what an assignment adds, and return the operand under its new name."""
        name, symbol = made.variable, operand.symbol
        if symbol is None:
            return self._intermediate(made, here, operand)
        if not operand.variable:
            step = next((s for s in reversed(self.steps) if s.operand.value is operand.value
                         and s.number == operand.number), None)  # fmt: skip
            if step is not None:  # the equation that gave the value
                own = self.symbols.get(name, symbol)
                if own is not symbol:
                    operand = named(own, operand.value, number=operand.number)
                operand = self._unambiguous(name, operand)
                step.name, step.symbol = name, operand.symbol or own
        elif (here.decisions or made.is_decided) and operand.variable != name:
            suffix = f" ({operand.number})" if operand.number else ""
            text = operand.text.removesuffix(suffix) + suffix
            own = self.symbols.get(name) or self.symbols.get(name.lower()) or symbol
            chosen = replace(operand, formula=ast.Name(text))
            self._record(made, here, own, chosen, "choice", here.comparisons)
            if own is not symbol:
                chosen = replace(named(own, operand.value), variable=operand.variable)
                return self._unambiguous(name, chosen)
        return operand

    def _intermediate(self, made: Assignment, here: _Evaluation, operand: Operand) -> Operand:
        """Record a value that no equation gives, and return it under its name."""
        name = made.variable
        symbol = self._symbol(name)
        if not symbol.units and not operand.is_truth:
            symbol = symbol._replace(units=units_text(operand.units))
        result = self._unambiguous(name, named(symbol, operand.value))
        kind = "condition" if operand.is_truth else "intermediate"
        if operand.text.isidentifier() and operand.text.isupper():
            kind = "code"
        is_constant = operand.text == operand.with_numbers and operand.text[:1].isdigit()
        if not is_constant or here.decisions or kind == "code":  # and not `total = 0.0`
            compared = (*operand.comparisons, *here.comparisons)
            self._record(made, here, result.symbol or symbol, operand, kind, compared)
        return replace(result, comparisons=operand.comparisons)

    def _symbol(self, name: str) -> Symbol:
        """Return the symbol of a variable: as before, of the model, of the result, its name."""
        before = self.variables.get(name)
        if before is not None and before.symbol is not None:
            return before.symbol
        found = self.symbols.get(name) or self.symbols.get(name.lower()) or self.returned.get(name)
        return found or Symbol(name, "", "")

    def _unambiguous(self, name: str, operand: Operand) -> Operand:
        """Return an operand with primes after its symbol until no other variable has the same."""
        symbol = operand.symbol
        taken = {other.text for key, other in self.variables.items() if key != name}
        while symbol is not None and operand.text in taken:
            symbol = symbol._replace(symbol=f"{symbol.symbol}'")
            operand = replace(operand, symbol=symbol, formula=ast.Name(f"{operand.text}'"))
        return operand

    def _record(
        self,
        made: Assignment,
        here: _Evaluation,
        symbol: Symbol,
        operand: Operand,
        kind: str,
        comparisons: tuple[Comparison, ...],
    ) -> None:
        name = made.variable if made.kind == "variable" else ""
        number = made.equation.number if made.equation is not None else operand.number
        here.step = Step(symbol, operand, kind, comparisons, made.comment, number, name)
        self.steps.append(here.step)

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
        comparisons = (*here.comparisons, *result.comparisons)
        self._record(made, here, info.result, result, info.kind, comparisons)
        operand = named(info.result, result.value, number=info.number)
        if info.kind == "condition":
            return replace(operand, comparisons=comparisons)
        if made.is_ambiguous:
            return replace(operand, formula=ast.Name(f"{operand.text} ({info.number})"))
        return operand

    def _evaluate(self, node: ast.expr, here: _Evaluation) -> Operand:
        match node:
            case ast.Constant(value=value):
                return constant(np.float64(value) if isinstance(value, float) else value)
            case ast.Name(id=name):
                return self._read(name, here)
            case ast.Attribute(attr=name):
                return constant(getattr(np, name), name)
            case ast.IfExp(test=condition):
                test = self._evaluate(condition, here)
                holds = bool(test.value)
                here.decisions.append(Decision(test.text, holds, test.comparisons, test.number))
                return self._evaluate(node.body if holds else node.orelse, here)
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        if isinstance(node, ast.Call):
            del parts[0]  # the function's name
        return combined(node, [self._evaluate(part, here) for part in parts])
