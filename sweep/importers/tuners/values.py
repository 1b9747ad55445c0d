"""Lists of values as search spaces write them: Python's text, read and never executed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["MOST_VALUES", "listed"]

MOST_VALUES = 100_000
"""Values of one parameter beyond which a text is refused."""

LARGEST = 2**53

_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}


def listed(text: str) -> list[Any]:
    """Return the values of a text such as ``[1, 2] + list(range(32, 1025, 32))``.

    Lists and tuples, ``range``, ``list`` of these, one comprehension over them without a condition
    (``[2**i for i in range(6)]``), and sums of these; numbers with arithmetic, texts, booleans.

    Raises
    ------
    ValueError
        It is anything else, or too long.
    """
    try:
        value = _value(ast.parse(text.strip(), mode="eval").body, {})
    except (SyntaxError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(value, (list, tuple)):
        raise ValueError("no list")
    return list(value)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.List(elts=members) | ast.Tuple(elts=members):
            return [_value(member, names) for member in members]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(_value(operand, names))
        case ast.BinOp(left=left, op=kind, right=right):
            return _joined(_value(left, names), kind, _value(right, names))
        case ast.Call(func=ast.Name(id="range"), args=[_, *_] as given, keywords=[]):
            return _range([_value(part, names) for part in given])
        case ast.Call(func=ast.Name(id="list"), args=[part], keywords=[]):
            return _list(_value(part, names))
        case ast.ListComp(elt=element, generators=[
            ast.comprehension(target=ast.Name(id=name), iter=over, ifs=[], is_async=0)
        ]):  # fmt: skip
            turns = ({**names, name: v} for v in _list(_value(over, names)))
            return [_number(_value(element, turn)) for turn in turns]
    raise ValueError("neither a list nor a number")


def _joined(left: Any, kind: ast.operator, right: Any) -> Any:
    """Return the sum of two lists, or arithmetic on two numbers."""
    if isinstance(left, list) or isinstance(right, list):
        if not isinstance(kind, ast.Add):
            raise ValueError("lists can be added only")
        return _list(_list(left) + _list(right))
    a, b = _number(left), _number(right)
    if isinstance(kind, ast.Pow) and (abs(a) > 2**16 or abs(b) > 53):
        raise ValueError("too large")
    if type(kind) not in _OPERATORS:
        raise ValueError("an unknown operator")
    return _number(_OPERATORS[type(kind)](a, b))


def _range(bounds: list[Any]) -> list[int]:
    if len(bounds) > 3 or not all(type(bound) is int for bound in bounds):
        raise ValueError("range takes one to three whole numbers")
    found = range(*bounds)
    if len(found) > MOST_VALUES:
        raise ValueError("too long")
    return list(found)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > MOST_VALUES:
        raise ValueError("no list, or too long")
    return value


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value) > LARGEST:
        raise ValueError("no number, or too large")
    return value
