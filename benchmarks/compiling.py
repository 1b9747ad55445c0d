"""Time to compile the passes of all models in this process: ``python -m benchmarks.compiling``.

CPU seconds, so that other work on the machine counts as little as possible; nothing is cached
between processes. Both forms of a pass are compiled where ``--both`` is given: a plan needs one.
"""

from __future__ import annotations

import argparse
import time

from sweep.evaluation import evaluate_box
from sweep.models import model_names
from sweep.space import Plan, resolve

CLOCKS = {name: {"start": 0.9, "stop": 1.1, "step": 0.02}
          for name in ("core_clock_ratio", "memory_clock_ratio")}  # fmt: skip


def seconds(model: str, kernel: str, axes: dict[str, dict[str, float]]) -> float:
    """Return the CPU seconds of a first evaluation, less those of the second."""
    plan = Plan([kernel], ["gtx_980"], [model], axes=axes)
    space = resolve(plan).kernels[0]
    times = []
    for _ in range(2):
        started = time.process_time()
        evaluate_box(space, plan, space.grid.whole)
        times.append(time.process_time() - started)
    return times[0] - times[1]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernel", default="vector_add")
    parser.add_argument("--both", action="store_true", help="the form for nominal clocks as well")
    given = parser.parse_args()
    total = 0.0
    for axes in (CLOCKS, {}) if given.both else (CLOCKS,):
        for model in model_names():
            found = seconds(model, given.kernel, axes)
            total += found
            print(f"{model:<12} {'clocks inside' if axes else 'nominal clocks':<15} {found:5.2f} s")
    print(f"{'together':<28} {total:5.2f} s")


if __name__ == "__main__":
    main()
