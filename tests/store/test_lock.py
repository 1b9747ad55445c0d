"""One run at a time: who holds a store's lock, and who is gone."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.store_samples import fill, layout

from sweep.errors import StoreError
from sweep.store import lock as lock_module
from sweep.store import open_or_create
from sweep.store.lock import StoreLock, process_start

HOLDER = """
import sys, pathlib
sys.path[:0] = {paths!r}
from support.store_samples import layout, write_chunk
from sweep.store import open_or_create
store = open_or_create({path!r}, layout())
write_chunk(store, *store.missing()[0])
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes ``a.zarr`` until it is killed."""
    paths = [str(Path(__file__).parents[1]), os.getcwd()]
    code = HOLDER.format(paths=paths, path=str(tmp_path / "a.zarr"))
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_lock__second_run_is_refused_by_name(tmp_path: Path, holder) -> None:
    for overwrite in (False, True):
        with pytest.raises(StoreError) as refusal:
            open_or_create(tmp_path / "a.zarr", layout(), overwrite=overwrite)
        assert f"process {holder.pid} on host '{socket.gethostname()}'" in str(refusal.value)
        assert "\n" not in str(refusal.value)


def test_lock__of_a_killed_run_is_stale(tmp_path: Path, holder) -> None:
    holder.kill()
    holder.wait()
    assert (tmp_path / "a.zarr/chunk_index/lock").exists()
    with open_or_create(tmp_path / "a.zarr", layout()) as store:
        assert len(store.finished) == 1
        fill(store)
    assert not (tmp_path / "a.zarr/chunk_index/lock").exists()


def test_lock__stale_is_taken_by_one_only(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    for _ in range(20):
        path.write_text(json.dumps(owner(pid=2**22 + 1)))
        won, lost = [], []
        barrier = threading.Barrier(8)

        def take(barrier=barrier, won=won, lost=lost) -> None:
            barrier.wait()
            try:
                won.append(StoreLock.acquire(path, "a.zarr"))
            except StoreError as error:
                lost.append(error)

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(won), len(lost)) == (1, 7)
        won[0].release()
        assert not path.exists()


def owner(**changes: object) -> dict[str, object]:
    this = lock_module.this_process()
    return {**this, "pid": os.getppid(), "start": process_start(os.getppid()), **changes}


@pytest.mark.parametrize(
    ("changes", "is_stale"),
    [
        ({}, False),  # alive, whatever flock says
        ({"start": "1"}, True),  # the number of a dead process, given out again
        ({"pid": 2**22 + 1}, True),
        ({"boot": "before the restart"}, True),
        ({"boot": "another", "host": "another"}, False),
        ({"boot": "another", "host": "another", "pid": 2**22 + 1}, False),
        ({"host": "a container here", "pid": 2**22 + 1}, True),
    ],
)
def test_lock__who_is_gone(tmp_path: Path, changes: dict[str, object], is_stale: bool) -> None:
    path = tmp_path / "lock"
    path.write_text(json.dumps(owner(**changes)))
    if is_stale:
        StoreLock.acquire(path, "a.zarr").release()
    else:
        with pytest.raises(StoreError, match="only if it is surely gone, remove"):
            StoreLock.acquire(path, "a.zarr")
        assert json.loads(path.read_text()) == owner(**changes)


@pytest.mark.parametrize("content", ["", '{"pid": 12', "[]"])
def test_lock__torn_is_stale(tmp_path: Path, content: str) -> None:
    (tmp_path / "lock").write_text(content)
    StoreLock.acquire(tmp_path / "lock", "a.zarr").release()


def test_lock__without_flock_creation_decides(tmp_path: Path, monkeypatch) -> None:
    def unsupported(*_: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    first = StoreLock.acquire(tmp_path / "lock", "a.zarr")
    with pytest.raises(StoreError, match=f"process {os.getpid()}"):
        StoreLock.acquire(tmp_path / "lock", "a.zarr")
    first.release()
    (tmp_path / "lock").write_text(json.dumps(owner(pid=2**22 + 1)))
    with pytest.raises(StoreError, match="remove"):  # cannot be taken over safely
        StoreLock.acquire(tmp_path / "lock", "a.zarr")


def test_lock__interrupted_while_letting_go(tmp_path: Path, monkeypatch) -> None:
    """A second Ctrl-C right after the system closed the file: it is not closed again."""
    held = StoreLock.acquire(tmp_path / "lock", "a.zarr")
    close, closed = os.close, []

    def interrupted(descriptor: int) -> None:
        close(descriptor)
        closed.append(descriptor)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.release()
    lock_module.release_all()
    held.release()
    assert len(closed) == 1
    StoreLock.acquire(tmp_path / "lock", "a.zarr").release()


FORK = """
import os, sys, pathlib
from sweep.store.lock import StoreLock
lock = StoreLock.acquire(pathlib.Path({path!r}), "a.zarr")
if os.fork() == 0:
    lock.release()                      # not the child's: nothing happens
    print("child", flush=True)
    sys.stdin.read()
    os._exit(0)
os._exit(0)                             # the parent dies without letting go
"""


def test_lock__is_not_held_by_a_forked_child(tmp_path: Path) -> None:
    code = FORK.format(path=str(tmp_path / "lock"))
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "child\n"
        process.wait()
        assert (tmp_path / "lock").exists()
        StoreLock.acquire(tmp_path / "lock", "a.zarr").release()
        process.stdin.close()
