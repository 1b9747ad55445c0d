"""What tuning is worth, against plain loops over the results."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from sweep.errors import QueryError
from sweep.evaluation.planned import evaluate
from sweep.query.tuning import NEAR, conclusions, tunings
from sweep.space import Plan

DEVICES = ("rtx_3090", "gtx_280", "radeon_pro_w7800")
CLOCKS = {"core_clock_ratio": [1.0, 0.7, 0.85], "memory_clock_ratio": [1.0, 0.9]}


@pytest.fixture(scope="module", params=["grid", "stacked"])
def results(request):
    axes = CLOCKS | {"tile": [8, 16, 64], "block_rows": [2, 8, 64]}  # 64 x 64 threads do not run
    plan = Plan(("transpose",), DEVICES, ("hong_kim", "combined"), axes=axes, layout=request.param)
    return evaluate(plan)


def test_numbers_are_those_of_plain_loops(results):
    (found,) = tunings(results)
    own = results["transpose"] if "transpose" in results.children else results
    times = own["execution_time"].sel(model="combined").load()
    clocks = ["core_clock_ratio", "memory_clock_ratio"]
    free = [d for d in times.dims if d not in (*clocks, "device")]
    places = [dict(zip(free, at, strict=True))
              for at in itertools.product(*(range(times.sizes[d]) for d in free))]  # fmt: skip
    by_device = {
        device: [float(times.sel(device=device).isel(p).min()) for p in places]
        for device in found.devices
    }
    best = {device: min(t for t in row if t == t) for device, row in by_device.items()}
    assert (found.kernel, found.model, found.devices) == ("transpose", "combined", DEVICES)
    for device, slowdowns in zip(found.devices, found.slowdowns, strict=True):
        expected = sorted(t / best[device] for t in by_device[device] if t == t)
        assert slowdowns.tolist() == pytest.approx(expected, rel=1e-6)
        assert 0 < len(expected) <= len(places)
    for (i, here), (j, there) in itertools.product(enumerate(found.devices), repeat=2):
        chosen = by_device[here].index(best[here])
        cost = by_device[there][chosen] / best[there]
        assert found.carried[i, j] == pytest.approx(cost, rel=1e-6, nan_ok=True)
    assert found.clocks.tolist() == [0.7, 0.85, 1.0]
    for device, row in zip(found.devices, found.clocked, strict=True):
        for clock, cost in zip(found.clocks, row, strict=True):
            at = float(times.sel(device=device, core_clock_ratio=clock).min())
            assert cost == pytest.approx(at / best[device], rel=1e-6, nan_ok=True)


def test_model_and_selection_are_chosen(results):
    (found,) = tunings(results, model="hong_kim", select={"device": "gtx_280", "tile": [8, 16]})
    assert (found.model, found.devices) == ("hong_kim", ("gtx_280",))
    assert found.carried.tolist() == [[1.0]]
    with pytest.raises(QueryError, match="no model 'hong_kin'; did you mean 'hong_kim'"):
        tunings(results, model="hong_kin")


def test_conclusions_say_what_the_numbers_say(results):
    (found,) = tunings(results)
    choice, devices, clocks = conclusions([found])
    medians = [float(np.median(row)) for row in found.slowdowns]
    assert f"{min(medians):.2g} to {max(medians):.2g} times as long as the best" in choice
    assert f"within {100 * (NEAR - 1):.2g} %" in choice
    worst = np.nanmax(found.carried) - 1
    cost = f"up to {100 * worst:.2g} % longer on another than the best there"
    assert f"{cost} (transpose: that of " in devices
    assert clocks.startswith("At 0.7 of the nominal core clock, transpose on ")
    equal = replace(found, slowdowns=(np.ones(10),), carried=np.ones((2, 2)))
    choice, devices, _ = conclusions([equal])
    assert choice.startswith("Half of the configurations are about as fast as the best; 100 % of ")
    assert devices == "The best of one GPU is as fast as the best on another."
    (alone,) = tunings(results, select={"device": "rtx_3090", "core_clock_ratio": 1.0})
    assert len(conclusions([alone])) == 1


def test_nothing_to_tune_is_said():
    sizes = Plan(("vector_add",), ("rtx_3090",), ("combined",), axes={"n": [1024, 4096]})
    with pytest.raises(QueryError, match="no kernel with one problem size"):
        tunings(evaluate(sizes))
