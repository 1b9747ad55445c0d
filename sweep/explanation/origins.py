"""Describe where a model's inputs come from: kernel file, device file, clocks, occupancy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sweep.explanation.configuration import Single
from sweep.explanation.operands import literal
from sweep.explanation.sections import Line, Section
from sweep.explanation.worked_inputs import Worked, scalar
from sweep.fields import LIMITER
from sweep.hardware import occupancy as rules
from sweep.hardware.memory_rules import rule_of
from sweep.models.base import Input, Model
from sweep.specs import Device, Kernel
from sweep.specs.formats import split_unit, to_base
from sweep.specs.reading import label_of

__all__ = ["clocks", "device", "file_of", "inputs", "kernel", "launch"]

CHIP = ("chip.sm_count", "chip.warp_size", "chip.lanes_per_sm", "chip.l2_KiB")
"""Chip values that every explanation shows, because occupancy rules and expressions read them."""


NAMED = ("derived", "global_access", "shared_access")
"""Sections of a kernel file whose entries are shown by name alone, without their path."""


def file_of(spec: Device | Kernel) -> str:
    """Return the name of a spec's file for messages."""
    folder = "devices" if isinstance(spec, Device) else "kernels_spec"
    return label_of(spec.path) if spec.path is not None else f"{folder}/{spec.key}.toml"


def words(text: str) -> str:
    """Return an expression on one line."""
    return " ".join(text.split())


# ---------------------------------------------------------------------------- the kernel's file


def kernel(one: Single, worked: Worked) -> Section:
    """Return the section about the kernel file: every expression with its value and source."""
    spec = one.space.kernel
    written = tomllib.loads(spec.text)
    lines = [
        Line(name, value, "1", source=str(spec.source_of(f"{where}.{name}")))
        for where, names in (("sizes", spec.sizes), ("parameters", spec.parameters))
        for name, value in ((n, one.values[n]) for n in names)
    ]
    for path, expression in spec.all_expressions():
        if path.startswith(("launch.block_", "constraints")):
            continue
        if _is_written(written, path):
            value = value_of(expression, worked)
            text = "" if expression.is_constant else words(expression.text)
            units = "byte" if path.endswith("bytes") else "1"
            value = "at fault" if value is None else value
            section, _, name = path.partition(".")
            shown = name if section in NAMED else path
            lines.append(Line(shown, value, units, path, text, source=str(spec.source_of(path))))
        lines += _served(path, one, worked)
    lines.append(
        Line("computation instructions", scalar(worked.workload.computation_instructions), "1",
             formula="of a thread" if "instructions.computation" in spec.expressions else
             "of a thread: all classes, shared accesses and barriers")
    )  # fmt: skip
    lines += [
        Line("constraint", value_of(expression, worked), formula=words(expression.text),
             source=str(spec.source_of("constraints")) if expression in spec.constraints
             else "the plan")
        for expression in one.space.constraints
    ]  # fmt: skip
    return Section(f"Kernel: {file_of(spec)}", tuple(lines))


def value_of(expression: Any, worked: Worked) -> Any:
    """Return an expression's value, ``None`` if its evaluation fails."""
    value, fault = expression.evaluate(worked.launch.values)
    return None if scalar(fault) else scalar(value)


def _is_written(table: dict[str, Any], path: str) -> bool:
    """Return whether the file itself sets the value of a dotted path, instead of a default."""
    section, *rest = path.split(".")
    content = table.get(section, {})
    if isinstance(content, list):
        content = {row.get("name"): row for row in content}
    for key in rest:
        content = content.get(key) if isinstance(content, dict) else None
    return content is not None


def _served(path: str, one: Single, worked: Worked) -> Iterator[Line]:
    """Yield a line on the transactions of a global access, after the last of its expressions."""
    section, *rest = path.split(".")
    if section != "global_access" or rest[-1] != "bytes":
        return
    given = next(a for a in one.space.kernel.global_accesses if a.name == rest[0])
    access = next(a for a in worked.workload.global_accesses if a.name == rest[0])
    rule = rule_of(one.device.compute_capability)
    kind = "coalesced" if scalar(access.coalesced) else "uncoalesced"
    text = (
        f"{given.pattern} {given.kind}: {literal(scalar(access.sectors))} sectors of 32 bytes a"
        f" warp, {kind} by the {rule} rule of {one.device.generation}"
    )
    yield Line(f"{rest[0]}: transactions", scalar(access.transactions), "1", formula=text)


# ---------------------------------------------------------------------------- the device's file


def device(one: Single, model: Model) -> tuple[Section, Section]:
    """Return the sections about the device file: the chip and the model's own table."""
    spec = one.device
    read = {key for i in model.inputs for key in i.device_keys}
    paths = [p for p in spec.sources if p.startswith("clocks.") or p in CHIP or p in read]
    paths = [p for p in paths if not p.startswith("model.")]
    paths += [p for p in spec.sources if p.startswith("power.")]
    chip = [
        Line("compute_capability", spec.compute_capability or "none",
             formula=f"{spec.name} ({spec.architecture})", source=str(spec.sources["identity"])),
        *(_device_line(spec, path) for path in paths),
    ]  # fmt: skip
    own = [
        replace(_device_line(spec, f"model.{model.name}.{p.key}", p.long_name), name=p.key)
        for p in model.parameters
        if p.key in spec.model_parameters.get(model.name, {})
    ]
    own += [
        _device_line(spec, path)  # numbers of another model's table
        for path in sorted(read)
        if path.startswith("model.") and not path.startswith(f"model.{model.name}.")
        and path in spec.sources
    ]  # fmt: skip
    lacking = tuple(
        f"{p.key} is missing: {p.long_name}."
        for p in model.parameters
        if p.required and f"model.{model.name}.{p.key}" not in spec.sources
    )
    file = file_of(spec)
    return (
        Section(f"Device: {file}", tuple(chip)),
        Section(f"Parameters: {file}, [model.{model.name}]", tuple(own), lacking),
    )


def _device_line(spec: Device, path: str, meaning: str = "") -> Line:
    value, units = raw_value(spec, path)
    text = meaning
    if isinstance(value, tuple):
        rows = (row if isinstance(row, tuple) else (row,) for row in value)
        table = "; ".join(" ".join(literal(cell) for cell in row) for row in rows)
        text, value = f"{meaning}: {table}".removeprefix(": "), f"{len(value)} rows"
    return Line(path, value, units, meaning, text, source=str(spec.sources.get(path, "")))


def raw_value(spec: Device, path: str) -> tuple[Any, str]:
    """Return a value as written in the device file, and its unit."""
    parts = path.split(".")
    stem, unit = split_unit(path)
    units = unit.symbol if unit is not None else "1"
    if parts[0] == "model":
        return spec.model_parameters[parts[1]].get(parts[2]), units
    if path in spec.tables:  # pairs of clock and voltage
        return tuple((clock / 1e6, volts) for clock, volts in spec.tables[path]), ""
    scale = to_base(1.0, path)
    return float(f"{spec.values[stem] / scale:.12g}"), units


# ---------------------------------------------------------------------------- clocks


def clocks(one: Single, worked: Worked, model: Model, variant: str) -> Section:
    """Return the section about the clocks and the effect of their ratio on DRAM quantities."""
    at = worked.workload.clocks
    lines = []
    for name in ("core", "memory"):
        hertz, nominal = scalar(getattr(at, name)), scalar(getattr(at, f"{name}_nominal"))
        text = "nominal" if hertz == nominal else (
            f"{literal(hertz / nominal)} of nominal, {literal(nominal / 1e6)} MHz")  # fmt: skip
        lines.append(Line(f"{name} clock", hertz / 1e6, "MHz", formula=text))
    ratio = scalar(at.ratio)
    lines.append(
        Line("core/memory clock ratio", ratio, "1", formula="relative to the nominal clocks")
    )
    notes: tuple[str, ...] = ()
    if variant == "corrected" and "CLK" in model.errata and ratio != 1.0:
        share = scalar(worked.workload.dram_share)
        text = "part of a DRAM latency that follows the clock ratio"
        lines.append(Line("DRAM share", share, "1", formula=text, comment="CLK"))
        notes = (
            "Rule CLK: device files give DRAM quantities in core cycles at the nominal clocks; DRAM"
            " keeps its time, so its share of the cycles follows the core/memory clock ratio.",
        )
    return Section("Clocks", tuple(lines), notes)


# ---------------------------------------------------------------------------- launch, occupancy


def launch(one: Single, worked: Worked) -> Section:
    """Return the section about occupancy: each limit, and which of them applies."""
    spec, work, values = one.device, worked.workload, worked.launch.values
    limits = rules.limits_for(spec.limits)
    found = work.occupancy
    counts = {name: scalar(value) for name, value in found.counts().items()}
    threads, blocks = scalar(work.threads_per_block), scalar(work.blocks)
    shared = scalar(values["shared_memory_bytes"])
    warps = counts["warps_per_block"]
    reserved = scalar(limits.smem_reserved_per_block_bytes)

    def n(value: Any) -> str:
        return literal(scalar(value))

    lines = [
        Line("warps of a block", warps, "1",
             formula=f"ceil({n(threads)} threads / {n(limits.warp_size)} threads a warp)"),
        Line("blocks: warps", counts["limit_by_warps"], "1",
             formula=f"{n(limits.max_warps_per_sm)} warps a multiprocessor / {n(warps)} a block;"
             f" at most {n(limits.max_threads_per_block)} threads a block"),
        Line("blocks: registers", counts["limit_by_registers"], "1",
             formula=_registers(worked, limits, warps)),
        Line("blocks: shared memory", counts["limit_by_shared_memory"], "1",
             formula=f"{n(limits.smem_per_sm_bytes)} bytes a multiprocessor / {n(shared)} a block"
             + (f" and {n(reserved)} reserved" if reserved else "")
             + f", in units of {n(limits.smem_alloc_unit_bytes)}"),
        Line("blocks: slots", counts["limit_by_blocks"], "1",
             formula="most blocks on a multiprocessor"),
        Line("blocks: grid", counts["limit_by_grid"], "1",
             formula=f"ceil({n(blocks)} blocks / {n(work.n_sm)} multiprocessors)"),
        Line("active blocks on an SM", counts["active_blocks_per_sm"], "1",
             formula="the least of them" + _limiter(scalar(found.limiter))),
        Line("active warps on an SM", counts["active_warps_per_sm"], "1",
             formula=f"{n(counts['active_blocks_per_sm'])} blocks * {n(warps)} warps"),
        Line("occupancy", scalar(found.occupancy), "1",
             formula=f"{n(counts['active_warps_per_sm'])} / {n(limits.max_warps_per_sm)} warps"),
        Line("active SMs", counts["active_sm"], "1",
             formula=f"min({n(work.n_sm)} multiprocessors, {n(blocks)} blocks)"),
    ]  # fmt: skip
    return Section(f"Occupancy by the rules of {spec.generation}", tuple(lines))


def _limiter(code: int) -> str:
    name = LIMITER.meaning(int(code)).replace("_", " ")
    return "" if name == "none" else f": limited by {name.replace('blocks per sm', 'slots')}"


def _registers(worked: Worked, limits: rules.Limits, warps: float) -> str:
    each = np.asarray(scalar(worked.launch.values["registers_per_thread"]))
    if scalar(limits.reg_per_block_style):
        unit, used = "block", rules.registers_of_block(np.asarray(warps), each, limits)
    else:
        unit, used = "warp", rules.registers_of_warp(each, limits)
    have, of_unit, of_thread = (literal(scalar(v)) for v in (limits.regs_per_sm, used, each))
    return f"{have} registers / {of_unit} a {unit} ({of_thread} a thread)"


# ---------------------------------------------------------------------------- inputs of the model


def inputs(one: Single, worked: Worked, model: Model, variant: str) -> Section:
    """Return the section about the arguments of the model's equations and their origins."""
    at = worked.workload.clocks
    swept = scalar(at.core != at.core_nominal) or scalar(at.memory != at.memory_nominal)
    follows = swept and variant == "corrected" and "CLK" in model.errata
    lines = []
    for described in model.inputs:
        symbol = model.symbols[described.symbol]
        names = [described.symbol]
        if described.sequence:
            names = [n for n in worked.inputs if n.rpartition("_")[0] == described.symbol]
        for i, name in enumerate(names):
            value = worked.inputs[name]
            shown = f"{symbol.symbol}[{i}]" if described.sequence else symbol.symbol
            origin, source = _origin(one, described, value)
            applied = "CLK" if follows and described.clocked and described.device_keys else ""
            lines.append(
                Line(shown, value, symbol.units, symbol.meaning, origin if i == 0 else "",
                     source=source, comment=applied)
            )  # fmt: skip
    return Section("Inputs of the model", tuple(lines))


def _origin(one: Single, described: Input, value: float) -> tuple[str, str]:
    """Return where an input comes from, and its source in the device file."""
    texts, source = [], ""
    for key in described.device_keys:
        if key not in one.device.sources:
            texts.append(f"{key} is missing")
            continue
        source = str(one.device.sources[key])
        raw, units = raw_value(one.device, key)
        text = key
        if isinstance(raw, float):
            based = to_base(raw, key)
            if not np.isclose(based, value, rtol=1e-12, atol=0.0):
                text = f"{key} = {literal(raw)} {'' if units == '1' else units}".rstrip()
        texts.append(text)
    return ": ".join([described.origin, *(["; ".join(texts)] if texts else [])]), source
