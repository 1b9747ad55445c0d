"""Finding the files: by path, in the user's directories, among those shipped."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from sweep.errors import SpecError, nearest
from sweep.specs.device import Device, inspect_device
from sweep.specs.kernel import Kernel, inspect_kernel
from sweep.specs.places import FOLDERS, data_root, label_of
from sweep.specs.report import Report
from sweep.specs.toml import KEY_PATTERN, read_text

__all__ = [
    "Kind",
    "list_devices",
    "list_kernels",
    "load_device",
    "load_kernel",
]

Kind = Literal["device", "kernel"]

SEARCH_VARIABLE = "SWEEP_PATH"
"""Environment variable with the user's directories, each holding ``devices/`` and
``kernels_spec/``; they are searched before the shipped files."""


def _user_directories() -> list[Path]:
    entries = os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep)
    return [Path(os.path.expanduser(entry)) for entry in entries if entry]


def _folders(kind: Kind) -> list[Path]:
    """Return the folders of a kind in the order of the search."""
    own = [directory / FOLDERS[kind] for directory in _user_directories()]
    return [*own, data_root(kind)]


def _list(kind: Kind) -> tuple[str, ...]:
    def names() -> Iterator[str]:
        for folder in _folders(kind):
            if folder.is_dir():
                yield from (path.stem for path in folder.glob("*.toml"))

    return tuple(sorted({name for name in names() if re.fullmatch(KEY_PATTERN, name)}))


def list_devices() -> tuple[str, ...]:
    """Return the keys of all devices that can be named: the user's and the shipped ones."""
    return _list("device")


def list_kernels() -> tuple[str, ...]:
    """Return the keys of all kernels that can be named: the user's and the shipped ones."""
    return _list("kernel")


def _find(kind: Kind, name: str | os.PathLike[str]) -> Path:
    """Return the file of a name or path.

    What has a directory or ends in ``.toml`` is a path; everything else is a key, looked up in
    the user's directories and then among the shipped files.
    """
    text = os.fspath(name)
    if not isinstance(name, str) or text.endswith(".toml") or os.sep in text:
        try:
            return Path(text).expanduser()
        except RuntimeError:  # no such user, or one without a home
            raise SpecError(f"{text}: no home directory is known for its '~'") from None
    for folder in _folders(kind) if re.fullmatch(KEY_PATTERN, text) else ():
        path = folder / f"{text}.toml"
        if path.is_file():
            return path
    raise SpecError(_not_found(kind, text))


def _not_found(kind: Kind, name: str) -> str:
    known = _list(kind)
    shown = "".join(c if c.isprintable() else "?" for c in name[:60])
    listed = f"; `sweep list {kind}s` names the {len(known)} known"
    if len(known) <= 12:
        listed = f"; known are {', '.join(known)}"
    message = f"no {kind} '{shown}'{nearest(shown.lower(), known) or listed}"
    missing = [str(path) for path in _user_directories() if not path.is_dir()]
    if missing:
        message += f" ({SEARCH_VARIABLE} names {missing[0]}, which is no directory)"
    return message


def load_device(name: str | os.PathLike[str]) -> Device:
    """Return a device by its key, or by the path of its file.

    Parameters
    ----------
    name : str or path
        A key (``gtx_980``) is looked up in the directories of ``$SWEEP_PATH``, then among the
        shipped files. What ends in ``.toml`` or has a directory is a path.

    Raises
    ------
    SpecError
        There is no such file, or the first problem in it.
    """
    path = _find("device", name)
    report = Report(label_of(path))
    text = read_text(report, path)
    device = None if text is None else inspect_device(report, text, path.stem, path)
    report.raise_first()
    assert device is not None  # without errors there is a device
    return device


def load_kernel(name: str | os.PathLike[str]) -> Kernel:
    """Return a kernel by its key, or by the path of its file.

    Parameters
    ----------
    name : str or path
        As for :func:`load_device`.

    Raises
    ------
    SpecError
        There is no such file, or the first problem in it.
    """
    path = _find("kernel", name)
    report = Report(label_of(path))
    text = read_text(report, path)
    kernel = None if text is None else inspect_kernel(report, text, path.stem, path)
    report.raise_first()
    assert kernel is not None  # without errors there is a kernel
    return kernel
