"""Measure the cost of compilation: ``python -m benchmarks.compiling [--both] [--commands]``.

Without ``--commands``: CPU seconds to compile the passes of all models in this process, with the
cache on disk turned off. A plan needs one form of each pass; ``--both`` compiles both forms.

With ``--commands``: two whole commands, each with an empty and then with a filled cache, compared
with the imports of numba, xarray and zarr. The first is the quickstart, the second a run of the
kernel ``xgemm`` (17,472 configurations) with six models.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sweep.evaluation import limits
from sweep.evaluation.chunk import evaluate_box
from sweep.models import model_names
from sweep.space import Plan, resolve

CLOCKS = {name: {"start": 0.9, "stop": 1.1, "step": 0.02}
          for name in ("core_clock_ratio", "memory_clock_ratio")}  # fmt: skip
XGEMM = """
schema = 1
name = "xgemm_space"
kernels = ["xgemm"]
devices = ["rtx_2080_ti"]
models = ["hong_kim", "wang_chu", "luo_suda", "zhang_owens", "lemeire", "combined"]
derive = true
"""
COMMAND = "import sys; from sweep.cli import main; sys.exit(main(sys.argv[1:]))"
IMPORTS = "import numba, xarray, zarr"


def seconds(model: str, kernel: str, axes: dict[str, dict[str, float]]) -> float:
    """Return the CPU seconds of the first evaluation minus those of the second."""
    plan = Plan([kernel], ["gtx_980_paper"], [model], axes=axes)
    space = resolve(plan).kernels[0]
    times = []
    for _ in range(2):
        started = time.process_time()
        evaluate_box(space, plan, space.grid.whole)
        times.append(time.process_time() - started)
    return times[0] - times[1]


def compile_all(kernel: str, both: bool) -> None:
    """Print the CPU seconds of each model's compilation in this process."""
    os.environ["SWEEP_CACHE_DIR"] = ""
    limits.UNCOMPILED = 0  # small as they are
    total = 0.0
    for axes in (CLOCKS, {}) if both else (CLOCKS,):
        for model in model_names():
            found = seconds(model, kernel, axes)
            total += found
            print(f"{model:<12} {'clocks inside' if axes else 'nominal clocks':<15} {found:5.2f} s")
    print(f"{'together':<28} {total:5.2f} s")


def timed(folder: str, *arguments: str) -> tuple[float, float]:
    """Return elapsed and CPU seconds of a Python process."""
    environment = {**os.environ, "SWEEP_CACHE_DIR": str(Path(folder) / "cache")}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", *arguments], cwd=folder, env=environment, check=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    elapsed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return elapsed, cpu


def run_commands(rounds: int) -> None:
    """Print the times of whole commands, for the first and the second run."""
    bare = min(timed(tempfile.gettempdir(), IMPORTS) for _ in range(rounds))
    print(f"{IMPORTS:<28} {bare[0]:6.2f} s elapsed {bare[1]:6.2f} s of CPU")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "xgemm_space.toml").write_text(XGEMM, encoding="utf-8")
        for name, plan in (("quickstart", "quickstart"), ("xgemm", "xgemm_space.toml")):
            run = [COMMAND, "run", plan, "--overwrite"]
            first = timed(folder, *run)
            again = min(timed(folder, *run) for _ in range(rounds))
            for what, (elapsed, cpu) in (("first", first), ("again", again)):
                times = f"{elapsed / bare[0]:5.1f} times the imports"
                print(f"{name:<11} {what:<16} {elapsed:6.2f} s elapsed {cpu:6.2f} s of CPU {times}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernel", default="vector_add")
    parser.add_argument("--both", action="store_true", help="the form for nominal clocks as well")
    parser.add_argument("--commands", action="store_true", help="whole commands, twice")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if arguments.commands:
        run_commands(arguments.rounds)
    else:
        compile_all(arguments.kernel, arguments.both)


if __name__ == "__main__":
    main()
