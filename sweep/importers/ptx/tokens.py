"""Split PTX text into tokens with their lines; read declarations of variables."""

from __future__ import annotations

import re
from bisect import bisect_right

from sweep.importers.ptx.module import ISA, PtxError, Variable

VARIABLES = ISA["directives"]["variables"]
"""The state spaces of variables."""

LARGEST_VARIABLE = 2**40
"""Largest size of an array [bytes]; no GPU has more memory."""

_TYPES = ISA["types"]
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}

# Quantifiers of characters are possessive, so that hostile text cannot cause backtracking. (Those
# of groups, and atomic groups, have a bug before Python 3.11.5. After all blanks some token or the
# fault matches, so that the expression never goes back into them.) `#` begins lines of the C
# preprocessor, `@@DWARF` debugging data of PTX before 2.0; `.loc` and `.file` refer to the source.
_BLANK = r"\s++|//[^\n]*+|/\*[\s\S]*?\*/|\#[^\n]*+|@@DWARF[^\n]*+|\.(?:loc|file)(?!\w)[^\n]*+"
_WORD = r"[%$_A-Za-z][\w$%]*+(?:\.\w++(?:::\w++)*)*"
_NUMBER = (
    r"0[xX][0-9A-Fa-f]++U?|0[fFdD][0-9A-Fa-f]++|0[bB][01]++U?"
    r"|[0-9]++\.[0-9]*+(?:[eE][-+]?[0-9]++)?|[0-9]++(?:[eE][-+]?[0-9]++)?U?"
)
_TOKEN = re.compile(
    rf"(?:{_BLANK})*(?:(?P<word>{_WORD})|(?P<directive>\.[A-Za-z_]\w*+(?:::\w++)*)"
    rf"|(?P<number>{_NUMBER})(?!\w)|(?P<string>\"(?:[^\"\\\n]|\\[^\n])*\")"
    r"|(?P<mark>[{}\[\](),;:@!<>=|+*&^~?.-]|/(?!\*))|(?P<end>\Z)|(?P<fault>[\s\S]))",
    re.ASCII,
)
_UNCLOSED = {"/": "the comment is not closed", '"': "the string is not closed"}


class Tokens:
    """The tokens of a text; ``kind`` and ``text`` describe the current one.

    Kinds are ``word`` (with its suffixes: ``ld.global.f32``, ``%tid.x``), ``directive``
    (``.entry``), ``number``, ``string``, ``mark`` and ``end``.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._newlines = [match.start() for match in re.finditer("\n", source)]
        self._next = 0
        self.advance()

    def advance(self) -> None:
        """Move to the next token."""
        match = _TOKEN.match(self._source, self._next)
        assert match is not None and match.lastgroup is not None  # every alternative is a group
        self.kind, self.text, self._next = match.lastgroup, match[match.lastgroup], match.end()
        self._start = match.start(self.kind)
        if self.kind == "fault":
            is_printable = self.text.isprintable()
            shown = f"'{self.text}'" if is_printable else f"the character U+{ord(self.text):04X}"
            raise self.error(_UNCLOSED.get(self.text, f"{shown} is not PTX"))

    @property
    def line(self) -> int:
        """The line of the current token, from 1."""
        return bisect_right(self._newlines, self._start - 1) + 1

    def error(self, reason: str) -> PtxError:
        """Return an error at the current token."""
        return PtxError(reason, self.line)

    def expected(self, wanted: str) -> PtxError:
        """Return an error that another token was expected."""
        text = self.text if len(self.text) <= 40 else self.text[:40] + "..."
        found = "the end of the text" if self.kind == "end" else f"'{text}'"
        return self.error(f"{wanted} is expected, not {found}")

    def take(self, kind: str, wanted: str) -> str:
        """Return the current token, which must be of this kind, and move on."""
        if self.kind != kind:
            raise self.expected(wanted)
        text = self.text
        self.advance()
        return text

    def accept(self, mark: str) -> bool:
        """Move past a mark if it is the current token."""
        found = self.text == mark
        if found:
            self.advance()
        return found

    def expect(self, mark: str) -> None:
        """Move past a mark that must be the current word."""
        if not self.accept(mark):
            raise self.expected(f"'{mark}'")

    def skip_to(self, marks: str) -> None:
        """Move to the next of some marks that is not inside parentheses or braces."""
        depth, line = 0, self.line
        while depth > 0 or self.kind != "mark" or self.text not in marks:
            if self.kind == "end":
                raise PtxError(f"'{marks[-1]}' is missing", line)
            if self.kind == "mark":
                depth += (self.text in "({") - (self.text in ")}")
            self.advance()

    def skip_over(self, mark: str) -> None:
        """Move past the next mark of this kind that is not inside parentheses or braces."""
        self.skip_to(mark)
        self.advance()

    def integer(self) -> int:
        """Return the whole number here, with its sign, and move on."""
        sign = -1 if self.accept("-") else 1
        value = integer_of(self.text) if self.kind == "number" else None
        if value is None:
            raise self.expected("a whole number")
        self.advance()
        return sign * value

    def declarations(self, *, single: bool = False) -> list[Variable]:
        """Read ``.space .align n .type name[size], ...`` up to its end, which is not consumed.

        A comma ends a ``single`` declaration.
        """
        space = self.text[1:]
        self.advance()
        if space == "const" and self.accept("["):  # the banks of PTX before 2.0
            self.integer()
            self.expect("]")
        element, alignment, points_to = self._attributes(space)
        found: list[Variable] = []
        while True:
            name = self.take("word", "the name of a variable")
            count = None
            if self.accept("<"):
                count = self.integer()
                self.expect(">")
            size = self._array(element)
            if self.accept("="):
                self.skip_to(",;")
            found.append(Variable(space, name, size, alignment, points_to, count))
            if single or not self.accept(","):
                return found

    def _attributes(self, space: str) -> tuple[int, int, str]:
        """Read the size of an element, its alignment, and the state space of a pointer."""
        kind, vector, alignment, points_to = "", 1, 0, ""
        is_pointer = False
        while self.kind == "directive":
            word = self.text[1:]
            self.advance()
            if word in _TYPES:
                kind = word
            elif word in _VECTORS:
                vector = _VECTORS[word]
            elif word == "align":
                alignment = self.integer()
                if not 0 < alignment <= 2**16:
                    raise self.error(f"an alignment of {alignment} bytes")
            elif word == "attribute":
                self.expect("(")
                self.skip_over(")")
            elif is_pointer and f".{word}" in VARIABLES:
                points_to = word
            elif word not in ("ptr", "unified", "param", "reg"):
                raise self.error(f"'.{word}' is no type")
            is_pointer |= word == "ptr"
        if not kind and space != "tex":
            raise self.expected("a type such as .b32")
        size = _TYPES[kind or "u64"] * vector
        # An alignment after .ptr is that of the target of the pointer.
        return size, (not is_pointer and alignment) or max(size, 1), points_to

    def _array(self, element: int) -> int | None:
        """Read ``[2][4]`` and return the size in bytes; ``None`` for ``[]``."""
        size, is_open = element, False
        while self.accept("["):
            if self.accept("]"):
                is_open = True
                continue
            length = self.integer()
            while 0 <= length <= LARGEST_VARIABLE and self.accept("*"):
                length *= self.integer()
            if not 0 <= size * length <= LARGEST_VARIABLE or length > LARGEST_VARIABLE:
                raise self.error(f"an array of {length} elements")
            self.expect("]")
            size *= length
        return None if is_open else size


def integer_of(text: str) -> int | None:
    """Return the value of an integer literal (decimal, octal, hexadecimal, binary), else None."""
    digits = text.removeprefix("-").rstrip("U").lower()
    is_octal = digits[:1] == "0" and digits.isdigit()
    try:
        value = int(digits, 8 if is_octal else 0) if len(digits) <= 70 else None
    except ValueError:
        return None
    return -value if value and text[0] == "-" else value
