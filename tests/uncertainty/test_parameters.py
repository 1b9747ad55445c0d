"""Which numbers may be off, and how far."""

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import sweep.uncertainty
from sweep.errors import QueryError
from sweep.specs import list_devices, list_kernels, load_device, load_kernel, parse_device
from sweep.specs.formats import SOURCE_KINDS
from sweep.uncertainty.parameters import shares, uncertain


def test_every_kind_of_source_has_a_range_and_a_reason():
    file = Path(sweep.uncertainty.__file__).with_name("ranges.toml")
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    assert set(tables) == set(SOURCE_KINDS) and all(len(t["why"]) > 30 for t in tables.values())
    assert shares()["datasheet"] < shares()["microbenchmark"] < shares()["assumed"]


def named(device="rtx_2080_ti", kernel="xgemm", model="combined", ranges=None):
    found = uncertain(load_device(device), load_kernel(kernel), model, ranges)
    return {one.name: one for one in found}


def test_counts_and_clocks_are_exact_and_what_remains_has_its_source():
    found = named()
    assert not any("clocks." in n or "sm_count" in n or "lanes" in n for n in found)
    assert found["microbenchmark.core_clock_MHz"].kind == "assumed"  # nobody said it
    assert "microbenchmark.core_clock_MHz" not in named("rtx_4090")  # read while it was measured
    one = found["microbenchmark.dram_latency_cycles"]
    assert (one.kind, one.share) == ("microbenchmark", shares()["microbenchmark"])
    assert found["model.combined.shared_cycles"].kind == "datasheet"
    assert found["kernel: instructions.fp32"].is_of_kernel
    assert "model.wang_chu.l2_del_cycles" not in named("gtx_980_paper", "mat_tiled", "hong_kim")
    assert "model.wang_chu.l2_del_cycles" in named("gtx_980_paper", "mat_tiled", "wang_chu")


def test_derived_names_that_answer_yes_or_no_are_exact():
    found = named(kernel="convolution")
    assert "kernel: derived.rolled" not in found  # 1 or 0, and compared with ==
    assert {"kernel: derived.overhead", "kernel: derived.fetched"} <= set(found)


def test_ranges_are_of_numbers_or_of_kinds_and_a_number_counts_more():
    path = "microbenchmark.dram_latency_cycles"
    found = named(ranges={"microbenchmark": 0.2, path: 0.4, "derived": 0.0})
    assert found[path].share == 0.4
    assert found["microbenchmark.l1_latency_cycles"].share == 0.2
    assert not any(one.kind == "derived" for one in found.values())


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({"chip.l2_KB": 0.1}, "did you mean 'chip.l2_KiB'"),
        ({"clocks.core_nominal_MHz": 0.1}, "no number of that name may be off"),
        ({"assumd": 0.1}, "did you mean 'assumed'"),
        ({"assumed": float("nan")}, "nan: a share of the value, 0 to 0.99"),
        ({"assumed": -0.1}, "-0.1: a share of the value"),
        ({"assumed": 1.0}, "1: a share of the value"),
        (dict.fromkeys(SOURCE_KINDS, 0.0), "all numbers are exact"),
    ],
)
def test_wrong_ranges_are_refused(ranges, message):
    with pytest.raises(QueryError, match=message):
        named(ranges=ranges)


@pytest.mark.slow
def test_every_shipped_device_and_kernel_has_numbers_that_may_be_off():
    device, kernel = load_device("rtx_3090"), load_kernel("vector_add")
    assert all(uncertain(load_device(name), kernel, "combined") for name in list_devices())
    for name in list_kernels():
        found = uncertain(device, load_kernel(name), "combined")
        assert sum(one.is_of_kernel for one in found), name
        assert len({one.name for one in found}) == len(found)


def test_a_standard_deviation_of_0__makes_no_number_exact():
    device = load_device("h100_sxm")
    assert device.deviations[name := "microbenchmark.l1_latency_cycles"] == 0.0
    own = {one.name: one for one in uncertain(device, load_kernel("transpose"), "combined")}
    assert (own[name].kind, own[name].share) == ("microbenchmark", shares()["microbenchmark"])
    exact = uncertain(device, load_kernel("transpose"), "combined", {name: 0.0})
    assert name not in {one.name for one in exact}


def test_a_standard_deviation_in_the_file_gives_the_range_of_the_same_deviation():
    text = load_device("rtx_2080_ti").text + (
        '\n[deviation]\n"microbenchmark.dram_latency_cycles" = 4.84\n'
        '"chip.memory_bandwidth_GBps" = 6.16\n"model.combined.l1_cycles" = 0.005\n'
    )
    found = uncertain(parse_device(text, "mine"), load_kernel("xgemm"), "combined",
                      {"microbenchmark": 0.5})  # fmt: skip
    for one in found:
        if one.kind == "deviation":
            assert one.share == pytest.approx(0.01 * 3**0.5)
    assert sum(one.kind == "deviation" for one in found) == 3


def test_zero_is_not_varied():
    device = load_device("rtx_3090")
    none = replace(device, values={**device.values, "chip.l2": 0.0})
    names = [one.name for one in uncertain(none, load_kernel("vector_add"), "combined")]
    assert "chip.l2_KiB" not in names
