"""Import tuners' files: kernel files and plans from search spaces, stores from measured times."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sweep import __version__
from sweep.errors import TuningError, counted, nearest
from sweep.importers.files import Source, check_free, read_source, write_all
from sweep.importers.tuners.formats import read_measurements, recognise
from sweep.importers.tuners.measured_space import measured_space
from sweep.importers.tuners.measurements import Measurements, joined, measured_dataset
from sweep.importers.tuners.search_space import SearchSpace, read_t1
from sweep.importers.tuners.skeleton import kernel_text, plan_text
from sweep.importers.tuners.table import Columns
from sweep.models import model_names
from sweep.specs import list_devices, load_device, load_kernel
from sweep.specs.kernel import key_of
from sweep.store.layout import GroupLayout, StoreLayout, static
from sweep.store.writer import open_or_create

if TYPE_CHECKING:
    import xarray as xr


BOARD = r"\d+ ?gb\b|\b(?:sxm|hbm|g?ddr)\d*\b|\bpcie\b"
"""What tells the memory and the board of a chip, in a device's name in lower case."""

BRANDS = r"\b(?:nvidia|geforce|amd|radeon|tesla|instinct)\b"


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

    Without a search space the measured configurations give kernel file and plan; a kernel file that
    is there then stays, unless it has placeholders and is to be replaced.

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
    searched = [source for source in sources if recognise(source) == "t1"]
    measured = [source for source in sources if source not in searched]
    if len(searched) > 1:
        raise TuningError(
            f"two search spaces ({searched[0].path}, {searched[1].path}): import them one by one"
        )
    stated = read_t1(searched[0]) if searched else None
    name = kernel or (stated.name if stated is not None else None)
    dataset, lines, space = None, list[str](), stated
    if measured:
        dataset, rows, lines = _labelled(measured, stated, name, device, layout, columns)
        name = name or rows.kernel
        space = stated or measured_space(rows)
    folder, key = Path(folder), key_of(name or "")
    path, texts = folder / f"{key}.toml", dict[Path, str]()
    if _stays(path, stated, overwrite):
        lines.append(f"  note: {path} is there already and stays, and so does its plan")
    elif space is not None:
        devices = _of_plan(device, dataset, folder)
        try:
            named = replace(space, name=name or space.name)
            described, texts = _files(named, (searched or measured)[0], path, devices)
            lines = described + lines
        except TuningError as error:
            if stated is not None:
                raise
            lines.append(f"  note: neither kernel file nor plan: {error}")
    stores = {} if dataset is None else {folder / f"{key}_measured.zarr": dataset}
    files = (*texts, *stores)
    for file in files:
        check_free(file, overwrite=overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    for store, found in stores.items():
        with open_or_create(store, measured_layout(found), overwrite=overwrite) as opened:
            opened.complete()
    write_all(texts, overwrite=overwrite)
    return Imported(files, tuple(lines))


def _stays(path: Path, space: SearchSpace | None, overwrite: bool) -> bool:
    """Return whether measured rows leave a kernel file as it is: one whose counts are made."""
    if space is not None or not path.exists():
        return False
    return not overwrite or not load_kernel(path, compiled=False).placeholders()


def _of_plan(device: str | None, dataset: xr.Dataset | None, folder: Path) -> list[str]:
    """Return the devices of the plan: those that were measured, under the store's keys."""
    if device is not None:
        is_file = device.endswith(".toml")
        return [os.path.relpath(device, folder) if is_file else device_keys([device])[device]]
    keys = [] if dataset is None else list(map(str, dataset.device.values))
    return [key for key in keys if key in list_devices()] or keys or [list_devices()[0]]


def _files(
    space: SearchSpace, source: Source, path: Path, devices: Sequence[str]
) -> tuple[list[str], dict[Path, str]]:
    """Return lines about a search space, and the texts of its kernel file and plan."""
    text, notes = kernel_text(space, source=source.path.name)
    plan = plan_text(space, kernel=f"./{path.name}", devices=devices, models=model_names())
    lines = [
        f"{source.path.name}: {counted(len(space.parameters), 'parameter')},"
        f" {space.cartesian:,} points, {counted(len(space.conditions), 'condition')}",
        *(f"  note: {note}" for note in notes),
        *(() if space.conditions else ("  note: no conditions, the plan has all points",)),
        f"  next: replace in {path} what is marked 'assumed' (registers, instructions, accesses)",
        f"  the plan's devices: {', '.join(devices)} (another: --device NAME)",
    ]
    return lines, {path: text, path.with_stem(f"{path.stem}_plan"): plan}


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
) -> tuple[xr.Dataset, Measurements, list[str]]:
    """Return measured times as a dataset, their rows under the kernel's name, and a description."""
    parts = [_on_device(source, read_measurements(source, columns), device) for source in sources]
    names = sorted({kernel or part.kernel for part in parts})
    if len(names) > 1:
        raise TuningError(
            f"the files are of several kernels ({', '.join(names)}): import them one by"
            " one, or say that it is one kernel (--kernel)"
        )
    measured = replace(joined(parts), kernel=names[0])
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
    return dataset, measured, list(_description(sources, parts, dataset, devices))


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

    A name is known if it is a key, the path of a device file, or the name in one device file
    without maker and brand; size and kind of the memory and the board may be missing in one of the
    names. Other names are converted to keys.
    """
    every = list_devices()
    wanted = sorted({str(name) for name in np.unique(names) if str(name)})
    if all(name in every for name in wanted):
        return {name: name for name in wanted}
    known = {key: _words(load_device(key).name) for key in every}
    return {name: name if name in every else _key_of_name(name, known) for name in wanted}


def _key_of_name(name: str, known: Mapping[str, tuple[list[str], set[str]]]) -> str:
    if name.endswith(".toml"):
        return load_device(name).key
    chip, board = _words(name)
    alike = [
        key
        for key, (own, parts) in known.items()
        if own == chip and (board <= parts or parts <= board)
    ]
    exact = [key for key in alike if known[key][1] == board]
    return next(iter(exact if len(alike) > 1 else alike), "") or key_of(name)


def _words(name: str) -> tuple[list[str], set[str]]:
    """Return the words of a device's name without maker and brand, and those of its board."""
    plain = name.lower()
    board = set(re.sub(r"\s", "", word) for word in re.findall(BOARD, plain))
    rest = re.sub(rf"\(.*?\)|{BOARD}|{BRANDS}", " ", plain)
    return re.findall(r"[a-z]+|\d+", rest), board


def _description(
    sources: Sequence[Source],
    parts: Sequence[Measurements],
    dataset: xr.Dataset,
    devices: Mapping[str, str],
) -> Iterator[str]:
    """Yield a description of what was read."""
    for source, part in zip(sources, parts, strict=True):
        failed = len(part) - int(np.count_nonzero(part.valid))
        yield f"{source.path.name}: {counted(len(part), 'row')}, {failed:,} without a time"
        yield from (f"  note: {note}" for note in part.notes)
    rows = sum(len(part) for part in parts)
    measured = dataset["status"].values != dataset["status"].attrs["flag_values"][-1]
    kept = int(np.count_nonzero(measured))
    if kept < rows:
        yield f"  rows that repeat a configuration, which has their mean: {rows - kept:,}"
    if "within_conditions" in dataset:
        outside = int(np.count_nonzero(measured & (dataset["within_conditions"].values == 0)))
        if outside:
            yield f"  rows outside the search space's conditions, kept: {outside:,} of {kept:,}"
    shape = ", ".join(f"{name} {size:,}" for name, size in dataset.sizes.items())
    yield f"measured: {shape} (devices: {', '.join(map(str, dataset.device.values))})"
    for name, key in devices.items():
        if key in list_devices() or name.endswith(".toml"):
            if key != name:
                yield f"  device: '{name}' is {key}"
        else:
            yield (
                f"  note: no device file for '{key}' ('{name}'){nearest(key, list_devices())}:"
                f" write {key}.toml, or say which file describes it: --device NAME"
            )


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
