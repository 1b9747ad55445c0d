"""What readers find in each tool's output, and the traps that are in them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import tool_texts
from support.simulated_gpu import FACTS
from support.tool_texts import DATA

from sweep.errors import TuningError
from sweep.importers.microbenchmarks.files import READERS, read_measurements
from sweep.importers.microbenchmarks.measurement import METHODS, Clocks, Measurement
from sweep.importers.microbenchmarks.merging import merged
from sweep.importers.microbenchmarks.plateaus import plateaus
from sweep.microbenchmarks.case import Samples
from sweep.microbenchmarks.procedures import as_json
from sweep.specs import load_device


def read(folder: Path, text: str) -> dict[str, Measurement]:
    path = folder / "output.txt"
    path.write_text(text)
    return {one.key: one for one in read_measurements([path])}


def numbers(found: dict[str, Measurement]) -> dict[str, tuple[float, str]]:
    """Return value and unit of what is measured."""
    return {key.partition(".")[2]: (one.value, one.unit) for key, one in found.items()
            if key.startswith("microbenchmark.")}  # fmt: skip


# ---------------------------------------------------------------------------- mt4g


@pytest.mark.parametrize(
    ("device", "l1", "shared"),
    [("a100", 35, 27), ("rtx_2080_ti", 34, 26), ("h100", 38, 30), ("v100", 30, 23),
     ("mi210", 124, 48)],
)  # fmt: skip
def test_mt4g_l1_is_that_of_plain_loads_without_reading_the_clock(device, l1, shared):
    """68 and 66 cycles on two of them, of which 33 and 32 are not the cache's (read-only: 35)."""
    path = DATA / f"mt4g_{device}.json"
    found = {one.key: one for one in read_measurements([path])}
    latencies = json.loads(path.read_text())["memory"]
    assert found["microbenchmark.l1_latency"].value == l1
    assert found["microbenchmark.shared_latency"].value == shared
    assert found["microbenchmark.dram_latency"].value == latencies["main"]["latency"]["p50"]
    assert found["microbenchmark.dram_latency"].deviation == latencies["main"]["latency"]["stdev"]
    assert ("read-only" in found["microbenchmark.l1_latency"].note) == (
        device in ("a100", "rtx_2080_ti")
    )
    assert ("compute_capability" in found) == (device != "mi210")  # HIP says 9.0 of a gfx90a
    assert found["microbenchmark.l1_latency"].clocks == Clocks()  # it states none


def test_mt4g_bandwidths_are_bounds_in_gib():
    found = {one.key: one for one in read_measurements([DATA / "mt4g_a100.json"])}
    rate = found["microbenchmark.dram_read_bandwidth"]
    assert (rate.method, rate.unit, round(rate.value)) == ("one_size", "GiBps", 1098)


def test_mt4g_l2_is_that_of_all_dies(tmp_path):
    data = json.loads((DATA / "mt4g_mi210.json").read_text())
    for dies in (8, None):  # as of an MI300X
        data["compute"]["numXCDs"] = dies
        assert read(tmp_path, json.dumps(data))["chip.l2"].value == (dies or 1) * 8 * 2**20


# ---------------------------------------------------------------------------- gpu-benches


def test_gpu_latency_levels(tmp_path):
    found = read(tmp_path, tool_texts.gpu_latency())
    assert numbers(found) == {
        "l1_latency": (33, "cycles"), "l2_near_latency": (205, "cycles"),
        "dram_latency": (521, "cycles"), "dram_large_latency": (552, "cycles"),
    }  # fmt: skip
    assert all(one.clocks.core == 1410 and one.method == "pointer_chase" for one in found.values())


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        # as on an H100: L2 has a far partition
        (((220, 34), (24e3, 265), (52e3, 475), (1e9, 650)), (34, 265, None, 650, 650)),
        # as on an MI210: misses of the TLB make a step in DRAM
        (((16, 125), (4e3, 240), (9e4, 573), (1e9, 656)), (125, 240, None, 573, 656)),
        # as on RDNA 2: L0, L1, L2 that rises, Infinity Cache; the TLB misses in all of DRAM
        (((16, 73), (120, 110), (900, 190), (4e3, 214), (13e4, 400), (2e5, 1471), (4e5, 1712),
          (1e9, 1909)), (73, 190, 400, None, 1909)),
    ],
)  # fmt: skip
def test_gpu_latency_of_other_hierarchies(tmp_path, levels, says):
    def cycles(size):
        return next(float(value) for end, value in levels if size <= end)

    found = numbers(read(tmp_path, tool_texts.gpu_latency(cycles=cycles)))
    keys = ("l1", "l2_near", "memory_side_cache", "dram", "dram_large")
    assert tuple(found.get(f"{key}_latency", (None,))[0] for key in keys) == says


def test_plateaus_are_found_under_noise_and_between_slopes():
    """As on an MI210: L2 varies by 6 %, and misses of the TLB lift DRAM."""
    sizes = [2.0 * 1.2**n for n in range(70)]

    def value(size):
        wave = 1 + 0.03 * ((size * 7919) % 2 - 1)
        levels = ((16, 125), (4e3, 240 * wave), (1.2e4, 240 + (size - 4e3) / 24), (7e4, 573))
        return next((level for end, level in levels if size <= end), 660)

    levels = plateaus([(size, value(size)) for size in sizes])
    assert [round(level.value, -1) for level in levels] == [120, 240, 570, 660]
    assert plateaus([(1.0, 5.0), (2.0, 5.0), (4.0, 5.0)]) == []


def test_gpu_benches_rates(tmp_path):
    cache = numbers(read(tmp_path, tool_texts.gpu_cache()))
    assert cache == {"l1_read_bandwidth": (19000, "GBps")}
    l2 = numbers(read(tmp_path, tool_texts.gpu_l2_cache()))
    assert l2 == {"l2_read_bandwidth": (5400, "GBps")}
    slow = tool_texts.gpu_l2_cache().replace("     data", "clock: 210 1980 \n     data", 1)
    found = read(tmp_path, slow)["microbenchmark.l2_read_bandwidth"]
    assert (found.value, found.clocks.core) == (5400, 1980)
    stream = read(tmp_path, tool_texts.gpu_stream())
    assert numbers(stream)["dram_read_bandwidth"] == (1490, "GBps")
    assert numbers(stream)["dram_write_bandwidth"] == (1503, "GBps")
    assert stream["microbenchmark.dram_read_bandwidth"].deviation == pytest.approx(38, abs=0.5)
    strides = read(tmp_path, tool_texts.gpu_strides())
    assert numbers(strides) == {"l1_read_bandwidth": (126, "bytes_per_cycle")}
    assert strides["microbenchmark.l1_read_bandwidth"].clocks.core == 1410
    launch, unit = numbers(read(tmp_path, tool_texts.gpu_small_kernels(2.6)))["kernel_launch"]
    assert unit == "us"
    assert launch == pytest.approx(2.6, rel=0.05)


# ---------------------------------------------------------------------------- others


def test_accel_sim_device_is_the_one_that_ran():
    """Its deviceQuery lists others, its sizes are whole megabytes, its GB/s of L2 are 2**30."""
    found = {one.key: one for one in read_measurements([DATA / "accel_sim_stats.txt"])}
    assert (found["name"].value, found["compute_capability"].value) == ("TITAN V", "7.0")
    assert found["clocks.memory_nominal"].value == 850
    assert "chip.l2" not in found
    rates = numbers(found)
    assert rates["fp32_issue"] == (pytest.approx(64 / 126.86, rel=1e-3), "cycles")
    assert rates["special_issue"] == (pytest.approx(2.0, rel=2e-3), "cycles")
    assert rates["l2_read_bandwidth"][0] == pytest.approx(1384.53 * 1.2)
    assert rates["l2_read_bandwidth"][0] > 1547.33
    assert rates["shared_bandwidth"] == (127.932, "bytes_per_cycle")
    assert rates["fp32_latency"] == (4.128845, "cycles")
    known = merged(found.values())
    assert known.number("microbenchmark.tensor_fp16_fma_per") == 478.728


def test_nvbench_takes_the_highest_up_to_the_peak(tmp_path):
    found = read(tmp_path, tool_texts.nvbench())
    rate = found["microbenchmark.dram_read_bandwidth"]
    assert (rate.value, rate.unit, rate.method) == (1.42e12, "Bps", "kernel")  # 3e12 is of caches
    assert rate.deviation == pytest.approx(1.42e10)
    assert rate.clocks.core == pytest.approx(1395)
    assert (found["compute_capability"].value, rate.version) == ("8.0", "0.1.0 (v0.1.0)")


def test_identity(tmp_path):
    smi = read(tmp_path, tool_texts.nvidia_smi())
    assert (smi["clocks.core_max"].value, smi["architecture"].value) == (1410, "Ampere")
    assert "clocks.core_nominal" not in smi  # the highest clock is not the boost clock
    assert smi["name"].version == "driver 535.54.03"
    assert (smi["clocks.power_limit"].value, smi["clocks.power_limit"].unit) == (250, "W")
    old = tool_texts.nvidia_smi().replace("GPU Power Readings", "Power Readings")
    old = read(tmp_path, old.replace("Current Power Limit ", "Enforced Power Limit"))
    assert old["clocks.power_limit"].value == 250
    none = read(tmp_path, tool_texts.nvidia_smi().replace("250.00 W", "N/A"))
    assert "clocks.power_limit" not in none
    clocks = read(tmp_path, tool_texts.supported_clocks())
    assert (clocks["clocks.core_min"].value, clocks["clocks.core_max"].value) == (210, 1410)
    query = read(tmp_path, tool_texts.device_query())
    assert (query["chip.l2"].value, query["chip.lanes_per_sm"].value) == (41943040, 64)
    for answer in ("No", "Yes"):  # it is none there
        text = tool_texts.device_query() + f"  Integrated GPU sharing Host Memory:   {answer}\n"
        assert ("clocks.memory_nominal" in read(tmp_path, text)) == (answer == "No")
    info = read(tmp_path, tool_texts.rocminfo())
    assert (info["compiler_target"].value, info["chip.sm_count"].value) == ("gfx90a", 104)
    assert (info["chip.schedulers_per_sm"].value, info["chip.l1"].value) == (4, 16)
    assert (info["chip.l2"].value, "chip.memory_side_cache" in info) == (8192, False)
    text = tool_texts.rocminfo().replace("gfx90a", "gfx942").replace("  104  ", "  304  ")
    text = text.replace("8192(0x2000) KB", "4096(0x1000) KB\n    L3:       262144(0x40000) KB")
    info, device = read(tmp_path, text), load_device("mi300x")
    for key in ("chip.l2", "chip.memory_side_cache"):  # of eight dies, and of all
        assert (info[key].value * 1024, info[key].unit) == (device.values[key], "KiB")
    for like in (None, device):  # which is the same chip then, with the cache's bandwidth
        remarks = " ".join(merged(info.values(), like).remarks)
        assert ("memory_side_cache: models leave it out" in remarks) == (like is None)
    for target in ("gfx1032", "gfx1100", "gfx1201"):  # a work-group processor is two compute units
        info = read(tmp_path, tool_texts.rocminfo().replace("gfx90a", target))
        counts = (info["chip.sm_count"].value, info["chip.schedulers_per_sm"].value)
        assert (counts, "chip.l1" in info) == ((52, 8), False)
    smi = read(tmp_path, tool_texts.ROCM_SMI)
    assert (smi["clocks.memory_min"].value, smi["clocks.memory_max"].value) == (400, 1600)


def test_rocm_smi__clocks_by_number_where_it_tells_no_range(tmp_path):
    """As of a Radeon RX 6900 XT, and of an MI300X that is idle (its present clock has a number)."""
    text = "\n".join([
        "ROCm System Management Interface", "GPU[0]\t\t: Supported mclk frequencies on GPU0",
        "GPU[0]\t\t: 0: 96Mhz", "GPU[0]\t\t: 3: 1000Mhz *", "GPU[0]\t\t: ",
        "GPU[0]\t\t: Supported sclk frequencies on GPU0", "GPU[0]\t\t: S: 31Mhz",
        "GPU[0]\t\t: 0: 500Mhz", "GPU[0]\t\t: 1: 142Mhz *", "GPU[0]\t\t: 2: 2660Mhz",
        "GPU[0]\t\t: Unable to display sclk range", "End of ROCm SMI Log", ""])  # fmt: skip
    found = {key: one.value for key, one in read(tmp_path, text).items()}
    assert (found["clocks.core_min"], found["clocks.core_max"]) == (500, 2660)
    assert (found["clocks.memory_min"], found["clocks.memory_max"]) == (96, 1000)
    both = text.replace("Unable to display sclk range", "Valid sclk range: 400Mhz - 2700Mhz")
    assert read(tmp_path, both)["clocks.core_max"].value == 2700


def test_amd_smi__static_names_the_gpu_and_metric_its_clocks(tmp_path):
    found = {key: one.value for key, one in read(tmp_path, tool_texts.amd_smi()).items()}
    assert found == {
        "name": "AMD Instinct MI300X", "vendor": "AMD", "compiler_target": "gfx942",
        "chip.sm_count": 304, "chip.memory_bus_width": 8192, "clocks.power_limit": 750,
        "clocks.core_min": 500, "clocks.core_max": 2100, "clocks.memory_min": 900,
        "clocks.memory_max": 1300}  # fmt: skip
    info = read(tmp_path, tool_texts.amd_smi("Navi 33 [Radeon Pro W7500]", 28, "gfx1102"))
    assert info["chip.sm_count"].value == 14  # work-group processors
    text = """GPU: 0
    USAGE:
        GFX_ACTIVITY: 6 %
    POWER:
        SOCKET_POWER: 36 W
    CLOCK:
        GFX_0:
            CLK: 3410 MHz
            MIN_CLK: 500 MHz
            MAX_CLK: 2350 MHz
        MEM_0:
            CLK: 96 MHz
            MIN_CLK: N/A
    TEMPERATURE:
        MEM: 40 C
"""
    found = {key: one.value for key, one in read(tmp_path, text).items()}
    assert found == {"clocks.core_min": 500, "clocks.core_max": 2350}
    for other, says in ((text + text.replace("GPU: 0", "GPU: 1"), "describes 2 GPUs"),
                        ("GPU: 0\n    USAGE: N/A\n", "give the text of `amd-smi static`"),
                        ("+---+\n| AMD-SMI 25.3.0 |\n", "names no GPU")):  # fmt: skip
        with pytest.raises(TuningError, match=says):
            read(tmp_path, other)


def test_each_text_has_one_reader(tmp_path):
    texts = [tool_texts.gpu_latency(), tool_texts.gpu_cache(), tool_texts.gpu_l2_cache(),
             tool_texts.gpu_stream(), tool_texts.gpu_strides(), tool_texts.gpu_small_kernels(),
             tool_texts.nvidia_smi(), tool_texts.device_query(), tool_texts.rocminfo(),
             tool_texts.ROCM_SMI, tool_texts.amd_smi(), tool_texts.nvbench(),
             (DATA / "mt4g_a100.json").read_text(), (DATA / "accel_sim_stats.txt").read_text(),
             as_json(Samples(FACTS, ()))]  # fmt: skip
    found = [[reader.tool for reader in READERS if reader.recognises(text)] for text in texts]
    assert sorted(tools[0] for tools in found) == sorted(reader.tool for reader in READERS)
    assert all(len(tools) == 1 for tools in found), found


def test_ranks():
    def one(method, core=None, deviation=None, locked=False):
        return Measurement("k", 100.0, "cycles", deviation, method, "t",
                           clocks=Clocks(core, locked=locked))  # fmt: skip

    ordered = [one("pointer_chase", 1000, 9, True), one("pointer_chase", 1000, 1),
               one("pointer_chase", 1000, 2), one("pointer_chase", 1000), one("pointer_chase"),
               one("timed_loads", 1000, 0.1)]  # fmt: skip
    assert sorted(reversed(ordered), key=lambda m: m.rank) == ordered
    assert list(METHODS).index("device_file") > list(METHODS).index("timed_loads")
