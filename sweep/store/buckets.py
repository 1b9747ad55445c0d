"""Stores in buckets: ``s3://``, ``gs://``, ``az://`` and ``memory://``, through obstore.

An object store has no directories, no renaming and no appending; what it has is that an object
appears whole or not at all, and that a write may be made to depend on what is there. Credentials
come from where the provider's own tools look for them and are never kept: what travels to workers
and stands in a store is the address alone.
"""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, BinaryIO

from sweep.errors import StoreError
from sweep.store.local_files import explained

SCHEMES = {"s3": "s3", "gs": "gs", "az": "az", "memory": "s3"}
"""The schemes, and what to install for each."""

RETRIES = {"max_retries": 8, "retry_timeout": timedelta(seconds=120)}
"""How often a request is repeated that fails by the server's fault or is asked to slow down."""
TIMEOUTS = {"connect_timeout": "10s", "timeout": "60s"}

Mark = Mapping[str, str]
"""What distinguishes one content of an object from the next."""


class ChangedError(OSError):
    """An object is not, or no longer, what a write depended on."""


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turn obstore's errors into the operating system's, with the first line of the reason."""
    from obstore import exceptions

    kinds: list[tuple[Any, type[OSError], int]] = [
        (FileNotFoundError, FileNotFoundError, errno.ENOENT),
        (exceptions.AlreadyExistsError, FileExistsError, errno.EEXIST),
        (exceptions.PreconditionError, ChangedError, errno.EAGAIN),
        (exceptions.PermissionDeniedError, PermissionError, errno.EACCES),
        (exceptions.UnauthenticatedError, PermissionError, errno.EACCES),
        (exceptions.BaseError, OSError, errno.EIO),
    ]
    try:
        yield
    except (OSError, exceptions.BaseError) as error:
        for kind, ours, number in kinds:
            if isinstance(error, kind):
                raise ours(number, str(error).strip().partition("\n")[0][:300]) from error
        raise


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

    def exists(self) -> bool:
        """Whether there is an object at this address.

        Raises
        ------
        StoreError
            The bucket does not answer, or refuses to.
        """
        with explained(f"open '{self}'"):
            try:
                self.mark()
            except FileNotFoundError:
                return False
        return True

    def below(self) -> Iterator[str]:
        """Yield the keys below this address, without what they have in common with it."""
        for entry in self.entries():
            yield entry["path"][len(self.key) + 1 :]

    def entries(self) -> Iterator[Any]:
        """Yield what the bucket says of the objects below this address."""
        obstore = _library(self.url)
        with _as_os_errors():
            for batch in obstore.list(self.client, f"{self.key}/"):
                yield from batch

    def read(self) -> tuple[bytes, Mark]:
        """Return an object and the mark of this content; may raise ``OSError``."""
        obstore = _library(self.url)
        with _as_os_errors():
            found = obstore.get(self.client, self.key)
            return bytes(found.bytes()), _mark(found.meta)

    def read_bytes(self) -> bytes:
        """Return the object's content; may raise ``OSError``."""
        return self.read()[0]

    def mark(self) -> Mark:
        """Return what distinguishes this content from another, without reading it."""
        obstore = _library(self.url)
        with _as_os_errors():
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
        obstore = _library(self.url)
        mode: Any = "create" if new else dict(over) if over is not None else "overwrite"
        with _as_os_errors():
            return _mark(
                obstore.put(self.client, self.key, b"".join(parts), mode=mode, use_multipart=False)
            )

    def copy_to(self, target: ObjectPath) -> None:
        """Copy the object to another address of its bucket, whole or not at all."""
        obstore = _library(self.url)
        with _as_os_errors():
            obstore.copy(self.client, self.key, target.key)

    def remove(self, keys: Collection[str]) -> None:
        """Remove objects below this address; none of them need be there."""
        paths = [f"{self.key}/{key}" for key in keys]
        with _as_os_errors():
            for start in range(0, len(paths), 1000):
                delete(self.client, paths[start : start + 1000])

    def unlink(self) -> None:
        """Remove the object."""
        with _as_os_errors():
            delete(self.client, [self.key])


@dataclass(frozen=True)
class BucketFiles:
    """The objects of one store, with the interface of :class:`LocalFiles`.

    An object that is written is on the provider's disks: ``durable`` changes nothing.
    """

    root: ObjectPath
    durable: bool = False

    def get(self, key: str) -> bytes:
        """Return the bytes of ``key``; may raise ``OSError``."""
        return (self.root / key).read_bytes()

    def stream(self, key: str) -> BinaryIO:
        """Return ``key`` opened for reading."""
        return io.BytesIO(self.get(key))

    def put(self, key: str, *parts: bytes) -> None:
        """Write the joined ``parts`` as ``key``; see :meth:`LocalFiles.put`."""
        final = self.root / key
        with explained(f"write '{final}'", "; the same command continues from what is finished"):
            final.write(*parts)

    def link(self, key: str, source: BucketFiles, source_key: str) -> bool:
        """Copy another store's object within the bucket; False where that is impossible."""
        try:
            (source.root / source_key).copy_to(self.root / key)
        except OSError:
            return False
        return True

    def exists(self, key: str) -> bool:
        """Whether there is an object of this key; raises :class:`StoreError` without an answer."""
        return (self.root / key).exists()

    def mark(self, key: str) -> object:
        """Return what changes with an object's content; ``None`` without it."""
        try:
            return tuple(sorted((self.root / key).mark().items()))
        except OSError:
            return None

    def keys(self) -> Iterator[str]:
        """Yield the keys of all objects in the store."""
        return self.root.below()

    def total_bytes(self) -> int:
        """Return the size of all objects [B]."""
        return sum(entry["size"] for entry in self.root.entries())

    def remove(self, keys: Collection[str]) -> None:
        """Remove objects, none of which need be there; see :meth:`LocalFiles.remove`."""
        with explained(f"change '{self.root}'"):
            self.root.remove(keys)

    def remove_partial(self) -> None:
        """Do nothing: objects are never half-written."""


def read_all(paths: list[ObjectPath]) -> list[bytes]:
    """Return the content of many small objects, several at a time."""
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(ObjectPath.read_bytes, paths))


def delete(client: Any, keys: list[str]) -> None:
    """Delete objects, none of which need be there.

    Where no answer comes the request is repeated, which does no harm; obstore cannot know that.

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
        except FileNotFoundError:  # Azure and Google say so of one; the rest may still be there
            for key in keys if len(keys) > 1 else ():
                delete(client, [key])
            return
        except GenericError:
            if not left:
                raise


def _mark(meta: Mapping[str, Any]) -> Mark:
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name)}


def _library(url: str) -> Any:
    """Return the library that speaks to buckets."""
    try:
        import obstore.store
    except ImportError:
        scheme = url.partition("://")[0]
        raise StoreError(
            f"'{url}': needs obstore: pip install 'sweep[{SCHEMES[scheme]}]'"
        ) from None
    return obstore


@lru_cache(maxsize=16)
def _client(scheme: str, bucket: str) -> Any:
    """Return the connection to a bucket, one for each process."""
    store = _library(f"{scheme}://{bucket}").store
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
    except Exception as error:  # a provider's own words for what its settings lack
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
