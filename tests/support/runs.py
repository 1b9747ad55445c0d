"""Small plans, and ways to run them in this process or on the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from sweep.space import Plan, parse_plan

ROOT = Path(__file__).resolve().parents[2]

SMALL: dict[str, Any] = {
    "schema": 1,
    "name": "small",
    "kernels": ["sepia", "mat_tiled"],
    "devices": ["gtx_280", "gtx_980_paper"],
    "models": ["hong_kim"],
    "derive": False,
    # 60 configurations of sepia in 30 chunks, 24 of mat_tiled in 12.
    "chunk_points": 2,
    "axes": {
        "block_size": [64, 128, 192, 256, 2000],
        "tile": [8, 16],
        "core_clock_ratio": [0.9, 1.0, 1.1],
        "memory_clock_ratio": [0.95, 1.0],
    },
}
"""All tests that evaluate use this model with these outputs, so that a process compiles once."""

POINTS, CHUNKS = 84, 42

FEW: dict[str, Any] = {
    "kernels": ["mat_tiled"],
    "outputs": ["execution_time"],
    "axes": {"tile": [8, 16], "core_clock_ratio": [0.9, 1.0]},
}
"""Changes that leave eight configurations."""


def plan(**changes: Any) -> Plan:
    """Return the small plan with changes; the value ``None`` removes a key."""
    return parse_plan(changed(**changes))


def changed(**changes: Any) -> dict[str, Any]:
    return {key: value for key, value in {**SMALL, **changes}.items() if value is not None}


def write_plan(path: Path, **changes: Any) -> Path:
    """Write the small plan as TOML; its name is the file's."""
    data = changed(**{"name": path.stem, **changes})
    tables = {key: data.pop(key) for key in list(data) if isinstance(data[key], dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in data.items()]
    for key, table in tables.items():
        for name, value in table.items():
            lines.append(f"{key}.{name} = {_toml(value)}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        inside = ", ".join(f"{key} = {_toml(part)}" for key, part in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


def command(*arguments: str | Path) -> list[str]:
    """Return the command line of ``sweep``, with warnings as errors."""
    code = "import sys; from sweep.cli import main; sys.exit(main())"
    return [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process that imports the package and what tests share."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]), **more}


def python(*arguments: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run Python with this checkout, and return its exit code and what it printed."""
    line = [sys.executable, *map(str, arguments)]
    return subprocess.run(line, cwd=cwd, env=environment(**more), capture_output=True, text=True)


def sweep(*arguments: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``sweep`` on the command line."""
    return python(*command(*arguments)[1:], cwd=cwd, **more)


def journal(store: Path) -> list[dict[str, Any]]:
    """Return the journal's entries; a chunk is finished if and only if it has one."""
    text = (store / "chunk_index" / "journal.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()[1:]]


def finished_chunks(store: Path) -> int:
    """Return the number of chunks in the journal; 0 if there is none yet."""
    try:
        return (store / "chunk_index" / "journal.jsonl").read_bytes().count(b"\n") - 1
    except FileNotFoundError:
        return 0


class Stop(BaseException):
    """Interrupts a run from its progress function."""


def stop_after(chunks: int) -> Any:
    """Return a progress function that stops a run after some chunks."""
    calls = iter(range(chunks + 1))

    def progress(*_: int) -> None:
        if next(calls) == chunks:
            raise Stop

    return progress
