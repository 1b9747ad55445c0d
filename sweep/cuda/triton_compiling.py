"""Compile the configurations of a Triton kernel in parallel; no GPU is needed.

What Triton and its ptxas make of a configuration is kept between runs, under the hash of the
kernel's source and of everything else that it depends on.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import signal
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from sweep.cuda.compiling import Progress, in_processes
from sweep.cuda.configurations import Setting, Variant, check_configurations
from sweep.cuda.findings import resources
from sweep.cuda.triton import MOST_WORDS, OPTIONS, Config, Job, first_line, import_triton, kernel_of
from sweep.disk_cache import drop_oldest, keep, kept
from sweep.errors import SweepError
from sweep.importers.ptx.module import capability_of

FOLDER = "triton"
"""Where results are kept, in the directory of compiled passes."""

HEADER = b"sweep results of Triton 2\n"
_TENSOR_MEMORY = 512
"""Columns of tensor memory of a multiprocessor (Blackwell)."""


def compile_all(
    jobs: Sequence[Job],
    configs: Sequence[Config],
    *,
    processes: int | None = None,
    progress: Progress = lambda items, _: items,
) -> list[Variant]:
    """Return the variants of a kernel, also those that do not compile.

    Parameters
    ----------
    jobs : sequence of Job
        What is to be compiled.
    configs : sequence of mapping
        The configuration of each job; several targets repeat them.
    processes : int, optional
        Processes at a time; all cores by default.
    progress : callable, optional
        Shows progress: takes an iterator and its length.

    Raises
    ------
    SweepError
        None compiles.
    """
    known = {job.key: kept(FOLDER, job.key, HEADER) for job in jobs}
    found: dict[str, dict[str, Any]] = {k: json.loads(c) for k, c in known.items() if c is not None}
    waiting = [job for job in jobs if job.key not in found]
    for key, result in progress(_results(waiting, processes or os.cpu_count() or 1), len(waiting)):
        found[key] = result
        if not result.pop("again", False):
            keep(FOLDER, key, HEADER, json.dumps(result).encode())
    drop_oldest(FOLDER)
    results = [found[job.key] for job in jobs]
    if all("error" in result for result in results):
        raise SweepError(f"no configuration compiles: {results[0]['error']}")
    shown = [name for name in OPTIONS if name in ("num_warps", "num_stages")
             or len({config[name] for config in configs}) > 1]  # fmt: skip
    variants = []
    for job, config, result in zip(jobs, configs, results, strict=True):
        settings = {name: _setting(value) for name, value in config.items()
                    if name not in OPTIONS or name in shown}  # fmt: skip
        words = " ".join(f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}"
                         for k, v in settings.items())  # fmt: skip
        found_of = {k: float(v) for k, v in result.get("found", {}).items()}
        variants.append(Variant(words, result.get("ptx", ""), settings, found_of,
                                result.get("error", ""), capability_of(job.target)))  # fmt: skip
    check_configurations(variants)
    return variants


def _setting(value: Any) -> Setting:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return float(value)
    return 0.0 if value is None else str(value)


def _results(jobs: Sequence[Job], processes: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the hash and the result of each job as it ends, in processes of their own."""
    if not jobs:
        return
    left = {job.key: job for job in jobs}
    try:
        for key, result in in_processes(_compile, jobs, min(processes, len(jobs)), _be_quiet):
            left.pop(key, None)
            yield key, result
    except BrokenProcessPool:  # a compiler that crashes takes the others of its pool with it
        for job in left.values():
            try:
                yield from in_processes(_compile, [job], 1, _be_quiet)
            except BrokenProcessPool:
                yield job.key, {"error": "the compiler ended unexpectedly", "again": True}


def _be_quiet() -> None:
    """Leave Ctrl-C to the process that started this one, and drop what compilers print."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def _compile(job: Job) -> tuple[str, dict[str, Any]]:
    """Return the PTX of a configuration and what ptxas reports, or why it does not compile."""
    triton = import_triton()
    printed = io.StringIO()
    try:
        backends = importlib.import_module("triton.backends.compiler")
        function = kernel_of(job.place).function
        source = triton.compiler.ASTSource(
            fn=function, signature=dict(job.signature), constexprs=dict(job.constants),
            attrs={(place,): [["tt.divisibility", 16]] for place in job.divisible},
        )  # fmt: skip
        target = backends.GPUTarget("cuda", int(job.target.removeprefix("sm_")), 32)
        triton.knobs.nvidia.dump_ptxas_log = True
        triton.knobs.compilation.always_compile = True  # so that there is a log
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = triton.compile(source, target=target, options=dict(job.options))
    except SweepError:
        raise
    except Exception as error:
        # What the machine lacks (a program, room on the disk, memory) may be there the next time.
        return job.key, {"error": _reason(error), "again": isinstance(error, OSError | MemoryError)}
    columns = getattr(made.metadata, "tmem_size", 0)
    if columns and columns > _TENSOR_MEMORY:
        return job.key, {"error": f"{columns} columns of tensor memory, {_TENSOR_MEMORY} at most"}
    _, found = resources(printed.getvalue(), made.metadata.name)
    found["shared_bytes"] += made.metadata.shared
    return job.key, {"ptx": made.asm["ptx"], "found": found}


def _reason(error: Exception) -> str:
    """Return why a configuration does not compile, in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    of_ptxas = [line for line in lines if re.match(r"ptxas.*(error|fatal)", line)]
    line = (of_ptxas or lines[-1:] or [""])[0]
    cause = error.__cause__
    if not of_ptxas and isinstance(cause, Exception) and str(cause).strip():
        line = first_line(cause)
    return f"{type(error).__name__}: {line}"[:MOST_WORDS]
