"""The text of AMD's ``rocminfo`` (which GPU it is) and ``rocm-smi -a`` (how far its clocks go).

``amd-smi static`` says both, ``amd-smi metric`` the latter.
"""

from __future__ import annotations

import re

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import FIELDS, Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader, one_gpu

_AGENT = re.compile(r"^\*+ *\nAgent \d+ *\n\*+ *$", re.MULTILINE)
_RDNA = ("gfx10", "gfx11", "gfx12")
"""Targets whose multiprocessor, in device files, is a work-group processor of two compute units
(which rocminfo counts), each with an L1 of its own and half the SIMD units."""

_CDNA3, _DIE_UNITS = "gfx94", 38
"""A target of which rocminfo prints the L2 of one die, and a die's compute units (MI300X: "304 (38
per XCD)", "32 (4 per XCD)" MiB: https://rocm.docs.amd.com/en/docs-6.2.4/reference/gpu-arch-specs)."""

_SMI = "ROCm System Management Interface"
_RANGE = re.compile(r"^GPU\[(\d+)\]\s*: Valid ([sm])clk range: (\S+?)Mhz - (\S+?)Mhz", re.MULTILINE)
_LEVELS = re.compile(
    r"^GPU\[(\d+)\]\s*: Supported ([sm])clk frequencies on .*\n((?:GPU\S+\s*: \w+: .*\n)+)",
    re.MULTILINE,
)
"""Clocks by number; the present one may stand among them, as one more."""


_AMD_SMI = re.compile(r"^GPU: \d+ *$", re.MULTILINE)
_CLOCK = re.compile(r"(?:LEVEL \d+|M(?:IN|AX)_CLK): (\d+) MHz")
"""A clock's ends, and of its levels also the present one, which is not the first."""
_TABLE = "| AMD-SMI "
"""How the table of `amd-smi` begins, which is refused."""


def _info(source: Source) -> list[Measurement]:
    agents = [a for a in _AGENT.split(source.text)[1:] if re.search(r"Device Type: +GPU", a)]
    names = [_field(agent, "Marketing Name") or "" for agent in agents]
    one_gpu(source, "rocminfo", names, "ROCR_VISIBLE_DEVICES=0")
    if not _field(agents[0], "Wavefront Size") or not names[0]:
        raise source.error("no 'Wavefront Size': truncated?")
    version = re.search(r"^Runtime Version: +(\S+)", source.text, re.MULTILINE)
    found = Findings(source, "rocminfo", f"runtime {version[1]}" if version else "")
    found.query("name", names[0], "Marketing Name")
    found.query("vendor", "AMD", "Vendor Name")
    target, units = (_field(agents[0], name) or "" for name in ("Name", "Compute Unit"))
    is_rdna = target.startswith(_RDNA)
    factors = {"chip.sm_count": 0.5, "chip.schedulers_per_sm": 2.0} if is_rdna else {}
    if target.startswith(_CDNA3) and units.isdecimal() and int(units) % _DIE_UNITS == 0:
        factors["chip.l2"] = int(units) / _DIE_UNITS
    for key, (place, unit) in FIELDS["rocminfo"].items():
        text = _field(agents[0], place)
        if text is None or (text.startswith("0(") and key == "chip.schedulers_per_sm"):
            continue
        if key == "compiler_target":
            found.query(key, text, place, unit)
        elif not (is_rdna and key == "chip.l1"):
            value = found.number(text.partition("(")[0], place) * factors.get(key, 1.0)
            found.query(key, value, place, unit)
    return found.found


def _field(agent: str, name: str) -> str | None:
    match = re.search(rf"^ +{re.escape(name)}: +(.*?) *$", agent, re.MULTILINE)
    return match[1] if match else None


def _smi(source: Source) -> list[Measurement]:
    found = Findings(source, "rocm-smi")
    ranges = [(*match, f"Valid {match[1]}clk range") for match in _RANGE.findall(source.text)]
    for gpu, domain, levels in _LEVELS.findall(source.text):  # many drivers tell no range
        clocks = re.findall(r": \d+: (\d+)Mhz", levels)
        if clocks and all((gpu, domain) != known[:2] for known in ranges):
            place = f"Supported {domain}clk frequencies"
            ranges.append((gpu, domain, clocks[0], max(clocks, key=int), place))
    gpus = list(dict.fromkeys(f"GPU[{number}]" for number, *_ in ranges))
    if not gpus:
        raise source.error("no 'Valid sclk range': truncated, or not `rocm-smi -a`?")
    if "End of ROCm SMI Log" not in source.text:
        raise source.error("no 'End of ROCm SMI Log': truncated?")
    one_gpu(source, "rocm-smi", gpus * source.text.count(_SMI), "`rocm-smi -d 0 -a`")
    series = re.search(r"^GPU\[\d+\]\s*: Card [Ss]eries:\s*(.*?)\s*$", source.text, re.MULTILINE)
    if series:
        found.query("name", series[1], "Card series")
    found.query("vendor", "AMD", "Card series")
    for _, domain, low, high, place in ranges:
        found.clock_range("memory" if domain == "m" else "core", low, high, place)
    return found.found


def _amd_smi(source: Source) -> list[Measurement]:
    found, gpus = Findings(source, "amd-smi"), dict.fromkeys(_AMD_SMI.findall(source.text))
    one_gpu(source, "`amd-smi static`", [*gpus], "by `amd-smi static -g 0`")
    if name := re.search(r"MARKET_NAME: (.+?) *$", source.text, re.MULTILINE):
        found.gpu(name[1], "AMD", "MARKET_NAME")
    for key, (pattern, unit) in FIELDS["amd-smi"].items():
        if match := re.search(pattern, source.text):
            value: float | str = match[1]
            if key == "chip.sm_count":
                is_rdna = re.search(rf"VERSION: (?:{'|'.join(_RDNA)})", source.text)
                value = float(value) * (0.5 if is_rdna else 1.0)
            found.query(key, value, pattern.partition(":")[0], unit)
    for domain, place in (("core", "SYS|GFX_0"), ("memory", "MEM|MEM_0")):
        part = re.search(rf"^( +)({place}):\n((?:\1 .*\n?)+)", source.text, re.MULTILINE)
        if part and (clocks := _CLOCK.findall(part[3])):
            found.clock_range(domain, clocks[0], max(clocks, key=int), part[2])
    if not found.found:
        raise source.error("neither 'MARKET_NAME' nor clocks: give the text of `amd-smi static`")
    return found.found


INFO = Reader("rocminfo", lambda text: "HSA Agents" in text or "HSA System" in text, _info)
SMI = Reader("rocm-smi", lambda text: _SMI in text or text.startswith('{"card'), _smi)
AMD_SMI = Reader("amd-smi", lambda text: bool(_AMD_SMI.search(text)) or _TABLE in text, _amd_smi)
