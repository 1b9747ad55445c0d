"""The site builds from docs/ without a warning, with what it takes from the package."""

import re
import subprocess
import sys

import pytest
from support.pages import DOCS, README

import sweep
from sweep.cli.parser import build_parser

pytest.importorskip("sphinx")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-d", folder / "trees"]
    built = subprocess.run([*command, DOCS, folder / "html"], capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.slow
def test_every_page_is_built_and_no_mark_is_left(site):
    for page in DOCS.rglob("*.md"):
        html = (site / page.relative_to(DOCS).with_suffix(".html")).read_text(encoding="utf-8")
        assert "generated:" not in html, page


@pytest.mark.slow
def test_models_are_documented_by_themselves(site):
    for name in sweep.model_names():
        model = sweep.get_model(name)
        html = (site / "models" / f"{name}.html").read_text(encoding="utf-8")
        for code in {**model.errata, **model.revisions}:
            assert f"<strong>{code}</strong>" in html, (name, code)
        for parameter in model.parameters:
            assert parameter.key in html, (name, parameter.key)
    html = (site / "models" / "hong_kim.html").read_text(encoding="utf-8")
    assert "Mem_p + Comp_cycles * N" in re.sub(r"<[^>]+>", "", html)  # equation (3)


@pytest.mark.slow
def test_commands_keys_and_functions_are_listed(site):
    pages = {p.stem: p.read_text(encoding="utf-8") for p in (site / "reference").glob("*.html")}
    (commands,) = (action.choices for action in build_parser()._actions if action.choices)
    assert all(f"<h2>{name}<" in pages["cli"] for name in commands)
    assert "registers_per_thread" in pages["kernel_files"]
    assert "memory_bandwidth_GBps" in pages["device_files"]
    public = [name for name in sweep.__all__ if name != "__version__"]
    assert all(f'id="sweep.{name}"' in pages["api"] for name in public)


def test_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 250
