"""The definition of both file formats: every key, its unit, type, range and meaning.

Validation, the JSON Schema and the printed documentation all read these two tables and nothing
else, so a key is added to a format in exactly one place.

Ranges of device values are ranges of plausibility: they hold every GPU from 2006 on with room to
spare, and end where a value could only be one of another unit (a clock of 1.3 or 1.3e9 "MHz").
"""

from __future__ import annotations

from dataclasses import replace

from sweep.specs.keys import Key, Section

__all__ = [
    "DEVICE",
    "DEVICE_NAMES",
    "FORMATS",
    "KERNEL",
    "LARGEST_NUMBER",
    "SCHEMA_VERSION",
    "SOURCE_KINDS",
]

SCHEMA_VERSION = 1
"""The version of both file formats that this package reads (``schema = 1``)."""

SOURCE_KINDS = ("datasheet", "paper", "microbenchmark", "derived", "assumed")
"""What a value can rest on, from the strongest to the weakest."""

LARGEST_NUMBER = 2.0**53
"""Numbers of kernel files stay within the integers that float64 holds exactly."""

DEVICE_NAMES: dict[str, str] = {
    "warp_size": "threads in a warp",
    "sm_count": "multiprocessors (SM) of the device",
    "lanes_per_sm": "arithmetic lanes of a multiprocessor",
    "max_threads_per_block": "most threads in a block",
    "max_threads_per_sm": "most threads resident on a multiprocessor",
    "shared_memory_per_sm": "shared memory of a multiprocessor [bytes]",
    "registers_per_sm": "32-bit registers of a multiprocessor",
    "l2_bytes": "size of the L2 cache [bytes], 0 without one",
    "compute_capability": "compute capability as a number, such as 5.2",
}
"""Device attributes that expressions of kernel files may use by bare name."""


def _section(name: str, meaning: str, *keys: Key, **options: bool | str) -> Section:
    placed = tuple(replace(key, section=name) for key in keys)
    return Section(name, meaning, placed, **options)  # type: ignore[arg-type]


_CLOCK = (50.0, 5_000.0)
_MEMORY_CLOCK = (50.0, 20_000.0)
_VOLTS = (0.3, 2.5)

DEVICE: tuple[Section, ...] = (
    _section(
        "",
        "what the device is",
        Key("schema", "integer", "version of the file format", 1, 1),
        Key("name", "text", "full name of the product"),
        Key("vendor", "text", "who made it"),
        Key("architecture", "text", "architecture, with the chip where it is known"),
        Key("compute_capability", "text", "compute capability, which gives the occupancy limits"),
        required=True,
    ),
    _section(
        "clocks",
        "nominal clocks and the ranges in which they can be set",
        Key("core_nominal_MHz", "number", "clock of the multiprocessors (SM)", *_CLOCK),
        Key(
            "core_min_MHz",
            "number",
            "lowest core clock; without a range only the nominal clock is valid",
            *_CLOCK,
            required=False,
            together="core_max_MHz",
        ),
        Key(
            "core_max_MHz",
            "number",
            "highest core clock",
            *_CLOCK,
            required=False,
            together="core_min_MHz",
        ),
        Key("memory_nominal_MHz", "number", "clock of the DRAM", *_MEMORY_CLOCK),
        Key(
            "memory_min_MHz",
            "number",
            "lowest memory clock; without a range only the nominal clock is valid",
            *_MEMORY_CLOCK,
            required=False,
            together="memory_max_MHz",
        ),
        Key(
            "memory_max_MHz",
            "number",
            "highest memory clock",
            *_MEMORY_CLOCK,
            required=False,
            together="memory_min_MHz",
        ),
        required=True,
    ),
    _section(
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
        required=True,
    ),
    Section("model", "per model: the numbers that its equations read", values="model"),
    _section(
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
            column_ranges=(_CLOCK, _VOLTS),
        ),
        Key(
            "memory_voltage",
            "rows",
            "voltage of the memory domain by memory clock, linear between the rows",
            columns=("clock_MHz", "voltage_V"),
            column_ranges=(_MEMORY_CLOCK, _VOLTS),
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


def _count(name: str, meaning: str, minimum: float = 0, **options: object) -> Key:
    maximum = options.pop("maximum", LARGEST_NUMBER)
    return Key(name, "expression", meaning, minimum, maximum, **options)  # type: ignore[arg-type]


def _instructions(name: str, meaning: str) -> Key:
    return _count(name, f"dynamic {meaning} of a thread", required=False)


_ACCESS_NAME = Key("name", "text", "name of the access, unique in the file")
_ACCESS_KIND = Key("kind", "choice", "direction", choices=("load", "store"))
_ACCESS_COUNT = _count("count", "dynamic accesses of a thread")
_ACCESS_STAGE = Key(
    "stage", "text", "the stage that the access belongs to; in files with stages", required=False
)
_CLASSES = (
    _instructions(
        "computation",
        "instructions that are not global memory accesses (shared memory accesses, barriers"
        " and branches included)",
    ),
    _instructions("fp32", "single-precision floating-point instructions"),
    _instructions("fp64", "double-precision floating-point instructions"),
    _instructions("integer", "integer and logic instructions"),
    _instructions("special", "special-function instructions"),
    _instructions("conversion", "type conversions"),
    _instructions("control", "branches and other control instructions"),
    _instructions("move", "moves between registers"),
)
_BARRIERS = _count("barriers", "dynamic barriers of a thread", required=False, default="0")

KERNEL: tuple[Section, ...] = (
    _section(
        "",
        "what the kernel is",
        Key("schema", "integer", "version of the file format", 1, 1),
        Key("name", "text", "name of the kernel"),
        Key("description", "text", "what it computes and how, in a sentence", required=False),
        Key(
            "constraints",
            "conditions",
            "conditions that a valid configuration meets",
            required=False,
        ),
        required=True,
    ),
    Section(
        "source",
        'where the numbers come from: "default" for all, quoted paths for what differs',
        required=True,
        values="source",
    ),
    Section("sizes", "problem sizes and their default values", values="size"),
    Section("parameters", "tuning parameters and their values", values="values"),
    Section("derived", "named sub-expressions", values="expression"),
    _section(
        "launch",
        "the grid",
        _count("threads_per_block", "threads in a block", 1),
        _count("blocks", "thread blocks of the grid", 1),
        _count("block_x", "width of a block", 1, required=False, default="threads_per_block"),
        _count("block_y", "height of a block", 1, required=False, default="1"),
        required=True,
    ),
    _section(
        "resources",
        "what a block occupies",
        _count("registers_per_thread", "32-bit registers of a thread", 1),
        _count("shared_memory_bytes", "shared memory of a block", required=False, default="0"),
        required=True,
    ),
    _section(
        "instructions",
        "either all computation instructions in one, or by class without shared memory accesses"
        " and barriers",
        *_CLASSES,
    ),
    _section(
        "stage",
        "a stretch of the kernel's code, in order; its counts are totals over all executions",
        Key("name", "text", "name of the stage, unique in the file"),
        Key(
            "loop",
            "text",
            "name of the loop that the stage is part of; neighbours in one loop alternate",
            required=False,
        ),
        _count("executions", "how often a thread passes the stage", required=False, default="1"),
        *_CLASSES,
        _BARRIERS,
        repeated=True,
    ),
    _section(
        "global_access",
        "one access to global memory",
        _ACCESS_NAME,
        _ACCESS_KIND,
        _ACCESS_COUNT,
        _ACCESS_STAGE,
        _count("bytes", "word of a thread and access", 1, maximum=16, unit_suffix="bytes"),
        Key(
            "pattern",
            "choice",
            "how the addresses of a warp lie",
            choices=("coalesced", "misaligned", "strided", "uncoalesced", "broadcast"),
        ),
        _count("stride", "distance of two lanes in words; for pattern strided", required=False),
        repeated=True,
    ),
    _section(
        "shared_access",
        "one access to shared memory",
        _ACCESS_NAME,
        _ACCESS_KIND,
        _ACCESS_COUNT,
        _ACCESS_STAGE,
        _count(
            "bytes",
            "word of a thread and access",
            1,
            maximum=16,
            unit_suffix="bytes",
            required=False,
            default="4",
        ),
        _count(
            "stride",
            "distance of two lanes in words; 0 is a broadcast",
            required=False,
            default="1",
        ),
        repeated=True,
    ),
    _section(
        "synchronisation",
        "barriers of a block",
        _BARRIERS,
    ),
    _section(
        "loops",
        "loop trip counts",
        _count(
            "outer",
            "repetitions of the phase of memory access and computation",
            required=False,
            default="1",
        ),
        _count(
            "inner",
            "shared memory transactions of a warp within a phase",
            required=False,
            default="1",
        ),
    ),
    _section(
        "cache",
        "what caches serve",
        _count(
            "l2_hit_rate",
            "share of the accesses that the L2 cache serves; 0 on a device without one",
            maximum=1,
            unit_suffix="fraction",
            required=False,
            default="0",
        ),
    ),
)
"""The kernel file, ``kernels_spec/KEY.toml``."""

FORMATS = {"device": DEVICE, "kernel": KERNEL}
"""Both formats by kind."""
