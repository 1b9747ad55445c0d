"""Full and read-only disks: one clear line, nothing half-written, and the store goes on later."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from pathlib import Path

import pytest
from support.store_samples import complete, digest, layout, reference, start, times, write_chunk

from sweep.errors import StoreError
from sweep.store import open_store
from sweep.store.root import inspect
from sweep.store.writer import open_or_create


@pytest.fixture
def read_only(tmp_path, monkeypatch):
    """A directory with an unfinished store on a read-only file system."""
    place = tmp_path / "place"
    place.mkdir()
    start(place / "a.zarr")
    if mount("--bind", place, place):
        mount("-o", "remount,ro,bind", place)
        yield place
        subprocess.run(["umount", place], check=True)
        return
    real_open = os.open  # not permitted to mount: the same errors by hand

    def fail(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def open_only(path, flags, *args, **kwargs):
        writes = flags & (os.O_WRONLY | os.O_RDWR)
        return fail() if writes else real_open(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", open_only)
    monkeypatch.setattr(os, "mkdir", fail)
    yield place
    monkeypatch.undo()


def mount(*arguments: str | Path) -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    return subprocess.run(["mount", *arguments], capture_output=True).returncode == 0


@pytest.mark.filterwarnings("ignore::sweep.errors.UnfinishedWarning")
def test_read_only__is_one_line_and_loses_nothing(read_only):
    before = digest(read_only / "a.zarr")
    for path, overwrite in (("a.zarr", False), ("a.zarr", True), ("b.zarr", False)):
        with pytest.raises(StoreError, match=r"^cannot [^\n]*the file system is read-only$"):
            open_or_create(read_only / path, layout(), overwrite=overwrite)
    assert digest(read_only / "a.zarr") == before
    assert os.listdir(read_only) == ["a.zarr"]
    assert open_store(read_only / "a.zarr")["kernel_0/execution_time"].shape == (2, 5, 3)


@pytest.fixture
def file_limit():
    """No file may grow past 200 bytes: an error in the midst of a write, without privileges."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def limit_files(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_failing_write__leaves_the_store_resumable(tmp_path, file_limit, monkeypatch):
    path = tmp_path / "a.zarr"
    with open_or_create(path, layout()) as store:
        write_chunk(store, "kernel_0", 0)
        journal = (path / "chunk_index/journal.jsonl").read_bytes()
        limit_files(20)
        with pytest.raises(StoreError, match=r"^cannot write .*c\.0\.1\.0': the file is larger"):
            store.writer.write("kernel_0", "execution_time", (0, 1, 0), times("kernel_0", 2, 1))
        limit_files(len(journal) + 10)
        with pytest.raises(StoreError, match="cannot write .*journal"):
            store.mark_finished([("kernel_0", 1, {})])
        assert (path / "chunk_index/journal.jsonl").read_bytes() == journal
        limit_files(-1)
        with monkeypatch.context() as full:
            full.setattr(os, "write", no_space)
            with pytest.raises(StoreError, match=r"^cannot write [^\n]*the disk is full; the same"):
                write_chunk(store, "kernel_0", 1)
        assert not list(path.rglob("*.partial"))
        assert list(store.finished) == [("kernel_0", 0)]
    complete(path)
    assert digest(path) == reference(tmp_path)


def test_failing_creation__leaves_nothing_or_the_old_store(tmp_path, file_limit):
    path = tmp_path / "a.zarr"
    for overwrite in (False, True):
        before = digest(path)
        limit_files(200)
        with pytest.raises(StoreError, match="cannot create"):
            open_or_create(path, layout(), overwrite=overwrite)
        limit_files(-1)
        assert digest(path) == before
        assert os.listdir(tmp_path) == ["a.zarr"] * overwrite
        if not overwrite:
            start(path)


def test_full_disk__is_one_line(tmp_path):
    path, filler = tmp_path / "a.zarr", tmp_path / "x"
    if not mount("-t", "tmpfs", "-o", "size=400k", "tmpfs", tmp_path):
        pytest.skip("needs the right to mount a file system")
    try:
        with open_or_create(path, layout()) as store:
            with pytest.raises(OSError, match="No space"):
                filler.write_bytes(b"x" * 2**20)
            with pytest.raises(StoreError, match=r"^cannot write [^\n]*the disk is full; the same"):
                write_chunk(store, "kernel_0", 0)
        filler.unlink()
        complete(path)
        assert not list(path.rglob("*.partial"))
        assert inspect(path).is_finished
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def no_space(descriptor: int, data: bytes) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
