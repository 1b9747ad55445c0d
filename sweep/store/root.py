"""Opening a store by its root record, and refusing what is not one.

Whatever reads a store starts here: the root record appears whole or not at all, has checksums, and
is checked once. A store is data from a stranger, so every document is compared with the one that
this package would write for the same shape, type and chunks: unknown codecs, missing keys and odd
fill values need no rules of their own. Nothing here needs a codec or the models.

A store may be overwritten or extended while somebody has it open. Its chunks have the same names
afterwards, so a reader would mix the numbers of both, and a worker that outlived its run would
write chunks of the old plan into the new store. :func:`check_same` refuses both.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from sweep.errors import StoreError
from sweep.store.buckets import BucketFiles, Files, extension_path, files_of, is_url, place_of
from sweep.store.layout import (
    CHUNK_INDEX,
    ROOT_DOCUMENT,
    Document,
    Variable,
    array_of,
    check_sizes,
    group_document,
    is_name,
    require,
)
from sweep.store.local_files import explained

STORE_VERSION = 1
"""Version of the store's own conventions (root attribute ``sweep_store_version``)."""

CHECKSUMS = "checksums"
"""The root attribute with a checksum of every other one, and of the consolidated metadata."""

LOOK_S = 1.0
"""How long a look at a store in a bucket is valid: each is a request of its own [s]."""

_seen: dict[tuple[str, str], tuple[object, float]] = {}
"""By place and binding, how the store was marked when it was last looked at, and when."""


class DamagedRootError(StoreError):
    """The root document of a store is damaged: ``problem`` says how."""

    def __init__(self, path: str | os.PathLike[str], problem: str) -> None:
        super().__init__(
            f"'{path}' is a store whose zarr.json is damaged: {problem}; "
            "`sweep verify --repair` mends what can be mended"
        )
        self.problem = problem


@dataclass(frozen=True)
class StoreInfo:
    """The root of a store.

    Parameters
    ----------
    path : Path
        The store's directory, symbolic links resolved; or its :class:`ObjectPath`.
    document : dict
        The whole root document.
    arrays : mapping
        Every array by its key, checked.
    labels : set of str
        Keys of the arrays that label their group's dimensions and are no results.
    """

    path: Path
    document: Document = field(repr=False)
    arrays: Mapping[str, Variable] = field(repr=False, compare=False)
    labels: Set[str] = field(repr=False, compare=False)

    @cached_property
    def files(self) -> Files:
        """Its files, or its objects."""
        return files_of(self.path)

    @property
    def record(self) -> dict[str, Any]:
        """Plan, specs, versions and ``identity``, as given when the store was created."""
        return dict(self.document["attributes"]["record"])

    @property
    def run(self) -> dict[str, Any]:
        """``created`` and ``finished`` (``None`` if unfinished) in UTC, and what the run added.

        The only part that differs between two stores of the same results.
        """
        return dict(self.document["attributes"]["run"])

    @property
    def layout_sha256(self) -> str:
        """Hash of arrays, chunks, labels and attributes."""
        return str(self.document["attributes"]["layout_sha256"])

    @property
    def members(self) -> Mapping[str, Document]:
        """The metadata documents of its groups and arrays by name."""
        return self.document["consolidated_metadata"]["metadata"]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of chunks (units of work) by group."""
        groups = self.members[CHUNK_INDEX]["attributes"]["groups"]
        return {name: count for name, (_, count) in groups.items()}

    @property
    def is_finished(self) -> bool:
        """Whether every chunk is written and the run completed."""
        return self.run["finished"] is not None

    @cached_property
    def binding(self) -> str:
        """The hash that binds the journal to this store."""
        text = json.dumps([self.record["identity"], self.layout_sha256], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def read(self, key: str) -> bytes:
        """Return the bytes of a file or object; may raise ``OSError``.

        Raises
        ------
        StoreError
            Another store is in its place.
        """
        try:
            return self.files.get(key)
        finally:
            check_same(self.files, self.binding)  # after it, or the other could come in between


def inspect(path: str | os.PathLike[str]) -> StoreInfo:
    """Read and check the root of a store.

    Raises
    ------
    StoreError
        If there is nothing, a file, a foreign directory or a foreign zarr group at ``path``, or a
        store of a version that this package does not read, or one whose root is damaged.
    """
    root = place_of(path)
    mark = None if is_url(root) else files_of(root).mark(ROOT_DOCUMENT)
    text = _root_text(path, root)
    foreign, document = f"'{path}' is no store of sweep: its zarr.json is not JSON", None
    problem = "it is not JSON"
    try:
        document = json.loads(text, parse_constant=_refuse)
        foreign = f"'{path}' is a zarr hierarchy, but no store of sweep: no root record"
        problem = "it has no root record"
        version = document["attributes"]["sweep_store_version"]
    except (ValueError, RecursionError, KeyError, TypeError, IndexError):
        if files_of(root).exists(f"{CHUNK_INDEX}/{ROOT_DOCUMENT}"):
            raise DamagedRootError(path, problem) from None
        raise StoreError(foreign) from None
    if version != STORE_VERSION:
        advice = "read it with the sweep that wrote it, or write it again with `sweep run`"
        if isinstance(version, int) and version > STORE_VERSION:
            advice = "install a newer sweep"
        raise StoreError(
            f"'{path}' is a store of version {version!r:.80}: this sweep reads version "
            f"{STORE_VERSION}; {advice}"
        )
    try:
        info = StoreInfo(root, document, *check_root(document))
    except ValueError as error:
        raise DamagedRootError(path, str(error)) from None
    if mark is not None:
        _seen[str(root), info.binding] = (mark, time.monotonic())
    return info


def _root_text(path: str | os.PathLike[str], root: Path) -> bytes:
    with explained(f"open '{path}'"):
        try:
            return files_of(root).get(ROOT_DOCUMENT)
        except (FileNotFoundError, NotADirectoryError):
            pass
        if is_url(root):
            found = files_of(extension_path(root)).exists(ROOT_DOCUMENT)
            advice = "; the `sweep extend` that was interrupted there continues" if found else ""
            raise StoreError(f"no store at '{path}'{advice}")
        if not root.exists():
            raise StoreError(f"no store at '{path}'")
        if not root.is_dir():
            raise StoreError(f"'{path}' is a file, not a store")
        raise StoreError(f"'{path}' is a directory, but no store of sweep: no zarr.json")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def identity_differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Return the names of the parts in which two records' identities differ."""
    one, other = stored["identity"], wanted["identity"]
    if not (isinstance(one, dict) and isinstance(other, dict)):
        one, other = ({**record, "identity": None} for record in (stored, wanted))
    one, other = _leaves(one), _leaves(other)
    names = []
    for name in sorted({**one, **other}):
        pair = one.get(name), other.get(name)
        if pair[0] != pair[1]:
            is_short = all(isinstance(v, str | int | float) and len(str(v)) <= 24 for v in pair)
            names.append(f"{name} ({pair[0]!r} there, {pair[1]!r} here)" if is_short else name)
    return ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")


def _leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    """Return the parts of nested mappings by their dotted names."""
    if not isinstance(value, dict) or not value:
        return {prefix.rstrip("."): value}
    return {k: v for key in value for k, v in _leaves(value[key], f"{prefix}{key}.").items()}


def check_same(files: Files, binding: str) -> None:
    """Refuse another store in the place of the one that was opened.

    Parameters
    ----------
    files : LocalFiles or BucketFiles
        The store.
    binding : str
        The hash that binds the store's journal to it: stores that share it have the same results.

    Raises
    ------
    StoreError
        Another store is there.
    """
    place = (str(files.root), binding)
    known, looked = _seen.get(place, (None, 0.0))
    is_remote = isinstance(files, BucketFiles)
    if known is not None and is_remote and time.monotonic() < looked + LOOK_S:
        return
    mark = files.mark(ROOT_DOCUMENT)
    if mark is None:
        return  # nothing is there: reading or writing will fail
    if mark != known and inspect(files.root).binding != binding:
        raise StoreError(f"'{files.root}' was replaced by another store meanwhile; open it again")
    _seen[place] = (mark, time.monotonic())


# ------------------------------------------------------------------------ the root's document


def root_document(attributes: Mapping[str, Any], members: Mapping[str, Document]) -> Document:
    """Return the root's document, with checksums of its parts."""
    root = group_document(attributes, members)
    root["attributes"][CHECKSUMS] = _checksums(root)
    return root


def _checksums(root: Document) -> dict[str, str]:
    """Return the SHA-256 of each attribute of the root and of the consolidated metadata."""
    parts = {k: v for k, v in root["attributes"].items() if k != CHECKSUMS}
    parts["consolidated_metadata"] = root["consolidated_metadata"]["metadata"]
    options: dict[str, Any] = {"sort_keys": True, "allow_nan": False, "separators": (",", ":")}
    texts = {name: json.dumps(value, **options).encode() for name, value in parts.items()}
    return {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}


def damaged_parts(root: Document) -> list[str]:
    """Return the parts of a root document that do not fit their checksums.

    Stores of earlier versions have no checksums; for them it returns nothing.
    """
    expected = root["attributes"].get(CHECKSUMS)
    if expected is None:
        return []
    require(isinstance(expected, dict), "its checksums are no table")
    actual = _checksums(root)
    return [k for k in {**expected, **actual} if actual.get(k) != expected.get(k)]


def check_root(root: Any) -> tuple[dict[str, Variable], set[str]]:
    """Make sure that a document is the root of a store; return its arrays by key, and its labels.

    Raises
    ------
    ValueError
        It is not; the message says what is wrong.
    """
    try:
        if parts := damaged_parts(root):
            raise ValueError(f"its {parts[0].replace('_', ' ')} does not fit its checksum")
        members: dict[str, Document] = root["consolidated_metadata"]["metadata"]
        require(root == group_document(root["attributes"], members), "its keys are not a group's")
        _check_attributes(root["attributes"])
        return _checked_arrays(members, _checked_groups(members))
    except KeyError as error:
        raise ValueError(f"it lacks {error}") from error
    except (AttributeError, IndexError, TypeError, RecursionError, OverflowError) as error:
        raise ValueError(f"an entry has the wrong type ({error})") from error


def _check_attributes(attributes: Mapping[str, Any]) -> None:
    record, run = attributes["record"], attributes["run"]
    require(isinstance(record, dict) and "identity" in record, "its record has no identity")
    require(_is_text(attributes["layout_sha256"]), "its layout_sha256 is no text")
    require(isinstance(run, dict), "its run is no table")
    finished, history = run["finished"], run.get("history", [])
    require(finished is None or _is_text(finished), "its run.finished is no time")
    require(isinstance(history, list), "its run.history is no list")
    require(all(map(_is_text, record.get("measured", []))), "its record.measured is no list")
    if "plan" in record:
        texts = (record["plan"]["name"], record["plan"]["variant"])
        texts += (record["identity"]["sweep_version"], *record["versions"].values())
        require(all(map(_is_text, texts)), "its record has names or versions that are no texts")
    for kind in ("devices", "kernels"):
        for key, spec in record.get(kind, {}).items():
            require(is_name(key), f"record.{kind} has an impossible name")
            digest = hashlib.sha256(spec["text"].encode()).hexdigest()
            known = record["identity"][kind][key] if "plan" in record else digest
            fits = digest == spec["sha256"] == known
            require(fits, f"the text of record.{kind}.{key} does not fit its hash")


def _checked_groups(members: Mapping[str, Document]) -> dict[str, set[str]]:
    """Return the names of each group's auxiliary coordinates."""
    index = members[CHUNK_INDEX]
    at, found = 0, {}
    for name, (first, count) in index["attributes"]["groups"].items():
        require(is_name(name), "a group has an impossible name")
        require(name in members, f"it lacks the group '{name}'")
        attributes = members[name]["attributes"]
        is_group = members[name] == group_document(attributes, {})
        require(is_group, f"{name}: its keys are not a group's")
        found[name] = set(attributes.get("coordinates", "").split())
        is_number = type(count) is int and 0 <= count < 2**63
        require(first == at and is_number, f"chunk_index: wrong numbers of '{name}'")
        at += count
    require(index["shape"] == [at], "chunk_index: wrong shape")
    return found


def _checked_arrays(
    members: Mapping[str, Document], groups: Mapping[str, Set[str]]
) -> tuple[dict[str, Variable], set[str]]:
    """Return the arrays that a root's documents describe, and the keys of the labels."""
    found, labels = {}, set()
    for key in [key for key in members if key not in groups]:
        group, _, name = key.rpartition("/")
        require(not group or group in groups, f"{key[:80]}: it belongs to no group")
        found[key] = array = array_of(name, members[key])
        if array.dims == (name,):  # written whole, and read whole
            is_whole = array.chunking.counts in ((0,), (1,))
            require(is_whole, f"{key}: it is cut into several chunks")
        if group and (array.dims == (name,) or name in groups[group]):
            labels.add(key)
    for group in groups:
        check_sizes(group, [a for key, a in found.items() if key.startswith(f"{group}/")])
    return found, labels


def _is_text(value: object) -> bool:
    return isinstance(value, str)
