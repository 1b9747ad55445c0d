"""Classify the instructions of PTX ISA 1.0 to 9.0: instruction class or memory accesses.

The classes are those of kernel files. Some rules:

- Half and narrower floating-point types count as ``fp32``, because kernel files have no class for
  them. Products of matrices (tensor cores) are ``matrix``, with their multiply-adds by type beside.
- Reciprocals, roots, logarithms, exponentials, sines and divisions of single precision are
  ``special``; exact ones of double precision are ``fp64``, integer divisions ``integer``.
  ``machine.py`` has the several instructions that some of them compile to.
- Conversions from and to double precision are ``fp64``, whose rate they have on most GPUs (CUDA C++
  Programming Guide, throughput of native arithmetic instructions).
- Comparisons count by the type of their operands, selections and predicates as ``integer``.
- Kernel parameters and constants nearly always hit in the constant cache, so reading one is a
  ``move``, and so are conversions between address spaces and exchanges between
  the lanes of a warp.
- A barrier makes a block's threads wait for each other. Instructions that only signal arrival,
  order memory accesses or synchronise a warp are ``control``, and so are looks at an ``mbarrier``.
- One thread copies a whole tile (``cp.async.bulk``). A tile that is loaded counts where a thread
  tells the ``mbarrier`` how many bytes to expect: the size of a tensor's tile is nowhere else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sweep.importers.ptx.module import ISA, Instruction
from sweep.importers.ptx.tokens import integer_of

LARGEST_WORD = 16
"""Size of the widest access per thread in kernel files [bytes]."""


class Product(NamedTuple):
    """A warp's part of a product of matrices.

    Attributes
    ----------
    kind : str
        The type of the factors, as in ``[matrix]`` of kernel files.
    multiply_adds : float
        The multiply-adds; zeros that a sparse product leaves out are included.
    passes : float
        Passes of 128 bytes in which it reads factors that lie in shared memory.
    """

    kind: str
    multiply_adds: float
    passes: float = 0.0

    @property
    def numbers(self) -> tuple[tuple[str, float], ...]:
        """Numbers of ``[matrix]``: what several warps multiply together lies in shared memory."""
        found = (self.kind, self.multiply_adds), ("single_warp", 1.0)
        return found[:1] if self.passes else found


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
    is_copy : bool
        Whether what it loads goes to shared memory (asynchronous copies).
    tile : str
        ``load`` or ``store`` if one thread copies so many bytes for its whole block, else ``""``.
    product : Product or None
        The product of matrices.
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
    is_copy: bool = False
    tile: str = ""
    product: Product | None = None
    is_known: bool = True
    has_clue: bool = True
    remark: str = ""


_CLASS_OF = {opcode: kind for kind, opcodes in ISA["classes"].items() for opcode in opcodes}
_OPCODES = {key: frozenset(opcodes) for key, opcodes in ISA["opcodes"].items()}
_FLOATS = frozenset(ISA["numbers"]["floats"])
_NUMBERS = _FLOATS.union(ISA["numbers"]["others"])
_SPACES = ("global", "shared", "local", "const", "param", "tex")
_UNSIZED = "is not counted: a register or a tensor map has its size"
UNSIZED_PRODUCT = "counts without multiply-adds: a register has the size of its matrices"
ROW_BYTES, PASS_BYTES = 32, 128
"""A row of a factor in a product of several warps, and what shared memory serves in a pass."""
_UNSIZED_TILE = "awaits a copy that is not counted: its bytes or the block are not known"
_SIZES = re.compile(r"m(\d+)n(\d+)k(\d+)")


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
    if instruction.opcode == "mbarrier":
        is_told = "expect_tx" in instruction.modifiers
        return (
            Meaning("control", tile="load", remark=_UNSIZED_TILE) if is_told else Meaning("control")
        )
    if instruction.opcode in _OPCODES["matrix"]:
        return _matrix(instruction)
    return _unknown(instruction)


@lru_cache(maxsize=4096)
def _by_opcode(opcode: str, modifiers: tuple[str, ...]) -> Meaning | None:
    """Return how a known instruction is counted if its operands do not matter."""
    if opcode == "cvt" and "f64" in modifiers:
        return Meaning("fp64")
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
        return Meaning("shared", direction, next(sizes, 4) * (2 if "m16n16" in modifiers else 1))
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
    """Classify asynchronous copies."""
    modifiers, operands = instruction.modifiers, instruction.operands
    has_addresses = bool(instruction.addresses)
    if "bulk" in modifiers and has_addresses:
        is_awaited = any(modifier.startswith("mbarrier::") for modifier in modifiers)
        if is_awaited or "prefetch" in modifiers:
            return Meaning("control")
        is_sized = "tensor" not in modifiers
        return Meaning("control", tile="store" if is_sized else "", remark=_UNSIZED)
    if modifiers[:1] != ("async",) or not has_addresses or "mbarrier" in modifiers:
        return Meaning("control")
    size = integer_of(operands[2]) if len(operands) > 2 and isinstance(operands[2], str) else None
    return Meaning("global", "load", size or LARGEST_WORD, is_copy=True)


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
    found = next((found for m in modifiers if (found := _SIZES.fullmatch(m))), None)
    if found is None:
        return Meaning("matrix", remark=UNSIZED_PRODUCT)
    m, n, k = map(int, found.groups())
    types = [modifier for modifier in modifiers if modifier in _NUMBERS]
    # The first type is that of the sum; wmma omits those of factors that are halves.
    kind = factors_of(types[1]) if len(types) > 2 else "fp16"
    multiply_adds, passes = float(m * n * k), 0.0
    if opcode == "wgmma":  # four warps work on one product
        in_registers = any(isinstance(operand, tuple) for operand in instruction.operands[1:2])
        rows = n if in_registers else m + n
        multiply_adds, passes = multiply_adds / 4, rows * ROW_BYTES / PASS_BYTES / 4
    elif opcode == "mma" and "m8n8k4" in modifiers and kind != "fp64":
        multiply_adds *= 4  # each quarter of a warp has a product of its own
    return Meaning("matrix", product=Product(kind, multiply_adds, passes))


def factors_of(kind: str) -> str:
    """Return the type of a product's factors in kernel files.

    Narrower types than these count as the narrowest, at its rate.
    """
    known = {"f16": "fp16", "bf16": "fp16", "tf32": "tf32", "f64": "fp64"}
    return known.get(kind, "fp8" if kind in _FLOATS or "f8" in kind or "f4" in kind else "int8")


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
