// Tiles of 32 x 32 by blocks of 32 x 8, with and without a word of padding against bank conflicts.
template <int PADDING>
__device__ void transpose_tile(const float* in, float* out, int n) {
    __shared__ float tile[32][32 + PADDING];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

extern "C" __global__ void transpose_plain(const float* in, float* out, int n) {
    transpose_tile<0>(in, out, n);
}

extern "C" __global__ void transpose_padded(const float* in, float* out, int n) {
    transpose_tile<1>(in, out, n);
}
