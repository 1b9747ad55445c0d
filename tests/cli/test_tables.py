"""Tables on the command line: the terminal's width, chosen columns, distinct rows, encodings."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from support.runs import sweep, write_plan

from sweep.cli import main


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    path = write_plan(folder / "small.toml", models=["hong_kim", "wang_chu"])
    assert main(["run", str(path), "--store", str(folder / "small.zarr"), "--no-report"]) == 0
    return str(folder / "small.zarr")


@pytest.fixture
def said(capsys):
    def said(*words: str, code: int = 0) -> str:
        capsys.readouterr()
        assert main(list(words)) == code
        captured = capsys.readouterr()
        return captured.out if code == 0 else captured.err

    return said


@pytest.mark.parametrize("width", [80, 100, 200])
@pytest.mark.parametrize("words", ["best", "top 8", "pareto", "info", "histogram energy"])
def test_output_fits(store, said, monkeypatch, words, width):
    monkeypatch.setenv("COLUMNS", str(width))
    command, *more = words.split()
    text = said(command, store, *more)
    assert max(len(line) for line in text.splitlines() if store not in line) <= width


def test_wide_and_columns(store, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    narrow = " ".join(said("best", store).split())
    wide = said("best", store, "--wide")
    assert "columns left out: " in narrow and "(all: --wide)" in narrow
    assert "left out" not in wide and max(map(len, wide.splitlines())) > 100
    chosen = said("best", store, "--columns", "energy,device", "--format", "csv")
    assert chosen.splitlines()[0] == "energy,device"
    whole = list(csv.DictReader(io.StringIO(said("best", store, "--format", "csv"))))
    assert [row["energy"] for row in csv.DictReader(io.StringIO(chosen))] == [
        row["energy"] for row in whole
    ]
    rows = json.loads(said("best", store, "--columns", "energy", "--format", "json"))["rows"]
    assert rows[0].keys() == {"energy"} and len(rows) == len(whole)
    wrong = said("best", store, "--columns", "enrgy", code=2)
    assert "no column 'enrgy'; did you mean 'energy'?" in wrong


def test_top_folds_the_same_at_other_clocks(store, said):
    here = ("kernel=sepia", "device=gtx_980_paper", "model=wang_chu")
    text = said("top", store, "6", *here)
    assert re.search(r"[1-5] of 6 rows left out, which ", text) and "--distinct" in text
    assert re.findall(r"^ +6 ", said("top", store, "6", *here, "--wide"), re.MULTILINE)
    assert len(json.loads(said("top", store, "6", *here, "--format", "json"))["rows"]) == 6
    folded = said("top", store, "6", *here, "--distinct", "block_size", "--format", "csv")
    sizes = [row["block_size"] for row in csv.DictReader(io.StringIO(folded))]
    assert len(sizes) == len(set(sizes)) > 1
    assert "--distinct" not in said("top", store, "6", *here, "--distinct", "block_size")


@pytest.mark.parametrize(
    ("words", "shown"),
    [(("histogram", "{store}", "execution_time"), "#"), (("explain", "{store}"), r"\xb7"),
     (("run", "wang_chu_2017", "--store", "µ.zarr", "--no-report"), "u.zarr: ")],
)  # fmt: skip
def test_output_that_cannot_encode_what_is_printed(store, tmp_path, words, shown):
    words = [word.format(store=store) for word in words]
    done = sweep(*words, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii() and shown in done.stdout
