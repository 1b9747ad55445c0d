"""All that is wrong with files, not only the first of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from sweep.errors import nearest
from sweep.fields import Parameter
from sweep.specs.device import check_model_parameters, inspect_device
from sweep.specs.files import Kind
from sweep.specs.kernel import inspect_kernel
from sweep.specs.places import FOLDERS, label_of
from sweep.specs.report import Finding, Report
from sweep.specs.toml import load_toml, read_text

__all__ = ["kind_of", "lint"]

_TELLING = {
    "device": {"clocks", "chip", "power", "compute_capability", "model", "occupancy"},
    "kernel": {"launch", "instructions", "resources", "sizes", "global_access", "parameters"},
}


def lint(
    paths: Iterable[str | os.PathLike[str]],
    model_parameters: Mapping[str, Sequence[Parameter]] | None = None,
) -> list[Finding]:
    """Return every finding about device and kernel files.

    Parameters
    ----------
    paths : iterable of str or path
        Files; a directory stands for the ``.toml`` files in it.
    model_parameters : mapping of str to sequence of Parameter, optional
        Per model, the parameters that it declares. Without it the tables ``[model.NAME]`` are
        checked for their form only.

    Returns
    -------
    list of Finding
        Empty where all files are good. Warnings do not keep a file from being used.
    """
    findings: list[Finding] = []
    for path in paths:
        given = Path(path)
        inside = sorted(given.glob("*.toml")) if given.is_dir() else []
        if given.is_dir() and not inside:
            findings.append(Finding(str(given), "", "a directory without .toml files"))
        for file in inside or ([] if given.is_dir() else [given]):
            findings += _lint_file(file, model_parameters)
    return findings


def _lint_file(
    path: Path, model_parameters: Mapping[str, Sequence[Parameter]] | None
) -> list[Finding]:
    report = Report(label_of(path))
    text = read_text(report, path)
    if text is None:
        return report.findings
    kind = kind_of(text, path)
    if kind == "device":
        device = inspect_device(report, text, path.stem, path)
        for model in device.model_parameters if device and model_parameters is not None else ():
            assert device is not None and model_parameters is not None
            if model in model_parameters:
                check_model_parameters(device, model, model_parameters[model], report)
            else:
                report.error(f"model.{model}", f"no such model{nearest(model, model_parameters)}")
    elif kind == "kernel":
        inspect_kernel(report, text, path.stem, path)
    else:
        report.error("", "neither a device file ([chip], [clocks]) nor a kernel file ([launch])")
    return report.findings


def kind_of(text: str, path: Path) -> Kind | None:
    """Return what a file describes, by its tables, else by the folder it lies in."""
    try:
        names = set(load_toml(text))
    except ValueError:
        names = set()
    score = {kind: len(names & telling) for kind, telling in _TELLING.items()}
    if score["device"] != score["kernel"]:
        return "device" if score["device"] > score["kernel"] else "kernel"
    folder = path.resolve().parent.name
    if folder == FOLDERS["device"]:
        return "device"
    return "kernel" if folder == FOLDERS["kernel"] or not names else None
