"""What must not harm a store: other runs, other plans, foreign places, full and read-only disks."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import zarr
from store_samples import digest, fill, layout, times, write_chunk

from sweep.errors import StoreError
from sweep.store import inspect, open_or_create, open_store, read_record
from sweep.store.creation import recover


def start(path: Path, chunks: int = 1) -> None:
    """Leave a store with its first chunks finished."""
    with open_or_create(path, layout()) as store:
        for chunk in store.missing()[:chunks]:
            write_chunk(store, *chunk)


def reference(tmp_path: Path) -> dict[str, str]:
    """The files of a run that nothing disturbed."""
    (tmp_path / "reference").mkdir()
    with open_or_create(tmp_path / "reference" / "a.zarr", layout()) as store:
        fill(store)
    return digest(tmp_path / "reference" / "a.zarr")


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
    recover(path)
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
        lambda: read_record(path),
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
        (lambda lines: [lines[0].replace(b'store":"', b'store":"0'), *lines[1:]], "another store"),
        (lambda lines: lines[1:], "another store"),
        (lambda lines: [lines[0], b"{]\n", *lines[1:]], "line 2: damaged"),
        (lambda lines: [*lines, b'{"group":"kernel_0","chunk":3}\n'], "no chunk 3 of 'kernel_0'"),
        (lambda lines: [*lines, b'{"group":"kernel_9","chunk":0}\n'], "no chunk 0 of 'kernel_9'"),
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
        with pytest.raises(TypeError, match="cannot hold"):
            store.mark_finished([("kernel_0", 0, {"minimum": object()})])
        assert not store.finished


# Disks


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch) -> Iterator[Path]:
    """A directory with an unfinished store on a read-only file system."""
    place = tmp_path / "place"
    place.mkdir()
    start(place / "a.zarr")
    if mount("--bind", place, place):
        mount("-o", "remount,ro,bind", place)
        yield place
        subprocess.run(["umount", place], check=True)
        return
    real_open, real_mkdir = os.open, os.mkdir  # not permitted to mount: the same errors by hand

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open_only(path, flags, *args, **kwargs):
        return (
            fail() if flags & (os.O_WRONLY | os.O_RDWR) else real_open(path, flags, *args, **kwargs)
        )

    monkeypatch.setattr(os, "open", open_only)
    monkeypatch.setattr(os, "mkdir", fail)
    yield place
    monkeypatch.setattr(os, "open", real_open)
    monkeypatch.setattr(os, "mkdir", real_mkdir)


def mount(*arguments: str | Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


def test_read_only__is_one_line_and_loses_nothing(read_only: Path) -> None:
    before = digest(read_only / "a.zarr")
    for path, overwrite in (("a.zarr", False), ("a.zarr", True), ("b.zarr", False)):
        with pytest.raises(StoreError, match=r"^cannot [^\n]*the file system is read-only$"):
            open_or_create(read_only / path, layout(), overwrite=overwrite)
    assert digest(read_only / "a.zarr") == before
    assert os.listdir(read_only) == ["a.zarr"]
    assert open_store(read_only / "a.zarr")["kernel_0/execution_time"].shape == (2, 5, 3)


@pytest.fixture
def file_limit() -> Iterator[None]:
    """No file may grow past 200 bytes: an error in the midst of a write, without privileges."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_failing_write__leaves_the_store_resumable(tmp_path: Path, file_limit: None) -> None:
    path = tmp_path / "a.zarr"
    with open_or_create(path, layout()) as store:
        write_chunk(store, "kernel_0", 0)
        journal = (path / "chunk_index/journal.jsonl").read_bytes()
        limit_files(20)
        with pytest.raises(StoreError, match=r"^cannot write .*c\.0\.1\.0': the file is larger"):
            store.write("kernel_0", "execution_time", (0, 1, 0), times("kernel_0", 2, 1))
        limit_files(len(journal) + 10)
        with pytest.raises(StoreError, match="cannot write .*journal"):
            store.mark_finished([("kernel_0", 1, {})])
        assert (path / "chunk_index/journal.jsonl").read_bytes() == journal
        limit_files(-1)
        assert not list(path.rglob("*.partial"))
        assert list(store.finished) == [("kernel_0", 0)]
    with open_or_create(path, layout()) as store:
        fill(store)
    assert digest(path) == reference(tmp_path)


def test_failing_creation__leaves_nothing(tmp_path: Path, file_limit: None) -> None:
    limit_files(200)
    with pytest.raises(StoreError, match="cannot create"):
        open_or_create(tmp_path / "a.zarr", layout())
    limit_files(-1)
    assert os.listdir(tmp_path) == []


def test_failing_overwrite__keeps_the_old_store(tmp_path: Path, file_limit: None) -> None:
    start(tmp_path / "a.zarr")
    before = digest(tmp_path / "a.zarr")
    limit_files(200)
    with pytest.raises(StoreError, match="cannot create"):
        open_or_create(tmp_path / "a.zarr", layout(), overwrite=True)
    limit_files(-1)
    assert digest(tmp_path / "a.zarr") == before
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_full_disk__is_one_line(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.zarr"
    if is_mounted := mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", tmp_path):
        filler = tmp_path / "filler"
    try:
        with open_or_create(path, layout()) as store:
            if is_mounted:
                with pytest.raises(OSError, match="No space"):
                    filler.write_bytes(b"x" * 2**20)
            else:
                monkeypatch.setattr(os, "write", no_space)
            with pytest.raises(StoreError, match=r"^cannot write [^\n]*the disk is full; what"):
                store.write("kernel_0", "execution_time", (0, 0, 0), times("kernel_0", 2, 0))
            monkeypatch.undo()
            if is_mounted:
                filler.unlink()
            fill(store)
        assert not list(path.rglob("*.partial"))
        assert inspect(path).is_finished
    finally:
        if is_mounted:
            subprocess.run(["umount", tmp_path], check=True)


def no_space(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
