"""CUDA C++ for NVRTC and nvcc. Vectors are arrays with operators; those of aligned neighbours load and store
at once.

A vector of bools is a vector of int masks, 0 or -1.
"""

from __future__ import annotations

from dawdle.codegen import loop
from dawdle.codegen.algebra import terms_of
from dawdle.codegen.expr import Expr, X
from dawdle.codegen.render.base import WRAPPED
from dawdle.codegen.render.c import SHORT, CRenderer
from dawdle.dtype import DType
from dawdle.lazy.ops import Op

PRELUDE = """
#ifdef __CUDACC_RTC__
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif
#undef NAN
#undef INFINITY
#define NAN (__int_as_float(0x7fffffff))
#define INFINITY (__int_as_float(0x7f800000))
#define DW static __device__ __forceinline__
template <class T> struct whole { static constexpr bool value = (T)0.5 == (T)0; };
template <class T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) vec {
  T v[N];
  __device__ T &operator[](int i) { return v[i]; }
  __device__ const T &operator[](int i) const { return v[i]; }
};
#define EACH for (int i = 0; i < N; i++)
#define WRAPPED(OP) template <class T, int N> DW vec<T, N> operator OP(vec<T, N> a, vec<T, N> b) { \\
  vec<T, N> r; \\
  EACH if constexpr (whole<T>::value) r.v[i] = (T)((uint64_t)a.v[i] OP (uint64_t)b.v[i]); \\
  else r.v[i] = a.v[i] OP b.v[i]; \\
  return r; }
WRAPPED(+) WRAPPED(-) WRAPPED(*)
#define PLAIN(OP) template <class T, int N> DW vec<T, N> operator OP(vec<T, N> a, vec<T, N> b) { \\
  vec<T, N> r; EACH r.v[i] = (T)(a.v[i] OP b.v[i]); return r; }
PLAIN(/) PLAIN(%) PLAIN(&) PLAIN(|) PLAIN(^) PLAIN(<<) PLAIN(>>)
#define COMPARE(OP) template <class T, int N> DW vec<int, N> operator OP(vec<T, N> a, vec<T, N> b) { \\
  vec<int, N> r; EACH r.v[i] = -(int)(a.v[i] OP b.v[i]); return r; }
COMPARE(<) COMPARE(==)
template <class T, int N> DW vec<T, N> operator-(vec<T, N> a) { EACH a.v[i] = (T)(-a.v[i]); return a; }
template <int N> DW vec<int, N> operator~(vec<int, N> a) { EACH a.v[i] = ~a.v[i]; return a; }
template <class T, int N> DW vec<T, N> select(vec<int, N> m, vec<T, N> a, vec<T, N> b) {
  vec<T, N> r; EACH r.v[i] = m.v[i] ? a.v[i] : b.v[i]; return r; }
template <class U, class T, int N> DW vec<U, N> convert(vec<T, N> a) {
  vec<U, N> r; EACH r.v[i] = (U)a.v[i]; return r; }
template <class T, int N> DW vec<int, N> truth(vec<T, N> a) {
  vec<int, N> r; EACH r.v[i] = -(int)(a.v[i] != 0); return r; }
template <class T, int N> DW vec<T, N> splat(T x) { vec<T, N> r; EACH r.v[i] = x; return r; }
template <class U, class T> DW U bits(T x) { union { T a; U b; } u; u.a = x; return u.b; }
template <int N, class T> DW vec<T, N> gather(const T *p) { vec<T, N> r; EACH r.v[i] = p[i]; return r; }
template <class T, int N> DW void scatter(T *p, vec<T, N> x) { EACH p[i] = x.v[i]; }
"""
# Copies to shared memory that pass by the registers and run on while the thread computes (PTX ISA, cp.async).
COPIES = """template <class T> DW void copy(T *to, const T *from, bool valid) {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::
      "r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from), "n"((int)sizeof(T)),
      "r"(valid ? (int)sizeof(T) : 0));
    return;
  }
#endif
  *to = valid ? *from : (T)0;
}
DW void wait_for_copies() {
#if defined(__CUDACC__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}"""
# The product of a warp's 16 x 16 and 16 x 8 tiles, added to c; in emulation by shuffles.
MMA = """DW vec<float, 4> mma_{kind}({register} a0, {register} a1, {register} a2, {register} a3,
    {register} b0, {register} b1, vec<float, 4> c) {{
#ifdef __CUDACC__
  asm volatile("mma.sync.aligned.m16n8k{terms}.row.col.f32.{kind}.{kind}.f32 "
      "{{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, {{%8, %9}}, {{%0, %1, %2, %3}};"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(packed(a0)), "r"(packed(a1)), "r"(packed(a2)), "r"(packed(a3)), "r"(packed(b0)), "r"(packed(b1)));
#else
  const {register} a[4] = {{a0, a1, a2, a3}}, b[2] = {{b0, b1}};
  const int g = (threadIdx.x & 31) >> 2, t = threadIdx.x & 3;
  for (int k = 0; k < {terms}; k++) for (int j = 0; j < 2; j++) {{
    const int half = 2 * k / {terms}, owner = k % ({terms} / 2) / {width}, part = k % {width};
    const float y = wide_{kind}(__shfl_sync(0xffffffffu, packed(b[half]), (2 * t + j) * 4 + owner), part);
    for (int i = 0; i < 2; i++) {{
      const uint32_t x = __shfl_sync(0xffffffffu, packed(a[i + 2 * half]), g * 4 + owner);
      c.v[2 * i + j] += wide_{kind}(x, part) * y;
    }}
  }}
#endif
  return c;
}}"""
PACKED = {  # a register of factors
    "halves": "DW uint32_t packed(vec<uint16_t, 2> x) { return bits<uint32_t>(x); }",
    "float": """DW uint32_t packed(float x) {
#ifdef __CUDACC__
  uint32_t r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r;
#else
  return (bits<uint32_t>(x) + 0x1000u) & 0xffffe000u;
#endif
}""",
}
WIDE = {  # one factor of it as float32
    "bf16": "return bits<float>(x >> 16 * part << 16);",
    "f16": "x = x >> 16 * part & 0xffffu; "
    "const uint32_t s = (x & 0x7fffu) << 13, f = bits<uint32_t>(bits<float>(s) * 0x1p112f); "
    "return bits<float>(((x & 0x7c00u) == 0x7c00u ? s | 0x7f800000u : f) | (x & 0x8000u) << 16);",
    "tf32": "return bits<float>(x);",
}
KINDS = {"float16": "f16", "bfloat16": "bf16", "float32": "tf32"}
RESIDENT = 512  # threads that a multiprocessor should hold at least: each may then have 128 registers
MOST_BLOCKS = 16  # that a multiprocessor of any generation holds


class CudaRenderer(CRenderer):
    """Prints a loop tree as a CUDA kernel."""

    SHARED = "__shared__ __align__(16)"
    RESTRICT = "__restrict__"
    INLINE = "static __device__ __forceinline__"

    def element(self, d: DType) -> str:
        """What a vector's lane is: a mask where it is a bool."""
        return "int" if d.is_bool else self.scalar_type(d)

    def vector_type(self, d: DType, lanes: int) -> str:
        name = f"{SHORT[d.name]}x{lanes}"
        return self.helper(name, f"typedef vec<{self.element(d)}, {lanes}> {name};")

    def infix(self, n: Expr, s: list[str]) -> str:
        """Signed integers wrap, which the language promises of unsigned ones only."""
        if n.lanes > 1 or n.dtype.kind != "i" or n.op not in WRAPPED:
            return super().infix(n, s)
        return f"(({self.scalar_type(n.dtype)})((uint64_t){s[0]} {WRAPPED[n.op]} (uint64_t){s[1]}))"

    def vector_compare(self, n: Expr, s: list[str], sign: str) -> str:
        if n.src[0].dtype.is_bool:
            return f"(~({s[0]} ^ {s[1]}))" if n.op is Op.CMPEQ else f"(~{s[0]} & {s[1]})"
        return f"({s[0]} {sign} {s[1]})"

    def vector_where(self, n: Expr, s: list[str]) -> str:
        return f"select({s[0]}, {s[1]}, {s[2]})"

    def vector_cast(self, n: Expr, text: str) -> str:
        if n.dtype.is_bool:
            return f"truth({text})"
        return f"convert<{self.scalar_type(n.dtype)}>({'-' if n.src[0].dtype.is_bool else ''}{text})"

    def aligned(self, index: Expr, lanes: int) -> bool:
        """Whether vectors at ``index`` lie at multiples of their size: buffers do."""
        terms, offset = terms_of(index)
        return all(k % lanes == 0 for k in (*terms.values(), offset))

    def memory(self, name: str, d: DType, index: Expr, lanes: int, const: str) -> str:
        kind = f"vec<{self.scalar_type(d)}, {lanes}>"
        return f"(*({const}{kind} *)({name} + {self.text(index)}))"

    def vector_load(self, n: Expr, index: str) -> str:
        if self.aligned(n.src[0], n.lanes):
            text = self.memory(n.arg, n.dtype, n.src[0], n.lanes, "const ")
        else:
            text = f"gather<{n.lanes}>({n.arg} + {index})"
        return f"truth({text})" if n.dtype.is_bool else text

    def vector_store(self, s: loop.Store) -> str:
        d, lanes = s.value.dtype, s.value.lanes
        aligned = self.aligned(s.index, lanes)
        place = f"{s.target} + {self.text(s.index)}"
        old = self.memory(s.target, d, s.index, lanes, "") if aligned else f"gather<{lanes}>({place})"
        value = f"convert<uint8_t>(-{self.text(s.value)})" if d.is_bool else self.combined(s, old)
        return f"{old} = {value};" if aligned else f"scatter({place}, {value});"

    def zero(self, n: Expr) -> str:
        return "0" if n.lanes == 1 else f"({self.vector_type(n.dtype, n.lanes)}{{}})"

    def bitcast(self, n: Expr, s: list[str]) -> str:
        source = self.scalar_type(n.src[0].dtype)
        text = s[0] if n.lanes > 1 else f"({source}){s[0]}"
        return f"bits<{self.type_of(n.dtype, n.lanes)}>({text})"

    def broadcast(self, n: Expr) -> str:
        kind = self.element(n.dtype)
        return f"splat<{kind}, {n.lanes}>" if not n.dtype.is_bool else self.mask_splat(n.lanes)

    def fma(self, n: Expr) -> str:
        scalar = "fmaf" if n.dtype.bits == 32 else "fma"
        return scalar if n.lanes == 1 else self.each_lane(n, "fma", scalar, 3)

    def mask_splat(self, lanes: int) -> str:
        name = f"splat_mask{lanes}"
        return self.helper(
            name, f"{self.INLINE} vec<int, {lanes}> {name}(int x) {{ return splat<int, {lanes}>(-x); }}"
        )

    def vector(self, n: Expr, s: list[str]) -> str:
        sign, kind = "-" if n.dtype.is_bool else "", self.element(n.dtype)
        return f"({self.vector_type(n.dtype, n.lanes)}{{{{{', '.join(f'({kind}){sign}({x})' for x in s)}}}}})"

    def groupfold(self, n: Expr, s: list[str]) -> str:
        """Shuffles within each warp, then the warps' results through shared memory, the same for every
        thread.
        """
        op, array = n.arg
        kind = self.scalar_type(n.dtype)
        name = f"group_{op.value}_{kind}"
        other = "__shfl_xor_sync(0xffffffffu, x, o)"
        if n.dtype.bits < 32:
            other = f"({kind})__shfl_xor_sync(0xffffffffu, (int)x, o)"
        body = (
            "const int l = threadIdx.x, n = blockDim.x; "
            f"for (int o = 16; o > 0; o >>= 1) x = {self.combined_text(op, n.dtype, 'x', other)}; "
            "__syncthreads(); if ((l & 31) == 0) t[l >> 5] = x; __syncthreads(); x = t[0]; "
            f"for (int w = 1; w < n / 32; w++) x = {self.combined_text(op, n.dtype, 'x', 't[w]')}; return x;"
        )
        self.helper(name, f"{self.INLINE} {kind} {name}({kind} x, {kind} *t) {{ {body} }}")
        return f"{name}({s[0]}, {array})"

    def mma(self, n: Expr) -> str:
        """The name of the helper that adds the product of two tiles' registers to an accumulator."""
        kind, width = KINDS[n.arg.name], 32 // n.arg.bits
        register, packed = ("vec<uint16_t, 2>", "halves") if width == 2 else ("float", "float")
        wide = f"DW float wide_{kind}(uint32_t x, int part) {{ {WIDE[kind]} }}"
        self.helper(f"packed_{packed}", PACKED[packed])
        self.helper(f"wide_{kind}", f"#ifndef __CUDACC__\n{wide}\n#endif")
        text = MMA.format(kind=kind, register=register, terms=8 * width, width=width)
        return self.helper(f"mma_{kind}", text)

    def store(self, s: loop.Store) -> str:
        if s.value.op is X.MMA:
            registers = ", ".join(self.text(x) for x in s.value.src)
            return f"{s.target} = {self.mma(s.value)}({registers}, {s.target});"
        source = self.arrays.get(s.value.arg) if s.value.op is X.LOAD else None
        if self.arrays[s.target].space == "shared" and source is not None and source.space == "param":
            return self.copy(s)
        return super().store(s)

    def copy(self, s: loop.Store) -> str:
        """From a buffer to shared memory, behind the thread's back where the device can; see barrier."""
        kind, (index, *valid) = self.scalar_type(s.value.dtype), s.value.src
        self.helpers.setdefault("copies", COPIES)
        condition = self.text(valid[0]) if valid else "1"
        to, source = f"{s.target} + {self.text(s.index)}", f"{s.value.arg} + {self.text(index)}"
        return f"copy<{kind}>({to}, {source}, {condition});"

    def signature(self, f: loop.Function) -> str:
        params = ", ".join(
            self.pointer(("" if written else "const ") + self.scalar_type(d), name)
            for name, d, written in f.params
        )
        bounds = f"{f.local}, {min(max(1, RESIDENT // f.local), MOST_BLOCKS)}"
        return f'extern "C" __global__ void __launch_bounds__({bounds}) {f.name}({params})'

    def begin(self, f: loop.Function) -> None:
        self.line(1, "[[maybe_unused]] const int64_t group_id = blockIdx.x, local_id = threadIdx.x;")

    def barrier(self) -> str:
        self.helpers.setdefault("copies", COPIES)
        return "wait_for_copies(); __syncthreads();"


def render_cuda(f: loop.Function) -> str:
    """The CUDA source of one GPU kernel; put PRELUDE above it once."""
    return CudaRenderer().render(f)
