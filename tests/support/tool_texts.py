"""Outputs of micro-benchmark tools, made in their formats: nobody measured them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "calibration"


def _made(file: str, **given: object) -> str:
    """Return a text of the folder ``made``, with what is different each time."""
    return (DATA / "made" / f"{file}.txt").read_text("utf-8").format(**given)


# A curve of latencies over sizes [kB, cycles] with three levels, and DRAM beyond 512 MiB.
SIZES = [2 * 1.35**n for n in range(44)]


def _latency_at(size: float) -> float:
    levels = ((120.0, 33.0), (20_000.0, 205.0), (60_000.0, 300.0), (5e5, 521.0), (1e9, 552.0))
    return next(cycles for end, cycles in levels if size <= end)


def gpu_latency(clock: int = 1410, cycles: Callable[[float], float] = _latency_at) -> str:
    rows = (f"  1000000 {clock:5d} {size:8.0f} {1e6 * cycles(size) / clock / 1e3:8.1f}"
            f" {cycles(size):7.1f}" for size in SIZES)  # fmt: skip
    return "\n".join([f"clock: {clock} {clock} {clock} ", *rows, ""]) + "\n"


def gpu_cache(l1: float = 19000.0) -> str:
    head = ("     data set   exec time     spread        Eff. bw       DRAM read      DRAM write"
            "         L2 read       L2 store")  # fmt: skip
    rows = (
        f"{size:10.0f} kB         5ms       0.1%   {l1 if size < 150 else 5300:8.1f} GB/s"
        "         0 GB/s          0 GB/s          0 GB/s          0 GB/s "
        for size in SIZES[:30]
    )
    return "\n".join([head, *rows]) + "\n"


def gpu_l2_cache(l2: float = 5400.0) -> str:
    rows = (f"       512 kB {size:9.0f} kB        10ms       0.2%"
            f"   {l2 if size < 30_000 else 1480:8.1f} GB/s        0 GB/s      0 GB/s      0 GB/s"
            "      0 GB/s " for size in SIZES[20:])  # fmt: skip
    return "\n".join(["     data set   exec time     spread       Eff. bw", *rows]) + "\n"


def gpu_stream(read: int = 1490) -> str:
    head = ("blockSize   threads       %occ  |                init       read       scale     triad"
            "       1pt        3pt")  # fmt: skip
    rows = (f"{32 * n:9d} {3456 * n:11d}  {3.125 * n:5.1f} %  |  GB/s: {min(1503, 159 * n):11d}"
            f" {read * n // 32:10d} {1381 * n // 32:10d} {1360 * n // 32:10d} {1372 * n // 32:10d}"
            f" {1368 * n // 32:10d}" for n in range(1, 33))  # fmt: skip
    return "\n".join([head, *rows]) + "\n"


def gpu_strides(clock: int = 1410) -> str:
    rows = (f"float stride   {n:3d}  {n:3d}   {1.02 * max(n, 1):5.2f}  {126 / max(n, 1):5.1f}"
            "   1.00   1.00   0.00 " for n in range(65))  # fmt: skip
    return "\n".join([f"clock: 210 {clock} {clock} ", "", *rows, ""])


def gpu_small_kernels(launch_us: float = 2.6) -> str:
    sizes = [int(4096 * 1.08**n) for n in range(90)]
    rows = []
    for size in sizes:
        rate = size * 16 / (launch_us * 1e3 + size * 16 / 1400)
        cells = "".join(f"{rate * share:6.0f} " for share in (0.6, 0.8, 1.0, 1.0))
        rows.append(f"{size}  {size * 16 // 1024}kB {cells} ")
    return "\n".join(rows) + "\n"


def nvidia_smi(
    names: Sequence[str] = ("NVIDIA A100-PCIE-40GB",), core: int = 1410, memory: int = 1215
) -> str:
    gpus = (_made("nvidia_smi_gpu", number=number, name=name, core=core, memory=memory)
            for number, name in enumerate(names))  # fmt: skip
    return _made("nvidia_smi", count=len(names)) + "".join(gpus)


def supported_clocks() -> str:
    return _made("supported_clocks")


def device_query(names: Sequence[str] = ("NVIDIA A100-PCIE-40GB",), core: int = 1410) -> str:
    gpus = (_made("device_query_gpu", number=number, name=name, core=core)
            for number, name in enumerate(names))  # fmt: skip
    return _made("device_query", count=len(names)) + "".join(gpus) + "Result = PASS\n"


def _agent(number: int, device: str, name: str, marketing: str) -> str:
    return _made("rocminfo_agent", number=number, device=device, name=name, marketing=marketing)


def rocminfo(gpus: int = 1) -> str:
    agents = [_agent(1, "CPU", "AMD EPYC 7773X 64-Core Processor", "AMD EPYC 7773X")]
    agents += [_agent(n + 2, "GPU", "gfx90a", "AMD Instinct MI210") for n in range(gpus)]
    head = (
        "ROCk module is loaded\n=====\nHSA System Attributes\n=====\nRuntime Version:         1.1\n"
    )
    return f"{head}\n==========\nHSA Agents\n==========\n{''.join(agents)}*** Done ***\n"


ROCM_SMI = _made("rocm_smi")


def amd_smi(name: str = "AMD Instinct MI300X", units: int = 304, target: str = "gfx942") -> str:
    return _made("amd_smi", name=name, units=units, target=target)


def nvbench(rates: Sequence[float] = (1.2e12, 1.42e12, 3e12), devices: int = 1) -> str:
    def device(number: int) -> dict:
        return {"id": number, "name": f"NVIDIA A100-PCIE-40GB{'!' * number}", "sm_version": 800,
                "sm_default_clock_rate": 1410000000, "number_of_sms": 108,
                "l2_cache_size": 41943040, "global_memory_bus_width": 5120,
                "global_memory_bus_peak_clock_rate": 1215000000,
                "global_memory_bus_bandwidth": 1555200000000}  # fmt: skip

    def summary(tag: str, value: float) -> dict:
        return {"tag": tag, "data": [{"name": "value", "type": "float64", "value": str(value)}]}

    states = [
        {"name": f"Device=0 Size=2^{20 + n}", "device": n % devices, "is_skipped": False,
         "summaries": [summary("nv/cold/bw/global/bytes_per_second", rate),
                       summary("nv/cold/time/gpu/stdev/relative", 0.01),
                       summary("nv/cold/sm_clock_rate/mean", 1.395e9)]}
        for n, rate in enumerate(rates)
    ]  # fmt: skip
    states.append({"name": "skipped", "device": 0, "is_skipped": True, "summaries": None})
    return json.dumps({
        "meta": {"version": {"nvbench": {"string": "0.1.0 (v0.1.0)"}}},
        "devices": [device(number) for number in range(devices)],
        "benchmarks": [{"name": "copy", "states": states}],
    })  # fmt: skip


MADE = (gpu_latency, gpu_cache, gpu_l2_cache, gpu_stream, gpu_strides, gpu_small_kernels,
        nvidia_smi, supported_clocks, device_query, rocminfo, nvbench)  # fmt: skip
"""All that is made here."""
