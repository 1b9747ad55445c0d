"""What L2 serves to a multiprocessor, and how soon: rules of device parameters."""

from __future__ import annotations

from sweep.hardware.derived import SECTOR, DeviceFacts, dram_latency, measured_cycles

L2_LATENCIES = "microbenchmark.l2_near_latency", "microbenchmark.l2_far_latency"


# Bytes a cycle of the core clock: for each SM, or for each 32 bits of the memory bus, with which
# slices of L2 go. RRZE's gpu-l2-cache (te42kyfo/gpu-benches, 3088b33) has 35.5 a SM of A100, 34.5
# and 37.4 of H100 PCIe and H200, and 174 a memory controller of an L40; its gpu-cache has 22.1 a SM
# of V100 (a7dc559) and 116.5 a controller of an A40 (71a3611). Another kernel has 125 of an RTX
# 3060 Laptop (YKTian-x2b/AmpereArchViaMicroBenchMark, 06b1e58: 1276 GB/s at 1.7 GHz). Turing has as
# much L2 for each controller as compute capability 8.6 (TU116: half). B200 serves at least 60 a SM:
# a product of Triton's (triton-lang/triton, 0f1590d, python/tutorials/gluon/06-tcgen05.py, tiles of
# 128 x 128, 1,110 TFLOP/s) reads that much.
BYTES_OF_SM = {"7.0": 22.0, "8.0": 36.0, "9.0": 36.0, "10.0": 60.0}
BYTES_OF_CONTROLLER = {"7.5": 116.5, "8.6": 116.5, "8.9": 174.0, "12.0": 174.0}


def l2_bytes(capability: str, bus_width: float | None, n_sm: float | None) -> float:
    """Return the bytes a cycle that L2 serves to an SM of GPUs like this one, 0 if unknown."""
    if capability in BYTES_OF_CONTROLLER and bus_width and n_sm:
        return min(SECTOR, BYTES_OF_CONTROLLER[capability] * bus_width / 32.0 / n_sm)
    return BYTES_OF_SM.get(capability, 0.0)


def l2_service(device: DeviceFacts) -> float | None:
    """Sector at an SM's share of the L2 bandwidth, measured or of GPUs like it, else one a cycle.

    Wang & Chu take one a core cycle for the GTX 980. L2 is taken to run at the core clock; that of
    an H100 did not (smallscientist1/cuda_microbenchmark, da1b812). Loops of loads give a lower
    bound, which yields to GPUs like it if it is more than 5 % less: an H100's read 32 bytes, a
    product of 8,192 cubed in 64 x 64 tiles 44.
    """
    measured = measured_cycles(device, SECTOR, "l2_read_bandwidth")
    # A value is said to be derived from all numbers that are read: of the chip only if they count.
    if measured and device.compute_capability not in (*BYTES_OF_SM, *BYTES_OF_CONTROLLER):
        return measured
    sides = device.number("chip.memory_bus_width"), device.number("chip.sm_count")
    rate = l2_bytes(device.compute_capability, *sides)
    if measured and measured * rate <= 1.05 * SECTOR:
        return measured
    return SECTOR / rate if rate else 1.0


def l2_latency(device: DeviceFacts) -> float | None:
    """L2 latency by micro-benchmark (nearest partition), else that of DRAM, an upper bound."""
    return device.number(*L2_LATENCIES) or dram_latency(device)


def cache_latency(device: DeviceFacts) -> float | None:
    """L2 latency by micro-benchmark (nearest partition), else 0.45 of DRAM's, or that without L2.

    GPUs of which both are measured have 0.39 (A100) to 0.49 (RTX 2080 Ti).
    """
    if found := device.number(*L2_LATENCIES):
        return found
    dram = dram_latency(device)
    return None if dram is None else dram * (0.45 if device.number("chip.l2") else 1.0)
