"""A model's body as one flat program of single assignments.

Passes, ``sweep explain`` and the C++ of the benchmarks are all made from this program, so a body's
source is read in one place. Loops over sequences are unrolled, calls are inlined, branches on the
variant are decided, and branches on data become selections between values that are both computed.
Operations and their order stay as in the source, and so do the results, to the bit.

What CONTRIBUTING does not list raises :class:`~sweep.errors.ModelError` with file and line.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import chain
from types import FunctionType
from typing import Any

import numpy as np

from sweep.compiler.functions import (
    Function,
    Value,
    by_member,
    check_results,
    computed,
    connected,
    function_of,
    literal,
    members_of,
    range_of,
)
from sweep.compiler.program import (
    FUNCTIONS,
    OPERATORS,
    RESERVED,
    Assignment,
    Program,
    names_in,
    parts_of,
)
from sweep.errors import nearest
from sweep.models import get_model
from sweep.models.base import added, flags

NUMPY_FUNCTIONS = ("ceil", "floor", "sqrt")
NUMPY_CONSTANTS = ("inf", "nan")


@cache
def lowered(name: str, variant: str, length: int = 0) -> Program:
    """Return a model's body as a program.

    Parameters
    ----------
    name : str
        The model's name.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.
    length : int
        Numbers in each sequence input.

    Raises
    ------
    ModelError
        The body has something that cannot be lowered; file and line are given.
    """
    model = get_model(name)
    lengths = {i.symbol: length if i.sequence else None for i in model.inputs}
    return lower(model.bodies[variant], lengths, flags(variant), model.results)


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
    parts = {name: parts_of(name, length) for name, length in inputs.items()}
    flat = tuple(chain.from_iterable(parts.values()))
    lowering = _Lowering({*RESERVED, *inputs, *flat})
    frame = function_of(function)
    for argument in frame.tree.args.args:
        name = argument.arg
        if name in inputs:
            names = tuple(map(ast.Name, parts[name]))
            frame.values[name] = names[0] if inputs[name] is None else names
        elif known and name in known:
            frame.values[name] = ast.Constant(known[name])
        else:
            raise frame.error(argument, f"'{name}' is no input of the model{nearest(name, inputs)}")
    returned = lowering.run(frame)
    check_results(frame, returned, results)
    variables = {a.name for a in lowering.assignments if a.kind in ("variable", "choice")}
    places = {}
    for name, value in returned.items():
        if not (isinstance(value, ast.Name) and value.id in variables):
            value = lowering.add(name, value, "result", variable=name)
        places[name] = value.id
    return Program(flat, lowering.constants, tuple(lowering.assignments), places)


class _Lowering:
    """Appends a function's assignments to one list."""

    def __init__(self, taken: set[str]) -> None:
        self.assignments: list[Assignment] = []
        self.constants: dict[str, float] = {}
        self.taken = taken
        self.calls: list[FunctionType] = []
        self.comment = ""
        self.when: tuple[tuple[str, bool], ...] = ()
        self.is_decided = False
        self.round: tuple[int, int] | None = None
        self.loops = 0

    def add(self, name: str, expression: Value, kind: str, **rest: Any) -> ast.Name:
        """Append an assignment and return its name as an expression."""
        assert isinstance(expression, ast.expr)
        unique = self._unique(name)
        rest |= {"comment": self.comment, "when": self.when, "round": self.round}
        self.assignments.append(Assignment(unique, expression, kind, **rest))
        return ast.Name(unique)

    def _unique(self, name: str) -> str:
        found, n = (name := name.replace(".", "_")), 1
        while found in self.taken:
            n += 1
            found = f"{name}_{n}"
        self.taken.add(found)
        return found

    def run(self, frame: Function) -> Any:
        """Lower a function: return an expression, or a tuple or dictionary of several."""
        if frame.function in self.calls:
            raise frame.error(frame.tree, "a function cannot call itself")
        self.calls.append(frame.function)
        *body, last = frame.tree.body
        self._block(frame, body)
        if not isinstance(last, ast.Return) or last.value is None:
            raise frame.error(last, "a function ends with a return of its results")
        if not frame.is_equation:
            self.comment = frame.beside(last) or self.comment
        returned = self._returned(frame, last.value)
        self.calls.pop()
        return returned

    def _returned(self, frame: Function, node: ast.expr) -> Any:
        if not isinstance(node, ast.Dict):
            return self._several(frame, node)
        found = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                raise frame.error(node, "the names of results are plain texts")
            found[key.value] = self._number(frame, value)
        return found

    def _block(self, frame: Function, body: Sequence[ast.stmt]) -> None:
        around = self.comment
        for node in body:
            if not frame.is_equation and not self._is_inside_equation():
                self.comment = frame.beside(node) or around
            self.is_decided = False
            self._statement(frame, node)
        self.comment = around

    def _is_inside_equation(self) -> bool:
        return any(hasattr(function, "info") for function in self.calls)

    def _statement(self, frame: Function, node: ast.stmt) -> None:
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
                self._for(frame, node, name)
            case ast.Return():
                raise frame.error(node, "return stands at the end of a function only")
            case ast.FunctionDef() | ast.ClassDef():
                raise frame.error(node, "a function or class cannot be defined inside a body")
            case _:
                words = ast.unparse(node).partition("\n")[0]
                raise frame.error(node, f"a body cannot have `{words}`")

    def _several(self, frame: Function, node: ast.expr) -> Any:
        """Return the value of an assignment: an expression, or a tuple of several."""
        if isinstance(node, ast.Tuple):
            return tuple(self._number(frame, element, or_record=True) for element in node.elts)
        if isinstance(node, ast.Call):
            return self._call(frame, node)
        return self._number(frame, node, or_record=True)

    def _assign(self, frame: Function, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple):
            values = value if isinstance(value, tuple) else ()
            if len(values) != len(target.elts):
                raise frame.error(target, f"{len(target.elts)} names take as many values")
            for element, part in zip(target.elts, values, strict=True):
                self._assign(frame, element, part)
        elif isinstance(target, ast.Name) and (isinstance(value, ast.expr) or members_of(value)):
            frame.values[target.id] = by_member(self._kept, target.id, value)
        else:
            raise frame.error(target, "a value is assigned to a name")

    def _kept(self, name: str, value: ast.expr) -> ast.expr:
        """Append the assignment of a number to a variable, or to a part of an equation."""
        if not self._is_inside_equation():
            return self.add(name, value, "variable", variable=name, is_decided=self.is_decided)
        is_atom = isinstance(value, (ast.Name, ast.Constant))
        return value if is_atom else self.add(name, value, "part")

    def _if(
        self, frame: Function, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]
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
        self.when = around

        def chosen(name: str, first: Any, second: Any) -> Any:
            choice = ast.IfExp(test, first, second)
            return first if first is second else self.add(name, choice, "choice", variable=name)

        frame.values = {
            name: by_member(chosen, name, first, ends[1][name])
            for name, first in ends[0].items()
            if name in ends[1] and members_of(first) == members_of(ends[1][name])
        }

    def _for(self, frame: Function, node: ast.For, name: str) -> None:
        """Lower a loop round by round; an inner loop is part of the outer one's round."""
        around, self.loops = self.round, self.loops + 1
        number = self.loops
        for i in range_of(frame, node, self._number):
            self.round = around or (number, i)
            frame.values[name] = ast.Constant(i)
            self._block(frame, node.body)
        self.round = around

    def _number(self, frame: Function, node: ast.expr, or_record: bool = False) -> Any:
        """Return an expression of numbers, lowered, or where allowed a record of them."""
        value = self._value(frame, node)
        if isinstance(value, ast.expr) or (or_record and members_of(value)):
            return value
        raise frame.error(node, f"`{ast.unparse(node)}` is not one number")

    def _value(self, frame: Function, node: ast.expr) -> Value:
        def number(part: ast.expr) -> ast.expr:
            return self._number(frame, part)

        def allowed(*operators: ast.AST) -> bool:
            return all(type(sign) in OPERATORS for sign in operators)

        match node:
            case ast.Constant(value=bool() | int() | float()):
                return node
            case ast.Name(id=name):
                return self._name(frame, node, name)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
                frame.names.get(name) is np and attr in NUMPY_CONSTANTS
            ):
                return ast.Attribute(ast.Name("np"), attr)
            case ast.Attribute(value=ast.Name(id=name)) if members_of(frame.values.get(name)):
                return frame.member(node)
            case ast.Subscript(value=whole, slice=index):
                return self._element(frame, node, whole, index)
            case ast.BinOp(left=left, op=op, right=right) if allowed(op):
                return computed(ast.BinOp(number(left), op, number(right)))
            case ast.UnaryOp(op=op, operand=operand) if allowed(op):
                inner = number(operand)
                if isinstance(op, ast.Not) and isinstance(inner, ast.Constant):
                    return ast.Constant(not inner.value)
                return ast.UnaryOp(op, inner)
            case ast.BoolOp(op=op, values=values):
                return connected(op, [number(value) for value in values])
            case ast.Compare(left=left, ops=ops, comparators=others) if allowed(*ops):
                return computed(ast.Compare(number(left), ops, [number(o) for o in others]))
            case ast.IfExp(test=test, body=body, orelse=orelse):
                condition = number(test)
                if isinstance(condition, ast.Constant):
                    self.is_decided = True
                    return number(body if condition.value else orelse)
                return ast.IfExp(condition, number(body), number(orelse))
            case ast.Call():
                return self._call(frame, node)
        raise frame.error(node, f"a body cannot have `{ast.unparse(node)}`")

    def _name(self, frame: Function, node: ast.expr, name: str) -> Value:
        if name in frame.values:
            return frame.values[name]
        if name not in frame.names:
            raise frame.error(node, f"'{name}' has no value here")
        value = frame.names[name]
        if type(value) in (bool, int) or members_of(type(value)):
            return literal(value)
        if not isinstance(value, float):
            raise frame.error(node, f"'{name}' is not a number")
        if self.constants.get(name) != value:
            name = self._unique(name)
            self.constants[name] = float(value)
        return ast.Name(name)

    def _element(
        self, frame: Function, node: ast.expr, whole: ast.expr, index: ast.expr
    ) -> ast.expr:
        sequence, place = self._value(frame, whole), self._number(frame, index)
        if not isinstance(sequence, tuple):
            raise frame.error(node, f"`{ast.unparse(whole)}` is not a sequence")
        at = place.value if isinstance(place, ast.Constant) else None
        if not isinstance(at, int) or not 0 <= at < len(sequence):
            raise frame.error(node, f"`{ast.unparse(index)}` is not a place in the sequence")
        return sequence[at]

    def _call(self, frame: Function, node: ast.Call) -> Any:
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
                if function is added:
                    return frame.sums(node, [self._value(frame, one) for one in node.args])
                if isinstance(function, FunctionType):
                    return self._inlined(frame, node, function)
                if function and len(members_of(function)) == len(node.args):
                    return function(*(self._number(frame, argument) for argument in node.args))
                if function is None and name == "len" and len(node.args) == 1:
                    sequence = self._value(frame, node.args[0])
                    if isinstance(sequence, tuple):
                        return ast.Constant(len(sequence))
                if function is None and name in FUNCTIONS and node.args:
                    args = [self._number(frame, argument) for argument in node.args]
                    return ast.Call(ast.Name(name), args, [])
        raise frame.uncallable(node)

    def _inlined(self, frame: Function, node: ast.Call, function: FunctionType) -> Any:
        """Return what a call of an equation, or of a function that joins some, returns."""
        inner = function_of(function)
        names = [argument.arg for argument in inner.tree.args.args]
        if len(names) != len(node.args):
            text = f"`{ast.unparse(node)}`: {function.__name__} takes {len(names)} arguments"
            raise frame.error(node, text)
        read: tuple[str, ...] = ()
        for name, argument in zip(names, node.args, strict=True):
            value = self._value(frame, argument)
            is_atom = isinstance(value, (ast.Name, ast.Constant, tuple))
            if not is_atom and inner.reads.count(name) > 1:
                value = self.add(name, value, "part")
            inner.values[name] = value
            read += () if isinstance(value, tuple) else tuple(names_in(value))
        around, decided = self.comment, self.is_decided
        returned = self.run(inner)
        self.comment, self.is_decided = around, decided
        if not inner.is_equation:
            return returned
        if not isinstance(returned, ast.expr):
            raise inner.error(inner.tree, "an equation returns one number")
        info = function.info  # type: ignore[attr-defined]
        return self.add(function.__name__, returned, "equation", equation=info, arguments=read)
