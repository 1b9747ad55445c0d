"""Inline calls of functions that are defined in the same text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sweep.importers.ptx.module import Address, Function, Instruction, Label, Operand, Registers

__all__ = ["expand_calls"]

MAX_CALLS = 50
"""Largest depth of nested calls that are inlined."""

LARGEST_EXPANSION = 50_000
"""Largest number of instructions, labels and declarations that inlining may add."""


def expand_calls(function: Function) -> tuple[Function, tuple[str, ...]]:
    """Inline the functions that a function calls.

    Parameters
    ----------
    function : Function
        A function with a body; it is returned unchanged if it calls none.

    Returns
    -------
    function : Function
        The code; the call instructions remain and count as one instruction each.
    notes : tuple of str
        Calls whose code is not counted, each with its line.
    """
    if not any(instruction.opcode == "call" for instruction in function.instructions()):
        return function, ()
    known = function.module.functions if function.module is not None else {}
    expansion = _Expansion(known, function)
    expansion.add(function, "", (function.name,))
    return expansion.result, tuple(dict.fromkeys(expansion.notes))


class _Expansion:
    def __init__(self, known: Mapping[str, Function], function: Function) -> None:
        self.known = known
        registers = Registers()
        registers.absorb(function.registers, "")
        self.result = replace(
            function,
            body=[],
            registers=registers,
            variables=list(function.variables),
            targets=dict(function.targets),
        )
        self.declared = {variable.name for variable in function.variables}
        self.notes: list[str] = []
        self.n_copies = 0
        self.n_left = LARGEST_EXPANSION

    def add(self, function: Function, suffix: str, chain: tuple[str, ...]) -> None:
        """Add a function's code, with ``suffix`` appended to its names."""
        body = self.result.body
        end = f"end{suffix}"
        for item in function.body:
            if isinstance(item, Label):
                body.append(Label(item.line, item.name, item.key + suffix))
                continue
            copy = self._copy(function, item, suffix, end) if suffix else item
            body.append(copy)
            if item.opcode == "call":
                self._follow(item, chain)
        if suffix:
            body.append(Label(function.line, end, end))

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
            suffix = f"@{name}@{self.n_copies}"
            self.result.registers.absorb(called.registers, suffix)
            self.result.variables += [v for v in called.variables if v.name not in self.declared]
            self.declared.update(variable.name for variable in called.variables)
            for key, targets in called.targets.items():
                self.result.targets[key + suffix] = tuple(t + suffix for t in targets)
            self.add(called, suffix, (*chain, name))

    def _copy(self, function: Function, item: Instruction, suffix: str, end: str) -> Instruction:
        """Return an instruction of a called function with the names of its copy."""
        opcode, modifiers = item.opcode, item.modifiers
        operands = tuple(self._rename(function, operand, suffix) for operand in item.operands)
        if opcode in ("bra", "brx"):
            operands = (*operands[:-1], f"{item.operands[-1]}{suffix}")
        elif opcode == "ret":  # execution continues after the call
            opcode, modifiers, operands = "bra", ("uni",), (end,)
        (guard,) = self._names(function, (item.predicate,), suffix)
        return Instruction(item.line, opcode, modifiers, operands, guard, item.negated)

    def _rename(self, function: Function, operand: Operand, suffix: str) -> Operand:
        """Return an operand with the registers of the copy; everything else keeps its name."""
        if isinstance(operand, Address):
            base, *parts = self._names(function, (operand.base, *operand.parts), suffix)
            return Address(base, operand.offset, tuple(parts))
        if isinstance(operand, tuple):
            return self._names(function, operand, suffix)
        return self._names(function, (operand,), suffix)[0]

    def _names(self, function: Function, names: Iterable[str], suffix: str) -> tuple[str, ...]:
        parts = (name.partition(".") for name in names)
        return tuple(
            f"{stem}{suffix if stem and function.registers.type_of(stem) else ''}{dot}{part}"
            for stem, dot, part in parts
        )
