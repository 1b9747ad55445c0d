"""How often a thread waits for its loads, and where products go on beside its next step.

PTX has the order of a compiler's front end. What makes machine code of it moves loads up as far as
data, barriers and stores let it: loads of a block that do not need one another's results are under
way together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from sweep.importers.ptx.accesses import Shape
from sweep.importers.ptx.control_flow import Amount, Block, Graph, Loop
from sweep.importers.ptx.module import Instruction, Register
from sweep.importers.ptx.tokens import integer_of


class Waits:
    """Collects loads from global memory by how often a thread has waited before, in each block."""

    def __init__(self) -> None:
        self._groups: dict[tuple[Block, int], int] = defaultdict(int)
        self._block: Block | None = None

    def add(
        self, instruction: Instruction, block: Block, kind: str, shapes: Iterable[Shape]
    ) -> None:
        """Add the next instruction of a block.

        A load comes after what a store before it waited for, since that may change what it reads
        (unless ``nc`` denies it), and after all loads before a barrier.
        """
        if block is not self._block:
            self._block, self._at_store, self._at_barrier, self._in_all = block, 0, 0, 0
            self._waits_for: dict[Register, int] = {}
        read, written = instruction.reads_and_writes
        needed = (*read, *written) if instruction.predicate else read
        waits = max((self._waits_for.get(register, 0) for register in needed), default=0)
        directions = {shape.direction for shape in shapes if shape.space == "global"}
        if "store" in directions or instruction.opcode == "atom":
            self._at_store = max(self._at_store, waits)
        if "load" in directions:
            floor = self._at_barrier if "nc" in instruction.modifiers else self._at_store
            waits = max(waits, floor)
            self._groups[block, waits] += sum(register.width for register in written)
            waits += 1
            self._in_all = max(self._in_all, waits)
        self._waits_for.update(dict.fromkeys(written, waits))
        if kind == "barrier":
            self._at_barrier = self._at_store = self._in_all

    def amount(self, registers: int) -> Amount:
        """Return how often a thread waits.

        The results of loads under way have their registers already, so that no more are under way
        together than fit in the registers that the kernel needs at once.
        """
        found: Amount = defaultdict(float)
        for (block, _), width in self._groups.items():
            found[block.passage] += block.share * max(1, -(-width // registers))
        return found


def goes_on_beside_products(graph: Graph) -> bool:
    """Return whether a loop of products (wgmma) never waits for all, but goes on to its next step.

    It leaves over those of the step just begun.
    """
    left: dict[Loop, list[int]] = defaultdict(list)
    for block in graph.blocks:
        for x in block.instructions:
            if block.loop and x.opcode == "wgmma" and "wait_group" in x.modifiers:
                left[block.loop].append(integer_of(str(x.operands[0])) or 0)
    return any(min(groups) > 0 for groups in left.values())
