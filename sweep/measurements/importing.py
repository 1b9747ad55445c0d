"""Import of tuners' files: kernel files and plans from search spaces, a store from times."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep import __version__
from sweep.errors import TuningError, nearest
from sweep.importers.files import Source, read_source, write_whole
from sweep.importers.tuners.formats import read_measurements, recognise
from sweep.importers.tuners.labelled import joined, measured_dataset
from sweep.importers.tuners.measurements import Measurements
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.importers.tuners.skeleton import kernel_text, plan_text
from sweep.importers.tuners.table import Columns
from sweep.models import model_names
from sweep.specs import list_devices, load_device
from sweep.specs.writing import key_of
from sweep.store import Coordinate, GroupLayout, StoreLayout, Variable, open_or_create

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Imported", "device_keys", "import_files", "measured_layout", "read_measured"]


@dataclass(frozen=True)
class Imported:
    """What an import wrote, and what there is to know about it.

    Attributes
    ----------
    files : tuple of Path
        Kernel files, plans and the store.
    lines : tuple of str
        What was read, in words.
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
    """Read tuners' files and write what a sweep can use of them.

    Parameters
    ----------
    paths : sequence of path
        Search spaces (T1), caches of Kernel Tuner, T4 results, outputs of KTT, CSV tables; plain or
        gzipped. Measured rows are held against the search space, if there is one.
    folder : path
        Where ``NAME.toml`` (the kernel file), ``NAME_plan.toml`` and ``NAME_measured.zarr`` go.
    kernel : str, optional
        The kernel's name; by default what the files say.
    device : str, optional
        The device's name, for files that do not tell it.
    layout : str
        ``"grid"``, ``"stacked"`` or ``"auto"``, of the store.
    columns : Columns, optional
        What the columns of tables mean.
    overwrite : bool
        Replace files that exist.

    Raises
    ------
    SweepError
        A file is wrong, or would be overwritten. Nothing is written then.
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
        dataset, told = _labelled(measured, space, name, device, layout, columns)
        lines += told
    key = key_of(name or str(dataset.attrs["kernel"] if dataset is not None else ""))
    folder = Path(folder)
    texts: dict[Path, str] = {}
    if space is not None:
        devices = list(map(str, dataset.device.values)) if dataset is not None else [device or ""]
        told, texts = _files(replace(space, name=name or space.name), spaces[0][0], folder, key,
                             devices)  # fmt: skip
        lines = told + lines
    store = folder / f"{key}_measured.zarr" if dataset is not None else None
    _check_free([*texts, *([store] if store else [])], overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    if dataset is not None and store is not None:
        with open_or_create(store, measured_layout(dataset), overwrite=overwrite) as opened:
            opened.complete()
    for path, text in texts.items():
        write_whole(path, text)
    return Imported((*texts, *([store] if store else [])), tuple(lines))


def _check_free(paths: Sequence[Path], overwrite: bool) -> None:
    for path in paths:
        if path.exists() and not overwrite:
            raise TuningError(f"{path} exists: remove it, or replace it with --overwrite")


def _files(
    space: SearchSpace, source: Source, folder: Path, key: str, devices: Sequence[str]
) -> tuple[list[str], dict[Path, str]]:
    """Return lines about a search space, and the texts of its kernel file and plan."""
    text, notes = kernel_text(space, source=source.path.name)
    known = [name for name in devices if name in list_devices()]
    path = folder / f"{key}.toml"
    plan = plan_text(
        space,
        kernel=str(path),
        devices=known or [list_devices()[0]],
        models=model_names(),
    )
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
        The search space that rows are held against.

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
    parts = []
    for source in sources:
        part = read_measurements(source, columns)
        parts.append(_on_device(source, part, device))
    names = {kernel or part.kernel for part in parts}
    if len(names) > 1:
        raise TuningError(
            f"the files are of several kernels ({', '.join(sorted(names))}): import them one by"
            " one, or say that it is one kernel (--kernel)"
        )
    measured = joined(parts)
    attributes = {
        "title": f"{names.copy().pop()}: measured",
        "kernel": key_of(names.pop()),
        "source": [source.path.name for source in sources],
        "source_sha256": [source.sha256 for source in sources],
        "sweep_version": __version__,
        "Conventions": "CF-1.11",
    }
    dataset = measured_dataset(
        measured,
        space=space,
        devices=device_keys(measured.device),
        layout=layout,
        attributes=attributes,
    )
    return dataset, list(_told(sources, parts, dataset))


def _on_device(source: Source, part: Measurements, device: str | None) -> Measurements:
    """Return rows with the device that the user names; it must not contradict the file."""
    if device is None:
        return part
    told = sorted({str(name) for name in part.device if name})
    if len(told) > 1:
        raise source.error(f"rows of several devices ({', '.join(told)}): --device names only one")
    return replace(part, device=np.full(len(part), device))


def device_keys(names: Any) -> dict[str, str]:
    """Return the key of a device file for each name that a tuner gives a device.

    A name is known if it is a key, or the name in a device file, apart from the maker's name and
    the brand; any other becomes a key by itself.
    """
    known = {_bare(load_device(key).name): key for key in list_devices()}
    wanted = sorted({str(name) for name in np.unique(names) if str(name)})
    keys = set(list_devices())
    return {name: name if name in keys else known.get(_bare(name), key_of(name)) for name in wanted}


def _bare(name: str) -> str:
    """Return a device's name without maker and brand."""
    words = re.findall(r"[a-z]+|\d+", name.lower())
    return " ".join(w for w in words if w not in ("nvidia", "geforce", "amd", "radeon", "tesla"))


def _told(
    sources: Sequence[Source], parts: Sequence[Measurements], dataset: xr.Dataset
) -> Iterator[str]:
    """Yield what was read, in words."""
    for source, part in zip(sources, parts, strict=True):
        failed = len(part) - int(np.count_nonzero(part.valid))
        yield f"{source.path.name}: {len(part):,} rows, {failed:,} without a time"
        yield from (f"  note: {note}" for note in part.notes)
    rows = sum(len(part) for part in parts)
    measured = dataset["status"].values != dataset["status"].attrs["flag_values"][-1]
    held = int(np.count_nonzero(measured))
    if held < rows:
        yield f"  {rows - held:,} rows repeat a configuration: each has the mean of its times"
    if "within_conditions" in dataset:
        outside = int(np.count_nonzero(measured & (dataset["within_conditions"].values == 0)))
        if outside:
            yield f"  {outside:,} of {held:,} rows violate the search space's conditions; kept"
    shape = ", ".join(f"{name} {size:,}" for name, size in dataset.sizes.items())
    yield f"measured: {shape} (devices: {', '.join(map(str, dataset.device.values))})"
    unknown = [str(d) for d in dataset.device.values if d not in list_devices()]
    for name in unknown:
        yield f"  note: no device file for '{name}'{nearest(name, list_devices())}"


def measured_layout(dataset: xr.Dataset) -> StoreLayout:
    """Return the layout of a store that holds a measured dataset."""

    def attributes(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _plain(value) for name, value in values.items()}

    coordinates = [
        Coordinate(str(name), tuple(map(str, c.dims)), c.values, attributes(c.attrs))
        for name, c in dataset.coords.items()
    ]
    variables = [
        Variable(str(name), tuple(map(str, v.dims)), v.shape, v.shape, v.dtype.name,
                 attributes(v.attrs), v.values)
        for name, v in dataset.data_vars.items()
    ]  # fmt: skip
    attrs = attributes(dataset.attrs)
    group = GroupLayout(str(attrs["kernel"]), attrs, coordinates, variables, 0)
    record = {"identity": {"measured": attrs["source_sha256"]}, "measured": attrs["source"]}
    return StoreLayout([group], record, {"title": attrs["title"]})


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value
