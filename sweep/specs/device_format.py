"""The definition of the device file: every key, its unit, type, range and meaning.

Ranges are ranges of plausibility: they hold every GPU from 2006 on with room to spare, and end
where a value could only be one of another unit (a clock of 1.3 or 1.3e9 "MHz").
"""

from __future__ import annotations

from collections.abc import Mapping

from sweep.specs.keys import Key, Section, place_keys

__all__ = ["CLOCK", "DEVICE", "LIMITS_OF_DEVICE", "MEMORY_CLOCK"]

CLOCK = (50.0, 5_000.0)
MEMORY_CLOCK = (50.0, 20_000.0)
"""Plausible clocks [MHz]."""

_VOLTS = (0.3, 2.5)


def _optional(name: str, meaning: str, maximum: float, *, zero: bool = False) -> Key:
    return Key(name, "integer", meaning, 1, maximum, required=False, zero=zero)


def _cycles(name: str, meaning: str) -> Key:
    return Key(f"{name}_cycles", "number", meaning, 0.01, 1e6, required=False)


def _bandwidth(name: str, meaning: str) -> Key:
    text = f"bandwidth reached, {meaning}"
    return Key(f"{name}_GBps", "number", text, 0.5, 30_000, required=False)


DEVICE: tuple[Section, ...] = (
    place_keys(
        "",
        "what the device is",
        Key("schema", "integer", "version of the file format", 1, 1),
        Key("name", "text", "full name of the product"),
        Key("vendor", "text", "who made it"),
        Key("architecture", "text", "architecture, with the chip where it is known"),
        Key(
            "compute_capability",
            "text",
            "compute capability, which gives the occupancy limits; a device without one has the"
            " table occupancy",
            required=False,
        ),
        required=True,
    ),
    place_keys(
        "clocks",
        "nominal clocks and the ranges in which they can be set",
        Key("core_nominal_MHz", "number", "clock of the multiprocessors (SM)", *CLOCK),
        Key(
            "core_min_MHz",
            "number",
            "lowest core clock; without a range only the nominal clock is valid",
            *CLOCK,
            required=False,
            together="core_max_MHz",
        ),
        Key(
            "core_max_MHz",
            "number",
            "highest core clock",
            *CLOCK,
            required=False,
            together="core_min_MHz",
        ),
        Key("memory_nominal_MHz", "number", "clock of the DRAM", *MEMORY_CLOCK),
        Key(
            "memory_min_MHz",
            "number",
            "lowest memory clock; without a range only the nominal clock is valid",
            *MEMORY_CLOCK,
            required=False,
            together="memory_max_MHz",
        ),
        Key(
            "memory_max_MHz",
            "number",
            "highest memory clock",
            *MEMORY_CLOCK,
            required=False,
            together="memory_min_MHz",
        ),
        required=True,
    ),
    place_keys(
        "chip",
        "counts and widths",
        Key("sm_count", "integer", "multiprocessors (SM) of the device", 1, 1024),
        Key("lanes_per_sm", "integer", "arithmetic lanes of a multiprocessor", 1, 1024),
        Key("warp_size", "integer", "threads in a warp", 8, 128),
        Key(
            "memory_bandwidth_GBps",
            "number",
            "peak DRAM bandwidth at the nominal memory clock",
            0.5,
            30_000,
        ),
        Key("memory_bus_width_bits", "integer", "width of the DRAM interface", 16, 16_384),
        Key(
            "l2_KiB",
            "number",
            "L2 cache that serves global memory; 0 without one",
            16,
            1_048_576,
            zero=True,
        ),
        Key(
            "l1_KiB",
            "number",
            "first-level cache of a multiprocessor for global memory; from 7.0 on with shared"
            " memory; without it that of the compute capability",
            1,
            4096,
            required=False,
            zero=True,
        ),
        _optional("fp64_lanes_per_sm", "lanes for double precision; 0 without", 1024, zero=True),
        _optional("integer_lanes_per_sm", "lanes for 32-bit integer addition", 1024),
        _optional("special_lanes_per_sm", "lanes for special functions", 1024),
        _optional("load_store_lanes_per_sm", "lanes for the addresses of accesses", 1024),
        _optional("schedulers_per_sm", "warp schedulers of a multiprocessor", 64),
        _optional("issue_width_per_sm", "warp instructions issued in a cycle, at most", 64),
        _optional("shared_banks", "banks of the shared memory, words of 4 bytes wide", 256),
        required=True,
    ),
    place_keys(
        "occupancy",
        "what a multiprocessor offers, for a device without compute capability; registers are"
        " allocated per warp",
        Key("max_warps_per_sm", "integer", "most resident warps", 1, 1024),
        Key("max_threads_per_sm", "integer", "most resident threads", 32, 65_536),
        Key("max_blocks_per_sm", "integer", "most resident blocks", 1, 1024),
        Key("max_threads_per_block", "integer", "most threads in a block", 32, 16_384),
        Key("registers_per_sm", "integer", "32-bit registers", 1024, 2**22),
        Key("max_registers_per_block", "integer", "most registers of a block", 1024, 2**22),
        Key("max_registers_per_thread", "integer", "most registers of a thread", 16, 4096),
        Key(
            "register_allocation_unit",
            "integer",
            "the registers of a warp are rounded up to a multiple of this",
            1,
            65_536,
        ),
        Key(
            "register_partitions",
            "integer",
            "parts of the register file, over which the warps of a block are spread",
            1,
            64,
        ),
        Key("shared_memory_per_sm_KiB", "number", "shared memory", 1, 4096),
        Key("max_shared_memory_per_block_KiB", "number", "most shared memory of a block", 1, 4096),
        Key(
            "shared_memory_allocation_unit_bytes",
            "integer",
            "the shared memory of a block is rounded up to a multiple of this",
            1,
            65_536,
        ),
        Key(
            "shared_memory_reserved_per_block_bytes",
            "integer",
            "what the system takes of every block",
            0,
            65_536,
        ),
    ),
    place_keys(
        "microbenchmark",
        "what others have measured; latencies in cycles of the core clock given here",
        Key("core_clock_MHz", "number", "core clock while it was measured", *CLOCK),
        _cycles("l1_latency", "a load that the L1 cache serves"),
        _cycles("l2_near_latency", "a load that the L2 cache serves, nearest partition"),
        _cycles("l2_far_latency", "a load that the L2 cache serves, farthest partition"),
        _cycles("dram_latency", "a load that DRAM serves, 2 to 3 times the L2 cache touched"),
        _cycles("dram_large_latency", "a load that DRAM serves, 2 GB touched: misses of the TLB"),
        _cycles("shared_latency", "a load from shared memory"),
        _cycles("fp32_latency", "a dependent single-precision addition or multiply-add"),
        _cycles("integer_latency", "a dependent integer addition"),
        _cycles("fp64_latency", "a dependent double-precision multiply-add"),
        _cycles("fp64_divide_latency", "a dependent double-precision division"),
        _cycles("fp64_sqrt_latency", "a dependent double-precision square root"),
        _cycles("exp2_latency", "a dependent special function 2**x"),
        _cycles("reciprocal_latency", "a dependent special function 1/x"),
        _cycles("reciprocal_sqrt_latency", "a dependent special function 1/sqrt(x)"),
        _cycles("fp64_issue", "a warp's double-precision multiply-add, full multiprocessor"),
        _cycles("fp64_divide_issue", "a warp's double-precision division, full multiprocessor"),
        _cycles("fp64_sqrt_issue", "a warp's double-precision square root, full multiprocessor"),
        _cycles("block_launch", "overhead of launching a block"),
        _bandwidth("dram_read_bandwidth", "DRAM, read only"),
        _bandwidth("dram_write_bandwidth", "DRAM, written only"),
        _bandwidth("dram_scale_bandwidth", "DRAM, one array read, one written"),
        _bandwidth("dram_triad_bandwidth", "DRAM, two arrays read, one written"),
    ),
    Section("model", "per model: the numbers that its equations read", values="model"),
    place_keys(
        "power",
        "what power follows from (all or nothing)",
        Key("static_W", "number", "power that does not depend on activity", 1, 2_000, zero=True),
        Key(
            "core_W_per_V2GHz",
            "number",
            "power of the core domain at full activity, per squared volt and GHz",
            1,
            10_000,
        ),
        Key(
            "memory_W_per_V2GHz",
            "number",
            "power of the memory domain at full activity, per squared volt and GHz",
            0.1,
            1_000,
        ),
        Key(
            "core_voltage",
            "rows",
            "voltage of the core domain by core clock, linear between the rows",
            columns=("clock_MHz", "voltage_V"),
            column_ranges=(CLOCK, _VOLTS),
        ),
        Key(
            "memory_voltage",
            "rows",
            "voltage of the memory domain by memory clock, linear between the rows",
            columns=("clock_MHz", "voltage_V"),
            column_ranges=(MEMORY_CLOCK, _VOLTS),
        ),
    ),
    Section(
        "source",
        'where each value comes from, by its quoted path; "identity" covers the top of the file',
        required=True,
        values="source",
    ),
)
"""The device file, ``devices/KEY.toml``."""

LIMITS_OF_DEVICE: Mapping[str, str] = {
    "max_warps_per_sm": "occupancy.max_warps_per_sm",
    "max_threads_per_sm": "occupancy.max_threads_per_sm",
    "max_blocks_per_sm": "occupancy.max_blocks_per_sm",
    "max_threads_per_block": "occupancy.max_threads_per_block",
    "regs_per_sm": "occupancy.registers_per_sm",
    "max_regs_per_block": "occupancy.max_registers_per_block",
    "max_regs_per_thread": "occupancy.max_registers_per_thread",
    "reg_alloc_unit": "occupancy.register_allocation_unit",
    "warp_alloc_granularity": "occupancy.register_partitions",
    "smem_per_sm_bytes": "occupancy.shared_memory_per_sm",
    "smem_per_block_bytes": "occupancy.max_shared_memory_per_block",
    "smem_alloc_unit_bytes": "occupancy.shared_memory_allocation_unit",
    "smem_reserved_per_block_bytes": "occupancy.shared_memory_reserved_per_block",
    "warp_size": "chip.warp_size",
}
"""Where a device without compute capability has each limit of `sweep.hardware.occupancy.Limits`."""
