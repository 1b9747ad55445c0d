"""What a time depends on: the answer, the command, the picture."""

import json

import numpy as np
import pytest
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.errors import QueryError
from sweep.plot import save, tornado_plot

PLAN = """schema = 1
kernels = ["transpose", "vector_add"]
devices = ["gtx_980_paper", "rtx_3080"]
models = ["combined"]
variant = "revised"
"""
FEW = 128


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.toml").write_text(PLAN, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def plan():
    return sweep.Plan(["transpose"], ["gtx_980_paper"], ["combined"], variant="revised")


def test_answer__has_a_row_for_each_number_that_matters(plan):
    answer = sweep.sensitivity(plan, samples=FEW)
    totals = answer.column("total")
    assert totals == sorted(totals, reverse=True) and totals[0] > 0.3
    (best,) = sweep.best(plan)
    for row in answer:
        assert row["tile"] == best["tile"] and row["execution_time"] == pytest.approx(
            best["execution_time"], rel=1e-6
        )
        assert row["total_low"] <= row["total"] <= row["total_high"]
        assert row["first"] <= row["total"] + 0.2
        assert row["low"] > 0 and row["high"] > 0
    first = answer[0]
    assert abs(first["high"] - first["low"]) > 0.05 * first["execution_time"]
    assert len(set(answer.column("parameter"))) == len(answer)
    # A table shows those of some effect; JSON has all, numbers and not texts.
    shown = str(answer)
    assert "0.1 % of the variance" in shown and first["parameter"] in shown
    assert len(json.loads(answer.to_json())["rows"]) == len(answer)


def test_answer__is_the_same_to_the_bit_and_a_wider_range_has_a_larger_share(plan):
    one, again = (sweep.sensitivity(plan, samples=FEW) for _ in range(2))
    assert one.rows == again.rows
    assert sweep.sensitivity(plan, samples=FEW, seed=1).rows != one.rows
    name = one[-1]["parameter"]
    wide = sweep.sensitivity(plan, samples=FEW, ranges={name: 0.9})
    shares = [next(r["total"] for r in a if r["parameter"] == name) for a in (one, wide)]
    assert shares[1] > shares[0]


def test_an_exact_number_has_no_row(plan):
    name = sweep.sensitivity(plan, samples=FEW)[0]["parameter"]
    answer = sweep.sensitivity(plan, samples=FEW, ranges={name: 0.0})
    assert name not in answer.column("parameter")


def test_best_of_several__is_at_most_the_time_of_one(plan):
    one, several = (sweep.sensitivity(plan, samples=FEW, of_best=n) for n in (1, 20))
    assert several[0]["execution_time"] == one[0]["execution_time"]
    assert "tile" not in several.columns
    ends = {row["parameter"]: row["high"] for row in one}
    assert all(r["high"] <= ends[r["parameter"]] for r in several if r["parameter"] in ends)


@pytest.mark.slow
def test_a_store_and_its_plan_give_the_same(folder):
    sweep.run("some.toml", "some.zarr")
    select = {"kernel": "vector_add", "device": "rtx_3080"}
    of_plan = sweep.sensitivity("some.toml", samples=FEW, select=select)
    of_store = sweep.sensitivity("some.zarr", samples=FEW, select=select)
    assert of_plan.rows == of_store.rows


def test_by__has_a_configuration_for_each_value():
    sizes = [1 << 20, 1 << 24]
    plan = sweep.Plan(["vector_add"], ["rtx_3080"], variant="revised", axes={"n": sizes})
    answer = sweep.sensitivity(plan, samples=FEW, by=["n"])
    assert sorted(set(answer.column("n"))) == sizes
    assert len(tornado_plot(answer).axes) == 2


def test_command__prints_and_draws(folder, capsys):
    words = ["sensitivity", "some.toml", "kernel=transpose", "--samples", str(FEW)]
    assert main([*words, "-o", "tornado.png"]) == 0
    printed = capsys.readouterr().out
    assert "transpose on rtx_3080" in printed and "of 95 %" in printed
    assert "…" not in printed
    assert (folder / "tornado.png").read_bytes()[:4] == b"\x89PNG"
    assert main([*words, "--format", "json", "--range", "assumed=0.5"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["device"] for row in rows} == {"gtx_980_paper", "rtx_3080"}
    assert all(row["range"] == 0.5 for row in rows if row["source"] == "assumed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--range", "chip.memory_bandwith_GBps=0.1"], "did you mean 'chip.memory_bandwidth_GBps'"),
        (["--range", "assumed=nan"], "0 to 0.99"),
        (["--range", "assumed"], "must be NAME=NUMBER"),
        (["--samples", "1000"], "a power of two"),
        (["--of-best", "0"], "--of-best 0: outside the range 1 to 1000"),
        (["kernel=transpse"], "did you mean 'transpose'"),
        (["--by", "til"], "did you mean 'tile'"),
    ],
)
def test_command__refuses_what_is_wrong(folder, capsys, words, message):
    assert message in refused(capsys, "sensitivity", "some.toml", "device=rtx_3080", *words)


def test_kernels_without_a_result_are_refused(folder, capsys):
    text = PLAN.replace('"transpose", "vector_add"', '"transpose"') + "[axes]\ntile = [2048]\n"
    (folder / "none.toml").write_text(text, encoding="utf-8")
    assert "no configuration has a time" in refused(capsys, "sensitivity", "none.toml")


def test_tornado__has_a_bar_from_end_to_end_and_the_longest_on_top(plan, tmp_path):
    answer = sweep.sensitivity(plan, samples=FEW)
    figure = tornado_plot(answer, most=4)
    (axes,) = figure.axes
    nominal = answer[0]["execution_time"]
    widths = np.array([patch.get_width() for patch in axes.patches]).reshape(4, 2)
    spans = np.abs(widths[:, 1] - widths[:, 0])
    assert (np.diff(spans) <= 0).all()
    swings = sorted((abs(row["high"] - row["low"]) / nominal for row in answer), reverse=True)
    scale = axes.lines[0].get_xdata()[0]
    assert spans / scale == pytest.approx(swings[:4])
    assert save(figure, tmp_path / "t.svg").is_file()
    with pytest.raises(QueryError, match="draws the answer of"):
        tornado_plot(sweep.best(plan))
