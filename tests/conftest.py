"""Settings that every test shares."""

from __future__ import annotations

import os

# Before anything imports matplotlib: figures go to files, on machines without a screen too.
os.environ["MPLBACKEND"] = "Agg"

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every run and no limit on an example's time: a busy machine or a first
# compilation must not fail a test. HYPOTHESIS_PROFILE=explore looks further, differently each time.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark executed notebooks as slow: a notebook cannot carry a marker itself."""
    for item in items:
        if item.path.suffix == ".ipynb":
            item.add_marker(pytest.mark.slow)
