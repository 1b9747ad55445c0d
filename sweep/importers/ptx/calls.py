"""Inline calls of functions that are defined in the same text."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace

from sweep.importers.ptx.module import Function, Instruction, Label

__all__ = ["expand_calls"]

MAX_CALLS = 50
"""Largest depth of nested calls that are inlined."""

LARGEST_EXPANSION = 50_000
"""Largest number of instructions, labels, branch targets and variables that inlining may add."""


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
    expansion.add(function.body, (function.name,))
    expanded = replace(function, body=expansion.body, variables=expansion.variables)
    return expanded, tuple(dict.fromkeys(expansion.notes))


class _Expansion:
    def __init__(self, known: Mapping[str, Function], function: Function) -> None:
        self.known = known
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
