"""``sweep best | top | pareto | info | histogram | explain``: questions to a store or a plan."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from sweep import query
from sweep.cli.parser import call_with
from sweep.errors import QueryError, StoreError, TuningError, counted, printable
from sweep.importers.tuners.configurations import FORMS, text_of_form
from sweep.query import shown
from sweep.query.grid import grids_of
from sweep.query.texts import PIPE_WIDTH, LeftOut, NoResult, terminal_width, wrapped
from sweep.store.buckets import is_store, is_url, place_of
from sweep.store.root import inspect

if TYPE_CHECKING:
    from sweep.runs.record import Source
    from sweep.runs.workers import Workers
    from sweep.space import Space

COMPUTING = ("scheduler", "scheduler_file", "workers", "threads")
"""The arguments of :class:`sweep.runs.workers.Workers`, in order."""

INTERVAL = ("interval", "measured", "samples", "ranges")
"""The arguments about intervals of times."""


class ProgressBar:
    """A progress bar, which shows nothing where the error stream is not a terminal.

    Without a total it appears with the first progress, and anew for each question to a plan.
    """

    def __init__(
        self, unit: str, total: int | None = None, first: str = "compiling the models"
    ) -> None:
        self._unit, self._first = unit, first
        self._bar = None if total is None else self._appeared(total)

    def __call__(self, done: int, total: int, before: int = 0) -> None:
        """Show how much is done, of how much, and how much an earlier run had done."""
        if self._bar is None:
            self._bar = self._appeared(total)
        bar = self._bar
        if not bar.disable and bar.desc:
            bar.set_description_str(None, refresh=False)
        bar.initial = before  # excludes earlier runs from the rate
        bar.update(done - bar.n)
        if done >= total:
            self.close()

    def _appeared(self, total: int) -> Any:
        return tqdm(total=total, desc=self._first, unit=f" {self._unit}", unit_scale=True,
                    disable=None, leave=False)  # fmt: skip

    def close(self) -> None:
        """Remove it."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def place(name: str) -> Path:
    """Return the place of a store, which is a path or a URL."""
    return place_of(name) if is_url(name) else Path(name)


def open_data(name: str) -> Any:
    """Return the path of a store, or a plan's results, evaluated as they are read.

    Raises
    ------
    SweepError
        There is neither a store nor a plan of this name.
    """
    if is_store(name):
        return place(name)  # queries of a path use the store's index
    from sweep.evaluation.planned import Planned
    from sweep.runs.record import space_of

    return Planned(space_of(name), progress=ProgressBar("evaluations"))


@contextmanager
def planned(plan: Source, workers: Workers) -> Iterator[Any]:
    """Yield the results of a plan, which workers evaluate as they are read."""
    from sweep.evaluation.planned import Planned
    from sweep.runs.execute import on_cluster
    from sweep.runs.record import space_of
    from sweep.runs.workers import cluster

    results = Planned(space_of(plan), workers.threads, progress=ProgressBar("evaluations"))
    with cluster(workers) as client:
        if client is not None:
            results = replace(results, execute=partial(on_cluster, client, results.space))
        yield results


@contextmanager
def _asked(arguments: argparse.Namespace) -> Iterator[Any]:
    """Yield what a question is about: a store, or a plan and the workers that compute it."""
    options = {name: getattr(arguments, name) for name in COMPUTING}
    if is_store(arguments.data):
        for name, value in options.items():
            if value is not None:
                option = f"--{name.replace('_', '-')}"
                raise QueryError(f"{option}: only for plans, and '{arguments.data}' is a store")
        yield open_data(arguments.data)
        return
    from sweep.runs.workers import Workers

    with planned(arguments.data, Workers(*options.values())) as results:
        yield results


def _answer(
    arguments: argparse.Namespace, question: Callable[..., query.Answer], **more: Any
) -> query.Answer:
    """Return the answer to a question with the condition, selection and groups of the arguments."""
    with _asked(arguments) as data:
        select = query.parse_selection(arguments.select, data)
        answer = call_with(question, arguments, data, select=select, **more)
        return _with_interval(answer, arguments, data, select)


def _with_interval(
    answer: query.Answer, arguments: argparse.Namespace, data: Any, select: Mapping[str, Any]
) -> query.Answer:
    """Return the answer to a question with the interval that the arguments ask for, if any."""
    given = {name: getattr(arguments, name, None) for name in INTERVAL}
    percent = given.pop("interval")
    if percent is None:
        for name, value in given.items():
            if value is not None:
                raise QueryError(f"--{name.replace('ranges', 'range')}: only with --interval")
        return answer
    if 0.0 < percent < 1.0:
        raise QueryError(f"--interval {percent:g}: give per cent, such as 90")
    from sweep.uncertainty import with_intervals, with_measured_intervals

    if given["measured"] is not None:
        # All measured configurations calibrate, not only those of the part that was selected.
        whole = {name: value for name, value in select.items() if name in query.question.DEFAULT_BY}
        times = measured_times(given["measured"], None, data, whole)
        pairs = query.paired(data, times, select=whole)
        return with_measured_intervals(answer, pairs, percent / 100.0)
    source = arguments.data if is_store(arguments.data) else data.space
    return call_with(with_intervals, arguments, answer, source, percent / 100.0)


def best(arguments: argparse.Namespace) -> int:
    """Show the best configuration of every group, or those of small regret."""
    if arguments.most is not None and arguments.robust:
        raise QueryError("--most and --robust exclude each other: give one of them")
    if arguments.rename and arguments.format not in ("triton", "tilelang"):
        raise QueryError("--rename: only with --format triton or tilelang")
    if arguments.output is not None and arguments.format == "vllm":
        return _vllm_files(arguments)
    if arguments.robust:
        answer = _robust(arguments)
    elif arguments.most is not None:
        answer = _few(arguments)
    else:
        answer = _answer(arguments, query.best)
    if arguments.output is None:
        return show(answer, arguments)
    from sweep.importers.files import write_whole

    write_whole(Path(arguments.output), text_of(answer, arguments), overwrite=arguments.overwrite)
    print(f"wrote {arguments.output}")
    return 0


def _vllm_files(arguments: argparse.Namespace) -> int:
    """Write a file for each layer and device into a folder."""
    from sweep.importers.files import write_all
    from sweep.measurements.moe_files import moe_files

    _check_plain(arguments, "--format vllm with -o")
    if arguments.most is not None or arguments.robust:
        raise QueryError("--format vllm with -o: the best of each layer, no --most or --robust")
    folder = Path(arguments.output)
    if folder.exists() and not folder.is_dir():
        raise QueryError(f"{folder}: is not a folder; --format vllm writes files into one")
    found = over_problems(moe_files, arguments, query.parse_selection(arguments.select))
    folder.mkdir(parents=True, exist_ok=True)
    texts = {folder / name: text for name, text in found.texts.items()}
    write_all(texts, overwrite=arguments.overwrite)
    print("\n".join([*(f"note: {note}" for note in found.notes), *(f"wrote {p}" for p in texts)]))
    return 0


def _check_plain(arguments: argparse.Namespace, what: str) -> None:
    """Refuse what a choice over many problems does not know."""
    if arguments.interval is not None or arguments.where or arguments.include:
        raise QueryError(f"{what} takes no --where, --include or --interval")
    if arguments.objective != "execution_time" or arguments.sense:
        raise QueryError(f"{what} finds the smallest execution_time: no other objective")


def _few(arguments: argparse.Namespace) -> query.Answer:
    """Return few configurations that together lose least over many problems."""
    from sweep.runs.covering import best_few

    _check_plain(arguments, "--most")
    select = query.parse_selection(arguments.select)
    return over_problems(best_few, arguments, select)


def over_problems(
    function: Callable[..., Any],
    arguments: argparse.Namespace,
    select: Mapping[str, Any],
    *given: Any,
) -> Any:
    """Return what a function finds over the problems of a plan, or of a store's plan."""
    from sweep.runs.record import space_behind

    with closing(ProgressBar("evaluations")) as bar:
        space = space_behind(arguments.data)
        return call_with(function, arguments, space, *given, select=select, progress=bar)


def _robust(arguments: argparse.Namespace) -> query.Answer:
    """Return the configuration of smallest regret, and those to measure."""
    from sweep.uncertainty import robust

    if arguments.interval is not None or arguments.measured is not None:
        raise QueryError("--robust takes no --interval and --measured: it shows regrets instead")
    if arguments.objective != "execution_time" or arguments.sense or arguments.include:
        raise QueryError("--robust finds the smallest execution_time: no other objective")
    source, select = source_of(arguments)
    more = {} if arguments.candidates is None else {"n": arguments.candidates}
    return call_with(robust, arguments, source, select=select, **more)


def top(arguments: argparse.Namespace) -> int:
    """Show the N best configurations."""
    return show(_answer(arguments, query.top), arguments)


def pareto(arguments: argparse.Namespace) -> int:
    """Show the Pareto fronts."""
    names, senses = zip(*arguments.objectives, strict=True)
    return show(_answer(arguments, query.pareto, objectives=names, senses=senses), arguments)


def info(arguments: argparse.Namespace) -> int:
    """Show what results hold."""
    answer = _answer(arguments, query.summary)
    if arguments.format == "table" and is_store(arguments.data):
        print(_about(arguments.data))
    return show(answer, arguments)


def histogram(arguments: argparse.Namespace) -> int:
    """Count configurations by bin, or by meaning."""
    answer = _answer(arguments, query.histogram)
    show(answer, arguments)
    if arguments.figure is not None:
        from sweep.plot import histogram_plot, save

        save(histogram_plot(answer), arguments.figure, overwrite=arguments.overwrite)
        if arguments.format == "table":
            print(f"figure: {arguments.figure}")
    return 0


def explain(arguments: argparse.Namespace) -> int:
    """Show every intermediate of one configuration."""
    from sweep.explanation.explaining import explain as explain_configuration
    from sweep.runs.record import recorded_space

    data = open_data(arguments.data)
    space = recorded_space(arguments.data) if is_store(arguments.data) else data.space
    configuration = selection_of(arguments, data)
    answer = query.top(data, arguments.row, arguments.objective, select=configuration)
    if len(answer) >= arguments.row:
        configuration = answer[arguments.row - 1].configuration
    elif len(answer):
        raise QueryError(f"--row {arguments.row}: the selection has {counted(len(answer), 'row')}")
    else:  # none has a time: an explanation of any says why
        configuration = _first_of(space, configuration)
    if arguments.variant:
        space = replace(space, plan=replace(space.plan, variant=arguments.variant))
    explanation = explain_configuration(space, configuration)
    width = min(terminal_width(), PIPE_WIDTH)
    print(explanation.to_json() if arguments.format == "json" else explanation.to_text(width))
    return 0


def _first_of(space: Space, wanted: dict[str, Any]) -> dict[str, Any]:
    """Return a selection with the first value of what it leaves open in its kernel."""
    kernels = [k for k in space.kernels if wanted.get("kernel") in (None, k.kernel.key)]
    if len(kernels) != 1:
        return wanted
    first: dict[str, Any] = {}
    for dimension in kernels[0].grid.dimensions:
        if dimension.stacked is not None:
            first |= dimension.stacked[0]
        elif dimension.kind != "device" and not (  # a clock may be given in MHz or as a ratio
            dimension.is_clock and any(name.startswith(dimension.kind) for name in wanted)
        ):
            first[dimension.name] = dimension.values[0]
    return first | wanted


def measured_times(name: str, device: str | None, data: Any, select: dict[str, Any]) -> Any:
    """Return measured times; a file that names no device is of the only one that is asked for."""
    if Path(name).is_dir():
        return open_data(name)
    from sweep.measurements.importing import read_measured

    try:
        return read_measured([name], device=device)
    except TuningError:
        of_kernels = (grid.coordinates.get("device") for grid in grids_of(data))
        predicted = {str(d) for one in of_kernels if one is not None for d in one.values.ravel()}
        wanted = {select["device"]} if isinstance(select.get("device"), str) else predicted
        if device is not None or len(wanted) != 1:
            raise
        return read_measured([name], device=wanted.pop())


def source_of(arguments: argparse.Namespace) -> tuple[Source, dict[str, Any]]:
    """Return what determines the space that a command is about, and its selection."""
    data = open_data(arguments.data)
    source = arguments.data if is_store(arguments.data) else data.space
    return source, selection_of(arguments, data)


def selection_of(arguments: argparse.Namespace, data: Any) -> dict[str, Any]:
    """Return the selection of ``--kernel``, ``--device``, ``--model`` and NAME=VALUE words."""
    chosen = ((name, getattr(arguments, name, None)) for name in ("kernel", "device", "model"))
    words = [f"{name}={value}" for name, value in chosen if value is not None]
    return query.parse_selection([*arguments.select, *words], data)


def show(answer: query.Answer, arguments: argparse.Namespace) -> int:
    """Print an answer as a table that fits the output, or in the format that was asked for."""
    print(text_of(answer, arguments).rstrip("\n"))
    return 0


def text_of(answer: query.Answer, arguments: argparse.Namespace) -> str:
    """Return an answer as a table that fits the output, or in the format that was asked for."""
    columns = getattr(arguments, "columns", None)
    if columns:
        answer = answer.chosen(columns)
    if arguments.format == "json":
        return answer.to_json()
    if arguments.format == "csv":
        return answer.to_csv()
    if arguments.format in FORMS:
        return _list_of(answer, arguments)
    return shown.text(answer, wide=getattr(arguments, "wide", False), hint="all: --wide")


def _list_of(answer: query.Answer, arguments: argparse.Namespace) -> str:
    """Return the configurations of the rows with a result; which have none goes to stderr."""
    form, (rows, absent) = arguments.format, shown.with_result(answer)
    every = filter(None, (absent, *answer.notes))
    notes = [note for note in every if isinstance(note, NoResult | LeftOut)]
    if not rows:
        raise QueryError(f"--format {form}: {'; '.join(notes) or 'no row is left'}")
    source = getattr(arguments, "data", None) or getattr(arguments, "after", None)
    if form == "triton" and source:  # sizes in capitals, such as N, are no parameters
        from sweep.runs.record import space_behind

        with suppress(StoreError):  # measured times have no plan
            known = {n for one in space_behind(source).kernels for n in one.kernel.sizes}
            rows = [{n: v for n, v in row.items() if n not in known} for row in rows]
    text = text_of_form(form, rows, getattr(arguments, "rename", None))
    for note in notes:
        print(f"sweep: {printable(note)}", file=sys.stderr)
    return text


def _about(path: str) -> str:
    """Return the root record of a store in a few lines."""
    found = inspect(path)
    if "measured" in found.record:
        return f"{path}: measured times, from {', '.join(found.record['measured'])}\n"
    plan = found.record["plan"]
    state = "finished " + found.run["finished"] if found.is_finished else "unfinished"
    versions = ", ".join(f"{name} {v}" for name, v in found.record["versions"].items())
    version = f"sweep {found.record['identity']['sweep_version']} ({versions})"
    about = f"{path}: plan {plan['name']}, variant {plan['variant']}, {state}"
    return "\n".join([about, *wrapped(version, terminal_width()), ""])
