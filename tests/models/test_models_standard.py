"""One battery for every registered model and both variants.

A model that is added to the registry is tested here without a change: its results do not depend on
how they are computed, are finite or flagged, and obey the clocks as a device does.
"""

import subprocess
import sys
from dataclasses import replace

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import config
from support.standard import AXES, assembled, devices_of, plan_for, same_bits, whole

import sweep.evaluation.chunk as chunk_module
from sweep.compiler.passes import get_pass
from sweep.compiler.source import CLOCK_INPUTS, LAUNCH_INPUTS, nominal
from sweep.evaluation import limits
from sweep.evaluation.launch import build_launch
from sweep.evaluation.planned import evaluate
from sweep.evaluation.tables import model_inputs, pack
from sweep.evaluation.variables import variables
from sweep.fields import BOUND, POWER_STATUS, STATUS, VARIANTS
from sweep.models import get_model, model_names
from sweep.space import Box, resolve

pytestmark = pytest.mark.slow  # every pass is compiled in both of its forms

# A model that no shipped device has parameters for fails in test_models_registry.py.
MODELS = [model for model in model_names() if devices_of(model)]
EVERY = [(m, v) for m in MODELS for v in VARIANTS if v != "revised" or get_model(m).revisions]
every = pytest.mark.parametrize(("model", "variant"), EVERY)


@pytest.fixture(scope="module")
def results():
    """Return each battery plan's results, evaluated in one box per kernel."""
    return {key: whole(plan_for(*key)) for key in EVERY}


# --- One result, however it is computed -----------------------------------------------------------


def at_point(model, inputs, at):
    """Return the inputs of a body at one point."""
    names = {i.symbol: [n for n in inputs if n.startswith(f"{i.symbol}_")] for i in model.inputs}
    return {
        i.symbol: [inputs[name][at] for name in names[i.symbol]]
        if i.sequence
        else inputs[i.symbol][at]
        for i in model.inputs
    }


@every
def test_scalar_body_is_vector_pass(results, model, variant):
    declared, plan = get_model(model), plan_for(model, variant)
    timed = 0
    for space in resolve(plan).kernels:
        found = results[model, variant][space.kernel.key]
        launch = build_launch(space)
        tables = model_inputs(launch, declared, variant, {})
        inputs = {n: np.broadcast_to(t, space.grid.shape) for n, t in tables.items()}
        kept = {v.source: found[v.name] for v in variables(space, plan)}
        for at in np.ndindex(*space.grid.shape):
            if kept["status"][0][at] not in (STATUS["valid"], STATUS["model_domain"]):
                continue
            values = declared.evaluate(variant, at_point(declared, inputs, at))
            sound = 0 < values["execution_cycles"] < np.inf
            assert sound == (kept["status"][0][at] == STATUS["valid"])
            timed += sound
            for name in set(values) & set(kept) if sound else ():
                stored = kept[name] if kept[name].ndim == len(at) else kept[name][0]
                assert np.array_equal(stored[at], values[name], equal_nan=True), (name, at)
            if sound:
                assert (
                    kept["execution_time"][0][at]
                    == values["execution_cycles"] / inputs["core_hz"][at]
                )
    assert timed > 20


# How a grid is cut, and the limits that decide it.
CUTS = {
    "chunks of 5": (5, {}),
    "tables of each box, several calls of a pass": (100, {"WHOLE_TABLES": 0, "BLOCK": 16}),
    "tables of parts of a box": (None, {"WHOLE_TABLES": 0, "LAUNCHES": 7, "CLOCKS_FORM": 10**9}),
    "form clocks": (None, {"CLOCKS_FORM": 1}),
    "form rows": (None, {"CLOCKS_FORM": 10**9}),
}


@every
@pytest.mark.parametrize("cut", CUTS)
def test_however_it_is_cut(results, model, variant, cut, monkeypatch):
    chunk_points, changed = CUTS[cut]
    used = []
    monkeypatch.setattr(chunk_module, "get_pass", lambda key: used.append(key) or get_pass(key))
    for name, value in changed.items():
        monkeypatch.setattr(limits, name, value)
    plan = plan_for(model, variant, chunk_points=chunk_points)
    for space in resolve(plan).kernels:
        assert space.grid.n_chunks > 1 or chunk_points != 5
        same_bits(results[model, variant][space.kernel.key], assembled(space, plan))
    if cut.startswith("form"):
        assert {key.form for key in used} == {cut.removeprefix("form ")}


@every
@pytest.mark.parametrize("scheduler", ["threads", "synchronous"])
def test_dask(results, model, variant, scheduler):
    kernels = ("mat_tiled", "matrixmul_shared")
    tree = evaluate(plan_for(model, variant, kernels=kernels, chunk_points=40))
    with dask.config.set(scheduler=scheduler, num_workers=4):
        for kernel in kernels:
            found, dataset = results[model, variant][kernel], tree[kernel].to_dataset().compute()
            same_bits(found, {name: dataset[name].values for name in found})


@every
def test_nominal_ratio_is_nominal(results, model, variant):
    nominal = whole(plan_for(model, variant, {}))
    for kernel, found in results[model, variant].items():
        for name, values in nominal[kernel].items():
            swept = found[name] if found[name].shape == values.shape else found[name][..., 2, 1]
            same_bits({name: values}, {name: swept})


def test_compiled_once_per_model_and_not_per_kernel(monkeypatch):
    used = set()
    monkeypatch.setattr(chunk_module, "get_pass", lambda key: used.add(key) or get_pass(key))
    for model, variant in ((m, v) for m, v in EVERY if v != "revised"):
        for kernel in AXES:
            plan = plan_for(model, variant, kernels=[kernel])
            first = {name: values[:1] for name, values in AXES[kernel].items()}
            whole(replace(plan, kernel_axes={kernel: first}))
            whole(replace(plan, devices=plan.devices[:1]))
    for key in used:
        compiled = get_pass(key)
        assert config.DISABLE_JIT or len(compiled.signatures) == 1, key
    # One pass per model and variant, and per length where the kernel's parts are a sequence.
    single = {model for model in MODELS if not any(i.sequence for i in get_model(model).inputs)}
    assert len({key[:4] for key in used if key.model in single}) == 2 * len(single)


WITHOUT_JIT = """
import sys, numpy as np
sys.path.insert(0, {tests!r})
from numba import config
from support.standard import plan_for, whole
assert config.DISABLE_JIT
found = {{}}
for model, variant in {every!r}:
    for kernel, values in whole(plan_for(model, variant)).items():
        found.update({{f"{{model}} {{variant}} {{kernel}} {{n}}": v for n, v in values.items()}})
np.savez({path!r}, **found)
"""


def test_jit_is_no_jit(results, tmp_path, monkeypatch, pytestconfig):
    path = str(tmp_path / "without.npz")
    tests = str(pytestconfig.rootpath / "tests")
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    program = WITHOUT_JIT.format(tests=tests, every=EVERY, path=path)
    subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=True, cwd=pytestconfig.rootpath
    )
    without = np.load(path)
    for (model, variant), kernels in results.items():
        for kernel, found in kernels.items():
            for name, values in found.items():
                other = without[f"{model} {variant} {kernel} {name}"]
                np.testing.assert_allclose(values, other, rtol=1e-12, atol=0, err_msg=name)


# --- Any numbers, not only those of the files -----------------------------------------------------

SPANS = {"cycle": (1e-2, 1e5), "Hz": (1e6, 1e10), "1/s": (1e6, 1e10), "B/s": (1e8, 1e13),
         "B": (1, 4096), "1": (1e-2, 1e5), "s": (1e-9, 1e-4)}  # fmt: skip


@st.composite
def any_inputs(draw, model, n_points):
    """Draw ``n_points`` inputs for a model, each within what its unit suggests; zeros and ones."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    found = {}
    for i in model.inputs:
        low, high = SPANS[model.symbols[i.symbol].units]
        values = np.exp(rng.uniform(np.log(low), np.log(high), n_points))
        if model.symbols[i.symbol].units == "1":
            whole_numbers = rng.choice([0.0, 1.0, 2.0, 32.0], n_points)
            values = np.where(rng.random(n_points) < 0.4, whole_numbers, values)
        for name in [f"{i.symbol}_{part}" for part in range(3)] if i.sequence else [i.symbol]:
            found[name] = values
            if i.factor:
                found |= {nominal(name): values, i.factor: np.ones(n_points)}
    shared = dict.fromkeys((*LAUNCH_INPUTS, *CLOCK_INPUTS), 0.0)
    shared |= {"static_power": 30.0, "core_hz": 1e9, "core_watts": 50.0, "memory_watts": 20.0}
    return found | {name: np.full(n_points, value) for name, value in shared.items()}


@every
@settings(max_examples=15)
@given(data=st.data())
def test_any_inputs__scalar_is_vector_and_finite_or_flagged(model, variant, data):
    declared, n_points = get_model(model), 37
    inputs = data.draw(any_inputs(declared, n_points))
    tables = {n: v.reshape(-1, 1, 1) for n, v in inputs.items()}
    line = Box((0, 0, 0), (n_points, 1, 1))
    packed = pack(declared, tables, line, line)
    space = resolve(plan_for(model, variant, kernels=["svm"])).kernels[0]
    kept = [v for v in variables(space, plan_for(model, variant)) if not v.is_launch]
    outputs = tuple(v.source for v in kept)  # those of the battery's plan: no further compilation
    arrays = [np.empty((packed.n_rows, packed.n_inner), v.dtype) for v in kept]
    compiled = get_pass(packed.read_by(model, variant, outputs))
    with np.errstate(all="ignore"):
        compiled(*packed.arguments, *arrays)
    found = dict(zip(outputs, (a.ravel() for a in arrays), strict=True))
    valid = found["status"] == STATUS["valid"]
    assert set(found["status"]) <= {STATUS["valid"], STATUS["model_domain"]}
    assert (np.isfinite(found["execution_time"]) == valid).all()
    assert (found["execution_time"][valid] > 0).all()
    assert (found["regime"][~valid] == 0).all()
    assert np.isin(found["regime"][valid], list(declared.regimes.values())).all()
    for at in np.flatnonzero(valid):
        values = declared.evaluate(variant, at_point(declared, inputs, at))
        for name, value in values.items():
            assert np.array_equal(found[name][at], value, equal_nan=True), name


# --- Finite or flagged ----------------------------------------------------------------------------


@every
def test_finite_and_positive_or_flagged(results, model, variant):
    seen = set()
    for found in results[model, variant].values():
        valid, powered = found["status"] == 0, found["power_status"] == 0
        seen |= set(np.unique(found["status"]))
        for name in ("execution_time", "execution_cycles", "cycles_per_instruction"):
            assert (np.isfinite(found[name]) == valid).all(), name
            assert (found[name][valid] > 0).all(), name
        for name in ("power", "energy"):
            assert (np.isfinite(found[name]) == powered).all(), name
            assert (found[name][powered] > 0).all(), name
        assert valid[powered].all()
        assert (found["power_status"][~valid] == POWER_STATUS["no_time"]).all()
        regimes = found["regime"]
        assert ((regimes == 0) == ~valid).all()
        assert ((found["bound"] == 0) == ~valid).all()
        assert set(np.unique(regimes)) <= {0, *get_model(model).regimes.values()}
    # The battery's plan meets these on purpose.
    expected = ("valid", "constraint", "clock_out_of_range")
    assert {STATUS[meaning] for meaning in expected} <= seen


@every
def test_missing_parameters__of_the_device_and_kernel(results, model, variant):
    # Block sizes and clocks leave a model no less to know; what fails there is something else.
    # (But for the first of the micro-benchmarks, which needs no latency of memory.)
    for kernel in set(AXES) - {"micro_coalesced"}:
        for i, status in enumerate(results[model, variant][kernel]["status"][0]):
            codes = set(np.unique(status))
            assert not codes >= {STATUS["valid"], STATUS["missing_parameters"]}, (kernel, i)


# --- Clocks as a device has them ------------------------------------------------------------------


def steps(values, axis):
    """Return values before and after each step along a clock axis."""
    return np.delete(values, -1, axis), np.delete(values, 0, axis)


# Models in which one side alone can set the time, in the battery's configurations.
SATURATING = ("hong_kim", "wang_chu")


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("bound", "own_axis"), [("compute", -2), ("memory", -1)])
def test_the_busy_side_sets_the_time(results, model, bound, own_axis):
    # At a fixed memory clock, what keeps DRAM busy gains (almost) nothing from a higher core clock,
    # what keeps the SMs busy gains in proportion; and the reverse.
    ratios = {-2: np.array([1.6, 1.25, 1.2])[:, np.newaxis], -1: np.array([1.25, 1.2])}
    activities = ("core_activity", "memory_activity")
    own, other = activities if bound == "compute" else activities[::-1]
    seen = {-2: 0, -1: 0}
    for found in results[model, "corrected"].values():
        busy = (found["bound"] == BOUND[bound]) & (found[own] > 0.99) & (found[other] < 0.99)
        for axis, ratio in ratios.items():
            before, after = steps(busy, axis)
            slow, fast = steps(found["execution_time"], axis)
            both = before & after
            gain = (slow / fast)[both]
            expected = np.broadcast_to(ratio, both.shape)[both] if axis == own_axis else 1.0
            seen[axis] += gain.size
            # DRAM is used better at higher memory clocks (Table III of Wang & Chu): up to 3%.
            assert (gain > expected * (1 - 0.02)).all()
            assert (gain < expected * (1 + (0.035 if axis == own_axis == -1 else 0.02))).all()
    assert min(seen.values()) > 5 or model not in SATURATING
