"""Looking at every file of a store: whether it is there, and what was written."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sweep.errors import StoreError
from sweep.store.address import Files, files_of
from sweep.store.buckets import BucketFiles
from sweep.store.codec import chunk_key
from sweep.store.journal import journal_key, read_journal
from sweep.store.layout import CHUNK_INDEX, LOCK_KEY, StoreLayout
from sweep.store.metadata import ROOT_DOCUMENT, Document, group_document
from sweep.store.reader import StoredArray, is_label, stored_arrays
from sweep.store.root import DamagedRootError, StoreInfo, inspect

Unit = tuple[str, int]

NOTE_KEY = f"{CHUNK_INDEX}/damaged.json"
"""What a look at the store found, for the next run to repair."""

BATCH = 64
"""Chunks of an array that a thread looks at in turn."""
REQUESTS = 32
"""Objects of a bucket that are read at a time: waiting for them takes no processor."""

MISSING = "it is missing"


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

    What is found is noted in the store, if it can be written, so that the next run repairs it; a
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
        In the order of the store's metadata; empty for a sound store. The root alone where that is
        damaged: then there is nothing to compare the others with.

    Raises
    ------
    StoreError
        There is no store, or a bucket does not answer.
    """
    try:
        info = inspect(path)
    except DamagedRootError as error:
        return [Damage(ROOT_DOCUMENT, error.problem)]
    files = info.files
    found = list(_journal(info))
    if found and not info.is_finished:
        raise StoreError(
            f"'{path}': {found[0].key}: {found[0].problem}; run again with --overwrite"
        )
    arrays = stored_arrays(info)
    unwritten = set() if info.is_finished else _unwritten(info, layout, arrays)
    threads = REQUESTS if isinstance(files, BucketFiles) else os.cpu_count() or 1
    with ThreadPoolExecutor(threads, thread_name_prefix="sweep-verify") as pool:
        looks = [pool.submit(*look) for look in _looks(info, arrays, unwritten)]
        try:
            for finding in looks:
                found += finding.result()
        finally:
            pool.shutdown(cancel_futures=True)
    _note(info, found)
    return found


def noted(path: str | os.PathLike[str]) -> list[Damage]:
    """Return what the last look at a store found; nothing without one."""
    try:
        found = json.loads(files_of(path).get(NOTE_KEY))
        return [Damage(str(key), str(problem)) for key, problem in found["damaged"].items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []


def _note(info: StoreInfo, found: list[Damage]) -> None:
    with contextlib.suppress(OSError, StoreError):  # it may well be for reading only
        if info.files.exists(LOCK_KEY):
            return  # whoever writes the store changes it meanwhile
        if found:
            note = {"damaged": {damage.key: damage.problem for damage in found}}
            info.files.put(NOTE_KEY, json.dumps(note, indent=2).encode())
        elif info.files.exists(NOTE_KEY):
            info.files.remove([NOTE_KEY])


def _finished(info: StoreInfo) -> set[Unit]:
    return set(read_journal(info.files, info.binding, info.counts, summaries=False)[0])


def _journal(info: StoreInfo) -> Iterator[Damage]:
    key, count = journal_key(info.files, info.binding), sum(info.counts.values())
    try:
        missing = count - len(_finished(info))
    except StoreError as error:
        yield Damage(key, str(error).rpartition(": ")[2].split(";")[0])
        return
    if info.is_finished and missing:
        yield Damage(key, f"it lacks {missing} of {count} chunks")


def _looks(
    info: StoreInfo, arrays: Mapping[str, StoredArray], unwritten: Collection[str]
) -> Iterator[tuple[Any, ...]]:
    """Yield what is to be looked at: a function with its arguments, which returns damages."""
    for name, member in info.members.items():
        if name == CHUNK_INDEX and not info.is_finished:
            yield _document, info.files, name, member
            continue  # the flags of chunks come when a run completes
        if name not in arrays:
            start = f"{name}/"
            of_group = {k[len(start) :]: m for k, m in info.members.items() if k.startswith(start)}
            member = group_document(member["attributes"], of_group)
        yield _document, info.files, name, member
        chunks = arrays[name].chunking.indices() if name in arrays else iter(())
        while batch := [f"{name}/{chunk_key(index)}" for index in islice(chunks, BATCH)]:
            yield _look, info.files, arrays[name], batch, unwritten


def _look(
    files: Files, array: StoredArray, keys: Sequence[str], unwritten: Collection[str]
) -> list[Damage]:
    """Look at some chunks of an array."""
    problems = {key: _problem(files, key, array.chunking.check) for key in keys}
    return [
        Damage(key, problem)
        for key, problem in problems.items()
        if problem and not (problem == MISSING and key in unwritten)
    ]


def _document(files: Files, name: str, expected: Document) -> list[Damage]:
    """Look at a document, which repeats what the root says of a group or an array."""

    def check(data: bytes) -> None:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        if found != expected:
            raise ValueError("it says something else than the root")

    key = f"{name}/{ROOT_DOCUMENT}"
    problem = _problem(files, key, check)
    return [Damage(key, problem)] if problem else []


def _problem(files: Files, key: str, check: Callable[[bytes], None]) -> str:
    """Return what is wrong with a file, nothing where ``check`` accepts its bytes."""
    try:
        check(files.get(key))
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        reason = error.strerror or error
        if isinstance(files, BucketFiles):  # no answer says nothing about the object
            raise StoreError(f"cannot read '{files.root / key}': {reason}") from error
        return f"it cannot be read: {reason}"
    except ValueError as error:
        return str(error)
    return ""


def _unwritten(
    info: StoreInfo, layout: StoreLayout | None, arrays: Mapping[str, StoredArray]
) -> set[str]:
    """Return the chunks that an unfinished run need not have written yet."""
    done = _finished(info)
    found: set[str] = set()
    groups = {group.name: group for group in layout.groups} if layout is not None else {}
    for name, array in arrays.items():
        group, _, variable = name.partition("/")
        if not variable or is_label(info, name):
            continue
        known = groups.get(group)
        if known is not None and known.units is not None:
            computed = any(v.name == variable and v.values is None for v in known.variables)
            for index in array.chunking.indices() if computed else ():
                if (group, known.units.unit_of(array.dims, index)) not in done:
                    found.add(f"{name}/{chunk_key(index)}")
        else:
            found.update(f"{name}/{chunk_key(index)}" for index in array.chunking.indices())
    return found
