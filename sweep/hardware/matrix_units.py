"""Derived device parameters of matrix units (tensor cores, matrix cores) and copies."""

from __future__ import annotations

from collections.abc import Mapping

from sweep.hardware.derived import DeviceFacts, Rule, dram_latency
from sweep.hardware.l2_rates import cache_latency


def _matrix_rule(kind: str) -> Rule:
    """Return the rule for a multiply-add of a type by matrix units."""

    def cycles(device: DeviceFacts) -> float | None:
        measured = ("microbenchmark.tensor_fp16_fma_per",) if kind == "fp16" else ()
        rate = device.number(*measured, f"matrix.{kind}_multiply_adds")
        return 1.0 / rate if rate else None

    cycles.__doc__ = f"One over the {kind} multiply-adds of matrix units in a cycle of an SM."
    return cycles


MATRIX_CYCLES: Mapping[str, Rule] = {
    kind: _matrix_rule(kind) for kind in ("fp16", "tf32", "fp32", "fp8", "int8", "fp64")
}
"""Cycles of a multiply-add by matrix units, by type; a device lacks what no number is stated of."""


EFFICIENCY = 0.94
"""Share of their rate at which units work in the fastest products, at the clock left to them: AMD's
of MI325X, https://rocm.blogs.amd.com, Measuring Max-Achievable FLOPs, Part 2."""


def _power_rule(kind: str) -> Rule:
    """Return the rule for the rate of a type that power allows at full clock."""

    def rate(device: DeviceFacts) -> float | None:
        of_chip = ("chip.sm_count", "clocks.core_nominal", f"matrix.{kind}_multiply_adds")
        n_sm, clock, own = (device.number(path) for path in of_chip)
        other, most = (device.number(f"matrix.fp16_{n}") for n in ("multiply_adds", "sustained"))
        if not (own and other and n_sm and clock and most) or "power.static" in device.values:
            return None  # with a power model, the limit lowers the clock itself
        measured = device.number(f"matrix.{kind}_sustained") or most * own / other
        return measured**2 / (EFFICIENCY * 2.0 * n_sm * own * clock) / 1e12

    rate.__doc__ = (
        f"Measured rate in {kind}, or fp16's scaled, squared, over {EFFICIENCY} of the peak."
    )
    return rate


MATRIX_RATES: Mapping[str, Rule] = {kind: _power_rule(kind) for kind in MATRIX_CYCLES}
"""Rates that power allows at full clock [TFLOP/s], by type, for devices without ``[power]``.

The power of an operation goes with the square of the voltage, and that about with the square root
of the clock: fitted to measured power (``[power]`` of V100, K40 and GTX Titan X) with its power of
0.46, 0.67 and 0.75. At the limit a rate r takes what R takes at full clock: ``r f/f_full = R``.
Since ``r = r_full f/f_full``, beyond R a rate is ``r = sqrt(r_full R)``; R follows from a
measured r."""


def single_warp_slowness(device: DeviceFacts) -> float:
    """How much slower instructions of a single warp (mma) are than wgmma and tcgen05."""
    most, rate = (device.number(f"matrix.{n}_multiply_adds") for n in ("single_warp", "fp16"))
    return max(1.0, rate / most) if most and rate else 1.0


def matrix_latency(device: DeviceFacts) -> float | None:
    """Latency of a dependent matrix instruction by micro-benchmark, else 32 cycles, as on Ada.

    On AMD's GPUs the next sum follows when a 16 x 16 x 16 product in fp16 is through: the unit of a
    SIMD is free again then, and takes what it has just added up.
    """
    if measured := device.number("microbenchmark.matrix_latency"):
        return measured
    rate, simds = (
        device.number(path) for path in ("matrix.fp16_multiply_adds", "chip.schedulers_per_sm")
    )
    if device.vendor == "AMD" and rate and simds:
        return 16.0**3 * simds / rate
    # An RTX 4090 takes at least this for mma.m16n8k16 in fp16, by its peak rate: S. Patters,
    # https://www.spatters.ca/mma-matmul
    return 32.0


COPY_CYCLES, TILE_FACTOR = 123.0, 1.61
"""What a copy takes longer than a load from L2, and a tile's rows over one load from DRAM.

A block waits for the slowest of a tile's copies, for the shared memory that they write, and for a
barrier; each row lies in another page of DRAM. A load that follows another (a pointer chase) is the
least that memory takes. On an H200 copies take 405 and 1,062 cycles, loads 282 and 661
(`sweep/microbenchmarks/copies.py`).
"""


def copy_latency(device: DeviceFacts) -> float | None:
    """Copy that L2 serves by micro-benchmark, else a load and what an H200 adds; of AMD a load."""
    if found := device.number("microbenchmark.copy_l2_latency"):
        return found
    load = cache_latency(device)
    return load if load is None or device.vendor == "AMD" else load + COPY_CYCLES


def tile_dram_factor(device: DeviceFacts) -> float:
    """Tile's rows from DRAM over one load by micro-benchmark, else an H200's ratio; AMD's: 1."""
    found = device.number("microbenchmark.copy_dram_latency")
    if found and (load := dram_latency(device)):
        return max(1.0, found / load)
    return 1.0 if device.vendor == "AMD" else TILE_FACTOR
