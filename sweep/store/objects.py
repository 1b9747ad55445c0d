"""Stores in buckets: ``s3://``, ``gs://``, ``az://`` and ``memory://``, through obstore.

An object store has no directories, no renaming and no appending; what it has is that an object
appears whole or not at all, and that a write may be made to depend on what is there. Credentials
come from where the provider's own tools look for them and are never kept: what travels to workers
and stands in a store is the address alone.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from sweep.errors import StoreError, nearest
from sweep.store.local import LocalFiles, disk_bytes, explained
from sweep.store.requests import ChangedError, as_os_errors, delete

__all__ = [
    "ChangedError",
    "ObjectFiles",
    "ObjectPath",
    "files_of",
    "free_bytes",
    "is_store",
    "is_url",
    "place_of",
    "read_all",
    "root_mark",
    "stored_bytes",
]

EXTRAS = {"s3": "s3", "gs": "gs", "az": "az", "memory": "s3"}
"""The schemes, and what to install for each."""

RETRIES = {"max_retries": 8, "retry_timeout": timedelta(seconds=120)}
"""How often a request is repeated that fails by the server's fault or is told to slow down."""
TIMEOUTS = {"connect_timeout": "10s", "timeout": "60s"}

Mark = Mapping[str, str]
"""What tells one content of an object from the next."""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether a store's place is a URL and not a path."""
    return isinstance(path, ObjectPath) or "://" in os.fspath(path)


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return a store's place: a path with links resolved, or an :class:`ObjectPath`.

    The latter answers to the few methods of paths with which stores are read.

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
    if scheme not in EXTRAS:
        known = ", ".join(f"{name}://" for name in EXTRAS)
        raise StoreError(f"'{path}': stores are paths or {known}{nearest(scheme, EXTRAS)}")
    bucket, _, key = rest.partition("/")
    if not bucket or not key:
        raise StoreError(f"'{path}': write {scheme}://BUCKET/NAME")
    return cast(Path, ObjectPath(url))


def files_of(root: Path, durable: bool = False) -> LocalFiles:
    """Return the files of a store at ``root``, a path or an :class:`ObjectPath`."""
    return (ObjectFiles if is_url(root) else LocalFiles)(root, durable)


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
    return math.inf if is_url(path) else disk_bytes(path)


def stored_bytes(path: str | os.PathLike[str]) -> int:
    """Return the size of all files or objects of a store [B]."""
    root = place_of(path)
    if is_url(root):
        return cast(ObjectPath, root).total_bytes()
    return sum(file.stat().st_size for file in root.rglob("*") if file.is_file())


def root_mark(root: Path) -> tuple[tuple[str, str], ...]:
    """Return what changes with the root record of a store in a bucket; nothing without one."""
    try:
        return tuple(sorted(cast(ObjectPath, root / "zarr.json").mark().items()))
    except OSError:
        return ()  # opening it tells what is wrong


@dataclass(frozen=True)
class ObjectPath(os.PathLike[str]):
    """The address of an object, or of all that begin with it. Picklable; holds no connection.

    Parameters
    ----------
    url : str
        ``SCHEME://BUCKET/KEY``.
    """

    url: str

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    def __fspath__(self) -> str:
        """Return the URL."""
        return self.url

    def __truediv__(self, key: str) -> ObjectPath:
        """Return the address of an object below this one."""
        return ObjectPath(f"{self.url}/{key}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def with_name(self, name: str) -> ObjectPath:
        """Return the address beside this one whose last part is ``name``."""
        return ObjectPath(f"{self.url.rpartition('/')[0]}/{name}")

    @property
    def key(self) -> str:
        """The key within the bucket."""
        return self.url.partition("://")[2].partition("/")[2]

    @property
    def client(self) -> Any:
        """The connection of this process to the bucket."""
        scheme, _, rest = self.url.partition("://")
        return _client(scheme, rest.partition("/")[0])

    def resolve(self) -> ObjectPath:
        """Return the address itself: there are no links."""
        return self

    def exists(self) -> bool:
        """Whether there is an object at this address.

        Raises
        ------
        StoreError
            The bucket does not answer, or refuses to.
        """
        try:
            self.mark()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(f"cannot open '{self}': {error.strerror}") from error
        return True

    def is_dir(self) -> bool:
        """Whether there are objects below this address."""
        return next(self.below(), None) is not None

    def below(self) -> Iterator[str]:
        """Yield the keys below this address, without what they have in common with it."""
        for entry in self._entries():
            yield entry["path"][len(self.key) + 1 :]

    def total_bytes(self) -> int:
        """Return the size of all objects below this address [B]."""
        return sum(entry["size"] for entry in self._entries())

    def _entries(self) -> Iterator[Any]:
        import obstore

        with as_os_errors():
            for batch in obstore.list(self.client, f"{self.key}/"):
                yield from batch

    def read(self) -> tuple[bytes, Mark]:
        """Return an object and what tells this content from another; may raise ``OSError``."""
        import obstore

        with as_os_errors():
            found = obstore.get(self.client, self.key)
            return bytes(found.bytes()), _mark(found.meta)

    def read_bytes(self) -> bytes:
        """Return the object's content; may raise ``OSError``."""
        return self.read()[0]

    def open(self, mode: str = "rb") -> io.BytesIO:
        """Return the object's content as a file for reading."""
        return io.BytesIO(self.read_bytes())

    def mark(self) -> Mark:
        """Return what tells this content from another, without reading it."""
        import obstore

        with as_os_errors():
            return _mark(obstore.head(self.client, self.key))

    def write(self, *parts: bytes, over: Mark | None = None, new: bool = False) -> Mark:
        """Write an object, whole or not at all.

        Parameters
        ----------
        *parts : bytes
            Its content, to be joined.
        over : mapping, optional
            Only over the content with this mark.
        new : bool
            Only if there is none.

        Raises
        ------
        FileExistsError, ChangedError
            ``new`` or ``over`` does not hold.
        OSError
            It cannot be written.
        """
        import obstore

        mode: Any = "create" if new else dict(over) if over is not None else "overwrite"
        with as_os_errors():
            return _mark(
                obstore.put(self.client, self.key, b"".join(parts), mode=mode, use_multipart=False)
            )

    def copy_to(self, target: ObjectPath) -> None:
        """Copy the object to another address of its bucket, whole or not at all."""
        import obstore

        with as_os_errors():
            obstore.copy(self.client, self.key, target.key)

    def remove(self, keys: list[str]) -> None:
        """Remove objects below this address; none of them need be there."""
        with as_os_errors():
            for start in range(0, len(keys), 1000):
                delete(self.client, [f"{self.key}/{key}" for key in keys[start : start + 1000]])

    def unlink(self) -> None:
        """Remove the object."""
        with as_os_errors():
            delete(self.client, [self.key])


@dataclass(frozen=True)
class ObjectFiles(LocalFiles):
    """The objects of one store. Picklable, and safe to use from several threads and processes.

    An object that is written is on the provider's disks: ``durable`` changes nothing.
    """

    def put(self, key: str, *parts: bytes) -> None:
        """Write the joined ``parts`` as ``key``, whole or not at all.

        Raises
        ------
        StoreError
            If the object cannot be written; what was there before stays.
        """
        final = self.root / key
        with explained(f"write '{final}'", "; the same command continues from what is finished"):
            cast(ObjectPath, final).write(*parts)

    def make_place(self, key: str) -> None:
        """Do nothing: there are no directories."""

    def remove(self, keys: Collection[str]) -> None:
        """Remove objects, none of which need be there; see :meth:`LocalFiles.remove`."""
        with explained(f"change '{self.root}'"):
            cast(ObjectPath, self.root).remove(list(keys))

    def remove_partial(self) -> None:
        """Do nothing: objects are never half-written."""


def read_all(paths: list[ObjectPath]) -> list[bytes]:
    """Return the content of many small objects, several at a time."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ObjectPath.read_bytes, paths))


def _mark(meta: Mapping[str, Any]) -> Mark:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}


@lru_cache(maxsize=16)
def _client(scheme: str, bucket: str) -> Any:
    """Return the connection to a bucket, one for each process."""
    try:
        from obstore import store
    except ImportError:
        raise StoreError(
            f"'{scheme}://{bucket}': needs obstore: pip install 'sweep[{EXTRAS[scheme]}]'"
        ) from None
    if scheme == "memory":
        return store.MemoryStore()
    options: dict[str, Any] = {"client_options": dict(TIMEOUTS), "retry_config": RETRIES}
    try:
        if scheme == "gs":
            return store.GCSStore(bucket, **options)
        if scheme == "az":
            if os.environ.get("AZURE_STORAGE_ENDPOINT", "").startswith("http://"):
                options["client_options"]["allow_http"] = True
            return store.AzureStore(bucket, **options)
        return store.S3Store(bucket, **_s3_options(options))
    except Exception as error:  # what a provider's settings lack, in its own words
        raise StoreError(f"'{scheme}://{bucket}': {str(error).splitlines()[0]}") from None


def _s3_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with what the environment and AWS's own files say."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        options["endpoint"] = endpoint
        options["client_options"]["allow_http"] = endpoint.startswith("http://")
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return options
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        return options  # without boto3: machine roles and web identities, no profiles
    session = boto3.Session()
    if session.get_credentials() is not None:
        options["credential_provider"] = Boto3CredentialProvider(session)
    if session.region_name and "AWS_REGION" not in os.environ:
        options["region"] = session.region_name
    return options
