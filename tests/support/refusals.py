"""Check that a command is refused with one line and leaves nothing on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweep.cli import main


def refused(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    """Return the single line that a refused command prints, without ``sweep:``."""
    capsys.readouterr()
    try:
        code = main([str(a) for a in arguments])
    except SystemExit as stop:
        code = stop.code
    out, error = capsys.readouterr()
    assert code == 2, error
    assert not out or arguments[0] == "run", out  # a run describes its plan first
    assert error.startswith("sweep: ") and error.endswith("\n")
    assert error.count("\n") == 1
    assert "Traceback" not in error
    return error.removeprefix("sweep: ").rstrip("\n")


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"directory"
        for path in folder.rglob("*")
    }
