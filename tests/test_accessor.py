"""The questions as methods of xarray's data."""

import subprocess
import sys

import pytest
import xarray as xr

import sweep

PLAN = sweep.Plan(kernels=["vector_add", "mat_tiled"], devices=["gtx_980_paper"],
                  models=["wang_chu"], axes={"tile": [8, 16]})  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    place = tmp_path_factory.mktemp("stores") / "s.zarr"
    sweep.run(PLAN, place)
    return place


@pytest.fixture(params=["evaluated", "opened", "stored", "dataset", "plain xarray"])
def data(request, store):
    if request.param == "evaluated":
        return sweep.evaluate(PLAN)
    if request.param == "opened":
        return sweep.open(PLAN)
    if request.param == "plain xarray":
        return xr.open_zarr(store, group="mat_tiled")
    tree = sweep.open_store(store)
    return tree if request.param == "stored" else tree["mat_tiled"].to_dataset()


def test_questions__are_those_of_the_functions(data):
    assert data.sweep.best("energy", by=[]).rows == sweep.best(data, "energy", by=[]).rows
    assert data.sweep.top(2).rows == sweep.top(data, 2).rows
    assert data.sweep.pareto().rows == sweep.pareto(data).rows
    assert data.sweep.summary().rows == sweep.summary(data).rows
    assert data.sweep.histogram(bins=3).rows == sweep.histogram(data, bins=3).rows
    assert data.sweep.plot("pareto", select={"kernel": "mat_tiled"}).axes


def test_explain__is_that_of_the_plan(data):
    found = data.sweep.explain(kernel="mat_tiled", tile=8)
    best = sweep.top(sweep.evaluate(PLAN), 1, select={"kernel": "mat_tiled", "tile": 8})[0]
    assert found.results == sweep.explain(PLAN, best.configuration).results
    assert data.sweep.explain(kernel="mat_tiled").configuration["tile"] == 16


def test_explain__refuses_a_kernel_file_that_has_changed():
    data = sweep.evaluate(PLAN)["mat_tiled"].to_dataset()
    data.attrs["kernel_sha256"] = "0"
    with pytest.raises(sweep.QueryError, match="the file of kernel 'mat_tiled' has changed"):
        data.sweep.explain()


def test_plot__names_its_kinds():
    with pytest.raises(sweep.QueryError, match="no kind 'pie'; one of .*heatmap"):
        sweep.evaluate(PLAN).sweep.plot("pie")


def test_import__of_sweep_does_not_import_xarray():
    script = "import sys, sweep; assert 'xarray' not in sys.modules; import sweep.accessor"
    subprocess.run([sys.executable, "-c", script], check=True)
