"""The device file of what is known of a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sweep.errors import SweepError, printable
from sweep.importers.microbenchmarks.measurement import METHODS, TEXTS, TOOLS, Measurement
from sweep.importers.microbenchmarks.merging import Merged
from sweep.importers.microbenchmarks.shipped import SECTIONS
from sweep.specs.formats import DEVICE, Key
from sweep.specs.kernel import toml
from sweep.specs.reading import Report, quoted_path

WHO_SAYS: dict[str, str] = TOOLS["who_says"]
"""Which tools say what a device file needs."""


def lacking(known: Merged) -> list[Key]:
    """Return the required keys of a device file that nothing gives."""
    lacks = [key for key in DEVICE[""].keys if key.required and key.name != "schema"
             and key.name not in known.texts]  # fmt: skip
    limits = any(path.startswith("occupancy.") for path in known.chosen)
    if not limits and not {"compute_capability", "compiler_target"} & known.texts.keys():
        lacks += [key for key in DEVICE[""].keys if key.name == "compute_capability"]
    for section in ("clocks", "chip"):
        lacks += [key for key in DEVICE[section].keys if key.required
                  and f"{section}.{key.stem}" not in known.chosen]  # fmt: skip
    made_of = {"clocks.memory_nominal_MHz", "chip.memory_bus_width_bits"}
    if made_of & {key.path for key in lacks}:
        lacks = [key for key in lacks if key.path != "chip.memory_bandwidth_GBps"]
    return lacks


def check_complete(known: Merged) -> None:
    """Refuse a device of which a device file cannot be made.

    Raises
    ------
    SweepError
        Required values are missing: which, and which tools give them.
    """
    if lacks := lacking(known):
        said = (f"{key.path} ({WHO_SAYS[key.path]})" if key.path in WHO_SAYS else key.path
                for key in lacks)  # fmt: skip
        raise SweepError(
            f"not known: {', '.join(said)}: add the output of a tool that says so, or name a device"
            " like it with --like (`sweep new device` takes KEY=VALUE, too)"
        )
    if "compute_capability" not in known.texts and not any(
        path.startswith("occupancy.") for path in known.chosen
    ):
        target = known.texts["compiler_target"].value
        raise SweepError(f"no shipped device has the target {target}, so its limits of occupancy"
                         " are unknown: name a similar device with --like")  # fmt: skip


def device_text(
    known: Merged, key: str, comments: Iterable[str] = (), *, blanks: bool = False
) -> str:
    """Return the text of a device file.

    Parameters
    ----------
    known : Merged
        What is known of the device.
    key : str
        The name of the file without ``.toml``.
    comments : iterable of str
        Lines at its top.
    blanks : bool
        Whether comments also name the optional keys that the file lacks.

    Raises
    ------
    SweepError
        Required values are missing, or the file would not be valid.
    """
    from sweep.specs.device import inspect_device

    check_complete(known)
    lines = [
        *(f"# {' '.join(printable(line).split())}".rstrip() for line in comments),
        "",
        "schema = 1",
    ]
    texts = {name: known.texts[name] for name in TEXTS if name in known.texts}
    lines += [f"{name} = {toml(str(one.value))}" for name, one in texts.items()]
    written: dict[str, Measurement] = {}
    for section, entries in _sections(known):
        lines += ["", f"[{section}]"]
        for one, entry in entries:
            number = round(float(one.value)) if entry.type == "integer" else float(one.value)
            lines.append(f"{entry.name} = {toml(number)} # {entry.meaning}")
            written[entry.path] = one
        given = {entry.name for _, entry in entries}
        rest = [entry for entry in DEVICE[section].keys if entry.name not in given]
        lines += [f"# {entry.name} = # {entry.meaning}" for entry in rest if blanks]
    for path, one in sorted(known.models.items()):
        section, name = path.rsplit(".", 1)
        if f"[{section}]" not in lines:
            lines += ["", f"[{section}]"]
        lines.append(f"{name} = {toml(one.value)}")
        written[path] = one
    deviations = {path: n for path, one in written.items() if (n := one.deviation) is not None}
    sources = {"identity": _identity(known)}
    sources |= {path: source_of(one) for path, one in written.items()}
    for title, table in (("deviation", deviations), ("source", sources)):
        if table:
            lines += ["", f"[{title}]"]
            lines += [f"{quoted_path(path)} = {toml(value)}" for path, value in table.items()]
    text = "\n".join(lines).lstrip("\n") + "\n"
    report = Report(f"{key}.toml")
    report.result(inspect_device(report, text, key))
    return text


def _sections(known: Merged) -> Iterator[tuple[str, list[tuple[Measurement, Key]]]]:
    for section in SECTIONS:
        if section == "occupancy" and "compute_capability" in known.texts:
            continue
        entries = [(known.chosen[f"{section}.{key.stem}"], key) for key in DEVICE[section].keys
                   if f"{section}.{key.stem}" in known.chosen]  # fmt: skip
        if entries:
            yield section, entries


def _identity(known: Merged) -> str:
    name = known.texts["name"]
    if name.method == "query":
        return f"microbenchmark: {_tool(name)}"
    return "derived: that of devices like it" if not name.source else name.source


def _tool(one: Measurement) -> str:
    return ", ".join(filter(None, [f"{one.tool} {one.version}".strip(), one.place]))


def source_of(one: Measurement) -> str:
    """Return the source of a value, as ``[source]`` has it."""
    if one.source:
        return one.source
    words = [_tool(one)]
    if one.clocks.core and one.method not in ("query", "rule"):
        words.append(f"at {one.clocks.core:g} MHz{' (locked)' * one.clocks.locked}")
    return "; ".join(filter(None, [f"microbenchmark: {', '.join(words)}", METHODS[one.method],
                                   one.note]))  # fmt: skip
