"""Compute the size of a run in advance: points, bytes, chunks, and whether they fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sweep.errors import PlanError, counted
from sweep.evaluation import limits
from sweep.evaluation.chunk import obstacles
from sweep.evaluation.variables import variables
from sweep.space import Space
from sweep.store.buckets import free_bytes


class KernelForecast(NamedTuple):
    """One kernel's share of a run.

    Attributes
    ----------
    kernel : str
        Its name.
    dims : dict
        Length of each dimension, without the models.
    chunk_bytes : int
        Size of the results of one unit of work [B].
    n_points : int
        Configurations.
    n_bytes : int
        Size of the results before compression [B].
    n_chunks : int
        Units of work.
    n_files : int
        Files with the results.
    """

    kernel: str
    dims: dict[str, int]
    chunk_bytes: int
    n_points: int
    n_bytes: int
    n_chunks: int
    n_files: int


@dataclass(frozen=True)
class Forecast:
    """A run's size.

    Attributes
    ----------
    plan : str
        The plan's name.
    n_models : int
        Models that evaluate each configuration.
    kernels : tuple of KernelForecast
        Every kernel's share.
    n_points, n_bytes, n_chunks, n_files : int
        As for a kernel, over all kernels.
    """

    plan: str
    n_models: int
    kernels: tuple[KernelForecast, ...]
    n_points: int
    n_bytes: int
    n_chunks: int
    n_files: int

    @property
    def memory_bytes(self) -> int:
        """Results in memory at once, per thread [B]."""
        return max(kernel.chunk_bytes for kernel in self.kernels)

    @property
    def n_evaluations(self) -> int:
        """Model evaluations: configurations times models."""
        return self.n_points * self.n_models

    def to_line(self) -> str:
        """Return the forecast in one line."""
        return (
            f"plan {self.plan}: {counted(self.n_points, 'configuration')} x "
            f"{counted(self.n_models, 'model')}, {human_bytes(self.n_bytes)} before compression "
            f"in {counted(self.n_chunks, 'chunk')}"
        )

    def to_text(self) -> str:
        """Return the forecast with each kernel's share."""
        lines = [self.to_line()]
        for kernel in self.kernels:
            dims = " x ".join(f"{n} {name}" for name, n in kernel.dims.items())
            lines.append(
                f"  {kernel.kernel}: {counted(kernel.n_points, 'configuration')}, "
                f"{human_bytes(kernel.n_bytes)} in {counted(kernel.n_chunks, 'chunk')}\n"
                f"    {dims}"
            )
        lines.append(
            f"  {self.n_evaluations:,} model evaluations; results in memory at once: "
            f"{human_bytes(self.memory_bytes)} per thread"
        )
        return "\n".join(lines)


def forecast(space: Space) -> Forecast:
    """Return the size of a run without running anything.

    Parameters
    ----------
    space : Space
        The space to run.

    Returns
    -------
    Forecast
        Points, bytes and chunks, in total and per kernel.
    """
    plan = space.plan
    kernels = []
    for kernel in space.kernels:
        grid, found = kernel.grid, variables(kernel, plan)
        lengths, chunks, counts = (
            {**dict(zip(grid.names, along, strict=True)), "model": len(plan.models)}
            for along in (grid.shape, grid.chunk_shape, grid.chunk_grid)
        )
        n_bytes, chunk_bytes = (
            sum(v.dtype.itemsize * math.prod(sizes[d] for d in v.dims) for v in found)
            for sizes in (lengths, chunks)
        )
        n_files = sum(math.prod(counts[d] for d in v.dims) for v in found)
        dims = dict(zip(grid.names, grid.shape, strict=True))
        kernels.append(KernelForecast(kernel.kernel.key, dims, chunk_bytes, kernel.n_points,
                                      n_bytes, grid.n_chunks, n_files))  # fmt: skip
    totals = {
        name: sum(getattr(kernel, name) for kernel in kernels)
        for name in ("n_points", "n_bytes", "n_chunks", "n_files")
    }
    return Forecast(plan.name, len(plan.models), tuple(kernels), **totals)


def check_fits(expected: Forecast, store: Path | None, limit: int | None) -> None:
    """Refuse a run whose results exceed a given limit or the free space on disk.

    Parameters
    ----------
    expected : Forecast
        The run.
    store : Path or None
        Where the results go.
    limit : int or None
        Most bytes of results, before compression.

    Raises
    ------
    PlanError
        The results do not fit; the message has both sizes. Sizes are before compression.
    """
    what = f"plan {expected.plan}: {human_bytes(expected.n_bytes)} of results before compression"
    if limit is not None and expected.n_bytes > limit:
        raise PlanError(
            f"{what}, above the limit of {human_bytes(limit)}; keep fewer outputs, sweep fewer "
            "values, or raise --limit"
        )
    if store is not None and expected.n_bytes > (free := free_bytes(store)):
        raise PlanError(
            f"{what}, and {human_bytes(free)} free at '{store}'; keep fewer outputs or sweep fewer "
            "values"
        )
    if expected.n_chunks > limits.MAX_CHUNKS:
        raise PlanError(
            f"plan {expected.plan}: {expected.n_chunks:,} chunks, more than "
            f"{limits.MAX_CHUNKS:,}; raise chunk_points or sweep fewer values"
        )


def check_valid(space: Space) -> None:
    """Refuse a plan in which no configuration can have a time.

    Raises
    ------
    PlanError
        No configuration can be valid; the message has the reason on each device.
    """
    reasons: dict[str, list[str]] = {}
    for kernel in space.kernels:
        found = obstacles(kernel, space.plan)
        if not found:
            return
        for device, reason in found.items():
            reasons.setdefault(reason, []).append(f"{kernel.kernel.key} on {device}")
    parts = [
        f"{places[0]}{f' and {len(places) - 1} more' if len(places) > 1 else ''}: {reason}"
        for reason, places in reasons.items()
    ]
    raise PlanError(
        f"{space.plan.origin}: no configuration of the plan can be valid ({'; '.join(parts)})"
    )


def human_bytes(n: float) -> str:
    """Return a size as text, in decimal units.

    >>> human_bytes(206_600_000)
    '207 MB'
    """
    unit = "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if n < 999.5:
            break
        n, unit = n / 1000, larger
    return f"{n:,.0f} {unit}" if unit == "B" or n > 999 else f"{n:.3g} {unit}"
