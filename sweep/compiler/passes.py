"""The compiled pass of a model: one loop over a block of the grid.

A pass is written out as source from a model's declaration, because only a plain loop with named
scalars vectorises: the model's body is inlined into it, outputs that nobody asked for vanish, and
the piecewise cases become selects. There are few forms for each model, so that a pass is
compiled once per model and set of outputs, and not per kernel:

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
from collections.abc import Callable, Mapping
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from sweep._jit import compile_pass, joined
from sweep.compiler.lowering import plain, straight
from sweep.compiler.reductions import TAKERS
from sweep.fields import POWER_STATUS, STATUS
from sweep.models import get_model
from sweep.models.base import HEAD, Model

__all__ = [
    "CLOCK_INPUTS",
    "LAUNCH_INPUTS",
    "TILE",
    "forget_passes",
    "get_pass",
    "get_plain_pass",
    "get_reducing_pass",
    "input_names",
    "nominal",
    "parts_of",
    "pass_source",
    "reducing_source",
]

LAUNCH_INPUTS = ("launch_status", "static_power")
"""What every pass reads besides the model's own inputs, constant along the clocks."""

CLOCK_INPUTS = (
    "clock_status",
    "power_input_status",
    "core_hz",
    "core_watts",
    "memory_watts",
)
"""What every pass reads besides the model's own inputs, depending on the clocks."""

TILE = 4096
"""Points of a tile: some ten clocked tables of this length fit the second level cache, and what a
row costs besides its points no longer counts."""

CODES = ("regime", "bound")
STATUSES = ("status", "power_status")
POWERED = ("power", "energy")

MODEL_DOMAIN = float(STATUS["model_domain"])
NO_TIME = float(POWER_STATUS["no_time"])
LARGEST = float(np.finfo(np.float32).max)
"""Most cycles of a valid configuration, in either precision: a store of float32 must not hold
infinity as a result. Comparing with a number costs less than testing for infinity does."""


@joined
def _finish(cycles, core_activity, memory_activity, launch_status, clock_status,  # type: ignore[no-untyped-def]
            power_input_status, static_power, core_hz, core_watts, memory_watts):  # fmt: skip
    """Join what all models share: status, seconds, power after equation (1), energy."""
    status = launch_status if launch_status != 0.0 else clock_status
    sound = (cycles > 0.0) and (cycles <= LARGEST)
    status = status if (status != 0.0 or sound) else MODEL_DOMAIN
    time = cycles / core_hz
    power = static_power + core_activity * core_watts + memory_activity * memory_watts
    power_status = power_input_status if status == 0.0 else NO_TIME
    return status, power_status, time, power, power * time


def parts_of(name: str, length: int) -> tuple[str, ...]:
    """Return the names of the numbers of a sequence input."""
    return tuple(f"{name}_{i}" for i in range(length))


def nominal(name: str) -> str:
    """Return the name of an input before its factor."""
    return f"nominal_{name}"


def input_names(model: Model, length: int = 0) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a pass's inputs: constant along the clocks, and depending on them.

    Parameters
    ----------
    model : Model
        The model.
    length : int
        Numbers in each sequence input.
    """
    names: dict[bool, list[str]] = {False: [], True: []}
    for i in model.inputs:
        own = parts_of(i.symbol, length) if i.sequence else (i.symbol,)
        if i.factor:
            names[False] += map(nominal, own)
            names[True] += [i.factor] if i.factor not in names[True] else []
        else:
            names[i.clocked] += own
    return LAUNCH_INPUTS + tuple(names[False]), CLOCK_INPUTS + tuple(names[True])


def pass_source(model: Model, form: str, outputs: tuple[str, ...], length: int = 0) -> str:
    """Return the source of a pass.

    Parameters
    ----------
    model : Model
        The model to evaluate.
    form : str
        ``"clocks"`` or ``"rows"``.
    outputs : tuple of str
        Variables to store, each an array of rows (codes as bytes).
    length : int
        Numbers in each sequence input.
    """
    constant = _constants(model, form, length)
    arguments = ", ".join(f"out_{name}" for name in outputs)
    codes = _codes_of(model)
    point = _point_source(model, constant, outputs, length)
    lines = [
        f"def evaluate_{model.name}(tables, stride, shape, n, {arguments}):",
        *_row_source(constant, f"out_{outputs[0]}.shape[0]"),
        *(f"            row_{name} = out_{name}[row, start:stop]" for name in outputs),
    ]
    if form == "clocks":
        lines += [
            "            if in_launch_status != 0.0:",
            *(f"                row_{name}[:] = {_invalid(name, codes)}" for name in outputs),
            "            else:",
            "                for j in range(stop - start):",
            *(f"                    {line}" for line in point),
        ]
    else:
        lines += [
            "            for j in range(stop - start):",
            *(f"                {line}" for line in point),
        ]
    return "\n".join([*lines, _NEXT_ROW])


def reducing_source(
    model: Model,
    form: str,
    outputs: tuple[str, ...],
    length: int = 0,
    varying: tuple[str, ...] = (),
) -> str:
    """Return the source of a pass that keeps no results: ``take`` sees each tile of a row.

    The pass begins with its tile number ``first``. It returns the number of the tile for which
    there was no room, or -1 at the end.

    Parameters
    ----------
    model, form, outputs, length
        As in :func:`pass_source`; each output is the memory of one tile.
    varying : tuple of str
        The inputs of the form ``sizes`` that are not constant along the inner loop.
    """
    constant = _constants(model, form, length, varying)
    arguments = ", ".join(f"out_{name}" for name in outputs)
    point = _point_source(model, constant, outputs, length)
    rows = " ".join(f"row_{name}," for name in outputs)
    skips = constant["launch_status"] and "status" not in outputs
    is_wanted = "tile >= first" + (" and in_launch_status == 0.0" if skips else "")
    is_tiled = "True" if form == "sizes" else f"n > {TILE}"
    lines = [
        f"def reduce_{model.name}(tables, stride, shape, n, n_rows, first, outer, inner, state, "
        f"{arguments}):",
        f"    is_tiled = {is_tiled}",
        "    tile = -1",
        *_row_source(constant, "n_rows"),
        "            tile += 1",
        f"            if {is_wanted}:",
        *(f"                row_{name} = out_{name}[: stop - start]" for name in outputs),
        "                for j in range(stop - start):",
        *(f"                    {line}" for line in point),
        "                base = 0",
        "                for d in range(n_outer):",
        "                    base += outer[d, index[d]]",
        f"                if not take(state, ({rows}), base, inner, start, is_tiled):",
        "                    return tile",
    ]
    return "\n".join([*lines, _NEXT_ROW, "    return -1\n"])


def _constants(
    model: Model, form: str, length: int, varying: tuple[str, ...] = ()
) -> dict[str, bool]:
    """Return a pass's inputs in order, and whether each is constant along the inner loop."""
    launch, clocked = input_names(model, length)
    if form == "sizes":
        return {name: name not in varying for name in launch + clocked}
    return {name: form == "clocks" and name in launch for name in launch + clocked}


def _row_source(constant: Mapping[str, bool], n_rows: str) -> list[str]:
    """Return the head of a pass: the loops over tiles and rows, and a row's inputs."""
    loads = [
        f"in_{name} = table_{i}[at[{i}]" + ("]" if is_one else f" + start : at[{i}] + stop]")
        for i, (name, is_one) in enumerate(constant.items())
    ]
    return [
        # Once: to index the tuple at every use takes LLVM a time that is quadratic in its length.
        f"    {', '.join(f'table_{i}' for i in range(len(loads)))} = tables",
        "    n_inputs, n_outer = stride.shape",
        "    index = np.zeros(n_outer, np.int64)",
        "    at = np.zeros(n_inputs, np.int64)",
        f"    for start in range(0, n, {TILE}):",
        f"        stop = min(start + {TILE}, n)",
        f"        for row in range({n_rows}):",
        *(f"            {load}" for load in loads),
    ]


_NEXT_ROW = """
            d = n_outer - 1
            while d >= 0:
                index[d] += 1
                if index[d] < shape[d]:
                    for i in range(n_inputs):
                        at[i] += stride[i, d]
                    break
                index[d] = 0
                for i in range(n_inputs):
                    at[i] -= stride[i, d] * (shape[d] - 1)
                d -= 1
"""
"""Where the next row's inputs begin; after the last row, where the first row's do."""


def _point_source(
    model: Model, is_constant: Mapping[str, bool], outputs: tuple[str, ...], length: int
) -> list[str]:
    """Return the lines that evaluate and store point ``j`` of a row."""

    def value(name: str) -> str:
        return f"in_{name}" if is_constant[name] else f"in_{name}[j]"

    def argument(part: str, factor: str) -> str:
        return f"{value(nominal(part))} * {value(factor)}" if factor else value(part)

    head = [f"v_{name}" for name in (*HEAD, *(field.name for field in model.fields))]
    arguments = ", ".join(
        argument(part, i.factor)
        for i in model.inputs
        for part in (parts_of(i.symbol, length) if i.sequence else (i.symbol,))
    )
    shared = ("launch_status", "clock_status", "power_input_status", "static_power", "core_hz",
              "core_watts", "memory_watts")  # fmt: skip
    lines = [
        f"{', '.join(head)} = body({arguments})",
        "v_status, v_power_status, v_execution_time, v_power, v_energy = finish(",
        "    v_execution_cycles, v_core_activity, v_memory_activity, "
        + ", ".join(value(name) for name in shared)
        + ")",
        "timed = v_status == 0.0",
        "powered = v_power_status == 0.0",
    ]
    codes = _codes_of(model)
    for name in outputs:
        if name in STATUSES:
            stored = f"np.uint8(np.int32(v_{name}))"
        elif name in codes:
            stored = f"np.uint8(np.int32(v_{name} if timed else 0.0))"
        else:
            stored = f"v_{name} if {'powered' if name in POWERED else 'timed'} else np.nan"
        lines.append(f"row_{name}[j] = {stored}")
    return lines


def _codes_of(model: Model) -> frozenset[str]:
    """Return the variables of a model that hold codes, besides the statuses."""
    return frozenset((*CODES, *(field.name for field in model.fields if field.kind == "code")))


def _invalid(name: str, codes: frozenset[str]) -> str:
    """Return what a variable is where the launch is invalid."""
    if name == "status":
        return "np.uint8(np.int32(in_launch_status))"
    if name == "power_status":
        return f"np.uint8({int(NO_TIME)})"
    return "np.uint8(0)" if name in codes else "np.nan"


_COMPILING = Lock()


def get_pass(
    model: str, variant: str, form: str, outputs: tuple[str, ...], length: int = 0
) -> Callable[..., Any]:
    """Return the pass of a model's variant for a set of outputs, building it once per process."""
    with _COMPILING:
        return _build(model, variant, form, outputs, length)


@cache
def _build(
    name: str, variant: str, form: str, outputs: tuple[str, ...], length: int
) -> Callable[..., Any]:
    model = get_model(name)
    source = pass_source(model, form, outputs, length)
    return _compiled(f"evaluate_{name}", source, name, variant, length)


@cache
def _straight_body(name: str, variant: str, length: int) -> tuple[Callable[..., Any], str]:
    """Return a model's body as all its passes of a length share it, and its text."""
    model = get_model(name)
    return straight(model.bodies[variant], [i.sequence for i in model.inputs], length)


@cache
def get_plain_pass(
    model: str, variant: str, form: str, outputs: tuple[str, ...], length: int = 0
) -> Callable[..., Any]:
    """Return the same pass as Python runs it, without compilation: for a few configurations.

    It does the same operations on numbers of the same type, and its results are the same to the
    bit.
    """
    described = get_model(model)
    names: dict[str, Any] = {
        "np": np,
        "body": plain(_straight_body(model, variant, length)[0]),
        "finish": plain(_finish),
    }
    exec(compile(pass_source(described, form, outputs, length), "<plain pass>", "exec"), names)
    found: Callable[..., Any] = names[f"evaluate_{model}"]
    return found


def get_reducing_pass(
    model: str,
    variant: str,
    form: str,
    outputs: tuple[str, ...],
    keeps: str,
    length: int = 0,
    varying: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Return the pass that keeps only what one of :data:`TAKERS` keeps, built once per process."""
    with _COMPILING:
        return _build_reducing(model, variant, form, outputs, keeps, length, varying)


@cache
def _build_reducing(
    name: str,
    variant: str,
    form: str,
    outputs: tuple[str, ...],
    keeps: str,
    length: int,
    varying: tuple[str, ...],
) -> Callable[..., Any]:
    model = get_model(name)
    source = reducing_source(model, form, outputs, length, varying)
    return _compiled(f"reduce_{name}", source, name, variant, length, keeps)


def _compiled(
    function: str, source: str, name: str, variant: str, length: int, keeps: str = ""
) -> Callable[..., Any]:
    """Return the compiled pass of a source.

    Its name holds a hash of all its text: passes that are loaded from disk share one table of
    symbols.
    """
    body, text = _straight_body(name, variant, length)
    digest = hashlib.sha256(f"{source}\n{text}\n{keeps}".encode()).hexdigest()
    source = source.replace(f"def {function}(", f"def {function}_{digest[:16]}(", 1)
    namespace: dict[str, Any] = {"np": np, "body": body, "finish": _finish, "__name__": __name__}
    if keeps:
        namespace["take"] = TAKERS[keeps]
    # The text comes from the package's own registry, never from a file.
    exec(compile(source, f"<{function}>", "exec"), namespace)
    return compile_pass(namespace[f"{function}_{digest[:16]}"], digest)


def forget_passes() -> None:
    """Forget all passes of this process: the next use of each compiles it again."""
    with _COMPILING:
        for built in (_build, _build_reducing, _straight_body, get_plain_pass):
            built.cache_clear()
