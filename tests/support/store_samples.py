"""A small store that several tests fill, kill, damage and compare."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from sweep.store.buckets import files_of
from sweep.store.journal import journal_entries
from sweep.store.layout import GroupLayout, StoreLayout, Variable, static
from sweep.store.root import inspect, root_document
from sweep.store.writer import Store, open_or_create

VERSION = {"sweep_version": "0"}
MODELS = ["hong_kim", "wang_chu"]
TILES = [4, 8, 16, 32, 64]
CLOCKS = [500.0, 650.0, 800.0]

STATUS_ATTRS = {"units": "1", "flag_values": [0, 1], "flag_meanings": "valid constraint"}


def layout(*, groups: int = 2, chunk: int = 2, **identity: object) -> StoreLayout:
    """Return two kernels, each with a time, a code without clocks, a string; chunks along tiles."""
    record = {
        "identity": {"plan": {"name": "sample"}, "variant": "corrected", **VERSION, **identity},
        "plan": {"name": "sample", "variant": "corrected"},
        "versions": {},
    }
    return StoreLayout([_group(f"kernel_{i}", chunk) for i in range(groups)], record)


def _group(name: str, chunk: int) -> GroupLayout:
    n_chunks = -(-len(TILES) // chunk)
    full = ("model", "tile", "core_clock_ratio")
    shape = (len(MODELS), len(TILES), len(CLOCKS))
    return GroupLayout(
        name,
        {"kernel": name},
        [
            static("model", ("model",), MODELS, {"long_name": "performance model"}),
            static("tile", ("tile",), np.array(TILES), {"units": "1"}),
            static("core_clock_ratio", ("core_clock_ratio",), np.array([0.8, 1.0, 1.2])),
            static("core_clock", ("core_clock_ratio",), np.array(CLOCKS), {"units": "MHz"}),
            static("device", (), "gtx_280"),
        ],
        [
            Variable("execution_time", full, shape, (2, chunk, 3), "float32", {"units": "s"}),
            Variable("status", ("tile",), shape[1:2], (chunk,), "uint8", STATUS_ATTRS),
            static("assumed", ("model",), ["", "clocks.core_max µ"]),
        ],
        n_chunks,
    )


def times(group: str, chunk_size: int, chunk: int) -> np.ndarray:
    """Return the times of one chunk; all values of all groups differ."""
    size = min(chunk_size, len(TILES) - chunk * chunk_size)
    start = 1000 * int(group.rpartition("_")[2]) + 100 * chunk
    return (start + np.arange(2 * size * 3, dtype="float32")).reshape(2, size, 3)


def write_chunk(store: Store, group: str, chunk: int, chunk_size: int = 2) -> None:
    """Write one unit of work and add it to the journal."""
    values = times(group, chunk_size, chunk)
    store.writer.write(group, "execution_time", (0, chunk, 0), values)
    store.writer.write(group, "status", (chunk,), np.zeros(values.shape[1], "uint8"))
    summary = {"execution_time": {"minimum": values.min(), "position": [0, 0, 0]}}
    store.mark_finished([(group, chunk, summary)])


def fill(store: Store, chunk_size: int = 2) -> None:
    """Write the missing chunks and complete the store."""
    for group, chunk in store.missing():
        write_chunk(store, group, chunk, chunk_size)
    store.complete()


def complete(path: Path | str, overwrite: bool = False, **kind: object) -> None:
    """Create or continue a store and complete it."""
    with open_or_create(path, layout(**kind), overwrite=overwrite) as store:
        fill(store)


def contents(store: Path | str) -> dict[str, bytes]:
    """Return every file, or every object below a URL."""
    files = files_of(store)
    keys = list(files.keys())
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(keys, pool.map(files.get, keys), strict=True))


def digest(store: Path | str) -> dict[str, str]:
    """Hash of every file or object but the journal; times in the root record left out."""
    found = {k: v for k, v in contents(store).items() if not k.startswith("chunk_index/journal")}
    if "zarr.json" in found:
        found["zarr.json"] = without_times(found["zarr.json"])
    return {key: hashlib.sha256(content).hexdigest() for key, content in found.items()}


def entries(store: Path | str) -> list[bytes]:
    """Return the sorted lines of the journal, which differ in order between two runs."""
    found = [v for k, v in contents(store).items() if k.startswith("chunk_index/journal")]
    return sorted({line for content in found for line in content.splitlines()})


def summaries(store: Path | str) -> dict[tuple[str, int], object]:
    """Return the summary of every finished chunk."""
    return {entry[:2]: entry[2] for entry in journal_entries(inspect(store))}


def without_times(content: bytes) -> bytes:
    """Return a root document without the parts that may differ between equal results."""
    document = json.loads(content)
    document["attributes"].pop("run")
    document["attributes"]["checksums"].pop("run")
    return json.dumps(document).encode()


def rewrite_root(store: Path, **attributes: object) -> None:
    """Change attributes of a store's root and update the checksums."""
    root = json.loads((store / "zarr.json").read_bytes())
    members = root["consolidated_metadata"]["metadata"]
    changed = root_document({**root["attributes"], **attributes}, members)
    (store / "zarr.json").write_text(json.dumps(changed))


def start(path: Path, chunks: int = 1) -> None:
    """Create a store with its first chunks finished."""
    with open_or_create(path, layout()) as store:
        for chunk in store.missing()[:chunks]:
            write_chunk(store, *chunk)


def reference(tmp_path: Path) -> dict[str, str]:
    """Return the hashes of an undisturbed run's files."""
    (tmp_path / "reference").mkdir()
    complete(tmp_path / "reference" / "a.zarr")
    return digest(tmp_path / "reference" / "a.zarr")
