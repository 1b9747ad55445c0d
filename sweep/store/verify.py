"""Checking every file of a store, and repairing what is damaged from what the store itself has."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from sweep.errors import StoreError
from sweep.store.buckets import REQUESTS, BucketFiles, Files, files_of
from sweep.store.codec import chunk_key
from sweep.store.creation import static_objects
from sweep.store.index import INDEX_ARRAYS, index_arrays
from sweep.store.journal import Unit, journal_entries, journal_key, rewrite_journal
from sweep.store.layout import (
    CHUNK_INDEX,
    LOCK_KEY,
    ROOT_DOCUMENT,
    Document,
    StoreLayout,
    encoded,
    group_document,
    parsed,
)
from sweep.store.local_files import explained
from sweep.store.lock import holding
from sweep.store.root import (
    DamagedRootError,
    StoreInfo,
    check_root,
    damaged_parts,
    inspect,
    root_document,
)
from sweep.store.writer import ChunkWriter

NOTE_KEY = f"{CHUNK_INDEX}/damaged.json"
"""What a check of the store found, for the next run to repair."""

BATCH = 64
"""Files that a thread checks in turn."""

MISSING = "it is missing"

Check = tuple[str, Callable[[bytes], object]]
"""A file's key, and a function that raises ``ValueError`` if its bytes are not what was written."""


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

    Findings are noted in the store, if it can be written, so that the next run repairs them; a
    note that no longer applies is removed.

    Parameters
    ----------
    path : path
        The store.
    layout : StoreLayout, optional
        Which unit of work writes what. Without it all files that are missing from an unfinished
        store count as not computed yet.

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
    finished, found = _checked_journal(info)
    if found and not info.is_finished:
        raise StoreError(
            f"'{path}': {found[0].key}: {found[0].problem}; run again with --overwrite"
        )
    checks = _checks(info)
    batches = iter(lambda: list(islice(checks, BATCH)), [])
    threads = REQUESTS if isinstance(info.files, BucketFiles) else os.cpu_count() or 1
    with ThreadPoolExecutor(threads, thread_name_prefix="sweep-verify") as pool:
        for damages in pool.map(partial(_damages, info.files), batches):
            found += damages
    if not info.is_finished:
        pending = {damage.key for damage in found if damage.problem == MISSING}
        if layout is not None:
            units = _units_of(layout, pending)
            pending = {key for key, unit in units.items() if unit not in finished}
        found = [damage for damage in found if damage.key not in pending]
    _note(info, found)
    return found


def _checked_journal(info: StoreInfo) -> tuple[set[Unit], list[Damage]]:
    """Return the finished chunks, and what is wrong with the journal."""
    key, count = journal_key(info), sum(info.counts.values())
    try:
        finished = {e[:2] for e in journal_entries(info)}
    except StoreError as error:
        return set(), [Damage(key, str(error).rpartition(": ")[2].split(";")[0])]
    missing = count - len(finished)
    if not info.is_finished or not missing:
        return finished, []
    return finished, [Damage(key, f"it lacks {missing} of {count} chunks")]


def _checks(info: StoreInfo) -> Iterator[Check]:
    """Yield a check for every file that a finished store has."""
    for name, member in info.members.items():
        if name not in info.arrays:
            start = f"{name}/"
            of_group = {k[len(start) :]: m for k, m in info.members.items() if k.startswith(start)}
            member = group_document(member["attributes"], of_group)
        yield f"{name}/{ROOT_DOCUMENT}", partial(_check_document, member)
        if name in info.arrays and (name != CHUNK_INDEX or info.is_finished):
            chunking = info.arrays[name].chunking
            for index in chunking.indices():
                yield f"{name}/{chunk_key(index)}", chunking.check


def _check_document(expected: Document, data: bytes) -> None:
    """Check a document, which repeats what the root says of a group or an array."""
    found = parsed(data)
    if found != expected:
        is_json = found is not None
        raise ValueError("it says something else than the root" if is_json else "it is not JSON")


def _damages(files: Files, checks: Sequence[Check]) -> list[Damage]:
    """Return what is wrong with some files."""
    problems = ((key, _problem(files, key, check)) for key, check in checks)
    return [Damage(key, problem) for key, problem in problems if problem]


def _problem(files: Files, key: str, check: Callable[[bytes], object]) -> str:
    """Return what is wrong with a file; empty if nothing is."""
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


def _units_of(layout: StoreLayout, keys: Container[str]) -> dict[str, Unit]:
    """Return the units of work that write the chunks among some files."""
    return {
        key: (group.name, group.units.unit_of(variable.dims, index))
        for group in layout.groups
        for variable in group.variables
        if group.units is not None and variable.values is None
        for index in variable.chunking.indices()
        if (key := f"{group.name}/{variable.name}/{chunk_key(index)}") in keys
    }


def noted(path: str | os.PathLike[str]) -> list[Damage]:
    """Return what the last check of a store found; nothing without one."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        found = parsed(files_of(path).get(NOTE_KEY)) or {}
        return [Damage(str(key), str(problem)) for key, problem in found["damaged"].items()]
    return []


def _note(info: StoreInfo, found: Sequence[Damage]) -> None:
    with contextlib.suppress(OSError, StoreError):  # it may well be for reading only
        if info.files.exists(LOCK_KEY):
            return  # whoever writes the store changes it meanwhile
        if found:
            note = {"damaged": {damage.key: damage.problem for damage in found}}
            info.files.put(NOTE_KEY, json.dumps(note, indent=2).encode())
        elif info.files.exists(NOTE_KEY):
            info.files.remove([NOTE_KEY])


# ------------------------------------------------------------------------------ repair


def repair_root(path: str | os.PathLike[str]) -> None:
    """Compose a damaged root document again from the documents of the arrays and groups.

    Parameters
    ----------
    path : path
        A store whose root :func:`verify` found damaged.

    Raises
    ------
    StoreError
        The damage is in the root's own attributes, which stand nowhere else; or a run writes the
        store, or it cannot be written.
    """
    files = files_of(path)
    with explained(f"repair '{path}'"):
        text = files.get(ROOT_DOCUMENT).decode(errors="replace")
        members = dict(_own_documents(files))
    try:
        start = text.index("{", text.index('"attributes"'))
        attributes, _ = json.JSONDecoder().raw_decode(text, start)
        wrong = damaged_parts(group_document(attributes, members))
        check_root(root_document(attributes, members))
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        problem = f" ({error})" if type(error) is ValueError else ""
        raise _beyond_repair(path, f"its record{problem}") from None
    if wrong == ["consolidated_metadata"] and _consolidated(text) == members:
        wrong = []  # two copies agree: it is the checksum that is damaged
    if wrong:
        raise _beyond_repair(path, f"its {wrong[0].replace('_', ' ')}")
    with holding(files.root, path):
        files.put(ROOT_DOCUMENT, encoded(root_document(attributes, members)))


def _own_documents(files: Files) -> Iterator[tuple[str, Document]]:
    """Yield the document of each group and array, as the root repeats it."""
    for key in files.keys():
        name, _, last = key.rpartition("/")
        if last == ROOT_DOCUMENT and name and (found := parsed(files.get(key))) is not None:
            is_group = found.get("node_type") == "group"
            yield name, group_document(found["attributes"], {}) if is_group else found


def _consolidated(text: str) -> Any:
    try:
        return json.loads(text)["consolidated_metadata"]["metadata"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _beyond_repair(path: str | os.PathLike[str], what: str) -> StoreError:
    return StoreError(
        f"'{path}': zarr.json: {what} cannot be repaired: it stands nowhere else in the store; "
        "restore zarr.json from a copy, or run the plan into a new store"
    )


def repair_files(
    path: str | os.PathLike[str],
    layout: StoreLayout,
    keys: Iterable[str],
    compute: Callable[[ChunkWriter, Sequence[Unit]], Mapping[Unit, Mapping[str, Any]]],
    *,
    break_lock: bool = False,
) -> Sequence[Unit]:
    """Write the damaged files of a store again.

    Parameters
    ----------
    path : path
        The store.
    layout : StoreLayout
        What the store contains according to its own record.
    keys : iterable of str
        The damaged files.
    compute : callable
        Computes units of work again: writes their chunks with the writer, which ignores all but the
        damaged ones, and returns the summary of each.
    break_lock : bool
        As in :func:`~sweep.store.writer.open_or_create`.

    Returns
    -------
    sequence of (group, number of the chunk)
        The units of work that were computed: those that write the damaged chunks, or all if the
        journal is damaged, because every chunk then has to be summarised again.

    Raises
    ------
    StoreError
        If a run writes the store, if this version of the package would write it otherwise, or if
        files cannot be written or the store's lock is lost.
    """
    info, damaged = inspect(path), frozenset(keys)
    if info.layout_sha256 != layout.fingerprint:
        version = info.record["identity"].get("sweep_version", "another version")
        raise StoreError(
            f"'{path}' was computed by sweep {version}, whose results this version does not "
            "reproduce to the bit: repair it with that version, or use `sweep rerun`"
        )
    files = info.files
    with holding(info.path, path, break_lock) as lock:
        objects = {**static_objects(layout, info.run), **layout.chunk_index(True).files_in()}
        for key in sorted(damaged & objects.keys(), key=lambda key: key.count("/")):
            files.put(key, objects[key])  # a directory before what is in it
        units, is_lost = layout.units(), journal_key(info) in damaged
        if not is_lost:
            units = sorted(set(_units_of(layout, damaged).values()))
        summaries = compute(ChunkWriter.of(info, damaged), units)
        lock.check()
        if is_lost:
            rewrite_journal(info, ((*unit, summaries[unit]) for unit in units))
        if any(key.partition("/")[0] in INDEX_ARRAYS for key in damaged):
            for array in index_arrays(layout, journal_entries(info)):
                for key, content in array.files_in().items():
                    if key in damaged:
                        files.put(key, content)
        files.remove([NOTE_KEY])
    return units
