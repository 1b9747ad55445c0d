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


# Inputs of Wang & Chu with which periods come out as small numbers: latency 500 and service time 10
# a sector, no cache, one sector a request, six iterations, one inst_cycle for issue and latency.
ROUND = {"n_sm": 16, "active_sm": 16, "blocks": 256, "wpb": 4, "aw": 64, "o_itrs": 6, "i_itrs": 0,
         "gld_trans": 1, "transactions_per_request": 1, "l2_hr": 0, "uses_shared": 0,
         "issue_cycles": 1, "inst_latency": 1, "sh_lat": 30, "l2_lat": 222, "l2_del": 1,
         "dm_lat": 500, "dm_lat_slope": 222, "dm_lat_intercept": 278, "dm_del": 10,
         "frequency_ratio": 1}  # fmt: skip
