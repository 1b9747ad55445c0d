"""Files of auto-tuners and entries of such files."""

from __future__ import annotations

import gzip
from pathlib import Path

from sweep.importers.files import read_source
from sweep.importers.tuners.formats import read_measurements

DATA = Path(__file__).parents[1] / "data" / "tuning"
GEMM_T1, GEMM = DATA / "gemm.T1.json", DATA / "gemm_RTX_2080_Ti.csv.gz"
CONVOLUTION_T1 = DATA / "convolution.T1.json"
CACHE = DATA / "convolution_A4000.kernel_tuner_cache.json.gz"
KTT = DATA / "convolution_RTX_2080_Ti.ktt.json.gz"


def unpacked(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def measured(path: Path):
    return read_measurements(read_source(path))


def entry(x: int, value, unit: str = "milliseconds", invalidity: str = "correct") -> dict:
    return {
        "configuration": {"x": x},
        "times": {"runtimes": []},
        "invalidity": invalidity,
        "correctness": 1,
        "measurements": [{"name": "time", "value": value, "unit": unit}],
        "objectives": ["time"],
    }
