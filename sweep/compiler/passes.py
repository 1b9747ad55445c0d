"""The compiled pass of a model: one loop over a block of the grid.

A pass is written out as source from a model's program, because only a plain loop with named
scalars vectorises: outputs that nobody asked for vanish, what does not differ along the inner loop
stands before it, and the piecewise cases become selections. There are few forms for each model, so
that a pass is compiled once per model and set of outputs, and not per kernel:

``clocks``
    the inner loop runs over the clocks; everything else is constant along it and is loaded once
    per row.
``rows``
    the inner loop runs over a whole row of configurations; every input is a row.
``sizes``
    the inner loop runs over an axis that decides the number of blocks and nothing else; what does
    not follow from it in the model is loaded once per row. For reductions: results come in
    another order than the grid's.

Inputs come as small tables with strides (0 along a dimension that a table does not depend on), so
that no grid of inputs is ever materialised. Long rows are taken in tiles: every row passes over one
tile of the tables, which stays in the cache, before the next tile. A row whose launch is invalid is
filled, not computed. Float64 inside; each output is rounded once, when it is stored.

The numbers of a sequence stand in one table, so that rounds of a kernel's stages that are alike are
one loop around the inner one (:mod:`sweep.compiler.looped`): the time of compilation does not grow
with the number of stages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from threading import RLock
from typing import Any, NamedTuple

from sweep.compiler import reductions
from sweep.compiler.looped import looped
from sweep.compiler.reductions import ROW_TILE, TILE
from sweep.compiler.selections import NAMES
from sweep.compiler.source import POWERED, Pass, Point
from sweep.hardware.clocks import NO_TIME
from sweep.jit import compile_pass
from sweep.models import get_model

CODES = ("regime", "bound")
_INPUTS = "tables, begins, stride, shape, n, held"
STATUSES = {"status": "in_launch_status", "power_status": f"{NO_TIME}"}
"""The statuses of an invalid launch. Its other codes are 0 and its numbers are NaN."""


def pass_source(which: Pass) -> str:
    """Return the source of a pass.

    A pass that keeps no results calls a function of :mod:`sweep.compiler.reductions` with each tile
    of a row. It begins with its tile number ``first`` and returns the number of the tile for which
    there was no room, or -1 at the end.
    """
    outputs = which.outputs
    arguments = ", ".join(f"out_{name}" for name in outputs)
    tile = ROW_TILE if which.form == "rows" else TILE
    if which.keeps:
        target, n_rows = "out_{}[j]", "n_rows"
        is_tiled = "True" if which.form == "sizes" else f"n > {tile}"
        head = (
            f"def reduce_{which.model}({_INPUTS}, n_rows, first, outer, inner, state,"
            f" {arguments}):\n    is_tiled = {is_tiled}\n    tile = -1"
        )
    else:
        target, n_rows = "out_{}[row, begin + j]", f"out_{outputs[0]}.shape[0]"
        head = f"def evaluate_{which.model}({_INPUTS}, {arguments}):"
    loads, loop, fills = _row(which, target)
    if which.keeps:
        loop = _taking(which, loop, which.inputs()["launch_status"] and "status" not in outputs)
    elif which.form == "clocks":
        loop = ["if in_launch_status != 0.0:", *_deeper(fills), "else:", *_deeper(loop)]
    # Once: to index the tuple at every use takes LLVM a time that is quadratic in its length.
    tables = ", ".join(f"table_{i}" for i in range(len(tables_of(which))))
    row = "\n            ".join([*loads, *loop])
    loops = _LOOPS.format(head=head, tables=tables, tile=tile, n_rows=n_rows, row=row)
    return f"{loops}    return -1\n" if which.keeps else loops


def _taking(which: Pass, loop: Sequence[str], skips_invalid: bool) -> list[str]:
    """Return the lines of one tile of a row that is reduced."""
    is_wanted = "tile >= first" + (" and in_launch_status == 0.0" if skips_invalid else "")
    rows = " ".join(f"row_{name}," for name in which.outputs)
    taking = [
        *loop,
        "base = 0",
        "for d in range(n_outer):",
        "    base += outer[d, index[d]]",
        *(f"row_{name} = out_{name}[: stop - start]" for name in which.outputs),
        f"if not take_{which.keeps}(state, ({rows}), base, inner, start, is_tiled):",
        "    return tile",
    ]
    return ["tile += 1", f"if {is_wanted}:", *_deeper(taking)]


_LOOPS = """\
{head}
    {tables} = tables
    n_inputs, n_outer = stride.shape
    index = np.zeros(n_outer, np.int64)
    at = begins.copy()
    for start in range(0, n, {tile}):
        stop = min(start + {tile}, n)
        begin, count = np.uint64(start), np.uint64(stop - start)
        for row in range(np.uint64({n_rows})):
            {row}
            d = n_outer - 1
            while d >= 0:
                index[d] += 1
                if index[d] < shape[d]:
                    for i in range(n_inputs):
                        at[i] += np.uint64(stride[i, d])
                    break
                index[d] = 0
                for i in range(n_inputs):
                    at[i] -= np.uint64(stride[i, d] * (shape[d] - 1))
                d -= 1
"""
"""At its end, where the next row's inputs begin; after the last row, where the first row's do."""


def _deeper(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def tables_of(which: Pass) -> list[tuple[str, ...]]:
    """Return the inputs of each table: one, or the numbers of a sequence."""
    sequences = {parts[0]: parts for parts in which.sequences().values() if parts}
    found, inside = [], 0
    for name in which.inputs():
        if inside:
            inside -= 1
            continue
        found.append(sequences.get(name, (name,)))
        inside = len(found[-1]) - 1
    return found


def _row(which: Pass, target: str) -> tuple[list[str], ...]:
    """Return the lines that load a row's inputs, and loops over its points, also where invalid.

    Indices are unsigned: a view of each table, or a check for negative indices, would take longer
    to compile than the model. ``target`` is where an output is stored.
    """
    constant, inputs, loads = which.inputs(), {}, {}
    sequences = {parts: name for name, parts in which.sequences().items()}
    number = 0
    for table, parts in enumerate(tables_of(which)):
        names = {name: f"{number + i}" for i, name in enumerate(parts)}
        if parts in sequences:
            names[sequences[parts]] = f"np.uint64({number}) + stage"
        number += len(parts)
        is_zero = sequences.get(parts, parts[0]) in which.zeros
        for name, place in names.items():
            if is_zero:
                inputs[name] = "0.0", False
            elif constant[parts[0]]:
                inputs[name] = f"in_{name}", False
                loads[name] = f"in_{name} = table_{table}[at[{place}]]"
            else:
                inputs[name] = f"table_{table}[at_{name} + j]", True
                loads[name] = f"at_{name} = at[{place}] + begin"
    point = Point(which, inputs)
    conditions, outputs = endings(which, point)
    stored, invalid = [], []
    for name, value, absent, is_code in outputs:
        text = f"{target.format(name)} = {'np.uint8(np.int32({}))' if is_code else '{}'}"
        stored.append(text.format(value))
        invalid.append(text.format(STATUSES.get(name, absent)))
    first = [loads[name] for name in loads if name in point.read | {"launch_status"}]
    every = "for j in range(count):"
    body = looped(point.lines, [*conditions, *stored], loads)
    return first, body, [every, *_deeper(invalid)]


class Output(NamedTuple):
    """An output of a pass: its name, and in Python its value and what stands for an absent one."""

    name: str
    value: str
    absent: str
    is_code: bool


def endings(which: Pass, point: Point) -> tuple[list[str], list[Output]]:
    """Return the lines that say what a point has, and the outputs, absent where it has none."""
    lines = [f"timed = {point.results['status']} == 0.0"]
    if "power_status" in point.results:
        lines.append(f"powered = {point.results['power_status']} == 0.0")
    own = [field.name for field in get_model(which.model).fields if field.kind == "code"]
    outputs = []
    for name in which.outputs:
        value, is_code = point.results[name], name in (*STATUSES, *CODES, *own)
        absent = "0.0" if is_code else "np.nan"
        if name not in STATUSES:
            value = f"_select({'powered' if name in POWERED else 'timed'}, {value}, {absent})"
        outputs.append(Output(name, value, absent, is_code))
    return lines, outputs


BUILDING = RLock()
"""One thread at a time writes a pass: CPython's ``ast`` module fails in two at once."""


def get_pass(which: Pass) -> Callable[..., Any]:
    """Return a compiled pass, built once per process."""
    with BUILDING:
        return _built(which)


@cache
def _built(which: Pass) -> Callable[..., Any]:
    source = pass_source(which)
    return compile_pass(_function(source), source)


def _function(source: str) -> Callable[..., Any]:
    """Return the function of a source, which may use NumPy and a function of the reductions.

    Its name holds a hash of the source: passes that are loaded from disk share one table of
    symbols.
    """
    start = source.index("(")
    name = f"{source[len('def ') : start]}_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    namespace: dict[str, Any] = {**vars(reductions), **NAMES, "__name__": __name__}
    # The text is written from checked expressions of registered models, never from a file.
    exec(compile(f"def {name}{source[start:]}", f"<{name}>", "exec"), namespace)
    return namespace[name]
