// What came with later devices: matrix units, asynchronous copies, clusters, packed halves, inline
// assembly whose scopes use the same names.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
#include <cooperative_groups.h>
using namespace nvcuda;

extern "C" __global__ void matrix_units(const half* a, const half* b, float* c, int n) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(fa, a + k, n);
        wmma::load_matrix_sync(fb, b + k, n);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    wmma::store_matrix_sync(c, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void staged(const float4* in, float4* out) {
    __shared__ float4 part[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    __pipeline_memcpy_async(&part[threadIdx.x], &in[i], 16);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    out[i] = part[127 - threadIdx.x];
}

extern "C" __global__ void lanes(const int* in, int* out, const half2* h, half2* g) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int v = in[i];
    v += __shfl_down_sync(~0u, v, 16);
    v = __reduce_add_sync(~0u, v);
    v = __dp4a(v, 3, v);
    unsigned m = __ballot_sync(~0u, v > 3);
    g[i] = __hfma2(h[i], h[i], h[i]);
    out[i] = __popc(m) + __ffs(v);
    cooperative_groups::this_cluster().sync();
    asm volatile(
        "{\n.reg .pred p;\nWAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra WAIT;\nDONE:\n}\n"
        ::"r"(0), "r"(1));
    asm volatile(
        "{\n.reg .pred p;\nWAIT:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra DONE;\nbra WAIT;\nDONE:\n}\n"
        ::"r"(8), "r"(1));
}
