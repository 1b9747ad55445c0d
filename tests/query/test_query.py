"""Queries on results in memory, in graphs and in stores, against a plain loop over all points."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from support import synthetic
from support.synthetic import flattened, is_valid, place

from sweep.errors import QueryError, StoreError
from sweep.fields import STATUS
from sweep.query import best, blocks, pareto, summary, top
from sweep.store.layout import GroupLayout, StoreLayout, static
from sweep.store.writer import open_or_create

TREE = synthetic.three_kernels()
ONE = synthetic.dataset()


def grouped(points: list[dict], by) -> dict[tuple, list[dict]]:
    groups: dict[tuple, list[dict]] = {}
    for point in points:
        groups.setdefault(tuple(point[name] for name in by), []).append(point)
    return groups


def written(data: xr.Dataset, path) -> str:
    """Write a dataset with small chunks and strings as a store has them, by xarray."""
    data = data.copy()
    for name in list(data.variables):
        if data[name].dtype.kind in "OU":
            data[name] = data[name].astype(np.dtypes.StringDType())
    full = [name for name in data.data_vars if data[name].ndim >= 4]
    encoding = {n: {"chunks": tuple(min(2, s) for s in data[n].shape)} for n in full}
    data.to_zarr(path, encoding=encoding, zarr_format=3, consolidated=False)
    return str(path)


def stored(path, **kernels: xr.Dataset) -> str:
    """Write datasets into a store without an index."""
    groups = []
    for name, data in kernels.items():
        coordinates, variables = (
            [static(str(n), v.dims, v.values, v.attrs) for n, v in arrays.items()]
            for arrays in (data.coords, data.data_vars)
        )
        groups.append(GroupLayout(name, data.attrs, coordinates, variables, 0))
    layout = StoreLayout(groups, {"identity": "made up"})
    with open_or_create(path, layout) as created:
        created.complete()
    return str(path)


BACKED = ["memory", "blocks", "dask", "store", "zarr", "zarr and dask"]


@pytest.fixture(scope="module", params=BACKED)
def backed(request, tmp_path_factory):
    """The same results, kept in each way that results can be kept."""
    path = tmp_path_factory.mktemp("results") / "one.zarr"
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "memory":
            yield ONE
        elif request.param == "dask":
            yield ONE.chunk({"device": 1, "block_size": (2, 3), "core_clock_ratio": (1, 4)})
        elif request.param == "store":
            yield stored(path, matrix_multiply=ONE)
        elif request.param == "blocks":  # as large results: many blocks that end within an axis
            patch.setattr(blocks, "TARGET", 7)
            yield ONE
        else:
            patch.setattr(blocks, "TARGET", 50)
            chunks = {} if "dask" in request.param else None
            yield xr.open_zarr(written(ONE, path), chunks=chunks, consolidated=False)


BY = [
    ("kernel", "device", "model"),
    (),
    ("block_size",),
    ("memory_clock_ratio", "device"),
    ("model", "core_clock_ratio", "kernel"),
    ("model", "device", "block_size", "core_clock_ratio", "memory_clock_ratio"),
]


@pytest.mark.parametrize("by", BY, ids="-".join)
@pytest.mark.parametrize("sense", ["min", "max"])
@pytest.mark.parametrize("objective", ["execution_time", "energy", "occupancy"])
def test_best__is_brute_force(backed, by, sense, objective):
    answer = best(backed, objective, by=by, sense=sense)
    sign = 1 if sense == "min" else -1
    groups = grouped(flattened(ONE), by)
    assert {tuple(row[n] for n in by) for row in answer} == set(groups)
    for row in answer:
        points = groups[tuple(row[n] for n in by)]
        valid = [p for p in points if is_valid(p, objective)]
        if not valid:
            assert row["status"] != "valid" and row[objective] is None
            continue
        ordered = sorted(valid, key=lambda p: sign * p[objective])  # stable: the first wins ties
        assert place(row) == place(ordered[0])
        assert row[objective] == ordered[0][objective]
        first, second = ordered[0][objective], ordered[1][objective] if valid[1:] else math.nan
        distance = None if math.isnan(second) else abs(float(second) - first) / abs(first)
        assert row["runner_up"] == pytest.approx(distance)


@pytest.mark.parametrize("by", BY[:4], ids="-".join)
def test_top__is_brute_force(backed, by):
    answer = top(backed, 7, by=by)
    expected = []
    for points in grouped(flattened(ONE), by).values():
        valid = [p for p in points if is_valid(p, "execution_time")]
        ordered = sorted(valid, key=lambda p: p["execution_time"])[:7]
        expected += [(rank, place(p)) for rank, p in enumerate(ordered, 1)]
    assert sorted((row["rank"], place(row)) for row in answer) == sorted(expected)
    assert [r["rank"] for r in answer][:3] == [1, 2, 3]


def test_top__where_all_tie_gives_the_first_of_each_kernel_device_model_and_clock():
    alike = synthetic.three_kernels()
    for name in alike.children:
        times = alike[name]["execution_time"]
        alike[name]["execution_time"] = times.where(times.isnull(), 1.0)
    apart = "kernel", "device", "model", "core_clock", "memory_clock"
    valid = [p for p in flattened(alike) if is_valid(p, "execution_time")]
    expected = {tuple(map(p.get, apart)): place(p) for p in reversed(valid)}  # the first stays
    found = [place(row) for row in top(alike, 1000)]
    assert sorted(found) == sorted(expected.values()) and len(found) == len(set(found))
    assert len(found) < len(valid) == len(top(alike, 1000, ties=True))
    for n in (1, 2, 11):  # of a few rows that are looked at first, most tie
        assert [place(row) for row in top(alike, n)] == found[:n]


OBJECTIVES = [
    (("execution_time", "energy"), ("min", "min")),
    (("power", "execution_time"), ("min", "min")),
    (("execution_time", "energy", "occupancy"), ("min", "min", "max")),
]


@pytest.mark.parametrize("by", BY[:4], ids="-".join)
@pytest.mark.parametrize(("objectives", "senses"), OBJECTIVES)
def test_pareto__is_brute_force(backed, by, objectives, senses):
    signs = [1 if sense == "min" else -1 for sense in senses]
    expected = set()
    for points in grouped(flattened(ONE), by).values():
        valid = [p for p in points if is_valid(p, *objectives)]
        values = [tuple(s * p[o] for s, o in zip(signs, objectives, strict=True)) for p in valid]
        unique = {value: i for i, value in reversed(list(enumerate(values)))}  # the first stays
        for p, i in unique.items():
            if not any(q != p and all(np.array(q) <= p) for q in unique):
                expected.add(place(valid[i]))
    answer = pareto(backed, objectives, senses, by=by)
    assert {place(row) for row in answer} == expected
    assert len(answer) == len(expected)
    for rows in grouped(answer.rows, by).values():
        first = [signs[0] * row[objectives[0]] for row in rows]
        assert first == sorted(first)


def test_summary__counts_everything(backed):
    assert best(backed).to_json() == best(ONE).to_json()
    for row in summary(backed):
        labels = ("device", "model")
        points = [p for p in flattened(ONE) if all(p[n] == row[n] for n in labels)]
        valid = [p for p in points if p["status"] == 0]
        assert (row["points"], row["valid"]) == (len(points), len(valid))
        assert row["execution_time"] == min(p["execution_time"] for p in valid)
        energies = [p["energy"] for p in points if p["power_status"] == 0]
        assert row["energy"] == min(energies, default=None)
        for name, count in row["statuses"].items():
            assert count == sum(p["status"] == STATUS[name] for p in points)
        for name, share in row["regimes"].items():
            code = synthetic.REGIMES[name]
            assert share == sum(p["regime"] == code for p in valid) / len(valid)
        assert sum(row["regimes"].values()) == pytest.approx(1)


def test_best__reduces_over_kernels_too():
    answer = best(TREE, by=("device",))
    for row in answer:
        points = [p for p in flattened(TREE) if p["device"] == row["device"]]
        valid = [p for p in points if is_valid(p, "execution_time")]
        assert place(row) == place(min(valid, key=lambda p: p["execution_time"]))


def test_best__by_default_per_kernel_device_and_model():
    answer = best(TREE)
    assert [(r["kernel"], r["device"], r["model"]) for r in answer] == list(
        itertools.product(sorted(TREE.children), synthetic.DEVICES, synthetic.MODELS)
    )
    other_order = {name: TREE[name].to_dataset() for name in reversed(list(TREE.children))}
    assert answer.rows == best(synthetic.tree(**other_order)).rows == best(other_order).rows


@given(
    st.lists(st.sampled_from([1.0, 2.0, math.nan, math.inf]), min_size=12, max_size=12),
    st.lists(st.sampled_from([0, 0, 3]), min_size=12, max_size=12),
)
def test_best__ties_go_to_the_first_in_dimension_order(times, statuses):
    dims = ("model", "device", "tile")
    data = xr.Dataset(
        {
            "execution_time": (dims, np.array(times, "f4").reshape(2, 3, 2)),
            "status": (dims, np.array(statuses, "u1").reshape(2, 3, 2)),
        },
        {"model": ["a", "b"], "device": ["p", "q", "r"], "tile": [4, 8]},
    )
    keys = list(itertools.product(["a", "b"], ["p", "q", "r"], [4, 8]))
    valid = [
        (time, i)
        for i, (time, status) in enumerate(zip(times, statuses, strict=True))
        if status == 0 and not math.isnan(time)
    ]
    (row,) = best(data, by=())
    if valid:
        assert (row["model"], row["device"], row["tile"]) == keys[min(valid)[1]]
    else:
        assert row["execution_time"] is None and row["status"] in ("registers", "no value")


def test_best__an_invalid_configuration_never_wins():
    data = ONE.copy(deep=True)
    data["execution_time"][:] = data["execution_time"].where(data["status"] == 0, 0.0)
    assert place(best(data, by=())[0]) == place(best(ONE, by=())[0])
    # Missing power does not disqualify a time.
    assert len(best(ONE, select={"device": "gtx_280"})) == 2
    for row in best(ONE, "energy", select={"device": "gtx_280"}):
        assert row["status"] == "power: missing_parameters"
        assert row["execution_time"] is None and row["kernel"] == "matrix_multiply"


def test_best__a_group_without_a_valid_configuration_says_why():
    answer = best(ONE, by=("block_size",))
    assert [row["status"] for row in answer] == ["valid"] * 4 + ["block_too_large"]
    last = answer[-1]
    assert (last["kernel"], last["block_size"]) == ("matrix_multiply", 2000)
    assert last["execution_time"] is None and last["runner_up"] is None
    assert "block_too_large" in answer.to_table()


def test_best__what_a_run_has_not_computed_yet_says_so():
    data = ONE.copy(deep=True)
    data["execution_time"][:], data["status"][:] = np.nan, 255
    assert {row["status"] for row in best(data)} == {"not computed"}
    data["regime"][:] = 255
    assert all(row["regimes"] == {} and row["statuses"] for row in summary(data))


def test_summary__shares_of_regimes_are_of_what_was_computed():
    data = ONE.copy(deep=True)
    for name, value in (("execution_time", np.nan), ("status", 255), ("regime", 255)):
        data[name][{"block_size": slice(2)}] = value
    rows = [row for row in summary(data) if row["valid"]]
    assert rows and all("not computed" in row["statuses"] for row in rows)
    assert all(min(row["regimes"].values()) > 0.0 for row in rows)
    assert all(sum(row["regimes"].values()) == pytest.approx(1.0) for row in rows)
    assert all("not computed" not in row["regimes"] for row in rows)


def test_joined_results__of_other_axes_have_gaps_that_nobody_computed():
    few = ONE.isel({ONE["execution_time"].dims[-1]: slice(1)}).assign_coords(device=["x", "y"])
    joined = xr.concat([ONE, few], "device", join="outer", combine_attrs="override")
    assert joined["status"].dtype.kind == "f"
    statuses = {row["device"]: row["statuses"] for row in summary(joined, by=["device"])}
    assert ["not computed" in statuses[name] for name in ("gtx_280", "gtx_980", "x")] == [0, 0, 1]
    for where in (None, "status == 'valid'"):
        options = {"by": ["device"], "select": {"device": ["gtx_980"]}, "where": where}
        assert pareto(joined, **options).rows == pareto(ONE, **options).rows != []


def test_top_and_pareto__name_the_groups_without_a_valid_configuration():
    answer = pareto(ONE)
    assert {row["device"] for row in answer} == {"gtx_980"}
    (note,) = [n for n in answer.notes if "no result" in n]
    why = "hong_kim, wang_chu on gtx_280 (power: missing_parameters)"
    assert note == f"no result for 2 of 4 groups: {why}"
    assert "block_too_large" in "".join(top(ONE, 2, by="block_size").notes)


def test_answers__mark_assumed_values():
    times = best(ONE)
    by_device = {(r["device"], r["model"]): r["rests_on_assumed"] for r in times}
    assert by_device["gtx_280", "hong_kim"] == ["clocks.core_min"]
    assert by_device["gtx_280", "wang_chu"] == []
    power = ["power.static_W", "power.core_voltage"]
    assert by_device["gtx_980", "hong_kim"] == power
    energies = best(ONE, "energy", select={"device": "gtx_980"})
    assert energies[0]["rests_on_assumed"] == power
    listed = "gtx_280: clocks.core_min; gtx_980: power.static_W, power.core_voltage"
    assert f"* rests on assumed values ({listed})" in times.notes


def test_answers__star_the_values_that_rest_on_assumed_numbers():
    stars = {(r["device"], r["model"]): r.stars for r in best(ONE)}
    assert stars["gtx_280", "hong_kim"] == {"execution_time"}
    assert stars["gtx_280", "wang_chu"] == frozenset()
    assert stars["gtx_980", "hong_kim"] == {"power", "energy"}
    front = pareto(ONE, ("occupancy", "energy"), ("max", "min"))
    assert all({"energy"} <= row.stars and "occupancy" not in row.stars for row in front)
    one = front.chosen(["occupancy", "energy"]).to_table().splitlines()[4]
    assert one.split()[0] == f"{front[0]['occupancy']:.5g}" and one.endswith("*")
    launch = ONE.assign(assumed=ONE["assumed"].astype(object) + ", kernel: resources")
    assert all("occupancy" in row.stars for row in best(launch))


def test_answers__mark_fitted_values_beside_assumed_ones():
    fitted = ", kernel: instructions (fitted), kernel: stage (fitted)"
    found = best(ONE.assign(assumed=ONE["assumed"].astype(object) + fitted))
    assert all("kernel: stage (fitted)" in row["rests_on_assumed"] for row in found)
    note = "and on fitted values (kernel: instructions, kernel: stage)"
    assert any(
        n.startswith("* rests on assumed values (gtx_280") and note in n for n in found.notes
    )
    assert str(found).count("* ") >= len(found)


@pytest.mark.parametrize("clocks", ["ratio", "MHz", "nominal"])
def test_rows__have_every_coordinate_with_clocks_in_mhz(clocks):
    values = {"core": (400.0, 700.0), "memory": (900.0,)} if clocks == "MHz" else {}
    data = synthetic.dataset(clocks=clocks, parameters={"layout": ("row", "column")}, **values)
    row = best(data)[0]
    configuration = row.configuration
    assert list(configuration)[:3] == ["kernel", "model", "device"]
    assert configuration["layout"] in ("row", "column")
    assert {"core_clock", "memory_clock"} <= set(configuration)
    assert ("core_clock_ratio" in configuration) == (clocks == "ratio")
    one = data.sel({d: row[d] for d in data["execution_time"].dims}).isel()
    assert float(one["core_clock"]) == configuration["core_clock"]
    assert float(one["execution_time"]) == row["execution_time"]
    assert row["regime"] in synthetic.REGIMES and row["bound"] in ("compute", "memory")
    for value in row.values():
        assert isinstance(value, str | int | float | list | None)


def test_queries__take_a_slice_of_results():
    data = ONE.isel(device=1).sel(model="hong_kim")
    (row,) = best(data)
    assert (row["device"], row["model"]) == ("gtx_980", "hong_kim")
    whole = best(ONE, select={"device": "gtx_980", "model": "hong_kim"})[0]
    assert place(row) == place(whole)


def test_queries__read_only_what_is_asked_for():
    data = ONE.chunk({"device": 1, "block_size": 1})
    reads = []

    def count(block):
        reads.append(block.size)
        return block

    meta = np.empty((0,) * data["execution_time"].ndim, "f4")
    lazy = data["execution_time"].data.map_blocks(count, dtype="f4", meta=meta)
    data["execution_time"] = (data["execution_time"].dims, lazy)
    answer = top(data, 1, where="device == 'gtx_980' and block_size in (64, 128)")
    assert place(answer[0]) == place(top(ONE, 1, where="block_size < 192")[0])
    assert len(reads) <= 3  # the two chunks, and one of them again for the row


@pytest.mark.parametrize(
    ("question", "options"), [(best, {}), (summary, {}), (top, {"n": 3}), (pareto, {"by": ()})]
)
def test_queries__take_the_path_of_a_store(tmp_path, question, options):
    path = stored(tmp_path / "a.zarr", **{n: node.to_dataset() for n, node in TREE.items()})
    assert question(path, **options).to_json() == question(TREE, **options).to_json()


def test_queries__need_results():
    with pytest.raises(QueryError, match="cannot query a int"):
        best(3)
    with pytest.raises(QueryError, match="no results"):
        best(xr.Dataset())
    with pytest.raises(StoreError, match="no store at"):
        best("other.zarr")


def test_queries__refuse_answers_that_no_memory_holds(monkeypatch):
    monkeypatch.setattr("sweep.query.question.MAX_ROWS", 10)
    with pytest.raises(QueryError, match="20 rows, more than 10: name fewer dimensions"):
        best(ONE, by=("model", "device", "core_clock_ratio"))
    with pytest.raises(QueryError, match="11 rows, more than 10: ask for fewer"):
        top(ONE, 11)
