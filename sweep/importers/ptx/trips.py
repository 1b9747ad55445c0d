"""Trip counts of loops with known start and end.

The registers that a loop's exit test depends on are evaluated iteration by iteration. If they are
only moved and added, the trip count follows by arithmetic.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import NamedTuple

from sweep.importers.ptx.control_flow import Block, Graph, Loop, nest
from sweep.importers.ptx.lanes import COMPARED, UNSIGNED
from sweep.importers.ptx.module import Instruction, Operand, Register, Word
from sweep.importers.ptx.registers import Values, combined, number
from sweep.importers.ptx.tokens import integer_of

MAX_STEPS = 128
"""Iterations that are evaluated one by one: enough for every loop that halves or doubles."""

MIDDLE = "the middle thread's"
"""Origin of a trip count that differs between threads."""

REST = "an unrolled loop leaves none"
"""Origin of no iterations of a loop for what an unrolled one leaves: sizes are multiples of it."""

WAITS = "nobody waits"
"""Origin of the one iteration of a loop that looks whether an ``mbarrier`` is complete."""

MAX_UNROLLED = 64

MAX_CHAIN = 64
"""Largest number of instructions that an exit test may depend on."""

_LINEAR: dict[str, Callable[[int, int], int]] = {
    "mov": lambda a, _: a,
    "cvt": lambda a, _: a,
    "add": operator.add,
    "sub": operator.sub,
}
_EXACT = {*_LINEAR, "mul", "mad", "and", "shl", "shr", "div", "rem", "neg", "selp"}
"""Instructions whose result follows from their operands where these are numbers."""

_STEP = {**_LINEAR, "mul": operator.mul, "shl": operator.lshift, "shr": operator.rshift}


class _Write(NamedTuple):
    """An instruction that writes a register; sorted by block and place in the block."""

    number: int
    place: int
    block: Block
    instruction: Instruction

    def is_certain(self, loop: Loop) -> bool:
        """Return whether every iteration of a loop executes it once, for one register."""
        is_single = isinstance(self.instruction.operands[0], Register)
        return is_single and not self.instruction.predicate and loop.executes_once(self.block)


class _Test(NamedTuple):
    """A test that may end a loop; sorted by preference.

    ``trips`` is the number of iterations that it allows, -1 if that depends on something unknown;
    ``assumed`` says why that is no fact.
    ``is_late`` says whether blocks of the loop come after it, which it executes once less.
    """

    is_unknown: bool
    is_bound: bool
    is_late: bool
    is_below: bool
    line: int
    number: int
    trips: int
    assumed: str


def find_trips(
    graph: Graph, values: Values, middle: Callable[[], Values] | None = None
) -> dict[Block, float]:
    """Set the test and, if it is known, the trip count of every loop; return decided branches.

    A loop has the test in a block with a known count, else the one at the loop's end, else the one
    in its header; none if no block that every iteration executes can leave the loop.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    values : Values
        The values of the registers.
    middle : callable, optional
        Returns those of the middle thread. Its trip count stands for a loop that starts at the
        thread's index, such as one that strides over the grid: another thread's differs by one.

    Returns
    -------
    dict
        Blocks to the share of their executions that branch: 0 or 1, because numbers decide it.
    """
    finder = _Finder(graph, values)
    _set_trips(finder, graph.loops)
    if middle is not None and (unknown := [loop for loop in graph.loops if loop.trips is None]):
        _set_trips(_Finder(graph, middle()), unknown, MIDDLE)
    _set_trips(finder, [loop for loop in graph.loops if loop.trips is None], REST)
    decided = {block: finder.takes(block) for block in graph.blocks}
    return {block: float(taken) for block, taken in decided.items() if taken is not None}


def _set_trips(finder: _Finder, loops: Iterable[Loop], origin: str = "constant") -> None:
    """Set the test of each loop and, if it is known, the trip count."""
    for loop in loops:
        leaving = (block for block in loop.exits if loop.executes_once(block))
        test = min((finder.test(loop, block) for block in leaving), default=None)
        if test is None:
            continue
        if test.is_late:
            loop.test = finder.graph.blocks[test.number]
        if not test.is_unknown:
            loop.trips = float(test.trips)
            loop.origin = test.assumed or ("most" if test.is_bound else origin)
        elif test.assumed == origin:
            loop.trips, loop.origin = 0.0, origin


class _Finder:
    """Finds the tests of loops from the instructions that write each register."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self.graph, self.values = graph, values
        self._writes: dict[Operand, list[_Write]] = {}
        self._results: dict[tuple[int, ...], int | None] = {}  # of instructions, by place
        for block in graph.blocks:
            for place, instruction in enumerate(block.instructions):
                for name in instruction.reads_and_writes[1]:
                    write = _Write(block.number, place, block, instruction)
                    self._writes.setdefault(name, []).append(write)

    def _writes_inside(self, name: Operand, loop: Loop) -> list[_Write]:
        """Return the instructions inside a loop that write a register."""
        writes = self._writes.get(name, [])
        first = loop.header.number
        return writes[bisect_left(writes, (first,)) : bisect_left(writes, (first + loop.length,))]

    def _constant(
        self, name: Operand, place: tuple[int, ...], block: Block, around: Loop | None, depth: int
    ) -> int | None:
        """Return the value of a register or literal at a place in a block, if it is a number.

        ``around`` is the innermost loop that contains the place. The operands of the instruction
        that wrote the register have the values that they had there.
        """
        write = self._last_write(name, place, block, around)
        if write is None:
            value = self.values.of(name)
            return value.constant if value.is_uniform and name not in self._writes else None
        instruction, place = write.instruction, write[:2]
        if place not in self._results:
            value = self.values.result(instruction)
            is_known = value.is_uniform and value.constant is not None
            is_single = isinstance(instruction.operands[0], Register) and depth < MAX_CHAIN
            if not is_known and is_single and instruction.opcode in _EXACT:
                inside = place, write.block, write.block.loop, depth + 1
                sources = instruction.operands[1:]
                if instruction.opcode == "selp":
                    is_first = self._truth(sources[-1], *inside)
                    sources = () if is_first is None else (sources[not is_first],) * 3
                operands = [self._constant(o, *inside) for o in sources]
                known = [operand for operand in operands if operand is not None]
                if 0 < len(known) == len(operands):
                    value = combined(instruction, list(map(number, known)))
            has_number = value.is_uniform and not instruction.predicate
            self._results[place] = value.constant if has_number else None
        return self._results[place]

    def _last_write(
        self, name: Operand, place: tuple[int, ...], block: Block, around: Loop | None
    ) -> _Write | None:
        """Return what wrote a register last, on all paths to a place in a block; else ``None``.

        ``around`` is the innermost loop that contains the place.
        """
        writes = self._writes.get(name, [])
        before = bisect_left(writes, place) - 1
        if before < 0 or not writes[before].block.dominates(block):
            return None
        # An outer loop that the value enters from outside must not change the register.
        for outer in takewhile(lambda outer: writes[before].block not in outer, nest(around)):
            if self._writes_inside(name, outer):
                return None
        return writes[before]

    def takes(self, block: Block) -> bool | None:
        """Return whether a block's branch is taken, if it compares two known numbers."""
        branch = block.branch
        if branch is None or branch.opcode != "bra" or not branch.predicate:
            return None
        for successor in block.successors:
            leaves = block.loop is not None and successor not in block.loop
            if leaves or successor.dominates(block):
                return None  # the branch ends or repeats a loop
        here = (block.number, len(block.instructions)), block, block.loop
        is_true = self._truth(branch.predicate, *here, 0)
        return None if is_true is None else is_true != branch.negated

    def _truth(
        self, name: Operand, place: tuple[int, ...], block: Block, around: Loop | None, depth: int
    ) -> bool | None:
        """Return whether a predicate is true at a place, if it compares two known numbers."""
        write = self._last_write(name, place, block, around)
        comparison = _comparison(write.instruction) if write else None
        if write is None or comparison is None or write.instruction.predicate:
            return None
        compare, is_unsigned = comparison
        there = write[:2], write.block, write.block.loop, depth
        first, second = (self._constant(o, *there) for o in _compared(write.instruction))
        if first is None or second is None or (is_unsigned and min(first, second) < 0):
            return None
        return compare(first, second)

    def test(self, loop: Loop, block: Block) -> _Test:
        """Return the test at the end of a block, with the number of iterations that it allows."""
        is_late = loop.latches != [block]
        found: list[int | None] = []
        assumed = ""
        branch = block.branch
        if branch is not None and branch.opcode == "bra" and branch.predicate:
            continues = (block.successors[0] in loop) != branch.negated
            comparisons = self._comparisons(loop, branch.predicate, continues)
            found = [self._iterations(loop, test, continues) for test in comparisons]
            if any(_waits(test.instruction) for test in comparisons):
                assumed = WAITS
            if found == [None] and self._is_rest(loop, comparisons[0]):
                assumed = REST
        known = [iterations for iterations in found if iterations is not None]
        trips = min(known) - is_late if known else -1
        is_bound = bool(known) and len(found) > 1
        is_below, line = block is not loop.header, block.instructions[-1].line
        return _Test(not known, is_bound, is_late, is_below, line, block.number, trips, assumed)

    def _comparisons(self, loop: Loop, predicate: Word, continues: bool) -> list[_Write]:
        """Return the comparisons that must all be ``continues`` for another iteration."""
        joined = "and" if continues else "or"
        result: list[_Write] = []
        waiting: list[Operand] = [predicate]
        while waiting and len(result) < MAX_CHAIN:
            writes = self._writes_inside(waiting.pop(), loop)
            if len(writes) == 1:
                result += writes
                write = writes[0].instruction
                if write.opcode == joined and write.modifiers == ("pred",):
                    waiting += write.operands[1:]
        return result

    def _iterations(self, loop: Loop, test: _Write, continues: bool) -> int | None:
        """Return the first iteration, from 1, in which a comparison is not ``continues``."""
        instruction, comparison = test.instruction, _comparison(test.instruction)
        if _waits(instruction):
            return 1
        if comparison is None or not test.is_certain(loop):
            return None
        compare, is_unsigned = comparison
        state: dict[Operand, int | None] = {}
        steps = self._steps(loop, test, state)
        is_linear = all(step.instruction.opcode in _LINEAR for step in steps)
        distances: list[int] = []
        for iteration in range(1, MAX_STEPS + 1):
            _execute(loop, [step for step in steps if step < test], state)
            first, second = (state[operand] for operand in _compared(instruction))
            if first is None or second is None:
                return None
            if is_unsigned and min(first, second) < 0:  # in fact a large number
                return None
            if compare(first, second) != continues:
                return iteration
            distances.append(first - second)
            # A value from before the loop passes through every step at most once.
            if is_linear and iteration >= len(steps) + 3:
                return _extrapolated(distances, compare, continues)
            _execute(loop, [step for step in steps if step > test], state)
        return None

    def _is_rest(self, loop: Loop, test: _Write) -> bool:
        """Return whether a loop counts the few iterations that an unrolled one leaves to it.

        It counts by ones from ``n & (2**k - 1)`` down to 0, or from the negative of that up to 0.
        """
        if test.instruction.opcode != "setp" or test.instruction.operands[2:] != ("0",):
            return False
        name = test.instruction.operands[1]
        steps = [write.instruction for write in self._writes_inside(name, loop)]
        if len(steps) != 1 or steps[0].opcode != "add" or steps[0].operands[1] != name:
            return False
        start = self._last_write(name, (loop.header.number,), loop.header, loop.parent)
        for opcode in ("neg", "mov"):
            if start and start.instruction.opcode == opcode:
                source, place = start.instruction.operands[1], start[:2]
                start = self._last_write(source, place, start.block, start.block.loop)
        mask = integer_of(str(start.instruction.operands[-1])) if start else None
        is_mask = mask is not None and 0 < mask < MAX_UNROLLED and mask & (mask + 1) == 0
        is_and = start is not None and start.instruction.opcode == "and"
        return is_and and is_mask and steps[0].operands[2] in ("1", "-1")

    def _steps(self, loop: Loop, test: _Write, state: dict[Operand, int | None]) -> list[_Write]:
        """Return what a test depends on inside a loop; set the values at the loop's entry."""
        steps: list[_Write] = []
        waiting = [*_compared(test.instruction)]
        while waiting:
            name = waiting.pop()
            writes = self._writes_inside(name, loop)
            if name in state:
                continue
            is_known = len(writes) < 2 and len(steps) < MAX_CHAIN and isinstance(name, Word)
            entry = (loop.header.number,), loop.header, loop.parent, 0
            state[name] = self._constant(name, *entry) if is_known else None
            if is_known and writes:
                steps += writes
                waiting += writes[0].instruction.operands[1:]
        return sorted(steps)


def _waits(instruction: Instruction) -> bool:
    """Return whether an instruction looks if an ``mbarrier`` is complete; it is taken to be."""
    looks = {"try_wait", "test_wait"}
    return instruction.opcode == "mbarrier" and not looks.isdisjoint(instruction.modifiers)


def _comparison(instruction: Instruction) -> tuple[Callable[[int, int], bool], bool] | None:
    """Return what compares two integers, and whether without sign; None if it is no such test.

    A predicate that is moved is compared with 0.
    """
    if instruction.opcode == "mov" and instruction.modifiers == ("pred",):
        return operator.ne, False
    is_plain = len(instruction.operands) == 3 and len(instruction.modifiers) == 2
    if instruction.opcode != "setp" or not is_plain:
        return None
    name, kind = instruction.modifiers
    compare = COMPARED.get(name)
    if compare is None or kind[0] not in "bus":
        return None
    return compare, kind[0] == "u" and name not in ("eq", "ne") or name in UNSIGNED


def _compared(instruction: Instruction) -> tuple[Operand, ...]:
    """Return the two operands that a test compares."""
    return (*instruction.operands[1:], "0")[:2]


def _execute(loop: Loop, steps: Iterable[_Write], state: dict[Operand, int | None]) -> None:
    """Execute instructions; a value is ``None`` if it is unknown."""
    for step in steps:
        opcode, operands = step.instruction.opcode, step.instruction.operands[1:]
        known = [value for value in map(state.get, operands) if value is not None]
        result = None
        if len(known) == len(operands) > 0 and step.is_certain(loop) and _is_step(step.instruction):
            first, second = (*known, 0)[:2]
            if opcode not in ("shl", "shr") or 0 <= second < 64:
                result = _STEP[opcode](first, second)
        if result is not None and abs(result) >= 2**63:
            result = None
        state |= dict.fromkeys(step.instruction.reads_and_writes[1], result)


def _is_step(instruction: Instruction) -> bool:
    """Return whether an instruction can be evaluated."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in _STEP or not modifiers or len(instruction.operands) > 3:
        return False
    types = [m for m in modifiers if m[-1:].isdigit()]
    return all(m[0] in "bus" for m in types) and "hi" not in modifiers and "cc" not in modifiers


def _extrapolated(
    distances: list[int], compare: Callable[[int, int], bool], continues: bool
) -> int | None:
    """Return the iteration in which a test whose distance changes by equal steps ends the loop.

    ``distances`` are the differences of the compared numbers in the iterations so far.
    """
    first, step = distances[-3], distances[-2] - distances[-3]
    if step == 0 or step != distances[-1] - distances[-2]:
        return None
    crossing = -first // step
    for steps in (crossing, crossing + 1):
        if 3 <= steps <= 2**62 and compare(first + step * steps, 0) != continues:
            return steps + len(distances) - 2
    return None
