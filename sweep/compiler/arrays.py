"""A model's pass as NumPy evaluates it, without compilation: for results of moderate size.

It does the same operations as the compiled pass (see :mod:`sweep.compiler.passes`), in the same
order and on numbers of the same type, so its results are the same to the bit. A kernel of many
stages has thousands of lines, whose compilation takes longer than a million configurations take
here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sweep.compiler.passes import BUILDING, endings
from sweep.compiler.selections import NAMES
from sweep.compiler.source import Pass, Point
from sweep.fields import Array

Inputs = Mapping[str, Array]
"""The inputs of a pass by name, in shapes that broadcast."""


def arrays_source(which: Pass) -> str:
    """Return the source of a pass over arrays: a function from inputs to outputs by name."""
    point = Point(which, {name: (f'given["{name}"]', True) for name in which.inputs()})
    conditions, outputs = endings(which, point)
    lines = ["found = {}", *(f"{line.name} = {line.text}" for line in point.lines), *conditions]
    lines += [f'found["{output.name}"] = {output.value}' for output in outputs]
    return "\n    ".join(["def evaluate(given):", *_releasing(lines), "return found"])


def _releasing(lines: Sequence[str]) -> list[str]:
    """Return lines with values deleted after the last line that reads them, to bound memory."""
    last: dict[str, int] = {}
    for number, line in enumerate(lines):
        for name in re.findall(r"\b[vf]_\w+", line):
            last[name] = number
    ends: dict[int, list[str]] = {}
    for name, number in last.items():
        ends.setdefault(number, []).append(name)
    return [
        f"{line}; del {', '.join(ends[number])}" if number in ends else line
        for number, line in enumerate(lines)
    ]


def get_arrays_pass(which: Pass) -> Callable[[Inputs], dict[str, Array]]:
    """Return a function from a pass's inputs to its outputs, in shapes that broadcast."""
    with BUILDING:
        return _built(which)


@cache
def _built(which: Pass) -> Callable[[Inputs], dict[str, Array]]:
    namespace: dict[str, Any] = {**NAMES, "__name__": __name__}
    # The text is written from checked expressions of registered models, never from a file.
    exec(compile(arrays_source(which), f"<arrays of {which.model}>", "exec"), namespace)
    return namespace["evaluate"]
