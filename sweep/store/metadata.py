"""The metadata documents of a store: composed when it is created, checked when it is opened.

The documents are plain zarr v3 with the metadata consolidated at the root and in every group, so
that the whole tree and each group alone open silently. They are composed here because a store that
is resumed under another zarr must come out the same to the bit, and because consolidating through
zarr warns. The tests compare them with what zarr itself writes.

A store is data from a stranger. Every document is compared with the one that this package would
write for the same shape, type and chunks, so that unknown codecs, missing keys and odd fill values
need no rules of their own.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sweep.store.codec import (
    COMPRESSION_LEVEL,
    LARGEST_CHUNK,
    SEPARATOR,
    Chunking,
    codec_metadata,
    fill_value,
)
from sweep.store.layout import (
    CHUNK_INDEX,
    NUMBERS,
    STATIC_TYPES,
    GroupLayout,
    StoreLayout,
    Variable,
    is_array_name,
    is_name,
)

STORE_VERSION = 1
"""Version of the store's own conventions (root attribute ``sweep_store_version``)."""

CHECKSUMS = "checksums"
"""The root attribute that holds a checksum of every other one, and of the consolidated metadata."""

ROOT_DOCUMENT = "zarr.json"

LARGEST_ARRAY = 2**46
"""Most elements of an array: more than any disk has room for."""

Document = dict[str, Any]

_PLAIN = frozenset((str, int, float, bool, type(None)))
_plain = json.JSONEncoder(allow_nan=False).encode


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
    objects[f"{CHUNK_INDEX}/{ROOT_DOCUMENT}"] = document(index)
    for group in layout.groups:
        arrays = {array.name: array_document(array) for array in group.arrays()}
        attributes = _group_attributes(group)
        everything[group.name] = group_document(attributes, {})
        everything.update({f"{group.name}/{name}": doc for name, doc in arrays.items()})
        objects[f"{group.name}/{ROOT_DOCUMENT}"] = document(group_document(attributes, arrays))
        for array in group.arrays():
            objects |= array_objects(array, array.values, prefix=f"{group.name}/")
    attributes = {
        **layout.attrs,
        "sweep_store_version": STORE_VERSION,
        "record": layout.record,
        "layout_sha256": layout.fingerprint(),
        "run": run,
    }
    objects[ROOT_DOCUMENT] = document(root_document(attributes, everything))
    return objects


def array_objects(
    array: Variable, values: npt.ArrayLike | None, prefix: str = ""
) -> dict[str, bytes]:
    """Return the document of an array, and its chunks if it has values already, by key."""
    place = f"{prefix}{array.name}"
    objects = {f"{place}/{ROOT_DOCUMENT}": document(array_document(array))}
    if values is not None:
        for name, parts in array.chunking.encode_all(np.asarray(values)):
            objects[f"{place}/{name}"] = b"".join(parts)
    return objects


def finished_flags(layout: StoreLayout) -> dict[str, bytes]:
    """Return the flags of a store whose chunks are all finished, by key."""
    index = chunk_index_array(layout)
    flags = array_objects(index, np.ones(index.shape, np.uint8))
    return {key: data for key, data in flags.items() if not key.endswith(ROOT_DOCUMENT)}


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
    return array_document_of(array.name, array.chunking, array.dims, array.attrs)


def array_document_of(
    name: str,
    chunking: Chunking,
    dims: Sequence[str],
    attrs: Mapping[str, Any],
    level: int = COMPRESSION_LEVEL,
) -> Document:
    """Return the metadata document of an array with these dimensions and attributes."""
    # An index of chunks that was never written means "missing", not "unknown".
    fill = 0 if name == CHUNK_INDEX else fill_value(chunking.dtype)
    if isinstance(fill, float) and math.isnan(fill):
        fill = "NaN"
    grid = {"name": "regular", "configuration": {"chunk_shape": list(chunking.chunks)}}
    return {
        "shape": list(chunking.shape),
        "data_type": chunking.dtype,
        "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": SEPARATOR}},
        "fill_value": fill,
        "codecs": codec_metadata(chunking.dtype, level),
        "attributes": dict(attrs),
        "dimension_names": list(dims),
        "zarr_format": 3,
        "node_type": "array",
        "storage_transformers": [],
    }


def group_document(attributes: Mapping[str, Any], members: Mapping[str, Document]) -> Document:
    """Return the metadata document of a group with its members' consolidated."""
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


def root_document(attributes: Mapping[str, Any], members: Mapping[str, Document]) -> Document:
    """Return the root's document, with checksums of its parts."""
    root = group_document(attributes, members)
    root["attributes"][CHECKSUMS] = checksums(root)
    return root


def checksums(root: Document) -> dict[str, str]:
    """Return the SHA-256 of each attribute of the root and of the consolidated metadata."""
    parts = {k: v for k, v in root["attributes"].items() if k != CHECKSUMS}
    parts["consolidated_metadata"] = root["consolidated_metadata"]["metadata"]
    return {name: _digest(value) for name, value in parts.items()}


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _group_attributes(group: GroupLayout) -> dict[str, Any]:
    attributes = dict(group.attrs)
    if auxiliary := group.auxiliary_coordinates():
        # The CF attribute that makes xarray read these arrays as coordinates.
        attributes["coordinates"] = " ".join(auxiliary)
    return attributes


def damaged_parts(root: Document) -> list[str]:
    """Return the parts of a root document that do not fit their checksums.

    Stores of earlier versions have no checksums; of them it returns nothing.
    """
    expected = root["attributes"].get(CHECKSUMS)
    if expected is None:
        return []
    _require(isinstance(expected, dict), "its checksums are no table")
    actual = checksums(root)
    return [k for k in {**expected, **actual} if actual.get(k) != expected.get(k)]


def check_root(root: Any) -> None:
    """Make sure that a document is the root of a store.

    Raises
    ------
    ValueError
        It is not; the message says what is wrong.
    """
    try:
        if parts := damaged_parts(root):
            raise ValueError(f"its {parts[0].replace('_', ' ')} does not fit its checksum")
        members: dict[str, Document] = root["consolidated_metadata"]["metadata"]
        _require(root == group_document(root["attributes"], members), "its keys are not a group's")
        _check_attributes(root["attributes"])
        groups = _checked_groups(members)
        sizes: dict[tuple[str, str], int] = {}
        for name, member in members.items():
            _check_member(name, member, groups, sizes)
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from error
    except (AttributeError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"an entry has the wrong type ({error})") from error


def _check_attributes(attributes: Mapping[str, Any]) -> None:
    record, run = attributes["record"], attributes["run"]
    _require(isinstance(record, dict) and "identity" in record, "its record has no identity")
    _require(_is_text(attributes["layout_sha256"]), "its layout_sha256 is no text")
    _require(isinstance(run, dict), "its run is no table")
    finished, history = run["finished"], run.get("history", [])
    _require(finished is None or _is_text(finished), "its run.finished is no time")
    _require(isinstance(history, list), "its run.history is no list")
    _require(all(map(_is_text, record.get("measured", []))), "its record.measured is no list")
    if "plan" in record:
        texts = (record["plan"]["name"], record["plan"]["variant"])
        texts += (record["identity"]["sweep_version"], *record["versions"].values())
        _require(all(map(_is_text, texts)), "its record has names or versions that are no texts")
    for kind in ("devices", "kernels"):
        for key, spec in record.get(kind, {}).items():
            _require(is_name(key), f"record.{kind} has an impossible name")
            digest = hashlib.sha256(spec["text"].encode()).hexdigest()
            known = record["identity"][kind][key] if "plan" in record else digest
            fits = digest == spec["sha256"] == known
            _require(fits, f"the text of record.{kind}.{key} does not fit its hash")


def _checked_groups(members: Mapping[str, Document]) -> Mapping[str, Any]:
    """Return the first unit of work and the number of units of each group."""
    index = members[CHUNK_INDEX]
    groups: dict[str, Any] = index["attributes"]["groups"]
    at = 0
    for name, (first, count) in groups.items():
        _require(is_name(name), "a group has an impossible name")
        _require(name in members, f"it lacks the group '{name}'")
        _require(first == at and _is_size(count), f"chunk_index: wrong numbers of '{name}'")
        at += count
    _require(index["shape"] == [at], "chunk_index: wrong shape")
    return groups


def _check_member(
    name: str, member: Document, groups: Mapping[str, Any], sizes: dict[tuple[str, str], int]
) -> None:
    """Check one document; note the lengths of its group's dimensions."""
    group, _, variable = name.partition("/")
    _require(is_array_name(variable or group), f"'{name[:80]}' is no name of an array")
    if group in groups and not variable:
        expected = group_document(member["attributes"], {})
        _require(member == expected, f"{name}: its keys are not a group's")
        auxiliary = member["attributes"].get("coordinates", "")
        _require(_is_text(auxiliary), f"{name}: its coordinates are no text")
        return
    _require(group in groups or not variable, f"{name}: it belongs to no group")
    found = Chunking.of(member)
    _require(found.dtype in NUMBERS + STATIC_TYPES, f"{name}: its type is unknown")
    dims = member["dimension_names"]
    fits = len(dims) == len(found.shape) == len(found.chunks) and len(dims) <= 64
    _require(fits, f"{name}: dimensions, shape and chunks differ in length")
    fits = all(map(_is_size, found.shape + found.chunks)) and 0 not in found.chunks
    _require(fits, f"{name}: its shape or chunks are no sizes")
    itemsize = 4 if found.dtype == "string" else found.numpy_type.itemsize
    _require(math.prod(found.chunks) * itemsize <= LARGEST_CHUNK, f"{name}: its chunks are too big")
    _require(math.prod(found.shape) <= LARGEST_ARRAY, f"{name}: its shape is too big")
    codecs = member["codecs"]
    level = codecs[1]["configuration"]["clevel"] if len(codecs) == 3 else COMPRESSION_LEVEL
    _require(type(level) is int and 0 <= level <= 9, f"{name}: its codecs are unknown")
    _require(isinstance(member["attributes"], dict), f"{name}: its attributes are no table")
    expected = array_document_of(name, found, dims, member["attributes"], level)
    wrong = [key for key in {**expected, **member} if expected.get(key) != member.get(key)]
    _require(not wrong, f"{name}: its {(wrong or [''])[0]} is unknown or wrong")
    if dims == [variable]:  # a label is written whole, and read whole
        _require(found.counts in ((0,), (1,)), f"{name}: it is cut into several chunks")
    for dim, size in zip(dims, found.shape, strict=True):
        _require(is_name(dim), f"{name}: a dimension has an impossible name")
        if variable:
            fits = sizes.setdefault((group, dim), size) == size
            _require(fits, f"{name}: its dimension '{dim}' has another length elsewhere")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_size(number: object) -> bool:
    return type(number) is int and 0 <= number < 2**63


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)
