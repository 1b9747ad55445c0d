"""Compare this package with well-known libraries in one run: ``python -m benchmarks.peers``.

- the compiled pass of a model, against the same equations under ``jax.jit`` on the CPU, in float64;
- Pareto fronts of two and three objectives, against moocore, paretoset and pymoo;
- a parameter sweep into labelled arrays, against xyzpy, which calls a function for each point.

All get the same inputs, and the results are checked to be equal. Times are CPU seconds, the
smallest of some rounds, so that other processes have little influence; ours use one thread.
Libraries that are not installed are skipped (``pip install 'kernel-sweep[benchmarks]'``).
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from benchmarks import evaluation, numpy_models, numpy_sequences
from benchmarks.spaces import kernel_space
from sweep.evaluation.planned import evaluate
from sweep.fronts import front
from sweep.space import Plan

HEADER = ("what", "ours", "against", "theirs", "ratio")
Row = tuple[str, ...]
MOST_QUADRATIC = 100_000
"""Largest number of points for libraries whose time grows with the square of the front."""


def peer(name: str) -> Any:
    """Return a library, or None if it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def least(
    function: Callable[[], Any], rounds: int, clock: Callable[[], float]
) -> tuple[float, Any]:
    """Return the smallest time of a call, and its result."""
    times, result = [], None
    for _ in range(rounds):
        started = clock()
        result = function()
        times.append(clock() - started)
    return min(times), result


def spell(seconds: float) -> str:
    """Return a time as text."""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


# ---------------------------------------------------------------------------- evaluation


def jax_rows(points: int, rounds: int) -> Iterator[Row]:
    """Compare the compiled passes with the same equations under ``jax.jit``."""
    jax = peer("jax")
    if jax is None:
        return
    jax.config.update("jax_enable_x64", True)
    kernel, plan = kernel_space("clocks", points)
    shape = evaluation.grid_shape(kernel)
    out = evaluation.touched(shape)
    with ThreadPoolExecutor(1) as thread:
        for model in ("hong_kim", "wang_chu"):
            t = evaluation.tables(kernel, plan, model)
            own = partial(evaluation.compiled, model, t, out, thread)
            own()
            function, arrays = jitted(jax, model, t)
            jax.block_until_ready(function(arrays))
            # JAX uses its own threads, so all CPU seconds of the process count.
            mine, _ = least(own, rounds, time.process_time)
            theirs, found = least(
                lambda f=function, a=arrays: jax.block_until_ready(f(a)), rounds, time.process_time
            )
            for array, other in zip(out, found, strict=True):
                # Compilers may fuse and reorder, so results agree up to the precision of float32.
                np.testing.assert_allclose(array, np.asarray(other), rtol=3e-7, equal_nan=True)
            yield (
                f"evaluate {model}, {kernel.n_points / 1e6:.3g} M, five outputs",
                f"{kernel.n_points / mine / 1e6:.3g} M/s",
                f"jax.jit {jax.__version__}",
                f"{kernel.n_points / theirs / 1e6:.3g} M/s",
                f"{theirs / mine:.3g}",
            )


def jitted(jax: Any, model: str, t: evaluation.Tables) -> tuple[Any, Any]:
    """Return a model's equations compiled by JAX, and their inputs."""
    jnp = jax.numpy
    shape = np.broadcast_shapes(*(table.shape for table in t.values()))
    # The inputs that decide which equations are needed are known in advance, as for NumPy.
    flags = {"uses_shared", "gld_trans", "o_itrs", "uncoal_mem_insts", "coal_mem_insts"} & set(t)
    fixed = {name: np.asarray(t[name]) for name in flags}
    arrays = {name: jnp.asarray(table) for name, table in t.items() if name not in flags}

    def equations(given: Any) -> Any:
        full = {**given, **fixed}
        for module in (numpy_models, numpy_sequences):
            module.np = _Both(jnp)  # type: ignore[attr-defined]
        try:
            cycles, cpi, core, memory = numpy_models.MODELS[model](full)
        finally:
            for module in (numpy_models, numpy_sequences):
                module.np = np  # type: ignore[attr-defined]
        launchable = (full["launch_status"] == 0.0) & (full["clock_status"] == 0.0)
        timed = launchable & (cycles > 0.0) & (cycles < jnp.inf)
        powered = timed & (full["power_input_status"] == 0.0)
        seconds = cycles / full["core_hz"]
        power = full["static_power"] + core * full["core_watts"] + memory * full["memory_watts"]
        values = (seconds, cycles, cpi, power, power * seconds)
        masks = (timed, timed, timed, powered, powered)
        pairs = zip(values, masks, strict=True)
        return tuple(
            jnp.broadcast_to(jnp.where(m, v, jnp.nan), shape).astype(jnp.float32) for v, m in pairs
        )

    return jax.jit(equations), arrays


class _Both:
    """NumPy functions for values known before compilation, JAX functions for all others."""

    def __init__(self, jnp: Any) -> None:
        self._jnp = jnp

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            known = all(isinstance(a, np.ndarray | float | int) for a in arguments)
            return getattr(np if known else self._jnp, name)(*arguments, **options)

        found = getattr(np, name)
        return call if callable(found) else found


# ---------------------------------------------------------------------------- fronts


def points_of(kind: str, n: int, objectives: int) -> Any:
    """Return points, few or all of which are on the front."""
    generator = np.random.default_rng(objectives)
    if kind == "few":
        return generator.random((n, objectives))
    # No point on a sphere around the worst point dominates another.
    found = np.abs(generator.normal(size=(n, objectives)))
    return 1.0 - found / np.linalg.norm(found, axis=1)[:, np.newaxis]


def front_rows(sizes: list[int], rounds: int) -> Iterator[Row]:
    """Compare Pareto fronts; the indices must be equal."""
    for n in sizes:
        for objectives in (2, 3):
            for kind in ("few", "all"):
                points = points_of(kind, n, objectives)
                columns = [np.ascontiguousarray(column) for column in points.T]
                mine, found = least(partial(front, columns), rounds, time.thread_time)
                what = f"front of {objectives}, {n / 1e6:g} M points, {len(found):,} on it"
                for name, function in front_peers(points, len(found)):
                    theirs, other = least(function, rounds, time.process_time)
                    if not np.array_equal(np.sort(other), found):
                        raise AssertionError(f"{name} gives another front: {what}")
                    yield what, spell(mine), name, spell(theirs), f"{theirs / mine:.3g}"


def front_peers(points: Any, size: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield libraries' names and functions that return the indices of a front."""
    if (moocore := peer("moocore")) is not None:
        yield "moocore", lambda: np.flatnonzero(moocore.is_nondominated(points))
    slow = len(points) * size > MOST_QUADRATIC**2 / 10
    if (paretoset := peer("paretoset")) is not None and not slow:
        paretoset.paretoset(points[:100])  # compiles
        yield "paretoset", lambda: np.flatnonzero(paretoset.paretoset(points))
    sorting = peer("pymoo.util.nds.non_dominated_sorting")
    if sorting is not None and len(points) <= MOST_QUADRATIC and not slow:
        ranking = sorting.find_non_dominated
        yield "pymoo", lambda: np.asarray(ranking(points))


# ---------------------------------------------------------------------------- sweeps


def sweep_rows(rounds: int) -> Iterator[Row]:
    """Compare a sweep into labelled arrays with one call of the model per combination."""
    xyzpy = peer("xyzpy")
    if xyzpy is None:
        return
    axes = {"block_size": [64, 128, 256, 512], "elements_per_thread": [4], "vector_width": [4],
            "core_clock": list(range(500, 1000, 2)),
            "memory_clock": list(range(500, 1000, 2))}  # fmt: skip
    plan = Plan(["vector_add"], ["gtx_980_paper"], ["wang_chu"], axes=axes,
                outputs=["execution_time"], precision="float64")  # fmt: skip
    one = whole_of(plan)  # compiles
    calls = dict(zip(product(*axes.values()), one.values.ravel().tolist(), strict=True))

    def model(**point: int) -> float:
        return calls[tuple(point[name] for name in axes)]

    def theirs() -> Any:
        # A look-up replaces the model, so its time is not included.
        return xyzpy.combo_runner_to_ds(model, axes, "execution_time", verbosity=0)

    first = theirs()
    mine, found = least(partial(whole_of, plan), rounds, time.process_time)
    taken, other = least(theirs, rounds, time.process_time)
    kept = ["block_size", "core_clock", "memory_clock"]
    same = [array.squeeze().transpose(*kept).values for array in (found, other.execution_time)]
    if not np.array_equal(*same) or first.execution_time.size != found.size:
        raise AssertionError("xyzpy gives other numbers")
    yield (
        f"labelled sweep, {found.size:,} combinations",
        spell(mine),
        "xyzpy, calls alone, without the model",
        spell(taken),
        f"{taken / mine:.3g}",
    )


def whole_of(plan: Plan) -> Any:
    """Return a plan's times with labels."""
    return evaluate(plan)["vector_add"].execution_time.compute()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--points", type=float, nargs="+", default=[1e5, 1e6, 1e7], help="of fronts"
    )
    parser.add_argument("--grid", type=float, default=1e7, help="configurations to evaluate")
    parser.add_argument("--rounds", type=int, default=3)
    parts = ("evaluation", "fronts", "sweeps")
    parser.add_argument("--only", choices=parts, nargs="+", default=parts)
    given = parser.parse_args()
    print(f"| {' | '.join(HEADER)} |\n|{' --- |' * len(HEADER)}")
    rows = {
        "evaluation": lambda: jax_rows(int(given.grid), given.rounds),
        "fronts": lambda: front_rows([int(n) for n in given.points], given.rounds),
        "sweeps": lambda: sweep_rows(given.rounds),
    }
    for part in given.only:
        for row in rows[part]():
            print(f"| {' | '.join(row)} |", flush=True)
    print(f"\nload of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    sys.exit(main())
