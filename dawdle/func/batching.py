"""``vmap``: a function of one element made a function of a batch of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dawdle import tree
from dawdle.errors import ShapeError, TransformError
from dawdle.func.frame import Frame, StandIn, held, leave, name_of
from dawdle.lazy import build
from dawdle.lazy.batch import Batch, stand_in, total
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import Watch, recording
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import Node, record
from dawdle.tensor.core import apply, axis_of, cut
from dawdle.tensor.lanes import RANDOMNESS, lane


class _Mapped(Frame):
    """Inside, a value is that of one element; outside, it has the batch as its first axis."""

    def __init__(self, batch: Batch, stand_ins: Sequence[StandIn]) -> None:
        super().__init__(stand_ins)
        self.batch = batch

    def values(self, nodes: Sequence[LazyBuffer]) -> list[LazyBuffer | None]:
        return self.batch.of(nodes)

    def inside(self, order: Sequence[Node]) -> set[int]:
        differing = self.batch.dependent([x for node in order for x in held(node)])
        found = self.ends
        for node in reversed(order):
            if any(id(p) in found for p in node.parents) or not differing.isdisjoint(held(node)):
                found.add(id(node))
        return found - self.ends

    def shared(self, x: Tensor) -> Tensor:
        return apply(Op.EXPAND, (self.batch.size, *x.shape), apply(Op.RESHAPE, (1, *x.shape), x))

    def gathered(self, g: Tensor) -> Tensor:
        shape = g.shape[1:]
        lazy = build.reshape(total(g.lazy), (1, *shape))
        return apply(Op.RESHAPE, shape, g._new(lazy, record(Op.SUM, (0,), (g,), lazy)))

    def entered(self, gradients: Mapping[int, Tensor]) -> tuple[Frame, dict[int, Tensor]]:
        new = {i: _element(g) for i, g in gradients.items()}
        batch = Batch(self.batch.size, {s.inner.lazy: s.outer.lazy for s in new.values()}, self.batch)
        return _Mapped(batch, (*self.stand_ins, *new.values())), {i: s.inner for i, s in new.items()}


def _element(x: Tensor) -> StandIn:
    """What stands for one element of ``x``, whose first axis is the batch's."""
    return StandIn.of(x, stand_in(x.shape[1:], x.dtype, x.device))


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """``func``, which is written for one element, on a whole batch at once, without a loop.

    ``in_dims`` says which dimension of each argument is the batch's: one number for all, or nested like the
    positional arguments (tuples, lists, dicts, dataclasses), down to any level; None for what is the same
    for all elements. Keyword arguments are the same for all. ``out_dims`` says likewise where the batch's
    dimension is put in the results, which must be tensors, nested or not; None only for a result that is the
    same for all elements.

    ``randomness``: whether random numbers drawn inside are "different" for each element, the "same" for all,
    or an "error". ``chunk_size``: at most so many elements at a time, which limits the memory it takes.

    ``func`` runs once, on tensors that stand for an element; the graph that it builds is then rewritten. So
    it can't read values (``item()``, ``if x > 0``, boolean masks as an index) of what differs between
    elements; that raises TransformError. It may use tensors from outside, and transforms may be nested:
    gradients flow to the arguments and to the tensors from outside. As ``torch.func.vmap``.
    """
    if randomness not in RANDOMNESS:
        raise TransformError(f"vmap: randomness must be one of {', '.join(RANDOMNESS)}, got {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise ShapeError(f"vmap: chunk_size must be at least 1, got {chunk_size}")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        dims = tree.spread(in_dims, structure, "vmap: in_dims")
        moved = [_batch_first(x, d) for x, d in zip(leaves, dims, strict=True)]
        size = _batch_size(func, leaves, dims)
        step = chunk_size or max(size, 1)
        starts = range(0, size, step) if size else (0,)
        parts = []
        for start in starts:
            stop = min(start + step, size)
            pairs = zip(moved, dims, strict=True)
            part = [x if d is None else _part(x, start, stop) for x, d in pairs]
            parts.append(_mapped(func, args, part, dims, kwargs, randomness, out_dims))
        outs = [list(p) for p in zip(*[found for _, _, found in parts], strict=True)]
        like, places, _ = parts[0]
        return tree.refill(like, [_joined(found, place) for found, place in zip(outs, places, strict=True)])

    return wrapper


def _batch_first(x: Any, dim: Any) -> Any:
    """``x`` with its batch dimension moved to the front."""
    if dim is None or x is None:
        return x
    if not isinstance(x, Tensor):
        raise TransformError(
            f"vmap: an argument is a {type(x).__name__}, which has no dimension {dim}; make it a tensor, or "
            "pass in_dims with None in its place"
        )
    if not x.shape:
        raise ShapeError("vmap: an argument has no dimensions; pass in_dims with None in its place")
    axis = axis_of(dim, x.ndim, "vmap: in_dims", x.shape)
    return apply(Op.PERMUTE, (axis, *[a for a in range(x.ndim) if a != axis]), x)


def _batch_size(func: Callable[..., Any], leaves: Sequence[Any], dims: Sequence[Any]) -> int:
    found = [(x.shape, d) for x, d in zip(leaves, dims, strict=True) if d is not None and x is not None]
    if not found:
        raise TransformError(
            f"vmap of {name_of(func)}: no argument is mapped over; in_dims must be a number for at least one"
        )
    sizes = [shape[d] for shape, d in found]
    if len(set(sizes)) > 1:
        words = ", ".join(f"{shape[d]} (dimension {d} of {shape})" for shape, d in found)
        raise ShapeError(f"vmap of {name_of(func)}: the batch has different sizes in the arguments: {words}")
    return int(sizes[0])


def _part(x: Tensor | None, start: int, stop: int) -> Tensor | None:
    if x is None or stop - start == x.shape[0]:
        return x
    return cut(x, 0, start, stop)


def _joined(results: list[Any], place: Any) -> Any:
    """The results of all chunks, the batch where it is wanted."""
    if place is None or results[0] is None:
        return results[0]
    whole: Tensor = results[0] if len(results) == 1 else Tensor.cat(results, dim=0)
    order = list(range(1, whole.ndim))
    order.insert(place, 0)
    return apply(Op.PERMUTE, tuple(order), whole)


def _mapped(
    func: Callable[..., Any],
    args: Any,
    leaves: Sequence[Any],
    dims: Sequence[Any],
    kwargs: Any,
    randomness: str,
    out_dims: Any,
) -> tuple[Any, list[int | None], list[Any]]:
    """The nested results of one element, where the batch goes in each, and all elements' results."""
    watch = Watch()
    with recording(watch):
        pairs = zip(leaves, dims, strict=True)
        elements = [x if d is None or x is None else _element(x) for x, d in pairs]
    stand_ins = [s for s in elements if isinstance(s, StandIn)]
    batch = Batch(stand_ins[0].outer.shape[0], {s.inner.lazy: s.outer.lazy for s in stand_ins})
    try:
        with recording(watch), lane(batch, randomness):
            inner = [s.inner if isinstance(s, StandIn) else s for s in elements]
            out = func(*tree.refill(args, inner), **kwargs)
        _check_changes(func, watch, batch)
    except BaseException:
        watch.undo()
        raise
    results, structure = tree.flatten(out)
    places = tree.spread(out_dims, structure, "vmap: out_dims")
    _check_results(func, results, places, batch)
    shared = [not isinstance(t, Tensor) or d is None for t, d in zip(results, places, strict=True)]
    left = iter(leave(_Mapped(batch, stand_ins), [t for t, s in zip(results, shared, strict=True) if not s]))
    found = [t if s else next(left) for t, s in zip(results, shared, strict=True)]
    axes = [
        None if s else axis_of(d, t.ndim, "vmap: out_dims", t.shape)
        for t, d, s in zip(found, places, shared, strict=True)
    ]
    return out, axes, found


def _check_results(
    func: Callable[..., Any], results: Sequence[Any], places: Sequence[Any], batch: Batch
) -> None:
    for t, place in zip(results, places, strict=True):
        if t is not None and not isinstance(t, Tensor):
            raise TransformError(
                f"vmap of {name_of(func)}: it must return tensors, and returned a {type(t).__name__}"
            )
        if t is not None and place is None and batch.dependent([t.lazy]) >= {t.lazy}:
            raise TransformError(
                f"vmap of {name_of(func)}: out_dims is None for a result that differs between elements; pass "
                "a number"
            )


def _check_changes(func: Callable[..., Any], watch: Watch, batch: Batch) -> None:
    """Raise TransformError if a tensor from outside was made to hold what differs between elements."""
    changed = [handle.lazy for handle in watch.changed()]
    differing = batch.dependent(changed)
    wrong = next((x for x in changed if x in differing), None)
    if wrong is not None:
        raise TransformError(
            f"vmap of {name_of(func)}: a tensor from outside was made to hold a value of shape "
            f"{wrong.shape}, another one for each element (by an in-place operation, running statistics, or "
            "backward()); return it instead"
        )
