"""``sweep best | top | pareto | info | histogram | explain``: questions to a store or a plan."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweep import query
from sweep.errors import QueryError
from sweep.store import is_store, is_url, place_of

if TYPE_CHECKING:
    from sweep.runs.workers import Workers
    from sweep.space import Space

__all__ = [
    "asked",
    "best",
    "explain",
    "histogram",
    "info",
    "names_in",
    "open_data",
    "pareto",
    "planned",
    "question_of",
    "selection_of",
    "show",
    "top",
]


def open_data(name: str) -> Any:
    """Return the path of a store, or a plan's results, evaluated as they are read.

    Raises
    ------
    SweepError
        There is neither a store nor a plan of this name.
    """
    if is_store(name):
        # Queries of a path use the store's index.
        return place_of(name) if is_url(name) else Path(name)
    from sweep.cli.progress import ReductionBar
    from sweep.evaluation.planned import Planned
    from sweep.space import load_plan

    return Planned.of(load_plan(name), progress=ReductionBar())


@contextmanager
def planned(space: Space, workers: Workers) -> Iterator[Any]:
    """Yield the results of a space, computed by whom one likes as they are asked for."""
    from sweep.cli.progress import ReductionBar
    from sweep.evaluation.planned import Planned
    from sweep.runs.execute import on_cluster
    from sweep.runs.workers import cluster

    with cluster(workers) as client:
        distribute = None if client is None else on_cluster(client)
        yield Planned(space, workers.threads, distribute, ReductionBar())


@contextmanager
def asked(arguments: argparse.Namespace) -> Iterator[Any]:
    """Yield what a question is put to: a store, or a plan and those who compute it."""
    options = ("scheduler", "scheduler_file", "workers", "threads")
    given = [getattr(arguments, name) for name in options]
    if is_store(arguments.data):
        for name, value in zip(options, given, strict=True):
            if value is not None:
                raise QueryError(
                    f"--{name.replace('_', '-')}: '{arguments.data}' is a store, whose results "
                    "are there: only plans are computed"
                )
        yield open_data(arguments.data)
        return
    from sweep.runs.workers import Workers
    from sweep.space import load_plan, resolve

    workers = Workers(*given)
    with planned(resolve(load_plan(arguments.data)), workers) as results:
        yield results


def best(arguments: argparse.Namespace) -> int:
    """Show the best configuration of every group."""
    with asked(arguments) as data:
        answer = query.best(data, arguments.objective, **_ranked(arguments, data))
    return show(answer, arguments.format)


def top(arguments: argparse.Namespace) -> int:
    """Show the N best configurations."""
    with asked(arguments) as data:
        answer = query.top(data, arguments.n, arguments.objective, **_ranked(arguments, data))
    return show(answer, arguments.format)


def pareto(arguments: argparse.Namespace) -> int:
    """Show the Pareto fronts."""
    names, senses = [], []
    for word in arguments.objectives.split(","):
        name, _, sense = word.strip().partition(":")
        if sense not in ("", "min", "max"):
            raise QueryError(f"--objectives: '{word}': write VARIABLE, VARIABLE:min or :max")
        names.append(name)
        senses.append(sense or "min")
    with asked(arguments) as data:
        answer = query.pareto(data, names, senses, **question_of(arguments, data))
    return show(answer, arguments.format)


def info(arguments: argparse.Namespace) -> int:
    """Show what results hold."""
    with asked(arguments) as data:
        question = question_of(arguments, data)
        question.pop("include", None)
        if arguments.format == "table" and is_store(arguments.data):
            print(_about(arguments.data))
        answer = query.summary(data, **question)
    return show(answer, arguments.format)


def histogram(arguments: argparse.Namespace) -> int:
    """Count configurations by bin, or by meaning."""
    if arguments.include:
        raise QueryError("--include: a histogram has no further variables")
    options: dict[str, Any] = {"log": arguments.log}
    if arguments.bins is not None:
        options["bins"] = arguments.bins
    if arguments.range is not None:
        options["within"] = _range_of(arguments.range)
    with asked(arguments) as data:
        question = question_of(arguments, data)
        answer = query.histogram(data, arguments.variable, **options, **question)
    if arguments.figure is not None:
        from sweep.plot import histogram_plot, save

        save(histogram_plot(answer), arguments.figure)
    show(answer, arguments.format)
    if arguments.figure is not None and arguments.format == "table":
        print(f"figure: {arguments.figure}")
    return 0


def _range_of(text: str) -> tuple[float, float]:
    low, _, high = text.partition(":")
    try:
        return float(low), float(high)
    except ValueError:
        raise QueryError(f"--range '{text}': two numbers in base units, LOW:HIGH") from None


def explain(arguments: argparse.Namespace) -> int:
    """Show every intermediate of one configuration."""
    from sweep.explanation.explaining import explain as explain_configuration
    from sweep.runs.record import recorded_space
    from sweep.space import load_plan, resolve

    if arguments.row < 1:
        raise QueryError(f"--row {arguments.row}: rows are counted from 1")
    data = open_data(arguments.data)
    if is_store(arguments.data):
        space = recorded_space(arguments.data)
    else:
        space = resolve(load_plan(arguments.data))
    configuration = selection_of(arguments, data)
    answer = query.top(data, arguments.row, arguments.objective, select=configuration)
    if len(answer) >= arguments.row:
        configuration = answer[arguments.row - 1].configuration
    elif len(answer):
        raise QueryError(f"--row {arguments.row}: the selection has {len(answer)} rows")
    explanation = explain_configuration(space, configuration)
    print(explanation.to_json() if arguments.format == "json" else explanation.to_text())
    return 0


def selection_of(arguments: argparse.Namespace, data: Any) -> dict[str, Any]:
    """Return the selection of ``--kernel``, ``--device``, ``--model`` and NAME=VALUE words."""
    words = list(arguments.select)
    for name in ("kernel", "device", "model"):
        given = getattr(arguments, name, None)
        if given is not None:
            words.append(f"{name}={given}")
    return query.parse_selection(words, data)


def question_of(arguments: argparse.Namespace, data: Any) -> dict[str, Any]:
    """Return what a question's arguments say: condition, selection, groups, further variables."""
    question: dict[str, Any] = {
        "where": arguments.where,
        "select": query.parse_selection(arguments.select, data),
    }
    if arguments.by is not None:
        question["by"] = names_in(arguments.by)
    if arguments.include:
        question["include"] = names_in(arguments.include)
    return question


def _ranked(arguments: argparse.Namespace, data: Any) -> dict[str, Any]:
    """Return the same for questions that minimise or maximise."""
    return {"sense": "max" if arguments.max else "min", **question_of(arguments, data)}


def names_in(text: str | None) -> tuple[str, ...]:
    """Return the names in a list with commas."""
    return tuple(name.strip() for name in (text or "").split(",") if name.strip())


def show(answer: query.Answer, form: str) -> int:
    """Print an answer as a table, JSON or CSV."""
    text = {"table": answer.to_table, "json": answer.to_json, "csv": answer.to_csv}[form]()
    print(text.rstrip("\n"))
    return 0


def _about(path: str) -> str:
    """Return the root record of a store in a few lines."""
    from sweep.store import inspect

    found = inspect(path)
    if "measured" in found.record:
        return f"{path}: measured times, from {', '.join(found.record['measured'])}\n"
    plan = found.record["plan"]
    state = "finished " + found.run["finished"] if found.is_finished else "unfinished"
    versions = ", ".join(f"{name} {v}" for name, v in found.record["versions"].items())
    return (
        f"{path}: plan {plan['name']}, variant {plan['variant']}, {state}\n"
        f"sweep {found.record['identity']['sweep_version']} ({versions})\n"
    )
