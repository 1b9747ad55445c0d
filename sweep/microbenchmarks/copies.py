"""Latency of asynchronous copies (cp.async), which no paper here has: of a tile's rows.

In each round one warp of a block copies 16 rows of 128 bytes to shared memory, waits for all and
passes a barrier, as a pipeline with one buffer does. Rows lie side by side where L2 serves them. In
DRAM they are 8 KiB apart, as in a matrix, each in another page: a tile waits for the slowest.
"""

from __future__ import annotations

from sweep.microbenchmarks.case import WARP, Case, Facts, Samples, Value, kernel

ROWS, ROW_BYTES, BLOCKS, STEPS = 16, 128, 16, 128
LEAST_CAPABILITY = 8.0
"""Compute capability from which on there are such copies."""

APART = {"l2": BLOCKS * ROW_BYTES, "dram": 8192}
"""Bytes from a row to the next one; the blocks' columns lie side by side."""


def tile(apart: int) -> str:
    """Return the kernel whose rows are ``apart`` bytes apart."""
    at_once = WARP * 16 // ROW_BYTES
    copies = "".join(
        f'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to + {i * WARP * 16}u),'
        f' "l"(from + {i * at_once * apart}) : "memory");\n'
        for i in range(ROWS // at_once)
    )
    before = f"""extern __shared__ char words[];
unsigned to = (unsigned)__cvta_generic_to_shared(words) + threadIdx.x * 16u;
const char* from = data + blockIdx.x * {ROW_BYTES}u + threadIdx.x * 16u / {ROW_BYTES}u * {apart}u
                   + threadIdx.x * 16u % {ROW_BYTES}u;"""
    inside = f"""{copies}asm volatile("cp.async.commit_group; cp.async.wait_group 0;" ::: "memory");
__syncthreads(); from += {ROWS * apart};"""
    return kernel(before, inside, "words[never]")


def cases(facts: Facts) -> list[Case]:
    """Return the copies from L2 and from DRAM, where the GPU has them."""
    if float(facts.capability) < LEAST_CAPABILITY:
        return []
    found = []
    for memory, apart in APART.items():
        of_step = ROWS * apart
        steps = STEPS if memory == "dram" else max(8, min(STEPS, facts.l2_bytes // 4 // of_step))
        found.append(
            Case("copies", memory, tile(apart), BLOCKS, WARP, steps, {"rounds": steps},
                 shared=ROWS * ROW_BYTES, buffer=steps * of_step, cold=memory == "dram")
        )  # fmt: skip
    return found


def values(samples: Samples) -> list[Value]:
    """Return the two latencies."""
    found = []
    for sample in samples.of("copies"):
        latency = sample.cycle / sample.counts["rounds"]
        key = f"copy_{sample.name}_latency"
        found.append(Value.of_cycles(key, latency, "cycles", "dependent_chain", sample))
    return found
