"""Reading chunks through zarr so that nothing that is missing passes for a result.

To zarr a chunk that is not there is one of nothing but fill: NaN, and codes for "not computed".
In a finished store that is damage, and it is said in one line, as a wrong checksum is.
"""

from __future__ import annotations

from pathlib import Path

from zarr.abc.store import ByteRequest
from zarr.core.buffer import Buffer, BufferPrototype
from zarr.storage import LocalStore

from sweep.errors import StoreError
from sweep.store.codec import is_sound

__all__ = ["CheckedStore"]


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
        name = key.rpartition("/")[2]
        if name != "c" and not name.startswith("c."):
            return found
        if found is None:
            if not (self.root / "zarr.json").exists():
                raise StoreError(f"'{self.root}' is gone: deleted or moved while it was read")
            if self._is_finished:
                raise StoreError(_advice(self.root, key, "it is missing"))
        elif byte_range is None and not is_sound(found.to_bytes()):
            raise StoreError(_advice(self.root, key, "its checksum does not fit"))
        return found


def _advice(root: Path, key: str, problem: str) -> str:
    return f"'{root / key}': {problem}; `sweep verify --repair` computes it again"
