"""Compile the variants of a source in parallel, each once, and write the table."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import multiprocessing
import os
import re
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sweep import __version__
from sweep.cuda import amdgpu, opencl
from sweep.cuda.columns import cell, csv_text
from sweep.cuda.filling import Filling
from sweep.cuda.findings import Block, instructions, resources
from sweep.cuda.nvrtc import LEAST_OF_NEW, STANDS_IN, WHEELS, Compiler, Output, load
from sweep.cuda.variants import Variants, definition
from sweep.disk_cache import keep, kept
from sweep.errors import SweepError
from sweep.importers.ptx.analysis import MOST_THREADS
from sweep.specs.compiled import (
    CAPABILITIES,
    CAPABILITY,
    DERIVED,
    OF_AMD,
    QUANTITIES,
    target_number,
)

FOLDER = "compiled"
"""Where findings are kept, in the directory of compiled passes."""

UNCOUNTED = "uncounted"
"""Among findings: why a variant's instructions cannot be counted."""

MOST_FILLED = 10_000
"""Most rows of a table that is filled from nearest variants; beyond, formulas serve the others."""

Launch = tuple[Block | None, int | None]
"""Sides of a block and blocks of the grid, if they are known."""

HEADER = b"sweep findings of a compiler 3\n"


@dataclass(frozen=True)
class Task:
    """What is the same for all variants of a source.

    Attributes
    ----------
    source, name : str
        The text and the name of its file.
    entry : str
        The kernel, if there are several.
    options : tuple of str
        Further options of the compiler.
    count : bool
        Whether instructions are counted, too.
    trips : mapping of str to float
        Trip counts of loops by label where the compiler's text does not tell.
    arguments : mapping of str to float
        Integers that the kernel is called with, by position.
    """

    source: str
    name: str
    entry: str = ""
    options: tuple[str, ...] = ()
    count: bool = False
    trips: Mapping[str, float] = field(default_factory=dict)
    arguments: Mapping[str, float] = field(default_factory=dict)

    def is_translated(self, capability: str) -> bool:
        """Whether the source is OpenCL C (``.cl``) for NVRTC, which does not read it."""
        return self.name.endswith(".cl") and not capability.startswith(amdgpu.PREFIX)

    def all_options(self, capabilities: Sequence[str]) -> tuple[str, ...]:
        """Return the compiler's options, with those that translated OpenCL C needs."""
        is_translated = any(map(self.is_translated, capabilities))
        return (*opencl.OPTIONS, *self.options) if is_translated else self.options

    def given(self, capability: str, macros: Sequence[str] = ()) -> tuple[str, list[str]]:
        """Return the source and the options as the compiler takes them, with a variant's macros."""
        options = [*self.all_options([capability]), *macros]
        if not self.is_translated(capability):
            return self.source, options
        # A macro such as N may not reach what stands before the source.
        defined = [option[2:] for option in options if option.startswith("-D")]
        others = [option for option in options if not option.startswith("-D")]
        return opencl.as_cuda(self.source, self.name, defined), others

    def key(self, capability: str, macros: Sequence[str], launch: Launch) -> str:
        """Return the hash of everything that a variant's findings depend on."""
        counted = [__version__, self.trips, self.arguments, launch] if self.count else []
        parts = [*self.given(capability, macros), self.entry, capability, counted]
        version = compiler_for(capability).version
        return hashlib.sha256(json.dumps([version, *parts], sort_keys=True).encode()).hexdigest()


def compiler_for(capability: str) -> Compiler | amdgpu.Clang:
    """Return the compiler for a compute capability, or for a target of AMD such as ``gfx1100``."""
    return amdgpu.load() if capability.startswith(amdgpu.PREFIX) else load(capability)


@dataclass(frozen=True)
class Compiled:
    """The findings of a source's variants.

    Attributes
    ----------
    rows : list
        (compute capability, number of the variant, quantities) of each variant.
    n_compiled : int
        How many of a capability's variants were compiled; the others are filled from the nearest
        one, see :mod:`sweep.cuda.filling`.
    failures : list of str
        Why variants do not compile.
    uncounted : str
        Why instructions are not in the table, if they should be.
    """

    rows: list[tuple[str, int, dict[str, float]]]
    n_compiled: int
    failures: list[str]
    uncounted: str = ""


Progress = Callable[[Iterator[Any], int], Iterator[Any]]
"""Shows progress: takes an iterator and its length."""


def compile_all(
    task: Task,
    variants: Variants,
    capabilities: Sequence[str],
    *,
    most: int,
    processes: int | None = None,
    progress: Progress = lambda items, _: items,
) -> Compiled:
    """Compile the variants of a source for some compute capabilities.

    Parameters
    ----------
    task : Task
        The source.
    variants : Variants
        Its variants.
    capabilities : sequence of str
        Compute capabilities, such as ``"8.6"``, or AMD's targets, such as ``"gfx1100"``.
    most : int
        Variants to compile; if there are more, the others are filled from the nearest.
    processes : int, optional
        Processes at a time; all cores by default.
    progress : callable, optional
        Shows progress.

    Raises
    ------
    SweepError
        The compiler is missing or does not know a capability, or no variant compiles.
    """
    for capability in capabilities:
        task.given(capability)  # what cannot be translated is refused at once
        _check_capability(capability)
    blocks = {number: variants.block(number) for number in variants.sample(most)}
    # No GPU launches a larger block, so nothing is to be known of it.
    chosen = [n for n, block in blocks.items() if math.prod(block or ()) <= MOST_THREADS]
    if not chosen:
        raise SweepError(f"every variant has more than {MOST_THREADS:,} threads a block")
    macros = {n: [definition(*macro) for macro in variants[n].items()] for n in chosen}
    launches = {n: (blocks[n], variants.blocks(n)) for n in chosen}
    jobs = [(task, c, n, macros[n], launches[n]) for c in capabilities for n in chosen]
    ended = {found[:2]: found[2] for found in progress(_results(jobs, processes), len(jobs))}
    is_filled = len(variants) * len(capabilities) <= MOST_FILLED
    rows, failures = [], []
    for capability in capabilities:
        findings = {number: ended[capability, number] for number in chosen}  # in this order
        failures += [finding["error"] for finding in findings.values() if "error" in finding]
        for number, row in _filled(variants, capability, blocks.keys(), findings, is_filled):
            rows.append((capability, number, row))
    if not rows:
        raise SweepError(f"no variant compiles: {failures[0]}")
    reasons = [row[UNCOUNTED] for _, _, row in rows if UNCOUNTED in row]
    return Compiled(rows, len(blocks), failures, reasons[0] if reasons else "")


def _check_capability(capability: str) -> None:
    """Refuse a compute capability for which nothing can be compiled."""
    compiler = compiler_for(capability)
    if capability not in compiler.capabilities:
        known = ", ".join(compiler.capabilities)
        is_number = re.fullmatch(r"[0-9]\.[0-9]", capability) is not None
        is_amd = isinstance(compiler, amdgpu.Clang)
        is_old = is_number and float(capability) < LEAST_OF_NEW <= float(compiler.capabilities[0])
        raise SweepError(
            f"{compiler.version} does not compile for {capability}, but for {known}"
            + ", clang for AMD's, such as gfx942" * (not is_number and not is_amd)
            + f" (for {capability}: pip install {WHEELS[-1]})" * is_old
        )


def _filled(
    variants: Variants,
    capability: str,
    sampled: Collection[int],
    found: Mapping[int, dict[str, Any]],
    is_filled: bool,
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield numbers of variants with their findings; others have those of the nearest one.

    A sampled variant that does not compile or cannot be launched has none: its formulas apply.
    """
    good = [number for number, finding in found.items() if "error" not in finding]
    bad = {*sampled}.difference(good)
    filling = Filling(variants, capability)
    for number in range(len(variants)) if good and is_filled else good:
        if number not in bad:
            near = number if number in sampled else variants.nearest(number, good)
            exact = {"exact": float(near == number)} if len(sampled) < len(variants) else {}
            own = found[near] if near == number else filling.numbers(number, near, found[near])
            yield number, exact | own


def _results(jobs: Sequence[Any], processes: int | None) -> Iterator[tuple[str, int, Any]]:
    """Yield capability, variant and findings of each job as it ends."""
    processes = min(processes or os.cpu_count() or 1, len(jobs))
    if processes <= 1:
        yield from map(_compile, jobs)
        return
    # NVRTC keeps much of a compilation under one lock, so threads would wait for each other.
    try:
        yield from in_processes(_compile, jobs, processes, _leave_interrupts)
    except BrokenProcessPool:
        raise SweepError("a process with the compiler ended unexpectedly: try again") from None


def in_processes(
    function: Callable[[Any], Any],
    jobs: Sequence[Any],
    processes: int,
    initializer: Callable[[], None],
) -> Iterator[Any]:
    """Yield what a function makes of each job as it ends, in new processes.

    Raises
    ------
    BrokenProcessPool
        A process ended unexpectedly; the others of the pool have ended with it.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, context, initializer=initializer)
    futures = [pool.submit(function, job) for job in jobs]
    try:
        for future in as_completed(futures):
            yield future.result()
    except BaseException:
        for process in multiprocessing.active_children():
            process.terminate()  # a compilation may take minutes
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        futures.clear()
        del pool
        gc.collect()  # frees semaphores, of whose loss Python would warn at the end


def _leave_interrupts() -> None:
    """Leave Ctrl-C to the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _compile(job: tuple[Task, str, int, list[str], Launch]) -> tuple[str, int, Any]:
    """Return a variant's findings, or why it does not compile."""
    task, capability, number, macros, launch = job
    name = task.key(capability, macros, launch)
    if (content := kept(FOLDER, name, HEADER)) is not None:
        finding = json.loads(content)
    else:
        try:
            source, options = task.given(capability, macros)
            output = compiler_for(capability).compile(source, task.name, capability, options)
            finding = _findings(output, task, *launch)
        except SweepError as error:
            finding = {"error": f"{error} ({capability}: {' '.join(macros)})"}
        keep(FOLDER, name, HEADER, json.dumps(finding).encode())
    return capability, number, finding


def _findings(
    output: str | Output, task: Task, block: Block | None, blocks: int | None
) -> dict[str, Any]:
    """Return what machine code or PTX shows, or why its instructions cannot be counted."""
    found: dict[str, Any]
    if isinstance(output, str):
        kernel = amdgpu.kernel_in(output, task.entry)
        known = {**task.arguments, **({"blocks": blocks} if blocks else {})}
        of_code = partial(amdgpu.findings, kernel, block, known)
        found, count = of_code(count=False), partial(of_code, count=True)
    else:
        entry, found = resources(output.log, task.entry)
        count = partial(instructions, output.ptx, entry, task.trips, block, task.arguments, blocks)
    try:
        return {**found, **count()} if task.count else found
    except SweepError as error:
        return {**found, UNCOUNTED: str(error)}


# ---------------------------------------------------------------------------- the table


def table_text(task: Task, variants: Variants, compiled: Compiled) -> str:
    """Return the table that a kernel file can name, see :mod:`sweep.specs.compiled`."""
    total, sampled = len(variants), compiled.n_compiled
    share = "all" if sampled == total else f"{sampled:,} of"
    others = "the others have the nearest one's numbers in proportion to the formulas"
    if len({capability for capability, _, _ in compiled.rows}) * total > MOST_FILLED:
        others = "formulas serve the others, which are too many"
    filled = "" if sampled == total else f"; {others}"
    quantities = _quantities(compiled.rows)
    rows: dict[str, list[list[str]]] = {}
    for capability, number, found in compiled.rows:
        cells = [*variants[number].values(), *(found.get(name, "") for name in quantities)]
        rows.setdefault(capability, []).append([*map(cell, cells)])
    equal = _equal(rows)
    head = {
        "compiler": ", ".join({compiler_for(row[0]).version: 0 for row in compiled.rows}),
        "source": Path(task.name).name,
        "source_sha256": hashlib.sha256(task.source.encode()).hexdigest(),
        "options": " ".join(task.all_options(list(rows))) or "none",
        **{
            f"{name}s": ", ".join(f"{key} = {value:g}" for key, value in numbers.items())
            for name, numbers in (("trip", task.trips), ("argument", task.arguments))
            if numbers
        },
        "variants": f"{share} {total:,} compiled for each compute capability{filled}",
    }
    stood_in = [f"{own} compiled for {other} with {most} registers"
                for own, (other, most) in STANDS_IN.items() if own in rows]  # fmt: skip
    if stood_in:
        head[DERIVED] = ", ".join(stood_in)
    if equal:
        head[CAPABILITIES] = ", ".join(f"{c} as {equal[c]}" if c in equal else c for c in rows)
    written = (c for c in rows if c not in equal)
    lines = ([capability, *cells] for capability in written for cells in rows[capability])
    return csv_text(head, [[CAPABILITY, *variants.axes, *quantities], *lines])


def _quantities(rows: Sequence[tuple[str, int, Mapping[str, float]]]) -> list[str]:
    """Return the columns: those that all rows of one compiler have, in their usual order.

    Instructions are counted for all variants or for none; without any on matrix units they have no
    column.
    """
    found: set[str] = set()
    for is_amd in (False, True):
        own = [row for where, _, row in rows if where.startswith(amdgpu.PREFIX) == is_amd]
        found.update(name for name in QUANTITIES if own and all(name in row for row in own))
    if not any(row.get("matrix") for _, _, row in rows):
        found.discard("matrix")
    return [name for name in QUANTITIES if name in found]


def _equal(rows: Mapping[str, list[list[str]]]) -> dict[str, str]:
    """Return the capabilities whose rows are those of the nearest below, each with that one.

    The nearest one below serves a device that has no rows of its own.
    """
    found: dict[str, str] = {}
    below = ""
    for capability in sorted(rows, key=target_number):
        if below and rows[capability] == rows[below] and target_number(capability) < OF_AMD:
            found[capability] = below
        else:
            below = capability
    return found
