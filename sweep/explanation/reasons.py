"""Explain in sentences why a configuration has no time, or no power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from sweep.explanation.case import Case, scalar
from sweep.explanation.inputs import TEXTS, file_of, launch_texts, one_line, value_of
from sweep.explanation.sections import literal
from sweep.expressions import Expression
from sweep.models import get_model
from sweep.space import keys_that_give

POWER = ("static_W", "core_W_per_V2GHz", "memory_W_per_V2GHz", "core_voltage", "memory_voltage")


def reasons(case: Case) -> tuple[str, ...]:
    """Return the reasons why a configuration is invalid, one sentence each."""
    return tuple(_REASONS[case.status](case)) or (case.status.replace("_", " "),)


def power_reason(case: Case) -> str:
    """Return why there is a time but no power, ``""`` if there is power."""
    if case.power_status != "missing_parameters":
        return ""
    missing = [f"power.{n}" for n in POWER if f"power.{n}" not in case.device.sources]
    return f"No power and energy: {file_of(case.device)} lacks {', '.join(missing)}."


def _with_values(expression: Expression, case: Case) -> str:
    """Return the values of the names in an expression: `` with tile = 8, unroll = 16``."""
    known = case.launch.values
    texts = [f"{n} = {literal(scalar(known[n]))}" for n in sorted(expression.names) if n in known]
    return f" with {', '.join(texts)}" if texts else ""


def _constraint(case: Case) -> Iterator[str]:
    kernel = case.space.kernel
    for expression in case.space.constraints:
        if value_of(expression, case) is False:
            owner = file_of(kernel) if expression in kernel.constraints else "the plan"
            text, values = one_line(expression.text), _with_values(expression, case)
            yield f"The constraint `{text}` of {owner} does not hold{values}."


def _expression(case: Case) -> Iterator[str]:
    """Yield the expressions that fail, with the values of their names."""
    kernel = case.space.kernel
    every = [*kernel.all_expressions()]
    every += [("constraints", e) for e in case.space.constraints if e not in kernel.constraints]
    used = {name for path, e in every if not path.startswith("derived.") for name in e.names}
    for path, expression in every:
        value = value_of(expression, case)
        section, name = path.split(".")[0], path.split(".")[-1]
        reason = rule = ""
        if value is None and (section != "derived" or name in used):
            reason = "divides by zero, chooses beyond its list or gives no finite number"
        elif value is None or section in ("derived", "constraints") or "launch.block_" in path:
            continue
        elif value < 0:
            reason, rule = f"gives {literal(value)}", "; it cannot be negative"
        elif path == "cache.l2_hit_rate" and value > 1:
            reason, rule = f"gives {literal(value)}", "; a share is at most 1"
        if reason:
            text, values = one_line(expression.text), _with_values(expression, case)
            yield f"{file_of(kernel)}: {path} = `{text}` {reason}{values}{rule}."
    for access in case.workload.global_accesses:
        if math.isnan(scalar(access.transactions)):
            yield (
                f"{file_of(kernel)}: no hardware serves the global access {access.name} with words"
                f" of {literal(scalar(access.bytes))} bytes at this stride."
            )
    for local in case.workload.shared_accesses:
        if math.isnan(scalar(local.degree)):
            yield f"{file_of(kernel)}: the shared access {local.name} has no possible stride."


def _launch(case: Case) -> Iterator[str]:
    """Yield the resource that one block exceeds."""
    texts, reason = launch_texts(case), case.status
    if reason == "registers" and float(texts["registers"]) > float(texts["max_regs_per_thread"]):
        reason = "registers of a thread"
    yield TEXTS["launch"][reason].format_map(texts)


def _clock(case: Case) -> Iterator[str]:
    values = case.device.values
    for name in ("core", "memory"):
        nominal = values[f"clocks.{name}_nominal"]
        low, high = (values.get(f"clocks.{name}_{end}", nominal) for end in ("min", "max"))
        hertz = scalar(getattr(case.workload.clocks, name))
        if not low * (1 - 1e-9) <= hertz <= high * (1 + 1e-9):
            yield (
                f"The {name} clock of {literal(hertz / 1e6)} MHz is outside the range of"
                f" {file_of(case.device)}, {literal(low / 1e6)} to {literal(high / 1e6)} MHz."
            )


def _missing(case: Case) -> Iterator[str]:
    """Yield the keys that the device file lacks, or the inputs that have no value."""
    model, sources = case.model, case.device.sources
    absent = {name for name, value in case.inputs.items() if math.isnan(value)}
    lacking_inputs = [i for i in model.inputs if not absent.isdisjoint((*case.parts(i), i.factor))]
    keys = {key for i in lacking_inputs for key in i.device_keys}
    described = {f"model.{model.name}.{p.key}": p for p in model.parameters}
    wanted = [key for key, p in described.items() if key in keys or p.required]
    lacking = [key for key in (*wanted, *sorted(keys - described.keys())) if key not in sources]
    if lacking:
        texts = []
        for key in lacking:
            words = [described[key].long_name] if key in described else []
            if others := keys_that_give(case.device, described.get(key)):
                words.append(f"which follows from {' and '.join(others)}")
            texts.append(f"{key} ({', '.join(words)})" if words else key)
        yield f"{file_of(case.device)} lacks what {model.name} needs: {', '.join(texts)}."
    else:
        names = ", ".join(model.symbols[i.symbol].symbol for i in lacking_inputs)
        rows = _missing_rows(case, keys)
        yield f"{model.name} has no number for {names} on {case.device.name}.{rows}"


def _missing_rows(case: Case, keys: set[str]) -> str:
    """Return the instruction classes of the kernel that a table with a row for each lacks."""
    executed = {name for name, count in case.workload.instructions.items() if scalar(count) > 0}
    for key in sorted(key for key in keys if key.startswith("model.")):
        _, model, own = key.split(".", 2)
        rows = case.device.model_parameters.get(model, {}).get(own)
        columns = {p.key: p.columns for p in get_model(model).parameters}.get(own, ())
        if isinstance(rows, tuple) and columns[:1] == ("class_name",):
            lacking = sorted(executed - {str(row[0]) for row in rows})
            if lacking:
                return f" {file_of(case.device)}: {key} has no row for {', '.join(lacking)}."
    return ""


def _domain(case: Case) -> Iterator[str]:
    for step in case.traces[0].steps if case.traces else ():
        if step.used and step.kind != "condition" and not math.isfinite(step.value):
            at = f" ({step.number})" if step.number else ""
            yield (
                f"{case.model.name} has no sense here: {step.name}{at} ="
                f" {step.worked} = {literal(step.value)}."
            )
            return
    yield f"{case.model.name} gives {literal(case.results['execution_cycles'])} cycles."


_REASONS: dict[str, Callable[[Case], Iterator[str]]] = {
    "constraint": _constraint,
    "kernel_expression": _expression,
    **dict.fromkeys(
        ("block_too_large", "registers", "shared_memory", "tensor_memory", "no_active_block"),
        _launch,
    ),
    "clock_out_of_range": _clock,
    "missing_parameters": _missing,
    "model_domain": _domain,
}
