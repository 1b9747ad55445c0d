"""Import tuners' files: kernel files and plans from search spaces, stores from measured times."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep import __version__
from sweep.errors import TuningError, nearest
from sweep.importers.files import Source, read_source, write_whole
from sweep.importers.tuners.formats import read_measurements, recognise
from sweep.importers.tuners.measurements import Measurements, joined, measured_dataset
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.importers.tuners.skeleton import kernel_text, plan_text
from sweep.importers.tuners.table import Columns
from sweep.models import model_names
from sweep.specs import list_devices, load_device
from sweep.specs.kernel import key_of
from sweep.store.layout import GroupLayout, StoreLayout, static
from sweep.store.writer import open_or_create

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Imported:
    """The outcome of an import.

    Attributes
    ----------
    files : tuple of Path
        Kernel files, plans and the store.
    lines : tuple of str
        A description of what was read.
    """

    files: tuple[Path, ...]
    lines: tuple[str, ...]


def import_files(
    paths: Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str] = ".",
    *,
    kernel: str | None = None,
    device: str | None = None,
    layout: str = "auto",
    columns: Columns | None = None,
    overwrite: bool = False,
) -> Imported:
    """Read tuners' files and write kernel files, plans and stores of measured times.

    Parameters
    ----------
    paths : sequence of path
        Search spaces (T1), caches of Kernel Tuner, T4 results, outputs of KTT, CSV tables; plain or
        gzipped. Measured rows are compared with the search space, if there is one.
    folder : path
        Folder for ``NAME.toml`` (the kernel file), ``NAME_plan.toml`` and ``NAME_measured.zarr``.
    kernel : str, optional
        The kernel's name; by default the name in the files.
    device : str, optional
        The device's name, for files that do not contain it.
    layout : str
        Layout of the store: ``"grid"``, ``"stacked"`` or ``"auto"``.
    columns : Columns, optional
        The meaning of the columns of tables.
    overwrite : bool
        Whether to replace existing files.

    Raises
    ------
    SweepError
        A file is wrong or would be overwritten; then nothing is written.
    """
    sources = [read_source(path) for path in paths]
    spaces = [(s, read_t1(s)) for s in sources if recognise(s) == "t1"]
    if len(spaces) > 1:
        raise TuningError(
            f"two search spaces ({spaces[0][0].path}, {spaces[1][0].path}): import them one by one"
        )
    space = spaces[0][1] if spaces else None
    name = kernel or (space.name if space is not None else None)
    measured = [s for s in sources if all(s is not own for own, _ in spaces)]
    lines: list[str] = []
    dataset = None
    if measured:
        dataset, lines = _labelled(measured, space, name, device, layout, columns)
    key = key_of(name or str(dataset.attrs["kernel"] if dataset is not None else ""))
    folder = Path(folder)
    texts: dict[Path, str] = {}
    if space is not None:
        devices = list(map(str, dataset.device.values)) if dataset is not None else [device or ""]
        named = replace(space, name=name or space.name)
        described, texts = _files(named, spaces[0][0], folder, key, devices)
        lines = described + lines
    stores = {} if dataset is None else {folder / f"{key}_measured.zarr": dataset}
    files = (*texts, *stores)
    for path in files:
        if path.exists() and not overwrite:
            raise TuningError(f"{path} exists: remove it, or replace it with --overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    for path, found in stores.items():
        with open_or_create(path, measured_layout(found), overwrite=overwrite) as opened:
            opened.complete()
    for path, text in texts.items():
        write_whole(path, text)
    return Imported(files, tuple(lines))


def _files(
    space: SearchSpace, source: Source, folder: Path, key: str, devices: Sequence[str]
) -> tuple[list[str], dict[Path, str]]:
    """Return lines about a search space, and the texts of its kernel file and plan."""
    text, notes = kernel_text(space, source=source.path.name)
    known = [name for name in devices if name in list_devices()]
    path = folder / f"{key}.toml"
    usable = known or [list_devices()[0]]
    plan = plan_text(space, kernel=str(path), devices=usable, models=model_names())
    lines = [
        f"{source.path.name}: {len(space.parameters)} parameters, {space.cartesian:,} points,"
        f" {len(space.conditions)} conditions",
        *(f"  note: {note}" for note in notes),
        f"  next: replace in {path} what is marked 'assumed' (registers, instructions, accesses)",
    ]
    return lines, {path: text, folder / f"{key}_plan.toml": plan}


def read_measured(
    paths: Sequence[str | os.PathLike[str]],
    *,
    kernel: str | None = None,
    device: str | None = None,
    layout: str = "auto",
    columns: Columns | None = None,
    space: SearchSpace | None = None,
) -> xr.Dataset:
    """Return the measured times of tuners' files as a labelled dataset.

    Parameters
    ----------
    paths, kernel, device, layout, columns
        As for :func:`import_files`.
    space : SearchSpace, optional
        The search space whose conditions the rows are checked against.

    Raises
    ------
    SweepError
        A file is wrong.
    """
    return _labelled([read_source(p) for p in paths], space, kernel, device, layout, columns)[0]


def _labelled(
    sources: Sequence[Source],
    space: SearchSpace | None,
    kernel: str | None,
    device: str | None,
    layout: str,
    columns: Columns | None,
) -> tuple[xr.Dataset, list[str]]:
    parts = [_on_device(source, read_measurements(source, columns), device) for source in sources]
    names = sorted({kernel or part.kernel for part in parts})
    if len(names) > 1:
        raise TuningError(
            f"the files are of several kernels ({', '.join(names)}): import them one by"
            " one, or say that it is one kernel (--kernel)"
        )
    measured = joined(parts)
    attributes = {
        "title": f"{names[0]}: measured",
        "kernel": key_of(names[0]),
        "source": [source.path.name for source in sources],
        "source_sha256": [source.sha256 for source in sources],
        "sweep_version": __version__,
        "Conventions": "CF-1.11",
    }
    devices = device_keys(measured.device)
    dataset = measured_dataset(
        measured, space=space, devices=devices, layout=layout, attributes=attributes
    )
    return dataset, list(_description(sources, parts, dataset))


def _on_device(source: Source, part: Measurements, device: str | None) -> Measurements:
    """Return rows with the user's device; it must not contradict the file."""
    if device is None:
        return part
    known = sorted({str(name) for name in part.device if name})
    if len(known) > 1:
        raise source.error(f"rows of several devices ({', '.join(known)}): --device names only one")
    return replace(part, device=np.full(len(part), device))


def device_keys(names: Any) -> dict[str, str]:
    """Map each device name in a tuner's file to the key of a device file.

    A name is known if it is a key, or the name in a device file without maker and brand. Other
    names are converted to keys.
    """
    known = {_bare(load_device(key).name): key for key in list_devices()}
    keys = {key: key for key in list_devices()}
    wanted = sorted({str(name) for name in np.unique(names) if str(name)})
    return {name: keys.get(name) or known.get(_bare(name)) or key_of(name) for name in wanted}


def _bare(name: str) -> str:
    """Return a device's name without maker and brand."""
    words = re.findall(r"[a-z]+|\d+", name.lower())
    return " ".join(w for w in words if w not in ("nvidia", "geforce", "amd", "radeon", "tesla"))


def _description(
    sources: Sequence[Source], parts: Sequence[Measurements], dataset: xr.Dataset
) -> Iterator[str]:
    """Yield a description of what was read."""
    for source, part in zip(sources, parts, strict=True):
        failed = len(part) - int(np.count_nonzero(part.valid))
        yield f"{source.path.name}: {len(part):,} rows, {failed:,} without a time"
        yield from (f"  note: {note}" for note in part.notes)
    rows = sum(len(part) for part in parts)
    measured = dataset["status"].values != dataset["status"].attrs["flag_values"][-1]
    kept = int(np.count_nonzero(measured))
    if kept < rows:
        yield f"  {rows - kept:,} rows repeat a configuration: each has the mean of its times"
    if "within_conditions" in dataset:
        outside = int(np.count_nonzero(measured & (dataset["within_conditions"].values == 0)))
        if outside:
            yield f"  {outside:,} of {kept:,} rows violate the search space's conditions; kept"
    shape = ", ".join(f"{name} {size:,}" for name, size in dataset.sizes.items())
    yield f"measured: {shape} (devices: {', '.join(map(str, dataset.device.values))})"
    unknown = [str(d) for d in dataset.device.values if d not in list_devices()]
    for name in unknown:
        yield f"  note: no device file for '{name}'{nearest(name, list_devices())}"


def measured_layout(dataset: xr.Dataset) -> StoreLayout:
    """Return the layout of a store for a measured dataset."""
    coordinates, variables = (
        [static(str(name), tuple(map(str, v.dims)), v.values, _plain(v.attrs))
         for name, v in arrays.items()]
        for arrays in (dataset.coords, dataset.data_vars)
    )  # fmt: skip
    attrs = _plain(dataset.attrs)
    group = GroupLayout(str(attrs["kernel"]), attrs, coordinates, variables, 0)
    record = {"identity": {"measured": attrs["source_sha256"]}, "measured": attrs["source"]}
    return StoreLayout([group], record, {"title": attrs["title"]})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it, without NumPy's types."""
    return json.loads(json.dumps(value, default=lambda number: number.tolist()))
