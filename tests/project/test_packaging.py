"""The wheel and the source distribution are complete, and work outside the checkout."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("devices", "kernels_spec")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def build(target: str, source: Path, destination: Path) -> Path:
    """Build the wheel or the sdist of ``source`` without network or isolation."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(destination)],
        cwd=source,
        capture_output=True,
        text=True,
        check=False,
    )
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
    install = ["install", "-q", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run(
        [sys.executable, "-m", "pip", *install, "--target", str(target), str(wheel)], check=True
    )
    return target


def run_installed(installed: Path, cwd: Path, *command: str) -> str:
    """Run ``command`` outside the checkout, with the unpacked wheel first on the path."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SWEEP_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env=environment | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_wheel_holds_every_spec(wheel, kind):
    shipped = {f"sweep/_data/{kind}/{path.name}" for path in (ROOT / kind).glob("*.toml")}
    assert shipped
    assert shipped <= names_in(wheel)


@pytest.mark.slow
def test_wheel_holds_the_package_data(wheel):
    files = [
        path for path in (ROOT / "sweep").rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    assert {path.relative_to(ROOT).as_posix() for path in files} <= names_in(wheel)
    assert any((ROOT / "sweep" / "plans").glob("*.toml"))


@pytest.mark.slow
def test_wheel_holds_nothing_else(wheel):
    roots = {name.split("/")[0] for name in names_in(wheel)}
    assert roots == {"sweep", f"sweep-{PROJECT['version']}.dist-info"}


@pytest.mark.slow
def test_sdist_gives_the_same_wheel(wheel, tmp_path):
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        # 3.11.0 to 3.11.3 have no filters.
        archive.extractall(
            tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {})
        )
    source = tmp_path / sdist.name.removesuffix(".tar.gz")
    for name in (
        "tests/conftest.py",
        "requirements.lock",
        "requirements-tests.lock",
        "CHANGELOG.md",
        "LICENSE",
    ):
        assert (source / name).is_file(), name
    assert names_in(build("wheel", source, tmp_path / "again")) == names_in(wheel)


@pytest.mark.slow
def test_installed_wheel_lists_every_spec(installed, tmp_path):
    code = (
        "import json, sweep, sweep.specs as s;"
        "print(json.dumps([sweep.__file__, s.list_devices(), s.list_kernels()]))"
    )
    file, devices, kernels = json.loads(run_installed(installed, tmp_path, "-c", code))
    assert Path(file).is_relative_to(installed)
    assert sorted(devices) == sorted(path.stem for path in (ROOT / "devices").glob("*.toml"))
    assert sorted(kernels) == sorted(path.stem for path in (ROOT / "kernels_spec").glob("*.toml"))


@pytest.mark.slow
def test_installed_command_answers(installed, tmp_path):
    script = str(installed / "bin" / "sweep")
    assert "usage" in run_installed(installed, tmp_path, script, "--help").lower()


def test_version_is_written_once():
    import sweep

    assert sweep.__version__ == importlib.metadata.version("sweep") == PROJECT["version"]
    assert f"\nversion: {PROJECT['version']}\n" in (ROOT / "CITATION.cff").read_text(
        encoding="utf-8"
    )


def pins_of(name):
    """Return the pinned requirements of a lock, in order."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-tests.lock"])
def test_lock_is_portable(name):
    pins = pins_of(name)
    assert all("==" in pin and not {"/", "@"} & set(pin) for pin in pins)


@pytest.mark.parametrize(
    ("name", "extras"),
    [("requirements.lock", ["editable"]), ("requirements-tests.lock", ["editable", "test"])],
)
def test_lock_holds_every_direct_dependency(name, extras):
    optional = PROJECT["optional-dependencies"]
    requirements = [*PROJECT["dependencies"], *(r for extra in extras for r in optional[extra])]
    pinned = {pin.partition("==")[0] for pin in pins_of(name)}
    assert {r.split(">=")[0].partition("[")[0] for r in requirements} <= pinned


def test_tests_run_with_the_versions_that_users_get():
    assert set(pins_of("requirements.lock")) <= set(pins_of("requirements-tests.lock"))
