"""A store in a bucket that was damaged: found, named, and mended to the bit, as on a disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from support.buckets import contents, digest_of, entries_of
from support.runs import POINTS, plan
from support.store_samples import without_times

from sweep.cli import main
from sweep.errors import StoreError
from sweep.query import best
from sweep.runs import job
from sweep.runs.running import run
from sweep.runs.verifying import repair, verify
from sweep.store import buckets, inspect, lease
from sweep.store.buckets import ObjectPath
from sweep.store.lock import this_process

CHUNK = "sepia/execution_time/c.0.1.2.0.0"
NOTE = "chunk_index/damaged.json"
FEW = {
    "kernels": ["mat_tiled"],
    "outputs": ["execution_time"],
    "axes": {"tile": [8, 16], "core_clock_ratio": [0.9, 1.0]},
}


@pytest.fixture(scope="module")
def reference() -> Iterator[dict[str, bytes]]:
    """The objects of a run that nothing disturbed."""
    buckets._client.cache_clear()
    run(plan(), "memory://reference/small.zarr")
    yield contents("memory://reference/small.zarr")
    buckets._client.cache_clear()


@pytest.fixture
def store(reference) -> str:
    """A store of its own in the memory of this process."""
    buckets._client.cache_clear()
    for key, content in reference.items():
        ObjectPath(f"memory://bucket/small.zarr/{key}").write(content)
    return "memory://bucket/small.zarr"


def flip(place: ObjectPath) -> None:
    content = bytearray(place.read_bytes())
    content[-1] ^= 4
    place.write(bytes(content))


def truncate(place: ObjectPath) -> None:
    place.write(place.read_bytes()[:-3])


DAMAGES = {
    flip: "its checksum does not fit",
    truncate: "it is truncated",
    ObjectPath.unlink: "it is missing",
}


def digest_but_run(found: dict[str, bytes]) -> dict[str, bytes]:
    """Leave out what differs between two runs: times in the root, the order of the journal."""
    kept = {key: content for key, content in found.items() if "/journal-" not in key}
    return {**kept, "zarr.json": without_times(kept["zarr.json"])}


def is_as(store: str, reference: dict[str, bytes]) -> bool:
    return digest_but_run(contents(store)) == digest_but_run(reference)


def test_sound_store(store, reference, capsys):
    assert verify(store) == []
    assert main(["verify", store]) == 0
    assert capsys.readouterr().out == f"{store}: sound\n"
    assert contents(store) == reference


@pytest.mark.parametrize(
    ("key", "how"),
    [*((CHUNK, how) for how in DAMAGES), ("sepia/block_size/c.0", flip), ("chunk_index/c.0", flip),
     ("chunk_maximum/c.0.1", ObjectPath.unlink)],
)  # fmt: skip
def test_damage__is_named_and_mended(store, reference, capsys, key, how):
    how(ObjectPath(f"{store}/{key}"))
    assert main(["verify", store]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line == f"{store}/{key}: {DAMAGES[how]}" or how is truncate and DAMAGES[how] in line
    assert json.loads(contents(store)[NOTE])["damaged"].keys() == {key}
    assert main(["verify", store, "--repair"]) == 0
    assert "mended 1 file," in capsys.readouterr().out
    assert is_as(store, reference)
    assert main(["verify", store]) == 0


def test_metadata_and_a_lost_directory__are_mended(store, reference):
    ObjectPath(f"{store}/mat_tiled/zarr.json").write(b"[1, 2")
    place = ObjectPath(f"{store}/sepia")
    place.remove(list(place.below()))
    assert len(verify(store)) > 30
    repair(store, verify(store))
    assert is_as(store, reference)


@pytest.mark.parametrize("how", [flip, ObjectPath.unlink])
def test_journal__is_mended(store, reference, how):
    before = sorted(entries_of(store))
    (name,) = (key for key in reference if "/journal-" in key and key.endswith("0.jsonl"))
    ObjectPath(f"{store}/{name[:-7]}1.jsonl").write(b'{"sweep_jour')  # one that was cut short
    how(ObjectPath(f"{store}/{name}"))
    (found,) = verify(store)
    assert found.key == name.rpartition("/")[0]
    repair(store, [found])
    assert sorted(entries_of(store)) == before
    assert is_as(store, reference)
    assert verify(store) == []


def test_run__mends_exactly_what_verify_found(store, reference, monkeypatch):
    for key, how in ((CHUNK, flip), ("sepia/status/c.0.0.0.0.0", ObjectPath.unlink)):
        how(ObjectPath(f"{store}/{key}"))
    assert len(verify(store)) == 2
    boxes = []
    evaluate_box = job.evaluate_box

    def counting(space, given, box, *rest, **options):
        boxes.append(box)
        return evaluate_box(space, given, box, *rest, **options)

    monkeypatch.setattr(job, "evaluate_box", counting)
    finished = run(plan(), store)
    assert len(boxes) == 2
    assert (finished.computed, finished.resumed) == (4, POINTS - 4)
    assert is_as(store, reference)
    again = run(plan(), store)
    assert (again.computed, again.resumed) == (0, POINTS)


def test_damage__is_refused_by_questions(store):
    for name in [key for key in contents(store) if key.startswith("sepia/execution_time/c.")]:
        flip(ObjectPath(f"{store}/{name}"))
    with pytest.raises(StoreError, match="its checksum does not fit; `sweep verify --repair`"):
        best(store, select={"kernel": "sepia"}, where="execution_time > 0")


def test_verify__of_a_store_that_is_being_written_notes_nothing(store):
    ObjectPath(f"{store}/{CHUNK}").unlink()
    owner = json.dumps({**this_process(), "token": "theirs"}).encode()
    ObjectPath(f"{store}/chunk_index/lock").write(owner)
    (found,) = verify(store)
    assert NOTE not in contents(store)
    with pytest.raises(StoreError, match="is being written by process"):
        repair(store, [found])


def test_mending__takes_over_the_lock_of_a_dead_run(store, reference, monkeypatch):
    """At once with --break-lock."""
    flip(ObjectPath(f"{store}/{CHUNK}"))
    verify(store)
    owner = {**this_process(), "host": "elsewhere", "boot": "another", "token": "theirs"}
    ObjectPath(f"{store}/chunk_index/lock").write(json.dumps(owner).encode())
    monkeypatch.setattr(lease, "LEASE_S", 1e6)
    finished = run(plan(), store, break_lock=True)
    assert finished.computed == 2
    assert is_as(store, reference)


def test_mending__stops_where_its_lock_is_lost(store, monkeypatch):
    """Journal and note are left to whoever has the lock now."""
    flip(ObjectPath(f"{store}/{CHUNK}"))
    (found,) = verify(store)

    def lost(self: object) -> None:
        raise StoreError("this run was cut off too long and lost the store's lock")

    monkeypatch.setattr(lease.Lease, "check", lost)
    with pytest.raises(StoreError, match="lost the store's lock"):
        repair(store, [found])
    assert NOTE in contents(store)
    assert not inspect(store).files.exists("chunk_index/lock")


# ------------------------------------------------------------------------------ over a network


def test_network__of_every_fifth_request(url, network):
    run(plan(**FEW), url)
    before = digest_of(url)
    chunk = ObjectPath(f"{url}/mat_tiled/execution_time/c.0.0.0.0")
    flip(chunk)
    count, lock = iter(range(10**9)), threading.Lock()

    def fault(method: str, path: str) -> str | None:
        with lock:
            return "503" if next(count) % 5 == 0 else None

    network.fault = fault
    (found,) = verify(url)
    assert found.key == chunk.url[len(url) + 1 :]
    assert run(plan(**FEW), url).computed > 0
    assert verify(url) == []
    network.fault = lambda *_: None
    assert network.failed > 10
    assert digest_of(url) == before


def test_network__that_stays_away_is_no_damage(url, network, monkeypatch, capsys):
    """What does not answer is not called damaged, and nothing is noted."""
    run(plan(**FEW), url)
    monkeypatch.setattr(buckets, "RETRIES", {"max_retries": 1})
    buckets._client.cache_clear()
    network.fault = lambda method, path: "503" if "/execution_time/c." in path else None
    assert main(["verify", url]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"sweep: cannot read '{url}/mat_tiled/execution_time/c.")
    assert error.count("\n") == 1
    network.fault = lambda *_: None
    assert NOTE not in contents(url)
