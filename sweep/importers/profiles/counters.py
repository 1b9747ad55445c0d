"""Which counters give which quantity: Nsight Compute's names, its labels, and nvprof's.

The only place that knows a counter by name. Alternatives are tried in order; one that is made of
several counters is their sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sweep.errors import ProfileError
from sweep.importers.profiles.launches import Launch
from sweep.importers.profiles.notation import in_base, whole_bytes

__all__ = ["QUANTITIES", "Found", "Quantity", "find"]

SECTOR = 32.0
"""Bytes of a sector, the transaction that counters of L2 and DRAM count."""


@dataclass(frozen=True)
class Quantity:
    """What counters can tell.

    Parameters
    ----------
    meaning : str
        In words, for whoever misses it.
    dimension : str
        ``count``, ``size``, ``bytes`` (a size that is a whole number), ``time``, ``clock`` or
        ``share``.
    ncu, nvprof : tuple of str
        Alternatives, the first the one to be asked for. ``A + B`` is a sum, ``A / 32`` a quotient.
    """

    meaning: str
    dimension: str
    ncu: tuple[str, ...]
    nvprof: tuple[str, ...]

    def wanted(self, tool: str) -> str:
        """Return the names to ask a profiler for."""
        return " or ".join(self.ncu[:2] if tool == "ncu" else self.nvprof[:2])


def _executed(space: str, direction: str) -> Quantity:
    short = {"load": "ld", "store": "st"}[direction]
    events = {"global": (f"{space}_{direction}", f"g{short}_request"), "shared": (
        f"{space}_{direction}",)}[space]  # fmt: skip
    return Quantity(
        f"{direction}s of {space} memory",
        "count",
        (
            f"smsp__inst_executed_op_{space}_{short}.sum",
            f"smsp__sass_inst_executed_op_{space}_{short}.sum",
            f"sm__sass_inst_executed_op_{space}_{short}.sum",
            *((f"l1tex__t_requests_pipe_lsu_mem_global_op_{short}.sum",) * (space == "global")),
        ),
        (f"inst_executed_{space}_{direction}s", *events),
    )


def _l2(direction: str) -> Quantity:
    events = [
        " + ".join(f"l2_subp{i}_total_{direction}_sector_queries" for i in range(n)) for n in (4, 2)
    ]
    return Quantity(
        f"sectors that L2 {direction}s",
        "count",
        (f"lts__t_sectors_op_{direction}.sum", f"lts__t_sectors_srcunit_tex_op_{direction}.sum"),
        (f"l2_{direction}_transactions", *events, f"l2_tex_{direction}_transactions"),
    )


def _l1(direction: str) -> Quantity:
    short, old = {"read": ("ld", "gld"), "write": ("st", "gst")}[direction]
    return Quantity(
        f"sectors that L1 {direction}s of global memory",
        "count",
        (f"l1tex__t_sectors_pipe_lsu_mem_global_op_{short}.sum",),
        (f"{old}_transactions",),
    )


def _dram(direction: str) -> Quantity:
    events = " + ".join(f"fb_subp{i}_{direction}_sectors" for i in range(2))
    return Quantity(
        f"sectors that DRAM {direction}s",
        "count",
        (f"dram__sectors_{direction}.sum", f"dram__bytes_{direction}.sum / 32"),
        (f"dram_{direction}_transactions", events),
    )


def _passes(direction: str) -> Quantity:
    short = {"load": "ld", "store": "st"}[direction]
    return Quantity(
        f"passes of {direction}s of shared memory",
        "count",
        (
            f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum",
            f"smsp__l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{short}.sum",
        ),
        (f"shared_{direction}_transactions", f"l1_shared_{direction}_transactions",
         f"shared_{short}_transactions"),
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
    "global_load": _executed("global", "load"),
    "global_store": _executed("global", "store"),
    "shared_load": _executed("shared", "load"),
    "shared_store": _executed("shared", "store"),
    "shared_load_passes": _passes("load"),
    "shared_store_passes": _passes("store"),
    "l2_read": _l2("read"),
    "l2_write": _l2("write"),
    "l1_read": _l1("read"),
    "l1_write": _l1("write"),
    "dram_read": _dram("read"),
    "dram_write": _dram("write"),
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
        The counters that it comes from.
    spread : float
        Largest less smallest value over the mean, 0 for one launch.
    """

    value: float
    words: str
    spread: float = 0.0


def find(launches: Sequence[Launch], name: str) -> tuple[Found | None, str]:
    """Return a quantity as the mean over launches, or ``None`` and why there is none.

    Parameters
    ----------
    launches : sequence of Launch
        Launches of one kernel; what some lack is the mean over the others. Launches that a
        profiler has summed up itself count only where no single one tells.
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
    """Return a quantity of one launch, or why there is none (``""`` where it lacks a counter)."""
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
