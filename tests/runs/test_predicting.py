"""`sweep plan`: exact numbers compared with real runs, measured rates, workers, bad input."""

import json
import math
import pickle
import subprocess
import sys
from dataclasses import replace
from unittest.mock import Mock

import numpy as np
import pytest
from support.round_rates import rates, sample
from support.runs import CHUNKS, POINTS, plan, write_plan

from sweep import __version__
from sweep.cli import main, values
from sweep.errors import PlanError
from sweep.evaluation.variables import variables
from sweep.runs import execute as executing
from sweep.runs import rates as kept
from sweep.runs import sampling
from sweep.runs.predicting import predict
from sweep.runs.rates import load_rates, save_rates
from sweep.runs.running import run
from sweep.runs.workers import Workers
from sweep.space import Plan, resolve

CALIBRATION_PATH = kept.calibration_path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Provide a directory of rates for one test; compiled passes stay where they are."""
    path = tmp_path / "cache" / "calibration.json"
    monkeypatch.setattr(kept, "calibration_path", lambda: path)
    return tmp_path / "cache"


@pytest.fixture
def calibrated(cache):
    save_rates(rates())


WIDE = {
    "kernels": ["matrixmul_shared", "sepia"],
    "devices": ["gtx_280", "gtx_980_paper"],
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
    cost = predict(space, rates(), Workers(threads=1))
    assert [cost[n] for n in ("configurations", "chunks", "tasks")] == [POINTS, CHUNKS, CHUNKS]
    group = zarr.open_group(finished.path, mode="r")
    names = [f"{k.kernel.key}/{v.name}" for k in space.kernels for v in variables(k, space.plan)]
    arrays = [group[name] for name in names]
    assert cost["result_bytes"] == sum(a.nbytes for a in arrays)
    assert cost["files"] == sum(math.prod(a.cdata_shape) for a in arrays)
    files = [path for name in names for path in (finished.path / name).iterdir()]
    assert cost["files"] == sum(path.name != "zarr.json" for path in files)


def client_of(workers):
    """Return a cluster's client that executes each task at once."""

    def submit(function, *arguments, **options):
        value = function(*arguments)
        future = Mock(done=lambda: True, result=lambda timeout: value)
        future.add_done_callback = lambda callback: callback(future)
        return future

    slots = {f"worker {i}": 1 for i in range(workers)}
    return Mock(nthreads=lambda: slots, submit=Mock(side_effect=submit))


@pytest.mark.parametrize("workers", [1, 2, 3, 7, 1000])
def test_tasks_are_those_of_a_run(monkeypatch, workers):
    def batch(job, units, versions):
        return pickle.dumps([(unit, {}) for unit in units])

    monkeypatch.setattr(executing, "_compute_batch", batch)
    space, client, seen = resolve(plan()), client_of(workers), []
    cost = predict(space, rates(), Workers(processes=workers))
    units = [(k.kernel.key, i) for k in space.kernels for i in range(k.grid.n_chunks)]
    given = {"points": space.n_points, "client": client}
    executing.execute(batch, units, lambda *done: seen.append(done), **given)
    assert len(seen) == cost["chunks"]
    assert sum(c.args[0] is batch for c in client.submit.call_args_list) == cost["tasks"]


# ---------------------------------------------------------------------------- seconds


PLANS = {
    "tiny": plan(),
    "wide": Plan(**WIDE),
    "nominal": Plan(
        kernels=["vector_add"], devices=["gtx_980_paper"], models=["hong_kim"],
        axes={"n": {"start": 65536, "stop": 65536 * 5000, "step": 65536},
              "block_size": {"start": 32, "stop": 1024, "step": 32}},
    ),
    "many chunks": Plan(**{**WIDE, "chunk_points": 20_000}),
    "wider": Plan(
        **{**WIDE, "axes": {**WIDE["axes"], "tile": [8, 16], "n": [512, 1024, 2048, 4096]}}
    ),
}  # fmt: skip


def predicted(name, processes, changes=None, **options):
    """Return the cost of a plan with worker processes of one thread."""
    workers = Workers(processes=processes)
    return predict(resolve(PLANS[name]), rates(**(changes or {})), workers, **options)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("stores", [True, False])
@pytest.mark.parametrize("bandwidth", [None, 1e6, 1e9])
def test_more_workers_are_never_slower(name, stores, bandwidth):
    """More workers help until the scheduler or the bandwidth limits the run."""
    free = {"cluster_s": 0.0, "worker_s": 0.0, "task_s": 0.0}
    costs = [predicted(name, n, free, bandwidth=bandwidth, stores=stores)
             for n in (1, 2, 3, 5, 8, 13, 100, 1000)]  # fmt: skip
    found = [cost["seconds"] for cost in costs]
    assert found == sorted(found, reverse=True)


def test_bandwidth_bounds_from_where_it_says():
    slow = 2e6
    cost = predicted("wide", 1000, bandwidth=slow)
    assert cost["bottleneck"] == "bandwidth"
    assert cost["elapsed_s"]["bandwidth"] == cost["stored_bytes"] / slow
    assert cost["enough"] < 1000
    few = predicted("wide", cost["enough"], bandwidth=slow)["elapsed_s"]
    assert max(few, key=few.get) == "bandwidth"


def test_more_of_everything_takes_longer():
    base, more = predicted("wide", 4), predicted("wider", 4)
    assert more["seconds"] > base["seconds"]
    assert more["stored_bytes"] > base["stored_bytes"]
    slower = tuple(replace(s, byte_s=1e-6) for s in rates().samples)
    bound = predicted("wide", 4, {"samples": slower})
    assert bound["bottleneck"] == "writing"
    assert bound["seconds"] > base["seconds"]


def test_machine_shares_its_cores():
    alone, apart = (predicted("many chunks", 8, cores=cores)["elapsed_s"] for cores in (1, None))
    assert alone["compilation"] == 8 * apart["compilation"]
    assert alone["computing"] > 7.9 * apart["computing"]


def test_the_most_similar_sample_is_used():
    space = resolve(PLANS["wide"])  # two kernels, 121 x 121 pairs of clocks
    (first, second), own = space.kernels, space.kernels[0].kernel.sha256
    both = {"models": ("wang_chu", "hong_kim")}
    found = rates(samples=(
        sample(kernel="other", clocks=14641, **both), sample(kernel="other", clocks=1, **both),
        sample(sha256=own, clocks=100, **both), sample(sha256=own, clocks=10_000, **both),
        sample(sha256=own, clocks=14641), sample(sha256=own, clocks=14641, kind="question", **both),
    ))  # fmt: skip
    assert found.find("run", first, space.plan) is found.samples[3]
    assert found.find("run", second, space.plan) is found.samples[0]
    assert found.find("question", second, space.plan) is found.samples[5]
    notes = predict(space, found, Workers(threads=1))["notes"]
    assert notes == ("sepia was not calibrated: rates of other",)
    few = rates(samples=found.samples[:1] + found.samples[2:3])
    assert predict(space, few, Workers(threads=1))["notes"][0] == (
        "matrixmul_shared was calibrated with 100 pairs of clocks"
    )
    nominal = resolve(
        Plan(kernels=["sepia"], devices=["gtx_980_paper"], models=["wang_chu", "hong_kim"])
    )
    with pytest.raises(PlanError, match="sepia: wang_chu, hong_kim without clocks not calibr"):
        predict(nominal, few, Workers(threads=1))


# ---------------------------------------------------------------------------- measured rates


@pytest.mark.slow
def test_calibration_measures_the_plan(folder, capsys, cache):
    write_plan(folder / "small.toml")
    assert main(["plan", "small.toml"]) == 2
    assert "not calibrated" in capsys.readouterr().err
    assert main(["plan", "small.toml", "--calibrate", "--workers", "3"]) == 0
    assert "bottleneck: " in capsys.readouterr().out
    found = load_rates()
    assert {(s.kind, s.kernel) for s in found.samples} == {
        (kind, kernel) for kind in ("run", "question") for kernel in ("sepia", "mat_tiled")
    }
    for s in found.samples:
        assert max(s.point_s, s.byte_s) > 0 and s.process_bytes > 0  # a busy machine may only write
        assert (s.byte_s > 0) == (s.kind == "run")
    assert min(found.start_s, found.cluster_s, found.task_s, found.dask_s, found.store_s) > 0
    # Samples of another plan are added to the existing ones.
    save_rates(rates())
    assert len(load_rates().samples) == len(rates().samples) + len(found.samples)
    assert main(["plan", "small.toml", "--format", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["chunks"], shown["configurations"]) == (CHUNKS, POINTS)
    assert sorted(path.name for path in folder.iterdir()) == ["cache", "small.toml"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_is_the_process_s_own():
    """What getrusage tells begins with the peak of the process that started this one."""
    large = np.ones(1 << 27)
    ask = "from sweep.runs.sampling import _peak_bytes; print(_peak_bytes())"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert 1e7 < int(done.stdout) < large.nbytes / 2 < sampling._peak_bytes()


def test_part_of_a_list_takes_no_memory():
    """Tables of numbers were most of what a sample of a long list held."""
    (space,) = resolve(Plan(("xgemm",), ("rtx_3080",), ("combined",), layout="stacked")).kernels
    (whole,) = (d for d in space.grid.dimensions if d.stacked is not None)
    for numbers in (range(10, 5_000, 3), np.arange(10, 5_000), np.array([3, 1, 4])):
        part = whole.taken(numbers)
        assert list(part.values) == list(numbers)
        for name, column in part.stacked.indices.items():
            np.testing.assert_array_equal(column, whole.stacked.indices[name][np.asarray(numbers)])
            is_long = len(numbers) > 3
            assert np.shares_memory(column, whole.stacked.indices[name]) == is_long
        assert isinstance(part.values, range) == is_long


def test_sample_that_fails_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("raise SystemExit('no memory')\n")
    with pytest.raises(PlanError, match="the plan cannot be sampled: "):
        sampling.calibrate(resolve(plan()))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (f'"version": "{__version__}"', '"version": "0.0.1"', "is of sweep 0.0.1, this is "),
        ('"processor": "', '"processor": "Pentium ', "is of another processor (Pentium "),
        ('"start_s": 1.0', '"start_s": "soon"', "damaged"),
        ('"start_s": 1.0', '"start_s": -1.0', "damaged"),
        ('"start_s": 1.0', '"start_s": NaN', "damaged"),
        ('"clocks": 1,', '"clocks": 0,', "damaged"),
        ('"kernel": "sepia"', '"kernel": []', "damaged"),
        ('"schema": 4', '"schema": 3', "damaged or of another format"),
        ('"samples": [', '"samples": [3,', "damaged"),
        ("{", "[" * 100_000, "damaged"),
    ],
)
def test_rates_that_do_not_fit_are_refused(old, new, message, capsys):
    path = save_rates(rates())
    path.write_text(path.read_text().replace(old, new, 1))
    assert main(["plan", "million"]) == 2
    error = capsys.readouterr().err
    assert message in error and "--calibrate" in error and error.count("\n") == 1
    save_rates(rates())  # takes their place
    assert load_rates() == rates()


def test_directory_of_rates(monkeypatch, tmp_path):
    monkeypatch.setattr(kept, "calibration_path", CALIBRATION_PATH)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(PlanError, match="SWEEP_CACHE_DIR names another"):
        save_rates(rates())
    monkeypatch.setenv("SWEEP_CACHE", str(tmp_path / "rates"))  # is not read any more
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "passes"))
    path = save_rates(rates())
    assert path == tmp_path / "passes" / "calibration.json"
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode  # as other files


# ---------------------------------------------------------------------------- command line


def test_table_tells_the_whole(calibrated, capsys):
    assert main(["plan", "million", "--workers", "1000", "--bandwidth", "10MB/s"]) == 0
    text = capsys.readouterr().out
    for part in ("1,210,860 configurations x 2 models", "1,000 workers of 1 thread", "compilation",
                 "rates of sepia", "while computing", "bottleneck: ", "together"):  # fmt: skip
        assert part in text
    assert main(["plan", "billion"]) == 0
    text = capsys.readouterr().out
    assert "sweep best, which stores nothing, on" in text
    assert "note: `sweep run` of a plan that keeps no store asks several such questions" in text


BAD_BANDWIDTH = "--bandwidth '{}': a number above 0 with its unit, such as 10GB/s, 500MiB/s or 10"


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        *((f"--bandwidth={text}", BAD_BANDWIDTH.format(text))
          for text in ("10", "10Gb/s", "0GB/s", "-1GB/s", "1.2.3GB/s", "")),
        ("--workers=0", "--workers 0: at least 1"),
        ("--threads=-3", "--threads -3: at least 1"),
        ("--cores=0", "--cores 0: at least 1"),
    ],
)  # fmt: skip
def test_bad_numbers_are_one_line(argument, message, calibrated, capsys):
    assert main(["plan", "million", argument]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10GB/s", 1e10), ("500 MiB/s", 500 * 2**20), ("1e9B/s", 1e9), ("8kbit/s", 1000.0)],
)
def test_units_of_bandwidth(text, rate):
    assert values.bandwidth(text, "--bandwidth") == rate
