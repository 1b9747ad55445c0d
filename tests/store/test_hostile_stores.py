"""A store is data from a stranger: whatever stands in it is found, or refused in one line."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import sys

import google_crc32c
import numpy as np
import pytest
from support import indexed
from support.runs import plan
from support.store_samples import complete, digest, layout, rewrite_root, start

from sweep.cli import main
from sweep.errors import StoreError
from sweep.query import best, top
from sweep.runs.running import repair, run
from sweep.runs.running import verify as verify_run
from sweep.store import open_store
from sweep.store.codec import Chunking
from sweep.store.lock import is_alive_here, this_process
from sweep.store.reader import open_groups
from sweep.store.root import inspect, root_document
from sweep.store.verify import verify
from sweep.store.writer import open_or_create

FEW = {"kernels": ["sepia"], "outputs": ["execution_time"], "axes": {"block_size": [64, 128]}}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path = tmp_path_factory.mktemp("finished") / "a.zarr"
    indexed.write(path, {"one": indexed.grid((3, 2, 2, 2, 2), 12)}, seed=3)
    return path


@pytest.fixture
def store(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def refused(action, match=None):
    with pytest.raises(StoreError, match=match) as error:
        action()
    assert "\n" not in str(error.value) and str(error.value).isprintable()
    return str(error.value)


# Documents


def test_flipped_bits__in_any_document_are_found(store):
    chance = random.Random(5)
    documents = [p for p in sorted(store.rglob("*")) if p.name in ("zarr.json", "journal.jsonl")]
    assert len(documents) > 20
    for file in [*documents, *20 * [store / "zarr.json", store / "chunk_index/journal.jsonl"]]:
        sound = file.read_bytes()
        for _ in range(3):
            flipped = bytearray(sound)
            flipped[chance.randrange(len(sound))] ^= 1 << chance.randrange(8)
            file.write_bytes(flipped)
            found = verify(store)
            if not found:  # white space, or the case of an exponent
                assert file.name == "zarr.json" and json.loads(flipped) == json.loads(sound)
            elif file == store / "zarr.json":
                assert [damage.key for damage in found] == ["zarr.json"]
                refused(lambda: top(store, 3), "zarr.json is damaged")
        file.write_bytes(sound)


@pytest.mark.parametrize(
    "part", ["record", "run", "title", "metadata", "checksums", "arrays", "lost"]
)
def test_root__is_repaired_from_its_arrays_where_that_is_possible(tmp_path, part, capsys):
    path = tmp_path / "a.zarr"
    run(plan(**FEW), path)
    before = digest(path)
    root = json.loads((path / "zarr.json").read_text())
    attributes, members = root["attributes"], root["consolidated_metadata"]["metadata"]
    changed, name, value = {
        "record": (attributes["record"]["kernels"]["sepia"], "text", "key = 'sepia'"),
        "run": (attributes["run"], "created", "never"),
        "title": (attributes, "title", "another"),
        "metadata": (members["sepia/execution_time"], "shape", [9, 9]),
        "checksums": (attributes["checksums"], "consolidated_metadata", "0" * 64),
        "arrays": (members, "sepia/status", {}),
        "lost": (root["consolidated_metadata"], "metadata", dict(list(members.items())[:-2])),
    }[part]
    changed[name] = value
    (path / "zarr.json").write_text(json.dumps(root))
    (found,) = verify_run(path)
    assert found.key == "zarr.json"
    if part in ("record", "run", "title"):
        assert part in refused(lambda: repair(path, [found]), "cannot be repaired")
        return
    assert main(["verify", str(path), "--repair"]) == 0
    assert "mended 1 file" in capsys.readouterr().out
    assert digest(path) == before


def test_store_of_the_previous_version__opens_without_checksums(store):
    expected = best(store).to_json()
    root = json.loads((store / "zarr.json").read_text())
    del root["attributes"]["checksums"]
    (store / "zarr.json").write_text(json.dumps(root))
    journal = store / "chunk_index/journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    lines[0]["sweep_journal"] = 1
    plain = [{k: v for k, v in line.items() if k != "crc32"} for line in lines]
    journal.write_text("".join(json.dumps(line) + "\n" for line in plain))
    assert verify(store) == []
    assert best(store).to_json() == expected
    del root["consolidated_metadata"]["metadata"]["one/status"]["fill_value"]
    (store / "zarr.json").write_text(json.dumps(root))
    assert "fill_value" in refused(lambda: best(store), "damaged")


def _grid(*chunks):
    return {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks)}}}


@pytest.mark.parametrize(
    ("member", "changes"),
    [
        ("one/occupancy", {"shape": [10**15, 2, 2]}),
        ("one/occupancy", {"shape": [-3, 2, 2]}),
        ("one/occupancy", {"shape": [True, 2, 2]}),
        ("one/occupancy", {"shape": [3.0, 2, 2]}),
        ("one/occupancy", {"shape": "3"}),
        ("one/occupancy", _grid(2**20, 2**20, 2)),
        ("one/occupancy", _grid(0, 1, 1)),
        ("one/occupancy", {"data_type": "object"}),
        ("one/occupancy", {"codecs": [{"name": "gzip", "configuration": {"level": 1}}]}),
        ("one/occupancy", {"dimension_names": ["device", "tile", "__import__('os') or a"]}),
        ("one/occupancy", {"dimension_names": ["device", "tile", "x" * 1000]}),
        ("one/occupancy", {"node_type": "group"}),
        ("one/tile", _grid(1)),
        ("one", {"attributes": {"coordinates": ["tile"]}}),
        ("chunk_index", {"attributes": {"groups": {"one": [0, 10**15]}}}),
        ("chunk_index", {"attributes": {"groups": {"../one": [0, 1]}}}),
        ("one/../../x", "one/tile"),  # a copy of that
        ("one/a\x1b[2Jb", "one/tile"),
        ("chunk_index", None),
        ("one", None),
    ],
)
def test_metadata__that_no_sweep_writes_is_refused(store, member, changes):
    root = json.loads((store / "zarr.json").read_text())
    members = root["consolidated_metadata"]["metadata"]
    found = members.pop(member, {})
    if changes is not None:
        members[member] = {**found, **(members[changes] if changes == "one/tile" else changes)}
    (store / "zarr.json").write_text(json.dumps(root_document(root["attributes"], members)))
    for action in (open_groups, open_store, best):
        refused(lambda action=action: action(store), "zarr.json is damaged")
    assert [damage.key for damage in verify(store)] == ["zarr.json"]


DAMAGED = "zarr.json is damaged"


@pytest.mark.parametrize(
    ("message", "attributes"),
    [
        ("install a newer sweep", {"sweep_store_version": 2}),
        ("write it again", {"sweep_store_version": 0}),
        ("write it again", {"sweep_store_version": "1"}),
        (DAMAGED, {"record": {}}),
        (DAMAGED, {"record": []}),
        (DAMAGED, {"record": {"identity": {}, "kernels": {"a": {"text": "x", "sha256": "0"}}}}),
        (DAMAGED, {"record": {"identity": {}, "measured": 3}}),
        (DAMAGED, {"record": {"identity": "x", "plan": {"name": "a", "variant": 1}}}),
        (DAMAGED, {"run": None}),
        (DAMAGED, {"run": {}}),
        (DAMAGED, {"run": {"finished": 3}}),
        (DAMAGED, {"layout_sha256": 5}),
    ],
)
def test_root_record__that_no_sweep_writes_is_refused(store, message, attributes):
    rewrite_root(store, **attributes)
    refused(lambda: inspect(store), message)


def test_nested_documents__do_not_exhaust_the_stack(store):
    (store / "one/tile/zarr.json").write_text("[" * 200_000)
    assert [d.key for d in verify(store)] == ["one/tile/zarr.json"]
    (store / "zarr.json").write_text("[" * 200_000)
    refused(lambda: inspect(store), "not JSON")


@pytest.mark.parametrize("position", [-2, 10**18])
def test_index__that_points_outside_the_grid_is_refused(store, position):
    array = open_groups(store)["one"].index.arrays["chunk_minimum_position"]
    values = np.full(array.chunking.chunks, position, np.int64)
    file = store / "chunk_minimum_position/c.0.0"
    file.write_bytes(b"".join(Chunking(values.shape, values.shape, "int64").encode((0, 0), values)))
    refused(lambda: best(store), "'chunk_minimum_position' of its index is damaged")


# Chunks


def sealed(body: bytes):
    return bytes(body) + google_crc32c.value(bytes(body)).to_bytes(4, "little")


@pytest.mark.parametrize("size", [20, 100_000])
def test_blosc_headers__are_checked_before_decoding(size):
    """With a checksum that fits: nothing is read past the chunk's end, nothing too large made."""
    chunking = Chunking((size,), (size,), "float64")
    values = np.arange(size) % 7 * 1.5
    body = bytearray(b"".join(chunking.encode((0,), values))[:-4])
    numbers = [0, 1, 15, len(body) + 100, 8 * size - 8, 8 * size + 8, 2**31, 2**32 - 1]
    for at in range(4, min(len(body), 28), 4):
        for number in numbers:
            mutated = bytearray(body)
            struct.pack_into("<I", mutated, at, number)
            try:
                found = chunking.decode(sealed(mutated))
            except ValueError as error:
                assert "header" in str(error) or "decompressed" in str(error)
            else:
                assert found.shape == values.shape
    for cut in (body[:3], body[:16], body[:-1], body + b"x"):
        with pytest.raises(ValueError, match="header does not fit"):
            chunking.decode(sealed(bytes(cut)))


def test_numbers_of_texts__are_checked_before_decoding():
    chunking = Chunking((2,), (2,), "string")
    for body in (b"\xff\xff\xff\xff", b"\x02\0\0\0", b"\x02\0\0\0\xff\xff\0\0a\0\0\0\0",
                 b"\x02\0\0\0\x01\0\0\0\xff\0\0\0\0"):  # fmt: skip
        with pytest.raises(ValueError, match="header|buffer|decode"):
            chunking.decode(sealed(body))


def test_chunk__that_does_not_fit_is_damaged(store, capsys):
    for file in (store / "one/execution_time").glob("c.*"):
        body = bytearray(file.read_bytes()[:-4])
        struct.pack_into("<I", body, 12, len(body) + 4096)
        file.write_bytes(sealed(body))
    problems = {damage.problem for damage in verify(store)}
    assert problems == {"its header does not fit the declared chunk"}
    assert main(["top", str(store), "60", "--where", "occupancy >= 0"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    refused(lambda: open_store(store)["one/execution_time"].load(), "header does not fit")


# Links


TARGETS = {"link": "../../victim", "dangling": "../../nothing", "zeros": "/dev/zero", "pipe": None}


def replace_by(kind, place):
    """Put a link or a pipe in the place of a file."""
    place.unlink(missing_ok=True)
    if TARGETS[kind] is None:
        os.mkfifo(place)
    else:
        place.symlink_to(TARGETS[kind])


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", ["lock", "journal.jsonl", "zarr.json", "c.0", "damaged.json"])
def test_links_and_pipes__in_a_store_are_refused(tmp_path, kind, name):
    path, victim = tmp_path / "a.zarr", tmp_path / "victim"
    victim.write_text("years of work")
    start(path)
    place = path / "chunk_index" / name
    if name in ("lock", "journal.jsonl"):  # which an unfinished store writes
        replace_by(kind, place)
        refused(lambda: open_or_create(path, layout()), "a link or a special file, which no store")
        place.unlink()
    complete(path)
    replace_by(kind, place)
    damaged = [damage.key for damage in verify(path)]
    assert damaged == ([f"chunk_index/{name}"] if name[0] in "jzc" else [])
    assert victim.read_text() == "years of work" and not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("kind", TARGETS)
def test_links_and_pipes__are_no_root(store, kind):
    (store.parent.parent / "victim").write_text("years of work")
    replace_by(kind, store / "zarr.json")
    for action in (inspect, best, verify, open_store):
        refused(lambda action=action: action(store))
    refused(lambda: open_or_create(store, layout(), overwrite=True))


@pytest.mark.parametrize("url", ["memory://a/b", "s3://b/../x.zarr", "s3://b/x.zarr"])
def test_buckets__without_their_library(url, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "obstore", None)
    for action in (inspect, verify, lambda url: open_or_create(url, layout())):
        assert "pip install" in refused(lambda action=action: action(url)) or ".." in url
    assert main(["best", url]) == 2 and capsys.readouterr().err.count("\n") == 1


def test_linked_directories__are_refused(store, tmp_path):
    for name in ("one/execution_time", "chunk_index", "chunk_minimum"):
        (store / name).rename(tmp_path / "elsewhere")
        (store / name).symlink_to(tmp_path / "elsewhere")
        before = sorted(os.listdir(tmp_path / "elsewhere"))
        assert verify(store)
        assert sorted(os.listdir(tmp_path / "elsewhere")) == before  # and no note behind the link
        (store / name).unlink()
        (tmp_path / "elsewhere").rename(store / name)
    assert verify(store) == []


@pytest.mark.parametrize(
    "owner",
    [
        {"pid": 10**30, "host": "a\x1b]0;owned\x07\nb", "since": "\u202e" * 300},
        {"pid": True, "host": ["x" * 10**4]},
        {"pid": -1, "boot": {}, "since": None},
    ],
)
def test_locks__of_nobody(tmp_path, owner):
    start(tmp_path / "a.zarr")
    lock = tmp_path / "a.zarr/chunk_index/lock"
    lock.write_text(json.dumps({"host": "elsewhere", "boot": "another", **owner}))
    assert len(refused(lambda: open_or_create(tmp_path / "a.zarr", layout()))) < 3000
    assert is_alive_here({**this_process(), "pid": owner["pid"]}) is False
