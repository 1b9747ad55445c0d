"""A model's equations worked out for one configuration, step by step, as on paper.

The functions that the passes compile are read here as text and followed statement by statement in
NumPy's float64 scalars: the same operations in the same order give the same numbers, and no
equation is written a second time. Every equation, condition and intermediate becomes a
:class:`Step` with its formula in symbols and in numbers. What a branch that was not taken would
have given is not computed; of ``and`` and ``or`` both sides are, because a reader wants to see both.

Only what such functions are made of is understood: assignments, ``if``, ``return``, arithmetic,
comparisons, conditionals and calls. An equation with a loop is called as it is and has no formula.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import io
import operator
import textwrap
import tokenize
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from sweep._jit import EquationInfo, Symbol
from sweep.evaluate.formula import (
    COMPARISON,
    CONJUNCTION,
    DISJUNCTION,
    Comparison,
    Operand,
    call_text,
    comparison_text,
    join,
    literal,
    named,
    prefixed,
    result_symbol,
)

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


@dataclass
class Step:
    """One thing worked out.

    Attributes
    ----------
    name : str
        Variable of the joining function that took the value, ``""`` inside an expression.
    symbol : Symbol
        How it is printed, its unit, its meaning.
    value : float or bool
        The result.
    number : str
        The equation's number; ``""`` for what only joins equations.
    kind : str
        ``"equation"``, ``"condition"`` (its value is a truth value), ``"intermediate"`` or
        ``"choice"`` (one of several values, by a condition).
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
    comment: str = ""


@dataclass(eq=False)
class _Statement:
    """What one statement read and did; the trail from results back to what they rest on."""

    target: str = ""
    comment: str = ""
    steps: list[Step] = field(default_factory=list)
    reads: list[_Statement] = field(default_factory=list)
    calls: list[_Frame] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    used: bool = False

    def use(self) -> None:
        """Mark this statement's steps, and whatever it rests on, as part of the results."""
        if self.used:
            return
        self.used = True
        for step in self.steps:
            step.used = True
        for other in self.reads:
            other.use()
        for frame in self.calls:
            frame.use()


@dataclass(eq=False)
class _Frame:
    """A call under way: the function, its variables, and who set them."""

    function: Callable[..., Any]
    variables: dict[str, Operand]
    records: bool
    statements: list[_Statement] = field(default_factory=list)
    set_by: dict[str, _Statement] = field(default_factory=dict)
    slots: dict[str, Symbol] = field(default_factory=dict)
    last: _Statement = field(default_factory=_Statement)
    comments: dict[int, str] = field(default_factory=dict)
    compared: list[Comparison] = field(default_factory=list)

    def use(self) -> None:
        for statement in self.statements:
            if statement is self.last or not statement.target:
                statement.use()


@dataclass(frozen=True)
class Trace:
    """A function followed to its results.

    Attributes
    ----------
    results : tuple of float
        What the function returned.
    names : tuple of str
        The variables that it returned, ``""`` for expressions.
    steps : tuple of Step
        In the order of evaluation.
    """

    results: tuple[float, ...]
    names: tuple[str, ...]
    steps: tuple[Step, ...]
    _frame: _Frame = field(repr=False)

    def decisions(self, name: str) -> tuple[Decision, ...]:
        """Return the conditions that chose the value of a variable, in order."""
        found: list[Decision] = []
        statement = self._frame.set_by.get(name)
        while statement is not None:
            found[:0] = statement.decisions
            earlier = (s for s in statement.reads if s.target == name and s is not statement)
            statement = next(earlier, None)
        return tuple(found)


def trace(
    function: Callable[..., Any],
    arguments: Sequence[tuple[Symbol, float]],
    *,
    symbols: Mapping[str, Symbol] | None = None,
    returns: Sequence[Symbol] = (),
) -> Trace:
    """Follow a function that joins equations.

    Parameters
    ----------
    function : callable
        A model's body, or another function marked by :func:`sweep._jit.joined`.
    arguments : sequence of (Symbol, float)
        Its arguments in order.
    symbols : mapping, optional
        Symbols of variables that are not results of equations, by name.
    returns : sequence of Symbol, optional
        Symbols of the results, for those that nothing else names.

    Returns
    -------
    Trace
        Results and steps.

    Raises
    ------
    NotImplementedError
        The function has a statement that cannot be followed.
    """
    tracer = _Tracer(symbols or {}, returns)
    given = [named(symbol, np.float64(value)) for symbol, value in arguments]
    with np.errstate(all="ignore"):
        frame, results = tracer.run(function, given, records=True)
    frame.use()
    return Trace(
        tuple(float(result.value) for result in results),
        tuple(result.variable for result in results),
        tuple(tracer.steps),
        frame,
    )


@lru_cache(maxsize=None)
def _source(function: Callable[..., Any]) -> tuple[ast.FunctionDef, dict[int, str]]:
    """Return a function's syntax tree and the comments beside its lines."""
    text = textwrap.dedent(inspect.getsource(function))
    tree = ast.parse(text).body[0]
    assert isinstance(tree, ast.FunctionDef)
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        words = token.string.lstrip("# ").partition("fmt: ")[0].strip()
        if token.type == tokenize.COMMENT and words and not token.line.lstrip().startswith("#"):
            comments[token.start[0]] = words
    return tree, comments


class _Tracer:
    def __init__(self, symbols: Mapping[str, Symbol], returns: Sequence[Symbol]) -> None:
        self.symbols = symbols
        self.returns = returns
        self.steps: list[Step] = []

    def run(
        self, function: Callable[..., Any], given: Sequence[Operand], *, records: bool
    ) -> tuple[_Frame, list[Operand]]:
        """Follow one call; ``records`` is off inside an equation, which is a step as a whole."""
        plain = getattr(function, "py_func", function)
        tree, comments = _source(plain)
        parameters = [argument.arg for argument in tree.args.args]
        frame = _Frame(plain, dict(zip(parameters, given, strict=True)), records)
        frame.comments = comments
        last = tree.body[-1]
        if records and isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple):
            pairs = zip(last.value.elts, self.returns, strict=False)
            frame.slots = {e.id: symbol for e, symbol in pairs if isinstance(e, ast.Name)}
            self.returns = ()  # they belong to the outermost function
        results = self._block(frame, tree.body, "")
        if results is None:
            raise NotImplementedError(f"{plain.__name__} returns nothing")
        return frame, results

    # statements

    def _block(
        self, frame: _Frame, body: Sequence[ast.stmt], comment: str
    ) -> list[Operand] | None:
        for node in body:
            here = _Statement(comment=_comment(frame, node) or comment)
            frame.statements.append(here)
            if isinstance(node, ast.Return):
                frame.last = here
                return self._return(frame, here, node)
            if isinstance(node, ast.If):
                test = self._evaluate(frame, here, node.test)
                chosen = node.body if test.value else node.orelse
                results = self._block(frame, chosen, here.comment)
                if results is not None:
                    return results
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                self._assign(frame, here, node.targets[0], self._evaluate(frame, here, node.value))
            elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                raise NotImplementedError(
                    f"{frame.function.__name__}: cannot follow `{ast.unparse(node)}`"
                )
        return None

    def _return(self, frame: _Frame, here: _Statement, node: ast.Return) -> list[Operand]:
        assert node.value is not None
        many = isinstance(node.value, ast.Tuple)
        elements = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        slots = list(frame.slots.values())
        results = []
        for i, element in enumerate(elements):
            operand = self._evaluate(frame, here, element)
            if many and not operand.is_atom and i >= len(slots) and self._rest(frame, i):
                operand = self._intermediate(here, "", self._rest(frame, i), operand)
            results.append(operand)
        return results

    def _rest(self, frame: _Frame, i: int) -> Symbol | None:
        return None
