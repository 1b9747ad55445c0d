"""The GPU through its driver, with a driver that only keeps what it is asked."""

from __future__ import annotations

import dataclasses
import signal
from types import SimpleNamespace

import pytest
from support.fake_cuda import ATTRIBUTES, Driver, Nvml, Result
from support.runs import python

from sweep.cli import main
from sweep.errors import SweepError
from sweep.microbenchmarks.case import CLOCKS, FREE, LOCK, POWER, SETTABLE, Case
from sweep.microbenchmarks.gpu import NvidiaGpu, bindings
from sweep.microbenchmarks.running import measured

CASE = Case("latencies", "l1", "source", 4, 32, 100, shared=60 << 10, buffer=4096, chain=128)


def gpu_of(driver=None, nvml=None, **options) -> NvidiaGpu:
    return NvidiaGpu(0, lambda source, capability: f"ptx {capability}",
                     (driver or Driver(), nvml or Nvml()), **options)  # fmt: skip


def test_facts():
    facts = gpu_of().facts
    assert (facts.name, facts.capability) == ("NVIDIA H100 80GB HBM3", "9.0")
    assert (facts.core_nominal, facts.memory_nominal) == (1980.0, 2619.0)
    assert facts.memory_clocks == (2619.0, 1593.0) and len(facts.core_clocks) == 3


def test_case__is_launched_with_its_arguments():
    driver = Driver()
    gpu = gpu_of(driver)
    gpu.ready(CASE)
    assert gpu.run() == (4.0, 1.5)
    (launch,) = [arguments for name, arguments in driver.asked if name == "cuLaunchKernel"]
    assert launch[1:7] == (4, 1, 1, 32, 1, 1) and launch[7] == 60 << 10
    data, size, steps, cycles, never = (value[0] for value in gpu._values)
    assert (size, steps, never) == (4096, 100, 0) and {data, cycles} == set(driver.memory)
    assert ("cuModuleLoadData", (b"ptx 9.0\0",)) in driver.asked
    gpu.ready(CASE)  # compiled once, and memory is given back
    assert [name for name, _ in driver.asked].count("cuModuleLoadData") == 1
    assert len(driver.memory) == 2


def test_failed_case__leaves_the_next_one_its_memory():
    driver = Driver()
    gpu = gpu_of(driver)
    gpu.ready(CASE)
    driver.answers["cuMemAlloc"] = (Result.CUDA_ERROR_OUT_OF_MEMORY, 0)
    with pytest.raises(SweepError, match="^CUDA: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY$"):
        gpu.ready(CASE)
    assert gpu.is_alive() and not driver.memory
    del driver.answers["cuMemAlloc"]
    gpu.ready(CASE)
    assert gpu.run() == (4.0, 1.5)
    driver.answers["cuCtxSynchronize"] = (Result.CUDA_ERROR_ILLEGAL_ADDRESS,)
    assert not gpu.is_alive()


def test_cold_case__empties_l2_before_each_run():
    driver = Driver()
    gpu = gpu_of(driver)
    gpu.ready(dataclasses.replace(CASE, cold=True, chain=0))
    driver.asked.clear()
    gpu.run()
    gpu.run()
    names = [name for name, _ in driver.asked]
    assert names.count("cuMemsetD8") == 2 == names.count("cuLaunchKernel")
    assert names.index("cuMemsetD8") < names.index("cuEventRecord")  # and it is not timed
    assert driver.asked[0][1][1:] == (0, 2 * gpu.facts.l2_bytes)


def test_power_and_clocks__as_nvml_permits():
    nvml = Nvml()
    gpu = gpu_of(nvml=nvml)
    gpu.ready(CASE)
    assert set(gpu.watch(0.3)) == {312.5} and gpu.clocks() == (1965.0, 2619.0)
    assert gpu.lock(1500.0, 1593.0) and nvml.locked == [(1500, 1500), (1593, 1593)]
    shared = gpu_of(nvml=nvml, may_lock=False)
    shared.unlock()
    assert not shared.lock(1500.0, 1593.0) and len(nvml.locked) == 2
    assert gpu.refused == {} and shared.refused == {LOCK: "--no-lock"}


@pytest.mark.parametrize(("word", "what"), [
    ("Power", POWER), ("ClockInfo", CLOCKS), ("SetGpu", LOCK), ("SetMemory", LOCK),
    ("SupportedMemory", SETTABLE), ("SupportedGraphics", SETTABLE), ("ResetGpu", FREE[0]),
    ("ResetMemory", FREE[1]),
])  # fmt: skip
def test_refused__is_left_out_with_its_reason(word, what):
    gpu = gpu_of(nvml=Nvml(word))
    gpu.ready(CASE)
    assert bool(gpu.watch(0.2)) == (what != POWER)
    assert gpu.lock(1500.0, 1593.0) == ("Set" not in word)
    assert gpu.clocks() == ((1980.0, 2619.0) if what == CLOCKS else (1965.0, 2619.0))
    gpu.unlock()
    assert gpu.refused == {what: "NVML: Insufficient Permissions"}


def test_clocks_that_stay_locked__are_said_with_what_to_type(monkeypatch):
    monkeypatch.setattr("sweep.microbenchmarks.running.all_cases", lambda facts: [CASE])
    for refuses, expected in (
        (("Reset",), ["core clock (NVML: Insufficient Permissions): it stays locked; root frees it"
                      " by `nvidia-smi -rgc`", "`nvidia-smi -rmc`"]),
        (("Reset", "SetMemory"), ["no lock", "-rgc"]), (("Reset", "SetGpu"), ["no lock"]),
    ):  # fmt: skip
        lines: list[str] = []
        measured(gpu_of(nvml=Nvml(*refuses)), lines.append)
        assert len(lines) == len(expected)
        assert all(part in line for part, line in zip(expected, lines, strict=True)), lines
    lines, gpu = [], gpu_of(nvml=Nvml("Reset"))
    monkeypatch.setattr(gpu, "ready", lambda case: 1 / 0)
    with pytest.raises(ZeroDivisionError):  # an interrupt, for example
        measured(gpu, lines.append)
    assert len(lines) == 2


ENDED = """
import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL) # ignored under nohup
from types import SimpleNamespace
from support.fake_cuda import Driver, Nvml
from sweep.cli import main
from sweep.microbenchmarks import gpu, running
from sweep.microbenchmarks.case import Case

class Signalling(Nvml):
    is_ended = False

    def _call(self, name, *arguments):
        found = super()._call(name, *arguments)
        self.is_ended |= name == "Device{at}"
        print(name, flush=True)
        if self.is_ended:
            os.kill(os.getpid(), {number})
        return found

gpu.bindings = lambda: (Driver(), Signalling())
gpu.NvidiaGpu.ready = gpu.NvidiaGpu._launch = lambda *_: None
gpu.NvidiaGpu.run = gpu.NvidiaGpu.clocks
running.all_cases = lambda facts: [Case("latencies", "l1", "", 1, 1, 1)]
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
@pytest.mark.parametrize("at", ["SetGpuLockedClocks", "SetMemoryLockedClocks", "GetClockInfo",
                                "ResetGpuLockedClocks", "ResetMemoryLockedClocks"])  # fmt: skip
def test_signal__frees_the_clocks_and_ends_with_one_line(tmp_path, at, number):
    """At any moment, and sent again at each later one."""
    code = ENDED.format(at=at, number=int(number))
    done = python("-c", code, "calibrate", "--gpu", cwd=tmp_path)
    held = {n.replace("Set", "Reset") for n in done.stdout.split() if n.startswith("DeviceSet")}
    assert held and held <= set(done.stdout.split()) and not list(tmp_path.iterdir())
    by = "" if number == signal.SIGINT else f" by {number.name}"
    assert (done.returncode, done.stderr) == (128 + number, f"\nsweep: interrupted{by}\n")


@pytest.mark.parametrize(
    ("answers", "nvml", "reason"),
    [
        ({"cuInit": (Result.CUDA_ERROR_NO_DEVICE,)}, Nvml(), "no GPU of NVIDIA here: CUDA says"),
        ({}, Nvml(count=0), "--gpu 0: GPUs count from 0; this machine has 0"),
        *(({}, Nvml(word), "does not tell which GPU it is: Insufficient Permissions")
          for word in ("Init", "Handle", "PciInfo", "DriverVersion")),
        ({"cuMemAlloc": (Result.CUDA_ERROR_ILLEGAL_ADDRESS,)}, Nvml(),
         "nothing was measured: CUDA: cuMemAlloc: CUDA_ERROR_ILLEGAL_ADDRESS"),
    ],
)  # fmt: skip
def test_bad__one_line_and_no_file(answers, nvml, reason, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sweep.microbenchmarks.gpu.bindings", lambda: (Driver(**answers), nvml))
    monkeypatch.setattr("sweep.cuda.nvrtc.load", lambda *_: SimpleNamespace(
        compile=lambda *_: SimpleNamespace(ptx="")))  # fmt: skip
    assert main(["calibrate", "--gpu", "-o", str(tmp_path / "mine.toml")]) == 2
    assert reason in capsys.readouterr().err.splitlines()[-1] and not list(tmp_path.iterdir())


def test_bindings_not_installed__says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pynvml", None)
    with pytest.raises(SweepError, match=r"pip install kernel-sweep\[gpu\]"):
        bindings()


def test_functions__are_those_of_cuda_python():
    """Every name that the module calls is in the real bindings, where they are installed."""
    real = pytest.importorskip("cuda.bindings.driver")
    driver = Driver()
    gpu = gpu_of(driver)
    gpu.ready(CASE)
    gpu.run()
    gpu.watch(0.05)
    assert all(hasattr(real, name) for name, _ in driver.asked)
    assert all(hasattr(real.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{n}") for n in ATTRIBUTES)
