"""Times of listed problems, against the grid that holds them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr

import sweep
from sweep.errors import QueryError
from sweep.evaluation import problems as module
from sweep.evaluation.problems import Problems, distinct_rows, times_of_rows
from sweep.space import Plan

M, N = [512, 4096], [1024, 3000]
AXES = {"m": M, "n": N, "k": [256], "BLOCK_K": [32, 64], "num_stages": [3], "num_warps": [4]}
PLAN = Plan(["triton_matmul"], ["a100_80gb"], ["combined"], variant="revised", axes=AXES,
            constraints=["BLOCK_M <= 128", "BLOCK_N * BLOCK_K <= m * 8"],
            precision="float64")  # fmt: skip
LISTED = {"m": np.array([4096, 512, 512]), "n": np.array([3000, 1024, 3000])}


@pytest.fixture(scope="module")
def listed() -> Problems:
    return Problems.of(PLAN, LISTED)


@pytest.fixture(scope="module")
def expected(listed):
    dense = sweep.evaluate(replace(PLAN, layout="grid"))["triton_matmul"].to_dataset().load()
    at = {name: xr.DataArray(listed.configurations.column(name), dims="configuration")
          for name in listed.configurations.axes}  # fmt: skip
    at |= {name: xr.DataArray(column, dims="problem") for name, column in LISTED.items()}
    found = dense["execution_time"].squeeze(("model", "device", "k")).sel(at)
    return found.transpose("problem", "configuration").values


def test_times__are_those_of_the_grid(listed, expected, monkeypatch):
    np.testing.assert_array_equal(listed.times(), expected)
    assert np.isfinite(expected).any(axis=1).all() and np.isnan(expected).any()
    monkeypatch.setattr(module, "POINTS", 1)  # a batch for each problem
    np.testing.assert_array_equal(listed.times(), expected)


@pytest.mark.parametrize("every", [1, 37])
def test_times_of_rows__are_those_of_the_problem_and_the_configuration(listed, expected, every):
    problem, number = (a.ravel()[::every] for a in np.indices(expected.shape))
    order = np.random.default_rng(1).permutation(len(problem))
    problem, number = problem[order], number[order]
    columns = {name: listed.configurations.column(name)[number]
               for name in ("BLOCK_M", "BLOCK_N", "BLOCK_K", "GROUP_M")}  # fmt: skip
    sizes = {name: column[problem] for name, column in LISTED.items()}
    times, configuration = times_of_rows(listed, sizes, columns)
    np.testing.assert_array_equal(times, expected[problem, number])
    assert len(np.unique(configuration)) == len(np.unique(number))


def test_selection__narrows_parameters_and_gives_sizes(listed):
    select = {"BLOCK_M": [16, 32], "BLOCK_N": (64, None), "bits": 8}
    some = Problems.of(PLAN, LISTED, select=select)
    assert set(some.configurations.column("BLOCK_M")) == {16, 32}
    assert some.configurations.column("BLOCK_N").min() == 64
    assert np.isnan(some.times()).all()  # this device has no products of 8 bits
    assert np.isfinite(Problems.of(PLAN, LISTED, select=select | {"bits": 16}).times()).any()


def test_what_is_open_or_unknown_is_named():
    with pytest.raises(QueryError, match=r"n has 2 values, .*n=VALUE"):
        Problems.of(PLAN, {"m": LISTED["m"]})
    with pytest.raises(QueryError, match="no problem size 'M' .it has m, n, k, bits"):
        Problems.of(PLAN, {"M": LISTED["m"]})
    with pytest.raises(QueryError, match="no device 'a40'"):
        Problems.of(PLAN, LISTED, select={"device": "a40"})
    with pytest.raises(QueryError, match="has no 'BLOK_M'; did you mean 'BLOCK_M'"):
        Problems.of(PLAN, LISTED, select={"BLOK_M": 16})
    with pytest.raises(QueryError, match="BLOCK_M=17: the plan has none"):
        Problems.of(PLAN, LISTED, select={"BLOCK_M": 17})


def test_distinct_rows__number_equal_rows_alike():
    first, number = distinct_rows({"a": np.array([2, 1, 2]), "b": np.array(["x", "x", "x"])})
    assert number[0] == number[2] != number[1] and sorted(first) == [0, 1]
