"""What is launched, what comes back, and what is made of it.

A procedure is a module with two functions: ``cases(facts)`` returns what it launches on a GPU, and
``values(samples)`` what it finds in the samples. All kernels have one form (:func:`kernel`), so
one runner serves all, and samples that were recorded on another machine are evaluated the same way.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sweep.errors import SweepError

WARP = 32
LIMIT = 1e18
"""Above all cycles, times [ms] and counts of a sample; below them is its reciprocal."""

WITHOUT = {
    "lock on the clocks": "they are recorded as they are, and nothing is measured over them",
    "reading of the clocks": "nominal ones are recorded, and nothing is measured over them",
    "reading of power": "the samples have none",
    "list of the clocks": "nothing is measured over them",
    "release of the core clock": "it stays locked; root frees it by `nvidia-smi -rgc`",
    "release of the memory clock": "it stays locked; root frees it by `nvidia-smi -rmc`",
}
"""What the owner of a GPU, or its driver, may refuse, and what follows."""
LOCK, CLOCKS, POWER, SETTABLE, *FREE = WITHOUT

_HEAD = r"""
__device__ void record(long long* cycles, long long begin, long long end) {
  __shared__ unsigned long long first, last;
  if (threadIdx.x == 0) { first = ~0ull; last = 0; }
  __syncthreads();
  atomicMin(&first, (unsigned long long)begin);
  atomicMax(&last, (unsigned long long)end);
  __syncthreads();
  if (threadIdx.x == 0) cycles[blockIdx.x] = (long long)(last - first);
}
extern "C" __global__ void measure(char* data, unsigned long long bytes, int steps,
                                   long long* cycles, int never) {
"""


def kernel(before: str, inside: str, result: str, unroll: int = 1) -> str:
    """Return the CUDA C++ of a kernel that times a loop of ``steps`` rounds.

    Parameters
    ----------
    before : str
        What precedes the loop and is not timed.
    inside : str
        One round.
    result : str
        A value that all of it leads to. It is stored if ``never`` is not 0, which no compiler
        knows: so nothing is left out.
    unroll : int
        How often the compiler repeats a round.
    """
    return (
        f"{_HEAD}{before}\n__syncthreads(); long long begin = clock64();\n"
        f"#pragma unroll {unroll}\nfor (int i = 0; i < steps; ++i) {{\n{inside}\n}}\n"
        "long long end = clock64(); record(cycles, begin, end);\n"
        f"if (never) data[threadIdx.x] = (char)({result});\n}}\n"
    )


def rounded(number: float, digits: int = 4) -> float:
    """Return a number with as many digits as a measurement has."""
    return float(f"{number:.{digits}g}")


@dataclass(frozen=True)
class Facts:
    """What the driver says of a GPU. Clocks in MHz, as device files count them.

    ``core_clocks`` and ``memory_clocks`` are those that can be set, empty where none can.
    """

    name: str
    capability: str
    driver: str
    sm_count: int
    max_threads_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    l2_bytes: int
    memory_bytes: int
    bus_width_bits: int
    core_nominal: float
    memory_nominal: float
    core_clocks: tuple[float, ...] = ()
    memory_clocks: tuple[float, ...] = ()

    @property
    def alone(self) -> int:
        """Shared memory that keeps a second block away from a multiprocessor [byte].

        As (2) of Lemeire et al. chooses it.
        """
        return min(self.shared_bytes_per_block, self.shared_bytes_per_sm // 2 + 1024)

    @property
    def beyond_l2(self) -> int:
        """Size of a buffer that L2 does not hold, a power of two: a mask keeps addresses in it."""
        room = min(max(4 * self.l2_bytes, 64 << 20), self.memory_bytes // 2, 1 << 29)
        return 1 << (room.bit_length() - 1)

    def fitting(self, warps: Iterable[int]) -> list[int]:
        """Return the numbers of warps that a multiprocessor holds."""
        return [count for count in warps if count * WARP <= self.max_threads_per_sm]


@dataclass(frozen=True)
class Case:
    """One kernel with one launch.

    Attributes
    ----------
    procedure, name : str
        Module of the procedure, and a name that is unique in it.
    source : str
        CUDA C++ with the kernel ``measure``.
    grid, block, steps : int
        Blocks, threads of a block, and the kernel's argument ``steps``.
    counts : mapping
        What :func:`values` must know of it: warps, instructions, bytes.
    shared, buffer : int
        Dynamic shared memory of a block, and global memory [byte].
    chain : int
        Distance of the links of a random cyclic list through the buffer [byte]; 0 for zeros.
    launches : int
        Launches that are timed together.
    cold : bool
        Whether L2 is emptied before each run.
    over_clocks, powered : bool
        Whether it runs at several clocks, and whether power is read meanwhile.
    """

    procedure: str
    name: str
    source: str
    grid: int
    block: int
    steps: int
    counts: Mapping[str, float] = field(default_factory=dict)
    shared: int = 0
    buffer: int = 1 << 16
    chain: int = 0
    launches: int = 1
    cold: bool = False
    over_clocks: bool = False
    powered: bool = False


@dataclass(frozen=True)
class Sample:
    """What a case gave at one pair of clocks.

    Attributes
    ----------
    procedure, name, counts
        As in :class:`Case`.
    core, memory : float
        Clocks while it ran [MHz].
    locked : bool
        Whether they were held there.
    cycles, ms : tuple of float
        Of each repetition: the longest block, and the launch.
    watts : tuple of float
        Power readings; empty without.
    is_extra : bool
        Whether it is at other clocks than all cases are.
    fell_from : float
        The core clock before, if it fell while the case ran, as by heat [MHz]; 0 if it did not.
    """

    procedure: str
    name: str
    counts: Mapping[str, float]
    core: float
    memory: float
    locked: bool
    cycles: tuple[float, ...]
    ms: tuple[float, ...]
    watts: tuple[float, ...] = ()
    is_extra: bool = False
    fell_from: float = 0.0

    @property
    def cycle(self) -> float:
        """Median of the cycles."""
        return statistics.median(self.cycles)

    @property
    def spread(self) -> float:
        """Relative standard deviation of the cycles, as most of them have it."""
        return _spread(self.cycles)

    @property
    def seconds(self) -> float:
        """Median time of a launch [s]."""
        return statistics.median(self.ms) * 1e-3

    @property
    def time_spread(self) -> float:
        """Relative standard deviation of the times, as most of them have it."""
        return _spread(self.ms)


def _spread(numbers: Sequence[float]) -> float:
    """Return what the median deviation says: one run that was disturbed does not move a median."""
    middle = statistics.median(numbers)
    return 1.4826 * statistics.median(abs(number - middle) for number in numbers) / middle


@dataclass(frozen=True)
class Value:
    """One key of a device file, found by a procedure.

    ``unit`` is a suffix of units as in device files; that of ``model.`` keys is the key's own.
    """

    key: str
    value: float | tuple[tuple[Any, ...], ...]
    unit: str
    method: str
    samples: tuple[Sample, ...]
    deviation: float | None = None
    note: str = ""

    @classmethod
    def of_cycles(cls, key: str, value: float, unit: str, method: str, sample: Sample) -> Value:
        """Return a measured value that spreads as the cycles of a sample do."""
        deviation = sample.spread * value
        return cls(f"microbenchmark.{key}", value, unit, method, (sample,), deviation)

    @classmethod
    def of_rate(cls, key: str, value: float, sample: Sample) -> Value:
        """Return a rate of the whole device [GB/s] that spreads as the times of a sample do."""
        deviation = sample.time_spread * value
        return cls(
            f"microbenchmark.{key}_bandwidth", value, "GBps", "plateau", (sample,), deviation
        )


@dataclass(frozen=True)
class Samples:
    """All samples of one GPU."""

    facts: Facts
    found: tuple[Sample, ...]

    def of(self, procedure: str, start: str = "") -> list[Sample]:
        """Return a procedure's samples at the clocks at which all cases ran, in their order."""
        return [
            sample
            for sample in self.found
            if sample.procedure == procedure
            and sample.name.startswith(start)
            and not sample.is_extra
        ]

    def one(self, procedure: str, name: str) -> Sample | None:
        """Return the sample of a case at these clocks, if it was measured."""
        return next((s for s in self.of(procedure, name) if s.name == name), None)


def checked(sample: Sample) -> Sample:
    """Return a sample whose counters moved.

    Raises
    ------
    SweepError
        Times or cycles stand still, are negative or no numbers.
    """
    place = f"{sample.procedure}, {sample.name}"
    for what, numbers in (("cycles", sample.cycles), ("times", sample.ms)):
        if not numbers or not all(1 / LIMIT < number < LIMIT for number in numbers):
            shown = ", ".join(f"{number:g}" for number in numbers[:3]) or "none"
            raise SweepError(f"{place}: {what} of {shown}: the counter stands still")
    if not (0 < sample.core < 1e6 and 0 < sample.memory < 1e6 and 0 <= sample.fell_from < 1e6):
        shown = f"{sample.core:g} and {sample.memory:g} MHz (before: {sample.fell_from:g})"
        raise SweepError(f"{place}: clocks of {shown}")
    if not all(0 < watts < 1e5 for watts in sample.watts):
        raise SweepError(f"{place}: power of {sample.watts[0]:g} W: the sensor does not work")
    return sample
