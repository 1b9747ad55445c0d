"""One report for all tests, and a browser that shows it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support import runs

from sweep.cli import main
from sweep.runs.running import run

CLOCKS = [0.9, 0.95, 1.0, 1.05, 1.1, 1.15]
CHANGES = {
    "models": ["hong_kim", "wang_chu"],
    "derive": None,
    "chunk_points": None,
    "axes": {
        "block_size": [64, 128, 192, 256, 320, 2000],
        "tile": [4, 8, 16],
        "core_clock_ratio": CLOCKS,
        "memory_clock_ratio": CLOCKS,
    },
}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture
def changes() -> dict:
    return CHANGES


@pytest.fixture(scope="package")
def store(tmp_path_factory) -> Path:
    """A store of 3,240 configurations: one device without power, blocks that are too large."""
    plan = runs.plan(**CHANGES)
    path = tmp_path_factory.mktemp("report") / "small.zarr"
    run(plan, path)
    return path


@pytest.fixture(scope="package")
def report(store) -> Path:
    path = store.with_name("report.html")
    assert main(["report", str(store), "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="package")
def opened(report):
    """The report in a headless browser, with its messages and requests."""
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("needs a browser on the path, such as Debian's package chromium")
    with driver.sync_playwright() as tool:
        started = tool.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        tab = started.new_page(viewport={"width": 1250, "height": 900})
        messages: list[str] = []
        requests: list[str] = []
        tab.on("console", lambda message: messages.append(message.text))
        tab.on("pageerror", lambda error: messages.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto(report.as_uri())
        tab.evaluate("sweepReport.ready")
        yield tab, messages, requests
        started.close()
