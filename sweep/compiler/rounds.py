"""Find the rounds of a loop that are alike, so that a pass can loop over them.

A program has every round of a loop written out, and what it takes to compile them grows with the
number of a kernel's stages. All rounds but the first and the last mostly differ in nothing but the
numbers that they read: they do the same operations in the same order on the next number of each
sequence and on what the round before left. Such rounds are found here by comparing their text, so
a body is written without regard to this, and a loop that is not of this kind stays unrolled.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby

from sweep.compiler.program import Assignment, names_in
from sweep.compiler.selections import renamed

LEAST = 3
"""Fewer rounds that are alike stay unrolled."""


@dataclass(frozen=True)
class Rounds:
    """Rounds that are alike, as one of them.

    Attributes
    ----------
    first, count : int
        The number of the first of them in its loop, and how many they are.
    body : tuple of Assignment
        The first of them.
    carried : mapping
        The names that it reads from the round before, to its own names of the same values.
    last : mapping
        The names in the last of them that are read after the loop, to its own names.
    parts : mapping
        The numbers of sequences that it reads, to their sequences.
    """

    first: int
    count: int
    body: tuple[Assignment, ...]
    carried: Mapping[str, str]
    last: Mapping[str, str]
    parts: Mapping[str, str]


Parts = Mapping[str, tuple[str, int]]
"""The numbers of all sequences: by name, the sequence and the place in it."""


def rolled(
    assignments: Sequence[Assignment], results: Collection[str], parts: Parts
) -> list[Assignment | Rounds]:
    """Return assignments with rounds that are alike as one.

    Parameters
    ----------
    assignments : sequence of Assignment
        A program's, or those that are needed of them.
    results : collection of str
        The names that are read at the end.
    parts : mapping
        The numbers of sequences by name.
    """
    found: list[Assignment | Rounds] = []
    done = 0
    for loop, group in groupby(assignments, lambda a: a.round and a.round[0]):
        own = list(group)
        done += len(own)
        if loop is None:
            found += own
            continue
        later = {name for a in assignments[done:] for name in names_in(a.expression)}
        rounds = [list(one) for _, one in groupby(own, lambda a: a.round)]
        found += _of_loop(rounds, later | {*results}, parts)
    return found


def _of_loop(
    rounds: Sequence[list[Assignment]], later: Collection[str], parts: Parts
) -> list[Assignment | Rounds]:
    """Return the rounds of a loop, those that are alike as one."""
    places = [{a.name: p for p, a in enumerate(one)} for one in rounds]
    texts = [_text(number, rounds, places, parts) for number in range(len(rounds))]
    start = 1
    while start < len(rounds):
        stop = start + 1
        while stop < len(rounds) and texts[stop] == texts[start]:
            stop += 1
        inner = {a.name for a in chain.from_iterable(rounds[start : stop - 1])}
        rest = list(chain.from_iterable(rounds[stop:]))
        after = {name for a in rest for name in names_in(a.expression)} | {*later}
        if stop - start >= LEAST and not inner & after:
            alike = _joined(rounds, start, stop, after, parts)
            return [*chain.from_iterable(rounds[:start]), alike, *rest]
        start += 1
    return list(chain.from_iterable(rounds))


def _text(
    number: int,
    rounds: Sequence[list[Assignment]],
    places: Sequence[Mapping[str, int]],
    parts: Parts,
) -> list[str]:
    """Return a round as text that is the same in rounds that are alike."""
    names = {name: f"{sequence}[]" for name, (sequence, at) in parts.items()
             if at == _number(rounds[number])}  # fmt: skip
    names |= {name: f"<{place}>" for name, place in places[number - 1].items()} if number else {}
    names |= {name: f"@{place}" for name, place in places[number].items()}
    return [renamed(ast.unparse(a.expression), names) for a in rounds[number]]


def _number(one: Sequence[Assignment]) -> int:
    found = one[0].round
    assert found is not None
    return found[1]


def _joined(
    rounds: Sequence[list[Assignment]], start: int, stop: int, after: Collection[str], parts: Parts
) -> Rounds:
    body, last = rounds[start], rounds[stop - 1]
    read = {name for a in body for name in names_in(a.expression)}
    before = zip(rounds[start - 1], body, strict=False)
    return Rounds(
        first=_number(body),
        count=stop - start,
        body=tuple(body),
        carried={old.name: own.name for old, own in before if old.name in read},
        last={end.name: own.name for end, own in zip(last, body, strict=True) if end.name in after},
        parts={name: parts[name][0] for name in sorted(read & parts.keys())},
    )
