"""Stores of synthetic numbers with an index as of a run, with many ties, gaps and chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sweep.evaluation.variables import Variable
from sweep.fields import BOUND, COMMON_FIELDS, POWER_STATUS, STATUS
from sweep.runs.summaries import summarise
from sweep.space import Dimension, Grid, Plan
from sweep.store.layout import GroupLayout, StoreLayout, Units, static
from sweep.store.layout import Variable as Stored
from sweep.store.writer import open_or_create

MODELS = ("hong_kim", "wang_chu")
DEVICES = ("gtx_280", "gtx_980", "gt_8800")
REGIMES = {"flag_values": [0, 10, 11, 20], "flag_meanings": "none one other third"}
NUMBERS = (1.0, 2.0, 3.0, 5.0)


def grid(sizes: tuple[int, ...], chunk_points: int) -> Grid:
    """Return a grid over devices, tiles, block sizes and both clocks with these lengths."""
    names = (("device", "device"), ("tile", "parameter"), ("block_size", "parameter"),
             ("core_clock", "core"), ("memory_clock", "memory"))  # fmt: skip
    values: list[Any] = [DEVICES[: sizes[0]], *(tuple(range(4, 4 + n)) for n in sizes[1:])]
    dimensions = (Dimension(name, v, kind) for (name, kind), v in zip(names, values, strict=True))
    return Grid(tuple(dimensions), chunk_points)


def variables(over: Grid, precision: str) -> list[Variable]:
    """Return variables of each kind: of all models, of one model, of the launch, and codes."""
    number, code = np.dtype(precision), np.dtype(np.uint8)
    full = ("model", *over.names)

    def of(name: str, dims: tuple[str, ...], dtype: np.dtype, **attrs: Any) -> Variable:
        common = COMMON_FIELDS[name].attributes() if name in COMMON_FIELDS else {}
        return Variable(name, name, dims, dtype, {**common, **attrs}, attrs.get("model"))

    return [
        of("execution_time", full, number),
        of("power", full, number),
        of("energy", full, number),
        of("regime", full, code, **REGIMES),
        of("bound", full, code),
        of("status", full, code),
        of("power_status", full, code),
        of("occupancy", over.names[:3], number),
        of("wang_chu_rounds", over.names, number, model="wang_chu", units="1"),
    ]


def numbers(over: Grid, models: int, precision: str, seed: int) -> dict[str, np.ndarray]:
    """Return a kernel's results with few different numbers, so that ties are frequent."""
    generator = np.random.default_rng(seed)
    shape = (models, *over.shape)
    few = np.array([*NUMBERS, *generator.random(3)])

    def some(extent: tuple[int, ...]) -> np.ndarray:
        return generator.choice(few, extent).astype(precision)

    share = generator.choice([0.0, 0.3, 0.95])
    status = np.where(generator.random(shape) < share, STATUS["constraint"], 0)
    gone = generator.random((models, over.shape[0], *(1,) * (len(shape) - 2))) < 0.2
    status = np.where(gone, STATUS["missing_parameters"], status)
    without_power = generator.random((1, over.shape[0], *(1,) * (len(shape) - 2))) < 0.3
    power_status = np.where(without_power, POWER_STATUS["missing_parameters"], 0)
    power_status = np.where(status == 0, power_status, POWER_STATUS["no_time"])
    timed, powered = status == 0, power_status == 0
    rounds = np.where(timed[-1], some(shape[1:]), np.nan)
    launch = over.shape[:3]
    return {
        "execution_time": np.where(timed, some(shape), np.nan).astype(precision),
        "power": np.where(powered, some(shape), np.nan).astype(precision),
        "energy": np.where(powered, some(shape), np.nan).astype(precision),
        "regime": np.where(timed, generator.choice([10, 11, 20], shape), 0).astype(np.uint8),
        "bound": np.where(timed, BOUND["memory"], 0).astype(np.uint8),
        "status": status.astype(np.uint8),
        "power_status": power_status.astype(np.uint8),
        "occupancy": np.where(
            generator.random(launch) < 0.2, np.nan, generator.choice([0.5, 0.75, 1.0], launch)
        ).astype(precision),
        "wang_chu_rounds": rounds.astype(precision),
    }


def write(
    path: Path,
    kernels: dict[str, Grid],
    *,
    models: int = 2,
    precision: str = "float32",
    seed: int = 0,
) -> dict[str, dict[str, np.ndarray]]:
    """Write a finished store chunk by chunk, as a run does; return its results by kernel."""
    plan = Plan(tuple(kernels), DEVICES, MODELS[-models:], precision=precision)
    found = {
        name: numbers(over, models, precision, seed + i)
        for i, (name, over) in enumerate(kernels.items())
    }
    groups = [_group(name, over, plan) for name, over in kernels.items()]
    with open_or_create(path, StoreLayout(groups, {"identity": "made up"})) as store:
        for kernel, chunk in store.missing():
            over = kernels[kernel]
            own = variables(over, precision)
            box = over.box(chunk)
            ranges = dict(zip(over.names, box.slices, strict=True)) | {"model": slice(None)}
            part = {v.name: found[kernel][v.name][*(ranges[d] for d in v.dims)].copy() for v in own}
            before = {name: values.tobytes() for name, values in part.items()}
            summary = summarise(over, plan, box, own, part)
            assert before == {name: values.tobytes() for name, values in part.items()}
            index = dict(zip(over.names, over.chunk_index(chunk), strict=True))
            for v in own:
                if any(i for name, i in index.items() if name not in v.dims):
                    continue
                place = tuple(index[name] for name in v.dims if name != "model")
                if "model" not in v.dims:
                    store.writer.write(kernel, v.name, place, part[v.name])
                    continue
                for model in range(models):
                    values = part[v.name][model : model + 1]
                    store.writer.write(kernel, v.name, (model, *place), values)
            store.mark_finished([(kernel, chunk, summary)])
        store.complete()
    return found


def _group(name: str, over: Grid, plan: Plan) -> GroupLayout:
    sizes = {**dict(zip(over.names, over.shape, strict=True)), "model": len(plan.models)}
    chunks = {**dict(zip(over.names, over.chunk_shape, strict=True)), "model": 1}
    stored = []
    for v in variables(over, plan.precision):
        extents = (tuple(of[d] for d in v.dims) for of in (sizes, chunks))
        stored.append(Stored(v.name, v.dims, *extents, v.dtype.name, v.attributes))
    labels = [static("model", ("model",), list(plan.models))]
    for d in over.dimensions:
        values = list(d.values) if d.kind == "device" else np.asarray(d.values)
        labels.append(static(d.name, (d.name,), values))
    units = Units(over.names, over.shape, over.chunk_shape, len(plan.models))
    return GroupLayout(name, {"kernel": name}, labels, stored, over.n_chunks, units)
