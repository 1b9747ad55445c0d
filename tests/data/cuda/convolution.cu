// Correlates an image with a filter. A thread computes tile_size_x x tile_size_y pixels, a block
// apart, from shared memory or through the caches. Macros: the parameters of
// kernels_spec/convolution.toml, which this source follows; the image's size is fixed there, too.

#define WIDTH 4096
#define HEIGHT 4096
#define PITCH (WIDTH + filter_width - 1)
#define SPAN_X (block_size_x * tile_size_x + filter_width - 1)
#define SPAN_Y (block_size_y * tile_size_y + filter_height - 1)

__constant__ float weights[filter_height][filter_width];

__device__ __forceinline__ float pixel(const float *image, int row, int column) {
#if read_only
    return __ldg(image + row * PITCH + column);
#else
    return image[row * PITCH + column];
#endif
}

extern "C" __global__ void convolve(float *result, const float *image) {
    const int left = blockIdx.x * block_size_x * tile_size_x;
    const int top = blockIdx.y * block_size_y * tile_size_y;
#if use_shmem
    __shared__ float part[SPAN_Y][SPAN_X];
    for (int row = threadIdx.y; row < SPAN_Y; row += block_size_y)
        for (int column = threadIdx.x; column < SPAN_X; column += block_size_x)
            part[row][column] = pixel(image, top + row, left + column);
    __syncthreads();
#define AT(row, column) part[(row) + threadIdx.y][(column) + threadIdx.x]
#else
#define AT(row, column) pixel(image, top + (row) + threadIdx.y, left + (column) + threadIdx.x)
#endif
    float total[tile_size_y][tile_size_x] = {};
#pragma unroll
    for (int i = 0; i < filter_height; i++)
#pragma unroll
        for (int j = 0; j < filter_width; j++)
#pragma unroll
            for (int v = 0; v < tile_size_y; v++)
#pragma unroll
                for (int u = 0; u < tile_size_x; u++)
                    total[v][u] +=
                        weights[i][j] * AT(v * block_size_y + i, u * block_size_x + j);
#pragma unroll
    for (int v = 0; v < tile_size_y; v++)
#pragma unroll
        for (int u = 0; u < tile_size_x; u++) {
            const int row = top + v * block_size_y + threadIdx.y;
            result[row * WIDTH + left + u * block_size_x + threadIdx.x] = total[v][u];
        }
}
