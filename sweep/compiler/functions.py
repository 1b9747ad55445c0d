"""The source of a function that is lowered, and the constants in its expressions."""

from __future__ import annotations

import ast
import inspect
import io
import textwrap
import tokenize
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

from sweep.compiler.program import OPERATORS
from sweep.errors import ModelError, nearest
from sweep.models.base import EquationInfo

Value = ast.expr | tuple[ast.expr, ...]
"""A number, or those of a sequence or of a record (a ``NamedTuple``)."""


@dataclass
class Function:
    """A function that is being lowered: its source, and what its names stand for.

    ``reads`` are the names that its statements read, each as often as they do.
    """

    function: FunctionType
    tree: ast.FunctionDef
    comments: Mapping[int, str]
    path: str
    first_line: int
    reads: Sequence[str]
    names: Mapping[str, Any]
    is_equation: bool
    values: dict[str, Value] = field(default_factory=dict)

    def error(self, node: ast.AST, text: str) -> ModelError:
        """Return an error at a node of this function's source."""
        line = self.first_line + getattr(node, "lineno", 1) - 1
        return ModelError(f"{self.path}:{line}: {self.function.__name__}: {text}")

    def beside(self, node: ast.stmt) -> str:
        """Return the comment beside a statement."""
        end = 0 if isinstance(node, (ast.If, ast.For)) else node.end_lineno or 0
        return self.comments.get(node.lineno) or self.comments.get(end) or ""

    def member(self, node: ast.Attribute) -> ast.expr:
        """Return the number of a record that an attribute names."""
        name = ast.unparse(node.value)
        record: Any = self.values[name]
        found: dict[str, ast.expr] = record._asdict()
        if node.attr not in found:
            raise self.error(node, f"'{name}' has no '{node.attr}'{nearest(node.attr, found)}")
        return found[node.attr]

    def sums(self, node: ast.Call, records: Sequence[Value]) -> Any:
        """Return a record of the sums of two records, as :func:`sweep.models.base.added` does."""
        if len({*map(type, records)}) != 1 or len(records) != 2 or not members_of(records[0]):
            raise self.error(node, f"`{ast.unparse(node)}`: two records of one kind add up")
        return by_member(lambda _, *both: ast.BinOp(both[0], ast.Add(), both[1]), "", *records)

    def uncallable(self, node: ast.Call) -> ModelError:
        """Return the error of a call of what a body cannot call."""
        return self.error(
            node,
            f"`{ast.unparse(node.func)}` cannot be called: a body calls equations, functions like"
            " them, records, added, min, max, abs, len, np.sqrt, np.floor and np.ceil",
        )


def members_of(value: Any) -> tuple[str, ...]:
    """Return the names of a record's numbers; a number or a sequence has none."""
    kind = value if isinstance(value, type) else type(value)
    return kind._fields if issubclass(kind, tuple) and hasattr(kind, "_fields") else ()


def by_member(function: Callable[..., Any], name: str, *values: Any) -> Any:
    """Call a function with a name and numbers, or with each member of records that have the name.

    Return what it returns, or a record of it.
    """
    if not members_of(values[0]):
        return function(name, *values)
    members = zip(members_of(values[0]), *values, strict=True)
    return values[0]._make(function(f"{name}.{member}", *parts) for member, *parts in members)


@cache
def source_of(
    function: FunctionType,
) -> tuple[ast.FunctionDef, dict[int, str], str, int, list[str]]:
    """Return a function's tree, the comments beside its lines, its file, first line and reads."""
    path = inspect.getsourcefile(function) or "<unknown>"
    try:
        lines, first = inspect.getsourcelines(function)
        text = textwrap.dedent("".join(lines))
        tree = ast.parse(text).body[0]
    except (OSError, SyntaxError):
        raise ModelError(f"{path}: {function.__name__}: there is no source to read") from None
    if not isinstance(tree, ast.FunctionDef):
        raise ModelError(f"{path}:{first}: {function.__name__}: a body is a function")
    comments = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        words = token.string.lstrip("# ").partition("fmt: ")[0].strip()
        if token.type == tokenize.COMMENT and words and not token.line.lstrip().startswith("#"):
            comments[token.start[0]] = words
    parts = [part for statement in tree.body for part in ast.walk(statement)]
    reads = [p.id for p in parts if isinstance(p, ast.Name) and isinstance(p.ctx, ast.Load)]
    return tree, comments, path, first, reads


def function_of(function: Callable[..., Any]) -> Function:
    """Return a function as it is lowered, after a check of its signature."""
    assert isinstance(function, FunctionType)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    names = ChainMap({n: cell.cell_contents for n, cell in cells}, function.__globals__)
    info = getattr(function, "info", None)
    found = Function(function, *source_of(function), names, isinstance(info, EquationInfo))
    args = found.tree.args
    if args.defaults or any(args.kw_defaults):
        raise found.error(found.tree, "a parameter cannot have a default")
    if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
        raise found.error(found.tree, "parameters are plain names")
    for argument in args.args:
        if isinstance(info, EquationInfo) and argument.arg not in info.symbols:
            raise found.error(argument, f"'{argument.arg}' has no symbol")
    return found


def literal(value: Any) -> Any:
    """Return a constant of a module, a number or a record of numbers, as an expression."""
    return by_member(lambda _, number: ast.Constant(number), "", value)


def check_results(function: Function, returned: Any, results: Collection[str]) -> None:
    """Refuse a body that does not return a dictionary of what it must."""
    last = function.tree.body[-1]
    if not isinstance(returned, dict):
        raise function.error(last, "a body returns a dictionary of its results")
    for name in results:
        if name not in returned:
            raise function.error(last, f"the result '{name}' is missing")
    for name in returned:
        if results and name not in results:
            text = f"'{name}' is no result of the model{nearest(name, results)}"
            raise function.error(last, text)


LARGEST_LOOP = 1000  # rounds


def range_of(
    function: Function, node: ast.For, number: Callable[[Function, ast.expr], ast.expr]
) -> range:
    """Return the rounds of a loop; ``number`` lowers the arguments of its ``range``."""
    match node.iter:
        case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if args:
            ends = [number(function, argument) for argument in args]
            values = [end.value for end in ends if isinstance(end, ast.Constant)]
            numbers = [value for value in values if isinstance(value, int)]
            if len(numbers) == len(ends) and len(range(*numbers)) <= LARGEST_LOOP:
                return range(*numbers)
    raise function.error(node, "a loop runs over range(len(SEQUENCE)) or a range of constants")


# Only what indices and the variant decide is computed here; numbers of the physics stay as written.


def computed(node: ast.BinOp | ast.Compare) -> ast.expr:
    """Return an operation on integers or a comparison of constants as its result, if it is one."""
    sides = [side for side in ast.iter_child_nodes(node) if isinstance(side, ast.expr)]
    values = [side.value for side in sides if isinstance(side, ast.Constant)]
    if len(values) < len(sides):
        return node
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, values[:-1], values[1:], strict=True)
        return ast.Constant(all(OPERATORS[type(op)][0](a, b) for op, a, b in pairs))
    if isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)) and all(type(v) is int for v in values):
        return ast.Constant(OPERATORS[type(node.op)][0](*values))
    return node


def connected(op: ast.boolop, values: Sequence[ast.expr]) -> ast.expr:
    """Return ``and`` or ``or`` without the sides that are constants."""
    decisive = isinstance(op, ast.Or)
    truths = [bool(value.value) for value in values if isinstance(value, ast.Constant)]
    if decisive in truths:
        return ast.Constant(decisive)
    rest = [value for value in values if not isinstance(value, ast.Constant)]
    if len(rest) > 1:
        return ast.BoolOp(op, rest)
    return rest[0] if rest else ast.Constant(not decisive)
