"""Where stores are: directories, and buckets (``s3://``, ``gs://``, ``az://``, ``memory://``).

An object store has no directories, no renaming and no appending. But an object appears whole or not
at all, and a write can depend on the object that is there. Credentials are found as the provider's
own tools find them and are never kept: workers and stores get only the address.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from sweep.errors import StoreError, nearest
from sweep.store.local_files import CONTINUES, LocalFiles, explained

SCHEMES = {"s3": "s3", "gs": "gs", "az": "az", "memory": "s3"}
"""The schemes, and the extra of this package that each needs."""

RETRIES = {"max_retries": 8, "retry_timeout": timedelta(seconds=120)}
"""How often a request is repeated that fails by the server's fault or is asked to slow down."""
TIMEOUTS = {"connect_timeout": "10s", "timeout": "60s"}

REQUESTS = 32
"""Requests at a time where many objects are read or copied: waiting takes no processor."""

Mark = Mapping[str, str]
"""What distinguishes one content of an object from the next."""


@dataclass(frozen=True)
class ObjectPath(os.PathLike[str]):
    """The address of a store in a bucket. Picklable; has no connection.

    Parameters
    ----------
    url : str
        ``SCHEME://BUCKET/KEY``.
    """

    url: str

    def __str__(self) -> str:
        """Return the URL."""
        return self.url

    __fspath__ = __str__

    def __truediv__(self, key: str) -> ObjectPath:
        """Return the address of an object below this one."""
        return ObjectPath(f"{self.url}/{key}")

    @property
    def name(self) -> str:
        """The last part of the address."""
        return self.url.rpartition("/")[2]

    def with_name(self, name: str) -> ObjectPath:
        """Return the address with another last part."""
        return ObjectPath(f"{self.url.rpartition('/')[0]}/{name}")


AnyPath = TypeVar("AnyPath", Path, ObjectPath)


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a store's place is a URL and not a path."""
    return isinstance(path, ObjectPath) or "://" in os.fspath(path)


def place_of(path: str | os.PathLike[str]) -> Path:
    """Return a store's place: a path with links resolved, or an :class:`ObjectPath`.

    Raises
    ------
    StoreError
        The URL has an unknown scheme, or lacks a bucket or a name.
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


def files_of(path: str | os.PathLike[str]) -> Files:
    """Return the files of the store at a path, or the objects of the one at a URL."""
    root = place_of(path)
    return BucketFiles(root) if isinstance(root, ObjectPath) else LocalFiles(root)


def extension_path(root: AnyPath) -> AnyPath:
    """Return the path at which the store is built that will replace the one at ``root``.

    It is always the same, so that an interrupted extension is found again.
    """
    return root.with_name(f".{root.name}.sweep-extended")


def is_store(name: str | os.PathLike[str]) -> bool:
    """Return whether a name means a store, existing or not, and not a plan."""
    text = os.fspath(name)
    return is_url(name) or os.path.isdir(text) or text.rstrip("/").endswith(".zarr")


def free_bytes(path: str | os.PathLike[str]) -> float:
    """Return the free space for a store at a path; infinite in a bucket [B]."""
    if is_url(path):
        return math.inf
    place = Path(os.path.realpath(path))
    return shutil.disk_usage(next(p for p in (place, *place.parents) if p.exists())).free


class ChangedError(OSError):
    """An object is not, or no longer, the one that a write depended on."""


_ERRORS: dict[str, tuple[type[OSError], int]] = {
    "FileNotFoundError": (FileNotFoundError, errno.ENOENT),
    "AlreadyExistsError": (FileExistsError, errno.EEXIST),
    "PreconditionError": (ChangedError, errno.EAGAIN),
    "PermissionDeniedError": (PermissionError, errno.EACCES),
    "UnauthenticatedError": (PermissionError, errno.EACCES),
}
"""By name of obstore's error: the kind of error that it becomes, and its number."""


@dataclass(frozen=True)
class BucketFiles:
    """The objects of one store, with the methods of :class:`LocalFiles`.

    Parameters
    ----------
    root : ObjectPath
        The store's address.
    """

    root: ObjectPath

    @contextmanager
    def _bucket(self) -> Iterator[tuple[Any, Any]]:
        """Yield obstore and the connection; raise its errors as ``OSError`` with one line."""
        scheme, _, rest = self.root.url.partition("://")
        try:
            obstore, client = _client(scheme, rest.partition("/")[0])
        except ImportError:
            extra = f"pip install 'kernel-sweep[{SCHEMES[scheme]}]'"
            raise StoreError(f"'{self.root.url}': needs obstore: {extra}") from None
        from obstore.exceptions import BaseError

        try:
            yield obstore, client
        except (OSError, BaseError) as error:
            kind, number = _ERRORS.get(type(error).__name__, (OSError, errno.EIO))
            raise kind(number, str(error).strip().partition("\n")[0][:300]) from error

    def _in_bucket(self, key: str) -> str:
        return f"{self.root.url.partition('://')[2].partition('/')[2]}/{key}"

    def get(self, key: str) -> bytes:
        """Return the bytes of ``key``; may raise ``OSError``."""
        return self.read(key)[0]

    def read(self, key: str) -> tuple[bytes, Mark]:
        """Return an object and the mark of this content; may raise ``OSError``."""
        with self._bucket() as (obstore, client):
            found = obstore.get(client, self._in_bucket(key))
            return bytes(found.bytes()), _mark(found.meta)

    def put(self, key: str, *parts: bytes) -> None:
        """Write the joined ``parts`` as ``key``; see :meth:`LocalFiles.put`."""
        with explained(f"write '{self.root / key}'", CONTINUES):
            self.write(key, *parts)

    def write(self, key: str, *parts: bytes, over: Mark | None = None, new: bool = False) -> Mark:
        """Write an object, whole or not at all.

        Parameters
        ----------
        key : str
            The object.
        *parts : bytes
            Its content, to be joined.
        over : mapping, optional
            Only replace the content with this mark.
        new : bool
            Only write if there is no such object.

        Raises
        ------
        FileExistsError, ChangedError
            ``new`` or ``over`` does not hold.
        OSError
            It cannot be written.
        """
        mode: Any = "create" if new else dict(over) if over is not None else "overwrite"
        with self._bucket() as (obstore, client):
            content = b"".join(parts)
            key = self._in_bucket(key)
            return _mark(obstore.put(client, key, content, mode=mode, use_multipart=False))

    def link(self, key: str, source: BucketFiles, source_key: str) -> None:
        """Copy another store's object within the bucket; may raise ``OSError``."""
        with self._bucket() as (obstore, client):
            obstore.copy(client, source._in_bucket(source_key), self._in_bucket(key))

    def exists(self, key: str) -> bool:
        """Return whether there is such an object.

        Raises
        ------
        StoreError
            The bucket does not answer, or refuses to.
        """
        with explained(f"open '{self.root / key}'"), self._bucket() as (obstore, client):
            try:
                obstore.head(client, self._in_bucket(key))
            except FileNotFoundError:
                return False
        return True

    def mark(self, key: str) -> object:
        """Return what changes with an object's content; ``None`` without the object."""
        try:
            with self._bucket() as (obstore, client):
                return tuple(sorted(_mark(obstore.head(client, self._in_bucket(key))).items()))
        except OSError:
            return None

    def keys(self, start: str = "") -> Iterator[str]:
        """Yield the keys of the store's objects that begin with ``start``, a whole directory."""
        cut = len(self._in_bucket(""))
        return (entry["path"][cut:] for entry in self._entries(start))

    def total_bytes(self) -> int:
        """Return the size of all objects [B]."""
        return sum(entry["size"] for entry in self._entries())

    def _entries(self, start: str = "") -> Iterator[Any]:
        with self._bucket() as (obstore, client):
            for batch in obstore.list(client, self._in_bucket(start)):
                yield from batch

    def remove(self, keys: Iterable[str]) -> None:
        """Remove objects; one that does not exist is no error.

        Raises
        ------
        StoreError
            They cannot be removed.
        """
        paths = map(self._in_bucket, keys)
        with explained(f"change '{self.root}'"), self._bucket() as (_, client):
            while batch := list(islice(paths, 1000)):
                delete(client, batch)

    def remove_partial(self) -> None:
        """Do nothing: objects are never half-written."""


Files = LocalFiles | BucketFiles
"""The files or objects of a store."""


def delete(client: Any, keys: list[str]) -> None:
    """Delete objects; one that does not exist is no error.

    Without an answer the request is repeated, which does no harm; obstore cannot know that.

    Parameters
    ----------
    client : obstore.store.ObjectStore
        The bucket.
    keys : list of str
        Keys within it; as many as one request takes.
    """
    import obstore
    from obstore.exceptions import GenericError

    for left in (2, 1, 0):
        try:
            obstore.delete(client, keys)
            return
        except FileNotFoundError:  # Azure and Google stop at the first that is missing
            for key in keys if len(keys) > 1 else ():
                delete(client, [key])
            return
        except GenericError:
            if not left:
                raise


def _mark(meta: Mapping[str, Any]) -> Mark:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}


@lru_cache(maxsize=16)
def _client(scheme: str, bucket: str) -> tuple[Any, Any]:
    """Return obstore and the connection to a bucket, one for each process."""
    import obstore
    from obstore import store

    if scheme == "memory":
        return obstore, store.MemoryStore()
    options: dict[str, Any] = {"client_options": dict(TIMEOUTS), "retry_config": RETRIES}
    try:
        if scheme == "gs":
            return obstore, store.GCSStore(bucket, **options)
        if scheme == "az":
            if os.environ.get("AZURE_STORAGE_ENDPOINT", "").startswith("http://"):
                options["client_options"]["allow_http"] = True
            return obstore, store.AzureStore(bucket, **options)
        return obstore, store.S3Store(bucket, **_s3_options(options))
    except Exception as error:  # a provider's own words for what its settings lack
        raise StoreError(f"'{scheme}://{bucket}': {str(error).splitlines()[0]}") from None


def _s3_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return options with the settings of the environment and of AWS's own files."""
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
