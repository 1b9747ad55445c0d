"""What a run will be, before anything runs: points, bytes, chunks, and whether they fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from sweep.errors import PlanError
from sweep.evaluate import obstacles, variables
from sweep.space import Space
from sweep.store import free_bytes

__all__ = [
    "Forecast",
    "KernelForecast",
    "check_fits",
    "check_valid",
    "forecast",
    "human_bytes",
    "parse_bytes",
]

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12,
         "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}  # fmt: skip


@dataclass(frozen=True)
class KernelForecast:
    """One kernel's share of a run."""

    kernel: str
    dims: dict[str, int]
    n_points: int
    n_bytes: int
    n_chunks: int
    chunk_bytes: int


@dataclass(frozen=True)
class Forecast:
    """A run's size.

    Attributes
    ----------
    n_points : int
        Configurations over all kernels and devices.
    n_evaluations : int
        Model evaluations: configurations times models.
    n_bytes : int
        Size of the results before compression [B].
    n_chunks : int
        Units of work.
    memory_bytes : int
        Results in memory at once, per thread [B].
    """

    plan: str
    n_models: int
    kernels: tuple[KernelForecast, ...]

    @property
    def n_points(self) -> int:  # noqa: D102 - in the class docstring
        return sum(k.n_points for k in self.kernels)

    @property
    def n_evaluations(self) -> int:  # noqa: D102
        return self.n_points * self.n_models

    @property
    def n_bytes(self) -> int:  # noqa: D102
        return sum(k.n_bytes for k in self.kernels)

    @property
    def n_chunks(self) -> int:  # noqa: D102
        return sum(k.n_chunks for k in self.kernels)

    @property
    def memory_bytes(self) -> int:  # noqa: D102
        return max((k.chunk_bytes for k in self.kernels), default=0)

    def to_text(self) -> str:
        """Return the forecast for people."""
        lines = [f"plan {self.plan}: {self.n_points:,} configurations x {self.n_models} models"]
        for kernel in self.kernels:
            dims = " x ".join(f"{name} {n}" for name, n in kernel.dims.items())
            lines.append(
                f"  {kernel.kernel}: {kernel.n_points:,} = {dims}; "
                f"{human_bytes(kernel.n_bytes)} in {kernel.n_chunks:,} chunks"
            )
        lines.append(
            f"  in all {self.n_evaluations:,} model evaluations, {human_bytes(self.n_bytes)} "
            f"before compression, {self.n_chunks:,} chunks of at most "
            f"{human_bytes(self.memory_bytes)}"
        )
        return "\n".join(lines)


def forecast(space: Space) -> Forecast:
    """Return the size of a run without running anything."""
    plan = space.plan
    kernels = []
    for kernel in space.kernels:
        dims = dict(zip(kernel.grid.names, kernel.grid.shape, strict=True))
        sizes = {**dims, "model": len(plan.models)}
        chunks = {
            **dict(zip(kernel.grid.names, kernel.grid.chunk_shape, strict=True)),
            "model": len(plan.models),
        }
        found = variables(kernel, plan)
        kernels.append(
            KernelForecast(
                kernel.kernel.key,
                dims,
                kernel.n_points,
                sum(v.dtype.itemsize * math.prod(sizes[d] for d in v.dims) for v in found),
                kernel.grid.n_chunks,
                sum(v.dtype.itemsize * math.prod(chunks[d] for d in v.dims) for v in found),
            )
        )
    return Forecast(plan.name, len(plan.models), tuple(kernels))


def check_fits(expected: Forecast, store: Path | None, limit: int | None) -> None:
    """Refuse a run whose results fit neither a given limit nor the disk.

    Raises
    ------
    PlanError
        With both sizes. Sizes are before compression: what they become is not known beforehand.
    """
    size = human_bytes(expected.n_bytes)
    if limit is not None and expected.n_bytes > limit:
        raise PlanError(
            f"plan {expected.plan}: {size} of results before compression, above the limit of "
            f"{human_bytes(limit)}; keep fewer outputs, sweep fewer values, or raise --limit"
        )
    if store is not None:
        free = free_bytes(store)
        if expected.n_bytes > free:
            raise PlanError(
                f"plan {expected.plan}: {size} of results before compression, and "
                f"{human_bytes(free)} free at '{store}'; keep fewer outputs or sweep fewer values"
            )


def check_valid(space: Space) -> None:
    """Refuse a plan in which no configuration can have a time.

    Raises
    ------
    PlanError
        With the reason on each device.
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
    """Return a size in words, in decimal units."""
    for unit in ("B", "kB", "MB", "GB", "TB", "PB"):
        if n < 1000 or unit == "PB":
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000
    raise AssertionError


def parse_bytes(text: str) -> int:
    """Return a size in bytes: ``"500MB"``, ``"2 GiB"``, ``"1e9"``.

    Raises
    ------
    PlanError
        It is not a size.
    """
    word = text.strip().upper().removesuffix("B")
    number = word.rstrip("KMGTI ")
    unit = word[len(number):].strip()  # fmt: skip
    try:
        return int(float(number) * UNITS[unit])
    except (ValueError, KeyError, OverflowError):
        raise PlanError(f"'{text}' is not a size: write 500MB, 2GiB or a number") from None
