// Both sides of a branch, a switch, a call that is not inlined, a loop that may be left early.
__device__ __noinline__ float polynomial(float x) {
    return ((x * 0.5f + 1.0f) * x + 2.0f) * x + 3.0f;
}

extern "C" __global__ void branches(const float* in, float* out, const int* kind) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = in[i];
    if (kind[0] & 1) {
        out[i] = x * x;
        __threadfence();
    } else {
        out[i + 4096] = x + 1.0f;
        atomicAdd(out, 1.0f);
    }
    switch (kind[i]) {
        case 0: out[0] = x; break;
        case 1: out[i * 2] = x; break;
        case 2: atomicMax(reinterpret_cast<int*>(out), 3); break;
        case 3: x = polynomial(x); break;
        case 4: x = sqrtf(x); break;
        case 5: x = polynomial(x + 1.0f); break;
        default: x = -x; break;
    }
#pragma unroll 1
    for (int k = 0; k < 50; ++k) {
        x = x * 1.5f;
        if (x > in[k]) break;
    }
    out[i] = x;
}
