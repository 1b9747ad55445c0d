"""What Python asks of single numbers, as functions without branches, of numbers and of arrays.

Equations choose: ``a if c else b``, ``min``, ``and``. Python's own words are branches, of which a
kernel with ten stages has hundreds, and what Numba takes to compile them grows faster than their
number. Passes call these functions instead. On arrays NumPy evaluates them; in compiled code each
is one instruction or two. Both sides are always computed, and no operation on numbers can fail.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.core.typing import signature
from numba.extending import lower_builtin, type_callable


def lesser(first: Any, second: Any) -> Any:
    """Return ``min(first, second)`` as Python has it: the first, if one is no number."""
    return np.where(second < first, second, first)


def larger(first: Any, second: Any) -> Any:
    """Return ``max(first, second)`` as Python has it: the first, if one is no number."""
    return np.where(second > first, second, first)


def select(condition: Any, value: Any, other: Any) -> Any:
    """Return ``value if condition else other``."""
    return np.where(condition, value, other)


def both(first: Any, second: Any) -> Any:
    """Return ``first and second``."""
    return np.logical_and(first, second)


def either(first: Any, second: Any) -> Any:
    """Return ``first or second``."""
    return np.logical_or(first, second)


def negated(condition: Any) -> Any:
    """Return ``not condition``."""
    return np.logical_not(condition)


NAMES: Mapping[str, Any] = {
    "np": np,
    **{f"_{f.__name__}": f for f in (lesser, larger, select, both, either, negated)},
}
"""What the text of an expression may use."""

# ---------------------------------------------------------------------------- as text

_OF_PAIRS = {"min": "_lesser", "max": "_larger"}


class _WithoutBranches(ast.NodeTransformer):
    """Replaces Python's words by the functions of this module."""

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return _call("_select", [node.test, node.body, node.orelse], self)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        return _folded("_both" if isinstance(node.op, ast.And) else "_either", node.values, self)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        if isinstance(node.op, ast.Not):
            return _call("_negated", [node.operand], self)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        sides = zip([node.left, *node.comparators], node.ops, node.comparators, strict=False)
        pairs: list[ast.expr] = [ast.Compare(left, [op], [right]) for left, op, right in sides]
        if len(pairs) > 1:
            return _folded("_both", pairs, self)
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if isinstance(node.func, ast.Name) and node.func.id in _OF_PAIRS:
            return _folded(_OF_PAIRS[node.func.id], node.args, self)
        return self.generic_visit(node)  # type: ignore[return-value]


def _call(name: str, arguments: Sequence[ast.expr], visitor: ast.NodeTransformer) -> ast.expr:
    return ast.Call(ast.Name(name), [visitor.visit(part) for part in arguments], [])


def _folded(name: str, parts: Sequence[ast.expr], visitor: ast.NodeTransformer) -> ast.expr:
    """Return calls of a function of two: of the first two parts, of that and the third, ..."""
    found: ast.expr = visitor.visit(parts[0])
    for part in parts[1:]:
        found = ast.Call(ast.Name(name), [found, visitor.visit(part)], [])
    return found


_NAME = re.compile(r"(?<![.\w\"])[A-Za-z_]\w*(?!\")")


def written(expression: ast.expr, names: Mapping[str, str]) -> str:
    """Write an expression without branches, with the texts of ``names`` in place of its names."""
    tree = _WithoutBranches().visit(ast.parse(ast.unparse(expression), mode="eval").body)
    return renamed(ast.unparse(tree), names)


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return the text of an expression with the texts of ``names`` in place of its names."""
    return _NAME.sub(lambda word: names.get(word[0], word[0]), text)


# ---------------------------------------------------------------------------- in compiled code

_NUMBER, _TRUTH = types.float64, types.boolean


def _declare(function: Callable[..., Any], of: Any, arity: int, build: Callable[..., Any]) -> None:
    """Tell Numba the type of a function's arguments and result, and the instructions for it."""

    @type_callable(function)
    def typer(_: Any) -> Callable[..., Any]:
        found = signature(of, *(of,) * arity)
        return (lambda first: found) if arity == 1 else (lambda first, second: found)

    @lower_builtin(function, *(of,) * arity)
    def lowered(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return build(builder, *arguments)


def _smaller_one(order: str) -> Callable[..., Any]:
    return lambda b, first, second: b.select(b.fcmp_ordered(order, second, first), second, first)


_declare(lesser, _NUMBER, 2, _smaller_one("<"))
_declare(larger, _NUMBER, 2, _smaller_one(">"))
_declare(both, _TRUTH, 2, lambda b, first, second: b.and_(first, second))
_declare(either, _TRUTH, 2, lambda b, first, second: b.or_(first, second))
_declare(negated, _TRUTH, 1, lambda b, condition: b.not_(condition))


@type_callable(select)
def _type_of_select(_: Any) -> Callable[..., Any]:
    def typer(condition: Any, value: Any, other: Any) -> Any:
        of = _TRUTH if value == other == _TRUTH else _NUMBER
        return signature(of, _TRUTH, of, of)

    return typer


@lower_builtin(select, _TRUTH, _NUMBER, _NUMBER)
@lower_builtin(select, _TRUTH, _TRUTH, _TRUTH)
def _lower_select(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
    return builder.select(*arguments)
