// OpenCL C 1.2's functions for clang's own front end, whose opencl-c-base.h has the types. Vectors
// are built of halves. What is missing here (images, subgroups, sin) clang refuses by name.
#define CL_FUNCTION static __attribute__((overloadable, always_inline, unused))
#define CL_FLOATS(F) F(float) F(double)
#define CL_INTEGERS(F) F(char) F(uchar) F(short) F(ushort) F(int) F(uint) F(long) F(ulong)
#define CL_TYPES(F) CL_INTEGERS(F) CL_FLOATS(F)

// Work items: the launch's numbers stand behind the arguments (code objects of version 5).
#define CL_INDEX(name, of) \
    CL_FUNCTION size_t name(uint d) { return d == 0 ? of##_x() : d == 1 ? of##_y() : of##_z(); }
CL_INDEX(get_local_id, __builtin_amdgcn_workitem_id)
CL_INDEX(get_group_id, __builtin_amdgcn_workgroup_id)
CL_INDEX(get_local_size, __builtin_amdgcn_workgroup_size)
#define CL_LAUNCH(T, bytes) ((__constant T *)((__constant char *)__builtin_amdgcn_implicitarg_ptr() + bytes))
CL_FUNCTION size_t get_num_groups(uint d) { return CL_LAUNCH(uint, 0)[d]; }
CL_FUNCTION size_t get_global_offset(uint d) { return CL_LAUNCH(ulong, 40)[d]; }
CL_FUNCTION uint get_work_dim() { return *CL_LAUNCH(ushort, 64); }
CL_FUNCTION size_t get_global_id(uint d) {
    return (uint)get_group_id(d) * (uint)get_local_size(d) + (uint)get_local_id(d) + get_global_offset(d);
}
CL_FUNCTION size_t get_global_size(uint d) { return get_num_groups(d) * get_local_size(d); }

#define CL_FENCE(order, flags) __builtin_amdgcn_fence(order, "workgroup")
#define mem_fence(flags) CL_FENCE(__ATOMIC_ACQ_REL, flags)
#define read_mem_fence(flags) CL_FENCE(__ATOMIC_ACQUIRE, flags)
#define write_mem_fence(flags) CL_FENCE(__ATOMIC_RELEASE, flags)
#define barrier(flags) \
    (CL_FENCE(__ATOMIC_RELEASE, flags), __builtin_amdgcn_s_barrier(), CL_FENCE(__ATOMIC_ACQUIRE, flags))
#define work_group_barrier(...) barrier(0)

// Vectors in memory are aligned to their elements.
#define CL_MEMORY_OF(T, N, SPACE) \
    CL_FUNCTION T##N vload##N(size_t i, const SPACE T *p) { \
        typedef T##N packed __attribute__((aligned(sizeof(T)))); \
        return *(const SPACE packed *)(p + i * N); \
    } \
    CL_FUNCTION void vstore##N(T##N x, size_t i, SPACE T *p) { \
        typedef T##N packed __attribute__((aligned(sizeof(T)))); \
        *(SPACE packed *)(p + i * N) = x; \
    }
#define CL_MEMORY_IN(T, SPACE) \
    CL_MEMORY_OF(T, 2, SPACE) CL_MEMORY_OF(T, 4, SPACE) CL_MEMORY_OF(T, 8, SPACE) CL_MEMORY_OF(T, 16, SPACE)
#define CL_MEMORY(T) CL_MEMORY_IN(T, __global) CL_MEMORY_IN(T, __local) CL_MEMORY_IN(T, __private)
CL_TYPES(CL_MEMORY)

#define CL_ALL(F, T) F(T) F(T##2) F(T##3) F(T##4) F(T##8) F(T##16)
#define CL_FROM_(To, From, N) CL_FUNCTION To##N convert_##To##N(From##N x) { return __builtin_convertvector(x, To##N); }
#define CL_FROM(To, From) CL_FUNCTION To convert_##To(From x) { return x; } \
    CL_FROM_(To, From, 2) CL_FROM_(To, From, 3) CL_FROM_(To, From, 4) CL_FROM_(To, From, 8) CL_FROM_(To, From, 16)
#define CL_CONVERT(T) CL_FROM(T, char) CL_FROM(T, uchar) CL_FROM(T, short) CL_FROM(T, ushort) CL_FROM(T, int) \
    CL_FROM(T, uint) CL_FROM(T, long) CL_FROM(T, ulong) CL_FROM(T, float) CL_FROM(T, double)
CL_TYPES(CL_CONVERT)

// Functions of numbers.
#define CL_BOTH(V) \
    CL_FUNCTION V min(V a, V b) { return __builtin_elementwise_min(a, b); } \
    CL_FUNCTION V max(V a, V b) { return __builtin_elementwise_max(a, b); } \
    CL_FUNCTION V clamp(V x, V low, V high) { return min(max(x, low), high); }
#define CL_FLOAT(V) CL_BOTH(V) \
    CL_FUNCTION V fmin(V a, V b) { return __builtin_elementwise_min(a, b); } \
    CL_FUNCTION V fmax(V a, V b) { return __builtin_elementwise_max(a, b); } \
    CL_FUNCTION V fabs(V x) { return __builtin_elementwise_abs(x); } \
    CL_FUNCTION V floor(V x) { return __builtin_elementwise_floor(x); } \
    CL_FUNCTION V ceil(V x) { return __builtin_elementwise_ceil(x); } \
    CL_FUNCTION V trunc(V x) { return __builtin_elementwise_trunc(x); } \
    CL_FUNCTION V rint(V x) { return __builtin_elementwise_rint(x); } \
    CL_FUNCTION V fma(V a, V b, V c) { return __builtin_elementwise_fma(a, b, c); } \
    CL_FUNCTION V mad(V a, V b, V c) { return a * b + c; } \
    CL_FUNCTION V mix(V a, V b, V t) { return mad(b - a, t, a); }
#define CL_OF_INTEGERS(T) CL_ALL(CL_BOTH, T)
#define CL_OF_FLOATS(T) CL_ALL(CL_FLOAT, T) \
    CL_FUNCTION T dot(T a, T b) { return a * b; } \
    CL_FUNCTION T dot(T##2 a, T##2 b) { return mad(a.x, b.x, a.y * b.y); } \
    CL_FUNCTION T dot(T##3 a, T##3 b) { return mad(a.x, b.x, dot(a.yz, b.yz)); } \
    CL_FUNCTION T dot(T##4 a, T##4 b) { return mad(a.x, b.x, dot(a.yzw, b.yzw)); } \
    CL_SCALAR(T, 2) CL_SCALAR(T, 3) CL_SCALAR(T, 4) CL_SCALAR(T, 8) CL_SCALAR(T, 16)
#define CL_SCALAR(T, N) \
    CL_FUNCTION T##N min(T##N a, T b) { return min(a, (T##N)(b)); } \
    CL_FUNCTION T##N max(T##N a, T b) { return max(a, (T##N)(b)); } \
    CL_FUNCTION T##N fmin(T##N a, T b) { return min(a, (T##N)(b)); } \
    CL_FUNCTION T##N fmax(T##N a, T b) { return max(a, (T##N)(b)); } \
    CL_FUNCTION T##N clamp(T##N x, T low, T high) { return clamp(x, (T##N)(low), (T##N)(high)); } \
    CL_FUNCTION T##N mix(T##N a, T##N b, T t) { return mix(a, b, (T##N)(t)); }
CL_INTEGERS(CL_OF_INTEGERS)
CL_FLOATS(CL_OF_FLOATS)
#define CL_BY_HALVES(f) \
    CL_FUNCTION float2 f(float2 x) { return (float2)(f(x.x), f(x.y)); } \
    CL_FUNCTION float3 f(float3 x) { return (float3)(f(x.xy), f(x.z)); } \
    CL_FUNCTION float4 f(float4 x) { return (float4)(f(x.lo), f(x.hi)); } \
    CL_FUNCTION float8 f(float8 x) { return (float8)(f(x.lo), f(x.hi)); } \
    CL_FUNCTION float16 f(float16 x) { return (float16)(f(x.lo), f(x.hi)); }
#define CL_OF_FLOAT(f, value) CL_FUNCTION float f(float x) { return value; } CL_BY_HALVES(f)
CL_OF_FLOAT(sqrt, __builtin_sqrtf(x))
CL_OF_FLOAT(exp, __builtin_expf(x))
CL_OF_FLOAT(exp2, __builtin_exp2f(x))
CL_OF_FLOAT(log, __builtin_logf(x))
CL_OF_FLOAT(log2, __builtin_log2f(x))
CL_OF_FLOAT(log10, __builtin_log10f(x))
CL_OF_FLOAT(rsqrt, __builtin_amdgcn_rsqf(x))
CL_OF_FLOAT(native_sqrt, __builtin_amdgcn_sqrtf(x))
CL_OF_FLOAT(native_rsqrt, __builtin_amdgcn_rsqf(x))
CL_OF_FLOAT(native_recip, __builtin_amdgcn_rcpf(x))
CL_OF_FLOAT(native_exp2, __builtin_amdgcn_exp2f(x))
CL_OF_FLOAT(native_exp, __builtin_amdgcn_exp2f(x * M_LOG2E_F))
CL_OF_FLOAT(native_log2, __builtin_amdgcn_logf(x))
CL_OF_FLOAT(native_log, __builtin_amdgcn_logf(x) * M_LN2_F)
CL_OF_FLOAT(native_sin, __builtin_amdgcn_sinf(__builtin_amdgcn_fractf(x * 0.15915494f)))
CL_OF_FLOAT(native_cos, __builtin_amdgcn_cosf(__builtin_amdgcn_fractf(x * 0.15915494f)))
CL_FUNCTION double sqrt(double x) { return __builtin_sqrt(x); }
#define native_divide(a, b) ((a) * native_recip(b))
#define half_sqrt native_sqrt
#define half_rsqrt native_rsqrt
#define half_recip native_recip
#define half_divide native_divide
#define half_exp native_exp
#define half_log native_log
#define mul24(a, b) ((((a) << 8) >> 8) * (((b) << 8) >> 8))
#define mad24(a, b, c) (mul24(a, b) + (c))
#define select(a, b, chosen) ((chosen) ? (b) : (a))
CL_FUNCTION int mul_hi(int a, int b) { return (long)a * b >> 32; }
CL_FUNCTION uint mul_hi(uint a, uint b) { return (ulong)a * b >> 32; }
CL_FUNCTION int popcount(uint x) { return __builtin_popcount(x); }
CL_FUNCTION int clz(uint x) { return x ? __builtin_clz(x) : 32; }
CL_FUNCTION uint rotate(uint x, uint n) { return __builtin_rotateleft32(x, n); }

// Atomic functions order nothing else.
#define atomic_add(p, x) __atomic_fetch_add(p, x, __ATOMIC_RELAXED)
#define atomic_sub(p, x) __atomic_fetch_sub(p, x, __ATOMIC_RELAXED)
#define atomic_inc(p) atomic_add(p, 1)
#define atomic_dec(p) atomic_sub(p, 1)
#define atomic_min(p, x) __atomic_fetch_min(p, x, __ATOMIC_RELAXED)
#define atomic_max(p, x) __atomic_fetch_max(p, x, __ATOMIC_RELAXED)
#define atomic_and(p, x) __atomic_fetch_and(p, x, __ATOMIC_RELAXED)
#define atomic_or(p, x) __atomic_fetch_or(p, x, __ATOMIC_RELAXED)
#define atomic_xor(p, x) __atomic_fetch_xor(p, x, __ATOMIC_RELAXED)
#define atomic_xchg(p, x) __atomic_exchange_n(p, x, __ATOMIC_RELAXED)
#define atomic_cmpxchg(p, old, x) __sync_val_compare_and_swap(p, old, x)
#define atom_add atomic_add
#define atom_inc atomic_inc
