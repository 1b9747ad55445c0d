"""Explain in sentences why a configuration has no time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sweep.explanation.configuration import Single
from sweep.explanation.operands import literal
from sweep.explanation.origins import file_of, value_of, words
from sweep.explanation.worked_inputs import Worked, scalar
from sweep.expressions import Expression
from sweep.fields import POWER_STATUS, STATUS
from sweep.hardware import occupancy as rules
from sweep.models.base import Model

__all__ = ["power_reason", "reasons"]


def reasons(one: Single, worked: Worked, model: Model) -> tuple[str, ...]:
    """Return the reasons why a configuration is invalid, one sentence each; none if it is valid."""
    found = list(_REASONS[STATUS.meaning(worked.status)](one, worked, model))
    return tuple(found) or (STATUS.meaning(worked.status).replace("_", " "),)


def power_reason(one: Single, worked: Worked) -> str:
    """Return why there is a time but no power, ``""`` if there is power."""
    if POWER_STATUS.meaning(worked.power_status) != "missing_parameters":
        return ""
    names = ("static_W", "core_W_per_V2GHz", "memory_W_per_V2GHz", "core_voltage", "memory_voltage")
    missing = [f"power.{n}" for n in names if f"power.{n}" not in one.device.sources]
    return f"No power and energy: {file_of(one.device)} lacks {', '.join(missing)}."


def _with(expression: Expression, worked: Worked) -> str:
    """Return the values of the names in an expression: `` with tile = 8, unroll = 16``."""
    known = worked.launch.values
    texts = [
        f"{name} = {value if isinstance(value := scalar(known[name]), str) else literal(value)}"
        for name in sorted(expression.names)
        if name in known
    ]
    return f" with {', '.join(texts)}" if texts else ""


def _constraint(one: Single, worked: Worked, _: Model) -> Iterator[str]:
    for expression in one.space.constraints:
        if value_of(expression, worked) is False:
            owner = file_of(one.space.kernel)
            if expression not in one.space.kernel.constraints:
                owner = "the plan"
            yield (
                f"The constraint `{words(expression.text)}` of {owner} does not"
                f" hold{_with(expression, worked)}."
            )


def _expression(one: Single, worked: Worked, _: Model) -> Iterator[str]:
    """Yield the expressions that fail, with the values of their names."""
    kernel = one.space.kernel
    named = [*kernel.all_expressions()]
    named += [("constraints", e) for e in one.space.constraints if e not in kernel.constraints]
    used = {name for path, e in named if not path.startswith("derived.") for name in e.names}
    for path, expression in named:
        value = value_of(expression, worked)
        section, name = path.split(".")[0], path.split(".")[-1]
        reason = rule = ""
        if value is None and (section != "derived" or name in used):
            reason = "divides by zero or gives no finite number"
        elif value is None or section in ("derived", "constraints") or "launch.block_" in path:
            continue
        elif value < 0:
            reason, rule = f"gives {literal(value)}", "; it cannot be negative"
        elif path == "cache.l2_hit_rate" and value > 1:
            reason, rule = f"gives {literal(value)}", "; a share is at most 1"
        if reason:
            text = words(expression.text)
            values = _with(expression, worked)
            yield f"{file_of(kernel)}: {path} = `{text}` {reason}{values}{rule}."
    for access in worked.workload.global_accesses:
        if math.isnan(scalar(access.transactions)):
            size = literal(scalar(access.bytes))
            yield (
                f"{file_of(kernel)}: no hardware serves the global access {access.name} with words"
                f" of {size} bytes at this stride."
            )
    for local in worked.workload.shared_accesses:
        if math.isnan(scalar(local.degree)):
            yield f"{file_of(kernel)}: the shared access {local.name} has no possible stride."


def _launch(one: Single, worked: Worked, _: Model) -> Iterator[str]:
    """Yield the resource that one block exceeds."""
    work, values = worked.workload, worked.launch.values
    limits = rules.limits_for(one.device.limits)
    threads, blocks = scalar(work.threads_per_block), scalar(work.blocks)
    warps = np.asarray(scalar(work.occupancy.warps_per_block))
    registers = np.asarray(scalar(values["registers_per_thread"]))
    shared = scalar(values["shared_memory_bytes"])
    where = one.device.generation

    def n(value: Any) -> str:
        return literal(scalar(value))

    kind = STATUS.meaning(worked.status)
    if kind == "block_too_large":
        yield (
            f"A block of {n(threads)} threads is {n(warps)} warps; {where} has at most"
            f" {n(limits.max_threads_per_block)} threads a block and {n(limits.max_warps_per_sm)}"
            " warps a multiprocessor."
        )
    elif kind == "registers":
        if registers > limits.max_regs_per_thread:
            yield (
                f"A thread needs {n(registers)} registers; {where} has at most"
                f" {n(limits.max_regs_per_thread)} a thread."
            )
        else:
            each = (
                rules.registers_of_block(warps, registers, limits)
                if scalar(limits.reg_per_block_style)
                else rules.registers_of_warp(registers, limits) * warps
            )
            yield (
                f"A block needs {n(each)} registers ({n(registers)} a thread, {n(warps)} warps,"
                f" rounded up to the unit of allocation); {where} has at most"
                f" {n(limits.max_regs_per_block)} a block and {n(limits.regs_per_sm)} a"
                " multiprocessor, of which whole warps get theirs."
            )
    elif kind == "shared_memory":
        yield (
            f"A block needs {n(shared)} bytes of shared memory; {where} has at most"
            f" {n(limits.smem_per_block_bytes)} a block."
        )
    else:
        yield (
            f"There is nothing to launch: {n(blocks)} blocks of {n(threads)} threads, "
            f"{n(registers)} registers a thread, {n(shared)} bytes of shared memory a block."
        )


def _clock(one: Single, worked: Worked, _: Model) -> Iterator[str]:
    values = one.device.values
    for name in ("core", "memory"):
        nominal = values[f"clocks.{name}_nominal"]
        low, high = (values.get(f"clocks.{name}_{end}", nominal) for end in ("min", "max"))
        hertz = scalar(getattr(worked.workload.clocks, name))
        if not low * (1 - 1e-9) <= hertz <= high * (1 + 1e-9):
            yield (
                f"The {name} clock of {literal(hertz / 1e6)} MHz is outside the range of"
                f" {file_of(one.device)}, {literal(low / 1e6)} to {literal(high / 1e6)} MHz."
            )


def _missing(one: Single, worked: Worked, model: Model) -> Iterator[str]:
    """Yield the keys that the device file lacks, or the inputs that have no value."""
    absent = {name for name, value in worked.inputs.items() if math.isnan(value)}
    absent |= {name.rpartition("_")[0] for name in absent}  # elements of sequence inputs
    symbols = {i.symbol: i for i in model.inputs if i.symbol in absent}
    keys = {key for i in symbols.values() for key in i.device_keys}
    described = {f"model.{model.name}.{p.key}": p for p in model.parameters}
    lacking = [key for key in (*described, *sorted(keys - described.keys()))
               if key not in one.device.sources
               and (key in keys or (key in described and described[key].required))]  # fmt: skip
    if lacking:
        texts = [
            f"{key} ({described[key].long_name})" if key in described else key for key in lacking
        ]
        yield f"{file_of(one.device)} lacks what {model.name} needs: {', '.join(texts)}."
    else:
        names = ", ".join(model.symbols[name].symbol for name in symbols)
        rows = _rows(one, worked, keys)
        yield f"{model.name} has no number for {names} on {one.device.name}.{rows}"


def _rows(one: Single, worked: Worked, keys: set[str]) -> str:
    """Return the kernel's instruction classes that are missing in a table of costs."""
    executed = {name for name, count in worked.workload.instructions.items() if scalar(count) > 0}
    for key in sorted(keys):
        _, model, parameter = f"{key}..".split(".")[:3]
        rows = one.device.model_parameters.get(model, {}).get(parameter)
        if parameter == "class_cost" and isinstance(rows, tuple):
            lacking = sorted(executed - {str(row[0]) for row in rows})
            if lacking:
                return f" {file_of(one.device)}: {key} has no row for {', '.join(lacking)}."
    return ""


def _domain(one: Single, worked: Worked, model: Model) -> Iterator[str]:
    steps = worked.body.steps if worked.body is not None else ()
    for step in steps:
        if step.used and step.kind != "condition" and not math.isfinite(step.value):
            at = f" ({step.number})" if step.number else ""
            yield (
                f"{model.name} has no sense here: {step.symbol.symbol}{at} = {step.worked} ="
                f" {literal(step.value)}."
            )
            return
    yield f"{model.name} gives {literal(worked.results['execution_cycles'])} cycles."


_Reason = Callable[[Single, Worked, Model], Iterator[str]]
_REASONS: dict[str, _Reason] = {
    "valid": lambda *_: iter(()),
    "constraint": _constraint,
    "kernel_expression": _expression,
    "block_too_large": _launch,
    "registers": _launch,
    "shared_memory": _launch,
    "no_active_block": _launch,
    "clock_out_of_range": _clock,
    "missing_parameters": _missing,
    "model_domain": _domain,
}
