"""Attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.dtype import bool_, promote
from dawdle.errors import ArgumentError, DTypeError, ShapeError
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import constant, operands
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import tril
from dawdle.tensor.reduce import softmax

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


@operands("key", "value", "attn_mask")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value, over (..., heads, length, features).

    A bool mask holds where attention is allowed, a float one is added; where nothing is allowed, the result
    is 0. ``is_causal`` lets a position see those up to itself. ``scale`` defaults to 1 / sqrt(features). With
    ``enable_gqa`` keys and values may have fewer heads, each for a group of the queries' (Ainslie et al.,
    GQA, 2023). Source: Vaswani et al., Attention Is All You Need, 2017.
    """
    if is_causal and attn_mask is not None:
        raise ArgumentError("scaled_dot_product_attention takes either is_causal or attn_mask, not both")
    dtype = promote(promote(query.lazy.dtype, key.lazy.dtype), value.lazy.dtype)
    if not dtype.is_float:
        raise DTypeError(f"attention takes floats, got {dtype.name}; cast the operands")
    if any(len(t.lazy.shape) < 2 for t in (query, key, value)):
        shapes = ", ".join(str(t.lazy.shape) for t in (query, key, value))
        raise ShapeError(f"scaled_dot_product_attention takes (..., length, features), got shapes {shapes}")
    if enable_gqa:
        key, value = _for_groups(key, query), _for_groups(value, query)
    factor = 1 / math.sqrt(query.lazy.shape[-1]) if scale is None else scale
    scores = ew.mul(matmul(query, key.transpose(-2, -1)), factor)
    if is_causal:
        allowed = tril(constant(query, True, bool_, scores.lazy.shape[-2:]))
        weights = softmax(ew.where(allowed, scores, -math.inf), -1)
    elif attn_mask is None:
        weights = softmax(scores, -1)
    else:
        weights = _masked_softmax(scores, attn_mask)
    return matmul(weights.dropout(dropout_p, training=True) if dropout_p else weights, value)


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Zeros in rows where the mask lets nothing pass."""
    if mask.lazy.dtype.is_bool:
        scores, nothing = ew.where(mask, scores, -math.inf), ew.invert(mask.any(-1, True))
    else:
        scores, nothing = ew.add(scores, mask), ew.eq(mask.detach().amax(-1, True), -math.inf)
    weights: Tensor = softmax(ew.where(nothing, 0.0, scores), -1)
    return ew.where(nothing, 0.0, weights)


def _for_groups(x: Tensor, query: Tensor) -> Tensor:
    """Keys or values, the heads repeated for the queries' groups."""
    heads, wanted = x.lazy.shape[-3:-2], query.lazy.shape[-3:-2]
    if not heads or not wanted or not heads[0] or wanted[0] % heads[0]:
        raise ShapeError(
            f"attention in groups: the heads of the queries {query.lazy.shape} must be a multiple of "
            f"those of {x.lazy.shape}"
        )
    out: Tensor = x.repeat_interleave(wanted[0] // heads[0], dim=-3)
    return out
