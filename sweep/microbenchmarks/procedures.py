"""All procedures, and the file in which their samples are kept."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
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
    wang_chu_2017,
    zhang_owens_2011,
)
from sweep.microbenchmarks.case import Case, Facts, Sample, Samples, Value, checked

PROCEDURES = (
    latencies, copies, lemeire_2016, zhang_owens_2011, launches, hong_kim_2009, luo_suda_2011,
    wang_chu_2017,
)  # fmt: skip
"""In the order in which they run: what most models read comes first."""

MARK = "sweep micro-benchmarks"


def all_cases(facts: Facts) -> list[Case]:
    """Return what all procedures launch."""
    return [case for procedure in PROCEDURES for case in procedure.cases(facts)]


def all_values(samples: Samples) -> list[Value]:
    """Return what all procedures find in samples."""
    for sample in samples.found:
        checked(sample)
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
        Something is missing, or of another type.
    """
    place = "gpu"
    try:
        facts = _made(Facts, document["gpu"])
        for key, number in dataclasses.asdict(facts).items():
            if isinstance(number, float | int) and not number > 0:
                raise ValueError(f"{key} of {number:g}: must be above 0")
        found = []
        for number, one in enumerate(document["samples"]):
            place = f"samples[{number}]"
            found.append(_made(Sample, one))
        return Samples(facts, tuple(found)), str(document.get("version", ""))[:20]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise SweepError(f"{place}: {type(error).__name__}: {str(error)[:80]}") from None


def _made(kind: type[Any], given: dict[str, Any]) -> Any:
    """Return a dataclass of texts, numbers, lists of numbers and counts."""
    readers: dict[str, Callable[[Any], Any]] = {
        "str": str,
        "int": int,
        "float": float,
        "bool": bool,
        "tuple[float, ...]": lambda numbers: tuple(map(float, numbers)),
        "Mapping[str, float]": lambda counts: {str(k): float(v) for k, v in counts.items()},
    }
    return kind(**{f.name: readers[str(f.type)](given[f.name]) for f in dataclasses.fields(kind)
                   if f.name in given})  # fmt: skip
