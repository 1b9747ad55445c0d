"""Bad input: one clear line, exit code 2, and nothing lost or half-written."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import zarr
from runs import plan, sweep, write_plan
from store_samples import digest
from store_samples import start as start_other_store

from sweep.cli import main
from sweep.errors import PlanError
from sweep.evaluate import evaluate_box
from sweep.fields import STATUS
from sweep.space import load_plan, resolve
from sweep.specs import data_root
from sweep.store import inspect
from sweep.workflows import run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Return the one line that a refused command says, without its ``sweep:``."""
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    error = capsys.readouterr().err
    assert code == 2, error
    assert error.startswith("sweep: ") and error.endswith("\n")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error.removeprefix("sweep: ").rstrip("\n")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"directory"
        for path in folder.rglob("*")
    }


# ---------------------------------------------------------------------------- plans

BAD_PLANS = {
    "misspelt key": ({"precison": "float64"}, r"precison: unknown key; did you mean 'precision'\?"),
    "misspelt axis": (
        {"axes": {"blok_size": [64]}},
        r"axes.blok_size: no kernel of the plan has .*; did you mean 'block_size'\?",
    ),
    "misspelt key of a range": (
        {"axes": {"block_size": {"start": 64, "stop": 128, "setp": 64}}},
        r"axes.block_size.setp: unknown key; did you mean 'step'\?",
    ),
    "misspelt model": (
        {"models": ["hong_kin"]},
        r"models: unknown 'hong_kin'; did you mean 'hong_kim'\?",
    ),
    "misspelt output": (
        {"outputs": ["excution_time"]},
        r"outputs: unknown variable 'excution_time'; did you mean 'execution_time'\?",
    ),
    "misspelt kernel of axes": (
        {"kernel": {"sepa": {"block_size": [64]}}},
        r"kernel.sepa: the plan has no such kernel; did you mean 'sepia'\?",
    ),
    "misspelt name in a constraint": (
        {"constraints": ["blok_size > 64"]},
        r"constraints: `blok_size > 64`: .* 'blok_size'; did you mean 'block_size'\?",
    ),
    "missing device": (
        {"devices": ["gtx_208"]},
        r"devices: no device 'gtx_208'; did you mean 'gtx_280'\?",
    ),
    "missing file": ({"devices": ["./mine.toml"]}, r"devices: mine.toml: no such file"),
    "no devices": ({"devices": None}, "devices is missing"),
    "empty list of devices": ({"devices": []}, "devices is empty"),
    "device twice": ({"devices": ["gtx_280", "gtx_280"]}, "devices names something twice"),
    "empty axis": ({"axes": {"block_size": []}}, r"axes.block_size: the axis is empty"),
    "empty range": (
        {"axes": {"block_size": {"start": 128, "stop": 64, "step": 32}}},
        r"axes.block_size: the axis is empty, stop = 64 is below start = 128",
    ),
    "step of nothing": (
        {"axes": {"block_size": {"start": 1, "stop": 2, "step": 1e-320}}},
        r"axes.block_size: inf values, more than 10,000,000; is the step right\?",
    ),
    "value twice": ({"axes": {"block_size": [64, 64]}}, "axes.block_size: the value 64 stands twi"),
    "mixed axis": (
        {"axes": {"block_size": [64, "128"]}},
        "axes.block_size: the axis mixes numbers and strings",
    ),
    "word for a number": (
        {"axes": {"block_size": ["64"]}},
        "axes.block_size = '64': the kernel file has values like",
    ),
    "integer beyond float64": (
        {"axes": {"block_size": [10**40]}},
        r"axes.block_size: an integer beyond 2\*\*53",
    ),
    "clock in Hz": (
        {"axes": {"core_clock": [1.3e9]}},
        r"axes.core_clock = 1300000000.0: a clock must be 1 to 20000 MHz",
    ),
    "ratio in MHz": (
        {"axes": {"core_clock_ratio": [1300]}},
        r"axes.core_clock_ratio = 1300: .* 0.01 to 100 of nominal; for values in MHz write core_cl",
    ),
    "unit's suffix where none belongs": (
        {"axes": {"core_clock_MHz": [1300]}},
        r"axes.core_clock_MHz: .*; did you mean 'core_clock'\?",
    ),
    "both forms of a clock": (
        {"axes": {"core_clock": [1300], "core_clock_ratio": [1.0]}},
        "axes: give core_clock or core_clock_ratio, not both",
    ),
    "negative size": ({"axes": {"width": [-1]}}, r"axes.width = -1: a problem size is above 0"),
    "import in a constraint": (
        {"constraints": ["__import__('os')"]},
        r"constraints: `__import__\('os'\)`: .* at column 1",
    ),
    "attribute in a constraint": (
        {"constraints": ["block_size.real > 0"]},
        r"constraints: `block_size.real > 0`: attribute access is not allowed at column 11",
    ),
    "number of many digits": (
        {"constraints": [f"{'9' * 3000} > 1"]},
        r"constraints: .* longer than 2000 characters",
    ),
    "unknown option": (
        {"options": {"hong_kim": {"latency": "long"}}},
        "options.hong_kim.latency: unknown option",
    ),
    "options of no table": ({"options": {"hong_kim": 3}}, "options.hong_kim = 3: needs a table"),
    "newer schema": ({"schema": 2}, "schema = 2: this version reads schema = 1"),
    "name with a path": ({"name": "../small"}, r"name = '../small': needs a word"),
    "description of no text": ({"description": 3}, "description = 3: needs a text"),
    "store of no path": ({"store": True}, "store = True: a path, or false for none"),
    "chunks of nothing": ({"chunk_points": 0}, "chunk_points = 0: a whole number from 1 on"),
}


@pytest.mark.parametrize(("changes", "message"), BAD_PLANS.values(), ids=BAD_PLANS)
def test_plan(folder, capsys, changes, message):
    write_plan(folder / "bad.toml", **changes)
    before = contents(folder)
    line = refused(capsys, "run", "bad.toml")
    assert line.startswith("bad.toml: ")
    assert pytest.raises(PlanError, match=f"^bad.toml: {message}", check=None) if False else True
    import re

    assert re.match(f"bad.toml: {message}", line), line
    assert contents(folder) == before
