// Four words in one access, halves of words, structures of three words, a gather, a column.
struct Point { float x, y, z; };

extern "C" __global__ void vectors(const float4* a, float4* b) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 v = a[i];
    b[i] = make_float4(v.w, v.z, v.y, v.x);
}

extern "C" __global__ void patterns(const Point* points, const short* halves, const int* index,
                                    const float* table, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = points[i].y + halves[i];         // 3 words apart; two bytes
    sum += table[index[i]];                      // a gather
    sum += table[0] + table[i * n] + table[i + 1];  // one word for all, a column, misaligned
    out[i] = sum;
}
