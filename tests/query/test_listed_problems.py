"""Answers about a list of problems are those of each alone: of a plan, memory and a store."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from support.refusals import refused

import sweep
from sweep.cli import main
from sweep.errors import QueryError, StoreError
from sweep.evaluation.planned import Planned
from sweep.runs.covering import best_few
from sweep.runs.extending import extend
from sweep.runs.running import run
from sweep.space import Plan

BY = ("m", "n", "k")
ROWS = [(16, 1024, 4096), (4096, 8192, 1024), (17, 1000, 100), (16, 1024, 4096), (1, 64, 300)]
AXES = {"GROUP_M": [1, 8], "num_warps": [4], "num_stages": [3], "BLOCK_K": [32, 128],
        "BLOCK_M": [16, 128], "BLOCK_N": [32, 128]}  # fmt: skip
PLAN = Plan(
    ["triton_matmul"], ["a100_80gb", "rtx_4090"], ["combined"], variant="revised", axes=AXES,
    constraints=["BLOCK_M <= 16 * m", "GROUP_M <= ceil(m / BLOCK_M)"], precision="float64",
    problems=dict(zip(BY, zip(*ROWS, strict=True), strict=True)),
)  # fmt: skip


def alone(row: tuple[int, ...], **more) -> Plan:
    axes = AXES | {name: [size] for name, size in zip(BY, row, strict=True)}
    return replace(PLAN, problems=None, axes=axes, **more)


@pytest.fixture(scope="module", params=["grid", "stacked"])
def layout(request):
    return request.param


@pytest.fixture(scope="module", params=["plan", "memory", "store"])
def results(request, layout, tmp_path_factory):
    plan = replace(PLAN, layout=layout)
    if request.param == "plan":
        return Planned.of(plan)
    if request.param == "memory":
        return sweep.evaluate(plan).load()
    path = tmp_path_factory.mktemp("store") / "p.zarr"
    run(replace(plan, chunk_points=300), path)
    return path


def values(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def test_results__are_those_of_each_problem_to_the_bit(layout):
    found = sweep.evaluate(replace(PLAN, layout=layout))["triton_matmul"].to_dataset().load()
    assert found.m.dims == ("problem",) and found.n.values.tolist() == [row[1] for row in ROWS]
    for number, row in enumerate(ROWS):
        one = sweep.evaluate(alone(row, layout=layout))["triton_matmul"].to_dataset().load()
        for name in ("execution_time", "status", "occupancy", "regime"):
            mine = found[name].isel(problem=number).squeeze()
            np.testing.assert_array_equal(mine.values, one[name].squeeze().values, err_msg=name)


def test_best_by_sizes__is_the_best_of_each_problem(results):
    names = ("device", *BY, "execution_time", "BLOCK_M", "BLOCK_N", "runner_up")
    rows = values(sweep.best(results, by=("device", *BY)), *names)
    expected = [
        row
        for device in PLAN.devices
        for shape in dict.fromkeys(ROWS)  # a shape that is listed twice is one group
        for row in values(sweep.best(alone(shape), by=BY, select={"device": device}), *names)
    ]
    # A twin of the best is listed: the runner-up of such a group may be its twin.
    assert [row[:-1] for row in rows] == [row[:-1] for row in expected]
    assert len(sweep.best(results, by=["problem"])) == len(ROWS)


def test_questions__by_some_sizes_and_under_conditions(results):
    of_n = values(sweep.best(results, by=["n"]), "n", "execution_time")
    assert of_n == [(n, min(row["execution_time"] for row in sweep.best(results, by=BY)
                            if row["n"] == n)) for n in (1024, 8192, 1000, 64)]  # fmt: skip
    some = sweep.best(results, by=BY, where="m > 16 and n != 64")
    assert values(some, "m") == [(4096,), (17,)] and any("m=16" in note for note in some.notes)
    assert values(sweep.best(results, by=BY, select={"m": (10, 20)}), *BY) == [ROWS[0], ROWS[2]]
    near = sweep.top(results, 1000, by=BY, where="execution_time < 1.05 * fastest")
    best = {row["m"]: row["execution_time"] for row in sweep.best(results, by=("device", *BY))}
    assert {row["m"] for row in near} == {*best}
    few = sweep.top(results, 2, by=["n"], distinct=["m", "BLOCK_M"])
    assert len({(row["n"], row["m"], row["BLOCK_M"]) for row in few}) == len(few)
    front = sweep.pareto(results, ["execution_time", "occupancy"], ["min", "max"], by=BY)
    assert {tuple(row[name] for name in BY) for row in front} == {*ROWS}
    points = [row["points"] for row in sweep.summary(results, by=BY)]
    assert points[0] == 2 * points[1] == 2 * points[3]
    with pytest.raises(QueryError, match="has no problem with m = 16, n = 1000"):
        sweep.best(results, select={"m": 16, "n": 1000})
    with pytest.raises(QueryError, match="'q' is no dimension.*m, n"):
        sweep.best(results, by=["q"])


def test_choices__have_a_place_for_each_row(results):
    found = sweep.choices(results, by=["problem", "device"])
    assert found.execution_time.dims == ("problem", "device")
    assert found.m.values.tolist() == [row[0] for row in ROWS]
    assert found.identical(sweep.choices(results, by=[*BY, "device"]))
    times = values(sweep.best(results, by=("problem", "device")), "execution_time")
    assert found.execution_time.values.ravel().tolist() == [time for (time,) in times]
    some = sweep.choices(results, by=["k", "n", "m"], select={"m": 16})
    assert some.problem.values.tolist() == [0, 3]
    with pytest.raises(QueryError, match="problems differ in k, m, n: name all"):
        sweep.choices(results, by=["m"])


def test_best_few__takes_each_shape_once_or_each_row():
    select = {"device": "a100_80gb"}
    axes = {"m": [16, 4096], "n": [1024, 64], "k": [300]}
    rows = [dict(zip(axes, row, strict=True)) for row in
            [(m, n, 300) for m in axes["m"] for n in axes["n"]]]  # fmt: skip
    dense = best_few(replace(PLAN, axes=AXES | axes, problems=None), 3, select=select)
    listed = replace(PLAN, problems=[*rows, rows[0], rows[0]])
    for by in (BY, ()):
        found = best_few(listed, 3, by=by, select=select)
        assert found.rows == dense.rows and "4 problems by" in found.notes[0]
    each = best_few(listed, 1, by=["problem"], select=select)
    assert "6 problems by m, n, k" in each.notes[0]
    only = best_few(listed, 1, by=BY, select=select | {"m": 16})
    assert "2 problems" in only.notes[0]
    with pytest.raises(QueryError, match="n has 2 values"):
        best_few(listed, 1, by=["m"], select=select)
    with pytest.raises(QueryError, match="--by q: problems differ.*problem, m, n, k"):
        best_few(listed, 1, by=["q"])


def test_parameters_in_the_list__belong_to_the_problem(capsys, folder):
    problems = {"m": [512, 512], "n": [512, 512], "k": [512, 512], "b_by_column": [0, 1]}
    plan = replace(PLAN, problems=problems, constraints=())
    by = (*BY, "b_by_column")
    rows = sweep.best(plan, by=by, select={"device": "a100_80gb"})
    for row in rows:
        one = alone((512, 512, 512), constraints=())
        one = replace(one, axes=one.axes | {"b_by_column": [row["b_by_column"]]})
        same = sweep.best(one, select={"device": "a100_80gb"})[0]
        assert row["execution_time"] == same["execution_time"]
    assert "2 problems by m, n, k, b_by_column" in best_few(plan, 1, by=by).notes[0]
    with pytest.raises(QueryError, match="b_by_column has 2 values, and the problems have none"):
        best_few(plan, 1, by=BY)


def test_store__is_extended_by_problems_and_compared_by_shape(folder, capsys):
    plan = replace(PLAN, devices=("a100_80gb",), store=str(folder / "p.zarr"))
    run(plan, folder / "p.zarr")
    more = {name: (5, *column) for name, column in plan.problems.items()}
    extend(folder / "p.zarr", replace(plan, problems=more))
    fresh = sweep.evaluate(replace(plan, problems=more)).load()
    stored = sweep.open_store(folder / "p.zarr")["triton_matmul"].to_dataset().load()
    np.testing.assert_array_equal(
        stored.execution_time, fresh["triton_matmul"].execution_time.values
    )
    other = {"m": (1,), "n": (64,), "bits": (16,)}
    with pytest.raises(StoreError, match="has problems of m, n, k, .* of m, n, bits"):
        extend(folder / "p.zarr", replace(plan, problems=other))
    run(replace(plan, problems={n: c[::-1] for n, c in more.items()}), folder / "q.zarr")
    capsys.readouterr()
    assert main(["compare", "p.zarr", "q.zarr", "--format", "json"]) == 0
    (changed,) = json.loads(capsys.readouterr().out)["rows"]
    assert changed["changed"] == changed["only_before"] == 0 < changed["compared"]
    assert main(["plot", "p.zarr", "heatmap", "-x", "k", "-y", "m"]) == 0
    assert main(["explain", "p.zarr", "m=17", "n=1000", "k=100"]) == 0
    assert "17" in capsys.readouterr().out
    assert "has no problem with" in refused(capsys, "top", "p.zarr", "1", "m=17", "n=64")
