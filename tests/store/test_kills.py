"""Kills at every moment: what is left is whole, and the same command ends with the same bytes.

Run as a script this file is also the writer that is killed: once at each of the system calls that
change a file, one after the other, and at random while several threads write.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.runs import environment
from support.store_samples import complete, digest, fill, layout, summaries, times, write_chunk

from sweep.store.creation import place
from sweep.store.root import inspect
from sweep.store.writer import open_or_create

CHANGING_CALLS = ("open", "write", "replace", "rename", "mkdir", "unlink", "rmdir", "ftruncate")
SCENARIOS = ("create", "resume", "overwrite")
WIDE = {"groups": 8, "chunk": 1}
"""40 small chunks, for the kills at random."""


def script(*arguments: str | Path) -> subprocess.Popen[str]:
    """Start this file as a script."""
    command = [sys.executable, __file__, *map(str, arguments)]
    quiet = environment(OPENBLAS_NUM_THREADS="1")
    return subprocess.Popen(command, env=quiet, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kill__at_every_change_of_a_file(tmp_path, scenario):
    with script("exhaust", tmp_path, scenario) as process:
        output, _ = process.communicate()
    assert process.returncode == 0
    assert int(output) > 25  # as many kills


@pytest.mark.slow
def test_kill__at_random_while_threads_write(tmp_path):
    chance = random.Random(20)
    with open_or_create(tmp_path / "reference.zarr", layout(**WIDE)) as store:
        for group, chunk in store.missing():
            write_chunk(store, group, chunk, 1)
        store.complete()
    path, log = tmp_path / "a.zarr", tmp_path / "computed.txt"
    kills = 0
    while not (path.exists() and inspect(path).is_finished):
        finished = summaries(path) if path.exists() else {}
        log.write_text("")
        with script("threads", path, log) as process:
            if kills < 8:
                kill_after(process, path, len(finished) + chance.randrange(6), chance.random())
                kills += 1
            else:
                assert process.wait() == 0
        computed = {tuple(line.split()) for line in log.read_text().splitlines()}
        assert not computed & {(group, str(chunk)) for group, chunk in finished}
    assert kills > 3
    with open_or_create(path, layout(**WIDE)) as store:
        assert store.is_finished
    assert digest(path) == digest(tmp_path / "reference.zarr")


def kill_after(process: subprocess.Popen[str], path, count: int, fraction: float):
    """Kill -9 a few milliseconds after the journal has ``count`` entries."""
    journal = path / "chunk_index" / "journal.jsonl"
    while process.poll() is None:
        if journal.exists() and journal.read_bytes().count(b"\n") > count:
            time.sleep(0.01 * fraction)
            break
        time.sleep(0.001)
    process.kill()
    process.wait()


# The writers that are killed


def write_with_threads(path, log):
    """Write what is missing from three threads, noting each chunk before it is computed."""
    noted = os.open(log, os.O_WRONLY | os.O_APPEND)

    def task(work):
        group, chunk = work
        os.write(noted, f"{group} {chunk}\n".encode())
        time.sleep(0.005)
        values = times(group, 1, chunk)
        writer.write(group, "execution_time", (0, chunk, 0), values)
        writer.write(group, "status", (chunk,), values[0, :, 0].astype("uint8") * 0)
        return group, chunk, {}

    with open_or_create(path, layout(**WIDE)) as store, ThreadPoolExecutor(3) as pool:
        writer = store.writer
        for entry in pool.map(task, store.missing()):
            store.mark_finished([entry])
        store.complete()


def exhaust(directory, scenario):
    """Kill the scenario at its first change, its second, ... until one run gets through."""
    write(directory / "reference.zarr", "create")
    expected = digest(directory / "reference.zarr")
    for kills in itertools.count():
        work = directory / "work"
        work.mkdir()
        path = work / "a.zarr"
        prepare(path, scenario)
        before = digest(path) if path.exists() else {}
        if not in_child(lambda path=path: write(path, scenario), killed_at=kills + 1):
            return kills
        check_leftovers(path, before)
        assert not in_child(lambda path=path: write(path, scenario)), f"after kill {kills}"
        assert digest(path) == expected, f"after kill {kills}"
        assert os.listdir(work) == ["a.zarr"], f"after kill {kills}"
        shutil.rmtree(work)


def prepare(path, scenario):
    """Set up what the scenario starts from."""
    if scenario == "resume":
        # As if killed: the lock stays, a half-written chunk and a torn line in the journal.
        assert in_child(lambda: write(path, scenario, dies=True))
        (path / "kernel_0" / "status" / "c.2.0-000000000000.partial").write_bytes(b"half")
        with (path / "chunk_index" / "journal.jsonl").open("ab") as journal:
            journal.write(b'{"group":"ker')
    elif scenario == "overwrite":
        complete(path, groups=1, variant="as_printed")


def write(path, scenario, dies=False):
    """Write what is missing of the store, and nothing that is finished."""
    overwrite = scenario == "overwrite"
    done = set(summaries(path)) if path.exists() and not overwrite else set()
    with open_or_create(path, layout(groups=1), overwrite=overwrite) as store:
        assert not set(store.missing()) & done
        if dies:
            write_chunk(store, "kernel_0", 0)
            os.kill(os.getpid(), signal.SIGKILL)
        fill(store)


def check_leftovers(path, before):
    """A killed run leaves nothing, a whole store of before, or one that can be resumed."""
    with place(path):
        pass
    if not path.exists():
        assert not before
    elif inspect(path).record["identity"]["variant"] == "as_printed":
        found = digest(path)
        found.pop("chunk_index/lock", None)
        assert found == before


def in_child(action, killed_at=0):
    """Run ``action`` in a forked process; return whether it was killed at its n-th change."""
    pid = os.fork()
    if pid == 0:
        try:
            if killed_at:
                arm(killed_at)
            action()
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def arm(killed_at):
    """Kill this process at its n-th changing call: before it, or in the middle of a write."""
    countdown = itertools.count(1)
    for name in CHANGING_CALLS:
        real = getattr(os, name)

        def deadly(*args, _name=name, _real=real, **kwargs):
            if _name == "open" and not args[1] & os.O_CREAT:
                return _real(*args, **kwargs)
            if next(countdown) == killed_at:
                if _name == "write":
                    _real(args[0], bytes(args[1])[: len(args[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            return _real(*args, **kwargs)

        setattr(os, name, deadly)


if __name__ == "__main__":
    mode, *rest = sys.argv[1:]
    if mode == "threads":
        write_with_threads(Path(rest[0]), Path(rest[1]))
    else:
        sys.stdout.write(json.dumps(exhaust(Path(rest[0]), rest[1])))
