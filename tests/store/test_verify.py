"""A damaged store, on a disk or in a bucket: found, named and repaired to the bit."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import partial

import pytest
from support.runs import FEW, POINTS, Stop, command, environment, plan, stop_after
from support.store_samples import contents, digest, entries, rewrite_root

from sweep.cli import main
from sweep.errors import StoreError, UnfinishedWarning
from sweep.query import best, summary, top
from sweep.runs import job
from sweep.runs.running import repair, run, verify
from sweep.store import buckets, lock, open_store
from sweep.store.buckets import files_of
from sweep.store.lock import this_process
from sweep.store.root import inspect

CHUNK = "sepia/execution_time/c.0.1.2.0.0"
NOTE = "chunk_index/damaged.json"
BUCKET = "memory://bucket/small.zarr"


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """The files and the objects of a run that nothing disturbed."""
    path = tmp_path_factory.mktemp("reference") / "small.zarr"
    buckets._client.cache_clear()
    yield {place: (run(plan(), place), contents(place))[1] for place in (str(path), BUCKET)}
    buckets._client.cache_clear()


@pytest.fixture
def store(references, tmp_path):
    """A store of its own, on the disk."""
    (tmp_path / "small.zarr").mkdir()
    for key, content in next(iter(references.values())).items():
        files_of(tmp_path / "small.zarr").put(key, content)
    return tmp_path / "small.zarr"


@pytest.fixture
def remote(references):
    """A store of its own, in the memory of this process."""
    buckets._client.cache_clear()
    for key, content in references[BUCKET].items():
        files_of(BUCKET).put(key, content)
    return BUCKET


@pytest.fixture(params=["store", "remote"])
def place(request):
    """A store of its own, as a path or URL."""
    return str(request.getfixturevalue(request.param))


@pytest.fixture(scope="module")
def reference(references):
    """The digest of a sound store."""
    return digest(next(iter(references)))


def rewrite(store, key, change):
    files_of(store).put(key, change(files_of(store).get(key)))


flip = partial(rewrite, change=lambda old: old[:-1] + bytes([old[-1] ^ 4]))
truncate = partial(rewrite, change=lambda old: old[:-3])
empty = partial(rewrite, change=lambda old: b"")


def remove(store, key):
    assert files_of(store).exists(key)
    files_of(store).remove([key])


PROBLEMS = {
    flip: "its checksum does not fit",
    truncate: "it is truncated",
    empty: "it is truncated",
    remove: "it is missing",
}


def test_sound_store(place, capsys):
    before = contents(place)
    assert verify(place) == []
    assert main(["verify", place]) == 0
    assert capsys.readouterr().out == f"{place}: sound\n"
    assert contents(place) == before


@pytest.mark.parametrize(
    ("key", "how"),
    [
        *((CHUNK, how) for how in PROBLEMS),
        ("sepia/occupancy/c.1.0", flip),
        ("mat_tiled/status/c.0.0.1.0.0", flip),
        ("sepia/block_size/c.0", flip),
        ("chunk_index/c.0", flip),
        ("chunk_index/c.0", remove),
        ("chunk_maximum/c.0.1", flip),
    ],
)
def test_damage__is_named_and_repaired(place, reference, capsys, key, how):
    how(place, key)
    assert main(["verify", place]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{place}/{key}: {PROBLEMS[how]}")
    assert json.loads(files_of(place).get(NOTE))["damaged"].keys() == {key}
    assert main(["verify", place, "--repair"]) == 0
    assert "mended 1 file," in capsys.readouterr().out
    assert digest(place) == reference
    assert main(["verify", place]) == 0


@pytest.mark.parametrize(
    ("key", "how", "problem"),
    [
        ("sepia/execution_time/zarr.json", flip, ""),
        ("sepia/zarr.json", empty, "not JSON"),
        ("chunk_minimum/zarr.json", remove, "missing"),
        ("journal", remove, "lacks 42 of 42 chunks"),
        ("journal", flip, "lacks "),
    ],
)
def test_metadata_and_journal__are_repaired(place, reference, key, how, problem):
    before, damaged = entries(place), key
    if key == "journal":
        damaged = next(k for k in contents(place) if k.startswith("chunk_index/journal"))
        key = damaged if damaged.endswith("journal.jsonl") else damaged.rpartition("/")[0]
        if "://" in place:  # another object, which was cut short
            files_of(place).put(f"{damaged[:-7]}1.jsonl", b'{"sweep_jour')
    how(place, damaged)
    (found,) = verify(place)
    assert found.key == key
    assert problem in found.problem or "://" in place
    repair(place, [found])
    assert (digest(place), entries(place)) == (reference, before)
    assert verify(place) == []


def test_lost_directory__is_repaired(place, reference):
    if "://" in place:
        files_of(place).remove([k for k in contents(place) if k.startswith("sepia/")])
    else:
        shutil.rmtree(f"{place}/sepia")
    assert len(verify(place)) > 30
    repair(place, verify(place))
    assert digest(place) == reference


def test_run__repairs_exactly_what_verify_found(place, reference, monkeypatch):
    evaluate_box, boxes = job.evaluate_box, []
    monkeypatch.setattr(
        job, "evaluate_box", lambda *args, **how: boxes.append(args) or evaluate_box(*args, **how)
    )
    for key, how in ((CHUNK, flip), ("sepia/status/c.0.0.0.0.0", remove)):
        how(place, key)
    marks = {key: files_of(place).mark(key) for key in contents(place) if "/c." in key}
    assert len(verify(place)) == 2
    finished = run(plan(), place)
    assert len(boxes) == 2
    assert (finished.computed, finished.resumed) == (4, POINTS - 4)
    assert digest(place) == reference
    assert [key for key, mark in marks.items() if files_of(place).mark(key) != mark] == [CHUNK]
    again = run(plan(), place)
    assert (again.computed, again.resumed) == (0, POINTS)


def test_unfinished_store__lacks_only_what_was_written(tmp_path, capsys):
    with pytest.raises(Stop):
        run(plan(), tmp_path / "a.zarr", threads=1, progress=stop_after(12))
    assert main(["verify", str(tmp_path / "a.zarr")]) == 0
    assert capsys.readouterr().out.endswith("a.zarr: sound so far, but not finished\n")
    best_of = command("best", tmp_path / "a.zarr")  # a process of its own, which imports as it goes
    done = subprocess.run(best_of, env=environment(), capture_output=True, text=True, check=True)
    line = f"'{tmp_path / 'a.zarr'}' is unfinished: answers are of what was computed so far; "
    assert done.stderr == f"sweep: {line}`sweep run` continues it\n"
    for question in (best, summary, open_store):
        with pytest.warns(UnfinishedWarning, match=re.escape(line)):
            question(tmp_path / "a.zarr")
    chunk = sorted((tmp_path / "a.zarr/sepia/execution_time").glob("c.*"))[0]
    chunk.unlink()
    (found,) = verify(tmp_path / "a.zarr")
    assert found.key == f"sepia/execution_time/{chunk.name}"
    run(plan(), tmp_path / "a.zarr")
    assert verify(tmp_path / "a.zarr") == []


def test_repair__of_a_store_of_another_version_is_refused(store, capsys):
    flip(store, CHUNK)
    rewrite_root(store, layout_sha256="0" * 64)
    assert main(["verify", str(store), "--repair"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sweep: ") and "was computed by sweep" in error
    assert error.count("\n") == 1


def test_verify__of_a_read_only_store_notes_nothing(store, monkeypatch):
    flip(store, CHUNK)

    def refuse(*_):
        raise StoreError("cannot write: the file system is read-only")

    monkeypatch.setattr("sweep.store.local_files.LocalFiles.put", refuse)
    (found,) = verify(store)
    assert found.key == CHUNK
    assert not (store / NOTE).exists()
    with pytest.raises(StoreError, match="read-only"):
        repair(store, [found])


def test_damaged_root__is_one_line(store, reference, capsys):
    text = (store / "zarr.json").read_text()
    for kept in (len(text) // 2, 1000):  # the record is whole, or is not
        (store / "zarr.json").write_text(text[:kept])
        assert main(["verify", str(store)]) == 1
        assert capsys.readouterr().out == f"{store}/zarr.json: it is not JSON\n"
        assert main(["best", str(store)]) == 2
        assert "zarr.json is damaged: it is not JSON" in capsys.readouterr().err
        assert main(["verify", str(store), "--repair"]) == (0 if kept > 1000 else 2)
        out, error = capsys.readouterr()
        if kept > 1000:
            assert digest(store) == reference
        else:
            assert "its record cannot be repaired" in error and error.count("\n") == 1
    assert main(["verify", str(store.with_name("other.zarr"))]) == 2
    assert "no store at" in capsys.readouterr().err


# Reading


@pytest.mark.parametrize("how", [flip, truncate, remove])
def test_damaged_chunk__is_one_line_of_every_question(place, capsys, how):
    how(place, CHUNK)
    assert main(["top", place, "70"]) == 2
    error = capsys.readouterr().err
    assert (
        error.startswith(f"sweep: '{place}/{CHUNK}': {PROBLEMS[how]}") and "sweep verify" in error
    )
    assert error.count("\n") == 1
    with pytest.raises(StoreError, match="sweep verify"):
        open_store(place)["sepia/execution_time"].load()


def test_store_deleted_under_a_reader__is_one_line(store):
    tree = open_store(store)
    shutil.rmtree(store)
    with pytest.raises(StoreError, match=r"^'[^\n]*small\.zarr' is gone[^\n]*$"):
        best(tree)
    with pytest.raises(StoreError, match="no store at"):
        top(store, 1)


def test_store_deleted_under_a_run__is_one_line(tmp_path):
    path = tmp_path / "a.zarr"
    calls = iter(range(100))

    def progress(*_: int):
        if next(calls) == 2:
            os.rename(path, tmp_path / "b.zarr")

    with pytest.raises(StoreError, match=r"^cannot write [^\n]*$"):
        run(plan(), path, threads=1, progress=progress)
    assert not path.exists()
    assert json.loads((tmp_path / "b.zarr/zarr.json").read_text())


# Locks in a bucket


def lock_by_another(remote, **changes):
    owner = {**this_process(), "token": "theirs", **changes}
    files_of(remote).put("chunk_index/lock", json.dumps(owner).encode())


def test_verify__of_a_store_that_is_being_written_notes_nothing(remote):
    remove(remote, CHUNK)
    lock_by_another(remote)
    (found,) = verify(remote)
    assert NOTE not in contents(remote)
    with pytest.raises(StoreError, match="is being written by process"):
        repair(remote, [found])


def test_repair__takes_over_the_lock_of_a_dead_run(remote, reference, monkeypatch):
    """At once with --break-lock."""
    flip(remote, CHUNK)
    verify(remote)
    lock_by_another(remote, host="elsewhere", boot="another")
    monkeypatch.setattr(lock, "LEASE_S", 1e6)
    assert run(plan(), remote, break_lock=True).computed == 2
    assert digest(remote) == reference


def test_repair__stops_where_its_lock_is_lost(remote, monkeypatch):
    """Journal and note are left to whoever has the lock now."""
    flip(remote, CHUNK)
    (found,) = verify(remote)

    def lost(self: object):
        raise StoreError("this run was cut off too long and lost the store's lock")

    monkeypatch.setattr(lock.Lease, "check", lost)
    with pytest.raises(StoreError, match="lost the store's lock"):
        repair(remote, [found])
    assert NOTE in contents(remote)
    assert not inspect(remote).files.exists("chunk_index/lock")


# Over a network


def test_network__where_every_fifth_request_fails(url, network):
    run(plan(**FEW), url)
    before, chunk = digest(url), "mat_tiled/execution_time/c.0.0.0.0"
    flip(url, chunk)
    count = iter(range(10**9))
    network.fault = lambda *_: "503" if next(count) % 5 == 0 else None
    (found,) = verify(url)
    assert found.key == chunk
    assert run(plan(**FEW), url).computed > 0
    assert verify(url) == []
    network.fault = lambda *_: None
    assert network.failed > 10
    assert digest(url) == before


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
