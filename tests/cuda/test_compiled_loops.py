"""Loops that NVRTC unrolls: trip counts of PTX with the remainders of four turns in one."""

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


LOOP = """
__constant__ float v[1024];
__global__ void k(float *out, const float *in, int n) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
  float a = 0.0f, x = in[thread];
  %s { a += v[i] * x; x += a; }
  out[threadIdx.x] = a + x;
}
"""


def counted(source, block, options=(), **more):
    """Return the instructions of a source's only kernel as NVRTC compiles it."""
    try:
        compiler = load()
    except SweepError as error:
        pytest.skip(str(error))
    ptx = compiler.compile(source, "loops.cu", "7.5", options).ptx
    entry = re.search(r"\.entry (\w+)", ptx)[1]
    return instructions(ptx, entry, {}, block, **more)


@pytest.mark.parametrize(("step", "n"), [(1, 10), (4, 3), (4, 601), (7, 10)])
def test_real__loops_over_known_ranges_are_counted_exactly(step, n):
    found = counted(SOURCE, (32, 1, 1), [f"-DSTEP={step}"], arguments={"2": n})
    assert found["fp32"] == 2 * len(range(0, 600, step)) + 2 * n + 1
    assert found["fp64"] == found["special"] == 0


@pytest.mark.parametrize(("loop", "turns"), [
    ("for (int i = 0; i <= 600; i += 4)", 151),
    ("for (int i = 600; i > 0; i -= 4)", 150),
    ("for (unsigned i = 600; i-- > 0;)", 600),
    ("for (int i = 512; i >= 1; i >>= 1)", 10),
    ("#pragma unroll 8\nfor (int i = 0; i < 600; i += 4)", 150),
    ("#pragma unroll 7\nfor (int i = 0; i < 600; ++i)", 600),
    ("#pragma unroll 1\nfor (int i = 3; i != 603; i += 6)", 100),
])  # fmt: skip
def test_real__loops_of_every_form_are_counted_exactly(loop, turns):
    assert counted(LOOP % loop, (32, 1, 1))["fp32"] == 2 * turns + 1


STRIDES = "for (int i = thread; i < n; i += gridDim.x * blockDim.x)"
OWN = "for (int i = threadIdx.x; i < 1000; i += blockDim.x)"


@pytest.mark.parametrize(("loop", "n", "blocks", "turns"), [
    (STRIDES, 2**20, 64, 128),
    (STRIDES, 2**20 + 1, 64, 128),
    (f"#pragma unroll 1\n{STRIDES}", 3 * 2**13, 64, 3),
    (OWN, 0, None, 7),  # 104 of 128 threads turn eight times
    (f"#pragma unroll 1\n{OWN}", 0, None, 8),
])  # fmt: skip
def test_real__loops_that_stride_over_threads_have_the_middle_threads_count(loop, n, blocks, turns):
    found = counted(LOOP % loop, (128, 1, 1), arguments={"2": n}, blocks=blocks)
    assert found["fp32"] == pytest.approx(2 * turns + 1, abs=2)  # by a turn


def test_real__a_grid_that_nobody_knows_leaves_the_count_open():
    with pytest.raises(SweepError, match="has no constant trip count"):
        counted(LOOP % STRIDES, (128, 1, 1), arguments={"2": 2**20})
    deep = LOOP.replace("blockIdx.x *", "(blockIdx.y + blockIdx.x) *") % STRIDES
    with pytest.raises(SweepError, match="has no constant trip count"):
        counted(deep, (128, 1, 1), arguments={"2": 2**20}, blocks=64)
