"""The metadata documents of a new store, written out rather than left to a library's version.

The documents are plain zarr v3 with the metadata consolidated at the root and in every group, so
that the whole tree and each group alone open silently. They are composed here because a store that
is resumed under another zarr must come out the same to the bit, and because consolidating through
zarr warns. The tests hold them against what zarr itself writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from sweep.store.codec import codec_metadata, encode
from sweep.store.layout import CHUNK_INDEX, GroupLayout, StoreLayout, Variable, fill_value

__all__ = [
    "SEPARATOR",
    "STORE_VERSION",
    "Document",
    "array_document",
    "chunk_index_array",
    "chunk_key",
    "document",
    "static_objects",
]

STORE_VERSION = 1
"""Version of the store's own conventions (root attribute ``sweep_store_version``)."""

SEPARATOR = "."
"""Between a chunk's numbers: all chunks of an array lie in one directory. Nested directories
double the time to create a file, one chunk for each being common in many dimensions."""

ROOT_DOCUMENT = "zarr.json"

Document = dict[str, Any]

_PLAIN = frozenset((str, int, float, bool, type(None)))
_plain = json.JSONEncoder(allow_nan=False).encode


def chunk_key(index: tuple[int, ...]) -> str:
    """Return the file name of a chunk within its array's directory."""
    return SEPARATOR.join(["c", *map(str, index)])


def document(value: Mapping[str, Any]) -> bytes:
    """Return a metadata document's bytes: a line for each key, for people to read."""
    return _laid_out(value, "").encode()


def _laid_out(value: Any, margin: str) -> str:
    """Return JSON with an entry a line, but lists of plain values on one line.

    The standard library's own indentation, which has a line for each number, takes longer for
    the thousands of sizes of a plan than writing a hundred megabytes of results does.
    """
    inner = margin + "  "
    if isinstance(value, Mapping) and value:
        lines = [f"{_plain(key)}: {_laid_out(held, inner)}" for key, held in value.items()]
        start, end = "{", "}"
    elif isinstance(value, list) and not _PLAIN.issuperset(map(type, value)):
        lines = [_laid_out(held, inner) for held in value]
        start, end = "[", "]"
    else:
        return _plain(value)
    separator = ",\n" + inner
    return f"{start}\n{inner}{separator.join(lines)}\n{margin}{end}"


def static_objects(layout: StoreLayout, run: Mapping[str, Any]) -> dict[str, bytes]:
    """Return everything that a store holds before its first chunk, by key.

    Parameters
    ----------
    layout : StoreLayout
        What the store will hold.
    run : mapping
        The root attribute ``run``: times and what else may differ between two equal stores.

    Returns
    -------
    dict
        Documents, coordinates and static variables. The root document is the last: where a tree
        cannot be renamed into place as a whole, writing it last makes the store appear at once.
    """
    objects: dict[str, bytes] = {}
    index = array_document(chunk_index_array(layout))
    everything: dict[str, Document] = {CHUNK_INDEX: index}
    objects[f"{CHUNK_INDEX}/zarr.json"] = document(index)
    for group in layout.groups:
        arrays = {array.name: array_document(array) for array in group.arrays()}
        attributes = _group_attributes(group)
        everything[group.name] = _group_document(attributes, {})
        everything.update({f"{group.name}/{name}": doc for name, doc in arrays.items()})
        objects[f"{group.name}/zarr.json"] = document(_group_document(attributes, arrays))
        for array in group.arrays():
            objects[f"{group.name}/{array.name}/zarr.json"] = document(arrays[array.name])
            if array.values is not None and 0 not in array.shape:
                key = f"{group.name}/{array.name}/{chunk_key((0,) * len(array.shape))}"
                objects[key] = b"".join(encode(np.asarray(array.values)))
    root = {
        **layout.attrs,
        "sweep_store_version": STORE_VERSION,
        "record": layout.record,
        "layout_sha256": layout.fingerprint(),
        "run": run,
    }
    objects[ROOT_DOCUMENT] = document(_group_document(root, everything))
    return objects


def chunk_index_array(layout: StoreLayout) -> Variable:
    """Return the root array that says which units of work are finished.

    Its dimension is named so that no parameter of a kernel collides with it: in a tree of
    datasets a dimension of the root is binding for all groups.
    """
    counts = layout.chunk_counts()
    starts: dict[str, list[int]] = {}
    total = 0
    for name, count in counts.items():
        starts[name] = [total, count]
        total += count
    attrs = {
        "long_name": "whether a chunk of the run is finished; all ones in a finished store",
        "flag_values": [0, 1],
        "flag_meanings": "missing finished",
        "groups": starts,
        "comment": "groups: first position and number of chunks of each group. Written when the "
        "run completes; until then journal.jsonl beside it counts.",
    }
    return Variable(CHUNK_INDEX, ("store_chunk",), (total,), (max(total, 1),), "uint8", attrs)


def array_document(array: Variable) -> Document:
    """Return the metadata document of an array."""
    # An index of chunks that was never written means "missing", not "unknown".
    fill = 0 if array.name == CHUNK_INDEX else fill_value(array.dtype)
    if isinstance(fill, float) and math.isnan(fill):
        fill = "NaN"
    return {
        "shape": list(array.shape),
        "data_type": array.dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(array.chunks)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": SEPARATOR}},
        "fill_value": fill,
        "codecs": codec_metadata(array.dtype),
        "attributes": dict(array.attrs),
        "dimension_names": list(array.dims),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def _group_document(attributes: Mapping[str, Any], members: Mapping[str, Document]) -> Document:
    return {
        "attributes": dict(attributes),
        "zarr_format": 3,
        "consolidated_metadata": {
            "kind": "inline",
            "must_understand": False,
            "metadata": dict(sorted(members.items())),
        },
        "node_type": "group",
    }


def _group_attributes(group: GroupLayout) -> dict[str, Any]:
    attributes = dict(group.attrs)
    if auxiliary := group.auxiliary_coordinates():
        # The CF attribute that makes xarray read these arrays as coordinates.
        attributes["coordinates"] = " ".join(auxiliary)
    return attributes
