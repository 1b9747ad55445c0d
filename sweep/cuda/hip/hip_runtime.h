// What HIP sources need of HIP's headers to be compiled to machine code: no run-time system.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
typedef unsigned int uint;
typedef unsigned char uchar;

#define SWEEP_INDEX(NAME, OF) \
    struct NAME##_type { \
        struct of_x { __device__ operator unsigned() const { return OF##_x(); } } x; \
        struct of_y { __device__ operator unsigned() const { return OF##_y(); } } y; \
        struct of_z { __device__ operator unsigned() const { return OF##_z(); } } z; \
    }; \
    static __device__ const NAME##_type NAME = {};
SWEEP_INDEX(threadIdx, __builtin_amdgcn_workitem_id)
SWEEP_INDEX(blockIdx, __builtin_amdgcn_workgroup_id)
SWEEP_INDEX(blockDim, __builtin_amdgcn_workgroup_size)

template <class T> struct alignas(2 * sizeof(T)) sweep_2 { T x, y; };
template <class T> struct alignas(4 * sizeof(T)) sweep_4 { T x, y, z, w; };
typedef sweep_2<float> float2;
typedef sweep_4<float> float4;
typedef sweep_2<int> int2;
typedef sweep_4<int> int4;
typedef sweep_2<double> double2;

__device__ inline void __syncthreads() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
template <class T> __device__ inline T __ldg(const T *address) { return *address; }
template <class T> __host__ __device__ inline T min(T a, T b) { return a < b ? a : b; }
template <class T> __host__ __device__ inline T max(T a, T b) { return a < b ? b : a; }
__device__ inline float sqrtf(float x) { return __builtin_sqrtf(x); }
__device__ inline float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
__device__ inline float fabsf(float x) { return __builtin_fabsf(x); }
__device__ inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
__device__ inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
__device__ inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__device__ inline float floorf(float x) { return __builtin_floorf(x); }
