// OpenCL C 1.2 for a CUDA compiler: what sweep.cuda.opencl puts before a translated source.
// Vectors have their elements by name (.x, .s0), arithmetic by element, and no other swizzles.

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define __OPENCL_VERSION__ 120
#define __OPENCL_C_VERSION__ 120
#define CL_VERSION_1_0 100
#define CL_VERSION_1_1 110
#define CL_VERSION_1_2 120
#define cl_khr_fp64 1
#define CLK_LOCAL_MEM_FENCE 1
#define CLK_GLOBAL_MEM_FENCE 2
#define MAXFLOAT 3.402823466e38f
#define FLT_MAX 3.402823466e38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-7f
#define M_PI_F 3.14159274101257f
#define M_PI 3.14159265358979323846
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif

#define CL_FUNCTION static __device__ __forceinline__

// Work items (OpenCL C 6.12.1): a size_t has 64 bits.
#define CL_INDEX(name, x_, y_, z_) \
    CL_FUNCTION size_t name(uint d) { return d == 0 ? x_ : d == 1 ? y_ : d == 2 ? z_ : 0; }
CL_INDEX(get_local_id, threadIdx.x, threadIdx.y, threadIdx.z)
CL_INDEX(get_group_id, blockIdx.x, blockIdx.y, blockIdx.z)
CL_INDEX(get_local_size, blockDim.x, blockDim.y, blockDim.z)
CL_INDEX(get_num_groups, gridDim.x, gridDim.y, gridDim.z)
CL_FUNCTION size_t get_global_id(uint d) { return get_group_id(d) * get_local_size(d) + get_local_id(d); }
CL_FUNCTION size_t get_global_size(uint d) { return get_num_groups(d) * get_local_size(d); }
CL_FUNCTION size_t get_global_offset(uint) { return 0; }
CL_FUNCTION uint get_work_dim() { return 3; }

#define barrier(flags) __syncthreads()
#define work_group_barrier(...) __syncthreads()
#define mem_fence(flags) __threadfence_block()
#define read_mem_fence(flags) __threadfence_block()
#define write_mem_fence(flags) __threadfence_block()

// Vectors (6.1.2): as large as their elements, and aligned to their size.
namespace cl {
template <typename T> struct same { typedef T type; };
template <typename T, int N> struct store;
template <typename T> struct alignas(2 * sizeof(T)) store<T, 2> {
    union { struct { T x, y; }; struct { T s0, s1; }; struct { T lo, hi; }; T at[2]; };
};
template <typename T> struct alignas(4 * sizeof(T)) store<T, 3> {
    union { struct { T x, y, z; }; struct { T s0, s1, s2; }; T at[3]; };
};
template <typename T> struct alignas(4 * sizeof(T)) store<T, 4> {
    union { struct { T x, y, z, w; }; struct { T s0, s1, s2, s3; }; T at[4]; };
};
template <typename T> struct alignas(8 * sizeof(T)) store<T, 8> {
    union { struct { T s0, s1, s2, s3, s4, s5, s6, s7; }; T at[8]; };
};
template <typename T> struct alignas(16 * sizeof(T)) store<T, 16> {
    union {
        struct { T s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, sa, sb, sc, sd, se, sf; };
        struct { T _0, _1, _2, _3, _4, _5, _6, _7, _8, _9, sA, sB, sC, sD, sE, sF; };
        T at[16];
    };
};
template <typename T, int N> struct vec : store<T, N> {
    vec() = default;
    __device__ __forceinline__ vec(T value) {
#pragma unroll
        for (int i = 0; i < N; i++) this->at[i] = value;
    }
    template <typename A, typename B, typename... More>
    __device__ __forceinline__ vec(A a, B b, More... more) { fill(0, a, b, more...); }
private:
    __device__ __forceinline__ void fill(int) {}
    template <typename... More>
    __device__ __forceinline__ void fill(int i, T value, More... more) {
        this->at[i] = value;
        fill(i + 1, more...);
    }
    template <int M, typename... More>
    __device__ __forceinline__ void fill(int i, vec<T, M> part, More... more) {
#pragma unroll
        for (int j = 0; j < M; j++) this->at[i + j] = part.at[j];
        fill(i + M, more...);
    }
};
#define CL_OPERATOR(op) \
    template <typename T, int N> CL_FUNCTION vec<T, N> operator op(vec<T, N> a, vec<T, N> b) { \
        vec<T, N> c; \
        _Pragma("unroll") for (int i = 0; i < N; i++) c.at[i] = a.at[i] op b.at[i]; \
        return c; \
    } \
    template <typename T, int N> \
    CL_FUNCTION vec<T, N> operator op(vec<T, N> a, typename same<T>::type b) { return a op vec<T, N>(b); } \
    template <typename T, int N> \
    CL_FUNCTION vec<T, N> operator op(typename same<T>::type a, vec<T, N> b) { return vec<T, N>(a) op b; } \
    template <typename T, int N, typename B> \
    CL_FUNCTION vec<T, N> &operator op##=(vec<T, N> &a, B b) { return a = a op b; }
CL_OPERATOR(+) CL_OPERATOR(-) CL_OPERATOR(*) CL_OPERATOR(/) CL_OPERATOR(%)
CL_OPERATOR(&) CL_OPERATOR(|) CL_OPERATOR(^) CL_OPERATOR(<<) CL_OPERATOR(>>)
template <typename T, int N> CL_FUNCTION vec<T, N> operator-(vec<T, N> a) { return vec<T, N>(T(0)) - a; }
template <typename T, int N> CL_FUNCTION T dot(vec<T, N> a, vec<T, N> b) {
    T sum = a.at[0] * b.at[0];
#pragma unroll
    for (int i = 1; i < N; i++) sum += a.at[i] * b.at[i];
    return sum;
}
template <typename T, int N> CL_FUNCTION vec<T, N> mad(vec<T, N> a, vec<T, N> b, vec<T, N> c) { return a * b + c; }
template <typename T, int N> CL_FUNCTION vec<T, N> fma(vec<T, N> a, vec<T, N> b, vec<T, N> c) { return a * b + c; }
template <int N, typename T> CL_FUNCTION vec<T, N> load(size_t i, const T *from) {
    vec<T, N> found;
#pragma unroll
    for (int j = 0; j < N; j++) found.at[j] = from[i * N + j];
    return found;
}
template <int N, typename T> CL_FUNCTION void store_at(vec<T, N> data, size_t i, T *to) {
#pragma unroll
    for (int j = 0; j < N; j++) to[i * N + j] = data.at[j];
}
template <typename To, typename From> CL_FUNCTION To as(From from) {
    static_assert(sizeof(To) == sizeof(From), "as_TYPE: of another size");
    union { From from; To to; } both;
    both.from = from;
    return both.to;
}
}  // namespace cl

#define CL_VECTORS(T) \
    typedef cl::vec<T, 2> cl_##T##2; typedef cl::vec<T, 3> cl_##T##3; typedef cl::vec<T, 4> cl_##T##4; \
    typedef cl::vec<T, 8> cl_##T##8; typedef cl::vec<T, 16> cl_##T##16;
CL_VECTORS(char) CL_VECTORS(uchar) CL_VECTORS(short) CL_VECTORS(ushort) CL_VECTORS(int)
CL_VECTORS(uint) CL_VECTORS(long) CL_VECTORS(ulong) CL_VECTORS(float) CL_VECTORS(double)
#define vload2 cl::load<2>
#define vload3 cl::load<3>
#define vload4 cl::load<4>
#define vload8 cl::load<8>
#define vload16 cl::load<16>
#define vstore2 cl::store_at<2>
#define vstore3 cl::store_at<3>
#define vstore4 cl::store_at<4>
#define vstore8 cl::store_at<8>
#define vstore16 cl::store_at<16>
#define as_int cl::as<int>
#define as_uint cl::as<uint>
#define as_float cl::as<float>
#define as_long cl::as<long>
#define as_ulong cl::as<ulong>
#define as_double cl::as<double>
#define convert_char(x) ((char)(x))
#define convert_uchar(x) ((uchar)(x))
#define convert_short(x) ((short)(x))
#define convert_ushort(x) ((ushort)(x))
#define convert_int(x) ((int)(x))
#define convert_uint(x) ((uint)(x))
#define convert_long(x) ((long)(x))
#define convert_ulong(x) ((ulong)(x))
#define convert_float(x) ((float)(x))
#define convert_double(x) ((double)(x))

// Functions of numbers (6.12.2 to 6.12.4) that CUDA has by another name or not at all.
CL_FUNCTION float mad(float a, float b, float c) { return fmaf(a, b, c); }
CL_FUNCTION double mad(double a, double b, double c) { return fma(a, b, c); }
template <typename T> CL_FUNCTION T clamp(T x, typename cl::same<T>::type low, typename cl::same<T>::type high) {
    return min(max(x, low), high);
}
template <typename T> CL_FUNCTION T mix(T a, typename cl::same<T>::type b, typename cl::same<T>::type t) { return a + (b - a) * t; }
template <typename T, typename C> CL_FUNCTION T select(T a, T b, C chosen) { return chosen ? b : a; }
template <typename T> CL_FUNCTION T sign(T x) { return (x > 0) - (x < 0); }
#define mad_hi(a, b, c) (__mulhi(a, b) + (c))
#define mad24(a, b, c) (__mul24(a, b) + (c))
#define mul24 __mul24
#define mul_hi __mulhi
#define popcount __popc
#define clz __clz
#define rotate(x, n) __funnelshift_l(x, x, n)
#define native_cos __cosf
#define native_divide __fdividef
#define native_exp __expf
#define native_exp2 exp2f
#define native_log __logf
#define native_log10 __log10f
#define native_log2 __log2f
#define native_powr __powf
#define native_recip(x) __fdividef(1.0f, x)
#define native_rsqrt rsqrtf
#define native_sin __sinf
#define native_sqrt sqrtf
#define native_tan __tanf
#define half_cos __cosf
#define half_divide __fdividef
#define half_exp __expf
#define half_log __logf
#define half_powr __powf
#define half_recip(x) __fdividef(1.0f, x)
#define half_rsqrt rsqrtf
#define half_sin __sinf
#define half_sqrt sqrtf
#define powr pow

// Atomic functions (6.12.11).
#define atomic_add atomicAdd
#define atomic_sub atomicSub
#define atomic_inc(p) atomicAdd(p, 1)
#define atomic_dec(p) atomicSub(p, 1)
#define atomic_min atomicMin
#define atomic_max atomicMax
#define atomic_and atomicAnd
#define atomic_or atomicOr
#define atomic_xor atomicXor
#define atomic_xchg atomicExch
#define atomic_cmpxchg atomicCAS
#define atom_add atomicAdd
#define atom_inc(p) atomicAdd(p, 1)
