"""Export results: files for auto-tuners and tables for other tools."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sweep import query
from sweep.errors import QueryError, check_known
from sweep.expressions import MAX_LENGTH
from sweep.fields import STACKED
from sweep.importers.files import MARK, write_whole
from sweep.importers.tuners.exporting import Chosen, kernel_tuner_text, t1_text, triton_text
from sweep.query.filters import select_grid, select_kernels
from sweep.query.grid import CLOCKS, Grid, grids_of
from sweep.query.resting import placeholder_notes
from sweep.specs.names import check_name

TEXTS = {"kernel_tuner": kernel_tuner_text, "t1": t1_text, "triton": triton_text}
FORMATS = (*TEXTS, "csv", "parquet")


@dataclass(frozen=True)
class Exported:
    """The outcome of an export.

    Attributes
    ----------
    path : Path
        The file.
    rows : int
        Number of configurations in the file.
    notes : tuple of str
        Remarks for the reader.
    """

    path: Path
    rows: int
    notes: tuple[str, ...]


def export(
    data: Any,
    form: str,
    path: str | os.PathLike[str] | None = None,
    *,
    n: int = 100,
    select: Mapping[str, Any] | None = None,
    where: str | None = None,
    overwrite: bool = False,
) -> Exported:
    """Write the N fastest configurations for an auto-tuner, or as a table.

    Parameters
    ----------
    data : xarray.DataTree, xarray.Dataset, mapping or path
        Results; a path names a store.
    form : str
        ``kernel_tuner`` (a Python module with ``restrictions``), ``t1`` (a search space),
        ``triton`` (a Python module with ``perf_model`` and ``top_k``), ``csv`` or ``parquet``
        (tables with every coordinate and result).
    path : path, optional
        The file; by default the kernel's and the format's name in the current directory.
    n : int
        Largest number of configurations.
    select, where
        As in :func:`sweep.query.top`. A tuner's file is about one kernel, device and model.
    overwrite : bool
        Whether to replace a file that is there and was not exported.

    Raises
    ------
    SweepError
        The format is unknown, nothing is valid, several devices or models are selected, or the
        file is there already or cannot be written.
    """
    check_known(form, FORMATS, f"unknown format '{form}'", "known:")
    if form in ("csv", "parquet"):
        answer = _top(data, n, select, where)
        kernels = dict.fromkeys(answer.column("kernel"))
        kernel = "_".join(check_name(kernel, "kernel", error=QueryError) for kernel in kernels)
        target = Path(path or f"{kernel}.{form}")
        content = answer.to_csv() if form == "csv" else partial(_parquet, answer)
        write_whole(target, content, overwrite=overwrite)
        return Exported(target, len(answer), tuple(placeholder_notes(answer.rows)))
    chosen = best_configurations(data, n, select=select, where=where)
    notes = list(chosen.notes)
    if form == "t1" and len(chosen.membership) > MAX_LENGTH:
        text = f"the condition has more than {MAX_LENGTH} characters: `sweep import` refuses it"
        notes.append(text)
    if len(chosen.rows) < n:
        notes.append(f"there are {len(chosen.rows)} valid configurations, not {n}")
    target = Path(path or chosen.kernel + (".T1.json" if form == "t1" else f"_{form}.py"))
    write_whole(target, TEXTS[form](chosen), overwrite=overwrite)
    return Exported(target, len(chosen.rows), tuple(notes))


def best_configurations(
    data: Any, n: int = 100, *, select: Mapping[str, Any] | None = None, where: str | None = None
) -> Chosen:
    """Return the tuning parameters of the N fastest configurations.

    If sizes or clocks are swept too, each configuration counts once, with its best time.

    Parameters
    ----------
    data, n, select, where
        As in :func:`export`.

    Raises
    ------
    QueryError
        Several kernels, devices or models are selected, or nothing is valid.
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
        raise QueryError(f"the number of configurations must be a positive integer, not {n!r}")
    select = dict(select or {})
    grids = select_kernels(grids_of(data), select)
    if len(grids) > 1:
        kernels = ", ".join(grid.kernel for grid in grids)
        raise QueryError(f"a tuner's file is about one kernel: select one of {kernels}")
    (grid,) = grids
    names = _tuned(grid)
    answer = _top({grid.kernel: grid.dataset}, n * _repeats(grid, names, select), select, where)
    found: dict[tuple[Any, ...], float] = {}
    for row in answer:
        key = tuple(row[name] for name in names)
        if len(found) == n and key not in found:
            break
        found.setdefault(key, row["execution_time"])
    return Chosen(
        kernel=grid.kernel,
        device=str(answer[0].get("device") or "any_device"),
        model=str(answer[0].get("model") or "any_model"),
        names=names,
        axes={name: tuple(grid.axis_values(name).tolist()) for name in names},
        rows=list(found),
        seconds=list(found.values()),
        notes=placeholder_notes(answer.rows),
    )


def _tuned(grid: Grid) -> tuple[str, ...]:
    """Return the tuning parameters: axes other than sizes, clocks, devices and models."""
    fixed = {"model", "device", STACKED, *CLOCKS}
    names = tuple(
        name
        for name in grid.axes
        if name not in fixed and not grid.long_name(name).startswith("problem size")
    )
    if not names:
        raise QueryError(f"kernel '{grid.kernel}' has no tuning parameters")
    return names


def _repeats(grid: Grid, names: tuple[str, ...], select: Mapping[str, Any]) -> int:
    """Return how often each configuration occurs, over all sizes and clocks.

    Raises
    ------
    QueryError
        Several devices or models are selected.
    """
    selection = select_grid(grid, select)
    repeats = 1
    for dim in grid.dims:
        chosen = selection.indices[dim]
        if dim in ("device", "model") and len(chosen) > 1:
            values = ", ".join(map(str, grid.coordinates[dim].values[chosen].tolist()))
            raise QueryError(f"a tuner's file is about one {dim}: select one of {values}")
        if dim not in (*names, "device", "model", STACKED):
            repeats *= len(chosen)
    return repeats


def _top(data: Any, n: int, select: Mapping[str, Any] | None, where: str | None) -> query.Answer:
    answer = query.top(data, n, select=select, where=where, ties=True)
    if not len(answer):
        notes = f"({'; '.join(answer.notes)})" if answer.notes else ""
        raise QueryError(f"there is no valid configuration to export {notes}")
    return answer


def _parquet(answer: query.Answer, path: Path) -> None:
    """Write a table with its units in the metadata of the columns' schema."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise QueryError(
            "Parquet needs pyarrow, which is not installed: pip install 'kernel-sweep[parquet]'"
        ) from None
    frame = answer.to_dataframe()
    frame["rests_on_assumed"] = [", ".join(names) for names in frame["rests_on_assumed"]]
    frame.attrs["creator"] = MARK
    frame.to_parquet(path, index=False)
