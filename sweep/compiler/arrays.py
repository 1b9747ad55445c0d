"""A model's pass as NumPy evaluates it, without compilation: for results of moderate size.

It does the same operations as the compiled pass (see :mod:`sweep.compiler.passes`), in the same
order and on numbers of the same type, so its results are the same to the bit. A kernel of many
stages has thousands of lines, whose compilation takes longer than a million configurations take
here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from sweep.compiler.passes import endings
from sweep.compiler.source import Pass, Point

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]
"""The inputs of a pass by name, in shapes that broadcast."""


def lesser(first: Any, second: Any) -> Any:
    """Return ``min(first, second)`` as Python has it: the first, if one is no number."""
    return np.where(second < first, second, first)


def larger(first: Any, second: Any) -> Any:
    """Return ``max(first, second)`` as Python has it: the first, if one is no number."""
    return np.where(second > first, second, first)


NAMES = {"np": np, "_lesser": lesser, "_larger": larger, "_select": np.where,
         "_both": np.logical_and, "_either": np.logical_or, "_negated": np.logical_not}  # fmt: skip
_OF_PAIRS = {"min": "_lesser", "max": "_larger"}


class _ForArrays(ast.NodeTransformer):
    """Replaces what Python asks of single numbers by functions of arrays."""

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
    """Write an expression of arrays, with the texts of ``names`` in place of its names."""
    tree = _ForArrays().visit(ast.parse(ast.unparse(expression), mode="eval").body)
    return _NAME.sub(lambda word: names.get(word[0], word[0]), ast.unparse(tree))


def arrays_source(which: Pass) -> str:
    """Return the source of a pass over arrays: a function from inputs to outputs by name."""
    point = Point(which, {name: (f'given["{name}"]', True) for name in which.inputs()}, written)
    conditions, outputs = endings(which, point)
    lines = ["found = {}", *(f"{line.name} = {line.text}" for line in point.lines), *conditions]
    for name, value, *_ in outputs:
        lines.append(f'found["{name}"] = {written(ast.parse(value, mode="eval").body, {})}')
    return "\n    ".join(["def evaluate(given):", *_releasing(lines), "return found"])


def _releasing(lines: Sequence[str]) -> list[str]:
    """Return lines with values deleted after the last line that reads them, to bound memory."""
    last: dict[str, int] = {}
    for number, line in enumerate(lines):
        for name in re.findall(r"\b[vf]_\w+", line):
            last[name] = number
    ends: dict[int, list[str]] = {}
    for name, number in last.items():
        ends.setdefault(number, []).append(name)
    return [
        f"{line}; del {', '.join(ends[number])}" if number in ends else line
        for number, line in enumerate(lines)
    ]


@cache
def get_arrays_pass(which: Pass) -> Callable[[Inputs], dict[str, Array]]:
    """Return a function from a pass's inputs to its outputs, in shapes that broadcast."""
    namespace: dict[str, Any] = {**NAMES, "__name__": __name__}
    # The text is written from checked expressions of registered models, never from a file.
    exec(compile(arrays_source(which), f"<arrays of {which.model}>", "exec"), namespace)
    function: Callable[[Inputs], dict[str, Array]] = namespace["evaluate"]
    return function
