"""What a PTX text consists of: functions, their instructions, registers and variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sweep.errors import SweepError, nearest

__all__ = [
    "Address",
    "Function",
    "Instruction",
    "Label",
    "Module",
    "Operand",
    "PtxError",
    "Registers",
    "Variable",
    "bytes_of_type",
    "is_register",
]


class PtxError(SweepError):
    """A PTX text cannot be read or analysed; the message names the line where there is one."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}" if line else reason)


@dataclass(frozen=True, slots=True)
class Address:
    """An operand in brackets: ``[base + offset]``, or ``[base, {parts}]`` of a texture."""

    base: str
    offset: int
    parts: tuple[str, ...] = ()


Operand = str | tuple[str, ...] | Address
"""A name or number as written, a vector (also ``a|b`` and ``(a, b)``), or an address."""


@dataclass(slots=True)
class Instruction:
    """One instruction.

    Attributes
    ----------
    line : int
        Where it stands, from 1.
    opcode : str
        The first word: ``ld``.
    modifiers : tuple of str
        What follows it: ``("global", "v4", "f32")``.
    operands : tuple of Operand
        In the order of the text.
    predicate : str
        The register that guards it, ``""`` without one.
    negated : bool
        Whether it is executed where the predicate is false.
    names : tuple of list of str, or None
        What it reads and writes, filled by
        :func:`~sweep.importers.ptx.operands.reads_and_writes`.
    """

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: str = ""
    negated: bool = False
    names: tuple[list[str], list[str]] | None = None

    @property
    def name(self) -> str:
        """The whole opcode as written: ``ld.global.v4.f32``."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(slots=True)
class Label:
    """A place in the code: its name as written, and a name that is unique in the function."""

    line: int
    name: str
    key: str


@dataclass(frozen=True)
class Variable:
    """A variable or parameter: state space, name, size and alignment in bytes.

    ``bytes`` is ``None`` where the launch decides (``.extern .shared .b8 x[]``); ``points_to`` is
    the state space that a pointer parameter is declared to point to.
    """

    space: str
    name: str
    bytes: int | None
    alignment: int
    line: int
    points_to: str = ""


_BITS = {
    **{f"{letter}{bits}": bits for letter in "bus" for bits in (8, 16, 32, 64)},
    **{"f16": 16, "f32": 32, "f64": 64, "bf16": 16, "tf32": 32, "b128": 128, "u128": 128},
    **{"f16x2": 32, "bf16x2": 32, "f32x2": 64, "u16x2": 32, "s16x2": 32, "u8x4": 32, "s8x4": 32},
    **{"texref": 64, "samplerref": 64, "surfref": 64},
}


def bytes_of_type(name: str) -> int:
    """Return the size of a fundamental type in bytes; 0 for ``pred`` and what is no type."""
    return _BITS.get(name, 0) // 8


def is_register(name: str) -> bool:
    """Whether a word that is written as an operand may name a register (numbers do not)."""
    return bool(name) and (name[0] in "%$_" or name[0].isalpha())


class Registers:
    """The registers of one function by name, and how many 32-bit registers each one takes.

    ``.reg .f32 %f<57>`` declares a family, which is kept as such. Names of inner scopes carry a
    suffix ``@scope``.
    """

    def __init__(self) -> None:
        self._exact: dict[str, str] = {}
        self._families: dict[str, tuple[str, int]] = {}

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
        kind = self.type_of(name)
        if not kind or kind == "pred":
            return 0
        vector, _, element = kind.rpartition(".")
        size = bytes_of_type(element) * (int(vector[1:]) if vector else 1)
        return max(1, -(-size // 4))

    def absorb(self, other: Registers, suffix: str) -> None:
        """Add another function's registers under names that end in ``suffix``."""
        for name, kind in other._exact.items():
            self._exact[name + suffix] = kind
        for name, family in other._families.items():
            self._families[name + suffix] = family


@dataclass
class Function:
    """An entry (kernel) or device function.

    Attributes
    ----------
    name : str
        As written, that is mangled.
    is_entry : bool
        Whether it is a kernel.
    line : int
        Where it begins.
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
        The text that it is part of.
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
            May be left out where there is only one kernel.

        Raises
        ------
        PtxError
            With the names of the kernels, if there is none of this name or a choice is needed.
        """
        if not self.entries:
            raise PtxError("there is no kernel (.entry with a body) in this text")
        listed = ", ".join(self.entries[:20]) + (", ..." if len(self.entries) > 20 else "")
        if name is None:
            if len(self.entries) > 1:
                raise PtxError(f"{len(self.entries)} kernels: choose one of {listed}")
            return self.functions[self.entries[0]]
        mangled = f"{len(name)}{name}"
        found = [entry for entry in self.entries if entry == name] or [
            entry for entry in self.entries if entry.startswith("_Z") and mangled in entry
        ]
        if len(found) == 1:
            return self.functions[found[0]]
        if found:
            raise PtxError(f"'{name}' may be any of {', '.join(found)}")
        hint = nearest(name, self.entries)
        raise PtxError(f"no kernel '{name}'{hint} (there is {listed})")
