"""Check whether a model predicts times for a kernel on a device, and if not, why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweep.evaluation import evaluate_box
from sweep.explanation.explaining import explain
from sweep.fields import STATUS
from sweep.space import KernelSpace, Plan, resolve

__all__ = ["Applicability", "applicability"]


@dataclass(frozen=True)
class Applicability:
    """How many of a kernel's configurations have a time, and why the others do not.

    Attributes
    ----------
    statuses : mapping
        Number of configurations with each status.
    reason : str
        Why the first configuration with the most frequent status has no time; ``""`` if any
        configuration has a time.
    """

    statuses: Mapping[str, int]
    reason: str

    @property
    def valid(self) -> int:
        """Number of configurations that have a time."""
        return self.statuses.get("valid", 0)

    @property
    def total(self) -> int:
        """Number of configurations."""
        return sum(self.statuses.values())


def applicability(kernel: str, device: str, model: str, derive: bool = True) -> Applicability:
    """Evaluate all configurations of a kernel file at its own sizes and the nominal clocks.

    Parameters
    ----------
    kernel, device : str
        Names or paths.
    model : str
        A registered model.
    derive : bool
        Whether parameters that the device lacks are derived.

    Raises
    ------
    SweepError
        A name is unknown, or a file is wrong.
    """
    plan = Plan((kernel,), (device,), (model,), derive=derive, outputs=("status",))
    space = resolve(plan).kernels[0]
    counts: Counter[str] = Counter()
    first: dict[str, tuple[int, ...]] = {}
    for box in space.grid.boxes():
        status = evaluate_box(space, plan, box)["status"][0]
        for code in np.unique(status):
            word = STATUS.meaning(int(code))
            found = status == code
            counts[word] += int(np.count_nonzero(found))
            inside = np.unravel_index(int(np.argmax(found)), status.shape)
            at = tuple(int(i) + start for i, start in zip(inside, box.start, strict=True))
            first.setdefault(word, at)
    if counts["valid"]:
        return Applicability(dict(counts), "")
    word = max(counts, key=lambda name: counts[name])
    notes = explain(plan, _configuration(space, first[word])).sections[0].notes
    return Applicability(dict(counts), notes[0])


def _configuration(space: KernelSpace, at: tuple[int, ...]) -> dict[str, Any]:
    """Return the configuration at one point of the grid, by name."""
    found: dict[str, Any] = {}
    for dimension, i in zip(space.grid.dimensions, at, strict=True):
        if dimension.stacked is None:
            found[dimension.name] = dimension.values[i]
        else:  # a list of configurations
            part = slice(i, i + 1)
            found |= {n: dimension.stacked.column(n, part)[0] for n in dimension.stacked.axes}
    return found
