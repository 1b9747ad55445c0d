"""Trip counts of loops with known start and end.

The registers that a loop's exit test depends on are evaluated iteration by iteration. If they are
only moved and added, the trip count follows by arithmetic.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

from sweep.importers.ptx.control_flow import Graph, Loop
from sweep.importers.ptx.module import Instruction, Register, Word
from sweep.importers.ptx.registers import Values

MAX_STEPS = 128
"""Iterations that are evaluated one by one: enough for every loop that halves or doubles."""

MAX_CHAIN = 64
"""Largest number of instructions that an exit test may depend on."""

Place = tuple[int, int]
"""An instruction: index of its block in the linear order, index in the block."""

_UNSIGNED = {"lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    **{name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")},
    **_UNSIGNED,
}
_LINEAR: dict[str, Callable[[int, int], int]] = {
    "mov": lambda a, _: a,
    "cvt": lambda a, _: a,
    "add": operator.add,
    "sub": operator.sub,
}
_STEP = {**_LINEAR, "mul": operator.mul, "shl": operator.lshift, "shr": operator.rshift}


class _Test(NamedTuple):
    """A test that may end a loop; sorted by preference.

    ``trips`` is the number of iterations that it allows, -1 if that depends on something unknown.
    ``is_late`` says whether blocks of the loop come after it, which it executes once less.
    """

    is_unknown: bool
    is_bound: bool
    is_late: bool
    is_below: bool
    block: int
    trips: int


def find_trips(graph: Graph, values: Values) -> None:
    """Set the test and, if it is known, the trip count of every loop.

    A loop has the test in a block with a known count, else the one at the loop's end, else the one
    in its header; none if no block that every iteration executes can leave the loop.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    values : Values
        The values of the registers.
    """
    finder = _Finder(graph, values)
    for loop in graph.loops:
        leaving = {block for block, _ in loop.exits if graph.is_on_every_path(block, loop)}
        test = min((finder.test(loop, block) for block in leaving), default=None)
        if test is None:
            continue
        if test.is_late:
            loop.test = test.block
        if not test.is_unknown:
            loop.trips = float(test.trips)
            loop.origin = "most" if test.is_bound else "constant"


class _Finder:
    """Finds the tests of loops from the instructions that write each register."""

    def __init__(self, graph: Graph, values: Values) -> None:
        self.graph = graph
        self.values = values
        self._writes: dict[Word, list[Place]] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        for position, number in enumerate(graph.linear_order):
            for loop in graph.nest(graph.blocks[number].loop):
                first, _ = self._spans.get(loop, (position, position))
                self._spans[loop] = (first, position)
            for index, instruction in enumerate(graph.blocks[number].instructions):
                for name in instruction.reads_and_writes()[1]:
                    self._writes.setdefault(name, []).append((position, index))

    def _instruction(self, place: Place) -> Instruction:
        return self.graph.blocks[self.graph.linear_order[place[0]]].instructions[place[1]]

    def _is_in_every_iteration(self, place: Place, loop: Loop) -> bool:
        return self.graph.is_on_every_path(self.graph.linear_order[place[0]], loop)

    def _writes_inside(self, name: Word, loop: int) -> list[Place]:
        """Return the instructions inside a loop that write a register."""
        places = self._writes.get(name, [])
        first, last = self._spans[loop]
        return places[bisect_left(places, (first, 0)) : bisect_left(places, (last + 1, 0))]

    def _at_entry(self, name: Word, loop: Loop) -> int | None:
        """Return the value of a register or literal at the entry of a loop, if it is a number.

        It is the last value written before the loop on all paths.
        """
        places = self._writes.get(name)
        if places is None:
            value = self.values.of(name)
            return value.constant if value.is_uniform else None
        before = bisect_left(places, (self._spans[loop.number][0], 0)) - 1
        if before < 0:
            return None
        block = self.graph.linear_order[places[before][0]]
        if not self.graph.dominates(block, loop.header):
            return None
        # An outer loop that the value enters from outside must not write the register elsewhere.
        own = self._writes_inside(name, loop.number)
        for outer in self.graph.nest(loop.parent):
            if self.graph.is_inside(block, outer):
                break
            if len(self._writes_inside(name, outer)) > len(own):
                return None
        instruction = self._instruction(places[before])
        value = self.values.result(instruction)
        return value.constant if value.is_uniform and not instruction.predicate else None

    def test(self, loop: Loop, block: int) -> _Test:
        """Return the test at the end of a block, with the number of iterations that it allows."""
        is_late = loop.latches != [block]
        found: list[int | None] = []
        branch = self.graph.blocks[block].branch
        if branch is not None and branch.opcode == "bra" and branch.predicate:
            is_inside = self.graph.is_inside(self.graph.blocks[block].successors[0], loop.number)
            continues = is_inside != branch.negated
            comparisons = self._comparisons(loop, branch.predicate, continues)
            found = [self._iterations(loop, place, continues) for place in comparisons]
        known = [iterations for iterations in found if iterations is not None]
        trips = min(known) - is_late if known else -1
        is_bound = bool(known) and len(found) > 1
        return _Test(not known, is_bound, is_late, block != loop.header, block, trips)

    def _comparisons(self, loop: Loop, predicate: Word, continues: bool) -> list[Place]:
        """Return the comparisons that must all be ``continues`` for another iteration."""
        joined = "and" if continues else "or"
        result: list[Place] = []
        waiting = [predicate]
        for _ in range(MAX_CHAIN):
            if not waiting:
                break
            places = self._writes_inside(waiting.pop(), loop.number)
            if len(places) != 1:
                continue
            write = self._instruction(places[0])
            if write.opcode == joined and write.modifiers == ("pred",):
                waiting += [name for name in write.operands[1:] if isinstance(name, Word)]
            result.append(places[0])
        return result

    def _iterations(self, loop: Loop, place: Place, continues: bool) -> int | None:
        """Return the first iteration, from 1, in which a comparison is not ``continues``."""
        test = self._instruction(place)
        is_plain = test.opcode == "setp" and len(test.operands) == 3 and len(test.modifiers) == 2
        if not is_plain or not isinstance(test.operands[0], Register) or test.predicate:
            return None
        comparison, kind = test.modifiers
        compare = _COMPARE.get(comparison)
        if compare is None or kind[0] not in "bus" or not self._is_in_every_iteration(place, loop):
            return None
        is_unsigned = kind[0] == "u" and comparison not in ("eq", "ne") or comparison in _UNSIGNED
        evaluation = _Evaluation(self, loop)
        distances: list[int] = []
        for iteration in range(1, MAX_STEPS + 1):
            compared = evaluation.sources(place, iteration)
            if compared is None or is_unsigned and min(compared) < 0:  # in fact a large number
                return None
            first, second = compared
            if compare(first, second) != continues:
                return iteration
            distances.append(first - second)
            if evaluation.is_linear(iteration):
                return _extrapolated(distances, compare, continues)
        return None


class _Evaluation:
    """The values of the registers that a test depends on, iteration by iteration."""

    def __init__(self, finder: _Finder, loop: Loop) -> None:
        self._finder = finder
        self._loop = loop
        self._steps: dict[Place, Instruction] = {}
        self._results: dict[tuple[Place, int], int | None] = {}

    def is_linear(self, iteration: int) -> bool:
        """Return whether registers are only moved and added, at least in the last 3 iterations."""
        # A value from before the loop passes through every step at most once.
        is_settled = iteration >= len(self._steps) + 3
        return is_settled and all(step.opcode in _LINEAR for step in self._steps.values())

    def sources(self, place: Place, iteration: int) -> list[int] | None:
        """Return the values that an instruction reads, if all are known numbers."""
        operands = self._finder._instruction(place).operands[1:]
        found = [self._value(name, place, iteration) for name in operands if isinstance(name, Word)]
        known = [value for value in found if value is not None]
        return known if len(known) == len(operands) else None

    def _value(self, name: Word, place: Place, iteration: int) -> int | None:
        """Return the value of a register where an instruction reads it."""
        writes = self._finder._writes_inside(name, self._loop.number)
        if len(writes) > 1:
            return None
        is_later = bool(writes) and writes[0] >= place
        if not writes or is_later and iteration == 1:
            return self._finder._at_entry(name, self._loop)
        key = writes[0], iteration - is_later
        if key not in self._results:
            self._results[key] = self._result(*key)
        return self._results[key]

    def _result(self, place: Place, iteration: int) -> int | None:
        step = self._steps.setdefault(place, self._finder._instruction(place))
        is_certain = self._finder._is_in_every_iteration(place, self._loop)
        if len(self._steps) > MAX_CHAIN or not is_certain or not _is_step(step):
            return None
        sources = self.sources(place, iteration)
        if sources is None:
            return None
        first, second = (*sources, 0)[:2]
        if step.opcode in ("shl", "shr") and not 0 <= second < 64:
            return None
        value = _STEP[step.opcode](first, second)
        return value if abs(value) < 2**63 else None


def _is_step(instruction: Instruction) -> bool:
    """Return whether an instruction can be evaluated."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in _STEP or instruction.predicate or not modifiers:
        return False
    if not isinstance(instruction.operands[0], Register) or len(instruction.operands) > 3:
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
