"""A model's body as one flat program of single assignments.

Passes, ``sweep explain`` and the C++ of the benchmarks are all made from this program, so a body's
source is read in one place. Loops over sequences are unrolled, calls of equations and helper
functions are inlined, branches on the variant are decided, and branches on data become selections
between values that are both computed. Operations and their order stay as they are in the source,
and so do the results, to the bit.

What a body may consist of is described in CONTRIBUTING. Anything else raises a
:class:`~sweep.errors.ModelError` with file and line.
"""

from __future__ import annotations

import ast
import inspect
import io
import operator
import textwrap
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from sweep.errors import ModelError, nearest
from sweep.models import get_model
from sweep.models.base import EquationInfo

__all__ = ["Assignment", "Program", "lower", "lowered", "names_in", "parts_of"]

OPERATORS = (
    ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.USub, ast.UAdd,
    ast.Not, ast.And, ast.Or, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq,
)  # fmt: skip
FUNCTIONS = ("abs", "max", "min")
NUMPY_FUNCTIONS = ("ceil", "floor", "sqrt")
NUMPY_CONSTANTS = ("inf", "nan")
RESERVED = ("np", *FUNCTIONS)
LARGEST_LOOP = 1000
"""Most rounds of a loop."""

INTEGER: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
}  # fmt: skip
COMPARE: dict[type, Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Assignment:
    """One value of a program.

    Attributes
    ----------
    name : str
        Its name, unique in the program.
    expression : ast.expr
        Numbers, constants, inputs and earlier names, joined by arithmetic, comparisons,
        conditional expressions and calls of ``min``, ``max``, ``abs`` and a few of NumPy.
    kind : str
        ``"variable"`` of the body's text, result of an ``"equation"``, ``"part"`` of an equation
        (an argument or a variable of its own), ``"choice"`` between the values that a variable has
        after the two branches of an ``if``, or a ``"result"`` that the body returns unnamed.
    variable : str
        The variable or result in the body's text that takes the value.
    equation : EquationInfo, optional
        The equation whose result this is.
    arguments : tuple of str
        The names in the arguments of the equation's call.
    is_ambiguous : bool
        Whether several equations of the module have this one's symbol on the left.
    comment : str
        The words beside the line in the source: mostly the erratum that it applies.
    when : tuple of (str, bool)
        The conditions, by name, that hold or fail where the body's text assigns it.
    is_decided : bool
        Whether the text chooses between several expressions by the variant.
    """

    name: str
    expression: ast.expr
    kind: str
    variable: str = ""
    equation: EquationInfo | None = None
    arguments: tuple[str, ...] = ()
    is_ambiguous: bool = False
    comment: str = ""
    when: tuple[tuple[str, bool], ...] = ()
    is_decided: bool = False


@dataclass(frozen=True)
class Program:
    """A function of numbers as single assignments.

    Attributes
    ----------
    inputs : tuple of str
        Names of the numbers that it starts from; a sequence has one name for each of its numbers.
    constants : mapping
        Named constants of the module.
    assignments : tuple of Assignment
        In the order of evaluation.
    results : mapping
        Result to the name of its value.
    """

    inputs: tuple[str, ...]
    constants: Mapping[str, float]
    assignments: tuple[Assignment, ...]
    results: Mapping[str, str]

    def needed(self, results: Iterable[str]) -> tuple[Assignment, ...]:
        """Return the assignments that some of the results rest on, in order."""
        wanted = {self.results[name] for name in results}
        found = []
        for assignment in reversed(self.assignments):
            if assignment.name in wanted:
                found.append(assignment)
                wanted.update(names_in(assignment.expression))
        return tuple(reversed(found))


def names_in(expression: ast.expr) -> Iterator[str]:
    """Yield the names of values in an expression."""
    for node in ast.walk(expression):
        if isinstance(node, ast.Name) and node.id not in RESERVED:
            yield node.id


def parts_of(name: str, length: int) -> tuple[str, ...]:
    """Return the names of the numbers of a sequence input."""
    return tuple(f"{name}_{i}" for i in range(length))


@cache
def lowered(name: str, variant: str, length: int = 0) -> Program:
    """Return a model's body as a program.

    Parameters
    ----------
    name : str
        The model's name.
    variant : str
        ``"corrected"`` or ``"printed"``.
    length : int
        Numbers in each sequence input.

    Raises
    ------
    ModelError
        The body has something that cannot be lowered; file and line are given.
    """
    model = get_model(name)
    lengths = {i.symbol: length if i.sequence else None for i in model.inputs}
    return lower(model.bodies[variant], lengths, {"corrected": variant == "corrected"},
                 model.results)  # fmt: skip


def lower(
    function: Callable[..., Any],
    inputs: Mapping[str, int | None],
    known: Mapping[str, bool] | None = None,
    results: Collection[str] = (),
) -> Program:
    """Return a function as a program.

    Parameters
    ----------
    function : callable
        A plain Python function that returns a dictionary of results.
    inputs : mapping
        What its parameters may be: names, with the length of a sequence and None for a number.
    known : mapping, optional
        Parameters with a value that does not change, and that branches are decided by.
    results : collection of str, optional
        What the dictionary must hold, if that is fixed.

    Raises
    ------
    ModelError
        The function has something that cannot be lowered; file and line are given.
    """
    lowering = _Lowering(inputs)
    frame = lowering.frame(function)
    for argument in frame.tree.args.args:
        name = argument.arg
        if name in (known or {}):
            frame.values[name] = ast.Constant((known or {})[name])
        elif name not in inputs:
            raise frame.error(argument, f"'{name}' is no input of the model{nearest(name, inputs)}")
        elif (length := inputs[name]) is None:
            frame.values[name] = ast.Name(name)
        else:
            frame.values[name] = tuple(ast.Name(part) for part in parts_of(name, length))
    returned = lowering.run(frame)
    if not isinstance(returned, dict):
        raise frame.error(frame.tree.body[-1], "a body returns a dictionary of its results")
    for name in results:
        if name not in returned:
            raise frame.error(frame.tree.body[-1], f"the result '{name}' is missing")
    for name in returned:
        if results and name not in results:
            hint = nearest(name, results)
            raise frame.error(frame.tree.body[-1], f"'{name}' is no result of the model{hint}")
    variables = {a.name for a in lowering.assignments if a.kind in ("variable", "choice")}
    places = {}
    for name, value in returned.items():
        if not (isinstance(value, ast.Name) and value.id in variables):
            value = lowering.add(name, value, "result", variable=name)
        places[name] = value.id
    flat = [
        part for name, n in inputs.items() for part in ((name,) if n is None else parts_of(name, n))
    ]
    return Program(tuple(flat), lowering.constants, tuple(lowering.assignments), places)


Value = ast.expr | tuple[ast.expr, ...]
"""A number, or the numbers of a sequence."""


@dataclass
class _Frame:
    """A function that is being lowered: its source, and what its names stand for."""

    function: FunctionType
    tree: ast.FunctionDef
    comments: Mapping[int, str]
    path: str
    first_line: int
    names: Mapping[str, Any]
    is_equation: bool
    values: dict[str, Value] = field(default_factory=dict)

    def error(self, node: ast.AST, text: str) -> ModelError:
        """Return an error at a node of this function's source."""
        line = self.first_line + getattr(node, "lineno", 1) - 1
        return ModelError(f"{self.path}:{line}: {self.function.__name__}: {text}")


@cache
def _source(function: FunctionType) -> tuple[ast.FunctionDef, dict[int, str], str, int]:
    """Return a function's syntax tree, the comments beside its lines, its file and first line."""
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
    return tree, comments, path, first


class _Lowering:
    """Appends a function's assignments to one list."""

    def __init__(self, inputs: Mapping[str, int | None]) -> None:
        self.assignments: list[Assignment] = []
        self.constants: dict[str, float] = {}
        self.taken = {*RESERVED, *inputs}
        self.taken.update(p for name, n in inputs.items() if n for p in parts_of(name, n))
        self.calls: list[FunctionType] = []
        self.comment = ""
        self.when: tuple[tuple[str, bool], ...] = ()
        self.is_decided = False

    def frame(self, function: Callable[..., Any]) -> _Frame:
        """Return the frame of a function whose signature is checked."""
        assert isinstance(function, FunctionType)
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        names = {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}
        is_equation = isinstance(getattr(function, "info", None), EquationInfo)
        frame = _Frame(function, *_source(function), names, is_equation)
        args = frame.tree.args
        if args.defaults or any(args.kw_defaults):
            raise frame.error(frame.tree, "a parameter cannot have a default")
        if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
            raise frame.error(frame.tree, "parameters are plain names")
        return frame

    def add(self, name: str, expression: Value, kind: str, **rest: Any) -> ast.Name:
        """Append an assignment and return its name as an expression."""
        assert isinstance(expression, ast.expr)
        unique = self._unique(name)
        self.assignments.append(
            Assignment(unique, expression, kind, comment=self.comment, when=self.when, **rest)
        )
        return ast.Name(unique)

    def _unique(self, name: str) -> str:
        found, n = name, 1
        while found in self.taken:
            n += 1
            found = f"{name}_{n}"
        self.taken.add(found)
        return found

    # statements

    def run(self, frame: _Frame) -> Any:
        """Lower a function: return an expression, or a tuple or dictionary of several."""
        if frame.function in self.calls:
            raise frame.error(frame.tree, "a function cannot call itself")
        self.calls.append(frame.function)
        *body, last = frame.tree.body
        self._block(frame, body)
        if not isinstance(last, ast.Return) or last.value is None:
            raise frame.error(last, "a function ends with a return of its results")
        if not frame.is_equation:
            self.comment = self._beside(frame, last) or self.comment
        returned = self._returned(frame, last.value)
        self.calls.pop()
        return returned

    def _returned(self, frame: _Frame, node: ast.expr) -> Any:
        match node:
            case ast.Dict(keys=keys, values=values):
                found = {}
                for key, value in zip(keys, values, strict=True):
                    if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                        raise frame.error(node, "the names of results are plain texts")
                    found[key.value] = self._number(frame, value)
                return found
            case ast.Tuple(elts=elements):
                return tuple(self._number(frame, element) for element in elements)
        return self._number(frame, node)

    def _beside(self, frame: _Frame, node: ast.stmt) -> str:
        """Return the comment beside a statement."""
        end = 0 if isinstance(node, (ast.If, ast.For)) else node.end_lineno or 0
        return frame.comments.get(node.lineno) or frame.comments.get(end) or ""

    def _block(self, frame: _Frame, body: Sequence[ast.stmt]) -> None:
        around = self.comment
        for node in body:
            if not frame.is_equation and not self._is_inside_equation():
                self.comment = self._beside(frame, node) or around
            self.is_decided = False
            self._statement(frame, node)
        self.comment = around

    def _is_inside_equation(self) -> bool:
        return any(hasattr(function, "info") for function in self.calls)

    def _statement(self, frame: _Frame, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant(value=str())) | ast.Pass():
                return
            case ast.Assign(targets=targets, value=value):
                found = self._several(frame, value)
                for target in targets:
                    self._assign(frame, target, found)
            case ast.AugAssign(target=ast.Name(id=name) as target, op=op, value=value):
                before = ast.copy_location(ast.Name(name, ast.Load()), node)
                total = ast.copy_location(ast.BinOp(before, op, value), node)
                self._assign(frame, target, self._number(frame, total))
            case ast.If(test=test, body=body, orelse=orelse):
                self._if(frame, self._number(frame, test), body, orelse)
            case ast.For(target=ast.Name(id=name), orelse=[]):
                for i in self._range(frame, node):
                    frame.values[name] = ast.Constant(i)
                    self._block(frame, node.body)
            case ast.Return():
                raise frame.error(node, "return stands at the end of a function only")
            case ast.FunctionDef() | ast.ClassDef():
                raise frame.error(node, "a function or class cannot be defined inside a body")
            case _:
                words = ast.unparse(node).partition("\n")[0]
                raise frame.error(node, f"a body cannot have `{words}`")

    def _several(self, frame: _Frame, node: ast.expr) -> Any:
        """Return the value of an assignment: an expression, or a tuple of several."""
        if isinstance(node, ast.Tuple):
            return tuple(self._number(frame, element) for element in node.elts)
        if isinstance(node, ast.Call):
            return self._call(frame, node)
        return self._number(frame, node)

    def _assign(self, frame: _Frame, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            values = value if isinstance(value, tuple) else ()
            if len(values) != len(target.elts):
                raise frame.error(target, f"{len(target.elts)} names take as many values")
            for element, part in zip(target.elts, values, strict=True):
                self._assign(frame, element, part)
        elif not isinstance(target, ast.Name) or not isinstance(value, ast.expr):
            raise frame.error(target, "a value is assigned to a name")
        elif not self._is_inside_equation():
            frame.values[target.id] = self.add(
                target.id, value, "variable", variable=target.id, is_decided=self.is_decided
            )
        else:
            is_atom = isinstance(value, (ast.Name, ast.Constant))
            frame.values[target.id] = value if is_atom else self.add(target.id, value, "part")

    def _if(
        self, frame: _Frame, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
    ) -> None:
        """Lower the branch that a constant decides, or both and a choice between their values."""
        if isinstance(test, ast.Constant):
            self._block(frame, body if test.value else orelse)
            return
        if not isinstance(test, ast.Name):
            test = self.add("test", test, "part")
        before, around, ends = frame.values, self.when, []
        for branch, holds in ((body, True), (orelse, False)):
            frame.values, self.when = dict(before), (*around, (test.id, holds))
            self._block(frame, branch)
            ends.append(frame.values)
        frame.values, self.when = before, around
        for name in ends[0].keys() & ends[1].keys():
            first, second = ends[0][name], ends[1][name]
            if first is not second:
                assert isinstance(first, ast.expr) and isinstance(second, ast.expr)
                chosen = ast.IfExp(test, first, second)
                before[name] = self.add(name, chosen, "choice", variable=name)

    def _range(self, frame: _Frame, node: ast.For) -> range:
        match node.iter:
            case ast.Call(func=ast.Name(id="range"), args=args, keywords=[]) if args:
                ends = [self._number(frame, argument) for argument in args]
                values = [e.value for e in ends if isinstance(e, ast.Constant)]
                numbers = [value for value in values if isinstance(value, int)]
                if len(numbers) == len(ends):
                    found = range(*numbers)
                    if len(found) <= LARGEST_LOOP:
                        return found
        raise frame.error(node, "a loop runs over range(len(SEQUENCE)) or a range of constants")

    # expressions

    def _number(self, frame: _Frame, node: ast.expr) -> ast.expr:
        """Return an expression of numbers, lowered."""
        value = self._value(frame, node)
        if isinstance(value, ast.expr):
            return value
        raise frame.error(node, f"`{ast.unparse(node)}` is not one number")

    def _value(self, frame: _Frame, node: ast.expr) -> Value:
        def number(part: ast.expr) -> ast.expr:
            return self._number(frame, part)

        def allowed(*operators: ast.AST) -> bool:
            return all(isinstance(sign, OPERATORS) for sign in operators)

        match node:
            case ast.Constant(value=bool() | int() | float()):
                return node
            case ast.Name(id=name):
                return self._name(frame, node, name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                frame.names.get(name) is np and attr in NUMPY_CONSTANTS
            ):
                return ast.Attribute(ast.Name("np"), attr)
            case ast.Subscript(value=whole, slice=index):
                return self._element(frame, node, whole, index)
            case ast.BinOp(left=left, op=op, right=right) if allowed(op):
                return _integer(ast.BinOp(number(left), op, number(right)))
            case ast.UnaryOp(op=op, operand=operand) if allowed(op):
                inner = number(operand)
                if isinstance(op, ast.Not) and isinstance(inner, ast.Constant):
                    return ast.Constant(not inner.value)
                return ast.UnaryOp(op, inner)
            case ast.BoolOp(op=op, values=values):
                return _connected(op, [number(value) for value in values])
            case ast.Compare(left=left, ops=ops, comparators=others) if allowed(*ops):
                return _compared(ast.Compare(number(left), ops, [number(o) for o in others]))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = number(test)
                if isinstance(condition, ast.Constant):
                    self.is_decided = True
                    return number(body if condition.value else orelse)
                return ast.IfExp(condition, number(body), number(orelse))
            case ast.Call():
                return self._call(frame, node)
        raise frame.error(node, f"a body cannot have `{ast.unparse(node)}`")

    def _name(self, frame: _Frame, node: ast.expr, name: str) -> Value:
        if name in frame.values:
            return frame.values[name]
        if name not in frame.names:
            raise frame.error(node, f"'{name}' has no value here")
        value = frame.names[name]
        if isinstance(value, bool) or type(value) is int:
            return ast.Constant(value)
        if not isinstance(value, float):
            raise frame.error(node, f"'{name}' is not a number")
        if self.constants.get(name) != value:
            name = self._unique(name)
            self.constants[name] = float(value)
        return ast.Name(name)

    def _element(self, frame: _Frame, node: ast.expr, whole: ast.expr, index: ast.expr) -> ast.expr:
        sequence, place = self._value(frame, whole), self._number(frame, index)
        if not isinstance(sequence, tuple):
            raise frame.error(node, f"`{ast.unparse(whole)}` is not a sequence")
        at = place.value if isinstance(place, ast.Constant) else None
        if not isinstance(at, int) or not 0 <= at < len(sequence):
            raise frame.error(node, f"`{ast.unparse(index)}` is not a place in the sequence")
        return sequence[at]

    def _call(self, frame: _Frame, node: ast.Call) -> Any:
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise frame.error(node, f"`{ast.unparse(node)}`: arguments are given by position")
        match node.func:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                frame.names.get(name) is np and attr in NUMPY_FUNCTIONS
            ):
                args = [self._number(frame, argument) for argument in node.args]
                return ast.Call(ast.Attribute(ast.Name("np"), attr), args, [])
            case ast.Name(id=name) if name not in frame.values:
                function = frame.names.get(name)
                if isinstance(function, FunctionType):
                    return self._inlined(frame, node, function)
                if function is None and name == "len" and len(node.args) == 1:
                    sequence = self._value(frame, node.args[0])
                    if isinstance(sequence, tuple):
                        return ast.Constant(len(sequence))
                if function is None and name in FUNCTIONS and node.args:
                    args = [self._number(frame, argument) for argument in node.args]
                    return ast.Call(ast.Name(name), args, [])
        raise frame.error(
            node,
            f"`{ast.unparse(node.func)}` cannot be called: a body calls equations, functions like"
            " them, min, max, abs, len, np.sqrt, np.floor and np.ceil",
        )

    def _inlined(self, frame: _Frame, node: ast.Call, function: FunctionType) -> Any:
        """Return what a call of an equation, or of a function that joins some, returns."""
        inner = self.frame(function)
        names = [argument.arg for argument in inner.tree.args.args]
        if len(names) != len(node.args):
            text = f"`{ast.unparse(node)}`: {function.__name__} takes {len(names)} arguments"
            raise frame.error(node, text)
        used = [name for statement in inner.tree.body for name in _loaded(statement)]
        read: list[str] = []
        for name, argument in zip(names, node.args, strict=True):
            value = self._value(frame, argument)
            is_atom = isinstance(value, (ast.Name, ast.Constant, tuple))
            if not is_atom and used.count(name) > 1:
                value = self.add(name, value, "part")
            inner.values[name] = value
            read += () if isinstance(value, tuple) else names_in(value)
        around, decided = self.comment, self.is_decided
        returned = self.run(inner)
        self.comment, self.is_decided = around, decided
        if not inner.is_equation:
            return returned
        if not isinstance(returned, ast.expr):
            raise inner.error(inner.tree, "an equation returns one number")
        info = function.info  # type: ignore[attr-defined]
        is_ambiguous = _is_ambiguous(function, info)
        return self.add(function.__name__, returned, "equation", equation=info,
                        arguments=tuple(read), is_ambiguous=is_ambiguous)  # fmt: skip


def _is_ambiguous(function: FunctionType, info: EquationInfo) -> bool:
    """Return whether several equations of the module have the same symbol on the left."""
    infos = (getattr(value, "info", None) for value in function.__globals__.values())
    numbers = {
        other.number
        for other in infos
        if isinstance(other, EquationInfo) and other.result.symbol == info.result.symbol
    }
    return len(numbers) > 1


def _loaded(node: ast.AST) -> Iterator[str]:
    """Yield the names that a statement reads, as often as it does."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load):
            yield part.id


# Only what indices and the variant decide is computed here; numbers of the physics stay as written.


def _integer(node: ast.BinOp) -> ast.expr:
    """Return the result of an operation on two integers, any other operation as it is."""
    left, right, sign = node.left, node.right, INTEGER.get(type(node.op))
    if sign and isinstance(left, ast.Constant) and isinstance(right, ast.Constant):
        if type(left.value) is int and type(right.value) is int:
            return ast.Constant(sign(left.value, right.value))
    return node


def _compared(node: ast.Compare) -> ast.expr:
    """Return the truth of a comparison of constants, any other comparison as it is."""
    sides = [node.left, *node.comparators]
    values = [side.value for side in sides if isinstance(side, ast.Constant)]
    if len(values) < len(sides):
        return node
    pairs = zip(node.ops, values[:-1], values[1:], strict=True)
    return ast.Constant(all(COMPARE[type(op)](a, b) for op, a, b in pairs))


def _connected(op: ast.boolop, values: Sequence[ast.expr]) -> ast.expr:
    """Return ``and`` or ``or`` without the sides that are constants."""
    decisive = isinstance(op, ast.Or)
    truths = [bool(value.value) for value in values if isinstance(value, ast.Constant)]
    if decisive in truths:
        return ast.Constant(decisive)
    rest = [value for value in values if not isinstance(value, ast.Constant)]
    if len(rest) > 1:
        return ast.BoolOp(op, rest)
    return rest[0] if rest else ast.Constant(not decisive)
