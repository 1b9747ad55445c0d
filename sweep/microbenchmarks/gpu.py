"""NVIDIA's GPUs through cuda-python and NVML, which the extra ``kernel-sweep[gpu]`` installs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from sweep.errors import SweepError
from sweep.microbenchmarks.case import CLOCKS, FREE, LOCK, POWER, SETTABLE, Case, Facts

Compile = Callable[[str, str], str]
"""From a CUDA source and a compute capability to PTX."""

_INSTALL = "`pip install kernel-sweep[gpu]`"
_AMD = "; for a GPU of AMD's, `sweep calibrate FILES` reads what mt4g and rocminfo print"
_READINGS_S = 0.1


def bindings() -> tuple[Any, Any]:
    """Return the modules of CUDA's driver and of NVML.

    Raises
    ------
    SweepError
        They are not installed.
    """
    try:
        import pynvml
        from cuda.bindings import driver
    except ImportError as error:
        raise SweepError(f"measuring a GPU needs cuda-python and NVML: {_INSTALL} ({error})"
                         f"{_AMD}"
                         ) from None  # fmt: skip
    return driver, pynvml


class NvidiaGpu:
    """A GPU of NVIDIA.

    Parameters
    ----------
    index : int
        Which one, as ``nvidia-smi`` counts.
    compile : callable
        The compiler.
    modules : tuple, optional
        CUDA's driver and NVML, by default as installed.
    may_lock : bool
        Whether the clocks may be set, as where nobody else uses the GPU.

    Attributes
    ----------
    facts : Facts
        What driver and NVML say of it.
    refused : dict of str to str
        What NVML refused, and its reason.
    """

    def __init__(
        self, index: int, compile: Compile, modules: tuple[Any, Any] | None = None,
        *, may_lock: bool = True,
    ) -> None:  # fmt: skip
        self._driver, self._nvml = modules or bindings()
        self._may_lock = may_lock
        self._compile = compile
        self._sources: dict[str, Any] = {}
        self._case: Case | None = None
        self._buffers: list[Any] = []
        self._held: dict[str, str] = {}  # what would stay locked: NVML's function that frees it
        self.refused: dict[str, str] = {} if may_lock else {LOCK: "--no-lock"}
        self._begin()
        self._handle, bus, driver = self._found(index)
        self._device = self._call("cuDeviceGetByPCIBusId", bus)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self._device))
        self._events = [self._call("cuEventCreate", 0) for _ in range(2)]
        self.facts = self._facts(driver)

    # ------------------------------------------------------------------------ driver

    def _begin(self) -> None:
        try:
            (code, *_) = self._driver.cuInit(0)
        except Exception as error:  # the binding raises its own errors where there is no driver
            reason = str(error).partition("\n")[0][:120]
            raise SweepError(f"no GPU of NVIDIA here: {reason}{_AMD}") from None
        if int(code):
            raise SweepError(f"no GPU of NVIDIA here: CUDA says {code.name}{_AMD}")

    def _call(self, name: str, *arguments: Any) -> Any:
        """Call a function of CUDA's driver and return its result."""
        code, *found = getattr(self._driver, name)(*arguments)
        if int(code):
            raise SweepError(f"CUDA: {name}: {code.name}")
        return found[0] if len(found) == 1 else found

    def is_alive(self) -> bool:
        """Whether it still takes calls: none succeeds after an illegal address, for example."""
        (code, *_) = self._driver.cuCtxSynchronize()
        return not int(code)

    def _found(self, index: int) -> tuple[Any, bytes, str]:
        """Return NVML's handle of a GPU, its place on the bus, and the driver's version."""
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            if not 0 <= index < count:
                raise SweepError(f"--gpu {index}: GPUs count from 0; this machine has {count}")
            handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
            bus = self._nvml.nvmlDeviceGetPciInfo(handle).busId
            driver = str(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError as error:
            reason = f"nothing is measured, NVML does not tell which GPU it is: {error}"
            raise SweepError(f"--gpu {index}: {reason}") from None
        return handle, bus if isinstance(bus, bytes) else bus.encode(), driver

    def _allowed(self, what: str, name: str, *arguments: Any) -> Any:
        """Call NVML; ``None`` where the GPU or its owner does not permit it."""
        try:
            return getattr(self._nvml, name)(self._handle, *arguments)
        except self._nvml.NVMLError as error:
            self.refused.setdefault(what, f"NVML: {error}")
            return None

    def _facts(self, driver: str) -> Facts:
        names = self._driver.CUdevice_attribute

        def attribute(name: str) -> int:
            key = getattr(names, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(self._call("cuDeviceGetAttribute", key, self._device))

        name = self._call("cuDeviceGetName", 256, self._device)
        memory = self._allowed(SETTABLE, "nvmlDeviceGetSupportedMemoryClocks")
        at = int(max(memory or (0,)))
        core = self._allowed(SETTABLE, "nvmlDeviceGetSupportedGraphicsClocks", at)
        return Facts(
            name=bytes(name).decode().strip("\0 ") if not isinstance(name, str) else name,
            capability=f"{attribute('COMPUTE_CAPABILITY_MAJOR')}"
                       f".{attribute('COMPUTE_CAPABILITY_MINOR')}",
            driver=driver,
            sm_count=attribute("MULTIPROCESSOR_COUNT"),
            max_threads_per_sm=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
            shared_bytes_per_sm=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            shared_bytes_per_block=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            l2_bytes=attribute("L2_CACHE_SIZE"),
            memory_bytes=int(self._call("cuMemGetInfo")[0]),
            bus_width_bits=attribute("GLOBAL_MEMORY_BUS_WIDTH"),
            core_nominal=attribute("CLOCK_RATE") / 1e3,
            memory_nominal=attribute("MEMORY_CLOCK_RATE") / 1e3,
            core_clocks=tuple(float(c) for c in core or ()),
            memory_clocks=tuple(float(c) for c in memory or ()),
        )  # fmt: skip

    # ------------------------------------------------------------------------ cases

    def ready(self, case: Case) -> None:
        """Compile a case and fill its buffer."""
        self._case = case
        if case.source not in self._sources:
            ptx = self._compile(case.source, self.facts.capability)
            module = self._call("cuModuleLoadData", ptx.encode() + b"\0")
            self._sources[case.source] = self._call("cuModuleGetFunction", module, b"measure")
        self._function = self._sources[case.source]
        if case.shared > 48 << 10:
            key = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._call("cuFuncSetAttribute", self._function, key, case.shared)
        while self._buffers:
            self._call("cuMemFree", self._buffers.pop())
        sizes = [case.buffer, 8 * case.grid] + [2 * self.facts.l2_bytes] * case.cold
        for size in sizes:
            self._buffers.append(self._call("cuMemAlloc", max(size, 256)))
            self._call("cuMemsetD8", self._buffers[-1], 0, max(size, 256))
        data = int(self._buffers[0])
        if case.chain:
            linked = links(data, case.buffer, case.chain)
            self._call("cuMemcpyHtoD", self._buffers[0], linked.ctypes.data, linked.nbytes)
        self._cycles = np.zeros(case.grid, np.int64)
        types = np.uint64, np.uint64, np.int32, np.uint64, np.int32
        numbers = data, case.buffer, case.steps, int(self._buffers[1]), 0
        self._values: list[np.ndarray[Any, Any]] = [
            np.array([number], of) for number, of in zip(numbers, types, strict=True)
        ]
        self._pointers = np.array([value.ctypes.data for value in self._values], np.uint64)

    def _launch(self) -> None:
        case = self._case
        assert case is not None
        self._call("cuLaunchKernel", self._function, case.grid, 1, 1, case.block, 1, 1,
                   case.shared, 0, self._pointers.ctypes.data, 0)  # fmt: skip

    def run(self) -> tuple[float, float]:
        """Run the case that is ready: cycles of the longest block, and the time [ms]."""
        assert self._case is not None
        begin, end = self._events
        if self._case.cold:
            self._call("cuMemsetD8", self._buffers[2], 0, 2 * self.facts.l2_bytes)
        self._call("cuEventRecord", begin, 0)
        for _ in range(self._case.launches):
            self._launch()
        self._call("cuEventRecord", end, 0)
        self._call("cuEventSynchronize", end)
        self._call("cuMemcpyDtoH", self._cycles.ctypes.data, self._buffers[1], self._cycles.nbytes)
        return float(self._cycles.max()), float(self._call("cuEventElapsedTime", begin, end))

    def watch(self, seconds: float) -> tuple[float, ...]:
        """Run it for some time and return readings of power [W]; none where that is not allowed."""
        readings, end = [], time.monotonic() + seconds
        while (now := time.monotonic()) < end:
            while time.monotonic() < now + _READINGS_S:
                self._launch()
                self._call("cuCtxSynchronize")
            if (milliwatts := self._allowed(POWER, "nvmlDeviceGetPowerUsage")) is None:
                return ()
            readings.append(milliwatts / 1e3)
        return tuple(readings[len(readings) // 3 :])  # the sensor lags

    # ------------------------------------------------------------------------ clocks

    def clocks(self) -> tuple[float, float]:
        """Return core and memory clock while the case ran last [MHz]; nominal if not readable."""
        self._launch()
        found = [self._allowed(CLOCKS, "nvmlDeviceGetClockInfo", domain)
                 for domain in (self._nvml.NVML_CLOCK_SM, self._nvml.NVML_CLOCK_MEM)]  # fmt: skip
        self._call("cuCtxSynchronize")
        nominal = self.facts.core_nominal, self.facts.memory_nominal
        core, memory = (float(c or n) for c, n in zip(found, nominal, strict=True))
        return core, memory

    def lock(self, core: float, memory: float) -> bool:
        """Hold the clocks [MHz]; whether user and driver permit it."""
        if not self._may_lock:
            return False
        held = self._held
        domains = (FREE[0], "Gpu", core), (FREE[1], "Memory", memory)
        try:
            for what, domain, clock in domains[: 1 + (len(self.facts.memory_clocks) > 1)]:
                held = self._held.copy()
                # Before it is locked: a signal may end the call as soon as it was.
                self._held[what] = f"nvmlDeviceReset{domain}LockedClocks"
                lock = getattr(self._nvml, f"nvmlDeviceSet{domain}LockedClocks")
                lock(self._handle, int(clock), int(clock))
        except self._nvml.NVMLError as error:
            self._held, self.refused[LOCK] = held, f"NVML: {error}"
            return False
        return True

    def unlock(self) -> None:
        """Give the clocks free that are held; once more after an interrupt."""
        for what in [*self._held]:
            self._allowed(what, self._held[what])
            del self._held[what]


def links(base: int, size: int, distance: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return memory with a random cyclic list: at each link the address of the next one.

    Parameters
    ----------
    base : int
        Address of the memory on the GPU.
    size, distance : int
        Its size, and that between two links [byte].
    """
    count, step = size // distance, distance // 8
    order = np.random.default_rng(1).permutation(count)
    order = np.roll(order, -int(np.flatnonzero(order == 0)[0]))  # the list begins at the base
    linked = np.zeros(count * step, np.uint64)
    linked[order * step] = base + np.roll(order, -1).astype(np.uint64) * distance
    return linked
