"""The wheel and the source distribution are complete, and work outside the checkout."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from support.runs import ROOT, python

KINDS = ("devices", "kernels_spec")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def build(target: str, source: Path, destination: Path) -> Path:
    """Build the wheel or the sdist of ``source`` without network or isolation."""
    done = python("-m", "hatchling", "build", "-t", target, "-d", destination, cwd=source)
    assert done.returncode == 0, done.stderr
    (built,) = destination.iterdir()
    return built


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    options = ["-q", "--no-deps", "--no-index", "--no-compile", "--target", target]
    python("-m", "pip", "install", *options, wheel, cwd=ROOT).check_returncode()
    return target


def run_installed(installed: Path, cwd: Path, *command: str) -> str:
    """Run ``command`` outside the checkout, with the unpacked wheel first on the path."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SWEEP_", "PYTHON"))}
    env = environment | {"PYTHONPATH": str(installed)}
    line = [sys.executable, *command]
    done = subprocess.run(line, cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_holds_the_package_and_every_spec_and_nothing_else(wheel):
    files = [p for p in (ROOT / "sweep").rglob("*") if p.is_file() and p.suffix != ".pyc"]
    shipped = {path.relative_to(ROOT).as_posix() for path in files}
    assert any(name.startswith("sweep/plans/") and name.endswith(".toml") for name in shipped)
    for kind in KINDS:
        specs = {f"sweep/_data/{kind}/{path.name}" for path in (ROOT / kind).glob("*.toml")}
        assert specs
        shipped |= specs
    assert shipped <= names_in(wheel)
    roots = {name.split("/")[0] for name in names_in(wheel)}
    assert roots == {"sweep", f"kernel_sweep-{PROJECT['version']}.dist-info"}


@pytest.mark.slow
def test_sdist_gives_the_same_wheel(wheel, tmp_path):
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        has_filters = hasattr(tarfile, "data_filter")  # 3.11.0 to 3.11.3 have none
        archive.extractall(tmp_path, **({"filter": "data"} if has_filters else {}))
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    locks = ("requirements.lock", "requirements-tests.lock")
    for name in ("tests/conftest.py", *locks, "CHANGELOG.md", "LICENSE"):
        assert (source / name).is_file(), name
    assert names_in(build("wheel", source, tmp_path / "again")) == names_in(wheel)


@pytest.mark.slow
def test_installed_wheel_lists_every_spec_and_its_command_answers(installed, tmp_path):
    code = (
        "import json, sweep, sweep.specs as s;"
        "print(json.dumps([sweep.__file__, s.list_devices(), s.list_kernels()]))"
    )
    file, *listed = json.loads(run_installed(installed, tmp_path, "-c", code))
    assert Path(file).is_relative_to(installed)
    for kind, names in zip(KINDS, listed, strict=True):
        assert sorted(names) == sorted(path.stem for path in (ROOT / kind).glob("*.toml"))
    script = str(installed / "bin" / "sweep")
    assert "usage" in run_installed(installed, tmp_path, script, "--help").lower()


def test_version_is_written_once():
    import sweep

    assert sweep.__version__ == importlib.metadata.version("kernel-sweep") == PROJECT["version"]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {PROJECT['version']}\n" in citation


def pins_of(name):
    """Return the pinned requirements of a lock, in order."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("name", "extras"),
    [
        ("requirements.lock", ["editable"]),
        ("requirements-tests.lock", ["docs", "editable", "test"]),
    ],
)
def test_lock_is_portable_and_holds_every_direct_dependency(name, extras):
    pins, optional = pins_of(name), PROJECT["optional-dependencies"]
    assert all("==" in pin and not {"/", "@"} & set(pin) for pin in pins)
    requirements = [*PROJECT["dependencies"], *(r for extra in extras for r in optional[extra])]
    pinned = {pin.partition("==")[0] for pin in pins}
    assert {r.split(">=")[0].partition("[")[0] for r in requirements} <= pinned


def test_tests_run_with_the_versions_that_users_get():
    assert set(pins_of("requirements.lock")) <= set(pins_of("requirements-tests.lock"))


def test_no_text_installs_the_other_project_of_this_name():
    """On the package index ``sweep`` is somebody else's; ours is ``kernel-sweep``."""
    command = re.compile(
        r"\b(?:install|download|add|uvx|inject)\s+(?:-\S+\s+)*(?:\\?[\"'`])?sweep(?![\w./-])"
    )
    extras = "|".join(PROJECT["optional-dependencies"])
    extra = re.compile(rf"(?<![\w-])sweep\\?\[(?:{extras})")
    assert command.search("pip install -q 'sweep'") and extra.search("pip install 'sweep[s3]'")
    assert not command.search("install kernel-sweep") and not extra.search("kernel-sweep[s3]")
    kinds = {".py", ".md", ".toml", ".yml", ".yaml", ".ipynb", ".cff", ".lock", ".cfg", ".sh"}
    folders = ("sweep", "docs", "notebooks", "benchmarks", ".github", "kernels_spec")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    for path in [*files, *ROOT.glob("*.*")]:
        if path.suffix not in kinds or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8")
        found = command.search(text) or extra.search(text)
        assert not found, f"{path.relative_to(ROOT)}: {found[0]!r}"
    assert PROJECT["name"] == "kernel-sweep"
