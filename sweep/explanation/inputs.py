"""Sections on where a model's inputs come from: kernel file, device file, clocks, occupancy."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sweep.errors import counted
from sweep.explanation.case import Case, scalar
from sweep.explanation.sections import Line, Section, literal
from sweep.expressions import Expression
from sweep.fields import LIMITER
from sweep.hardware import occupancy as rules
from sweep.hardware.memory_rules import rule_of
from sweep.hardware.occupancy_limits import limits_for
from sweep.models.base import Input
from sweep.space import origins
from sweep.specs import Device, Kernel, list_devices, list_kernels, load_device, load_kernel
from sweep.specs.compiled import LookUp
from sweep.specs.compiled_replaces import HIT_RATES
from sweep.specs.device import parse_device
from sweep.specs.formats import split_unit, to_base
from sweep.specs.reading import label_of

CHIP = ("chip.sm_count", "chip.warp_size", "chip.lanes_per_sm", "chip.l2_KiB")
"""Chip values that every explanation shows, because occupancy rules and expressions read them."""

SHORT = ("derived", "global_access", "shared_access")
"""Sections of a kernel file whose entries are shown by name alone, without their path."""

TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))


def input_sections(case: Case) -> Iterator[Section]:
    """Yield the sections on everything that the model's equations start from."""
    yield _kernel(case)
    yield from _device(case)
    yield _clocks(case)
    if case.status not in ("constraint", "kernel_expression"):
        yield _launch(case)
    yield _inputs(case)


def file_of(spec: Device | Kernel) -> str:
    """Return the name of a spec's file for messages."""
    if spec.path is not None:
        return label_of(spec.path)
    # A store has the text alone, of a shipped file or of one that a user wrote.
    shipped: Device | Kernel | None = None
    if isinstance(spec, Device):
        folder, shipped = "devices", load_device(spec.key) if spec.key in list_devices() else None
    elif spec.key in list_kernels():
        folder, shipped = "kernels_spec", load_kernel(spec.key)
    if shipped is not None and shipped.sha256 == spec.sha256:
        return f"{folder}/{spec.key}.toml"
    return f"{spec.key}.toml"


def one_line(text: str) -> str:
    """Return an expression on one line."""
    return " ".join(text.split())


def value_of(expression: Any, case: Case) -> Any:
    """Return an expression's value, ``None`` if its evaluation fails."""
    value, fault = expression.evaluate(case.launch.values)
    return None if scalar(fault) else scalar(value)


# ---------------------------------------------------------------------------- the kernel's file


def _kernel(case: Case) -> Section:
    """Return the section about the kernel file: every expression with its value and source."""
    spec = case.space.kernel
    written = tomllib.loads(spec.text)
    lines = [
        Line(name, case.values[name], "1", source=str(spec.source_of(f"{section}.{name}")))
        for section, names in (("sizes", spec.sizes), ("parameters", spec.parameters))
        for name in names
    ]
    for path, expression in spec.all_expressions():
        if path.startswith(("launch.block_", "constraints")):
            continue
        section, _, name = path.partition(".")
        if _is_written(written, path) or _is_compiled(spec, expression):
            value = value_of(expression, case)
            text = "" if expression.is_constant else one_line(expression.text)
            lines.append(
                Line(name if section in SHORT else path, "at fault" if value is None else value,
                     "byte" if path.endswith("bytes") else "1", path, text,
                     source=str(spec.source_of(path)))
            )  # fmt: skip
        if section == "global_access" and name.endswith(".bytes"):
            lines.extend(_transactions(name.removesuffix(".bytes"), case))
        if section == "shared_access" and name.endswith(".count"):
            lines.extend(_constant(name.removesuffix(".count"), case))
    is_total = "instructions.computation" in spec.expressions
    text = "of a thread" if is_total else "of a thread: all classes, shared accesses and barriers"
    instructions = scalar(case.workload.computation_instructions)
    lines.append(Line("computation instructions", instructions, "1", formula=text))
    for expression in case.space.constraints:
        is_own = expression in spec.constraints
        source = str(spec.source_of("constraints")) if is_own else "the plan"
        lines.append(Line("constraint", value_of(expression, case),
                          formula=one_line(expression.text), source=source))  # fmt: skip
    return Section(f"Kernel: {file_of(spec)}", tuple(lines))


def _is_compiled(spec: Kernel, expression: Expression) -> bool:
    """Return whether a value is a column of the compiled table, or made from one."""
    if spec.compiled is None:
        return False
    names = {*spec.compiled.look_ups(), *HIT_RATES}
    return isinstance(expression, LookUp) or not expression.names.isdisjoint(names)


def _is_written(content: Any, path: str) -> bool:
    """Return whether the file itself sets the value of a dotted path, instead of a default."""
    for key in path.split("."):
        if isinstance(content, list):
            content = {row.get("name"): row for row in content}
        content = content.get(key) if isinstance(content, dict) else None
    return content is not None


def _transactions(name: str, case: Case) -> Iterator[Line]:
    """Yield the line on the transactions of a global access, and on what the link does."""
    declared = next(a for a in case.space.kernel.global_accesses if a.name == name)
    access = next(a for a in case.workload.global_accesses if a.name == name)
    kind = "coalesced" if scalar(access.coalesced) else "uncoalesced"
    where = "" if access.memory == "global" else f" of {access.memory} memory"
    sectors = literal(scalar(access.sectors))
    text = (
        f"{declared.pattern} {declared.kind}{where}: {sectors} sectors of 32 bytes"
        f" a warp, {kind} by the {rule_of(case.device.target)} rule of"
        f" {case.device.generation}"
    )
    yield Line(f"{name}: transactions", scalar(access.transactions), "1", formula=text)
    if access.link_time is not None and access.link_latency is not None:
        latency = literal(scalar(access.link_latency))
        text = f"time of a warp's access on the link to the host; latency {latency} s"
        yield Line(f"{name}: link", scalar(access.link_time), "s", formula=text)


def _constant(name: str, case: Case) -> Iterator[Line]:
    """Yield the line on the passes of an access to constant memory."""
    access = next(a for a in case.workload.shared_accesses if a.name == name)
    if access.memory == "constant":
        text = "different words of a warp, one after the other in the constant cache"
        yield Line(f"{name}: passes", scalar(access.wavefronts), "1", formula=text)


# ---------------------------------------------------------------------------- the device's file


def _device(case: Case) -> Iterator[Section]:
    """Yield the sections about the device file: the chip and the model's own table."""
    spec, model = case.device, case.model
    own = f"model.{model.name}."
    read = {key for i in model.inputs for key in i.device_keys}
    paths = [
        path for path in spec.sources
        if (path.startswith("clocks.") or path in CHIP or path in read)
        and not path.startswith("model.")
    ]  # fmt: skip
    paths += [path for path in spec.sources if path.startswith("power.")]
    identity = Line(
        "compute_capability", spec.compute_capability or "none",
        formula=f"{spec.name} ({spec.architecture})", source=str(spec.sources["identity"]),
    )  # fmt: skip
    file = file_of(spec)
    yield Section(f"Device: {file}", (identity, *(_device_line(spec, path) for path in paths)))
    of_key = {key: text for key, _, text in origins(parse_device(spec.text, spec.key), model.name)}
    lines = [
        replace(_device_line(spec, own + p.key, p.long_name), name=p.key, source=of_key[p.key])
        for p in model.parameters
        if p.key in spec.model_parameters.get(model.name, {})
    ]
    others = (p for p in sorted(read) if p.startswith("model.") and not p.startswith(own))
    lines += [_device_line(spec, path) for path in others if path in spec.sources]
    lacking = tuple(
        f"{p.key} is missing: {p.long_name}."
        for p in model.parameters
        if p.required and own + p.key not in spec.sources
    )
    yield Section(f"Parameters: {file}, [model.{model.name}]", tuple(lines), lacking)


def _device_line(spec: Device, path: str, meaning: str = "") -> Line:
    value, units = _raw_value(spec, path)
    text = meaning
    if isinstance(value, tuple):
        rows = (row if isinstance(row, tuple) else (row,) for row in value)
        table = "; ".join(" ".join(map(literal, row)) for row in rows)
        text, value = f"{meaning}: {table}".removeprefix(": "), counted(len(value), "row")
    return Line(path, value, units, meaning, text, source=str(spec.sources.get(path, "")))


def _raw_value(spec: Device, path: str) -> tuple[Any, str]:
    """Return a value as written in the device file, and its unit."""
    stem, unit = split_unit(path)
    units = unit.symbol if unit is not None else "1"
    if path.startswith("model."):
        _, model, key = path.split(".")[:3]
        return spec.model_parameters[model].get(key), units
    if path in spec.tables:  # pairs of clock and voltage
        return tuple((clock / 1e6, volts) for clock, volts in spec.tables[path]), ""
    return float(f"{spec.values[stem] / to_base(1.0, path):.12g}"), units


# ---------------------------------------------------------------------------- clocks, occupancy


def _clocks(case: Case) -> Section:
    """Return the section about the clocks and the effect of their ratio on DRAM quantities."""
    at = case.workload.clocks
    lines = []
    for name in ("core", "memory"):
        hertz, nominal = scalar(getattr(at, name)), scalar(getattr(at, f"{name}_nominal"))
        text = f"{literal(hertz / nominal)} of nominal, {literal(nominal / 1e6)} MHz"
        text = "nominal" if hertz == nominal else text
        lines.append(Line(f"{name} clock", hertz / 1e6, "MHz", formula=text))
    ratio = scalar(at.ratio)
    text = "relative to the nominal clocks"
    lines.append(Line("core/memory clock ratio", ratio, "1", formula=text))
    notes: tuple[str, ...] = ()
    if case.follows_clocks and ratio != 1.0:
        share = scalar(case.workload.dram_share)
        text = "part of a DRAM latency that follows the clock ratio"
        lines.append(Line("DRAM share", share, "1", formula=text, comment="CLK"))
        notes = (
            "Rule CLK: device files give DRAM quantities in core cycles at the nominal clocks; DRAM"
            " keeps its time, so its share of the cycles follows the core/memory clock ratio.",
        )
    return Section("Clocks", tuple(lines), notes)


def launch_texts(case: Case) -> dict[str, str]:
    """Return the numbers of the launch, the device's limits and the occupancy as texts by name."""
    work, values = case.workload, case.launch.values
    limits, found = limits_for(case.device.limits), work.occupancy
    per_thread = np.asarray(scalar(values["registers_per_thread"]))
    warps = np.asarray(scalar(found.warps_per_block))
    of_warp = rules.registers_of_warp(per_thread, limits)
    of_block = rules.registers_of_block(warps, per_thread, limits)
    is_per_block = scalar(limits.reg_per_block_style)
    numbers = vars(limits) | found.counts() | {
        "threads": work.threads_per_block, "blocks": work.blocks, "n_sm": work.n_sm,
        "registers": per_thread, "shared": values["shared_memory_bytes"],
        "columns": values["tensor_memory_columns"],
        "allocated_registers": of_block if is_per_block else of_warp,
        "registers_of_block": of_block if is_per_block else of_warp * warps,
    }  # fmt: skip
    texts = {name: literal(scalar(value)) for name, value in numbers.items()}
    reserved = texts["smem_reserved_per_block_bytes"]
    limiter = LIMITER.meaning(scalar(found.limiter)).replace("_", " ")
    limiter = limiter.replace("blocks per sm", "slots")
    return texts | {
        "device": case.device.generation,
        "register_unit": "block" if is_per_block else "warp",
        "reserved": "" if reserved == "0" else f" and {reserved} reserved",
        "limiter": "" if limiter == "none" else f": limited by {limiter}",
    }


def _launch(case: Case) -> Section:
    """Return the section about occupancy: each limit, and which of them applies."""
    found, texts = case.workload.occupancy, launch_texts(case)
    values = found.counts() | {"occupancy": found.occupancy}
    lines = (
        Line(name, scalar(values[key]), "1", formula=template.format_map(texts))
        for name, (key, template) in TEXTS["occupancy"].items()
        if key != "limit_by_tensor_memory" or texts["columns"] != "0"
    )
    return Section(f"Occupancy by the rules of {case.device.generation}", tuple(lines))


# ---------------------------------------------------------------------------- inputs of the model


def _inputs(case: Case) -> Section:
    """Return the section about the arguments of the model's equations and their origins."""
    at, model = case.workload.clocks, case.model
    is_nominal = scalar(at.core == at.core_nominal) and scalar(at.memory == at.memory_nominal)
    lines = []
    for described in model.inputs:
        symbol = model.symbols[described.symbol]
        follows = case.follows_clocks and described.clocked and described.device_keys
        for i, name in enumerate(case.parts(described)):
            value = case.inputs[name]
            shown = f"{symbol.symbol}[{i}]" if described.sequence else symbol.symbol
            origin, source = _origin(case.device, described, value)
            lines.append(
                Line(shown, value, symbol.units, symbol.meaning, origin if i == 0 else "",
                     source=source, comment="CLK" if follows and not is_nominal else "")
            )  # fmt: skip
    return Section("Inputs of the model", tuple(lines))


def _origin(device: Device, described: Input, value: float) -> tuple[str, str]:
    """Return where an input comes from, and its source in the device file."""
    texts, source = [], ""
    for key in described.device_keys:
        text = f"{key} is missing"
        if key in device.sources:
            text, source = key, str(device.sources[key])
            raw, units = _raw_value(device, key)
            if isinstance(raw, float) and not np.isclose(
                to_base(raw, key), value, rtol=1e-12, atol=0.0
            ):
                text = f"{key} = {literal(raw)} {'' if units == '1' else units}".rstrip()
        texts.append(text)
    return ": ".join([described.origin, *(["; ".join(texts)] if texts else [])]), source
