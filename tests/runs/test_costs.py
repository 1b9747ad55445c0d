"""`sweep plan`: exact numbers against real runs, more workers, bad input."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.round_rates import pass_rates, rates
from support.runs import CHUNKS, POINTS, plan

from sweep.cli import main
from sweep.cli.planning import parse_bandwidth
from sweep.evaluation import variables
from sweep.evaluation.reducing import Reduction, count_pieces, pieces
from sweep.runs import execute as executing
from sweep.runs.costs import Resources
from sweep.runs.predicting import predict
from sweep.runs.rates import save_rates
from sweep.runs.running import run
from sweep.space import Box, Plan, count_parts, cut_box, resolve


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache directory of the test's own."""
    monkeypatch.setenv("SWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def calibrated(cache):
    save_rates(rates())


WIDE = {
    "kernels": ["matrixmul_shared", "sepia"],
    "devices": ["gtx_280", "gtx_980"],
    "models": ["hong_kim", "wang_chu"],
    "axes": {"core_clock": {"start": 400, "stop": 1000, "step": 5},
             "memory_clock": {"start": 400, "stop": 1000, "step": 5}},
}  # fmt: skip


# ---------------------------------------------------------------------------- exact numbers


@pytest.mark.parametrize("outputs", [None, ["execution_time", "occupancy", "regime"]])
@pytest.mark.parametrize("models", [["hong_kim"], ["hong_kim", "wang_chu"]])
def test_bytes_and_files_are_those_of_a_run(tmp_path, outputs, models):
    import zarr

    space = resolve(plan(outputs=outputs, models=models))
    finished = run(space, tmp_path / "small.zarr", threads=1)
    cost = predict(space, rates(), Resources(threads=1))
    assert (cost.configurations, cost.chunks, cost.tasks) == (POINTS, CHUNKS, CHUNKS)
    group = zarr.open_group(finished.path, mode="r")
    names = {k.kernel.key: {v.name for v in variables(k, space.plan)} for k in space.kernels}
    arrays = [group[f"{kernel}/{name}"] for kernel in names for name in names[kernel]]
    assert cost.result_bytes == sum(a.nbytes for a in arrays)
    assert cost.files == sum(math.prod(a.cdata_shape) for a in arrays)
    on_disk = sum(
        1 for kernel in names for name in names[kernel]
        for path in (finished.path / kernel / name).iterdir() if path.name != "zarr.json"
    )  # fmt: skip
    assert cost.files == on_disk


class Here:
    """A cluster's client that does each task at once, and counts them."""

    def __init__(self, slots):
        self.slots, self.tasks = slots, 0

    def nthreads(self):
        return {f"worker {i}": 1 for i in range(self.slots)}

    def replicate(self, futures):
        pass

    def submit(self, function, *arguments, **options):
        self.tasks += function is executing._apply
        return Done(function(*arguments))


class Done:
    def __init__(self, value):
        self.value = value

    def add_done_callback(self, callback):
        callback(self)

    def done(self):
        return True

    def result(self, timeout=None):
        return self.value

    def release(self):
        pass


class Nothing:
    def __call__(self, unit):
        return unit, {}


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 1000])
def test_tasks_are_those_of_a_run(monkeypatch, workers):
    space = resolve(plan())
    cost = predict(space, rates(), Resources(workers=workers))
    client = Here(workers)
    # What is shared is the job itself here.
    monkeypatch.setattr(executing, "_same", lambda job: Done(job))
    monkeypatch.setattr(
        executing, "_apply", lambda job, units, versions: pickle.dumps([(u, {}) for u in units])
    )
    units = [(k.kernel.key, i) for k in space.kernels for i in range(k.grid.n_chunks)]
    seen = []
    executing.execute(Nothing(), units, lambda *done: seen.append(done), points=space.n_points,
                      client=client)  # fmt: skip
    assert len(seen) == cost.chunks
    assert client.tasks == cost.tasks


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.lists(st.integers(0, 5), min_size=5, max_size=5),
    st.integers(1, 60),
)
def test_parts_are_counted_without_cutting(shape, start, limit):
    box = Box(tuple(start[: len(shape)]), tuple(a + n for a, n in zip(start, shape, strict=False)))
    assert count_parts(box, limit) == sum(1 for _ in cut_box(box, limit))


@pytest.mark.parametrize("by", [(), ("device", "model"), ("model", "tile")])
def test_pieces_are_counted_without_making_them(monkeypatch, by):
    import numpy as np

    from sweep.evaluation import reducing

    monkeypatch.setattr(reducing, "PIECE", 1000)
    space = resolve(Plan(**WIDE))["matrixmul_shared"]
    names = zip(("model", *space.grid.names), (2, *space.grid.shape), strict=True)
    indices = {name: np.arange(n) for name, n in names}
    question = Reduction("matrixmul_shared", ("execution_time",), (1,), by, indices, 2)
    assert count_pieces(space, by) == len(pieces(space, question))


# ---------------------------------------------------------------------------- seconds


PLANS = {
    "tiny": plan(),
    "wide": Plan(**WIDE),
    "nominal": Plan(
        kernels=["vector_add"], devices=["gtx_980"], models=["hong_kim"],
        axes={"n": {"start": 65536, "stop": 65536 * 5000, "step": 65536},
              "block_size": {"start": 32, "stop": 1024, "step": 32}},
    ),
    "many chunks": Plan(**{**WIDE, "chunk_points": 20_000}),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("stores", [True, False])
def test_more_workers_are_never_slower(name, stores):
    """Until the scheduler or the bandwidth bounds the run, and then they change nothing."""
    space = resolve(PLANS[name])
    for bandwidth in (None, 1e6, 1e9):
        found = [
            predict(space, rates(cluster_s=0.0, worker_s=0.0, task_s=0.0),
                    Resources(workers=n, bandwidth=bandwidth), stores=stores).seconds
            for n in (1, 2, 3, 5, 8, 13, 100, 1000)
        ]  # fmt: skip
        assert found == sorted(found, reverse=True)


def test_bandwidth_bounds_from_where_it_says():
    space = resolve(PLANS["wide"])
    slow = 2e6
    cost = predict(space, rates(), Resources(workers=1000, bandwidth=slow))
    assert cost.bottleneck == "bandwidth"
    assert cost.elapsed_s["bandwidth"] == cost.stored_bytes / slow
    assert cost.enough < 1000
    few = predict(space, rates(), Resources(workers=cost.enough, bandwidth=slow, threads=1))
    assert max(few.elapsed_s, key=few.elapsed_s.get) == "bandwidth"


def test_more_of_everything_takes_longer():
    base = predict(resolve(PLANS["wide"]), rates(), Resources(workers=4))
    axes = {**WIDE["axes"], "tile": [8, 16], "n": [512, 1024, 2048, 4096]}
    more = predict(resolve(Plan(**{**WIDE, "axes": axes})), rates(), Resources(workers=4))
    assert more.seconds > base.seconds
    assert more.stored_bytes > base.stored_bytes
    slower = tuple(replace(p, write_s=1e-6) for p in rates().passes)
    bound = predict(resolve(PLANS["wide"]), rates(passes=slower), Resources(workers=4))
    assert bound.bottleneck == "writing"
    assert bound.seconds > base.seconds


def test_machine_shares_its_cores():
    space, one = resolve(PLANS["many chunks"]), Resources(workers=8, cores=1)
    alone = predict(space, rates(), one)
    apart = predict(space, rates(), Resources(workers=8))
    assert alone.elapsed_s["compilation"] == 8 * apart.elapsed_s["compilation"]
    assert alone.elapsed_s["computing"] > 7.9 * apart.elapsed_s["computing"]


def test_stages_scale_what_follows_them():
    """Rates of a kernel of one stage serve for one of many, scaled by their number."""
    given = {"devices": ["gtx_980"], "models": ["zhang_owens"]}
    many = resolve(Plan(kernels=["cyclic_reduction"], **given))
    one = tuple(replace(p, length=1) for p in rates().passes)
    cost = predict(many, rates(passes=one), Resources(threads=1))
    assert any("rates of sepia" in note for note in cost.notes)
    assert cost.elapsed_s["compilation"] > 5


def test_local_disk_takes_what_the_system_does_not_hold_back():
    space, here = resolve(PLANS["wide"]), Resources(threads=2)
    free = predict(space, rates(), here)
    slow = rates(disk=1e6, held_bytes=1e6)
    cost = predict(space, slow, here)
    assert cost.elapsed_s["bandwidth"] == pytest.approx((free.stored_bytes - 1e6) / 1e6)
    assert cost.bottleneck == "bandwidth" and cost.seconds > free.seconds
    assert predict(space, rates(disk=1e6, held_bytes=1e12), here).seconds == free.seconds
    # A given bandwidth is that of the store's place; other machines and buckets have their own.
    given = predict(space, slow, Resources(threads=2, bandwidth=1e12))
    assert given.elapsed_s["bandwidth"] < 1e-3
    assert predict(space, slow, Resources(workers=1000)).elapsed_s["bandwidth"] == 0
    bucket = resolve(replace(PLANS["wide"], store="s3://bucket/wide.zarr"))
    assert predict(bucket, slow, here).elapsed_s["bandwidth"] == 0
    assert predict(space, slow, here, stores=False).elapsed_s["bandwidth"] == 0


def test_memory_that_is_touched_first_costs_writing():
    space, one = resolve(PLANS["wide"]), Resources(threads=1)
    base, fresh = (predict(space, rates(fresh_s=s), one) for s in (0.0, 1e-9))
    more = fresh.cpu_s["writing"] - base.cpu_s["writing"]
    assert more == pytest.approx(base.stored_bytes * 1e-9)


# ---------------------------------------------------------------------------- command line


def test_table_tells_the_whole(calibrated, capsys):
    assert main(["plan", "million", "--workers", "1000", "--bandwidth", "10MB/s"]) == 0
    text = capsys.readouterr().out
    for part in ("1,210,860 configurations x 2 models", "1,000 workers of 1 thread", "compilation",
                 "rates of sepia", "while computing", "bottleneck: ", "together"):  # fmt: skip
        assert part in text
    assert main(["plan", "billion"]) == 0
    assert "a question that stores nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--bandwidth", "10"], "--bandwidth '10': a number above 0 with its unit"),
        (["--bandwidth", "10Gb/s"], "such as 10GB/s, 500MiB/s or 10Gbit/s"),
        (["--bandwidth", "0GB/s"], "--bandwidth '0GB/s': a number above 0"),
        (["--bandwidth", "-1GB/s"], "--bandwidth '-1GB/s': a number above 0"),
        (["--bandwidth", "1.2.3GB/s"], "--bandwidth '1.2.3GB/s': a number above 0"),
        (["--bandwidth", ""], "--bandwidth '': a number above 0"),
        (["--workers", "0"], "--workers 0: at least 1"),
        (["--threads", "-3"], "--threads -3: at least 1"),
        (["--cores", "0"], "--cores 0: at least 1"),
    ],
)
def test_bad_numbers_are_told_in_a_line(arguments, told, calibrated, capsys):
    assert main(["plan", "million", *[f"{arguments[0]}={arguments[1]}"]]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1


def test_unknown_plan_is_told(calibrated, capsys):
    assert main(["plan", "milion"]) == 2
    assert "did you mean 'million'?" in capsys.readouterr().err


def test_model_that_was_not_calibrated_is_told(cache, capsys):
    save_rates(rates(passes=(pass_rates(model="wang_chu"),)))
    assert main(["plan", "million"]) == 2
    assert "hong_kim with clocks inside is not calibrated" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10GB/s", 1e10), ("500 MiB/s", 500 * 2**20), ("1e9B/s", 1e9), ("8kbit/s", 1000.0)],
)
def test_units_of_bandwidth(text, rate):
    assert parse_bandwidth(text) == rate
