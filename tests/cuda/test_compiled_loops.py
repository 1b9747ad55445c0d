"""Loops that NVRTC unrolls: trip counts of PTX with the remainders of four turns in one."""

from __future__ import annotations

import re

import pytest

from sweep.cuda.findings import instructions
from sweep.cuda.nvrtc import load
from sweep.errors import SweepError

SOURCE = """
__constant__ float v[600];
__global__ void k(float *out, const float *in, int n) {
  float a = 0.0f, x = in[threadIdx.x];
  for (int i = 0; i < 600; i += STEP) { a += v[i] * x; x += a; }
  for (int j = 0; j < n; j++) { a += v[j] * x; x += 2.0f * a; }
  out[threadIdx.x] = a + x;
}
"""


@pytest.mark.parametrize(("step", "n"), [(1, 10), (4, 3), (4, 601), (7, 10)])
def test_real__loops_over_known_ranges_are_counted_exactly(step, n):
    try:
        compiler = load()
    except SweepError as error:
        pytest.skip(str(error))
    ptx = compiler.compile(SOURCE, "loops.cu", "7.5", [f"-DSTEP={step}"]).ptx
    entry = re.search(r"\.entry (\w+)", ptx)[1]
    found = instructions(ptx, entry, {}, (32, 1, 1), {"2": n})
    assert found["fp32"] == 2 * len(range(0, 600, step)) + 2 * n + 1
    assert found["fp64"] == found["special"] == 0
