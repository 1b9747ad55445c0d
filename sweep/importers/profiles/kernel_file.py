"""The contents of a profile about one kernel, and the kernel file that is written from them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sweep.errors import ProfileError, SpecError, counted
from sweep.importers.profiles.launches import bare_name
from sweep.specs import Measured
from sweep.specs.kernel import KernelFile, Value

WORD = 4
WARP = 32
REGISTERS = 32
TOGETHER = 2
"""Global loads that a thread waits for together (assumed): the operands of an operation."""


@dataclass(frozen=True)
class Access:
    """Loads or stores of one memory: count per thread, and transactions per access of a warp.

    Those of textures are at the texture cache, of which a share hits; all others at L2.
    """

    name: str
    kind: str
    count: float
    transactions: float
    memory: str = ""
    hit_rate: float = 0.0

    def values(self, word: int | None = None) -> dict[str, Value]:
        """Return the table of a kernel file; ``word`` are the bytes that a thread accesses."""
        keys: dict[str, Value | None] = {
            "name": self.name, "kind": self.kind, "count": _rounded(self.count),
            "memory": self.memory or None, "bytes": word, "pattern": "measured",
            "transactions": _rounded(self.transactions),
            "l1_hit_rate": _rounded(self.hit_rate) if self.memory else None,
        }  # fmt: skip
        return {key: value for key, value in keys.items() if value is not None}


@dataclass
class Inputs:
    """The contents of a profile about one kernel.

    Attributes
    ----------
    kernel : str
        The kernel's name in the profile.
    device : str
        The device's name, ``""`` if it is not in the profile.
    launches : int
        Number of launches over which the counters are averaged.
    block, grid : tuple of int
        In x, y, z.
    registers, shared_memory : int
        Registers per thread; shared memory per block [bytes].
    computation : float
        Instructions per warp without accesses to global memory.
    classes : dict of str to float
        The same by class, without accesses to shared memory and barriers; empty if the profile
        counts no class.
    barriers : float
        Barriers per warp.
    global_accesses, shared_accesses : list of Access
        The accesses.
    l2_hit_rate : float
        Share of the sectors that hit in L2.
    outer : float
        Repetitions of the phase of memory access and computation.
    occupancy, time, core_clock : float or None
        Measured values: share, seconds, Hz.
    time_words : str
        The counter from which the time was read.
    sources : dict
        Source of each value (``KIND: REFERENCE``) by its dotted path.
    remarks : list of str
        Missing and assumed values, one line each.
    """

    kernel: str
    device: str
    launches: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    registers: int = REGISTERS
    shared_memory: int = 0
    computation: float = 0.0
    classes: dict[str, float] = field(default_factory=dict)
    barriers: float = 0.0
    global_accesses: list[Access] = field(default_factory=list)
    shared_accesses: list[Access] = field(default_factory=list)
    l2_hit_rate: float = 0.0
    outer: float = 1.0
    occupancy: float | None = None
    time: float | None = None
    time_words: str = ""
    core_clock: float | None = None
    sources: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def threads(self) -> int:
        """Threads per block."""
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        """Blocks in the grid."""
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Warps in the launch."""
        return -(-self.threads // WARP) * self.blocks


@dataclass(frozen=True)
class Given:
    """Values from the user, which replace the profile's."""

    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    registers: int | None = None
    shared_memory: int | None = None
    outer: float | None = None
    barriers: float | None = None


def kernel_text(
    inputs: Inputs,
    *,
    sources: str = "a profile",
    measured: Measured | None = None,
    measured_sources: Sequence[tuple[str, str]] = (),
) -> str:
    """Return the kernel file of a profile.

    Parameters
    ----------
    inputs : Inputs
        The contents of the profile.
    sources : str
        The names of the profile's files, which the kernel file records.
    measured : Measured, optional
        A measured time of the launch.
    measured_sources : sequence of (str, str)
        Keys of ``[measured]`` and their sources.

    Returns
    -------
    str
        The text, which :func:`sweep.specs.parse_kernel` accepts.

    Raises
    ------
    ProfileError
        A number is too large for a kernel file.
    """
    name = bare_name(inputs.kernel)
    mean = f"mean of {inputs.launches} launches" if inputs.launches > 1 else "one launch"
    file = KernelFile(
        name,
        f"{inputs.kernel}: one launch, as profiled",
        f"derived: profile {sources}",
        comments=[
            f"Written by `sweep profile` from {sources}: {mean}, {counted(inputs.warps, 'warp')}.",
            "",
            "Counts are those of a warp, as the mean over all warps. Transactions are those that",
            "the L1 cache passes on to L2; of textures, those that it is asked for.",
        ],
        sources=inputs.sources | {f"measured.{key}": text for key, text in measured_sources},
    )
    if inputs.occupancy is not None:
        share = f"{inputs.occupancy:.3g}"
        file.comments.append(f"Achieved occupancy: {share}; models take what the launch allows.")
    file.comments += [f"Note: {remark}." for remark in inputs.remarks]
    file.table("[launch]", {"threads_per_block": inputs.threads, "blocks": inputs.blocks})
    file.table("[resources]", {"registers_per_thread": inputs.registers,
                               "shared_memory_bytes": inputs.shared_memory})  # fmt: skip
    counts = inputs.classes or {"computation": inputs.computation}
    file.table("[instructions]", {name: _rounded(count) for name, count in counts.items()})
    for access in inputs.global_accesses:
        file.table("[[global_access]]", access.values(WORD))
    for access in inputs.shared_accesses:
        file.table("[[shared_access]]", access.values())
    if inputs.shared_accesses or inputs.barriers:
        file.table("[synchronisation]", {"barriers": _rounded(inputs.barriers)})
    if sum(access.count for access in inputs.global_accesses if access.kind == "load") > 1:
        file.sources["parallelism.memory"] = (
            "assumed: both operands of an operation are loaded together"
        )
        file.table("[parallelism]", {"memory": TOGETHER})
    loads = sum(access.count for access in inputs.shared_accesses if access.kind == "load")
    inner = {"inner": _rounded(max(1.0, loads / inputs.outer))} if loads else {}
    comments = ["inner: loads of shared memory / outer."] if loads else []
    file.table("[loops]", {"outer": _rounded(inputs.outer), **inner}, comments)
    file.table("[cache]", {"l2_hit_rate": _rounded(inputs.l2_hit_rate)})
    if measured is not None:
        file.table("[measured]", {"time_ms": _rounded(measured.time * 1e3),
                                  "device": measured.device,
                                  "core_clock_MHz": _rounded(measured.core_clock),
                                  "memory_clock_MHz": _rounded(measured.memory_clock)})  # fmt: skip
    try:
        return file.text()
    except SpecError as error:
        raise ProfileError(f"no kernel file can be made: {error}") from None


def _rounded(value: float) -> float:
    """Return a number rounded to nine digits."""
    return float(f"{value:.9g}")
