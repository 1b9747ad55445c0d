"""A list of valid configurations gives the same answers as the grid that it is taken from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from support.refusals import refused

import sweep
from sweep import plot, query
from sweep.cli import main
from sweep.errors import PlanError, QueryError
from sweep.fields import STACKED
from sweep.runs.running import run
from sweep.space import Plan, parse_plan, resolve
from sweep.specs.names import why_not_a_name

PAPER = "gtx_980_paper"

PLAN: dict[str, Any] = {
    "kernels": ["matrixmul_shared", "transpose"],
    "devices": [PAPER, "gtx_280"],
    "models": ["hong_kim", "wang_chu"],
    "axes": {"core_clock_ratio": [0.8, 1.0], "memory_clock_ratio": [0.7, 1.0]},
    "kernel_axes": {"matrixmul_shared": {"n": [960, 1024]}},
    # The kernel files' constraints depend on n; these do not, and leave gaps.
    "constraints": ["tile % unroll == 0", "tile / work_per_thread > 2", "tile % block_rows == 0"],
}


def plan(layout: str, **more: Any) -> Plan:
    return Plan(**{**PLAN, "layout": layout, **more})


@pytest.fixture(scope="module", params=["memory", "store"])
def both(request, tmp_path_factory) -> dict[str, Any]:
    """The same results as a grid and as a list: in memory, or in stores of small chunks."""
    if request.param == "memory":
        return {layout: sweep.evaluate(plan(layout)).load() for layout in ("grid", "stacked")}
    folder = tmp_path_factory.mktemp("stores")
    for layout, points in (("grid", 700), ("stacked", 130)):
        run(plan(layout, chunk_points=points), folder / f"{layout}.zarr")
    return {layout: folder / f"{layout}.zarr" for layout in ("grid", "stacked")}


def test_the_list_has_the_valid_configurations_only():
    grid, results = (sweep.evaluate(plan(layout))["matrixmul_shared"].to_dataset()
                     for layout in ("grid", "stacked"))  # fmt: skip
    dims = ("model", "device", "n", STACKED, "core_clock_ratio", "memory_clock_ratio")
    assert results.execution_time.dims == dims
    assert results.tile.dims == (STACKED,)
    assert results[STACKED].attrs["stacks"] == ["tile", "work_per_thread", "unroll"]
    assert results.tile.attrs["axis_values"] == [8, 16, 32, 64]
    allowed = (results.tile % results.unroll == 0) & (results.tile / results.work_per_thread > 2)
    assert bool(allowed.all())
    assert 0 < results.sizes[STACKED] < 4 * 5 * 7
    points = {name: xr.DataArray(results[name].values, dims=STACKED)
              for name in results[STACKED].attrs["stacks"]}  # fmt: skip
    for name, same in grid.sel(points).data_vars.items():
        expected = same.transpose(*results[name].dims)
        np.testing.assert_array_equal(results[name], expected, err_msg=str(name))


QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "best": ("best", {}),
    "best by a parameter": ("best", {"by": ["tile"]}),
    "best by parameters and dimensions": (
        "best", {"by": ["unroll", "device", "tile", "model"], "select": {"n": 1024}}),
    "best by a clock": ("best", {"by": ["core_clock_ratio", "work_per_thread"]}),
    "best by all parameters": ("best", {"by": ["kernel", "unroll", "work_per_thread", "tile"]}),
    "largest": ("best", {"sense": "max", "by": ["work_per_thread"]}),
    "selected": ("best", {"select": {"tile": [8, 32], "device": PAPER}, "by": ["unroll"]}),
    "range": ("best", {"select": {"unroll": (2, 16)}, "by": ["tile", "kernel"]}),
    "nothing is valid": ("best", {"select": {"tile": 8, "work_per_thread": 16}}),
    "groups without any": ("best", {"by": ["tile", "work_per_thread"], "select": {"unroll": 64}}),
    "condition": ("best", {"where": "occupancy > 0.3 and tile >= 16", "by": ["unroll"]}),
    "energy": ("best", {"objective": "energy", "by": ["tile"]}),
    "own variable": ("best", {"objective": "hong_kim_rounds", "sense": "max", "by": ["tile"]}),
    "top": ("top", {"n": 7}),
    "top by": ("top", {"n": 3, "by": ["tile", "model"]}),
    "top of everything": ("top", {"n": 5000, "select": {"device": PAPER}}),
    "pareto": ("pareto", {}),
    "pareto by": ("pareto", {"by": ["tile", "device"]}),
    "pareto by clocks": ("pareto", {"by": ["memory_clock_ratio", "unroll"]}),
    "summary": ("summary", {}),
    "summary by": ("summary", {"by": ["tile", "kernel"]}),
    "summary of a selection": ("summary", {"select": {"tile": 16}, "by": ["device"]}),
    "summary of clocks in MHz": (
        "summary", {"select": {"core_clock": (500, 1100)}, "by": ["unroll", "model", "device"]}),
    "agreement of models": ("compare_models", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", QUESTIONS)
def test_answers_are_the_same(name, both):
    function, arguments = QUESTIONS[name]
    ask = getattr(query, function)
    grid, stacked = (ask(both[layout], **arguments) for layout in ("grid", "stacked"))
    assert stacked.to_table() == grid.to_table()
    assert stacked.columns == grid.columns
    assert list(map(dict, stacked)) == list(map(dict, grid))
    assert stacked.notes == grid.notes
    assert len(grid)


def test_results_are_compared_configuration_by_configuration(both):
    fewer = plan("stacked", constraints=[*PLAN["constraints"], "tile > 8"])
    answer = query.compare_results(both["stacked"], sweep.evaluate(fewer))
    row = next(r for r in answer if r["kernel"] == "matrixmul_shared" and r["device"] == PAPER)
    assert (row["changed"], row["only_after"]) == (0, 0)
    assert row["only_before"] > 0 and row["compared"] > 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [("heatmap", {"x": "tile", "y": "unroll"}), ("occupancy_plot", {"x": "tile"}),
     ("occupancy_plot", {"x": "occupancy"}), ("clocks_plot", {}), ("pareto_plot", {})],
)  # fmt: skip
def test_figures_show_the_same(kind, options, both):
    select = {"kernel": "matrixmul_shared", "device": PAPER, "model": "hong_kim", "n": 1024}
    shown = []
    for layout in ("grid", "stacked"):
        figure = getattr(plot, kind)(both[layout], select=select, **options)
        shown.append([
            (axes.get_xlabel(), [text.get_text() for text in axes.texts],
             [np.nan_to_num(line.get_xydata()).round(9).tolist() for line in axes.lines])
            for axes in figure.axes
        ])  # fmt: skip
    assert shown[0] == shown[1]


def test_explain_knows_configurations_of_a_list_and_why_others_are_not_in_it(both):
    source = both["stacked"] if isinstance(both["stacked"], Path) else resolve(plan("stacked"))
    configuration = dict(query.best(both["stacked"])[0].configuration)
    found = sweep.explain(source, configuration)
    assert (found.status, found.configuration["tile"]) == ("valid", configuration["tile"])
    found = sweep.explain(source, {**configuration, "tile": 8, "work_per_thread": 16})
    assert found.status == "constraint" and "tile / work_per_thread > 2" in found.to_text()


# ---------------------------------------------------------------------------- which layout


def test_a_small_or_mostly_valid_space_stays_a_grid(monkeypatch):
    def layout_of(**more: Any) -> tuple[str, ...]:
        return resolve(Plan(**{**PLAN, **more}))["matrixmul_shared"].grid.names

    assert STACKED not in layout_of()
    monkeypatch.setattr("sweep.space.space.SMALL", 10)
    assert STACKED in layout_of()  # large now, and less than half of it is valid
    assert STACKED not in layout_of(constraints=["tile > 8"])
    assert STACKED not in layout_of(layout="grid")


def test_the_layout_is_part_of_the_plan():
    stacked = plan("stacked")
    assert parse_plan(stacked.as_dict()).layout == "stacked"
    assert stacked.digest() != plan("grid").digest()
    assert "layout" not in Plan(**PLAN).as_dict()
    with pytest.raises(PlanError, match="layout: unknown 'stack'; did you mean 'stacked'"):
        plan("stack")


def test_a_space_without_a_valid_configuration_is_refused(folder, capsys):
    Path("none.toml").write_text(
        'schema = 1\nkernels = ["transpose"]\ndevices = ["gtx_980_paper"]\nmodels = ["hong_kim"]\n'
        'layout = "stacked"\nconstraints = ["tile > 100"]\n'
    )
    assert "no configuration satisfies all constraints" in refused(capsys, "run", "none.toml")
    assert [path.name for path in Path().iterdir()] == ["none.toml"]


def test_lists_show_parameters_and_no_numbers(both, capsys):
    with pytest.raises(QueryError, match="has no tile = 7"):
        query.best(both["stacked"], select={"tile": 7})
    columns = list(query.best(both["stacked"], by=["kernel", "tile"]).columns)
    assert STACKED not in columns and {"tile", "unroll", "block_rows"} <= set(columns)
    assert "taken" in why_not_a_name(STACKED, dimension=True)
    if isinstance(both["stacked"], Path):
        words = ["best", str(both["stacked"]), "--by", "kernel,tile", "--format", "csv"]
        assert main(words) == 0
        assert capsys.readouterr().out.splitlines()[0].split(",") == columns
