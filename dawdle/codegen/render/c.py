"""C with GCC's vector extensions, which gcc, clang and zig share.

A vector of bools is a vector of int32 masks, 0 or -1. Helper functions are printed above the kernel that uses
them, each inside an include guard, so that kernels can be put together into one translation unit in any
order.
"""

from __future__ import annotations

from dawdle.codegen import loop
from dawdle.codegen.expr import Expr, X
from dawdle.codegen.render.base import Renderer
from dawdle.dtype import BY_NAME, DType, bool_, int32
from dawdle.lazy.ops import Op

PRELUDE = "#include <math.h>\n#include <stdint.h>\n"
SIGNATURE = "void {name}(int64_t thread, int64_t threads, void *const *buffers, char *scratch)"

SHORT = {
    "bool": "m32", "bfloat16": "u16", "float16": "u16", "float32": "f32", "float64": "f64",
    **{f"{long}int{n}": f"{short}{n}" for long, short in (("", "i"), ("u", "u")) for n in (8, 16, 32, 64)},
}  # fmt: skip
LIBM: dict[Op | X, str] = {
    Op.SQRT: "sqrt",
    Op.EXP2: "exp2",
    Op.LOG2: "log2",
    Op.SIN: "sin",
    Op.TRUNC: "trunc",
}
FOLDED: dict[Op | X, str] = {Op.ADD: "+", Op.MUL: "*", Op.AND: "&", Op.OR: "|"}


def _mask_type(d: DType) -> DType:
    """The signed integer of ``d``'s width: what comparisons of vectors of ``d`` give."""
    return int32 if d.is_bool else BY_NAME[f"int{d.bits}"]


class CRenderer(Renderer):
    """Prints a loop tree as one C function and the helpers it calls."""

    INLINE = "static inline"
    FLOAT_SUFFIX = "f"  # of library functions on float32

    def helper(self, name: str, text: str) -> str:
        self.helpers.setdefault(name, text)
        return name

    def vector_type(self, d: DType, lanes: int) -> str:
        name = f"{SHORT[d.name]}x{lanes}"
        base = "int32_t" if d.is_bool else self.scalar_type(d)
        size = (4 if d.is_bool else d.itemsize) * lanes
        text = f"typedef {base} {name} __attribute__((vector_size({size})));"
        return self.helper(name, text)

    def unaligned(self, d: DType, lanes: int) -> str:
        """The vector type as it lies in memory, at any address; bools lie there as bytes."""
        name = f"{'u8' if d.is_bool else SHORT[d.name]}x{lanes}u"
        base, size = self.scalar_type(d), d.itemsize * lanes
        text = (
            f"typedef {base} {name} __attribute__((vector_size({size}), aligned({d.itemsize}), may_alias));"
        )
        return self.helper(name, text)

    # vectors

    def convert(self, text: str, to: DType, lanes: int) -> str:
        return f"__builtin_convertvector({text}, {self.vector_type(to, lanes)})"

    def vector_compare(self, n: Expr, s: list[str], sign: str) -> str:
        operand = n.src[0].dtype
        if operand.is_bool:
            return f"(~({s[0]} ^ {s[1]}))" if n.op is Op.CMPEQ else f"(~{s[0]} & {s[1]})"
        mask = _mask_type(operand)
        text = f"({s[0]} {sign} {s[1]})"
        if mask is int32:
            return f"(({self.vector_type(bool_, n.lanes)}){text})"
        return self.convert(f"(({self.vector_type(mask, n.lanes)}){text})", bool_, n.lanes)

    def vector_where(self, n: Expr, s: list[str]) -> str:
        kind, mask = self.vector_type(n.dtype, n.lanes), _mask_type(n.dtype)
        bits, name = self.vector_type(mask, n.lanes), f"select_{kind}"
        body = f"return ({kind})((({bits})a & m) | (({bits})b & ~m));"
        self.helper(name, f"{self.INLINE} {kind} {name}({bits} m, {kind} a, {kind} b) {{ {body} }}")
        condition = s[0] if mask is int32 else self.convert(s[0], mask, n.lanes)
        return f"{name}({condition}, {s[1]}, {s[2]})"

    def vector_cast(self, n: Expr, text: str) -> str:
        source = n.src[0].dtype
        if n.dtype.is_bool:
            zero = f"(({self.vector_type(source, n.lanes)}){{0}})"
            mask = self.vector_type(_mask_type(source), n.lanes)
            return self.convert(f"(({mask})({text} != {zero}))", bool_, n.lanes)
        if source.is_bool:
            text = f"({text} & 1)"
        return self.convert(text, n.dtype, n.lanes)

    def vector_load(self, n: Expr, index: str) -> str:
        text = f"(*(const {self.unaligned(n.dtype, n.lanes)} *)({n.arg} + {index}))"
        if n.dtype.is_bool:
            return f"(-{self.convert(text, bool_, n.lanes)})"
        return f"(({self.vector_type(n.dtype, n.lanes)}){text})"

    def vector_store(self, s: loop.Store) -> str:
        d, lanes = s.value.dtype, s.value.lanes
        place = f"(*({self.unaligned(d, lanes)} *)({s.target} + {self.text(s.index)}))"
        if d.is_bool:
            packed = f"__builtin_convertvector({self.text(s.value)} & 1, {self.unaligned(d, lanes)})"
            return f"{place} = {packed};"
        return f"{place} = {self.combined(s, f'(({self.vector_type(d, lanes)}){place})')};"

    def zero(self, n: Expr) -> str:
        return "0" if n.lanes == 1 else f"(({self.vector_type(n.dtype, n.lanes)}){{0}})"

    # functions

    def function(self, n: Expr) -> str:
        name: str = getattr(self, FUNCTIONS[n.op])(n)
        return name

    def each_lane(self, n: Expr, name: str, scalar: str, operands: int) -> str:
        """A helper that applies a scalar function to each lane; the compiler vectorises the ones it can."""
        kind = self.vector_type(n.dtype, n.lanes)
        names = "abc"[:operands]
        sources = [self.vector_type(s.dtype, n.lanes) for s in n.src]
        arguments = ", ".join(f"{t} {x}" for t, x in zip(sources, names, strict=True))
        call = scalar + "(" + ", ".join(f"{x}[i]" for x in names) + ")"
        body = f"{kind} r; for (int i = 0; i < {n.lanes}; i++) r[i] = {call}; return r;"
        return self.helper(f"{name}_{kind}", f"{self.INLINE} {kind} {name}_{kind}({arguments}) {{ {body} }}")

    def libm(self, n: Expr) -> str:
        name = LIBM[n.op]
        scalar = name + ("f" if n.dtype.bits == 32 else "")
        return scalar if n.lanes == 1 else self.each_lane(n, name, scalar, 1)

    def fma(self, n: Expr) -> str:
        kind, suffix = self.type_of(n.dtype, n.lanes), "f" if n.dtype.bits == 32 else ""
        name = f"fma_{kind}"
        call = f"return __builtin_fma{suffix}(a, b, c);"
        if n.lanes > 1:
            lane = f"r[i] = __builtin_fma{suffix}(a[i], b[i], c[i])"
            call = f"{kind} r; for (int i = 0; i < {n.lanes}; i++) {lane}; return r;"
        body = FUSED.format(fast=f"__FP_FAST_FMA{suffix.upper()}", call=call)
        return self.helper(name, f"{self.INLINE} {kind} {name}({kind} a, {kind} b, {kind} c) {{\n{body}\n}}")

    def maximum(self, n: Expr) -> str:
        if n.dtype.is_bool and n.lanes > 1:
            kind = self.vector_type(n.dtype, n.lanes)  # a mask, whose lanes are 0 and -1
            text = f"{self.INLINE} {kind} or_{kind}({kind} a, {kind} b) {{ return a | b; }}"
            return self.helper(f"or_{kind}", text)
        scalar = self.scalar_maximum(n.dtype)
        return scalar if n.lanes == 1 else self.each_lane(n, "max", scalar, 2)

    def scalar_maximum(self, d: DType) -> str:
        kind, name = self.scalar_type(d), f"max_{SHORT[d.name]}"
        test = "a > b || a != a" if d.is_float else "a > b"
        return self.helper(
            name, f"{self.INLINE} {kind} {name}({kind} a, {kind} b) {{ return {test} ? a : b; }}"
        )

    def division(self, n: Expr) -> str:
        name = f"{n.op.value}_{SHORT[n.dtype.name]}"
        kind = self.scalar_type(n.dtype)
        body = (
            FLOAT_DIVISION[n.op] if n.dtype.is_float else (SIGNED if n.dtype.kind == "i" else UNSIGNED)[n.op]
        )
        body = body.replace("$f", self.FLOAT_SUFFIX if n.dtype.bits == 32 else "").replace("$T", kind)
        self.helper(name, f"{self.INLINE} {kind} {name}({kind} a, {kind} b) {{ {body} }}")
        return name if n.lanes == 1 else self.each_lane(n, n.op.value, name, 2)

    def bitcast(self, n: Expr, s: list[str]) -> str:
        source = n.src[0].dtype
        if n.lanes > 1:
            return f"(({self.vector_type(n.dtype, n.lanes)}){s[0]})"
        name = f"bits_{SHORT[source.name]}_{SHORT[n.dtype.name]}"
        a, b = self.scalar_type(source), self.scalar_type(n.dtype)
        body = f"union {{ {a} a; {b} b; }} u; u.a = x; return u.b;"
        return self.helper(name, f"{self.INLINE} {b} {name}({a} x) {{ {body} }}") + f"({s[0]})"

    def broadcast(self, n: Expr) -> str:
        kind = self.vector_type(n.dtype, n.lanes)
        base = "int32_t" if n.dtype.is_bool else self.scalar_type(n.dtype)
        lanes = ", ".join(["-x" if n.dtype.is_bool else "x"] * n.lanes)
        name = f"splat_{kind}"
        return self.helper(name, f"{self.INLINE} {kind} {name}({base} x) {{ return ({kind}){{{lanes}}}; }}")

    def combined_text(self, op: Op, d: DType, a: str, b: str) -> str:
        """Two scalars combined by the op of a reduction."""
        if op is Op.MAX and not d.is_bool:
            return f"{self.scalar_maximum(d)}({a}, {b})"
        return f"({a} {FOLDED[Op.OR if op is Op.MAX else op]} {b})"

    def lane(self, vector: str, i: int) -> str:
        return f"{vector}[{i}]"

    def fold(self, n: Expr) -> str:
        """Combine the lanes of a vector in a balanced tree."""
        (source,), op = n.src, n.arg
        kind, scalar = self.vector_type(source.dtype, source.lanes), self.scalar_type(n.dtype)
        parts = [self.lane("v", i) for i in range(source.lanes)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [self.combined_text(op, n.dtype, parts[i], parts[i + half]) for i in range(half)]
        name = f"fold_{op.value}_{'mask_' if n.dtype.is_bool else ''}{kind}"
        value = f"{parts[0]} != 0" if n.dtype.is_bool else parts[0]
        return self.helper(name, f"{self.INLINE} {scalar} {name}({kind} v) {{ return {value}; }}")

    def vector(self, n: Expr, s: list[str]) -> str:
        lanes = [f"-({x})" for x in s] if n.dtype.is_bool else s
        return f"(({self.vector_type(n.dtype, n.lanes)}){{{', '.join(lanes)}}})"

    # the whole

    def render(self, f: loop.Function) -> str:
        """The function and its helpers as source text."""
        self.arrays = {name: loop.Alloc(name, dtype, 0, "param") for name, dtype, _ in f.params}
        self.begin(f)
        self.statements(f.body, 1)
        guarded = [f"#ifndef dw_{n}\n#define dw_{n}\n{text}\n#endif" for n, text in self.helpers.items()]
        return "\n".join([*guarded, self.signature(f) + " {", *self.lines, "}", ""])

    def signature(self, f: loop.Function) -> str:
        return SIGNATURE.format(name=f.name)

    def begin(self, f: loop.Function) -> None:
        """Bind the parameters' names."""
        for i, (name, dtype, written) in enumerate(f.params):
            kind = f"{'' if written else 'const '}{self.scalar_type(dtype)}"
            self.line(1, f"{self.pointer(kind, name)} = buffers[{i}];")


FUNCTIONS: dict[Op | X, str] = {  # the methods that make the helpers
    **dict.fromkeys(LIBM, "libm"),
    **dict.fromkeys((Op.IDIV, Op.MOD), "division"),
    Op.MAX: "maximum",
    Op.FMA: "fma",
    X.BROADCAST: "broadcast",
    X.FOLD: "fold",
}
# a vector's: clang makes one instruction of the product and the sum, gcc of the lanes' functions
FUSED = """#if defined(__clang__)
#pragma clang fp contract(fast)
  return a * b + c;
#elif defined({fast})
  {call}
#else
  return a * b + c;
#endif"""
UNSIGNED: dict[Op | X, str] = {Op.IDIV: "return b ? a / b : 0;", Op.MOD: "return b ? a % b : 0;"}
SIGNED: dict[Op | X, str] = {  # -1 is apart because the least integer divided by it traps
    Op.IDIV: "if (b == 0) return 0; if (b == -1) return ($T)(-a); $T q = a / b; "
    "return q - (a % b && (a < 0) != (b < 0));",
    Op.MOD: "if (b == 0 || b == -1) return 0; $T r = a % b; return r && (r < 0) != (b < 0) ? r + b : r;",
}
FLOAT_DIVISION: dict[Op | X, str] = {
    Op.MOD: "$T r = fmod$f(a, b); if (b == 0) return r; if (r == 0) return copysign$f(0, b); "
    "return (r < 0) != (b < 0) ? r + b : r;",
    Op.IDIV: "if (b == 0) return a / b; $T r = fmod$f(a, b), q = (a - r) / b; "
    "if (r != 0 && (r < 0) != (b < 0)) q -= 1; "
    "if (q == 0) return copysign$f(0, a / b); $T n = floor$f(q); return q - n > ($T)0.5 ? n + 1 : n;",
}


def render_c(f: loop.Function) -> str:
    """The C source of one kernel; put PRELUDE above it once."""
    return CRenderer().render(f)
