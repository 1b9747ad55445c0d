"""Declarations of variables, parameters and registers."""

from __future__ import annotations

from collections.abc import Callable

from sweep.importers.ptx.module import Variable, bytes_of_type
from sweep.importers.ptx.tokens import Tokens

__all__ = ["Declare", "parse_variables"]

Declare = Callable[[str, str, int | None], None]
"""Called with the name, type and family size of each register."""

LARGEST_VARIABLE = 2**40
"""More bytes than any GPU has: an array of more is a mistake."""

_TYPES = frozenset(
    f".{name}"
    for name in (
        "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f16 f16x2 f32 f64 bf16 bf16x2 tf32 pred"
        " f32x2 u128 texref samplerref surfref e4m3 e5m2 e4m3x2 e5m2x2"
    ).split()
)
_VECTORS = {".v2": 2, ".v4": 4, ".v8": 8}
_POINTED = (".const", ".global", ".local", ".shared")


def parse_variables(
    tokens: Tokens, declare: Declare | None, *, single: bool = False
) -> list[Variable]:
    """Read ``.space .align n .type name[size], ...`` up to (not past) its end.

    Parameters
    ----------
    tokens : Tokens
        At the state space.
    declare : callable, optional
        Takes the registers of a ``.reg`` declaration, which otherwise come back as variables.
    single : bool
        Whether a comma ends the declaration, as between parameters.

    Returns
    -------
    list of Variable
        The variables.

    Raises
    ------
    PtxError
        Where the declaration is wrong.
    """
    line = tokens.line
    space = tokens.text[1:]
    tokens.advance()
    if space == "const" and tokens.accept("["):  # the banks of PTX before 2.0
        tokens.integer()
        tokens.expect("]")
    kind, vector, alignment, pointed = _attributes(tokens, space)
    element = bytes_of_type(kind[1:]) * vector
    found: list[Variable] = []
    while True:
        name = tokens.take("word", "the name of a variable")
        count = None
        if tokens.accept("<"):
            count = tokens.integer()
            tokens.expect(">")
        size = _array(tokens, element)
        if tokens.accept("="):
            _skip_initial_value(tokens)
        if space == "reg" and declare is not None:
            declare(name, f"v{vector}.{kind[1:]}" if vector > 1 else kind[1:], count)
        else:
            found.append(Variable(space, name, size, alignment or max(element, 1), line, pointed))
        if single or not tokens.accept(","):
            return found


def _attributes(tokens: Tokens, space: str) -> tuple[str, int, int, str]:
    """Read type, vector length, alignment (0 if not given) and what a pointer points to."""
    kind, vector, alignment, pointed = "", 1, 0, ""
    is_pointer = False
    while tokens.kind == "directive":
        text = tokens.text
        tokens.advance()
        if text in _TYPES:
            kind = text
        elif text in _VECTORS:
            vector = _VECTORS[text]
        elif text == ".align":
            alignment = tokens.integer()
            if not 0 < alignment <= 2**16:
                raise tokens.error(f"an alignment of {alignment} bytes")
        elif text == ".ptr":
            is_pointer = True
        elif is_pointer and text in _POINTED:
            pointed = text[1:]
        elif text == ".attribute":
            tokens.skip_to(")")
        elif text not in (".unified", ".param", ".reg"):
            raise tokens.error(f"'{text}' is no type")
    if not kind and space != "tex":
        raise tokens.error(f"a type such as .b32 is expected, not {tokens.shown()}")
    # An alignment after .ptr is that of what the pointer points to.
    return kind or ".u64", vector, 0 if is_pointer else alignment, pointed


def _array(tokens: Tokens, element: int) -> int | None:
    """Read ``[2][4]`` and return the size in bytes; ``None`` for ``[]``."""
    size: int | None = element
    while tokens.accept("["):
        if tokens.accept("]"):
            size = None
            continue
        length = tokens.integer()
        while tokens.accept("*"):
            length *= tokens.integer()
        tokens.expect("]")
        if not 0 <= length <= LARGEST_VARIABLE or (size or 0) * length > LARGEST_VARIABLE:
            raise tokens.error(f"an array of {length} elements")
        size = None if size is None else size * length
    return size


def _skip_initial_value(tokens: Tokens) -> None:
    """Go on to the comma or semicolon that ends an initial value."""
    depth = 0
    while depth or not (tokens.sees(",") or tokens.sees(";")):
        if tokens.kind == "end":
            raise tokens.error("';' is missing")
        if tokens.kind == "mark":
            depth += (tokens.text in "({") - (tokens.text in ")}")
        tokens.advance()
