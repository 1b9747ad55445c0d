"""``sweep calibrate`` on samples of its own micro-benchmarks."""

from __future__ import annotations

import itertools
import json
import re

import numpy as np
import pytest
from support.simulated_gpu import FACTS, VOLTAGE, WATTS, SimulatedGpu

from sweep.cli import main
from sweep.errors import SweepError
from sweep.hardware.clocks import core_voltage_at
from sweep.microbenchmarks.case import LOCK
from sweep.microbenchmarks.procedures import as_json
from sweep.microbenchmarks.running import measured
from sweep.models import model_names
from sweep.space import what_is_missing, with_derived
from sweep.specs import load_device


@pytest.fixture(scope="module")
def text() -> str:
    return as_json(measured(SimulatedGpu(), lambda line: None))


@pytest.fixture
def folder(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.samples.json").write_text(text)
    return tmp_path


def test_device_file__runs_all_models_on_what_was_measured(folder, capsys):
    assert main(["calibrate", "a.samples.json", "-o", "mine.toml"]) == 0
    assert "27 measured values, 27 by sweep" in capsys.readouterr().out
    device = load_device("mine.toml")
    complete = with_derived(device, model_names())
    assert not [key for name in model_names() for key in what_is_missing(complete, name, complete)]
    for key in ("model.hong_kim.mem_ld_cycles", "model.luo_suda.a", "model.lemeire.latencies",
                "model.wang_chu.dm_del_table", "model.zhang_owens.shared_bandwidth"):  # fmt: skip
        assert device.sources[key].kind == "microbenchmark", key
    # Bandwidth limits coalesced loads here, so nothing is said of their departure delay.
    assert "model.hong_kim.departure_del_coal_cycles" not in device.sources
    assert "at 1410 MHz (locked)" in (folder / "mine.toml").read_text()
    assert main(["lint", "mine.toml"]) == 0


def test_gpu__is_measured_and_its_samples_kept(folder, capsys, monkeypatch):
    monkeypatch.setattr("sweep.microbenchmarks.gpu.NvidiaGpu",
                        lambda index, compile, may_lock: SimulatedGpu(LOCK))  # fmt: skip
    assert main(["calibrate", "--gpu", "-o", "mine.toml"]) == 0
    shown = capsys.readouterr()
    assert "wrote mine.samples.json" in shown.out and "no lock on the clocks" in shown.err
    kept = json.loads((folder / "mine.samples.json").read_text())
    assert kept["gpu"]["name"] == FACTS.name and len(kept["samples"]) > 200
    assert main(["calibrate", "--gpu", "-o", "other.toml", "--samples", "mine.samples.json"]) == 2
    assert "mine.samples.json" in capsys.readouterr().err and not (folder / "other.toml").exists()


@pytest.mark.parametrize("wrong", [["-o", "none/mine.toml"], ["none.json"], ["."]])
def test_what_is_wrong_before_measuring__is_said_before(folder, capsys, monkeypatch, wrong):
    monkeypatch.setattr("sweep.microbenchmarks.gpu.NvidiaGpu", None)
    assert main(["calibrate", "--gpu", "0", *wrong]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and error.count("cannot be ") == 1, error


def test_gpu_that_dies__files_say_what_was_measured(folder, capsys, monkeypatch):
    class Dying(SimulatedGpu):
        def run(self):
            if self.case.procedure == "zhang_owens_2011":
                raise SweepError("CUDA: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS")
            return super().run()

        def is_alive(self):
            return self.case.procedure != "zhang_owens_2011"

    monkeypatch.setattr("sweep.microbenchmarks.gpu.NvidiaGpu",
                        lambda index, compile, may_lock: Dying())  # fmt: skip
    assert main(["calibrate", "--gpu", "-o", "mine.toml"]) == 1
    assert "CUDA_ERROR_ILLEGAL_ADDRESS, and the GPU takes no calls" in capsys.readouterr().err
    measured = load_device("mine.toml").values
    assert "microbenchmark.fp32_issue" in measured
    assert "microbenchmark.dram_read_bandwidth" not in measured


def test_power__is_that_of_the_gpu_within_its_deviations(folder, capsys):
    """1 % of noise in each reading, and units that draw more or less than activities tell."""
    assert main(["calibrate", "a.samples.json", "-o", "mine.toml"]) == 0
    device = load_device("mine.toml")
    clocks = np.array([720.0, 900.0, 1200.0, 1410.0])
    found = core_voltage_at(clocks * 1e6, np.array(1215e6), device.tables)
    np.testing.assert_allclose(found, np.interp(clocks, *np.array(VOLTAGE).T), rtol=0.02)
    static, idle, full, resting, moved = WATTS
    values = {key: device.values[f"power.{key}"] for key in ("static", "core", "memory")}
    assert values["static"] == pytest.approx(static, abs=3)
    assert values["core"] * 1e9 == pytest.approx(idle + full, rel=0.1)
    assert values["memory"] * 1e9 == pytest.approx(resting + moved, rel=0.05)
    assert {"power.static_W", "power.core_W_per_V2GHz"} < set(device.deviations)
    assert device.sources["power.static_W"].kind == "fitted"
    capsys.readouterr()
    assert main(["calibrate-power", "a.samples.json", "--device", "mine.toml", "-o", "again.toml",
                 "--format", "json"]) == 0  # fmt: skip
    assert json.loads(capsys.readouterr().out)["rows"][0]["power_median"] < 0.03
    assert load_device("again.toml").values["power.static"] == values["static"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda s: s.update(locked=False), "that were held: the clocks were free"),
        (lambda s: s.update(watts=[]), "that were held: NVML read none"),
        (lambda s: s.update(watts=[] if s["is_extra"] else s["watts"]), "has 1 core clock"),
    ],
)
def test_power_that_samples_do_not_tell__is_left_out(folder, capsys, text, change, reason):
    document = json.loads(text)
    for sample in document["samples"]:
        change(sample)
    (folder / "b.json").write_text(json.dumps(document))
    assert main(["calibrate", "b.json", "-o", "mine.toml"]) == 0
    shown = capsys.readouterr().err
    assert "no [power]" in shown and reason in shown
    assert "power.static" not in load_device("mine.toml").values
    assert main(["calibrate-power", "b.json", "--device", "a100_40gb", "-o", "p.toml"]) == 2
    assert reason in capsys.readouterr().err and not (folder / "p.toml").exists()


def test_no_files__says_what_to_give(folder, capsys):
    assert main(["calibrate"]) == 2
    assert "or --gpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: d["gpu"].pop("sm_count"), "gpu: no 'sm_count'"),
        (
            lambda d: d["gpu"].update(sm_count=1e9),
            "gpu: sm_count of 1e.09: must be from 1 to 10000",
        ),
        (lambda d: d["gpu"].update(sm_count=float("inf")), "gpu: sm_count must be a number"),
        (lambda d: d["gpu"].update(name=None), "gpu: name must be a text"),
        (lambda d: d["gpu"].update(capability="x"), "gpu: capability of 'x'"),
        (lambda d: d["samples"][3].pop("cycles"), r"samples\[3\]: no 'cycles'"),
        (
            lambda d: d["samples"][0].update(cycles=["x"]),
            r"\[0\]: cycles must be a list of numbers",
        ),
        (lambda d: d["samples"][0].update(cycles=[0, 0]), "counter stands still"),
        (lambda d: d["samples"][0].update(core=0), "latencies, l1: clocks of 0 and 1215 MHz"),
        (lambda d: d["samples"][0].update(counts={}), "latencies, l1: counts: no 'loads'"),
        (lambda d: d["samples"][0]["counts"].update(loads=0), "latencies, l1: loads of 0: must be"),
        (lambda d: d["samples"][0].update(name=""), r"samples\[0\]: latencies, : no such case"),
        (lambda d: d.update(samples=2 * d["samples"]), "latencies, l1: twice: two runs, or two GP"),
        (
            lambda d: [
                s["counts"].update(warps=1e12) for s in d["samples"] if "warps 64" in s["name"]
            ],
            "nothing can be fitted: Residuals",
        ),
        (lambda d: d.update(samples={}), "samples: must be a list"),
    ],
)
def test_bad_samples__one_line(folder, capsys, text, change, reason):
    document = json.loads(text)
    change(document)
    (folder / "bad.json").write_text(json.dumps(document, indent=1))
    assert main(["calibrate", "bad.json", "-o", "bad.toml"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and re.search(reason, error), error
    assert not (folder / "bad.toml").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["calibrate", "calibrate-power --device a100_40gb"])
def test_samples_under_another_procedure__one_line_that_names_it(folder, capsys, text, command):
    for a, b in itertools.permutations(set(re.findall('"procedure": "(.*)"', text)), 2):
        (folder / "bad.json").write_text(text.replace(f'"procedure": "{a}"', f'"procedure": "{b}"'))
        assert main([*command.split(), "bad.json", "-o", "bad.toml"]) == 2
        error = capsys.readouterr().err
        place = rf"sweep: bad.json: samples\[\d+\]: {b}, .*: (no such|counts: no|twice).*\n"
        assert re.fullmatch(place, error), error


def test_truncated_samples__one_line(folder, capsys, text):
    for tenth in range(1, 10):
        (folder / "cut.json").write_text(text[: len(text) * tenth // 10])
        assert main(["calibrate", "cut.json", "-o", "cut.toml"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (folder / "cut.toml").exists()
