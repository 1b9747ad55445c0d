// A matrix of bf16 in fp8 (e4m3) with one scale, as TensorRT-LLM does: the largest value, then the quotients.
// Our own writing of the loops of its cudaFp8Utils.cu; `vector` elements of a thread are read at once.

#ifndef vector
#define vector 1
#endif

extern "C" __global__ void fp8_scale(unsigned short *scale, const unsigned short *x, long long size)
{
    float most = 0.f;
    for (long long i = threadIdx.x + blockIdx.x * blockDim.x; i < size; i += gridDim.x * blockDim.x) {
        float value = fabsf(__uint_as_float((unsigned)x[i] << 16));
        most = most > value ? most : value;
    }
    __shared__ float of_warps[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int other = 16; other > 0; other /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
    if (lane == 0) of_warps[warp] = most;
    __syncthreads();
    most = threadIdx.x < blockDim.x / 32.f ? of_warps[lane] : 0.f;
    for (int other = 16; other > 0; other /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
    if (threadIdx.x == 0) {
        float quotient = fmaxf(most / 448.f, 1.f / (448.f * 512.f));
        unsigned short mine = (__float_as_uint(quotient) + 0x7fff) >> 16, old = *scale, assumed;
        while (mine > old) {
            assumed = old;
            old = atomicCAS(scale, assumed, mine);
        }
    }
}

__device__ unsigned short fp8_pair(float low, float high)
{
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

#if vector == 1
extern "C" __global__ void fp8_quantize(unsigned char *out, const unsigned short *scale, const unsigned short *x, long long size)
{
    for (long long i = threadIdx.x + blockIdx.x * blockDim.x; i < size; i += blockDim.x * gridDim.x) {
        float value = __uint_as_float((unsigned)x[i] << 16);
        out[i] = (unsigned char)fp8_pair(value / __uint_as_float((unsigned)scale[0] << 16), 0.f);
    }
}
#else
extern "C" __global__ void fp8_quantize(unsigned char *out, const float *scale, const unsigned short *x, long long size)
{
    float factor = 1.f / scale[0];
    for (long long i = threadIdx.x + (long long)blockIdx.x * blockDim.x; i < size / 8; i += (long long)blockDim.x * gridDim.x) {
        uint4 words = reinterpret_cast<const uint4 *>(x)[i];
        unsigned pairs[4] = {words.x, words.y, words.z, words.w};
        unsigned short fp8[4];
#pragma unroll
        for (int p = 0; p < 4; ++p)
            fp8[p] = fp8_pair(__uint_as_float(pairs[p] << 16) * factor, __uint_as_float(pairs[p] & 0xffff0000) * factor);
        reinterpret_cast<uint2 *>(out)[i] = make_uint2(fp8[0] | fp8[1] << 16, fp8[2] | fp8[3] << 16);
    }
}
#endif
