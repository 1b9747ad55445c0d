"""The compiled passes against the same equations in C++, translated from their source."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from sweep.models import model_names


@pytest.fixture(scope="module")
def limit():
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        module = importlib.import_module("benchmarks.limit")
    finally:
        sys.path.pop(0)
    if module.compiler() is None:
        pytest.skip("no C++ compiler on this machine")
    return module


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["clocks", "nominal"])
@pytest.mark.parametrize("model", model_names())
def test_smallest_time_is_that_of_cpp(limit, model, kind, tmp_path):
    """To the bit, of some hundred thousand configurations; the row is refused where they differ."""
    row = limit.limit_row(kind, model, 100_000, 1, tmp_path)
    assert row[0].startswith(f"smallest time, {model}, {kind}")
