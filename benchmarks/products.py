"""Rate of choosing tiles for matrix products: ``python -m benchmarks.products``.

A product is a problem: sizes m, n and k. For each, `combined` chooses the fastest of 30
configurations of ``triton_matmul`` on an A100, from the kernel file's formulas to the answer as
arrays. Beside it stands a roofline of a few lines over the same tiles in NumPy. Times are CPU
seconds of the whole process with one thread, the smallest of some rounds after compilation.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from benchmarks.peers import least
from sweep.evaluation.planned import Planned
from sweep.runs.choices import choices
from sweep.space import Plan, resolve

TILES = {"BLOCK_M": [32, 64, 128], "BLOCK_N": [16, 32, 64, 128, 256], "BLOCK_K": [32, 64]}
"""With one group, four warps and three stages: 30 configurations."""


def plan_of(side: int) -> Plan:
    """Return a plan of ``side`` cubed products, no two with the same sizes."""
    sizes = [int(size) for size in np.linspace(128, 8192, side)]
    axes = {"m": sizes, "n": sizes, "k": sizes, **TILES}
    axes |= {"GROUP_M": [8], "num_warps": [4], "num_stages": [3]}
    return Plan(["triton_matmul"], ["a100_80gb"], ["combined"], variant="revised", axes=axes)


def roofline(plan: Plan) -> np.ndarray:
    """Return each product's time by peak rate and bandwidth, for each of the 30 tiles [s]."""
    m, n, k = np.ix_(*(np.asarray(plan.axes[name], float) for name in "mnk"))
    found = []
    for tile_m in TILES["BLOCK_M"]:
        for tile_n in TILES["BLOCK_N"]:
            for _ in TILES["BLOCK_K"]:
                blocks = np.ceil(m / tile_m) * np.ceil(n / tile_n)
                waves = np.ceil(blocks / 108.0)
                computing = waves * 108.0 * tile_m * tile_n * k * 2.0 / 312e12
                moving = (blocks * (tile_m + tile_n) * k + m * n) * 2.0 / 2.039e12
                found.append(np.maximum(computing, moving))
    return np.min(found, axis=0)


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=64, help="values of each size")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    space = resolve(plan_of(options.side))
    problems = options.side**3
    configurations = space.n_points // problems

    def ours() -> object:
        return choices(Planned.of(space, threads=1), by=["m", "n", "k"])

    began = time.process_time()
    ours()
    first = time.process_time() - began
    seconds, _ = least(ours, options.rounds, time.process_time)
    peer, _ = least(lambda: roofline(space.plan), options.rounds, time.process_time)
    print(f"{problems:,} products of {configurations} configurations, one thread")
    print(f"combined: {problems / seconds:,.0f} products a CPU second (first call {first:.1f} s)")
    print(f"roofline in NumPy: {problems / peer:,.0f}, {seconds / peer:.2g} times as many")


if __name__ == "__main__":
    main()
