"""Lemeire et al. 2016: printed numbers, the run model, the forward use and the errata."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from support.calling import evaluated

from sweep.fields import VARIANTS
from sweep.hardware import occupancy
from sweep.models import lemeire_2016 as le
from sweep.papers.report import workload
from sweep.specs import load_device

# Table III, Quadro K620: lambda and Lambda at ILP 1, printed ridge point
K620 = {"SP": (0.43, 9.1, 1536), "INT": (0.86, 16.2, 1536), "SF": (4.0, 62.0, 512)}
GENERATIONS = ("kepler", "fermi", "tesla", "southern_islands", "northern_islands")  # Table II


def latencies(generation):
    """Return Lambda and lambda by type, as devices/printed.toml has them."""
    rows = load_device(f"lemeire_{generation}").model_parameters["lemeire"]["latencies"]
    return {kind: (completion, issue) for kind, _, issue, completion in rows}


def body(variant="corrected", **given):
    """Evaluate the joined equations with one type of instruction and no memory by default."""
    values = dict(
        n_cu=2.0, active_cu=2.0, max_conc_wg=16.0, max_local_mem=49152.0, local_mem_size=0.0,
        active_wg=16.0, max_conc_warps=64.0, wg=32.0, wg_size=32.0, warp_size=32.0,
        instructions=10.0, count=(10.0,), issue=(0.5,), completion=(6.0,), local_count=0.0,
        local_issue=0.0, local_completion=0.0,
        memory_count=0.0, memory_issue=0.0, memory_completion=0.0,
    )  # fmt: skip
    found = le.MODEL.evaluate(variant, values | given)
    head = ("cycles", "cpi", "core", "memory", "regime", "bound", "warps", "runs", "run", "chain")
    return {short: found[name] for short, name in zip(head, le.MODEL.results, strict=True)}


def test_equations_1_2__peak_of_the_gt_640_and_local_memory_that_admits_so_many_groups():
    # LE-1: the paper also prints 361.2 Gop/s, which 192 elements at 900 MHz do not give.
    assert 2 * le.peak(2.0, 192.0, 900e6) / 1e9 == pytest.approx(691.2)
    assert le.peak(2.0, 192.0, 900e6) / 1e9 == pytest.approx(345.6)
    assert le.local_mem(49152.0, 5.0) == 9830


def test_equation_4_5__least_and_largest_cpi():
    measured = [6.0, 3.1, 1.6, 0.8, 0.5, 0.5]
    issue, completion = math.inf, 0.0
    for cpi in measured:
        issue, completion = le.issue_latency(issue, cpi), le.completion_latency(completion, cpi)
    assert (issue, completion) == (0.5, 6.0)  # GT 640, integer


@pytest.mark.parametrize(("kind", "expected"), [("SP", 672), ("INT", 576), ("SF", 480)])
def test_ridge_point__is_a_lower_bound_of_the_printed_one(kind, expected):
    issue, completion, printed = K620[kind]
    assert le.ridge_point(completion, issue, 32.0) == expected <= printed
    # "smaller than 5%": 19 of 20 warps are not enough.
    assert le.ridge_point(20.0, 1.0, 32.0) == 20 * 32


def test_floors_of_lambda():
    assert 32 / 8 == latencies("tesla")["sp"][1]
    assert 32 / 192 == pytest.approx(1 / 6) and 1 / 6 < latencies("kepler")["sp"][1]


def test_table_2__cpi_falls_from_completion_to_issue_latency():
    for generation in GENERATIONS:
        for completion, issue in latencies(generation).values():
            cpi = [le.cpi_warp_at(float(completion), float(w), float(issue)) for w in range(1, 65)]
            assert cpi[0] == max(completion, issue)
            assert all(b <= a for a, b in zip(cpi, cpi[1:], strict=False))
            assert cpi[-1] == max(completion / 64, issue)


def test_equation_6__printed_example_and_both_sides_of_the_step():
    assert f"{le.cpmr(48.0, 90.6, 8192.0, 16384.0):.1f}" == "69.3"
    assert le.cpmr(48.0, 90.6, 8192.0, 4096.0) == 48.0
    assert le.cpmr(48.0, 90.6, 8192.0, 8192.0) == 48.0
    assert le.cpmr(48.0, 90.6, 8192.0, 1e12) == pytest.approx(90.6, rel=1e-6)


def test_equation_7__bandwidth_and_requests():
    assert [f.info.number for f in (le.bytes_comm, le.bandwidth, le.cpmr_gpu)] == [
        "VI-D",
        "VI-D",
        "7",
    ]
    moved = le.bytes_comm(1e6, 100.0, 4.0)
    assert moved == 4e8
    assert le.bandwidth(moved, 0.016) == 25e9  # K620, 4-byte elements
    assert le.cpmr_gpu(0.016, 1.124e9, 1e6, 100.0) == pytest.approx(0.17984)


def test_run_model__figure_4():
    # 3 compute units, runs of 2 work groups of 3 warps; 20 work groups of 96 work items.
    items, size = 20 * 96.0, 96.0
    groups = le.wg(items, size)
    conc = le.conc_wg(8.0, groups, 49152.0, 24576.0)
    warps = le.warps_wg(size, 32.0)
    actual = le.actual_warp_size(size, warps)
    together = le.conc_warps(48.0, warps, conc)
    assert (groups, conc, warps, actual, together) == (20, 2, 3, 32, 6)
    runs = le.runs_cu(le.total_warps(items, actual), 3.0, together)
    assert runs == 4  # 10 runs over 3 units
    one = le.cycles_of_run(le.time_of_run(4e-6, runs), 1e9)
    assert one == pytest.approx(1000)
    cu = le.cpi_cu(one, le.instr_run(10.0, together, actual))
    assert le.cpi_warp(cu, actual) == pytest.approx(1000 / 60)
    # (3) spreads the work over three full units, which 10 runs are not.
    assert le.cpi_cu_approximate(4e-6, 1e9, 10.0 * items, 3.0) < cu * 3


def test_erratum_le3__whole_groups_by_the_occupancy_rules():
    assert le.conc_wg_printed(8.0, 100.0, 49152.0, 20000.0) == pytest.approx(2.4576)
    assert le.conc_wg(8.0, 100.0, 49152.0, 20000.0) == 2
    # 3 groups of 32 warps, 64 fit: as printed a run has 96 warps' instructions, so CPI is too low.
    printed = le.instr_run_printed(10.0, 1024.0, 3.0)
    assert printed / le.instr_run(10.0, le.conc_warps(64.0, 32.0, 3.0), 32.0) == 1.5
    # The K620 at 64 work items and 5,000 bytes: 65536 / 5000 groups as printed.
    k620 = dict(max_conc_wg=32.0, max_local_mem=65536.0, local_mem_size=5000.0, wg_size=64.0,
                wg=1000.0, active_wg=12.0)  # fmt: skip
    assert le.conc_wg_printed(32.0, 1000.0, 65536.0, 5000.0) == pytest.approx(13.107, abs=5e-4)
    assert body("printed", **k620)["warps"] == pytest.approx(26.21, abs=5e-3)
    assert body("corrected", **k620)["warps"] == 24
    # Registers limit the groups in corrected only.
    assert body("printed", active_wg=4.0)["warps"] == 16
    assert body("corrected", active_wg=4.0)["warps"] == 4


@pytest.mark.parametrize("seed", range(5))
def test_erratum_le2__only_sattolos_shuffle_walks_through_the_whole_array(seed):
    def walk(array):
        index, steps = 0, 0
        while True:
            index, steps = array[index], steps + 1
            if index == 0:
                return steps

    length = 64
    corrected = le.random_walk_array(length, np.random.default_rng(seed))
    assert walk(corrected) == length
    streams = [np.random.default_rng(100 * seed + i) for i in range(20)]
    printed = [le.random_walk_array(length, rng, variant="printed") for rng in streams]
    assert any(walk(array) < length for array in printed)
    assert all(sorted(array) == list(range(length)) for array in [*printed, corrected])


@pytest.mark.parametrize("conv", [1, 2, 3, 4, 5, 8, 16, 24, 32, 40, 48, 64, 128])
def test_divergence__counts_branches_as_enumeration_does(conv):
    full = {1: 4, 2: 4, 4: 4, 8: 4, 16: 2, 32: 1, 64: 1, 128: 1}  # full speed at the warp size
    for warp in range(20):
        lanes = range(32 * warp, 32 * warp + 32)
        taken = {(item // conv) % 4 for item in lanes}
        groups = {item // conv for item in lanes}
        expected = len(taken) if len(groups) <= 4 else 4
        assert expected == full.get(conv, expected)
        assert le.branches_issued(float(conv), 4.0, 32.0, float(warp)) == expected


def test_forward__one_warp_takes_its_chain_and_many_the_pipeline():
    alone = body(wg=2.0, active_wg=1.0)
    assert alone["cycles"] == 10 * 6 and alone["regime"] == le.REGIMES["lemeire_latency"]
    full = body(wg=128.0, active_wg=64.0)
    assert full["cycles"] == 64 * 10 * 0.5
    assert full["regime"] == le.REGIMES["lemeire_computation"]


def test_forward__memory_pipeline_and_whole_runs():
    given = dict(memory_count=4.0, memory_issue=9.89, memory_completion=52.5, instructions=14.0)
    found = body(wg=33.0 * 2, active_wg=16.0, **given)
    assert found["runs"] == math.ceil(66 / 2 / 16)
    assert found["run"] == pytest.approx(16 * 4 * 9.89)
    assert found["regime"] == le.REGIMES["lemeire_memory"]


def test_forward__instruction_level_parallelism_shortens_the_chain():
    # K620, SP: Lambda 9.1 at ILP 1, 4.7 at ILP 2 and 4.
    slow = body(wg=2.0, active_wg=1.0, completion=(9.1,), issue=(0.43,))
    fast = body(wg=2.0, active_wg=1.0, completion=(4.7,), issue=(0.30,))
    assert slow["cycles"] / fast["cycles"] == pytest.approx(9.1 / 4.7)


def test_latencies__of_types_that_do_not_occur_are_the_devices_too():
    found = le.MODEL.prepare(workload("vector_add", "quadro_k620", "lemeire"), "printed")
    assert found["issue"][-1].item() == 0.86 and not found["count"][-1].any()  # barriers, as INT


def test_erratum_le3__from_the_files_of_the_quadro_k620(tmp_path):
    path = tmp_path / "walk.toml"
    path.write_text(
        'schema = 1\nname = "walk"\nsource = {default = "assumed: a walk through local memory"}\n'
        "launch = {threads_per_block = 64, blocks = 3000}\n"
        "resources = {registers_per_thread = 16, shared_memory_bytes = 5000}\n"
        "instructions = {fp32 = 100}\n"
    )
    warps = {
        variant: evaluated(str(path), "quadro_k620", "lemeire", variant=variant)
        for variant in VARIANTS
    }
    found = {variant: float(r["lemeire_concurrent_warps"]) for variant, r in warps.items()}
    # A block takes 5,120 bytes of 64 KiB; the paper divides by what it asks for.
    assert found == {"printed": pytest.approx(26.2144), "corrected": 24, "revised": 24}


# --- The run model of Section V-B as printed, from files to results ------------------------------

DEVICES = ("gtx_280", "gtx_680", "quadro_k620", "gtx_980_paper", "v100", "a100_40gb")
WALK = """\
schema = 1
name = "walk"
source = {default = "assumed: a walk through local memory"}
parameters = {block_size = BLOCKS, local_bytes = BYTES}
launch = {threads_per_block = "block_size", blocks = 3000}
resources = {registers_per_thread = 16, shared_memory_bytes = "local_bytes"}
instructions = {fp32 = 100}
"""


def limits(device):
    """Return MaxConcWG, MaxConcWarps and MaxLocalMem of a device's compute capability."""
    path = Path(occupancy.__file__).with_name("occupancy_limits.csv")
    with open(path, encoding="utf-8") as lines:
        rows = {row["cc"]: row for row in csv.DictReader(lines)}
    row = rows[load_device(device).compute_capability]
    return (float(row[name]) for name in
            ("max_blocks_per_sm", "max_warps_per_sm", "smem_per_sm_bytes"))  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
def test_lemeire__concurrent_groups_warps_and_runs(device, tmp_path):
    blocks = [*range(16, 513, 16), 33, 47, 100, 250]
    local = [*range(16, 12289, 277), 1000, 4096, 5000]
    path = tmp_path / "walk.toml"
    path.write_text(WALK.replace("BLOCKS", str(blocks)).replace("BYTES", str(local)))
    found = evaluated(str(path), device, "lemeire", variant="printed")
    size, bytes_ = (np.asarray(v, dtype=float) for v in np.meshgrid(blocks, local, indexing="ij"))
    most_groups, most_warps, memory = limits(device)
    units = float(load_device(device).values["chip.sm_count"])
    groups = 3000.0
    together = np.minimum.reduce([np.full_like(size, most_groups), np.full_like(size, groups),
                                  memory / bytes_])  # fmt: skip
    in_group = np.ceil(size / 32)
    actual = size / in_group
    warps = np.minimum(most_warps, in_group * together)
    runs = np.ceil(groups * size / actual / units / warps)
    ran = found["status"] == 0
    assert ran.mean() > 0.5
    assert found["lemeire_concurrent_warps"][ran] == pytest.approx(warps[ran], rel=1e-12)
    assert (found["lemeire_runs"][ran] == runs[ran]).all()
    # What LE-3 mends: fractions of a group, and groups that the allocation does not admit.
    mended = evaluated(str(path), device, "lemeire")["lemeire_concurrent_warps"]
    assert (mended[ran] <= warps[ran]).all() and (mended[ran] < warps[ran]).sum() > 100
