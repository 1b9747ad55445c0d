"""Histograms and shares: the counts of brute force, from every kind of results."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.planned_spaces import CLOCKS, DIMENSIONS, assert_same, laid_out, noted_reductions

import sweep
from sweep import query
from sweep.cli import main
from sweep.compiler.reductions import Counts, take_bins
from sweep.errors import QueryError
from sweep.evaluation.planned import Planned, evaluate
from sweep.plot import histogram_plot
from sweep.query.grid import grids_of_store
from sweep.reduction import Keep

pytestmark = pytest.mark.usefixtures("spaces")


def frame_of(results, name):
    """Return a variable and the dimensions of all configurations, a row for each."""
    frames = []
    for kernel in ("matrixmul_shared", "sepia"):
        dataset = results[kernel].to_dataset().drop_vars(["core_clock", "memory_clock"])
        frames.append(dataset[[name, "status"]].to_dataframe().reset_index().assign(kernel=kernel))
    frame = pd.concat(frames)
    if frame[name].dtype.kind == "f":  # a number counts where its configuration can be
        frame[name] = frame[name].where(frame["status"] == 0)
    return frame


def brute(results, name, by, borders=None):
    """Return the counts by group's labels, counted by NumPy over everything at once."""
    found = {}
    frame = frame_of(results, name)
    for key, group in frame.groupby(by) if by else [((), frame)]:
        values = group[name].to_numpy()
        if borders is None:
            found[key] = np.bincount(values, minlength=256)
        else:
            good = values[~np.isnan(values)].astype(float)
            inside = np.histogram(good, borders)[0]
            found[key] = np.array([(good < borders[0]).sum(), *inside, (good > borders[-1]).sum(),
                                   values.size - good.size])  # fmt: skip
    return found


def assert_counted(data, expected, shown, by, *question, **options):
    """Check that all kinds of results give the same answer, with the expected counts by group."""
    answers = [query.histogram(one, *question, by=by, **options) for one in data]
    assert len({answer.to_json() for answer in answers}) == 1
    found = {}
    for row in answers[0]:
        found.setdefault(tuple(row[d] for d in by), []).append(row["count"])
    assert found == {key: counts[shown].tolist() for key, counts in expected.items()}


GROUPS = st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=3)


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.sampled_from(["clocks execution_time", "clocks energy", "rows execution_time",
                     "rows occupancy"]),
    GROUPS, st.integers(1, 70), st.booleans(), st.integers(1, 3),
)  # fmt: skip
def test_bins_are_those_of_brute_force(spaces, asked, by, n, log, threads):
    form, name = asked.split()
    space, results, path = spaces[form]
    pooled = frame_of(results, name)[name]
    # Some configurations lie outside, and some on a border to the bit.
    low, high = (float(np.nanpercentile(pooled, p, method="nearest")) for p in (2, 97))
    if name == "occupancy":
        low, high = 0.1, 0.9
    expected = brute(results, name, by, (np.geomspace if log else np.linspace)(low, high, n + 1))
    shown = sum(expected.values()) > 0
    shown[1:-2] = True
    data = Planned(space, threads=threads), results, path
    assert_counted(data, expected, shown, by, name, n, within=(low, high), log=log)


@pytest.mark.slow
@settings(max_examples=6)
@given(
    st.sampled_from(["clocks regime", "clocks status", "rows bound", "rows occupancy_limiter"]),
    GROUPS,
)
def test_shares_are_those_of_brute_force(spaces, asked, by):
    form, name = asked.split()
    space, results, path = spaces[form]
    expected = brute(results, name, by)
    data = Planned(space, threads=2), results, path
    assert_counted(data, expected, sum(expected.values()) > 0, by, name)


def test_summary_without_regimes():
    axes = {"block_size": [64, 256], **CLOCKS}
    space = laid_out(kernels=["sepia"], models=["hong_kim"], outputs=["execution_time"], axes=axes)
    assert_same(sweep.summary, space, evaluate(space).compute())


def test_compiled_passes_answer(spaces, monkeypatch):
    seen = noted_reductions(monkeypatch)
    space, results, _ = spaces["clocks"]
    sweep.summary(space)
    sweep.histogram(space, "regime", by=["model"])
    sweep.histogram(space, "execution_time", by=["device"])
    assert seen == [True] * 14
    assert_same(query.histogram, Planned(space), results, "regime", where="occupancy > 0.3")
    select = {"core_clock": (500, 900)}
    assert_same(query.histogram, Planned(space), results, "execution_time", select=select)
    assert seen == [True] * 14, "a condition and a mask are read"


def test_lists_answer_like_grids():
    """Configurations that a list leaves out are counted as a grid would have them."""
    plan = {"kernels": ["matrixmul_shared"], "devices": ["gtx_980"],
            "axes": {"tile": [8, 16, 32, 64], **CLOCKS}}  # fmt: skip
    grid, stacked = (laid_out(**plan, layout=layout) for layout in ("grid", "stacked"))
    whole = evaluate(grid).compute()
    for name in ("status", "regime", "execution_time"):
        for by in ((), ("model",), ("tile", "model"), ("core_clock_ratio", "tile")):
            expected = query.histogram(whole, name, by=by).to_json()
            assert sweep.histogram(grid, name, by=by).to_json() == expected
            assert sweep.histogram(stacked, name, by=by).to_json() == expected


def test_index_answers_without_reading(spaces, monkeypatch):
    space, results, path = spaces["clocks"]
    grids_of_store.cache_clear()
    from sweep.store.reader import StoredArray

    read = []
    whole = StoredArray.read

    def counting(self, index=None):
        if index and "/" in self.key:  # neither a label nor an array of the index
            read.append(self.key)
        return whole(self, index)

    monkeypatch.setattr(StoredArray, "read", counting)
    for name in ("status", "regime"):
        query.histogram(path, name, by=["device"])
    query.histogram(path, "execution_time", [0.0, 1e9], by=["model"])
    assert not read
    query.histogram(path, "execution_time", 20)
    assert read
    for data in (path, Planned(space)):
        assert_same(query.histogram, data, results, "memory_warp_parallelism", 5)


@given(
    st.lists(st.floats(width=32), max_size=60),
    st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=40, unique=True),
    st.sampled_from([np.float32, np.float64]),
)
def test_pass_sorts_any_number(values, borders, dtype):
    cuts = np.sort(np.array(borders))
    row = np.array(values, dtype)
    state = Counts(Keep("bins", cuts=tuple(cuts.tolist())), 1)
    take_bins(state.arguments, (row,), 0, np.zeros(1, np.int64), 0, False)
    (counts,) = state.arguments[0]
    good = row[~np.isnan(row)].astype(float)
    expected = np.bincount(np.searchsorted(cuts, good, side="right"), minlength=len(cuts) + 1)
    assert counts[:-1].tolist() == expected.tolist()
    assert counts[-1] == np.isnan(row).sum()


# ---------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"bins": 0}, "whole number from 1 to 10,000, not 0"),
        ({"bins": True}, "whole number from 1 to 10,000"),
        ({"bins": [1.0]}, "two or more ascending numbers"),
        ({"bins": [2.0, 1.0]}, "two or more ascending numbers"),
        ({"bins": [1.0, 2.0], "log": True}, "neither range nor scale"),
        ({"within": (2.0, 1.0)}, "lower end below a finite upper end, not 2 to 1"),
        ({"within": (0.0, 1.0), "log": True}, "begin above 0, not at 0"),
        ({"variable": "regime", "bins": 3}, "'regime' is a code: its meanings are counted"),
        ({"variable": "execution_tim"}, "did you mean 'execution_time'"),
        ({"variable": "tile"}, "'tile' is a coordinate"),
        ({"by": ["tiles"]}, "did you mean 'tile'"),
    ],
)
def test_wrong_questions_are_refused(spaces, question, message):
    with pytest.raises(QueryError, match=message):
        query.histogram(spaces["clocks"][1], **question)


def test_one_value_has_a_bin_around_it(spaces):
    select = {"kernel": "sepia", "device": "gtx_280", "model": "hong_kim", "block_size": 64,
              "core_clock_ratio": 1.0, "memory_clock_ratio": 1.0}  # fmt: skip
    (row,) = query.histogram(spaces["clocks"][1], select=select, bins=1)
    assert (row["count"], row["share"]) == (1, 1.0)
    assert row["lowest"] < row["highest"]


def test_command_prints_and_draws(spaces, folder, capsys):
    path = str(spaces["clocks"][2])
    words = ["histogram", path, "execution_time", "--bins", "4", "--log", "--by", "device"]
    assert main([*words, "kernel=sepia", "--figure", "times.png"]) == 0
    shown = capsys.readouterr().out
    assert "histogram of execution_time by device" in shown and "figure: times.png" in shown
    assert (folder / "times.png").stat().st_size > 5000
    assert main(["histogram", path, "bound", "--format", "csv", "--figure", "bound.svg"]) == 0
    assert capsys.readouterr().out.startswith("kernel,device,model,bound,count,share")
    for wrong, said in (
        (["--range", "1-2"], "--range '1-2': two numbers"),
        (["--workers", "2"], "--workers: only for plans, and '"),
        (["--columns", "nope", "--figure", "no.png"], "the answer has no column 'nope'"),
    ):
        assert main([*words, *wrong]) == 2
        error = capsys.readouterr().err
        assert said in error and error.count("\n") == 1
    assert not (folder / "no.png").exists()


@pytest.mark.parametrize("by", [[], ["device"]])
def test_statuses_are_counted_and_no_reasons(spaces, by):
    answer = query.histogram(spaces["clocks"][1], "status", by=by)
    text = answer.to_table(wide=False) + answer.to_table(wide=True)
    assert len({*answer.column("status")}) > 1 and "no result" not in text
    assert all(text.count(status) >= 2 for status in answer.column("status"))


def test_too_many_groups_to_draw(spaces):
    answer = query.histogram(spaces["clocks"][1], "bound", by=["device", "core_clock_ratio"])
    with pytest.raises(QueryError, match="12 groups are more than the 8"):
        histogram_plot(answer)
    with pytest.raises(QueryError, match="only the answer of a histogram"):
        histogram_plot(query.best(spaces["clocks"][1]))
