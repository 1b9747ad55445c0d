"""Reading chunks through zarr so that nothing that is missing passes for a result.

To zarr a chunk that is not there is one of nothing but fill: NaN, and codes for "not computed".
In a finished store that is damage, and it is said in one line, as a wrong checksum is.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from zarr.abc.store import ByteRequest, Store
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from sweep.errors import StoreError
from sweep.store.codec import is_sound
from sweep.store.objects import ObjectPath, is_url
from sweep.store.sameness import check_same

__all__ = ["CheckedStore", "check", "checked", "is_chunk"]


class CheckedStore(LocalStore):
    """The files of a store, as zarr reads them.

    Parameters
    ----------
    root : Path
        The store's directory.
    binding : str
        What binds the store's journal to it: no other store is read in its place.
    read_only : bool
        As in zarr.
    is_finished : bool
        Whether every chunk has to be there.
    """

    def __init__(
        self, root: Path, binding: str, *, read_only: bool = True, is_finished: bool = True
    ) -> None:
        super().__init__(root, read_only=read_only)
        self._binding = binding
        self._is_finished = is_finished

    def with_read_only(self, read_only: bool = False) -> CheckedStore:
        """Return the same for reading only, or for writing too."""
        options = {"read_only": read_only, "is_finished": self._is_finished}
        return type(self)(self.root, self._binding, **options)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """Return the bytes of a key; None where nothing is and nothing has to be.

        Raises
        ------
        StoreError
            A chunk is missing or damaged, or the whole store is gone or another one.
        """
        found = await super().get(key, prototype, byte_range)
        if is_chunk(key):
            check_same(self.root, self._binding)
        check(self.root, key, found, self._is_finished, is_whole=byte_range is None)
        return found


def checked(root: Path, binding: str, *, is_finished: bool) -> Store:
    """Return a store's files, or its objects, as zarr reads them; see :class:`CheckedStore`."""
    if not is_url(root):
        return CheckedStore(root, binding, is_finished=is_finished)
    from sweep.store.checked_objects import CheckedObjects

    return CheckedObjects(cast(ObjectPath, root), binding, is_finished=is_finished)


def is_chunk(key: str) -> bool:
    """Whether a key is that of a chunk."""
    name = key.rpartition("/")[2]
    return name == "c" or name.startswith("c.")


def check(root: Path, key: str, found: Buffer | None, is_finished: bool, *, is_whole: bool) -> None:
    """Refuse a chunk that is missing from a finished store, or damaged.

    Parameters
    ----------
    root : Path
        The store.
    key : str
        What was read.
    found : Buffer or None
        What was there.
    is_finished : bool
        Whether every chunk has to be there.
    is_whole : bool
        Whether ``found`` is all of it.

    Raises
    ------
    StoreError
        A chunk is missing or damaged, or the whole store is gone.
    """
    if not is_chunk(key):
        return
    if found is None:
        if not (root / "zarr.json").exists():
            raise StoreError(f"'{root}' is gone: deleted or moved while it was read")
        if is_finished:
            raise StoreError(_advice(root, key, "it is missing"))
    elif is_whole and not is_sound(found.to_bytes()):
        raise StoreError(_advice(root, key, "its checksum does not fit"))


def _advice(root: Path, key: str, problem: str) -> str:
    return f"'{root / key}': {problem}; `sweep verify --repair` computes it again"
