"""Looking at every file of a store: whether it is there, and what was written."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice, product
from typing import Any

from sweep.errors import StoreError
from sweep.store.codec import CHECKSUM, is_sound
from sweep.store.journal import read_journal
from sweep.store.layout import CHUNK_INDEX, StoreLayout
from sweep.store.local import LocalFiles
from sweep.store.metadata import ROOT_DOCUMENT, chunk_key
from sweep.store.objects import files_of, is_url
from sweep.store.reading import StoreInfo, inspect

__all__ = ["NOTE_KEY", "Damage", "journal_key", "noted", "verify"]

NOTE_KEY = f"{CHUNK_INDEX}/damaged.json"
"""What a look at the store found, for the next run to mend."""

BATCH = 64
"""Chunks of an array that a thread looks at in turn."""
REQUESTS = 32
"""Objects of a bucket that are read at a time: each takes its time to come, and no processor's."""


@dataclass(frozen=True)
class Damage:
    """A file of a store that is not what was written.

    Parameters
    ----------
    key : str
        Its place in the store.
    problem : str
        What is wrong with it, in words.
    """

    key: str
    problem: str


def verify(path: str | os.PathLike[str], layout: StoreLayout | None = None) -> list[Damage]:
    """Compare every file of a store with its checksum or with the root's metadata.

    What is found is noted in the store, if it can be written, so that the next run mends it; a
    note that no longer holds is removed.

    Parameters
    ----------
    path : path
        The store.
    layout : StoreLayout, optional
        Which unit of work writes what. Without it chunks that are missing from an unfinished store
        count as not computed yet.

    Returns
    -------
    list of Damage
        In the order of the store's metadata; empty for a sound store.

    Raises
    ------
    StoreError
        The root cannot be read: there is nothing to compare with. Or a bucket does not answer.
    """
    info = inspect(path)
    files = files_of(info.path)
    root = json.loads(files.get(ROOT_DOCUMENT))
    members: dict[str, Any] = root["consolidated_metadata"]["metadata"]
    found = list(_journal(info))
    if found and not info.is_finished:
        raise StoreError(
            f"'{path}': {found[0].key}: {found[0].problem}; run again with --overwrite"
        )
    unwritten = set() if info.is_finished else _unwritten(info, layout, members)
    threads = REQUESTS if is_url(info.path) else os.cpu_count() or 1
    with ThreadPoolExecutor(threads, thread_name_prefix="sweep-verify") as pool:
        looks = [pool.submit(*look) for look in _looks(files, info, members, unwritten)]
        try:
            for finding in looks:
                found += finding.result()
        finally:
            pool.shutdown(cancel_futures=True)
    _note(files, info, found)
    return found


def noted(path: str | os.PathLike[str]) -> list[Damage]:
    """Return what the last look at a store found; nothing without one."""
    try:
        found = json.loads(files_of(inspect(path).path).get(NOTE_KEY))
        return [Damage(str(key), str(problem)) for key, problem in found["damaged"].items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def journal_key(info: StoreInfo) -> str:
    """Return the key of a store's journal; in a bucket, the beginning of its objects' keys."""
    return str(info.journal_path)[len(str(info.path)) + 1 :]


def _note(files: LocalFiles, info: StoreInfo, found: list[Damage]) -> None:
    try:
        if info.lock_path.exists():
            return  # whoever writes the store changes it meanwhile
        if found:
            note = {"damaged": {damage.key: damage.problem for damage in found}}
            files.put(NOTE_KEY, json.dumps(note, indent=2).encode())
        elif (info.path / NOTE_KEY).exists():
            files.remove([NOTE_KEY])
    except (OSError, StoreError):
        pass  # a store that cannot be written can be looked at all the same


def _finished(info: StoreInfo) -> set[tuple[str, int]]:
    return set(read_journal(info.journal_path, info.binding, info.counts, summaries=False)[0])


def _journal(info: StoreInfo) -> Iterator[Damage]:
    try:
        done = _finished(info)
    except StoreError as error:
        yield Damage(journal_key(info), str(error).rpartition(": ")[2].split(";")[0])
        return
    if info.is_finished and len(done) < sum(info.counts.values()):
        missing = sum(info.counts.values()) - len(done)
        yield Damage(journal_key(info), f"it lacks {missing} of {sum(info.counts.values())} chunks")


def _existing(
    members: Mapping[str, Any], info: StoreInfo
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield arrays and groups by name; the flags of chunks come when a run completes."""
    for name, member in members.items():
        if name != CHUNK_INDEX or info.is_finished:
            yield name, member


def _looks(
    files: LocalFiles, info: StoreInfo, members: Mapping[str, Any], unwritten: Collection[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield what is to be looked at: a function with its arguments, which returns damages."""
    for name, member in _existing(members, info):
        yield _document, files, name, member
        if member["node_type"] == "array":
            chunks = chunks_of(member)
            while batch := list(islice(chunks, BATCH)):
                yield _look, files, name, member["data_type"], batch, unwritten


def _look(
    files: LocalFiles,
    name: str,
    dtype: str,
    chunks: Sequence[tuple[int, ...]],
    unwritten: Collection[str],
) -> list[Damage]:
    """Look at some chunks of an array."""
    found = []
    for index in chunks:
        key = f"{name}/{chunk_key(index)}"
        problem = _problem(files, key, dtype)
        if problem and not (problem == MISSING and key in unwritten):
            found.append(Damage(key, problem))
    return found


def chunks_of(member: Mapping[str, Any]) -> Iterator[tuple[int, ...]]:
    """Yield the position of every chunk of an array, given its metadata."""
    chunks = member["chunk_grid"]["configuration"]["chunk_shape"]
    counts = [-(-n // c) for n, c in zip(member["shape"], chunks, strict=True)]
    yield from product(*map(range, counts))


def _unwritten(info: StoreInfo, layout: StoreLayout | None, members: Mapping[str, Any]) -> set[str]:
    """Return the chunks that an unfinished run need not have written yet."""
    done = _finished(info)
    found: set[str] = set()
    groups = {group.name: group for group in layout.groups} if layout is not None else {}
    for name, member in members.items():
        group, _, variable = name.partition("/")
        if not variable:
            continue
        known = groups.get(group)
        if known is None or known.units is None:
            found.update(f"{name}/{chunk_key(index)}" for index in chunks_of(member))
            continue
        if any(v.name == variable and v.values is None for v in known.variables):
            for index in chunks_of(member):
                if (group, known.units.unit_of(member["dimension_names"], index)) not in done:
                    found.add(f"{name}/{chunk_key(index)}")
    return found


MISSING = "it is missing"


def _problem(files: LocalFiles, key: str, dtype: str) -> str:
    """Return what is wrong with a chunk, nothing if it is sound."""
    try:
        data = _read(files, key)
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    if is_sound(data):
        return ""
    if dtype != "string" and len(data) > 16 + CHECKSUM:
        # Blosc's header says how long the whole is.
        whole = int.from_bytes(data[12:16], "little") + CHECKSUM
        if len(data) < whole < 2**31:
            return f"it is truncated: {len(data):,} of {whole:,} bytes"
    return "its checksum does not fit" if len(data) > CHECKSUM else "it is truncated"


def _read(files: LocalFiles, key: str) -> bytes:
    """Return a file's bytes; a bucket that does not answer says nothing of an object."""
    try:
        return files.get(key)
    except FileNotFoundError:
        raise
    except OSError as error:
        if not is_url(files.root):
            raise
        raise StoreError(f"cannot read '{files.root / key}': {error.strerror or error}") from error


def _document(files: LocalFiles, name: str, member: Mapping[str, Any]) -> list[Damage]:
    key = f"{name}/{ROOT_DOCUMENT}"
    try:
        data = _read(files, key)
    except FileNotFoundError:
        return [Damage(key, MISSING)]
    except OSError as error:
        return [Damage(key, f"it cannot be read: {error.strerror or error}")]
    try:
        found = json.loads(data)
    except ValueError:
        return [Damage(key, "it is not JSON")]
    is_array = member["node_type"] == "array"
    same = found == member if is_array else (
        isinstance(found, dict) and found.get("attributes") == member["attributes"]
    )  # fmt: skip
    return [] if same else [Damage(key, "it says something else than the root")]
