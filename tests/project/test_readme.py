"""The README is correct: commands, outputs, examples, tables, links."""

from __future__ import annotations

import doctest
import io
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest
from support.readme_tables import README, ROOT, TABLES, tables_in

from sweep.cli import main
from sweep.cli.parser import parse
from sweep.specs import parse_kernel

TEXT = README.read_text(encoding="utf-8")
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

VARYING = ((r"in \d+\.\d s", "in # s"), (r"[\d.]+ MB on disk", "# MB on disk"))
"""Patterns in outputs that depend on the machine, and their replacements."""


def blocks(language: str, text: str = TEXT) -> list[str]:
    """Return the fenced blocks of a language, in order."""
    return [body for found, body in FENCED.findall(text) if found == language]


def section(title: str) -> str:
    """Return a section from its heading to the next."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


# ---------------------------------------------------------------------------- install, tests


def test_one_line_sets_up_and_runs():
    (block,) = blocks("sh", section("Install and run"))
    (line,) = block.splitlines()
    assert line.startswith("python3 -m venv .venv && ")
    assert "-r requirements.lock" in line
    assert line.endswith(".venv/bin/sweep run quickstart")


def test_tests_section_begins_with_the_command():
    first = FENCED.search(section("Tests"))
    assert first is not None
    install, _, command = first[2].splitlines()[0].partition(" && ")
    assert install == ".venv/bin/pip install -q -r requirements-tests.lock"
    assert command == ".venv/bin/python -m pytest"


def test_python_versions_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = [c.rpartition(" ")[2] for c in project["classifiers"] if ":: Python :: 3." in c]
    assert re.findall(r"3\.\d\d", section("Install and run"))[: len(declared)] == declared


# ---------------------------------------------------------------------------- examples


@pytest.mark.slow
def test_python_examples_give_what_they_say(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for number, block in enumerate(blocks("python")):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", "README.md", 0)
        assert test.examples
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.summarize(verbose=False).failed == 0


def test_the_kernel_file_is_right():
    (block,) = blocks("toml")
    kernel = parse_kernel(block, "saxpy")
    assert set(kernel.parameters) == {"block_size"}


def commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of every ``sweep`` command in a block of a shell."""
    for line in text.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[:1] == ["sweep"]:
            yield words[1:]


@pytest.mark.parametrize("path", [README, CONTRIBUTING], ids=lambda path: path.name)
def test_commands_exist(path):
    text = path.read_text(encoding="utf-8")
    for block in (*blocks("sh", text), *blocks("console", text)):
        for arguments in commands(block):
            if arguments != ["COMMAND", "--help"]:
                parse(arguments)


# ---------------------------------------------------------------------------- outputs


def cleaned(text: str) -> str:
    """Return lines without varying parts and without the widths of columns."""
    for pattern, instead in VARYING:
        text = re.sub(pattern, instead, text)
    lines = text.strip("\n").splitlines()
    return "".join(f"{re.sub('(?<=[ -])[ -]+', '', line).strip()}\n" for line in lines)


def matches(shown: str, printed: str) -> bool:
    """Return whether a text was printed; a line ``...`` matches any number of lines."""
    lines = cleaned(shown).splitlines(keepends=True)
    pattern = "".join("(?:.*\n)*?" if line == "...\n" else re.escape(line) for line in lines)
    return re.fullmatch(pattern, cleaned(printed)) is not None


def printed_by(arguments: list[str], directory: Path) -> str:
    """Run a command in a directory and return what it prints."""
    with chdir(directory), redirect_stdout(io.StringIO()) as stream:
        assert main(arguments) == 0
    return stream.getvalue()


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    """Return the working directory of all commands, with the files that they need."""
    folder = tmp_path_factory.mktemp("readme")
    data = ROOT / "tests" / "data"
    for path in (*(data / "profiles").glob("nvprof_*.csv"), data / "dvfs" / "applications.csv"):
        (folder / path.name).write_bytes(path.read_bytes())
    first = next(commands(blocks("sh", section("From a profile to other clocks"))[0]))
    printed_by(first, folder)
    return folder


@pytest.fixture(scope="module")
def quickstart(place) -> str:
    """Return the output of the quickstart; the other commands use its store."""
    return printed_by(["run", "quickstart"], place)


@pytest.mark.slow
def test_quickstart_prints_what_is_shown(quickstart, place):
    (shown,) = blocks("text", section("Install and run"))
    assert matches(shown, quickstart), quickstart
    assert (place / "quickstart.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("console"), ids=lambda block: block.split()[2])
def test_command_prints_what_is_shown(block, quickstart, place):
    (arguments,) = commands(block)
    printed = printed_by(arguments, place)
    assert matches(block.partition("\n")[2], printed), printed


# ---------------------------------------------------------------------------- tables


@pytest.mark.parametrize("name", TABLES)
def test_table_is_in_step_with_the_package(name):
    """``python tests/support/readme_tables.py`` updates them."""
    assert tables_in(TEXT)[name] == TABLES[name]()


def test_every_public_name_is_listed():
    import sweep

    for name in sweep.__all__:
        assert name == "__version__" or f"`sweep.{name}" in tables_in(TEXT)["functions"], name
