"""Tuned kernels: counts beside hardware counters, predictions beside measured times."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.launches import accesses_of, launched

from sweep import query
from sweep.evaluation.launch import build_launch
from sweep.evaluation.planned import evaluate
from sweep.importers.tuners.table import Columns
from sweep.measurements.importing import read_measured
from sweep.space import Plan, resolve
from sweep.specs import load_kernel

DATA = Path(__file__).parents[1] / "data" / "tuning"
COUNTERS = DATA / "convolution_counters_RTX_2080_Ti.csv.gz"
AXES = ("BLOCK_SIZE_X", "BLOCK_SIZE_Y", "TILE_SIZE_X", "TILE_SIZE_Y", "READ_ONLY")


@pytest.fixture(scope="module")
def counted() -> dict[str, np.ndarray]:
    """Return the counters' columns, a row per configuration."""
    with gzip.open(COUNTERS, "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


@pytest.fixture(scope="module")
def predicted(counted: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return what the kernel file says of the same configurations, under the counters' names."""
    axes = {name: tuple(np.unique(counted[name])) for name in AXES} | {"PADDING": (0,)}
    plan = Plan(("convolution_ktt",), ("rtx_2080_ti",), ("combined",), axes=axes, layout="grid")
    (space,) = resolve(plan).kernels
    launch = build_launch(space)
    work = launch.workload
    zeros = np.zeros(len(counted["time_ms"]), dtype=int)
    at = tuple(
        np.searchsorted(np.asarray(d.values, float), counted[d.name]) if d.name in AXES else zeros
        for d in space.grid.dimensions
    )
    shape = (*space.grid.shape, *(1,) * (work.n_sm.ndim - len(space.grid.shape)))

    def column(values: Any) -> np.ndarray:
        whole = np.broadcast_to(np.asarray(values, float), shape)
        return whole[at].reshape(len(zeros))

    names = ("image", "pixels_out", "tile_store", "tile_load", "code")
    image, out, stored, loaded, code = map(accesses_of(launch).get, names)
    beyond = {a.name: a.count * a.sectors * (1 - a.l1_hit_rate) for a in (image, out, code)}
    missed = {a.name: beyond[a.name] * (1 - a.l2_hit_rate) for a in (image, out)}
    threads = work.blocks * work.threads_per_block
    warps = work.blocks * work.occupancy.warps_per_block
    per_thread = {name: work.instructions[name] for name in ("fp32", "integer", "control")}
    per_thread["memory"] = image.count + stored.count + loaded.count + out.count
    per_warp = {
        "smsp__inst_executed": work.computation_instructions + image.count + out.count,
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld": image.count,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld": loaded.count * loaded.wavefronts,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st": stored.count * stored.wavefronts,
        "lts__t_sectors_op_read": beyond["image"] + beyond["code"],
        "lts__t_sectors_op_write": beyond["pixels_out"],
        "dram__sectors_read": missed["image"],
        "dram__sectors_write": missed["pixels_out"],
    }
    found = {"regs": launch.values["registers_per_thread"],
             "shmem_B": launch.values["shared_memory_bytes"]}  # fmt: skip
    found |= {f"{name}.sum": count * warps for name, count in per_warp.items()}
    prefix = "smsp__sass_thread_inst_executed_op"
    found |= {f"{prefix}_{n}_pred_on.sum": count * threads for n, count in per_thread.items()}
    return {name: column(values) for name, values in found.items()}


def test_counters__within_a_tenth_at_the_median(counted, predicted):
    assert len(counted["time_ms"]) == 2640
    compared = set(counted) - {*AXES, "time_ms"}
    assert compared == set(predicted)
    off = {n: np.median(np.abs(predicted[n] / counted[n] - 1)) for n in sorted(compared)}
    assert max(off.values()) < 0.1, off
    exact = ("shmem_B", "smsp__sass_thread_inst_executed_op_fp32_pred_on.sum",
             "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", "dram__sectors_read.sum",
             "smsp__inst_executed.sum")  # fmt: skip
    assert max(off[name] for name in exact) < 0.02
    assert (predicted["shmem_B"] == counted["shmem_B"]).all()
    # With loops unrolled to the end or not, warps of 2 to 32 lanes in a row.
    name = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
    assert np.max(np.abs(predicted[name] / counted[name] - 1)) < 0.1


def judged(kernel: str, device: str, measured: Path, time: str = "") -> dict[str, dict[str, Any]]:
    """Return the rows of ``sweep validate`` by ranking."""
    times = read_measured([measured], kernel=kernel, device=device, columns=Columns(time=time))
    plan = Plan((kernel,), (device,), ("combined",), layout="stacked")
    return {row["ranking"]: row for row in query.validate(evaluate(plan), times).rows}


def test_a4000__ranking_with_another_kernels_counters():
    measured = DATA / "convolution_A4000.kernel_tuner_cache.json.gz"
    rows = judged("convolution", "rtx_a4000", measured)
    assert rows["combined"]["spearman"] > 0.96
    assert rows["combined"]["regret_10"] < 0.02
    assert rows["combined"]["mape"] < 0.2
    assert rows["(occupancy)"]["spearman"] < 0.2
    assert rows["(random)"]["regret_10"] > 0.3


def test_a4000__outliers_are_spilled_registers(tmp_path):
    """The compiler's table predicts, within a factor of 6, what formulas miss by more than 10."""
    kernel = load_kernel("convolution")
    table, path = kernel.compiled, kernel.path
    assert table is not None and path is not None
    (tmp_path / path.name).write_text(path.read_text())
    lines = path.with_name(table.name).read_text().splitlines()
    others = [line for line in lines if not line[0].isdigit()]  # the head
    others += [line.replace("8.6,", "12.1,", 1) for line in lines if line.startswith("8.6,")]
    (tmp_path / table.name).write_text("\n".join(others))  # no rows for an A4000
    measured = DATA / "convolution_A4000.kernel_tuner_cache.json.gz"
    times = read_measured([measured], kernel="convolution", device="rtx_a4000")
    values = {name: times[name].values for name in table.keys}
    spills, absent = table.look_up("spill_load_bytes", {**values, "gpu_target": 8.6})
    (times,) = times["execution_time"].values
    spilled = (spills > 0) & ~absent & np.isfinite(times)
    assert spilled.sum() >= 30
    rows = zip(*(values[name].astype(int) for name in table.keys), strict=True)
    wanted = {row: times[i] for i, row in enumerate(rows) if spilled[i]}
    off = []
    for name in ("convolution", str(tmp_path / path.name)):
        found = evaluate(Plan((name,), ("rtx_a4000",), ("combined",), layout="stacked"))
        own = found["convolution"] if "convolution" in found.children else found
        rows = zip(*(own[name].values.astype(int) for name in table.keys), strict=True)
        predicted = own["execution_time"].values.reshape(-1)
        ratios = [t / wanted[row] for row, t in zip(rows, predicted, strict=True) if row in wanted]
        off.append(float(np.exp(np.max(np.abs(np.log(ratios))))))
    assert off[0] < 6 and off[1] > 10, off


@pytest.mark.slow
@pytest.mark.parametrize(("time", "regret"), [("time_ms", 0.08), ("time_min_ms", 0.02)])
def test_sgemm__ranking_with_times_seen(time, regret):
    """The shortest of 32 runs probably came before the card lowered its clock."""
    rows = judged("xgemm", "rtx_2080_ti", DATA / "gemm_RTX_2080_Ti.csv.gz", time)
    assert rows["combined"]["spearman"] > 0.92
    assert rows["combined"]["regret_10"] < regret
    assert rows["(occupancy)"]["spearman"] < 0


@pytest.mark.parametrize(("device", "spilled"), [
    ("tesla_k40", 10780), ("gtx_980_paper", 7948), ("v100", 7948), ("rtx_3090", 8644),
    ("h100_sxm", 5488),
])  # fmt: skip
def test_ktt__spills_by_the_block(device, spilled):
    """A block of 32 x 8 spills 7 KiB of a thread's sums; one of 32 x 16 leaves all in registers."""
    size = {"BLOCK_SIZE_X": 32, "TILE_SIZE_X": 3, "TILE_SIZE_Y": 6, "PADDING": 0, "READ_ONLY": 0}
    for height, registers, words in ((8, 255, spilled / 4), (16, None, 0)):
        launch = launched("convolution_ktt", device, BLOCK_SIZE_Y=height, **size)
        accesses = accesses_of(launch)
        assert float(np.squeeze(accesses["restored"].count)) == words
        found = float(np.squeeze(launch.values["registers_per_thread"]))
        assert found == registers if registers else found <= 64


def test_rtx_2080_ti__ranking_with_counters_and_times_seen(counted, tmp_path):
    path = tmp_path / "measured.csv"
    columns = (*AXES, "time_ms")
    table = np.stack([np.zeros(len(counted["time_ms"])), *map(counted.get, columns)], axis=1)
    np.savetxt(path, table, "%g", ",", header=",".join(("PADDING", *columns)), comments="")
    found = judged("convolution_ktt", "rtx_2080_ti", path)
    assert found["combined"]["spearman"] > 0.96  # 0.91 without the table of spilled registers
    assert found["combined"]["regret_1"] < 0.25
    assert found["combined"]["regret_10"] < 0.05
    assert found["combined"]["regret_100"] < 0.01
    assert found["(occupancy)"]["spearman"] < 0.25
