"""The GPU through its driver, with a driver that only keeps what it is asked."""

# ruff: noqa: N802, N815 - the names are CUDA's and NVML's
from __future__ import annotations

import ctypes
import dataclasses
import enum
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from sweep.cli import main
from sweep.errors import SweepError
from sweep.microbenchmarks.case import CLOCKS, FREE, LOCK, POWER, SETTABLE, Case
from sweep.microbenchmarks.gpu import NvidiaGpu, bindings
from sweep.microbenchmarks.running import measured

ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448, "L2_CACHE_SIZE": 50 << 20,
    "GLOBAL_MEMORY_BUS_WIDTH": 5120, "CLOCK_RATE": 1980000, "MEMORY_CLOCK_RATE": 2619000,
}  # fmt: skip


class Result(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_DEVICE = 100
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Driver:
    """CUDA's driver, of which memory is NumPy's."""

    def __init__(self, **answers):
        self.asked: list[tuple[str, tuple]] = []
        self.answers = {"cuMemGetInfo": (Result.CUDA_SUCCESS, 70 << 30, 80 << 30)} | answers
        self.memory: dict[int, np.ndarray] = {}
        names = [f"CU_DEVICE_ATTRIBUTE_{name}" for name in ATTRIBUTES]
        self.CUdevice_attribute = SimpleNamespace(**{name: name for name in names})
        self.CUfunction_attribute = SimpleNamespace(
            CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES="shared"
        )

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments):
            self.asked.append((name, arguments))
            if name in self.answers:
                return self.answers[name]
            own = getattr(self, f"_{name}", None)
            return (Result.CUDA_SUCCESS, own(*arguments) if own else 1)

        return call

    def _cuDeviceGetAttribute(self, key, device):
        return ATTRIBUTES[key.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def _cuDeviceGetName(self, length, device):
        return b"NVIDIA H100 80GB HBM3\0\0"

    def _cuMemAlloc(self, size):
        memory = np.zeros(size, np.uint8)
        self.memory[memory.ctypes.data] = memory
        return memory.ctypes.data

    def _cuMemFree(self, address):
        del self.memory[address]

    def _cuMemcpyDtoH(self, target, source, size):
        cycles = np.arange(1, size // 8 + 1)
        ctypes.memmove(target, cycles.ctypes.data, size)

    def _cuEventElapsedTime(self, begin, end):
        return 1.5


class NvmlError(Exception):
    pass


class Nvml:
    """NVML, which refuses functions whose names have one of some words."""

    NVMLError = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self, *refuses, count=1):
        self.refuses, self.locked = refuses, []
        self.answers = {
            "DeviceGetCount": count, "DeviceGetPciInfo": SimpleNamespace(busId="00000000:1B:00.0"),
            "SystemGetDriverVersion": "580.1", "DeviceGetSupportedMemoryClocks": [2619, 1593],
            "DeviceGetSupportedGraphicsClocks": [1980, 1500, 1000], "DeviceGetPowerUsage": 312_500,
        }  # fmt: skip

    def __getattr__(self, name):
        return partial(self._call, name.removeprefix("nvml"))

    def _call(self, name, *arguments):
        if any(word in name for word in self.refuses):
            raise NvmlError("Insufficient Permissions")
        self.locked += [arguments[1:]] * name.startswith("DeviceSet")
        is_clock = name == "DeviceGetClockInfo"
        return {1: 1965, 2: 2619}[arguments[1]] if is_clock else self.answers.get(name)


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
