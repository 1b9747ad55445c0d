"""The contents of a PTX text: functions, their instructions, registers and variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sweep.errors import SweepError, nearest

__all__ = [
    "TYPES",
    "Address",
    "Function",
    "Instruction",
    "Label",
    "Module",
    "Operand",
    "PtxError",
    "Registers",
    "Variable",
]


class PtxError(SweepError):
    """A PTX text cannot be read or analysed; the message names the line if there is one."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.line = line
        super().__init__(f"line {line}: {reason}" if line else reason)


@dataclass(frozen=True, slots=True)
class Address:
    """An operand in brackets: ``[base + offset]``, or ``[base, {parts}]`` of a texture."""

    base: str
    offset: int
    parts: tuple[str, ...] = ()


Operand = str | tuple[str, ...] | Address
"""A name or number as written, a vector (also ``a|b`` and ``(a, b)``), or an address."""

_NO_RESULT = frozenset(
    "bra brx ret exit trap brkpt membar fence nanosleep pmevent setmaxnreg griddepcontrol"
    " stackrestore st red prefetch prefetchu cp sust sured discard applypriority stmatrix"
    " tensormap".split()
)


@dataclass(slots=True)
class Instruction:
    """One instruction.

    Attributes
    ----------
    line : int
        Its line in the text, from 1.
    opcode : str
        The first word: ``ld``.
    modifiers : tuple of str
        The words after it: ``("global", "v4", "f32")``.
    operands : tuple of Operand
        Operands in the order of the text.
    predicate : str
        The predicate register, ``""`` without one.
    negated : bool
        Whether it is executed if the predicate is false.
    """

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: str = ""
    negated: bool = False
    _names: tuple[list[str], list[str]] | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The whole opcode as written: ``ld.global.v4.f32``."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def addresses(self) -> list[Address]:
        """The addresses among the operands."""
        return [operand for operand in self.operands if isinstance(operand, Address)]

    def reads_and_writes(self) -> tuple[list[str], list[str]]:
        """Return the names that the instruction reads and those that it writes.

        They include numbers, special registers and variables; the caller selects the registers.
        The first operand is the result, unless it is an address or the opcode has no result. The
        name of ``%v.x`` is ``%v``.
        """
        if self._names is None:
            first = 1 if self._has_result() else 0
            writes = _names_in(self.operands[0]) if first else []
            reads = [self.predicate] if self.predicate else []
            for operand in self.operands[first:]:
                reads += _names_in(operand)
            if self.opcode in ("wgmma", "tcgen05"):
                reads += writes  # accumulators
            self._names = reads, writes
        return self._names

    def _has_result(self) -> bool:
        if not self.operands or isinstance(self.operands[0], Address):
            return False
        if self.opcode in ("bar", "barrier"):
            return "red" in self.modifiers
        if self.opcode == "call":
            is_list = isinstance(self.operands[0], tuple)
            return is_list and len(self.operands) > 1 and isinstance(self.operands[1], str)
        return self.opcode not in _NO_RESULT


def _names_in(operand: Operand) -> list[str]:
    if isinstance(operand, str):
        return [operand.partition(".")[0]]
    words = (operand.base, *operand.parts) if isinstance(operand, Address) else operand
    return [name.partition(".")[0] for name in words if name]


@dataclass(slots=True)
class Label:
    """A label: its name as written, and a name that is unique in the function."""

    line: int
    name: str
    key: str


@dataclass(frozen=True)
class Variable:
    """A variable or parameter: state space, name, size and alignment in bytes.

    ``bytes`` is ``None`` if the launch sets the size (``.extern .shared .b8 x[]``); ``points_to``
    is the declared state space of a pointer parameter.
    """

    space: str
    name: str
    bytes: int | None
    alignment: int
    line: int
    points_to: str = ""


TYPES = {
    **{f"{letter}{bits}": bits // 8 for letter in "bus" for bits in (8, 16, 32, 64)},
    **{"f16": 2, "f32": 4, "f64": 8, "bf16": 2, "tf32": 4, "b128": 16, "u128": 16, "pred": 0},
    **{"f16x2": 4, "bf16x2": 4, "f32x2": 8, "u16x2": 4, "s16x2": 4, "u8x4": 4, "s8x4": 4},
    **{"texref": 8, "samplerref": 8, "surfref": 8, "e4m3": 0, "e5m2": 0, "e4m3x2": 0, "e5m2x2": 0},
}
"""The fundamental types and their sizes in bytes; 0 for types without memory accesses."""


class Registers:
    """The registers of one function by name, and how many 32-bit registers each one takes.

    ``.reg .f32 %f<57>`` declares a family, which is stored as such. Names in inner scopes have a
    suffix ``@scope``.
    """

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}
        self._families: dict[str, tuple[str, int]] = {}
        self._widths: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._exact) + len(self._families)

    def declare(self, name: str, kind: str, count: int | None = None) -> None:
        """Add one register, or the family ``name0 ... name(count-1)``."""
        if count is None:
            self._exact[name] = kind
        else:
            self._families[name] = (kind, count)

    def type_of(self, name: str) -> str:
        """Return the type of a register (``f32``, ``v4.f32``), ``""`` if it is not declared."""
        found = self._exact.get(name)
        if found is not None:
            return found
        stem, at, scope = name.partition("@")
        prefix = stem.rstrip("0123456789")
        kind, count = self._families.get(f"{prefix}{at}{scope}", ("", 0))
        number = stem[len(prefix) :]
        return kind if number and len(number) < 10 and int(number) < count else ""

    def width(self, name: str) -> int:
        """Return how many 32-bit registers a register takes: 0 for predicates."""
        width = self._widths.get(name)
        if width is None:
            vector, _, element = self.type_of(name).rpartition(".")
            size = TYPES.get(element, 0) * (int(vector[1:]) if vector else 1)
            width = 0 if element in ("", "pred") else max(1, -(-size // 4))
            self._widths[name] = width
        return width

    def absorb(self, other: Registers, suffix: str) -> None:
        """Add another function's registers, with ``suffix`` appended to their names."""
        self._exact |= {name + suffix: kind for name, kind in other._exact.items()}
        self._families |= {name + suffix: family for name, family in other._families.items()}


@dataclass
class Function:
    """An entry (kernel) or device function.

    Attributes
    ----------
    name : str
        The name as written (mangled).
    is_entry : bool
        Whether it is a kernel.
    line : int
        Its first line.
    has_body : bool
        Whether it is more than a declaration.
    parameters : tuple of Variable
        Its parameters.
    body : list of Instruction or Label
        The code in the order of the text.
    registers : Registers
        Types of its registers.
    variables : list of Variable
        Variables that it declares.
    limits : mapping of str to tuple of int
        Performance directives: ``{"maxntid": (256, 1, 1)}``.
    targets : mapping of str to tuple of str
        Lists of branch targets by name (``.branchtargets``).
    module : Module or None
        The text that contains it.
    """

    name: str
    is_entry: bool
    line: int
    has_body: bool = False
    parameters: tuple[Variable, ...] = ()
    body: list[Instruction | Label] = field(default_factory=list, repr=False)
    registers: Registers = field(default_factory=Registers, repr=False)
    variables: list[Variable] = field(default_factory=list)
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    module: Module | None = field(default=None, repr=False, compare=False)

    @property
    def size(self) -> int:
        """Number of instructions, labels and declarations."""
        n_targets = sum(map(len, self.targets.values()))
        return len(self.body) + len(self.registers) + len(self.variables) + n_targets

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions in the order of the text."""
        return (item for item in self.body if isinstance(item, Instruction))


@dataclass(frozen=True)
class Module:
    """A PTX text.

    Attributes
    ----------
    version : str
        PTX ISA version, ``"9.0"``.
    target : str
        Target architecture, ``"sm_75"``.
    functions : mapping of str to Function
        Entries and device functions by name.
    variables : tuple of Variable
        Variables outside functions.
    """

    version: str
    target: str
    functions: Mapping[str, Function]
    variables: tuple[Variable, ...]

    @property
    def entries(self) -> tuple[str, ...]:
        """The names of the kernels."""
        return tuple(name for name, f in self.functions.items() if f.is_entry and f.has_body)

    def entry(self, name: str | None = None) -> Function:
        """Return a kernel by its name, or by the identifier inside a mangled name.

        Parameters
        ----------
        name : str, optional
            Optional if there is only one kernel.

        Raises
        ------
        PtxError
            No kernel has this name, or a choice is needed; the message lists the kernels.
        """
        entries = self.entries
        if not entries:
            raise PtxError("there is no kernel (.entry with a body) in this text")
        listed = ", ".join(entries[:20]) + (", ..." if len(entries) > 20 else "")
        if name is None:
            if len(entries) > 1:
                raise PtxError(f"{len(entries)} kernels: choose one of {listed}")
            return self.functions[entries[0]]
        mangled = f"{len(name)}{name}"
        found = [entry for entry in entries if entry == name] or [
            entry for entry in entries if entry.startswith("_Z") and mangled in entry
        ]
        if len(found) == 1:
            return self.functions[found[0]]
        if found:
            raise PtxError(f"'{name}' may be any of {', '.join(found)}")
        raise PtxError(f"no kernel '{name}'{nearest(name, entries)} (there is {listed})")
