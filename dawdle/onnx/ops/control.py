"""If, Loop and Scan. Their control runs on the host: a condition that is computed on a device is read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from dawdle.dtype import DType, bool_, int64
from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.graph import place_of, realize
from dawdle.onnx.ops.common import axis
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HOST, Value, on_host, placed, scalar
from dawdle.tensor import Tensor

UNROLLED = 16  # rounds whose values are computed together; those after them are computed one at a time


@operator("If", host=None, pure=False)
def if_(node: Node, condition: Value) -> tuple[Value, ...]:
    return tuple(node.run(node.graph("then_branch" if scalar(condition) else "else_branch"), {}))


@operator("Loop", host=None, pure=False)
def loop(node: Node, trips: Value, condition: Value, *state: Value) -> tuple[Value, ...]:
    """The body's values after at most ``trips`` rounds, as long as the condition holds, and what each round
    gave beside them, stacked.
    """
    body = node.graph("body")
    going = True if condition is None else bool(scalar(condition))
    rounds: Iterable[int] = itertools.count() if trips is None else range(scalar(trips))
    gathered: list[list[Value]] = [[] for _ in body.outputs[1 + len(state) :]]
    carried = list(state)
    for i in rounds:
        if not going:
            break
        given = [on_host(i, int64), on_host(going, bool_), *carried]
        flag, *results = node.run(body, dict(zip(body.inputs, given, strict=False)))
        if i >= UNROLLED or (isinstance(flag, Tensor) and flag.device != HOST):
            realize([flag, *results])
        going = bool(scalar(flag))
        carried = results[: len(state)]
        for column, value in zip(gathered, results[len(state) :], strict=True):
            column.append(value)
    kinds = body.declared[1 + len(state) :]
    return (*carried, *[stacked(node, c, 0, kind) for c, kind in zip(gathered, kinds, strict=True)])


def stacked(node: Node, values: Sequence[Value], dim: int, kind: tuple[DType, tuple[int, ...]]) -> Value:
    """Tensors of one shape along a new axis; ``kind`` is their dtype and shape if there are none."""
    found = [v for v in values if isinstance(v, Tensor)]
    if len(found) < len(values):
        raise ModelError(f"{node}: only tensors can be gathered from round to round")
    if not found:
        dtype, shape = kind
        at = axis(dim, len(shape) + 1, node)
        return Tensor.zeros(*shape[:at], 0, *shape[at:], dtype=dtype, device=node.device)
    place = place_of(found, node.target)
    return Tensor.stack([placed(v, place) for v in found], dim=dim)


@operator("Scan", since=8, host=None, pure=False)
def scan_batches(node: Node, lengths: Value, *values: Value) -> tuple[Value, ...]:
    """The body along axis 1, for each element of axis 0 on its own."""
    if lengths is not None:
        raise ModelError(f"{node}: sequences of several lengths aren't supported in opset 8")
    count = len(values) - node.int("num_scan_inputs")
    tensors = [v for v in values if isinstance(v, Tensor)]
    directions = node.ints("directions", None)
    columns: list[list[Value]] = []
    for b in range(tensors[0].shape[0]):
        results = _scanned(node, [t[b] for t in tensors], count, (), directions, (), ())
        columns = columns or [[] for _ in results]
        for column, value in zip(columns, results, strict=True):
            column.append(value)
    kinds = node.graph("body").declared
    return tuple(stacked(node, c, 0, kind) for c, kind in zip(columns, kinds, strict=True))


@operator("Scan", since=9, host=None, pure=False)
def scan(node: Node, *values: Value) -> tuple[Value, ...]:
    """The body along an axis of its last inputs, with states handed from round to round."""
    tensors = [v for v in values if isinstance(v, Tensor)]
    return _scanned(
        node,
        tensors,
        len(values) - node.int("num_scan_inputs"),
        node.ints("scan_input_axes", ()),
        node.ints("scan_input_directions", ()),
        node.ints("scan_output_axes", ()),
        node.ints("scan_output_directions", ()),
    )


def _scanned(
    node: Node,
    values: Sequence[Tensor],
    states: int,
    axes: Sequence[int],
    directions: Sequence[int] | None,
    out_axes: Sequence[int],
    out_directions: Sequence[int],
) -> tuple[Value, ...]:
    body = node.graph("body")
    state: list[Value] = list(values[:states])
    inputs = values[states:]
    dims = [axis(a, x.ndim, node) for a, x in zip(axes or [0] * len(inputs), inputs, strict=True)]
    lengths = {x.shape[a] for x, a in zip(inputs, dims, strict=True)}
    if len(lengths) > 1:
        raise ShapeError(f"{node}: the scanned inputs have different lengths {sorted(lengths)}")
    n = lengths.pop()
    backwards = directions or [0] * len(inputs)
    outputs: list[list[Value]] = [[] for _ in body.outputs[states:]]
    for i in range(n):
        places = [n - 1 - i if back else i for back in backwards]
        parts = [_part(x, a, at, n) for x, a, at in zip(inputs, dims, places, strict=True)]
        results = node.run(body, dict(zip(body.inputs, [*state, *parts], strict=True)))
        if n > UNROLLED:
            realize(results)
        state = results[:states]
        for column, value in zip(outputs, results[states:], strict=True):
            column.append(value)
    prepended = out_directions or [0] * len(outputs)
    columns = [c[::-1] if back else c for c, back in zip(outputs, prepended, strict=True)]
    new_axes = out_axes or [0] * len(outputs)
    found = zip(columns, new_axes, body.declared[states:], strict=True)
    return (*state, *[stacked(node, c, a, kind) for c, a, kind in found])


def _part(x: Tensor, dim: int, at: int, n: int) -> Tensor:
    """A slice; of many by an index in memory, so that each round is the same kernels."""
    if n <= UNROLLED or x.device == HOST:
        return x.select(dim, at)
    return x.index_select(dim, placed(on_host([at]), x.device)).squeeze(dim)
