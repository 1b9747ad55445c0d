"""Where the shipped files lie, and how messages name a file."""

from __future__ import annotations

from pathlib import Path

from sweep.errors import SpecError

__all__ = ["FOLDERS", "data_root", "label_of"]

FOLDERS: dict[str, str] = {"device": "devices", "kernel": "kernels_spec"}
"""The folder of each kind, in the shipped data and in the user's directories."""

_PACKAGE = Path(__file__).resolve().parents[1]


def data_root(kind: str) -> Path:
    """Return the folder of the shipped files.

    Parameters
    ----------
    kind : str
        ``device`` or ``kernel``, or the folder's name.

    Returns
    -------
    Path
        ``sweep/_data/FOLDER`` in an installed package, ``FOLDER`` beside ``sweep`` in a checkout.

    Raises
    ------
    SpecError
        The installation has neither.
    """
    folder = FOLDERS.get(kind, kind)
    for root in (_PACKAGE / "_data" / folder, _PACKAGE.parent / folder):
        if root.is_dir():
            return root
    raise SpecError(f"this installation of sweep lacks its folder {folder}: install it again")


def label_of(path: Path) -> str:
    """Return how messages name a file: ``devices/KEY.toml`` for a shipped one, else its path."""
    for folder in FOLDERS.values():
        if path.parent == _PACKAGE.parent / folder or path.parent == _PACKAGE / "_data" / folder:
            return f"{folder}/{path.name}"
    return str(path)
