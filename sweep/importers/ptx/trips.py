"""Trip counts of loops with known start and end.

The registers that a loop's exit test depends on are evaluated iteration by iteration. If they are
only moved and added, the trip count follows by arithmetic.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from sweep.importers.ptx.control_flow import Graph, Loop
from sweep.importers.ptx.module import Instruction, Registers
from sweep.importers.ptx.registers import Values

__all__ = ["Definitions", "LoopTest", "loop_test"]

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


@dataclass(frozen=True)
class LoopTest:
    """The test that decides whether a loop continues, and how often it does.

    Attributes
    ----------
    block : int
        The block with the test; all iterations of the loop execute it.
    is_last : bool
        Whether the block jumps back itself. If so, the test ends an iteration; if not, the blocks
        up to it are executed once more than those after it.
    trips : int or None
        The number of iterations; ``None`` if it depends on something unknown.
    is_exact : bool
        Whether the count is exact; if not, ``trips`` is an upper bound.
    """

    block: int
    is_last: bool
    trips: int | None = None
    is_exact: bool = True


class Definitions:
    """The instructions that write each register, and the values at the entry of a loop.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    registers : Registers
        The function's registers.
    values : Values
        The values of the registers.
    """

    def __init__(self, graph: Graph, registers: Registers, values: Values) -> None:
        self.graph = graph
        self.values = values
        self.order = graph.linear_order()
        self._places: dict[str, list[Place]] = {}
        self._spans: dict[int, tuple[int, int]] = {}
        for position, number in enumerate(self.order):
            for loop in graph.nest(graph.blocks[number].loop):
                first, _ = self._spans.get(loop, (position, position))
                self._spans[loop] = (first, position)
            for index, instruction in enumerate(graph.blocks[number].instructions):
                for name in instruction.reads_and_writes()[1]:
                    if registers.type_of(name):
                        self._places.setdefault(name, []).append((position, index))

    def instruction(self, place: Place) -> Instruction:
        """Return the instruction at a place."""
        return self.graph.blocks[self.order[place[0]]].instructions[place[1]]

    def is_in_every_iteration(self, place: Place, loop: Loop) -> bool:
        """Return whether every iteration of a loop executes an instruction exactly once."""
        return self.graph.is_on_every_path(self.order[place[0]], loop)

    def inside(self, name: str, loop: int) -> list[Place]:
        """Return the instructions inside a loop that write a register."""
        places = self._places.get(name, [])
        first, last = self._spans[loop]
        return places[bisect_left(places, (first, 0)) : bisect_left(places, (last + 1, 0))]

    def entering(self, name: str, loop: Loop) -> int | None:
        """Return the value of a register or literal at the entry of a loop, if it is a number.

        It is the last value written before the loop on all paths.
        """
        places = self._places.get(name)
        if places is None:
            value = self.values.of(name)
            return value.constant if value.is_uniform else None
        before = bisect_left(places, (self._spans[loop.number][0], 0)) - 1
        if before < 0:
            return None
        block = self.order[places[before][0]]
        if not self.graph.dominates(block, loop.header):
            return None
        # An outer loop that the value enters from outside must not write the register elsewhere.
        own = self.inside(name, loop.number)
        for outer in self.graph.nest(loop.parent):
            if self.graph.is_inside(block, outer):
                break
            if len(self.inside(name, outer)) > len(own):
                return None
        instruction = self.instruction(places[before])
        value = self.values.result(instruction)
        return value.constant if value.is_uniform and not instruction.predicate else None


def loop_test(loop: Loop, definitions: Definitions) -> LoopTest | None:
    """Return where and how often a loop decides to continue.

    Parameters
    ----------
    loop : Loop
        The loop.
    definitions : Definitions
        The definitions of the function.

    Returns
    -------
    LoopTest or None
        The test in a block with a known count, else the one at the loop's end, else the one in its
        header; ``None`` if no block that every iteration executes can leave the loop.
    """
    graph = definitions.graph
    leaving = {block for block, _ in loop.exits if graph.is_on_every_path(block, loop)}
    tests = (_judge(loop, block, definitions) for block in leaving)

    def preference(test: LoopTest) -> tuple[bool | int, ...]:
        is_header = test.block == loop.header
        return test.trips is None, not test.is_exact, not test.is_last, not is_header, test.block

    return min(tests, key=preference, default=None)


def _judge(loop: Loop, block: int, definitions: Definitions) -> LoopTest:
    """Return the test at the end of a block, with the number of iterations that it allows."""
    graph = definitions.graph
    is_last = loop.latches == [block]
    branch = graph.blocks[block].branch
    if branch is None or branch.opcode != "bra" or not branch.predicate:
        return LoopTest(block, is_last)
    is_inside = graph.is_inside(graph.blocks[block].successors[0], loop.number)
    continues = is_inside != branch.negated
    tests = _comparisons(loop, branch.predicate, definitions, continues=continues)
    found = [_iterations(loop, test, definitions, continues=continues) for test in tests]
    known = [iterations for iterations in found if iterations is not None]
    if not known:
        return LoopTest(block, is_last)
    return LoopTest(block, is_last, min(known) - (not is_last), len(found) == 1)


def _comparisons(
    loop: Loop, predicate: str, definitions: Definitions, *, continues: bool
) -> list[Place]:
    """Return the comparisons that must all be ``continues`` for another iteration."""
    joined = "and" if continues else "or"
    result: list[Place] = []
    waiting = [predicate]
    for _ in range(MAX_CHAIN):
        if not waiting:
            break
        places = definitions.inside(waiting.pop(), loop.number)
        if len(places) != 1:
            continue
        definition = definitions.instruction(places[0])
        if definition.opcode == joined and definition.modifiers == ("pred",):
            waiting += [operand for operand in definition.operands[1:] if isinstance(operand, str)]
        result.append(places[0])
    return result


def _iterations(
    loop: Loop, place: Place, definitions: Definitions, *, continues: bool
) -> int | None:
    """Return the first iteration, from 1, in which a comparison is not ``continues``."""
    test = definitions.instruction(place)
    is_plain = test.opcode == "setp" and len(test.operands) == 3 and len(test.modifiers) == 2
    if not is_plain or not isinstance(test.operands[0], str) or test.predicate:
        return None
    comparison, kind = test.modifiers
    if comparison not in _COMPARE or kind[0] not in "bus":
        return None
    behind = _behind(loop, test, definitions)
    if behind is None or not definitions.is_in_every_iteration(place, loop):
        return None
    state, places = behind
    chain = [definitions.instruction(step) for step in sorted([*places, place])]
    is_linear = all(step is test or step.opcode in _LINEAR for step in chain)
    is_unsigned = kind[0] == "u" and comparison not in ("eq", "ne") or comparison in _UNSIGNED
    distances: list[int] = []
    for iteration in range(1, MAX_STEPS + 1):
        compared = _iterate(chain, test, state)
        if compared is None or is_unsigned and min(compared) < 0:  # in fact a large number
            return None
        if _COMPARE[comparison](*compared) != continues:
            return iteration
        distances.append(compared[0] - compared[1])
        if is_linear and iteration == 3:
            return _extrapolated(distances, _COMPARE[comparison], continues)
    return None


def _behind(
    loop: Loop, test: Instruction, definitions: Definitions
) -> tuple[dict[str, int], list[Place]] | None:
    """Return the values at the loop's entry and the instructions that a test depends on."""
    start: dict[str, int] = {}
    chain: list[Place] = []
    waiting = [operand for operand in test.operands[1:] if isinstance(operand, str)]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        places = definitions.inside(name, loop.number)
        value = definitions.entering(name, loop)
        if value is not None:
            start[name] = value
        elif not places:
            return None
        if not places:
            continue
        step = definitions.instruction(places[0])
        if len(places) > 1 or len(chain) >= MAX_CHAIN or not _is_step(step):
            return None
        if not definitions.is_in_every_iteration(places[0], loop):
            return None
        chain.append(places[0])
        waiting += [operand for operand in step.operands[1:] if isinstance(operand, str)]
    return start, chain


def _is_step(instruction: Instruction) -> bool:
    """Return whether an instruction can be evaluated."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in _STEP or instruction.predicate or not modifiers:
        return False
    if not isinstance(instruction.operands[0], str) or len(instruction.operands) > 3:
        return False
    types = [m for m in modifiers if m[-1:].isdigit()]
    return all(m[0] in "bus" for m in types) and "hi" not in modifiers and "cc" not in modifiers


def _iterate(
    chain: list[Instruction], test: Instruction, state: dict[str, int]
) -> tuple[int, int] | None:
    """Execute one iteration; return the two numbers that its test compares."""
    compared: tuple[int, int] | None = None
    for instruction in chain:
        sources = [state.get(str(operand)) for operand in instruction.operands[1:]]
        known = [source for source in sources if source is not None]
        if len(known) < len(sources):
            return None
        first, second = (*known, 0)[:2]
        if instruction is test:
            compared = (first, second)
            continue
        if instruction.opcode in ("shl", "shr") and not 0 <= second < 64:
            return None
        value = _STEP[instruction.opcode](first, second)
        if abs(value) >= 2**63:
            return None
        state[str(instruction.operands[0])] = value
    return compared


def _extrapolated(
    distances: list[int], compare: Callable[[int, int], bool], continues: bool
) -> int | None:
    """Return the iteration in which a test whose distance changes by equal steps ends the loop.

    ``distances`` are the differences of the compared numbers in the first three iterations.
    """
    first, step = distances[0], distances[1] - distances[0]
    if step == 0 or step != distances[2] - distances[1]:
        return None
    crossing = -first // step
    for steps in (crossing, crossing + 1):
        if 3 <= steps <= 2**62 and compare(first + step * steps, 0) != continues:
            return steps + 1
    return None
