"""Questions to plans: reduced in compiled passes, with the answers that stored results give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sweep
from sweep import evaluation, query
from sweep.compiler import reductions as taking
from sweep.compiler.passes import TILE, get_reducing_pass
from sweep.errors import PlanError
from sweep.evaluation import chunk, evaluate, limits
from sweep.evaluation import planned as planned_results
from sweep.evaluation.planned import Planned
from sweep.space import Box, Plan, cut_box, resolve

CLOCKS = {
    "core_clock_ratio": {"start": 0.7, "stop": 1.2, "step": 0.1},
    "memory_clock_ratio": {"start": 0.7, "stop": 1.2, "step": 0.1},
}


def laid_out(**given):
    plan = {
        "kernels": ["matrixmul_shared", "sepia"],
        "devices": ["gtx_280", "gtx_980"],
        "models": ["hong_kim", "wang_chu"],
        "axes": {"tile": [8, 16, 32], "unroll": [1, 4], "block_size": [64, 96, 256], **CLOCKS},
    }
    return resolve(Plan(**{**plan, **given}))


@pytest.fixture(autouse=True)
def no_group_too_small(monkeypatch):
    monkeypatch.setattr(limits, "FEW", 0)


@pytest.fixture(scope="module")
def spaces():
    """Spaces whose inner loop runs over the clocks, and over rows, with their results."""
    found = {}
    for form, axes in (("clocks", {}), ("rows", {"core_clock_ratio": [0.9, 1.0]})):
        own = {"tile": [8, 16, 32], "unroll": [1, 4], "block_size": [64, 96, 256]}
        clocks = {**CLOCKS, **axes}
        if axes:
            clocks["memory_clock_ratio"] = [1.0, 1.1]
        space = laid_out(axes={**own, **clocks})
        found[form] = space, evaluate(space).compute()
    return found


@pytest.fixture
def reductions(monkeypatch):
    """What was reduced instead of read."""
    seen = []
    reduce = Planned.reduce

    def noted(self, reduction):
        found = reduce(self, reduction)
        seen.append(found is not None)
        return found

    monkeypatch.setattr(Planned, "reduce", noted)
    return seen


SELECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "device": st.sampled_from(["gtx_280", ["gtx_980", "gtx_280"]]),
        "model": st.sampled_from(["hong_kim", ["wang_chu"]]),
        "memory_clock_ratio": st.sampled_from([[1.0], (0.95, 1.15)]),
    },
)
GROUPS = st.lists(
    st.sampled_from(["kernel", "device", "model", "core_clock_ratio", "memory_clock_ratio"]),
    unique=True,
)
SLOW = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@SLOW
@given(
    st.sampled_from(["clocks", "rows"]),
    SELECTIONS,
    GROUPS,
    st.sampled_from(["execution_time", "energy", "cycles_per_instruction"]),
    st.sampled_from(["min", "max"]),
    st.integers(1, 40),
)
def test_same_answers_as_results(spaces, form, select, by, objective, sense, n):
    space, results = spaces[form]
    options = {"by": by, "sense": sense, "select": select}
    planned = Planned(space, threads=2)
    expected = query.best(results, objective, **options)
    assert query.best(planned, objective, **options).to_json() == expected.to_json()
    expected = query.top(results, n, objective, **options)
    assert query.top(planned, n, objective, **options).to_json() == expected.to_json()


@SLOW
@given(
    st.sampled_from(["clocks", "rows"]),
    SELECTIONS,
    GROUPS,
    st.sampled_from([["min", "min"], ["max", "min"], ["min", "max", "min"], ["max", "max", "max"]]),
)
def test_same_fronts_as_results(spaces, form, select, by, senses):
    space, results = spaces[form]
    objectives = ["execution_time", "energy", "power"][: len(senses)]
    options = {"by": by, "select": select}
    expected = query.pareto(results, objectives, senses, **options)
    found = query.pareto(Planned(space, threads=2), objectives, senses, **options)
    assert found.to_json() == expected.to_json()


@pytest.mark.parametrize("by", [("device",), ("core_clock_ratio", "kernel", "memory_clock_ratio")])
def test_compiled_passes_answer(spaces, reductions, by):
    space, results = spaces["clocks"]
    assert sweep.best(space, by=by).to_json() == query.best(results, by=by).to_json()
    assert reductions == [True, True]


@pytest.mark.parametrize(
    "question",
    [
        {"where": "occupancy > 0.3"},
        {"objective": "occupancy", "sense": "max"},
        {"select": {"core_clock": (500, 900)}},
    ],
)
def test_what_passes_cannot_answer_is_read(spaces, question):
    space, results = spaces["clocks"]
    assert sweep.best(space, **question).to_json() == query.best(results, **question).to_json()


def test_rows_longer_than_a_tile():
    """Tiles do not come in the order of positions: of equal values the first still wins."""
    ratios = {"start": 0.8, "stop": 1.2, "step": 0.005}
    axes = {"core_clock_ratio": ratios, "memory_clock_ratio": ratios, "block_size": [64, 256]}
    space = laid_out(kernels=["sepia"], devices=["gtx_280"], models=["hong_kim"], axes=axes)
    assert space.kernels[0].grid.shape[-1] * space.kernels[0].grid.shape[-2] > TILE
    results = evaluate(space).compute()
    for objective in ("execution_time", "cycles_per_instruction"):
        for sense in ("min", "max"):
            expected = query.top(results, 50, objective, sense=sense)
            assert sweep.top(space, 50, objective, sense=sense).to_json() == expected.to_json()
    senses = ["max", "max"]
    objectives = ["execution_time", "cycles_per_instruction"]
    expected = query.pareto(results, objectives, senses)
    assert sweep.pareto(space, objectives, senses).to_json() == expected.to_json()


def test_fronts_grow_as_needed(spaces, monkeypatch):
    monkeypatch.setattr(taking, "ROOM", TILE)
    space, results = spaces["clocks"]
    for objectives in (["execution_time", "energy"], ["execution_time", "energy", "power"]):
        senses = ["max", "min", "max"][: len(objectives)]
        expected = query.pareto(results, objectives, senses)
        assert len(expected) > 4
        assert sweep.pareto(space, objectives, senses).to_json() == expected.to_json()


@pytest.mark.parametrize("pieces", [1, 7, 100])
def test_pieces_do_not_matter(spaces, monkeypatch, pieces):
    monkeypatch.setattr(limits, "PIECE", pieces)
    monkeypatch.setattr(limits, "LAUNCHES", pieces)
    for space, results in spaces.values():
        assert sweep.top(space, 9).to_json() == query.top(results, 9).to_json()
        assert sweep.pareto(space).to_json() == query.pareto(results).to_json()


@pytest.mark.parametrize(
    "by", [(), ("core_clock_ratio", "memory_clock_ratio"), ("block_size",)], ids=len
)
def test_ties_between_models(monkeypatch, by):
    """Two models that share a group reach the same value: the first model's configurations win."""
    monkeypatch.setattr(limits, "PIECE", 50)
    outputs = ["memory_activity", "execution_time"]
    space = laid_out(
        kernels=["sepia"], devices=["gtx_980"], models=["luo_suda", "lemeire"], outputs=outputs,
        axes=CLOCKS,
    )  # fmt: skip
    results, planned = evaluate(space).compute(), Planned(space, threads=1)
    options = {"by": by, "sense": "max"}
    expected = query.best(results, "memory_activity", **options)
    assert query.best(planned, "memory_activity", **options).to_json() == expected.to_json()
    expected = query.top(results, 300, "memory_activity", **options)
    assert query.top(planned, 300, "memory_activity", **options).to_json() == expected.to_json()


def test_variable_of_one_model(spaces, reductions):
    space, results = spaces["clocks"]
    for name in ("memory_warp_parallelism", "hong_kim_memory_warp_parallelism"):
        expected = query.best(results, name, sense="max")
        assert sweep.best(space, name, sense="max").to_json() == expected.to_json()
    assert all(reductions)


def test_rows_are_complete_without_another_compilation(spaces, monkeypatch):
    """The winning points are evaluated in Python: the same numbers, to the bit."""

    def refused(*key):
        raise AssertionError(f"a pass of all variables is compiled: {key}")

    for space, results in spaces.values():
        answers = [query.best(results).to_json(), query.pareto(results).to_json()]
        with monkeypatch.context() as patch:
            patch.setattr(chunk, "get_pass", refused)
            assert [sweep.best(space).to_json(), sweep.pareto(space).to_json()] == answers


@pytest.mark.parametrize("variant", ["corrected", "printed"])
def test_single_points_are_those_of_compiled_passes(monkeypatch, variant):
    models = sorted(sweep.model_names())
    space = laid_out(models=models, variant=variant, precision="float64")
    for kernel in space.kernels:
        places = np.unravel_index(np.arange(0, kernel.n_points, 29), kernel.grid.shape)
        points = dict(zip(kernel.grid.names, places, strict=True))
        wanted, found = evaluation.variables(kernel, space.plan), []
        for few in (10**9, 0):
            monkeypatch.setattr(limits, "FEW_POINTS", few)
            found.append(planned_results.evaluate_points(kernel, space.plan, points, wanted))
        for name, values in found[0].items():
            assert values.tobytes() == found[1][name].tobytes(), name


def test_tables_of_large_spaces(spaces, monkeypatch):
    """Where tables over the whole grid are too large, each piece has its own."""
    monkeypatch.setattr(limits, "WHOLE_TABLES", 1)
    for space, results in spaces.values():
        fresh = resolve(space.plan)
        assert sweep.best(fresh).to_json() == query.best(results).to_json()


def test_progress_reaches_the_end(spaces):
    space, _ = spaces["clocks"]
    told = []
    query.best(Planned(space, threads=3, progress=lambda *now: told.append(now)))
    kernels = [kernel.n_points * 2 for kernel in space.kernels]
    assert [total for _, total in told if _ == total] == kernels
    assert all(done <= total for done, total in told)


def test_cut_box_covers_it_once():
    box = Box((2, 0, 5), (5, 7, 9))
    seen = np.zeros((9, 9, 9), int)
    for part in cut_box(box, 10):
        assert part.n_points <= 12
        seen[part.slices] += 1
    assert seen.sum() == box.n_points
    assert (seen[box.slices] == 1).all()


def test_reducing_pass_is_vectorised():
    """The loop over a tile divides several numbers at a time."""
    sweep.best(laid_out(kernels=["sepia"], models=["hong_kim"], axes=CLOCKS))
    compiled = get_reducing_pass("hong_kim", "corrected", "clocks", ("execution_time",), "smallest")
    (text,) = compiled.inspect_asm().values()
    assert "divpd" in text


# ---------------------------------------------------------------------------- opening


@pytest.mark.parametrize("form", ["clocks", "rows"])
def test_open_gives_what_evaluate_gives(spaces, form):
    space, results = spaces[form]
    tree = sweep.open(space)
    for kernel in ("matrixmul_shared", "sepia"):
        opened, computed = tree[kernel].to_dataset(), results[kernel].to_dataset()
        assert opened.drop_attrs().load().identical(computed.drop_attrs())
        assert opened.attrs == computed.attrs


@pytest.mark.parametrize(
    "index",
    [
        {"device": 1, "tile": 0, "core_clock_ratio": slice(1, None, 2)},
        {"model": [1], "unroll": [1, 0], "memory_clock_ratio": -1},
        {"tile": slice(None, None, -1), "device": [1, 0], "core_clock_ratio": [0, 5, 2]},
        {"tile": []},
    ],
)
def test_open_is_indexed_like_results(spaces, index):
    space, results = spaces["clocks"]
    opened = sweep.open(space)["matrixmul_shared"].to_dataset().isel(index)
    assert opened.load().identical(results["matrixmul_shared"].to_dataset().isel(index))


def test_open_at_points(spaces):
    import xarray as xr

    space, results = spaces["clocks"]
    rng = np.random.default_rng(5)
    computed = results["matrixmul_shared"].to_dataset()
    points = {d: xr.DataArray(rng.integers(0, n, 40), dims="point")
              for d, n in computed.sizes.items()}  # fmt: skip
    opened = sweep.open(space)["matrixmul_shared"].to_dataset()
    assert opened.isel(points).load().identical(computed.isel(points).load())


def test_open_a_trillion():
    clocks = {"start": 0.6, "stop": 1.4, "step": 0.0001}
    axes = {"n": {"start": 32, "stop": 32 * 500, "step": 32}, "core_clock_ratio": clocks,
            "memory_clock_ratio": clocks}  # fmt: skip
    plan = Plan(["matrixmul_shared"], ["gtx_280"], ["hong_kim"], axes=axes)
    dataset = sweep.open(plan)["matrixmul_shared"].to_dataset()
    assert dataset.execution_time.size > 1e12
    part = dataset.execution_time.isel(model=0, device=0, n=31, work_per_thread=0, unroll=0)
    near = part.sel(core_clock_ratio=1.0, memory_clock_ratio=1.0, method="nearest").values
    small = Plan(
        ["matrixmul_shared"], ["gtx_280"], ["hong_kim"],
        axes={"n": [1024], "core_clock_ratio": [1.0], "memory_clock_ratio": [1.0]},
    )  # fmt: skip
    alone = evaluate(small)["matrixmul_shared"].execution_time
    expected = alone.isel(model=0, device=0, n=0, work_per_thread=0, unroll=0).values.ravel()
    np.testing.assert_allclose(near, expected, rtol=1e-6)
    with pytest.raises(PlanError, match="GiB; select fewer before reading"):
        dataset.execution_time.load()


# ---------------------------------------------------------------------------- on workers


@pytest.mark.slow
def test_workers_reduce_alike(spaces, monkeypatch):
    """Two processes give the answers of this one, whatever share of the pieces each had."""
    from sweep.runs import distributing
    from sweep.runs.workers import Workers, cluster

    monkeypatch.setattr(limits, "PIECE", 500)
    monkeypatch.setattr(distributing, "SMALLEST", 1)
    told = []
    space, results = spaces["clocks"]
    clocks = ("core_clock_ratio", "memory_clock_ratio")
    with cluster(Workers(processes=2)) as client:
        planned = Planned(
            space,
            distribute=distributing.on_cluster(client),
            progress=lambda *now: told.append(now),
        )
        assert query.best(planned).to_json() == query.best(results).to_json()
        assert query.best(planned, by=clocks).to_json() == query.best(results, by=clocks).to_json()
        assert query.pareto(planned).to_json() == query.pareto(results).to_json()
    assert len(told) > 12
    assert told[-1][0] == told[-1][1]


def test_workers_for_a_store_are_refused(tmp_path, capsys, monkeypatch):
    from sweep.cli import main

    monkeypatch.chdir(tmp_path)
    assert main(["best", "some.zarr", "--workers", "2"]) == 2
    assert "--workers: 'some.zarr' is a store" in capsys.readouterr().err
    assert main(["best", "quickstart", "--workers", "0"]) == 2
    assert "--workers 0: at least 1" in capsys.readouterr().err
