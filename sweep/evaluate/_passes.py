"""The compiled pass of a model: one loop over a block of the grid.

A pass is written out as source from a model's declaration, because only a plain loop with named
scalars vectorises: the model's body is inlined into it, outputs that nobody asked for vanish, and
the piecewise cases become selects. There are two forms for each model, so that a pass is
compiled once per model and set of outputs, and not per kernel:

``clocks``
    the inner loop runs over the clocks; everything else is constant along it and is loaded once
    per row.
``rows``
    the inner loop runs over a whole row of configurations; every input is a row.

Inputs come as one buffer of small tables with strides (0 along a dimension that a table does not
depend on), so that no grid of inputs is ever materialised. Float64 inside; each output is rounded
once, when it is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from sweep._jit import compile_pass, joined
from sweep.fields import POWER_STATUS, STATUS
from sweep.models import get_model
from sweep.models._model import HEAD, Model

__all__ = ["LAUNCH_INPUTS", "CLOCK_INPUTS", "get_pass", "input_names", "parts_of", "pass_source"]

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

MODEL_DOMAIN = float(STATUS["model_domain"])
NO_TIME = float(POWER_STATUS["no_time"])


@joined
def _finish(cycles, core_activity, memory_activity, launch_status, clock_status,
            power_input_status, static_power, core_hz, core_watts, memory_watts):  # fmt: skip
    """Join what all models share: status, seconds, power after equation (1), energy."""
    status = launch_status if launch_status != 0.0 else clock_status
    sound = (cycles > 0.0) and (cycles < np.inf)
    status = status if (status != 0.0 or sound) else MODEL_DOMAIN
    time = cycles / core_hz
    power = static_power + core_activity * core_watts + memory_activity * memory_watts
    power_status = power_input_status if status == 0.0 else NO_TIME
    return status, power_status, time, power, power * time


def parts_of(name: str, length: int) -> tuple[str, ...]:
    """Return the names of the numbers of a sequence input."""
    return tuple(f"{name}_{i}" for i in range(length))


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
        names[i.clocked] += parts_of(i.symbol, length) if i.sequence else (i.symbol,)
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
    launch, clocked = input_names(model, length)
    own = [field.name for field in model.fields]
    codes = {"regime", "bound", "status", "power_status"}
    lines = [
        f"def evaluate_{model.name}(data, base, stride, shape, n, "
        + ", ".join(f"out_{name}" for name in outputs)
        + "):",
        "    n_inputs = base.size",
        "    n_outer = shape.size",
        "    index = np.zeros(n_outer, np.int64)",
        "    at = base.copy()",
        f"    for row in range(out_{outputs[0]}.shape[0]):",
    ]
    for i, name in enumerate(launch + clocked):
        constant = form == "clocks" and i < len(launch)
        lines.append(f"        in_{name} = data[at[{i}]{'' if constant else f':at[{i}] + n'}]")
    lines += [f"        row_{name} = out_{name}[row]" for name in outputs]
    lines.append("        for j in range(n):")

    def value(name: str) -> str:
        return f"in_{name}" if form == "clocks" and name in launch else f"in_{name}[j]"

    head = [f"v_{name}" for name in (*HEAD, *own)]
    arguments = ", ".join(
        f"({' '.join(value(part) + ',' for part in parts_of(i.symbol, length))})"
        if i.sequence
        else value(i.symbol)
        for i in model.inputs
    )
    shared = ("launch_status", "clock_status", "power_input_status", "static_power", "core_hz",
              "core_watts", "memory_watts")  # fmt: skip
    lines += [
        f"            {', '.join(head)} = body({arguments})",
        "            v_status, v_power_status, v_execution_time, v_power, v_energy = finish(",
        "                v_execution_cycles, v_core_activity, v_memory_activity, "
        + ", ".join(value(name) for name in shared)
        + ")",
        "            timed = v_status == 0.0",
        "            powered = v_power_status == 0.0",
    ]
    for name in outputs:
        if name in ("status", "power_status"):
            stored = f"np.uint8(np.int32(v_{name}))"
        elif name in codes:
            stored = f"np.uint8(np.int32(v_{name} if timed else 0.0))"
        else:
            guard = "powered" if name in ("power", "energy") else "timed"
            stored = f"v_{name} if {guard} else np.nan"
        lines.append(f"            row_{name}[j] = {stored}")
    lines += [
        "        d = n_outer - 1",
        "        while d >= 0:",
        "            index[d] += 1",
        "            if index[d] < shape[d]:",
        "                for i in range(n_inputs):",
        "                    at[i] += stride[i, d]",
        "                break",
        "            index[d] = 0",
        "            for i in range(n_inputs):",
        "                at[i] -= stride[i, d] * (shape[d] - 1)",
        "            d -= 1",
    ]
    return "\n".join(lines) + "\n"


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
    namespace = {"np": np, "body": model.bodies[variant], "finish": _finish}
    # The text comes from the package's own registry, never from a file.
    exec(compile(source, f"<pass of {name}, {form}>", "exec"), namespace)
    return compile_pass(namespace[f"evaluate_{name}"])
