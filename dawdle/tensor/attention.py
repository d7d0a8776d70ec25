"""Attention."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dawdle.dtype import bool_, promote
from dawdle.errors import DTypeError, ShapeError
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import constant
from dawdle.tensor.linalg import matmul
from dawdle.tensor.movement import tril
from dawdle.tensor.reduce import softmax

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query @ key^T * scale + mask) @ value, over (..., length, features).

    A bool mask holds where attention is allowed, a float one is added. ``is_causal`` lets a position see
    those up to itself. ``scale`` defaults to 1 / sqrt(features). Source: Vaswani et al., Attention Is All You
    Need, 2017.
    """
    if is_causal and attn_mask is not None:
        raise ShapeError("scaled_dot_product_attention takes either is_causal or attn_mask, not both")
    dtype = promote(promote(query.lazy.dtype, key.lazy.dtype), value.lazy.dtype)
    if not dtype.is_float:
        raise DTypeError(f"attention takes floats, got {dtype.name}; cast the operands")
    factor = 1 / math.sqrt(query.lazy.shape[-1]) if scale is None else scale
    scores = ew.mul(matmul(query, key.transpose(-2, -1)), factor)
    if is_causal:
        size = scores.lazy.shape[-2:]
        attn_mask = tril(constant(query, True, bool_, size))
    if attn_mask is not None:
        scores = (
            ew.where(attn_mask, scores, -math.inf)
            if attn_mask.lazy.dtype.is_bool
            else ew.add(scores, attn_mask)
        )
    weights = softmax(scores, -1)
    return matmul(weights.dropout(dropout_p, training=True) if dropout_p else weights, value)
