"""What the file of a device takes from one like it, and from those of its compute capability."""

import tomllib
from pathlib import Path

import pytest
from support import tool_texts

from sweep.cli import main
from sweep.errors import TuningError
from sweep.hardware.rule_inputs import ASSUMPTIONS, in_words
from sweep.importers.microbenchmarks.device_file import device_text
from sweep.importers.microbenchmarks.files import read_measurements
from sweep.importers.microbenchmarks.measurement import Measurement
from sweep.importers.microbenchmarks.merging import merged
from sweep.importers.microbenchmarks.shipped import architecture_of, is_other, of_capability
from sweep.specs import list_devices, load_device, parse_device


@pytest.mark.parametrize("key", list_devices())
def test_file_of_a_device_like_a_shipped_one__holds_all_that_it_says(key):
    like = load_device(key)
    given = [Measurement("microbenchmark.kernel_launch", 1.25, "us", None, "given", "")]
    made = tomllib.loads(device_text(merged(given, like), "mine"))
    said = tomllib.loads(like.text)
    said.setdefault("microbenchmark", {})["kernel_launch_us"] = 1.25
    for section in said.keys() - {"source", "deviation"}:
        if isinstance(said[section], dict):  # others of its capability may add to it
            assert said[section].items() <= made[section].items(), section
        else:
            assert made[section] == said[section]
    assert set(said.get("matrix", ())) == set(made.get("matrix", ()))


@pytest.mark.parametrize("clock", [11201, 9001])
def test_tools_name_another_gpu__chip_of_the_like_device_is_assumed_and_said(clock):
    """The driver's memory clock counts, also the lower one; a name by hand is a label."""
    rest = (("clocks.core_max", 3105, "MHz"), ("clocks.memory_max", clock, "MHz"))

    def made(name, like, method="query"):
        given = [Measurement("name", name, "", None, method, "t")]
        given += [Measurement(*one, None, "query", "t") for one in rest]
        known = merged(given, load_device(like))
        found = parse_device(device_text(known, "mine"), "mine")
        return found, [line for line in known.remarks if "lack of a tool" in line]

    device, said = made("NVIDIA GeForce RTX 4080", "rtx_4090")
    assert device.values["clocks.memory_nominal"] == clock * 1e6
    assert device.values["chip.memory_bandwidth"] == pytest.approx(2 * clock * 1e6 * 48)
    for path in ("chip.sm_count", "chip.l2_KiB", "chip.memory_bandwidth_GBps",
                 "clocks.memory_nominal_MHz", "clocks.core_nominal_MHz"):  # fmt: skip
        assert device.sources[path].kind == "assumed", path
    assert device.sources["chip.lanes_per_sm"].kind == "datasheet"  # a multiprocessor's
    assert len(said) == 1
    assert "NVIDIA GeForce RTX 4080 is not GeForce RTX 4090" in said[0]
    taken = "core_nominal, core_min, sm_count, memory_bus_width, l2, fp16_multiply_adds, "
    assert taken in said[0]
    assert "int8_multiply_adds, dram_read_bandwidth are those of rtx_4090" in said[0]
    latency = device.sources["microbenchmark.dram_latency_cycles"]  # measured, but not on this one
    assert str(latency).startswith("derived: as GeForce RTX 4090 has it; microbenchmark: ")
    rest = (("clocks.core_nominal", 2505, "MHz"),)
    device, said = made("NVIDIA RTX 6000 Ada Generation", "l40")  # whose highest clock is 2490
    assert device.values["clocks.core_nominal"] == 2505e6
    assert "clocks.core_max" not in device.values
    assert device.sources["matrix.fp16_multiply_adds"].kind == "assumed"  # twice as many there
    rest = (("clocks.memory_max", 2619 / 2, "MHz"),)
    device, said = made("NVIDIA H100", "h100_sxm")
    assert device.values["microbenchmark.dram_read_bandwidth"] == pytest.approx(3079.64e9 / 2)
    assert device.sources["microbenchmark.dram_read_bandwidth_GBps"].kind == "assumed"
    rest = ()
    for name, method in (("NVIDIA H100 80GB HBM3", "query"), ("mine", "given")):
        device, said = made(name, "h100_sxm", method)
        assert (device.sources["chip.sm_count"].kind, said) == ("datasheet", [])


def test_new_device__takes_outputs_of_several_tools(tmp_path, capsys):
    words = ["new", "device", "-o", str(tmp_path / "mine.toml")]
    for name in ("nvidia_smi", "device_query"):
        file = tmp_path / f"{name}.txt"
        file.write_text(getattr(tool_texts, name)())
        words += ["--from", str(file)]
    assert main(words) == 0
    found = load_device(tmp_path / "mine.toml").values
    assert (found["clocks.power_limit"], found["chip.sm_count"]) == (250.0, 108)


@pytest.mark.parametrize(("key", "name"), [
    ("v100", "Tesla V100-SXM2-16GB"), ("v100_pcie", "Tesla V100-PCIE-16GB"),
    ("tesla_p100", "Tesla P100-PCIE-16GB"), ("tesla_k20", "Tesla K20c"),
    ("tesla_k40", "Tesla K40m"), ("mi250x", "AMD Instinct MI250X"),
    ("mi300x", "AMD Instinct MI300X VF"), ("mi300x", "AMD Instinct MI300X OAM"),
    ("a100_80gb", "NVIDIA A100-SXM4-80GB"),
])  # fmt: skip
def test_drivers_name__is_the_devices_own(key, name):
    own, *others = (
        [Measurement("name", text, "", None, "query", "nvidia-smi")]
        for text in (name, "NVIDIA GeForce RTX 3090 Ti", "NVIDIA A100-SXM4-40GB")
    )
    assert not is_other(load_device(key), own)
    assert all(is_other(load_device(key), other) for other in others)


@pytest.mark.parametrize(("rate", "n_lines"), [(1000.0, 0), (900.0, 1)])
def test_bandwidth_given_by_hand__wins_over_clock_and_width(rate, n_lines):
    given = [Measurement("chip.memory_bandwidth", rate, "GBps", None, "given", "", place="by hand"),
             Measurement("clocks.memory_nominal", 10500.0, "MHz", None, "query", "t"),
             Measurement("chip.memory_bus_width", 384.0, "bits", None, "query", "t")]  # fmt: skip
    for like in (None, load_device("rtx_4090")):
        known = merged(given, like)
        assert known.number("chip.memory_bandwidth") == rate
        lines = [line for line in known.remarks if "width of the memory give 1008 GB/s" in line]
        assert len(lines) == n_lines


@pytest.mark.parametrize(("key", "clocks", "bits"), [
    ("mi300x", (900.0, 1300.0), 8192.0), ("radeon_pro_w7800", (96.0, 1124.0), 256.0),
    ("mi210", (400.0, 1600.0), 4096.0),
])  # fmt: skip
def test_memory_clock_of_amds_driver__is_turned_into_that_of_two_transfers(key, clocks, bits):
    """HBM3 has 4 transfers in what the driver counts, GDDR6 16: 1300 MHz are 5.2 GT/s."""
    device = load_device(key)
    given = [Measurement("name", device.name, "", None, "query", "t"),
             Measurement("chip.memory_bus_width", bits, "bits", None, "query", "t")]  # fmt: skip
    for end, clock in zip(("min", "max"), clocks, strict=True):
        given.append(Measurement(f"clocks.memory_{end}", clock, "MHz", None, "query", "t"))
    nominal = device.values["clocks.memory_nominal"] / 1e6
    by_hand = Measurement("clocks.memory_nominal", nominal, "MHz", None, "given", "", place="here")
    for like, more in ((None, []), (device, []), (None, [by_hand])):
        known = merged([*given, *more], like)
        assert known.number("clocks.memory_nominal") == pytest.approx(nominal, rel=2e-3)
        assert known.number("clocks.memory_nominal") <= known.number("clocks.memory_max")
        assert known.number("chip.memory_bandwidth") == pytest.approx(
            nominal * bits / 4e3, rel=2e-3
        )


def test_matrix_units__are_those_of_a_like_device_or_of_the_same_chip():
    """Within 8.9 and 9.0 they differ, so that only devices with as many multiprocessors count."""

    def rates(capability, sm_count, like=None):
        given = [Measurement("compute_capability", capability, "", None, "query", "t"),
                 Measurement("chip.sm_count", float(sm_count), "", None, "query", "t")]  # fmt: skip
        found = merged(given, load_device(like) if like else None)
        rates = {p.partition(".")[2]: found.number(p) for p in found.chosen if p[:7] == "matrix."}
        assert ("no [matrix]" in "".join(found.remarks)) == (not rates and float(capability) >= 7)
        return rates

    assert rates("9.0", 132)["fp16_multiply_adds"] == 2048
    assert "fp64_multiply_adds" not in rates("9.0", 132)  # the H800 has fewer
    assert rates("9.0", 78)["fp16_multiply_adds"] == 512
    assert rates("8.9", 60)["fp16_multiply_adds"] == 256  # the RTX 4070 Ti alone
    assert rates("8.9", 142) == rates("8.9", 59) == {}  # L40 and L40S differ
    like = rates("8.9", 59, "rtx_4090")
    assert like["fp8_multiply_adds"] == load_device("rtx_4090").values["matrix.fp8_multiply_adds"]
    assert "fp16_sustained_TFLOPps" not in rates("9.0", 114, "h100_sxm")  # of the whole chip
    assert rates("6.1", 28) == {}


def test_integrated_gpus__have_the_lanes_of_another_capability_but_not_its_caches():
    for capability, name in (("8.7", "Ampere"), ("7.2", "Volta")):
        found = {m.key: m for m in of_capability(capability, "", 16)}
        assert found["chip.schedulers_per_sm"].value == 4
        assert found["chip.integer_lanes_per_sm"].value == 64
        assert f"whose lanes {capability} has, too" in str(found["chip.shared_banks"].source)
        assert {key.partition(".")[0] for key in found} == {"chip"} and "chip.l1" not in found
        assert architecture_of(capability, "") == name


def test_assumptions_in_words__are_one_clause():
    """Commands show what stands after the last "; " of a source."""
    words = [in_words(usual) for _, usual in ASSUMPTIONS.values()]
    assert words and not [one for one in words if "; " in one]


@pytest.mark.parametrize("name", ["gpu_latency", "nvidia_smi", "rocminfo"])
def test_lines_that_end_as_windows_ends_them__are_read_as_others__and_other_forms_refused(
    tmp_path, name
):
    file, text = tmp_path / "a.txt", getattr(tool_texts, name)()
    file.write_text(text)
    expected = read_measurements([file])
    file.write_bytes(text.replace("\n", "\r\n").encode())
    assert read_measurements([file]) == expected
    for other, says in (
        ("| NVIDIA-SMI 5 |", "a table, XML or CSV of nvidia-smi: give the text of `nvidia-smi -q`"),
        ("name, clocks.max.sm [MHz]\nA100, 1410 MHz", "a table, XML or CSV of nvidia-smi"),
        ('{"card0": {}}', "rocm-smi -a"),
    ):
        file.write_text(other)
        with pytest.raises(TuningError, match=says):
            read_measurements([file])


def test_text_as_powershell_writes_it(folder):
    Path("wide.txt").write_text(tool_texts.nvidia_smi(), "utf-16")
    assert main(["new", "device", "--from", "wide.txt", "--like", "a100_40gb"]) == 0
    assert 'name = "NVIDIA A100-PCIE-40GB"' in Path("my_gpu.toml").read_text()
