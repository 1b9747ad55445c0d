"""Measure what evaluating, writing and scheduling cost on this machine.

Work is measured in CPU seconds of one thread, so that others on the machine disturb little; what
is mostly waiting (starting a cluster) in elapsed time. A plan's own kernels, devices and outputs
are measured, on some chunks that lie spread over the grid.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from sweep import __version__
from sweep.compiler.passes import forget_passes
from sweep.evaluation import Buffers, evaluate_box
from sweep.evaluation.chunk import Tables, canonical
from sweep.evaluation.memo import Memo, Workspace
from sweep.evaluation.reducing import Accumulator, Piece, Reduction
from sweep.evaluation.tables import form_of, pack, pass_inputs
from sweep.evaluation.workloads import build_launch
from sweep.models import get_model
from sweep.runs.job import Job, Unit
from sweep.runs.overheads import (
    command_seconds,
    compiler_seconds,
    cpu_seconds,
    disk_rates,
    file_seconds,
    resident_bytes,
    restricted,
    scheduling_seconds,
)
from sweep.runs.rates import PassRates, Rates, processor
from sweep.runs.record import layout_of, texts_of
from sweep.space import Box, KernelSpace, Plan, Space, cut_box
from sweep.store import open_or_create, stored_bytes

__all__ = ["calibrate", "forms_of", "stages_followed"]

Shared = tuple[Memo | None, Workspace | None]
"""What boxes share that are made one after the other."""

SAMPLES = 3
"""Chunks of a kernel that are measured."""
LAUNCHES = 1 << 18
"""Most configurations of a measured chunk that each have their own launch."""
ROUNDS = 3


def calibrate(space: Space) -> Rates:
    """Measure the rates that a plan's duration follows from, in some seconds.

    Parameters
    ----------
    space : Space
        The plan; each of its kernels is measured with each model.

    Returns
    -------
    Rates
        Of this machine, with the plan's passes.

    Raises
    ------
    SweepError
        Processes for the measurement of the scheduler cannot be started.
    """
    load = os.getloadavg()[0]
    forget_passes()
    resident = resident_bytes()
    compiler_s = compiler_seconds()
    with tempfile.TemporaryDirectory(prefix="sweep-calibration-") as name:
        place = Path(name)
        # The first chunks compile; a file's own cost is then taken off those with many bytes.
        drafts = [d for kernel in space.kernels for d in _kernel_drafts(space, kernel, place)]
        n_passes = 2 * len({(d.rates.model, d.rates.form, d.rates.length) for d in drafts})
        grown = max(resident_bytes() - resident, 0.0)
        file_s, journal_s, store_s = file_seconds(space, place)
    disk, fresh_s, held_bytes = disk_rates(Path.cwd())
    start_s = command_seconds()
    cluster_s, worker_s, task_s, chunk_s = scheduling_seconds()
    return Rates(
        version=__version__,
        processor=processor(),
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        load=load,
        start_s=start_s,
        compiler_s=compiler_s,
        cluster_s=cluster_s,
        worker_s=worker_s,
        task_s=task_s,
        chunk_s=chunk_s,
        journal_s=journal_s,
        store_s=store_s,
        file_s=file_s,
        disk=disk,
        held_bytes=held_bytes,
        fresh_s=fresh_s,
        process_bytes=resident,
        pass_bytes=grown / n_passes,
        passes=tuple(draft.finished(file_s) for draft in drafts),
    )


def forms_of(space: KernelSpace) -> tuple[str, str]:
    """Return the forms of the passes into a store, and of a reduction."""
    boxes = space.grid.box(0), space.grid.whole
    stored, reduced = (form_of(canonical(space, box)) for box in boxes)
    return stored, reduced


def stages_followed(space: KernelSpace, plan: Plan, model: str) -> int:
    """Return how many stages of a kernel a model follows; 0 for one that takes it as a whole."""
    one = _one_launch(space)
    found = Tables(one, replace(plan, models=(model,)), one.grid.whole).inputs(model)
    return pack(found, get_model(model), canonical(one, one.grid.whole)).length


# ---------------------------------------------------------------------------- evaluation


@dataclass(frozen=True)
class _Draft:
    """Rates of a pass whose writing still has the files' own cost in it."""

    rates: PassRates
    write_s: float
    files: int
    written: float

    def finished(self, file_s: float) -> PassRates:
        """Return the rates with the cost of bytes alone."""
        own = max(self.write_s - self.files * file_s, 0.1 * self.write_s)
        return replace(self.rates, write_s=own / self.written)


def _kernel_drafts(space: Space, kernel: KernelSpace, place: Path) -> Iterator[_Draft]:
    """Measure one kernel with each model, in the forms that a run and a question need."""
    for form in dict.fromkeys(forms_of(kernel)):
        parts = [part for part in _parts(kernel) if _form(part) == form]
        for name in space.plan.models if parts else ():
            plan = replace(space.plan, models=(name,), outputs=_outputs_of(space.plan, name))
            yield _draft(replace(space, plan=plan), parts, name, form, place)


def _outputs_of(plan: Plan, model: str) -> tuple[str, ...] | None:
    """Return the outputs that a plan of one model alone can keep."""
    if plan.outputs is None:
        return None
    others = {
        name
        for other in plan.models
        if other != model
        for field in get_model(other).fields
        for name in (field.name, f"{other}_{field.name}")
    }
    own = {name for f in get_model(model).fields for name in (f.name, f"{model}_{f.name}")}
    return tuple(n for n in plan.outputs if n not in others or n in own) or ("execution_time",)


def _parts(kernel: KernelSpace) -> list[KernelSpace]:
    """Return some chunks of a kernel's grid, each as a small space of its own."""
    grid = kernel.grid
    numbers = np.unique(np.linspace(0, grid.n_chunks - 1, SAMPLES).astype(int)).tolist()
    boxes = [grid.box(number) for number in numbers]
    if form_of(canonical(kernel, boxes[0])) == "rows":
        boxes = [next(cut_box(box, LAUNCHES)) for box in boxes]
    return [restricted(kernel, box) for box in boxes]


def _form(space: KernelSpace) -> str:
    return form_of(canonical(space, space.grid.whole))


def _one_launch(kernel: KernelSpace) -> KernelSpace:
    """Return a kernel's grid with its first launch alone, at all clocks."""
    dims = kernel.grid.dimensions
    return kernel.restricted({d.name: [0] for d in dims if d.kind not in ("core", "memory")})


def _draft(space: Space, parts: list[KernelSpace], model: str, form: str, place: Path) -> _Draft:
    plan = space.plan
    totals: dict[str, float] = dict.fromkeys(
        ("points", "launches", "launch", "inputs", "tables", "evaluate", "reduce", "bytes",
         "write", "files", "stored"), 0.0)  # fmt: skip
    compiled: list[float] = []
    for number, part in enumerate(parts):
        found, first = _part_costs(
            replace(space, kernels=(part,)),
            part,
            model,
            place / f"{part.kernel.key}-{model}-{form}-{number}.zarr",
        )
        compiled = compiled or first
        for key, value in found.items():
            totals[key] += value
    kernel = parts[0].kernel
    launch_call, launch, inputs_call, inputs = _table_rates(parts, plan, model, form, totals)
    rates = PassRates(
        kernel=kernel.key,
        sha256=kernel.sha256,
        model=model,
        form=form,
        length=stages_followed(parts[0], plan, model),
        compile_s=compiled[0],
        compile_reducing_s=compiled[1],
        launch_call_s=launch_call,
        launch_s=launch,
        inputs_call_s=inputs_call,
        inputs_s=inputs,
        evaluate_s=totals["evaluate"] / totals["points"],
        reduce_s=totals["reduce"] / totals["points"],
        point_bytes=totals["bytes"] / totals["points"],
        write_s=0.0,
        stored=totals["stored"] / totals["bytes"],
        launch_bytes=totals["tables"] / totals["launches"],
    )
    return _Draft(rates, totals["write"], int(totals["files"]), totals["bytes"])


def _table_rates(
    parts: list[KernelSpace], plan: Plan, model: str, form: str, totals: dict[str, float]
) -> tuple[float, float, float, float]:
    """Return the seconds of tables: of the launch for each box and each launch, of the model so."""
    found = [_neighbours_seconds(part, plan, model) for part in parts] if form == "rows" else []
    if found and all(found):
        return tuple(np.median(np.array(found), axis=0).tolist())
    one, n, boxes = _one_launch(parts[0]), totals["launches"], len(parts)
    launch_call, inputs_call = _least(_table_seconds(one, plan, model) for _ in range(ROUNDS))
    return (
        launch_call,
        max(totals["launch"] - boxes * launch_call, 0.0) / n,
        inputs_call,
        max(totals["inputs"] - boxes * inputs_call, 0.0) / n,
    )


def _neighbours_seconds(part: KernelSpace, plan: Plan, model: str) -> tuple[float, ...]:
    """Return the seconds of tables where boxes follow each other, and share what they can.

    Pairs of large and of small boxes tell what a box costs and what a launch in it; nothing is
    returned for a part that cannot be cut.
    """
    sizes, seconds = [], []
    for divisor in (8, 2):
        boxes = list(islice(cut_box(part.grid.whole, max(part.n_points // divisor, 1)), 2))
        if len(boxes) < 2:
            return ()
        shared: Shared = (Memo(), Workspace())
        for box in boxes:
            _table_seconds(part, plan, model, box, shared)
        both = (_table_seconds(part, plan, model, b, shared) for _ in range(ROUNDS) for b in boxes)
        sizes.append(math.prod(canonical(part, boxes[0])[:-2]))  # launches
        seconds.append(_least(both))
    found: list[float] = []
    for few, many in zip(*seconds, strict=True):
        each = max(many - few, 0.0) / max(sizes[1] - sizes[0], 1)
        found += [max(few - each * sizes[0], 0.0), each]
    return tuple(found)


def _least(found: Iterator[tuple[float, float]]) -> tuple[float, float]:
    one, other = (min(column) for column in zip(*found, strict=True))
    return one, other


def _part_costs(
    space: Space, part: KernelSpace, model: str, store: Path
) -> tuple[dict[str, float], list[float]]:
    """Measure one chunk: seconds, bytes and numbers; and the seconds of two compilations."""
    plan, whole = space.plan, part.grid.whole
    launch_s, inputs_s = _table_seconds(part, plan, model)
    tables = Tables(part, plan, whole).inputs(model)
    buffers = Buffers()
    times = [
        cpu_seconds(lambda: evaluate_box(part, plan, whole, buffers=buffers)) for _ in range(ROUNDS)
    ]
    evaluate_s = min(times[1:])
    question = _question(part)
    keys: tuple[tuple[int, tuple[int, ...]], ...] = ((0, (0,)),)
    kept = Accumulator(part, plan, question, part.grid.shape)
    reducing = [cpu_seconds(lambda: kept.add(Piece(whole, keys))) for _ in range(ROUNDS)]
    reduce_s = min(reducing[1:])
    arrays = evaluate_box(part, plan, whole, buffers=buffers)
    layout = layout_of(space)
    with open_or_create(store, layout) as opened:
        record: Any = layout.record
        job = Job(record["plan"], texts_of(record), opened.writer, "calibration", [space])
        unit: Unit = (part.kernel.key, 0)
        before = stored_bytes(store)
        # Later rounds replace files, which costs as much.
        write_s = min(cpu_seconds(lambda: job.store(unit, arrays)) for _ in range(ROUNDS))
        stored = stored_bytes(store) - before
    shape = canonical(part, whole)
    first = [
        max(times[0] - launch_s - inputs_s - evaluate_s, 0.0),
        max(reducing[0] - reduce_s, 0.0),
    ]
    return {
        "points": part.n_points,
        "launches": int(np.prod(shape[:-2])),
        "launch": launch_s,
        "inputs": inputs_s,
        "tables": sum(table.nbytes for table in tables.values()),
        "evaluate": evaluate_s,
        "reduce": reduce_s,
        "bytes": sum(array.nbytes for array in arrays.values()),
        "write": write_s,
        "files": len(arrays),
        "stored": stored,
    }, first


def _question(part: KernelSpace) -> Reduction:
    """Return the question for the smallest time of a chunk."""
    lengths = zip(part.grid.names, part.grid.shape, strict=True)
    indices = {"model": np.arange(1), **{name: np.arange(n) for name, n in lengths}}
    objective = ("execution_time",)
    return Reduction(part.kernel.key, objective, (1,), ("model",), indices, 2)


def _table_seconds(
    part: KernelSpace,
    plan: Plan,
    model: str,
    box: Box | None = None,
    shared: Shared = (None, None),
) -> tuple[float, float]:
    """Return the seconds to make the tables of a launch, and of a model; of a whole part."""
    whole, options = box or part.grid.whole, plan.options.get(model, {})
    launched: list[Any] = []
    launch_s = cpu_seconds(lambda: launched.append(build_launch(part, whole, *shared)))
    described = get_model(model)
    inputs_s = cpu_seconds(
        lambda: pass_inputs(part, whole, launched[0], described, plan.variant, options)
    )
    return launch_s, inputs_s
