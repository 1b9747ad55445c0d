"""Run the procedures on a GPU: order, clocks, repetitions and the limit of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from sweep.errors import SweepError, counted
from sweep.microbenchmarks.case import CLOCKS, WITHOUT, Case, Facts, Sample, Samples, checked
from sweep.microbenchmarks.procedures import all_cases

MINUTES = 15.0
REPEATS, FEWEST = 25, 3
"""Repetitions of a case, as in Lemeire et al., and how many there are of a slow one."""

CASE_S = 0.4
"""Time after which a case is not repeated any more [s]."""

WATCHED_S = 1.0
"""How long a kernel runs while its power is read [s]: NVML renews its reading every 0.1 s."""

HELD = 0.03
"""Relative distance from a locked or an earlier clock from which on a GPU counts as throttled."""

CORE_CLOCKS, MEMORY_CLOCKS = 4, 3
"""Clocks of each domain that procedures over the clocks take, spread over those that can be set."""

Tell = Callable[[str], None]


class Gpu(Protocol):
    """A GPU that runs cases."""

    facts: Facts
    refused: dict[str, str]
    """What was refused so far, and why."""

    def ready(self, case: Case) -> None:
        """Compile a case and fill its buffer."""

    def run(self) -> tuple[float, float]:
        """Run the case that is ready: cycles of the longest block, and the time [ms]."""

    def watch(self, seconds: float) -> tuple[float, ...]:
        """Run it for some time and return readings of power [W]; none where that is not allowed."""

    def clocks(self) -> tuple[float, float]:
        """Return core and memory clock while the case ran last [MHz]; nominal if not readable."""

    def lock(self, core: float, memory: float) -> bool:
        """Hold the clocks [MHz]; whether the driver permits it."""

    def unlock(self) -> None:
        """Give the clocks free."""

    def is_alive(self) -> bool:
        """Whether it still takes calls, after one that failed."""


def measured(gpu: Gpu, tell: Tell, minutes: float = MINUTES) -> Samples:
    """Return the samples of all procedures, without those of cases that fail.

    Parameters
    ----------
    gpu : Gpu
        Where they run.
    tell : callable
        Receives what a person should know, a line at a time.
    minutes : float
        After which no case begins any more.

    Raises
    ------
    SweepError
        Nothing was measured.
    """
    run = _Run(gpu, tell, minutes)
    is_held = run.take_all()
    if not run.found:
        raise SweepError(f"nothing was measured: {next(iter(run.missing), 'no cases')}")
    for reason, names in run.missing.items():
        tell(f"not measured: {_listed(names)}: {reason}")
    if slow := [s for s in run.found if s.fell_from or (is_held and not s.locked)]:
        clocks = [clock for s in slow for clock in (s.core, s.fell_from) if clock]
        tell(f"clocks not held: {_listed([f'{s.procedure}, {s.name}' for s in slow])}: the core's"
             f" was {min(clocks):g} to {max(clocks):g} MHz, for example by heat or the power limit;"
             " power is not fitted to these samples")  # fmt: skip
    return Samples(gpu.facts, tuple(run.found))


class _Run:
    """The samples so far, and the names of cases without one by the reason for it."""

    def __init__(self, gpu: Gpu, tell: Tell, minutes: float) -> None:
        self.gpu, self.tell, self.minutes = gpu, tell, minutes
        self.until = time.monotonic() + 60.0 * minutes
        self.found: list[Sample] = []
        self.missing: dict[str, list[str]] = {}
        self.stopped = ""  # why no further case begins
        self.told: set[str] = set()

    def take_all(self) -> bool:
        """Take all cases at nominal clocks, some at others; whether these were held and read."""
        gpu, cases = self.gpu, all_cases(self.gpu.facts)
        nominal = (gpu.facts.core_nominal, gpu.facts.memory_nominal)
        try:
            is_locked = gpu.lock(*nominal)
            self.tell_refused()
            for case in cases:
                self.take(case, nominal if is_locked else None)
            is_held = is_locked and CLOCKS not in gpu.refused
            for core, memory in _pairs(gpu.facts) if is_held else ():
                if self.stopped or gpu.lock(core, memory):
                    for case in (one for one in cases if one.over_clocks):
                        self.take(case, (core, memory), f" at {core:g} and {memory:g} MHz")
        finally:
            try:
                gpu.unlock()
            finally:  # the rest, where an interrupt ended the first
                gpu.unlock()
                self.tell_refused()
        return is_locked and CLOCKS not in gpu.refused

    def take(self, case: Case, clocks: tuple[float, float] | None, place: str = "") -> None:
        """Take the sample of a case, or note why there is none."""
        name = f"{case.procedure}, {case.name}"
        if not self.stopped and time.monotonic() > self.until:
            self.stopped = f"no time, {self.minutes:g} minutes are over"
        reason = self.stopped
        try:
            if not reason:
                self.found.append(replace(_sample(self.gpu, case, clocks), is_extra=bool(place)))
        except SweepError as error:
            reason = str(error).removeprefix(f"{name}: ")
            if not self.gpu.is_alive():
                self.stopped = reason = f"{reason}, and the GPU takes no calls since"
        if reason:
            self.missing.setdefault(reason, []).append(name + place)
        self.tell_refused()

    def tell_refused(self) -> None:
        """Tell what was refused since the last time."""
        for what in [one for one in self.gpu.refused if one not in self.told]:
            self.tell(f"no {what} ({self.gpu.refused[what]}): {WITHOUT[what]}")
            self.told.add(what)


def _listed(names: Sequence[str]) -> str:
    return f"{counted(len(names), 'case')} ({'; '.join([*names[:2], *['...'] * (len(names) > 2)])})"


def _sample(gpu: Gpu, case: Case, locked: tuple[float, float] | None) -> Sample:
    """Run a case again and again; the first run, in which caches and clocks settle, is left out."""
    gpu.ready(case)
    gpu.run()
    seen = [gpu.clocks()]
    begin = time.monotonic()
    runs: list[tuple[float, float]] = []
    while len(runs) < FEWEST or (len(runs) < REPEATS and time.monotonic() - begin < CASE_S):
        runs.append(gpu.run())
    seen.append(gpu.clocks())
    if watts := gpu.watch(WATCHED_S) if case.powered else ():
        seen.append(gpu.clocks())
    is_held = locked is not None and CLOCKS not in gpu.refused and all(
        abs(one / other - 1.0) < HELD
        for pair in seen for one, other in zip(pair, locked, strict=True)
    )  # fmt: skip
    core, memory = locked if locked is not None and is_held else seen[-1]
    highest = max(before for before, _ in seen)
    fell_from = highest if core < (1.0 - HELD) * highest else 0.0
    cycles, ms = zip(*runs, strict=True)
    return checked(
        Sample(case.procedure, case.name, case.counts, core, memory, is_held, cycles, ms, watts,
               fell_from=fell_from)
    )  # fmt: skip


def _pairs(facts: Facts) -> list[tuple[float, float]]:
    """Return the pairs of clocks besides the nominal one."""
    cores = _spread([c for c in facts.core_clocks if c <= facts.core_nominal], CORE_CLOCKS)
    memories = _spread(facts.memory_clocks, MEMORY_CLOCKS)
    nominal = facts.core_nominal, facts.memory_nominal
    return [(c, m) for m in memories for c in cores if (c, m) != nominal]


def _spread(clocks: Sequence[float], count: int) -> list[float]:
    """Return some of the clocks, evenly spread; the lowest half of the range is idle's."""
    usable = sorted(c for c in clocks if c >= 0.5 * max(clocks))
    if len(usable) <= count:
        return usable
    return [usable[round(i * (len(usable) - 1) / (count - 1))] for i in range(count)]
