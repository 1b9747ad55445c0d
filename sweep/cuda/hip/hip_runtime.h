// What HIP sources need of HIP's headers to be compiled to machine code: no run-time system.
#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define SWEEP_BOUND(MOST) __attribute__((amdgpu_flat_work_group_size(1, MOST)))
#define SWEEP_BOUNDS(MOST, WAVES) SWEEP_BOUND(MOST) __attribute__((amdgpu_waves_per_eu(WAVES)))
#define SWEEP_THIRD(FIRST, SECOND, THIRD, ...) THIRD
#define __launch_bounds__(...) SWEEP_THIRD(__VA_ARGS__, SWEEP_BOUNDS, SWEEP_BOUND, )(__VA_ARGS__)
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
#define SWEEP_BLOCKS(NAME, NUMBER) static __device__ inline unsigned NAME() { \
    return ((const unsigned __attribute__((address_space(4))) *)__builtin_amdgcn_implicitarg_ptr())[NUMBER]; }
SWEEP_BLOCKS(sweep_blocks_x, 0) SWEEP_BLOCKS(sweep_blocks_y, 1) SWEEP_BLOCKS(sweep_blocks_z, 2)
SWEEP_INDEX(gridDim, sweep_blocks)

template <class Any> struct alignas(2 * sizeof(Any)) sweep_2 { Any x, y; };
template <class Any> struct alignas(4 * sizeof(Any)) sweep_4 { Any x, y, z, w; };
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
template <class Any> __device__ inline Any __ldg(const Any *address) { return *address; }
template <class Any> __host__ __device__ inline Any min(Any a, Any b) { return a < b ? a : b; }
template <class Any> __host__ __device__ inline Any max(Any a, Any b) { return a < b ? b : a; }
__device__ inline float sqrtf(float x) { return __builtin_sqrtf(x); }
__device__ inline float rsqrtf(float x) { return __builtin_amdgcn_rsqf(x); }
__device__ inline float fabsf(float x) { return __builtin_fabsf(x); }
__device__ inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
__device__ inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
__device__ inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__device__ inline float floorf(float x) { return __builtin_floorf(x); }
