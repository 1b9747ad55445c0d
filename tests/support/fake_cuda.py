"""CUDA's driver and NVML for tests: they only keep what they are asked."""

# ruff: noqa: N802, N815 - the names are CUDA's and NVML's
from __future__ import annotations

import ctypes
import enum
from functools import partial
from types import SimpleNamespace

import numpy as np

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
