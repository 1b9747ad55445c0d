"""The grids of the benchmarks, small for the suite and large for the ratios.

All configurations are valid. A pass does not compute invalid launches, which would improve a ratio
unfairly.
"""

from __future__ import annotations

from sweep.space import KernelSpace, Plan, Space, resolve

__all__ = ["EVALUATED", "KINDS", "MODELS", "kernel_space", "space"]

MODELS = ("hong_kim", "wang_chu")
"""Models in a store."""
EVALUATED = ("hong_kim", "wang_chu", "luo_suda", "zhang_owens", "lemeire", "combined")
"""Models for the comparison of evaluation in memory."""
OUTPUTS = ("execution_time", "power", "energy", "regime", "bound", "occupancy")

KINDS = {
    "clocks": "matrixmul_shared on the GTX 980, both clocks innermost",
    "nominal": "vector_add on the GTX 980 at nominal clocks, tuning parameters innermost",
}


def space(kind: str, points: int, models: tuple[str, ...] = MODELS) -> Space:
    """Return a space of at least ``points`` configurations by sweeping enough problem sizes."""
    if kind == "clocks":
        plan = Plan(
            name=kind,
            kernels=["matrixmul_shared"],
            devices=["gtx_980_paper"],
            models=models,
            outputs=OUTPUTS,
            axes={
                "n": _sizes(points, 2 * 4 * 5 * 121 * 121, 256),
                "tile": [16, 32],
                "work_per_thread": [1, 2, 4, 8],
                "unroll": [1, 2, 4, 8, 16],
                "core_clock": {"start": 400, "stop": 1000, "step": 5},
                "memory_clock": {"start": 400, "stop": 1000, "step": 5},
            },
        )
    else:
        plan = Plan(
            name=kind,
            kernels=["vector_add"],
            devices=["gtx_980_paper"],
            models=models,
            outputs=OUTPUTS,
            axes={
                "n": _sizes(points, 32 * 16 * 3, 65536),
                "block_size": {"start": 32, "stop": 1024, "step": 32},
                "elements_per_thread": {"start": 4, "stop": 64, "step": 4},
            },
        )
    return resolve(plan)


def _sizes(points: int, others: int, step: int) -> dict[str, int]:
    """Return the range of problem sizes that gives the points, with ``others`` for each size."""
    count = -(-points // others)
    return {"start": step, "stop": step * count, "step": step}


def kernel_space(kind: str, points: int) -> tuple[KernelSpace, Plan]:
    """Return the only kernel of a space, and its plan."""
    found = space(kind, points, EVALUATED)
    return found.kernels[0], found.plan
