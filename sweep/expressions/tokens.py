"""From the text of an expression to its words: names, numbers, strings and operators.

The words are produced one at a time, so that the first offence in reading order is the one that is
reported, and nothing is read beyond it.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import NamedTuple

from sweep.expressions.error import ExpressionError

__all__ = ["MAX_DIGITS", "MAX_LENGTH", "WORDS", "Token", "tokens"]

MAX_LENGTH = 2000
"""Most characters that an expression may have."""

MAX_DIGITS = 40
"""Most digits that a number may have: more than a float64 can tell apart."""

WORDS = frozenset({"and", "or", "not", "in", "if", "else", "True", "False"})
"""Python's keywords that are part of the language; the others are refused."""

_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DIGITS = r"[0-9](?:_?[0-9])*"
_NUMBER = re.compile(rf"(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_GLUED = re.compile(r"[A-Za-z0-9_.]")
_STRING = re.compile(r"'[^'\\\r\n]*'|\"[^\"\\\r\n]*\"")
_OPERATOR = re.compile(r"\*\*|//|<=|>=|==|!=|[-+*/%()<>,\[\]]")

_REFUSED = {
    ".": "attribute access is not allowed",
    ":": "':' is not allowed (no assignments, slices or lambdas)",
    "{": "'{' is not allowed (no sets or dictionaries)",
    "\\": "'\\' is not allowed",
}
_MEANT = {"=": "==", "&": "and", "|": "or", "!": "not", "^": "**"}


class Token(NamedTuple):
    """One word of an expression: its kind, its value and where it starts.

    ``kind`` is ``"number"``, ``"string"``, ``"name"``, ``"word"`` (a keyword), ``"operator"`` or
    ``"end"``; ``value`` is the float, the string's content, or the spelling itself.
    """

    kind: str
    value: float | str
    position: int
    spelling: str


def tokens(text: str) -> Iterator[Token]:
    """Yield the words of ``text``, ending with one of kind ``"end"``.

    Raises
    ------
    ExpressionError
        At the first character that cannot start a word, and if the text is too long or empty.
    """
    if len(text) > MAX_LENGTH:
        reason = f"the expression is longer than {MAX_LENGTH} characters,"
        raise ExpressionError(text, MAX_LENGTH, reason)
    if not text.strip():
        raise ExpressionError(text, 0, "the expression is empty: a value is expected")
    position = 0
    while True:
        position = _match_end(_SPACE, text, position)
        if position == len(text):
            yield Token("end", "", position, "the end")
            return
        token, position = _token(text, position)
        yield token


def _match_end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _token(text: str, position: int) -> tuple[Token, int]:
    """Return the word that starts at ``position`` and where it ends."""
    if match := _NUMBER.match(text, position):
        return Token("number", _number(text, match), position, match.group()), match.end()
    if match := _NAME.match(text, position):
        name, end = match.group(), match.end()
        if text[end : end + 1] in ("'", '"') and name not in WORDS:
            raise ExpressionError(text, position, f"a string with prefix '{name}' is not allowed")
        if keyword.iskeyword(name) and name not in WORDS:
            hint = "; did you mean '=='?" if name == "is" else ""
            raise ExpressionError(text, position, f"'{name}' is not allowed", hint)
        return Token("word" if name in WORDS else "name", name, position, name), end
    if match := _STRING.match(text, position):
        return Token("string", _string(text, match), position, match.group()), match.end()
    if match := _OPERATOR.match(text, position):
        return Token("operator", match.group(), position, match.group()), match.end()
    raise _refusal(text, position)


def _number(text: str, match: re.Match[str]) -> float:
    """Return the value of a decimal literal, refusing what is no plain number of sensible size."""
    literal, position = match.group(), match.start()
    if _GLUED.match(text, match.end()):
        shown = literal + text[match.end()]
        raise ExpressionError(text, position, f"'{shown}' does not start a plain decimal number")
    if sum(c.isdigit() for c in literal) > MAX_DIGITS:
        raise ExpressionError(text, position, f"a number may have at most {MAX_DIGITS} digits")
    if literal.isdigit() and literal != "0" and literal.startswith("0"):
        raise ExpressionError(text, position, "a number may not start with 0")
    value = float(literal)
    if value == float("inf"):
        raise ExpressionError(text, position, f"the number {literal} is too large")
    return value


def _string(text: str, match: re.Match[str]) -> str:
    content = match.group()[1:-1]
    for offset, character in enumerate(content, match.start() + 1):
        if not character.isprintable():
            raise ExpressionError(text, offset, "a string may hold printable characters only")
    return content


def _refusal(text: str, position: int) -> ExpressionError:
    """Return the error about a character that starts no word of the language."""
    character = text[position]
    if character in "'\"":
        reason, hint = "the string is not closed, or holds a backslash or a line break", ""
    elif character in _REFUSED:
        reason, hint = _REFUSED[character], ""
    else:
        shown = character if character.isprintable() else f"U+{ord(character):04X}"
        reason = f"'{shown}' is not allowed"
        hint = f"; did you mean '{_MEANT[character]}'?" if character in _MEANT else ""
    return ExpressionError(text, position, reason, hint)
