"""What Accel-Sim's tuner prints (https://github.com/accel-sim/accel-sim-framework, util/tuner).

``run_all.sh`` writes the output of all micro-benchmarks into ``stats.txt``, one behind the other.
Values in cycles are the multiprocessor's own; sizes are rounded down to whole megabytes and are not
read. The device is the one of ``system_config``; its deviceQuery lists all others, too.
"""

from __future__ import annotations

import re

from sweep.importers.files import Source
from sweep.importers.microbenchmarks.measurement import FIELDS, PER_CYCLE, Clocks, Measurement
from sweep.importers.microbenchmarks.reader import Findings, Reader, one_gpu

WARP = 32.0
_NUMBER = r"\s*(-?[\d.,]+)"
_L2 = r"(?m:^)L2 bandwidth\s+="  # not the theoretical one
_BOUND = "one size: a lower bound"
_END = re.compile(r"/{20,}\s*$")


def _read(source: Source) -> list[Measurement]:
    text = source.text
    if "running ./" in text and not _END.search(text):
        last = text.rpartition("running ./")[2].split(None, 1)[0]
        raise source.error(f"ends within the micro-benchmark {last[:60]}: truncated")
    found = Findings(source, "Accel-Sim tuner")
    names = list(dict.fromkeys(re.findall(r"Device Name\s*=\s*(.+?)\s*$", text, re.MULTILINE)))
    one_gpu(source, "system_config", names, "as CUDA_VISIBLE_DEVICES does")
    runs = re.findall(r"running \./(\S+)", text)
    if twice := next((name for name in runs if runs.count(name) > 1), None):
        raise source.error(f"runs {twice[:60]} twice: two runs, or two GPUs, in one file?")
    found.gpu(names[0], "NVIDIA", "system_config")
    # The device's own: deviceQuery before it may list several.
    own = text[text.index("Device Name") :]
    if capability := re.search(r"CUDA version number\s*=\s*(\d+\.\d)", own):
        found.query("compute_capability", capability[1], "system_config")
    for key, (pattern, unit) in FIELDS["accel_sim"].items():
        if match := re.search(pattern + _NUMBER, own if key == "clocks.core_nominal" else text):
            found.query(key, match[1], pattern.partition(r"\s")[0], unit)
    base = re.search(r"GPU Base Clock rate\s+=" + _NUMBER, own)
    if base:  # the micro-benchmarks are run at it, see the tuner's README
        found.clocks = Clocks(found.number(base[1], "GPU Base Clock rate", "MHz"))
    _measured(found, text)
    return found.found


def _measured(found: Findings, text: str) -> None:
    for key, (pattern, method) in FIELDS["accel_sim_latencies"].items():
        if match := re.search(pattern + _NUMBER, text):
            found.add(f"microbenchmark.{key}", _number(found, match, pattern), "cycles", method,
                      _words(pattern))  # fmt: skip
    for key, (pattern, operations) in FIELDS["accel_sim_rates"].items():
        if match := re.search(pattern + _NUMBER, text):
            rate = _number(found, match, pattern)
            found.add(f"microbenchmark.{key}", round(WARP * operations / rate, 4), "cycles",
                      "saturated", f"{_words(pattern)} {rate:g}")  # fmt: skip
    for level in ("L1", "Shared Memory"):
        pattern = rf"{level} [Bb]andwidth\s+="
        rates = [_number(found, m, pattern) for m in re.finditer(pattern + _NUMBER, text)]
        key = "l1_read_bandwidth" if level == "L1" else "shared_bandwidth"
        found.add(f"microbenchmark.{key}", max(rates, default=None), PER_CYCLE, "saturated",
                  f"{level} bandwidth, the highest")  # fmt: skip
    # The GB/s that it prints of L2 are 2**30 bytes; those of a cycle are clear.
    rates = [_number(found, m, "L2 bandwidth") for m in re.finditer(_L2 + _NUMBER, text)]
    if rates and found.clocks.core:
        found.add("microbenchmark.l2_read_bandwidth", max(rates) * found.clocks.core * 1e-3, "GBps",
                  "one_size", "L2 bandwidth, the highest", note=_BOUND)  # fmt: skip
    dram = re.search(r"Mem BW\s*=" + _NUMBER + r"\s*\(GB/sec\)", text)
    found.add("microbenchmark.dram_read_bandwidth", dram and dram[1], "GBps", "one_size", "Mem BW",
              note=_BOUND)  # fmt: skip
    tensor = re.search(r"FP32 \w+:[^:]*FMA tensor bandwidth\s*=" + _NUMBER, text)
    if tensor:
        found.add("microbenchmark.tensor_fp16_fma_per", tensor[1], "", "saturated",
                  "FMA tensor bandwidth, fp16 with sums in fp32")  # fmt: skip


def _number(found: Findings, match: re.Match[str], pattern: str) -> float:
    return found.number(match[1].rstrip("."), _words(pattern))


def _words(pattern: str) -> str:
    """Return the words of a pattern, as messages name the line."""
    return re.sub(r"\(\?m:\^\)|\\s.*", "", pattern)


READER = Reader("Accel-Sim tuner", lambda text: "Device Name" in text and "GPU Max Clock" in text,
                _read)  # fmt: skip
