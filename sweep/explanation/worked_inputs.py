"""One configuration, evaluated in the open: inputs, every step of the model, the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count, takewhile
from typing import Any

import numpy as np

from sweep.compiler.lowering import lowered
from sweep.compiler.source import finishing
from sweep.evaluation.launch import Launch, build_launch, build_workload
from sweep.evaluation.tables import model_inputs
from sweep.explanation.trace import Trace, trace
from sweep.fields import COMMON_FIELDS, Field
from sweep.models.base import HEAD, Input, Model, Symbol
from sweep.models.workload import Workload
from sweep.space import KernelSpace

__all__ = ["Worked", "scalar", "work_out"]

FINISH_SYMBOLS = {
    "execution_cycles": Symbol("execution cycles", "cycle", "execution time in core cycles"),
    "core_activity": Symbol("core_activity", "1", "activity of the core domain"),
    "memory_activity": Symbol("memory_activity", "1", "activity of the memory domain"),
    "launch_status": Symbol("launch_status", "1", "status of the launch"),
    "clock_status": Symbol("clock_status", "1", "status of the clocks"),
    "power_input_status": Symbol("power_input_status", "1", "status of the power table"),
    "static_power": Symbol("P_static", "W", "static power"),
    "core_hz": Symbol("core_f", "Hz", "core clock"),
    "core_watts": Symbol("P_core", "W", "C V^2 f of the core domain, at full activity"),
    "memory_watts": Symbol("P_memory", "W", "C V^2 f of the memory domain, at full activity"),
}


@dataclass(frozen=True)
class Worked:
    """What :func:`work_out` found.

    Attributes
    ----------
    launch : Launch
        Values of the kernel's expressions, occupancy, clocks.
    workload : Workload
        The launch with the model's device parameters.
    inputs : mapping of str to float
        What the pass reads, by name: the model's inputs, status, power.
    status, power_status : int
        Codes of :data:`sweep.fields.STATUS` and :data:`sweep.fields.POWER_STATUS`.
    body, finish : Trace or None
        The model's steps, and those from cycles to time, power and energy; ``None`` where the
        configuration cannot be launched or the model lacks a number.
    results : mapping of str to float
        Every variable that the model gives, by its name in results (without the model's prefix).
    """

    launch: Launch
    workload: Workload
    inputs: Mapping[str, float]
    status: int
    power_status: int
    body: Trace | None
    finish: Trace | None
    results: Mapping[str, float]


def scalar(array: Any) -> Any:
    """Return the only element of an array as a Python scalar."""
    return np.asarray(array).reshape(-1)[0].item()


def work_out(
    space: KernelSpace, model: Model, variant: str, options: Mapping[str, str] | None = None
) -> Worked:
    """Evaluate a space of one configuration with everything on the table.

    Parameters
    ----------
    space : KernelSpace
        A grid of one point.
    model : Model
        The model.
    variant : str
        ``"corrected"`` or ``"printed"``.
    options : mapping, optional
        The model's options.
    """
    if space.n_points != 1:
        raise ValueError(f"a space of {space.n_points} configurations, not of one")
    box = space.grid.whole
    launch = build_launch(space, box)
    workload = build_workload(launch, model, options or {})
    tables = model_inputs(launch, model, variant, options or {})
    inputs = {name: float(scalar(table)) for name, table in tables.items()}
    status = int(inputs["launch_status"] or inputs["clock_status"])
    if status:
        return Worked(launch, workload, inputs, status, 1, None, None, {})
    arguments = {i.symbol: (model.symbols[i.symbol], _argument(inputs, i)) for i in model.inputs}
    lengths = {len(value) for _, value in arguments.values() if isinstance(value, tuple)}
    fields = [*(COMMON_FIELDS[name] for name in HEAD), *model.fields]
    body = trace(
        lowered(model.name, variant, max(lengths, default=0)),
        arguments,
        symbols=model.symbols,
        returns={own.name: _symbol(own) for own in fields},
    )
    after, known = finishing(), {**inputs, **body.results}
    finished = trace(
        after,
        {name: (symbol, known[name]) for name, symbol in FINISH_SYMBOLS.items()},
        returns={name: _symbol(COMMON_FIELDS[name]) for name in after.results},
    )
    results = {**body.results, **finished.results}
    return Worked(
        launch,
        workload,
        inputs,
        int(results["status"]),
        int(results["power_status"]),
        body,
        finished,
        results,
    )


def _argument(inputs: Mapping[str, float], described: Input) -> float | tuple[float, ...]:
    """Return an argument of a body: a number, or the numbers of a sequence."""
    if not described.sequence:
        return inputs[described.symbol]
    names = (f"{described.symbol}_{i}" for i in count())
    return tuple(inputs[name] for name in takewhile(inputs.__contains__, names))


def _symbol(described: Field) -> Symbol:
    return Symbol(described.symbol or described.name, described.units, described.long_name)
