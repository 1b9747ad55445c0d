"""How the tests of the papers call a model and hold numbers to a paper's."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sweep.evaluation.chunk import evaluate_box
from sweep.space import Plan, resolve


def call(paper: ModuleType, variant: str, inputs: Mapping[str, Any]) -> dict[str, float]:
    """Return a model's results for one configuration, by name; ``regime`` as a word."""
    model = paper.MODEL
    found = model.evaluate(variant, inputs)
    words = {code: word.removeprefix(f"{model.name}_") for word, code in model.regimes.items()}
    return found | {"regime": words[found["regime"]]}


def evaluated(kernel: str, device: str, model: str, texts: Any = None, **keys: Any) -> dict:
    """Return a kernel's results by name, without dimensions of length 1; keys are the plan's."""
    plan = Plan([kernel], [device], [model], precision="float64", **keys)
    (space,) = resolve(plan, texts).kernels
    found = evaluate_box(space, plan, space.grid.whole)
    return {name: np.squeeze(values) for name, values in found.items()}


def exact(value: Any) -> Any:
    """A number of exact arithmetic: right but for the rounding of a few operations."""
    return pytest.approx(value, rel=1e-13, abs=0)


def digits(value: float, unit: float) -> Any:
    """A printed number: right to half a unit of its last digit."""
    return pytest.approx(value, rel=0, abs=unit / 2 * (1 + 1e-9))
