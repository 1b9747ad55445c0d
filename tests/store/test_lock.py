"""One run at a time: who holds a store's lock on a disk or in a bucket, and who is gone."""

import errno
import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
from support.runs import environment
from support.store_samples import digest, fill, layout, reference, write_chunk

from sweep.errors import StoreError
from sweep.store import lock
from sweep.store.buckets import files_of
from sweep.store.lock import LOCK_KEY, Lease, StoreLock, process_start, this_process
from sweep.store.root import inspect
from sweep.store.writer import open_or_create

HOLDER = """
import sys
from support.runs import environment
from support.store_samples import layout, write_chunk
from sweep.store.writer import open_or_create
store = open_or_create({path!r}, layout())
write_chunk(store, *store.missing()[0])
print("held", flush=True)
sys.stdin.read()
"""
DEAD = 2**22 + 1
"""A number that no process has."""


def started(code, line):
    """Start a process and wait for a line of its output."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", code], **pipes, env=environment())
    assert process.stdout.readline() == f"{line}\n"
    return process


@pytest.fixture
def holder(tmp_path):
    """Another process that writes ``a.zarr`` until it is killed."""
    with started(HOLDER.format(path=str(tmp_path / "a.zarr")), "held") as process:
        yield process
        process.kill()


def race(acquire, number):
    """Take a lock from many threads at once; return the lock of the one that got it."""
    won, lost, barrier = [], [], threading.Barrier(number)

    def take():
        barrier.wait()
        try:
            won.append(acquire())
        except StoreError as error:
            lost.append(error)

    threads = [threading.Thread(target=take) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, number - 1)
    return won[0]


def test_lock__of_another_process(tmp_path, holder):
    """Refused by name while the process lives, and stale once it is killed."""
    path = tmp_path / "a.zarr"
    for overwrite in (False, True):
        with pytest.raises(StoreError) as refusal:
            open_or_create(path, layout(), overwrite=overwrite)
        assert f"process {holder.pid} on host '{socket.gethostname()}'" in str(refusal.value)
        assert "\n" not in str(refusal.value)
    holder.kill()
    holder.wait()
    assert (path / LOCK_KEY).exists()
    with open_or_create(path, layout()) as store:
        assert len(store.finished) == 1
        fill(store)
    assert not (path / LOCK_KEY).exists()


def test_lock__stale_is_taken_by_one_only(tmp_path):
    path = tmp_path / "lock"
    for _ in range(20):
        path.write_text(json.dumps(owner(pid=DEAD)))
        race(lambda: StoreLock.acquire(path, "a.zarr"), 8).release()
        assert not path.exists()


def owner(**changes):
    return {**this_process(), "pid": os.getppid(), "start": process_start(os.getppid()), **changes}


@pytest.mark.parametrize(
    ("changes", "is_stale"),
    [
        ({}, False),  # alive, whatever flock says
        ({"start": "1"}, True),  # the number of a dead process, given out again
        ({"pid": DEAD}, True),
        ({"boot": "before the restart"}, True),
        ({"boot": "another", "host": "another"}, False),
        ({"boot": "another", "host": "another", "pid": DEAD}, False),
        ({"host": "a container here", "pid": DEAD}, True),
        *((torn, True) for torn in ("", '{"pid": 12', "[]")),
    ],
)
def test_lock__who_is_gone(tmp_path, changes, is_stale):
    path = tmp_path / "lock"
    is_torn = isinstance(changes, str)
    path.write_text(changes if is_torn else json.dumps(owner(**changes)))
    if is_stale:
        StoreLock.acquire(path, "a.zarr").release()
    else:
        with pytest.raises(StoreError, match="only if it is surely gone, remove"):
            StoreLock.acquire(path, "a.zarr")
        assert json.loads(path.read_text()) == owner(**changes)


def test_lock__without_flock_creation_decides(tmp_path, monkeypatch):
    def unsupported(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", unsupported)
    first = StoreLock.acquire(tmp_path / "lock", "a.zarr")
    with pytest.raises(StoreError, match=f"process {os.getpid()}"):
        StoreLock.acquire(tmp_path / "lock", "a.zarr")
    first.release()
    (tmp_path / "lock").write_text(json.dumps(owner(pid=DEAD)))
    with pytest.raises(StoreError, match="remove"):  # cannot be taken over safely
        StoreLock.acquire(tmp_path / "lock", "a.zarr")


def test_lock__interrupted_while_letting_go(tmp_path, monkeypatch):
    """A second Ctrl-C right after the system closed the file: it is not closed again."""
    held = StoreLock.acquire(tmp_path / "lock", "a.zarr")
    close, closed = os.close, []

    def interrupted(descriptor):
        close(descriptor)
        closed.append(descriptor)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            held.release()
    lock.release_all()
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


def test_lock__is_not_held_by_a_forked_child(tmp_path):
    with started(FORK.format(path=str(tmp_path / "lock")), "child") as process:
        process.wait()
        assert (tmp_path / "lock").exists()
        StoreLock.acquire(tmp_path / "lock", "a.zarr").release()
        process.stdin.close()


# In a bucket


@pytest.fixture
def hasty(monkeypatch):
    """Locks that expire soon."""
    monkeypatch.setattr(lock, "LEASE_S", 0.6)


THERE = {"host": "elsewhere", "boot": "another", "pid": 7}


def leased(url, changes=THERE, **more):
    """Write the lock of another process, by default one of another host; return the files."""
    owner = {**this_process(), "token": "theirs", **changes, **more}
    files_of(url).put(LOCK_KEY, json.dumps(owner).encode())
    return files_of(url)


def test_lease__second_run_is_refused_by_name(url):
    """At once where the owner is seen to live."""
    with open_or_create(url, layout()) as store:
        for overwrite in (False, True):
            with pytest.raises(StoreError, match=f"being written by process {os.getpid()} on host"):
                open_or_create(url, layout(), overwrite=overwrite, break_lock=overwrite)
        fill(store)
    assert not inspect(url).files.exists(LOCK_KEY)


def test_lease__of_a_dead_process_of_this_machine_is_taken_at_once(url):
    files = leased(url, {"pid": DEAD})
    Lease.acquire(files, "a").release()
    assert not files.exists(LOCK_KEY)


def test_lease__expires_by_nobodys_clock(url, hasty, monkeypatch):
    """Whatever the owner's clock said, and though this one's goes backwards."""
    files = leased(url, since="2199-01-01T00:00:00+00:00")
    back = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(back)))
    begun = time.monotonic()
    taken = Lease.acquire(files, "a")
    assert time.monotonic() - begun > lock.LEASE_S
    taken.check()
    taken.release()


def test_lease__that_is_renewed_is_respected(url, hasty):
    files = leased(url, renewals=0)
    done = threading.Event()

    def renew():
        for number in range(1, 1000):
            if done.wait(0.1):
                return
            leased(url, renewals=number)

    other = threading.Thread(target=renew)
    other.start()
    try:
        with pytest.raises(StoreError, match="process 7 on host 'elsewhere'.*--break-lock takes"):
            Lease.acquire(files, "a")
    finally:
        done.set()
        other.join()
    assert b"theirs" in files.get(LOCK_KEY)


def test_lease__is_broken_on_demand(tmp_path, url):
    """Then its former owner stops before it writes to the journal."""
    first = open_or_create(url, layout())
    write_chunk(first, "kernel_0", 0)
    leased(url)
    with open_or_create(url, layout(), break_lock=True) as second:
        write_chunk(second, "kernel_0", 1)
        first._lock._sound -= lock.LEASE_S  # it was cut off for as long
        with pytest.raises(StoreError, match="lost the store's lock; the same command continues"):
            first.close()
        fill(second)
    assert digest(url) == reference(tmp_path)


def test_lease__is_renewed_and_its_loss_noticed(url, hasty):
    files = files_of(url)
    held = Lease.acquire(files, "a")
    time.sleep(2 * lock.LEASE_S)
    held.check()
    assert json.loads(files.get(LOCK_KEY))["renewals"] >= 2
    leased(url)
    time.sleep(lock.LEASE_S)
    with pytest.raises(StoreError, match="lost the store's lock"):
        held.check()
    held.release()
    assert b"theirs" in files.get(LOCK_KEY)


def test_lease__is_won_by_one_of_many(url, network):
    """Also when answers are lost: whoever repeats a request that succeeded knows its own lock."""
    count = iter(range(10**9))
    network.fault = lambda method, path: "late" if next(count) % 4 == 0 else None
    won = race(lambda: Lease.acquire(files_of(url), "a"), 6)
    network.fault = lambda *_: None
    won.release()
    assert not files_of(url).exists(LOCK_KEY)


def test_journal__of_a_replaced_store_is_not_read(tmp_path, url):
    with open_or_create(url, layout(groups=1, variant="as_printed")) as store:
        write_chunk(store, "kernel_0", 0)
    with open_or_create(url, layout(), overwrite=True) as store:
        assert not store.finished
        fill(store)
    assert digest(url) == reference(tmp_path)
