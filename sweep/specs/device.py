"""The device file: one GPU, every value with its source."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweep.errors import nearest
from sweep.fields import Parameter
from sweep.hardware.occupancy_limits import compute_capabilities
from sweep.specs.check import (
    Content,
    Source,
    check_deviations,
    check_section,
    check_sources,
    is_below,
    is_number,
)
from sweep.specs.formats import DEVICE, LIMITS_OF_DEVICE, Key, Section, split_unit, to_base
from sweep.specs.reading import KEY_PATTERN, Report, label_of, parse_toml, quoted_path, sha256_of

ModelValue = float | str | tuple[Any, ...]
"""A parameter of a model: a number, a word, a list of numbers, or rows."""


@dataclass(frozen=True)
class Device:
    """One device, as its file describes it.

    Parameters
    ----------
    key : str
        The file's name without ``.toml``.
    name, vendor, architecture, compute_capability : str
        Identity. The compute capability is a key of the table of occupancy limits, ``""`` if the
        device file gives the limits.
    compiler_target : str
        What AMD's compiler calls the device, such as ``gfx90a``; ``""`` for others.
    values : mapping of str to float
        Numbers by dotted path without unit suffix (``clocks.core_nominal``), in base units: Hz,
        B/s, bytes, W, V, W/(V2 Hz); widths in bits.
    tables : mapping of str to tuple
        Rows by dotted path (``power.core_voltage``), in base units.
    model_parameters : mapping of str to mapping
        The parameters of each model by their keys in the file, in the unit of the key's suffix.
    sources : mapping of str to Source
        The source of every value by its dotted path in the file (``clocks.core_nominal_MHz``).
    text : str
        The file.
    sha256 : str
        SHA-256 of the text.
    path : Path or None
        The file, ``None`` if the text did not come from one.
    deviations : mapping of str to float
        Standard deviations of measured values, by the paths of ``sources`` and in their units.
    """

    key: str
    name: str
    vendor: str
    architecture: str
    compute_capability: str
    compiler_target: str
    values: Mapping[str, float]
    tables: Mapping[str, tuple[tuple[float, ...], ...]]
    model_parameters: Mapping[str, Mapping[str, ModelValue]]
    sources: Mapping[str, Source]
    text: str = field(repr=False)
    sha256: str
    path: Path | None = field(default=None, compare=False)
    deviations: Mapping[str, float] = field(default_factory=dict)

    def __hash__(self) -> int:
        """Hash key and text, because the mappings cannot be hashed."""
        return hash((self.key, self.sha256))

    @property
    def generation(self) -> str:
        """The name of the device's limits and rules in texts: ``compute capability 5.2``."""
        if self.compute_capability:
            return f"compute capability {self.compute_capability}"
        return self.architecture

    @property
    def target(self) -> str:
        """What a compiler is asked for: the compute capability, AMD's target, or nothing."""
        return self.compute_capability or self.compiler_target

    @property
    def limits(self) -> str | Mapping[str, float]:
        """The compute capability, or the device's own occupancy limits."""
        if self.compute_capability:
            return self.compute_capability
        return {name: self.values[path] for name, path in LIMITS_OF_DEVICE.items()}

    def assumed(self, prefixes: Sequence[str], kind: str = "assumed") -> tuple[str, ...]:
        """Return the dotted paths of assumed values below any of some paths.

        Parameters
        ----------
        prefixes : sequence of str
            Dotted paths of tables or values, with or without the unit suffix: ``model.hong_kim``,
            ``clocks.core_nominal``.
        kind : str
            Another kind of source instead, such as ``fitted``.
        """
        return tuple(
            path
            for path, source in self.sources.items()
            if source.kind == kind
            and any(is_below(path, p) or split_unit(path)[0] == p for p in prefixes)
        )


# ---------------------------------------------------------------------------- reading


def parse_device(text: str, key: str, path: str | Path | None = None) -> Device:
    """Return the device that a text describes.

    Parameters
    ----------
    text : str
        The content of a device file.
    key : str
        The device's key: the file's name without ``.toml``.
    path : str or Path, optional
        Where the text came from, for messages.

    Raises
    ------
    SpecError
        The text is wrong; the message has the first problem in one line.
    """
    report = Report(str(path or f"devices/{key}.toml"))
    return report.result(inspect_device(report, text, key, Path(path) if path else None))


def inspect_device(report: Report, text: str, key: str, path: Path | None = None) -> Device | None:
    """Check a device file and return the device, or ``None`` if there are errors.

    Parameters
    ----------
    report : Report
        Collects all findings.
    text, key, path
        As for :func:`parse_device`.
    """
    file = parse_toml(report, text, key)
    if file is None:
        return None
    content = Content(report, DEVICE, file)
    _check_compute_capability(content)
    _check_target(content)
    content.check_tables()
    values: dict[str, float] = {}
    tables: dict[str, tuple[tuple[float, ...], ...]] = {}
    for name, checked in content.tables.items():
        for entry in DEVICE[name].keys:
            value, stem = checked.get(entry.name), f"{name}.{entry.stem}"
            if entry.type == "rows" and value is not None:
                columns = [column.name for column in entry.columns]
                tables[stem] = tuple(tuple(map(to_base, row, columns)) for row in value)
            elif value is not None:
                values[stem] = to_base(value, entry.name)
    models = _models(report, content.part("model", dict))
    valid = {**content.tables, **{f"model.{model}": table for model, table in models.items()}}
    needed = [f"{name}.{key}" for name, table in valid.items() for key in table]
    sources, deviations = check_sources(content, needed), check_deviations(content)
    _check_clocks(report, values)
    _check_bandwidth(report, values)
    if report.errors:
        return None
    names = {"compute_capability": "", "compiler_target": ""}
    names |= {k: v for k, v in content.top.items() if k != "schema"}
    return Device(
        key, **names, values=values, tables=tables, model_parameters=models, sources=sources,
        deviations=deviations, text=text, sha256=sha256_of(text), path=path,
    )  # fmt: skip


def reason_against(capability: str) -> str:
    """Return why a text is no compute capability, empty for one whose occupancy is known."""
    known = compute_capabilities()
    listed = f"the table of occupancy limits has {len(known)}, {known[0]} to {known[-1]}"
    return "" if capability in known else f"unknown{nearest(capability, known)} ({listed})"


def _check_compute_capability(content: Content) -> None:
    """Check that a device file gives either a compute capability or occupancy limits."""
    report, has_limits = content.report, "occupancy" in content.file
    value = content.top.get("compute_capability")
    if not content.top.has("compute_capability") and not has_limits:
        reason = "missing: it gives the occupancy limits; a device without one has [occupancy]"
        report.error("compute_capability", reason)
    elif has_limits and value is not None:
        reason = "gives the occupancy limits already: leave out [occupancy]"
        report.error("compute_capability", reason, value)
    elif value is not None and (reason := reason_against(value)):
        report.error("compute_capability", reason, value)


def _check_target(content: Content) -> None:
    """Check the name that a compiler gives the device."""
    value = content.top.get("compiler_target")
    if value is not None and not re.fullmatch("gfx[0-9a-f]{3,4}", str(value)):
        content.report.error("compiler_target", "must be a target of AMD's such as gfx90a", value)


def _models(report: Report, table: dict[str, Any]) -> dict[str, dict[str, ModelValue]]:
    """Check the form of ``[model.NAME]`` tables; the models check their keys."""
    result: dict[str, dict[str, ModelValue]] = {}
    for model, content in table.items():
        here = quoted_path("model", model)
        if not re.fullmatch(KEY_PATTERN, model) or not isinstance(content, dict):
            report.error(here, "must be a table [model.NAME] with the name of a model", content)
            continue
        result[model] = {}
        for name, value in content.items():
            frozen = _frozen(value)
            if frozen is not None:
                result[model][name] = frozen
            else:
                reason = "must be a number, a word, a list of numbers or a list of rows"
                report.error(f"{here}.{quoted_path(name)}", reason, value)
    return result


def _frozen(value: Any, depth: int = 0) -> ModelValue | None:
    if is_number(value):
        return float(value)
    if isinstance(value, str):
        return value if value.strip() else None
    if not isinstance(value, list) or not value or depth == 2:
        return None
    items = [_frozen(item, depth + 1) for item in value]
    lengths = {len(item) if isinstance(item, tuple) else 0 for item in items}
    return None if None in items or len(lengths) > 1 else tuple(items)


def _check_clocks(report: Report, values: Mapping[str, float]) -> None:
    for domain in ("core", "memory"):
        paths = [f"clocks.{domain}_{name}" for name in ("min", "nominal", "max")]
        if not all(path in values for path in paths):
            continue
        lowest, nominal, highest = (values[path] / 1e6 for path in paths)
        if not lowest <= nominal <= highest:
            bounds = f"{domain}_min_MHz {lowest:.12g} to {domain}_max_MHz {highest:.12g}"
            report.error(f"{paths[1]}_MHz", f"outside the range of the device, {bounds}", nominal)


def _check_bandwidth(report: Report, values: Mapping[str, float]) -> None:
    """Warn if bandwidth, clock and bus width do not give a whole number of transfers per clock."""
    names = ("chip.memory_bandwidth", "clocks.memory_nominal", "chip.memory_bus_width")
    if not all(name in values for name in names):
        return
    bandwidth, clock, width = (values[name] for name in names)
    transfers = bandwidth / (clock * width / 8)
    if not any(abs(transfers / 2**power - 1) < 0.02 for power in range(5)):
        made = f"memory clock and bus width make this {transfers:.3g} transfers a clock"
        reason = f"{made}, not 1, 2, 4, 8 or 16"
        report.error("chip.memory_bandwidth_GBps", reason, bandwidth / 1e9, "warning")


# ---------------------------------------------------------------------------- models


def check_model_parameters(
    device: Device, model: str, declared: Sequence[Parameter], report: Report | None = None
) -> None:
    """Check the parameters of one model in a device file against the model's declaration.

    A missing parameter is not an error: the device's configurations have the status
    ``missing_parameters``.

    Parameters
    ----------
    device : Device
        The device.
    model : str
        Name of the model.
    declared : sequence of Parameter
        The parameters that the model reads.
    report : Report, optional
        Collects all findings; without it, the first error is raised.

    Raises
    ------
    SpecError
        A key is unknown, a unit is wrong or a value is out of range.
    """
    path = Path("devices", f"{device.key}.toml") if device.path is None else device.path
    found = report or Report(label_of(path))
    section = f"model.{model}"
    keys = tuple(Key.from_parameter(parameter, section) for parameter in declared)
    check_section(found, Section(section, "", keys), dict(device.model_parameters.get(model, {})))
    if report is None:
        found.result(device)
