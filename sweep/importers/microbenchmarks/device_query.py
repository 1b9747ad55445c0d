"""The text of NVIDIA's sample ``deviceQuery``.

The memory clock of an integrated GPU is none: of a Jetson Nano, whose LPDDR4 has 25.6 GB/s, it
prints 13 MHz (https://github.com/Technica-Corporation/Tegra-Docker/issues/12). It is not read.
"""

from __future__ import annotations

import re

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import FIELDS, Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader, one_gpu

_DEVICE = re.compile(r'^Device \d+: "(.*)"\s*$', re.MULTILINE)


def _read(source: Source) -> list[Measurement]:
    text = source.text
    names = _DEVICE.findall(text)
    one_gpu(source, "deviceQuery", names, "CUDA_VISIBLE_DEVICES=0")
    versions = re.search(r"CUDA Driver Version / Runtime Version +(.*?) *$", text, re.MULTILINE)
    found = Findings(source, "deviceQuery", f"driver / runtime {versions[1]}" if versions else "")
    found.gpu(names[0], "NVIDIA", "Device 0")
    is_integrated = re.search(r"Integrated GPU sharing Host Memory: +Yes", text)
    for key, (pattern, unit) in FIELDS["deviceQuery"].items():
        if key == "clocks.memory_nominal" and is_integrated:
            continue
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            place = re.sub(r"[\\^$+*?().|\[\]]|: .*", "", pattern.partition(": +")[0]).strip()
            raise source.error(f"no '{place}': truncated, or not in English (LC_ALL=C)?")
        is_word = key == "compute_capability"
        value = match[1] if is_word else found.number(match[1], key.partition(".")[2], unit)
        found.query(key, value, key.rpartition(".")[2].replace("_", " "), unit)
    return found.found


READER = Reader("deviceQuery", lambda text: bool(_DEVICE.search(text)), _read)
