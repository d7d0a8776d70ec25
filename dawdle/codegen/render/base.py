"""Loop tree to source text in a language of the C family. Dialects differ in their types and small tables."""

from __future__ import annotations

from dawdle.codegen import loop
from dawdle.codegen.expr import Expr, X, alu, walk
from dawdle.codegen.loopify import ALIGN
from dawdle.dtype import DType
from dawdle.lazy.ops import Op

INFIX = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.AND: "&", Op.OR: "|", Op.XOR: "^",
    Op.SHL: "<<", Op.SHR: ">>",
}  # fmt: skip
WRAPPED = {op: INFIX[op] for op in (Op.ADD, Op.SUB, Op.MUL, Op.SHL)}  # may overflow, and then wrap
SCALAR = {
    "bool": "uint8_t", "bfloat16": "uint16_t", "float16": "uint16_t", "float32": "float", "float64": "double",
    **{f"{u}int{n}": f"{u}int{n}_t" for u in ("", "u") for n in (8, 16, 32, 64)},
}  # fmt: skip


RULES: dict[Op | X, str] = {  # the method that prints each kind of expression
    **dict.fromkeys(INFIX, "infix"),
    **dict.fromkeys((Op.CMPLT, Op.CMPEQ), "compare"),
    **dict.fromkeys((Op.IDIV, Op.MOD), "divide"),
    **dict.fromkeys((Op.SQRT, Op.EXP2, Op.LOG2, Op.SIN, Op.TRUNC, Op.MAX, Op.FMA), "call"),
    **dict.fromkeys((X.BROADCAST, X.FOLD), "call"),
    Op.BITCAST: "bitcast",
    Op.NEG: "neg",
    Op.CONST: "const",
    Op.WHERE: "where",
    Op.CAST: "cast",
    X.VAR: "var",
    X.MIN: "minimum",
    X.LOAD: "load",
    X.VECTOR: "vector",
    X.GROUPFOLD: "groupfold",
    X.LANE: "extract",
}


class Renderer:
    """Prints one function. A dialect overrides the methods that its language writes differently."""

    SHARED = ""  # how memory that a group shares is declared
    POINTER = ""  # the address space of buffers
    RESTRICT = "restrict"

    def __init__(self) -> None:
        self.arrays: dict[str, loop.Alloc] = {}
        self.lines: list[str] = []
        self.scratch = 0
        self.helpers: dict[str, str] = {}

    # types and literals

    def scalar_type(self, d: DType) -> str:
        return SCALAR[d.name]

    def type_of(self, d: DType, lanes: int) -> str:
        return self.scalar_type(d) if lanes == 1 else self.vector_type(d, lanes)

    def vector_type(self, d: DType, lanes: int) -> str:
        raise NotImplementedError("this dialect has no vectors")

    def literal(self, e: Expr) -> str:
        """A constant as text that keeps its value and dtype."""
        v, d = e.arg, e.dtype
        if d.is_bool:
            return "1" if v else "0"
        if not d.is_float:
            return _integer(int(v), d)
        suffix = "" if d.bits == 64 else "f"
        if v != v:
            text = "NAN"
        elif v in (float("inf"), float("-inf")):
            text = "INFINITY" if v > 0 else "(-INFINITY)"
        else:
            text = float(v).hex() + suffix
            text = f"({text})" if text.startswith("-") else text
        return text

    # expressions

    def text(self, root: Expr) -> str:
        done: dict[Expr, str] = {}
        for n in walk([root]):
            if n not in done:
                done[n] = self.node(n, [done[s] for s in n.src])
        return done[root]

    def node(self, n: Expr, s: list[str]) -> str:
        text: str = getattr(self, RULES[n.op])(n, s)
        return text

    def narrow(self, n: Expr, text: str) -> str:
        """C computes small integers as int: cut the result back to its dtype."""
        return f"(({self.scalar_type(n.dtype)}){text})" if n.dtype.bits < 32 and n.lanes == 1 else text

    def infix(self, n: Expr, s: list[str]) -> str:
        return self.narrow(n, f"({s[0]} {INFIX[n.op]} {s[1]})")  # type: ignore[index]

    def neg(self, n: Expr, s: list[str]) -> str:
        return self.narrow(n, f"(-{s[0]})")

    def const(self, n: Expr, s: list[str]) -> str:
        return self.literal(n)

    def var(self, n: Expr, s: list[str]) -> str:
        return str(n.arg)

    def compare(self, n: Expr, s: list[str]) -> str:
        sign = "<" if n.op is Op.CMPLT else "=="
        return f"({s[0]} {sign} {s[1]})" if n.lanes == 1 else self.vector_compare(n, s, sign)

    def vector_compare(self, n: Expr, s: list[str], sign: str) -> str:
        raise NotImplementedError

    def where(self, n: Expr, s: list[str]) -> str:
        return f"({s[0]} ? {s[1]} : {s[2]})" if n.src[0].lanes == 1 else self.vector_where(n, s)

    def vector_where(self, n: Expr, s: list[str]) -> str:
        raise NotImplementedError

    def minimum(self, n: Expr, s: list[str]) -> str:
        return f"({s[0]} < {s[1]} ? {s[0]} : {s[1]})"

    def cast(self, n: Expr, s: list[str]) -> str:
        if n.lanes > 1:
            return self.vector_cast(n, s[0])
        return f"({s[0]} != 0)" if n.dtype.is_bool else f"(({self.scalar_type(n.dtype)}){s[0]})"

    def vector_cast(self, n: Expr, text: str) -> str:
        raise NotImplementedError

    def call(self, n: Expr, s: list[str]) -> str:
        """An op that is a function of the language or a helper."""
        return f"{self.function(n)}({', '.join(s)})"

    def function(self, n: Expr) -> str:
        raise NotImplementedError

    def bitcast(self, n: Expr, s: list[str]) -> str:
        raise NotImplementedError

    def vector(self, n: Expr, s: list[str]) -> str:
        raise NotImplementedError

    def groupfold(self, n: Expr, s: list[str]) -> str:
        raise NotImplementedError

    def extract(self, n: Expr, s: list[str]) -> str:
        return f"{s[0]}[{s[1]}]"

    def divide(self, n: Expr, s: list[str]) -> str:
        if n.arg == "nonneg":
            return f"({s[0]} {'/' if n.op is Op.IDIV else '%'} {s[1]})"
        return self.call(n, s)

    def load(self, n: Expr, s: list[str]) -> str:
        array = self.arrays[n.arg]
        if array.space == "register":
            return str(n.arg)
        if n.lanes == array.lanes:
            text = f"{n.arg}[{s[0]}]"
        else:
            text = self.vector_load(n, s[0])
        if len(s) > 1:
            zero = self.zero(n)
            text = f"({s[1]} ? {text} : {zero})"
        return text

    def zero(self, n: Expr) -> str:
        return f"(({self.type_of(n.dtype, n.lanes)})0)"

    def vector_load(self, n: Expr, index: str) -> str:
        raise NotImplementedError

    # statements

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def statements(self, body: tuple[loop.Stmt, ...], depth: int) -> None:
        for s in body:
            match s:
                case loop.For(var, start, stop, step, inner):
                    by = f"{var}++" if step == 1 else f"{var} += {step}"
                    head = f"for (int64_t {var} = {self.text(start)}; {var} < {self.text(stop)}; {by}) {{"
                    self.line(depth, head)
                    self.statements(inner, depth + 1)
                    self.line(depth, "}")
                case loop.If(condition, inner):
                    self.line(depth, f"if ({self.text(condition)}) {{")
                    self.statements(inner, depth + 1)
                    self.line(depth, "}")
                case loop.Let(name, value):
                    self.line(
                        depth, f"const {self.type_of(value.dtype, value.lanes)} {name} = {self.text(value)};"
                    )
                case loop.Alloc():
                    self.arrays[s.name] = s
                    self.line(depth, self.alloc(s))
                case loop.Store():
                    self.line(depth, self.store(s))
                case loop.Barrier():
                    self.line(depth, self.barrier())

    def alloc(self, s: loop.Alloc) -> str:
        kind = self.type_of(s.dtype, s.lanes)
        if s.space == "register":
            return f"{kind} {s.name};"
        if s.space == "shared":
            return f"{self.SHARED} {kind} {s.name}[{s.size}];"
        offset = self.scratch
        self.scratch += -(-s.size * s.lanes * s.dtype.itemsize // ALIGN) * ALIGN
        return f"{self.pointer(kind, s.name)} = ({self.POINTER}{kind} *)(scratch + {offset});"

    def pointer(self, kind: str, name: str) -> str:
        return f"{self.POINTER}{kind} *{self.RESTRICT} {name}"

    def store(self, s: loop.Store) -> str:
        array, value = self.arrays[s.target], s.value
        if array.space == "register":
            place = s.target
        elif value.lanes == array.lanes:
            place = f"{s.target}[{self.text(s.index)}]"
        else:
            return self.vector_store(s)
        return f"{place} = {self.combined(s, place)};"

    def combined(self, s: loop.Store, old: str) -> str:
        """The value to write, combined with the ``old`` one where the store says so."""
        new = self.text(s.value)
        if s.how is None:
            return new
        return self.node(alu(s.how, s.value, s.value, dtype=s.value.dtype), [old, new])

    def vector_store(self, s: loop.Store) -> str:
        raise NotImplementedError

    def barrier(self) -> str:
        raise NotImplementedError


def _integer(v: int, d: DType) -> str:
    if d.bits < 64:
        return f"({v})" if v < 0 else f"{v}u" if d.kind == "u" and d.bits == 32 else str(v)
    if v == d.min and d.kind == "i":
        return f"({v + 1}LL - 1)"
    return f"{v}ULL" if d.kind == "u" else f"({v}LL)" if v < 0 else f"{v}LL"
