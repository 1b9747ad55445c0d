"""How long a run, or a question to a plan, will take and why: predicted from measured rates.

Everything that is computed adds up in seconds of one core and is shared among the workers, as far
as there are tasks for them. Scheduling happens in one place, and results go through the bandwidth
of the store, both while workers compute: whichever of the three takes longest counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sweep.errors import PlanError
from sweep.evaluation import Variable, variables
from sweep.evaluation.chunk import canonical, is_small
from sweep.evaluation.reducing import count_pieces
from sweep.runs.calibrating import forms_of, stages_followed
from sweep.runs.costs import Cost, Resources
from sweep.runs.execute import batch_size
from sweep.runs.rates import PassRates, Rates
from sweep.runs.sharing import shares
from sweep.space import KernelSpace, Plan, Space
from sweep.store import is_url

__all__ = ["predict"]


@dataclass
class _Sum:
    """What the kernels of a plan add up to."""

    chunks: int = 0
    tasks: int = 0
    files: int = 0
    result_bytes: int = 0
    stored_bytes: float = 0.0
    thread_bytes: float = 0.0
    table_bytes: float = 0.0
    once_s: float = 0.0  # in every process
    tables_s: float = 0.0
    evaluation_s: float = 0.0
    writing_s: float = 0.0
    compile_s: float = 0.0
    passes: set[Any] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def compiled(self, key: tuple[Any, ...], seconds: float) -> None:
        """Count a compilation, once for each pass."""
        if key not in self.passes:
            self.passes.add(key)
            self.compile_s += seconds


def predict(space: Space, rates: Rates, resources: Resources, *, stores: bool = True) -> Cost:
    """Predict what a run, or a question, takes.

    Parameters
    ----------
    space : Space
        The plan.
    rates : Rates
        From a calibration.
    resources : Resources
        Who computes.
    stores : bool
        Whether results are written; else the plan is asked for its best configurations, which
        reduces it and stores nothing.

    Returns
    -------
    Cost
        Bytes, chunks, tasks and files are exact, seconds and memory predicted.

    Raises
    ------
    PlanError
        A model was not calibrated in the form that the plan needs.
    """
    total = _Sum()
    for kernel in space.kernels:
        if stores:
            _add_run(total, space.plan, kernel, rates)
        else:
            _add_question(total, space.plan, kernel, rates, resources)
    if stores:
        total.tasks = total.chunks
        if resources.workers:
            size = batch_size(total.chunks, space.n_points, resources.slots)
            total.tasks = math.ceil(total.chunks / size)
    return _cost(space, rates, resources, total, stores)


def _cost(space: Space, rates: Rates, resources: Resources, total: _Sum, stores: bool) -> Cost:
    total.writing_s += total.stored_bytes * rates.fresh_s
    shared = total.tables_s + total.evaluation_s + total.writing_s
    scheduler = total.chunks * rates.journal_s if stores else 0.0
    if resources.workers:
        scheduler += total.tasks * rates.task_s + total.chunks * rates.chunk_s
    slots = min(resources.slots, resources.cores or resources.slots)
    computing = shared / max(min(slots, total.tasks), 1)
    if resources.cores:  # client and scheduler need one of them too
        computing = max(computing, (shared + scheduler) / resources.cores)
    transfer = _transfer_seconds(space, rates, resources, total.stored_bytes)
    start = rates.start_s + (rates.store_s if stores else 0.0)
    every = resources.sharing(resources.processes)
    started = start  # in seconds of one core
    if resources.workers:
        started += rates.start_s * resources.workers  # each worker loads the package
        start += rates.start_s * every
        if resources.is_local:
            start += rates.cluster_s + (resources.workers - 1) * rates.worker_s
    compilation = (rates.compiler_s + total.compile_s) * every
    cpu = {
        "start": started,
        "compilation": (rates.compiler_s + total.compile_s) * resources.processes,
        "tables": total.tables_s + total.once_s * min(resources.processes, total.tasks),
        "evaluation": total.evaluation_s,
        "writing": total.writing_s,
        "scheduler": scheduler,
    }
    elapsed = {
        "start": start,
        "compilation": compilation,
        "computing": total.once_s * every + computing,
        "scheduler": scheduler,
        "bandwidth": transfer,
    }
    serial = max(scheduler, transfer)
    enough = max(total.tasks, 1)
    if serial > 0:
        enough = min(enough, max(1, math.ceil(shared / serial)))
    memory = rates.process_bytes + (1 + len(total.passes)) * rates.pass_bytes + total.table_bytes
    memory += total.thread_bytes * (resources.slots // resources.processes)
    notes = list(dict.fromkeys(total.notes))
    if rates.load > 0.5:
        notes.append(f"calibrated while the machine was busy (load {rates.load:.1f})")
    return Cost(
        plan=space.plan.name,
        kind="run" if stores else "question",
        configurations=space.n_points,
        evaluations=space.n_evaluations,
        chunks=total.chunks,
        tasks=total.tasks,
        files=total.files,
        result_bytes=total.result_bytes,
        stored_bytes=total.stored_bytes,
        worker_bytes=memory,
        processes=resources.processes,
        slots=resources.slots,
        cpu_s=cpu,
        elapsed_s=elapsed,
        bottleneck=_bottleneck(cpu, elapsed),
        enough=enough,
        notes=tuple(notes),
    )


def _transfer_seconds(
    space: Space, rates: Rates, resources: Resources, stored_bytes: float
) -> float:
    """Return how long results need to the store's place: a given one, or this machine's disk."""
    if resources.bandwidth:
        return stored_bytes / resources.bandwidth
    store = space.plan.store
    if not resources.is_local or (isinstance(store, str) and is_url(store)):
        return 0.0
    return max(stored_bytes - rates.held_bytes, 0.0) / rates.disk


def _bottleneck(cpu: Mapping[str, float], elapsed: Mapping[str, float]) -> str:
    """Return what takes most of the time, as a reader would name it."""
    largest = max(elapsed, key=lambda name: elapsed[name])
    computed = ("tables", "evaluation", "writing")
    return max(computed, key=lambda name: cpu[name]) if largest == "computing" else largest


# ---------------------------------------------------------------------------- one kernel


def _rates_of(
    total: _Sum, kernel: KernelSpace, plan: Plan, model: str, form: str, rates: Rates
) -> PassRates:
    """Return the rates of a model on a kernel, from another kernel if need be."""
    key = kernel.kernel.key
    found = rates.pass_rates(key, kernel.kernel.sha256, model, form)
    where = "clocks inside" if form == "clocks" else "nominal clocks"
    if found is None:
        raise PlanError(
            f"{model} with {where} is not calibrated: run `sweep plan {plan.name} --calibrate`"
        )
    if (found.kernel, found.sha256) == (key, kernel.kernel.sha256):
        return found
    total.notes.append(
        f"{model} on {key}: rates of {found.kernel}, {where}; --calibrate measures the plan's own"
    )
    length = stages_followed(kernel, plan, model)
    if length == found.length:
        return found
    # A model that follows the stages reads and computes as much for each.
    factor = max(length, 1) / max(found.length, 1)
    scaled = {
        name: getattr(found, name) * factor
        for name in ("compile_s", "compile_reducing_s", "inputs_s", "inputs_call_s", "evaluate_s",
                     "reduce_s", "launch_bytes")
    }  # fmt: skip
    return replace(found, length=length, **scaled)


def _sizes(kernel: KernelSpace, plan: Plan) -> dict[str, int]:
    return {**dict(zip(kernel.grid.names, kernel.grid.shape, strict=True)),
            "model": len(plan.models)}  # fmt: skip


def _bytes_of(found: list[Variable], sizes: Mapping[str, int]) -> int:
    return sum(v.dtype.itemsize * math.prod(sizes[d] for d in v.dims) for v in found)


def _add_run(total: _Sum, plan: Plan, kernel: KernelSpace, rates: Rates) -> None:
    """Add a kernel's share of a run into a store."""
    grid, found = kernel.grid, list(variables(kernel, plan))
    sizes, counts = _sizes(kernel, plan), dict(zip(grid.names, grid.chunk_grid, strict=True))
    chunk = {**dict(zip(grid.names, grid.chunk_shape, strict=True)), "model": len(plan.models)}
    counts["model"] = len(plan.models)
    files = {v.name: math.prod(counts[d] for d in v.dims) for v in found}
    total.chunks += grid.n_chunks
    total.files += sum(files.values())
    total.result_bytes += _bytes_of(found, sizes)
    total.writing_s += sum(files.values()) * rates.file_s
    shared = [v for v in found if v.model is None]
    launches = math.prod(canonical(kernel, grid.whole)[:-2])
    form = forms_of(kernel)[0]
    table_bytes = 0.0
    for number, model in enumerate(plan.models):
        mine = _rates_of(total, kernel, plan, model, form, rates)
        own = [v for v in found if v.model == model]
        # What has no model dimension and no model is the first model's here.
        n_bytes = _bytes_of(own, sizes) + sum(
            _bytes_of([v], {**sizes, "model": 1})
            for v in shared
            if "model" in v.dims or number == 0
        )
        total.stored_bytes += n_bytes * mine.stored
        total.writing_s += n_bytes * mine.write_s
        per_point = n_bytes / grid.n_points
        total.evaluation_s += grid.n_points * _evaluation(mine, per_point)
        total.compiled((model, form, mine.length), mine.compile_s)
        _add_tables(total, kernel, mine, launches, grid.n_chunks, number)
        within = launches if is_small(kernel) else math.prod(
            canonical(kernel, grid.box(0))[:-2])  # fmt: skip
        table_bytes += mine.launch_bytes * within
    if is_small(kernel):
        total.table_bytes = max(total.table_bytes, table_bytes)
        table_bytes = 0.0
    # Results, one variable of them encoded, and the tables.
    held = _bytes_of(found, chunk)
    total.thread_bytes = max(total.thread_bytes, 1.25 * held + table_bytes)


def _evaluation(mine: PassRates, per_point: float) -> float:
    """Return the seconds of a configuration: computing, and storing its bytes."""
    storing = max(mine.evaluate_s - mine.reduce_s, 0.0) / mine.point_bytes
    return max(mine.evaluate_s + storing * (per_point - mine.point_bytes), 0.0)


def _add_tables(
    total: _Sum, kernel: KernelSpace, mine: PassRates, launches: int, boxes: int, number: int
) -> None:
    """Add the tables: once in every process where they are small, else for every box."""
    grid = kernel.grid
    calls, per = mine.inputs_call_s, mine.inputs_s
    if number == 0:  # what all models share
        calls, per = calls + mine.launch_call_s, per + mine.launch_s
    if is_small(kernel):
        total.once_s += calls + launches * per
        return
    pairs = zip(grid.dimensions, grid.chunk_grid, strict=True)
    again = math.prod(n for d, n in pairs if d.kind in ("core", "memory"))
    total.tables_s += boxes * calls + again * launches * per


def _add_question(
    total: _Sum, plan: Plan, kernel: KernelSpace, rates: Rates, resources: Resources
) -> None:
    """Add a kernel's share of a question that reduces the plan."""
    grid, form = kernel.grid, forms_of(kernel)[1]
    n_pieces = count_pieces(kernel, ("device", "model"))
    evaluations = grid.n_points * len(plan.models)
    total.chunks += n_pieces
    total.tasks += shares(n_pieces, resources.slots, evaluations) if resources.workers else n_pieces
    launches = math.prod(canonical(kernel, grid.whole)[:-2])
    table_bytes = 0.0
    for number, model in enumerate(plan.models):
        mine = _rates_of(total, kernel, plan, model, form, rates)
        total.evaluation_s += grid.n_points * mine.reduce_s
        total.compiled((model, form, mine.length, "reduced"), mine.compile_reducing_s)
        # The rows of the answer are evaluated one by one.
        total.compiled((model, "rows", mine.length), mine.compile_s)
        _add_tables(total, kernel, mine, launches, n_pieces, number)
        per_box = launches if is_small(kernel) else math.ceil(launches / n_pieces)
        table_bytes += mine.launch_bytes * per_box
    if is_small(kernel):
        total.table_bytes = max(total.table_bytes, table_bytes)
    else:
        total.thread_bytes = max(total.thread_bytes, table_bytes)
