"""Parse the text of an expression into a checked tree.

The tokens are checked first: each must belong to the language, operands and operators must
alternate, brackets must match, and length and nesting are bounded. Only then Python's :mod:`ast`
parses the text. Only whitelisted nodes of its tree are accepted; nothing is compiled or executed.
"""

from __future__ import annotations

import ast
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
    **dict.fromkeys(("choose", "gcd", "max", "min"), (2, None)),
}
"""The functions that may be called, each with its smallest and largest number of arguments.

``choose(i, a, b, c)`` is the value at place ``i`` of the list, counted from 0.
"""


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
    _check_order(text)
    # Without line breaks and in ASCII, columns of the tree are positions in the text.
    plain = _REPLACED.sub(lambda found: f"'{'_' * (len(found[0]) - 2)}'" if found[1] else " ", text)
    try:
        tree = ast.parse(f"({plain})", mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        raise ExpressionError(text, 0, "the operators do not fit together") from None
    steps = _postorder(f"({text})", tree)
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
    return [part for operand in operands_of(steps) for part in conjuncts(operand)]


def operands_of(steps: Steps) -> list[Steps]:
    """Return the trees of the operands of a tree's root, in order."""
    parts: list[Steps] = []
    end = len(steps) - 1
    for _ in range(steps[-1].operands):
        start, wanted = end, 1
        while wanted:  # go back to the beginning of the operand
            start -= 1
            wanted += steps[start].operands - 1
        parts.insert(0, steps[start:end])
        end = start
    return parts


# ---------------------------------------------------------------------------- the words

_BINDS_CLOSER = {"+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">=", "==", "!=", "in"}
"""Operators that bind closer than ``not``, which cannot begin their operands."""

_INFIX = {*_BINDS_CLOSER, "and", "or", "if", ","}
_CLOSING = {"(": ")", "[": "]"}
_NO_OPERANDS = {*_INFIX, *_CLOSING.values(), "else"}
_KEYWORDS = ("and", "or", "not", "in", "if", "else", "True", "False")

_SPACE = r"[ \t\r\n]"
_STRING = r"'[^'\\\r\n]*'|\"[^\"\\\r\n]*\""
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?"
_OTHER_KEYWORDS = {*keyword.kwlist} - {*_KEYWORDS}
_REPLACED = re.compile(rf"({_STRING})|[\t\r\n]")

_WORDS: dict[str, tuple[str, str]] = {
    r"[A-Za-z_]\w*(?!['\"\w])": ("", ""),
    r"\*\*|//|<=|>=|==|!=|[-+*/%()<>,\[\]]": ("", ""),
    rf"\.?(?:[0-9][_.]?(?:[eE][+-]?)?){{{MAX_DIGITS + 1}}}": (
        f"a number may have at most {MAX_DIGITS} digits", ""),
    r"0[0-9_]+(?![.A-Za-z0-9_])": ("a number may not start with 0", ""),
    rf"(?>{_NUMBER})[A-Za-z0-9_.]": ("{} does not start a plain decimal number", ""),
    rf"{_NUMBER}|{_STRING}|(?:{'|'.join(_KEYWORDS)})\b": ("", ""),
    r"[A-Za-z_]\w*": ("a string with prefix {} is not allowed", ""),
    r"\.": ("attribute access is not allowed", ""),
    r":": ("{} is not allowed (no assignments, slices or lambdas)", ""),
    r"\{": ("{} is not allowed (no sets or dictionaries)", ""),
    r"['\"]": ("the string is not closed, or holds a backslash or a line break", ""),
    r"=": ("{} is not allowed", "; did you mean '=='?"),
    r"&": ("{} is not allowed", "; did you mean 'and'?"),
    r"\|": ("{} is not allowed", "; did you mean 'or'?"),
    r"!": ("{} is not allowed", "; did you mean 'not'?"),
    r"\^": ("{} is not allowed", "; did you mean '**'?"),
    r"\Z": ("", ""),
    r"[\s\S]": ("{} is not allowed", ""),
}  # fmt: skip
"""Patterns in the order in which they are tried, each with the reason for refusal and a suggestion;
``("", "")`` for the tokens of the language."""

_WORD = re.compile(rf"{_SPACE}*(?:{'|'.join(f'({pattern})' for pattern in _WORDS)})", re.ASCII)
_REFUSALS = (("", ""), *_WORDS.values())


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a text with their positions, ``""`` at its end; refuse others."""
    for found in _WORD.finditer(text):
        row = found.lastindex or 0
        word, position = found[row], found.start(row)
        refusal, hint = _REFUSALS[row]
        if word in _OTHER_KEYWORDS:
            refusal, hint = "{} is not allowed", "; did you mean '=='?" if word == "is" else ""
        if refusal:
            shown = word if word.isprintable() else f"U+{ord(word):04X}"
            raise ExpressionError(text, position, refusal.format(f"'{shown}'"), hint)
        yield word, position


def _check_order(text: str) -> None:
    """Refuse a text with other words, or whose operands and operators do not alternate.

    Brackets must match, and their nesting is bounded. Calls, lists and the number of compared
    operands are checked in the tree.

    Raises
    ------
    ExpressionError
        At the first error in reading order.
    """
    inside = [("", 2)]  # of each open bracket or `if`: what closes it, and the nesting in it
    nesting, wants_operand = 2, True
    previous, start = "", 0
    for word, position in _words(text):
        (closing, least), reason = inside[-1], ""
        if previous == "not" and not wants_operand and word != "in":
            reason = "'in' is expected, not {},"
        elif word in _CLOSING:
            if word == "(" and not wants_operand and previous.isidentifier():
                _check_function(text, previous, start)
            nesting += 2
            inside.append((_CLOSING[word], nesting))
            wants_operand = True
        elif word and word == closing and (not wants_operand or previous in (*_CLOSING, ",")):
            inside.pop()
            nesting = inside[-1][1]
            wants_operand = word == "else"
        elif wants_operand and word in ("-", "+", "not"):
            nesting += 1
            if word == "not" and previous in _BINDS_CLOSER:
                reason = "a value is expected, not {},"
        elif wants_operand:
            wants_operand = word in ("*", "**") and previous in ("(", ",")  # the tree refuses it
            if not word:
                reason = "the expression ends too early: a value is expected"
            elif word in _NO_OPERANDS and not wants_operand:
                reason = "a value is expected, not {},"
        elif word in _INFIX and not (word == "," and closing == "else"):
            nesting = nesting + 1 if word == "**" else least
            wants_operand = True
            if word == "if":  # what follows its `else` is one level deeper
                inside[-1:] = [(closing, least + 1), ("else", least)]
        elif word != "not" and (word or closing):
            wanted = f"'{closing}'" if closing else "an operator"
            reason = f"{wanted} is expected, not {{}},"
        if nesting > MAX_NESTING:
            reason = "the expression is nested too deeply"
        if reason:
            shown = f"'{word}'" if word[:1] not in ("'", '"', "") else word or "the end"
            raise ExpressionError(text, position, reason.format(shown))
        previous, start = word, position


def _check_function(text: str, name: str, position: int) -> None:
    if name not in FUNCTIONS:
        hint = nearest(name, FUNCTIONS) or f"; functions are {', '.join(sorted(FUNCTIONS))}"
        raise ExpressionError(text, position, f"unknown function '{name}'", hint)


# ---------------------------------------------------------------------------- the tree

_OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.USub: "negate", ast.UAdd: "plus", ast.Not: "not", ast.And: "and",
    ast.Or: "or", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==",
    ast.NotEq: "!=", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def _postorder(text: str, tree: ast.expr) -> Steps:
    """Return the nodes of a tree, each after its operands; ``text`` is in parentheses."""
    steps: list[Step] = []
    waiting = [tree]
    while waiting:  # visits each node before its operands, last operand first; reversed below
        node = waiting.pop()
        operation, argument, operands, infix = _read(text, node)
        position = _find(text, infix, operands[0]) if infix else node.col_offset
        steps.append(Step(operation, argument, len(operands), position - 1))
        waiting += operands
    return tuple(reversed(steps))


def _find(text: str, word: str, before: ast.expr) -> int:
    """Return the position of an operator after an operand; only brackets and space are between."""
    return text.index(word, before.end_col_offset)


def _read(text: str, node: ast.expr) -> tuple[str, Any, list[ast.expr], str]:
    """Return a node's operation, argument, operands and infix operator; refuse other nodes."""
    start, end = node.col_offset, node.end_col_offset or 0
    match node:
        case ast.Name(id=name):
            if name in FUNCTIONS:
                _refuse(text, start, f"the function '{name}' needs its arguments in parentheses")
            return "name", name, [], ""
        case ast.Constant(value=bool()):
            return "constant", node.value, [], ""
        case ast.Constant(value=str()):
            for offset in range(start, end):
                if not text[offset].isprintable():
                    _refuse(text, offset, "a string may hold printable characters only")
            return "constant", text[start + 1 : end - 1], [], ""
        case ast.Constant():
            number = float(text[start:end])
            if number == float("inf"):
                _refuse(text, start, f"the number {text[start:end]} is too large")
            return "constant", number, [], ""
        case ast.BinOp():
            operator = _OPERATORS[type(node.op)]
            return operator, None, [node.left, node.right], operator
        case ast.Compare():
            operators, operands = _read_comparison(text, node)
            return "compare", operators, operands, operators[0][0][:3]
        case ast.BoolOp():
            operator = _OPERATORS[type(node.op)]
            return operator, None, node.values, operator
        case ast.UnaryOp():
            return _OPERATORS[type(node.op)], None, [node.operand], ""
        case ast.IfExp():
            return "select", None, [node.body, node.test, node.orelse], "if"
        case ast.Call():
            return _read_call(text, node), None, node.args, ""
        case ast.Subscript():
            _refuse(text, _find(text, "[", node.value), "subscripts are not allowed")
        case ast.Tuple(elts=[first, *_]):
            reason = "',' may only stand between arguments and in lists after 'in'"
            _refuse(text, _find(text, ",", first), reason)
        case ast.Tuple():
            _refuse(text, start + 1, "a value is expected, not ')',")
        case ast.List():
            _refuse(text, start, "a list may only stand at the right of 'in'")
    _refuse(text, start, "this is not allowed")


def _read_comparison(
    text: str, node: ast.Compare
) -> tuple[tuple[tuple[str, int], ...], list[ast.expr]]:
    """Return the chained operators with their numbers of right operands, and all operands."""
    operators: list[tuple[str, int]] = []
    operands = [node.left]
    before: ast.expr = node.left
    for operator, right in zip(node.ops, node.comparators, strict=True):
        word, members = _OPERATORS[type(operator)], [right]
        if isinstance(before, ast.Tuple | ast.List):
            _refuse(text, _find(text, word[:3], before), "no comparison may follow a list")
        if word in ("in", "not in"):
            opening = _find(text, "in", before) + 2
            opening += len(text[opening:]) - len(text[opening:].lstrip())
            if not isinstance(right, ast.Tuple | ast.List):
                needs = "'in' needs a list at its right, such as (1, 2)"
                single = "a list of one member needs a comma, as in (1,):"
                _refuse(text, opening, single if right.col_offset > opening else needs)
            members = right.elts
        operators.append((word, len(members)))
        operands += members
        before = right
    return tuple(operators), operands


def _read_call(text: str, node: ast.Call) -> str:
    """Return the name of a function after checking its name and number of arguments."""
    opening = _find(text, "(", node.func)
    if not isinstance(node.func, ast.Name) or ")" in text[node.func.end_col_offset : opening]:
        _refuse(text, opening, "only functions with a name can be called")
    name, count, start = node.func.id, len(node.args), node.col_offset
    for argument in (*node.args, *node.keywords):
        if isinstance(argument, ast.Starred | ast.keyword):
            _refuse(text, argument.col_offset, "unpacking is not allowed")
    least, most = FUNCTIONS[name]
    if count < least or count > (most or count):
        wanted = f"{'at least ' * (most is None)}{least} argument{'s' * (least > 1)}"
        _refuse(text, start, f"'{name}' takes {wanted}, not {count},")
    return name


def _refuse(text: str, position: int, reason: str, hint: str = "") -> NoReturn:
    """Raise the error at a position of a text in parentheses."""
    raise ExpressionError(text[1:-1], position - 1, reason, hint)
