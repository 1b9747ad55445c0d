"""``sweep explain``: how a model arrives at one configuration's time, as worked out on paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from sweep.evaluation import assumptions
from sweep.explanation import origins as given
from sweep.explanation.bottlenecks import bottlenecks
from sweep.explanation.configuration import Single, single
from sweep.explanation.operands import Comparison, literal
from sweep.explanation.reasons import power_reason, reasons
from sweep.explanation.sections import Explanation, Line, Section
from sweep.explanation.trace import Decision, Step, Trace
from sweep.explanation.worked_inputs import Worked, scalar, work_out
from sweep.fields import BOUND, POWER_STATUS, STATUS
from sweep.hardware.power import voltage_at
from sweep.models import get_model
from sweep.models.base import Model
from sweep.query.answer import scaled
from sweep.runs.record import Source

__all__ = ["explain"]

CODES = ("regime", "bound", "status", "power_status", "sound")
"""Variables of the joining functions that hold no quantity."""


def explain(source: Source | None, configuration: Mapping[str, Any]) -> Explanation:
    """Work out one configuration with every intermediate.

    Parameters
    ----------
    source : Plan, Space, mapping, str, path or None
        Where the configuration comes from: a plan or its name, a space, a store's path or record;
        ``None`` for the kernel, device and model files that the configuration names.
    configuration : mapping
        ``kernel``, ``device``, ``model``, problem sizes, tuning parameters and clocks
        (``core_clock`` in MHz or ``core_clock_ratio``, likewise for the memory): what an answer's
        ``row.configuration`` holds. What the source has one value for may be left out. Values that
        the source does not have are answered too.

    Returns
    -------
    Explanation
        Inputs with their sources, the occupancy, every equation with symbol, value, unit and
        number, the conditions with both sides, the result; for an invalid configuration the reason.
        Numbers are in float64; a store holds them rounded to its precision.

    Raises
    ------
    SweepError
        The configuration names something that is missing or unknown.
    """
    one = single(source, configuration)
    model = get_model(one.model)
    variant = one.plan.variant
    worked = work_out(one.space, model, variant, one.plan.options.get(model.name, {}))
    kernel, device = one.space.kernel, one.device
    sections = [_summary(one, worked, model)]
    sections += [
        given.kernel(one, worked),
        *given.device(one, model),
        given.clocks(one, worked, model, variant),
    ]
    if STATUS.meaning(worked.status) not in ("constraint", "kernel_expression"):
        sections.append(given.launch(one, worked))
    sections.append(given.inputs(one, worked, model, variant))
    if worked.body is not None and worked.finish is not None:
        sections += [
            _equations(worked.body, model),
            _regime(worked.body, worked, model),
            *bottlenecks(worked, model, variant),
            _result(one, worked, worked.finish),
        ]
    return Explanation(
        title=f"{kernel.name} on {device.name} by {model.name} ({variant})",
        reference=f"{model.title}: {model.reference}",
        configuration={"kernel": kernel.key, "device": device.key, "model": model.name,
                       **one.values},
        status=STATUS.meaning(worked.status),
        results=_named_results(worked, model),
        sections=tuple(sections),
    )  # fmt: skip


def _named_results(worked: Worked, model: Model) -> dict[str, Any]:
    """Return the results as a reader of a store knows them: codes as words."""
    if worked.status:
        return {}
    own = {described.name for described in model.fields}
    found: dict[str, Any] = {
        f"{model.name}_{name}" if name in own else name: value
        for name, value in worked.results.items()
    }
    for described in model.fields:
        if described.flags is not None:
            code = int(worked.results[described.name])
            found[f"{model.name}_{described.name}"] = described.flags.meaning(code)
    found["regime"] = _regime_name(worked, model)
    found["bound"] = BOUND.meaning(int(worked.results["bound"]))
    found["status"] = STATUS.meaning(worked.status)
    found["power_status"] = POWER_STATUS.meaning(worked.power_status)
    return found


def _regime_name(worked: Worked, model: Model) -> str:
    code = int(worked.results["regime"])
    return next(name for name, its_code in model.regimes.items() if its_code == code)


# ---------------------------------------------------------------------------- the summary


def _quantity(name: str, value: float, units: str) -> Line:
    factor, prefixed = scaled([value], units)
    return Line(name, value / factor, prefixed)


def _summary(one: Single, worked: Worked, model: Model) -> Section:
    if worked.status:
        status = STATUS.meaning(worked.status)
        return Section(f"No time: {status}", notes=(*reasons(one, worked, model), *one.notes))
    results = worked.results
    lines = [
        _quantity("execution time", results["execution_time"], "s"),
        Line("execution cycles", results["execution_cycles"], "cycle"),
        Line("cycles per instruction", results["cycles_per_instruction"], "cycle"),
    ]
    if not worked.power_status:
        lines += [
            _quantity("power", results["power"], "W"),
            _quantity("energy", results["energy"], "J"),
        ]
    lines += [
        Line("regime", _regime_name(worked, model)),
        Line("bound by", BOUND.meaning(int(results["bound"]))),
        Line("occupancy", scalar(worked.workload.occupancy.occupancy), "1"),
    ]
    notes = [*one.notes, *_assumed(one, not worked.power_status)]
    if missing := power_reason(one, worked):
        notes.append(missing)
    return Section("Result", tuple(lines), tuple(notes))


def _assumed(one: Single, with_power: bool) -> Iterator[str]:
    plan = replace(one.plan, models=(one.model,), options={})
    texts = {item.name: str(item.values.reshape(-1)[0]) for item in assumptions(one.space, plan)}
    if texts["assumed"]:
        yield f"The time rests on assumed values: {texts['assumed']}."
    if with_power and texts["power_assumed"]:
        yield f"Power and energy rest on assumed values: {texts['power_assumed']}."


# ---------------------------------------------------------------------------- the equations


def _line(step: Step, model: Model | None) -> Line:
    comment = ", ".join(_errata(step.comment, model))
    name = step.symbol.symbol
    if step.kind == "condition":
        name = "condition" if step.number else step.name.replace("_", " ")
    return Line(
        name=name,
        value=step.value if isinstance(step.value, bool) else float(step.value),
        units=step.symbol.units,
        meaning=step.symbol.meaning,
        formula=step.formula,
        worked=step.worked,
        number=step.number,
        comment=comment,
        comparisons=step.comparisons,
        used=step.used,
    )


def _errata(comment: str, model: Model | None) -> list[str]:
    """Return the errata that the words beside a line name."""
    known = model.errata if model is not None else {}
    return [code for code in known if re.search(rf"(?<![\w-]){re.escape(code)}(?![\w-])", comment)]


def _equations(body: Trace, model: Model) -> Section:
    steps = [s for s in body.steps if s.name not in CODES and s.kind != "code"]
    told = {c for d in body.decisions("regime") for c in d.comparisons}
    lines = [_with_choice(step, _line(step, model), told) for step in steps]
    applied = dict.fromkeys(c for step in steps for c in _errata(step.comment, model))
    notes = [f"{code}: {model.errata[code]}." for code in applied]
    return Section("Equations", tuple(lines), tuple(notes))


def _with_choice(step: Step, line: Line, told: set[Comparison]) -> Line:
    """Add why a value was chosen, unless the section on the regime tells it."""
    because = [made for made in step.comparisons if made not in told]
    if step.kind == "condition" or not because:
        return line
    words = ", ".join(f"{_sides(made)} is {literal(made.holds)}" for made in because)
    return replace(line, formula=f"{line.formula}, as {words}")


def _sides(made: Comparison) -> str:
    return (
        f"{made.left} {made.operator} {made.right}:"
        f" {literal(made.left_value)} {made.operator} {literal(made.right_value)}"
    )


# ---------------------------------------------------------------------------- the regime


def _regime(body: Trace, worked: Worked, model: Model) -> Section:
    """Return the conditions that chose the regime, each comparison with both sides."""
    lines = []
    for decision in body.decisions("regime"):
        codes = ", ".join(_errata(_comment_of(decision, body), model))
        name = f"({decision.number})" if decision.number else ""
        if not decision.number and decision.condition.isidentifier():
            name = decision.condition.replace("_", " ")
        sides = [f"{_sides(made)}  {literal(made.holds)}" for made in decision.comparisons]
        verdict = "holds" if decision.holds else "fails"
        formula = sides[0] if sides else "as the variant has it"
        lines.append(
            Line(name, verdict, formula=formula, comment=codes, comparisons=decision.comparisons)
        )
        lines += [Line("", formula=text) for text in sides[1:]]
    taken = _regime_name(worked, model)
    bound = BOUND.meaning(int(worked.results["bound"]))
    return Section(f"Regime: {taken}, bound by {bound}", tuple(lines))


def _comment_of(decision: Decision, body: Trace) -> str:
    """Return the words beside the line that worked out a condition."""
    for step in body.steps:
        if step.kind == "condition" and decision.condition in (step.symbol.symbol, step.name):
            return step.comment
    return ""


# ---------------------------------------------------------------------------- the result


def _result(one: Single, worked: Worked, finish: Trace) -> Section:
    """Return the way from cycles to seconds, watts and joules."""
    powered = not worked.power_status
    steps = [
        _line(step, None)
        for step in finish.steps
        if step.name not in CODES and (powered or step.symbol.symbol == "T")
    ]
    lines = [line for line in steps if line.name == "T"]
    if powered:
        lines += [*_watts(one, worked), *(line for line in steps if line.name != "T")]
    return Section("Time, power, energy", tuple(lines))


def _watts(one: Single, worked: Worked) -> Iterator[Line]:
    """Yield the power of each clock domain at full activity, and its activity."""
    device, at = one.device, worked.workload.clocks
    sources = {name: str(device.sources.get(f"power.{name}", "")) for name in
               ("static_W", "core_W_per_V2GHz", "memory_W_per_V2GHz", "core_voltage",
                "memory_voltage")}  # fmt: skip
    yield Line("P_static", worked.inputs["static_power"], "W", "static power", "device",
               source=sources["static_W"])  # fmt: skip
    for name in ("core", "memory"):
        hertz = scalar(getattr(at, name))
        volts = float(voltage_at(hertz, device.tables[f"power.{name}_voltage"]))
        capacitance = device.values[f"power.{name}"] * 1e9
        yield Line(f"V_{name}", volts, "V", f"{name} voltage",
                   f"at {literal(hertz / 1e6)} MHz, by the device's table",
                   source=sources[f"{name}_voltage"])  # fmt: skip
        yield Line(
            f"P_{name}",
            worked.inputs[f"{name}_watts"],
            "W",
            f"power of the {name} domain at full activity",
            "C V^2 f",
            f"{literal(capacitance)} * {literal(volts)}^2 * {literal(hertz / 1e9)}",
            "1",
            sources[f"{name}_W_per_V2GHz"],
        )
    for name in ("core_activity", "memory_activity"):
        yield Line(name, worked.results[name], "1", formula="of the model, above")
