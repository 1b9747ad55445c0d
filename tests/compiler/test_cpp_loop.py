"""The compiled passes against the same equations in C++, translated from their source."""

import pytest

from benchmarks import limit
from sweep.models import model_names


@pytest.mark.slow
@pytest.mark.skipif(limit.compiler() is None, reason="no C++ compiler on this machine")
@pytest.mark.parametrize("kind", ["clocks", "nominal"])
@pytest.mark.parametrize("model", model_names())
def test_smallest_time_is_that_of_cpp(model, kind, tmp_path):
    """To the bit, of some hundred thousand configurations; the row is refused where they differ."""
    row = limit.limit_row(kind, model, 100_000, 1, tmp_path)
    assert row[0].startswith(f"smallest time, {model}, {kind}")
