"""Where stores are: paths and URLs, and the files or objects there."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from typing import TypeVar, cast

from sweep.errors import StoreError, nearest
from sweep.store.buckets import SCHEMES, BucketFiles, ObjectPath
from sweep.store.local_files import LocalFiles

AnyPath = TypeVar("AnyPath", Path, ObjectPath)
Files = LocalFiles | BucketFiles
"""The files or objects of a store; both have the same methods."""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a store's place is a URL and not a path."""
    return isinstance(path, ObjectPath) or "://" in os.fspath(path)


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return a store's place: a path with links resolved, or an :class:`ObjectPath`.

    Raises
    ------
    StoreError
        It is a URL of a kind that is not known, or without a bucket or name.
    """
    if isinstance(path, ObjectPath):
        return cast(Path, path)
    if not is_url(path):
        return Path(os.path.realpath(path))
    url = os.fspath(path).rstrip("/")
    scheme, _, rest = url.partition("://")
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise StoreError(f"'{path}': stores are paths or {known}{nearest(scheme, SCHEMES)}")
    bucket, _, key = rest.partition("/")
    if not bucket or not key or not {"", ".", ".."}.isdisjoint(rest.split("/")):
        raise StoreError(f"'{path}': write {scheme}://BUCKET/NAME")
    return cast(Path, ObjectPath(url))


def files_of(path: str | os.PathLike[str], durable: bool = False) -> Files:
    """Return the files of the store at a path, or the objects of the one at a URL."""
    root = place_of(path)
    return BucketFiles(root, durable) if isinstance(root, ObjectPath) else LocalFiles(root, durable)


def extension_path(root: AnyPath) -> AnyPath:
    """Return where the store is built that is to take the place of the one at ``root``.

    Always the same, so that an interrupted extension is found again; no name that is tidied up.
    """
    return root.with_name(f".{root.name}.sweep-extended")


def is_store(name: str | os.PathLike[str]) -> bool:
    """Whether a name means a store, there or not, and not a plan."""
    text = os.fspath(name)
    return is_url(name) or os.path.isdir(text) or text.rstrip("/").endswith(".zarr")


def free_bytes(path: str | os.PathLike[str]) -> float:
    """Return how many bytes a user may still write where a store is or will be; in a bucket, any.

    Parameters
    ----------
    path : path
        The store's place.
    """
    if is_url(path):
        return math.inf
    place = Path(os.path.realpath(path))
    while not place.exists():
        place = place.parent
    return shutil.disk_usage(place).free


def stored_bytes(path: str | os.PathLike[str]) -> int:
    """Return the size of all files or objects of a store [B]."""
    return files_of(path).total_bytes()
