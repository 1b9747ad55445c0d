"""The inner loops of a pass, from the lines of a point: one, or several around loops over stages.

Where rounds are alike, the points of a tile go through a loop over stages together, and what one
inner loop leaves to a later one waits in ``held``, a tile of memory for each value. Operations and
their order stay as in the unrolled text, and so do the results, to the bit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sweep.compiler.reductions import TILE
from sweep.compiler.rounds import LEAST
from sweep.compiler.source import Carried, Line, Loop

MOST_HELD = 128
"""Values, at most, that a pass holds between its inner loops."""

APART = TILE + 24
"""Numbers from one held value to the next: a power of two would have all in one set of a cache."""

_OWN = re.compile(r"\b[vfc]_\w+")


def memory(length: int) -> np.ndarray[Any, Any]:
    """Return the memory in which one thread's pass holds values, for sequences of a length."""
    return np.empty(MOST_HELD * APART if length > LEAST else 0)


class _Part(NamedTuple):
    """Lines with an inner loop of their own: those of a loop's round, or those around loops."""

    lines: Sequence[Line]
    ends: Sequence[str]
    loop: Loop | None


def looped(
    lines: Sequence[Line | Loop], ends: Sequence[str], loads: Mapping[str, str]
) -> list[str]:
    """Return the text of the loops over a tile's points.

    Parameters
    ----------
    lines : sequence
        The lines of a point.
    ends : sequence of str
        What follows them inside the last inner loop.
    loads : mapping
        How a round of a loop finds its number of a sequence.
    """
    parts: list[_Part] = []
    own: list[Line] = []
    for line in lines:
        if isinstance(line, Loop):
            parts += [_Part(own, [], None), _Part(line.lines, [], line)]
            own = []
        else:
            own.append(line)
    writing = _Writing([*parts, _Part(own, ends, None)], loads)
    return [text for number in range(len(parts) + 1) for text in writing.text(number)]


class _Writing:
    """Writes parts one after the other, and what varies between them to memory."""

    def __init__(self, parts: Sequence[_Part], loads: Mapping[str, str]) -> None:
        self.parts, self.loads = parts, loads
        known: list[Line | Carried] = [line for part in parts for line in part.lines]
        known += [c for part in parts if part.loop for c in part.loop.carried]
        self.varying = {line.name: line for line in known if line.varies}
        self.reads = [self._read_by(part) for part in parts]
        self.slots: dict[str, int] = {}

    def _read_by(self, part: _Part) -> set[str]:
        """Return the varying values that a part reads and that are not its own."""
        texts = [*(line.text for line in part.lines), *part.ends]
        if part.loop:
            texts += [c.after for c in part.loop.carried]
        read = {name for text in texts for name in _OWN.findall(text)} & self.varying.keys()
        return read - {line.name for line in part.lines}

    def text(self, number: int) -> list[str]:
        """Return the lines of a part."""
        part = self.parts[number]
        before = [f"{line.name} = {line.text}" for line in part.lines if not line.varies]
        inside = self._from_elsewhere(number)
        inside += [f"{line.name} = {line.text}" for line in part.lines if line.varies]
        inside += part.ends
        if part.loop:
            return self._of_loop(number, part.loop, before, inside)
        following = self.parts[number + 1].loop if number + 1 < len(self.parts) else None
        for carried in following.carried if following else ():
            if carried.varies:
                inside.append(f"{self._place(carried.name)} = {carried.before}")
            else:
                before.append(f"{carried.name} = {carried.before}")
        inside += self._for_later(number)
        return [*before, *_over_points(inside)]

    def _of_loop(self, number: int, loop: Loop, before: list[str], inside: list[str]) -> list[str]:
        inside += [f"{self._place(c.name)} = {c.after}" for c in loop.carried if c.varies]
        inside += self._for_later(number)
        rest = [c for c in loop.carried if not c.varies]
        ends = [f"{', '.join(c.name for c in rest)}, = {', '.join(c.after for c in rest)},"]
        loads = [self.loads[name] for name in loop.read if name in self.loads]
        each = [*loads, *before, *_over_points(inside)]
        stages = f"np.uint64({loop.first}), np.uint64({loop.first + loop.rounds})"
        body = [*each, *(ends if rest else [])]
        return [f"for stage in range({stages}):", *(f"    {text}" for text in body)]

    def _from_elsewhere(self, number: int) -> list[str]:
        """Return the lines that fetch what earlier parts left, and read inputs again."""
        found = []
        for name in sorted(self.reads[number]):
            line = self.varying[name]
            if isinstance(line, Line) and line.is_read:
                found.append(f"{name} = {line.text}")
            else:
                found.append(f"{name} = {self._place(name)}{' != 0.0' if line.is_truth else ''}")
        return found

    def _for_later(self, number: int) -> list[str]:
        """Return the lines that store what later parts read."""
        later = set().union(*self.reads[number + 1 :])
        return [
            f"{self._place(line.name)} = {line.name}"
            for line in self.parts[number].lines
            if line.varies and not line.is_read and line.name in later
        ]

    def _place(self, name: str) -> str:
        slot = self.slots.setdefault(name, len(self.slots))
        if slot >= MOST_HELD:
            raise AssertionError("no room for all values that a pass holds between its loops")
        return f"held[np.uint64({slot * APART}) + j]"


def _over_points(inside: Sequence[str]) -> list[str]:
    """Return an inner loop, unless there is nothing in it."""
    stores = [text for text in inside if re.match(r"[^=]*\]\s*=", text)]
    return ["for j in range(count):", *(f"    {text}" for text in inside)] if stores else []
