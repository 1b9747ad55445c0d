"""A stencil of three points, as Numba compiles it (needs the toolkit's NVVM, no GPU)."""

from numba import cuda, float32, int32


def stencil(a, b, n):
    i = cuda.grid(1)
    if 0 < i < n - 1:
        b[i] = a[i - 1] + float32(2) * a[i] + a[i + 1]


if __name__ == "__main__":
    text, _ = cuda.compile_ptx(stencil, (float32[::1], float32[::1], int32), cc=(7, 5))
    print(text)
