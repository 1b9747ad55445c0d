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

__all__ = ["CheckedStore", "check", "checked"]


class CheckedStore(LocalStore):
    """The files of a store, as zarr reads them.

    Parameters
    ----------
    root : Path
        The store's directory.
    read_only : bool
        As in zarr.
    is_finished : bool
        Whether every chunk has to be there.
    """

    def __init__(
        self, root: Path | str, *, read_only: bool = True, is_finished: bool = True
    ) -> None:
        super().__init__(root, read_only=read_only)
        self._is_finished = is_finished

    def with_read_only(self, read_only: bool = False) -> CheckedStore:
        """Return the same for reading only, or for writing too."""
        return type(self)(self.root, read_only=read_only, is_finished=self._is_finished)

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
            A chunk is missing or damaged, or the whole store is gone.
        """
        found = await super().get(key, prototype, byte_range)
        check(self.root, key, found, self._is_finished, is_whole=byte_range is None)
        return found


def checked(root: Path, is_finished: bool) -> Store:
    """Return a store's files, or its objects, as zarr reads them; see :class:`CheckedStore`."""
    if not is_url(root):
        return CheckedStore(root, is_finished=is_finished)
    from sweep.store.checked_objects import CheckedObjects

    return CheckedObjects(cast(ObjectPath, root), is_finished=is_finished)


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
    name = key.rpartition("/")[2]
    if name != "c" and not name.startswith("c."):
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
