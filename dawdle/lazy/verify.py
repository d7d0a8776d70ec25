"""Check a graph: every node's shape, dtype and device must be those that its operands and parameters give."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from dawdle.dtype import DType
from dawdle.errors import DawdleError, VerifyError
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.ops import ARITHMETIC, BINARY, BITWISE, COMPARE, REDUCE, SHIFT, UNARY, Op

# builds the node anew from its operands and parameters; None where nothing can be inferred
Again = Callable[[LazyBuffer], LazyBuffer | None]


def _nothing(node: LazyBuffer) -> None:
    return None


AGAIN: dict[Op, Again] = {
    Op.BUFFER: _nothing,
    Op.CONST: lambda n: build.const(n.arg, n.dtype, n.device),
    Op.IOTA: lambda n: build.iota(n.shape[0], n.dtype, n.device),
    Op.CAST: lambda n: build.cast(n.src[0], n.arg),
    Op.BITCAST: lambda n: build.bitcast(n.src[0], n.arg),
    **dict.fromkeys(UNARY - {Op.CAST, Op.BITCAST}, lambda n: build.unary(n.op, n.src[0])),
    **dict.fromkeys(BINARY, lambda n: build.binary(n.op, *n.src)),
    Op.WHERE: lambda n: build.where(*n.src),
    Op.FMA: lambda n: build.fma(*n.src),
    **dict.fromkeys(REDUCE, lambda n: build.reduce(n.op, n.src[0], n.arg)),
    Op.SCAN: lambda n: build.scan(n.arg[0], n.src[0], n.arg[1]),
    Op.RESHAPE: lambda n: build.reshape(n.src[0], n.arg),
    Op.PERMUTE: lambda n: build.permute(n.src[0], n.arg),
    Op.EXPAND: lambda n: build.expand(n.src[0], n.arg),
    Op.FLIP: lambda n: build.flip(n.src[0], n.arg),
    Op.SLICE: lambda n: build.slice_(n.src[0], n.arg),
    Op.PAD: lambda n: build.pad(n.src[0], n.arg),
    Op.WINDOW: lambda n: build.window(n.src[0], n.arg),
    Op.UNWINDOW: lambda n: build.unwindow(n.src[0], *n.arg),
    Op.GATHER: lambda n: build.gather(n.src[0], n.src[1], n.arg),
    Op.SCATTER: lambda n: build.scatter(n.src[0], n.src[1], n.src[2], n.arg[0], n.arg[1]),
    Op.CHECK: lambda n: build.check(n.src[0], *n.arg),
    Op.CONTIGUOUS: lambda n: build.contiguous(n.src[0]),
    Op.COPY: lambda n: build.copy(n.src[0], n.arg),
    Op.AFTER: lambda n: build.after(n.src[-1], *n.src[:-1]),
    Op.CUSTOM: lambda n: build.custom(n.arg, *n.src, shape=n.shape, dtype=n.dtype),
}
OPERANDS: dict[Op, int] = {
    **dict.fromkeys((Op.BUFFER, Op.CONST, Op.IOTA), 0),
    **dict.fromkeys(UNARY | REDUCE, 1),
    **dict.fromkeys(ARITHMETIC | COMPARE | BITWISE | SHIFT, 2),
    Op.GATHER: 2,
    **dict.fromkeys((Op.WHERE, Op.FMA, Op.SCATTER), 3),
}


def verify_graph(outputs: Sequence[LazyBuffer]) -> None:
    """Raise VerifyError, naming the node and what is wrong, unless all nodes below ``outputs`` are sound."""
    order = toposort(outputs)
    place = {id(node): i for i, node in enumerate(order)}
    for i, node in enumerate(order):
        for problem in _problems(node):
            raise VerifyError(f"{node!r}: {problem}")
        if any(place[id(s)] >= i for s in node.src):
            raise VerifyError(f"{node!r}: it depends on itself")


def _problems(node: LazyBuffer) -> list[str]:
    """What is wrong with one node, in words."""
    wanted = len(node.src) if node.op in (Op.CUSTOM, Op.AFTER) else OPERANDS.get(node.op, 1)
    if len(node.src) != wanted:
        return [f"it has {len(node.src)} operands, not {wanted}"]
    if not all(type(n) is int and n >= 0 for n in node.shape) or type(node.shape) is not tuple:
        return [f"its shape {node.shape!r} is not a tuple of sizes"]
    if not isinstance(node.dtype, DType):
        return [f"its dtype {node.dtype!r} is not a DType"]
    if node.op is Op.BUFFER:
        short = node.arg.nbytes < node.nbytes
        return [f"its storage has {node.arg.nbytes} bytes, it needs {node.nbytes}"] if short else []
    try:
        again = AGAIN[node.op](node)
    except (DawdleError, AssertionError, TypeError, ValueError, IndexError) as e:
        return [f"it can't be built from its operands: {e}"]
    return [] if again is None else _differences(node, again)


def _differences(node: LazyBuffer, again: LazyBuffer) -> list[str]:
    fields = ("shape", "dtype", "device") if node.op is not Op.CONST else ("shape", "arg")
    pairs = ((f, getattr(node, f), getattr(again, f)) for f in fields)
    # repr tells -0.0 from 0.0 and finds NaN equal to itself
    return [f"its {name} is {had!r}, not {want!r}" for name, had, want in pairs if repr(had) != repr(want)]
