"""How functions are compiled, and kept on disk for the next process if they can be trusted."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.errors import TypingError

from sweep import disk_cache, jit
from sweep.jit import compile_pass

COUNT_COMPILATIONS = """
import sweep
from numba.core import event
from sweep.evaluation import limits
limits.UNCOMPILED = 0
listener = event.RecordingListener()
event.register("numba:compile", listener)
plan = sweep.Plan(kernels=["sepia"], devices=["gtx_280"], models=["hong_kim"])
time = sweep.evaluate(plan)["sepia"]["execution_time"].values
print(len(listener.buffer), time.tobytes().hex())
"""


def start(folder: Path | str) -> subprocess.Popen[str]:
    environment = {**os.environ, "SWEEP_CACHE_DIR": str(folder)}
    command = [sys.executable, "-c", COUNT_COMPILATIONS]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return how much a process compiled, and its results."""
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    events, results = text.split()
    return int(events), results


@pytest.mark.slow
def test_second_process_compiles_nothing(tmp_path):
    together = [start(tmp_path) for _ in range(2)]  # neither waits, neither reads half a file
    first, other = (outcome(process) for process in together)
    assert first[0] or other[0]  # the later of them may find what the other has compiled
    later = outcome(start(tmp_path))
    assert later == (0, first[1]) and other[1] == first[1]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".writing")]


@pytest.mark.slow
def test_empty_setting_turns_the_cache_off(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert outcome(start(""))[0]
    assert not list(tmp_path.iterdir())


def double(numbers):
    for i in range(numbers.size):
        numbers[i] *= 2.0


def run(text: str = "double") -> tuple[bool, list[float]]:
    """Return whether a new dispatcher finds its code on disk, and what the function gives."""
    function, numbers = compile_pass(double, text), np.arange(3.0)
    function(numbers)
    return bool(function.stats.cache_hits), numbers.tolist()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "compiled"
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(place))
    assert run() == (False, [0, 2, 4])
    assert run() == (True, [0, 2, 4])
    return place


def only_file(folder: Path) -> Path:
    (path,) = folder.iterdir()
    return path


def change(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)


SPOILED = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "changed": change,
    "open to all": lambda path: path.chmod(0o666),
    "directory open to all": lambda path: path.parent.chmod(0o777),
    "link": lambda path: path.symlink_to(path.rename(path.parents[1] / "elsewhere")),
    "pipe": lambda path: path.unlink() or os.mkfifo(path),
    "of somebody else": None,
}


@pytest.mark.parametrize("how", SPOILED)
def test_file_that_cannot_be_trusted_is_ignored(folder, how, monkeypatch):
    if (spoil := SPOILED[how]) is not None:
        spoil(only_file(folder))
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert run() == (False, [0, 2, 4])


def test_other_text_and_other_versions_have_files_of_their_own(folder, monkeypatch):
    assert run("another text") == (False, [0, 2, 4])
    monkeypatch.setattr(jit, "_versions", lambda: "another version or processor")
    assert run() == (False, [0, 2, 4])
    assert len(list(folder.iterdir())) == 3


def test_least_recently_used_files_go(folder, monkeypatch):
    size = only_file(folder).stat().st_size
    monkeypatch.setattr(disk_cache, "LARGEST", int(2.5 * size))
    os.utime(only_file(folder), (1, 1))
    for text in "abc":
        run(text)
    assert [run(text)[0] for text in "cb"] == [True, True]
    assert run()[0] is False


def test_disk_that_cannot_be_written_costs_time_only(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("SWEEP_CACHE_DIR", str(tmp_path / "file" / "compiled"))
    assert run() == run() == (False, [0, 2, 4])


# --- The garbage collector ------------------------------------------------------------------------


@pytest.mark.parametrize("is_on", [True, False])
def test_collector_rests_while_a_pass_is_compiled(is_on, monkeypatch):
    monkeypatch.setenv("SWEEP_CACHE_DIR", "")
    compile_pass(double, "double")(np.arange(3.0))  # imports what the next one need not import
    compiled, numbers = compile_pass(double, "double"), np.arange(3.0)
    phases, threshold = [], gc.get_threshold()

    def note(phase, _):
        phases.append(phase)

    gc.callbacks.append(note)
    gc.set_threshold(20)
    (gc.enable if is_on else gc.disable)()
    try:
        compiled(numbers)
        assert phases.count("start") <= 50 * is_on  # hundreds without a rest
        assert gc.isenabled() == is_on
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*threshold)
        gc.enable()
    assert numbers.tolist() == [0, 2, 4]


def test_time_of_compilation_is_told(monkeypatch):
    monkeypatch.setenv("SWEEP_CACHE_DIR", "")
    before = time.perf_counter()
    compiled = compile_pass(double, "double")
    compiled(np.arange(3.0))
    told, taken = jit.compile_seconds(before), time.perf_counter() - before
    assert 0.0 < told < taken
    compiled(np.arange(3.0))
    assert jit.compile_seconds(before) == told
    assert jit.compile_seconds(time.perf_counter()) == 0.0


def test_collector_goes_on_after_what_cannot_be_compiled():
    with pytest.raises(TypingError):
        compile_pass(double, "double")("text")
    assert gc.isenabled()
