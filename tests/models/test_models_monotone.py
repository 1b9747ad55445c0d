"""What clocks, bandwidth and latency do to the time, in every variant of every model.

More bandwidth and a higher clock are never slower, a higher latency never faster, with inputs that
are random within what a device and a kernel can be; ``support/promises.py`` lists which variants do
not keep to that, with counter-examples. A kernel of computation and one of memory
accesses gain from their own clock, and from no other, on devices of three generations.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.promises import BROKEN, CHANGES, broken, changed
from support.random_inputs import KERNELS, numbers

from sweep.evaluation.planned import evaluate
from sweep.fields import BOUND, VARIANTS
from sweep.models import get_model, model_names
from sweep.space import Plan

ROUNDING = 1 + 1e-11
OWN = [(m, v) for m in model_names() for v in VARIANTS if v != "revised" or get_model(m).revisions]
"""Models and the variants that differ: without revisions, revised is corrected."""

models = pytest.mark.parametrize("model", model_names())


def cycles(model, variant, inputs):
    return get_model(model).evaluate(variant, inputs)["execution_cycles"]


def keeps(model, variant, change, inputs, factor):
    """Return whether a promise is kept; None where there is no time before or after."""
    after = cycles(model, variant, changed(model, variant, change, inputs, factor))
    before = cycles(model, variant, inputs)
    if not (0 < before < np.inf and 0 < after < np.inf):
        # As printed, a change may lead out of a model's domain, or into it.
        assert variant == "printed" or (0 < before < np.inf) == (0 < after < np.inf)
        return None
    if change == "latency":
        return bool(after >= before / ROUNDING)
    if change == "bandwidth":
        return bool(after <= before * ROUNDING)
    # (6) of Luo & Suda rounds the computation of every period up to whole cycles.
    rounded = 0.0
    if model == "luo_suda":
        resident = inputs["active_blocks_per_sm"] * inputs["active_sm"]
        rounded = sum(inputs["weight"]) * max(1.0, inputs["blocks"] / resident)
    return bool(after / factor <= (before + rounded) * ROUNDING)


@pytest.mark.parametrize(
    ("model", "variant", "change"),
    [(m, v, c) for m, v in OWN for c in CHANGES if (m, c) not in broken(v)],
)
@given(data=st.data(), factor=numbers(1, 1.2) | numbers(1, 20))
def test_bandwidth_and_clocks_are_never_slower_and_latency_never_faster(
    model, variant, change, data, factor
):
    assert keeps(model, variant, change, data.draw(KERNELS[model]()), factor) is not False


@pytest.mark.parametrize(
    ("case", "variant"), [(case, variant) for case in BROKEN for variant in case.variants]
)
def test_what_a_variant_does_not_promise_it_does_not_keep(case, variant):
    assert keeps(case.model, variant, case.change, case.inputs, case.factor) is False
    # What the revisions are for.
    assert keeps(case.model, "revised", case.change, case.inputs, case.factor)


def test_revised_keeps_every_promise():
    assert not list(broken("revised"))


@pytest.mark.parametrize(("model", "variant"), [own for own in OWN if own[1] != "printed"])
@given(st.data())
def test_time_is_positive_or_none(model, variant, data):
    # What is not finite and positive is flagged by every pass (test_models_standard.py).
    found = cycles(model, variant, data.draw(KERNELS[model]()))
    # Only (4) of Luo & Suda has an end, at 2m - 1 warps.
    assert 0 < found < np.inf or (model == "luo_suda" and not found > 0)


# --- Kernels that leave no doubt what they wait for -----------------------------------------------

KERNEL = """schema = 1
name = "{name}"
source = {{default = "assumed: nothing but what the name says"}}
launch = {{threads_per_block = 256, blocks = 20000}}
resources = {{registers_per_thread = 16}}
instructions = {{computation = {instructions}}}
loops = {{outer = {accesses}}}
[[global_access]]
name = "data"
kind = "load"
count = {accesses}
bytes = 4
pattern = "coalesced"
"""

OF_ONE_KIND = {"computing": (20000, 1), "moving": (64, 64)}
CLOCKS = {"core_clock_ratio": [0.8, 1.0], "memory_clock_ratio": [0.8, 1.0]}
ALMOST = 0.02
DEVICES = ("gtx_980_paper", "gtx_280", "gtx_260")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """The files of both kernels by name."""
    folder = tmp_path_factory.mktemp("kernels")
    paths = {name: folder / f"{name}.toml" for name in OF_ONE_KIND}
    for name, (instructions, accesses) in OF_ONE_KIND.items():
        paths[name].write_text(
            KERNEL.format(name=name, instructions=instructions, accesses=accesses)
        )
    return paths


def gains(path, device, model, variant):
    """Return the gain from 25 % of core clock, from 25 % of memory clock, and the bounds."""
    tree = evaluate(Plan([str(path)], [device], [model], variant=variant, axes=CLOCKS))
    dataset = tree[path.stem].to_dataset().squeeze(drop=True)
    time = dataset["execution_time"].transpose(*CLOCKS).to_numpy()
    assert np.isfinite(time).all()
    return time[0, 1] / time[1, 1], time[1, 0] / time[1, 1], set(np.unique(dataset["bound"]))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "variant"), [own for own in OWN if own[1] != "printed"])
@pytest.mark.parametrize("device", DEVICES)
def test_computation_and_accesses_follow_their_own_clock(kernels, model, variant, device):
    core, memory, bounds = gains(kernels["computing"], device, model, variant)
    assert core == pytest.approx(1.25, rel=ALMOST)
    assert memory == pytest.approx(1.0, rel=ALMOST)
    assert BOUND["memory"] not in bounds
    core, memory, bounds = gains(kernels["moving"], device, model, variant)
    if (model, variant) == ("luo_suda", "corrected"):  # the README says so
        assert core > 1 + ALMOST
        assert core == pytest.approx(1.25, rel=ALMOST) or device == "gtx_980_paper"
        return
    assert core == pytest.approx(1.0, rel=ALMOST)
    # DRAM is used better at higher memory clocks (Table III of Wang & Chu).
    assert 1.25 * (1 - ALMOST) < memory < 1.25 * 1.04
    assert bounds == {BOUND["memory"]}
