"""The contents of a PTX text: functions, their instructions and variables; calls are inlined."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files

from sweep.errors import SweepError, nearest

ISA = tomllib.loads((files("sweep.importers.ptx") / "isa.toml").read_text("utf-8"))
"""Directives, types and opcodes of PTX ISA 1.0 to 9.0."""

_NO_RESULT = frozenset(ISA["opcodes"]["no_result"])


class PtxError(SweepError):
    """A PTX text cannot be read or analysed; the message names the line if there is one."""

    def __init__(self, reason: str, line: int = 0) -> None:
        self.line = line
        super().__init__(f"line {line}: {reason}" if line else reason)


@dataclass(frozen=True, eq=False, slots=True)
class Register:
    """A declared register. Each one is different from all others, even from those of its name.

    Attributes
    ----------
    name : str
        The name as written.
    width : int
        How many 32-bit registers it takes; 0 for predicates.
    """

    name: str
    width: int


Word = str | Register
"""A register, or another name or a number as written."""


@dataclass(frozen=True, slots=True)
class Address:
    """An operand in brackets: ``[base + offset]``, or ``[base, {parts}]`` of a texture."""

    base: Word
    offset: int
    parts: tuple[Word, ...] = ()


Operand = Word | tuple[Word, ...] | Address
"""A word, a vector (also ``a|b`` and ``(a, b)``), or an address."""


@dataclass(frozen=True, eq=False, slots=True)
class Label:
    """A label as written. Each one is different from all others, even from those of its name."""

    line: int
    name: str


@dataclass
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
    predicate : Register or str
        The predicate register, ``""`` without one.
    negated : bool
        Whether it is executed if the predicate is false.
    targets : tuple of Label
        The labels that a branch may lead to.
    """

    line: int
    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Word = ""
    negated: bool = False
    targets: tuple[Label, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The whole opcode as written: ``ld.global.v4.f32``."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def addresses(self) -> list[Address]:
        """The addresses among the operands."""
        return [operand for operand in self.operands if isinstance(operand, Address)]

    @cached_property
    def reads_and_writes(self) -> tuple[list[Register], list[Register]]:
        """The registers that the instruction reads and those that it writes.

        The first operand is the result, unless it is an address or the opcode has no result.
        """
        first = 1 if self._has_result() else 0
        writes = _registers_in(*self.operands[:first])
        reads = _registers_in(self.predicate, *self.operands[first:])
        if self.opcode in ("wgmma", "tcgen05"):
            reads += writes  # accumulators
        return reads, writes

    def _has_result(self) -> bool:
        if not self.operands or isinstance(self.operands[0], Address):
            return False
        if self.opcode in ("bar", "barrier"):
            return "red" in self.modifiers
        if self.opcode == "call":
            is_list = isinstance(self.operands[0], tuple)
            return is_list and len(self.operands) > 1 and isinstance(self.operands[1], str)
        return self.opcode not in _NO_RESULT


def _registers_in(*operands: Operand) -> list[Register]:
    found: list[Register] = []
    for operand in operands:
        words = (operand.base, *operand.parts) if isinstance(operand, Address) else operand
        listed = words if isinstance(words, tuple) else (words,)
        found += [word for word in listed if isinstance(word, Register)]
    return found


@dataclass(frozen=True)
class Variable:
    """A variable, parameter or register: state space, name, size and alignment in bytes.

    ``bytes`` is ``None`` if the launch sets the size (``.extern .shared .b8 x[]``); ``points_to``
    is the declared state space of a pointer parameter; ``count`` is the size of a family of
    registers (``%r<5>``), ``None`` for a single one.
    """

    space: str
    name: str
    bytes: int | None
    alignment: int
    points_to: str = ""
    count: int | None = None


@dataclass
class Function:
    """An entry (kernel) or device function.

    Attributes
    ----------
    module : Module
        The text that contains it.
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
    variables : list of Variable
        Variables that it declares.
    limits : mapping of str to tuple of int
        Performance directives: ``{"maxntid": (256, 1, 1)}``.
    """

    module: Module = field(repr=False, compare=False)
    name: str
    is_entry: bool
    line: int
    has_body: bool = False
    parameters: tuple[Variable, ...] = ()
    body: list[Instruction | Label] = field(default_factory=list, repr=False)
    variables: list[Variable] = field(default_factory=list)
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def plain_name(self) -> str:
        """The name that was mangled: ``N4file6kernelPf`` is ``file::kernel``."""
        parts: list[str] = []
        rest = self.name.removeprefix("_Z")
        rest = rest.removeprefix("N") if rest != self.name else ""
        while found := re.match(r"\d{1,4}", rest):
            end = found.end() + int(found[0])
            parts.append(rest[found.end() : end])
            rest = rest[end:]
        return "::".join(parts) or self.name

    @cached_property
    def size(self) -> int:
        """Number of instructions, labels, branch targets and variables of a complete function."""
        n_targets = sum(len(instruction.targets) for instruction in self.instructions())
        return len(self.body) + n_targets + len(self.variables)

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions in the order of the text."""
        return (item for item in self.body if isinstance(item, Instruction))


@dataclass
class Module:
    """A PTX text.

    Attributes
    ----------
    version : str
        PTX ISA version, ``"9.0"``.
    target : str
        Target architecture, ``"sm_75"``.
    functions : dict of str to Function
        Entries and device functions by name.
    variables : list of Variable
        Variables outside functions.
    """

    version: str = ""
    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)

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


def capability_of(target: str) -> str:
    """Return the compute capability of a target.

    >>> capability_of("sm_90a"), capability_of("sm_120")
    ('9.0', '12.0')
    """
    digits = re.sub(r"\D", "", target)
    return f"{digits[:-1] or 0}.{digits[-1:] or 0}"


def own_architectures(targets: Sequence[str]) -> list[str]:
    """Return conditions for code with the matrix instructions of one architecture (``sm_90a``).

    It runs on no later one; devices without rows of their own would take its rows otherwise.
    """
    capabilities = sorted({capability_of(target) for target in targets}, key=float)
    found = []
    for own in sorted({capability_of(t) for t in targets if t.endswith("a")}, key=float):
        later = [other for other in capabilities if float(other) > float(own)]
        others = f" or compute_capability >= {later[0]}" if later else ""
        found.append(f"compute_capability <= {own}{others}")
    return found


MAX_CALLS = 50
"""Largest depth of nested calls that are inlined."""

LARGEST_EXPANSION = 50_000
"""Largest number of instructions, labels, branch targets and variables that inlining may add."""


def expand_calls(function: Function) -> tuple[Function, tuple[str, ...]]:
    """Inline the functions that a function calls, and leave out what is never executed.

    Parameters
    ----------
    function : Function
        A function with a body.

    Returns
    -------
    function : Function
        The code; the call instructions remain and count as one instruction each.
    notes : tuple of str
        Calls whose code is not counted, each with its line.
    """
    function = _without_dead(function)
    if not any(instruction.opcode == "call" for instruction in function.instructions()):
        return function, ()
    expansion = _Expansion(function)
    expansion.add(function.body, (function.name,))
    expanded = replace(function, body=expansion.body, variables=expansion.variables)
    return expanded, tuple(dict.fromkeys(expansion.notes))


def _without_dead(function: Function) -> Function:
    """Return a function without what stands under a predicate that is always set to false."""
    set_to: dict[Operand, set[Operand]] = defaultdict(set)
    for one in function.instructions():
        is_constant = one.name == "mov.pred" and not one.predicate
        for register in one.reads_and_writes[1]:
            set_to[register].add(one.operands[1] if is_constant else register)
    dead = {name for name, found in set_to.items() if found == {"0"}}
    body = [
        x for x in function.body if isinstance(x, Label) or x.negated or x.predicate not in dead
    ]
    return replace(function, body=body) if dead else function


class _Expansion:
    def __init__(self, function: Function) -> None:
        self.known = function.module.functions
        self.body: list[Instruction | Label] = []
        self.variables = list(function.variables)
        self.declared = {variable.name for variable in function.variables}
        self.notes: list[str] = []
        self.n_copies = 0
        self.n_left = LARGEST_EXPANSION

    def add(self, body: list[Instruction | Label], chain: tuple[str, ...]) -> None:
        """Add code, with the functions that it calls."""
        for item in body:
            self.body.append(item)
            if isinstance(item, Instruction) and item.opcode == "call":
                self._follow(item, chain)

    def _follow(self, call: Instruction, chain: tuple[str, ...]) -> None:
        name = next((operand for operand in call.operands if isinstance(operand, str)), "")
        called = self.known.get(name)
        shown = f"the call of {name} in line {call.line}"
        if called is None or not called.has_body:
            self.notes.append(f"{shown}: its code is not in this text")
        elif name in chain:
            self.notes.append(f"{shown}: it calls itself")
        elif len(chain) > MAX_CALLS or called.size > self.n_left:
            self.notes.append(f"{shown}: too much code")
        else:
            self.n_copies += 1
            self.n_left -= called.size
            self.variables += [v for v in called.variables if v.name not in self.declared]
            self.declared.update(variable.name for variable in called.variables)
            end = Label(called.line, f"end@{name}@{self.n_copies}")
            body = deepcopy(called.body)  # every copy has its own registers and labels
            for item in body:
                if isinstance(item, Instruction) and item.opcode == "ret":
                    item.opcode, item.modifiers, item.operands = "bra", ("uni",), ()
                    item.targets = (end,)  # execution continues after the call
            self.add([*body, end], (*chain, name))
