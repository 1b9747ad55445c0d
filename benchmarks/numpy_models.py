"""The corrected equations of all models in plain NumPy, for comparison with compiled passes.

They are written as one would without a compiler: every line is an array expression, piecewise cases
use ``np.where``, and small tables are broadcast late, so that values that depend on few axes stay
small. The inputs are the tables of the compiled passes, so that only the evaluation is compared.
:func:`whole_grid` evaluates the grid at once, :func:`in_blocks` in cache-sized blocks on several
threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.numpy_sequences import combined, lemeire, luo_suda, zhang_owens

Array = NDArray[Any]
Tables = Mapping[str, Array]
Index = tuple[slice, ...]

OUTPUTS = ("execution_time", "execution_cycles", "cycles_per_instruction", "power", "energy")
"""Five outputs of all models."""

N_TASKS = 16
"""Tasks for the threads: few enough to cost nothing, enough to keep all threads busy."""


def hong_kim(t: Tables) -> tuple[Array, Array, Array, Array]:
    """Return cycles, cycles per instruction, core and memory activity of Hong & Kim 2009."""
    n, uncoal, coal, insts = t["n"], t["uncoal_mem_insts"], t["coal_mem_insts"], t["comp_insts"]
    mem_insts = uncoal + coal
    total_insts = insts + mem_insts
    weight_uncoal, weight_coal = uncoal / mem_insts, coal / mem_insts
    mem_l_coal = t["mem_ld"]  # (11)
    mem_l_uncoal = mem_l_coal + (t["uncoal_per_mw"] - 1.0) * t["departure_del_uncoal"]  # (10)
    mem_l = mem_l_uncoal * weight_uncoal + mem_l_coal * weight_coal  # (12)
    departure_delay = (  # (15)
        t["departure_del_uncoal"] * t["uncoal_per_mw"] * weight_uncoal
        + t["departure_del_coal"] * weight_coal
    )
    mwp_without_bw = np.minimum(mem_l / departure_delay, n)  # (16), (17)
    bw_per_warp = t["core_freq"] * t["load_bytes_per_warp"] / mem_l  # (7)
    mwp_peak_bw = t["mem_bandwidth"] / (bw_per_warp * t["active_sm"])  # (6)
    mwp = np.minimum(np.minimum(mwp_without_bw, mwp_peak_bw), n)  # (5)
    mem_cycles = mem_l_uncoal * uncoal + mem_l_coal * coal  # (18)
    comp_cycles = t["issue_cycles"] * total_insts  # (19)
    cwp = np.minimum((mem_cycles + comp_cycles) / comp_cycles, n)  # (8), (9)
    rep = t["blocks"] / (t["active_blocks_per_sm"] * t["active_sm"])  # (21)
    issued = n * rep * t["active_sm"] / t["n_sm"]
    rep = np.maximum(1.0, rep)
    overlapped = np.maximum(mwp - 1.0, 0.0)

    period = comp_cycles / np.maximum(mem_insts, 1.0)
    eq22 = (np.maximum(mem_cycles, mem_l) + comp_cycles + period * (n - 1.0)) * rep
    eq23 = (mem_cycles * n / mwp + period * overlapped) * rep
    eq24 = (mem_l + comp_cycles * n) * rep
    least = np.where(cwp == n, eq22, eq24)
    cycles = np.where(eq23 >= least, eq23, least)
    barriers = t["synch_insts"]
    synch = departure_delay * overlapped * barriers * t["active_blocks_per_sm"] * rep  # (26)
    unlimited = np.maximum(mwp_without_bw - 1.0, 0.0)
    free23 = (mem_cycles * n / mwp_without_bw + period * unlimited) * rep
    free_synch = departure_delay * unlimited * barriers * t["active_blocks_per_sm"] * rep
    synch = np.maximum(synch, free_synch - (cycles - np.maximum(free23, least)))
    memory_busy = np.maximum(departure_delay, mem_l / mwp_peak_bw) * mem_insts
    no_memory = mem_insts == 0.0
    if no_memory.any():
        cycles = np.where(no_memory, comp_cycles * n * rep, cycles)
        synch = np.where(no_memory, 0.0, synch)
        memory_busy = np.where(no_memory, 0.0, memory_busy)
    total = cycles + synch  # (27)
    warps = t["threads_per_block"] / t["threads_per_warp"]
    cpi = total / (total_insts * warps * (t["blocks"] / t["active_sm"]))  # (25)
    used = issued / total
    core_activity = np.minimum(1.0, comp_cycles * used)
    return total, cpi, core_activity, np.minimum(1.0, memory_busy * used)


def wang_chu(t: Tables) -> tuple[Array, Array, Array, Array]:
    """Return cycles, cycles per instruction, core and memory activity of Wang & Chu 2017."""
    aw, wpb, hit = t["aw"], t["wpb"], t["l2_hr"]
    ratio, o_itrs, sh_lat = t["frequency_ratio"], t["o_itrs"], t["sh_lat"]
    fitted = t["uses_fit"] == 1.0
    fit = t["dm_lat_slope"] * ratio + t["dm_lat_intercept"]  # (4)
    lat = t["l2_lat"] * hit + np.where(fitted, fit, t["dm_lat"]) * np.where(fitted, 1.0, ratio) * (
        1.0 - hit
    )  # (5a)
    delay = t["l2_del"] * hit + t["dm_del"] * ratio * (1.0 - hit)  # (5b)
    sectors = t["gld_trans"] * o_itrs
    k = t["transactions_per_request"]
    periods = sectors / k
    d = k * delay
    per_period = t["comp_inst"] / periods  # (7a)
    c, cl = t["issue_cycles"] * per_period, t["inst_latency"] * per_period  # (7b)

    shared = t["uses_shared"] == 1.0
    cycles = c * aw * periods + lat  # (9)
    if not shared.all():
        eq11 = lat + cl + d * aw * periods
        eq13 = d * aw + lat + cl + (cl + lat) * (periods - 1.0)
        eq15 = c * (aw - 1.0) + (cl + lat) * periods
        largest = np.maximum(np.maximum(eq13, eq15), eq11)
        cycles = np.where(shared, cycles, np.maximum(cycles, largest))
    if shared.any():
        border = np.maximum(c, (c + sh_lat) / (aw - wpb))  # (16)
        served = np.where(d <= border, delay, border / k)
        eq17 = cl + lat + delay * aw * sectors
        phase1 = c * 2.0 + served * t["gld_trans"] * aw + lat + sh_lat
        phase2 = c * (wpb - 1.0) + cl * (t["gld_trans"] / k) + sh_lat * t["i_itrs"]
        phase3 = c * 2.0 + served * t["gld_trans"] * wpb + lat + sh_lat
        eq21 = phase1 + (phase2 + phase3) * o_itrs
        cycles = np.where(shared, np.maximum(cycles, np.maximum(eq17, eq21)), cycles)
    no_memory = sectors == 0.0
    if no_memory.any():
        cycles = np.where(no_memory, t["issue_cycles"] * t["comp_inst"] * aw, cycles)
    total = cycles * np.maximum(1.0, wpb * t["blocks"] / (aw * t["n_sm"]))  # (6)

    requests = sectors / k
    cpi = total / ((t["comp_inst"] + requests) * wpb * (t["blocks"] / t["active_sm"]))
    issued = wpb * t["blocks"] / t["n_sm"]
    core_activity = np.minimum(1.0, t["issue_cycles"] * t["comp_inst"] * issued / total)
    dram = t["dm_del"] * ratio * (1.0 - hit) * sectors
    return total, cpi, core_activity, np.minimum(1.0, dram * issued / total)


MODELS: Mapping[str, Callable[[Tables], tuple[Array, Array, Array, Array]]] = {
    "hong_kim": hong_kim,
    "wang_chu": wang_chu,
    "luo_suda": luo_suda,
    "zhang_owens": zhang_owens,
    "lemeire": lemeire,
    "combined": combined,
}


def outputs(model: str, t: Tables, out: Sequence[Array]) -> None:
    """Fill :data:`OUTPUTS` of one model; invalid configurations are NaN."""
    with np.errstate(all="ignore"):
        cycles, cpi, core_activity, memory_activity = MODELS[model](t)
        launchable = (t["launch_status"] == 0.0) & (t["clock_status"] == 0.0)
        timed = launchable & (cycles > 0.0) & (cycles < np.inf)
        powered = timed & (t["power_input_status"] == 0.0)
        time = cycles / t["core_hz"]
        power = (
            t["static_power"]
            + core_activity * t["core_watts"]
            + memory_activity * t["memory_watts"]
        )
        masks = (timed, timed, timed, powered, powered)
        values = (time, cycles, cpi, power, power * time)
        for array, mask, value in zip(out, masks, values, strict=True):
            array[...] = np.where(mask, value, np.nan)


def whole_grid(model: str, t: Tables, out: Sequence[Array]) -> None:
    """Evaluate the whole grid at once."""
    outputs(model, t, out)


def in_blocks(model: str, t: Tables, out: Sequence[Array], block: int, threads: Executor) -> None:
    """Evaluate the grid in blocks of at most ``block`` points; each task has many blocks."""
    indices = list(blocks(out[0].shape, block))

    def work(part: Sequence[Index]) -> None:
        for index in part:
            inputs = {name: restricted(table, index) for name, table in t.items()}
            outputs(model, inputs, [array[index] for array in out])

    step = math.ceil(len(indices) / N_TASKS)
    list(threads.map(work, [indices[i : i + step] for i in range(0, len(indices), step)]))


def restricted(table: Array, index: Index) -> Array:
    """Return a table's part in a block; its length is 1 along axes that it does not depend on."""
    whole = slice(None)
    return table[tuple(s if n > 1 else whole for s, n in zip(index, table.shape, strict=True))]


def blocks(shape: tuple[int, ...], size: int) -> Iterator[Index]:
    """Divide a grid along its first axes into blocks of at most ``size`` points, in order."""
    axis = next(i for i in range(len(shape)) if math.prod(shape[i + 1 :]) <= size)
    step = size // math.prod(shape[axis + 1 :])
    rest = tuple(slice(0, n) for n in shape[axis + 1 :])
    for lead in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], step):
            cut = slice(start, min(start + step, shape[axis]))
            yield (*(slice(i, i + 1) for i in lead), cut, *rest)
