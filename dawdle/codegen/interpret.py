"""What the kernel and loop IRs mean, in NumPy: the oracle for the code generator. For small sizes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle.codegen import algebra, kernel, loop
from dawdle.codegen.expr import Expr, Range, X, range_, rewrite, substitute, walk
from dawdle.codegen.verify import brief
from dawdle.dtype import Array, DType, float32, from_storage, round_to, to_storage
from dawdle.errors import VerifyError
from dawdle.lazy.ops import Op

Load = Callable[[Expr, Array, Array | None], Array]  # the load, its index, its valid -> elements as values


def _divide(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """Integer division with 0 where the divisor is 0."""

    def apply(a: Array, b: Array) -> Array:
        if a.dtype.kind == "f":
            return f(a, b)
        return np.where(b == 0, 0, f(a, np.where(b == 0, 1, b))).astype(a.dtype)

    return apply


def _precise(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """``f`` computed in float64."""
    return lambda a: f(a.astype(np.float64)).astype(a.dtype)


def _maximum(a: Array, b: Array) -> Array:
    """NaN if either is, and 0.0 above -0.0."""
    greater = np.maximum(a, b)
    if greater.dtype.kind != "f":
        return greater
    zero = np.where(np.signbit(a) & np.signbit(b), -0.0, 0.0)
    return np.where(greater == 0, zero, greater).astype(greater.dtype)


def _fused(a: Array, b: Array, c: Array) -> Array:
    """a * b + c, in float64."""
    wide = np.asarray(a, np.float64)
    return np.asarray(wide * b + c).astype(c.dtype)


def _shift(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """NumPy's shifts of scalars differ from those of arrays where the count is out of range."""
    return lambda a, b: f(*np.broadcast_arrays(np.atleast_1d(a), b)).reshape(np.broadcast(a, b).shape)


_ELEMENTWISE: dict[Op | X, Callable[..., Any]] = {
    Op.NEG: np.negative, Op.RECIP: lambda a: np.divide(a.dtype.type(1), a), Op.SQRT: np.sqrt,
    Op.EXP2: _precise(np.exp2), Op.LOG2: _precise(np.log2), Op.SIN: _precise(np.sin), Op.TRUNC: np.trunc,
    Op.ADD: np.add, Op.SUB: np.subtract, Op.MUL: np.multiply, Op.DIV: np.divide,
    Op.IDIV: _divide(np.floor_divide), Op.MOD: _divide(np.remainder), Op.MAX: _maximum, X.MIN: np.minimum,
    Op.CMPLT: np.less, Op.CMPEQ: np.equal, Op.AND: np.bitwise_and, Op.OR: np.bitwise_or,
    Op.XOR: np.bitwise_xor, Op.SHL: _shift(np.left_shift), Op.SHR: _shift(np.right_shift), Op.WHERE: np.where,
    Op.FMA: _fused,
}  # fmt: skip
_UFUNC = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def cast(x: Array, dtype: DType) -> Array:
    """``x`` converted as CAST does."""
    return x != 0 if dtype.is_bool else round_to(x, dtype)


def identity(op: Op, dtype: DType) -> Any:
    """What a reduction with ``op`` over nothing gives."""
    return {Op.ADD: 0, Op.MUL: 1, Op.MAX: dtype.min}[op]


def _no_load(node: Expr, index: Array, valid: Array | None) -> Array:
    raise VerifyError(f"{brief(node)} loads, but no memory was given")


def evaluate_exprs(
    roots: Iterable[Expr],
    env: Mapping[Expr, Any],
    load: Load = _no_load,
    contract: bool = False,
    axes: Mapping[Range, int] | None = None,
) -> list[Array]:
    """The values of scalar expressions for all values of their ranges and variables at once.

    ``env`` gives an array (or scalar) for each RANGE and VAR node that is free in ``roots``; they broadcast.
    Ranges that reductions and scans bind get axes of their own, in front. bfloat16 values are float32 arrays.
    ``axes`` says along which axis (counted from the end) a range of ``env`` runs, where a scan needs to know.
    With ``contract``, float32 products are rounded only after what is added to them, as with FMA.
    """
    roots = list(roots)
    order = walk(roots)
    values: dict[Expr, Array] = {k: np.asarray(v, k.dtype.compute) for k, v in env.items()}
    ndim = max((v.ndim for v in values.values()), default=0)
    axis = dict(axes or {})  # counted from the end, so that broadcasting keeps it
    for n in order:
        for r in n.arg[1] if n.op is X.REDUCE else (n.arg[1],) if n.op is X.SCAN else ():
            if r not in axis and not any(k.arg is r for k in values if k.op is X.RANGE):
                ndim += 1
                axis[r] = -ndim
    with np.errstate(all="ignore"):
        for n in order:
            if contract and n.dtype == float32 and n.op in (Op.ADD, Op.SUB):
                values[n] = _contracted(n, values)
            elif n not in values:
                values[n] = _evaluate(n, [values[s] for s in n.src], axis, load)
    return [values[r] for r in roots]


def _evaluate(n: Expr, src: list[Array], axis: Mapping[Range, int], load: Load) -> Array:
    if n.op is Op.CONST:
        return round_to(np.asarray(n.arg), n.dtype)
    if n.op is X.RANGE and n.arg in axis:
        return _along_axis(n.arg, axis[n.arg])
    if n.op is Op.CAST:
        return cast(src[0], n.dtype)
    if n.op is Op.BITCAST:
        return from_storage(np.asarray(to_storage(src[0], n.src[0].dtype)).view(n.dtype.storage), n.dtype)
    if n.op is X.LOAD:
        return load(n, src[0], src[1] if len(src) > 1 else None)
    if n.op in (X.REDUCE, X.SCAN):
        return _along(n, src[0], axis)
    if n.op not in _ELEMENTWISE:
        raise VerifyError(f"{brief(n)} has no value here: {n.op!r} is unbound or of another stage")
    result = np.asarray(_ELEMENTWISE[n.op](*src))
    return round_to(result, n.dtype)


def _along_axis(r: Range, axis: int) -> Array:
    return np.arange(r.extent).reshape((-1,) + (1,) * (-axis - 1))


def _contracted(n: Expr, values: Mapping[Expr, Array]) -> Array:
    """A sum or difference in which products stay unrounded."""

    def wide(e: Expr) -> Array:
        if e.op is Op.MUL:
            return values[e.src[0]].astype(np.float64) * values[e.src[1]]
        return values[e].astype(np.float64)

    return np.asarray(_ELEMENTWISE[n.op](*map(wide, n.src))).astype(np.float32)


def _along(n: Expr, body: Array, axis: Mapping[Range, int]) -> Array:
    """A reduction or scan of ``body``, whose ranges lie along ``axis``."""
    op = n.arg[0]
    ranges = n.arg[1] if n.op is X.REDUCE else (n.arg[1],)
    missing = [r for r in ranges if r not in axis]
    if missing:
        raise VerifyError(f"{brief(n)} runs over {missing}, which are bound outside")
    shape = [1] * max(body.ndim, *(-axis[r] for r in ranges))
    for r in ranges:
        shape[axis[r]] = r.extent
    body = np.broadcast_to(body, np.broadcast_shapes(body.shape, tuple(shape)))
    work = n.dtype.compute
    if n.op is X.SCAN:
        return np.asarray(_UFUNC[op].accumulate(body, axis=axis[ranges[0]], dtype=work))
    axes = tuple(axis[r] for r in ranges)
    start = identity(op, n.dtype)
    return np.asarray(_UFUNC[op].reduce(body, axis=axes, keepdims=True, dtype=work, initial=start))


# ---- memory ----


@dataclass
class Memory:
    """One array that a kernel sees, in its dtype's storage; ``lanes`` elements make a unit of indexing."""

    name: str
    data: Array
    dtype: DType
    written: bool = True
    lanes: int = 1

    def read(self, index: Array, valid: Array | None = None) -> Array:
        """The elements at ``index``; zero, and no access, where ``valid`` is false."""
        if valid is not None:
            index, valid = np.broadcast_arrays(index, valid)
            out = np.zeros(index.shape, self.dtype.compute)
            out[valid] = self.read(index[valid])
            return out
        self._check(index)
        return from_storage(self.data[index], self.dtype)

    def write(self, index: Array, values: Array, how: Op | None) -> None:
        """Store elements in order: of equal indices the last counts, or with ``how`` all are combined."""
        if not self.written:
            raise VerifyError(f"store to {self.name}, which is an input")
        self._check(index)
        values = np.broadcast_to(values, index.shape)
        if how is None:
            self.data[index] = to_storage(values, self.dtype)
        elif self.dtype.is_float:
            for i, v in zip(index.ravel(), values.ravel(), strict=True):
                total = _ELEMENTWISE[how](from_storage(self.data[i : i + 1], self.dtype), v)
                self.data[i : i + 1] = to_storage(round_to(np.asarray(total), self.dtype), self.dtype)
        else:
            _UFUNC[how].at(self.data, index, values)

    def _check(self, index: Array) -> None:
        outside = (index < 0) | (index >= self.data.size)
        if outside.any():
            wrong = np.asarray(index)[outside].ravel()[0]
            raise VerifyError(f"{self.name}[{wrong}] is outside of its {self.data.size} elements")


def _memory(name: str, data: Array, dtype: DType, written: bool) -> Memory:
    if data.dtype != dtype.storage or not data.flags.c_contiguous:
        raise VerifyError(f"{name} must be a contiguous {dtype.storage} array, got {data.dtype}")
    return Memory(name, data.reshape(-1), dtype, written)


# ---- kernels ----


def unstaged(k: kernel.Kernel, roots: Iterable[Expr]) -> list[Expr]:
    """``roots`` with each load from a staged tile replaced by the value that was put there."""
    stages = {s.name: s for s in k.stages}

    def rule(n: Expr) -> Expr:
        if n.op is not X.LOAD or n.arg not in stages:
            return n
        stage, rest = stages[n.arg], algebra.simplify(n.src[0])
        place: dict[Expr, Expr] = {}
        for r in reversed(stage.dims):
            place[range_(r)] = algebra.mod(rest, r.extent)
            rest = algebra.idiv(rest, r.extent)
        return substitute([stage.value], place)[0]

    roots = list(roots)
    while True:  # a staged value may load from another stage
        new = rewrite(roots, rule)
        if new == roots:
            return new
        roots = new


def run_kernel(k: kernel.Kernel, buffers: Mapping[str, Array]) -> None:
    """Execute ``k`` on ``buffers``: flat arrays of each parameter's storage dtype. Decisions don't matter.

    The stores run one after the other, each over those of the kernel's ranges that it depends on. Raises
    VerifyError for accesses out of bounds.
    """
    memory = {p.name: _memory(p.name, buffers[p.name], p.dtype, p.written) for p in k.params}
    for s in k.stores:
        exprs = unstaged(k, s.exprs)
        free = frozenset().union(*(e.free for e in exprs))
        axes = {r: -i for i, r in enumerate(reversed([r for r in k.ranges if r in free]), 1)}
        env = {range_(r): _along_axis(r, a) for r, a in axes.items()}
        values = evaluate_exprs(exprs, env, lambda n, i, valid: memory[n.arg].read(i, valid), axes=axes)
        # a reduction leaves axes of size 1 in front; the grid has the ranges' own
        grid = tuple(r.extent for r in reversed(axes))
        index, value, *valid = (
            np.broadcast_to(v.reshape(v.shape[max(v.ndim - len(grid), 0) :]), grid) for v in values
        )
        inside = valid[0] if valid else np.ones(grid, bool)
        memory[s.param].write(index[inside], value[inside], s.how)


# ---- loops ----


class _Thread:
    """One thread's view of a function while it runs."""

    def __init__(self, memory: dict[str, Memory], names: dict[str, int], shared: dict[str, Memory]) -> None:
        self.memory = dict(memory)  # a thread's own arrays are added to it
        self.shared = shared  # those of its group
        self.names = {name: np.asarray(value) for name, value in names.items()}

    def value(self, root: Expr) -> Array:
        """The value of an expression: an array of its lanes, or of shape () for a scalar."""
        values: dict[Expr, Array] = {}
        stack = [root]
        while stack:
            n = stack[-1]
            missing = [s for s in self._needed(n, values) if s not in values]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if n not in values:
                values[n] = self._compute(n, values)
        return values[root]

    def _needed(self, n: Expr, values: dict[Expr, Array]) -> tuple[Expr, ...]:
        """The operands to evaluate first: not a choice's other branch, nor an index that isn't valid."""
        first = n.src[0] if n.op is Op.WHERE else n.src[1] if n.op is X.LOAD and len(n.src) > 1 else None
        if first is None or first.lanes > 1:
            return n.src
        if first not in values:
            return (first,)
        if n.op is X.LOAD:
            return n.src[:1] if values[first] else ()
        return (n.src[1] if values[first] else n.src[2],)

    def _compute(self, n: Expr, values: dict[Expr, Array]) -> Array:
        if n.op is Op.WHERE and n.src[0].lanes == 1:
            return values[n.src[1] if values[n.src[0]] else n.src[2]]
        if n.op is X.LOAD:
            return self._load(n, values)
        src = [values[s] for s in n.src]
        if n.op is X.VAR:
            if n.arg not in self.names:
                raise VerifyError(f"{n.arg} is used before it is bound")
            return self.names[n.arg]
        if n.op is X.BROADCAST:
            return np.repeat(src[0], n.lanes)
        if n.op is X.VECTOR:
            return np.stack(src)
        if n.op is X.FOLD:
            total = src[0][0]
            for x in src[0][1:]:
                total = round_to(np.asarray(_ELEMENTWISE[n.arg](total, x)), n.dtype)
            return np.asarray(total)
        if n.arg == "nonneg" and (src[0] < 0).any():
            raise VerifyError(f"{brief(n)} divides {src[0]}, which was said not to be negative")
        return np.asarray(_evaluate(n, src, {}, _no_load))

    def place(self, name: str, index: Array, lanes: int) -> Array:
        """Positions of the elements that an access of ``lanes`` lanes at ``index`` touches."""
        unit = self.memory[name].lanes
        if unit > 1 and lanes != unit:
            raise VerifyError(f"{name} holds vectors of {unit} lanes, but is accessed by {lanes}")
        return index * unit + np.arange(lanes) if lanes > 1 else index

    def _load(self, n: Expr, values: dict[Expr, Array]) -> Array:
        if n.arg not in self.memory:
            raise VerifyError(f"{brief(n)} reads {n.arg}, which isn't there")
        if len(n.src) > 1 and n.src[1].lanes == 1 and not values[n.src[1]]:
            return np.zeros((n.lanes,) if n.lanes > 1 else (), n.dtype.compute)
        valid = values[n.src[1]] if len(n.src) > 1 else None
        return self.memory[n.arg].read(self.place(n.arg, values[n.src[0]], n.lanes), valid)

    def meet(self, n: Expr) -> Generator[None, None, Array]:
        """Combine the values of a group's threads, which all come here."""
        op, name = n.arg
        array, own = self.memory[name], self.names["local_id"]
        yield
        array.write(own, self.value(n.src[0]), None)
        yield
        count = len(array.data)
        parts = array.read(np.arange(count), None)
        total = parts[0]
        for x in parts[1:]:
            total = round_to(np.asarray(_ELEMENTWISE[op](total, x)), n.dtype)
        return np.asarray(total)

    def run(self, body: tuple[loop.Stmt, ...]) -> Generator[None, None, None]:
        """Execute statements; yields at each barrier."""
        for s in body:
            match s:
                case loop.For(var, start, stop, step, inner):
                    for i in range(int(self.value(start)), int(self.value(stop)), step):
                        self.names[var] = np.asarray(i)
                        yield from self.run(inner)
                case loop.If(condition, inner):
                    if self.value(condition):
                        yield from self.run(inner)
                case loop.Let(name, value) if value.op is X.GROUPFOLD:
                    self.names[name] = yield from self.meet(value)
                case loop.Let(name, value):
                    self.names[name] = self.value(value)
                case loop.Alloc(name, dtype, size, space, lanes):
                    arrays = self.shared if space == "shared" else self.memory
                    if arrays is self.memory or name not in arrays:
                        data = np.full(size * lanes * dtype.itemsize, 0xCD, np.uint8).view(dtype.storage)
                        arrays[name] = Memory(name, data, dtype, lanes=lanes)
                    self.memory[name] = arrays[name]
                case loop.Store(target, index, value, how):
                    if target not in self.memory:
                        raise VerifyError(f"store to {target}, which isn't there")
                    where = self.place(target, self.value(index), value.lanes)
                    self.memory[target].write(where, self.value(value), how)
                case loop.Barrier():
                    yield


def run_groups(f: loop.Function, buffers: Mapping[str, Array]) -> None:
    """Execute a GPU kernel group by group; each thread runs to the next place where all meet, in turn."""
    memory = {n: _memory(n, buffers[n], d, written) for n, d, written in f.params}
    with np.errstate(all="ignore"):
        for group in range(f.groups):
            shared: dict[str, Memory] = {}
            names = [{"group_id": group, "local_id": i} for i in range(f.local)]
            _in_turn([_Thread(memory, n, shared).run(f.body) for n in names])


def _in_turn(running: list[Generator[None, None, None]]) -> None:
    while running:
        running = [t for t in running if next(t, _DONE) is not _DONE]


def run_threads(f: loop.Function, buffers: Mapping[str, Array], threads: int) -> None:
    """Execute ``f`` as all of ``threads`` threads would: each runs to its next barrier, in turn."""
    memory = {n: _memory(n, buffers[n], d, written) for n, d, written in f.params}
    names = [{"thread": t, "threads": threads} for t in range(threads)]
    with np.errstate(all="ignore"):
        _in_turn([_Thread(memory, n, {}).run(f.body) for n in names])


def run_loops(f: loop.Function, buffers: Mapping[str, Array], thread: int = 0, threads: int = 1) -> None:
    """Execute ``f`` as one of its threads on ``buffers``, flat arrays of the parameters' storage dtypes.

    A load with a false ``valid`` gives zero without touching memory. Raises VerifyError for accesses out of
    bounds, unknown names and lanes that disagree.
    """
    memory = {n: _memory(n, buffers[n], d, written) for n, d, written in f.params}
    with np.errstate(all="ignore"):
        for _ in _Thread(memory, {"thread": thread, "threads": threads}, {}).run(f.body):
            pass


_DONE = object()
