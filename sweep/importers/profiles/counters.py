"""The profilers' counters for each quantity: Nsight Compute's names and labels, nvprof's names.

Only this module contains names of counters. Alternatives are tried in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import ProfileError
from sweep.importers.profiles.launches import Launch
from sweep.importers.profiles.notation import in_base, whole_bytes

__all__ = ["QUANTITIES", "Found", "Quantity", "find"]

SECTOR = 32.0
"""Bytes per sector, the unit of the L2 and DRAM counters."""


@dataclass(frozen=True)
class Quantity:
    """A quantity that counters measure.

    Parameters
    ----------
    meaning : str
        Meaning in words.
    dimension : str
        ``count``, ``size``, ``bytes`` (a size that is a whole number), ``time``, ``clock`` or
        ``share``.
    ncu, nvprof : tuple of str
        Alternatives, the preferred one first. ``A + B`` is a sum, ``A / 32`` a quotient.
    """

    meaning: str
    dimension: str
    ncu: tuple[str, ...]
    nvprof: tuple[str, ...]

    def wanted(self, tool: str) -> str:
        """Return the names to request from a profiler."""
        return " or ".join(self.ncu[:2] if tool == "ncu" else self.nvprof[:2])


def _accesses() -> Iterator[tuple[str, Quantity]]:
    """Yield the counters of loads and of stores."""
    for direction, ld, verb in (("load", "ld", "read"), ("store", "st", "write")):
        for space in ("global", "shared"):
            inst = f"inst_executed_op_{space}_{ld}.sum"
            requests = f"l1tex__t_requests_pipe_lsu_mem_global_op_{ld}.sum"
            own = space == "global"
            yield (
                f"{space}_{direction}",
                Quantity(
                    f"{direction}s of {space} memory",
                    "count",
                    (f"smsp__{inst}", f"smsp__sass_{inst}", f"sm__sass_{inst}", *[requests] * own),
                    (
                        f"inst_executed_{space}_{direction}s",
                        f"{space}_{direction}",
                        *[f"g{ld}_request"] * own,
                    ),
                ),
            )
        passes = f"data_pipe_lsu_wavefronts_mem_shared_op_{ld}.sum"
        yield (
            f"shared_{direction}_passes",
            Quantity(
                f"passes of {direction}s of shared memory",
                "count",
                (f"l1tex__{passes}", f"smsp__l1tex_{passes}"),
                (
                    f"shared_{direction}_transactions",
                    f"l1_shared_{direction}_transactions",
                    f"shared_{ld}_transactions",
                ),
            ),
        )
        four, two = (
            " + ".join(f"l2_subp{i}_total_{verb}_sector_queries" for i in range(n)) for n in (4, 2)
        )
        yield (
            f"l2_{verb}",
            Quantity(
                f"sectors that L2 {verb}s",
                "count",
                (f"lts__t_sectors_op_{verb}.sum", f"lts__t_sectors_srcunit_tex_op_{verb}.sum"),
                (f"l2_{verb}_transactions", four, two, f"l2_tex_{verb}_transactions"),
            ),
        )
        yield (
            f"l1_{verb}",
            Quantity(
                f"sectors that L1 {verb}s of global memory",
                "count",
                (f"l1tex__t_sectors_pipe_lsu_mem_global_op_{ld}.sum",),
                (f"g{ld}_transactions",),
            ),
        )
        yield f"dram_{verb}", Quantity(
            f"sectors that DRAM {verb}s", "count",
            (f"dram__sectors_{verb}.sum", f"dram__bytes_{verb}.sum / 32"),
            (f"dram_{verb}_transactions",
             " + ".join(f"fb_subp{i}_{verb}_sectors" for i in range(2))),
        )  # fmt: skip


QUANTITIES: Mapping[str, Quantity] = {
    "warps": Quantity(
        "warps of the launch", "count",
        ("smsp__warps_launched.sum", "sm__warps_launched.sum"), ("warps_launched",),
    ),
    "instructions": Quantity(
        "instructions that warps execute", "count",
        ("smsp__inst_executed.sum", "sm__inst_executed.sum", "Executed Instructions"),
        ("inst_executed",),
    ),
    "instructions_of_warp": Quantity(
        "instructions that a warp executes", "count",
        ("smsp__average_inst_executed_per_warp.ratio",), ("inst_per_warp",),
    ),
    **dict(_accesses()),
    "l2_hit_rate": Quantity(
        "share that L2 serves", "share",
        ("lts__t_sector_hit_rate.pct", "L2 Hit Rate", "lts__average_t_sector_hit_rate.pct"),
        ("l2_tex_hit_rate",),
    ),
    "registers": Quantity(
        "registers of a thread", "count",
        ("launch__registers_per_thread", "Registers Per Thread"), ("Registers Per Thread",),
    ),
    "static_shared": Quantity(
        "shared memory of a block that the compiler lays out", "bytes",
        ("launch__shared_mem_per_block_static", "Static Shared Memory Per Block"),
        ("Static SMem",),
    ),
    "dynamic_shared": Quantity(
        "shared memory of a block that the launch adds", "bytes",
        ("launch__shared_mem_per_block_dynamic", "Dynamic Shared Memory Per Block"),
        ("Dynamic SMem",),
    ),
    "block_size": Quantity(
        "threads of a block", "count", ("launch__block_size", "Block Size"), (),
    ),
    "grid_size": Quantity(
        "blocks of the grid", "count", ("launch__grid_size", "Grid Size"), (),
    ),
    "occupancy": Quantity(
        "warps at work over the most that a multiprocessor holds", "share",
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy"),
        ("achieved_occupancy",),
    ),
    "time": Quantity(
        "time of the launch", "time",
        ("gpu__time_duration.sum", "gpu__time_duration.avg", "Duration"), ("Duration",),
    ),
    "core_clock": Quantity(
        "core clock during the launch", "clock",
        ("sm__cycles_elapsed.avg.per_second", "smsp__cycles_elapsed.avg.per_second",
         "SM Frequency"),
        (),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Found:
    """A quantity of the chosen launches.

    Attributes
    ----------
    value : float
        Mean in base units.
    words : str
        The names of its counters.
    spread : float
        Difference between the largest and the smallest value over the mean, 0 for one launch.
    """

    value: float
    words: str
    spread: float = 0.0


def find(launches: Sequence[Launch], name: str) -> tuple[Found | None, str]:
    """Return a quantity as the mean over launches, or ``None`` and the reason.

    Parameters
    ----------
    launches : sequence of Launch
        Launches of one kernel; the mean is over those that have the quantity. The profiler's own
        means are used only if no single launch has it.
    name : str
        A key of :data:`QUANTITIES`.

    Raises
    ------
    ProfileError
        A counter has the wrong unit, or is negative.
    """
    why = ""
    for group in ([x for x in launches if not x.is_mean], [x for x in launches if x.is_mean]):
        found = [_of_launch(launch, name) for launch in group]
        known = [one for one in found if isinstance(one, Found)]
        if known:
            values = [one.value for one in known]
            mean = sum(values) / len(values)
            spread = (max(values) - min(values)) / mean if mean else 0.0
            return Found(mean, known[0].words, spread), ""
        why = why or next((one for one in found if isinstance(one, str) and one), "")
    tool = launches[0].tool
    return None, why or f"there is no {QUANTITIES[name].wanted(tool)}"


def _of_launch(launch: Launch, name: str) -> Found | str:
    """Return a quantity of one launch, or why it has none (``""`` if a counter is missing)."""
    quantity = QUANTITIES[name]
    why = ""
    for words in (*quantity.ncu, *quantity.nvprof):
        names, _, divisor = words.partition(" / ")
        parts = names.split(" + ")
        if any(part not in launch.counters for part in parts):
            continue
        nothing = next((part for part in parts if launch.counters[part].number is None), "")
        if nothing:
            why = why or f"{nothing} is '{launch.counters[nothing].text}'"
            continue
        dimension = "size" if divisor else quantity.dimension
        total = sum(_in_base(launch, part, dimension) for part in parts)
        return Found(total / SECTOR if divisor else total, words)
    return why


def _in_base(launch: Launch, name: str, dimension: str) -> float:
    value = launch.counters[name]
    try:
        whole = dimension == "bytes"
        number = float(whole_bytes(value)) if whole else in_base(value, dimension)
    except ProfileError as error:
        raise ProfileError(f"{name} = {value.text}: {error}") from None
    if number < 0:
        raise ProfileError(f"{name} = {value.text}: must not be negative")
    return number
