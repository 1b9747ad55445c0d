"""The definition of both file formats: every key, its unit, type, range and meaning.

Validation, the JSON Schema and the printed documentation all read these two tables and nothing
else, so a key is added to a format in exactly one place.
"""

from __future__ import annotations

from sweep.specs.device_format import CLOCK, DEVICE, MEMORY_CLOCK
from sweep.specs.keys import Key, Section, place_keys

__all__ = [
    "AFFINE_KEYS",
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

SOURCE_KINDS = ("datasheet", "paper", "microbenchmark", "review", "derived", "assumed")
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
    "l1_bytes": "size of a multiprocessor's first-level cache of global memory [bytes], 0 without"
    " one; from compute capability 7.0 on with what shared memory takes of it",
    "l2_bytes": "size of the L2 cache [bytes], 0 without one",
    "compute_capability": "compute capability as a number, such as 5.2; 0 on a device without one",
}
"""Device attributes that expressions of kernel files may use by bare name."""


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


def _affine(name: str, meaning: str, **options: object) -> Key:
    return _count(f"{name}", f"{meaning}; for pattern affine", -LARGEST_NUMBER, required=False,
                  **options)  # fmt: skip


def _share(name: str, meaning: str, default: str = "") -> Key:
    return _count(name, meaning, maximum=1, unit_suffix="fraction", required=False, default=default)


_AFFINE = (
    _affine(
        "base",
        "word that the first thread accesses, counted from a multiple of 128 bytes",
        default="0",
    ),
    _affine("x", "distance of the words of two threads that are neighbours in x"),
    _affine("y", "the same in y; needed where the launch gives block_x or block_y", default="0"),
    _affine("z", "the same in z", default="0"),
)

AFFINE_KEYS = tuple(key.name for key in _AFFINE)
"""Keys of the pattern ``affine``: a thread's address is ``base + x * threadIdx.x + ...``."""


def _transactions(meaning: str) -> Key:
    return _count("transactions", f"{meaning}; for pattern measured", required=False)


KERNEL: tuple[Section, ...] = (
    place_keys(
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
    place_keys(
        "launch",
        "the grid",
        _count("threads_per_block", "threads in a block", 1),
        _count("blocks", "thread blocks of the grid", 1),
        _count("block_x", "width of a block", 1, required=False, default="threads_per_block"),
        _count("block_y", "height of a block", 1, required=False, default="1"),
        required=True,
    ),
    place_keys(
        "resources",
        "what a block occupies",
        _count("registers_per_thread", "32-bit registers of a thread", 1),
        _count("shared_memory_bytes", "shared memory of a block", required=False, default="0"),
        required=True,
    ),
    place_keys(
        "instructions",
        "either all computation instructions in one, or by class without shared memory accesses"
        " and barriers",
        *_CLASSES,
    ),
    place_keys(
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
        _count(
            "threads",
            "threads of a block that pass the stage, the first ones, where it is not all of them;"
            " counts are those of such a thread",
            1,
            required=False,
        ),
        *_CLASSES,
        _BARRIERS,
        repeated=True,
    ),
    place_keys(
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
            choices=(
                "coalesced",
                "misaligned",
                "strided",
                "uncoalesced",
                "broadcast",
                "affine",
                "measured",
            ),
        ),
        _count("stride", "distance of two lanes in words; for pattern strided", required=False),
        *_AFFINE,
        _transactions("32-byte sectors of a warp's access, as a profile counts them"),
        _share(
            "l1_hit_rate",
            "share of its sectors that L1, texture or read-only cache serves",
            default="0",
        ),
        _share(
            "l2_hit_rate",
            "share of its sectors beyond L1 that the L2 cache serves; without it the kernel's"
            " cache.l2_hit_rate; 0 on a device without one",
        ),
        repeated=True,
    ),
    place_keys(
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
        Key(
            "pattern",
            "choice",
            "how the addresses of a warp lie",
            choices=("strided", "affine", "measured"),
            required=False,
            default="strided",
        ),
        _count(
            "stride",
            "distance of two lanes in words; 0 is a broadcast; for pattern strided",
            required=False,
            default="1",
        ),
        *_AFFINE,
        _transactions("passes of a warp's access, as a profile counts them"),
        repeated=True,
    ),
    place_keys(
        "synchronisation",
        "barriers of a block",
        _BARRIERS,
    ),
    place_keys(
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
    place_keys(
        "cache",
        "what caches serve",
        _share(
            "l2_hit_rate",
            "share of the accesses that the L2 cache serves; 0 on a device without one",
            default="0",
        ),
    ),
    place_keys(
        "parallelism",
        "what a thread does at once",
        _count(
            "instruction",
            "independent instructions that a thread can issue back to back, loads from shared"
            " memory among them",
            1,
            required=False,
            default="1",
        ),
        _count(
            "memory",
            "global loads that a thread has under way at once; less than 1 where the warp for which"
            " a barrier waits has more of them than the mean",
            0.01,
            required=False,
            default="1",
        ),
    ),
    place_keys(
        "measured",
        "one measured time, to which `sweep scale` holds its predictions at other clocks",
        Key("time_ms", "number", "time of one launch", 1e-6, 1e9),
        Key("device", "text", "the device, by its key"),
        Key("core_clock_MHz", "number", "core clock while it was measured", *CLOCK),
        Key(
            "memory_clock_MHz",
            "number",
            "memory clock, as the device file counts it",
            *MEMORY_CLOCK,
        ),
    ),
)
"""The kernel file, ``kernels_spec/KEY.toml``."""

FORMATS = {"device": DEVICE, "kernel": KERNEL}
"""Both formats by kind."""
