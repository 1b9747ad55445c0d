"""Golden values of the papers' equations (see ``make_golden.py``)."""

from __future__ import annotations

import csv
from pathlib import Path

HERE = Path(__file__).parent


def stored(name: str) -> str:
    """Return a golden file as it is kept."""
    return (HERE / name).read_text(encoding="utf-8")


def columns(paper: str) -> dict[str, dict[str, float]]:
    """Return the quantities of each case of a paper; what a case does not have is left out."""
    rows = list(csv.DictReader(stored(f"{paper}.csv").splitlines()))
    cases = [name for name in rows[0] if name != "quantity"]
    return {case: {r["quantity"]: float(r[case]) for r in rows if r[case]} for case in cases}
