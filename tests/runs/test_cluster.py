"""Runs on a Dask cluster of other processes: equal bytes, and clear errors."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dask
import pytest
from support.clusters import appears, end, slow_writes, started, wait_for, worker
from support.runs import CHUNKS, POINTS, Stop, journal, plan, sweep, write_plan
from support.store_samples import digest

from sweep import __version__
from sweep.errors import StoreError, SweepError
from sweep.runs import workers
from sweep.runs.execute import batch_size
from sweep.runs.running import run
from sweep.runs.workers import Workers

slow = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Provide the address of a scheduler with two worker processes."""
    with started(2, tmp_path_factory.mktemp("cluster")) as (address, _):
        yield address


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Provide the hashes of the files of a run in this process."""
    path = tmp_path_factory.mktemp("local") / "small.zarr"
    run(plan(), path)
    return digest(path)


@pytest.fixture
def impatient() -> Iterator[None]:
    with dask.config.set({"distributed.comm.timeouts.connect": "2s"}):
        yield


# ------------------------------------------------------------------------------ tasks


@pytest.mark.parametrize(
    ("units", "points", "slots", "size"),
    [
        (1, 2_000_000, 2, 1),
        (1000, 1000 * 2_000_000, 2, 8),  # chunks of usual size: 16 million configurations
        (1000, 1000 * 20_000_000, 2, 1),  # large ones: each is a task
        (1000, 1000 * 2_000_000, 100, 1),  # of few chunks each thread gets some
        (1000, 1000 * 200, 2, 62),
        (100_000, 100_000 * 100_000, 16, 160),
        (100_000, 100_000 * 2_000_000, 1000, 8),
        (1_000_000, 1_000_000 * 2_000_000, 16, 50),  # never more than 20,000 tasks
        (10, 10, 64, 1),
    ],
)
def test_batch__is_large_but_not_too_large(units, points, slots, size):
    assert batch_size(units, points, slots) == size


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scheduler": "tcp://a:1", "processes": 2}, "--scheduler and --workers exclude"),
        ({"scheduler": "tcp://a:1", "scheduler_file": "f"}, "--scheduler and --scheduler-file ex"),
        ({"processes": 0}, "--workers 0: at least 1"),
        ({"scheduler_file": "f", "threads": 4}, "--threads 4: .* `dask worker --nthreads`"),
    ],
)
def test_workers__that_exclude_each_other(given, message):
    with pytest.raises(SweepError, match=message):
        Workers(**given)


# ------------------------------------------------------------------------------ results


@slow
def test_bytes_are_those_of_a_local_run(cluster, local, tmp_path):
    seen: list[int] = []
    finished = run(
        plan(), tmp_path / "a.zarr", scheduler=cluster, progress=lambda n, *_: seen.append(n)
    )
    assert (finished.computed, finished.resumed) == (POINTS, 0)
    assert (seen[0], seen[-1], len(seen)) == (0, POINTS, CHUNKS + 1)
    assert digest(tmp_path / "a.zarr") == local


@slow
@pytest.mark.parametrize("who", ["--scheduler", "--workers"])
def test_command_line_and_relative_paths(cluster, local, tmp_path, who):
    """The workers of a cluster have another working directory."""
    options = {"--scheduler": [cluster], "--workers": ["2", "--threads", "2"]}[who]
    write_plan(tmp_path / "small.toml")
    done = sweep("run", "small.toml", who, *options, "--no-report", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(journal(tmp_path / "small.zarr")) == CHUNKS
    assert digest(tmp_path / "small.zarr") == local


@slow
def test_processes_of_the_command_keep_freed_memory_and_admit_nobody_else():
    """Freed memory is reused, and a client without the temporary keys cannot connect."""
    from distributed import Client

    with workers.cluster(Workers(processes=1)) as client:
        (found,) = client.run(lambda: dict(os.environ)).values()
        address = client.scheduler.address
        workers_address = next(iter(client.nthreads()))
        assert address.startswith("tls://") and workers_address.startswith("tls://")
        for stranger in (address, address.replace("tls://", "tcp://")):
            with pytest.raises((OSError, TypeError)):
                Client(stranger, timeout="2s", set_as_default=False)
    assert "MALLOC_TRIM_THRESHOLD_" not in found
    assert found["OMP_NUM_THREADS"] == "1"


@slow
def test_worker_that_dies_while_it_starts_is_one_line(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(workers, "IGNORE_INTERRUPTS", "import os\nos._exit(9)\n")
    with pytest.raises(SweepError, match=r"^a worker process ended while it started \(Nanny fail"):
        run(plan(), tmp_path / "a.zarr", workers=1)
    assert not (tmp_path / "a.zarr").exists()
    assert capfd.readouterr().err == ""


@slow
def test_cluster_object_instead_of_an_address(local, tmp_path):
    """A cluster object has its own security, which an address alone does not."""
    from distributed import LocalCluster, Security

    options = {"security": Security.temporary(), "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=2, **options) as own:
        run(plan(), tmp_path / "a.zarr", scheduler=own)
    assert digest(tmp_path / "a.zarr") == local


@slow
def test_interrupted_run_is_continued_elsewhere(cluster, local, tmp_path):
    def progress(done: int, *_: int) -> None:
        if done > POINTS // 3:
            raise Stop

    with pytest.raises(Stop):
        run(plan(), tmp_path / "a.zarr", scheduler=cluster, progress=progress)
    assert POINTS // 3 < 2 * len(journal(tmp_path / "a.zarr")) < POINTS
    finished = run(plan(), tmp_path / "a.zarr", threads=1)
    assert finished.resumed > POINTS // 3
    assert digest(tmp_path / "a.zarr") == local


@slow
def test_threads_of_a_worker_compile_once(local, tmp_path):
    """Four threads of two processes start at once, with an empty cache of compiled passes."""
    cache = tmp_path / "compiled"

    # Local functions: they travel to the workers by value.
    def count() -> None:
        import builtins

        from numba.core import event

        from sweep.evaluation import limits

        limits.UNCOMPILED = 0

        class Listener(event.Listener):
            def on_start(self, event):
                name = event.data["dispatcher"].py_func.__name__
                if name.startswith("evaluate_"):
                    builtins.compilations.append((name, str(event.data["args"])))

            def on_end(self, event):
                pass

        builtins.compilations = []
        event.register("numba:compile", Listener())

    def compilations() -> list[tuple[str, str]]:
        import builtins

        return builtins.compilations

    with started(2, tmp_path, threads=4, SWEEP_CACHE_DIR=str(cache)) as (address, _):
        from distributed import Client

        with Client(address, set_as_default=False) as client:
            client.run(count)
            run(plan(), tmp_path / "a.zarr", scheduler=address)
            found = list(client.run(compilations).values())
    assert any(found)  # a process may also find what the other compiled
    assert all(len(names) == len(set(names)) for names in found)
    names = [path.name for path in cache.iterdir()]
    assert names and not [name for name in names if name.startswith(".writing")]
    assert digest(tmp_path / "a.zarr") == local


# ------------------------------------------------------------------------------ faults


@slow
def test_error_on_a_worker_is_one_line(cluster, tmp_path):
    """Simulate a worker without the shared file system, which cannot write."""
    path = tmp_path / "a.zarr"

    def progress(done: int, *_: int) -> None:
        if not done:
            path.rename(tmp_path / "b.zarr")

    with pytest.raises(StoreError, match=r"^cannot write '.*/a.zarr/.*': No such file or directo"):
        run(plan(), path, scheduler=cluster, progress=progress)


@slow
def test_scheduler_without_workers(tmp_path, impatient):
    message = "the Dask scheduler at '{}' has no workers"
    with started(0, tmp_path) as (address, _):
        with pytest.raises(SweepError, match=message.format(address)):
            run(plan(), tmp_path / "a.zarr", scheduler=address)
    assert not (tmp_path / "a.zarr").exists()


def test_scheduler_file_that_never_comes(tmp_path, impatient):
    (tmp_path / "deep.json").write_text("[" * 100_000)
    for name, why in (("missing", "it does not exist"), ("deep", "a scheduler did not write it")):
        with pytest.raises(SweepError, match=f"--scheduler-file '.*{name}.json': {why}"):
            run(plan(), tmp_path / "a.zarr", scheduler_file=tmp_path / f"{name}.json")
    assert not (tmp_path / "a.zarr").exists()


@contextmanager
def slow_worker(
    folder: Path, at: int, seconds: float = 600, then=lambda *_: None, second: bool = False
) -> Iterator[str]:
    """Yield the address of a scheduler whose worker stops at a write; ``then`` is called there.

    It receives the address and the processes, the scheduler first, and may add to them. A second
    worker writes without stopping.
    """
    path, reached = slow_writes(folder / "slow", at=at, seconds=seconds)
    with started(1, folder, path=path) as (address, processes):
        processes += [worker(address, folder)] if second else []
        wait_for(address, 1 + second)
        watcher = threading.Thread(target=lambda: (appears(reached), then(address, processes)))
        watcher.start()
        try:
            yield address
        finally:
            watcher.join()


@slow
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "slow"])
def test_worker_killed_in_the_middle_of_a_chunk_or_slow(local, tmp_path, killed):
    """The other one takes over its chunks, and does not wait for a slow one."""
    options = {"then": lambda _, processes: end(processes[1])} if killed else {"seconds": 5}
    with slow_worker(tmp_path, at=3, second=True, **options) as address:
        run(plan(), tmp_path / "a.zarr", scheduler=address)
    partial = list((tmp_path / "a.zarr").rglob("*.partial"))
    assert len(partial) == killed  # the interrupted write, which a continued run removes
    for path in partial:
        path.unlink()
    assert digest(tmp_path / "a.zarr") == local


@slow
@pytest.mark.parametrize(
    ("victim", "message"),
    [(1, "has had no workers for 2 s; the same command"),
     (0, r"^the Dask cluster failed: .*; the same command")],
    ids=["last worker", "scheduler"],
)  # fmt: skip
def test_last_worker_or_scheduler_killed_and_the_run_continued(
    local, tmp_path, impatient, victim, message
):
    kill = slow_worker(tmp_path, at=150, then=lambda _, them: end(them[victim]))
    with kill as address, pytest.raises(SweepError, match=message):
        run(plan(), tmp_path / "a.zarr", scheduler=address)
    assert 0 < len(journal(tmp_path / "a.zarr")) < CHUNKS
    with started(1, tmp_path) as (address, _):
        finished = run(plan(), tmp_path / "a.zarr", scheduler=address)
    assert finished.resumed > 0
    entries = [(entry["group"], entry["chunk"]) for entry in journal(tmp_path / "a.zarr")]
    assert len(set(entries)) == len(entries) == CHUNKS
    assert digest(tmp_path / "a.zarr") == local


def other_version(folder: Path, package: str) -> Path:
    """Return a path on which ``package`` appears to have version 0.0.9."""
    name = package.replace("-", "_")
    info = folder / f"{name}-0.0.9.dist-info"
    info.mkdir(parents=True)
    text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.0.9\n"
    (info / "METADATA").write_text(text, encoding="utf-8")
    return folder


@slow
@pytest.mark.parametrize("package", ["kernel-sweep", "numcodecs"])
def test_worker_with_another_version_is_refused(tmp_path, package):
    path = other_version(tmp_path / "other", package)
    message = (
        rf"^the Dask worker at 'tcp://127.0.0.1:\d+' has {package} 0\.0\.9, "
        r"this process has \d[^\n]*$"
    )
    with started(1, tmp_path, path=path) as (address, _), pytest.raises(SweepError, match=message):
        run(plan(), tmp_path / "a.zarr", scheduler=address)
    assert not (tmp_path / "a.zarr").exists()


@slow
def test_worker_with_another_version_that_joins_late(local, tmp_path):
    path = other_version(tmp_path / "other", "kernel-sweep")

    def join(address: str, processes: list) -> None:
        processes.append(worker(address, tmp_path, path=path))

    refused = f"has kernel-sweep 0.0.9, this process has {__version__}"
    with slow_worker(tmp_path, at=3, then=join) as address:
        with pytest.raises(SweepError, match=refused):
            run(plan(), tmp_path / "a.zarr", scheduler=address)
    run(plan(), tmp_path / "a.zarr")
    assert digest(tmp_path / "a.zarr") == local
