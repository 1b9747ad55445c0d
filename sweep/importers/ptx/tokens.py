"""From PTX text to words, one at a time, each with its place."""

from __future__ import annotations

import re
from bisect import bisect_right

from sweep.importers.ptx.module import PtxError

__all__ = ["Tokens"]

# Nothing follows what is repeated here, so that nothing is tried in many ways, however hostile a
# text is. (Atomic groups would say the same, but before Python 3.11.5 they lose their place.)
# `#` begins lines of the C preprocessor, `@@DWARF` debugging data of PTX before 2.0.
_BLANK = re.compile(r"(?:\s++|//[^\n]*+|/\*[\s\S]*?\*/|\#[^\n]*+|@@DWARF[^\n]*+)*", re.ASCII)
_WORD = r"[%$_A-Za-z][\w$%]*+(?:\.\w++(?:::\w++)*)*"
_NUMBER = (
    r"0[xX][0-9A-Fa-f]++U?|0[fFdD][0-9A-Fa-f]++|0[bB][01]++U?"
    r"|[0-9]++\.[0-9]*+(?:[eE][-+]?[0-9]++)?|[0-9]++(?:[eE][-+]?[0-9]++)?U?"
)
_TOKEN = re.compile(
    rf"(?P<word>{_WORD})|(?P<directive>\.[A-Za-z_]\w*+(?:::\w++)*)"
    rf"|(?P<number>{_NUMBER})(?!\w)|(?P<string>\"(?:[^\"\\\n]|\\[^\n])*\")"
    r"|(?P<mark>[{}\[\](),;:@!<>=|+*&^~?.-]|/(?!\*))",
    re.ASCII,
)


class Tokens:
    """The words of a text; ``kind`` and ``text`` are those of the present one.

    Kinds are ``word`` (with its suffixes: ``ld.global.f32``, ``%tid.x``), ``directive``
    (``.entry``), ``number``, ``string``, ``mark`` and ``end``.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._newlines = [match.start() for match in re.finditer("\n", source)]
        self._next = 0
        self.start = 0
        self.kind = ""
        self.text = ""
        self.advance()

    def advance(self) -> None:
        """Go on to the next word."""
        blank = _BLANK.match(self._source, self._next)
        assert blank is not None  # it matches nothing, too
        match = _TOKEN.match(self._source, blank.end())
        if match is None:
            self._finish(blank.end())
            return
        kind = match.lastgroup
        assert kind is not None  # one of the groups has matched
        self.kind = kind
        self.text = match[kind]
        self.start = match.start(kind)
        self._next = match.end()

    def _finish(self, end: int) -> None:
        self.kind, self.text, self.start = "end", "", end
        self._next = end
        if self._next == len(self._source):
            return
        character = self._source[self._next]
        if self._source.startswith("/*", self._next):
            reason = "the comment is not closed"
        elif character == '"':
            reason = "the string is not closed"
        elif character.isprintable():
            reason = f"'{character}' is not PTX"
        else:
            reason = f"the character U+{ord(character):04X} is not PTX"
        raise PtxError(reason, self.line)

    def skip_line(self) -> None:
        """Go on to the first word after the present word's line."""
        end = self._source.find("\n", self.start)
        self._next = len(self._source) if end < 0 else end
        self.advance()

    @property
    def line(self) -> int:
        """The line of the present word, from 1."""
        return bisect_right(self._newlines, self.start - 1) + 1

    def error(self, reason: str) -> PtxError:
        """Return an error at the present word."""
        return PtxError(reason, self.line)

    def shown(self) -> str:
        """Return the present word for a message."""
        if self.kind == "end":
            return "the end of the text"
        text = self.text if len(self.text) <= 40 else self.text[:40] + "..."
        return f"'{text}'"

    def take(self, kind: str, wanted: str) -> str:
        """Return the present word, which must be of a kind, and go on."""
        if self.kind != kind:
            raise self.error(f"{wanted} is expected, not {self.shown()}")
        text = self.text
        self.advance()
        return text

    def expect(self, mark: str) -> None:
        """Go on past a mark that must be here."""
        if self.text != mark or self.kind != "mark":
            raise self.error(f"'{mark}' is expected, not {self.shown()}")
        self.advance()

    def sees(self, mark: str) -> bool:
        """Whether the present word is this mark."""
        return self.kind == "mark" and self.text == mark

    def accept(self, mark: str) -> bool:
        """Go on past a mark if it is here."""
        if self.kind == "mark" and self.text == mark:
            self.advance()
            return True
        return False

    def skip_to(self, mark: str) -> None:
        """Go on past the next such mark."""
        while not self.sees(mark):
            if self.kind == "end":
                raise self.error(f"'{mark}' is missing")
            self.advance()
        self.advance()

    def skip_block(self) -> None:
        """Go on past a block in braces."""
        line = self.line
        self.expect("{")
        depth = 1
        while depth:
            if self.kind == "end":
                raise PtxError("the block is not closed: '}' is missing", line)
            depth += self.sees("{") - self.sees("}")
            self.advance()

    def integer(self) -> int:
        """Return the whole number here, with its sign, and go on."""
        sign = -1 if self.accept("-") else 1
        if self.kind == "number":
            value = integer_of(self.text)
            if value is not None:
                self.advance()
                return sign * value
        raise self.error(f"a whole number is expected, not {self.shown()}")


def integer_of(text: str) -> int | None:
    """Return the value of an integer literal (decimal, octal, hexadecimal, binary), else None."""
    digits = text.rstrip("U").lower()
    if not digits.lstrip("-") or len(digits) > 70:
        return None
    sign, digits = (-1, digits[1:]) if digits[0] == "-" else (1, digits)
    base = {"0x": 16, "0b": 2}.get(digits[:2], 8 if digits[0] == "0" else 10)
    try:
        return sign * int(digits[2:] if base in (2, 16) else digits, base)
    except ValueError:
        return None
