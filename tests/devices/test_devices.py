"""The shipped devices hold what the papers print, and say where every number comes from."""

from __future__ import annotations

import re
import tomllib

import jsonschema
import numpy as np
import pytest

from sweep import specs
from sweep.hardware.clocks import dynamic_power, voltage_at
from sweep.models import get_model, model_names

FILES = sorted(specs.data_root("device").glob("*.toml"))
TESLA = ("gtx_8800", "quadro_fx_5600", "gt_8800", "gtx_280")


def model_parameters():
    return {name: get_model(name).parameters for name in model_names()}


def numbers(table, path=""):
    """Yield the dotted path of every value below the tables of a device file."""
    for key, value in table.items():
        here = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from numbers(value, here)
        elif path:
            yield here


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
class TestEveryDevice:
    """What holds for any file."""

    def test_has_no_findings(self, path):
        assert [str(finding) for finding in specs.lint([path], model_parameters())] == []

    def test_has_a_source_for_every_value(self, path):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        sources = specs.load_device(path.stem).sources
        del table["source"]
        assert set(numbers(table)) == set(sources) - {"identity"}
        assert all(source.kind in specs.SOURCE_KINDS for source in sources.values())
        assert all(re.search(r"\w{3}", source.reference) for source in sources.values())

    def test_fits_the_json_schema(self, path):
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        for declared in ({}, model_parameters()):
            jsonschema.validate(table, specs.json_schema("device", declared))

    def test_bandwidth_follows_from_memory_clock_and_bus(self, path):
        values = specs.load_device(path).values
        width = values["chip.memory_bus_width"] / 8
        expected = 2 * values["clocks.memory_nominal"] * width
        assert values["chip.memory_bandwidth"] == pytest.approx(expected, rel=2e-4)  # four digits

    def test_peak_arithmetic_rate_is_that_of_a_gpu(self, path):
        values = specs.load_device(path).values
        rate = 2 * values["chip.sm_count"] * values["chip.lanes_per_sm"]
        assert 3e11 < rate * values["clocks.core_nominal"] < 2e14


def test_shipped_are_all_listed():
    assert {*TESLA, "gtx_980"} <= {path.stem for path in FILES} <= set(specs.list_devices())


# ---------------------------------------------------------------------------- Hong & Kim 2009


@pytest.mark.parametrize(
    "key, n_sm, cores, processor_clock, bandwidth, computing_version",
    [
        ("gtx_8800", 16, 128, 1.35, 86.4, "1.0"),
        ("quadro_fx_5600", 16, 128, 1.35, 76.8, "1.0"),
        ("gt_8800", 14, 112, 1.5, 57.6, "1.1"),
        ("gtx_280", 30, 240, 1.3, 141.7, "1.3"),
    ],
)
def test_table3(key, n_sm, cores, processor_clock, bandwidth, computing_version):
    device = specs.load_device(key)
    assert device.values["chip.sm_count"] == n_sm
    assert device.values["chip.sm_count"] * device.values["chip.lanes_per_sm"] == cores
    assert device.values["clocks.core_nominal"] == pytest.approx(processor_clock * 1e9, rel=1e-15)
    assert device.values["chip.memory_bandwidth"] == pytest.approx(bandwidth * 1e9, rel=1e-15)
    assert device.compute_capability == computing_version
    assert device.values["chip.warp_size"] == 32  # Table 1
    assert device.values["chip.l2"] == 0


@pytest.mark.parametrize(
    "key, mem_ld, departure_del_uncoal, departure_del_coal",
    [
        ("gtx_8800", 420, 10, 4),  # Section 5.1: the 8800s use the FX 5600's
        ("quadro_fx_5600", 420, 10, 4),
        ("gt_8800", 420, 10, 4),
        ("gtx_280", 450, 40, 4),
    ],
)
def test_table6(key, mem_ld, departure_del_uncoal, departure_del_coal):
    assert specs.load_device(key).model_parameters == {
        "hong_kim": {
            "issue_cycles": 4,  # Table 1
            "mem_ld_cycles": mem_ld,
            "departure_del_uncoal_cycles": departure_del_uncoal,
            "departure_del_coal_cycles": departure_del_coal,
        }
    }


@pytest.mark.parametrize("key", TESLA)
def test_tesla__clock_ranges_are_assumed_and_there_is_no_power(key):
    device = specs.load_device(key)
    assert set(device.assumed(["clocks", "chip", "model", "power"])) == {
        f"clocks.{domain}_{end}_MHz" for domain in ("core", "memory") for end in ("min", "max")
    }
    assert not any(path.startswith("power") for path in (*device.values, *device.tables))
    for domain in ("core", "memory"):
        nominal = device.values[f"clocks.{domain}_nominal"]
        # The ratios 0.8 and 1.2 themselves must be inside, whatever their product rounds to.
        assert device.values[f"clocks.{domain}_min"] <= 0.8 * nominal * (1 + 1e-12)
        assert device.values[f"clocks.{domain}_max"] >= 1.2 * nominal * (1 - 1e-12)


# ---------------------------------------------------------------------------- Wang & Chu 2017


@pytest.fixture(scope="module")
def gtx_980():
    return specs.load_device("gtx_980")


@pytest.fixture(scope="module")
def wang_chu(gtx_980):
    return gtx_980.model_parameters["wang_chu"]


def test_table5(gtx_980):
    values = gtx_980.values
    assert gtx_980.compute_capability == "5.2"
    assert (values["chip.sm_count"], values["chip.lanes_per_sm"]) == (16, 128)
    assert values["chip.memory_bus_width"] == 256
    for domain in ("core", "memory"):
        clocks = [values[f"clocks.{domain}_{name}"] for name in ("min", "nominal", "max")]
        assert clocks == [400e6, 700e6, 1000e6]  # nominal: the baseline of Section VI-A
    assert values["chip.l2"] == 2 * 2**20  # Section IV-B
    assert values["chip.memory_bandwidth"] == 64 * 700e6  # 64 B a memory clock


DM_DEL = (10.06, 9.76, 9.54, 9.31, 9.19, 9.06, 9.0)
EFFICIENCY = (76, 78.13, 79.8, 81.83, 83.42, 84.51, 85)


def test_table3_of_wang_chu(wang_chu):
    assert wang_chu["dm_del_table"] == tuple(zip(range(400, 1001, 100), DM_DEL, strict=True))


def test_table3_of_wang_chu__service_time_is_that_of_a_sector_on_an_sm(gtx_980):
    sector_cycles = 32 / (64 / gtx_980.values["chip.sm_count"])
    for cycles, percent in zip(DM_DEL, EFFICIENCY, strict=True):
        assert cycles * percent / 100 == pytest.approx(0.955 * sector_cycles, rel=0.005)


def test_table2_of_wang_chu__latency_fit(wang_chu):
    # ERRATA: the table's core clock repeats the memory clock; (4) fits with the core at 400 MHz.
    printed = (500, 455.5, 425.8, 404.6, 388.7, 376.3, 366.4)
    for memory, cycles in zip(range(400, 1001, 100), printed, strict=True):
        fit = wang_chu["dm_lat_slope_cycles"] * 400 / memory + wang_chu["dm_lat_intercept_cycles"]
        assert fit == pytest.approx(cycles, abs=0.11)


def test_wang_chu__later_fit_is_near_the_table(wang_chu):
    slope = wang_chu["dm_del_fit_slope_MHzcycles"]
    for memory, cycles in wang_chu["dm_del_table"]:
        fit = slope / memory + wang_chu["dm_del_fit_intercept_cycles"]
        assert fit == pytest.approx(cycles, rel=0.015)


def test_wang_chu__other_parameters(wang_chu):
    assert wang_chu["l2_lat_cycles"] == 222 and wang_chu["l2_del_cycles"] == 1
    assert wang_chu["sh_lat_cycles"] == 28 and wang_chu["inst_latency_cycles"] == 4
    assert wang_chu["issue_cycles"] == 32 / 128
    assert wang_chu["dm_lat_cycles"] == pytest.approx(222.78 + 277.32, rel=1e-12)


def test_hong_kim_on_gtx_980__follows_from_wang_chu(gtx_980, wang_chu):
    hong_kim = gtx_980.model_parameters["hong_kim"]
    sector = dict(wang_chu["dm_del_table"])[700]
    assert hong_kim == {
        "issue_cycles": 32 / gtx_980.values["chip.lanes_per_sm"],
        "mem_ld_cycles": wang_chu["dm_lat_cycles"],
        "departure_del_uncoal_cycles": sector,
        "departure_del_coal_cycles": pytest.approx(4 * sector, rel=1e-12),
    }
    kinds = {gtx_980.sources[f"model.hong_kim.{key}"].kind for key in hong_kim}
    assert kinds == {"derived"}


# ---------------------------------------------------------------------------- power


def full_power(device, core, memory):
    """Return the power at full activity of both domains [W]."""
    total = device.values["power.static"]
    for domain, clock in (("core", core), ("memory", memory)):
        volts = voltage_at(clock, device.tables[f"power.{domain}_voltage"])
        total = total + dynamic_power(device.values[f"power.{domain}"], volts, clock)
    return total


def test_power__rests_on_assumptions_alone(gtx_980):
    assert len(gtx_980.assumed(["power"])) == 5
    assert gtx_980.assumed(["clocks", "chip", "model"]) == ()


def test_power__is_plausible(gtx_980):
    clocks = np.linspace(400e6, 1000e6, 61)
    power = full_power(gtx_980, clocks, clocks)
    assert np.all(np.diff(power) > 0)
    assert 16 < power[0] < 80  # above the idle card
    assert 80 < power[-1] < 165  # below the limit of the card at its higher retail clocks


def test_power__voltage_has_a_floor_and_covers_the_clocks(gtx_980):
    for domain in ("core", "memory"):
        clocks, volts = zip(*gtx_980.tables[f"power.{domain}_voltage"], strict=True)
        assert clocks[0] == gtx_980.values[f"clocks.{domain}_min"]
        assert clocks[-1] == gtx_980.values[f"clocks.{domain}_max"]
        assert list(volts) == sorted(volts)
    core = np.array(gtx_980.tables["power.core_voltage"])
    assert np.count_nonzero(core[:, 1] == core[0, 1]) == 3


@pytest.mark.parametrize("memory", [400e6, 700e6, 1000e6])
def test_power__energy_of_computation_has_its_optimum_inside_the_range(gtx_980, memory):
    clocks = np.arange(400e6, 1001e6, 100e6)
    idle_memory = full_power(gtx_980, clocks, memory) - dynamic_power(
        gtx_980.values["power.memory"], 1.5, memory
    )
    best = clocks[np.argmin(idle_memory / clocks)]  # time goes with 1/clock
    assert 400e6 < best < 1000e6
