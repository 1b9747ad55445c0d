"""Lemeire et al. 2016: occupancy roofline and pipeline model (issue and completion latency).

J. Lemeire, J. G. Cornelis and L. Segers, "Microbenchmarks for GPU characteristics: the occupancy
roofline and the pipeline model", 24th Euromicro International Conference on Parallel, Distributed,
and Network-Based Processing (PDP), 2016, doi:10.1109/PDP.2016.120.

Scope: a compute unit is two pipelines, one for computation and one for memory, each instruction
type with an issue latency (lambda, the next independent instruction) and a completion latency
(Lambda, the next dependent one). The paper measures both and explains; its forward use as a
prediction is derived here and labelled so: cycles per instruction of a warp among w concurrent ones
are ``max(Lambda / w, lambda)``, and a run takes the longest of the computation pipeline, the memory
pipeline and one warp's chain of dependent instructions. All taken branches of a warp are issued.

Errata (``corrected`` applies them, ``printed`` does not):

LE-1  361.2 Gop/s for the GT 640 does not follow from 2 x 192 x 900 MHz = 345.6 (a fact about data;
      the printed 691 GFLOP/s does).
LE-2  The printed shuffle draws from [index, length[ and is Fisher-Yates, which gives several
      cycles; Sattolo's, which the text names, draws from [index + 1, length[.
LE-3  concWG needs a floor, and where MaxConcWarps binds instrRun must use
      concWarps x actualWarpSize. As printed, work groups are fractions (13.107 of 5,000 bytes on
      the Quadro K620), and registers do not limit them; corrected takes the occupancy rules.
CLK   corrected re-expresses latencies of global memory at the swept clocks.

CPMR_CU and CPMR_warp (Section VI-D) are :func:`cpi_cu` and :func:`cpi_warp` with memInstrKernel in
the place of instrKernel.

Not in the paper: types without latencies of their own (integer, control, moves on devices for
which only floats were measured) take those of SP; an access that touches more sectors than a
consecutive one of its size takes proportionally longer to issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from sweep.fields import Field, Parameter
from sweep.hardware import derived
from sweep.hardware.clocks import latency, service_time
from sweep.models.base import Input, Model, Symbol, equations, symbols_of
from sweep.models.terms import COMPUTE, LATENCY, MEMORY, SHARED, parameter, provided
from sweep.models.workload import Array, Workload, mean, total

INPUTS = (
    provided("n_cu", "NbrCU", "compute units of the GPU", "n_sm"),
    provided("active_cu", "active CUs", "compute units that have work", "active_sm"),
    provided("max_conc_wg", "MaxConcWG", "most concurrent work groups on a compute unit",
             "limit_by_blocks"),
    provided("max_local_mem", "MaxLocalMem", "local memory of a compute unit",
             "shared_memory_per_sm"),
    provided("local_mem_size", "localMemSize", "local memory of a work group",
             "shared_memory_per_block"),
    provided("active_wg", "active work groups", "by the occupancy rules", "active_blocks_per_sm"),
    Input("max_conc_warps", "MaxConcWarps", "1", "most concurrent warps on a compute unit",
          "occupancy rules"),
    provided("wg", "WG", "work groups", "blocks"),
    provided("wg_size", "WGSize", "work items of a work group", "threads_per_block"),
    provided("warp_size", "WarpSize", "work items of a full warp"),
    Input("instructions", "instructions", "1", "instructions of a work item, memory included",
          "kernel instructions and accesses"),
    Input("count", "n", "1", "instructions of a warp", "kernel instructions", sequence=True),
    Input("issue", "lambda", "cycle", "issue latency", "device", ("latencies",), sequence=True),
    Input("completion", "Lambda", "cycle", "completion latency", "device", ("latencies",),
          sequence=True),
    Input("local_count", "n_local", "1", "local memory requests of a warp, conflicts included",
          "kernel shared accesses"),
    Input("local_issue", "lambda_local", "cycle", "issue latency of local memory", "device",
          ("local_memory",)),
    Input("local_completion", "Lambda_local", "cycle", "completion latency of local memory",
          "device", ("local_memory",)),
    Input("memory_count", "n_global", "1", "global memory requests of a warp",
          "kernel global accesses"),
    Input("memory_issue", "lambda_global", "cycle", "mean issue latency of global memory",
          "device, at the clocks", ("global_memory",), clocked=True, factor="issue_factor"),
    Input("memory_completion", "Lambda_global", "cycle", "mean completion latency",
          "device, at the clocks", ("global_memory",), clocked=True, factor="completion_factor"),
)  # fmt: skip

SYMBOLS = symbols_of(INPUTS) | {
    "n_pe": Symbol("NbrPE", "1", "processing elements of a type on a compute unit"),
    "clock": Symbol("ClockFrequency", "Hz", "core clock"),
    "work_items": Symbol("workItems", "1", "work items"),
    "runtime": Symbol("runtime", "s", "run time of the kernel"),
    "instr_kernel": Symbol("instrKernel", "1", "instructions of a work item"),
    "nbr_instructions": Symbol("nbrInstructions", "1", "instructions of all work items"),
    "completion_l1": Symbol("Lambda_L1", "cycle", "completion latency of the cache"),
    "completion_l2": Symbol("Lambda_L2", "cycle", "completion latency behind the cache"),
    "cache_size": Symbol("CacheSize", "B", "size of the cache"),
    "array_size": Symbol("arraySize", "B", "size of the walked array"),
    "mem_instr_kernel": Symbol("memInstrKernel", "1", "memory instructions of a work item"),
    "bytes_per_element": Symbol("bytesPerElement", "B", "bytes of an access"),
    "bandwidth": Symbol("bandwidth", "B/s", "bandwidth"),
    "conv_items": Symbol("convItems", "1", "consecutive work items that take one branch"),
    "n_branches": Symbol("branches", "1", "branches of the conditional"),
    "warp": Symbol("warp", "1", "number of the warp, from 0"),
    "branches_issued": Symbol("branches issued", "1", "branches that a warp issues"),
    "pipeline": Symbol("sum n*lambda*w", "cycle", "time of a pipeline in a run"),
    "chain": Symbol("sum n*Lambda", "cycle", "one warp's chain of dependent instructions"),
    "instr_run": Symbol("instrRun", "1", "instructions of a run, over its work items"),
}
_equation = equations("lemeire", SYMBOLS)

# --- Section III: the occupancy roofline ----------------------------------------------------------


@_equation("1", "PeakPerformance", "1/s", "peak instructions per second")
def peak(n_cu, n_pe, clock):
    """Peak instructions per second; a multiply-add counts as two operations."""
    return n_cu * n_pe * clock


@_equation("2", "local_mem_size")
def local_mem(max_local_mem, conc_wg):
    """Local memory that admits just so many concurrent work groups."""
    return np.floor(max_local_mem / conc_wg)


# --- Section V-B: the run model -------------------------------------------------------------------


@_equation("V-B")
def wg(work_items, wg_size):
    """Work groups."""
    return np.ceil(work_items / wg_size)


@_equation("V-B as printed", "concWG", "1", "concurrent work groups on a compute unit")
def conc_wg_printed(max_conc_wg, wg, max_local_mem, local_mem_size):
    """Concurrent work groups, possibly a fraction (LE-3)."""
    return min(min(max_conc_wg, wg), max_local_mem / local_mem_size)


@_equation("V-B", "concWG", "1", "concurrent work groups on a compute unit")
def conc_wg(max_conc_wg, wg, max_local_mem, local_mem_size):
    """Concurrent work groups (LE-3)."""
    return min(min(max_conc_wg, wg), np.floor(max_local_mem / local_mem_size))


@_equation("V-B", "warpsWG", "1", "warps of a work group")
def warps_wg(wg_size, warp_size):
    """Warps of a work group."""
    return np.ceil(wg_size / warp_size)


@_equation("V-B", "actualWarpSize", "1", "mean work items of a warp")
def actual_warp_size(wg_size, warps_wg):
    """Work items of a warp, partial warps included."""
    return wg_size / warps_wg


@_equation("V-B", "concWarps", "1", "concurrent warps on a compute unit")
def conc_warps(max_conc_warps, warps_wg, conc_wg):
    """Concurrent warps."""
    return min(max_conc_warps, warps_wg * conc_wg)


@_equation("V-B", "totalWarps", "1", "warps of the kernel")
def total_warps(work_items, actual_warp_size):
    """Warps of the kernel."""
    return work_items / actual_warp_size


@_equation("V-B", "runsCU", "1", "runs of a compute unit")
def runs_cu(total_warps, n_cu, conc_warps):
    """Runs that the busiest compute unit executes."""
    return np.ceil(total_warps / n_cu / conc_warps)


@_equation("V-B", "timeOfRun", "s", "time of one run")
def time_of_run(runtime, runs_cu):
    """Time of one run."""
    return runtime / runs_cu


@_equation("V-B", "cyclesOfRun", "cycle", "time of one run")
def cycles_of_run(time_of_run, clock):
    """Cycles of one run."""
    return time_of_run * clock


@_equation("V-B as printed", "instr_run")
def instr_run_printed(instr_kernel, wg_size, conc_wg):
    """Instructions of a run, too many where MaxConcWarps binds (LE-3)."""
    return instr_kernel * wg_size * conc_wg


@_equation("V-B")
def instr_run(instr_kernel, conc_warps, actual_warp_size):
    """Instructions of a run, over its work items (LE-3)."""
    return instr_kernel * conc_warps * actual_warp_size


@_equation("V-B", "CPI_CU", "cycle", "cycles per work item's instruction on a compute unit")
def cpi_cu(cycles_of_run, instr_run):
    """Cycles per work item's instruction."""
    return cycles_of_run / instr_run


@_equation("V-B", "CPI_warp", "cycle", "cycles per warp instruction")
def cpi_warp(cpi_cu, actual_warp_size):
    """Cycles per warp instruction."""
    return cpi_cu * actual_warp_size


@_equation("3", "CPI'_CU", "cycle", "CPI_CU if all units work throughout")
def cpi_cu_approximate(runtime, clock, nbr_instructions, n_cu):
    """Cycles per work item's instruction if the GPU is fully used throughout."""
    return runtime * clock / nbr_instructions * n_cu


@_equation("4", "issue")
def issue_latency(issue, cpi_warp):
    """Least CPI over experiments, one experiment at a time."""
    return min(issue, cpi_warp)


@_equation("5", "completion")
def completion_latency(completion, cpi_warp):
    """Largest CPI over experiments, one experiment at a time."""
    return max(completion, cpi_warp)


@_equation("V-D", "branches_issued")
def branches_issued(conv_items, n_branches, warp_size, warp):
    """Branches that a warp issues: all that one of its work items takes."""
    first = np.floor(warp * warp_size / conv_items)
    last = np.floor((warp * warp_size + warp_size - 1.0) / conv_items)
    return min(n_branches, last - first + 1.0)


# --- Section VI: memory ---------------------------------------------------------------------------


@_equation("6", "CPMR", "cycle", "cycles per memory request")
def cpmr(completion_l1, completion_l2, cache_size, array_size):
    """Cycles per request of a random walk over an array: a rounded step at the cache's size."""
    missed = 1.0 - cache_size / array_size
    beyond = completion_l1 + (completion_l2 - completion_l1) * missed
    return beyond if array_size >= cache_size else completion_l1


@_equation("VI-D", "bytesComm", "B", "bytes that the kernel moves")
def bytes_comm(work_items, mem_instr_kernel, bytes_per_element):
    """Bytes that a copy kernel moves."""
    return work_items * mem_instr_kernel * bytes_per_element


@_equation("VI-D", "bandwidth")
def bandwidth(bytes_comm, runtime):
    """Bandwidth of a copy kernel."""
    return bytes_comm / runtime


@_equation("7", "CPMR'", "cycle", "cycles per memory request of the whole GPU")
def cpmr_gpu(runtime, clock, work_items, mem_instr_kernel):
    """Cycles per memory request of the whole GPU (it lacks (3)'s number of compute units)."""
    return runtime * clock / (work_items * mem_instr_kernel)


# --- Forward use (derived) ------------------------------------------------------------------------


@_equation("derived", "cpi_warp")
def cpi_warp_at(completion, conc_warps, issue):
    """Cycles per instruction of a warp among concurrent ones: the occupancy roofline inverted."""
    return max(completion / conc_warps, issue)


@_equation("derived", "warps/s", "1/s", "warp instructions per second of a compute unit")
def throughput(clock, cpi_warp):
    """Warp instructions per second of a compute unit."""
    return clock / cpi_warp


@_equation("derived", "ridge point", "1", "work items from which on the peak is reached")
def ridge_point(completion, issue, warp_size):
    """Least work items less than 5 % from the peak; a lower bound of the measured ridge point."""
    return (np.floor(0.95 * completion / issue) + 1.0) * warp_size


@_equation("derived", "pipeline")
def pipeline_part(count, issue, conc_warps):
    """Time that one instruction type takes of its pipeline in a run."""
    return count * issue * conc_warps


@_equation("derived", "chain")
def chain_part(count, completion):
    """Time that one instruction type adds to a warp's chain."""
    return count * completion


def random_walk_array(
    length: int, rng: np.random.Generator, *, variant: str = "corrected"
) -> Array:
    """Return the array of a random walk: each element is the index of the next.

    ``"printed"`` follows the listing (several cycles), the others are Sattolo's algorithm: one
    cycle through the whole array (LE-2).

    Parameters
    ----------
    length : int
        Elements.
    rng : numpy.random.Generator
        Source of randomness.
    variant : str
        One of :data:`sweep.fields.VARIANTS`.
    """
    array = np.arange(length)
    for index in range(length - 1):
        low = index if variant == "printed" else index + 1
        swap = int(rng.integers(low, length))
        array[index], array[swap] = array[swap], array[index]
    return array


# --- The model -----------------------------------------------------------------------------------

REGIMES = {"lemeire_computation": 60, "lemeire_memory": 61, "lemeire_latency": 62}
COMPUTATION, MEMORY_PIPELINE, CHAIN = map(float, REGIMES.values())


def body(
    n_cu, active_cu, max_conc_wg, max_local_mem, local_mem_size, active_wg, max_conc_warps, wg,
    wg_size, warp_size, instructions, count, issue, completion, local_count, local_issue,
    local_completion, memory_count, memory_issue, memory_completion, corrected,
):  # fmt: skip
    """Join the equations."""
    WarpsWG = warps_wg(wg_size, warp_size)
    size = actual_warp_size(wg_size, WarpsWG)
    if corrected:
        conc = active_wg  # LE-3
    else:
        conc = conc_wg_printed(max_conc_wg, wg, max_local_mem, local_mem_size)
    w = conc_warps(max_conc_warps, WarpsWG, conc)
    total = total_warps(wg * wg_size, size)
    runs = runs_cu(total, n_cu, w)
    computation = 0.0
    chain = chain_part(local_count, local_completion)
    chain += chain_part(memory_count, memory_completion)
    for i in range(len(count)):
        computation += pipeline_part(count[i], issue[i], w)
        chain += chain_part(count[i], completion[i])
    local = pipeline_part(local_count, local_issue, w)
    memory = pipeline_part(memory_count, memory_issue, w)
    served = local + memory
    run = max(max(computation, served), chain)
    cycles = run * runs

    by_memory = served >= computation
    longest = MEMORY_PIPELINE if by_memory else COMPUTATION
    regime = CHAIN if chain >= max(computation, served) else longest
    pipeline = (SHARED if local > memory else MEMORY) if by_memory else COMPUTE
    bound = LATENCY if chain >= max(computation, served) else pipeline
    CPI = cycles / (instructions * total / active_cu)
    used = active_cu / n_cu / run
    return {
        "execution_cycles": cycles,
        "cycles_per_instruction": CPI,
        "core_activity": min(1.0, computation * used),
        "memory_activity": min(1.0, memory * used),
        "regime": regime,
        "bound": bound,
        "concurrent_warps": w,
        "runs": runs,
        "run_cycles": run,
        "chain_cycles": chain,
    }


TYPES = {"fp32": "sp", "fp64": "dp", "special": "sf", "integer": "int", "conversion": "int",
         "control": "int", "move": "int", "matrix": "sp", "computation": "sp",
         "barrier": "int"}  # fmt: skip
"""Instruction classes of kernel files and the paper's instruction types."""


def _latencies(work: Workload, kind: str, ilp: float, count: Array) -> list[Array]:
    """Return issue and completion latency of a type per device; SP stands in for INT.

    A device need not know the latency of what the kernel does not execute.
    """
    pairs = []
    for table in work.tables["latencies"]:
        rows = {(str(row[0]), float(row[1])): row[2:4] for row in table or ()}
        wanted = [(kind, ilp), (kind, 1.0)]
        wanted += [("sp", ilp), ("sp", 1.0)] if kind == "int" else []
        pairs.append(next((rows[key] for key in wanted if key in rows), (np.nan, np.nan)))
    columns = map(work.by_device, zip(*pairs, strict=True))
    return [np.where(np.isfinite(own) | (count > 0), own, 0.0) for own in columns]


def _at_width(column: int, table: Any, size: Array) -> Array:
    """Return a column of a device's table of global memory at the width of an access."""
    columns = np.array(table or [[np.nan] * 4], dtype=np.float64).T
    return np.interp(size, columns[0], columns[column])


def _memory(work: Workload) -> dict[str, Array]:
    """Return requests of a warp, and their mean issue and completion latency at nominal clocks."""
    at_width = [partial(_at_width, column) for column in (1, 2)]
    requests = issue = completion = np.zeros_like(work.n_sm)
    for access in work.global_accesses:
        ideal = np.maximum(np.ceil(access.bytes * work.lanes / 32.0), 1.0)
        lam, Lam = (work.per_device(at, "global_memory", access.bytes) for at in at_width)
        issue = issue + access.count * lam * np.maximum(access.sectors / ideal, 1.0)
        completion = completion + access.count * Lam
        requests = requests + access.count
    return {
        "memory_count": requests,
        "memory_issue": mean(issue, requests, 0.0),
        "memory_completion": mean(completion, requests, 0.0),
    }


def _prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into warp instructions per type with their latencies."""
    ilp = float(work.options.get("ilp", "1"))
    counts = dict(work.instructions)
    local = np.zeros_like(work.n_sm)
    if "computation" not in counts:  # else they are in that number already
        counts["barrier"] = work.barriers
        local = total(local, work.shared_accesses, "count", "degree")
    latencies = [_latencies(work, TYPES[name], ilp, count) for name, count in counts.items()]
    issue, completion = map(list, zip(*latencies, strict=True))
    # Local memory has the latencies of the narrowest width.
    narrowest = [(table or ((np.nan,) * 3,))[0] for table in work.tables["local_memory"]]
    memory = _memory(work)
    one, ratio = np.ones_like(work.n_sm), work.clocks.seen_by(variant).ratio
    return memory | {
        "max_conc_warps": work.most_warps,
        "instructions": work.computation_instructions + memory["memory_count"],
        "count": list(counts.values()),
        "issue": issue,
        "completion": completion,
        "local_count": local,
        "local_issue": np.where(local > 0, work.by_device([row[1] for row in narrowest]), 0.0),
        "local_completion": np.where(local > 0, work.by_device([row[2] for row in narrowest]), 0.0),
        "issue_factor": service_time(one, ratio),
        "completion_factor": latency(one, ratio, work.dram_share),
    }


def _facts(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return latencies: of words of 4 bytes, and of single precision at ILP 1."""
    widths = {float(row[0]): row[2] for row in own.get("global_memory", ())}
    types = {(row[0], float(row[1])): row[3] for row in own.get("latencies", ())}
    return {
        "dram_latency": widths.get(4.0),
        "shared_latency": next((row[2] for row in own.get("local_memory", ())), None),
        "instruction_latency": types.get(("sp", 1.0)),
    }


def global_memory(device: derived.DeviceFacts) -> derived.Value | None:
    """Issue latency: a warp's bytes at the unit's share of the bandwidth; completion: DRAM's."""
    latency = derived.dram_latency(device)
    warp = device.number("chip.warp_size")
    one = derived.service(device, 1.0)
    if latency is None or one is None or not warp:
        return None
    return tuple(
        (width, one * max(width * warp, derived.SECTOR), max(latency, one * width * warp),
         (device.values["chip.memory_bandwidth"]) / 1e9)
        for width in (1.0, 2.0, 4.0, 8.0, 16.0)
    )  # fmt: skip


def local_memory(device: derived.DeviceFacts) -> derived.Value | None:
    """Issue latency: threads of a warp over banks of shared memory; completion: its latency."""
    latency = derived.shared_latency(device)
    banks, warp, core, n_sm = map(
        device.number,
        ("chip.shared_banks", "chip.warp_size", "clocks.core_nominal", "chip.sm_count"),
    )
    if latency is None or not banks or not warp or not core or not n_sm:
        return None
    return ((4.0, warp / banks, latency, 4.0 * banks * core * n_sm / 1e9),)


def _table(
    key: str, meaning: str, columns: tuple[str, ...], rule: derived.Rule | None = None
) -> Parameter:
    """Return a parameter that is a table of rows; without a rule the model does not need it."""
    symbol = ("lambda, Lambda", "cycle", meaning)
    return parameter(key, symbol, 0, 1e6, rule, columns, required=rule is not None)


BY_WIDTH = ("width_bytes", "issue_cycles", "completion_cycles", "bandwidth_GBps")

MODEL = Model(
    name="lemeire",
    title="occupancy roofline and pipeline model",
    reference=(
        "J. Lemeire, J. G. Cornelis and L. Segers, Microbenchmarks for GPU characteristics: "
        "the occupancy roofline and the pipeline model, PDP 2016"
    ),
    doi="10.1109/PDP.2016.120",
    purpose="how far latency and occupancy keep a kernel from the roofline",
    accuracy=(39, 9.7, 1.9),
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("concurrent_warps", "1", "warps on a compute unit at once", "concWarps", "(V-B)"),
        Field("runs", "1", "runs, each of the warps that a compute unit holds", "runsCU", "(V-B)"),
        Field("run_cycles", "cycle", "time of one run", "cyclesOfRun", "(derived)"),
        Field("chain_cycles", "cycle", "time of one warp's chain of dependent instructions",
              "sum n*Lambda", "(derived)"),
    ),
    regimes=REGIMES,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    facts=_facts,
    parameters=(
        _table("latencies", "latencies of an instruction type by ILP",
               ("type_name", "ilp", "issue_cycles", "completion_cycles"), derived.type_latencies),
        _table("global_memory", "global memory by width", BY_WIDTH, global_memory),
        _table("local_memory", "local memory by width", BY_WIDTH, local_memory),
        _table("constant_memory", "constant memory by width", BY_WIDTH),
        _table("performance", "measured Gop/s by ILP", ("type_name", "ilp", "rate_Gop")),
        _table("ridge_points", "measured work items at the ridge by ILP",
               ("type_name", "ilp", "work_items")),
        _table("processing_elements", "processing elements of a compute unit",
               ("type_name", "elements")),
        parameter("constant_miss_latency_cycles",
                  ("Lambda_L2", "cycle", "constant memory behind its cache"), 0, 1e5,
                  required=False),
        parameter("constant_cache_KiB", ("CacheSize", "KiB", "constant cache"), 0, 1e4,
                  required=False),
        parameter("private_latency_cycles", ("Lambda", "cycle", "private memory"), 0, 1e5,
                  required=False),
    ),
    errata={
        "LE-2": "Sattolo's shuffle (random_walk_array)",
        "LE-3": "whole work groups by the occupancy rules, concWarps x actualWarpSize in instrRun",
        "CLK": "latencies of global memory follow the swept clocks",
    },
    options={"ilp": ("1", "2", "4")},
)  # fmt: skip
