"""The lock of a store in a bucket: who has it, when it expires, and what its loss does."""

from __future__ import annotations

import json
import os
import threading
import time

import pytest
from support.store_samples import digest, fill, layout, reference, write_chunk

from sweep.errors import StoreError
from sweep.store import files_of, inspect, lock, open_or_create
from sweep.store.lock import LOCK_KEY, Lease, this_process


@pytest.fixture
def hasty(monkeypatch) -> None:
    """Locks that expire soon."""
    monkeypatch.setattr(lock, "LEASE_S", 0.6)


def owner(**changes: object) -> bytes:
    """Return the lock of a process of another host."""
    there = {"host": "elsewhere", "boot": "another", "token": "theirs", "pid": 7}
    return json.dumps({**this_process(), **there, **changes}).encode()


def test_lock__second_run_is_refused_by_name(url):
    """At once where the owner is seen to live."""
    with open_or_create(url, layout()) as store:
        for overwrite in (False, True):
            with pytest.raises(StoreError, match=f"being written by process {os.getpid()} on host"):
                open_or_create(url, layout(), overwrite=overwrite, break_lock=overwrite)
        fill(store)
    assert not inspect(url).files.exists("chunk_index/lock")


def test_lock__of_a_dead_process_of_this_machine_is_taken_at_once(url):
    files = files_of(url)
    files.put(
        LOCK_KEY, json.dumps({**this_process(), "pid": 2**22 + 1, "token": "theirs"}).encode()
    )
    Lease.acquire(files, "a").release()
    assert not files.exists(LOCK_KEY)


def test_lock__expires_by_nobodys_clock(url, hasty, monkeypatch):
    """Whatever the owner's clock said, and though this one's goes backwards."""
    files = files_of(url)
    files.put(LOCK_KEY, owner(since="2199-01-01T00:00:00+00:00"))
    back = iter(range(10**9, 0, -3600))
    monkeypatch.setattr(time, "time", lambda: float(next(back)))
    started = time.monotonic()
    taken = Lease.acquire(files, "a")
    assert time.monotonic() - started > lock.LEASE_S
    taken.check()
    taken.release()


def test_lock__that_is_renewed_is_respected(url, hasty):
    files = files_of(url)
    files.put(LOCK_KEY, owner(renewals=0))
    done = threading.Event()

    def renew() -> None:
        for number in range(1, 1000):
            if done.wait(0.1):
                return
            files.put(LOCK_KEY, owner(renewals=number))

    other = threading.Thread(target=renew)
    other.start()
    try:
        with pytest.raises(StoreError, match="process 7 on host 'elsewhere'.*--break-lock takes"):
            Lease.acquire(files, "a")
    finally:
        done.set()
        other.join()
    assert b"theirs" in files.get(LOCK_KEY)


def test_lock__is_broken_on_demand(tmp_path, url):
    """And then it is its former owner that stops, before it enters anything more."""
    first = open_or_create(url, layout())
    write_chunk(first, "kernel_0", 0)
    files_of(url).put(LOCK_KEY, owner())
    with open_or_create(url, layout(), break_lock=True) as second:
        write_chunk(second, "kernel_0", 1)
        first._lock._sound -= lock.LEASE_S  # it was cut off for as long
        with pytest.raises(StoreError, match="lost the store's lock; the same command continues"):
            first.close()
        fill(second)
    assert digest(url) == reference(tmp_path)


def test_lock__is_renewed_and_its_loss_noticed(url, hasty):
    files = files_of(url)
    held = Lease.acquire(files, "a")
    time.sleep(2 * lock.LEASE_S)
    held.check()
    assert json.loads(files.get(LOCK_KEY))["renewals"] >= 2
    files.put(LOCK_KEY, owner())
    time.sleep(lock.LEASE_S)
    with pytest.raises(StoreError, match="lost the store's lock"):
        held.check()
    held.release()
    assert b"theirs" in files.get(LOCK_KEY)


def test_lock__is_won_by_one_of_many(url, network):
    """Also when answers are lost: whoever repeats a request that succeeded knows its own lock."""
    files = files_of(url)
    count = iter(range(10**9))
    network.fault = lambda method, path: "late" if next(count) % 4 == 0 else None
    won, lost = [], []
    barrier = threading.Barrier(6)

    def take() -> None:
        barrier.wait()
        try:
            won.append(Lease.acquire(files, "a"))
        except StoreError as error:
            lost.append(error)

    threads = [threading.Thread(target=take) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    network.fault = lambda *_: None
    assert (len(won), len(lost)) == (1, 5)
    won[0].release()
    assert not files.exists(LOCK_KEY)


def test_journal__of_a_replaced_store_is_not_read(tmp_path, url):
    with open_or_create(url, layout(groups=1, variant="as_printed")) as store:
        write_chunk(store, "kernel_0", 0)
        with pytest.raises(StoreError, match="being written by"):
            open_or_create(url, layout(), overwrite=True)
    with open_or_create(url, layout(), overwrite=True) as store:
        assert not store.finished
        fill(store)
    assert digest(url) == reference(tmp_path)
