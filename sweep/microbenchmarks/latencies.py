"""Latencies of memories: chains of dependent loads.

Each load gives the address of the next one. The list is one random cycle through the buffer, so no
prefetcher helps (Sattolo's shuffle; Lemeire et al., Section VI-B; Mei & Chu, IEEE TPDS 2017).
"""

from __future__ import annotations

from sweep.microbenchmarks.case import WARP, Case, Facts, Samples, Value, kernel

L1_BYTES = 8 << 10
LINK = 128
STEPS = 4096

APART = 1.15
"""Ratio from which on the far partition's latency is another one."""

_KEYS = {
    "l1": "l1_latency",
    "l2": "l2_near_latency",
    "l2 far": "l2_far_latency",
    "dram": "dram_latency",
    "shared": "shared_latency",
}


def chase(operator: str) -> str:
    """Return the kernel that follows a list, by loads with a cache operator of PTX."""
    load = f'asm volatile("ld.global.{operator}.u64 %0, [%1];" : "=l"(at) : "l"(at) : "memory");'
    once = f"for (unsigned long long i = 0; i < bytes; i += {LINK}) {{ {load} }}"
    return kernel(f"unsigned long long at = (unsigned long long)data;\n{once}", load, "at", 32)


_SHARED = kernel(
    """extern __shared__ unsigned list[];
unsigned at = (unsigned)__cvta_generic_to_shared(list);
for (unsigned i = threadIdx.x; i < 1024; i += blockDim.x) list[i] = at + 4u * ((i + 33u) % 1024u);
""",
    'asm volatile("ld.shared.u32 %0, [%1];" : "=r"(at) : "r"(at) : "memory");',
    "at",
    32,
)


def cases(facts: Facts) -> list[Case]:
    """Return the chains through L1, L2, DRAM and shared memory, one thread each."""
    dram = min(max(5 * facts.l2_bytes // 2, 32 << 20), facts.memory_bytes // 4)
    # Of two partitions each keeps what its multiprocessors read, while its half of L2 holds that.
    sizes = {"l1": (L1_BYTES, "ca"), "l2": (facts.l2_bytes // 4, "cg"),
             "l2 far": (facts.l2_bytes * 11 // 15, "cg"), "dram": (dram, "cg")}  # fmt: skip
    found = [
        Case("latencies", name, chase(operator), 1, 1, STEPS, {"loads": STEPS, "bytes": size},
             buffer=size // LINK * LINK, chain=LINK, over_clocks=name == "dram")
        for name, (size, operator) in sizes.items()
    ]  # fmt: skip
    shared = Case("latencies", "shared", _SHARED, 1, WARP, STEPS, {"loads": STEPS}, shared=4096)
    return [*found, shared]


def values(samples: Samples) -> list[Value]:
    """Return the latencies; that of the far partition where it is another one."""
    found, near = [], samples.one("latencies", "l2")
    for name, key in _KEYS.items():
        sample = samples.one("latencies", name)
        if not sample or name == "l2 far" and (not near or sample.cycle < APART * near.cycle):
            continue
        latency = sample.cycle / sample.counts["loads"]
        found.append(Value.of_cycles(key, latency, "cycles", "pointer_chase", sample))
    return found
