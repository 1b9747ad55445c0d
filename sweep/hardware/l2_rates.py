"""What L2 serves to a multiprocessor, and how soon: rules of device parameters."""

from __future__ import annotations

from sweep.hardware.derived import SECTOR, DeviceFacts, dram_latency, measured_cycles

L2_LATENCIES = "microbenchmark.l2_near_latency", "microbenchmark.l2_far_latency"


def l2_service(device: DeviceFacts) -> float | None:
    """Sector at an SM's share of the L2 bandwidth, measured or of GPUs like it, else one a cycle.

    Wang & Chu take one a core cycle for the GTX 980. RRZE's gpu-l2-cache (te42kyfo/gpu-benches,
    3088b33) has 35.5 bytes a cycle and SM of A100, 34.5 and 37.4 of H100 PCIe and H200; and of an
    L40 2,088 bytes a cycle in all, 174 for each of its 12 memory controllers, with which slices of
    L2 go. B200's L2 serves at least 60: a product of Triton's (triton-lang/triton, 0f1590d,
    python/tutorials/gluon/06-tcgen05.py, tiles of 128 x 128, 1,110 TFLOP/s) reads that much. L2
    runs at the core clock. Loops of loads give a lower bound, which yields to GPUs like it if it
    is more than 5 % less: an H100's read 32 bytes, a product of 8,192 cubed in 64 x 64 tiles 44.
    """
    measured = measured_cycles(device, SECTOR, "l2_read_bandwidth")
    rate = {"8.0": 36.0, "9.0": 36.0, "10.0": 60.0}.get(device.compute_capability, 0.0)
    if measured and measured * rate <= 1.05 * SECTOR:
        return measured
    if rate and device.number("chip.l2"):  # read: the value is derived, not measured
        return SECTOR / rate
    bits, n_sm = device.number("chip.memory_bus_width"), device.number("chip.sm_count")
    if device.compute_capability in ("8.6", "8.9", "12.0") and bits and n_sm:
        return max(1.0, SECTOR * n_sm / (174.0 * bits / 32.0))
    return 1.0


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
