"""What must not harm a store: other runs, other plans, foreign places, a damaged journal."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import zarr
from support.store_samples import digest, fill, layout, reference, start, write_chunk

from sweep.errors import StoreError
from sweep.store import inspect, open_or_create, open_store
from sweep.store.creation import place
from sweep.store.journal import journal_header, journal_line

# Continuing


def test_resume__computes_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    start(path, 2)
    before = {file: file.stat().st_mtime_ns for file in path.rglob("c.*") if file.is_file()}
    with open_or_create(path, layout()) as store:
        assert set(store.finished) == {("kernel_0", 0), ("kernel_0", 1)}
        assert store.missing() == [("kernel_0", 2), *(("kernel_1", i) for i in range(3))]
        fill(store)
    assert digest(path) == reference(tmp_path)
    assert all(file.stat().st_mtime_ns == time for file, time in before.items())


def test_resume__removes_half_written_files(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    start(path)
    (path / "kernel_0/status/c.2.1f-0123456789ab.partial").write_bytes(b"half")
    with open_or_create(path, layout()) as store:
        fill(store)
    assert digest(path) == reference(tmp_path)


def test_resume__of_a_finished_store_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with open_or_create(path, layout()) as store:
        fill(store)
    before = digest(path) | {"run": str(inspect(path).run)}
    (path / "chunk_index/lock").touch()  # killed between completing and closing
    with open_or_create(path, layout()) as store:
        assert store.is_finished
        assert len(store.finished) == 6
        store.complete()
        with pytest.raises(StoreError, match="finished and takes no more"):
            store.mark_finished([("kernel_0", 0, {})])
    assert digest(path) | {"run": str(inspect(path).run)} == before


def test_resume__of_another_plan_is_refused_by_part(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    start(path)
    before = digest(path)
    with pytest.raises(StoreError, match=r"plan\.axes, variant \('corrected' there, 'as_prin"):
        open_or_create(path, layout(variant="as_printed", plan={"name": "sample", "axes": [1]}))
    with pytest.raises(StoreError, match="--overwrite"):
        open_or_create(path, layout(specs={"gtx_280": "0" * 64}))
    assert digest(path) == before


def test_resume__in_other_chunks_is_refused(tmp_path: Path) -> None:
    start(tmp_path / "a.zarr")
    with pytest.raises(StoreError, match="other chunks"):
        open_or_create(tmp_path / "a.zarr", layout(chunk=3))


def test_complete__refuses_with_chunks_missing(tmp_path: Path) -> None:
    with open_or_create(tmp_path / "a.zarr", layout()) as store:
        write_chunk(store, "kernel_0", 0)
        with pytest.raises(StoreError, match="lacks 5 of its chunks"):
            store.complete()
    assert not inspect(tmp_path / "a.zarr").is_finished


# Overwriting


def test_overwrite__replaces_a_store(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with open_or_create(path, layout(groups=3, variant="as_printed")) as store:
        fill(store)
    with open_or_create(path, layout(), overwrite=True) as store:
        assert not store.finished
        fill(store)
    assert digest(path) == reference(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "reference"]


def test_overwrite__of_a_store_in_use_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with open_or_create(path, layout()) as store:
        with pytest.raises(StoreError, match=f"process {os.getpid()} on host"):
            open_or_create(path, layout(), overwrite=True)
        fill(store)
    assert digest(path) == reference(tmp_path)


@pytest.mark.parametrize("leftover", ["new", "old", "trash"])
def test_recover__of_a_killed_overwrite(tmp_path: Path, leftover: str) -> None:
    path = tmp_path / "a.zarr"
    start(path)
    before = digest(path)
    (tmp_path / f".a.zarr.sweep-{leftover}-01234567").mkdir()
    (tmp_path / f".b.zarr.sweep-{leftover}-01234567").mkdir()
    (tmp_path / f".a.zarr.sweep-{leftover}").mkdir()
    with place(path):
        pass
    assert digest(path) == before
    names = {f".b.zarr.sweep-{leftover}-01234567", f".a.zarr.sweep-{leftover}", "a.zarr"}
    assert set(os.listdir(tmp_path)) == names


def test_recover__puts_the_old_store_back(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    start(path)
    before = digest(path)
    path.rename(tmp_path / ".a.zarr.sweep-old-01234567")
    with open_or_create(path, layout()) as store:
        assert len(store.finished) == 1
        assert store.missing()
    assert digest(path) == before


# Foreign places


def make_file(path: Path) -> None:
    path.write_text("not a store")


def make_directory(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("years of work")


def make_zarr_3(path: Path) -> None:
    zarr.create_group(path, zarr_format=3).attrs["mine"] = 1


def make_zarr_2(path: Path) -> None:
    zarr.create_group(path, zarr_format=2).attrs["mine"] = 1


def make_broken(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text('{"attributes": {"sweep_store_version"')


def make_other_json(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("[1, 2]")


FOREIGN = [make_file, make_directory, make_zarr_3, make_zarr_2, make_broken, make_other_json]


def contents(root: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.parametrize("make", FOREIGN)
def test_foreign__is_refused_and_untouched(tmp_path: Path, make) -> None:
    path = tmp_path / "a.zarr"
    make(path)
    before = contents(tmp_path)
    for action in (
        lambda: open_or_create(path, layout()),
        lambda: open_or_create(path, layout(), overwrite=True),
        lambda: open_store(path),
        lambda: inspect(path),
    ):
        with pytest.raises(StoreError, match=r"^'.*a\.zarr'[^\n]*$"):
            action()
    assert contents(tmp_path) == before


def test_missing__store_and_parent_are_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no store at"):
        open_store(tmp_path / "a.zarr")
    with pytest.raises(StoreError, match="is not a directory"):
        open_or_create(tmp_path / "missing" / "a.zarr", layout())


def test_empty_directory__becomes_a_store(tmp_path: Path) -> None:
    (tmp_path / "a.zarr").mkdir()
    with open_or_create(tmp_path / "a.zarr", layout()) as store:
        fill(store)
    assert digest(tmp_path / "a.zarr") == reference(tmp_path)


def test_link__leads_to_the_store(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "a.zarr").symlink_to(tmp_path / "disk" / "store")
    for overwrite in (False, True):
        with open_or_create(tmp_path / "a.zarr", layout(), overwrite=overwrite) as store:
            fill(store)
    assert (tmp_path / "a.zarr").is_symlink()
    assert os.listdir(tmp_path / "disk") == ["store"]


# The journal


def test_journal__torn_anywhere_in_its_last_line(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    start(path, 2)
    journal = path / "chunk_index" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    for length in range(len(lines[-1])):
        journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:length])
        with open_or_create(path, layout()) as store:
            assert list(store.finished) == [("kernel_0", 0)]
        assert journal.read_bytes() == b"".join(lines[:-1])


@pytest.mark.parametrize("content", [None, b"", b'{"sweep_jour'])
def test_journal__lost_means_nothing_is_finished(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.zarr"
    start(path)
    journal = path / "chunk_index" / "journal.jsonl"
    journal.unlink()
    if content is not None:
        journal.write_bytes(content)
    with open_or_create(path, layout()) as store:
        assert len(store.missing()) == 6
        fill(store)
    assert digest(path) == reference(tmp_path)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: [journal_header("0"), *lines[1:]], "another store"),
        (
            lambda lines: [lines[0].replace(b'store":"', b'store":"0'), *lines[1:]],
            "line 1: damaged",
        ),
        (lambda lines: lines[1:], "another store"),
        (lambda lines: [lines[0], b"{]\n", *lines[1:]], "line 2: damaged"),
        (lambda lines: [lines[0], lines[1].replace(b"[0,", b"[1,"), lines[1]], "line 2: damaged"),
        (
            lambda lines: [lines[0], lines[1].replace(b"crc", b"crb"), lines[1]],
            "line 2: damaged",
        ),
        (lambda lines: [*lines, journal_line(("kernel_0", 3, {}))], "no chunk 3 of 'kernel_0'"),
        (lambda lines: [*lines, journal_line(("kernel_9", 0, {}))], "no chunk 0 of 'kernel_9'"),
    ],
)
def test_journal__damage_is_an_error(tmp_path: Path, damage, message: str) -> None:
    path = tmp_path / "a.zarr"
    start(path)
    journal = path / "chunk_index" / "journal.jsonl"
    journal.write_bytes(b"".join(damage(journal.read_bytes().splitlines(keepends=True))))
    for _ in range(2):  # the error leaves no lock behind
        with pytest.raises(StoreError, match=message):
            open_or_create(path, layout())


def test_journal__refuses_summaries_that_json_cannot_hold(tmp_path: Path) -> None:
    with open_or_create(tmp_path / "a.zarr", layout()) as store:
        with pytest.raises(ValueError, match="JSON"):
            store.mark_finished([("kernel_0", 0, {"minimum": np.float32("nan")})])
        assert not store.finished
