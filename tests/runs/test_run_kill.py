"""``sweep run`` killed, interrupted, observed and started twice on the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.runs import command, environment, finished_chunks, journal, sweep, write_plan
from support.store_samples import digest

from sweep.query import best
from sweep.store.root import inspect

pytestmark = pytest.mark.slow

LONG: dict[str, Any] = {
    "kernels": ["sepia"],
    "outputs": ["execution_time", "energy", "occupancy"],
    "chunk_points": 200,
    "axes": {
        "block_size": {"start": 1, "stop": 512, "step": 1},
        "core_clock_ratio": {"start": 0.9, "stop": 1.1, "step": 0.02},
        "memory_clock_ratio": {"start": 0.9, "stop": 1.1, "step": 0.02},
    },
}
"""Half a thousand chunks: some seconds of writing."""

CHUNKS = 1024
INTERRUPTED = "\nsweep: interrupted; the same command continues 'long.zarr'\n"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Provide the hashes of the files of an undisturbed run."""
    folder = tmp_path_factory.mktemp("reference")
    write_plan(folder / "long.toml", **LONG)
    done = sweep("run", "long.toml", "--no-report", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert len(journal(folder / "long.zarr")) == CHUNKS
    return digest(folder / "long.zarr")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_plan(tmp_path / "long.toml", **LONG)
    return tmp_path


def start(folder: Path, **given: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command("run", "long.toml", "--no-report"),
        cwd=folder,
        env=environment(),
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given},
    )


def stop(process: subprocess.Popen[str], store: Path, chunks: int, how: Callable[[], None]) -> None:
    """Stop a run when its journal has this many chunks."""
    while process.poll() is None and finished_chunks(store) < chunks:
        time.sleep(0.0005)
    assert process.poll() is None
    how()


def test_killed_before_the_first_chunk(folder, reference):
    """At any moment, a later run finds no store or a complete root record."""
    store = folder / "long.zarr"
    process = start(folder)
    while process.poll() is None and not store.exists():
        time.sleep(0.0002)
    process.kill()
    process.communicate()
    assert inspect(store).record["plan"]["name"] == "long"
    assert os.listdir(folder) == ["long.toml", "long.zarr"]
    assert sweep("run", "long.toml", "--no-report", cwd=folder).returncode == 0
    assert digest(store) == reference


@pytest.mark.parametrize("chunks", [0, 100], ids=["compiling", "writing"])
def test_interrupted_with_the_store_resumable(folder, reference, chunks):
    store = folder / "long.zarr"
    process = start(folder)
    while process.poll() is None and not store.exists():
        time.sleep(0.001)
    stop(process, store, chunks, lambda: process.send_signal(signal.SIGINT))
    _, error = process.communicate()
    assert process.returncode == 130
    assert error == INTERRUPTED
    assert not inspect(store).files.exists("chunk_index/lock")
    kept = 0
    if finished_chunks(store) > 0:  # the finished part can be queried
        kept = sum(entry["summary"]["points"] for entry in journal(store))
        assert best(store)[0]["execution_time"] > 0
    done = sweep("run", "long.toml", "--no-report", cwd=folder)
    assert (f"{kept:,} kept from an earlier run" in done.stdout) == bool(kept)
    assert digest(store) == reference


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
    run = [sys.executable, "-c", BETWEEN.format(**moment), "run", "long.toml", "--no-report"]
    done = subprocess.run(run, cwd=folder, env=environment(), text=True, capture_output=True)
    assert done.returncode == 130
    assert done.stderr == INTERRUPTED
    assert not inspect(folder / "long.zarr").files.exists("chunk_index/lock")
    assert sweep("run", "long.toml", "--no-report", cwd=folder).returncode == 0
    assert digest(folder / "long.zarr") == reference


@pytest.mark.parametrize("options", [[], ["--workers", "2"]], ids=["threads", "workers"])
def test_interrupted_twice_on_a_terminal(folder, reference, options):
    """Ctrl-C reaches every process of the terminal, but prints one line."""
    store = folder / "long.zarr"
    process = subprocess.Popen(
        command("run", "long.toml", "--no-report", *options), cwd=folder, env=environment(),
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    while process.poll() is None and not store.exists():
        time.sleep(0.001)
    stop(process, store, 50, lambda: os.killpg(process.pid, signal.SIGINT))
    time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == INTERRUPTED
    assert sweep("run", "long.toml", "--no-report", cwd=folder).returncode == 0
    assert digest(store) == reference


def test_two_runs_at_once(folder, reference):
    """The second run is refused while the first continues undisturbed."""
    store = folder / "long.zarr"
    process = start(folder)
    stop(process, store, 1, lambda: process.send_signal(signal.SIGSTOP))
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
