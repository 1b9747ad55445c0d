"""The report: its numbers are those of the answers, and a browser draws and filters them."""

from __future__ import annotations

import csv
import itertools
import json
import re
import sys
from pathlib import Path

import pytest
from support import runs

import sweep
from sweep import query
from sweep.cli import main
from sweep.errors import SweepError
from sweep.query.optima import sample
from sweep.report import page, write_report
from sweep.report.contents import gather, thinned

pytest.importorskip(
    "vl_convert", reason="needs vl-convert-python: pip install 'kernel-sweep[report]'"
)

MOST = {"best": 3, "fronts": 7, "sample": 5}


def data_of(path: Path) -> dict:
    """Return what a report embeds."""
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def rows_of(text: str) -> list[dict]:
    return list(csv.DictReader(text.splitlines()))


# ---------------------------------------------------------------------------- the numbers


def test_tables_are_the_answers_to_the_digit(store, report):
    tables = data_of(report)["tables"]
    text = report.read_text(encoding="utf-8").replace("<wbr>", "")
    answers = {
        "best": query.best(store),
        "pareto": query.pareto(store),
        "summary": query.summary(store),
        "agreement": query.compare_models(store),
    }
    for name, answer in answers.items():
        assert tables[name] == answer.to_csv(), name
        shown = answer._repr_html_() if len(answer) <= page.LINES else answer.title
        assert shown in text, name
    assert len(answers["pareto"]) > len(answers["best"])


def test_points_are_the_best_the_fronts_and_a_sample_each_once(store, report):
    rows = rows_of(data_of(report)["tables"]["points"])
    results = ("execution_time", "energy", "core_clock")
    for kind, answer in (("best", query.best(store)), ("front", query.pareto(store))):
        wanted = {tuple(str(row[name] or "") for name in results) for row in answer}
        own = [tuple(row[name] for name in results) for row in rows]
        assert {
            one for one, row in zip(own, rows, strict=True) if row["shown_as"] == kind
        } <= wanted
        assert wanted <= set(own)
    places = [tuple(row.values())[:-1] for row in rows]
    assert len(set(places)) == len(places)


def test_sample_is_regular_valid_and_of_the_asked_size(store):
    answer = sample(store, 100)
    assert len(answer) == 100 and answer.rows == sample(store, 100).rows
    assert None not in answer.column("execution_time")
    for name in ("device", "model", "core_clock_ratio", "memory_clock_ratio"):
        assert len(set(answer.column(name))) == len({row[name] for row in sample(store, 10**6)})
    everything = sample(store, 10**6)
    assert len(everything) == sum(query.summary(store).column("valid"))
    row = everything[1234 % len(everything)]
    (same,) = query.best(store, select=row.configuration)
    assert all(same[name] == row[name] for name in ("execution_time", "energy", "regime"))


def test_plan_gives_the_report_of_its_store(store, report, folder, changes):
    runs.write_plan(folder / "small.toml", **changes)
    assert main(["report", "small.toml", "-o", "plan.html"]) == 0
    ours, theirs = data_of(folder / "plan.html"), data_of(report)
    assert ours["tables"]["best"] == theirs["tables"]["best"]
    assert ours["tables"]["pareto"] == theirs["tables"]["pareto"]


def test_sensitivity_is_the_best_at_each_value(store):
    found = gather(store)
    for row in found.sensitivity:
        select = {name: row[name] for name in ("kernel", "device", "model")}
        times = [
            other["execution_time"]
            for other in query.best(store, by=[row["axis"]], select=select)
            if other["execution_time"] is not None
        ]
        assert row["cost_of_worst"] == max(times) / min(times) - 1.0
        assert row["worst_value"] is not None and row["values"] > 1


def test_thinned_fronts_keep_their_ends_and_best_rows_the_fastest_of_each_kernel(store):
    found = gather(store)
    best, fronts = thinned(found, MOST)
    assert len(best) <= MOST["best"] and len(fronts) <= MOST["fronts"]
    for kernel in {row["kernel"] for row in found.best}:
        own = [r["execution_time"] for r in found.best if r["kernel"] == kernel]
        assert min(own) in best.column("execution_time")
    group = [row for row in found.fronts if row["energy"] is not None]
    ends = {row["execution_time"] for row in group if row["kernel"] == fronts[0]["kernel"]
            and row["model"] == fronts[0]["model"]}  # fmt: skip
    assert {min(ends), max(ends)} <= set(fronts.column("execution_time"))


def test_large_results_give_a_small_file_that_says_what_is_left_out(store, report, tmp_path,
                                                                   monkeypatch):  # fmt: skip
    size = report.stat().st_size
    assert size <= page.LARGEST == 2_000_000
    monkeypatch.setattr(page, "LARGEST", size - 100_000)
    path = write_report(store, tmp_path / "small.html")
    assert path.stat().st_size <= size - 100_000
    text = path.read_text(encoding="utf-8")
    assert re.search(r"a sample of \d+ other configurations", text)
    assert len(data_of(path)["tables"]["points"]) < len(data_of(report)["tables"]["points"])


def test_page_names_what_it_shows_and_draws_no_map_of_one_regime(store, report, tmp_path):
    assert ">Time against energy</h2>" in report.read_text(encoding="utf-8")
    (one, *_) = [row for row in query.summary(store) if row["energy"] is None]
    select = {name: one[name] for name in ("kernel", "device", "model")}
    path = write_report(store, tmp_path / "one.html", select=select)
    text = path.read_text(encoding="utf-8")
    assert ">Time against occupancy</h2>" in text and "Pareto fronts (" not in text
    assert f'<p class="quiet">{one["valid"]:,} predictions with a time; ' in text
    charts = [chart for one in (report, path) for chart in data_of(one)["charts"].values()]
    maps = [
        chart for chart in charts
        if "hconcat" in chart and chart["hconcat"][0]["title"]["text"].startswith("Execution time")
    ]  # fmt: skip
    for chart in maps:
        regimes = {cell["regime"] for cell in chart["data"]["values"]} - {""}
        said = chart["hconcat"][0]["title"]["subtitle"][1:]
        assert len(chart["hconcat"]) == min(2, len(regimes))
        assert said == [f"regime {name} everywhere" for name in regimes if len(regimes) == 1]
    assert {len(chart["hconcat"]) for chart in maps} == {1, 2}


def test_progress_counts_the_questions_to_the_last(store, tmp_path):
    said = []
    write_report(store, tmp_path / "a.html", progress=lambda *numbers: said.append(numbers))
    total = said[-1][1]
    assert said == [(number, total) for number in range(1, total + 1)] and total > 5


def test_same_results_give_the_same_file(store, tmp_path):
    one, other = (write_report(store, tmp_path / name) for name in ("a.html", "b.html"))
    assert one.read_bytes() == other.read_bytes()


def test_validation_compares_with_measured_times(store, tmp_path):
    clocks = {"core_clock_ratio": 1.0, "memory_clock_ratio": 1.0}
    predicted = sweep.open_store(store)["sepia"].to_dataset()
    measured = predicted.sel(model="wang_chu", **clocks, drop=True).compute()
    select = {"kernel": "sepia", **clocks}
    path = write_report(store, tmp_path / "a.html", select=select, measured=measured)
    rows = rows_of(data_of(path)["tables"]["validation"])
    errors = {(row["device"], row["ranking"]): float(row["mape"]) for row in rows if row["mape"]}
    assert errors["gtx_980_paper", "wang_chu"] == 0.0 < errors["gtx_980_paper", "hong_kim"]
    assert 'href="#validation"' in path.read_text(encoding="utf-8")


def test_no_text_ends_the_script_in_which_it_stands():
    one = page.Page(tables={"best": "device\n</script><b>\n"})
    text = one.render("<i>", "a & b")
    assert "</script><b>" not in text
    assert "<h1>&lt;i&gt;</h1>" in text and "a &amp; b" in text


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("there.html", "is there already; --overwrite"),
        ("x.pdf", "suffix is .html"),
        ("no/x.html", "no directory 'no'"),
    ],
)
def test_file_that_cannot_be_written_is_refused(store, folder, capsys, name, says):
    (folder / "there.html").write_text("mine", encoding="utf-8")
    assert main(["report", str(store), "-o", name]) == 2
    assert says in capsys.readouterr().err
    assert (folder / "there.html").read_text(encoding="utf-8") == "mine"


def test_missing_package_is_named(store, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(SweepError, match=r"pip install 'kernel-sweep\[report\]'"):
        write_report(store, tmp_path / "a.html")


# ---------------------------------------------------------------------------- in a browser


ROWS = """() => { const v = sweepReport.views.linked;
  return v.data("rows").map(r => ({...r, px: v.scale("px")(r.execution_time),
    py: r.energy === null ? null : v.scale("py")(r.energy), at: FIELDS.map((f, i) =>
      r[f] === null ? null : v.scale(`s${i}`)(r[f]))})); }"""


def shown(tab, fields: list[str]) -> list[dict]:
    """Return the rows of the linked view with their places in pixels."""
    return tab.evaluate(ROWS.replace("FIELDS", json.dumps(fields)))


def drag(tab, x0: float, y0: float, x1: float, y1: float) -> None:
    """Drag from one place of the linked view to another; (0, 0) is the corner of the front."""
    tab.locator("#linked").scroll_into_view_if_needed()
    left, top = tab.evaluate("""() => { const v = sweepReport.views.linked, [x, y] = v.origin();
        const box = document.querySelector("#linked svg").getBoundingClientRect();
        return [box.x + x + v.padding().left, box.y + y + v.padding().top]; }""")
    tab.mouse.move(left + x0, top + y0)
    tab.mouse.down()
    tab.mouse.move(left + (x0 + x1) / 2, top + (y0 + y1) / 2)
    tab.mouse.move(left + x1, top + y1)
    tab.mouse.up()
    tab.evaluate("sweepReport.views.linked.runAsync().then(() => 1)")


def bright(tab, kind: str, attribute: str, faint: float) -> int:
    """Return how many marks of the linked view are drawn as inside the brushes."""
    marks = tab.locator(f"#linked g.{kind} path")
    return sum(float(o) > faint for o in marks.evaluate_all(
        f"all => all.map(one => one.getAttribute('{attribute}') ?? 1)"))  # fmt: skip


def places(rows) -> set[int]:
    return {row["place"] for row in rows}


def test_browser_draws_the_answers_without_messages_or_requests(store, report, opened):
    tab, messages, requests = opened
    assert messages == [] and requests == [report.as_uri()]
    drawn = set(tab.evaluate("Object.keys(sweepReport.views)"))
    assert drawn == {"linked", *data_of(report)["charts"]} and len(drawn) > 5
    kernels = tab.locator("#kernel option").all_inner_texts()
    assert sorted(kernels) == ["mat_tiled", "sepia"]
    for kernel in kernels:
        tab.select_option("#kernel", kernel)
        tab.wait_for_function(f"sweepReport.views.linked.data('rows')[0].kernel === '{kernel}'")
        rows = shown(tab, [])
        for kind, answer in (("best", query.best(store)), ("front", query.pareto(store))):
            own = {(r["execution_time"], r["energy"]) for r in answer if r["kernel"] == kernel}
            here = {(r["execution_time"], r["energy"]) for r in rows}
            assert own <= here, kind


def test_brushing_one_picture_filters_the_other(opened, report):
    tab, messages, _ = opened
    tab.select_option("#kernel", "sepia")
    tab.wait_for_function("sweepReport.views.linked.data('rows')[0].kernel === 'sepia'")
    linked = data_of(report)["linked"]
    rows = shown(tab, [])
    fields = [name for name in linked["axes"] if len({row[name] for row in rows}) > 1]
    rows = shown(tab, fields)
    points = [row for row in rows if row["py"] is not None]
    across = sorted(row["px"] for row in points)
    low, high = across[len(across) // 4], across[-1]
    heights = sorted({row["py"] for row in points if low <= row["px"] <= high})
    gap, above = max((b - a, a) for a, b in itertools.pairwise(heights))
    end = above + gap / 2
    drag(tab, low - 1, 2, high + 1, end)
    inside = {r["place"] for r in points if low - 1 <= r["px"] <= high + 1 and 2 <= r["py"] <= end}
    assert places(tab.evaluate("sweepReport.views.linked.data('inside')")) == inside
    assert 0 < len(inside) < len(points)
    assert bright(tab, "lines", "stroke-opacity", 0.02) == len(inside)
    assert bright(tab, "dots", "fill-opacity", 0.05) == len(inside)
    assert f"{len(inside)} of {len(rows)}" in tab.inner_text("#count")
    # An axis narrows further, and what it leaves is left among the points, too.
    place = fields.index("block_size")
    x = round((place + 0.5) * tab.evaluate("sweepReport.views.linked.width()") / len(fields))
    middle = sorted({row["at"][place] for row in rows})[1]
    drag(tab, x, middle - 12, x, middle + 12)
    both = {r["place"] for r in rows if r["place"] in inside and abs(r["at"][place] - middle) < 12}
    assert places(tab.evaluate("sweepReport.views.linked.data('inside')")) == both
    assert 0 < len(both) < len(inside)
    assert bright(tab, "dots", "fill-opacity", 0.05) == len(both)
    with tab.expect_download() as download:
        tab.click("#inside")
    saved = download.value.path().read_text(encoding="utf-8").splitlines()
    lines = data_of(report)["tables"]["points"].splitlines()
    assert sorted(saved[1:]) == sorted(lines[place] for place in both) and saved[0] == lines[0]
    tab.click("#clear")
    tab.wait_for_function(f"sweepReport.views.linked.data('inside').length === {len(rows)}")
    gap, left = max((b - a, a) for a, b in itertools.pairwise(sorted(set(across))))
    drag(tab, max(0, across[0] - 1), 1, left + gap / 2, 299)
    few = {row["place"] for row in points if row["px"] <= left and 1 <= row["py"] <= 299}
    assert places(tab.evaluate("sweepReport.views.linked.data('inside')")) == few
    assert messages == []


@pytest.mark.parametrize("axes", [{"block_size": [64]}, {"block_size": [64, 128]}])
def test_browser_draws_few_results_without_energy(opened, folder, axes):
    tab, messages, _ = opened
    few = runs.plan(outputs=["execution_time"], kernels=["sepia"], axes=axes)
    path = write_report(sweep.evaluate(few), folder / "few.html")
    other = tab.context.browser.new_page()
    other.on("pageerror", lambda error: messages.append(str(error)))
    other.goto(path.as_uri())
    other.evaluate("sweepReport.ready")
    points = 2 * len(axes["block_size"])
    assert other.inner_text("#count").startswith(f"{points} of {points} ")
    assert messages == []
    other.close()


def test_tables_are_saved_as_csv(store, opened):
    tab, *_ = opened
    with tab.expect_download() as download:
        tab.click("button[data-csv=best]")
    assert download.value.suggested_filename == "best.csv"
    assert download.value.path().read_bytes().decode() == query.best(store).to_csv()
