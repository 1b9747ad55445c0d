"""What a run says at its end."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import matplotlib.image
import pytest
from support.runs import plan, sweep, write_plan

from sweep.cli import main
from sweep.cli.run_report import best_text, fronts_of, fronts_text, report, saving
from sweep.evaluation.planned import evaluate
from sweep.query import best, pareto
from sweep.query.grid import grids_of
from sweep.query.texts import quantity
from sweep.query.tuning import conclusions, tunings

WIDTH = 100


@pytest.fixture(scope="module")
def results():
    return evaluate(plan())


def commands(text: str) -> list[list[str]]:
    """Return the words of the commands that a report suggests."""
    lines = text.partition("\nNext:\n")[2].splitlines()
    assert len(lines) >= 2
    words = [shlex.split(line) for line in lines]
    assert all(line[0] == "sweep" for line in words)
    return [line[1:] for line in words]


def grids(results):
    return {grid.kernel: grid for grid in grids_of(results)}


def test_best_configurations(results):
    text = best_text(grids(results), best(results))
    assert max(map(len, text.splitlines())) <= WIDTH
    title, empty, head, *lines = text.splitlines()
    assert title.startswith("Fastest configuration of each kernel on each device")
    assert (empty, head.split()) == ("", ["device", "configuration", "clocks", "hong_kim"])
    assert lines[0] == "mat_tiled (n=2000)"
    assert "sepia (height=7000, width=7000)" in lines
    row = best(results, select={"kernel": "sepia", "device": "gtx_980_paper"})[0]
    shown = next(line for line in lines[lines.index("sepia (height=7000, width=7000)") :]
                 if "gtx_980_paper" in line)  # fmt: skip
    assert shown.split()[:3] == ["gtx_980_paper", f"block_size={row['block_size']}", "770/700"]
    assert shown.split()[3:] == [f"{1e3 * row['execution_time']:.4g}", "ms", row["bound"]]


def test_best_configurations__leave_models_out_where_the_output_is_narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "72")
    models = ["lemeire", "hong_kim", "luo_suda", "zhang_owens", "wang_chu", "combined"]
    given = {"kernels": ["transpose"], "devices": ["rtx_3090"], "models": models, "axes": {}}
    many = evaluate(plan(**given, derive=True))
    text = best_text(grids(many), best(many))
    assert max(map(len, text.splitlines())) <= 72
    assert re.search("clocks +lemeire +hong_kim +combined\n", text)  # which is never left out
    assert "models left out: luo_suda, zhang_owens, wang_chu (all: sweep best)" in text


def test_models_that_choose_the_same_share_a_row():
    given = {"kernels": ["mat_tiled"], "models": ["hong_kim", "wang_chu"], "axes": {"tile": [16]}}
    both = evaluate(plan(**given))
    text = best_text(grids(both), best(both))
    rows = [line for line in text.splitlines() if line.startswith("  gtx")]
    assert [row.count(" ms") + row.count(" s ") for row in rows] == [1, 2]
    note = "no result for 1 of 4 groups: wang_chu on gtx_280 (missing_parameters)"
    assert text.splitlines()[-1] == note


def test_knee__is_that_of_figures():
    """On logarithmic axes; on linear ones the third point would be the knee."""
    times, energies = (1.0, 1.2, 5.0, 100.0), (1000.0, 500.0, 100.0, 1.0)
    rows = [{"execution_time": t, "energy": e} for t, e in zip(times, energies, strict=True)]
    assert "+20.0 %  -50.0 %" in fronts_text({("k", "d", "m"): rows}, ())


def test_fronts(results):
    fronts, notes = fronts_of(results)
    answer = pareto(results, select={"kernel": "sepia", "device": "gtx_980_paper"})
    front = fronts["sepia", "gtx_980_paper", "hong_kim"]
    times = answer.column("execution_time")
    assert [row["execution_time"] for row in front] == times
    assert saving(front) == pytest.approx(1 - answer[-1]["energy"] / answer[0]["energy"])
    text = fronts_text(fronts, notes)
    assert max(map(len, text.splitlines())) <= WIDTH
    assert "Time against energy on gtx_980_paper" in text
    assert f"{-100 * saving(front):+.1f} %" in text
    assert "* rests on fitted values (kernel: instructions.computation, power.*)" in text


@pytest.mark.parametrize(
    ("changes", "picture"),
    [
        ({}, "Time and energy over the clocks: "),
        ({"axes": {"core_clock_ratio": [0.9, 1.0, 1.1]}}, "Energy against execution time: "),
        ({"devices": ["gtx_280"]}, None),
    ],
    ids=["two clocks", "one clock", "no energy"],
)
def test_figure_and_commands(folder, capsys, changes, picture):
    write_plan(Path("my plan.toml"), chunk_points=None, **changes)
    assert main(["run", "my plan.toml"]) == 0
    text = capsys.readouterr().out
    assert (f"Figure: my plan.png ({picture}" in text) == bool(picture)
    assert Path("my plan.png").exists() == bool(picture)
    for words in commands(text):
        assert words[1] == "my plan.zarr"
        assert main(words) == 0
        assert len(capsys.readouterr().out) > 10


def test_figure_that_cannot_be_saved_does_not_fail_the_run(results, tmp_path):
    text = report(results, tmp_path / "nowhere" / "a.png", "small.zarr")
    assert "No figure: " in text and "cannot be written" in text and "\nNext:\n" in text


def test_without_any_time():
    none = evaluate(plan(kernels=["sepia"], axes={"block_size": [2000]}))
    text = report(none, None, "a.zarr")
    assert text == (
        "No configuration has a time.\n"
        "no result for 2 of 2 groups: hong_kim on gtx_280, gtx_980_paper (block_too_large)"
    )


@pytest.mark.slow
def test_papers(tmp_path):
    done = sweep("run", "papers", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.partition("\nNext:\n")[0].splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert done.stdout.count("\n") < 80
    for device in ("gtx_8800", "quadro_fx_5600", "gt_8800", "gtx_280", "gtx_980_paper"):
        assert len(re.findall(rf"^  {device} ", done.stdout, re.MULTILINE)) == 6
    again = sweep("run", "papers", cwd=tmp_path)
    assert again.stdout.splitlines()[2:] == done.stdout.splitlines()[2:]
    assert again.stdout.splitlines()[1].startswith("papers.zarr: finished before, ")
    for words in commands(done.stdout):
        assert sweep(*words, cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_quickstart(tmp_path):
    done = sweep("run", "quickstart", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    before, _, after = done.stdout.partition("\nNext:\n")
    assert max(map(len, before.splitlines())) <= WIDTH
    assert done.stdout.count("\n") <= 45  # one and a half screens of thirty lines
    configurations = int(re.search(r"([\d,]+) configurations", before)[1].replace(",", ""))
    assert configurations > 1_000_000
    for device in ("a100_40gb", "rtx_4090", "rtx_3090", "radeon_pro_w7800"):
        assert len(re.findall(rf"^  {device}  ", before, re.MULTILINE)) == 3
    # In a row: the configuration that combined chooses, and the best time of each model.
    store = tmp_path / "quickstart.zarr"
    for row in best(store):
        (line,) = re.findall(rf"^{row['kernel']} .*?^  {row['device']} (.*?)$", before,
                             re.MULTILINE | re.DOTALL)  # fmt: skip
        shown = line.split()
        assert quantity(row["execution_time"], "s") in line.replace("*", "")
        if row["model"] == "combined" and row["kernel"] == "transpose":
            names = ("tile", "block_rows", "padding", "tiles_per_block")
            assert shown[0] == "/".join(f"{row[name]}" for name in names)
    for sentence in conclusions(tunings(store)):
        assert sentence in " ".join(before.split())
    assert matplotlib.image.imread(tmp_path / "quickstart.png").shape[0] > 500
    for words in commands("\nNext:\n" + after):
        assert sweep(*words, cwd=tmp_path).returncode == 0


RUN = """
from sweep.evaluation import limits
limits.UNCOMPILED = 0
from sweep.cli import main
main(["run", "plan.toml", "--store", "a.zarr", "--no-report"])
"""


@pytest.mark.slow
def test_a_run_tells_how_long_it_compiled(folder, monkeypatch):
    monkeypatch.setenv("SWEEP_CACHE_DIR", "")
    write_plan(Path("plan.toml"))
    done = subprocess.run([sys.executable, "-c", RUN], capture_output=True, text=True, check=True)
    found = re.search(r" in ([\d.]+) s, of which ([\d.]+) s compiling; ", done.stdout)
    assert found is not None and 0 < float(found[2]) < float(found[1])
