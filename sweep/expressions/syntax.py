"""Parse the text of an expression into a checked tree.

Every word must belong to the language, and length and nesting are bounded. The parser follows the
precedence of Python's operators; nothing is compiled or executed.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

from sweep.errors import nearest
from sweep.expressions.error import ExpressionError

MAX_LENGTH = 2000
"""Largest number of characters in an expression."""

MAX_TOTAL = 200_000
"""Largest total number of characters in the conditions of one file or plan."""

MAX_DIGITS = 40
"""Largest number of digits in a number, more than float64 can represent."""

MAX_NESTING = 100
"""Largest depth of nesting; brackets count two levels, signs and powers one."""

FUNCTIONS: dict[str, tuple[int, int | None]] = {
    **dict.fromkeys(("abs", "ceil", "floor", "log2", "sqrt"), (1, 1)),
    **dict.fromkeys(("gcd", "max", "min"), (2, None)),
}
"""The functions that may be called, each with its smallest and largest number of arguments."""


class Step(NamedTuple):
    """One node of the checked tree.

    ``operation`` is ``"constant"`` (``argument``: the value), ``"name"`` (the name), an operator,
    a function, ``"negate"``, ``"plus"``, ``"select"`` (operands: value, condition, other value) or
    ``"compare"`` (pairs of an operator and the number of operands at its right, which is 1 except
    for ``in``).
    """

    operation: str
    argument: Any
    operands: int
    position: int


Steps = tuple[Step, ...]
"""A tree in postorder: each node comes after its operands."""

Value = TypeVar("Value")


def parse(text: str, allowed: Collection[str] | None = None) -> Steps:
    """Return the checked tree of ``text``.

    Parameters
    ----------
    text : str
        The expression.
    allowed : collection of str, optional
        The names that may occur; any name if not given.

    Raises
    ------
    ExpressionError
        The text is not in the language, or contains an unknown name.
    """
    if len(text) > MAX_LENGTH:
        reason = f"the expression is longer than {MAX_LENGTH} characters,"
        raise ExpressionError(text, MAX_LENGTH, reason)
    if not text.strip():
        raise ExpressionError(text, 0, "the expression is empty: a value is expected")
    steps = tuple(_Parser(text).steps)
    for step in steps:
        if step.operation == "name" and allowed is not None and step.argument not in allowed:
            reason = f"unknown name '{step.argument}'"
            raise ExpressionError(text, step.position, reason, nearest(step.argument, allowed))
    return steps


def check_total(texts: Iterable[str]) -> None:
    """Refuse a list of conditions that would take too long to parse and to evaluate.

    Raises
    ------
    ExpressionError
        The texts have more than `MAX_TOTAL` characters in total.
    """
    total = 0
    for text in texts:
        total += len(text)
        if total > MAX_TOTAL:
            reason = f"the conditions have more than {MAX_TOTAL} characters together,"
            raise ExpressionError(text, 0, reason)


def fold(
    steps: Sequence[Step],
    leaf: Callable[[Step], Value],
    apply: Callable[[Step, list[Value]], Value],
) -> Value:
    """Evaluate a tree from its leaves, without recursion."""
    values: list[Value] = []
    for step in steps:
        if step.operands:
            operands = values[-step.operands :]
            del values[-step.operands :]
            values.append(apply(step, operands))
        else:
            values.append(leaf(step))
    return values[0]


def comparisons(
    operators: Sequence[tuple[str, int]], operands: Sequence[Value]
) -> Iterator[tuple[str, Value, Sequence[Value]]]:
    """Yield the operator, the left operand and the right ones of each comparison in a chain."""
    left, end = operands[0], 1
    for operator, members in operators:
        right = operands[end : end + members]
        yield operator, left, right
        left, end = right[0] if right else left, end + members


def conjuncts(steps: Steps) -> list[Steps]:
    """Return the parts of a condition that must all hold: the operands of its outermost ``and``."""
    if steps[-1].operation != "and":
        return [steps]
    parts: list[Steps] = []
    end = len(steps) - 1
    for _ in range(steps[-1].operands):
        start, wanted = end, 1
        while wanted:  # go back to the beginning of the operand
            start -= 1
            wanted += steps[start].operands - 1
        parts = [*conjuncts(steps[start:end]), *parts]
        end = start
    return parts


# ---------------------------------------------------------------------------- the words

_NOT, _COMPARISON, _SIGN = 3, 4, 7
_ARITHMETIC = {"+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6, "**": 8}
_PRECEDENCE = {"or": 1, "and": 2, **_ARITHMETIC} | dict.fromkeys(
    ("<", "<=", ">", ">=", "==", "!=", "in", "not"), _COMPARISON
)
"""Operators between operands, those that bind tightest with the highest number."""

_NO_OPERANDS = {*_PRECEDENCE, "if", "else", ",", ")", "]"} - {"-", "+"}
_KEYWORDS = ("and", "or", "not", "in", "if", "else", "True", "False")

_SPACE = r"[ \t\r\n]"
_STRING = r"'[^'\\\r\n]*'|\"[^\"\\\r\n]*\""
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?"

_WORDS: dict[str, str] = {
    r"[A-Za-z_]\w*(?!['\"\w])": "",
    r"\*\*|//|<=|>=|==|!=|[-+*/%()<>,\[\]]": "",
    rf"\.?(?:[0-9][_.]?(?:[eE][+-]?)?){{{MAX_DIGITS + 1}}}":
        f"a number may have at most {MAX_DIGITS} digits",
    r"0[0-9_]+(?![.A-Za-z0-9_])": "a number may not start with 0",
    rf"(?>{_NUMBER})[A-Za-z0-9_.]": "{} does not start a plain decimal number",
    rf"{_NUMBER}|{_STRING}|(?:{'|'.join(_KEYWORDS)})\b": "",
    r"[A-Za-z_]\w*": "a string with prefix {} is not allowed",
    r"\.": "attribute access is not allowed",
    r":": "{} is not allowed (no assignments, slices or lambdas)",
    r"\{": "{} is not allowed (no sets or dictionaries)",
    r"['\"]": "the string is not closed, or holds a backslash or a line break",
    r"\Z": "",
    r"[\s\S]": "{} is not allowed",
}  # fmt: skip
"""Patterns in the order in which they are tried, each with the reason for refusal, if any."""

_WORD = re.compile(rf"{_SPACE}*(?:{'|'.join(f'({pattern})' for pattern in _WORDS)})", re.ASCII)
_REASONS = ("", *_WORDS.values())
_REFUSED = {*keyword.kwlist} - {*_KEYWORDS}
_MEANT = {"=": "==", "is": "==", "&": "and", "|": "or", "!": "not", "^": "**"}


class _Parser:
    """Reads a text word by word, by the precedence of its operators.

    ``word`` is the next word, ``""`` at the end, and ``position`` its offset. ``depth`` is the
    nesting at which a method reads.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.steps: list[Step] = []
        self._words = _WORD.finditer(text)
        self.word, self.position = "", 0
        self.advance()
        self.expression(2)
        self.expect("")

    def advance(self) -> None:
        """Go to the next word, which must belong to the language."""
        found = next(self._words)
        row = found.lastindex or 0
        self.word, self.position = found[row], found.start(row)
        reason = "{} is not allowed" if self.word in _REFUSED else _REASONS[row]
        if reason:
            hint = f"; did you mean '{_MEANT[self.word]}'?" if self.word in _MEANT else ""
            shown = self.word if self.word.isprintable() else f"U+{ord(self.word):04X}"
            raise ExpressionError(self.text, self.position, reason.format(f"'{shown}'"), hint)

    def refuse(self, reason: str, position: int | None = None) -> NoReturn:
        """Raise an error at a position, else at the next word, which ``{}`` stands for."""
        word = self.word
        shown = f"'{word}'" if word[:1] not in ("'", '"', "") else word or "the end"
        at = self.position if position is None else position
        raise ExpressionError(self.text, at, reason.format(shown))

    def expect(self, word: str) -> None:
        """Read a word that must follow; ``""`` is the end."""
        if self.word != word:
            if self.word == "," and word != "else":
                self.refuse("',' may only stand between arguments and in lists after 'in'")
            self.refuse((f"'{word}'" if word else "an operator") + " is expected, not {},")
        if word:
            self.advance()

    def emit(self, operation: str, operands: int, position: int, argument: Any = None) -> None:
        """Write an operation after its operands."""
        self.steps.append(Step(operation, argument, operands, position))

    def expression(self, depth: int) -> None:
        """Read operators of all kinds, and a conditional."""
        self.operators(0, depth)
        if self.word == "if":
            position = self.position
            self.advance()
            self.operators(0, depth)
            self.expect("else")
            self.expression(depth + 1)
            self.emit("select", 3, position)

    def operators(self, lowest: int, depth: int) -> None:
        """Read an operand and all operators behind it of at least the ``lowest`` precedence."""
        self.operand(lowest, depth)
        while (level := _PRECEDENCE.get(self.word, -1)) >= lowest:
            word, position, count = self.word, self.position, 1
            if level == _COMPARISON:
                self.comparisons(depth)
                continue
            while self.word == word and (count == 1 or word in ("and", "or")):
                self.advance()
                is_power = word == "**"  # which alone groups from the right
                self.operators(_SIGN if is_power else level + 1, depth + is_power)
                count += 1
            self.emit(word, count, position)

    def comparisons(self, depth: int) -> None:
        """Read a chain of comparisons, whose left operand is read."""
        chain: list[tuple[str, int]] = []
        start = self.position
        while _PRECEDENCE.get(self.word) == _COMPARISON:
            word = self.word
            if chain and chain[-1][0].endswith("in"):
                self.refuse("no comparison may follow a list")
            self.advance()
            if word == "not":
                if self.word != "in":
                    self.refuse("'in' is expected, not {},")
                word = "not in"
                self.advance()
            if word.endswith("in"):
                chain.append((word, self.members(depth)))
            else:
                self.operators(_COMPARISON + 1, depth)
                chain.append((word, 1))
        self.emit("compare", 1 + sum(count for _, count in chain), start, tuple(chain))

    def members(self, depth: int) -> int:
        """Read the list at the right of ``in`` and return how many members it has."""
        opening, position = self.word, self.position
        reason = "'in' needs a list at its right, such as (1, 2)"
        if opening not in ("(", "["):
            self.operand(_SIGN, depth)
            self.refuse(reason, position)
        count, has_comma = self.bracket(depth)
        if opening == "(" and count == 1 and not has_comma:
            reason = "a list of one member needs a comma, as in (1,):"
        elif self.word not in {"(", "[", *_ARITHMETIC}:
            return count
        self.refuse(reason, position)

    def bracket(self, depth: int) -> tuple[int, bool]:
        """Read expressions in brackets; return their number, and whether a comma ends them."""
        closing = {"(": ")", "[": "]"}[self.word]
        count, has_comma = 0, True
        self.advance()
        while has_comma and self.word != closing:
            if self.word in ("*", "**"):
                self.refuse("unpacking is not allowed")
            self.expression(depth + 2)
            count += 1
            has_comma = self.word == ","
            if has_comma:
                self.advance()
        self.expect(closing)
        return count, has_comma

    def operand(self, lowest: int, depth: int) -> None:
        """Read an operand of operators of at least the ``lowest`` precedence."""
        word, position = self.word, self.position
        if depth > MAX_NESTING:
            self.refuse("the expression is nested too deeply")
        if word in ("-", "+"):
            self.advance()
            self.operators(_SIGN, depth + 1)
            self.emit("negate" if word == "-" else "plus", 1, position)
        elif word == "not" and lowest <= _NOT:
            self.advance()
            self.operators(_NOT, depth + 1)
            self.emit("not", 1, position)
        elif word == "(":
            self.advance()
            self.expression(depth + 2)
            self.expect(")")
        elif word == "[":
            self.bracket(depth)
            self.refuse("a list may only stand at the right of 'in'", position)
        elif word in _NO_OPERANDS:
            self.refuse("a value is expected, not {},")
        elif word:
            self.atom(depth)
        else:
            self.refuse("the expression ends too early: a value is expected")
        if self.word in ("(", "["):
            word, position = self.word, self.position
            self.bracket(depth)
            called = "only functions with a name can be called"
            self.refuse(called if word == "(" else "subscripts are not allowed", position)

    def atom(self, depth: int) -> None:
        """Read a string, a number, a boolean, a name or a call."""
        word, position = self.word, self.position
        self.advance()
        if word[0] in "'\"":
            for offset, character in enumerate(word):
                if not character.isprintable():
                    self.refuse("a string may hold printable characters only", position + offset)
            self.emit("constant", 0, position, word[1:-1])
        elif word in ("True", "False"):
            self.emit("constant", 0, position, word == "True")
        elif not word.isidentifier():
            if float(word) == float("inf"):
                self.refuse(f"the number {word} is too large", position)
            self.emit("constant", 0, position, float(word))
        elif self.word == "(":
            self.call(word, position, depth)
        elif word in FUNCTIONS:
            self.refuse(f"the function '{word}' needs its arguments in parentheses", position)
        else:
            self.emit("name", 0, position, word)

    def call(self, name: str, position: int, depth: int) -> None:
        """Read the arguments of a function."""
        if name not in FUNCTIONS:
            hint = nearest(name, FUNCTIONS) or f"; functions are {', '.join(sorted(FUNCTIONS))}"
            raise ExpressionError(self.text, position, f"unknown function '{name}'", hint)
        count, _ = self.bracket(depth)
        least, most = FUNCTIONS[name]
        if count < least or count > (most or count):
            wanted = f"{'at least ' * (most is None)}{least} argument{'s' * (least > 1)}"
            self.refuse(f"'{name}' takes {wanted}, not {count},", position)
        self.emit(name, count, position)
