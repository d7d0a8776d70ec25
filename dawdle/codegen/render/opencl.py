"""OpenCL C 1.2. Vectors are the language's own; a vector of bools is a vector of int masks, 0 or -1."""

from __future__ import annotations

from dawdle.codegen import loop
from dawdle.codegen.expr import Expr
from dawdle.codegen.render.base import WRAPPED
from dawdle.codegen.render.c import LIBM, CRenderer
from dawdle.dtype import DType, bool_
from dawdle.lazy.ops import Op

PRELUDE = """#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
typedef char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef uchar uint8_t; typedef ushort uint16_t; typedef uint uint32_t; typedef ulong uint64_t;
"""
BASE = {
    "bool": "int", "bfloat16": "ushort", "float16": "ushort", "float32": "float", "float64": "double",
    "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
}  # fmt: skip


class OpenCLRenderer(CRenderer):
    """Prints a loop tree as an OpenCL kernel."""

    SHARED = "__local"
    POINTER = "__global "
    INLINE = ""
    FLOAT_SUFFIX = ""
    grouped = False  # a GPU kernel

    def vector_type(self, d: DType, lanes: int) -> str:
        return f"{BASE[d.name]}{lanes}"

    def infix(self, n: Expr, s: list[str]) -> str:
        """Signed integers wrap, which the language promises of unsigned ones only."""
        if n.dtype.kind != "i" or n.op not in WRAPPED:
            return super().infix(n, s)
        a, b, sign = *s, WRAPPED[n.op]
        kind = self.short(n.dtype, n.lanes)
        if n.lanes > 1:
            return f"as_{kind}(as_u{kind}({a}) {sign} as_u{kind}({b}))"
        return f"(({kind})((u{kind}){a} {sign} (u{kind}){b}))"

    def short(self, d: DType, lanes: int) -> str:
        return BASE[d.name] + (str(lanes) if lanes > 1 else "")

    def neg(self, n: Expr, s: list[str]) -> str:
        return f"(({self.type_of(n.dtype, n.lanes)})(-{s[0]}))"

    def convert(self, text: str, to: DType, lanes: int) -> str:
        return f"convert_{self.vector_type(to, lanes)}({text})"

    def mask(self, d: DType, lanes: int) -> str:
        """What a comparison of vectors of ``d`` gives: signed integers of its width."""
        bits = 32 if d.is_bool else d.bits
        return {8: "char", 16: "short", 32: "int", 64: "long"}[bits] + str(lanes)

    def vector_compare(self, n: Expr, s: list[str], sign: str) -> str:
        operand = n.src[0].dtype
        if operand.is_bool:
            return f"(~({s[0]} ^ {s[1]}))" if n.op is Op.CMPEQ else f"(~{s[0]} & {s[1]})"
        text = f"({s[0]} {sign} {s[1]})"
        return text if operand.bits == 32 else self.convert(text, bool_, n.lanes)

    def vector_where(self, n: Expr, s: list[str]) -> str:
        mask = self.mask(n.dtype, n.lanes)
        condition = s[0] if mask.startswith("int") else f"convert_{mask}({s[0]})"
        return f"select({s[2]}, {s[1]}, {condition})"

    def vector_cast(self, n: Expr, text: str) -> str:
        source = n.src[0].dtype
        if n.dtype.is_bool:
            different = f"({text} != ({self.vector_type(source, n.lanes)})(0))"
            return different if source.bits == 32 else self.convert(different, bool_, n.lanes)
        return self.convert(f"({text} & 1)" if source.is_bool else text, n.dtype, n.lanes)

    def memory(self, d: DType, lanes: int, place: str, const: str = "") -> str:
        """A vector in memory, at any address, on a CPU, where PoCL would call a function for vload."""
        kind = f"{'uchar' if d.is_bool else BASE[d.name]}{lanes}"
        text = f"typedef {kind} {kind}u __attribute__((aligned({d.itemsize}), may_alias));"
        return f"(*(__global {const}{self.helper(kind + 'u', text)} *)({place}))"

    def vector_load(self, n: Expr, index: str) -> str:
        place = f"{n.arg} + {index}"
        spmd = not self.grouped
        text = self.memory(n.dtype, n.lanes, place, "const ") if spmd else f"vload{n.lanes}(0, {place})"
        return f"(-{self.convert(text, bool_, n.lanes)})" if n.dtype.is_bool else text

    def vector_store(self, s: loop.Store) -> str:
        d, lanes = s.value.dtype, s.value.lanes
        place = f"{s.target} + {self.text(s.index)}"
        spmd = not self.grouped
        old = self.memory(d, lanes, place) if spmd else f"vload{lanes}(0, {place})"
        value = f"convert_uchar{lanes}({self.text(s.value)} & 1)" if d.is_bool else self.combined(s, old)
        return f"{old} = {value};" if spmd else f"vstore{lanes}({value}, 0, {place});"

    def zero(self, n: Expr) -> str:
        return f"(({self.type_of(n.dtype, n.lanes)})(0))"

    def lane(self, vector: str, i: int) -> str:
        return f"{vector}.s{i:x}"

    def each_lane(self, n: Expr, name: str, scalar: str, operands: int) -> str:
        kind = self.vector_type(n.dtype, n.lanes)
        names = "abc"[:operands]
        arguments = ", ".join(
            f"{self.vector_type(s.dtype, n.lanes)} {x}" for s, x in zip(n.src, names, strict=True)
        )
        calls = ", ".join(f"{scalar}({', '.join(self.lane(x, i) for x in names)})" for i in range(n.lanes))
        text = f"{kind} {name}_{kind}({arguments}) {{ return ({kind})({calls}); }}"
        return self.helper(f"{name}_{kind}", text)

    def libm(self, n: Expr) -> str:
        return LIBM[n.op]

    def fma(self, n: Expr) -> str:
        """The language's function where it is an instruction. Elsewhere it may be a library's (PoCL's is)."""
        kind, fast = self.type_of(n.dtype, n.lanes), "FP_FAST_FMAF" if n.dtype.bits == 32 else "FP_FAST_FMA"
        body = f"#ifdef {fast}\n  return fma(a, b, c);\n#else\n  return a * b + c;\n#endif"
        return self.helper(f"fma_{kind}", f"{kind} fma_{kind}({kind} a, {kind} b, {kind} c) {{\n{body}\n}}")

    def bitcast(self, n: Expr, s: list[str]) -> str:
        return f"as_{self.short(n.dtype, n.lanes)}(({self.type_of(n.src[0].dtype, n.lanes)}){s[0]})"

    def broadcast(self, n: Expr) -> str:
        return f"({self.vector_type(n.dtype, n.lanes)})" + ("-" if n.dtype.is_bool else "")

    def vector(self, n: Expr, s: list[str]) -> str:
        lanes = [f"-({x})" for x in s] if n.dtype.is_bool else s
        return f"(({self.vector_type(n.dtype, n.lanes)})({', '.join(lanes)}))"

    def groupfold(self, n: Expr, s: list[str]) -> str:
        """A tree in local memory. Every work-item of the group must come here."""
        op, array = n.arg
        kind = self.scalar_type(n.dtype)
        name = f"group_{op.value}_{kind}"
        body = (
            "const size_t l = get_local_id(0); size_t n = get_local_size(0); "
            "barrier(CLK_LOCAL_MEM_FENCE); t[l] = x; barrier(CLK_LOCAL_MEM_FENCE); "
            "while (n > 1) { const size_t h = (n + 1) / 2; "
            f"if (l + h < n) t[l] = {self.combined_text(op, n.dtype, 't[l]', 't[l + h]')}; "
            "n = h; barrier(CLK_LOCAL_MEM_FENCE); } return t[0];"
        )
        self.helper(name, f"{kind} {name}({kind} x, __local {kind} *t) {{ {body} }}")
        return f"{name}({s[0]}, {array})"

    def signature(self, f: loop.Function) -> str:
        buffers = "".join(f"__global char *b{i}, ulong o{i}, " for i in range(len(f.params)))
        hint = f"__attribute__((reqd_work_group_size({f.local}, 1, 1))) " if f.local else ""
        return f"__kernel {hint}void {f.name}({buffers}__global char *scratch0)"

    def begin(self, f: loop.Function) -> None:
        self.grouped = f.local > 0
        for i, (name, dtype, written) in enumerate(f.params):
            kind = f"{'' if written else 'const '}{self.scalar_type(dtype)}"
            self.line(1, f"{self.pointer(kind, name)} = (__global {kind} *)(b{i} + o{i});")
        if f.local:
            self.line(1, "const int64_t group_id = get_group_id(0), local_id = get_local_id(0);")
        else:
            self.line(1, "const int64_t thread = get_global_id(0), threads = get_global_size(0);")
            self.line(1, f"__global char *scratch = scratch0 + thread * {f.scratch};")

    def barrier(self) -> str:
        return "barrier(CLK_LOCAL_MEM_FENCE);"


def render_opencl(f: loop.Function) -> str:
    """The OpenCL source of one kernel; put PRELUDE above it once."""
    return OpenCLRenderer().render(f)
