"""What rules of device parameters read of a device, what they lack, and what they assume then."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from sweep.hardware.derived import (
    DeviceFacts,
    Rule,
    Value,
    dram_latency,
    instruction_latency,
    lookup_latency,
    shared_latency,
)
from sweep.hardware.paths import PIECES


def read_by(rule: Rule, device: DeviceFacts) -> tuple[tuple[str, ...], bool]:
    """Return the paths of a device's file that a rule's value rests on, in the order of reading.

    And whether the file has the micro-benchmark that the rule asks for first: without it, what it
    reads then stands in for it.
    """
    seen: dict[str, None] = {}
    measured: list[bool] = []

    class Watched(DeviceFacts):
        def number(self, *paths: str) -> float | None:
            found = [path for path in paths if path in self.values][:1]
            seen.update(dict.fromkeys(found))
            if any(path.startswith("microbenchmark.") for path in paths[:1]):
                measured.append(bool(found))
            return super().number(*found) if found else None

    rule(Watched(device.values, device.compute_capability, device.vendor, device.stated,
                 device.measured))  # fmt: skip
    return tuple(seen), measured[:1] == [True]


def lacked_by(rule: Rule, device: DeviceFacts) -> tuple[str, ...]:
    """Return the paths that a device's file would need for a rule to give a value."""
    asked: dict[str, float] = {}

    class Asking(DeviceFacts):
        def number(self, *paths: str) -> float | None:
            found = super().number(*paths)
            if found is None and paths:
                asked[paths[0]] = 1.0
            return found

    def given(values: Mapping[str, float], kind: type[DeviceFacts] = DeviceFacts) -> Value | None:
        facts = {**device.values, **values}
        return rule(kind(facts, device.compute_capability, device.vendor, device.stated))

    supplied: dict[str, float] = {}
    while given(supplied, Asking) is None and asked.keys() - supplied.keys():
        supplied = dict(asked)
    return tuple(
        path for path in supplied if given({p: 1.0 for p in supplied if p != path}) is None
    )


# ---------------------------------------------------------------------------- a data sheet alone

_ARITHMETIC = {"2": 22.0, "3": 11.0, "5": 6.0, "6": 6.0}
"""Latency of dependent instructions by major compute capability, where it is not 4."""


def _usual_dram_latency(device: DeviceFacts) -> float:
    """DRAM latency: 600 cycles, the middle of the 400 to 800 of NVIDIA's programming guides."""
    return 600.0


def _usual_instruction_latency(device: DeviceFacts) -> float:
    """Instruction latency: 22 cycles on 2.x, 11 on 3.x, 6 on 5.x and 6.x, 4 after, 4 or 5 on AMD's.

    The first two by the CUDA C Programming Guide; the others as devices here of that capability
    have them. AMD's wavefronts of 64 take four cycles, by LLVM's back end those of 32 take 5. GPUs
    of neither are given 22, the most.
    """
    if device.vendor == "AMD":
        return 4.0 if device.number("chip.warp_size") == 64.0 else 5.0
    major = device.compute_capability.partition(".")[0]
    return _ARITHMETIC.get(major, 4.0) if major else 22.0


def _usual_piece_64(device: DeviceFacts) -> float:
    """Pieces of 64 bytes: 1.5 times a long one's time in DRAM, as on an H100.

    There random pieces of 64, 128, 256 and 4,096 bytes come at 2,020, 2,874, 3,028 and 3,029 GB/s
    (``tests/data/h100/dram_pieces.csv``).
    """
    return 1.5


def _usual_piece_128(device: DeviceFacts) -> float:
    """Pieces of 128 bytes: 1.05 times a long one's time in DRAM, as on an H100."""
    return 1.05


def _usual_piece_256(device: DeviceFacts) -> float:
    """Pieces of 256 bytes: 1.02 times a long one's time where DRAM is GDDR6, else 1 as on an H100.

    No GPU with GDDR6 was measured (compute capability 8.6 and 8.9). But where DRAM limits Triton's
    MoE, the lists of vLLM and SGLang for L20, L40S and RTX 4090 have the longest rows that their
    tuners try, and on an A40 those of 512 bytes are over 1 % faster than those of 256; on an A10
    both are listed. With HBM or GDDR7 the lists have shorter ones. The 2 % only rank them so.
    """
    return 1.02 if device.compute_capability in ("8.6", "8.9") else 1.0


ASSUMPTIONS: Mapping[str, tuple[Rule, Callable[[DeviceFacts], float | None]]] = {
    "dram_latency": (dram_latency, _usual_dram_latency),
    "instruction_latency": (instruction_latency, _usual_instruction_latency),
    "shared_latency": (shared_latency, lookup_latency),
    "dram_piece_64_factor": (PIECES[64], _usual_piece_64),
    "dram_piece_128_factor": (PIECES[128], _usual_piece_128),
    "dram_piece_256_factor": (PIECES[256], _usual_piece_256),
}
"""Facts that no data sheet states (latencies in cycles, and factors). Of each, the rule that finds
it in a device's file, and what is assumed where it finds nothing, which is recorded as assumed."""


def with_assumptions(device: DeviceFacts) -> Iterator[tuple[DeviceFacts, str]]:
    """Yield a device with each further fact that it lacks, and the assumption in words.

    Values of a table ``assumed`` count more than what is assumed of other devices.
    """
    for fact, (known, usual) in ASSUMPTIONS.items():
        value = device.number(f"assumed.{fact}") or usual(device)
        if known(device) is None and value is not None:
            device = replace(device, stated={**device.stated, fact: value})
            yield device, in_words(usual)


def in_words(rule: Callable[[DeviceFacts], Value | None]) -> str:
    """Return a rule as sources quote it: the first line of its docstring."""
    return (rule.__doc__ or "").strip().splitlines()[0].rstrip(".")
