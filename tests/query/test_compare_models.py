"""Agreement of models: ranks against brute force, loss, regimes where they part, the figure."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

from sweep import plot
from sweep.errors import QueryError
from sweep.query import compare_models
from sweep.query.agreement import average_ranks, model_pairs, spearman

FLAGS = {"flag_values": [0, 10, 11, 20, 21], "flag_meanings": "none a_1 a_2 b_1 b_2"}


def results(times, regimes=None):
    """Return one kernel's results of two models on one device."""
    times = np.asarray(times, dtype=np.float32)[:, np.newaxis, :]
    dims = ("model", "device", "tile")
    status = np.where(np.isfinite(times), 0, 8).astype(np.uint8)
    data = {"execution_time": (dims, times, {"units": "s"}), "status": (dims, status)}
    if regimes is not None:
        codes = np.asarray(regimes, dtype=np.uint8)[:, np.newaxis, :]
        data["regime"] = (dims, codes, FLAGS)
    coords = {"model": ["a", "b"], "device": ["d"], "tile": np.arange(times.shape[-1])}
    return xr.DataTree.from_dict({"k": xr.Dataset(data, coords)})


def ranks_by_counting(values):
    return [sum(v < x for v in values) + (sum(v == x for v in values) + 1) / 2 for x in values]


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_average_ranks__are_those_of_counting(values):
    assert average_ranks(np.array(values, float)).tolist() == ranks_by_counting(values)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=40))
def test_spearman__is_the_correlation_of_the_ranks(pairs):
    a, b = np.array(pairs, float).T
    ranks = np.array(ranks_by_counting(a)), np.array(ranks_by_counting(b))
    if np.ptp(ranks[0]) == 0 or np.ptp(ranks[1]) == 0:
        assert np.isnan(spearman(a, b))
    else:
        assert spearman(a, b) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)


def test_compare_models__agreement_and_loss():
    answer = compare_models(results([[4, 2, 3, np.nan], [8, 5, 4, 1]]))
    (row,) = answer.rows
    assert row["configurations"] == 3
    assert row["rank_correlation"] == pytest.approx(0.5)
    assert row["same_best"] == "no"
    assert row["loss_of_first"] == pytest.approx(5 / 4 - 1)  # a chooses tile 1
    assert row["loss_of_second"] == pytest.approx(3 / 2 - 1)  # b chooses tile 2


def test_compare_models__same_best_holds_with_ties():
    (row,) = compare_models(results([[1, 1, 3], [2, 1, 4]])).rows
    assert row["same_best"] == "yes"


def test_compare_models__names_the_regimes_that_part():
    times = [[1, 2, 3, 4, 5, 6], [1, 2, 3, 6, 5, 4]]
    regimes = [[10, 10, 10, 11, 11, 11], [20, 20, 20, 21, 21, 21]]
    (row,) = compare_models(results(times, regimes)).rows
    assert row["parts_in"] == "a_2 / b_2"


def test_compare_models__one_model_is_nothing_to_compare():
    tree = results([[1, 2], [2, 1]])
    alone = xr.DataTree.from_dict({"k": tree["k"].to_dataset().isel(model=[0])})
    with pytest.raises(QueryError, match="no two models"):
        compare_models(alone)


def test_model_pairs__a_large_space_is_sampled(monkeypatch):
    monkeypatch.setattr("sweep.query.agreement.SAMPLE", 10)
    (pair,) = model_pairs(results(np.random.default_rng(1).random((2, 64))))
    assert len(pair.first_values) == 8


def test_models_plot__marks_shared_optima_and_names_the_worst(tmp_path):
    regimes = [[10, 10, 11, 11], [20, 20, 21, 21]]
    figure = plot.models_plot(results([[1, 2, 3, 4], [1, 4, 3, 2]], regimes))
    left, right = figure.axes[:2]
    assert len(left.lines) == 1
    assert "least agreement: k, d" in right.get_title()
    assert "execution time, a [s]" == right.get_xlabel()
    assert plot.save(figure, tmp_path / "models.png").stat().st_size > 5000
