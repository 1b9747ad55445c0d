"""What must not harm a store: other runs, other plans, foreign places, a damaged journal."""

import os

import numpy as np
import pytest
import zarr
from support.store_samples import complete, digest, fill, layout, reference, start, write_chunk

from sweep.errors import StoreError
from sweep.store import open_store
from sweep.store.creation import place
from sweep.store.journal import journal_header, journal_line
from sweep.store.root import inspect
from sweep.store.writer import open_or_create


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.zarr"


# Continuing


def test_resume__computes_only_what_is_missing(path, tmp_path):
    start(path, 2)
    (path / "kernel_0/status/c.2.1f-0123456789ab.partial").write_bytes(b"half")
    before = {file: file.stat().st_mtime_ns for file in path.rglob("c.?*[0-9]") if file.is_file()}
    with open_or_create(path, layout()) as store:
        assert set(store.finished) == {("kernel_0", 0), ("kernel_0", 1)}
        assert store.missing() == [("kernel_0", 2), *(("kernel_1", i) for i in range(3))]
        fill(store)
    assert digest(path) == reference(tmp_path)
    assert before and all(file.stat().st_mtime_ns == time for file, time in before.items())


def test_resume__of_a_finished_store_changes_nothing(path):
    complete(path)
    before = digest(path) | {"run": str(inspect(path).run)}
    (path / "chunk_index/lock").touch()  # killed between completing and closing
    with open_or_create(path, layout()) as store:
        assert store.is_finished and len(store.finished) == 6
        store.complete()
        with pytest.raises(StoreError, match="finished and takes no more"):
            store.mark_finished([("kernel_0", 0, {})])
    assert digest(path) | {"run": str(inspect(path).run)} == before


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"variant": "as_printed", "plan": {"name": "sample", "axes": [1]}},
            r"plan\.axes, variant \('corrected' there, 'as_prin",
        ),
        ({"specs": {"gtx_280": "0" * 64}}, "--overwrite"),
        ({"chunk": 3}, "other chunks"),
    ],
)
def test_resume__of_another_plan_is_refused_by_part(path, other, message):
    start(path)
    before = digest(path)
    with pytest.raises(StoreError, match=message):
        open_or_create(path, layout(**other))
    assert digest(path) == before


def test_complete__refuses_with_chunks_missing(path):
    with open_or_create(path, layout()) as store:
        write_chunk(store, "kernel_0", 0)
        with pytest.raises(StoreError, match="lacks 5 of its chunks"):
            store.complete()
    assert not inspect(path).is_finished


# Overwriting


def test_overwrite__replaces_a_store_that_nobody_writes(path, tmp_path):
    with open_or_create(path, layout(groups=3, variant="as_printed")) as store:
        with pytest.raises(StoreError, match=f"process {os.getpid()} on host"):
            open_or_create(path, layout(), overwrite=True)
        fill(store)
    complete(path, overwrite=True)
    assert digest(path) == reference(tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "reference"]


@pytest.mark.parametrize("leftover", ["new", "old", "trash"])
def test_recover__of_a_killed_overwrite(path, tmp_path, leftover):
    start(path)
    before = digest(path)
    kept = {f".b.zarr.sweep-{leftover}-01234567", f".a.zarr.sweep-{leftover}"}
    for name in (*kept, f".a.zarr.sweep-{leftover}-01234567"):
        (tmp_path / name).mkdir()
    with place(path):
        pass
    assert digest(path) == before
    assert set(os.listdir(tmp_path)) == {*kept, "a.zarr"}


def test_recover__puts_the_old_store_back(path, tmp_path):
    start(path)
    before = digest(path)
    path.rename(tmp_path / ".a.zarr.sweep-old-01234567")
    with open_or_create(path, layout()) as store:
        assert len(store.finished) == 1 and store.missing()
    assert digest(path) == before


# Foreign places


def make_directory(path, name, text):
    path.mkdir()
    (path / name).write_text(text)


FOREIGN = [
    lambda path: path.write_text("not a store"),
    lambda path: make_directory(path, "thesis.tex", "years of work"),
    lambda path: zarr.create_group(path, zarr_format=3, attributes={"mine": 1}),
    lambda path: zarr.create_group(path, zarr_format=2, attributes={"mine": 1}),
    lambda path: make_directory(path, "zarr.json", '{"attributes": {"sweep_store_version"'),
    lambda path: make_directory(path, "zarr.json", "[1, 2]"),
]


def contents(root):
    return {path: path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


@pytest.mark.parametrize("make", FOREIGN)
def test_foreign__is_refused_and_untouched(path, tmp_path, make):
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


def test_missing__store_and_parent_are_named(path, tmp_path):
    with pytest.raises(StoreError, match="no store at"):
        open_store(path)
    with pytest.raises(StoreError, match="is not a directory"):
        open_or_create(tmp_path / "missing" / "a.zarr", layout())


def test_empty_directories_and_links__become_a_store(path, tmp_path):
    (tmp_path / "empty.zarr").mkdir()
    complete(tmp_path / "empty.zarr")
    assert digest(tmp_path / "empty.zarr") == reference(tmp_path)
    (tmp_path / "disk").mkdir()
    path.symlink_to(tmp_path / "disk" / "store")
    for overwrite in (False, True):
        complete(path, overwrite=overwrite)
    assert path.is_symlink() and os.listdir(tmp_path / "disk") == ["store"]


# The journal


def test_journal__torn_anywhere_in_its_last_line(path):
    start(path, 2)
    journal = path / "chunk_index" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    for length in range(len(lines[-1])):
        journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:length])
        with open_or_create(path, layout()) as store:
            assert list(store.finished) == [("kernel_0", 0)]
        assert journal.read_bytes() == b"".join(lines[:-1])


@pytest.mark.parametrize("content", [None, b"", b'{"sweep_jour'])
def test_journal__lost_means_nothing_is_finished(path, tmp_path, content):
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
        (lambda head, line: [journal_header("0"), line], "another store"),
        (lambda head, line: [head.replace(b'store":"', b'store":"0'), line], "line 1: damaged"),
        (lambda head, line: [line], "another store"),
        (lambda head, line: [head, b"{]\n", line], "line 2: damaged"),
        (lambda head, line: [head, line.replace(b"[0,", b"[1,"), line], "line 2: damaged"),
        (lambda head, line: [head, line.replace(b"crc", b"crb"), line], "line 2: damaged"),
        (lambda *lines: [*lines, journal_line(("kernel_0", 3, {}))], "no chunk 3 of 'kernel_0'"),
        (lambda *lines: [*lines, journal_line(("kernel_9", 0, {}))], "no chunk 0 of 'kernel_9'"),
    ],
)
def test_journal__damage_is_an_error(path, damage, message):
    start(path)
    journal = path / "chunk_index" / "journal.jsonl"
    journal.write_bytes(b"".join(damage(*journal.read_bytes().splitlines(keepends=True))))
    for _ in range(2):  # the error leaves no lock behind
        with pytest.raises(StoreError, match=message):
            open_or_create(path, layout())


def test_journal__refuses_summaries_that_json_cannot_hold(path):
    with open_or_create(path, layout()) as store:
        with pytest.raises(ValueError, match="JSON"):
            store.mark_finished([("kernel_0", 0, {"minimum": np.float32("nan")})])
        assert not store.finished
