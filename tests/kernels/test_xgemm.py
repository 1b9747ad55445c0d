"""CLBlast's SGEMM as a kernel file, held to a walk through its source and to measured times."""

import csv
import gzip
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.launches import accesses_of, launched, numbers_of
from support.warps import simulate_bank_conflicts, simulate_transactions

from sweep import Plan, evaluate
from sweep.fields import STATUS
from sweep.importers.files import read_source
from sweep.importers.tuners.search_space import read_t1
from sweep.query.agreement import spearman
from sweep.specs import load_device, load_kernel

DATA = Path(__file__).parents[1] / "data" / "tuning"
COUNTERS = np.genfromtxt(DATA.parent / "h100" / "xgemm_counters.csv", delimiter=",", names=True)
SIZES = {"m": 128, "n": 256, "k": 64}
SQUARE = {"MWG": 64, "NWG": 64, "KWG": 32, "MDIMC": 16, "NDIMC": 16, "MDIMA": 16, "NDIMB": 16,
          "VWM": 4, "VWN": 2, "STRM": 0, "STRN": 0, "SA": 1, "SB": 1}  # fmt: skip


CHANGES = [
    {},
    {"SA": 0, "VWM": 2},
    {"SB": 0, "VWN": 4, "STRN": 1},
    {"SA": 0, "SB": 0, "STRM": 1, "VWM": 1},
    {"STRM": 1, "STRN": 1, "VWM": 2},
    {"MWG": 128, "MDIMC": 8, "MDIMA": 32, "NDIMB": 8, "NDIMC": 16, "VWM": 1},
    {"MWG": 128, "MDIMC": 8, "NDIMC": 16, "SA": 0, "SB": 0, "VWM": 8, "VWN": 1},
    {"MDIMC": 32, "NDIMC": 8, "MDIMA": 8, "NDIMB": 32, "VWM": 2},
    {"MDIMC": 32, "NDIMC": 8, "SA": 0, "SB": 0, "VWM": 1, "VWN": 8},
    {"NWG": 128, "NDIMC": 8, "MDIMC": 8, "MDIMA": 8, "KWG": 16, "VWN": 8, "STRM": 1},
]
CONFIGURATIONS = [pytest.param(SQUARE | change, id=str(change)) for change in CHANGES]


def launch_of(device="rtx_2080_ti", sizes=SIZES, **chosen):
    return launched("xgemm", device, **sizes, **chosen)


class Walk:
    """The accesses of the first block to one tile, as the OpenCL source makes them.

    ``seen`` are loads and stores by name, as rows of (bytes of the word, address of each lane).
    Words of 8 elements move as two of 4. Neighbours in local memory are joined where the source's
    inner loop runs over them, loads where not one matrix alone is there or a step is long.
    """

    def __init__(self, p):
        self.p = p
        self.threads = p["MDIMC"] * p["NDIMC"]
        self.lanes = np.arange(self.threads).reshape(-1, 32)
        self.mwi, self.nwi = p["MWG"] // p["MDIMC"], p["NWG"] // p["NDIMC"]
        self.seen = {}
        if p["SA"]:
            self.copy("a", p["MWG"], p["MDIMA"], p["VWM"], p["STRM"], SIZES["m"], inner_k=True)
        if p["SB"]:
            self.copy("b", p["NWG"], p["NDIMB"], p["VWN"], p["STRN"], SIZES["n"], inner_k=False)
        tx, ty = self.lanes % p["MDIMC"], self.lanes // p["MDIMC"]
        self.operand("a", tx, p["MWG"], p["MDIMC"], p["VWM"], p["STRM"], SIZES["m"], p["SA"])
        self.operand("b", ty, p["NWG"], p["NDIMC"], p["VWN"], p["STRN"], SIZES["n"], p["SB"])
        self.result(tx, ty)

    def note(self, name, vector, address, joined=1):
        """Note an access to a vector of so many elements at an element's address, on all lanes."""
        word = min(4, vector * joined)
        for part in range(0, vector * joined, word):
            rows = self.seen.setdefault(name, [])
            rows += [(4 * word, 4 * (warp + part)) for warp in np.atleast_2d(address)]

    def copy(self, name, wide, dim, vector, strided, size, *, inner_k):
        depth = self.threads // dim
        along = wide // dim // vector  # vectors of a thread along the row
        rows = self.p["KWG"] // depth
        at, row = self.lanes % dim, self.lanes // dim
        # Whether neighbouring stores follow one another, and how many then make a word.
        joined = 1
        if not strided and (rows == 1 or not inner_k):
            joined = max(j for j in (4, 2, 1) if along % j == 0 and j * vector <= max(4, vector))
        for i, r in itertools.product(range(along), range(rows)):
            place = at + i * dim if strided else i + at * along
            k = r + row * rows
            self.note(f"{name}_copied", vector, k * size + place * vector)
            if i % joined == 0:
                self.note(f"{name}_store", vector, k * wide + place * vector, joined)

    def operand(self, name, at, wide, dim, vector, strided, size, is_local):
        along = wide // dim // vector
        joined = 1
        is_short = self.p["SA"] != self.p["SB"] and self.mwi * self.nwi < 64
        if is_local and not strided and not is_short:
            joined = max(j for j in (4, 2, 1) if along % j == 0 and j * vector <= max(4, vector))
        for k, i in itertools.product(range(self.p["KWG"]), range(along)):
            place = at + i * dim if strided else i + at * along
            if is_local and i % joined == 0:
                self.note(f"{name}_load", vector, k * wide + place * vector, joined)
            if not is_local:
                self.note(f"{name}_direct", vector, k * size + place * vector)

    def result(self, tx, ty):
        p, vector = self.p, self.p["VWM"]
        for n, i in itertools.product(range(self.nwi), range(self.mwi // vector)):
            place = tx + i * p["MDIMC"] if p["STRM"] else i + tx * (self.mwi // vector)
            width = p["VWN"]
            row = n + ty * self.nwi
            if p["STRN"]:
                row = n % width + ty * width + n // width * width * p["NDIMC"]
            self.note("c_old", vector, row * SIZES["m"] + place * vector)


def cost(rows, simulate, rule):
    """Return the sum of what a rule says of some warps' accesses."""
    addresses, words = np.array([lanes for _, lanes in rows]), [word for word, _ in rows]
    return int(np.sum(simulate(addresses, words, rule)[0]))


@pytest.mark.parametrize("chosen", CONFIGURATIONS)
def test_accesses__as_a_walk_through_the_source_finds_them(chosen):
    walk, launch = Walk(chosen), launch_of(**chosen)
    steps, warps = SIZES["k"] // chosen["KWG"], walk.threads // 32
    accesses = {n: a for n, a in accesses_of(launch).items() if n != "c_new" and a.count.item()}
    assert set(accesses) == set(walk.seen)  # c_new is as c_old
    for name, access in accesses.items():
        rows, times = walk.seen[name], 1 if name == "c_old" else steps
        assert access.count.item() == times * len(rows) / warps
        of_block = access.count.item() * warps
        rule = "merging" if name.endswith(("_load", "_store")) else "warp"
        passes = cost(rows, simulate_bank_conflicts, rule)
        assert of_block * access.wavefronts.item() == times * passes
        if rule == "warp":
            sectors = cost(rows, simulate_transactions, "sector")
            assert of_block * access.sectors.item() == times * sectors
            # Each sector is new to the block once.
            new = {int(s) for word, lanes in rows for s in (lanes // 32).ravel()}
            assert sectors * (1 - access.l1_hit_rate.item()) == pytest.approx(len(new))


@pytest.mark.parametrize("chosen", CONFIGURATIONS)
def test_arithmetic_and_memory__of_the_whole_product(chosen):
    launch = launch_of(**chosen)
    work = launch.workload
    threads = work.threads_per_block.item() * work.blocks.item()
    products, elements = SIZES["m"] * SIZES["n"] * SIZES["k"], SIZES["m"] * SIZES["n"]
    assert work.instructions["fp32"].item() * threads == products + 2 * elements
    stored = accesses_of(launch)["c_new"]
    assert stored.count.item() * stored.bytes.item() * threads == 4 * elements
    local = chosen["SA"] * chosen["MWG"] + chosen["SB"] * chosen["NWG"]
    assert launch.values["shared_memory_bytes"].item() == 4 * chosen["KWG"] * local
    steps = SIZES["k"] / chosen["KWG"]
    assert work.barriers.item() == (2 * steps if local else 0)


REGISTERS = [  # NVRTC 11.8, the same algorithm in CUDA C++ with declared blocks: sm_52, sm_75
    ({"VWM": 4, "VWN": 4}, 48, 62),
    ({"MWG": 128, "NWG": 128, "VWM": 4, "VWN": 4}, 104, 116),
    ({"MWG": 128, "NWG": 128, "VWM": 8, "VWN": 8}, 107, 116),
    ({"MWG": 128, "NWG": 128, "MDIMC": 8, "MDIMA": 8, "VWM": 4, "VWN": 4}, 168, 215),
    ({"MWG": 128, "NWG": 128, "MDIMC": 8, "SA": 0, "SB": 0, "VWM": 2, "VWN": 1}, 166, 168),
]


def test_registers__near_those_of_a_compiler_and_bounded_by_the_block():
    for change, *compiled in REGISTERS:
        for device, registers in zip(("gtx_980_paper", "rtx_2080_ti"), compiled, strict=True):
            launch = launch_of(device, **(SQUARE | change))
            assert launch.values["registers_per_thread"].item() == pytest.approx(registers, rel=0.3)
    wide = {"MWG": 128, "NWG": 128, "MDIMC": 32, "NDIMC": 32, "MDIMA": 32, "NDIMB": 32, "VWN": 4}
    launch = launch_of(**(SQUARE | wide))
    assert launch.values["registers_per_thread"].item() <= 65536 / 1024
    assert launch.status.item() == STATUS["valid"]


# NVRTC 11.8.89 (sm_35; gtx_680: without const restrict, 64 registers), 12.9.86 (sm_52).
@pytest.mark.parametrize(("device", "change", "of_tile", "spilled"), [
    ("tesla_k20", {}, 51, 0), ("tesla_k20", {"SB": 0}, 224, 0), ("tesla_k20", {"SA": 0}, 138, 0),
    ("gtx_680", {"SB": 0}, 94, 0), ("gtx_680", {"MWG": 128, "NWG": 128, "SB": 0}, 409, 2259),
    ("gtx_980", {}, 56, 0), ("gtx_980", {"SA": 0}, 145, 0),
])  # fmt: skip
def test_instructions_before_volta__are_those_of_machine_code(device, change, of_tile, spilled):
    launch = launch_of(device, dict.fromkeys(SIZES, 4096), **(SQUARE | change))
    found, accesses = launch.workload.instructions, accesses_of(launch)
    beside = sum(found[name].item() for name in ("integer", "control")) / 128
    assert beside == pytest.approx(of_tile, rel=0.2)
    moved = sum(accesses[name].count.item() for name in ("spilled", "restored")) / 128
    assert moved == pytest.approx(spilled, rel=0.1)


def total(accesses, *names):
    return sum(np.prod([getattr(access, name).item() for name in names]) for access in accesses)


# CUDA's structures of 8 elements are no words, as vectors of 8 in OpenCL are.
@pytest.mark.parametrize("row", COUNTERS[np.maximum(COUNTERS["VWM"], COUNTERS["VWN"]) < 8])
def test_counts__are_those_of_hardware_counters(row):
    chosen = {name: int(row[name]) for name in SQUARE}
    launch = launch_of("h100_sxm", dict.fromkeys(SIZES, 4096), **chosen)
    work, near, values = launch.workload, pytest.approx, numbers_of(launch)
    warps = (work.blocks * work.threads_per_block).item() / 32
    for kind in ("load", "store"):
        local = [access for access in work.shared_accesses if access.kind == kind]
        assert row[f"shared_{kind}s"] / warps == total(local, "count")
        passes = total(local, "count", "wavefronts")
        assert row[f"shared_{kind}_passes"] / warps == near(passes, rel=0.14)
    loads = [access for access in work.global_accesses if access.kind == "load"]
    sectors = total(loads, "count", "sectors")
    counted = row["global_loads"] / warps, row["load_sectors"] / warps
    assert counted == (total(loads, "count"), sectors)
    hits = total(loads, "count", "sectors", "l1_hit_rate") / sectors
    assert hits < row["l1_hit_percent"] / 100 < hits + 0.13  # of blocks beside
    passes = row["l1_pass_percent"] / 100 * row["cycles"] * 132 - row["shared_passes"]
    assert passes / warps == near(total(loads, "count", "wavefronts"), rel=0.06)
    instructions = work.computation_instructions + total(work.global_accesses, "count")
    assert row["instructions"] / warps == near(instructions.item(), rel=0.03)
    # Each turn of the loop that loads waits longer than for the far part of L2.
    turns = 4096 / values["body_steps" if values["direct"] else "KWG"]
    far = load_device("h100_sxm").values["microbenchmark.l2_far_latency"]
    assert row["long_scoreboard"] * row["instructions"] / warps / turns > far


@pytest.mark.parametrize("change", [{}, {"MWG": 128}, {"NWG": 128, "MDIMC": 8, "NDIMC": 8}])
def test_reuse__of_strips_by_the_blocks_that_run_at_once(change):
    sizes = {"m": 4096, "n": 4096, "k": 4096}
    launch = launch_of(sizes=sizes, **(SQUARE | change))
    values = numbers_of(launch)
    columns = 4096 // int(values["MWG"])
    at_once = 68 * launch.workload.occupancy.active_blocks_per_sm.item()
    assert values["blocks_at_once"] == at_once
    # Blocks in the order of their start, first along m; each reads a strip of A and one of B.
    strips = Counter(b % columns for b in range(int(at_once)))
    assert values["miss_a"] == pytest.approx(len(strips) / at_once, rel=0.01)
    rows = len({b // columns for b in range(int(at_once))})
    assert values["miss_b"] == pytest.approx(rows / at_once, rel=0.3)  # the last row is not full


def test_space__is_the_published_one():
    space = read_t1(read_source(DATA / "gemm.T1.json"))
    kernel = load_kernel("xgemm")
    assert {name: tuple(v) for name, v in kernel.parameters.items()} == dict(space.parameters)
    ours = {" ".join(c.text.split()).replace(" / ", "/") for c in kernel.constraints}
    theirs = {" ".join(c.text.split()).replace(" / ", "/") for c in space.conditions}
    assert theirs <= ours
    values = itertools.product(*space.parameters.values())
    sample = np.array([v for i, v in enumerate(values) if i % 97 == 0])
    columns = dict(zip(space.parameters, sample.T, strict=True))
    holds = np.ones(len(sample), bool)
    for constraint in kernel.constraints:
        value, _ = constraint.evaluate({n: columns[n] for n in constraint.names})
        holds &= np.asarray(value) != 0
    np.testing.assert_array_equal(holds, space.satisfied(columns))
    assert 0 < np.count_nonzero(holds) < len(sample)


def test_passes__rank_measured_times():
    """What has to pass shared memory and L1 explains most of the order of the measured times."""
    with gzip.open(DATA / "gemm_RTX_2080_Ti.csv.gz", "rt") as file:
        rows = list(csv.DictReader(file))
    names = [n for n in load_kernel("xgemm").parameters if n in rows[0]]
    measured = {tuple(int(row[n]) for n in names): float(row["time_ms"]) for row in rows}
    launch = launched("xgemm", "rtx_2080_ti", KWG=32, STRM=0, STRN=0)
    work = launch.workload
    passes = sum(a.count * a.wavefronts for a in (*work.shared_accesses, *work.global_accesses))
    total = np.ravel(passes * np.ceil(work.threads_per_block / 32) * work.blocks)
    columns = [np.broadcast_to(np.ravel(launch.values[n]), total.shape) for n in names]
    times = np.array([measured[tuple(map(int, point))] for point in zip(*columns, strict=True)])
    assert len(times) == 17472
    assert spearman(total, times) > 0.94
    # On Turing, a pass of 128 bytes takes two cycles of an SM. At the boost clock of 1.545 GHz and
    # above, nothing is quicker than its passes, and those with most of them are no slower than 1.2.
    least = 2 * total / 68 / 1.545e9
    assert np.min(times / 1e3 / least) > 1545 / 2000
    many = total > np.quantile(total, 0.9)
    assert np.median((times / 1e3 / least)[many]) < 1.2


def test_the_best_that_clblast_found_on_22_gpus_is_predicted_near_the_best():
    """Its tuner times a small space in full and one in 512 of the rest (`docs/howto`)."""
    behind = {}
    with (DATA / "clblast_xgemm_best.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            device, best = row["device"], {n: int(row[n]) for n in SQUARE}
            axes = {size: [1024] for size in SIZES}
            plan = Plan(["xgemm"], [device], ["combined"], layout="stacked", axes=axes)
            found = evaluate(plan)["xgemm"].to_dataset()
            times = np.ravel(found["execution_time"])
            p = {n: found[n].values for n in SQUARE}
            small = (p["MWG"] <= 64) & (p["NWG"] <= 64) & (p["KWG"] == 32) & (p["SA"] == p["SB"])
            small &= (p["MDIMA"] == p["MDIMC"]) & (p["NDIMB"] == p["NDIMC"])
            small &= (p["VWM"] <= 4) & (p["VWN"] <= 4) & (p["STRM"] + p["STRN"] == 0)
            possible = np.sort(times[np.isfinite(times)])
            drawn = possible[int(possible.size * (1 - 0.5 ** (512 / possible.size)))]  # median best
            (listed,) = times[np.all([p[n] == best[n] for n in SQUARE], axis=0)]
            behind[device] = listed / min(np.nanmin(times[small]), drawn) - 1
    assert len(behind) == 22
    assert round(100 * np.median([*behind.values()])) == 6
    assert {d for d, share in behind.items() if share < 0.02} == {
        "tesla_k40", "titan_xp", "v100_pcie", "rtx_2080_ti", "titan_rtx", "a100_40gb"}  # fmt: skip
    assert {d for d, share in behind.items() if share > 0.15} == {"rtx_3060"}
