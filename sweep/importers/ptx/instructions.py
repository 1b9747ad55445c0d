"""Classify the instructions of PTX ISA 1.0 to 9.0: instruction class or memory accesses.

The classes are those of kernel files. Some rules:

- Half and narrower floating-point types count as ``fp32``, matrix (tensor core) instructions by the
  type of their accumulator; kernel files have no separate class for either.
- Reciprocals, roots, logarithms, exponentials, sines and divisions of single precision are
  ``special``; exact ones of double precision are ``fp64``, integer divisions ``integer``, although
  all three compile to several instructions.
- Comparisons count by the type of their operands, selections and predicates as ``integer``.
- Kernel parameters and constants nearly always hit in the constant cache, so reading one is a
  ``move``, and so are conversions between address spaces and exchanges between
  the lanes of a warp.
- A barrier makes a block's threads wait for each other. Instructions that only signal arrival,
  order memory accesses or synchronise a warp are ``control``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from sweep.importers.ptx.lanes import Numbers, sectors_of, wavefronts_of
from sweep.importers.ptx.module import ISA, Instruction
from sweep.importers.ptx.registers import UNKNOWN, WARP, Sides, Value, Values

LARGEST_WORD = 16
"""Size of the widest access per thread in kernel files [bytes]."""


@dataclass(frozen=True)
class Meaning:
    """How an instruction is counted.

    Attributes
    ----------
    kind : str
        A class of instruction, ``barrier``, or the state space of an access to memory: ``global``,
        ``shared``, ``local``, ``generic``, ``texture``.
    direction : str
        ``load`` or ``store``, ``""`` for anything but an access.
    bytes : int
        Bytes accessed by a thread, 0 if the text does not specify it.
    also_shared : str
        Direction of a second access, to shared memory (asynchronous copies), else ``""``.
    is_known : bool
        Whether the opcode exists in PTX.
    has_clue : bool
        For an unknown opcode, whether its types or state space determine the class.
    remark : str
        A limit of the count, ``""`` if there is none.
    """

    kind: str
    direction: str = ""
    bytes: int = 0
    also_shared: str = ""
    is_known: bool = True
    has_clue: bool = True
    remark: str = ""


class Shape(NamedTuple):
    """One kind of access; accesses of the same shape are counted together.

    Attributes
    ----------
    space : str
        ``global`` (local memory and textures included) or ``shared``.
    direction : str
        ``load`` or ``store``.
    bytes : int
        Word size per thread; wider accesses consist of several words.
    words : int
        Words per thread in one instruction.
    pattern : str
        The access pattern, as in kernel files.
    x, y, z : int
        Distances between threads for pattern ``affine``; for ``strided``, the one in x [words].
    assumed : str
        Why the pattern is assumed; ``""`` if it follows from the addresses.
    origin : str
        A special kind of memory: ``local memory``, ``texture``, ``atomic``; else ``""``.
    transactions : float
        Sectors, or passes through the banks, of a warp's word where no pattern says it; else 0.
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
    transactions: float = 0.0


_CLASS_OF = {opcode: kind for kind, opcodes in ISA["classes"].items() for opcode in opcodes}
_OPCODES = {key: frozenset(opcodes) for key, opcodes in ISA["opcodes"].items()}
_FLOATS = frozenset(ISA["numbers"]["floats"])
_NUMBERS = _FLOATS.union(ISA["numbers"]["others"])
_SPACES = ("global", "shared", "local", "const", "param", "tex")
_UNSIZED = "copies as much as a register says: its access to memory is not counted"
_PRODUCT = "multiplies whole matrices and counts as one instruction"
_SHORT_ROWS = "a warp holds several rows, whose distance is only known at run time"


def meaning_of(instruction: Instruction) -> Meaning:
    """Return how an instruction is counted.

    Parameters
    ----------
    instruction : Instruction
        Any instruction.

    Returns
    -------
    Meaning
        The classification of an unknown opcode follows from its types and state space, or is
        ``integer`` without these.
    """
    known = _by_opcode(instruction.opcode, instruction.modifiers)
    if known is not None:
        return known
    if instruction.opcode == "cp":
        return _copy(instruction)
    if instruction.opcode in _OPCODES["matrix"]:
        return _matrix(instruction)
    return _unknown(instruction)


@lru_cache(maxsize=4096)
def _by_opcode(opcode: str, modifiers: tuple[str, ...]) -> Meaning | None:
    """Return how a known instruction is counted if its operands do not matter."""
    if opcode in _CLASS_OF:
        return Meaning(_CLASS_OF[opcode])
    if opcode in _OPCODES["by_type"] or opcode in _OPCODES["special"]:
        return Meaning(_arithmetic(opcode, modifiers))
    if opcode in _OPCODES["loads"] or opcode in _OPCODES["stores"]:
        return _access(opcode, modifiers)
    if opcode in ("bar", "barrier"):
        return Meaning("barrier" if _waits(modifiers) else "control")
    if opcode == "multimem" and "bulk" in modifiers:
        return Meaning("control", remark=_UNSIZED)
    if opcode == "multimem":
        is_load = modifiers[:1] == ("ld_reduce",)
        return Meaning("global", "load" if is_load else "store", _bytes(modifiers))
    return None


def _arithmetic(opcode: str, modifiers: tuple[str, ...]) -> str:
    """Return the class that follows from an instruction's types; comparisons name theirs last."""
    kind = _class_of_types(modifiers[-1:] if opcode == "set" else modifiers)
    if opcode not in _OPCODES["special"] or kind == "integer":
        return kind
    return "fp64" if kind == "fp64" and "approx" not in modifiers else "special"


def _class_of_types(modifiers: tuple[str, ...]) -> str:
    if "f64" in modifiers:
        return "fp64"
    return "fp32" if not _FLOATS.isdisjoint(modifiers) else "integer"


def _waits(modifiers: tuple[str, ...]) -> bool:
    """Return whether a barrier instruction waits for other warps (``bar.arrive`` does not)."""
    if "warp" in modifiers:
        return False
    if "cluster" in modifiers:
        return "wait" in modifiers
    return "sync" in modifiers or "red" in modifiers


def _space(modifiers: tuple[str, ...]) -> str:
    for modifier in modifiers:
        space = modifier.partition("::")[0].partition("[")[0]
        if space in _SPACES:
            return space
    return "generic"


def _access(opcode: str, modifiers: tuple[str, ...]) -> Meaning:
    if opcode == "st" and modifiers[:1] == ("bulk",):
        return Meaning("control", remark=_UNSIZED)
    direction = "load" if opcode in _OPCODES["loads"] else "store"
    if opcode in ("ldmatrix", "stmatrix"):  # a thread has one 32-bit register per matrix
        sizes = (4 * int(m[1:]) for m in modifiers if m in ("x1", "x2", "x4"))
        return Meaning("shared", direction, next(sizes, 4))
    space = _space(modifiers)
    if space == "tex" or opcode in _OPCODES["texture"]:
        space = "texture"
    elif space in ("const", "param"):
        return Meaning("move")
    elif opcode in ("st", "red") and modifiers[:1] == ("async",):
        space = "shared"  # of another block of the cluster
    return Meaning(space, direction, _bytes(modifiers))


def _bytes(modifiers: tuple[str, ...]) -> int:
    """Return the size of a thread's access: vector length times element size."""
    length, size = 1, 0
    for modifier in modifiers:
        if modifier in ("v2", "v4", "v8"):
            length = int(modifier[1:])
        elif not size:  # the first type of a texture instruction is that of its result
            size = ISA["types"].get(modifier, 0)
    return length * size


def _copy(instruction: Instruction) -> Meaning:
    """Classify asynchronous copies; a register contains the size of bulk copies."""
    modifiers = instruction.modifiers
    has_addresses = bool(instruction.addresses)
    if "bulk" in modifiers and has_addresses:
        return Meaning("control", remark=_UNSIZED)
    if modifiers[:1] != ("async",) or not has_addresses or "mbarrier" in modifiers:
        return Meaning("control")
    sizes = [o for o in instruction.operands if isinstance(o, str) and o in ("4", "8", "16")]
    return Meaning("global", "load", int(sizes[0]) if sizes else LARGEST_WORD, also_shared="store")


def _matrix(instruction: Instruction) -> Meaning:
    """Classify matrix instructions; a thread's registers determine the bytes loaded and stored."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "wmma" and modifiers[:1] in (("load",), ("store",)):
        fragment = next((o for o in instruction.operands if isinstance(o, tuple)), ("",))
        size = 8 if "f64" in modifiers else 4
        direction = "load" if modifiers[0] == "load" else "store"
        return Meaning(_space(modifiers), direction, size * len(fragment))
    is_product = opcode in ("mma", "wmma") or {"mma", "mma_async"} & set(modifiers[:1])
    if not is_product:
        return Meaning("control" if opcode == "wgmma" else "move")
    types = tuple(modifier for modifier in modifiers if modifier in _NUMBERS)
    kind = _class_of_types(types[:1]) if types else "fp32"
    return Meaning(kind, remark=_PRODUCT)


def _unknown(instruction: Instruction) -> Meaning:
    """Classify an unlisted opcode by its state space and types."""
    modifiers = instruction.modifiers
    space = _space(modifiers)
    addresses = instruction.addresses
    if addresses and space in ("global", "shared", "local"):
        direction = "store" if addresses[0] is instruction.operands[0] else "load"
        return Meaning(space, direction, _bytes(modifiers), is_known=False)
    if not _NUMBERS.isdisjoint(modifiers):
        return Meaning(_class_of_types(modifiers), is_known=False)
    return Meaning("integer", is_known=False, has_clue=False)


def shapes_of(
    instruction: Instruction, meaning: Meaning, values: Values, block: Sides | None
) -> tuple[Shape, ...]:
    """Return the accesses of an instruction; none if it reads constants.

    Parameters
    ----------
    instruction : Instruction
        A memory access.
    meaning : Meaning
        Its meaning.
    values : Values
        The values of the registers.
    block : tuple of int or None
        Width, height and depth of a block, if known.
    """
    found = [values.of(address) for address in instruction.addresses]
    lanes = [values.lanes and values.lanes.of(address) for address in instruction.addresses]
    direction, size = meaning.direction, meaning.bytes
    if meaning.also_shared:
        to, source = (*found, UNKNOWN, UNKNOWN)[:2]
        return (
            _shape(_plain("global", direction, size), source, size, block, lanes[1:2]),
            _shape(_plain("shared", meaning.also_shared, size), to, size, block, lanes[:1]),
        )
    value = found[0] if found else UNKNOWN
    space = meaning.kind
    if space == "generic":
        space = value.space or "global"
    if space in ("const", "param"):
        return ()
    atomic = "atomic" if instruction.opcode in ("atom", "red") else ""
    origin = {"local": "local memory", "texture": "texture"}.get(space, atomic)
    shape = _plain("shared" if space == "shared" else "global", direction, size, origin)
    if space == "local":  # the words of a warp's threads are contiguous
        return (shape,)
    if space == "texture":
        return (shape._replace(assumed="the layout of a texture is not in the PTX"),)
    if instruction.opcode in ("wmma", "ldmatrix", "stmatrix"):
        # One address refers to a row of a matrix.
        shape = _shape(shape, value._replace(x=None), size, block)
        pattern = "strided" if space == "shared" else "coalesced"
        return (shape._replace(pattern=pattern, assumed="a warp accesses a matrix together"),)
    return (_shape(shape, value, size, block, lanes[:1]),)


def _plain(space: str, direction: str, size: int, origin: str = "") -> Shape:
    """Return an access to contiguous words; 4 bytes if the opcode does not specify the size."""
    word = min(size or 4, LARGEST_WORD)
    pattern, x = ("strided", 1) if space == "shared" else ("coalesced", 0)
    return Shape(space, direction, word, -(-(size or 4) // word), pattern, x, origin=origin)


def _shape(
    shape: Shape, value: Value, size: int, block: Sides | None, lanes: Sequence[Any] = ()
) -> Shape:
    """Return an access with the pattern that follows from its address."""
    if not value.is_affine and size and lanes and lanes[0] is not None:
        return _by_lanes(shape, lanes[0], size)
    if not value.is_affine:
        return shape._replace(assumed="the address is no linear function of the thread's index")
    if not size:
        return shape._replace(assumed="the opcode does not tell how much is accessed")
    # A warp may contain several rows of a block.
    has_short_rows = block is not None and block[0] % WARP != 0 and block[1] * block[2] > 1
    if has_short_rows and shape.words == 1 and not value.is_uniform:
        distances = [d // shape.bytes for d in value[:3] if d is not None and not d % shape.bytes]
        if len(distances) == 3:
            x, y, z = distances
            return shape._replace(pattern="affine", x=x, y=y, z=z)
    found = _along_x(shape, value, size)
    if has_short_rows and None in (value.y, value.z) and not found.assumed:
        return found._replace(assumed=_SHORT_ROWS)
    return found


def _by_lanes(shape: Shape, addresses: Numbers, size: int) -> Shape:
    """Return an access with the transactions that its threads' addresses make."""
    if shape.space == "shared":
        found, least = wavefronts_of(addresses, size), max(size / 4.0, 1.0)
    else:
        found, least = sectors_of(addresses, size), float(size)
        if (addresses == addresses[0]).all():
            return shape._replace(pattern="broadcast")
    return shape if found <= least else shape._replace(transactions=found / shape.words)


def _along_x(shape: Shape, value: Value, size: int) -> Shape:
    """Return an access with the pattern of threads adjacent in x."""
    is_global = shape.space != "shared"
    if value.x is None:
        why = "the distance of two threads is only known at run time"
        return shape._replace(pattern="uncoalesced" if is_global else "strided", assumed=why)
    distance = abs(value.x)
    if is_global and value.x == -size:
        return shape._replace(assumed="the words run backwards: taken to end at a segment's end")
    if distance == size:
        # The first word of a warp (half a warp on the earliest devices) must start a segment.
        is_aligned = value.alignment >= min(max(16 * size, WARP), 128)
        return shape._replace(pattern="misaligned") if is_global and not is_aligned else shape
    if is_global and distance == 0:
        return shape._replace(pattern="broadcast")
    words, rest = -(-distance // shape.bytes), distance % shape.bytes
    why = f"{distance} bytes from thread to thread are no whole words" if rest else ""
    pattern = "coalesced" if is_global and rest and words == 1 else "strided"
    return shape._replace(pattern=pattern, x=words, assumed=why)
