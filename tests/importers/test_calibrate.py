"""``sweep calibrate`` and ``sweep new device``: merging, the written file, and bad input."""

from __future__ import annotations

import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from support import tool_texts
from support.refusals import contents, refused
from support.tool_texts import DATA

import sweep
from sweep.cli import main
from sweep.importers.microbenchmarks.measurement import Clocks, Measurement
from sweep.importers.microbenchmarks.merging import merged
from sweep.models import get_model, model_names
from sweep.space import origins
from sweep.specs import json_schema, lint, load_device

MT4G = {"a100": "a100_40gb", "v100": "v100", "h100": "h100_sxm", "rtx_2080_ti": "rtx_2080_ti",
        "mi210": "mi210"}  # fmt: skip


@pytest.fixture
def texts(folder):
    """Write outputs of one A100 and return their names."""

    def write(**named: str) -> list[str]:
        for name, text in named.items():
            Path(f"{name}.txt").write_text(text)
        return [f"{name}.txt" for name in named]

    return write


def measured(key: str, value: float, unit: str = "cycles", **more) -> Measurement:
    given = {"deviation": None, "method": "pointer_chase", "tool": "t", "place": "t.txt"} | more
    return Measurement(f"microbenchmark.{key}", value, unit, **given)


IDENTITY = [
    Measurement(key, value, unit, None, "query", "deviceQuery")
    for key, value, unit in (
        ("name", "NVIDIA A100", ""), ("vendor", "NVIDIA", ""), ("compute_capability", "8.0", ""),
        ("chip.sm_count", 108.0, ""), ("chip.lanes_per_sm", 64.0, ""), ("chip.l2", 40960.0, "KiB"),
        ("clocks.core_nominal", 1410e3, "kHz"), ("clocks.memory_nominal", 1215.0, "MHz"),
        ("chip.memory_bus_width", 5120.0, "bits"),
    )
]  # fmt: skip


# ---------------------------------------------------------------------------- round trip


@pytest.mark.parametrize("sample", MT4G)
def test_written_file_lints_clean_and_combined_predicts_with_it(folder, capsys, sample):
    assert main(["calibrate", str(DATA / f"mt4g_{sample}.json"), "-o", "mine.toml"]) == 0
    assert "measured values" in capsys.readouterr().out
    declared = {name: get_model(name).parameters for name in model_names()}
    assert lint(["mine.toml"], declared) == []
    jsonschema.validate(
        tomllib.loads(Path("mine.toml").read_text()), json_schema("device", declared)
    )
    device = load_device("mine.toml")
    assert device.deviations["microbenchmark.dram_latency_cycles"] > 50
    assert "mt4g run of 2025-08" in device.sources["microbenchmark.l1_latency_cycles"].reference
    assert device.sources["microbenchmark.core_clock_MHz"].kind == "assumed"  # mt4g states none
    axes = {"n": [2**22, 2**24]}
    plan = sweep.Plan(["vector_add"], ["./mine.toml", MT4G[sample]], ["combined"], axes=axes)
    times = sweep.evaluate(plan)["vector_add"].execution_time
    ratio = float(np.nanmedian(times.isel(device=0) / times.isel(device=1)))
    assert ratio == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize("sample", MT4G)
def test_calibrated_values_beside_the_shipped_ones(folder, sample):
    """What is a fact of the chip is the same; measured values differ as far as is said here."""
    assert main(["calibrate", str(DATA / f"mt4g_{sample}.json"), "-o", "mine.toml"]) == 0
    mine, shipped = load_device("mine.toml"), load_device(MT4G[sample])
    for path, value in mine.values.items():
        known = shipped.values.get(path)
        if not path.startswith(("microbenchmark.", "clocks.core")) and known is not None:
            assert value == pytest.approx(known, rel=0.002), path
    off = {}
    for path in mine.values.keys() & shipped.values.keys():
        if abs(mine.values[path] - shipped.values[path]) > 0.05 * mine.values[path]:
            off[path.partition(".")[2]] = round(mine.values[path] / shipped.values[path] - 1, 2)
    assert off == OFF[sample]


OFF = {  # from the shipped file's values by more than 5 %: most of those are pointer chases
    "a100": {"l1_latency": 0.06, "l2_near_latency": -0.18, "dram_latency": 0.29,
             "shared_latency": -0.1, "dram_write_bandwidth": -0.19},
    "v100": {"core_nominal": -0.1, "l1_latency": 0.08, "dram_latency": -0.07,
             "dram_write_bandwidth": -0.28},  # a PCIe card: a lower boost clock than SXM2
    "h100": {"l1_latency": 0.19, "l2_near_latency": -0.22, "dram_latency": 0.26,
             "shared_latency": 0.3, "dram_write_bandwidth": -0.05},
    "rtx_2080_ti": {"l1_latency": 0.06, "l2_near_latency": -0.25, "shared_latency": 0.13},
    "mi210": {"l2_near_latency": 0.22, "dram_latency": 0.19, "dram_write_bandwidth": -0.31},
}  # fmt: skip


# ---------------------------------------------------------------------------- merging


def test_several_tools_of_one_gpu(texts, capsys):
    """Pointer chases win over timed loads, curves over single sizes; the others are reported."""
    files = texts(latency=tool_texts.gpu_latency(), stream=tool_texts.gpu_stream(),
                  l2=tool_texts.gpu_l2_cache(), l1=tool_texts.gpu_cache(),
                  small=tool_texts.gpu_small_kernels(), smi=tool_texts.nvidia_smi(),
                  clocks=tool_texts.supported_clocks(), query=tool_texts.device_query(),
                  )  # fmt: skip
    assert main(["calibrate", str(DATA / "mt4g_a100.json"), *files, "-o", "mine.toml"]) == 0
    said = capsys.readouterr().err
    assert ("dram_latency: 521 cycles (latency.txt, 98411 to 179355 kB) is taken, mean over a long"
            " chain of dependent loads; 671 cycles (mt4g_a100.json, memory.main.latency.p50) is 29%"
            " higher") in said  # fmt: skip
    assert "1179.2 GB/s (mt4g_a100.json, memory.main.readBandwidth) is a lower bound, below" in said
    mine = load_device("mine.toml").values
    assert mine["microbenchmark.l1_latency"] == 33
    assert mine["microbenchmark.dram_read_bandwidth"] == 1490e9
    assert mine["microbenchmark.l2_read_bandwidth"] == 5400e9
    assert (mine["clocks.core_min"], mine["clocks.core_max"]) == (210e6, 1410e6)
    assert (
        load_device("mine.toml").sources["microbenchmark.core_clock_MHz"].kind == "microbenchmark"
    )
    text = Path("mine.toml").read_text()
    assert "at 1410 MHz" in text
    assert "gpu-stream of gpu-benches, stream.txt, column read" in text


def test_order_of_files_does_not_matter_where_methods_differ(texts, capsys):
    files = [str(DATA / "mt4g_a100.json"), *texts(latency=tool_texts.gpu_latency())]
    assert main(["calibrate", *files, "-o", "a.toml"]) == 0
    assert main(["calibrate", *reversed(files), "-o", "b.toml"]) == 0
    assert load_device("a.toml").values == load_device("b.toml").values


def test_units_and_clocks():
    """DRAM keeps its time, caches their bytes in a cycle; cycles and times become each other."""
    at, slow = Clocks(1000.0), Clocks(500.0)
    found = merged([
        *IDENTITY, measured("dram_latency", 400.0, clocks=at, deviation=4.0),
        measured("dram_large_latency", 250.0, clocks=slow, deviation=1.0),
        measured("l1_latency", 30.0, "ns", clocks=slow),
        measured("l2_read_bandwidth", 2.0, "TBps", clocks=slow, method="plateau"),
        measured("shared_bandwidth", 128.0, "bytes_per_cycle", method="saturated"),
        measured("kernel_launch", 3000.0, clocks=at),
    ])  # fmt: skip
    got = {key.partition(".")[2]: (one.value, one.deviation) for key, one in found.chosen.items()
           if key.startswith("microbenchmark.") and not one.source}  # fmt: skip
    assert got == {
        "core_clock": (1000.0, None), "dram_latency": (400.0, 4.0),
        "dram_large_latency": (500.0, 2.0),
        "l1_latency": (15.0, None), "l2_read_bandwidth": (4000.0, None),
        "shared_bandwidth": (128 * 108 * 1.0, None), "kernel_launch": (3.0, None),
    }  # fmt: skip
    assert any("measured at 1000 MHz, the nominal clock is 1410" in line for line in found.remarks)


def test_lower_bounds_count_where_they_say_something():
    def chosen(*rates):
        found = merged([*IDENTITY, measured("l1_latency", 33.0), *rates])
        rate = found.chosen.get("microbenchmark.dram_read_bandwidth")
        return rate and rate.value, " ".join(found.remarks)

    def bound(value):
        return measured("dram_read_bandwidth", value, "GBps", method="one_size")

    true = measured("dram_read_bandwidth", 1400.0, "GBps", method="plateau")
    assert chosen(bound(1100.0))[0] is None  # models assume 0.85 of the peak, 1,321.9 GB/s
    assert chosen(bound(1500.0))[0] == 1500
    assert chosen(true, bound(1100.0))[0] == 1400
    assert chosen(true, bound(1500.0))[0] == 1500
    rate, said = chosen(measured("dram_read_bandwidth", 3000.0, "GBps", method="plateau"))
    assert rate is None
    assert "3000 GB/s (t.txt) is above the peak of 1555.2 GB/s" in said


def test_like_gives_what_tools_do_not_say(folder, capsys):
    """Of another chip of the same kind only what is a multiprocessor's."""
    stats = str(DATA / "accel_sim_stats.txt")  # a TITAN V: 3,072 bits, 4.5 MiB of L2
    assert "chip.l2_KiB (deviceQuery, mt4g, nvbench or rocminfo)" in refused(
        capsys, "calibrate", stats, "--like", "v100"
    )
    assert not contents(folder)
    found = merged([*IDENTITY, measured("l1_latency", 33.0)], load_device("a100_80gb"))
    assert found.number("chip.memory_bandwidth") == 1555.2  # at the clock that the tools say
    assert found.chosen["microbenchmark.dram_latency"].method == "device_file"
    assert "--like" not in found.chosen["microbenchmark.dram_latency"].source
    other = [one for one in IDENTITY if one.key != "chip.sm_count"]
    other.append(Measurement("chip.sm_count", 98.0, "", None, "query", "t"))
    found = merged([*other, measured("l1_latency", 33.0)], load_device("a100_40gb"))
    assert "microbenchmark.dram_read_bandwidth" not in found.chosen
    assert found.number("microbenchmark.shared_latency") == 30
    assert refused(capsys, "calibrate", str(DATA / "mt4g_a100.json"), "--like", "v100") == (
        "v100 is no device like it: it is of compute capability 7.0, but the tools say 8.0"
    )


# ---------------------------------------------------------------------------- show


def test_show_says_where_each_parameter_comes_from(texts, capsys):
    files = texts(latency=tool_texts.gpu_latency(), l1=tool_texts.gpu_cache())
    assert main(["calibrate", str(DATA / "mt4g_a100.json"), *files, "-o", "mine.toml"]) == 0
    capsys.readouterr()
    assert main(["show", "mine.toml"]) == 0
    shown = capsys.readouterr().out
    tomllib.loads(shown)
    rows = {key: (value, origin) for key, value, origin in
            origins(load_device("mine.toml"), "combined")}  # fmt: skip
    assert rows["l1_cycles"][0] == f"{32 * 108 * 1.41 / 19000:.6g}"
    assert rows["l1_cycles"][1].startswith("measured: microbenchmark.l1_read_bandwidth_GBps ± 0")
    assert rows["dram_latency_cycles"][1].startswith("measured: microbenchmark.dram_latency_cycles")
    # A DRAM latency stands in for that of a launch, and is no measurement of it.
    stands_in = "derived from microbenchmark.dram_latency_cycles"
    assert rows["launch_cycles"][1].startswith(stands_in)
    assert rows["integer_cycles"][1].startswith("derived from chip.integer_lanes_per_sm")
    assert rows["dram_share_fraction"][0] == "0.85"
    for value, origin in rows.values():
        assert f"  {value}" in shown
        assert origin in shown
    assert main(["show", "rtx_5090"]) == 0
    assert "assumed" in capsys.readouterr().out
    every = [
        origin for model in model_names() for *_, origin in origins(load_device("v100"), model)
    ]
    kinds = ("measured", "derived", "assumed", "datasheet", "paper", "microbenchmark", "compiler")
    assert all(origin.startswith(kinds) for origin in every)


# ---------------------------------------------------------------------------- new


def test_new_device(texts, capsys, monkeypatch):
    words = ["name=RTX 3070", "vendor=NVIDIA", "compute_capability=8.6", "sm_count=46",
             "core_nominal_MHz=1725", "memory_nominal_MHz=7001", "memory_bus_width_bits=256",
             "l2_KiB=4096"]  # fmt: skip
    assert main(["new", "device", *words, "-o", "mine.toml"]) == 0
    assert "DRAM latency: 600 cycles" in capsys.readouterr().err
    assert main(["lint", "mine.toml"]) == 0
    text = Path("mine.toml").read_text()
    assert "\n# l2_near_latency_cycles = # a load that the L2 cache serves" in text
    assert load_device("mine.toml").values["chip.memory_bandwidth"] == pytest.approx(448.064e9)
    assert "is there already" in refused(capsys, "new", "device", *words, "-o", "mine.toml")
    assert "chip.sm_count (deviceQuery" in refused(
        capsys, "new", "device", *words[:3], "-o", "b.toml"
    )
    assert "did you mean 'sm_count'" in refused(capsys, "new", "device", "sm_cont=3")
    assert "outside the range 1 to 1024" in refused(capsys, "new", "device", *words, "sm_count=0")
    files = texts(smi=tool_texts.nvidia_smi())
    assert main(["new", "device", "--from", *files, "--like", "a100_40gb", "-o", "b.toml"]) == 0
    assert load_device("b.toml").name == "NVIDIA A100-PCIE-40GB"
    counts = ["sm_count=76", "memory_bus_width_bits=256", "l2_KiB=65536", "--like", "rtx_4090"]
    smi = texts(smi=tool_texts.nvidia_smi(["NVIDIA GeForce RTX 4090 Laptop GPU"], 2040, 9001))
    said = refused(capsys, "new", "device", "--from", *smi, "--like", "rtx_4090", "-o", "l.toml")
    assert "clocks.core_nominal: 2520 MHz (rtx_4090) is outside 210 to 2040 MHz" in said
    assert main(["new", "device", "--from", *smi, *counts, "-o", "l.toml"]) == 0
    laptop = load_device("l.toml")
    assert laptop.values["chip.memory_bandwidth"] == pytest.approx(2 * 9.001e9 * 32)
    assert laptop.sources["clocks.core_nominal_MHz"].kind == "assumed"  # no tool says it
    answers = iter(["lots", "17", "1725", "7001", "46", "256", "4096"])
    monkeypatch.setattr("builtins.input", lambda question: next(answers))
    monkeypatch.setattr("sys.stdin", Terminal())
    assert main(["new", "device", *words[:3], "-o", "c.toml"]) == 0
    assert load_device("c.toml").values == load_device("mine.toml").values


def test_new_kernel(folder, capsys):
    assert main(["new", "kernel", "name=My sum"]) == 0
    out, said = capsys.readouterr()
    assert out == "wrote my_sum.toml: next, sweep lint my_sum.toml\n"
    assert "combined" not in said
    assert main(["lint", "my_sum.toml"]) == 0
    ptx = DATA.parent / "ptx" / "daxpy.ptx"
    assert main(["new", "kernel", "--from", str(ptx), "-o", "d.toml"]) == 0
    assert main(["lint", "d.toml"]) == 0
    assert "made from PTX" in refused(capsys, "new", "kernel", "--from", "d.toml")
    assert "no --like" in refused(capsys, "new", "kernel", "--like", "v100")
    assert refused(capsys, "new", "plan").startswith("new plan needs a --kernel")


# ---------------------------------------------------------------------------- bad input


A100 = (DATA / "mt4g_a100.json").read_text()
LATENCY = tool_texts.gpu_latency()
STATS = (DATA / "accel_sim_stats.txt").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (A100[:2000], "not valid JSON"),
        (A100.replace('"p50": 671.0', '"p50": -671.0'), "main.latency.p50: -671.0 cycles: must"),
        (A100.replace('"p50": 35.0', '"p50": 0'), "must be above 0"),
        (A100.replace('"p50": 671.0', '"p50": "671,0"'), "decimal comma: run it with LC_ALL=C"),
        (A100.replace('"p50": 671.0', '"p50": NaN'), "must be above 0"),
        (A100.replace('"cycles"', '"ticks"'), "unknown unit 'ticks'"),
        (A100.replace('"name"', '"nom"'), "general.name: missing"),
        (A100.replace('"main": {', '"main": 3, "x": {'), "memory.main: must be an object"),
        (LATENCY[:762], "truncated?"),
        ("\n".join(LATENCY.splitlines()[:12]), "levels of about the same value"),
        ("\n".join(LATENCY.splitlines()[:37]), "and a whole run beyond 1 GB: truncated?"),
        (LATENCY[:700], "truncated?"),
        (LATENCY.replace(" 33.0", " -33.0"), "must be above 0"),
        (LATENCY.replace("33.0", "33,0"), "decimal comma"),
        (LATENCY + tool_texts.gpu_latency(1200), "several clocks (1200, 1410 MHz)"),
        (tool_texts.gpu_cache().replace("19000.0", "0.0"), "line 2: 0.0 GB/s: must be above 0"),
        (tool_texts.gpu_l2_cache()[:900], "truncated?"),
        (tool_texts.gpu_stream()[:400], "truncated?"),
        (tool_texts.gpu_stream()[:1200].rpartition("\n")[0], "ends before blocks of 1024 threads"),
        *((2 * make(), "two runs, or two GPUs, in one file?") for make in tool_texts.MADE[:6]),
        *((2 * text, "two files, one after the other?") for text in (tool_texts.nvbench(), A100)),
        (2 * STATS, "runs MaxFlops_double twice: two runs, or two GPUs"),
        (STATS + STATS.replace("TITAN V", "B"), "describes 2 GPUs (TITAN V, B)"),
        (2 * tool_texts.supported_clocks(), "describes 2 GPUs (without a name, without a name)"),
        *((2 * make(), "describes 2 GPUs") for make in tool_texts.MADE[8:10]),
        (2 * tool_texts.ROCM_SMI, "describes 2 GPUs (GPU[0], GPU[0])"),
        (tool_texts.ROCM_SMI[:300], "no 'End of ROCm SMI Log': truncated?"),
        (tool_texts.gpu_stream().replace("triad", "triade"), "no column 'triad'"),
        (tool_texts.gpu_small_kernels()[:60], "sizes: truncated?"),
        (tool_texts.gpu_strides()[:30] + "float stride 0", "no rows 'float stride 1'"),
        (STATS.rpartition("/////")[0][:-400],
         "ends within the micro-benchmark tensor_bw_half: truncated"),
        (STATS.replace("33.7331", "-1"), "L1 Latency: -1:"),
        (tool_texts.nvidia_smi(["A", "B"]), "describes 2 GPUs (A, B): write that of one, by"),
        (tool_texts.nvidia_smi().partition("    Product Name")[0], "no 'Product Name': trunc"),
        (tool_texts.nvidia_smi()[:800], "no 'Max Clocks': truncated"),
        (tool_texts.nvidia_smi().replace("1410 MHz", "1,41 GHz"), "'1,41 GHz': not a clock in MHz"),
        (tool_texts.nvidia_smi().replace("250.00 W", "250 kW"), "'250 kW': not a power in W"),
        (tool_texts.device_query(["A", "B"]), "describes 2 GPUs (A, B)"),
        (tool_texts.device_query()[:600], "no 'Warp size': truncated"),
        (tool_texts.device_query().replace("1410 MHz", "-1410 MHz"), "core_nominal: -1410 MHz"),
        (tool_texts.rocminfo(2), "describes 2 GPUs"),
        (tool_texts.rocminfo(0), "rocminfo names no GPU: truncated"),
        (tool_texts.ROCM_SMI[:200], "no 'Valid sclk range': truncated"),
        (tool_texts.nvbench(devices=2), "describes 2 GPUs"),
        (tool_texts.nvbench().replace("1200000000000.0", "x"), "x: not a number"),
        ("hello", "not the output of a tool that is known here: mt4g, nvbench"),
        ('{"a": 1}', "not the output of a tool"),
        ("\n", "the file is empty"),
        ("NVSMI LOG\nGPU 0000:01:00.0\n" + " " * 10**6 + "x", "a line of more than 2000"),
    ],
)  # fmt: skip
def test_bad_output_is_one_line(folder, capsys, text, says):
    Path("bad.txt").write_text(text)
    before = contents(folder)
    said = refused(capsys, "calibrate", "bad.txt", "-o", "mine.toml")
    assert says in said
    assert "bad.txt" in said
    assert contents(folder) == before


def test_files_of_two_gpus(texts, capsys):
    """Another product, another count, or a laptop part with another clock."""
    mt4g = str(DATA / "mt4g_a100.json")
    said = refused(capsys, "calibrate", mt4g, DATA / "mt4g_v100.json", "-o", "mine.toml")
    assert said.startswith(
        "name: NVIDIA A100-PCIE-40GB (mt4g_a100.json, general.name) and Tesla V100"
    )
    (file,) = texts(query=tool_texts.device_query(core=1140))
    said = refused(capsys, "calibrate", mt4g, file, "-o", "mine.toml")
    assert "clocks.core_nominal: 1.41e+06 kHz" in said
    assert "two settings of its clocks" in said
    (file,) = texts(query=tool_texts.device_query().replace("(108)", "( 96)"))
    assert "chip.sm_count: 108" in refused(capsys, "calibrate", mt4g, file)
    files = texts(smi=tool_texts.nvidia_smi(core=1200), clocks=tool_texts.supported_clocks()
                  .replace("1410", "1200").replace("1395", "1100"))  # fmt: skip
    said = refused(capsys, "calibrate", mt4g, *files)
    assert "is outside 210 to 1200 MHz" in said
    said = refused(capsys, "calibrate", mt4g, files[0], "-o", "mine.toml")  # no lowest clock
    assert "is outside 0 to 1200 MHz" in said
    assert not Path("mine.toml").exists()


def test_nothing_is_overwritten_unasked(folder, capsys):
    Path("mine.toml").write_text("mine")
    words = ["calibrate", str(DATA / "mt4g_a100.json"), "-o", "mine.toml"]
    assert refused(capsys, *words) == "mine.toml: is there already; --overwrite replaces it"
    assert Path("mine.toml").read_text() == "mine"
    assert main([*words, "--overwrite"]) == 0
    assert load_device("mine.toml").name == "NVIDIA A100-PCIE-40GB"
    assert "no measured value" in refused(
        capsys, "calibrate", _written("query.txt", tool_texts.device_query()), "-o", "b.toml"
    )


class Terminal:
    def isatty(self) -> bool:
        return True


def _written(name: str, text: str) -> Path:
    Path(name).write_text(text)
    return Path(name)
