"""What an access to memory looks like to a kernel file: words, their width, how a warp's lie."""

from __future__ import annotations

from typing import NamedTuple

from sweep.importers.ptx.addresses import RUNTIME, Value, Values
from sweep.importers.ptx.classes import LARGEST_WORD, Meaning
from sweep.importers.ptx.module import Address, Instruction

__all__ = ["Block", "Shape", "shapes_of"]

Block = tuple[int, int, int]
"""Threads of a block in x, y and z."""

WARP = 32


class Shape(NamedTuple):
    """One kind of access; accesses of the same shape are counted together.

    Attributes
    ----------
    space : str
        ``global`` (local memory and textures included) or ``shared``.
    direction : str
        ``load`` or ``store``.
    bytes : int
        Word of a thread; wider accesses are several words.
    words : int
        Words of a thread in one instruction.
    pattern : str
        As in kernel files.
    x, y, z : int
        For pattern ``affine`` the distances of threads, for ``strided`` that in x [words].
    assumed : str
        Why the pattern is assumed; ``""`` where it follows from the addresses.
    origin : str
        What the memory is, where it is not plain: ``local memory``, ``texture``, ``atomic``.
    """

    space: str
    direction: str
    bytes: int
    words: int
    pattern: str
    x: int = 0
    y: int = 0
    z: int = 0
    assumed: str = ""
    origin: str = ""


def shapes_of(
    instruction: Instruction, meaning: Meaning, values: Values, block: Block | None
) -> tuple[Shape, ...]:
    """Return the accesses of an instruction; none for what turns out to read constants.

    Parameters
    ----------
    instruction : Instruction
        An access.
    meaning : Meaning
        What it counts as.
    values : Values
        What is known of the registers.
    block : tuple of int or None
        Width, height and depth of a block, where they are known.
    """
    addresses = [o for o in instruction.operands if isinstance(o, Address)]
    found = [values.of(address) for address in addresses]
    if meaning.also_shared:
        to, source = (*found, Value(is_affine=False), Value(is_affine=False))[:2]
        return (
            _shape("global", meaning.direction, meaning.bytes, source, block),
            _shape("shared", meaning.also_shared, meaning.bytes, to, block),
        )
    value = found[0] if found else Value(is_affine=False)
    space = meaning.kind
    origin = "atomic" if instruction.opcode in ("atom", "red") else ""
    if space == "generic":
        space = value.space or "global"
        if space in ("const", "param"):
            return ()
    if space == "local":
        # The words of a warp's threads lie beside each other.
        size, words = _words(meaning.bytes)
        origin = "local memory"
        return (Shape("global", meaning.direction, size, words, "coalesced", origin=origin),)
    if space == "texture":
        size, words = _words(meaning.bytes)
        why = "the layout of a texture is not in the PTX"
        return (
            Shape("global", meaning.direction, size, words, "coalesced", 0, 0, 0, why, "texture"),
        )
    if instruction.opcode in ("wmma", "ldmatrix", "stmatrix"):
        value = value._replace(x=RUNTIME)  # one address stands for a row of a matrix
        shape = _shape(space, meaning.direction, meaning.bytes, value, block, origin)
        pattern = "strided" if space == "shared" else "coalesced"
        why = "a warp accesses a matrix together"
        return (shape._replace(pattern=pattern, assumed=why),)
    return (_shape(space, meaning.direction, meaning.bytes, value, block, origin),)


def _words(size: int) -> tuple[int, int]:
    """Return word size and number of words of an access; 4 bytes where nothing is told."""
    size = size or 4
    return (size, 1) if size <= LARGEST_WORD else (LARGEST_WORD, -(-size // LARGEST_WORD))


def _shape(
    space: str, direction: str, size: int, value: Value, block: Block | None, origin: str = ""
) -> Shape:
    word, words = _words(size)
    shape = Shape(space, direction, word, words, "coalesced", origin=origin)
    if space == "shared":
        shape = shape._replace(pattern="strided", x=1)
    if not value.is_affine:
        return shape._replace(assumed="the address is no linear function of the thread's index")
    if not size:
        return shape._replace(assumed="the opcode does not tell how much is accessed")
    across = _across_rows(shape, value, block)
    if across is not None:
        return across
    found = _shared(shape, value, size) if space == "shared" else _global(shape, value, size)
    if _has_short_rows(block) and RUNTIME in (value.y, value.z) and not found.assumed:
        why = "a warp holds several rows, whose distance is only known at run time"
        return found._replace(assumed=why)
    return found


def _has_short_rows(block: Block | None) -> bool:
    """Whether a warp holds several rows of a block."""
    return block is not None and block[0] % WARP != 0 and block[1] * block[2] > 1


def _across_rows(shape: Shape, value: Value, block: Block | None) -> Shape | None:
    """Return the shape where a warp holds several rows of a block and all distances are known."""
    if not _has_short_rows(block) or shape.words > 1:
        return None
    if value.y == 0 and value.z == 0 and value.x == 0:
        return None
    distances = []
    for distance in value[:3]:
        if distance is RUNTIME or distance % shape.bytes:
            return None
        distances.append(distance // shape.bytes)
    x, y, z = distances
    return shape._replace(pattern="affine", x=x, y=y, z=z)


def _shared(shape: Shape, value: Value, size: int) -> Shape:
    if value.x is RUNTIME:
        return shape._replace(assumed="the distance of two threads is only known at run time")
    if abs(value.x) % shape.bytes:
        rounded = -(-abs(value.x) // shape.bytes)
        why = f"{abs(value.x)} bytes from thread to thread are no whole words"
        return shape._replace(x=rounded, assumed=why)
    return shape._replace(x=1 if abs(value.x) == size else abs(value.x) // shape.bytes)


def _global(shape: Shape, value: Value, size: int) -> Shape:
    if value.x is RUNTIME:
        why = "the distance of two threads is only known at run time"
        return shape._replace(pattern="uncoalesced", assumed=why)
    distance = abs(value.x)
    if distance == 0:
        return shape._replace(pattern="broadcast")
    if value.x == -size:
        return shape._replace(assumed="the words run backwards: taken to end at a segment's end")
    if distance == size:
        # A warp's first word must begin a segment (of half a warp on the earliest devices).
        is_aligned = value.alignment >= min(max(16 * size, WARP), 128)
        return shape._replace(pattern="coalesced" if is_aligned else "misaligned")
    if distance % shape.bytes:
        rounded = -(-distance // shape.bytes)
        why = f"{distance} bytes from thread to thread are no whole words"
        return shape._replace(
            pattern="strided" if rounded > 1 else "coalesced", x=rounded, assumed=why
        )
    return shape._replace(pattern="strided", x=distance // shape.bytes)
