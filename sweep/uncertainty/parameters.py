"""Numbers of a device and a kernel that may be off, and how far."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from sweep.errors import QueryError, nearest
from sweep.expressions import Expression
from sweep.models import get_model
from sweep.specs import Device, Kernel
from sweep.specs.compiled import LookUp
from sweep.specs.formats import DEVICE, INSTRUCTION_CLASSES, Key, split_unit, to_base

KERNEL = "kernel: "
"""Begins the name of a parameter that stands in the kernel's file."""

DEVIATION = "deviation"
"""Stands for the kind of source where the device's file gives a standard deviation."""

EXACT = ("clocks", "occupancy", "power", "host_link")
"""Tables of a device file that are not varied: settings, limits, and what no time rests on."""

WIDEST = 0.99
"""Widest share: a number stays positive."""

_COUNTS = {
    "instructions": ("computation", *INSTRUCTION_CLASSES),
    "stage": ("computation", *INSTRUCTION_CLASSES),
    "global_access": ("count", "transactions", "l1_hit_rate", "l2_hit_rate"),
    "shared_access": ("count", "transactions"),
    "cache": ("l2_hit_rate",),
    "parallelism": ("instruction", "memory"),
}
"""Tables of a kernel file and the keys in them that are counts or shares and may be off."""

_COMPARED = re.compile(r"(\w+) *(?:[!=]=|%|//)|(?:[!=]=|%|//) *(\w+)")
_FLAG = re.compile(r"[01] if .* else [01]")


@dataclass(frozen=True)
class Uncertain:
    """A number of a file that may be off.

    Attributes
    ----------
    name : str
        Its dotted path in the device's file; ``kernel: `` and the path for the kernel's.
    kind : str
        Kind of its source, or ``deviation`` where the device file gives a standard deviation.
    share : float
        Half the width of its range over its value [1].
    value : float or None
        The value in the file's unit; None for a formula of the kernel's file.
    """

    name: str
    kind: str
    share: float
    value: float | None = None

    @property
    def path(self) -> str:
        """Its dotted path in its file."""
        return self.name.removeprefix(KERNEL)

    @property
    def is_of_kernel(self) -> bool:
        """Whether the kernel's file has it."""
        return self.name.startswith(KERNEL)


@cache
def shares() -> Mapping[str, float]:
    """Return the default range by kind of source, from ``ranges.toml``."""
    text = Path(__file__).with_name("ranges.toml").read_text("utf-8")
    return {kind: float(table["share"]) for kind, table in tomllib.loads(text).items()}


def uncertain(
    device: Device, kernel: Kernel, model: str, ranges: Mapping[str, float] | None = None
) -> tuple[Uncertain, ...]:
    """Return the numbers behind a model's times that may be off.

    Parameters
    ----------
    device : Device
        As its file describes it.
    kernel : Kernel
        The workload.
    model : str
        The model, whose own parameters are varied where the device's file gives them.
    ranges : mapping, optional
        By the name of a number or the kind of its source: half the width of the range over the
        value, from 0 (exact) to 0.99. What is left out has its default.

    Raises
    ------
    QueryError
        A name or a range is wrong, or nothing is left that may be off.
    """
    wanted, found = dict(ranges or {}), []
    every = (*_of_device(device, model), *_of_kernel(kernel))
    names = [*shares(), *(one.name for one in every)]
    for name, share in wanted.items():
        if name not in names:
            hint = nearest(name, names) or f" (kinds of sources: {', '.join(shares())})"
            raise QueryError(f"range of '{name}': no number of that name may be off{hint}")
        if not 0 <= share <= WIDEST:
            raise QueryError(f"range of '{name}' = {share:g}: a share of the value, 0 to {WIDEST}")
    for one in every:
        share = wanted.get(one.name, wanted.get(one.kind, one.share))
        if share > 0:
            found.append(replace(one, share=share))
    if not found:
        raise QueryError("all numbers are exact: no range is above 0")
    return tuple(found)


def _of_device(device: Device, model: str) -> Iterator[Uncertain]:
    """Yield what may be off in a device's file: no counts, no clocks."""
    for table, section in DEVICE.items():
        for key in section.keys:
            value = device.values.get(f"{table}.{key.stem}")
            if value and key.type == "number" and table not in EXACT and not _is_read(device, key):
                yield _of_value(device, key.path, value / to_base(1.0, key.name))
    for path in device.sources:
        if path.startswith("assumed."):  # what no file says (`sweep.space.with_assumed`)
            yield _of_value(device, path, device.values[split_unit(path)[0]])
    for parameter in get_model(model).parameters:
        own = device.model_parameters.get(model, {}).get(parameter.key)
        if isinstance(own, float) and own:
            yield _of_value(device, f"model.{model}.{parameter.key}", own)


def _is_read(device: Device, key: Key) -> bool:
    """Return whether a key is the clock while it was measured, and something said it then."""
    path = "microbenchmark.core_clock_MHz"
    return key.path == path and device.sources[path].kind != "assumed"


def _of_value(device: Device, path: str, value: float) -> Uncertain:
    if device.deviations.get(path):  # the even distribution of the same deviation; 0: none was seen
        share = min(math.sqrt(3.0) * device.deviations[path] / abs(value), WIDEST)
        return Uncertain(path, DEVIATION, share, value)
    kind = device.sources[path].kind
    return Uncertain(path, kind, shares()[kind], value)


def _of_kernel(kernel: Kernel) -> Iterator[Uncertain]:
    """Yield what may be off in a kernel's file: counts and shares, and derived names with a source.

    A derived name without a source of its own is a step of a formula: what uses it is varied. One
    that is a whole number (1 or 0, compared by ``==``, or divided by ``%``) is not off by a share.
    """
    texts = " ; ".join(expression.text for _, expression in kernel.all_expressions())
    compared = {name for pair in _COMPARED.findall(texts) for name in pair}
    for path, expression in kernel.all_expressions():
        table, _, rest = path.partition(".")
        if table == "derived":
            is_whole = rest in compared or _FLAG.fullmatch(expression.text)
            counts = path in kernel.sources and not (is_whole or isinstance(expression, LookUp))
        else:
            counts = rest.rpartition(".")[2] in _COUNTS.get(table, ())
        value = None if expression.names else _constant(expression)
        if counts and value != 0.0:
            kind = kernel.source_of(path).kind
            yield Uncertain(f"{KERNEL}{path}", kind, shares()[kind], value)


def _constant(expression: Expression) -> float | None:
    value, fault = expression.evaluate({})
    is_number = value.dtype.kind == "f" and not fault.any()
    return float(value) if is_number and math.isfinite(float(value)) else None
