"""From the words of an expression to a program for a stack machine.

A precedence-climbing parser with Python's grammar for the few operators that are allowed. It is
written here rather than taken from :mod:`ast` for the sake of the errors (each has the column of
the offence and names what is allowed), and because nothing outside the whitelist is then ever
understood, whatever a later Python's grammar brings. Long chains (``a + b + c + ...``) make long
programs but no deep recursion; nesting is limited.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sweep.errors import nearest
from sweep.expressions.error import ExpressionError
from sweep.expressions.tokens import Token, tokens

__all__ = ["FUNCTIONS", "MAX_NESTING", "Instruction", "parse"]

MAX_NESTING = 100
"""Most levels of the grammar that may be open at once; parentheses take two each."""

FUNCTIONS: dict[str, tuple[int, int | None]] = {
    "abs": (1, 1),
    "ceil": (1, 1),
    "floor": (1, 1),
    "gcd": (2, None),
    "log2": (1, 1),
    "max": (2, None),
    "min": (2, None),
    "sqrt": (1, 1),
}
"""The functions that may be called, each with its least and largest number of arguments."""

# Binding strengths, weakest first (Python's order).
_OR, _AND, _NOT, _COMPARISON, _SUM, _PRODUCT, _UNARY, _POWER = range(1, 9)
_BINARY = {
    "or": _OR,
    "and": _AND,
    "+": _SUM,
    "-": _SUM,
    "*": _PRODUCT,
    "/": _PRODUCT,
    "//": _PRODUCT,
    "%": _PRODUCT,
    "**": _POWER,
}
_COMPARISONS = {"<", "<=", ">", ">=", "==", "!="}


class Instruction(NamedTuple):
    """One step of the program: what to do with the topmost operands of the stack.

    ``operation`` is ``"constant"`` (argument: the value), ``"name"`` (the name), an arithmetic or
    boolean operator, ``"negate"``, ``"plus"``, ``"not"``, ``"compare"`` (a tuple of the chained
    operators and, for a final ``in``, the number of members, else 0), ``"select"`` (operands:
    value, condition, other value) or ``"call"`` (function name and number of arguments).
    """

    operation: str
    argument: Any
    position: int


def parse(text: str, allowed: Collection[str] | None = None) -> tuple[Instruction, ...]:
    """Return the program that computes ``text``.

    Parameters
    ----------
    text : str
        The expression.
    allowed : collection of str, optional
        The names that may occur; any name if not given.

    Raises
    ------
    ExpressionError
        At the first thing that is not part of the language, and at an unknown name.
    """
    return _Parser(text, allowed).program()


class _Parser:
    def __init__(self, text: str, allowed: Collection[str] | None) -> None:
        self._text = text
        self._allowed = allowed
        self._words = tokens(text)
        self._next = next(self._words)
        self._nesting = 0
        self._program: list[Instruction] = []

    def program(self) -> tuple[Instruction, ...]:
        self._expression()
        if self._next.kind != "end":
            raise self._error(self._next, self._unexpected())
        return tuple(self._program)

    # Reading words

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._words)
        return token

    def _sees(self, *values: str) -> bool:
        return self._next.kind in ("operator", "word") and self._next.value in values

    def _expect(self, value: str) -> None:
        if not self._sees(value):
            raise self._error(self._next, f"'{value}' is expected, not {_quoted(self._next)},")
        self._take()

    def _error(self, token: Token, reason: str, hint: str = "") -> ExpressionError:
        return ExpressionError(self._text, token.position, reason, hint)

    def _emit(self, operation: str, argument: Any, position: int) -> None:
        self._program.append(Instruction(operation, argument, position))

    def _enter(self) -> None:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._error(self._next, "the expression is nested too deeply")

    # Grammar

    def _expression(self) -> None:
        """Read ``value if condition else other``, or what binds more strongly."""
        self._enter()
        self._binary(_OR)
        if self._sees("if"):
            token = self._take()
            self._binary(_OR)
            self._expect("else")
            self._expression()
            self._emit("select", None, token.position)
        self._nesting -= 1

    def _binary(self, minimum: int) -> None:
        """Read an operand and all operators after it that bind at least as ``minimum``."""
        self._enter()
        self._operand(minimum)
        while True:
            operator = self._next
            if minimum <= _COMPARISON and self._sees_comparison():
                self._comparison()
                continue
            strength = _BINARY.get(str(operator.value), 0)
            if operator.kind not in ("operator", "word") or strength < minimum:
                break
            self._take()
            # ** groups to the right, and its exponent may have a sign; all others to the left.
            self._binary(_UNARY if strength == _POWER else strength + 1)
            self._emit(str(operator.value), None, operator.position)
        self._nesting -= 1

    def _operand(self, minimum: int) -> None:
        token = self._take()
        if token.kind in ("number", "string"):
            self._emit("constant", token.value, token.position)
        elif token.kind == "name":
            self._name_or_call(token)
        elif token.value in ("True", "False") and token.kind == "word":
            self._emit("constant", token.value == "True", token.position)
        elif token.value in ("-", "+") and token.kind == "operator":
            self._binary(_UNARY)
            self._emit("negate" if token.value == "-" else "plus", None, token.position)
        elif token.value == "not" and token.kind == "word" and minimum <= _NOT:
            self._binary(_NOT)
            self._emit("not", None, token.position)
        elif token.value == "(" and token.kind == "operator":
            self._expression()
            self._expect(")")
        else:
            raise self._error(token, self._no_value(token))

    def _name_or_call(self, token: Token) -> None:
        name = str(token.value)
        if self._sees("("):
            if name not in FUNCTIONS:
                raise self._error(token, f"unknown function '{name}'", _suggest(name, FUNCTIONS))
            self._take()
            self._emit("call", (name, self._arguments(token)), token.position)
        elif name in FUNCTIONS:
            raise self._error(token, f"the function '{name}' needs its arguments in parentheses")
        elif self._allowed is not None and name not in self._allowed:
            raise self._error(token, f"unknown name '{name}'", nearest(name, self._allowed))
        else:
            self._emit("name", name, token.position)

    def _arguments(self, function: Token) -> int:
        """Read the arguments of ``function`` up to its closing parenthesis; return their number."""
        count, _ = self._members(")")
        least, most = FUNCTIONS[str(function.value)]
        if count < least or (most is not None and count > most):
            wanted = f"{least} argument{'s' if least > 1 else ''}"
            wanted = f"at least {wanted}" if most is None else wanted
            raise self._error(function, f"'{function.value}' takes {wanted}, not {count},")
        return count

    def _members(self, closing: str) -> tuple[int, bool]:
        """Read expressions between commas up to ``closing``; return (number, ends with comma)."""
        count, comma = 0, False
        while not self._sees(closing):
            if count and not comma:
                self._expect(closing)
            if self._sees("*", "**"):
                raise self._error(self._next, f"unpacking with '{self._next.value}' is not allowed")
            self._expression()
            count += 1
            comma = self._sees(",")
            if comma:
                self._take()
        self._take()
        return count, comma

    def _sees_comparison(self) -> bool:
        return self._sees(*_COMPARISONS, "in", "not")

    def _comparison(self) -> None:
        """Read ``< b <= c ... in (d, e)`` after the first operand: one chain, one instruction."""
        operators: list[str] = []
        members = 0
        start = self._next.position
        while self._sees_comparison():
            operator = str(self._take().value)
            if operator == "not":
                self._expect("in")
                operator = "not in"
            operators.append(operator)
            if operator in ("in", "not in"):
                members = self._collection()
                if self._sees_comparison():
                    raise self._error(self._next, "no comparison may follow a list")
                break
            self._binary(_SUM)
        self._emit("compare", (tuple(operators), members), start)

    def _collection(self) -> int:
        """Read ``(a, b)`` or ``[a, b]`` at the right of ``in``; return the number of members."""
        token = self._take()
        if token.kind != "operator" or token.value not in ("(", "["):
            raise self._error(token, "'in' needs a list at its right, such as (1, 2)")
        count, comma = self._members(")" if token.value == "(" else "]")
        if token.value == "(" and count == 1 and not comma:
            raise self._error(token, "a list of one member needs a comma, as in (1,):")
        if _BINARY.get(str(self._next.value), 0) > _COMPARISON:
            raise self._error(self._next, f"'{self._next.value}' may not follow a list")
        return count

    # What to say about a wrong word

    def _no_value(self, token: Token) -> str:
        if token.kind == "end":
            return "the expression ends too early: a value is expected"
        if token.value == "[":
            return "a list may only stand at the right of 'in'"
        return f"a value is expected, not {_quoted(token)},"

    def _unexpected(self) -> str:
        """Return the complaint about a word where an operator or the end was expected."""
        token = self._next
        if token.value == "[" and token.kind == "operator":
            return "subscripts are not allowed"
        if token.value == "(" and token.kind == "operator":
            return "only functions with a name can be called"
        if token.value == "," and token.kind == "operator":
            return "',' may only stand between arguments and in lists after 'in'"
        return f"an operator is expected, not {_quoted(token)},"


def _quoted(token: Token) -> str:
    return token.spelling if token.kind in ("end", "string") else f"'{token.spelling}'"


def _suggest(name: str, known: Iterable[str]) -> str:
    return nearest(name, known) or f"; functions are {', '.join(sorted(known))}"
