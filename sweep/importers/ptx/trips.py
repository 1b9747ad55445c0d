"""Trip counts of loops that count from a known number to a known number.

The registers that a loop's exit test rests on are followed through one iteration after the other;
where they only move and add, the rest follows by arithmetic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from sweep.importers.ptx.addresses import Values
from sweep.importers.ptx.control_flow import Graph, Loop
from sweep.importers.ptx.module import Instruction, Registers
from sweep.importers.ptx.operands import reads_and_writes

__all__ = ["Definitions", "LoopTest", "loop_test"]

MAX_STEPS = 128
"""Iterations that are followed one by one: enough for every loop that halves or doubles."""

MAX_CHAIN = 64
"""Instructions that an exit test may rest on."""

Place = tuple[int, int]
"""An instruction: place of its block in the linear order, index in the block."""

_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "lo": lambda a, b: a < b, "ls": lambda a, b: a <= b, "hi": lambda a, b: a > b,
    "hs": lambda a, b: a >= b,
}  # fmt: skip
_LINEAR = ("mov", "add", "sub", "cvt")
_STEP: dict[str, Callable[[int, int], int]] = {
    "mov": lambda a, _: a, "cvt": lambda a, _: a, "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b,
}  # fmt: skip


@dataclass(frozen=True)
class LoopTest:
    """Where a loop decides whether to go on, and how often it does.

    Attributes
    ----------
    block : int
        The block that decides; all of the loop's iterations pass it.
    is_last : bool
        Whether the block jumps back itself: then an iteration is over when it decides, else the
        blocks up to it are executed once more than those after it.
    trips : int or None
        The number of iterations; ``None`` if it depends on what is not known here.
    is_exact : bool
        Whether the test depends on nothing else, so that it is not just the most there can be.
    """

    block: int
    is_last: bool
    trips: int | None = None
    is_exact: bool = True


class Definitions:
    """Where each register is written, and which of that a loop begins with.

    Parameters
    ----------
    graph : Graph
        The control-flow graph.
    registers : Registers
        The function's registers.
    values : Values
        What is known of them.
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
                for name in reads_and_writes(instruction)[1]:
                    if registers.type_of(name):
                        self._places.setdefault(name, []).append((position, index))

    def instruction(self, place: Place) -> Instruction:
        """Return the instruction at a place."""
        return self.graph.blocks[self.order[place[0]]].instructions[place[1]]

    def inside(self, name: str, loop: int) -> list[Place]:
        """Return where a register is written inside a loop."""
        places = self._places.get(name, [])
        first, last = self._spans[loop]
        return places[bisect_left(places, (first, 0)) : bisect_left(places, (last + 1, 0))]

    def entering(self, name: str, loop: Loop) -> int | None:
        """Return the number that a register or literal is when a loop is entered, if it is one.

        That is what was written last before the loop, on all ways to it.
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
        # An outer loop, into which the register comes from outside, must not write it otherwise.
        own = self.inside(name, loop.number)
        for outer in self.graph.nest(loop.parent):
            if self.graph.is_inside(block, outer):
                break
            if len(self.inside(name, outer)) > len(own):
                return None
        instruction = self.instruction(places[before])
        value = self.values.result(instruction)
        is_sure = value.is_uniform and not instruction.predicate
        return value.constant if is_sure else None


def loop_test(loop: Loop, definitions: Definitions) -> LoopTest | None:
    """Return where and how often a loop decides to go on.

    Parameters
    ----------
    loop : Loop
        The loop.
    definitions : Definitions
        Of the function.

    Returns
    -------
    LoopTest or None
        Of the block whose count is known, else of the one at the loop's end, else of its header;
        ``None`` where no block that every iteration passes can leave the loop.
    """
    graph = definitions.graph
    leaving = [block for block, _ in loop.exits if graph.is_on_every_path(block, loop)]
    tests = [_judge(loop, block, definitions) for block in dict.fromkeys(leaving)]
    tests.sort(
        key=lambda t: (
            t.trips is None, not t.is_exact, not t.is_last, t.block != loop.header, t.block
        )
    )  # fmt: skip
    return tests[0] if tests else None


def _judge(loop: Loop, block: int, definitions: Definitions) -> LoopTest:
    """Return how many iterations the branch at the end of a block allows."""
    graph = definitions.graph
    is_last = loop.latches == [block]
    branch = graph.blocks[block].branch
    if branch is None or branch.opcode != "bra" or not branch.predicate:
        return LoopTest(block, is_last)
    is_inside = graph.is_inside(graph.blocks[block].successors[0], loop.number)
    goes_on = is_inside != branch.negated
    tests = _comparisons(loop, branch.predicate, definitions, goes_on=goes_on)
    found = [_iterations(loop, test, definitions, goes_on=goes_on) for test in tests]
    known = [iterations for iterations in found if iterations is not None]
    if not known:
        return LoopTest(block, is_last)
    return LoopTest(block, is_last, min(known) - (not is_last), len(found) == 1)


def _comparisons(
    loop: Loop, predicate: str, definitions: Definitions, *, goes_on: bool
) -> list[Place]:
    """Return the comparisons that must all come out as ``goes_on`` for the loop to go on."""
    joined = "and" if goes_on else "or"
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


def _iterations(loop: Loop, place: Place, definitions: Definitions, *, goes_on: bool) -> int | None:
    """Return in which iteration a comparison does not come out as ``goes_on``."""
    graph, test = definitions.graph, definitions.instruction(place)
    is_plain = test.opcode == "setp" and len(test.operands) == 3 and len(test.modifiers) == 2
    if not is_plain or not isinstance(test.operands[0], str) or test.predicate:
        return None
    comparison, kind = test.modifiers
    if comparison not in _COMPARE or kind[0] not in "bus":
        return None
    if not graph.is_on_every_path(definitions.order[place[0]], loop):
        return None
    walk = _Walk(loop, place, definitions)
    return walk.iterations(comparison, kind, goes_on=goes_on) if walk.is_known else None


class _Walk:
    """The chain of instructions behind an exit test, executed iteration by iteration."""

    def __init__(self, loop: Loop, test: Place, definitions: Definitions) -> None:
        self.loop = loop
        self.test = test
        self.definitions = definitions
        self.start: dict[str, int] = {}
        self.chain: list[Place] = []
        self.is_known = self._follow()

    def _follow(self) -> bool:
        """Collect the chain and the values that it begins with; return whether all is known."""
        definitions, loop = self.definitions, self.loop
        operands = definitions.instruction(self.test).operands[1:]
        waiting = [operand for operand in operands if isinstance(operand, str)]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            places = definitions.inside(name, loop.number)
            start = definitions.entering(name, loop)
            if start is not None:
                self.start[name] = start
            elif not places:
                return False
            if not places:
                continue
            if len(places) > 1 or len(self.chain) >= MAX_CHAIN:
                return False
            step = definitions.instruction(places[0])
            block = definitions.order[places[0][0]]
            if not definitions.graph.is_on_every_path(block, loop) or not _is_step(step):
                return False
            self.chain.append(places[0])
            waiting += [o for o in step.operands[1:] if isinstance(o, str)]
        self.chain.sort()
        return True

    def iterations(self, comparison: str, kind: str, *, goes_on: bool) -> int | None:
        """Return in which iteration, from 1, the test does not come out as ``goes_on``."""
        state = dict(self.start)
        seen: list[int] = []
        is_linear = all(self.definitions.instruction(p).opcode in _LINEAR for p in self.chain)
        is_unsigned = comparison in ("lo", "ls", "hi", "hs") or kind[0] == "u"
        for iteration in range(1, MAX_STEPS + 1):
            compared = self._iterate(state)
            if compared is None:
                return None
            if is_unsigned and comparison not in ("eq", "ne") and min(compared) < 0:
                return None  # a large number in fact
            if _COMPARE[comparison](*compared) != goes_on:
                return iteration
            seen.append(compared[0] - compared[1])
            if is_linear and iteration == 3:
                return _jump(seen, comparison, goes_on)
        return None

    def _iterate(self, state: dict[str, int]) -> tuple[int, int] | None:
        """Execute one iteration; return what its test compares."""
        compared: tuple[int, int] | None = None
        for place in sorted([*self.chain, self.test]):
            instruction = self.definitions.instruction(place)
            sources = [state.get(str(operand)) for operand in instruction.operands[1:]]
            known = [source for source in sources if source is not None]
            if len(known) < len(sources):
                return None
            if place == self.test:
                compared = (known[0], known[1])
                continue
            second = known[1] if len(known) > 1 else 0
            if instruction.opcode in ("shl", "shr") and not 0 <= second < 64:
                return None
            value = _STEP[instruction.opcode](known[0], second)
            if abs(value) >= 2**63:
                return None
            state[str(instruction.operands[0])] = value
        return compared


def _is_step(instruction: Instruction) -> bool:
    """Whether an instruction is one that can be followed."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode not in _STEP or instruction.predicate or not modifiers:
        return False
    if not isinstance(instruction.operands[0], str) or len(instruction.operands) > 3:
        return False
    types = [m for m in modifiers if m[-1:].isdigit()]
    return all(m[0] in "bus" for m in types) and "hi" not in modifiers and "cc" not in modifiers


def _jump(seen: list[int], comparison: str, goes_on: bool) -> int | None:
    """Return the iteration in which a test ends whose operands' distance changes by equal steps.

    ``seen`` holds the distances of the first three iterations, in which the test goes on.
    """
    first, step = seen[0], seen[1] - seen[0]
    if step == 0 or step != seen[2] - seen[1]:
        return None
    if comparison in ("eq", "ne"):
        passed, rest = divmod(-first, step)
        return passed + 1 if passed > 0 and rest == 0 else None
    compare = _COMPARE[comparison]
    low, high = 2, 4  # iterations after the first: the last that goes on lies between
    while compare(first + step * high, 0) == goes_on:
        low, high = high, 2 * high
        if high > 2**62:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        is_on = compare(first + step * middle, 0) == goes_on
        low, high = (middle, high) if is_on else (low, middle)
    return high + 1
