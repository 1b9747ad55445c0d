"""``sweep explain``: how a model arrives at one configuration's time, as computed on paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.variables import assumptions
from sweep.explanation.case import Case, find_case, scalar
from sweep.explanation.inputs import input_sections
from sweep.explanation.reasons import power_reason, reasons
from sweep.explanation.sections import Comparison, Explanation, Line, Section, literal
from sweep.explanation.trace import Trace
from sweep.fields import FITTED, STATUS
from sweep.hardware.clocks import core_voltage_at, voltage_at
from sweep.query.texts import scaled
from sweep.runs.record import Source
from sweep.space import KernelSpace, Plan, resolve

CODES = ("regime", "bound", "status", "power_status", "sound")
"""Variables of the joining functions that hold no quantity."""


def explain(source: Source | None, configuration: Mapping[str, Any]) -> Explanation:
    """Compute one configuration and show every intermediate.

    Parameters
    ----------
    source : Plan, Space, mapping, str, path or None
        Where the configuration comes from: a plan or its name, a space, a store's path,
        tree or record; ``None`` for the kernel, device and model files of these names.
    configuration : mapping
        ``kernel``, ``device``, ``model``, problem sizes, tuning parameters and clocks
        (``core_clock`` in MHz or ``core_clock_ratio``, likewise for the memory): what an answer's
        ``row.configuration`` holds. Names for which the source has only one value may be omitted.
        Values that the source does not have are answered too.

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
    case = find_case(source, configuration)
    kernel, device, model, variant = case.space.kernel, case.device, case.model, case.plan.variant
    sections = [_summary(case), *input_sections(case)]
    if case.traces:
        body, finish = case.traces
        sections += [_equations(body, case), _regime(body, case)]
        for finding in model.findings(case.workload, variant, case.results, literal):
            lines = tuple(Line(*line) for line in finding.lines)
            sections.append(Section(finding.title, lines, finding.notes))
        sections.append(_result(finish, case))
    return Explanation(
        title=f"{kernel.name} on {device.name} by {model.name} ({variant})",
        reference=f"{model.title}: {model.reference}",
        configuration={"kernel": kernel.key, "device": device.key, "model": model.name,
                       **case.values},
        status=case.status,
        results=_named_results(case) if case.status == "valid" else {},
        sections=tuple(sections),
    )  # fmt: skip


def _named_results(case: Case) -> dict[str, Any]:
    """Return the results as a reader of a store knows them: codes as words."""
    own = {described.name for described in case.model.fields}
    states = {"status": case.status, "power_status": case.power_status}
    found = {**case.results, **case.words, **states}
    return {f"{case.model.name}_{n}" if n in own else n: value for n, value in found.items()}


# ---------------------------------------------------------------------------- the summary


def _summary(case: Case) -> Section:
    if case.status != "valid":
        return Section(f"No time: {case.status}", notes=(*reasons(case), *case.notes))
    results = case.results
    lines = [
        _quantity("execution time", results["execution_time"], "s"),
        Line("execution cycles", results["execution_cycles"], "cycle"),
        Line("cycles per instruction", results["cycles_per_instruction"], "cycle"),
    ]
    if case.is_powered:
        lines += [_quantity(name, results[name], unit) for name, unit in
                  (("power", "W"), ("energy", "J"))]  # fmt: skip
    lines += [
        Line("regime", case.words["regime"]),
        Line("bound by", case.words["bound"]),
        Line("occupancy", scalar(case.workload.occupancy.occupancy), "1"),
    ]
    own = ((field, case.words.get(field.name, results[field.name])) for field in case.model.fields)
    lines += [Line(f.name.replace("_", " "), value, f.units, f.long_name) for f, value in own]
    notes = (*case.notes, *_assumed(case), *filter(None, [power_reason(case)]))
    return Section("Result", tuple(lines), notes)


def _quantity(name: str, value: float, units: str) -> Line:
    factor, prefixed = scaled([value], units)
    return Line(name, value / factor, prefixed)


def _assumed(case: Case) -> Iterator[str]:
    plan = replace(case.plan, models=(case.model.name,), options={})
    texts = {item.name: str(item.values.reshape(-1)[0]) for item in assumptions(case.space, plan)}
    rests = {"assumed": "The time rests"}
    if case.is_powered:
        rests["power_assumed"] = "Power and energy rest"
    for name, words in rests.items():
        if texts[name]:
            kinds = "assumed or fitted" if FITTED in texts[name] else "assumed"
            yield f"{words} on {kinds} values: {texts[name]}."


# ---------------------------------------------------------------------------- the equations


def _equations(body: Trace, case: Case) -> Section:
    steps = [s for s in body.steps if s.variable not in CODES and s.kind != "code"]
    in_regime = {c for d in body.decisions("regime") for c in d.comparisons}
    lines: list[Line] = []
    for step in steps:
        # Why a value was chosen, unless the section on the regime shows it.
        because = [made for made in step.comparisons if made not in in_regime]
        if step.kind != "condition" and because:
            words = ", ".join(f"{_sides(made)} is {literal(made.holds)}" for made in because)
            step = replace(step, formula=f"{step.formula}, as {words}")
        lines.append(step)
    codes = dict.fromkeys(code for step in steps for code in step.comment.split(", ") if code)
    acting = case.model.errata_in(case.plan.variant)
    return Section("Equations", tuple(lines), tuple(f"{code}: {acting[code]}." for code in codes))


def _sides(made: Comparison) -> str:
    return (
        f"{made.left} {made.operator} {made.right}:"
        f" {literal(made.left_value)} {made.operator} {literal(made.right_value)}"
    )


def _regime(body: Trace, case: Case) -> Section:
    """Return the conditions that chose the regime, each comparison with both sides."""
    lines = []
    for decision in body.decisions("regime"):
        name = f"({decision.number})" if decision.number else ""
        if not decision.number and decision.text.isidentifier():
            name = decision.text.replace("_", " ")
        sides = [f"{_sides(made)}  {literal(made.holds)}" for made in decision.comparisons]
        first, *others = sides or ["as the variant has it"]
        lines.append(
            Line(name, "holds" if decision.value else "fails", formula=first,
                 comment=decision.step.comment if decision.step else "",
                 comparisons=decision.comparisons)
        )  # fmt: skip
        lines += [Line("", formula=text) for text in others]
    return Section(f"Regime: {case.words['regime']}, bound by {case.words['bound']}", tuple(lines))


# ---------------------------------------------------------------------------- the result


def _result(finish: Trace, case: Case) -> Section:
    """Return how seconds, watts and joules follow from cycles."""
    lines = [step for step in finish.steps if step.variable not in CODES]
    time = [line for line in lines if line.name == "T"]
    if not case.is_powered:
        return Section("Time, power, energy", tuple(time))
    others = (line for line in lines if line.name != "T")
    return Section("Time, power, energy", (*time, *_watts(case), *others))


def _watts(case: Case) -> Iterator[Line]:
    """Yield the power of each clock domain at full activity, and its activity."""
    device, at = case.device, case.workload.clocks

    def source(key: str) -> str:
        return str(device.sources.get(f"power.{key}", ""))

    hertz = {name: scalar(getattr(at, name)) for name in ("core", "memory")}
    core, memory = (np.array(hertz[name]) for name in hertz)
    volts = {
        "core": float(core_voltage_at(core, memory, device.tables)),
        "memory": float(voltage_at(memory, device.tables["power.memory_voltage"])),
    }
    for name in ("core", "memory"):
        text = f"at {literal(hertz[name] / 1e6)} MHz, by the device's table"
        floor = "power.core_voltage_floor" if name == "core" else ""
        if floor in device.tables and volts[name] == voltage_at(memory, device.tables[floor]):
            text = f"the least one at a memory clock of {literal(hertz['memory'] / 1e6)} MHz"
        yield Line(f"V_{name}", volts[name], "V", f"{name} voltage", text,
                   source=source(f"{name}_voltage"))  # fmt: skip
    remaining = []
    for name in ("core", "memory"):
        capacitance = device.values[f"power.{name}"] * 1e9
        share = device.values.get(f"power.{name}_idle_share", 0.0)
        product = (
            f"{literal(capacitance)} * {literal(volts[name])}^2 * {literal(hertz[name] / 1e9)}"
        )
        if share:
            remaining.append(f"{literal(share)} * {product}")
            product = f"(1 - {literal(share)}) * {product}"
        yield Line(f"P_{name}", case.inputs[f"{name}_watts"], "W",
                   f"power that full activity of the {name} domain adds",
                   "(1 - share) C V^2 f" if share else "C V^2 f", product, "1",
                   source(f"{name}_W_per_V2GHz"))  # fmt: skip
    static = literal(device.values["power.static"])
    yield Line("P_static", case.inputs["static_power"], "W", "power without activity",
               "static + share C V^2 f" if remaining else "device",
               " + ".join([static, *remaining]) if remaining else "",
               source=source("static_W"))  # fmt: skip
    for name in ("core_activity", "memory_activity"):
        yield Line(name, case.results[name], "1", formula="of the model, above")


# ---------------------------------------------------------------------------- all configurations


def applicability(
    kernel: str, device: str, model: str, derive: bool = True
) -> tuple[Counter[str], str]:
    """Evaluate all configurations of a kernel file at its own sizes and the nominal clocks.

    Parameters
    ----------
    kernel, device : str
        Names or paths.
    model : str
        A registered model.
    derive : bool
        Whether parameters that the device lacks are derived.

    Returns
    -------
    statuses : Counter
        Number of configurations with each status.
    reason : str
        Why the first configuration with the most frequent status has no time; ``""`` if any
        configuration has a time.

    Raises
    ------
    SweepError
        A name is unknown, or a file is wrong.
    """
    plan = Plan((kernel,), (device,), (model,), derive=derive, outputs=("status",))
    space = resolve(plan).kernels[0]
    counts: Counter[str] = Counter()
    first: dict[str, tuple[int, ...]] = {}
    for box in space.grid.boxes():
        status = evaluate_box(space, plan, box)["status"][0]
        for code, position, number in zip(*np.unique(status, return_index=True,
                                                     return_counts=True), strict=True):  # fmt: skip
            word = STATUS.meaning(int(code))
            counts[word] += int(number)
            inside = np.unravel_index(position, status.shape)
            first.setdefault(word, tuple(np.add(inside, box.start).tolist()))
    if counts["valid"]:
        return counts, ""
    word, _ = counts.most_common(1)[0]
    return counts, explain(plan, _configuration(space, first[word])).sections[0].notes[0]


def _configuration(space: KernelSpace, at: tuple[int, ...]) -> dict[str, Any]:
    """Return the configuration at one point of the grid, by name."""
    found: dict[str, Any] = {}
    for dimension, i in zip(space.grid.dimensions, at, strict=True):
        own = {dimension.name: dimension.values[i]}
        found |= own if dimension.stacked is None else dimension.stacked[i]
    return found
