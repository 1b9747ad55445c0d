"""Questions to plans: reduced in compiled passes, with the answers that stored results give."""

import itertools
from functools import partial

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from support.planned_spaces import CLOCKS, DIMENSIONS, OWN, assert_same, laid_out, noted_reductions

import sweep
from sweep import query
from sweep.compiler import reductions as taking
from sweep.compiler.passes import get_pass
from sweep.compiler.reductions import TILE
from sweep.compiler.source import Pass
from sweep.errors import PlanError
from sweep.evaluation import chunk, limits
from sweep.evaluation import planned as planned_results
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.planned import Planned, evaluate
from sweep.evaluation.variables import variables
from sweep.space import Plan, resolve

pytestmark = pytest.mark.usefixtures("spaces")

SELECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "device": st.sampled_from(["gtx_280", ["gtx_980_paper", "gtx_280"]]),
        "model": st.sampled_from(["hong_kim", ["wang_chu"]]),
        "memory_clock_ratio": st.sampled_from([[1.0], (0.95, 1.15)]),
    },
)
GROUPS = st.lists(st.sampled_from(DIMENSIONS), unique=True)
NUMBERS = st.sampled_from(["execution_time", "energy", "cycles_per_instruction"])
SENSES = [["min", "min"], ["max", "min"], ["min", "max", "min"], ["max", "max", "max"]]


@settings(max_examples=12)
@given(
    st.sampled_from(["clocks", "rows"]), SELECTIONS, GROUPS, NUMBERS, st.sampled_from(SENSES),
    st.integers(1, 40),
)  # fmt: skip
def test_a_plan_answers_as_its_results_and_its_store(spaces, form, select, by, name, senses, n):
    space, results, path = spaces[form]
    objectives = ["execution_time", "energy", "power"][: len(senses)]
    for question, arguments, options in (
        (query.best, (name,), {"sense": senses[0]}),
        (query.top, (n, name), {"sense": senses[0]}),
        (query.pareto, (objectives, senses), {}),
        (query.summary, (), {}),
        (query.histogram, ("regime",), {}),
        (query.histogram, ("execution_time", n), {"within": (1e-6, 1.0), "log": True}),
    ):
        options |= {"by": by, "select": select}
        assert_same(question, Planned(space, threads=2), results, *arguments, **options)
        assert_same(question, path, results, *arguments, **options)


@pytest.mark.parametrize(
    ("question", "is_reduced"),
    [
        ({"by": ("device",)}, True),
        ({"by": ("core_clock_ratio", "kernel", "memory_clock_ratio")}, True),
        ({"objective": "memory_warp_parallelism", "sense": "max"}, True),
        ({"objective": "hong_kim_memory_warp_parallelism", "sense": "max"}, True),
        ({"objective": "occupancy", "sense": "max"}, None),
        ({"where": "occupancy > 0.3"}, False),
        ({"select": {"core_clock": (500, 900)}}, False),
    ],
)
def test_compiled_passes_answer_or_results_are_read(spaces, monkeypatch, question, is_reduced):
    reductions = noted_reductions(monkeypatch)
    space, results, _ = spaces["clocks"]
    assert sweep.best(space, **question).to_json() == query.best(results, **question).to_json()
    if is_reduced is not None:
        assert reductions == ([True, True] if is_reduced else [])


def test_rows_longer_than_a_tile():
    """Tiles do not come in the order of positions: of equal values the first still wins."""
    ratios = {"start": 0.8, "stop": 1.2, "step": 0.005}
    axes = {"core_clock_ratio": ratios, "memory_clock_ratio": ratios, "block_size": [64, 256]}
    space = laid_out(kernels=["sepia"], devices=["gtx_280"], models=["hong_kim"], axes=axes)
    assert space.kernels[0].grid.shape[-1] * space.kernels[0].grid.shape[-2] > TILE
    results = evaluate(space).compute()
    objectives = ("execution_time", "cycles_per_instruction")
    for objective, sense in itertools.product(objectives, ("min", "max")):
        assert_same(query.top, Planned(space), results, 50, objective, sense=sense)
    assert_same(query.pareto, Planned(space), results, objectives, ["max", "max"])


def test_fronts_grow_as_needed(spaces, monkeypatch):
    monkeypatch.setattr(taking, "ROOM", TILE)
    space, results, _ = spaces["clocks"]
    for objectives in (["execution_time", "energy"], ["execution_time", "energy", "power"]):
        senses = ["max", "min", "max"][: len(objectives)]
        assert len(assert_same(query.pareto, Planned(space), results, objectives, senses)) > 4


@pytest.mark.parametrize(
    "sizes", [{"PIECE": n, "LAUNCHES": n} for n in (1, 7, 100)] + [{"WHOLE_TABLES": 1}], ids=str
)
def test_pieces_and_their_tables_do_not_matter(spaces, monkeypatch, sizes):
    for name, value in sizes.items():
        monkeypatch.setattr(limits, name, value)
    pieces = ("rows",) if sizes.get("PIECE") == 1 else spaces  # many passes
    for space, results, _ in map(spaces.get, pieces):
        planned = Planned(resolve(space.plan))
        assert_same(query.top, planned, results, 9)
        assert_same(query.pareto, planned, results)
        for variable in ("regime", "execution_time"):
            assert_same(query.histogram, planned, results, variable)


@pytest.mark.parametrize(
    "by", [(), ("core_clock_ratio", "memory_clock_ratio"), ("block_size",)], ids=len
)
def test_ties_between_models(monkeypatch, by):
    """Two models that share a group reach the same value: the first model's configurations win."""
    monkeypatch.setattr(limits, "PIECE", 50)
    outputs = ["memory_activity", "execution_time"]
    space = laid_out(
        kernels=["sepia"], devices=["gtx_980_paper"], models=["luo_suda", "lemeire"],
        outputs=outputs, axes=CLOCKS,
    )  # fmt: skip
    results, planned = evaluate(space).compute(), Planned(space, threads=1)
    assert_same(query.best, planned, results, "memory_activity", by=by, sense="max")
    assert_same(query.top, planned, results, 300, "memory_activity", by=by, sense="max")


def test_rows_are_complete_without_another_compilation(spaces, monkeypatch):
    """The winning points are evaluated in Python: the same numbers, to the bit."""

    def refused(*key):
        raise AssertionError(f"a pass of all variables is compiled: {key}")

    for space, results, _ in spaces.values():
        answers = [query.best(results).to_json(), query.pareto(results).to_json()]
        with monkeypatch.context() as patch:
            patch.setattr(chunk, "get_pass", refused)
            assert [sweep.best(space).to_json(), sweep.pareto(space).to_json()] == answers


@pytest.mark.parametrize("variant", ["corrected", "printed", "revised"])
def test_without_compilation_results_are_the_same_to_the_bit(monkeypatch, variant):
    models = sorted(sweep.model_names())
    space = laid_out(models=models, variant=variant, precision="float64", axes={**OWN, **CLOCKS})
    for kernel in space.kernels:
        places = np.unravel_index(np.arange(0, kernel.n_points, 29), kernel.grid.shape)
        points = dict(zip(kernel.grid.names, places, strict=True))
        wanted, boxes = variables(kernel, space.plan), []
        for most in (10**9, 0):
            monkeypatch.setattr(limits, "UNCOMPILED", most)
            boxes.append(evaluate_box(kernel, space.plan, kernel.grid.whole, wanted))
        found = planned_results.evaluate_points(kernel, space.plan, points, wanted)
        for variable in wanted:
            compiled = boxes[1][variable.name]
            assert boxes[0][variable.name].tobytes() == compiled.tobytes(), variable.name
            index = tuple(points[d] for d in variable.dims if d != "model")
            there = compiled[:, *index] if "model" in variable.dims else compiled[index]
            assert found[variable.name].tobytes() == there.tobytes(), variable.name


def test_progress_reaches_the_end(spaces):
    space, *_ = spaces["clocks"]
    seen = []
    query.best(Planned(space, threads=3, progress=lambda *now: seen.append(now)))
    kernels = [kernel.n_points * 2 for kernel in space.kernels]
    assert [total for done, total in seen if done == total] == kernels
    assert all(done <= total for done, total in seen)


def test_reducing_pass_is_vectorised(compiled_anew):
    """The loop over a tile divides several numbers at a time."""
    sweep.best(laid_out(kernels=["sepia"], models=["hong_kim"], axes=CLOCKS, variant="printed"))
    compiled = get_pass(Pass("hong_kim", "printed", "clocks", ("execution_time",), 0, "smallest"))
    (text,) = compiled.inspect_asm().values()
    assert "divpd" in text


# ---------------------------------------------------------------------------- opening


def test_open_gives_what_evaluate_gives(spaces):
    for space, results, _ in spaces.values():
        tree = sweep.open(space)
        for kernel in ("matrixmul_shared", "sepia"):
            opened, computed = tree[kernel].to_dataset(), results[kernel].to_dataset()
            assert opened.drop_attrs().load().identical(computed.drop_attrs())
            assert opened.attrs == computed.attrs


RANDOM = np.random.default_rng(5)
INDICES = [
    {"device": 1, "tile": 0, "core_clock_ratio": slice(1, None, 2)},
    {"model": [1], "unroll": [1, 0], "memory_clock_ratio": -1},
    {"tile": slice(None, None, -1), "device": [1, 0], "core_clock_ratio": [0, 5, 2]},
    {"tile": []},
    {d: xr.DataArray(RANDOM.integers(0, 2, 40), dims="point") for d in (*DIMENSIONS[1:], *OWN)},
]


@pytest.mark.parametrize("index", INDICES, ids=["slice", "list", "backwards", "empty", "points"])
def test_open_is_indexed_like_results(spaces, index):
    space, results, _ = spaces["clocks"]
    opened = sweep.open(space)["matrixmul_shared"].to_dataset()
    index = {name: at for name, at in index.items() if name in opened.dims}
    assert opened.isel(index).load().identical(results["matrixmul_shared"].to_dataset().isel(index))


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
    from sweep.runs import execute
    from sweep.runs.workers import Workers, cluster

    monkeypatch.setattr(limits, "PIECE", 500)
    monkeypatch.setattr(execute, "SMALLEST_SHARE", 1)
    told = []
    space, results, _ = spaces["clocks"]
    questions = [
        (query.best, {}),
        (query.best, {"by": ("core_clock_ratio", "memory_clock_ratio")}),
        (query.pareto, {}),
        (query.histogram, {"variable": "regime"}),
        (query.histogram, {"variable": "execution_time"}),
        (query.summary, {}),
    ]
    with cluster(Workers(processes=2)) as client:
        planned = Planned(
            space,
            execute=partial(execute.on_cluster, client, space),
            progress=lambda *now: told.append(now),
        )
        for question, options in questions:
            assert_same(question, planned, results, **options)
    assert len(told) > 12
    assert told[-1][0] == told[-1][1]


def test_workers_for_a_store_are_refused(folder, capsys):
    from sweep.cli import main

    assert main(["best", "some.zarr", "--workers", "2"]) == 2
    assert "--workers: only for plans, and 'some.zarr' is a store" in capsys.readouterr().err
    assert main(["best", "quickstart", "--workers", "0"]) == 2
    assert "--workers 0: at least 1" in capsys.readouterr().err
