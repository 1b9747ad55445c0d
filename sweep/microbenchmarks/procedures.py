"""All procedures, and the file in which their samples are kept."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

from sweep import __version__
from sweep.errors import SweepError
from sweep.microbenchmarks import (
    copies,
    hong_kim_2009,
    latencies,
    launches,
    lemeire_2016,
    luo_suda_2011,
    pieces,
    wang_chu_2017,
    zhang_owens_2011,
)
from sweep.microbenchmarks.case import LIMIT, WARP, Case, Facts, Sample, Samples, Value, checked
from sweep.specs.check import is_number

PROCEDURES = (
    latencies, copies, pieces, lemeire_2016, zhang_owens_2011, launches, hong_kim_2009,
    luo_suda_2011, wang_chu_2017,
)  # fmt: skip
"""In the order in which they run: what most models read comes first."""

MARK = "sweep micro-benchmarks"

RANGES = {"sm_count": (1, 1e4), "max_threads_per_sm": (WARP, 1e5), "memory_bytes": (1 << 20, LIMIT),
          "core_nominal": (1, 1e6), "memory_nominal": (1, 1e6)}  # fmt: skip
"""What a GPU can have, where it is not just above 0: procedures take time with the first two."""


def all_cases(facts: Facts) -> list[Case]:
    """Return what all procedures launch."""
    return [case for procedure in PROCEDURES for case in procedure.cases(facts)]


def all_values(samples: Samples) -> list[Value]:
    """Return what all procedures find in samples."""
    return [value for procedure in PROCEDURES for value in procedure.values(samples)]


def as_json(samples: Samples) -> str:
    """Return the file of samples."""
    document = {
        "tool": MARK,
        "version": __version__,
        "gpu": dataclasses.asdict(samples.facts),
        "samples": [dataclasses.asdict(sample) for sample in samples.found],
    }
    return json.dumps(document, indent=1) + "\n"


def from_json(document: Any) -> tuple[Samples, str]:
    """Return the samples of a file, and the version that wrote it.

    Raises
    ------
    SweepError
        Something is missing, of another type, or not of the procedure that it is said to be of.
    """
    given = document.get("samples") if isinstance(document, dict) else None
    if not isinstance(given, list):
        raise SweepError("samples: must be a list")
    facts: Facts = _made(Facts, document.get("gpu"), "gpu")
    for key, number in dataclasses.asdict(facts).items():
        least, most = RANGES.get(key, (1.0, LIMIT))
        if isinstance(number, float | int) and not least <= number <= most:
            raise SweepError(f"gpu: {key} of {number:g}: must be from {least:g} to {most:g}")
    if not re.fullmatch(r"\d{1,2}\.\d", facts.capability):
        raise SweepError(f"gpu: capability of '{facts.capability[:20]}': must be as '9.0'")
    usual = {(case.procedure, case.name.split()[0]): case for case in all_cases(facts)}
    found: list[Sample] = []
    names: set[tuple[str, str]] = set()
    for number, one in enumerate(given):
        sample: Sample = checked(_made(Sample, one, f"samples[{number}]"))
        name = sample.procedure, sample.name
        place = f"samples[{number}]: {', '.join(name)}"
        case = usual.get((sample.procedure, sample.name.partition(" ")[0]))
        if case is None:
            raise SweepError(f"{place}: no such case of this procedure on this GPU")
        for key, count in case.counts.items():
            if key not in sample.counts:
                raise SweepError(f"{place}: counts: no '{key}'")
            if not (1 / LIMIT < sample.counts[key] < LIMIT or sample.counts[key] == count):
                raise SweepError(f"{place}: {key} of {sample.counts[key]:g}: must be above 0")
        if not sample.is_extra and name in names:
            raise SweepError(f"{place}: twice: two runs, or two GPUs, in one file?")
        names.add(name)
        found.append(sample)
    return Samples(facts, tuple(found)), str(document.get("version", ""))[:20]


_WORDS = {"str": "a text", "bool": "true or false", "tuple[float, ...]": "a list of numbers",
          "Mapping[str, float]": "an object of numbers"}  # fmt: skip
"""What fields are by their types; a number otherwise."""


def _made(kind: type[Any], given: Any, place: str) -> Any:
    """Return a dataclass of texts, numbers, lists of numbers and counts."""
    if not isinstance(given, dict):
        raise SweepError(f"{place}: must be an object")
    values = {}
    for field in dataclasses.fields(kind):
        if field.name in given:
            of = str(field.type)
            values[field.name] = _read(of, given[field.name])
            if values[field.name] is None:
                raise SweepError(f"{place}: {field.name} must be {_WORDS.get(of, 'a number')}")
        elif field.default is dataclasses.MISSING:
            raise SweepError(f"{place}: no '{field.name}'")
    return kind(**values)


def _read(kind: str, given: Any) -> Any:
    """Return a field's value, ``None`` for another type than the field's."""
    match kind, given:
        case ("str", str()) | ("bool", bool()):
            return given
        case "int" | "float", _ if is_number(given):
            return int(given) if kind == "int" else float(given)
        case "tuple[float, ...]", list() if all(map(is_number, given)):
            return tuple(map(float, given))
        case "Mapping[str, float]", dict() if all(map(is_number, given.values())):
            return {key: float(number) for key, number in given.items()}
    return None
