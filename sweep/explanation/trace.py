"""A model's program evaluated for one configuration, step by step, as on paper.

The program that the passes are compiled from (:mod:`sweep.compiler.lowering`) is evaluated here in
NumPy's float64 scalars: the same operations in the same order give the same numbers, and no
equation is written a second time. Every equation, condition and intermediate becomes a
:class:`Step` with its formula in symbols and in numbers. The side of a conditional that is not
chosen is not evaluated; all sides of ``and`` and ``or`` are, because a reader wants to see them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from sweep.compiler.program import Assignment, Program
from sweep.explanation.formulas import Operand, combined, constant, named, symbol_text, units_text
from sweep.explanation.sections import Comparison, Line
from sweep.models.base import EquationInfo, Symbol

Value = float | tuple[float, ...]


@dataclass
class Step(Line):
    """One value and how it is computed: a line of an explanation, and what the trace knows of it.

    Attributes
    ----------
    kind : str
        ``"equation"``, ``"condition"`` (its value is a truth value), ``"intermediate"``,
        ``"choice"`` (one of several values, by a condition) or ``"code"`` (of a regime or status).
    variable : str
        The variable of the body that took the value, ``""`` inside an expression.
    """

    used: bool = False
    kind: str = ""
    variable: str = ""


@dataclass
class _Evaluation:
    """The evaluation of one assignment: its step, what it read, what was decided in it."""

    made: Assignment
    step: Step | None = None
    reads: list[str] = field(default_factory=list)
    decisions: list[Operand] = field(default_factory=list)
    origin: str = ""  # the assignment whose value a variable took over

    def compared(self, operand: Operand) -> tuple[Comparison, ...]:
        """Return what the decisions compared, and then the value itself."""
        found = [*self.decisions, operand]
        return tuple(comparison for part in found for comparison in part.comparisons)


class Trace:
    """A program evaluated with every intermediate.

    Parameters
    ----------
    program : Program
        A model's body, or another function, lowered.
    inputs : mapping of str to (Symbol, float or tuple of float)
        The function's inputs; a tuple for a sequence.
    symbols : mapping, optional
        Symbols of variables that are not results of equations, by the variable's name.
    errata : iterable of str, optional
        The codes that comments beside lines may name; steps have only these as their comment.
    returns : mapping, optional
        Symbols of the results, for those that nothing else names.

    Attributes
    ----------
    results : mapping of str to float
        What the function returned.
    steps : list of Step
        In the order of evaluation.
    """

    def __init__(
        self,
        program: Program,
        inputs: Mapping[str, tuple[Symbol, Value]],
        *,
        symbols: Mapping[str, Symbol] | None = None,
        errata: Iterable[str] = (),
        returns: Mapping[str, Symbol] | None = None,
    ) -> None:
        self.steps: list[Step] = []
        self._program, self._symbols, self._returns = program, symbols or {}, returns or {}
        self._inputs = inputs
        self._errata = {
            code: re.compile(rf"(?<![\w-]){re.escape(code)}(?![\w-])") for code in errata
        }
        self._assignments = {made.name: made for made in program.assignments}
        self._evaluations: dict[str, _Evaluation] = {}
        # Every value by its name in the program; the latest value of each variable in the body's
        # text, and the name of that value.
        self._operands = {name: constant(value, name) for name, value in program.constants.items()}
        self._variables: dict[str, Operand] = {}
        self._assigned: dict[str, str] = {}
        for name, (symbol, value) in inputs.items():
            if isinstance(value, tuple):
                self._variables[name] = replace(constant(0.0, symbol.symbol), symbol=symbol)
                for i, part in enumerate(value):
                    own = symbol._replace(symbol=f"{symbol.symbol}[{i}]")
                    self._operands[f"{name}_{i}"] = named(own, np.float64(part))
            else:
                operand = replace(named(symbol, np.float64(value)), variable=name)
                self._operands[name] = self._variables[name] = operand
        self._returned = {
            self._assignments[at].variable: self._returns[name]
            for name, at in program.results.items()
            if name in self._returns and self._assignments[at].kind != "result"
        }
        with np.errstate(all="ignore"):
            self._run()
        self.results: Mapping[str, float] = {
            name: float(self._operands[at].value) for name, at in program.results.items()
        }

    def decisions(self, result: str) -> list[Operand]:
        """Return the conditions that chose the value of a result, in order."""
        found: list[Operand] = []
        name = self._program.results[result]
        while name in self._evaluations:
            found[:0] = self._evaluations[name].decisions
            name = self._evaluations[name].origin
        return found

    def _run(self) -> None:
        """Evaluate what the body's text assigns, and mark what the results depend on."""
        for made in self._program.assignments:
            if made.kind in ("variable", "choice", "result") and all(
                bool(self._read(name).value) == holds for name, holds in made.when
            ):
                self._assign(_Evaluation(made))
        pending, seen = list(self._program.results.values()), set()
        while pending:
            name = pending.pop()
            if name in self._evaluations and name not in seen:
                seen.add(name)
                evaluation = self._evaluations[name]
                pending += evaluation.reads
                if evaluation.step is not None:
                    evaluation.step.used = True

    def _assign(self, here: _Evaluation) -> None:
        """Evaluate one assignment of the body's text, or one of its results."""
        made, name = here.made, here.made.variable
        self._evaluations[made.name] = here
        operand = self._evaluate(made.expression, here)
        if made.kind == "result":
            self._operands[made.name] = operand
            if name in self._returns:
                self._record(here, self._returns[name], operand, "intermediate")
            return
        if made.kind == "choice":  # of the values after the two branches of an `if`
            assert isinstance(made.expression, ast.IfExp)
            side = made.expression.body if here.decisions[0].value else made.expression.orelse
            here.origin = side.id if isinstance(side, ast.Name) else ""
        else:
            here.origin = self._assigned.get(operand.variable, "")
            operand = self._named(here, operand)
        operand = replace(operand, variable=name)
        self._operands[made.name] = self._variables[name] = operand
        self._assigned[name] = made.name

    def _named(self, here: _Evaluation, operand: Operand) -> Operand:
        """Record what an assignment adds, and return the operand under its new name."""
        name, symbol, number = here.made.variable, operand.symbol, operand.number
        if symbol is None:
            return self._intermediate(here, operand)
        if not operand.variable:
            step = operand.step  # of the equation that gave the value
            if isinstance(step, Step):
                first = self._variables.get(step.variable)
                if first is not None and first.step is step:
                    return first  # a = b = equation(...): one value has one symbol
                own = self._symbols.get(name, symbol)
                if own is not symbol:
                    operand = replace(operand, symbol=own, formula=ast.Name(symbol_text(own)))
                operand = self._unambiguous(name, operand)
                step.variable = name
                if step.kind != "condition":
                    step.name, step.units, step.meaning = operand.symbol or own
        elif (here.decisions or here.made.is_decided) and operand.variable != name:
            suffix = f" ({number})" if number else ""
            chosen = replace(operand, formula=ast.Name(operand.text.removesuffix(suffix) + suffix))
            own = self._declared(name) or symbol
            self._record(here, own, chosen, "choice", number)
            if own is not symbol:
                renamed = replace(named(own, operand.value), variable=operand.variable)
                return self._unambiguous(name, renamed)
        return operand

    def _intermediate(self, here: _Evaluation, operand: Operand) -> Operand:
        """Record a value that no equation gives, and return it under its name."""
        name = here.made.variable
        before = self._variables.get(name)
        symbol = before.symbol if before is not None else None
        if any(key != name and given is symbol for key, (given, _) in self._inputs.items()):
            symbol = None  # a sum that begins with an input is not that input
        symbol = symbol or self._declared(name) or self._returned.get(name) or Symbol(name, "", "")
        if not symbol.units and not operand.is_truth:
            symbol = symbol._replace(units=units_text(operand.units))
        known = {} if symbol.units else {"units": operand.units}
        result = self._unambiguous(name, named(symbol, operand.value, **known))
        kind = "condition" if operand.is_truth else "intermediate"
        if operand.text.isidentifier() and operand.text.isupper():
            kind = "code"
        is_constant = operand.text == operand.with_numbers and operand.text[:1].isdigit()
        if not is_constant or here.decisions or kind == "code":  # and not `total = 0.0`
            self._record(here, result.symbol or symbol, operand, kind)
        return replace(result, comparisons=operand.comparisons, step=here.step)

    def _declared(self, name: str) -> Symbol | None:
        """Return the model's symbol for a variable."""
        return self._symbols.get(name) or self._symbols.get(name.lower())

    def _unambiguous(self, name: str, operand: Operand) -> Operand:
        """Return an operand with primes after its symbol until no other variable has the same."""
        symbol = operand.symbol
        taken = {other.text for key, other in self._variables.items() if key != name}
        while symbol is not None and operand.text in taken:
            symbol = symbol._replace(symbol=f"{symbol.symbol}'")
            operand = replace(operand, symbol=symbol, formula=ast.Name(f"{operand.text}'"))
        return operand

    def _record(
        self, here: _Evaluation, symbol: Symbol, operand: Operand, kind: str, number: str = ""
    ) -> None:
        made, value = here.made, operand.value
        variable = made.variable if made.kind == "variable" else ""
        name = symbol.symbol
        if kind == "condition":
            name = "condition" if number else variable.replace("_", " ")
        here.step = Step(
            name,
            value if isinstance(value, bool) else float(value),
            *symbol[1:],
            formula=operand.text,
            worked=operand.with_numbers,
            number=number,
            comment=", ".join(
                c for c, pattern in self._errata.items() if pattern.search(made.comment)
            ),
            comparisons=() if made.kind == "result" else here.compared(operand),
            kind=kind,
            variable=variable,
        )
        self.steps.append(here.step)

    # expressions

    def _read(self, name: str, reader: _Evaluation | None = None) -> Operand:
        """Return a value by name. Equations and their parts are evaluated when first read."""
        if reader is not None:
            reader.reads.append(name)
        if name not in self._operands:
            here = self._evaluations[name] = _Evaluation(self._assignments[name])
            if here.made.equation is not None:
                self._operands[name] = self._equation(here, here.made.equation)
            else:
                self._operands[name] = self._evaluate(here.made.expression, here)
                if reader is not None:
                    reader.decisions += here.decisions
        return self._operands[name]

    def _equation(self, here: _Evaluation, info: EquationInfo) -> Operand:
        """Evaluate one equation and record it as a step."""
        for name in here.made.arguments:
            self._read(name, here)
        here.decisions.clear()  # those of the arguments belong to the statement
        result = self._evaluate(here.made.expression, here)
        self._record(here, info.result, result, info.kind, info.number)
        operand = named(info.result, result.value, step=here.step)
        if info.kind == "condition":
            return replace(operand, comparisons=here.compared(result))
        if info.is_ambiguous:
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
                here.decisions.append(test)
                return self._evaluate(node.body if test.value else node.orelse, here)
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
        if isinstance(node, ast.Call):
            del parts[0]  # the function's name
        return combined(node, [self._evaluate(part, here) for part in parts])
