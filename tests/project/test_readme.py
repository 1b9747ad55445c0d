"""The README and the pages of docs/ are correct: commands, outputs, examples, tables.

After a change of outputs that is meant, write the new ones into the pages by
``SWEEP_UPDATE_EXAMPLES=1 python -m pytest tests/project/test_readme.py``, and read them.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import tomllib
from contextlib import chdir, redirect_stdout
from difflib import SequenceMatcher
from pathlib import Path

import pytest
from support.pages import (
    DOCS,
    FENCED,
    PAGES,
    README,
    ROOT,
    TEXTS,
    all_blocks,
    blocks,
    commands,
    section,
    shown_files,
)
from support.readme_tables import TABLES, tables_in

import sweep
from sweep.cli import main
from sweep.cli.parser import parse
from sweep.space.plan import parse_plan
from sweep.specs import parse_kernel

CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"

UPDATES = os.environ.get("SWEEP_UPDATE_EXAMPLES") == "1"

VARYING = ((r"in \d+\.\d s", "in # s"), (r"[\d.]+ MB on disk", "# MB on disk"))
"""Patterns in outputs that depend on the machine, and their replacements."""


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


WITH_PYTHON = [path for path, text in TEXTS.items() if blocks("python", text)]


class Examples(doctest.DocTestRunner):
    """Examples of a page, whose outputs are written into it if that is asked for."""

    def __init__(self, page: Path) -> None:
        super().__init__(optionflags=doctest.NORMALIZE_WHITESPACE)
        self.page = page

    def report_failure(self, out, test, example, got) -> None:
        super().report_failure(out, test, example, got)
        lines = [line or "<BLANKLINE>" for line in got.splitlines()]
        old = test.docstring.splitlines(keepends=True)[example.lineno :]
        n = len(example.source.splitlines())
        wanted = "".join(old[: n + len(example.want.splitlines())])
        write(self.page, wanted, "".join(old[:n]) + "".join(f"{line}\n" for line in lines))


def write(page: Path, old: str, new: str) -> None:
    """Replace an output in a page, if that is asked for."""
    text = page.read_text(encoding="utf-8")
    if UPDATES:
        assert old in text, old
        page.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", WITH_PYTHON, ids=lambda path: path.name)
def test_python_examples_give_what_they_say(path, folder):
    names: dict[str, object] = {}
    runner = Examples(path)
    for number, block in enumerate(blocks("python", TEXTS[path])):
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", path.name, 0)
        assert test.examples
        runner.run(test, clear_globs=False)
        names = test.globs
    assert UPDATES or runner.summarize(verbose=False).failed == 0


def test_shown_files_are_right():
    files = shown_files()
    assert set(parse_kernel(files["saxpy.toml"], "saxpy").parameters) == {"block_size"}
    assert parse_plan(tomllib.loads(files["first_plan.toml"])).kernels == ("convolution",)


@pytest.mark.parametrize("path", [*PAGES, CONTRIBUTING], ids=lambda path: path.name)
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
    for name, text in shown_files().items():
        (folder / name).write_text(text, encoding="utf-8")
    data = ROOT / "tests" / "data"
    for path in (*(data / "profiles").glob("nvprof_*.csv"), *(data / "dvfs").glob("*.csv*")):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "mt4g.json").write_bytes((data / "calibration" / "mt4g_a100.json").read_bytes())
    for page in ("other_clocks", "own_gpu"):
        first = next(commands(blocks("sh", TEXTS[DOCS / "howto" / f"{page}.md"])[0]))
        printed_by(first, folder)
    return folder


@pytest.fixture(scope="module")
def quickstart(place) -> str:
    """Return the output of the quickstart."""
    return printed_by(["run", "quickstart"], place)


@pytest.fixture(scope="module")
def papers(place) -> str:
    """Return the output of the plan whose store the other commands use."""
    return printed_by(["run", "papers"], place)


def abridged(printed: str, like: str) -> str:
    """Return an output with gaps where a page has them: before lines that are most like its own."""
    lines, found, at = printed.strip("\n").splitlines(), [], 0
    *parts, last = re.split(r"^\.\.\.\n", like, flags=re.MULTILINE)
    for part in (*parts, last):
        own = part.splitlines()
        if found and own:
            alike = [SequenceMatcher(None, own[0], line).ratio() for line in lines[at:]]
            at += alike.index(max(alike))
        end = len(lines) if part is last and own else at + len(own)
        found.append("".join(f"{line}\n" for line in lines[at:end]))
        at = end
    return "...\n".join(found)


def check(page: Path, shown: str, printed: str) -> None:
    """Check that a page shows what was printed, or write it there."""
    if UPDATES and not matches(shown, printed):
        write(page, shown, abridged(printed, shown))
    assert UPDATES or matches(shown, printed), printed


@pytest.mark.slow
def test_quickstart_prints_what_is_shown(quickstart, place):
    (shown,) = blocks("text", section("Install and run"))
    check(README, shown, quickstart)
    assert (place / "quickstart.png").is_file()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "block"),
    all_blocks("console"),
    ids=[f"{path.stem}-{block.split()[2]}" for path, block in all_blocks("console")],
)
def test_command_prints_what_is_shown(page, block, papers, place):
    (arguments,) = commands(block)
    check(page, block.partition("\n")[2], printed_by(arguments, place))


# ---------------------------------------------------------------------------- tables


def test_tables_are_in_step_with_the_package():
    """``python tests/support/readme_tables.py`` updates them."""
    shown = {name: table for text in TEXTS.values() for name, table in tables_in(text).items()}
    assert shown == {name: make() for name, make in TABLES.items()}


def test_every_public_name_is_listed():
    listed = tables_in(TEXTS[DOCS / "reference" / "python.md"])["functions"]
    for name in sweep.__all__:
        assert name == "__version__" or f"`sweep.{name}" in listed, name


# ---------------------------------------------------------------------------- accuracy

MEASURED = {
    ("convolution", "rtx_a4000"): "convolution_A4000.kernel_tuner_cache.json.gz",
    ("xgemm", "rtx_2080_ti"): "gemm_RTX_2080_Ti.csv.gz",
}


def stated() -> dict[str, tuple[list[float], float]]:
    """Return what the README says of each model: its rankings, and its error at other clocks."""
    row = re.compile(r"^\| \[`(\w+)`\].* \| ([\d.]+) / ([\d.]+) % \| ([\d.]+) % \|$", re.MULTILINE)
    found = row.findall(section("Choosing a model"))
    return {name: ([float(a), float(b)], float(clocks)) for name, a, b, clocks in found}


def rounded(share: float) -> float:
    """Return a share in per cent with two digits."""
    return float(f"{100 * share:.2g}")


def test_stated_errors_at_other_clocks_are_those_of_the_page():
    page = TEXTS[DOCS / "howto" / "other_clocks.md"]
    rows = re.findall(r"^(\w+) +25 +([\d.]+) ", page, re.MULTILINE)
    assert {n: rounded(float(e)) for n, e in rows} == {n: said[1] for n, said in stated().items()}


@pytest.mark.slow
def test_stated_rankings_are_those_of_validate():
    found: dict[str, list[float]] = {name: [] for name in sweep.model_names()}
    for (kernel, device), name in MEASURED.items():
        path = ROOT / "tests" / "data" / "tuning" / name
        measured = sweep.read_measured([path], kernel=kernel, device=device)
        plan = sweep.Plan([kernel], [device], [*found], variant="revised", layout="stacked")
        for row in sweep.validate(sweep.evaluate(plan), measured):
            if row["ranking"] in found:
                found[row["ranking"]].append(rounded(row["regret_10"]))
    assert found == {name: said[0] for name, said in stated().items()}
    for name, (convolution, xgemm) in found.items():
        text = " ".join(TEXTS[DOCS / "models" / f"{name}.md"].split())
        assert f"{convolution:g} % (convolution, RTX A4000) and {xgemm:g} % (SGEMM" in text
