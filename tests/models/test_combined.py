"""The model ``combined``: its functions at limits that are known, and what each variant does."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import least_squares

import sweep
from sweep.evaluation.tables import tables_of
from sweep.fields import BOUND
from sweep.hardware import derived
from sweep.models import combined_equations as equations
from sweep.models.combined import MODEL
from sweep.space import resolve

DATA = Path(__file__).parents[1] / "data"

# A warp of 100 multiply-adds on an SM like Turing's: 4 issue slots, 2 of them for each pipeline.
SM = {
    "issue_cycles": 0.25, "fp32_cycles": 0.5, "integer_cycles": 0.5, "special_cycles": 2.0,
    "fp64_cycles": 16.0, "unified": 0.0, "one_pipe": 0.0, "load_store_cycles": 2.0,
    "shared_cycles": 2.0, "l1_cycles": 0.5, "l2_cycles": 1.0, "alu_latency": 4.0,
    "shared_latency": 24.0, "launch_cycles": 0.0, "block_start": 0.0, "kernel_launch": 0.0,
    "schedulers": 4.0, "dram_bandwidth": 600e9, "dram_latency": 480.0,
    "core_clock": 1.5e9, "n_sm": 68.0, "parallelism": 1.0, "asynchronous": 0.0, "in_order": 0.0,
    "specialized": 1.0, "entries": 1.0, "begun": 1.0,
}  # fmt: skip
STAGE = {
    "instructions": 100.0, "fp32": 100.0, "integer": 0.0, "special": 0.0, "fp64": 0.0,
    "accesses": 0.0, "wavefronts": 0.0, "l1_sectors": 0.0, "l2_sectors": 0.0, "dram_sectors": 0.0,
    "chain": 100.0, "shared_loads": 0.0, "cache_wait": 0.0, "dram_loads": 0.0, "barriers": 0.0,
    "link_time": 0.0, "link_wait": 0.0, "matrix": 0.0, "matrix_chain": 0.0, "matrix_time": 0.0,
    "buffers": 0.0,
}  # fmt: skip
LAUNCH = {"blocks": 6800.0, "active_blocks": 4.0, "active_sm": 68.0, "warps_per_block": 8.0}


def run(*stages, variant="corrected", **changes):
    """Return cycles, regime and bound of stages that differ from `STAGE`."""
    stages = stages or ({},)
    given = SM | LAUNCH | changes
    sequences = {name: tuple((STAGE | stage)[name] for stage in stages) for name in STAGE}
    found = MODEL.evaluate(variant, given | sequences)
    words = {code: name.removeprefix("combined_") for name, code in MODEL.regimes.items()}
    return {"cycles": found["execution_cycles"], "regime": words[found["regime"]],
            "bound": found["bound"]}  # fmt: skip


# --- Each function --------------------------------------------------------------------------------


def test_arithmetic__longest_pipeline():
    def of(instructions, fp32, integer, unified, special=0.0, fp64=0.0, one_pipe=0.0):
        slower = special * 2.0, fp64 * 16.0
        lanes = equations.single_precision(fp32, 0.25, integer, unified, *slower, one_pipe)
        return equations.arithmetic(instructions * 0.25, lanes, integer * 0.5, *slower)

    assert of(400.0, 100.0, 0.0, 0.0) == 100  # issue slots
    assert of(400.0, 100.0, 300.0, 0.0) == 150  # integers on half of the lanes
    assert of(250.0, 150.0, 100.0, 1.0) == 62.5  # integers among all lanes
    assert of(9.0, 0.0, 0.0, 0.0, special=3.0, fp64=1.0) == 16
    # Where one pipe takes all, as in a GCN compute unit, their times add up.
    assert of(9.0, 12.0, 8.0, 1.0, special=2.0, fp64=0.5, one_pipe=1.0) == 3 + 2 + 4 + 8
    lanes = equations.single_precision(3.0, 1.0, 2.0, 1.0, 1.0 * 4.0, 3.0 * 2.0, 1.0)
    assert equations.arithmetic(9.0 * 0.25, lanes, 2.0, 4.0, 6.0) == 3 + 2 + 4 + 6
    assert [equations.slots(100.0, matrix) for matrix in (30.0, 400.0)] == [100, 400]


def test_within_power__a_rate_grows_as_the_square_root_beyond_what_power_allows():
    # At the rate that power allows at full clock the blocks take 1000 cycles.
    times = [equations.within_power(t, 100.0, 4.0, 2.5e-9, 1e9) for t in (1000.0, 4000.0, 250.0)]
    assert times == pytest.approx([1000, 4000, 500])
    assert equations.within_power(250.0, 100.0, 4.0, 0.0, 1e9) == 250


def test_drawing__units_count_by_what_they_draw():
    units = {"single_precision": 10.0, "integers": 6.0, "specials": 2.0, "doubles": 4.0,
             "matrix": 0.0, "load_store": 5.0, "unified": 1.0, "one_pipe": 0.0}  # fmt: skip

    def drawn(fp64_cycles=8.0, **changes):
        return equations.drawing(**units | changes, fp32_cycles=0.25, fp64_cycles=fp64_cycles)

    assert drawn() == pytest.approx(10 + 1.1 * 2 + 0.37 * 4 + 0.61 * 5)
    assert drawn(unified=0.0, matrix=3.0) - drawn() == pytest.approx(6 + 3)
    assert drawn(fp64_cycles=0.5) - drawn() == pytest.approx((1 - 0.37) * 4)  # half the rate
    assert drawn(one_pipe=1.0) == pytest.approx(10 + 0.61 * 5)  # the lanes have done it all


@pytest.mark.parametrize(
    ("device", "are_apart"),
    [("tesla_k40", 0), ("gtx_980", 0.5), ("tesla_p100", 0.5), ("v100_pcie", 0), ("mi210", 1)],
)
def test_shared_memory_and_l1__are_two_on_maxwell_pascal_and_amd(device, are_apart):
    plan = sweep.Plan(["matrixmul_shared"], [device], ["combined"], variant="revised")
    (space,) = resolve(plan).kernels
    inputs = tables_of(space, space.clocked.whole).inputs(plan, "combined")
    assert derived.apart(sweep.load_device(device)) == are_apart
    in_shared, in_l1 = inputs["wavefronts_0"] > 0, inputs["l1_sectors_0"] > 0
    assert (in_shared & in_l1).any() == (are_apart == 0)
    # The units that compute addresses do so for both, but on AMD.
    assert inputs["accesses_0"].min() > 100 * (are_apart < 1)


def test_cb7__copies_beside_work():
    """A block of 8 warps: 64 cycles of matrix units each, copies of 40 sectors from L2."""
    stage = {"matrix": 64.0, "l2_sectors": 40.0, "cache_wait": 600.0, "chain": 0.0,
             "instructions": 1.0, "fp32": 0.0, "barriers": 1.0}  # fmt: skip
    one = {"active_blocks": 1.0, "blocks": 68.0}
    last = {"instructions": 1.0, "fp32": 0.0, "chain": 0.0}

    def cycles(buffers, matrix_chain=0.0, **changes):
        copies = {**stage, "buffers": buffers, "matrix_chain": matrix_chain}
        return run(copies, last, **(one | changes))["cycles"]

    wait, work, copy = 24.0, 8 * 64.0, 8 * 40.0
    first = run(last, **one)["cycles"]  # what follows the barrier
    # One buffer is filled and worked on in turn; several hide the copy behind the work.
    assert cycles(1.0) == pytest.approx(work + wait + 600 + copy + first, rel=1e-3)
    assert cycles(2.0) == pytest.approx((work + wait + 600 + copy) / 2 + first, rel=1e-3)
    assert cycles(4.0) == pytest.approx(work + wait + first, rel=1e-3)
    # A warp's own chain of matrix instructions is longer than the work of all: nobody fills it.
    assert cycles(4.0, matrix_chain=900.0) == pytest.approx(900 + wait + first, rel=1e-3)
    assert cycles(4.0, matrix_chain=work) == cycles(4.0)
    # Beside products that nobody waits for in a step (wgmma) warps wait at barriers, and issue.
    found = [cycles(4.0, chain, asynchronous=1.0) for chain in (0.0, work + 9)]
    assert found == pytest.approx([work + first, work + 9 + wait + first], rel=1e-3)
    # All warps' copies bound the time, however many buffers there are.
    assert cycles(64.0, l2_cycles=3.0) == pytest.approx(3 * copy + first, rel=1e-3)
    # Of a last round that is not full, DRAM and L2 serve the blocks that are left.
    half = cycles(64.0, l2_cycles=3.0, active_blocks=2.0, blocks=102.0)
    assert half < cycles(64.0, l2_cycles=3.0, active_blocks=2.0, blocks=136.0) * 0.8


def test_cb8__sms_out_of_step_share_all_of_dram():
    """Copies from DRAM, then 400 cycles of work: other SMs fill the pause."""
    copies = {"dram_sectors": 60.0, "l2_sectors": 60.0, "buffers": 4.0, "instructions": 1.0,
              "fp32": 0.0, "chain": 0.0, "barriers": 1.0}  # fmt: skip
    last = {"instructions": 1.0, "fp32": 100.0, "chain": 0.0}

    def later(**changes):
        one, two = (run(copies, last, active_blocks=1.0, blocks=68.0 * n, **changes)["cycles"]
                    for n in (1, 2))  # fmt: skip
        return one, two - one

    through_dram, work = 8 * 60 * 68 * 32 * 1.5 / 600, 400.0
    assert later() == pytest.approx((through_dram, through_dram), rel=1e-3)
    # Where work takes longer than DRAM, what is left of the copies is their time in L2.
    first, second = later(dram_bandwidth=6e12)
    assert second == pytest.approx(8 * 60 + work, rel=1e-3) == first


def test_cb11__the_shorter_does_not_hide_wholly():
    """DRAM's rate over the warps that read, by one micro-benchmark each on two GPUs."""
    assert equations.side_by_side(3.0, 1.0, 1.0) == 3.0 == equations.side_by_side(0.0, 3.0, 0.0)
    both = equations.side_by_side(3.0, 4.0, 0.0)
    assert both == pytest.approx((3**4 + 4**4) ** 0.25) == equations.side_by_side(4.0, 3.0, 0.0)
    in_order = [equations.in_step(3.0, 4.0, special, 1.0) for special in (0.0, 1.0)]
    assert in_order == pytest.approx([(both * 5.0) ** 0.5, 4.0])
    assert equations.in_step(3.0, 4.0, 0.0, 0.0) == both
    for device, soft, hard in (("h100", 0.012, 0.025), ("h200", 0.011, 0.051)):
        path = DATA / "calibration" / f"{device}.samples.json.gz"
        samples = json.loads(gzip.decompress(path.read_bytes()))["samples"]
        read = [s for s in samples if s["name"].startswith("dram read")]
        warps, times = np.array([(s["counts"]["warps"], np.median(s["ms"])) for s in read]).T
        found = [worst_of_fit(warps / warps[0], times, specialized) for specialized in (0.0, 1.0)]
        assert found == pytest.approx([soft, hard], abs=0.002), device


def worst_of_fit(warps: np.ndarray, times: np.ndarray, specialized: float) -> float:
    """Return the largest error of latency over warps beside a rate, both fitted."""

    def off(given):
        pairs = [(given[0] / n, given[1], specialized) for n in warps]
        return [equations.side_by_side(*pair) for pair in pairs] / times - 1.0

    fits = [least_squares(off, (s * times[0], times[-1])) for s in (0.7, 0.85, 1.0)]
    return float(np.abs(min(fits, key=lambda fit: fit.cost).fun).max())


def test_cb9__blocks_start_one_after_the_other():
    def late(**changes):
        at_once, started = (run(active_blocks=4.0, block_start=t, **changes)["cycles"]
                            for t in (0.0, 1.21))  # fmt: skip
        return pytest.approx(started - at_once)

    # The lanes are busy from the first block of each of 68 SMs on.
    assert late(blocks=6800.0) == late(blocks=272.0) == late(blocks=68.0) == 1.21 * 68
    # Blocks that queue nowhere take as long as the last one of the round from its start on.
    assert late(blocks=272.0, warps_per_block=1.0) == 1.21 * 272
    short = {"instructions": 1.0, "fp32": 0.0, "chain": 0.0}  # takes the time of its start
    assert run(short, blocks=1e6, warps_per_block=1.0, block_start=1.21)["cycles"] == 1.21e6


def test_cb10__blocks_that_copies_feed_begin_in_step():
    """Two blocks of an SM, each of which waits 2000 cycles for its first copies."""
    last = {"instructions": 1.0, "fp32": 0.0, "chain": 0.0}

    def later(buffers=1.0, begun=1.0, **first):
        first = {"chain": 0.0, "cache_wait": 2000.0, "buffers": buffers, **first}
        one, two = (run(first, last, active_blocks=n, blocks=68 * n, begun=begun)["cycles"]
                    for n in (1.0, 2.0))  # fmt: skip
        return two - one

    assert later() == pytest.approx(8 * 100 * 0.5)  # 100 multiply-adds of 8 warps
    assert later(l2_sectors=30.0, begun=3.0) == pytest.approx(8 * 30 * 3)  # copies that all begin
    assert later(buffers=0.0) < 0.2 * 8 * 100 * 0.5  # warps that wait for loads are out of step


def test_cb12__one_buffer_takes_dram_a_little_longer():
    copies = {"dram_sectors": 60.0, "instructions": 1.0, "fp32": 0.0, "chain": 0.0,
              "barriers": 1.0}  # fmt: skip
    one, two, three = (run(copies | {"buffers": b}, active_blocks=4.0, blocks=2720.0)["cycles"]
                       for b in (1.0, 2.0, 3.0))  # fmt: skip
    assert two == three == pytest.approx(one / equations.ONE_BUFFER, rel=1e-4)


@pytest.mark.parametrize(("stages", "turns"), [(2, [0, 1, 2, 3, 7]), (5, [0, 0, 0, 0, 1])])
def test_cb7__copies_that_are_under_way_before_a_loop_are_waited_for_once(stages, turns):
    axes = {"m": [64], "n": [64], "k": [32, 64, 96, 128, 256], "BLOCK_M": [64], "BLOCK_N": [64],
            "BLOCK_K": [32], "GROUP_M": [8], "num_warps": [4], "num_stages": [stages]}  # fmt: skip
    plan = sweep.Plan(["triton_matmul"], ["h200"], ["combined"], variant="revised", axes=axes)
    (space,) = resolve(plan).kernels
    inputs = tables_of(space, space.clocked.whole).inputs(plan, "combined")
    first, loop = (np.ravel(inputs[f"dram_loads_{stage}"]) for stage in (0, 1))
    assert loop / first / (stages - 1) == pytest.approx(turns)


@pytest.mark.parametrize(("specialized", "most"), [(1.0, 1.02), (0.0, 1.02 * 2**0.25)])
@pytest.mark.parametrize("wavefronts", [0.0, 16.0, 32.0, 64.0])
def test_cb7__resident_blocks_take_no_longer_than_one_after_the_other(
    wavefronts, specialized, most
):
    stage = {"matrix": 64.0, "buffers": 8.0, "wavefronts": wavefronts, "barriers": 2.0,
             "accesses": 1.0, "instructions": 2.0, "fp32": 0.0, "chain": 0.0}  # fmt: skip
    times = [run(stage, active_blocks=n, blocks=68 * n, specialized=specialized)["cycles"]
             for n in (1.0, 2.0, 4.0, 8.0)]  # fmt: skip
    busiest = 8 * max(64.0, 2 * wavefronts)
    for n, time in zip((1, 2, 4, 8), times, strict=True):
        assert n * busiest <= time <= n * times[0]
    assert times[-1] < 8 * busiest * most  # many blocks hide the barriers of each other


def test_load_store__addresses_or_data():
    # On GA10x two passes of an access cost no more than its addresses: 16 lanes, 128 bytes a cycle.
    for passes, sectors, time in (10.0, 0, 20), (20.0, 0, 20), (320.0, 0, 320), (0.0, 320.0, 80):
        assert equations.load_store(10.0, 2.0, passes, 1.0, sectors, 0.25) == time


def test_dram_cycles__of_the_rtx_2080_ti():
    # 68 SMs take 32 bytes each in turn: 2176 bytes at 616 GB/s are 5.46 cycles of 1545 MHz.
    assert equations.dram_cycles(1545e6, 68.0, 616e9) == pytest.approx(5.4576, abs=1e-4)
    assert equations.memory(8.0, 10.0) == 10
    assert equations.memory(8.0, 5.0) == 8


def test_arithmetic_wait__latency_holds_the_time_on_the_lanes():
    assert equations.dependent(100.0, 4.0, 1 / 2, 150.0) == 200
    assert equations.dependent(100.0, 4.0, 1 / 2, 250.0) == 250
    assert equations.arithmetic_wait(200.0, 4.0, 40.0) == 40
    assert equations.arithmetic_wait(50.0, 4.0, 40.0) == 0


def test_rounds_and_tail():
    assert equations.full_rounds(1000.0, 4.0, 68.0) == 3
    assert equations.tail_blocks(1000.0, 3.0, 4.0, 68.0) == 3  # 184 blocks on 68 SMs
    assert equations.tail_blocks(816.0, 3.0, 4.0, 68.0) == 0


# --- Variants -------------------------------------------------------------------------------------


def test_printed__is_the_throughput_bound():
    found = run(variant="printed")
    assert found["cycles"] == 100 * 8 * 50  # blocks of an SM, warps, cycles of 100 multiply-adds
    assert found["regime"] == "arithmetic"


def test_cb1__warps_queue_at_several_stations():
    # 100 accesses of a warp take 200 cycles, its multiply-adds 50.
    stage = {"accesses": 100.0, "wavefronts": 100.0, "instructions": 200.0, "chain": 0.0}
    alone = run(stage, variant="printed")["cycles"]
    both = run(stage | {"fp32": 400.0}, variant="printed")["cycles"]
    assert both == alone  # as printed, multiply-adds cost nothing up to the last cycle
    # 32 warps that pass two balanced stations take 33 services, not 64, and not 32.
    one = {"schedulers": 1.0, "parallelism": 4.0}
    equal = run(stage | {"fp32": 400.0}, **one)["cycles"]
    assert equal == pytest.approx(33 / 32 * alone)
    assert alone < run(stage, **one)["cycles"] < equal


def test_cb2__few_warps_wait_for_results():
    few = {"active_blocks": 1.0, "warps_per_block": 1.0}
    assert run(variant="printed", **few)["cycles"] == 100 * 50
    # One warp issues a dependent multiply-add every 4 cycles: that holds its time on the lanes.
    for parallelism, cycles in ((1.0, 400), (1.25, 320), (16.0, 200)):
        assert run(**few, parallelism=parallelism)["cycles"] == pytest.approx(100 * cycles)
    assert [run(**few)["regime"], run()["regime"]] == ["latency", "arithmetic"]


def test_cb3__stages_between_barriers_overlap_only_with_other_blocks():
    load = {"fp32": 0.0, "chain": 0.0, "instructions": 1.0, "cache_wait": 3000.0}
    one = {"active_blocks": 1.0, "warps_per_block": 8.0}
    work = {"fp32": 4000.0, "chain": 0.0, "instructions": 4000.0}
    apart = run(load | {"barriers": 1.0}, work, **one)["cycles"] / 100
    merged = run(load, work, **one)["cycles"] / 100
    assert apart > 3000 + 8 * 2000  # a block loads, then computes
    assert merged < apart - 1000
    # As printed nobody waits; with many blocks the stages of some cover those of others.
    load |= {"barriers": 1.0}
    assert run(load, work, variant="printed", **one)["cycles"] == pytest.approx(16e5, rel=1e-3)
    many = run(load, work)["cycles"] / 25
    assert 4 * 8 * 2000 < many < 4 * 8 * 2000 + 3000


def test_cb4__whole_rounds_with_a_tail():
    chained = {"chain": 0.0}
    even, one_more = (run(chained, blocks=n)["cycles"] for n in (6800.0, 6801.0))
    assert one_more == pytest.approx(even * 101 / 100)  # one SM has a block more than the others
    printed = [run(chained, variant="printed", blocks=n)["cycles"] for n in (6800.0, 6801.0)]
    assert printed[1] == pytest.approx(printed[0] * 6801 / 6800)


def test_cb5__a_warp_has_the_lanes_of_one_scheduler():
    # Sixteen independent multiply-adds at a time: 2 cycles each on 16 lanes, not 0.5 on 64.
    few = {"active_blocks": 1.0, "warps_per_block": 1.0, "parallelism": 16.0}
    assert run(variant="printed", **few)["cycles"] == 100 * 50
    assert run(**few, schedulers=1.0)["cycles"] == pytest.approx(100 * 50)
    for warps, cycles in ((1.0, 200), (4.0, 200), (8.0, 400)):  # four side by side
        found = run(**few | {"warps_per_block": warps}, schedulers=4.0)["cycles"]
        assert found == pytest.approx(100 * cycles)


def test_cb6__the_second_issue_slot_takes_independent_instructions():
    # Kepler: 4 schedulers with 2 slots each for 6 warps' worth of lanes.
    kepler = {"issue_cycles": 1 / 8, "fp32_cycles": 1 / 6, "schedulers": 4.0}
    warps, many = 100 * 8 * 50, {"chain": 0.0}
    assert run(many, variant="printed", **kepler)["cycles"] == pytest.approx(warps / 3)
    # Dependent instructions fill four of the six, two chains all of them.
    for parallelism, lanes in ((1.0, 4), (1.25, 5), (2.0, 6), (8.0, 6)):
        found = run(many, parallelism=parallelism, **kepler)["cycles"]
        assert found == pytest.approx(100 * 8 * 50 * 2 / lanes)
    # One slot a scheduler is filled by any instruction.
    assert equations.issue(0.25, 4.0, 1.0) == 0.25


def test_regimes__memory_and_shared():
    dram = {"l1_sectors": 400.0, "l2_sectors": 400.0, "dram_sectors": 400.0, "chain": 0.0}
    shared = {"accesses": 100.0, "wavefronts": 100.0, "chain": 0.0}
    cached = {"accesses": 100.0, "l1_sectors": 800.0, "chain": 0.0}
    found = [run(stage) for stage in (dram, shared, cached)]
    assert [one["regime"] for one in found] == ["memory", "load_store", "load_store"]
    assert [one["bound"] for one in found] == [BOUND[w] for w in ("memory", "shared", "memory")]
    assert run(shared, shared_cycles=0.5)["bound"] == BOUND["shared"]  # by their addresses
