"""From counters to what a kernel file holds, each value with the formula that it comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from sweep.errors import ProfileError
from sweep.importers.profiles.choosing import bare_name
from sweep.importers.profiles.counters import QUANTITIES, Found, find
from sweep.importers.profiles.launches import Launch

__all__ = ["Access", "Given", "Inputs", "inputs_of"]

WARP = 32
COALESCED = 4.0
"""Sectors of a warp's access to consecutive words of 4 bytes."""

DIRECTIONS = {"load": "read", "store": "write"}
"""What counters of L2 and DRAM call an access."""

REGISTERS = 32
UNEVEN = 0.05
"""Spread of a counter over launches that is worth a remark."""

NO_GEOMETRY = {
    "nvprof": "add the output of `nvprof --csv --print-gpu-trace` of the same program,",
    "ncu": "add its column, or the section LaunchStats,",
}


@dataclass(frozen=True)
class Given:
    """What the user adds to a profile; ``None`` and 1 where it is the profile's to tell."""

    block: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    registers: int | None = None
    shared_memory: int | None = None
    outer: float | None = None


@dataclass(frozen=True)
class Access:
    """Loads or stores of one memory: how many a thread has, and a warp's transactions for each."""

    name: str
    kind: str
    count: float
    transactions: float


@dataclass
class Inputs:
    """What a profile tells of a kernel.

    Attributes
    ----------
    kernel : str
        Its name as the profiler gives it.
    device : str
        The device's name, ``""`` where the profile does not tell it.
    launches : int
        Launches that the counters are the mean of.
    block, grid : tuple of int
        In x, y, z.
    registers, shared_memory : int
        Of a thread; of a block [bytes].
    computation : float
        Instructions of a warp that are not accesses to global memory.
    global_accesses, shared_accesses : list of Access
        The accesses.
    l2_hit_rate : float
        Share of the sectors that L2 serves.
    outer : float
        Repetitions of the phase of memory access and computation.
    occupancy, time, core_clock : float or None
        As measured: share, seconds, Hz.
    time_words : str
        The counter of the time.
    sources : dict
        Dotted path to ``KIND: REFERENCE``.
    remarks : list of str
        What is missing or assumed, a line each.
    """

    kernel: str
    device: str
    launches: int
    block: tuple[int, int, int]
    grid: tuple[int, int, int]
    registers: int = REGISTERS
    shared_memory: int = 0
    computation: float = 0.0
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
        """Threads of a block."""
        return math.prod(self.block)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    @property
    def warps(self) -> int:
        """Warps of the launch."""
        return -(-self.threads // WARP) * self.blocks


def inputs_of(launches: Sequence[Launch], given: Given | None = None) -> Inputs:
    """Return what launches of one kernel tell.

    Parameters
    ----------
    launches : sequence of Launch
        From :func:`sweep.importers.profiles.chosen`.
    given : Given, optional
        What the user knows besides; it goes before the profile.

    Raises
    ------
    ProfileError
        Block or grid are not known, or differ between the launches; there are no warps; a counter
        has the wrong unit; or nothing is there that a model reads.
    """
    return _Reader(launches, given or Given()).read()


class _Reader:
    def __init__(self, launches: Sequence[Launch], given: Given) -> None:
        self.launches = launches
        self.given = given

    def read(self) -> Inputs:
        """Read everything, the launch first: all counts are per warp."""
        singles = [launch for launch in self.launches if not launch.is_mean]
        n_launches = len(singles) or max(launch.invocations for launch in self.launches)
        device = next((launch.device for launch in self.launches if launch.device), "")
        self.inputs = Inputs(self.launches[0].kernel, device, n_launches, *self._geometry())
        self._check_warps()
        self._resources()
        self._instructions()
        self._cache()
        self._loops()
        for name in ("occupancy", "time", "core_clock"):
            found, _ = find(self.launches, name)
            setattr(self.inputs, name, found.value if found else None)
            if found and name == "time":
                self.inputs.time_words = found.words
        return self.inputs

    # What is there

    def _find(self, name: str, otherwise: str) -> Found | None:
        """Return a quantity; where there is none, say why and what that means."""
        found, why = find(self.launches, name)
        if found is None:
            self.inputs.remarks.append(f"{why}: {otherwise}")
        return found

    def _uneven(self, found: Found) -> None:
        """Remark that launches differ."""
        if found.spread > UNEVEN:
            self.inputs.remarks.append(
                f"{found.words} differs by {100 * found.spread:.0f} % between the launches: the"
                " mean is taken, or choose one with --launch"
            )

    def _quietly(self, name: str) -> Found | None:
        return find(self.launches, name)[0]

    def _source(self, path: str, kind: str, words: str) -> None:
        self.inputs.sources[path] = f"{kind}: {words}"

    # The launch

    def _geometry(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        found = []
        for what, given in (("block", self.given.block), ("grid", self.given.grid)):
            shapes = {getattr(launch, what) for launch in self.launches} - {None}
            if given is not None:
                found.append(given)
            elif len(shapes) > 1:
                sizes = sorted(math.prod(shape) for shape in shapes)
                raise ProfileError(
                    f"launches of '{bare_name(self.launches[0].kernel)}' differ in their {what}"
                    f" ({sizes[0]} to {sizes[-1]}): choose one with --launch"
                )
            elif shapes:
                found.append(shapes.pop())
            else:
                found.append((self._size(what), 1, 1))
        return found[0], found[1]

    def _size(self, what: str) -> int:
        counted, why = find(self.launches, f"{what}_size")
        if counted is None:
            tool = self.launches[0].tool
            hint = NO_GEOMETRY[tool]
            raise ProfileError(f"no {what} of the launch: {hint} or give --{what} X,Y,Z")
        return round(counted.value)

    def _check_warps(self) -> None:
        inputs = self.inputs
        if inputs.warps == 0:
            raise ProfileError(f"0 warps: {inputs.blocks} blocks of {inputs.threads} threads")
        counted = self._quietly("warps")
        if counted is not None and counted.value == 0:
            raise ProfileError(f"{counted.words} = 0: nothing ran")
        if counted is not None and abs(counted.value / inputs.warps - 1) > UNEVEN:
            inputs.remarks.append(
                f"{counted.words} = {counted.value:.10g}, but block and grid make {inputs.warps}"
                " warps: are the counters of this launch?"
            )

    def _resources(self) -> None:
        inputs, path = self.inputs, "resources.registers_per_thread"
        if self.given.registers is not None:
            inputs.registers = self.given.registers
            self._source(path, "assumed", "given when the profile was read")
        elif found := self._find("registers", f"{REGISTERS} registers a thread are assumed"):
            inputs.registers = max(1, round(found.value))
            self._source(path, "derived", f"profile, {found.words}")
        else:
            self._source(path, "assumed", "not in the profile")
        path = "resources.shared_memory_bytes"
        if self.given.shared_memory is not None:
            inputs.shared_memory = self.given.shared_memory
            self._source(path, "assumed", "given when the profile was read")
            return
        parts = [self._quietly(name) for name in ("static_shared", "dynamic_shared")]
        known = [part for part in parts if part is not None]
        if known:
            inputs.shared_memory = math.ceil(sum(part.value for part in known))
            self._source(path, "derived", f"profile, {' + '.join(part.words for part in known)}")
        else:
            wanted = QUANTITIES["static_shared"].wanted(self.launches[0].tool)
            inputs.remarks.append(f"there is no {wanted}: no shared memory is assumed")
            self._source(path, "assumed", "not in the profile")

    # Instructions and accesses, per warp

    def _instructions(self) -> None:
        inputs, path = self.inputs, "instructions.computation"
        executed = [words for kind in DIRECTIONS if (words := self._global(kind))]
        self._shared()
        memory = sum(access.count for access in inputs.global_accesses)
        less = " + ".join(executed) or "global accesses"
        if every := self._quietly("instructions"):
            total, words = every.value / inputs.warps, f"({every.words} - ({less})) / warps"
            self._uneven(every)
        elif of_warp := self._quietly("instructions_of_warp"):
            total, words = of_warp.value, f"{of_warp.words} - ({less}) / warps"
        elif inputs.global_accesses:
            self._find("instructions", "no computation is assumed")
            self._source(path, "assumed", "not in the profile")
            return
        else:
            wanted = QUANTITIES["instructions"].wanted(self.launches[0].tool)
            raise ProfileError(f"neither {wanted} nor counters of L2: nothing that a model reads")
        inputs.computation = max(0.0, total - memory)
        self._source(path, "derived", f"profile, {words}")

    def _global(self, kind: str) -> str:
        """Read loads or stores; return the counter of the instructions, if there is one."""
        inputs, path = self.inputs, f"global_access.{kind}s"
        requests, no_requests = find(self.launches, f"global_{kind}")
        sectors, no_sectors = find(self.launches, f"l2_{DIRECTIONS[kind]}")
        if sectors is None and (sectors := self._quietly(f"l1_{DIRECTIONS[kind]}")):
            inputs.remarks.append(
                f"{no_sectors}: {sectors.words} stands for it, hits of L1 included"
            )
        assumed = f"4 sectors a {kind} are assumed (coalesced words of 4 bytes)"
        if requests is None and sectors is None:
            inputs.remarks.append(f"{no_requests}: no {kind}s of global memory are assumed")
            return ""
        told = {"transactions": "assumed: coalesced words of 4 bytes"}
        each = COALESCED
        if requests is None:
            assert sectors is not None
            inputs.remarks.append(f"{no_requests}: {assumed}")
            count = sectors.value / COALESCED / inputs.warps
            told["count"] = f"assumed: profile, {sectors.words} / 4 / warps, coalesced words"
        else:
            count = requests.value / inputs.warps
            told["count"] = f"derived: profile, {_term(requests.words)} / warps"
        if sectors is None:
            inputs.remarks.append(f"{no_sectors}: {assumed}")
        elif requests is not None and count > 0:
            each = sectors.value / requests.value
            told["transactions"] = f"derived: profile, {_term(sectors.words)} / {requests.words}"
            self._uneven(sectors)
        if count > 0:
            told["bytes"] = "assumed: a profile does not tell the width of words"
            inputs.sources.update({f"{path}.{key}": text for key, text in told.items()})
            inputs.global_accesses.append(Access(f"{kind}s", kind, count, each))
        return requests.words if requests else ""

    def _shared(self) -> None:
        inputs = self.inputs
        for kind in ("load", "store"):
            requests = self._quietly(f"shared_{kind}")
            passes = self._quietly(f"shared_{kind}_passes")
            counted = requests or passes
            if counted is None:
                if inputs.shared_memory:
                    self._find(f"shared_{kind}", f"no {kind}s of shared memory are assumed")
                continue
            if counted.value == 0:
                continue
            table = f"shared_access.shared_{kind}s"
            each = 1.0
            if requests is not None and passes is not None:
                each = passes.value / requests.value
                words = f"profile, {_term(passes.words)} / {requests.words}"
                self._source(f"{table}.transactions", "derived", words)
            else:
                self._source(f"{table}.transactions", "assumed", "no conflicts of banks")
            self._source(f"{table}.count", "derived", f"profile, {counted.words} / warps")
            count = counted.value / inputs.warps
            inputs.shared_accesses.append(Access(f"shared_{kind}s", kind, count, each))

    # Caches and loops

    def _cache(self) -> None:
        inputs, path = self.inputs, "cache.l2_hit_rate"
        if not inputs.global_accesses:
            return
        names = ("l2_read", "l2_write", "dram_read", "dram_write")
        read, written, dram_read, dram_written = (self._quietly(name) for name in names)
        if dram_read and dram_written and read and written and read.value + written.value > 0:
            missed = dram_read.value + dram_written.value
            rate = 1.0 - missed / (read.value + written.value)
            inputs.l2_hit_rate = min(1.0, max(0.0, rate))
            words = f"({dram_read.words} + {dram_written.words}) / ({read.words} + {written.words})"
            clipped = f", {rate:.3g} clipped to 0" if rate < 0 else ""
            self._source(path, "derived", f"profile, 1 - {words}{clipped}")
            return
        why = [find(self.launches, name)[1] for name in names]
        lacks = next(text for text in (*why, "no sectors") if text)
        told = self._quietly("l2_hit_rate")
        if told is not None:
            inputs.l2_hit_rate = min(1.0, told.value)
            inputs.remarks.append(f"{lacks}: {told.words} stands for what DRAM would tell")
            self._source(path, "derived", f"profile, {told.words}, writes of DRAM not counted")
            return
        inputs.remarks.append(f"{lacks}: the L2 cache is assumed to serve nothing")
        self._source(path, "assumed", "not in the profile")

    def _loops(self) -> None:
        inputs = self.inputs
        path = "loops.outer"
        if inputs.shared_accesses:
            self._source("synchronisation.barriers", "assumed", "no counter tells them")
        if self.given.outer is not None:
            inputs.outer = self.given.outer
            self._source(path, "assumed", "given when the profile was read")
            return
        self._source(path, "assumed", "a profile does not tell iterations")
        if inputs.shared_accesses:
            inputs.remarks.append(
                "a profile does not tell how often a kernel with shared memory loads and computes"
                " in turn: one phase is assumed, or give --outer N (wang_chu only)"
            )


def _term(words: str) -> str:
    """Return a sum in parentheses, so that it can be divided."""
    return f"({words})" if " + " in words else words
