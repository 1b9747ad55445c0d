"""What the text of an equation or of a model's body says about it."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from sweep._jit import EquationInfo, Symbol

__all__ = ["is_ambiguous", "returned_by", "source_of"]


@cache
def source_of(function: Callable[..., Any]) -> tuple[ast.FunctionDef, dict[int, str]]:
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


def is_ambiguous(info: EquationInfo, function: Callable[..., Any]) -> bool:
    """Return whether several equations of the module have the same symbol on the left."""
    infos = (getattr(v, "info", None) for v in function.__globals__.values())
    numbers = {
        other.number
        for other in infos
        if isinstance(other, EquationInfo) and other.result.symbol == info.result.symbol
    }
    return len(numbers) > 1


def returned_by(
    tree: ast.FunctionDef, symbols: Sequence[Symbol]
) -> tuple[tuple[str, Symbol | None], ...]:
    """Return variable name (or ``""``) and symbol of each result of a function."""
    last = tree.body[-1]
    if not symbols or not isinstance(last, ast.Return) or last.value is None:
        return ()
    elements = last.value.elts if isinstance(last.value, ast.Tuple) else [last.value]
    names = [element.id if isinstance(element, ast.Name) else "" for element in elements]
    return tuple(zip(names, symbols, strict=False))
