# ruff: noqa: N803, B007, E501
"""Six kernels in Triton 3, and their PTX; no GPU is needed."""

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def saxpy(y, x, a, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(y + i, tl.load(y + i, mask=m) + a * tl.load(x + i, mask=m), mask=m)


@triton.jit
def reduction(out, x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(out, tl.sum(v, axis=0))


@triton.jit
def stencil(out, inp, width, height, BX: tl.constexpr, BY: tl.constexpr):
    x = tl.program_id(0) * BX + tl.arange(0, BX)[None, :]
    y = tl.program_id(1) * BY + tl.arange(0, BY)[:, None]
    m = (x > 0) & (x < width - 1) & (y > 0) & (y < height - 1)
    p = inp + y * width + x
    s = (
        tl.load(p, mask=m)
        + tl.load(p - 1, mask=m)
        + tl.load(p + 1, mask=m)
        + tl.load(p - width, mask=m)
        + tl.load(p + width, mask=m)
    )
    tl.store(out + y * width + x, 0.2 * s, mask=m)


@triton.jit
def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    pa = a + rm[:, None] * K + rk[None, :]
    pb = b + rk[:, None] * N + rn[None, :]
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(tl.load(pa), tl.load(pb))
        pa += BK
        pb += BK * N
    tl.store(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit
def tiles(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    da = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    db = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    dc = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    m = tl.program_id(0) * BM
    n = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        acc += tl.dot(da.load([m, k]), db.load([k, n]))
    dc.store([m, n], acc.to(tl.float16))


@triton.jit
def softmax(out, inp, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = inp + tl.program_id(0) * columns
    v = tl.load(row + i, mask=i < columns, other=-float("inf"))
    v = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + tl.program_id(0) * columns + i, v / tl.sum(v, axis=0), mask=i < columns)


def compiled(function, signature, constants, capability=80, warps=4, stages=3):
    """Return the PTX of a kernel, by default for an A100."""
    places = {(k,): [["tt.divisibility", 16]] for k in range(len(signature))}
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    source = ASTSource(fn=function, signature=types, constexprs=constants, attrs=places)
    target = GPUTarget("cuda", capability, 32)
    return triton.compile(
        source, target=target, options={"num_warps": warps, "num_stages": stages}
    ).asm["ptx"]


F16, F32, I32 = "*fp16", "*fp32", "i32"
SIZES = {"M": I32, "N": I32, "K": I32}
KERNELS = {
    "saxpy": (saxpy, {"y": F32, "x": F32, "a": "fp32", "n": I32}, {"BLOCK": 1024}),
    "reduction": (reduction, {"out": F32, "x": F32, "n": I32}, {"BLOCK": 1024}),
    "stencil": (stencil, {"out": F32, "inp": F32, "width": I32, "height": I32}, {"BX": 32, "BY": 8}),
    "matmul": (matmul, {"a": F16, "b": F16, "c": F32} | SIZES, {"BM": 64, "BN": 64, "BK": 32}),
    "tiles": (tiles, {"a": F16, "b": F16, "c": F16} | SIZES, {"BM": 128, "BN": 128, "BK": 64},
              90, 8),  # with what an H100 adds: copies of tiles, and products of four warps
    "softmax": (softmax, {"out": F32, "inp": F32, "columns": I32}, {"BLOCK": 1024}),
}  # fmt: skip


CONFIGURATIONS = [
    {"BM": 16, "BN": 16, "BK": 16, "num_warps": 1, "num_stages": 1},
    {"BM": 32, "BN": 16, "BK": 16, "num_warps": 1, "num_stages": 2},
    {"BM": 32, "BN": 32, "BK": 32, "num_warps": 2, "num_stages": 4},
]


def all_configurations():
    """Return the PTX of the product for several configurations, by the name of a file."""
    found = {}
    for configuration in CONFIGURATIONS:
        constants = {name: configuration[name] for name in ("BM", "BN", "BK")}
        options = configuration["num_warps"], configuration["num_stages"]
        name = "-".join(f"{key}={value}" for key, value in configuration.items())
        found[f"matmul-{name}"] = compiled(*KERNELS["matmul"][:2], constants, 80, *options)
    return found


def all_texts():
    """Return the PTX of every kernel by name."""
    return {name: compiled(*given) for name, given in KERNELS.items()}
