"""Settings that every test shares."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Set before NumPy is imported: threads cost more than they gain in small matrices, above all where
# all cores are busy. A fit of power takes a third of the time.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Set before matplotlib is imported, so that figures work on machines without a screen.
os.environ["MPLBACKEND"] = "Agg"

# Tables have the width that they have in a pipe, whatever terminal the tests are started from.
os.environ.pop("COLUMNS", None)

# Compiled passes are kept in the clone for the next test run.
if "SWEEP_CACHE_DIR" not in os.environ:
    os.environ["SWEEP_CACHE_DIR"] = str(Path(__file__).parents[1] / ".pytest_cache" / "compiled")

import pytest
from hypothesis import HealthCheck, settings

# A shell's background job ignores Ctrl-C. The commands that tests interrupt would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Every run has the same examples without a time limit, because a busy machine or a first
# compilation must not fail a test. HYPOTHESIS_PROFILE=explore tries new examples each time.
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


COMPILED = {"compiler", "evaluation", "models", "query", "runs", "tests"}
"""Folders of tests in which compiled passes evaluate even small results. Elsewhere, and in commands
that tests start in processes of their own, NumPy does as for users: some of these tests hold that
to be the same to the bit, and compilation took most of the others' time."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compile or do not compile before fixtures evaluate anything."""
    from sweep.evaluation import limits

    limits.UNCOMPILED = 0 if item.path.parent.name in COMPILED else 1 << 22


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Passes are compiled in this test: machine code from disk cannot be inspected."""
    from sweep.compiler import passes

    monkeypatch.setenv("SWEEP_CACHE_DIR", "")
    passes._built.cache_clear()
    yield
    passes._built.cache_clear()


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> list[tuple]:
    """The kernels and boxes that lazy results, runs and extensions evaluate from now on."""
    from sweep.evaluation import planned
    from sweep.runs import extending, job

    seen: list[tuple] = []
    evaluate_box = job.evaluate_box

    def counting(space, given, box, *rest, **options):
        seen.append((space.kernel.key, box))
        return evaluate_box(space, given, box, *rest, **options)

    for module in (planned, job, extending):
        monkeypatch.setattr(module, "evaluate_box", counting)
    return seen


@pytest.fixture(scope="session")
def bucket_server() -> Iterator[str]:
    """The address of an S3 server with one bucket."""
    from support.buckets import s3_server

    with s3_server() as address:
        yield address


@pytest.fixture
def network(bucket_server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The way to that server, for this process and those that it starts."""
    from support.buckets import KEYS, Network

    from sweep.store import buckets

    network = Network(bucket_server)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": network.address}.items():
        monkeypatch.setenv(name, value)
    buckets._client.cache_clear()
    yield network
    buckets._client.cache_clear()
    network.close()


@pytest.fixture
def url(network: Any, request: pytest.FixtureRequest) -> str:
    """A place of its own for each test."""
    from support.buckets import BUCKET

    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    return f"s3://{BUCKET}/{name}/a.zarr"
