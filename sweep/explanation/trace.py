"""A model's equations worked out for one configuration, step by step, as on paper.

The functions that the passes compile are read here as text and followed statement by statement in
NumPy's float64 scalars: the same operations in the same order give the same numbers, and no
equation is written a second time. Every equation, condition and intermediate becomes a
:class:`Step` with its formula in symbols and in numbers. What a conditional does not choose is not
computed; of ``and`` and ``or`` all sides are, because a reader wants to see them.

Only what such functions are made of is understood: assignments, ``if``, ``for`` over the numbers of
a sequence input, ``return``, arithmetic, comparisons, conditionals and calls.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sweep._jit import EquationInfo, Symbol
from sweep.compiler.source import is_ambiguous, returned_by, source_of
from sweep.explanation import operands as formula
from sweep.explanation.operands import Comparison, Operand
from sweep.explanation.steps import Decision, Frame, Statement, Step, Trace

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


def trace(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Symbol, float | tuple[float, ...]]],
    *,
    symbols: Mapping[str, Symbol] | None = None,
    returns: Sequence[Symbol] = (),
) -> Trace:
    """Follow a function that joins equations.

    Parameters
    ----------
    function : callable
        A model's body, or another function marked by :func:`sweep._jit.joined`.
    arguments : sequence of (Symbol, float or tuple of float)
        Its arguments in order; a tuple for a sequence input.
    symbols : mapping, optional
        Symbols of variables that are not results of equations, by the variable's name.
    returns : sequence of Symbol, optional
        Symbols of the results, for those that nothing else names.

    Returns
    -------
    Trace
        Results and steps.

    Raises
    ------
    NotImplementedError
        The function has something that cannot be followed.
    """
    tracer = _Tracer(symbols or {})
    given = [formula.given(symbol, value) for symbol, value in arguments]
    with np.errstate(all="ignore"):
        frame, results = tracer.run(function, given, returns=returns)
    frame.use()
    return Trace(
        tuple(float(result.value) for result in results),
        tuple(result.variable for result in results),
        tuple(tracer.steps),
        frame,
    )


class _Tracer:
    def __init__(self, symbols: Mapping[str, Symbol]) -> None:
        self.symbols = symbols
        self.steps: list[Step] = []

    def run(
        self,
        function: Callable[..., Any],
        given: Sequence[Operand],
        *,
        inside: Statement | None = None,
        returns: Sequence[Symbol] = (),
    ) -> tuple[Frame, list[Operand]]:
        """Follow one call. ``inside`` is set for an equation, which is one step as a whole."""
        plain = getattr(function, "py_func", function)
        tree, comments = source_of(plain)
        names = [argument.arg for argument in tree.args.args]
        variables = {
            name: replace(operand, variable=name)
            for name, operand in zip(names, given, strict=True)
        }
        returned = returned_by(tree, returns)
        frame = Frame(plain, variables, comments, inside, returned)
        results = self._block(frame, tree.body, "")
        if results is None:
            raise NotImplementedError(f"{plain.__name__} returns nothing")
        return frame, results

    # statements

    def _block(self, frame: Frame, body: Sequence[ast.stmt], comment: str) -> list[Operand] | None:
        """Follow statements; return the results if one of them returns."""
        for node in body:
            beside = frame.comments.get(node.lineno) or frame.comments.get(node.end_lineno or 0)
            if isinstance(node, ast.If):
                beside = frame.comments.get(node.lineno)
            here = frame.inside or Statement(comment=beside or comment)
            frame.statements.append(here)
            if isinstance(node, ast.Return) and node.value is not None:
                return self._return(frame, here, node.value)
            if isinstance(node, ast.If):
                test = self._evaluate(frame, here, node.test)
                chosen = node.body if test.value else node.orelse
                results = self._block(frame, chosen, beside or comment)
                if results is not None:
                    return results
            elif isinstance(node, ast.For) and not node.orelse:
                for item in self._items(frame, here, node.iter):
                    self._bind(frame, node.target, item)
                    results = self._block(frame, node.body, beside or comment)
                    if results is not None:
                        return results
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                before = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
                total = ast.copy_location(ast.BinOp(before, node.op, node.value), node)
                self._assign(frame, here, node.target, self._evaluate(frame, here, total))
            elif isinstance(node, ast.Assign):
                operand = self._evaluate(frame, here, node.value)
                for target in node.targets:
                    self._assign(frame, here, target, operand)
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise _not_followed(frame, node)
        return None

    def _items(self, frame: Frame, here: Statement, node: ast.expr) -> list[Operand]:
        """Return what a loop runs over: a sequence, ``range``, ``enumerate`` or ``zip``."""
        operand = self._evaluate(frame, here, node)
        if operand.parts:
            return list(operand.parts)
        if isinstance(operand.value, range):
            return [formula.constant(i) for i in operand.value]
        raise _not_followed(frame, node)

    def _bind(self, frame: Frame, target: ast.expr, operand: Operand) -> None:
        """Give the variables of a loop their values."""
        if isinstance(target, ast.Tuple):
            for element, part in zip(target.elts, operand.parts, strict=True):
                self._bind(frame, element, part)
        elif isinstance(target, ast.Name):
            frame.variables[target.id] = replace(operand, variable=target.id)
            frame.set_by.pop(target.id, None)

    def _return(self, frame: Frame, here: Statement, node: ast.expr) -> list[Operand]:
        elements = node.elts if isinstance(node, ast.Tuple) else [node]
        results = [self._evaluate(frame, here, element) for element in elements]
        for i, (name, symbol) in enumerate(frame.returned):
            if not name and symbol is not None:
                self._record(here, Step("", symbol, results[i].value, "", "intermediate",
                                        results[i].text, results[i].worked))  # fmt: skip
        return results

    def _assign(self, frame: Frame, here: Statement, target: ast.expr, operand: Operand) -> None:
        if isinstance(target, ast.Tuple):
            for element, part in zip(target.elts, operand.parts, strict=True):
                self._assign(frame, here, element, part)
            return
        if not isinstance(target, ast.Name):
            raise _not_followed(frame, target)
        name = target.id
        if frame.inside is None:
            here.chosen = frame.set_by.get(operand.variable)
            operand = self._named(frame, here, name, operand)
            here.target = name
            frame.set_by[name] = here
        frame.variables[name] = replace(operand, variable=name)

    def _named(self, frame: Frame, here: Statement, name: str, operand: Operand) -> Operand:
        """Record what an assignment adds, and return the operand under its new name."""
        compared = tuple(c for decision in here.decisions for c in decision.comparisons)
        its = operand.symbol
        if its is None:
            return self._intermediate(frame, here, name, operand, compared)
        if not operand.variable:
            for step in reversed(here.steps):
                if step.value is operand.value and step.number == operand.number:
                    step.name = name
                    symbol = self.symbols.get(name, its)
                    if symbol is not its:
                        operand = replace(operand, text=formula.write(symbol.symbol))
                    operand = _told_apart(frame, name, replace(operand, symbol=symbol))
                    step.symbol = operand.symbol or symbol
                    break
        elif here.decisions and operand.variable != name:
            of = f" ({operand.number})" if operand.number else ""
            text = operand.text.removesuffix(of) + of
            own = self.symbols.get(name) or self.symbols.get(name.lower()) or its
            self._record(here, Step(name, own, operand.value, operand.number, "choice", text,
                                    operand.worked, compared))  # fmt: skip
            if own is not its:
                chosen = formula.named(own, operand.value)
                return _told_apart(frame, name, replace(chosen, variable=operand.variable))
        return operand

    def _intermediate(
        self,
        frame: Frame,
        here: Statement,
        name: str,
        operand: Operand,
        compared: tuple[Comparison, ...],
    ) -> Operand:
        """Record what no equation gives, and return it under its name."""
        symbol = self._symbol(frame, name)
        if not symbol.units and not operand.is_truth:
            symbol = symbol._replace(units=formula.units_text(operand.units))
        kind = "condition" if operand.is_truth else "intermediate"
        if operand.text.isidentifier() and operand.text.isupper():
            kind = "code"
        result = _told_apart(frame, name, formula.named(symbol, operand.value))
        symbol = result.symbol or symbol
        if operand.is_computed or compared or kind == "code":  # and not `total = 0.0`
            self._record(here, Step(name, symbol, operand.value, "", kind, operand.text,
                                    operand.worked, (*operand.comparisons, *compared)))  # fmt: skip
        return replace(result, comparisons=operand.comparisons)

    def _symbol(self, frame: Frame, name: str) -> Symbol:
        """Return the symbol of a variable: as before, of the model, of the result, its name."""
        before = frame.variables.get(name)
        if before is not None and before.symbol is not None:
            return before.symbol
        slots = {n: symbol for n, symbol in frame.returned if symbol is not None}
        found = self.symbols.get(name) or self.symbols.get(name.lower()) or slots.get(name)
        return found or Symbol(name, "", "")

    def _record(self, here: Statement, step: Step) -> None:
        step.comment = here.comment
        here.steps.append(step)
        self.steps.append(step)

    # expressions

    def _evaluate(self, frame: Frame, here: Statement, node: ast.expr) -> Operand:
        def evaluate(part: ast.expr) -> Operand:
            return self._evaluate(frame, here, part)

        match node:
            case ast.Constant(value=value):
                return formula.constant(np.float64(value) if isinstance(value, float) else value)
            case ast.Name(id=name):
                return self._name(frame, here, name)
            case ast.Attribute(value=ast.Name() as base, attr=attr):
                return formula.constant(getattr(evaluate(base).value, attr), attr)
            case ast.Tuple(elts=elements):
                return formula.together([evaluate(element) for element in elements])
            case ast.Subscript(value=whole, slice=index):
                return evaluate(whole).parts[evaluate(index).value]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY:
                function, sign = BINARY[type(op)]
                a, b = evaluate(left), evaluate(right)
                return formula.arithmetic(function(a.value, b.value), sign, a, b)
            case ast.UnaryOp(op=op, operand=inner) if type(op) in UNARY:
                negate, sign = UNARY[type(op)]
                a = evaluate(inner)
                return formula.negate(negate(a.value), sign, a)
            case ast.BoolOp(op=op, values=values):
                sides = [evaluate(value) for value in values]
                both = isinstance(op, ast.And)
                truth = (all if both else any)(side.value for side in sides)
                return formula.connect(truth, "and" if both else "or", sides)
            case ast.Compare() if all(type(op) in COMPARE for op in node.ops):
                return self._compare(frame, here, node)
            case ast.IfExp():
                test = evaluate(node.test)
                here.decisions.append(
                    Decision(test.text, bool(test.value), test.comparisons, test.number)
                )
                return evaluate(node.body if test.value else node.orelse)
            case ast.Call(func=callee, args=args, keywords=[]):
                return self._call(frame, here, evaluate(callee), [evaluate(a) for a in args])
        raise _not_followed(frame, node)

    def _name(self, frame: Frame, here: Statement, name: str) -> Operand:
        if name in frame.variables:
            if name in frame.set_by:
                here.reads.append(frame.set_by[name])
            return frame.variables[name]
        cells = zip(frame.function.__code__.co_freevars, frame.function.__closure__ or (),
                    strict=True)  # fmt: skip
        closure = {free: cell.cell_contents for free, cell in cells}
        for scope in (closure, frame.function.__globals__, vars(builtins)):
            if name in scope:
                return formula.constant(scope[name], name)
        raise NotImplementedError(f"{frame.function.__name__}: '{name}' is not defined")

    def _compare(self, frame: Frame, here: Statement, node: ast.Compare) -> Operand:
        operands = [self._evaluate(frame, here, side) for side in (node.left, *node.comparators)]
        made = []
        for left, op, right in zip(operands[:-1], node.ops, operands[1:], strict=True):
            function, sign = COMPARE[type(op)]
            made.append(formula.compare(sign, left, right, function(left.value, right.value)))
        if len(made) == 1:
            return made[0]
        return formula.connect(all(part.value for part in made), "and", made)

    def _call(
        self, frame: Frame, here: Statement, callee: Operand, given: Sequence[Operand]
    ) -> Operand:
        function = callee.value
        info = getattr(function, "info", None)
        if isinstance(info, EquationInfo):
            return self._equation(here, function, info, given)
        if getattr(function, "is_joined", False):
            inner, results = self.run(function, given)
            here.calls.append(inner)
            results = [replace(r, variable=r.variable or "result") for r in results]
            if len(results) == 1:
                return results[0]
            return Operand(tuple(r.value for r in results), "", "", parts=tuple(results))
        if function is zip:
            rows = zip(*(operand.parts for operand in given), strict=True)
            return formula.together([formula.together(row) for row in rows])
        if function is enumerate:
            pairs = enumerate(given[0].parts)
            return formula.together(
                [formula.together([formula.constant(i), part]) for i, part in pairs]
            )
        if function in (len, range):
            return formula.constant(function(*(a.value for a in given)))
        return formula.call(function(*(a.value for a in given)), callee.text, given)

    def _equation(
        self,
        here: Statement,
        function: Callable[..., Any],
        info: EquationInfo,
        given: Sequence[Operand],
    ) -> Operand:
        """Work out one equation and record it as a step."""
        before = len(here.decisions)
        plain = getattr(function, "py_func", function)
        (result,) = self.run(function, given, inside=here)[1]
        inner = here.decisions[before:]  # those of the equation itself are part of its step
        del here.decisions[before:]
        comparisons = tuple(c for d in inner for c in d.comparisons) + result.comparisons
        self._record(here, Step("", info.result, result.value, info.number, info.kind,
                                result.text, result.worked, comparisons))  # fmt: skip
        text = formula.write(info.result.symbol)
        if info.kind != "condition" and is_ambiguous(info, plain):
            text = f"{text} ({info.number})"
        operand = formula.named(info.result, result.value, text=text, number=info.number)
        return replace(operand, comparisons=comparisons if info.kind == "condition" else ())


def _told_apart(frame: Frame, name: str, operand: Operand) -> Operand:
    """Return an operand with primes after its symbol until no other variable has the same."""
    symbol = operand.symbol
    taken = {other.text for key, other in frame.variables.items() if key != name}
    while symbol is not None and operand.text in taken:
        symbol = symbol._replace(symbol=f"{symbol.symbol}'")
        operand = replace(operand, symbol=symbol, text=f"{operand.text}'")
    return operand


def _not_followed(frame: Frame, node: ast.AST) -> NotImplementedError:
    return NotImplementedError(
        f"{frame.function.__name__}: `{ast.unparse(node)}` cannot be followed"
    )
