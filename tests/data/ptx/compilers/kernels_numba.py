"""Five kernels for Numba-CUDA, and their PTX; no GPU is needed."""

import math

from numba import cuda, float32, int32


def saxpy(y, x, a, n):
    i = cuda.grid(1)
    if i < n:
        y[i] += a * x[i]


def reduction(out, x):
    part = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        s += x[i]
    part[t] = s
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            part[t] += part[t + k]
        cuda.syncthreads()
        k //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])


def stencil(out, a):
    x, y = cuda.grid(2)
    if 0 < x < a.shape[1] - 1 and 0 < y < a.shape[0] - 1:
        out[y, x] = float32(0.2) * (a[y, x] + a[y, x - 1] + a[y, x + 1] + a[y - 1, x] + a[y + 1, x])


def matmul(c, a, b):
    sa = cuda.shared.array((16, 16), float32)
    sb = cuda.shared.array((16, 16), float32)
    x, y = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    s = float32(0)
    for t in range(a.shape[1] // 16):
        sa[ty, tx] = a[y, t * 16 + tx]
        sb[ty, tx] = b[t * 16 + ty, x]
        cuda.syncthreads()
        for k in range(16):
            s += sa[ty, k] * sb[k, tx]
        cuda.syncthreads()
    c[y, x] = s


def softmax(out, a):
    part = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    r = cuda.blockIdx.x
    n = a.shape[1]
    m = float32(-1e30)
    for i in range(t, n, 256):
        m = max(m, a[r, i])
    part[t] = m
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            part[t] = max(part[t], part[t + k])
        cuda.syncthreads()
        k //= 2
    m = part[0]
    cuda.syncthreads()
    s = float32(0)
    for i in range(t, n, 256):
        s += math.exp(a[r, i] - m)
    part[t] = s
    cuda.syncthreads()
    k = 128
    while k > 0:
        if t < k:
            part[t] += part[t + k]
        cuda.syncthreads()
        k //= 2
    s = part[0]
    for i in range(t, n, 256):
        out[r, i] = math.exp(a[r, i] - m) / s


LINE, PLANE = float32[::1], float32[:, ::1]
SIGNATURES = {
    saxpy: (LINE, LINE, float32, int32), reduction: (LINE, LINE), stencil: (PLANE, PLANE),
    matmul: (PLANE, PLANE, PLANE), softmax: (PLANE, PLANE),
}  # fmt: skip


def all_texts():
    """Return the PTX of every kernel by name, for an A100."""
    return {f.__name__: cuda.compile_ptx(f, types, cc=(8, 0))[0] for f, types in SIGNATURES.items()}
