"""Reproduction of the papers' experiments: printed numbers, files, a self-contained page."""

import csv
import json
import re
from pathlib import Path

import pytest

from sweep.cli import main
from sweep.errors import SweepError
from sweep.papers import PAPERS, reproduce
from sweep.papers.report import Quantity, Reproduction, Table

# Rows met, computed, and all that stand beside a printed number.
COUNTS = {
    "hong_kim_2009": (12, 16, 16),
    "luo_suda_2011": (1, 5, 11),
    "wang_chu_2017": (8, 14, 22),
    "zhang_owens_2011": (9, 16, 29),
    "lemeire_2016": (8, 27, 27),
}


@pytest.mark.slow
@pytest.mark.parametrize("paper", PAPERS)
def test_reproduce__every_missed_number_says_why(paper, tmp_path):
    found = reproduce(paper)
    printed = [q for t in found.tables for q in t.rows if isinstance(q, Quantity) and q.printed]
    assert [q.name for q in printed if q.agrees is False and not q.note] == []
    computed = [q for q in printed if q.kind == "computed"]
    met = sum(bool(q.agrees) for q in computed)
    assert (met, len(computed), len(printed)) == COUNTS[paper]
    assert f"{met} of {len(computed)} computed rows met" in found.summary()
    assert not any("{" in figure.caption for figure in found.figures)
    assert len(found.figures) >= 2 and len(found.tables) >= 2
    page = found.write(tmp_path).read_text(encoding="utf-8")
    # The page is self-contained: it loads no other files.
    assert not re.search(r"(src|href)=['\"](?!data:)", page)
    assert page.count("<img ") == len(found.figures)
    names = {f"{t.name}.csv" for t in found.tables} | {f"{f.name}.png" for f in found.figures}
    assert {path.name for path in tmp_path.iterdir()} == {"index.html"} | names
    for table in found.tables:
        with open(tmp_path / f"{table.name}.csv", encoding="utf-8") as lines:
            head, *rows = csv.reader(lines)
        assert head == list(table.columns)
        assert [len(row) for row in rows] == [len(head)] * len(table.rows)


def test_quantity__agrees_at_the_digits_printed():
    assert Quantity("a", "1", 2.28125, "2.28").agrees
    assert not Quantity("a", "1", 2.286, "2.28").agrees
    assert Quantity("a", "1", 3.0).agrees is None
    assert Quantity("a", "1", 110.0, "100").difference == pytest.approx(0.1)


def test_write__escapes_and_shades(tmp_path):
    rows = [Quantity("<b>", "1", 1.0, "2", "known & explained")]
    found = Reproduction("k", "T", "R", [Table("t", "x < y", rows)])
    page = found.write(tmp_path).read_text(encoding="utf-8")
    assert "&lt;b&gt;" in page and "known &amp; explained" in page and "class=missed" in page
    assert "0 of 1 computed rows met" in found.summary()


def test_answer__says_what_each_number_is_and_whether_it_is_met(capsys, tmp_path, monkeypatch):
    rows = [
        Quantity("a", "cycle", 2.28125, "2.28"),
        Quantity("b", "1", 3.0),
        Quantity("c", "1", 3.0, "4", "why", "calibrated"),
        Quantity("d", "1", 5.0, "5.0", kind="input"),
        Quantity("e", "1", 2.0, "1"),
    ]
    found = Reproduction("k", "T", "R", [Table("t", "of", rows), Table("u", "x", [[1]], ["n"])])
    columns = ("quantity", "kind", "printed", "decimals", "computed", "met")
    assert [tuple(row[name] for name in columns) for row in found.answer()] == [
        ("a", "computed", 2.28, 2, 2.28125, True),
        ("b", "computed", None, None, 3.0, None),
        ("c", "calibrated", 4.0, 0, 3.0, None),
        ("d", "input", 5.0, 1, 5.0, None),
        ("e", "computed", 1.0, 0, 2.0, False),
    ]
    monkeypatch.setattr("sweep.papers.reproduce", lambda paper: found)
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "k", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    shown = json.loads(out)
    assert (shown["title"], shown["rows"][-1]["difference"], err) == ("T", 1.0, "")
    assert {row["paper"] for row in shown["rows"]} == {"k"} and not list(tmp_path.iterdir())
    assert main(["reproduce", "k", "--format", "csv", "-o", "here"]) == 0
    out, err = capsys.readouterr()
    assert out.count("\n") == 6 and "index.html" in err and Path("here/t.csv").exists()


def test_reproduce__unknown_paper_or_a_file_in_the_way(capsys, tmp_path):
    with pytest.raises(SweepError, match="did you mean 'hong_kim_2009'"):
        reproduce("hong_kim_2008")
    assert main(["reproduce", "nobody", "-o", str(tmp_path / "x")]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "x").exists()
    (tmp_path / "taken").write_text("")
    assert main(["reproduce", "luo_suda_2011", "-o", str(tmp_path / "taken")]) == 2
    assert "is there already" in capsys.readouterr().err
