"""Rule CLK (clocks away from the nominal ones), power and energy."""

from functools import reduce
from importlib import resources

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import golden
from support.calling import call, evaluated, exact

import sweep.models.hong_kim_2009 as hk
import sweep.models.wang_chu_2017 as wc
from sweep.evaluation.launch import build_launch
from sweep.evaluation.planned import evaluate
from sweep.evaluation.tables import model_inputs
from sweep.fields import POWER_STATUS, STATUS, VARIANTS
from sweep.hardware import clocks
from sweep.hardware.clocks import bandwidth, clock_ratio, latency, service_time, share_at
from sweep.hardware.derived import dram_share
from sweep.models import get_model, model_names, stated_facts
from sweep.space import Plan, resolve
from sweep.specs import load_device, load_kernel

hertz = st.floats(1e6, 2e10)


def array(value):
    return np.array(float(value))


# --- The rule -------------------------------------------------------------------------------------


@given(hertz, hertz)
def test_clock_ratio__exactly_one_at_the_nominal_clocks(core, memory):
    assert clock_ratio(array(core), array(core), array(memory), array(memory)) == 1


def test_rules__by_hand():
    # 1.2 times the nominal core clock, 0.8 times the nominal memory clock.
    assert clock_ratio(array(1620), array(1350), array(640), array(800)) == exact(1.5)
    assert service_time(array(10), array(1.5)) == 15
    assert bandwidth(array(76.8e9), array(640), array(800)) == exact(61.44e9)
    for share, cycles in ((1, 600), (0, 400), (0.25, 450)):  # only DRAM's share scales
        assert latency(array(400), array(1.5), array(share)) == cycles


FIT = {"dm_lat_slope_cycles": 222.78, "dm_lat_intercept_cycles": 277.32}


@given(st.floats(0.1, 10))
def test_latency__is_equation_4_of_wang_chu(ratio):
    share = get_model("wang_chu").facts(FIT)["dram_share"]
    assert latency(array(500.1), array(ratio), array(share)) == exact(
        wc.dm_lat_fit(222.78, ratio, 277.32)
    )


@pytest.mark.parametrize(
    ("hong_kim", "wang_chu", "share"),
    [
        (500.1, {**FIT, "l2_lat_cycles": 222}, 222.78 / 500.1),  # the device's fit
        (500, {"l2_lat_cycles": 200}, 0.6),  # the whole latency less the L2 cache's
        (500, {"l2_lat_cycles": 200, "dm_lat_slope_cycles": 222.78}, 0.6),
        (200, {"l2_lat_cycles": 200}, 1),  # an upper bound says nothing
        (420, {}, 1),  # all of it
        (None, {}, 1),
    ],
)
def test_dram_share__by_what_the_models_tables_state(hong_kim, wang_chu, share):
    given = {"hong_kim": {"mem_ld_cycles": hong_kim}, "wang_chu": wang_chu}
    assert dram_share(stated_facts(given)) == exact(share)


def test_dram_bandwidth__is_that_of_the_paper_s_service_times():
    """Wang & Chu 2017, Table III: cycles of a sector of one of 16 SMs at equal clocks."""
    clocks = [400, 700, 1000]
    plan = Plan(["vector_add"], ["gtx_980_paper"], ["combined"], outputs=("execution_time",),
                      axes={"memory_clock": clocks})  # fmt: skip
    device = resolve(plan).kernels[0].devices[0]
    table = device.model_parameters["combined"]["dram_share_table"]
    for clock, cycles in zip(clocks, (10.06, 9.31, 9.0), strict=True):
        share = share_at(table, array(clock * 1e6), array(0.5))
        found = bandwidth(44.8e9 * share, array(clock), array(700))
        assert found == exact(32 * 16 * clock * 1e6 / cycles)
    assert share_at(None, array(4e8), array(0.5)) == 0.5


# --- What the models read at other clocks ---------------------------------------------------------


OUTPUTS = ("core_activity", "memory_activity", "execution_time", "power", "energy", "status",
           "power_status")  # fmt: skip


def inputs_of(model, device, variant, core, memory):
    """Return a model's inputs at clocks relative to a device's nominal ones."""
    axes = {"block_size": [128], "core_clock_ratio": [core], "memory_clock_ratio": [memory]}
    (space,) = resolve(Plan(["vector_add"], [device], [model], variant=variant, axes=axes)).kernels
    found = model_inputs(build_launch(space), get_model(model), variant, {})
    return {name: float(values.ravel()[0]) for name, values in found.items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_clk__hong_kim_inputs(variant):
    values = inputs_of("hong_kim", "quadro_fx_5600", variant, 1.2, 0.8)
    ratio, bytes_ratio = (1, 1) if variant == "printed" else (1.5, 0.8)
    # No L2 cache and no fit: all of the latency is DRAM's.
    assert values["mem_ld"] == exact(420 * ratio)
    assert values["departure_del_uncoal"] == exact(10 * ratio)
    assert values["departure_del_coal"] == exact(4 * ratio)
    assert values["mem_bandwidth"] == exact(76.8e9 * bytes_ratio)
    # As printed: the core clock is in (7) and in the conversion to seconds, nowhere else.
    assert values["core_freq"] == exact(1.35e9 * 1.2)
    assert values["issue_cycles"] == 4


def test_clk__hong_kim_latency_with_the_devices_fit():
    values = inputs_of("hong_kim", "gtx_980_paper", "corrected", 1.25, 1.0)
    assert values["mem_ld"] == exact(222.78 * 1.25 + 277.32)


@pytest.mark.parametrize("variant", VARIANTS)
def test_clk__wang_chu_inputs(variant):
    # The clocks are in the paper's own equations: the same in all variants.
    nominal = inputs_of("wang_chu", "gtx_980_paper", variant, 1.0, 1.0)
    values = inputs_of("wang_chu", "gtx_980_paper", variant, 900 / 700, 600 / 700)
    assert (nominal["frequency_ratio"], nominal["dm_del"]) == (1, 9.31)
    assert values["frequency_ratio"] == exact(1.5)
    assert values["dm_del"] == exact(9.54)  # Table III at 600 MHz
    other = {"frequency_ratio", "dm_del", "core_hz", "core_watts", "memory_watts", "static_power"}
    assert {n: values[n] for n in set(values) - other} == {
        n: nominal[n] for n in set(nominal) - other
    }


# --- The physical check ---------------------------------------------------------------------------


def test_clk__as_printed_the_core_clock_speeds_up_memory():
    # What each clock does in the corrected variants is in test_models_monotone.py.
    axes = {"block_size": [128], "core_clock_ratio": [1.0, 1.2], "memory_clock_ratio": [1.0, 1.2]}
    time = evaluated("sepia", "quadro_fx_5600", "hong_kim", variant="printed", axes=axes)[
        "execution_time"
    ]
    assert time[0, 0] / time[1, 0] == pytest.approx(1.2, abs=1e-3)
    assert time[0, 0] == time[0, 1]


# --- Power ----------------------------------------------------------------------------------------


def test_equation1_of_wang_chu():
    # a C V^2 f with a = 1: 65 W a V^2 GHz at 0.9 V and 0.7 GHz.
    assert clocks.dynamic_power(array(65e-9), array(0.9), array(0.7e9)) == exact(65 * 0.81 * 0.7)


CORE_VOLTAGE = ((400e6, 0.86), (600e6, 0.86), (700e6, 0.90), (1000e6, 1.02))


def test_voltage__linear_with_a_floor():
    at = {300: 0.86, 400: 0.86, 500: 0.86, 650: 0.88, 700: 0.90, 1000: 1.02, 1100: 1.02}
    for mhz, voltage in at.items():
        assert clocks.voltage_at(array(mhz * 1e6), CORE_VOLTAGE) == exact(voltage)


CLOCKS = {"core_clock": list(range(400, 1001, 50)), "memory_clock": [400, 700, 1000]}


@pytest.fixture(scope="module")
def gtx_980_paper():
    """Return a compute-bound and a memory-bound kernel's results: (kernel, model) to values."""
    found = {}
    for kernel in ("svm", "sepia"):
        text = load_kernel(kernel).text.replace("= 10871", f"= {10871 * 50}")  # svm's computation
        texts = {
            "kernels": {kernel: text},
            "devices": {"gtx_980_paper": load_device("gtx_980_paper").text},
        }
        for model in ("hong_kim", "wang_chu"):
            found[kernel, model] = evaluated(kernel, "gtx_980_paper", model, texts, outputs=OUTPUTS,
                                             axes={"block_size": [128], **CLOCKS})  # fmt: skip
    return found


@pytest.mark.parametrize("model", ["hong_kim", "wang_chu"])
@pytest.mark.parametrize("kernel", ["svm", "sepia"])
def test_power__static_and_both_domains(gtx_980_paper, kernel, model):
    found, device = gtx_980_paper[kernel, model], load_device("gtx_980_paper")
    core, memory = np.meshgrid(*(1e6 * np.array(v) for v in CLOCKS.values()), indexing="ij")
    volts = clocks.voltage_at(core, device.tables["power.core_voltage"])
    volts = np.maximum(volts, clocks.voltage_at(memory, device.tables["power.core_voltage_floor"]))
    expected = device.values["power.static"]
    for domain, watts in (("core", volts**2 * core), ("memory", memory)):
        idle = device.values[f"power.{domain}_idle_share"]
        busy = idle + (1 - idle) * found[f"{domain}_activity"]
        expected = expected + device.values[f"power.{domain}"] * watts * busy
    np.testing.assert_allclose(found["power"], expected, rtol=1e-13)
    np.testing.assert_array_equal(found["energy"], found["power"] * found["execution_time"])
    for activity in ("core_activity", "memory_activity"):
        assert found[activity].min() >= 0
        assert found[activity].max() <= 1


def test_power__at_full_activity(gtx_980_paper):
    # It computes all the time: 26.39 W static, 40.31 W a V^2 GHz at 1.13 V and 1 GHz, and memory.
    found = gtx_980_paper["svm", "wang_chu"]
    assert found["core_activity"][-1, 0] > 0.99
    memory = 9.14 * CLOCKS["memory_clock"][0] / 1e3 * found["memory_activity"][-1, 0]
    assert found["power"][-1, 0] == pytest.approx(26.39 + 40.31 * 1.13**2 + memory, rel=0.02)


@pytest.mark.parametrize("model", ["hong_kim", "wang_chu"])
def test_energy__optimum_inside_the_clock_range(gtx_980_paper, model):
    # Below 600 MHz the voltage no longer falls, so that static power for longer costs more.
    energy = gtx_980_paper["svm", model]["energy"][:, 0]
    best = CLOCKS["core_clock"][int(energy.argmin())]
    assert 400 < best < 1000


def test_power__none_without_a_time():
    axes = {"core_clock": [300, 700], "block_size": [2048, 256],
            "elements_per_thread": [1], "vector_width": [1]}  # fmt: skip
    found = evaluated("vector_add", "gtx_980_paper", "hong_kim", axes=axes, outputs=OUTPUTS)
    out, inside = found["status"].T
    assert out.tolist() == [STATUS["block_too_large"], STATUS["clock_out_of_range"]]
    assert inside.tolist() == [STATUS["block_too_large"], STATUS["valid"]]
    no_time = found["status"] != 0
    assert (found["power_status"][no_time] == POWER_STATUS["no_time"]).all()
    assert (found["power_status"][~no_time] == POWER_STATUS["valid"]).all()
    assert np.isnan(found["power"][no_time]).all()


@pytest.mark.parametrize("blocks", [8, 20, 32, 4000])
def test_activities__of_the_work_that_is_there(blocks):
    # 20 blocks on 16 SMs, two active: the model's round is one of 32 blocks, the work is of 20.
    active = min(4, -(-blocks // 16))
    for paper, case in ((hk, "hong_kim_2009"), (wc, "wang_chu_2017")):
        inputs = golden.columns(paper.__name__.rpartition(".")[2])
        inputs = inputs["few_warps" if paper is hk else "compute"] | {
            "blocks": blocks, "active_blocks_per_sm": active, "n": 2 * active, "aw": 4 * active,
            "active_sm": min(16, blocks), "uses_fit": 1,
        }  # fmt: skip
        found = call(paper, "corrected", inputs)
        warp = inputs.get("comp_cycles", 0.25 * 12000)
        warps = blocks * inputs.get("wpb", 2) / 16
        expected = min(1.0, warp * warps / found["execution_cycles"])
        assert found["core_activity"] == exact(expected), case


def test_activities__of_one_block_are_those_of_one_multiprocessor(tmp_path):
    """Power is that of the whole chip, whose other multiprocessors rest (every model)."""
    text = resources.files("sweep.measurements").joinpath("mix.toml").read_text(encoding="utf-8")
    kernel = tmp_path / "one.toml"
    kernel.write_text(text.replace("blocks = 1048576", "blocks = 1"), encoding="utf-8")
    for variant in ("corrected", "revised"):
        plan = Plan((str(kernel),), ("gtx_titan_x",), tuple(model_names()), variant=variant,
                    axes={"computation": [1e4]}, outputs=OUTPUTS)  # fmt: skip
        busy = evaluate(resolve(plan))["one"]["core_activity"].values
        assert np.isfinite(busy).all() and busy.max() <= 1 / 24 < 5 * busy.min()


def test_block_starts__of_maxwell_keep_their_time_at_all_clocks(tmp_path):
    """As `gaussian` of Wang & Chu's benchmarks, with blocks of 16 threads, was measured."""
    text = resources.files("sweep.measurements").joinpath("mix.toml").read_text(encoding="utf-8")
    kernel = tmp_path / "small.toml"
    small = {"= 1048576": "= 262144", "[256]": "[16]", "count = 16": "count = 0.01"}
    kernel.write_text(reduce(lambda t, old: t.replace(old, small[old]), small, text), "utf-8")

    def times(device, clocks):
        plan = Plan((str(kernel),), (device,), ("combined",), variant="revised", layout="grid",
                    axes={"computation": [0.01], "core_clock": clocks})  # fmt: skip
        found = evaluate(resolve(plan))["small"]["execution_time"].values.ravel()
        return 1e3 * (found - 2.5e-6)  # the launch of the kernel

    assert times("gtx_980", [1100.0, 1250.0]) == pytest.approx([0.973, 0.973], rel=2e-3)
    assert times("gtx_980_paper", [900.0, 1000.0]) == pytest.approx([1.299, 1.299], rel=2e-3)
    slow, fast = times("v100_pcie", [802.0, 1380.0])
    assert slow / fast == pytest.approx(1380 / 802, rel=1e-3)
    assert 16 * fast == pytest.approx(6.543, rel=0.02)  # 16 times as many blocks
