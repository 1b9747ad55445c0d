"""Find files by path, in the user's directories or among the shipped ones, and check them."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from sweep.errors import SpecError, nearest
from sweep.fields import Parameter
from sweep.specs.compiled import with_table
from sweep.specs.device import Device, check_model_parameters, inspect_device
from sweep.specs.formats import FORMATS
from sweep.specs.kernel import Kernel, inspect_kernel
from sweep.specs.reading import (
    FOLDERS,
    KEY_PATTERN,
    Finding,
    Report,
    data_root,
    label_of,
    load_toml,
    read_text,
)

Kind = Literal["device", "kernel"]
Spec = TypeVar("Spec", Device, Kernel)

SEARCH_VARIABLE = "SWEEP_PATH"
"""Environment variable with the user's directories, which contain ``devices/`` and
``kernels_spec/``; they are searched before the shipped files."""


def _user_directories() -> list[Path]:
    entries = os.environ.get(SEARCH_VARIABLE, "").split(os.pathsep)
    return [Path(os.path.expanduser(entry)) for entry in entries if entry]


def _folders(kind: Kind) -> list[Path]:
    """Return the folders of a kind in the order in which they are searched."""
    own = [directory / FOLDERS[kind] for directory in _user_directories()]
    return [*own, data_root(kind)]


def _list(kind: Kind) -> tuple[str, ...]:
    names = {path.stem for folder in _folders(kind) for path in folder.glob("*.toml")}
    return tuple(sorted(name for name in names if re.fullmatch(KEY_PATTERN, name)))


def list_devices() -> tuple[str, ...]:
    """Return the keys of all devices, the user's and the shipped ones."""
    return _list("device")


def list_kernels() -> tuple[str, ...]:
    """Return the keys of all kernels, the user's and the shipped ones."""
    return _list("kernel")


def _find(kind: Kind, name: str | os.PathLike[str]) -> Path:
    """Return the file of a name or path.

    A name that contains a directory or ends in ``.toml`` is a path. Any other name is a key, which
    is looked up in the user's directories and then among the shipped files.
    """
    text = os.fspath(name)
    if not isinstance(name, str) or text.endswith(".toml") or os.sep in text:
        try:
            return Path(text).expanduser()
        except RuntimeError:  # no such user, or no home directory
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
    """Return a device by its key or the path of its file.

    Parameters
    ----------
    name : str or path
        A key (``gtx_980_paper``) is looked up in the directories of ``$SWEEP_PATH``, then among the
        shipped files. A name that ends in ``.toml`` or contains a directory is a path.

    Raises
    ------
    SpecError
        There is no such file, or the first problem in it.
    """
    return _load("device", name, inspect_device)


def load_kernel(name: str | os.PathLike[str], *, compiled: bool = True) -> Kernel:
    """Return a kernel by its key or the path of its file.

    Parameters
    ----------
    name : str or path
        As for :func:`load_device`.
    compiled : bool
        Whether to read the table that ``[compiled]`` names. Without, the kernel has a table that
        serves no device: whoever compiles the kernel is about to write that file.

    Raises
    ------
    SpecError
        There is no such file, or the first problem in it.
    """
    return _load("kernel", name, inspect_kernel, compiled)


def _load(
    kind: Kind,
    name: str | os.PathLike[str],
    inspect: Callable[..., Spec | None],
    compiled: bool = True,
) -> Spec:
    path = _find(kind, name)
    report = Report(label_of(path))
    try:
        text = with_table(read_text(path), path, blank=not compiled)
    except ValueError as error:
        raise SpecError(f"{report.file}: {error}") from None
    return report.result(inspect(report, text, path.stem, path))


def lint(
    paths: Iterable[str | os.PathLike[str]],
    model_parameters: Mapping[str, Sequence[Parameter]] | None = None,
) -> list[Finding]:
    """Return all findings about device and kernel files.

    Parameters
    ----------
    paths : iterable of str or path
        Files; a directory stands for the ``.toml`` files in it.
    model_parameters : mapping of str to sequence of Parameter, optional
        The declared parameters of each model. Without them only the form of the tables
        ``[model.NAME]`` is checked.

    Returns
    -------
    list of Finding
        Empty if all files are valid. Files with warnings can be used. A note says how many rows of
        a kernel's compiled table nobody compiled.
    """
    findings: list[Finding] = []
    for path in paths:
        entry = Path(path)
        files = sorted(entry.glob("*.toml")) if entry.is_dir() else [entry]
        if not files:
            findings.append(Finding(str(entry), "", "a directory without .toml files"))
        for file in files:
            findings += _lint_file(file, model_parameters)
    return findings


def _lint_file(
    path: Path, model_parameters: Mapping[str, Sequence[Parameter]] | None
) -> list[Finding]:
    report = Report(label_of(path))
    with contextlib.suppress(SpecError):  # the list of errors is full
        try:
            text = with_table(read_text(path), path)
        except ValueError as error:
            report.error("", str(error))
            return report.findings
        kind = _kind_of(text, path)
        if kind == "kernel":
            kernel = inspect_kernel(report, text, path.stem, path)
            table = kernel.compiled if kernel is not None else None
            if table is not None and (rows := table.not_compiled):
                report.error("compiled.table", rows, table.name, "note")
        elif kind == "device":
            device = inspect_device(report, text, path.stem, path)
            if device is not None and model_parameters is not None:
                _check_models(report, device, model_parameters)
        else:
            reason = "neither a device file ([chip], [clocks]) nor a kernel file ([launch])"
            report.error("", reason)
    return report.findings


def _check_models(
    report: Report, device: Device, model_parameters: Mapping[str, Sequence[Parameter]]
) -> None:
    for model in device.model_parameters:
        if model in model_parameters:
            check_model_parameters(device, model, model_parameters[model], report)
        else:
            report.error(f"model.{model}", f"no such model{nearest(model, model_parameters)}")


def _kind_of(text: str, path: Path) -> Kind | None:
    """Return the kind of a file, from its tables or else from its folder."""
    try:
        names = set(load_toml(text))
    except ValueError:
        names = set()
    device, kernel = (len(names & sections.keys()) for sections in FORMATS.values())
    folder = path.resolve().parent.name
    if device > kernel or (device == kernel and folder == FOLDERS["device"]):
        return "device"
    return "kernel" if kernel > device or folder == FOLDERS["kernel"] or not names else None
