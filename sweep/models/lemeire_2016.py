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

Errata (``variant="corrected"`` applies them, ``"printed"`` does not):

LE-1  361.2 Gop/s for the GT 640 does not follow from 2 x 192 x 900 MHz = 345.6 (a fact about data;
      the printed 691 GFLOP/s does).
LE-2  The printed shuffle draws from [index, length[ and is Fisher-Yates, which gives several
      cycles; Sattolo's, which the text names, draws from [index + 1, length[.
LE-3  concWG needs a floor, and where MaxConcWarps binds instrRun must use
      concWarps x actualWarpSize. As printed, registers do not limit the concurrent work groups;
      corrected takes the occupancy rules.
CLK   corrected re-expresses latencies of global memory at the swept clocks.

Not in the paper: types without latencies of their own (integer, control, moves on devices for
which only floats were measured) take those of SP; an access that touches more sectors than a
consecutive one of its size takes proportionally longer to issue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep.fields import BOUND, Field, Parameter
from sweep.hardware.clocks import latency, service_time
from sweep.models.base import Input, Model, Symbol, equations, symbols_of
from sweep.models.workload import Array, Workload

INPUTS = (
    Input("n_cu", "NbrCUs", "1", "compute units of the GPU", "device", ("chip.sm_count",)),
    Input("active_cu", "active CUs", "1", "compute units that have work", "occupancy rules"),
    Input("max_conc_wg", "MaxConcWG", "1", "most concurrent work groups on a compute unit",
          "occupancy rules"),
    Input("conc_wg", "concWG", "1", "concurrent work groups on a compute unit",
          "occupancy rules, by local memory"),
    Input("active_wg", "active work groups", "1", "by the occupancy rules", "occupancy rules"),
    Input("max_conc_warps", "MaxConcWarps", "1", "most concurrent warps on a compute unit",
          "occupancy rules"),
    Input("wg", "WG", "1", "work groups", "kernel launch"),
    Input("wg_size", "WGSize", "1", "work items of a work group", "kernel launch"),
    Input("warp_size", "WarpSize", "1", "work items of a full warp", "device", ("chip.warp_size",)),
    Input("instructions", "instructions", "1", "instructions of a work item, memory included",
          "kernel instructions and accesses"),
    Input("count", "n", "1", "instructions of a warp", "kernel instructions", sequence=True),
    Input("issue", "lambda", "cycle", "issue latency", "device", ("latencies",), sequence=True),
    Input("completion", "Lambda", "cycle", "completion latency",
          "device", ("latencies",), sequence=True),
    Input("local_count", "n_local", "1", "local memory requests of a warp, conflicts included",
          "kernel shared accesses"),
    Input("local_issue", "lambda_local", "cycle", "issue latency of local memory",
          "device", ("local_memory",)),
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
    "n_pe": Symbol("NbrPEs", "1", "processing elements of a type on a compute unit"),
    "clock": Symbol("ClockFrequency", "Hz", "core clock"),
    "peak": Symbol("peak", "1/s", "peak instructions per second"),
    "max_local_mem": Symbol("MaxLocalMem", "B", "local memory of a compute unit"),
    "local_mem_size": Symbol("localMemSize", "B", "local memory of a work group"),
    "work_items": Symbol("workItems", "1", "work items"),
    "warps_wg": Symbol("warpsWG", "1", "warps of a work group"),
    "actual_warp_size": Symbol("actualWarpSize", "1", "mean work items of a warp"),
    "conc_warps": Symbol("concWarps", "1", "concurrent warps on a compute unit"),
    "total_warps": Symbol("totalWarps", "1", "warps of the kernel"),
    "runs_cu": Symbol("runsCU", "1", "runs of a compute unit"),
    "runtime": Symbol("runtime", "s", "run time of the kernel"),
    "time_of_run": Symbol("timeOfRun", "s", "time of one run"),
    "cycles_of_run": Symbol("cyclesOfRun", "cycle", "time of one run"),
    "instr_kernel": Symbol("instrKernel", "1", "instructions of a work item"),
    "instr_run": Symbol("instrRun", "1", "instructions of a run, over its work items"),
    "nbr_instructions": Symbol("nbrInstructions", "1", "instructions of all work items"),
    "cpi_cu": Symbol("CPI_CU", "cycle", "cycles per work item's instruction on a compute unit"),
    "cpi_warp": Symbol("CPI_warp", "cycle", "cycles per warp instruction"),
    "completion_l1": Symbol("Lambda_L1", "cycle", "completion latency of the cache"),
    "completion_l2": Symbol("Lambda_L2", "cycle", "completion latency behind the cache"),
    "cache_size": Symbol("CacheSize", "B", "size of the cache"),
    "array_size": Symbol("arraySize", "B", "size of the walked array"),
    "cpmr": Symbol("CPMR", "cycle", "cycles per memory request"),
    "mem_instr_kernel": Symbol("memInstrKernel", "1", "memory instructions of a work item"),
    "bytes_per_element": Symbol("bytesPerElement", "B", "bytes of an access"),
    "bytes_comm": Symbol("bytesComm", "B", "bytes that the kernel moves"),
    "bandwidth": Symbol("bandwidth", "B/s", "bandwidth"),
    "throughput": Symbol("warps/s", "1/s", "warp instructions per second of a compute unit"),
    "ridge_point": Symbol("ridge point", "1", "work items from which on the peak is reached"),
    "conv_items": Symbol("convItems", "1", "consecutive work items that take one branch"),
    "n_branches": Symbol("branches", "1", "branches of the conditional"),
    "warp": Symbol("warp", "1", "number of the warp, from 0"),
    "branches_issued": Symbol("branches issued", "1", "branches that a warp issues"),
    "pipeline": Symbol("sum n*lambda*w", "cycle", "time of a pipeline in a run"),
    "chain": Symbol("sum n*Lambda", "cycle", "one warp's chain of dependent instructions"),
}
_equation = equations("lemeire", SYMBOLS)

# --- Section III: the occupancy roofline ----------------------------------------------------------


@_equation("1")
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


@_equation("V-B as printed", "conc_wg")
def conc_wg_printed(max_conc_wg, wg, max_local_mem, local_mem_size):
    """Concurrent work groups, possibly a fraction (LE-3)."""
    return min(min(max_conc_wg, wg), max_local_mem / local_mem_size)


@_equation("V-B")
def conc_wg(max_conc_wg, wg, max_local_mem, local_mem_size):
    """Concurrent work groups (LE-3)."""
    return min(min(max_conc_wg, wg), np.floor(max_local_mem / local_mem_size))


@_equation("V-B")
def warps_wg(wg_size, warp_size):
    """Warps of a work group."""
    return np.ceil(wg_size / warp_size)


@_equation("V-B")
def actual_warp_size(wg_size, warps_wg):
    """Work items of a warp, partial warps included."""
    return wg_size / warps_wg


@_equation("V-B")
def conc_warps(max_conc_warps, warps_wg, conc_wg):
    """Concurrent warps."""
    return min(max_conc_warps, warps_wg * conc_wg)


@_equation("V-B")
def total_warps(work_items, actual_warp_size):
    """Warps of the kernel."""
    return work_items / actual_warp_size


@_equation("V-B")
def runs_cu(total_warps, n_cu, conc_warps):
    """Runs that the busiest compute unit executes."""
    return np.ceil(total_warps / n_cu / conc_warps)


@_equation("V-B")
def time_of_run(runtime, runs_cu):
    """Time of one run."""
    return runtime / runs_cu


@_equation("V-B")
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


@_equation("V-B")
def cpi_cu(cycles_of_run, instr_run):
    """Cycles per work item's instruction."""
    return cycles_of_run / instr_run


@_equation("V-B")
def cpi_warp(cpi_cu, actual_warp_size):
    """Cycles per warp instruction."""
    return cpi_cu * actual_warp_size


@_equation("3", "cpi_cu")
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


@_equation("6")
def cpmr(completion_l1, completion_l2, cache_size, array_size):
    """Cycles per request of a random walk over an array: a rounded step at the cache's size."""
    missed = 1.0 - cache_size / array_size
    beyond = completion_l1 + (completion_l2 - completion_l1) * missed
    return beyond if array_size >= cache_size else completion_l1


@_equation("7")
def bytes_comm(work_items, mem_instr_kernel, bytes_per_element):
    """Bytes that a copy kernel moves."""
    return work_items * mem_instr_kernel * bytes_per_element


@_equation("7", "bandwidth")
def bandwidth(bytes_comm, runtime):
    """Bandwidth of a copy kernel."""
    return bytes_comm / runtime


@_equation("7", "cpmr")
def cpmr_gpu(runtime, clock, work_items, mem_instr_kernel):
    """Cycles per memory request of the whole GPU (it lacks (3)'s number of compute units)."""
    return runtime * clock / (work_items * mem_instr_kernel)


# --- Forward use (derived) ------------------------------------------------------------------------


@_equation("derived", "cpi_warp")
def cpi_warp_at(completion, conc_warps, issue):
    """Cycles per instruction of a warp among concurrent ones: the occupancy roofline inverted."""
    return max(completion / conc_warps, issue)


@_equation("derived")
def throughput(clock, cpi_warp):
    """Warp instructions per second of a compute unit."""
    return clock / cpi_warp


@_equation("derived")
def ridge_point(completion, issue, warp_size):
    """Least work items within 5 % of the peak; a lower bound of the measured ridge point."""
    return np.ceil(0.95 * completion / issue) * warp_size


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

    ``"printed"`` follows the listing (several cycles), ``"corrected"`` is Sattolo's algorithm: one
    cycle through the whole array (LE-2).

    Parameters
    ----------
    length : int
        Elements.
    rng : numpy.random.Generator
        Source of randomness.
    variant : str
        ``"corrected"`` or ``"printed"``.
    """
    array = np.arange(length)
    for index in range(length - 1):
        low = index + 1 if variant == "corrected" else index
        swap = int(rng.integers(low, length))
        array[index], array[swap] = array[swap], array[index]
    return array


# --- The model -----------------------------------------------------------------------------------

REGIMES = {"lemeire_computation": 60, "lemeire_memory": 61, "lemeire_latency": 62}
COMPUTATION, MEMORY_PIPELINE, CHAIN = (float(code) for code in REGIMES.values())
COMPUTE, MEMORY, SHARED, LATENCY = (
    float(BOUND[name]) for name in ("compute", "memory", "shared", "latency")
)


def body(
    n_cu, active_cu, max_conc_wg, conc_wg, active_wg, max_conc_warps, wg, wg_size, warp_size,
    instructions, count, issue, completion, local_count, local_issue, local_completion,
    memory_count, memory_issue, memory_completion, corrected,
):  # fmt: skip
    """Join the equations."""
    WarpsWG = warps_wg(wg_size, warp_size)
    size = actual_warp_size(wg_size, WarpsWG)
    # Registers limit the concurrent work groups in the occupancy rules only (LE-3).
    conc = active_wg if corrected else min(min(max_conc_wg, wg), conc_wg)
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
    core_activity = min(1.0, computation * used)
    memory_activity = min(1.0, memory * used)
    return {
        "execution_cycles": cycles,
        "cycles_per_instruction": CPI,
        "core_activity": core_activity,
        "memory_activity": memory_activity,
        "regime": regime,
        "bound": bound,
        "concurrent_warps": w,
        "runs": runs,
        "run_cycles": run,
        "chain_cycles": chain,
    }


TYPES = {"fp32": "sp", "fp64": "dp", "special": "sf", "integer": "int", "conversion": "int",
         "control": "int", "move": "int", "computation": "sp", "barrier": "int"}  # fmt: skip
"""Instruction classes of kernel files and the paper's instruction types."""


def _latencies(work: Workload, kind: str, ilp: float) -> tuple[Array, Array]:
    """Return issue and completion latency of a type per device; SP stands in for INT."""
    pairs = []
    for table in work.tables["latencies"]:
        rows = {(str(row[0]), float(row[1])): row[2:4] for row in table or ()}
        wanted = [(kind, ilp), (kind, 1.0)]
        wanted += [("sp", ilp), ("sp", 1.0)] if kind == "int" else []
        pairs.append(next((rows[key] for key in wanted if key in rows), (np.nan, np.nan)))
    shape = (len(pairs),) + (1,) * (work.n_sm.ndim - 1)
    issue, completion = np.array(pairs, dtype=np.float64).T
    return issue.reshape(shape), completion.reshape(shape)


def _memory(work: Workload) -> tuple[Array, Array, Array]:
    """Return requests of a warp, and their mean issue and completion latency at nominal clocks."""
    requests = np.zeros_like(work.n_sm)
    issue, completion = requests, requests
    for access in work.global_accesses:
        size = access.bytes
        ideal = np.maximum(np.ceil(size * work.lanes / 32.0), 1.0)
        parts = []
        for i, table in enumerate(work.tables["global_memory"]):
            one = size[i : i + 1] if size.shape[0] > 1 else size
            if table:
                widths, lambdas, completions, _ = np.array(table, dtype=np.float64).T
                parts.append((np.interp(one, widths, lambdas), np.interp(one, widths, completions)))
            else:
                parts.append((np.full_like(one, np.nan), np.full_like(one, np.nan)))
        lam = np.concatenate([part[0] for part in parts])
        Lam = np.concatenate([part[1] for part in parts])
        issue = issue + access.count * lam * np.maximum(access.sectors / ideal, 1.0)
        completion = completion + access.count * Lam
        requests = requests + access.count
    some = requests > 0
    divisor = np.where(some, requests, 1.0)
    return (requests, np.where(some, issue / divisor, 0.0),
            np.where(some, completion / divisor, 0.0))  # fmt: skip


def _local(work: Workload) -> tuple[Array, Array]:
    """Return issue and completion latency of local memory per device, of the narrowest width."""
    rows = [table[0][1:3] if table else (np.nan, np.nan) for table in work.tables["local_memory"]]
    shape = (len(rows),) + (1,) * (work.n_sm.ndim - 1)
    issue, completion = np.array(rows, dtype=np.float64).T
    return issue.reshape(shape), completion.reshape(shape)


def _prepare(work: Workload, variant: str) -> dict[str, Array | list[Array]]:
    """Turn a workload into warp instructions per type with their latencies."""
    ilp = float(work.options.get("ilp", "1"))
    counts = dict(work.instructions)
    if "computation" not in counts:
        counts["barrier"] = work.barriers
    zero = np.zeros_like(work.n_sm)
    sequence = []
    for name, count in counts.items():
        issue, completion = _latencies(work, TYPES[name], ilp)
        # A device need not know the latency of what the kernel does not execute.
        sequence.append((count, np.where(count > 0, issue, 0.0),
                         np.where(count > 0, completion, 0.0)))  # fmt: skip
    local = zero
    if "computation" not in counts:  # else they are in that number already
        local = sum((a.count * a.degree for a in work.shared_accesses), start=zero)
    requests, issue, completion = _memory(work)
    one = np.ones_like(work.n_sm)
    if variant == "corrected":  # rule CLK
        of_issue = service_time(one, work.clocks.ratio)
        of_completion = latency(one, work.clocks.ratio, work.dram_share)
    else:
        of_issue = of_completion = one
    launch = work.occupancy
    share = launch.occupancy
    # A launch that fails is no lack of parameters.
    held = np.where(share > 0, launch.active_warps_per_sm / share, 1.0)
    local_rows = _local(work)
    return {
        "n_cu": work.n_sm,
        "active_cu": launch.active_sm,
        "max_conc_wg": launch.limit_by_blocks,
        "conc_wg": launch.limit_by_shared_memory,
        "active_wg": launch.active_blocks_per_sm,
        "max_conc_warps": held,
        "wg": work.blocks,
        "wg_size": work.threads_per_block,
        "warp_size": work.warp_size,
        "instructions": work.computation_instructions + requests,
        "count": [s[0] for s in sequence],
        "issue": [s[1] for s in sequence],
        "completion": [s[2] for s in sequence],
        "local_count": local,
        "local_issue": np.where(local > 0, local_rows[0], 0.0),
        "local_completion": np.where(local > 0, local_rows[1], 0.0),
        "memory_count": requests,
        "memory_issue": issue,
        "memory_completion": completion,
        "issue_factor": of_issue,
        "completion_factor": of_completion,
    }


_WIDTHS = ("width_bytes", "issue_cycles", "completion_cycles", "bandwidth_GBps")


def _rows(key: str, meaning: str, *columns: str, required: bool = True) -> Parameter:
    return Parameter(key, "lambda, Lambda", "cycle", meaning, required, 0, 1e6, columns)


def _facts(own: Mapping[str, Any]) -> dict[str, Any]:
    """Return latencies: of words of 4 bytes, and of single precision at ILP 1."""
    widths = {float(row[0]): row[2] for row in own.get("global_memory", ())}
    types = {(row[0], float(row[1])): row[3] for row in own.get("latencies", ())}
    return {
        "dram_latency": widths.get(4.0),
        "shared_latency": next((row[2] for row in own.get("local_memory", ())), None),
        "instruction_latency": types.get(("sp", 1.0)),
    }


MODEL = Model(
    name="lemeire",
    title="occupancy roofline and pipeline model",
    reference=(
        "J. Lemeire, J. G. Cornelis and L. Segers, Microbenchmarks for GPU characteristics: the "
        "occupancy roofline and the pipeline model, PDP 2016"
    ),
    doi="10.1109/PDP.2016.120",
    symbols=SYMBOLS,
    inputs=INPUTS,
    fields=(
        Field("concurrent_warps", "1", "concurrent warps on a compute unit", "concWarps",
              "lemeire (V-B)"),
        Field("runs", "1", "runs of a compute unit", "runsCU", "lemeire (V-B)"),
        Field("run_cycles", "cycle", "time of one run", "cyclesOfRun", "lemeire (derived)"),
        Field("chain_cycles", "cycle", "one warp's chain of dependent instructions", "sum n*Lambda",
              "lemeire (derived)"),
    ),
    regimes=REGIMES,
    facts=_facts,
    bodies={"corrected": body, "printed": body},
    prepare=_prepare,
    parameters=(
        _rows("latencies", "latencies of an instruction type by ILP", "type_name", "ilp",
              "issue_cycles", "completion_cycles"),
        _rows("global_memory", "global memory by width", *_WIDTHS),
        _rows("local_memory", "local memory by width", *_WIDTHS),
        _rows("constant_memory", "constant memory by width", *_WIDTHS, required=False),
        _rows("performance", "measured Gop/s by ILP", "type_name", "ilp", "rate_Gop",
              required=False),
        _rows("ridge_points", "measured work items at the ridge by ILP", "type_name", "ilp",
              "work_items", required=False),
        _rows("processing_elements", "processing elements of a compute unit", "type_name",
              "elements", required=False),
        Parameter("constant_miss_latency_cycles", "Lambda_L2", "cycle",
                  "constant memory behind its cache", required=False, maximum=1e5),
        Parameter("constant_cache_KiB", "CacheSize", "KiB", "constant cache", required=False,
                  maximum=1e4),
        Parameter("private_latency_cycles", "Lambda", "cycle", "private memory", required=False,
                  maximum=1e5),
    ),
    errata={
        "LE-2": "Sattolo's shuffle (random_walk_array)",
        "LE-3": "whole work groups by the occupancy rules, concWarps x actualWarpSize in instrRun",
        "CLK": "latencies of global memory follow the swept clocks",
    },
    options={"ilp": ("1", "2", "4")},
)  # fmt: skip
