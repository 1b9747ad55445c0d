"""Values from data sheets of the shipped devices, one row each.

Key, compute capability, SMs, lanes, boost MHz, bus bits, L2 MiB; TFLOP/s and GB/s as printed. The
MI250X counts as one of its two dies, the W7800 without pairs of instructions.
"""

from __future__ import annotations

import csv
from pathlib import Path

_TEXT = (Path(__file__).parents[1] / "data" / "datasheets.csv").read_text("utf-8")
_ROWS = [
    (row["list"], row["device"], row["compute_capability"], *map(float, list(row.values())[3:]))
    for row in csv.DictReader(_TEXT.splitlines())
]
PRINTED = tuple(row[1:] for row in _ROWS if row[0] == "printed")
FURTHER = tuple(row[1:] for row in _ROWS if row[0] == "further")
"""Cards on which published tuning data was measured, and related cards, from the vendors' texts and
reviews that the device files cite. The W6600's clock and some TFLOP/s are recalled."""
