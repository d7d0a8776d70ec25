"""Scalar expressions: what a kernel computes for one point of its iteration space.

Nodes are interned: structurally equal expressions are one object, so ``is`` compares them and a dict keyed by
them is cheap. ``lanes`` > 1 marks a vector; only loopify makes those.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

from dawdle.dtype import DType, bool_, int64
from dawdle.lazy.ops import COMPARE, Op

INDEX = int64  # dtype of index arithmetic


class X(Enum):
    """Kinds of expression beside the elementwise ops and CONST, which are the graph's."""

    RANGE = "range"  # a loop's variable; arg: Range
    LOAD = "load"  # src: index[, valid]; arg: slot name; zero where not valid
    REDUCE = "reduce"  # src: body; arg: (combining Op, tuple of Range)
    SCAN = "scan"  # src: body; arg: (combining Op, Range): the running combination at this value of the range
    VAR = "var"  # a name bound by the loop tree; arg: name
    MIN = "min"  # of two index expressions
    # vectors
    BROADCAST = "broadcast"  # src: a scalar
    VECTOR = "vector"  # src: one scalar for each lane
    FOLD = "fold"  # src: a vector; arg: Op that combines its lanes into a scalar
    # groups of GPU threads
    MMA = "mma"  # a warp's matrix product; src: this thread's registers of both tiles; arg: its dtype
    LANE = "lane"  # src: a vector, the number of the lane
    GROUPFOLD = "groupfold"  # src: each thread's scalar; arg: (combining Op, shared array)

    def __repr__(self) -> str:
        return self.name

    __hash__ = object.__hash__  # members are singletons: much cheaper than Enum's


class Range:
    """A loop variable running over 0..extent-1. Ranges are compared by identity; ``name`` is for people."""

    __slots__ = ("extent", "name")

    def __init__(self, name: str, extent: int) -> None:
        self.name = name
        self.extent = extent

    def __repr__(self) -> str:
        return f"{self.name}<{self.extent}>"


class Expr:
    """One interned expression node. Make nodes with the functions below."""

    __slots__ = (
        "__weakref__", "arg", "bounds", "canonical", "dtype", "fact", "free", "key", "lanes", "op", "src",
        "tame", "terms",
    )  # fmt: skip
    op: Op | X
    src: tuple[Expr, ...]
    arg: Any
    dtype: DType
    lanes: int
    free: frozenset[Range]  # the ranges it depends on and doesn't bind itself
    canonical: Expr | bool | None  # what the algebra simplifies it to, once known; True: to itself
    # what the algebra has found out about it, once known
    terms: tuple[dict[Expr, int], int] | None  # a canonical index sum's coefficients and constant
    bounds: tuple[int | None, int | None] | None  # of an index, over all values of its ranges
    tame: bool | None  # whether it is made of ranges and loop variables only
    key: str | None  # orders expressions by structure
    fact: tuple[Expr, tuple[int | None, int | None]] | bool | None  # a condition's; False: it says nothing

    def __repr__(self) -> str:
        return format_expr(self)


_interned: weakref.WeakValueDictionary[tuple[Any, ...], Expr] = weakref.WeakValueDictionary()


def make(op: Op | X, src: tuple[Expr, ...], arg: Any, dtype: DType, lanes: int = 1) -> Expr:
    """The one node with these fields."""
    # floats are keyed by their bits' text: -0.0 == 0.0 and nan != nan would mix them up
    key = (op, src, repr(arg) if isinstance(arg, float) else (type(arg), arg), dtype.name, lanes)
    found = _interned.get(key)
    if found is not None:
        return found
    node = Expr()
    node.op, node.src, node.arg, node.dtype, node.lanes = op, src, arg, dtype, lanes
    node.canonical = node.terms = node.bounds = node.tame = node.key = node.fact = None
    free = frozenset().union(*(s.free for s in src)) if src else frozenset()
    if op is X.RANGE:
        free = frozenset((arg,))
    elif op is X.REDUCE:
        free = free - frozenset(arg[1])
    elif op is X.SCAN:
        free = free | {arg[1]}
    node.free = free
    return _interned.setdefault(key, node)


def const(value: bool | int | float, dtype: DType = INDEX) -> Expr:
    return make(Op.CONST, (), value, dtype)


def range_(r: Range) -> Expr:
    return make(X.RANGE, (), r, INDEX)


def var(name: str, dtype: DType = INDEX, lanes: int = 1) -> Expr:
    return make(X.VAR, (), name, dtype, lanes)


def alu(op: Op, *src: Expr, dtype: DType | None = None) -> Expr:
    """An elementwise op; CAST and BITCAST need ``dtype``."""
    out = dtype or (bool_ if op in COMPARE else src[-1].dtype)
    return make(op, src, None, out, src[-1].lanes)


def load(slot: str, index: Expr, dtype: DType, valid: Expr | None = None) -> Expr:
    return make(X.LOAD, (index,) if valid is None else (index, valid), slot, dtype, index.lanes)


def reduce(op: Op, body: Expr, ranges: Iterable[Range]) -> Expr:
    return make(X.REDUCE, (body,), (op, tuple(ranges)), body.dtype, body.lanes)


def scan(op: Op, body: Expr, r: Range) -> Expr:
    return make(X.SCAN, (body,), (op, r), body.dtype)


def walk(roots: Iterable[Expr], known: Callable[[Expr], bool] | None = None) -> list[Expr]:
    """Every node below ``roots``, operands first, each once; without recursion. Nodes below ``known`` ones
    are left out.
    """
    order: list[Expr] = []
    seen: set[Expr] = set()
    stack: list[Expr | None] = []
    stack.extend(list(roots)[::-1])
    path: list[Expr] = []
    while stack:
        node = stack.pop()
        if node is None:  # all operands of the innermost open node are done
            order.append(path.pop())
        elif node not in seen:
            seen.add(node)
            if not node.src or (known is not None and known(node)):
                order.append(node)
            else:
                path.append(node)
                stack.append(None)
                stack.extend(node.src[::-1])
    return order


def rebuild(node: Expr, src: tuple[Expr, ...]) -> Expr:
    """``node`` on other operands."""
    return node if src == node.src else make(node.op, src, node.arg, node.dtype, node.lanes)


def rewrite(
    roots: Iterable[Expr], rule: Callable[[Expr], Expr], known: Callable[[Expr], bool] | None = None
) -> list[Expr]:
    """Apply ``rule`` to every node, operands first; ``rule`` sees nodes whose operands are rewritten already.

    Nodes that ``known`` holds for are taken to stay as they are, with all below them.
    """
    roots = list(roots)
    done: dict[Expr, Expr] = {}
    for node in walk(roots, known):
        if known is not None and known(node):
            done[node] = node
        else:
            done[node] = rule(rebuild(node, tuple([done[s] for s in node.src])))
    return [done[r] for r in roots]


def substitute(roots: Iterable[Expr], mapping: dict[Expr, Expr]) -> list[Expr]:
    """Replace each key of ``mapping`` by its value wherever it stands."""
    ranges = frozenset(e.arg for e in mapping if e.op is X.RANGE)
    apart = len(ranges) == len(mapping)  # then what depends on none of the ranges stays

    def rule(node: Expr) -> Expr:
        return mapping.get(node, node)

    return rewrite(roots, rule, (lambda n: ranges.isdisjoint(n.free)) if apart else None)


def loads(roots: Iterable[Expr]) -> Iterator[Expr]:
    """The loads below ``roots``."""
    return (n for n in walk(roots) if n.op is X.LOAD)


_INFIX = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.DIV: "/", Op.IDIV: "//", Op.MOD: "%", Op.CMPLT: "<",
    Op.CMPEQ: "==",    Op.AND: "&", Op.OR: "|", Op.XOR: "^", Op.SHL: "<<", Op.SHR: ">>",
}  # fmt: skip


def format_expr(root: Expr) -> str:
    """The expression as one line of text."""
    return format_exprs([root], share=False)[1][0]


def format_exprs(roots: Iterable[Expr], share: bool = True) -> tuple[list[str], list[str]]:
    """Lines that name the values used more than once, if ``share``, and the text of each root in terms of
    them.
    """
    roots = list(roots)
    nodes = walk(roots)
    uses = Counter(s for n in nodes for s in n.src)
    named: list[str] = []
    text: dict[Expr, str] = {}
    for n in nodes:
        text[n] = _format_node(n, [text[s] for s in n.src])
        if share and uses[n] > 1 and n.src and n.dtype is not INDEX:
            named.append(f"t{len(named)} = {text[n]}")
            text[n] = f"t{len(named) - 1}"
    return named, [text[r] for r in roots]


def _format_node(n: Expr, s: list[str]) -> str:
    if n.op is Op.CONST:
        return str(n.arg)
    if n.op is X.RANGE:
        return str(n.arg.name)
    if n.op is X.VAR:
        return str(n.arg)
    if n.op in _INFIX:
        return f"({s[0]} {_INFIX[n.op]} {s[1]})"
    if n.op is X.LOAD:
        return f"{n.arg}[{s[0]}" + (f" if {s[1]}]" if len(s) > 1 else "]")
    if n.op is X.REDUCE:
        return f"{n.arg[0].value}_{{{', '.join(map(repr, n.arg[1]))}}} {s[0]}"
    if n.op is X.SCAN:
        return f"scan_{n.arg[0].value}_{{{n.arg[1]}}} {s[0]}"
    if n.op in (Op.CAST, Op.BITCAST):
        return f"{n.op.value}<{n.dtype.name}>({s[0]})"
    return f"{n.op.value}({', '.join(s)})"
