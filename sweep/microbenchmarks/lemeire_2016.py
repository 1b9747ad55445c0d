"""Issue and completion latency (Lemeire, Cornelis & Segers, Sections IV and VI; Table III).

One block a multiprocessor, from one warp to full occupancy, with 1, 2 and 4 independent chains of
instructions in each thread. (4) the issue latency is the least number of cycles per instruction of
a warp over all occupancies, (5) the completion latency the largest, that of a single warp.

Memories are treated alike, by the width of a thread's word: coalesced loads from DRAM, and loads
from shared memory without bank conflicts, each of which gives the address of the next one.
Constant memory is not measured.
"""

from __future__ import annotations

from itertools import product

from sweep.microbenchmarks.case import WARP, Case, Facts, Sample, Samples, Value, kernel, rounded

CLASSES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    # Two registers: on an H200 three take two cycles where other warps' instructions come between.
    "fp32": ("float", "f", ("fma.rn.f32 %0, %0, %1, %1;",)),
    # Two kinds in turn, which ptxas can not join, and both of the integer lanes: of additions ptxas
    # makes multiply-adds in part, so that they take the lanes of both.
    "integer": ("int", "r", ("xor.b32 %0, %0, %1;", "max.s32 %0, %0, %2;")),
    "fp64": ("double", "d", ("fma.rn.f64 %0, %0, %1, %1;",)),
    "special": ("float", "f", ("ex2.approx.ftz.f32 %0, %0;",)),
}
"""C type, constraint and PTX of an instruction class."""

TYPES = {"fp32": "sp", "integer": "int", "fp64": "dp", "special": "sf"}
"""The paper's names."""

COPIES, STEPS = 32, 512
SHORT, SHORT_STEPS = 8, 10_000
"""Instructions of a round and rounds, also of the shorter chain, which Luo & Suda's costs need."""

WARPS = (1, 2, 4, 6, 8, 12, 16, 24, 32)
PARALLELISM = (1, 2, 4)
POWERED = (("fp32", 4, 32), ("fp32", 1, 4), ("fp32", 1, 1), ("integer", 4, 32), ("special", 4, 32))
"""Class, chains and warps of those whose power is read: busy, half busy and hardly busy."""


def chains(kind: str, parallelism: int, copies: int = COPIES) -> str:
    """Return the kernel with some dependent instructions of a class in each of several chains."""
    of, constraint, instructions = CLASSES[kind]
    body = [
        f'asm volatile("{text}" : "+{constraint}"(x{j}) : "{constraint}"(a), "{constraint}"(b));'
        for copy in range(copies // len(instructions))
        for text in instructions
        for j in range(parallelism)
    ]
    declared = "".join(f"{of} x{j} = ({of})(threadIdx.x + {j});" for j in range(parallelism))
    total = " + ".join(f"x{j}" for j in range(parallelism))
    before = f"{of} a = ({of})(never + 1), b = ({of})never; {declared}"
    return kernel(before, "\n".join(body), total)


def cases(facts: Facts) -> list[Case]:
    """Return all classes, numbers of chains and occupancies."""
    found = []
    for kind in CLASSES:
        for parallelism in PARALLELISM:
            source = chains(kind, parallelism)
            for warps in facts.fitting(WARPS):
                is_powered = (kind, parallelism, warps) in POWERED
                counts = {"warps": warps, "parallelism": parallelism,
                          "instructions": COPIES * parallelism * STEPS}  # fmt: skip
                found.append(
                    Case("lemeire_2016", f"{kind} ilp {parallelism} warps {warps}", source,
                         facts.sm_count, warps * WARP, STEPS, counts,
                         shared=facts.alone, over_clocks=is_powered, powered=is_powered)
                )  # fmt: skip
    return [*found, *_memory_cases(facts)]


WIDTHS = {4: "u32", 8: "v2.u32", 16: "v4.u32"}
"""Type in PTX of a load of a thread, by its bytes."""

LOADS, OCCUPANCIES = 8, (1, 4, 8, 16, 32)
"""Loads of each chain in a round, and the warps of a multiprocessor."""

SHARED_BYTES = 16 << 10


def loads(memory: str, width: int, parallelism: int) -> str:
    """Return the kernel of chains of loads; ``memory`` is ``global`` or ``shared``.

    From global memory each load is of new words, a warp's beside each other. All are 0 and part of
    the next address. Shared memory holds in each word the address of the next one, 32 threads on.
    """
    chains, words = range(parallelism), width // 4
    names = [f"w{word}" for word in range(words)]
    target = "{" + ", ".join(f"%{word}" for word in range(words)) + "}" if words > 1 else "%0"
    outputs = ", ".join(f'"=r"({name})' for name in names)
    ask = f"ld.{memory}{'.cg' if memory == 'global' else ''}.{WIDTHS[width]} {target}, [%{words}];"
    if memory == "global":
        before = f"""unsigned {", ".join(names)}, mask = (unsigned)bytes - 1u;
unsigned stride = gridDim.x * blockDim.x * {width}u;
unsigned at = (blockIdx.x * blockDim.x + threadIdx.x) * {width}u;"""
        before += "".join(f" unsigned x{j} = at + {j}u * stride;" for j in chains)
        each = (
            'asm volatile("{ask}" : {outputs} : "l"(data + x{j}) : "memory");'
            " x{j} = (x{j} + w0 + {parallelism}u * stride) & mask;"
        )
    else:
        before = f"""extern __shared__ unsigned list[]; unsigned {", ".join(names)};
unsigned base = (unsigned)__cvta_generic_to_shared(list);
for (unsigned i = threadIdx.x; i < {SHARED_BYTES // 4}u; i += blockDim.x)
  list[i] = base + (i * 4u + {32 * width}u) % {SHARED_BYTES}u;"""
        before += "".join(
            f" unsigned x{j} = base + (threadIdx.x * {width}u + {j * 128 * width}u)"
            f" % {SHARED_BYTES}u;" for j in chains
        )  # fmt: skip
        each = 'asm volatile("{ask}" : {outputs} : "r"(x{j}) : "memory"); x{j} = w0;'
    body = [
        each.format(ask=ask, outputs=outputs, j=j, parallelism=parallelism)
        for _ in range(LOADS) for j in chains
    ]  # fmt: skip
    return kernel(before, "\n".join(body), " + ".join(f"x{j}" for j in chains))


def _memory_cases(facts: Facts) -> list[Case]:
    """Return loads from DRAM and shared memory over widths, chains and occupancies."""
    found = []
    for memory, steps in (("global", 16), ("shared", STEPS // 4)):
        for width, parallelism in product(WIDTHS, (1, 4)):
            source = loads(memory, width, parallelism)
            for warps in facts.fitting(OCCUPANCIES):
                counts = {"warps": warps, "width": width, "loads": LOADS * parallelism * steps}
                name = f"{memory} {width} ilp {parallelism} warps {warps}"
                is_global = memory == "global"
                found.append(
                    Case("lemeire_2016", name, source, facts.sm_count, warps * WARP, steps, counts,
                         shared=max(facts.alone, 0 if is_global else SHARED_BYTES),
                         buffer=facts.beyond_l2 if is_global else 1 << 16, cold=is_global)
                )  # fmt: skip
    return found


def _memory_values(samples: Samples) -> list[Value]:
    """Return Table III: by width the issue and completion latency, and the bandwidth."""
    found = []
    for memory, key in (("global", "global_memory"), ("shared", "local_memory")):
        rows, used = [], []
        for width in WIDTHS:
            own = samples.of("lemeire_2016", f"{memory} {width} ilp ")
            if not own:
                continue
            cycles = [s.cycle / (s.counts["loads"] * s.counts["warps"]) for s in own]
            best = own[cycles.index(min(cycles))]
            moved = WARP * width * samples.facts.sm_count * best.core * 1e-3  # of a load [GB/s]
            rows.append((width, *map(rounded, (min(cycles), max(cycles), moved / min(cycles)))))
            used += own
        if rows:
            found.append(Value(f"model.lemeire.{key}", tuple(rows), "", "saturated", tuple(used),
                               note="Table III of Lemeire et al."))  # fmt: skip
    return found


def cycles_per_instruction(sample: Sample) -> float:
    """Return ``CPI_warp``: cycles of a multiprocessor for one instruction of one warp."""
    return sample.cycle / (sample.counts["instructions"] * sample.counts["warps"])


def latencies(samples: Samples, kind: str, parallelism: int) -> tuple[Sample, Sample] | None:
    """Return the samples of the issue latency (4) and of the completion latency (5)."""
    found = samples.of("lemeire_2016", f"{kind} ilp {parallelism} ")
    if not found:
        return None
    ordered = sorted(found, key=cycles_per_instruction)
    return ordered[0], ordered[-1]


def _latency(samples: Samples, kind: str, alone: Sample) -> Value:
    """Return the latency of a class: what a single warp's round takes more than a shorter round.

    Both have the loop's own instructions, which (5) counts to the chain.
    """
    rounds, copies, used = alone.cycle / STEPS, float(COPIES), [alone]
    short = samples.one("luo_suda_2011", f"cost {kind} {SHORT}")
    if short is not None and short.core == alone.core and alone.counts["warps"] == 1:
        rounds, copies = rounds - short.cycle / SHORT_STEPS, copies - SHORT
        used.append(short)
    return Value(f"microbenchmark.{kind}_latency", rounds / copies, "cycles", "dependent_chain",
                 tuple(used), alone.spread * rounds / copies)  # fmt: skip


def values(samples: Samples) -> list[Value]:
    """Return the table of latencies, and the same as measured values of the device."""
    rows: list[tuple[str, int, float, float]] = []
    used: list[Sample] = []
    found: list[Value] = []
    for kind, name in TYPES.items():
        pairs = {p: pair for p in PARALLELISM if (pair := latencies(samples, kind, p))}
        for parallelism, pair in pairs.items():
            of_issue, of_completion = (rounded(cycles_per_instruction(one)) for one in pair)
            rows.append((name, parallelism, of_issue, of_completion))
            used += pair
        if 1 in pairs:
            found.append(_latency(samples, kind, pairs[1][1]))
        if pairs:
            issue = min((pair[0] for pair in pairs.values()), key=cycles_per_instruction)
            cost = cycles_per_instruction(issue)
            found.append(Value.of_cycles(f"{kind}_issue", cost, "cycles", "saturated", issue))
    if rows:
        found.append(Value("model.lemeire.latencies", tuple(rows), "", "dependent_chain",
                           tuple(used), note="(4) and (5) of Lemeire et al."))  # fmt: skip
    return [*found, *_memory_values(samples)]
