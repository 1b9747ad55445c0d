"""A store that was damaged: found, named, and mended to the bit; never read as a result."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from support.runs import POINTS, plan
from support.store_samples import digest, rewrite_root

from sweep.cli import main
from sweep.errors import StoreError
from sweep.query import best, top
from sweep.runs import job
from sweep.runs.running import run
from sweep.runs.verifying import repair, verify
from sweep.store import open_store

CHUNK = "sepia/execution_time/c.0.1.2.0.0"


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reference") / "small.zarr"
    run(plan(), path)
    return path


@pytest.fixture
def store(reference: Path, tmp_path: Path) -> Path:
    shutil.copytree(reference, tmp_path / "small.zarr")
    return tmp_path / "small.zarr"


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-1] ^= 4
    file.write_bytes(content)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def empty(file: Path) -> None:
    file.write_bytes(b"")


DAMAGES = {
    flip: "its checksum does not fit",
    truncate: "it is truncated",
    empty: "it is truncated",
    Path.unlink: "it is missing",
}
FILES = (
    CHUNK,
    "sepia/occupancy/c.1.0",
    "mat_tiled/status/c.0.0.1.0.0",
    "sepia/block_size/c.0",
    "chunk_index/c.0",
    "chunk_maximum/c.0.1",
)


def damage(store: Path, key: str, how=flip) -> None:
    assert (store / key).exists(), sorted(p.name for p in (store / key).parent.iterdir())
    how(store / key)


def test_sound_store(store, capsys):
    before = digest(store)
    assert verify(store) == []
    assert main(["verify", str(store)]) == 0
    assert capsys.readouterr().out == f"{store}: sound\n"
    assert digest(store) == before


@pytest.mark.parametrize(
    ("key", "how"),
    [*((CHUNK, how) for how in DAMAGES), *((key, how) for key in FILES[1:] for how in (flip,)),
     ("chunk_index/c.0", Path.unlink)],
)  # fmt: skip
def test_damage__is_named_and_mended(store, reference, capsys, key, how):
    damage(store, key, how)
    assert main(["verify", str(store)]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{store}/{key}: {DAMAGES[how]}")
    assert main(["verify", str(store), "--repair"]) == 0
    assert "mended 1 file," in capsys.readouterr().out
    assert digest(store) == digest(reference)
    assert main(["verify", str(store)]) == 0


@pytest.mark.parametrize(
    ("key", "how", "problem"),
    [
        ("sepia/execution_time/zarr.json", flip, ""),
        ("sepia/zarr.json", empty, "not JSON"),
        ("chunk_minimum/zarr.json", Path.unlink, "missing"),
        ("chunk_index/journal.jsonl", Path.unlink, "lacks 42 of 42 chunks"),
        ("chunk_index/journal.jsonl", flip, "lacks 1 of 42 chunks"),
    ],
)
def test_metadata_and_journal__are_mended(store, reference, key, how, problem):
    journal = (store / "chunk_index/journal.jsonl").read_bytes()
    damage(store, key, how)
    (found,) = verify(store)
    assert found.key == key and problem in found.problem
    repair(store, [found])
    assert digest(store) == digest(reference)
    after = (store / "chunk_index/journal.jsonl").read_bytes()
    assert sorted(after.splitlines()) == sorted(journal.splitlines())
    assert verify(store) == []


def test_lost_directory__is_mended(store, reference):
    shutil.rmtree(store / "sepia")
    assert len(verify(store)) > 30
    repair(store, verify(store))
    assert digest(store) == digest(reference)


def test_run__mends_exactly_what_verify_found(store, reference, monkeypatch):
    for key, how in ((CHUNK, flip), ("sepia/status/c.0.0.0.0.0", Path.unlink)):
        damage(store, key, how)
    untouched = {p: p.stat().st_mtime_ns for p in store.rglob("c.*") if p.is_file()}
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
    assert digest(store) == digest(reference)
    changed = [p for p, time in untouched.items() if p.stat().st_mtime_ns != time]
    assert changed == [store / CHUNK]
    again = run(plan(), store)
    assert (again.computed, again.resumed) == (0, POINTS)


def test_unfinished_store__lacks_only_what_was_written(tmp_path):
    class Stop(BaseException):
        pass

    calls = iter(range(100))

    def progress(*_: int) -> None:
        if next(calls) == 12:
            raise Stop

    with pytest.raises(Stop):
        run(plan(), tmp_path / "a.zarr", threads=1, progress=progress)
    assert verify(tmp_path / "a.zarr") == []
    chunk = sorted((tmp_path / "a.zarr/sepia/execution_time").glob("c.*"))[0]
    chunk.unlink()
    (found,) = verify(tmp_path / "a.zarr")
    assert found.key == f"sepia/execution_time/{chunk.name}"
    run(plan(), tmp_path / "a.zarr")
    assert verify(tmp_path / "a.zarr") == []


def test_verify__of_a_store_in_use_or_of_another_version(store, monkeypatch, capsys):
    damage(store, CHUNK)
    rewrite_root(store, layout_sha256="0" * 64)
    assert main(["verify", str(store), "--repair"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("sweep: ") and "was computed by sweep" in error
    assert error.count("\n") == 1


def test_verify__of_a_read_only_store_notes_nothing(store, monkeypatch):
    damage(store, CHUNK)

    def refuse(*_: object) -> None:
        raise StoreError("cannot write: the file system is read-only")

    monkeypatch.setattr("sweep.store.local_files.LocalFiles.put", refuse)
    (found,) = verify(store)
    assert found.key == CHUNK
    assert not (store / "chunk_index/damaged.json").exists()
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
            assert digest(store) == digest(reference)
        else:
            assert "its record cannot be repaired" in error and error.count("\n") == 1
    assert main(["verify", str(store.with_name("other.zarr"))]) == 2
    assert "no store at" in capsys.readouterr().err


# ---------------------------------------------------------------------------- reading


@pytest.mark.parametrize("how", [flip, truncate, Path.unlink], ids=lambda how: how.__name__)
def test_damaged_chunk__is_one_line_of_every_question(store, capsys, how):
    damage(store, CHUNK, how)
    assert main(["top", str(store), "70"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"sweep: '{store}/{CHUNK}': it") and "sweep verify" in error
    assert error.count("\n") == 1
    with pytest.raises(StoreError, match="sweep verify"):
        open_store(store)["sepia/execution_time"].load()


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

    def progress(*_: int) -> None:
        if next(calls) == 2:
            os.rename(path, tmp_path / "b.zarr")

    with pytest.raises(StoreError, match=r"^cannot write [^\n]*$"):
        run(plan(), path, threads=1, progress=progress)
    assert not path.exists()
    assert json.loads((tmp_path / "b.zarr/zarr.json").read_text())
