// A loop of 1000 steps, and two loops within each other, 20 in 100; loops that end by a variable.
extern "C" __global__ void fixed_loop(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 1000; ++k) sum = sum * x[i] + 1.0f;
    y[i] = sum;
}

extern "C" __global__ void nested_loops(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 100; ++k)
#pragma unroll 1
        for (int j = 0; j < 20; ++j) sum = sum * x[i + j] + k;
    y[i] = sum;
}

extern "C" __global__ void open_loops(const float* x, float* y, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < rows; ++k) {
        sum += 2.0f;
#pragma unroll 1
        for (int j = 0; j < columns; ++j) sum = sum * x[(k * columns + j) * 256 + i] + k;
    }
    y[i] = sum;
}
