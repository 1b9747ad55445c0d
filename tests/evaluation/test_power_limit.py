"""A power limit lowers the core clock: to what, of what, and the same everywhere."""

from dataclasses import replace

import numpy as np
import pytest

import sweep
from sweep.evaluation import limits
from sweep.evaluation.chunk import evaluate_box
from sweep.evaluation.power_limit import RUNGS, limits_of
from sweep.evaluation.variables import variables
from sweep.models import model_names
from sweep.space import resolve

LIMIT = 160
AXES = {"n": [1 << 12, 1 << 24], "block_size": [64, 256, 1024]}
OPTIONS = {"variant": "revised", "precision": "float64", "axes": AXES}
CLOCK = "actual_core_clock"


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    """Return the path of a Titan X of which much of vector_add exceeds the limit."""
    text = sweep.load_device("gtx_titan_x").text
    text = text.replace("power_limit_W = 250", f"power_limit_W = {LIMIT}")
    path = tmp_path_factory.mktemp("devices") / "limited.toml"
    path.write_text(text)
    return str(path)


def results(plan):
    (dataset,) = sweep.open(plan).children.values()
    return dataset.load()


def test_what_is_above_the_limit_runs_at_a_lower_clock__the_rest_as_without(limited):
    plan = sweep.Plan(["vector_add"], [limited, "rtx_3090"], [*model_names()], **OPTIONS)
    found, plain = results(plan), results(replace(plan, devices=("gtx_titan_x", "rtx_3090")))
    assert "power.static_W" in str(found.assumed.values) and CLOCK not in plain
    assert "power.static_W" not in str(plain.assumed.values)
    over = (plain.power.values > LIMIT) & (plain.power.values > 0)
    assert over.any() and not over.all() and not over[:, 1].any()
    clock, nominal = found[CLOCK].values, plain.core_clock.values.reshape(1, 2, 1, 1, 1, 1)
    valid = found.status.values == 0
    assert ((clock < nominal) == over)[valid].all() and clock[over].min() >= 595
    at_least = clock[over] == 595
    assert (found.power.values[over] <= LIMIT)[~at_least].all() and not at_least.all()
    for name in ("execution_time", "power", "energy", "regime"):
        np.testing.assert_array_equal(found[name].values[~over], plain[name].values[~over])


def test_the_result_is_that_of_a_plan_that_names_the_clock__and_the_next_one_takes_more(limited):
    plan = sweep.Plan(["vector_add"], [limited], **OPTIONS)
    row = sweep.best(plan, select={"n": 1 << 24})[0]
    assert 595 < row[CLOCK] < 1075 and row["power"] <= LIMIT
    step = (1075 - 595) / RUNGS
    clocks = [row[CLOCK], row[CLOCK] + 2 * step, 1075.0]
    named = replace(plan, axes={**AXES, "core_clock": clocks})
    assert not limits_of(resolve(named).kernels[0], named)
    chosen = {
        name: row[name] for name in ("n", "block_size", "elements_per_thread", "vector_width")
    }
    same, next_one, nominal = (
        sweep.best(named, select={**chosen, "core_clock": clock})[0] for clock in clocks
    )  # fmt: skip
    for name in ("execution_time", "power", "energy", "regime"):
        assert same[name] == row[name]
    assert nominal["power"] > next_one["power"] > LIMIT
    explained = sweep.explain(plan, row.configuration)
    assert explained.results["execution_time"] == row["execution_time"]
    assert explained.results[CLOCK] == row[CLOCK]
    said = f"The power limit of {LIMIT} W lowers the core clock from 1075 to {row[CLOCK]:g} MHz."
    assert said in explained.sections[0].notes


def test_a_higher_limit_is_never_slower__and_also_holds_for_named_clocks(limited):
    axes = {**AXES, "core_clock": [700, 1075]}
    times = [
        results(sweep.Plan(["vector_add"], ["gtx_titan_x"], **{**OPTIONS, "axes": axes},
                           power_limit=watts)).execution_time.values
        for watts in range(100, 241, 20)
    ]  # fmt: skip
    assert (np.nan_to_num(np.diff(times, axis=0)) <= 0).all()
    assert (times[0] > times[-1]).any(axis=(0, 1, 2, 3, 4)).all()


def test_chunks_points_passes_and_questions_agree_to_the_bit(limited, monkeypatch):
    plan = sweep.Plan(["vector_add"], [limited, "rtx_3090"], ["combined", "hong_kim"], **OPTIONS)
    space = resolve(plan).kernels[0]
    whole = evaluate_box(space, plan, space.grid.whole)
    lazy = sweep.open(plan)["vector_add"]
    at = {d: np.arange(12) % len(lazy[d]) for d in lazy.power.dims}
    points = lazy[CLOCK].isel({d: ("p", i) for d, i in at.items()}).values
    np.testing.assert_array_equal(points, whole[CLOCK][tuple(at.values())])
    asked = sweep.best(plan, by=["n"])
    for name, value in (("UNCOMPILED", 0), ("WHOLE_TABLES", 0), ("ARRAYS", 7), ("FEW", 1)):
        monkeypatch.setattr(limits, name, value)
    assert sweep.best(plan, by=["n"]).rows == asked.rows
    small = replace(plan, chunk_points=5)
    cut = resolve(small).kernels[0]
    for chunk in range(cut.grid.n_chunks):
        box = cut.grid.box(chunk)
        for name, values in evaluate_box(cut, small, box).items():
            own = next(v for v in variables(cut, small) if v.name == name)
            index = [dict(zip(cut.grid.names, box.slices, strict=True)).get(d, slice(None))
                     for d in own.dims]  # fmt: skip
            np.testing.assert_array_equal(values, whole[name][tuple(index)])


def test_intervals_are_around_the_lowered_time():
    axes = dict.fromkeys(("m", "n", "k"), 1024) | {"MWG": 64, "NWG": 64, "KWG": 16, "MDIMC": 16}
    plan = sweep.Plan(["xgemm"], ["gtx_titan_x"], **{**OPTIONS, "axes": axes}, power_limit=120)
    ends = []
    for own in (plan, replace(plan, power_limit=2000)):
        row = sweep.with_intervals(sweep.best(own), own, 0.5, samples=256)[0]
        assert row["time_low"] < row["execution_time"] < row["time_high"]
        ends += [row["time_low"], row["time_high"]]
    assert ends[2] < ends[3] < ends[0] < ends[1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"power_limit": 0}, "power_limit = 0: a number of watts, 1 to 5000"),
        ({"power_limit": True}, "power_limit = True: a number of watts"),
        ({"power_limit": float("nan")}, "power_limit = nan: a number of watts"),
        ({"power_limit": 250, "devices": ("rtx_3090",)}, "250 W: none of the devices has"),
    ],
)
def test_wrong_limit_is_one_line(given, message):
    with pytest.raises(sweep.PlanError, match=message):
        resolve(sweep.Plan(**{"kernels": ("vector_add",), "devices": ("gtx_titan_x",), **given}))


def test_a_limit_that_full_activity_meets_costs_nothing():
    plan = sweep.Plan(["vector_add"], ["gtx_titan_x", "rtx_3090"], **OPTIONS, power_limit=2000)
    space = resolve(plan).kernels[0]
    assert not limits_of(space, plan) and CLOCK not in [v.name for v in variables(space, plan)]


# Device, sizes, bits, tile, warps, stages, measured TFLOP/s: AMD, Measuring Max-Achievable FLOPs,
# Part 2, table 1 (without the library's tiles); Triton's tutorial gluon/07-persistence.py.
PRODUCTS = [
    ("mi300x", 4096, 4864, 32896, 16, 0, 0, 0, 0, 0, 708.0),
    ("mi300x", 4096, 3648, 32896, 8, 0, 0, 0, 0, 0, 1273.0),
    ("h100_sxm", 8192, 8192, 16384, 16, 128, 256, 64, 8, 3, 673.67),
    ("h100_sxm", 8192, 8192, 16384, 16, 128, 256, 64, 8, 4, 669.16),
    ("h100_sxm", 8192, 8192, 16384, 16, 128, 256, 128, 8, 2, 489.26),
    ("b200", 8192, 8192, 16384, 16, 128, 256, 64, 4, 3, 1054.0),
    ("b200", 8192, 8192, 16384, 16, 128, 256, 64, 4, 4, 1175.7),
    ("b200", 8192, 8192, 16384, 16, 128, 256, 128, 4, 2, 735.96),
]


@pytest.mark.parametrize("product", PRODUCTS)
def test_large_products__rates_that_were_published(product):
    device, *values, rate = product
    m, n, k, *_, stages = values
    names = "m", "n", "k", "bits", "BLOCK_M", "BLOCK_N", "BLOCK_K", "num_warps", "num_stages"
    axes = {name: [v] for name, v in zip(names, values, strict=True) if v} | {"GROUP_M": [8]}
    best = sweep.best(sweep.Plan(["triton_matmul"], [device], axes=axes)).rows[0]
    assert 2e-12 * m * n * k / best["execution_time"] == pytest.approx(rate, rel=0.2)
    if (device, stages) == ("h100_sxm", 4):  # four buffers hide the copies
        assert best["bound"] != "latency"
