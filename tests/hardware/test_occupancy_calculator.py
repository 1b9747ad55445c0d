"""Occupancy against NVIDIA's own calculator, compiled from ``cuda_occupancy.h``.

Its licence forbids to ship the header. It is found in the wheel ``nvidia-cuda-runtime`` if that is
installed, or where ``$SWEEP_CUDA_OCCUPANCY_H`` says; else these tests are skipped.
"""

import ctypes
import os
import shutil
import site
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sweep.fields import LIMITER
from sweep.hardware.occupancy import occupancy
from sweep.hardware.occupancy_limits import compute_capabilities, limits_for

PLENTY = 10**9  # blocks: the grid limits nothing

ORACLE = Path(__file__).parents[1] / "data" / "occupancy_oracle.c"

PROPERTIES = (
    "max_threads_per_block", "max_threads_per_sm", "max_regs_per_block", "regs_per_sm",
    "smem_per_sm_bytes", "smem_per_block_bytes", "smem_reserved_per_block_bytes",
)  # fmt: skip
LIMITS = ("blocks", "warps", "registers", "shared_memory")
FACTORS = {"warps": 1, "registers": 2, "shared_memory": 4, "blocks_per_sm": 8}


def find_header():
    """Return cuda_occupancy.h where a wheel or ``$SWEEP_CUDA_OCCUPANCY_H`` has it, or None."""
    if named := os.environ.get("SWEEP_CUDA_OCCUPANCY_H"):
        return Path(named)
    folders = {*site.getsitepackages(), site.getusersitepackages(), *sys.path}
    for folder in sorted(folders):
        if folder and (found := sorted(Path(folder).glob("nvidia/**/cuda_occupancy.h"))):
            return found[-1]
    return None


@pytest.fixture(scope="module")
def calculator(tmp_path_factory):
    """Compile NVIDIA's calculator, whose licence forbids to ship it, where it is installed."""
    header, compiler = find_header(), shutil.which("gcc") or shutil.which("cc")
    if header is None or compiler is None:
        pytest.skip("needs cuda_occupancy.h (wheel nvidia-cuda-runtime) and a C compiler")
    library = tmp_path_factory.mktemp("oracle") / "oracle.so"
    command = [compiler, "-O1", "-w", "-shared", "-fPIC", f"-I{header.parent}", "-o", library]
    subprocess.run([*command, ORACLE], check=True)
    return ctypes.CDLL(str(library))


def ask(calculator, cc, threads, registers, shared):
    """Return an error, NVIDIA's active blocks, four limits and limiting factors."""
    limits, out = limits_for(cc), np.zeros((len(threads), 6), dtype=np.int32)
    properties = np.array([getattr(limits, name) for name in PROPERTIES]).astype(np.int64)
    arrays = (threads.astype(np.int32), registers.astype(np.int32), shared.astype(np.int64), out)
    pointers = (array.ctypes for array in arrays)
    error = calculator.many(*map(int, cc.split(".")), properties.ctypes, len(threads), *pointers)
    return error, out


def oracle_points(cc, count=30_000):
    """Return launches: random ones, and all that sit beside a rounding of warps or registers."""
    limits = limits_for(cc)
    generator = np.random.default_rng(7)
    threads = generator.integers(1, int(limits.max_threads_per_block) + 100, count)
    threads[::3] = threads[::3] // 32 * 32 + 32
    # 256 registers are left out: NVIDIA's header lets them pass from 7.0 on, although no
    # instruction can address more than 255.
    registers = generator.integers(0, int(limits.max_regs_per_thread) + 1, count)
    registers[::2] = np.minimum(registers[::2], generator.integers(0, 80, registers[::2].shape))
    shared = generator.integers(0, int(limits.smem_per_block_bytes) + 2000, count)
    shared[::2] = generator.integers(0, 12_000, shared[::2].shape)
    shared[::5] = 0
    warps, counts = np.meshgrid(np.arange(1, 33), np.arange(0, int(limits.max_regs_per_thread) + 1))
    return (
        np.concatenate([threads, 32 * warps.ravel()]),
        np.concatenate([registers, counts.ravel()]),
        np.concatenate([shared, np.zeros(warps.size, dtype=shared.dtype)]),
    )


@pytest.mark.parametrize("cc", [cc for cc in compute_capabilities() if float(cc) >= 3])
def test_occupancy__is_what_nvidias_calculator_gives(calculator, cc):
    threads, registers, shared = oracle_points(cc)
    error, out = ask(calculator, cc, threads, registers, shared)
    if error == 2:
        pytest.skip(f"this cuda_occupancy.h does not know {cc}")
    assert error == 0
    counts = occupancy(threads, registers, shared, PLENTY, limits=limits_for(cc), n_sm=1)
    unlimited = np.iinfo(np.int32).max
    limits = (getattr(counts, f"limit_by_{name}") for name in LIMITS)
    for ours, theirs in zip((counts.active_blocks_per_sm, *limits), out.T[:5], strict=True):
        finite = np.where(np.isinf(ours), unlimited, ours)
        np.testing.assert_array_equal(np.broadcast_to(finite, threads.shape), theirs)
    factor = np.zeros(256, dtype=np.int64)
    for name, bit in FACTORS.items():
        factor[LIMITER[name]] = bit
    assert (factor[counts.limiter] & out[:, 5] != 0).all()
