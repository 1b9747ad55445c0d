"""Derived device parameters: the rules, their sources, and a plan that turns them off."""

from __future__ import annotations

import numpy as np
import pytest

from sweep import Plan
from sweep.evaluation import evaluate
from sweep.fields import STATUS
from sweep.hardware.derived import DeviceFacts
from sweep.models import get_model, model_names
from sweep.space import missing_parameters, resolve, with_derived
from sweep.specs import check_model_parameters, list_devices, load_device

MODERN = ("v100", "a100_40gb", "a100_80gb", "rtx_2080_ti", "rtx_3090", "rtx_a4000", "rtx_4090",
          "h100_sxm", "h100_pcie", "h200", "b200", "mi210", "mi250x")  # fmt: skip


def derived(key):
    return with_derived(load_device(key), model_names())


@pytest.mark.parametrize("key", list_devices())
def test_derived_values__are_plausible_and_say_so(key):
    given, device = load_device(key), derived(key)
    for name in model_names():
        own = given.model_parameters.get(name, {})
        for parameter, value in device.model_parameters.get(name, {}).items():
            if parameter in own:
                assert value == own[parameter]
                continue
            source = device.sources[f"model.{name}.{parameter}"]
            assert source.kind == "derived" and len(source.reference) > 20
            numbers = [v for row in value for v in row] if isinstance(value, tuple) else [value]
            assert all(np.isfinite(v) for v in numbers if not isinstance(v, str))
        # In the range that the model declares, like values of a file.
        check_model_parameters(device, name, get_model(name).parameters)


def test_lanes__of_one_scheduler_and_of_conversions():
    found = {key: derived(key).model_parameters["combined"] for key in ("v100", "mi210", "gtx_280")}
    assert [found[key]["schedulers"] for key in found] == [4, 4, 1]
    assert [found[key]["special_conversions"] for key in found] == [1, 0, 1]


@pytest.mark.parametrize("key", MODERN)
def test_modern_devices__run_every_model(key):
    device = derived(key)
    assert {name: missing_parameters(device, name) for name in model_names()} == {
        name: () for name in model_names()
    }


def test_rules__say_what_they_do():
    for model in map(get_model, model_names()):
        for rule in (p.rule for p in model.parameters if p.rule):
            first = (rule.__doc__ or "").strip().splitlines()[0]
            assert first.endswith(".") and len(first) > 20


def test_rules__give_the_papers_numbers_where_both_exist():
    def rule(model, key, device):
        spec = load_device(device)
        facts = DeviceFacts(spec.values, spec.compute_capability, spec.vendor, {})
        return next(p.rule for p in get_model(model).parameters if p.key == key)(facts)

    # Eight lanes for 32 threads: the 4 cycles of Hong & Kim's Table 1.
    for key in ("gtx_8800", "quadro_fx_5600", "gt_8800", "gtx_280"):
        printed = load_device(key).model_parameters["hong_kim"]["issue_cycles"]
        assert rule("hong_kim", "issue_cycles", key) == printed == 4
    ((warps, rate),) = rule("zhang_owens", "instruction_throughput", "gtx_285")
    assert warps == pytest.approx(6)  # Section 5.1: saturation near 6 warps
    assert rate == pytest.approx(9.33, abs=0.05)  # Section 5.1: sustained at 32 warps
    ((_, shared),) = rule("zhang_owens", "shared_bandwidth", "gtx_285")
    assert shared == pytest.approx(1165, abs=1)
    assert rule("zhang_owens", "cluster_count", "gtx_285") == 10


def test_plan__derivations_can_be_turned_off():
    def status(derive):
        plan = Plan(["vector_add"], ["a100_80gb"], list(model_names()), derive=derive)
        space = resolve(plan)
        found = evaluate(space)[space.kernels[0].kernel.key]["status"].values
        return {n: set(np.unique(found[i]).tolist()) for i, n in enumerate(model_names())}

    constraint = {STATUS["constraint"]}
    assert all(STATUS["valid"] in found for found in status(True).values())
    without = status(False)
    assert all(found - constraint == {STATUS["missing_parameters"]} for found in without.values())
