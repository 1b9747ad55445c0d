"""What an opcode of PTX ISA 1.0 to 9.0 does: its class of instruction, or an access to memory.

Classes are those of kernel files. Beyond what the names say:

- Half and narrower floating-point types count as ``fp32``, matrix (tensor core) instructions by the
  type that they add up in; kernel files have no class of their own for either.
- Reciprocals, roots, logarithms, exponentials, sines and divisions of single precision are
  ``special``; exact ones of double precision are ``fp64``, integer divisions ``integer``, although
  all three become short programs.
- Comparisons count by the type that they compare, selections and predicates as ``integer``.
- Kernel parameters and constants come from the constant cache, which nearly always has them:
  reading one is a ``move``, and so are conversions between address spaces and exchanges between
  the lanes of a warp.
- A barrier makes a block's threads wait for each other; what only announces an arrival, orders
  memory accesses or synchronises a warp is ``control``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from sweep.importers.ptx.module import Address, Instruction, bytes_of_type

__all__ = ["Meaning", "meaning_of"]

LARGEST_WORD = 16
"""Bytes of the widest access of a thread that kernel files know."""


@dataclass(frozen=True)
class Meaning:
    """What an instruction counts as.

    Attributes
    ----------
    kind : str
        A class of instruction, ``barrier``, or the state space of an access to memory: ``global``,
        ``shared``, ``local``, ``generic``, ``texture``.
    direction : str
        ``load`` or ``store``, ``""`` for what is no access.
    bytes : int
        What a thread accesses, 0 where the text does not tell.
    also_shared : str
        Direction of a second access, to shared memory (asynchronous copies), else ``""``.
    is_known : bool
        Whether the opcode is one that PTX has.
    is_told : bool
        For an unknown opcode, whether its types or state space tell the class.
    remark : str
        What the count leaves out, ``""`` if nothing.
    """

    kind: str
    direction: str = ""
    bytes: int = 0
    also_shared: str = ""
    is_known: bool = True
    is_told: bool = True
    remark: str = ""

    @property
    def is_access(self) -> bool:
        """Whether it is an access to memory."""
        return bool(self.direction)


_BY_TYPE = frozenset(
    "add sub mul mad fma min max abs neg set setp testp copysign sad div rem rcp sqrt rsqrt sin cos"
    " lg2 ex2 tanh".split()
)
_SPECIAL = frozenset("rcp sqrt rsqrt sin cos lg2 ex2 tanh div".split())
_FIXED = {
    "integer": "mul24 mad24 addc subc madc popc clz bfind fns brev bfe bfi szext bmsk dp4a dp2a and"
    " or xor not cnot lop3 shl shr shf prmt selp slct vote match redux activemask elect isspacep"
    " istypep getctarank mapa vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2"
    " vabsdiff2 vmin2 vmax2 vset2 vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4",
    "conversion": "cvt",
    "move": "mov cvta shfl movmatrix createpolicy txq suq stacksave alloca",
    "control": "bra brx ret exit call trap brkpt nanosleep pmevent membar fence setmaxnreg"
    " griddepcontrol prefetch prefetchu discard applypriority stackrestore mbarrier tensormap"
    " clusterlaunchcontrol",
}
_CLASS_OF = {name: kind for kind, names in _FIXED.items() for name in names.split()}
_MATRIX = frozenset({"mma", "wmma", "wgmma", "tcgen05"})
_UNSIZED = "copies as much as a register says: its access to memory is not counted"
_PRODUCT = "multiplies whole matrices and counts as one instruction"
_LOADS = frozenset({"ld", "ldu", "atom", "tex", "tld4", "suld", "ldmatrix"})
_STORES = frozenset({"st", "red", "sust", "sured", "stmatrix"})
_TEXTURE = frozenset({"tex", "tld4", "suld", "sust", "sured"})
_SPACES = ("global", "shared", "local", "const", "param", "tex")
_FLOATS = frozenset(
    "f16 f16x2 f32 f32x2 bf16 bf16x2 tf32 e4m3 e5m2 e4m3x2 e5m2x2 e2m3 e3m2 e2m1 e2m1x2 e2m3x2"
    " e3m2x2 e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4".split()
)
_INTEGERS = frozenset(
    "pred u128 b128 b1 u4 s4 u16x2 s16x2 u8x4 s8x4".split()
    + [f"{letter}{bits}" for letter in "bus" for bits in (8, 16, 32, 64)]
)


def meaning_of(instruction: Instruction) -> Meaning:
    """Return what an instruction counts as.

    Parameters
    ----------
    instruction : Instruction
        Any instruction.

    Returns
    -------
    Meaning
        For an unknown opcode what its types and state space tell, else ``integer``.
    """
    known = _by_opcode(instruction.opcode, instruction.modifiers)
    if known is not None:
        return known
    if instruction.opcode == "cp":
        return _copy(instruction)
    if instruction.opcode in _MATRIX:
        return _matrix(instruction)
    return _unknown(instruction)


@lru_cache(maxsize=4096)
def _by_opcode(opcode: str, modifiers: tuple[str, ...]) -> Meaning | None:
    """Return what an instruction counts as if its operands do not matter, and it is known."""
    if opcode in _CLASS_OF:
        return Meaning(_CLASS_OF[opcode])
    if opcode in _BY_TYPE:
        return Meaning(_arithmetic(opcode, modifiers))
    if opcode in _LOADS or opcode in _STORES:
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
    """Return the class by the types of an instruction; comparisons name theirs last."""
    kind = _class_of_types(modifiers[-1:] if opcode == "set" else modifiers)
    if opcode not in _SPECIAL or kind == "integer":
        return kind
    return "fp64" if kind == "fp64" and "approx" not in modifiers else "special"


def _class_of_types(modifiers: tuple[str, ...]) -> str:
    if "f64" in modifiers:
        return "fp64"
    return "fp32" if not _FLOATS.isdisjoint(modifiers) else "integer"


def _waits(modifiers: tuple[str, ...]) -> bool:
    """Whether a barrier instruction waits for other warps (``bar.arrive`` does not)."""
    if "warp" in modifiers:
        return False
    if "cluster" in modifiers:
        return "wait" in modifiers
    return "sync" in modifiers or "red" in modifiers


# ---------------------------------------------------------------------------- accesses


def _space(modifiers: tuple[str, ...]) -> str:
    for modifier in modifiers:
        space = modifier.partition("::")[0].partition("[")[0]
        if space in _SPACES:
            return space
    return "generic"


def _access(opcode: str, modifiers: tuple[str, ...]) -> Meaning:
    if opcode == "st" and modifiers[:1] == ("bulk",):
        return Meaning("control", remark=_UNSIZED)
    if opcode in ("st", "red") and modifiers[:1] == ("async",):
        return Meaning("shared", "store", _bytes(modifiers))  # of a block of the cluster
    space = "texture" if opcode in _TEXTURE else _space(modifiers)
    if space in ("const", "param"):
        return Meaning("move")
    if space == "tex":
        space = "texture"
    direction = "load" if opcode in _LOADS else "store"
    if opcode in ("ldmatrix", "stmatrix"):
        return Meaning("shared", direction, _matrix_bytes(modifiers))
    return Meaning(space, direction, _bytes(modifiers))


def _bytes(modifiers: tuple[str, ...]) -> int:
    """Return what a thread accesses: the vector's length times the size of its elements."""
    length, size = 1, 0
    for modifier in modifiers:
        if modifier in ("v2", "v4", "v8"):
            length = int(modifier[1:])
        elif not size:  # of a texture's types the first is what it returns
            size = bytes_of_type(modifier)
    return length * size


def _matrix_bytes(modifiers: tuple[str, ...]) -> int:
    """Return a thread's share of ``ldmatrix``: a 32-bit register a matrix."""
    for modifier in modifiers:
        if modifier in ("x1", "x2", "x4"):
            return 4 * int(modifier[1:])
    return 4


def _copy(instruction: Instruction) -> Meaning:
    """Asynchronous copies; bulk copies leave it to a register how much one thread copies."""
    modifiers = instruction.modifiers
    has_addresses = any(isinstance(operand, Address) for operand in instruction.operands)
    if "bulk" in modifiers and has_addresses:
        return Meaning("control", remark=_UNSIZED)
    if modifiers[:1] != ("async",) or not has_addresses or "mbarrier" in modifiers:
        return Meaning("control")
    sizes = [o for o in instruction.operands if isinstance(o, str) and o in ("4", "8", "16")]
    return Meaning("global", "load", int(sizes[0]) if sizes else LARGEST_WORD, also_shared="store")


def _matrix(instruction: Instruction) -> Meaning:
    """Matrix instructions; what they load and store is counted by the registers of a thread."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode == "wmma" and modifiers[:1] in (("load",), ("store",)):
        fragment = next((o for o in instruction.operands if isinstance(o, tuple)), ("",))
        size = 8 if "f64" in modifiers else 4
        direction = "load" if modifiers[0] == "load" else "store"
        return Meaning(_space(modifiers), direction, size * len(fragment))
    is_product = opcode in ("mma", "wmma") or {"mma", "mma_async"} & set(modifiers[:1])
    if not is_product:
        return Meaning("control" if opcode == "wgmma" else "move")
    types = [m for m in modifiers if m in _FLOATS or m in _INTEGERS or m == "f64"]
    kind = _class_of_types(tuple(types[:1])) if types else "fp32"
    return Meaning(kind, remark=_PRODUCT)


# ---------------------------------------------------------------------------- the unknown


def _unknown(instruction: Instruction) -> Meaning:
    """Judge an opcode that is not listed by its state space and types."""
    modifiers = instruction.modifiers
    space = _space(modifiers)
    addresses = [isinstance(operand, Address) for operand in instruction.operands]
    if any(addresses) and space in ("global", "shared", "local"):
        direction = "store" if addresses[0] else "load"
        return Meaning(space, direction, _bytes(modifiers), is_known=False)
    if any(m in _FLOATS or m in _INTEGERS or m == "f64" for m in modifiers):
        return Meaning(_class_of_types(modifiers), is_known=False)
    return Meaning("integer", is_known=False, is_told=False)
