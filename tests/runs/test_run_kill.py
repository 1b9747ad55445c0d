"""Runs that are killed, interrupted, observed or started twice: equal bytes, and no chunk twice."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import fault_processes
from support.clusters import free_address
from support.fault_processes import CHUNKS, LONG, SPACE, run_child, scheduler_child, worker_child
from support.runs import command, environment, finished_chunks, journal, python, sweep, write_plan
from support.store_samples import digest

from sweep.errors import UnfinishedWarning
from sweep.query import best
from sweep.runs.running import run
from sweep.store import inspect

pytestmark = pytest.mark.slow

KILLS = 25
RUN = ("run", "long.toml", "--no-report")
INTERRUPTED = "\nsweep: interrupted; the same command continues 'long.zarr'\n"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Provide the hashes of the files of an undisturbed run."""
    path = tmp_path_factory.mktemp("reference") / "long.zarr"
    run(SPACE, path)
    return digest(path)


def reaches(store: Path, chunks: int, is_alive: Any) -> None:
    """Wait until the store is there and its journal has this many chunks, or the run ends."""
    end = time.monotonic() + 120
    while is_alive() and not (store.exists() and finished_chunks(store) >= chunks):
        assert time.monotonic() < end, "the run stands still"
        time.sleep(0.0005)


def check(store: Path, reference: dict[str, str]) -> None:
    entries = [(entry["group"], entry["chunk"]) for entry in journal(store)]
    assert len(entries) == len(set(entries)) == CHUNKS  # entered twice, if computed again
    assert inspect(store).is_finished
    for partial in store.rglob("*.partial"):  # of a killed worker, after the last run began
        partial.unlink()
    assert digest(store) == reference


# ---------------------------------------------------------------------------- many kills


@pytest.fixture(scope="module")
def forked() -> Iterator[Any]:
    """Provide ``forked(function, *arguments)``, which starts a process; end remaining ones."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["support.fault_processes"])
    processes = []

    def start(function: Any, *arguments: Any) -> Any:
        process = context.Process(target=function, args=arguments, daemon=True)
        process.start()
        processes.append(process)
        return process

    folder = str(Path(fault_processes.__file__).parents[1])
    before = dict(os.environ)
    paths = [folder, *filter(None, [before.get("PYTHONPATH")])]
    os.environ |= {"PYTHONPATH": os.pathsep.join(paths), "SWEEP_FAULTS": "1"}
    try:
        yield start
    finally:
        os.environ.clear()
        os.environ.update(before)
        for process in processes:
            process.kill()
            process.join()


class Cluster:
    """A scheduler and two workers, which are started again when they are killed."""

    def __init__(self, forked: Any) -> None:
        self.forked = forked
        self.start()

    def start(self) -> None:
        self.address = free_address()
        self.scheduler = self.forked(scheduler_child, self.address)
        self.workers = [self.forked(worker_child, self.address) for _ in range(2)]

    def kill_worker(self, index: int) -> None:
        self.workers[index].kill()
        self.workers[index].join()
        self.workers[index] = self.forked(worker_child, self.address)

    def kill_scheduler(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.join()
        self.start()


VICTIMS = {"alone": ["run"], "cluster": [*["run"] * 4, *["worker"] * 4, "scheduler"]}


@pytest.mark.parametrize("place", VICTIMS)
def test_killed_again_and_again(forked, reference, tmp_path, place):
    chance = random.Random(25)
    cluster = Cluster(forked) if place == "cluster" else None
    most, endings = (80, (0, 2, -signal.SIGKILL)) if cluster else (60, (0, -signal.SIGKILL))
    store, number, kills, process = tmp_path / "0.zarr", 0, 0, None
    while True:
        if process is None or not process.is_alive():
            if process is not None:
                process.join()
                assert process.exitcode in endings, process.exitcode
                if process.exitcode == 0:
                    check(store, reference)
                    if kills >= KILLS:
                        break
                    number += 1
                    store = tmp_path / f"{number}.zarr"
            process = forked(run_child, store, cluster.address if cluster else None)
        more = chance.randrange(most) if kills < KILLS else CHUNKS
        reaches(store, finished_chunks(store) + more, process.is_alive)
        if kills >= KILLS or not process.is_alive():
            continue
        kills += 1
        victim = chance.choice(VICTIMS[place])
        if victim == "run":
            time.sleep(chance.random() * 0.01)
            process.kill()
        elif victim == "worker":
            cluster.kill_worker(chance.randrange(2))
        else:
            cluster.kill_scheduler()
            process.join(60)
            assert process.exitcode in (0, 2), process.exitcode


# ---------------------------------------------------------------------------- the command line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(tmp_path / "long.toml", **LONG)
    return tmp_path


def start(folder: Path, *options: str, **given: Any) -> subprocess.Popen[str]:
    """Start the run in a session of its own, like that of a terminal."""
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
    line = command(*RUN, *options)
    return subprocess.Popen(line, cwd=folder, env=environment(), text=True,
                            start_new_session=True, **streams)  # fmt: skip


def stop(process: subprocess.Popen[str], store: Path, chunks: int, how: int) -> None:
    """Send all processes of a run a signal when its journal has this many chunks."""
    reaches(store, chunks, lambda: process.poll() is None)
    assert process.poll() is None
    os.killpg(process.pid, how)


def continued(folder: Path, reference: dict[str, str], kept: int) -> None:
    """Run again, and check what is printed and written."""
    done = sweep(*RUN, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert f"long.zarr: {SPACE.n_points - kept:,} configurations x 1 model" in done.stdout
    assert (f"{kept:,} kept from an earlier run" in done.stdout) == bool(kept)
    check(folder / "long.zarr", reference)
    assert not inspect(folder / "long.zarr").files.exists("chunk_index/lock")


@pytest.mark.parametrize(
    ("signals", "chunks", "options"),
    [
        ([signal.SIGKILL], 0, []),
        ([signal.SIGKILL], 300, []),
        ([signal.SIGINT], 0, []),
        ([signal.SIGINT], 100, []),
        ([signal.SIGINT] * 2, 50, []),
        ([signal.SIGINT] * 2, 50, ["--workers", "2"]),
    ],
    ids=["killed at the start", "killed", "interrupted while compiling", "interrupted",
         "interrupted twice", "workers interrupted twice"],
)  # fmt: skip
def test_stopped_run_continues(
    folder, reference, signals: Sequence[int], chunks: int, options: list[str]
):
    """At any moment a later run finds no store, or a store that it can continue.

    Ctrl-C reaches every process of the terminal, but prints one line.
    """
    store, process = folder / "long.zarr", start(folder, *options)
    stop(process, store, chunks, signals[0])
    for again in signals[1:]:
        time.sleep(0.02)
        os.killpg(process.pid, again)
    _, error = process.communicate(timeout=60)
    killed = signals[0] == signal.SIGKILL
    if not killed:
        assert (process.returncode, error) == (130, INTERRUPTED)
    found = inspect(store)
    assert found.record["plan"]["name"] == "long" and not found.is_finished
    assert sorted(os.listdir(folder)) == ["long.toml", "long.zarr"]
    # A killed run leaves its lock, which is stale without its owner.
    assert found.files.exists("chunk_index/lock") == killed
    kept = 0
    if finished_chunks(store) > 0:  # the finished part can be queried
        kept = sum(entry["summary"]["points"] for entry in journal(store))
        with pytest.warns(UnfinishedWarning):
            assert best(store)[0]["execution_time"] > 0
    continued(folder, reference, kept)


BETWEEN = """
import os
import {module} as module

def interrupted(*given, original=module.{name}, **named):
    if {before}:
        raise KeyboardInterrupt
    original(*given, **named)
    if str(given[-1]).endswith("long.zarr"):
        raise KeyboardInterrupt

module.{name} = interrupted
from sweep.cli import main
main()
"""


@pytest.mark.parametrize(
    "moment",
    [
        {"module": "os", "name": "rename", "before": False},  # as the store appears
        {"module": "sweep.store.writer", "name": "Store", "before": True},  # locked, not open
    ],
    ids=["created", "locked"],
)
def test_interrupted_where_nobody_releases_the_lock_yet(folder, reference, moment):
    done = python("-c", BETWEEN.format(**moment), *RUN, cwd=folder)
    assert (done.returncode, done.stderr) == (130, INTERRUPTED)
    assert not inspect(folder / "long.zarr").files.exists("chunk_index/lock")
    continued(folder, reference, 0)


def test_two_runs_at_once(folder, reference):
    """The second run is refused while the first continues undisturbed."""
    store, process = folder / "long.zarr", start(folder)
    stop(process, store, 1, signal.SIGSTOP)
    for options in ([], ["--overwrite"]):
        second = sweep("run", "long.toml", *options, cwd=folder)
        assert second.returncode == 2
        assert re.fullmatch(
            rf"sweep: 'long.zarr' is being written by process {process.pid} on host .*\n",
            second.stderr,
        )
    process.send_signal(signal.SIGCONT)
    process.communicate()
    assert process.returncode == 0
    assert digest(store) == reference


def test_progress_is_shown_on_a_terminal_only(folder):
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    with start(folder, stderr=theirs) as process:
        os.close(theirs)
        shown = bytearray()
        try:
            while block := os.read(ours, 4096):
                shown += block
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0
    bars = shown.decode().split("\r")
    assert any("compiling the models" in bar for bar in bars)
    # Share, configurations done and in all, time passed and left, rate.
    bar = r" *\d+%\|.*\| [\d.]+k?/124k \[\d\d:\d\d<\d\d:\d\d, [\d.]+k? configurations/s\]"
    assert sum(bool(re.fullmatch(bar, text)) for text in bars) > 5
    assert not bars[-1].strip()  # it leaves the terminal clean
    quiet = sweep("run", "long.toml", "--no-report", "--overwrite", cwd=folder)
    assert (quiet.returncode, quiet.stderr) == (0, "")
