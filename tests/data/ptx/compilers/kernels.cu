extern "C" __global__ void saxpy(float *y, const float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void reduction(float *out, const float *x, int n) {
    __shared__ float part[256];
    float sum = 0.0f;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += 256 * gridDim.x) sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int s = 128; s > 0; s >>= 1) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(out, part[0]);
}
extern "C" __global__ void stencil(float *out, const float *in, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x > 0 && x < width - 1 && y > 0 && y < height - 1)
        out[y * width + x] = 0.2f * (in[y * width + x] + in[y * width + x - 1] + in[y * width + x + 1]
            + in[(y - 1) * width + x] + in[(y + 1) * width + x]);
}
extern "C" __global__ void matmul(float *c, const float *a, const float *b, int n) {
    __shared__ float as[16][16], bs[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float sum = 0.0f;
    for (int t = 0; t < n / 16; t++) {
        as[threadIdx.y][threadIdx.x] = a[y * n + t * 16 + threadIdx.x];
        bs[threadIdx.y][threadIdx.x] = b[(t * 16 + threadIdx.y) * n + x];
        __syncthreads();
        for (int k = 0; k < 16; k++) sum += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = sum;
}
extern "C" __global__ void softmax(float *out, const float *in, int columns) {
    __shared__ float part[256];
    const float *row = in + blockIdx.x * columns;
    float top = -1e30f;
    for (int i = threadIdx.x; i < columns; i += 256) top = fmaxf(top, row[i]);
    part[threadIdx.x] = top; __syncthreads();
    for (int s = 128; s > 0; s >>= 1) { if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]); __syncthreads(); }
    top = part[0]; __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < columns; i += 256) sum += expf(row[i] - top);
    part[threadIdx.x] = sum; __syncthreads();
    for (int s = 128; s > 0; s >>= 1) { if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s]; __syncthreads(); }
    sum = part[0];
    for (int i = threadIdx.x; i < columns; i += 256) out[blockIdx.x * columns + i] = expf(row[i] - top) / sum;
}
