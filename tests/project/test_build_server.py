"""The commands of the workflow for build servers, run in a repository with a change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import sweep

README = Path(__file__).resolve().parents[2] / "README.md"
WORKFLOW = Path(sweep.__file__).parent / "recipes" / "github_performance.yml"

PLAN = """
schema = 1
name = "guard"
kernels = ["./saxpy.toml"]
devices = ["gtx_280", "gtx_980"]
models = ["hong_kim", "wang_chu"]

[axes]
block_size = [64, 128, 256]
"""


def steps() -> dict[str, str]:
    (job,) = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))["jobs"].values()
    return {step["name"]: step["run"] for step in job["steps"] if "run" in step}


@pytest.fixture
def repository(tmp_path):
    """Provide a repository in which steps of the workflow run, and whose last commit can change."""
    shim = tmp_path / "bin" / "sweep"
    shim.parent.mkdir()
    code = "import sys; from sweep.cli import main; sys.exit(main())"
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
    shim.chmod(0o755)
    place = tmp_path / "repository"
    place.mkdir()
    names = ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL")
    root = str(Path(sweep.__file__).resolve().parents[1])
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        **dict.fromkeys(names, "test"),
        "PATH": f"{shim.parent}:{os.environ['PATH']}",
        "PYTHONPATH": root,
        "BASE": "HEAD~1",
    }

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=place, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    text = README.read_text(encoding="utf-8")
    found = re.search(r"^```toml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    (place / "plan.toml").write_text(PLAN)
    (place / "saxpy.toml").write_text(found[1])
    run("git init -q . && git add -A && git commit -qm before").check_returncode()

    def changed(old: str, new: str) -> None:
        assert old in found[1]
        (place / "saxpy.toml").write_text(found[1].replace(old, new))
        run("git add -A && git commit -q --allow-empty -m after").check_returncode()

    return run, changed, place


def words(table: str) -> list[list[str]]:
    """Return the words of a table's lines, ignoring the widths of columns and the tolerance."""
    return [
        line.split() for line in table.splitlines() if line and line[:4] not in ("----", "3 of")
    ]


@pytest.mark.slow
def test_slower_kernel_fails_the_build(repository):
    run, changed, place = repository
    changed("registers_per_thread = 10", "registers_per_thread = 96")
    predicted = run(steps()["predict"])
    assert predicted.returncode == 0, predicted.stderr
    compared = run(steps()["compare"])
    assert compared.returncode == 1
    assert (place / "changes.png").stat().st_size > 10_000
    shown = re.search(
        r"^```text\n\$ sweep compare before.zarr after.zarr\n(.*?)"
        r"^\$ (sweep compare before.zarr after.zarr --list 1)\n(.*?)^\.\.\.\n```$",
        README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL,
    )  # fmt: skip
    assert shown is not None
    listed = run(shown[2]).stdout
    assert words(shown[1]) == words(compared.stdout)
    assert words(shown[3]) == words(listed)[: len(words(shown[3]))]


@pytest.mark.slow
def test_harmless_change_passes_the_build(repository):
    run, changed, _ = repository
    changed("y = a x + y", "y = a * x + y")
    assert run(steps()["predict"]).returncode == 0
    compared = run(steps()["compare"])
    assert compared.returncode == 0, compared.stdout
    assert "0 of 4 groups are slower" in compared.stdout
