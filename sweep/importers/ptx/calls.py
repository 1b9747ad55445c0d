"""Calls of functions of the same text, followed by putting the function's code in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sweep.importers.ptx.module import Address, Function, Instruction, Label, Operand, Registers

__all__ = ["expand_calls"]

MAX_CALLS = 50
"""Most calls within each other that are followed."""

LARGEST_EXPANSION = 50_000
"""Most instructions and labels that following calls may add."""


def expand_calls(function: Function) -> tuple[Function, tuple[str, ...]]:
    """Return a function with the code of those that it calls, and what could not be followed.

    Parameters
    ----------
    function : Function
        Any function with a body; it is returned as it is if it calls none.

    Returns
    -------
    function : Function
        Its code; the calls themselves stay and count as one instruction.
    notes : tuple of str
        Calls that are counted as one instruction and no more, each with its line.
    """
    if not any(instruction.opcode == "call" for instruction in function.instructions()):
        return function, ()
    known = function.module.functions if function.module is not None else {}
    expansion = _Expansion(known, function)
    expansion.add(function, "", (function.name,))
    return expansion.result, tuple(dict.fromkeys(expansion.notes))


def called_name(instruction: Instruction) -> str:
    """Return the name of the called function: the first operand that is no list."""
    return next((o for o in instruction.operands if isinstance(o, str)), "")


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
        self.notes: list[str] = []
        self.n_copies = 0
        self.n_left = LARGEST_EXPANSION

    def add(self, function: Function, suffix: str, chain: tuple[str, ...]) -> None:
        """Add a function's code under names that end in ``suffix``."""
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
        name = called_name(call)
        called = self.known.get(name)
        shown = f"the call of {name} in line {call.line}"
        if called is None or not called.has_body:
            self.notes.append(f"{shown}: its code is not in this text")
        elif name in chain:
            self.notes.append(f"{shown}: it calls itself")
        elif len(chain) > MAX_CALLS or len(called.body) > self.n_left:
            self.notes.append(f"{shown}: too much code")
        else:
            self.n_copies += 1
            self.n_left -= len(called.body)
            suffix = f"@{name}@{self.n_copies}"
            self.result.registers.absorb(called.registers, suffix)
            known = {variable.name for variable in self.result.variables}
            self.result.variables += [v for v in called.variables if v.name not in known]
            for key, targets in called.targets.items():
                self.result.targets[key + suffix] = tuple(t + suffix for t in targets)
            self.add(called, suffix, (*chain, name))

    def _copy(self, function: Function, item: Instruction, suffix: str, end: str) -> Instruction:
        """Return an instruction of a called function with the names of its copy."""
        opcode, modifiers = item.opcode, item.modifiers
        operands = tuple(self._rename(function, operand, suffix) for operand in item.operands)
        if opcode in ("bra", "brx"):
            operands = (*operands[:-1], f"{item.operands[-1]}{suffix}")
        elif opcode == "ret":  # it goes on after the call
            opcode, modifiers, operands = "bra", ("uni",), (end,)
        guard = self._name(function, item.predicate, suffix)
        return Instruction(item.line, opcode, modifiers, operands, guard, item.negated)

    def _rename(self, function: Function, operand: Operand, suffix: str) -> Operand:
        if isinstance(operand, Address):
            base = self._name(function, operand.base, suffix)
            return Address(base, operand.offset, self._names(function, operand.parts, suffix))
        if isinstance(operand, tuple):
            return self._names(function, operand, suffix)
        return self._name(function, operand, suffix)

    def _names(self, function: Function, names: Iterable[str], suffix: str) -> tuple[str, ...]:
        return tuple(self._name(function, name, suffix) for name in names)

    def _name(self, function: Function, name: str, suffix: str) -> str:
        """Return the name of a register in the copy; everything else keeps its name."""
        stem, dot, part = name.partition(".")
        if stem and function.registers.type_of(stem):
            return f"{stem}{suffix}{dot}{part}"
        return name
