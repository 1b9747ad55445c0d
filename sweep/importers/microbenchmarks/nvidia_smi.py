"""The text of ``nvidia-smi -q``: which GPU it is, how far its clocks go, and its power limit.

It states no boost clock. Without another tool the highest clock stands for the nominal one.
"""

from __future__ import annotations

import re

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader, one_gpu

_OWN = r"NVSMI LOG|NVIDIA-SMI|nvidia_smi_log|clocks\.\S+ \[MHz\]"
"""Marks of `nvidia-smi -q`, which is read, and of its table, XML and CSV, which are refused."""
_GPU = re.compile(r"^GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+ *$", re.MULTILINE)
_FIELD = re.compile(r"^( +)(.+?) +: (.*?) *$|^( +)(\S.*?) *$")
_LIMITS = (
    "GPU Power Readings/Current Power Limit",
    "Power Readings/Enforced Power Limit",
    "Power Readings/Power Limit",
)
"""Where drivers, new to old, state the limit in force."""
_ABSENT = ("N/A", "[N/A]", "Not Found", "Not Supported", "Unknown Error",
           "Insufficient Permissions")  # fmt: skip


def _read(source: Source) -> list[Measurement]:
    if "NVSMI LOG" not in source.text:
        raise source.error("a table, XML or CSV of nvidia-smi: give the text of `nvidia-smi -q`")
    parts = _GPU.split(source.text)
    names = [_fields(part).get("Product Name", "") for part in parts[1:]]
    one_gpu(source, "`nvidia-smi -q`", names, "by `nvidia-smi -q -i 0`")
    found = Findings(source, "nvidia-smi")
    fields = _fields(parts[1])
    driver = re.search(r"^Driver Version +: (\S+)", parts[0], re.MULTILINE)
    found.version = f"driver {driver[1]}" if driver else ""
    supported = _supported(parts[1])
    for domain, clocks in supported.items():
        found.clock_range(domain, min(clocks), max(clocks), "Supported Clocks")
    if supported and not names[0]:  # `nvidia-smi -q -d SUPPORTED_CLOCKS` names no product
        return found.found
    if not names[0] or "Max Clocks/Memory" not in fields:
        lacking = "Max Clocks" if names[0] else "Product Name"
        raise source.error(f"no '{lacking}': truncated, or not in English (LC_ALL=C), or not `-q`?")
    found.gpu(names[0], "NVIDIA", "Product Name")
    architecture = fields.get("Product Architecture")
    if architecture and architecture not in _ABSENT:
        found.query("architecture", architecture, "Product Architecture")
    limit = next((p for p in _LIMITS if fields.get(p, "N/A") not in _ABSENT), _LIMITS[0])
    for key, place, kind, unit in (
        ("core_max", "Max Clocks/SM", "clock", "MHz"),
        ("memory_max", "Max Clocks/Memory", "clock", "MHz"),
        ("power_limit", limit, "power", "W"),
    ):
        if (text := fields.get(place, "N/A")) not in _ABSENT:
            number = re.fullmatch(rf"([-\d.,]+) {unit}", text)
            if number is None:
                raise source.error(f"{place}: '{text[:40]}': not a {kind} in {unit}")
            found.query(f"clocks.{key}", number[1], place, unit)
    return found.found


def _supported(text: str) -> dict[str, list[float]]:
    """Return the supported clocks of both domains [MHz]; nothing if they are not listed."""
    listed = re.findall(r"^ +(Memory|Graphics) +: (\d+) MHz *$",
                        text.partition("Supported Clocks")[2], re.MULTILINE)  # fmt: skip
    found: dict[str, list[float]] = {}
    for name, clock in listed:
        found.setdefault("core" if name == "Graphics" else "memory", []).append(float(clock))
    return found if len(found) == 2 else {}


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a GPU; those of a group as ``Max Clocks/SM``. The first one counts."""
    found: dict[str, str] = {}
    groups: list[tuple[int, str]] = []
    for line in text.splitlines():
        match = _FIELD.match(line)
        if match is None:
            continue
        indent = len(match[1] or match[4])
        groups = [group for group in groups if group[0] < indent]
        if match[2] is None:
            groups.append((indent, match[5]))
        else:
            found.setdefault("/".join([*(name for _, name in groups), match[2]]), match[3])
    return found


READER = Reader("nvidia-smi", lambda text: re.search(_OWN, text) is not None, _read)
