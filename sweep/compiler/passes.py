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
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from sweep.compiler.reductions import TAKERS
from sweep.compiler.source import POWERED, input_names, point
from sweep.hardware.clocks import NO_TIME
from sweep.jit import compile_pass
from sweep.models import get_model
from sweep.models.base import Model

TILE = 4096
"""Points of a tile: some ten clocked tables of this length fit the second level cache, and what a
row costs besides its points no longer counts."""

CODES = ("regime", "bound")
STATUSES = ("status", "power_status")


def pass_source(
    model: Model,
    variant: str,
    form: str,
    outputs: tuple[str, ...],
    length: int = 0,
    keeps: str = "",
    varying: tuple[str, ...] = (),
) -> str:
    """Return the source of a pass.

    A pass that keeps no results calls ``take`` with each tile of a row. It begins with its tile
    number ``first`` and returns the number of the tile for which there was no room, or -1 at the
    end.

    Parameters
    ----------
    model : Model
        The model to evaluate.
    variant : str
        ``"corrected"`` or ``"printed"``.
    form : str
        ``"clocks"``, ``"rows"`` or ``"sizes"``.
    outputs : tuple of str
        Variables to store, each an array of rows (codes as bytes); of a pass that keeps no results
        each is the memory of one tile.
    length : int
        Numbers in each sequence input.
    keeps : str
        What a pass keeps in place of results, one of :data:`TAKERS`; empty for a pass that stores
        results.
    varying : tuple of str
        The inputs of the form ``sizes`` that are not constant along the inner loop.
    """
    constant = constant_inputs(model, form, length, varying)
    arguments = ", ".join(f"out_{name}" for name in outputs)
    if keeps:
        target, n_rows = "out_{}[j]", "n_rows"
        is_tiled = "True" if form == "sizes" else f"n > {TILE}"
        head = (
            f"def reduce_{model.name}(tables, stride, shape, n, n_rows, first, outer, inner, state,"
            f" {arguments}):\n    is_tiled = {is_tiled}\n    tile = -1"
        )
    else:
        target, n_rows = "out_{}[row, begin + j]", f"out_{outputs[0]}.shape[0]"
        head = f"def evaluate_{model.name}(tables, stride, shape, n, {arguments}):"
    loads, loop = _row(model, variant, constant, outputs, length, target)
    if keeps:
        loop = _taking(loop, outputs, constant["launch_status"] and "status" not in outputs)
    elif form == "clocks":
        fills = [f"{target.format(name)} = {_invalid(model, name)}" for name in outputs]
        fills = ["for j in range(count):", *_deeper(fills)]
        loop = ["if in_launch_status != 0.0:", *_deeper(fills), "else:", *_deeper(loop)]
    # Once: to index the tuple at every use takes LLVM a time that is quadratic in its length.
    tables = ", ".join(f"table_{i}" for i in range(len(constant)))
    row = "\n            ".join([*loads, *loop])
    loops = _LOOPS.format(head=head, tables=tables, tile=TILE, n_rows=n_rows, row=row)
    return f"{loops}    return -1\n" if keeps else loops


def _taking(loop: Sequence[str], outputs: Sequence[str], skips_invalid: bool) -> list[str]:
    """Return the lines of one tile of a row that ``take`` reduces."""
    is_wanted = "tile >= first" + (" and in_launch_status == 0.0" if skips_invalid else "")
    taking = [
        *loop,
        "base = 0",
        "for d in range(n_outer):",
        "    base += outer[d, index[d]]",
        *(f"row_{name} = out_{name}[: stop - start]" for name in outputs),
        f"if not take(state, ({' '.join(f'row_{name},' for name in outputs)}), base, inner, start,"
        " is_tiled):",
        "    return tile",
    ]
    return ["tile += 1", f"if {is_wanted}:", *_deeper(taking)]


def constant_inputs(
    model: Model, form: str, length: int, varying: tuple[str, ...] = ()
) -> dict[str, bool]:
    """Return a pass's inputs in order, and whether each is constant along the inner loop."""
    launch, clocked = input_names(model, length)
    if form == "sizes":
        return {name: name not in varying for name in launch + clocked}
    return {name: form == "clocks" and name in launch for name in launch + clocked}


_LOOPS = """\
{head}
    {tables} = tables
    n_inputs, n_outer = stride.shape
    index = np.zeros(n_outer, np.int64)
    at = np.zeros(n_inputs, np.uint64)
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


def _row(
    model: Model,
    variant: str,
    constant: Mapping[str, bool],
    outputs: tuple[str, ...],
    length: int,
    target: str,
) -> tuple[list[str], list[str]]:
    """Return the lines that load a row's inputs, and those with the loop over its points.

    Indices are unsigned: a view of each table, or a check for negative indices, would take longer
    to compile than the model. ``target`` is where an output is stored.
    """
    inputs = {
        name: (f"in_{name}", False) if is_one else (f"table_{i}[at_{i} + j]", True)
        for i, (name, is_one) in enumerate(constant.items())
    }
    found = point(model, variant, inputs, outputs, length)
    loads = [
        f"in_{name} = table_{i}[at[{i}]]" if is_one else f"at_{i} = at[{i}] + begin"
        for i, (name, is_one) in enumerate(constant.items())
        if name in found.inputs or name == "launch_status"
    ]
    inside = [f"{line.name} = {line.text}" for line in found.lines if line.varies]
    inside.append(f"timed = {found.results['status']} == 0.0")
    if "power_status" in found.results:
        inside.append(f"powered = {found.results['power_status']} == 0.0")
    for name in outputs:
        value = found.results[name]
        if name in STATUSES:
            stored = f"np.uint8(np.int32({value}))"
        elif name in _codes_of(model):
            stored = f"np.uint8(np.int32({value} if timed else 0.0))"
        else:
            stored = f"{value} if {'powered' if name in POWERED else 'timed'} else np.nan"
        inside.append(f"{target.format(name)} = {stored}")
    before = [f"{line.name} = {line.text}" for line in found.lines if not line.varies]
    return loads, [*before, "for j in range(count):", *_deeper(inside)]


def _codes_of(model: Model) -> frozenset[str]:
    """Return the variables of a model that hold codes, besides the statuses."""
    return frozenset((*CODES, *(field.name for field in model.fields if field.kind == "code")))


def _invalid(model: Model, name: str) -> str:
    """Return what a variable is where the launch is invalid."""
    if name == "status":
        return "np.uint8(np.int32(in_launch_status))"
    if name == "power_status":
        return f"np.uint8({int(NO_TIME)})"
    return "np.uint8(0)" if name in _codes_of(model) else "np.nan"


_COMPILING = Lock()


def get_pass(
    model: str,
    variant: str,
    form: str,
    outputs: tuple[str, ...],
    length: int = 0,
    keeps: str = "",
    varying: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Return a compiled pass, built once per process; see :func:`pass_source`."""
    with _COMPILING:
        return _built(model, variant, form, outputs, length, keeps, varying)


@cache
def _built(name: str, *rest: Any) -> Callable[..., Any]:
    *_, keeps, _ = rest
    return compile_pass(*_function(pass_source(get_model(name), *rest), keeps))


@cache
def get_plain_pass(
    model: str, variant: str, form: str, outputs: tuple[str, ...], length: int = 0
) -> Callable[..., Any]:
    """Return the same pass as Python runs it, without compilation: for a few configurations.

    It does the same operations on numbers of the same type, and its results are the same to the
    bit.
    """
    return _function(pass_source(get_model(model), variant, form, outputs, length))[0]


def _function(source: str, keeps: str = "") -> tuple[Callable[..., Any], str]:
    """Return the function of a source, which uses NumPy and maybe a taker, and its text's hash.

    Its name holds the hash: passes that are loaded from disk share one table of symbols.
    """
    digest = hashlib.sha256(f"{source}\n{keeps}".encode()).hexdigest()
    name = f"{source[len('def ') : source.index('(')]}_{digest[:16]}"
    namespace: dict[str, Any] = {"np": np, "__name__": __name__}
    if keeps:
        namespace["take"] = TAKERS[keeps]
    # The text is written from checked expressions of registered models, never from a file.
    exec(compile(f"def {name}{source[source.index('(') :]}", f"<{name}>", "exec"), namespace)
    return namespace[name], digest
