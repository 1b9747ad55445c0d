"""Conditions relative to the fastest configuration: three sources against brute force."""

import itertools

import numpy as np
import pytest

import sweep
from sweep import query

KERNELS = ["mat_tiled", "sepia"]
PLAN = sweep.Plan(
    kernels=KERNELS,
    devices=["gtx_980_paper", "gtx_280"],
    models=["wang_chu", "hong_kim"],
    axes={
        "tile": [4, 8, 16, 32],
        "n": [512, 1024],
        "core_clock_ratio": [0.8, 0.9, 1.0],
        "memory_clock_ratio": [0.9, 1.0],
    },
    variant="revised",
)
WHERE = "execution_time < 1.1 * fastest"


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    place = tmp_path_factory.mktemp("stores") / "s.zarr"
    sweep.run(PLAN, place)
    return place


@pytest.fixture(params=["plan", "dataset", "memory", "store"])
def source(request, stored):
    if request.param == "plan":
        return PLAN
    if request.param == "store":
        return stored
    tree = sweep.evaluate(PLAN)
    return tree if request.param == "dataset" else {k: tree[k].to_dataset().load() for k in KERNELS}


def points():
    """Yield every configuration with a time, and the smallest time of its group."""
    tree = sweep.evaluate(PLAN)
    for kernel in KERNELS:
        data = tree[kernel].to_dataset().load()
        valid = data["status"] == 0
        time = data["execution_time"].where(valid)
        inner = [d for d in time.dims if d not in ("kernel", "device", "model", "n")]
        least = time.min(inner)
        for place in itertools.product(*(range(n) for n in time.shape)):
            at = dict(zip(time.dims, place, strict=True))
            if bool(valid.isel(at)):
                names = {d: data[d].values[i].item() for d, i in at.items()}
                group = least.isel({d: i for d, i in at.items() if d in least.dims})
                values = {v: float(data[v].isel(at)) for v in ("execution_time", "energy")}
                yield {"kernel": kernel, **names, **values, "fastest": float(group)}


def names_of(row):
    return tuple((k, row[k]) for k in ("kernel", "device", "model", "n", "tile") if k in row)


def test_top_is_that_of_brute_force(source):
    expected = [p for p in points() if p["execution_time"] < 1.1 * p["fastest"]]
    found = sweep.top(source, 10_000, where=WHERE, ties=True).rows
    assert len(found) == len(expected) and 0 < len(found) < len([*points()])
    assert [r["execution_time"] for r in found] == sorted(p["execution_time"] for p in expected)
    clocks = "core_clock_ratio", "memory_clock_ratio"
    first, apart = {}, ("kernel", "device", "model", "n", *clocks, "execution_time")
    for row in found:
        first.setdefault(tuple(map(row.get, apart)), row)  # of those that tie
    assert len(first) < len(found)
    for n in (1, 7, 10_000):
        rows = [row | {"rank": i + 1} for i, row in enumerate(first.values())][:n]
        assert sweep.top(source, n, where=WHERE).rows == rows
    rows = sweep.top(source, 9, "occupancy", sense="max").rows  # where ties say nothing
    assert len(rows) == 9 > len({row["occupancy"] for row in rows})


def test_least_energy_near_the_fastest(source):
    select = {"device": "gtx_980_paper", "kernel": "mat_tiled"}
    rows = sweep.best(
        source, "energy", by=["kernel", "model", "n"], where=WHERE, select=select
    ).rows
    expected = {}
    for p in points():
        is_own = p["device"] == "gtx_980_paper" and p["kernel"] == "mat_tiled"
        if is_own and p["execution_time"] < 1.1 * p["fastest"]:
            key = p["kernel"], p["model"], p.get("n")
            expected[key] = min(expected.get(key, np.inf), p["energy"])
    found = {(r["kernel"], r["model"], r.get("n")): r["energy"] for r in rows}
    assert found == expected
    options = {"by": ["kernel", "model", "n"], "select": select}
    free = sweep.best(source, "energy", **options).rows
    quickest = sweep.best(source, "energy", where="execution_time <= fastest", **options).rows
    assert any(a["energy"] < b["energy"] for a, b in zip(free, quickest, strict=True))


def test_all_questions_and_selections(source):
    select = {"core_clock_ratio": 0.8}
    own = [p for p in points() if p["core_clock_ratio"] == 0.8]
    least = {}
    for p in own:
        key = p["kernel"], p["device"], p["model"], p.get("n")
        least[key] = min(least.get(key, np.inf), p["execution_time"])
    kept = [
        p for p in own
        if p["execution_time"]
        < 1.1 * least[p["kernel"], p["device"], p["model"], p.get("n")]
    ]  # fmt: skip
    counted = sweep.summary(source, where=WHERE, select=select).rows
    assert sum(row["points"] for row in counted) == len(kept)
    bins = sweep.histogram(source, bins=3, where=WHERE, select=select).rows
    assert sum(row["count"] for row in bins) == len(kept)
    front = sweep.pareto(source, where=WHERE, select={**select, "device": "gtx_980_paper"}).rows
    assert front and all(row["core_clock_ratio"] == 0.8 for row in front)
    exact = sweep.top(
        source, 1000, where="execution_time == fastest", select=select, ties=True
    ).rows
    assert {r["execution_time"] for r in exact} == {*least.values()}


def test_distinct_does_not_change_the_fastest(source):
    rows = sweep.top(source, 100, by=["kernel"], where=WHERE, distinct=["tile", "n"]).rows
    allowed = {names_of(p) for p in points() if p["execution_time"] < 1.1 * p["fastest"]}
    assert rows and {names_of(r) for r in rows} <= allowed


def test_without_a_time_there_is_no_fastest():
    plan = sweep.Plan(["mat_tiled"], ["gtx_980_paper"], ["wang_chu"], axes={"tile": [64]})
    (row,) = sweep.best(plan, where=WHERE).rows
    assert row["execution_time"] is None and row["status"] != "valid"


def test_results_without_times_say_so():
    plan = sweep.Plan(["mat_tiled"], ["gtx_980_paper"], ["wang_chu"], outputs=("occupancy",))
    with pytest.raises(sweep.QueryError, match="no .*'execution_time'"):
        sweep.best(plan, "occupancy", sense="max", where="occupancy > 0.1 * fastest")


def test_a_name_of_the_kernel_wins():
    data = sweep.evaluate(PLAN)["mat_tiled"].to_dataset().rename(tile="fastest")
    rows = query.top(data, 1000, where="fastest == 16", ties=True).rows
    assert rows and {row["fastest"] for row in rows} == {16}
