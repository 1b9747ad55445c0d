"""Compute the values of a kernel file from a profile's counters, each with its formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from sweep.errors import ProfileError
from sweep.importers.profiles.counters import QUANTITIES
from sweep.importers.profiles.kernel_file import REGISTERS, WARP, Access, Given, Inputs
from sweep.importers.profiles.launches import Found, Launch, bare_name, find

CLASSES = ("fp32", "fp64", "integer", "special", "conversion", "control")
"""Classes of instructions that profilers count, with the names of kernel files."""

UNCOUNTED = ("fp32", "integer", "move")
"""Classes of the instructions that no counter assigns to one: the first that is not counted."""

OPERATIONS = ("flop_count_dp", "flops_dp")
"""Counters of operations in place of instructions; a multiply-add has two."""

GIVEN = "assumed: given when the profile was read"
COALESCED = 4.0
"""Sectors per access of a warp to consecutive words of 4 bytes."""

DIRECTIONS = {"load": "read", "store": "write"}
"""The word for each kind of access in the names of L2 and DRAM counters."""

UNIFIED, FETCH = "tex_cache_transactions", 8.0
"""A counter of textures and global loads where both have one cache (compute capability 5.0 and
later, of which nvprof also counts texture instructions), and what it counts for a warp's fetch of
floats on a GTX 980 and a V100."""

NOT_IN_PROFILE = "assumed: not in the profile"
WORDS = "assumed: coalesced words of 4 bytes"
NO_WIDTH = "assumed: a profile does not tell the width of words"
TEXTURES = ("texture_sectors", "texture_misses", "texture_hit_rate")
UNEVEN = 0.05
"""Spread of a counter over launches above which a remark is added."""

NO_GEOMETRY = {
    "nvprof": "add the output of `nvprof --csv --print-gpu-trace` of the same program,",
    "ncu": "add its column, or the section LaunchStats,",
}


def inputs_of(launches: Sequence[Launch], given: Given | None = None) -> Inputs:
    """Return the inputs from launches of one kernel.

    Parameters
    ----------
    launches : sequence of Launch
        From :func:`sweep.importers.profiles.chosen`.
    given : Given, optional
        Values from the user, which replace the profile's.

    Raises
    ------
    ProfileError
        Block or grid are unknown or differ between launches, there are no warps, a counter has the
        wrong unit, or the profile has no counter that a model needs.
    """
    return _Reader(launches, given or Given()).inputs


class _Reader:
    """Reads all values. The launch comes first, because all counts are per warp."""

    def __init__(self, launches: Sequence[Launch], given: Given) -> None:
        self.launches = launches
        self.given = given
        singles = [launch for launch in launches if not launch.is_mean]
        n_launches = len(singles) or max(launch.invocations for launch in launches)
        device = next((launch.device for launch in launches if launch.device), "")
        block, grid = self._sides("block"), self._sides("grid")
        self.inputs = Inputs(launches[0].kernel, device, n_launches, block, grid)
        self._remark = self.inputs.remarks.append
        self._check_warps()
        self._resources()
        self._instructions()
        self._cache()
        self._loops()
        for name in ("occupancy", "time", "core_clock"):
            if found := self._find(name):
                setattr(self.inputs, name, found.value)
        self.inputs.time_words = self._find("time").words

    def _find(self, name: str, otherwise: str = "") -> Found:
        """Return a quantity; if there is none, add a remark with the reason and the consequence."""
        found = find(self.launches, name)
        if otherwise and not found:
            self._remark(f"{found.why}: {otherwise}")
        return found

    def _check_spread(self, found: Found) -> None:
        """Add a remark if the launches differ."""
        if found.spread > UNEVEN:
            self._remark(
                f"{found.words} differs by {100 * found.spread:.0f} % between the launches: the"
                " mean is taken, or choose one with --launch"
            )

    def _source(self, path: str, counters: str = "", otherwise: str = NOT_IN_PROFILE) -> None:
        """Record the source of a value: counters, or an assumption."""
        self.inputs.sources[path] = f"derived: profile, {counters}" if counters else otherwise

    def _sides(self, side: str) -> tuple[int, int, int]:
        """Return the three dimensions of the block or the grid."""
        given = getattr(self.given, side)
        if given is not None:
            return tuple(given)
        shapes = {getattr(launch, side) for launch in self.launches} - {None}
        if len(shapes) > 1:
            sizes = sorted(math.prod(shape) for shape in shapes)
            raise ProfileError(
                f"launches of '{bare_name(self.launches[0].kernel)}' differ in their {side}"
                f" ({sizes[0]} to {sizes[-1]}): choose one with --launch"
            )
        if shapes:
            return shapes.pop()
        counted = self._find(f"{side}_size")
        if not counted:
            hint = NO_GEOMETRY[self.launches[0].tool]
            raise ProfileError(f"no {side} of the launch: {hint} or give --{side} X,Y,Z")
        return round(counted.value), 1, 1

    def _check_warps(self) -> None:
        inputs = self.inputs
        if inputs.warps == 0:
            raise ProfileError(f"0 warps: {inputs.blocks} blocks of {inputs.threads} threads")
        counted = self._find("warps")
        if counted and counted.value == 0:
            raise ProfileError(f"{counted.words} = 0: nothing ran")
        if counted and abs(counted.value / inputs.warps - 1) > UNEVEN:
            self._remark(
                f"{counted.words} = {counted.value:.10g}, but block and grid make {inputs.warps}"
                " warps: are the counters of this launch?"
            )

    def _resources(self) -> None:
        inputs, given = self.inputs, self.given
        why = f"{REGISTERS} registers a thread are assumed"
        registers = self._resource("registers_per_thread", given.registers, why, "registers")
        inputs.registers = REGISTERS if registers is None else max(1, round(registers))
        why, counters = "no shared memory is assumed", ("static_shared", "dynamic_shared")
        size = self._resource("shared_memory_bytes", given.shared_memory, why, *counters)
        inputs.shared_memory = math.ceil(size or 0)

    def _resource(self, path: str, given: int | None, otherwise: str, *names: str) -> float | None:
        """Return the user's value of a resource, or the sum of its counters, and its source."""
        if given is not None:
            self._source(f"resources.{path}", otherwise=GIVEN)
            return given
        known = list(filter(None, map(self._find, names)))
        self._source(f"resources.{path}", " + ".join(found.words for found in known))
        if not known:
            self._find(names[0], otherwise)
        return sum(found.value for found in known) if known else None

    def _instructions(self) -> None:
        inputs = self.inputs
        executed = " + ".join(filter(None, map(self._global, DIRECTIONS))) or "global accesses"
        for kind in DIRECTIONS:
            self._shared(kind)
        total, words = 0.0, ""
        if every := self._find("instructions"):
            total, words = every.value / inputs.warps, f"({every.words} - ({executed})) / warps"
            self._check_spread(every)
        elif of_warp := self._find("instructions_of_warp"):
            total, words = of_warp.value, f"{of_warp.words} - ({executed}) / warps"
        elif inputs.global_accesses:
            self._find("instructions", "no computation is assumed")
        else:
            wanted = QUANTITIES["instructions"].wanted(self.launches[0].tool)
            raise ProfileError(f"neither {wanted} nor counters of L2: nothing that a model reads")
        memory = sum(access.count for access in inputs.global_accesses)
        inputs.computation = max(0.0, total - memory)
        self._barriers()
        self._classes()
        if not inputs.classes:
            self._source("instructions.computation", words)
            return
        rest = next(name for name in UNCOUNTED if name not in inputs.classes)
        local = sum(access.count for access in inputs.shared_accesses) + inputs.barriers
        counted = sum(inputs.classes.values())
        inputs.classes[rest] = max(0.0, inputs.computation - local - counted)
        self._source(f"instructions.{rest}", f"{words}, less shared accesses and other classes")
        # All classes in every file: a pass is compiled for each number of them.
        for name in (*CLASSES, *UNCOUNTED):
            if name not in inputs.classes:
                inputs.classes[name] = 0.0
                self._source(f"instructions.{name}", otherwise="assumed: no counter of its own")
        if counted + local > inputs.computation * (1.0 + UNEVEN):
            self._remark(
                f"counters of classes make {counted + local:.6g} instructions of a warp, all of"
                f" them are {inputs.computation:.6g}: are they of the same launch?"
            )

    def _barriers(self) -> None:
        inputs, given = self.inputs, self.given.barriers
        if given is not None:
            inputs.barriers = given
            self._source("synchronisation.barriers", otherwise=GIVEN)
        elif inputs.shared_accesses:
            # Barriers, jumps and some loads of constants take one pipeline (Nsight Compute, Kernel
            # Profiling Guide: "adu").
            most = self._find("barrier_pipe")
            at_most = f" up to {most.value / inputs.warps:.6g} ({most.words})" if most else ""
            self._source("synchronisation.barriers", otherwise="assumed: no counter tells them")
            self._remark(
                "no counter of a profiler tells barriers: none are assumed, or give --barriers N"
                + at_most
            )

    def _classes(self) -> None:
        """Read instructions by class; those of threads over the threads of a warp at work."""
        inputs, tool = self.inputs, self.launches[0].tool
        missing: list[str] = []
        at_work, share = self._find("threads_at_work"), self._find("share_at_work")
        lanes = at_work.value or WARP * share.value or WARP
        divisor = at_work.words or (f"({WARP} {share.words})" if share else f"{WARP}")
        for name in CLASSES:
            of_warps = self._find(name) if name in QUANTITIES else Found()
            of_threads = self._find(f"{name}_threads")
            found, threads, words = (of_threads, lanes, f"{of_threads.words} / {divisor} / warps")
            if of_warps:
                found, threads, words = of_warps, 1.0, f"{of_warps.words} / warps"
            if name == "conversion" and self._find("special"):
                continue  # special functions of a pipeline that conversions take, too
            if found:
                inputs.classes[name] = found.value / threads / inputs.warps
                self._source(f"instructions.{name}", words)
                if found.words in OPERATIONS and found.value:
                    self._remark(
                        f"{found.words} counts a multiply-add twice: {name} instructions are that"
                        " many, or down to half of it"
                    )
            else:
                wanted = (QUANTITIES.get(one) for one in (f"{name}_threads", name))
                missing += filter(None, (one.wanted(tool) for one in wanted if one))
        self._conversions(lanes / WARP)
        if missing:
            rest = next(name for name in UNCOUNTED if name not in inputs.classes)
            self._remark(
                f"there is no {', '.join(missing)}: 0 of these instructions are assumed, and"
                f" {rest} for what no counter tells"
            )

    def _conversions(self, at_work: float) -> None:
        """Count conversions from and to double precision as double precision: they take as long.

        CUDA C++ Programming Guide, throughput of native arithmetic instructions. Without a counter
        each double operation needs one if loads are nearer to words of 4 bytes than of 8.
        """
        inputs, path = self.inputs, "instructions.fp64"
        doubles, converted = (inputs.classes.get(name) for name in ("fp64", "conversion"))
        if not doubles or self._find("special"):
            return  # a counter of the pipeline that executes conversions has them
        if converted is not None:
            added = min(converted, doubles)
            inputs.classes["conversion"] = converted - added
            inputs.sources[path] += ", and as many conversions at most"
        else:
            both = (COALESCED * at_work, inputs.global_accesses), (1.0, inputs.shared_accesses)
            sizes = [one.transactions / of_4 for of_4, accesses in both  # sectors, passes
                     for one in accesses if one.kind == "load"]  # fmt: skip
            if min(sizes, default=2.0) > 1.5:
                return
            words = inputs.sources[path].removeprefix("derived: ")
            added, inputs.sources[path] = doubles, f"assumed: {words}, and a conversion for each"
        inputs.classes["fp64"] = doubles + added

    def _global(self, kind: str) -> str:
        """Read global loads or stores; return the counters of the instructions, if any."""
        inputs, path, verb = self.inputs, f"global_access.{kind}s", DIRECTIONS[kind]
        requests, sectors = self._find(f"global_{kind}"), self._find(f"l2_{verb}")
        no_sectors = sectors.why
        textures = self._fetches(requests) if kind == "load" else Found()
        if textures.value:
            sectors = self._textures(textures, requests, sectors)
            if not requests:
                self._remark(f"{requests.why}: no loads beside textures are assumed")
                return textures.words
        if not sectors and (sectors := self._find(f"l1_{verb}")):
            self._remark(f"{no_sectors}: {sectors.words} stands for it, hits of L1 included")
        if not requests and not sectors:
            self._remark(f"{requests.why}: no {kind}s of global memory are assumed")
            return ""
        if not requests or not sectors:
            why = f"4 sectors a {kind} are assumed (coalesced words of 4 bytes)"
            self._remark(f"{requests.why or no_sectors}: {why}")
        if (requests or sectors).value > 0:
            if requests and sectors:
                self._check_spread(sectors)
            each = self._each(path, requests, sectors, COALESCED, WORDS)
            count = requests.value if requests else sectors.value / COALESCED
            why = f"assumed: profile, {sectors.words} / 4 / warps, coalesced words"
            words = requests.words and f"{requests.words} / warps"
            self._source(f"{path}.count", words, why)
            self._source(f"{path}.bytes", otherwise=NO_WIDTH)
            inputs.global_accesses.append(Access(f"{kind}s", kind, count / inputs.warps, each))
        return (requests + textures).words

    def _fetches(self, loads: Found) -> Found:
        """Read the fetches of textures; without a counter, those that fill the cache alone."""
        fetches, asked = self._find("texture_load"), self._find(TEXTURES[0])
        if fetches or loads.value or asked.words != UNIFIED or not asked.value:
            return fetches
        why = f"without global loads, {UNIFIED} are assumed to be of textures, {FETCH:g} a fetch"
        self._remark(f"{fetches.why}: {why}")
        return Found(asked.value / FETCH, f"({UNIFIED} / {FETCH:g})")

    def _textures(self, fetches: Found, loads: Found, sectors: Found) -> Found:
        """Read the fetches of textures; return what they leave of the sectors that L2 reads."""
        path = "global_access.textures"
        asked, missed, rate = map(self._find, TEXTURES)
        by, hit_rate, words = fetches, min(1.0, rate.value), rate.words
        if missed and asked.value:
            hit_rate = max(0.0, 1.0 - missed.value / asked.value)
            words = f"1 - {_term(missed.words)} / {_term(asked.words)}"
        if asked.words == UNIFIED and loads.value:
            by = fetches + loads
            self._remark(f"{UNIFIED} also counts loads: shared out by instructions")
        if not asked.value or not words:
            self._remark(f"{asked.why or rate.why}: the texture cache is assumed to serve nothing")
            asked, by, hit_rate, words = sectors, fetches + loads, 0.0, ""
        each = self._each(path, by, asked, COALESCED, WORDS)
        self._source(f"{path}.count", f"{fetches.words} / warps")
        self._source(f"{path}.l1_hit_rate", words)
        self._source(f"{path}.bytes", otherwise=NO_WIDTH)
        count = fetches.value / self.inputs.warps
        access = Access("textures", "load", count, each, "texture", hit_rate)
        self.inputs.global_accesses.append(access)
        left = max(0.0, sectors.value - each * fetches.value * (1.0 - hit_rate))
        words = sectors.words and f"{sectors.words} - those of textures"
        return replace(sectors, value=left, words=words)

    def _shared(self, kind: str) -> None:
        """Read loads or stores of shared memory."""
        inputs, path = self.inputs, f"shared_access.shared_{kind}s"
        requests, passes = self._find(f"shared_{kind}"), self._find(f"shared_{kind}_passes")
        counted = requests or passes
        if not counted and inputs.shared_memory:
            self._find(f"shared_{kind}", f"no {kind}s of shared memory are assumed")
        if counted.value > 0:
            each = self._each(path, requests, passes, 1.0, "assumed: no conflicts of banks")
            self._source(f"{path}.count", f"{counted.words} / warps")
            count = counted.value / inputs.warps
            inputs.shared_accesses.append(Access(f"shared_{kind}s", kind, count, each))

    def _each(self, path: str, requests: Found, passes: Found, otherwise: float, why: str) -> float:
        """Return the transactions of an access of a warp."""
        if not requests or not passes:
            self._source(f"{path}.transactions", otherwise=why)
            return otherwise
        self._source(f"{path}.transactions", f"{_term(passes.words)} / {_term(requests.words)}")
        return passes.value / requests.value

    def _cache(self) -> None:
        inputs, path = self.inputs, "cache.l2_hit_rate"
        if not inputs.global_accesses:
            return
        names = ("l2_read", "l2_write", "dram_read", "dram_write")
        found = read, written, dram_read, dram_written = [self._find(name) for name in names]
        if all(found) and read.value + written.value > 0:
            missed = dram_read.value + dram_written.value
            rate = 1.0 - missed / (read.value + written.value)
            inputs.l2_hit_rate = min(1.0, max(0.0, rate))
            words = f"({dram_read.words} + {dram_written.words}) / ({read.words} + {written.words})"
            clipped = f", {rate:.3g} clipped to 0" if rate < 0 else ""
            self._source(path, f"1 - {words}{clipped}")
            return
        lacks = next((one.why for one in found if not one), "no sectors")
        if counted := self._find("l2_hit_rate"):
            inputs.l2_hit_rate = min(1.0, counted.value)
            self._remark(f"{lacks}: {counted.words} stands for what DRAM would tell")
            self._source(path, f"{counted.words}, writes of DRAM not counted")
        else:
            self._remark(f"{lacks}: the L2 cache is assumed to serve nothing")
            self._source(path)

    def _loops(self) -> None:
        inputs, outer = self.inputs, self.given.outer
        why = "assumed: a profile does not tell iterations"
        self._source("loops.outer", otherwise=why if outer is None else GIVEN)
        if outer is not None:
            inputs.outer = outer
        elif inputs.shared_accesses:
            self._remark(
                "a profile does not tell how often a kernel with shared memory loads and computes"
                " in turn: one phase is assumed, or give --outer N for the models that read it"
            )


def _term(words: str) -> str:
    """Return a sum or a difference in parentheses, so that it can be divided."""
    return f"({words})" if " + " in words or " - " in words else words
