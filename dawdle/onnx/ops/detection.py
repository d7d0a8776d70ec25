"""Boxes of object detectors."""

from __future__ import annotations

import numpy as np

from dawdle.dtype import Array, int64
from dawdle.errors import ShapeError
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import host, scalar
from dawdle.tensor import Tensor


@operator("NonMaxSuppression", since=10, host=None)
def non_max_suppression(
    node: Node,
    boxes: Tensor,
    scores: Tensor,
    most: Tensor | None = None,
    overlap: Tensor | None = None,
    least: Tensor | None = None,
) -> Tensor:
    """(selected, 3): batch, class and box of those that stay, in each class by descending score.

    How many stay depends on the values, so the host does it. A box goes where its intersection with a better
    one, over their union, is above the threshold.
    """
    corners, points = host(boxes), host(scores)
    if corners.shape[2:] != (4,) or points.ndim != 3 or points.shape[::2] != corners.shape[:2]:
        raise ShapeError(
            f"{node} takes boxes (batches, boxes, 4) and scores (batches, classes, boxes), got"
            f" {corners.shape} and {points.shape}"
        )
    count = 0 if most is None else int(scalar(most))
    threshold = 0.0 if overlap is None else float(scalar(overlap))
    floor = None if least is None else float(scalar(least))
    chosen = []
    for batch in range(points.shape[0]):
        edges = _edges(corners[batch], node.flag("center_point_box", 0))
        for kind in range(points.shape[1]):
            kept = _suppressed(edges, points[batch, kind], count, threshold, floor)
            chosen += [(batch, kind, box) for box in kept]
    return node.constant(np.array(chosen, np.int64).reshape(-1, 3), int64)


def _edges(boxes: Array, centred: bool) -> Array:
    """(boxes, 4): low and high of the first axis, then of the second."""
    if centred:
        middle, half = boxes[:, [1, 0]], boxes[:, [3, 2]] / 2
        low, high = middle - half, middle + half
    else:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _suppressed(edges: Array, scores: Array, count: int, threshold: float, floor: float | None) -> list[int]:
    """The boxes that stay of one class, at most ``count``."""
    order = np.argsort(-scores, kind="stable")
    order = order if floor is None else order[scores[order] > floor]
    area = np.prod(edges[:, 2:] - edges[:, :2], 1)
    kept: list[int] = []
    while len(order) and len(kept) < count:
        best, rest = order[0], order[1:]
        kept.append(int(best))
        low = np.maximum(edges[rest, :2], edges[best, :2])
        high = np.minimum(edges[rest, 2:], edges[best, 2:])
        common = np.prod(np.maximum(high - low, 0), 1)
        union = area[rest] + area[best] - common
        order = rest[common <= threshold * union]
    return kept
