"""Derived device parameters that models share: latencies, service times, cycles of pipelines.

Each rule is a function of the device alone, with its reasoning in the docstring; the first line is
what ``sweep explain`` and the results quote as the source. A rule returns ``None`` where the device
lacks what it needs. All cycles are core cycles at the device's nominal clocks.

What compute capabilities have in common is here by capability: NVIDIA's programming guide and the
whitepapers of its architectures say it of all chips of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Value = float | tuple[tuple[float | str, ...], ...]


@dataclass(frozen=True)
class DeviceFacts:
    """What rules read of a device.

    Attributes
    ----------
    values : mapping
        The declared values of its file by dotted path.
    compute_capability, vendor : str
        Its compute capability, empty for AMD's devices; its vendor.
    stated : mapping
        Facts by name that models' own tables in its file state: ``dram_latency``,
        ``shared_latency``, ``l2_latency``, ``instruction_latency``, ``memory_cost`` (of a global
        access), ``class_costs`` and ``opcode_costs`` (rows of name and cost), ``dram_service`` (of
        a sector, rows of memory clock [MHz] and core cycles at the nominal ratio of the clocks)
        [cycle], ``dram_share`` [1].
    measured : mapping
        The same by tables without their values whose source is an assumption.
    """

    values: Mapping[str, float]
    compute_capability: str
    vendor: str
    stated: Mapping[str, Any]
    measured: Mapping[str, Any] = field(default_factory=dict)

    def number(self, *paths: str) -> float | None:
        """Return the first of the paths that the device file has."""
        return next((self.values[path] for path in paths if path in self.values), None)


Rule = Callable[[DeviceFacts], Value | None]

SECTOR = 32.0
LINE = 128.0


def issue_cycles(device: DeviceFacts) -> float | None:
    """Threads of a warp over lanes of an SM: cycles to issue one warp instruction."""
    return _lanes(device, "chip.lanes_per_sm")


def _lanes(device: DeviceFacts, *paths: str) -> float | None:
    """Return the cycles in which the first of some kinds of lanes takes a warp."""
    lanes, warp = device.number(*paths), device.number("chip.warp_size")
    return warp / lanes if lanes and warp else None


def dram_latency(device: DeviceFacts) -> float | None:
    """DRAM latency by micro-benchmark, else that of another model's table of this device.

    Cycles measured at another core clock than the nominal one are taken over as time: most of the
    latency is DRAM's, which does not follow the core clock.
    """
    found = device.number("microbenchmark.dram_latency", "microbenchmark.dram_large_latency")
    measured_at = device.number("microbenchmark.core_clock")
    nominal = device.number("clocks.core_nominal")
    if found:
        return found * nominal / measured_at if measured_at and nominal else found
    return device.stated.get("dram_latency")


def service(device: DeviceFacts, size: float) -> float | None:
    """Return the cycles in which one SM's share of the bandwidth moves ``size`` bytes."""
    paths = ("chip.sm_count", "clocks.core_nominal", "chip.memory_bandwidth")
    n_sm, core, bandwidth = (device.number(path) for path in paths)
    return size * n_sm * core / bandwidth if n_sm and core and bandwidth else None


def departure_del_coal(device: DeviceFacts) -> float | None:
    """Service time of 128 bytes at an SM's share of the DRAM bandwidth."""
    return service(device, LINE)


def departure_del_uncoal(device: DeviceFacts) -> float | None:
    """Service time of a 32-byte sector at an SM's share of the DRAM bandwidth."""
    return service(device, SECTOR)


def shared_latency(device: DeviceFacts) -> float | None:
    """Latency of a load from shared memory by micro-benchmark or another model's table.

    An SM of compute capability 1.x without either is given the 38 cycles that Wong et al. (ISPASS
    2010) measured on the GTX 280.
    """
    found = device.number("microbenchmark.shared_latency") or device.stated.get("shared_latency")
    return found or (38.0 if device.compute_capability.startswith("1.") else None)


def measured_cycles(device: DeviceFacts, size: float, bandwidth: str) -> float | None:
    """Return the cycles in which one SM's share of a measured bandwidth moves ``size`` bytes."""
    measured = device.number(f"microbenchmark.{bandwidth}")  # caches run at the core clock
    if not measured:
        return None
    n_sm, core = device.number("chip.sm_count"), device.number("microbenchmark.core_clock")
    return size * n_sm * core / measured if n_sm and core else None


def dram_service_table(device: DeviceFacts) -> Value | None:
    """Service time of a sector at the nominal memory clock, without a dependence on the clock."""
    sector = service(device, SECTOR)
    memory = device.number("clocks.memory_nominal")
    return None if sector is None or not memory else ((memory / 1e6, sector),)


def instruction_latency(device: DeviceFacts) -> float | None:
    """Latency of a dependent single-precision instruction: measured, or another model's table.

    A Tesla-generation SM without either is given 24 cycles, the read-after-write latency that
    NVIDIA's programming guide states for compute capability 1.x.
    """
    found = device.number("microbenchmark.fp32_latency")
    found = found or device.stated.get("instruction_latency")
    return found or (24.0 if device.compute_capability.startswith("1.") else None)


def dram_share(stated: Mapping[str, float]) -> float:
    """Return the share of a DRAM latency that scales with the clock ratio, by stated facts [1].

    From a model's fit of latency against the clock ratio where the device's file has one, else the
    whole latency less the L2 cache's, else all of it.
    """
    if "dram_share" in stated:
        return stated["dram_share"]
    whole, on_chip = stated.get("dram_latency"), stated.get("l2_latency")
    # A derived L2 latency may be DRAM's own, as an upper bound: it tells nothing of the share.
    if not whole or on_chip is None or on_chip >= whole:
        return 1.0
    return min(max((whole - on_chip) / whole, 0.0), 1.0)


_TYPES = {  # what lanes they have, and which latencies and issue are measured
    "sp": ("chip.lanes_per_sm", (), "fp32"),
    "int": ("chip.integer_lanes_per_sm", ("integer",), "integer"),
    "sf": ("chip.special_lanes_per_sm", ("exp2", "special"), "special"),
    "dp": ("chip.fp64_lanes_per_sm", ("fp64",), "fp64"),
}


def type_latencies(device: DeviceFacts) -> Value | None:
    """Issue: measured, or threads of a warp over lanes; completion: measured, or that of SP.

    Special functions and double precision are measured seldom: they get the completion latency of
    single precision, at least their own issue latency.
    """
    base = instruction_latency(device)
    rows = []
    for kind, (lanes, measured, issued) in _TYPES.items():
        issue = _issue(device, issued) or _lanes(device, lanes)
        if base is not None and issue is not None:
            latency = device.number(*(f"microbenchmark.{name}_latency" for name in measured))
            rows.append((kind, 1.0, issue, max(latency or base, issue)))
    return tuple(rows) or None


def dram_read_share(device: DeviceFacts) -> float | None:
    """Measured DRAM read (or triad) bandwidth over the peak; 0.85, of a GTX 285, without one."""
    measured = device.number(
        "microbenchmark.dram_read_bandwidth", "microbenchmark.dram_triad_bandwidth"
    )
    peak = device.number("chip.memory_bandwidth")
    return min(measured / peak, 1.0) if measured and peak else 0.85


def dram_shares(device: DeviceFacts) -> Value | None:
    """Share of the peak DRAM bandwidth by memory clock, from measured service times of a sector.

    DRAM serves a larger share of its peak at a high clock, because part of what a sector takes
    does not follow the clock (Wang & Chu 2017, Table III).
    """
    rows, ideal = device.measured.get("dram_service"), service(device, SECTOR)
    if not rows or ideal is None:
        return None
    return tuple((clock, min(ideal / cycles, 1.0)) for clock, cycles in rows)


# Integers have lanes of their own; on 8.6, 8.9 and 12.x the count of lanes includes them.
OWN_INTEGER_LANES = ("7.0", "7.2", "7.5", "8.0", "9.0", "10.0", "10.3", "11.0")


def issue_slots(device: DeviceFacts) -> float | None:
    """One over the issue width; a warp over all lanes where they take a warp in several cycles."""
    width = device.number("chip.issue_width_per_sm", "chip.schedulers_per_sm")
    lanes = issue_cycles(device)
    if lanes is not None and lanes > 1.0:
        return lanes
    return 1.0 / width if width else lanes


def schedulers(device: DeviceFacts) -> float | None:
    """Schedulers of a multiprocessor, each with lanes of its own; one without a number of them."""
    return device.number("chip.schedulers_per_sm") or 1.0


def _issue(device: DeviceFacts, kind: str) -> float | None:
    """Return the measured cycles that a full SM takes for a warp's instruction."""
    return device.number(f"microbenchmark.{kind}_issue")


def fp32_cycles(device: DeviceFacts) -> float | None:
    """Measured issue of single precision, else threads of a warp over lanes of an SM."""
    return _issue(device, "fp32") or issue_cycles(device)


def integer_cycles(device: DeviceFacts) -> float | None:
    """Measured issue, else threads of a warp over lanes for integers, else over all lanes."""
    lanes = ("chip.integer_lanes_per_sm", "chip.lanes_per_sm")
    return _issue(device, "integer") or _lanes(device, *lanes)


def special_cycles(device: DeviceFacts) -> float | None:
    """Measured issue, else a warp over lanes for special functions, or over a quarter of all."""
    found = _issue(device, "special") or _lanes(device, "chip.special_lanes_per_sm")
    all_lanes = issue_cycles(device)
    return found or (None if all_lanes is None else 4.0 * all_lanes)


def fp64_cycles(device: DeviceFacts) -> float | None:
    """Measured issue, else a warp over lanes for double precision; without any single precision's.

    For devices without double precision NVIDIA's compilers make it single.
    """
    if device.number("chip.fp64_lanes_per_sm") == 0:
        return fp32_cycles(device)
    return _issue(device, "fp64") or _lanes(device, "chip.fp64_lanes_per_sm")


def unified_lanes(device: DeviceFacts) -> float | None:
    """Integers take single-precision lanes but on 7.x, 8.0, 9.0, 10.x and 11.0."""
    return 0.0 if device.compute_capability in OWN_INTEGER_LANES else 1.0


def one_pipe(device: DeviceFacts) -> float | None:
    """All vector instructions of a SIMD unit take its one ALU on AMD's GPUs, not on NVIDIA's.

    LLVM's models of GCN, CDNA and RDNA 3 (SISchedule.td) name one resource, HWVALU, for single and
    double precision, integers, transcendental functions and copies, at full or lower rates.
    """
    return 1.0 if device.vendor == "AMD" else 0.0


def apart(device: DeviceFacts) -> float | None:
    """L1 and shared memory are one on most of NVIDIA's GPUs, two on Maxwell, Pascal and AMD's.

    Maxwell and Pascal have "dedicated" shared memory, and one cache for L1 and textures (NVIDIA,
    Tuning CUDA Applications for Maxwell, and for Pascal). Addresses of both pass the same units.

    On AMD's GPUs those do not: "LDS" and "VMEM" are categories of instructions that a cycle issues
    side by side; the share has ports of its own to the SIMD units (ROCm Compute Profiler, Pipeline
    descriptions, CDNA and GCN). A SIMD unit of RDNA can receive 128 bytes a clock from each (AMD
    RDNA Architecture white paper).
    """
    if device.vendor == "AMD":
        return 1.0
    return 0.5 if device.compute_capability.split(".")[0] in ("5", "6") else 0.0


def special_conversions(device: DeviceFacts) -> float | None:
    """Conversions take the lanes of special functions on NVIDIA's GPUs, all lanes on AMD's."""
    return 0.0 if device.vendor == "AMD" else 1.0


def load_store_cycles(device: DeviceFacts) -> float | None:
    """Threads of a warp over load-store lanes, else over all lanes, at most a warp's."""
    found = _lanes(device, "chip.load_store_lanes_per_sm")
    all_lanes = issue_cycles(device)
    return found or (None if all_lanes is None else max(1.0, all_lanes))


def shared_cycles(device: DeviceFacts) -> float | None:
    """Pass through shared memory: measured, else 64 bytes a cycle on 2.x and 7.5, 128 on others.

    On 1.x a half-warp's 16 words at 8 lanes, 2 cycles, which is the peak of Zhang & Owens.
    """
    if measured := measured_cycles(device, LINE, "shared_bandwidth"):
        return measured
    version = device.compute_capability
    return 2.0 if version.startswith(("1.", "2.")) or version == "7.5" else 1.0


def l1_cycles(device: DeviceFacts) -> float | None:
    """Sector through L1: measured, else 128 bytes a cycle on 3.x, 7.0, 7.2, from 8.0 on, or less.

    It is 32 on 6.0 and 64 on the others.

    An SM of Turing has twice the bandwidth of half an SM of GP10x (NVIDIA, Turing GPU Architecture,
    WP-09183-001), which is designed as those of Maxwell are. One of GP100 is half of that, as the
    P100 shows at the peak of its cache: 2.0 TB/s (https://github.com/ekondis/gpumembench/issues/2),
    of which 32 bytes for 56 SMs at 1.328 GHz would be 2.4. AMD's compute units read 60 of 64 bytes:
    an MI210 (te42kyfo/gpu-benches, 71a3611, gpu-cache), and an MI325X too, 59 (ROCm Compute
    Profiler, Profile mode), though the white paper of CDNA 3 says that the bus is twice as wide.
    """
    if measured := measured_cycles(device, SECTOR, "l1_read_bandwidth"):
        return measured
    version = device.compute_capability
    if version == "6.0":
        return 1.0
    older = version.startswith(("1.", "2.", "5.", "6.")) or version in ("", "7.5")
    return 0.5 if older else 0.25


def l1_latency(device: DeviceFacts) -> float | None:
    """L1 latency by micro-benchmark, else that of shared memory."""
    return device.number("microbenchmark.l1_latency") or lookup_latency(device)


def lookup_latency(device: DeviceFacts) -> float | None:
    """Latency of shared memory by micro-benchmark or paper, else 5 dependent instructions'.

    The ratio is that of V100, GTX 280 and most others between: 19 to 38 cycles against 4 to 24.
    """
    if found := shared_latency(device):
        return found
    arithmetic = instruction_latency(device)
    return None if arithmetic is None else 5.0 * arithmetic


def launch_cycles(device: DeviceFacts) -> float | None:
    """Launch of a block by micro-benchmark, else a DRAM latency, which it is near to."""
    return device.number("microbenchmark.block_launch") or dram_latency(device)


def kernel_launch(device: DeviceFacts) -> float | None:
    """Overhead of a kernel's launch by micro-benchmark, else 2.5 us, of the usual 2 to 3."""
    return (device.number("microbenchmark.kernel_launch") or 2.5e-6) * 1e6


BLOCK_START = 1.21
"""Cycles from the start of a block to that of the next on the whole chip, on an H200.

There blocks of up to 256 threads that do nothing start at this rate, however many fit (their times
are in `tests/data/h200/empty_blocks.csv`).
"""


def block_start(device: DeviceFacts) -> float | None:
    """From the start of a block to that of the next by micro-benchmark, else as on an H200."""
    return device.number("microbenchmark.block_start") or BLOCK_START


MAXWELL_START_NS = 3.71
"""Nanoseconds from the start of a block to that of the next on a GTX 980, at all clocks.

`gaussian` of Wang & Chu's benchmarks (262,144 blocks of 16 threads) takes 0.973 ms from 700 to 1500
MHz: its blocks start every two cycles of a fixed clock of 540 MHz. On the P100 and the V100 the
core clock decides.
"""


def block_start_ns(device: DeviceFacts) -> float | None:
    """On 5.x as on a GTX 980; elsewhere 0, as the core clock decides."""
    return MAXWELL_START_NS if device.compute_capability.startswith("5.") else 0.0
