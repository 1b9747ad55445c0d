"""OpenCL C for NVRTC: what is rewritten, what is refused, and machine code equal to CUDA's."""

import pytest

from sweep.cuda import nvrtc
from sweep.cuda.compiling import Task
from sweep.cuda.findings import instructions, resources
from sweep.cuda.nvrtc import CompileError
from sweep.cuda.opencl import as_cuda, header
from sweep.errors import SweepError

try:
    nvrtc.load()
    HAS_NVRTC = True
except SweepError:
    HAS_NVRTC = False

OPENCL = """#define LOCAL_PTR __local
#ifdef LOCAL_PTR // stays
#endif
__constant float weights[4] = {1, 2, 3, 4};
inline float4 scaled(float4 v, LOCAL_PTR float *kept, __constant float *factor) {
    return v * factor[1] + (float4)(kept[0], kept[1], 2.0f, 3.0f); /* __local */
}
__attribute__((reqd_work_group_size(64, 1, 1)))
__kernel void sums(__global float4 *out, const __global float4* restrict in) {
    __local float kept[64];
    const int i = get_global_id(0), lane = get_local_id(0);
    kept[lane] = native_sin(in[i].x);
    barrier(CLK_LOCAL_MEM_FENCE);
    float4 v = (float4)(0.5f);
    for (int k = 0; k < N; k++) v += in[i + k] * v.s1;
    out[i] = scaled(v, kept, weights);
}
"""

CUDA = """__constant__ float weights[4] = {1, 2, 3, 4};
extern "C" __global__ void __launch_bounds__(64) sums(float4 *out, const float4 *__restrict__ in) {
    __shared__ float kept[64];
    const int i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
    kept[threadIdx.x] = __sinf(in[i].x);
    __syncthreads();
    float x = 0.5f, y = x, z = x, w = x;
    for (int k = 0; k < N; k++) {
        const float4 u = in[i + k];
        const float f = y;
        x += u.x * f, y += u.y * f, z += u.z * f, w += u.w * f;
    }
    const float s = weights[1];
    out[i] = make_float4(x * s + kept[0], y * s + kept[1], z * s + 2.0f, w * s + 3.0f);
}
"""


def test_translation():
    text = as_cuda(OPENCL, 'a b".cl', ["N=4", "T"])
    before = f'#line 1 "opencl.h"\n{header()}\n#define N 4\n#define T 1\nextern "C"'
    assert text.startswith(before)
    text = text.removeprefix(before)
    assert '#line 1 "a_b_.cl"' in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "#ifdef LOCAL_PTR // stays" in lines
    assert "__constant__ float weights[4] = {1, 2, 3, 4};" in lines
    assert "inline cl_float4 scaled(cl_float4 v, float *kept, const float *factor) {" in lines
    assert any("+ cl_float4(kept[0], kept[1], 2.0f, 3.0f); /* __local */" in x for x in lines)
    assert "__launch_bounds__((64) * ( 1) * ( 1))" in lines
    assert "__global__ void sums( cl_float4 *out, const cl_float4* __restrict__ in) {" in lines
    assert "__shared__ float kept[64];" in lines
    # Lines keep their numbers, which messages give.
    start = text.index("#line 1 ")
    assert text[start:].split("\n")[9].startswith("__global__ void sums")


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("\nvoid f(read_only image2d_t i) {}", "k.cl(2): read_only: images have no counterpart"),
        ("kernel void f(local float *p) {}", "k.cl(1): __local: a parameter of a kernel, who"),
        ("void f() { event_t e; }", "event_t: asynchronous copies have no counterpart in CUDA"),
        ("void f() { x = (real4)(1, 2, 3, 4); }", "(real4)(...): a vector literal of a type"),
        ("void f() { return (real4) ((a), b); }", "(real4)(...): a vector literal of a type"),
        ("half h;", "half: numbers of half precision have no counterpart"),
    ],
)  # fmt: skip
def test_refused(source, error):
    with pytest.raises(CompileError) as caught:
        as_cuda(source, "k.cl")
    assert error in str(caught.value)


@pytest.mark.parametrize(
    "source", ["f((real)(g(a, b)));", "if (a) (b, c);", "#define F(x) (x, y)", "(*f)(a, b);"]
)
def test_not_taken_for_a_vector(source):
    assert source in as_cuda(source, "k.cl")


@pytest.mark.skipif(not HAS_NVRTC, reason="NVRTC is not installed: kernel-sweep[compile]")
def test_real__as_cuda():
    """The same registers and dynamic instructions as CUDA that says the same."""
    found = []
    for name, source in (("sums.cl", OPENCL), ("sums.cu", CUDA)):
        source, options = Task(source, name, options=("-DN=8",)).given(
            "8.6", ["-DT"] * name.endswith("cl")
        )
        output = nvrtc.load().compile(source, name, "8.6", options)
        entry, numbers = resources(output.log, "sums")
        found.append((numbers, instructions(output.ptx, entry, {}, (64, 1, 1))))
    assert found[0][0]["shared_bytes"] == 256 and found[0][0]["spill_load_bytes"] == 0
    assert abs(found[0][0]["registers"] - found[1][0]["registers"]) <= 4
    assert found[0][1]["fp32"] == found[1][1]["fp32"] == 4 * 8 + 4 + 1  # a sine's angle
    assert found[0][1]["special"] == found[1][1]["special"] == 1
    with pytest.raises(CompileError, match=r"x\.cl\(2\): error.*unknown"):
        source, options = Task("void f() {\nunknown(1);}", "x.cl").given("8.6")
        nvrtc.load().compile(source, "x.cl", "8.6", options)
