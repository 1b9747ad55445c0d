"""Tables fit the output, and say what they do not show."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import pytest
import xarray as xr
from support import synthetic

from sweep.errors import QueryError
from sweep.query import best, histogram, pareto, summary, top
from sweep.query.answer import Answer
from sweep.query.table import Column, fitted, width_of
from sweep.query.texts import Stars, bar, encodable, sparkline, terminal_width

TREE = synthetic.three_kernels()
ONE = synthetic.dataset()
LEFT_OUT = re.compile(r"columns left out: ([\w, \n]+?)(?:;| \(all)")

ANSWERS = {
    "best": best(TREE),
    "best by a parameter": best(ONE, by=("block_size",)),
    "top": top(TREE, 9, include=["threads_per_block"]),
    "one row": top(ONE, 1),
    "pareto": pareto(TREE),
    "summary": summary(TREE),
    "histogram": histogram(TREE, "execution_time", bins=255),
    "regimes": histogram(TREE, "regime"),
    "one group": histogram(ONE, "execution_time", bins=255, by=()),
}


@pytest.mark.parametrize("width", [60, 80, 100, 140, 200])
@pytest.mark.parametrize("name", ANSWERS)
def test_table__is_no_wider_than_the_output_and_names_what_is_missing(name, width):
    answer = ANSWERS[name]
    text = answer.to_table(width)
    if width >= 80:
        assert max(map(len, text.splitlines())) <= width
    whole = answer.to_table(wide=True)
    assert "left out" not in whole and "…" not in whole
    if text != whole and width < max(map(len, whole.splitlines())):
        heads = [line for line in whole.splitlines() if set(line) == {"-", " "}]
        assert heads, "a table has a rule"


@pytest.mark.parametrize("width", [70, 80, 100])
@pytest.mark.parametrize("name", ["best", "top", "pareto"])
def test_table__shows_each_column_or_names_it(name, width):
    answer = ANSWERS[name]
    text = answer.to_table(width)
    joined = re.sub(r"\s+", "", text)
    missing = LEFT_OUT.search(text.replace("\n  ", " "))
    left_out = set(missing[1].split(", ")) if missing else set()
    for column in answer.columns:
        if column in ("rests_on_assumed", "status") or set(answer.column(column)) == {None}:
            continue
        # A header may be broken at underscores into several lines.
        shown = f"{column}=" in joined or any(part in text for part in _parts(column))
        assert shown or column in left_out, column
    assert answer.marked not in left_out


def _parts(column: str) -> list[str]:
    return [column, f"{column.split('_')[0]}_"]


def test_columns__that_do_not_fit_go_from_the_right_but_for_the_main_one():
    columns = [Column(name, "", [name * 10]) for name in "abcdef"]
    found = fitted(columns, 36, {"a", "b"}, "b")
    assert [c.name for c in found.columns] == ["a", "b", "c"] and found.left_out == ["d", "e", "f"]
    assert width_of(found.columns) <= 36
    few = fitted(columns, 20, {"a", "b", "c"}, "c")
    assert "c" in {c.name for c in few.columns}
    assert fitted(columns, None, ()).columns == columns


def test_columns__that_belong_together_go_together():
    columns = [Column(name, "", [name * 3]) for name in ("a", "low", "high")]
    assert [c.name for c in fitted(columns, 15, {"a"}).columns] == ["a"]
    columns = [Column(name, "", ["1"]) for name in ("a", "b", "c", "time", "time_low", "time_high")]
    shown = [c.name for c in fitted(columns, 26, {"a", "b", "c", "time"}, "time").columns]
    assert shown == ["a", "b", "time", "time_low", "time_high"]


def test_columns__of_long_text_are_shortened_before_any_is_left_out():
    columns = [Column("a", "", ["x"]), Column("b", "", ["word " * 20]), Column("c", "", ["1"])]
    found = fitted(columns, 60, {"a"})
    assert [c.name for c in found.columns] == ["a", "b", "c"]
    assert (found.left_out, found.cut) == ([], ["b"])
    assert width_of(found.columns) == 60 and found.columns[1].texts[0].endswith("…")


def test_constants__stand_above_but_for_what_was_asked():
    same = Answer.of("", [{"x": i, "time": 2.0, "bound": "memory"} for i in range(3)], ["x"])
    assert same.to_table().splitlines()[0] == "all rows: bound=memory"
    assert "time" in same.to_table().splitlines()[1]


def test_groups_without_a_result__are_one_line():
    text = best(ONE, by=("block_size",)).to_table()
    assert "no result for 1 of 5 groups: block_size=2000 (block_too_large)" in text
    rows = [{"kernel": k, "device": d, "model": "m", "time": None, "status": "missing"}
            for k in "ab" for d in "de"]  # fmt: skip
    rows += [{"kernel": k, "device": "f", "model": "m", "time": 1.0} for k in "ab"]
    lines = Answer.of("", rows, ["kernel", "device", "model"]).to_table().splitlines()
    assert lines[-1] == "no result for 4 of 6 groups: m on d, e (missing)"
    for *found, why in (["constraint"] * 2, ["constraint", "x", "x"], ["x", "y", "x"],
                        ["constraint", "x", "power: y", "power: y"]):  # fmt: skip
        rows = [{"kernel": "a", "device": "d", "valid": 0, "statuses": dict.fromkeys(found, 3)}]
        assert Answer.of("", rows, ["kernel", "device"]).to_table() == f"no result: d ({why})"


def test_notes__are_at_most_three_and_stars_come_first():
    rows = [{"x": i, "regret_10": 0.5 / i, "rests_on_assumed": ["a"]} for i in (1, 2)]
    notes = ["one", "two", Stars("* rests on assumed values (a)"), "three"]
    answer = Answer.of("", rows, ["x"], notes=notes, legend={"regret_K": "r", "recall_K": "?"})
    assert answer.to_table().splitlines()[-4:] == [
        "regret_K: r", notes[2], "one", "2 more notes (all: to_table(wide=True))",
    ]  # fmt: skip
    assert answer.to_table(wide=True).splitlines()[-4:] == [notes[2], "one", "two", "three"]
    assert "* rests" not in answer.chosen(["x"]).to_table()  # no star is shown


def test_notes__of_two_long_lines_are_whole_in_narrow_ones():
    answer = Answer.of(
        "", [{"x": 1, "y": 1}, {"x": 2, "y": 2}], ["x"], notes=["word " * 38 + "end"]
    )
    for width in (60, 80, 100, 250):
        assert answer.to_table(width).endswith(" end")
    longer = replace(answer, notes=["word " * 60 + "end"])
    assert longer.to_table(100).splitlines()[-2].endswith("…")


def test_chosen__shows_these_columns_in_this_order():
    answer = best(TREE)
    chosen = answer.chosen(["execution_time", "device", "kernel"])
    assert chosen.columns == ("execution_time", "device", "kernel")
    assert chosen.to_csv().splitlines()[0] == "execution_time,device,kernel"
    assert "* " in "".join(chosen.to_table(40).splitlines()[5:])
    assert chosen[0] == {name: answer[0][name] for name in chosen.columns}
    with pytest.raises(QueryError, match="no column 'devise'; did you mean 'device'"):
        answer.chosen(["devise"])


@pytest.mark.parametrize("columns", [["execution_time"], ["kernel", "execution_time", "bound"]])
def test_chosen__says_which_groups_have_no_result(columns):
    line = "no result for 1 of 5 groups: block_size=2000 (block_too_large)"
    answer = best(ONE, by=("block_size",))
    lines = answer.chosen(["block_size", *columns]).chosen(columns).to_table().splitlines()
    assert line in lines and not any("-" in text.split() for text in lines)
    (row,) = [row for row in answer if row["execution_time"] is None]
    alone = Answer.of("", [row], answer.coordinates).chosen(columns).to_table()
    assert alone == "no result: block_size=2000 (block_too_large)"


def test_chosen__may_have_no_value():
    answer = Answer.of("", [{"x": 1, "power": None}], ["x"]).chosen(["power"])
    assert answer.to_table().splitlines() == ["power", "-----", "    -"]


def test_models__that_differ_by_much_are_named_in_one_line():
    far = ONE.copy(deep=True)
    times = far["execution_time"]
    far["execution_time"] = times.where(times["model"] != "wang_chu", times * 4)
    (note,) = [note for note in best(far).notes if "models differ" in note]
    groups = best(far, by=("device", "model"))
    factors = {}
    for device in set(groups.column("device")):
        own = [r["execution_time"] for r in groups if r["device"] == device and r["execution_time"]]
        factors[device] = max(own) / min(own)
    assert f"models differ up to {max(factors.values()):.3g}-fold (" in note
    over = sum(factor > 1.5 for factor in factors.values())
    assert note.endswith(f"; more than 1.5-fold in {over} of {len(factors)} groups")
    near = ONE.copy(deep=True)
    near["execution_time"][:] = near["execution_time"].where(near["execution_time"].isnull(), 1.0)
    assert not any("models differ" in note for note in best(near).notes)
    assert not any("models differ" in note for note in best(far, by=("device",)).notes)


def test_histogram__prints_as_bars():
    answer = histogram(ONE, "execution_time", bins=255, by=())
    lines = answer.to_table().splitlines()
    assert len(lines) < 50 and len(answer) >= 255
    bars = [line for line in lines if "█" in line]
    assert max(line.count("█") for line in bars) == 30
    table = answer.picture("")
    counted = sum(row["count"] for row in answer if row["lowest"] is not None)
    assert sum(row["count"] for row in table) == counted
    several = histogram(TREE, "execution_time", bins=20)
    rows = several.picture("")
    assert {len(row["histogram"]) for row in rows if row["valid"]} == {20}
    assert len(several.to_table().splitlines()) < len(rows) + 8
    shares = histogram(TREE, "regime").picture("")
    assert all(sum(row["regime"].values()) == pytest.approx(1) for row in shares)


def test_top__folds_ties_and_other_clocks_nearby():
    data = ONE.copy(deep=True)
    data["execution_time"][:] = 1.0
    scale = data["execution_time"]
    clock, block = (xr.DataArray(range(data.sizes[d]), dims=d)
                    for d in ("core_clock_ratio", "block_size"))  # fmt: skip
    data["execution_time"] = scale * (1 + 0.004 * clock + 0.0001 * block)
    answer = top(data, 24, by=("device", "model"), select={"memory_clock_ratio": 1.0})
    table = answer.picture("")
    first = {}
    for row in answer:  # of each place the best, and those beyond 1 % of the last one shown
        place = tuple(row[n] for n in ("device", "model", "block_size"))
        if place not in first or row["execution_time"] > 1.01 * first[place][-1]:
            first.setdefault(place, []).append(row["execution_time"])
    assert sorted(table.column("execution_time")) == sorted(itertools.chain(*first.values()))
    assert len(table) < len(answer)
    assert f"{len(answer) - len(table)} of {len(answer)} rows left out" in answer.to_table()
    assert "distinct=['block_size']" in answer.to_table()
    assert len(answer.to_table(wide=True).splitlines()) > len(answer)
    equal = top(data.assign(execution_time=scale), 24, by=("device", "model")).picture("")
    results = [tuple(row[n] for n in ("device", "model", "power", "energy", "occupancy", "regime"))
               for row in equal]  # fmt: skip
    assert len(set(results)) == len(results)  # equal in time: folded where all results are


def test_top__of_distinct_rows_is_whole():
    assert top(ONE, 5, distinct=["block_size"]).picture is None


def test_bars__are_eighths_of_blocks_and_have_ascii_instead():
    assert [bar(share, 2) for share in (0, 1e-9, 0.5, 0.75, 1)] == ["", "▏", "█", "█▌", "██"]
    assert sparkline([0, 1, 4, 8]) == ".▁▄█"
    assert encodable("█▌▁ 3 µs…", "ascii") == "##_ 3 us~"
    assert encodable("█▌▁ 3 µs…", "utf-8") == "█▌▁ 3 µs…"
    plain = encodable(ANSWERS["histogram"].to_table(), "ascii")
    assert plain.isascii() and len(plain) == len(ANSWERS["histogram"].to_table())


def test_width__is_that_of_the_environment_or_a_hundred(monkeypatch):
    monkeypatch.setenv("COLUMNS", "77")
    assert terminal_width() == 77
    monkeypatch.setenv("COLUMNS", "3")
    assert terminal_width() == 40
    monkeypatch.setattr("sys.__stdout__", None)
    monkeypatch.delenv("COLUMNS")
    assert terminal_width() == 100


def test_one_row__that_does_not_fit_has_a_line_for_each_value():
    text = top(ONE, 1).to_table(60)
    lines = dict(line.split(None, 1) for line in text.splitlines()[1:-1])
    assert lines["device"] == "gtx_980" and lines["core_clock"].endswith(" MHz")
    assert lines["energy"].rstrip().split("*")[0].replace(".", "").isdigit()
    assert "left out" not in text
