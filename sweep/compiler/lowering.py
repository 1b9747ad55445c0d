"""A model's body without loops, calls of equations and branches on the variant.

What a pass compiles. A loop over a sequence that LLVM does not unroll keeps the loop over
configurations from being vectorised, and every equation that Numba compiles on its own costs about
as much time as ten lines of one function. The text of a body is therefore rewritten before it is
compiled: loops over the numbers of a sequence are written out, branches on a constant are decided,
and an equation of one expression takes the place of its call. The operations and their order stay,
and so do the results, to the bit.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import FunctionType
from typing import Any, cast

from sweep._jit import EquationInfo, joined
from sweep.compiler.source import source_of

__all__ = ["plain", "straight", "straight_tree"]


def straight(
    body: Callable[..., Any], sequences: Sequence[bool], length: int
) -> tuple[Callable[..., Any], str]:
    """Return a body as one function of numbers, and its text.

    Parameters
    ----------
    body : callable
        A model's body, marked by :func:`sweep._jit.joined`.
    sequences : sequence of bool
        For each argument whether it is a sequence; such an argument becomes ``length`` arguments.
    length : int
        Numbers in each sequence.

    Returns
    -------
    callable, str
        Compiled like ``body``, with the same results.
    """
    header, names = straight_tree(body, sequences, length)
    plain = getattr(body, "py_func", body)
    text = ast.unparse(ast.fix_missing_locations(header))
    header.name = "straight_" + hashlib.sha256(text.encode()).hexdigest()[:16]
    module = ast.fix_missing_locations(ast.Module([header], []))
    # The text comes from the package's own registry, never from a file.
    exec(compile(module, f"<{plain.__module__}, straight>", "exec"), names)
    return joined(names[header.name]), text


def straight_tree(
    body: Callable[..., Any], sequences: Sequence[bool], length: int
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the text of :func:`straight` and the names that it may use.

    Parameters
    ----------
    body, sequences, length
        As there.
    """
    plain = getattr(body, "py_func", body)
    tree, _ = source_of(plain)
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
    known = {name: cell.cell_contents for name, cell in cells}
    names = [argument.arg for argument in tree.args.args]
    parts = {
        name: [f"{name}_{i}" for i in range(length)]
        for name, is_sequence in zip(names, sequences, strict=True)
        if is_sequence
    }
    namespace = {**plain.__globals__, **known}
    rewriter = _Rewriter(namespace, known, parts)
    statements = rewriter.block(tree.body)
    flat = [part for name in names for part in parts.get(name, [name])]
    header = ast.parse(f"def straight({', '.join(flat)}): pass").body[0]
    assert isinstance(header, ast.FunctionDef)
    header.body = statements
    return header, namespace


@cache
def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled function as Python runs it, together with all that it calls."""
    python = getattr(function, "py_func", None)
    if python is None:
        return function
    called = {name: python.__globals__.get(name) for name in python.__code__.co_names}
    names = {n: plain(v) for n, v in called.items() if hasattr(v, "py_func")}
    found = FunctionType(
        python.__code__,
        {**python.__globals__, **names},
        python.__name__,
        python.__defaults__,
        python.__closure__,
    )
    return found


class _Rewriter(ast.NodeTransformer):
    """Rewrites expressions; ``block`` does so for statements.

    ``constants`` are the variables whose values are known: of the closure, and of loops.
    """

    def __init__(
        self,
        names: Mapping[str, Any],
        constants: Mapping[str, Any],
        parts: Mapping[str, list[str]],
    ) -> None:
        self.names = names
        self.constants = dict(constants)
        self.parts = parts

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Return statements with loops written out and branches on constants decided."""
        found: list[ast.stmt] = []
        for node in body:
            if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
                count = _value(self.visit(copy.deepcopy(node.iter)), range)
                for i in count if isinstance(count, range) else ():
                    self.constants[node.target.id] = i
                    found += self.block(node.body)
                if isinstance(count, range):
                    continue
            if isinstance(node, ast.If):
                test = _value(self.visit(copy.deepcopy(node.test)), bool)
                if isinstance(test, bool):
                    found += self.block(node.body if test else node.orelse)
                    continue
            found.append(self.visit(copy.deepcopy(node)))
        return found

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.constants.get(node.id)
        is_number = isinstance(value, (bool, int, float)) and isinstance(node.ctx, ast.Load)
        return ast.Constant(value) if is_number else node

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        index = _value(self.visit(node.slice), int)
        if isinstance(node.value, ast.Name) and node.value.id in self.parts and index is not None:
            return ast.Name(self.parts[node.value.id][index], ast.Load())
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if not isinstance(node.func, ast.Name):
            self.generic_visit(node)
            return node
        if node.func.id == "len" and isinstance(node.args[0], ast.Name):
            return ast.Constant(len(self.parts[node.args[0].id]))
        node.args = [self.visit(argument) for argument in node.args]
        function: Any = self.names.get(node.func.id)
        info = getattr(function, "info", None)
        expression = _expression(function) if isinstance(info, EquationInfo) else None
        if expression is None:
            return node
        arguments = dict(zip(function.info.arguments, node.args, strict=True))
        return cast(ast.expr, _Arguments(arguments).visit(copy.deepcopy(expression)))


class _Arguments(ast.NodeTransformer):
    """Puts what an equation is given in the place of its parameters."""

    def __init__(self, arguments: Mapping[str, ast.expr]) -> None:
        self.arguments = arguments

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self.arguments.get(node.id, node))


def _expression(function: Callable[..., Any]) -> ast.expr | None:
    """Return the expression of an equation that has nothing but one, with its docstring."""
    body = source_of(getattr(function, "py_func", function))[0].body
    last = body[-1]
    return last.value if len(body) == 2 and isinstance(last, ast.Return) else None


def _value(node: ast.expr, kind: type) -> Any:
    """Return the value of an expression of constants, ``None`` if it is none of that kind."""
    if any(isinstance(part, ast.Name) and part.id != "range" for part in ast.walk(node)):
        return None
    try:
        value = eval(compile(ast.Expression(ast.fix_missing_locations(node)), "", "eval"),
                     {"__builtins__": {}, "range": range})  # fmt: skip
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    return value if isinstance(value, kind) else None
