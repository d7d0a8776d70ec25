// CUDA's language on the host: what a generated kernel's source means without a GPU.
//
// It stands before the source in a translation unit. runner.cpp runs each CUDA thread as a fiber, in an order drawn
// from a seed, from one barrier to the next, so a barrier that is missing shows as wrong values. Nothing is included:
// the source defines the integer types itself, as it must for NVRTC.
#pragma once

#define __CUDACC_RTC__ 1
#define __CUDA_ARCH__ DW_ARCH
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define alignas(...) __attribute__((aligned(__VA_ARGS__)))  // which may stand anywhere in a declaration
#define __constant__ static const
#define __grid_constant__
// one block runs at a time, so its shared memory is the kernel's own section, which the runner fills with garbage
// before each block; DW_SECTION is set before each kernel
#define __shared__ static __attribute__((section(DW_SECTION)))

struct dw_dim { unsigned x, y, z; };
extern "C" {
extern dw_dim threadIdx, blockIdx, blockDim, gridDim;
void dw_block_barrier(int line);
// hands over `mine` to the lanes of the mask and gives what lane `from` handed over
unsigned long long dw_shuffle(unsigned mask, unsigned long long mine, int from, int line);
void dw_warp_barrier(unsigned mask, int line);
unsigned dw_ballot(unsigned mask, int predicate, int line);
void dw_async_copy(void *to, const void *from, int bytes, int line);
void dw_async_commit();
void dw_async_wait(int pending);
[[noreturn]] void dw_fail(const char *what, int line);
}
// what the renderer's copies to shared memory become: none arrives before it is waited for
template <class T> static inline void dw_copy(T *to, const T *from, bool valid) {
  if ((sizeof(T) == 4 || sizeof(T) == 8) && __CUDA_ARCH__ >= 800)
    dw_async_copy(to, valid ? from : nullptr, sizeof(T), __LINE__);
  else
    *to = valid ? *from : (T)0;
}
#define warpSize 32
#define __syncthreads() dw_block_barrier(__LINE__)
#define __syncwarp(...) dw_warp_barrier(dw_mask(__VA_ARGS__), __LINE__)
#define __ballot_sync(mask, p) dw_ballot(mask, p, __LINE__)
#define __shfl_sync(...) dw_shfl(__LINE__, __VA_ARGS__)
#define __shfl_xor_sync(...) dw_shfl_xor(__LINE__, __VA_ARGS__)
#define __shfl_down_sync(...) dw_shfl_down(__LINE__, __VA_ARGS__)
#define __shfl_up_sync(...) dw_shfl_up(__LINE__, __VA_ARGS__)

static inline unsigned dw_mask(unsigned mask = 0xffffffffu) { return mask; }
static inline int dw_lane() {
  return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31;
}
template <class T> static inline T dw_exchange(int line, unsigned mask, T value, int from) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "a shuffle's operand");
  unsigned long long bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(T));
  bits = dw_shuffle(mask, bits, from, line);
  __builtin_memcpy(&value, &bits, sizeof(T));
  return value;
}
// lanes of each segment of `width` keep to themselves: what would come from outside is the lane's own value
template <class T> static inline T dw_shfl(int line, unsigned mask, T v, int source, int width = 32) {
  int lane = dw_lane();
  return dw_exchange(line, mask, v, (lane & -width) + (source & (width - 1)));
}
template <class T> static inline T dw_shfl_xor(int line, unsigned mask, T v, int bits, int width = 32) {
  int lane = dw_lane(), from = lane ^ bits;
  return dw_exchange(line, mask, v, from < (lane & -width) + width ? from : lane);
}
template <class T> static inline T dw_shfl_down(int line, unsigned mask, T v, unsigned by, int width = 32) {
  int lane = dw_lane(), from = lane + (int)by;
  return dw_exchange(line, mask, v, from < (lane & -width) + width ? from : lane);
}
template <class T> static inline T dw_shfl_up(int line, unsigned mask, T v, unsigned by, int width = 32) {
  int lane = dw_lane(), from = lane - (int)by;
  return dw_exchange(line, mask, v, from >= (lane & -width) ? from : lane);
}

// functions that CUDA declares without an include
#define NAN __builtin_nanf("")
#define INFINITY __builtin_inff()
#define DW_MATH(name) \
  extern "C" float name##f(float); \
  extern "C" double name(double);
#define DW_MATH2(name) \
  extern "C" float name##f(float, float); \
  extern "C" double name(double, double);
DW_MATH(exp2) DW_MATH(log2) DW_MATH(sin) DW_MATH(cos) DW_MATH(sqrt) DW_MATH(trunc) DW_MATH(floor) DW_MATH(ceil)
DW_MATH(rint) DW_MATH(exp) DW_MATH(log) DW_MATH(fabs) DW_MATH(tanh)
DW_MATH2(fmax) DW_MATH2(fmin) DW_MATH2(fmod) DW_MATH2(pow) DW_MATH2(copysign)
extern "C" float fmaf(float, float, float);
extern "C" double fma(double, double, double);
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
// operations that must not be contracted into a fused multiply-add
#define DW_ROUNDED(name, type, op) \
  static inline __attribute__((noinline)) type name(type a, type b) { return a op b; }
DW_ROUNDED(__fadd_rn, float, +) DW_ROUNDED(__fsub_rn, float, -) DW_ROUNDED(__fmul_rn, float, *)
DW_ROUNDED(__fdiv_rn, float, /) DW_ROUNDED(__dadd_rn, double, +) DW_ROUNDED(__dsub_rn, double, -)
DW_ROUNDED(__dmul_rn, double, *) DW_ROUNDED(__ddiv_rn, double, /)
static inline float __fsqrt_rn(float a) { return sqrtf(a); }
static inline double __dsqrt_rn(double a) { return sqrt(a); }
static inline float rsqrtf(float a) { return 1 / sqrtf(a); }
static inline float __frcp_rn(float a) { return 1 / a; }
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class To, class From> static inline To dw_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "reinterpreted at the same size");
  To y;
  __builtin_memcpy(&y, &x, sizeof(To));
  return y;
}
static inline int __float_as_int(float x) { return dw_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return dw_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return dw_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return dw_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return dw_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return dw_bits<double>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline int min(int a, int b) { return a < b ? a : b; }

template <class T> static inline T atomicAdd(T *p, T v) { T old = *p; *p = old + v; return old; }

struct __attribute__((aligned(8))) float2 { float x, y; };
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
struct __attribute__((aligned(16))) double2 { double x, y; };
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
struct __attribute__((aligned(16))) int4 { int x, y, z, w; };

// calls a kernel with pointers to its parameters; braces evaluate their items in order
struct dw_invoke {
  template <class F, class... A> dw_invoke(F f, A... a) { f(a...); }
};
template <class... A> static inline void dw_apply(void (*f)(A...), void **p) {
  int i = 0;
  dw_invoke{f, (A)p[i++]...};
}
