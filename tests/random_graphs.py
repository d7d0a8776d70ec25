"""Random graphs over all ops, for property tests that compare two ways of computing a value.

``graphs(dtypes=, ops=, ...)`` is a hypothesis strategy: a list of output LazyBuffers over BUFFER leaves, the
storages of which are `ArrayStorage`. ``load`` gives a leaf's array, ``leaves`` finds those below outputs,
``values_of`` is what the interpreter says, ``assert_same_values`` compares bits, NaN being equal to NaN.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from dawdle.dtype import ALL, DType, bool_, from_storage, int32, int64, round_to, to_storage, uint8
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.interpret import evaluate
from dawdle.lazy.ops import BINARY, BITWISE, REDUCE, UNARY, Op

MAX_SIZE = 160  # elements of an array
ALL_OPS = frozenset(Op) - {Op.BUFFER}
KERNEL_OPS = ALL_OPS - {Op.COPY, Op.CUSTOM, Op.AFTER}  # what one device's kernels compute
SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 2.0, 0.5)


@dataclass(eq=False)
class ArrayStorage:
    """Storage of a leaf: an array of the leaf's storage dtype."""

    array: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.array.nbytes


def leaf(values: object, dtype: DType, device: str = "NUMPY") -> LazyBuffer:
    """A BUFFER that holds ``values``, rounded or wrapped to ``dtype``."""
    with np.errstate(all="ignore"):
        array = to_storage(round_to(np.asarray(values), dtype), dtype)
    return build.buffer(ArrayStorage(array), array.shape, dtype, device)


def load(node: LazyBuffer) -> np.ndarray:
    """A leaf's elements in their compute dtype."""
    return from_storage(node.arg.array, node.dtype)


def leaves(outputs: Sequence[LazyBuffer]) -> list[LazyBuffer]:
    """The BUFFER leaves below ``outputs``."""
    return [n for n in toposort(outputs) if n.op is Op.BUFFER]


def values_of(*outputs: LazyBuffer) -> list[np.ndarray]:
    """What the interpreter says."""
    return evaluate(outputs, load)


def assert_same_values(a: np.ndarray, b: np.ndarray) -> None:
    """Equal shapes, dtypes and bits, where any NaN equals any other."""
    assert a.shape == b.shape and a.dtype == b.dtype
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind == "f":
        numbers = ~np.isnan(a)
        np.testing.assert_array_equal(np.signbit(a)[numbers], np.signbit(b)[numbers])


def random_array(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, special: bool) -> np.ndarray:
    """Small numbers; with ``special`` also NaN, infinities, both zeros and an integer dtype's extremes."""
    if dtype.is_float:
        x = rng.standard_normal(shape) * 2
        choices: Sequence[float] = SPECIAL
    else:
        x = rng.integers(0 if dtype.kind in "bu" else -3, 2 if dtype.is_bool else 7, shape)
        choices = (dtype.min, dtype.max, 0, 1)
    if special:
        picks = np.array(choices, dtype=dtype.compute)[rng.integers(0, len(choices), shape)]
        return np.where(rng.random(shape) < 0.3, picks, round_to(np.asarray(x), dtype))
    return np.asarray(round_to(np.asarray(x), dtype))


class Maker:
    """Draws nodes. ``pool`` holds those that exist."""

    def __init__(self, draw: Callable, dtypes: Sequence[DType], special: bool, device: str) -> None:
        self.draw, self.dtypes, self.special, self.device = draw, tuple(dtypes), special, device
        self.pool: list[LazyBuffer] = []
        self.rng = np.random.default_rng(self.integer(0, 2**16))

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def pick(self, choices: Sequence) -> object:
        return self.draw(st.sampled_from(list(choices)))

    def leaf(self, shape: tuple[int, ...], dtype: DType) -> LazyBuffer:
        return leaf(random_array(self.rng, shape, dtype, self.special), dtype, self.device)

    def shape(self) -> tuple[int, ...]:
        return tuple(self.pick((1, 2, 3, 3, 4, 5, 0)) for _ in range(self.integer(0, 3)))

    def operand(self, accepts: Callable[[DType], bool]) -> LazyBuffer | None:
        """A node of the pool, or a new leaf where none fits; None where no allowed dtype does."""
        fits = [x for x in self.pool if accepts(x.dtype)]
        dtypes = [d for d in self.dtypes if accepts(d)]
        if fits:
            return fits[-1] if self.integer(0, 2) else self.pick(fits)
        return self.leaf(self.shape(), self.pick(dtypes)) if dtypes else None

    def like(
        self, x: LazyBuffer, dtype: DType | None = None, shape: tuple[int, ...] | None = None
    ) -> LazyBuffer:
        """Another operand of the shape and dtype of ``x``: of the pool, a constant or a leaf."""
        shape, dtype = x.shape if shape is None else shape, dtype or x.dtype
        fits = [y for y in self.pool if y.shape == shape and y.dtype == dtype]
        choice = self.integer(0, 4)
        if fits and choice < 2:
            return self.pick(fits)
        if choice in (2, 3):
            values = (0.0, -0.0, 1, -1, 2, 0.25, 3) if dtype.is_float else (0, 1, -1, 2, dtype.min, dtype.max)
            return build.full(shape, self.pick(values), dtype, self.device)
        return self.leaf(shape, dtype)


def _any(d: DType) -> bool:
    return True


def _number(d: DType) -> bool:
    return not d.is_bool


def _float(d: DType) -> bool:
    return d.is_float


def _int(d: DType) -> bool:
    return d.is_int


def _bits(d: DType) -> bool:
    return not d.is_float


Builder = Callable[[Maker, LazyBuffer, Op], LazyBuffer]


def _cast(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    target = m.pick(m.dtypes)
    if x.dtype.is_float and target.is_int:  # outside of the target's range the result is unspecified
        bounds = (-100 if target.kind == "i" else -1, 100)
        low, high = (build.full(x.shape, v, x.dtype, m.device) for v in bounds)
        inside = build.binary(Op.AND, build.binary(Op.CMPLT, low, x), build.binary(Op.CMPLT, x, high))
        x = build.where(inside, x, build.full(x.shape, 0, x.dtype, m.device))
    return build.cast(x, target)


def _bitcast(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    # to integers only between floats of one payload: a NaN's bits are unspecified
    targets = [d for d in m.dtypes if d.itemsize == x.dtype.itemsize and not d.is_bool]
    if x.dtype.is_float:
        x = build.where(build.binary(Op.CMPEQ, x, x), x, build.full(x.shape, 1, x.dtype, m.device))
    return build.bitcast(x, m.pick(targets or [x.dtype]))


def _binary(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    other = x if m.integer(0, 9) == 0 else m.like(x)
    return build.binary(op, *((x, other) if m.integer(0, 1) else (other, x)))


def _where(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    if bool_ in m.dtypes:
        condition = m.like(x, bool_)
    else:
        condition = build.binary(Op.CMPLT, x, m.like(x))
    return build.where(condition, x, m.like(x))


def _axes(m: Maker, x: LazyBuffer) -> list[int]:
    return sorted(m.draw(st.sets(st.integers(0, x.ndim - 1)))) if x.ndim else []


def _scan(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    how = Op.MAX if x.dtype.is_bool else m.pick((Op.ADD, Op.MUL, Op.MAX))
    return build.scan(how, x, m.integer(0, x.ndim - 1)) if x.ndim else x


def _reshape(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    shapes = [(x.size,), (1, *x.shape), (*x.shape, 1), x.shape[::-1], tuple(n for n in x.shape if n != 1)]
    shapes += [(d, x.size // d) for d in (2, 3) if x.size % d == 0]
    return build.reshape(x, m.pick([s for s in shapes if len(s) <= 4] or [x.shape]))


def _expand(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    shape = tuple(m.integer(0, 3) if n == 1 else n for n in x.shape)
    return build.expand(x, shape) if math.prod(shape) <= MAX_SIZE else x


def _slice(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    def one(n: int) -> tuple[int, int, int]:
        start = m.integer(0, min(n, 2))
        return start, m.integer(max(start, n - 2), n), m.integer(1, 3)

    return build.slice_(x, [one(n) for n in x.shape])


def _pad(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    amounts = [(m.integer(0, 2), m.integer(0, 1), m.integer(0, 1)) for _ in x.shape]
    y = build.pad(x, amounts)
    return y if y.size <= MAX_SIZE else x


def _windows(m: Maker, sizes: tuple[int, ...]) -> list[tuple[int, int, int]] | None:
    if not sizes or min(sizes) < 1:
        return None
    windows = []
    for n in sizes:
        size = m.integer(1, min(n, 3))
        dilation = 2 if (size - 1) * 2 < n and m.integer(0, 1) else 1
        windows.append((size, m.integer(1, 3), dilation))
    return windows


def _window(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    windows = _windows(m, x.shape[-m.integer(1, 2) :])
    y = build.window(x, windows) if windows else x
    return y if y.size <= MAX_SIZE and y.ndim <= 5 else x


def _unwindow(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    """Windows of another array, or of ``x`` itself, put together again."""
    count = m.integer(1, 2)
    windows = _windows(m, x.shape[-count:])
    if not windows:
        return x
    read = build.window(m.like(x), windows)
    return build.unwindow(read, windows, x.shape[-len(windows) :]) if read.size <= MAX_SIZE else x


def _index(m: Maker, shape: tuple[int, ...], size: int) -> LazyBuffer:
    """Indices around [0, size), a few outside."""
    dtype = m.pick([d for d in (int32, int64, uint8) if d in m.dtypes] or [int64])
    low = 0 if dtype.kind == "u" else -1
    values = m.rng.integers(low, size + 1, shape) if math.prod(shape) else np.zeros(shape)
    return leaf(values, dtype, m.device)


def _along(m: Maker, x: LazyBuffer) -> tuple[int, tuple[int, ...]]:
    axis = m.integer(0, x.ndim - 1)
    return axis, tuple(m.integer(0, 4) if a == axis else n for a, n in enumerate(x.shape))


def _gather(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    if not x.ndim:
        return x
    axis, shape = _along(m, x)
    if m.integer(0, 4) == 0:
        index = build.full(shape, m.integer(-1, x.shape[axis]), int64, m.device)
    else:
        index = _index(m, shape, x.shape[axis])
    return build.gather(x, index, axis) if math.prod(shape) <= MAX_SIZE else x


def _scatter(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    if not x.ndim:
        return x
    axis, shape = _along(m, x)
    how = m.pick((None, Op.MAX) if x.dtype.is_bool else (Op.ADD, Op.MUL, Op.MAX, None))
    return build.scatter(x, _index(m, shape, x.shape[axis]), m.like(x, shape=shape), axis, how)


def _iota(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    return build.iota(m.integer(0, 5), x.dtype, m.device)


def _const(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    floats = (*SPECIAL, 0.1) if m.special else (0.5, 3.0)
    return build.full(x.shape, m.pick(floats if x.dtype.is_float else (0, 1, -1, 3)), x.dtype, m.device)


def _copy(m: Maker, x: LazyBuffer, op: Op) -> LazyBuffer:
    there = build.copy(x, "ELSEWHERE")
    return build.copy(build.unary(Op.NEG, there) if not x.dtype.is_bool else there, m.device)


def reverse(x: np.ndarray) -> np.ndarray:
    """What a CUSTOM node computes here."""
    return np.flip(x)


BUILDERS: dict[Op, tuple[Callable[[DType], bool], Builder]] = {
    Op.CONST: (_any, _const),
    Op.IOTA: (_int, _iota),
    **dict.fromkeys(UNARY, (_float, lambda m, x, op: build.unary(op, x))),
    Op.NEG: (_number, lambda m, x, op: build.unary(op, x)),
    Op.CAST: (_any, _cast),
    Op.BITCAST: (_number, _bitcast),
    **dict.fromkeys(BINARY, (_number, _binary)),
    **dict.fromkeys(BITWISE, (_bits, _binary)),
    **dict.fromkeys((Op.MAX, Op.CMPLT, Op.CMPEQ), (_any, _binary)),
    **dict.fromkeys((Op.SHL, Op.SHR), (_int, _binary)),
    Op.DIV: (_float, _binary),
    Op.WHERE: (_any, _where),
    Op.FMA: (_float, lambda m, x, op: build.fma(x, m.like(x), m.like(x))),
    **dict.fromkeys(REDUCE, (_number, lambda m, x, op: build.reduce(op, x, _axes(m, x)))),
    Op.AMAX: (_any, lambda m, x, op: build.reduce(op, x, _axes(m, x))),
    Op.SCAN: (_any, _scan),
    Op.RESHAPE: (_any, _reshape),
    Op.PERMUTE: (_any, lambda m, x, op: build.permute(x, m.draw(st.permutations(range(x.ndim))))),
    Op.EXPAND: (_any, _expand),
    Op.FLIP: (_any, lambda m, x, op: build.flip(x, _axes(m, x))),
    Op.SLICE: (_any, _slice),
    Op.PAD: (_any, _pad),
    Op.WINDOW: (_any, _window),
    Op.UNWINDOW: (_number, _unwindow),
    Op.GATHER: (_any, _gather),
    Op.SCATTER: (_any, _scatter),
    Op.CONTIGUOUS: (_any, lambda m, x, op: build.contiguous(x)),
    Op.COPY: (_any, _copy),
    Op.AFTER: (_any, lambda m, x, op: build.after(x, m.like(x))),
    Op.CUSTOM: (_any, lambda m, x, op: build.custom(reverse, x, shape=x.shape, dtype=x.dtype)),
}


@st.composite
def graphs(
    draw: Callable,
    dtypes: Sequence[DType] = ALL,
    ops: frozenset[Op] | Sequence[Op] = KERNEL_OPS,
    max_nodes: int = 10,
    special: bool = True,
    device: str = "NUMPY",
) -> list[LazyBuffer]:
    """One to three outputs of a graph of at most about ``max_nodes`` drawn ops over leaves of ``dtypes``.

    Comparisons are bool and some indices int64 whether or not ``dtypes`` has them. Without ``special`` leaves
    hold only small finite numbers; ops may still make NaN and infinities of them.
    """
    m = Maker(draw, dtypes, special, device)
    m.pool.append(m.leaf(m.shape(), m.pick(m.dtypes)))
    order = sorted(set(ops) & set(BUILDERS), key=lambda op: op.name)
    op = m.pick(order)
    for _ in range(m.pick((1, max_nodes // 2, max_nodes, max_nodes))):
        # an op often follows its like, as rules about pairs of ops need
        op = op if m.integer(0, 3) == 0 else m.pick(order)
        accepts, builder = BUILDERS[op]
        x = m.operand(accepts)
        if x is not None:
            m.pool.append(builder(m, x, op))
    return m.pool[-m.integer(1, 3) :]
