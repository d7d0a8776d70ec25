"""Products of tensors: matmul, einsum, linear and attention. Each is a broadcast multiplication and a SUM,
never materialised.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dawdle.dtype import bool_, float32, promote
from dawdle.errors import DTypeError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import HALF, Operand, apply, broadcast_shape, cast, coerce, constant, dims, expand_to
from dawdle.tensor.movement import diagonal, tril
from dawdle.tensor.reduce import softmax

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def contract(a: Tensor, b: Tensor, axes: Sequence[int]) -> Tensor:
    """The sum over ``axes`` of the product of two tensors that broadcast; the axes keep size 1.

    16-bit floats are multiplied and summed in float32, and rounded once.
    """
    dtype = promote(a.lazy.dtype, b.lazy.dtype)
    work = float32 if dtype in HALF else dtype
    shape = broadcast_shape("product", a.lazy.shape, b.lazy.shape)
    a, b = expand_to(cast(a, work), shape), expand_to(cast(b, work), shape)
    if dtype.is_bool:
        return apply(Op.AMAX, tuple(axes), apply(Op.AND, None, a, b))
    return cast(apply(Op.SUM, tuple(axes), apply(Op.MUL, None, a, b)), dtype)


def matmul(x: Tensor, other: Operand) -> Tensor:
    """Matrix product of (..., m, k) and (..., k, n), batch dimensions broadcast.

    A 1-dimensional operand counts as a row on the left and a column on the right, and that dimension is
    dropped again.
    """
    y = coerce(x, other)
    a, b = x.lazy.shape, y.lazy.shape
    if not a or not b:
        raise ShapeError(f"matmul needs operands of at least one dimension, got {a} and {b}; multiply with *")
    if a[-1] != b[-2 if len(b) > 1 else 0]:
        raise ShapeError(
            f"matmul: {a} @ {b} doesn't fit: the last dimension of the left, {a[-1]}, must equal "
            f"the {'next to last' if len(b) > 1 else 'only'} one of the right, {b[-2 if len(b) > 1 else 0]}"
        )
    left = apply(Op.RESHAPE, (*a[:-1], 1, a[-1]), x)  # (..., m, 1, k)
    if len(b) == 1:
        right = apply(Op.RESHAPE, (1, b[0]), y)
    else:
        order = tuple(range(len(b)))
        flipped = apply(Op.PERMUTE, (*order[:-2], order[-1], order[-2]), y)
        shape = flipped.lazy.shape
        right = apply(
            Op.RESHAPE, (*shape[:-2], 1, *shape[-2:]) if len(a) > 1 else shape, flipped
        )  # (..., 1, n, k)
    try:
        product_shape = broadcast_shape("matmul", left.lazy.shape, right.lazy.shape)
    except ShapeError:
        raise ShapeError(f"matmul: the batch dimensions of {a} and {b} don't broadcast") from None
    out = contract(left, right, (len(product_shape) - 1,))
    shape = out.lazy.shape[:-1]
    if len(b) == 1:
        shape = shape[:-1]
    return apply(Op.RESHAPE, shape, out)


def rmatmul(x: Tensor, other: Operand) -> Tensor:
    """``other @ x``."""
    return matmul(coerce(x, other), x)


def dot(x: Tensor, other: Operand) -> Tensor:
    """Sum of the products of two 1-dimensional tensors; otherwise :func:`matmul`."""
    return matmul(x, other)


def outer(x: Tensor, other: Operand) -> Tensor:
    """All products of elements of two 1-dimensional tensors."""
    y = coerce(x, other)
    if len(x.lazy.shape) != 1 or len(y.lazy.shape) != 1:
        raise ShapeError(f"outer takes 1-dimensional tensors, got {x.lazy.shape} and {y.lazy.shape}")
    return ew.mul(apply(Op.RESHAPE, (x.lazy.size, 1), x), y)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x @ weight + bias`` with a weight of shape (in, out), or ``x * weight + bias`` with a 1-dimensional
    one.

    PyTorch's form with a weight of shape (out, in) is ``nn.functional.linear``.
    """
    out = ew.mul(x, weight) if len(weight.lazy.shape) == 1 else matmul(x, weight)
    return out if bias is None else ew.add(out, bias)


# ---- einsum


def einsum(formula: str, *operands: Any) -> Tensor:
    """Sums of products by Einstein's convention, as NumPy's: ``einsum("bij,bjk->bik", a, b)``.

    Letters name dimensions; those missing in the output are summed; a letter twice in an operand takes the
    diagonal; "..." stands for dimensions that broadcast. Without "->" the output has the letters that occur
    once, in order. Operands are contracted in pairs from left to right. Raises ShapeError for formulas that
    don't fit.
    """
    tensors: list[Tensor] = (
        list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else [*operands]
    )
    inputs, output = _parse(formula, tensors)
    sizes: dict[str, int] = {}
    terms = [_without_repeats(t, labels, formula, sizes) for t, labels in zip(tensors, inputs, strict=True)]
    for label in output:
        if label not in sizes:
            raise ShapeError(f"einsum {formula!r}: output dimension {label!r} is in no operand")
    value, labels = terms[0]
    for i, (other, other_labels) in enumerate(terms[1:], start=1):
        later = {c for _, rest in terms[i + 1 :] for c in rest} | set(output)
        value, labels = _contract_pair(value, labels, other, other_labels, later)
    return _arrange(value, labels, output)


def _parse(formula: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Labels of each operand and of the output; an ellipsis becomes upper-end characters of its own."""
    text = formula.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(tensors):
        raise ShapeError(f"einsum {formula!r} names {len(inputs)} operands, got {len(tensors)}")
    for part in [*inputs, right]:
        if not all(c.isalpha() for c in part.replace("...", "", 1)):
            raise ShapeError(f"einsum {formula!r}: {part!r} may hold letters and one '...'")
    dots = 0
    for part, t in zip(inputs, tensors, strict=True):
        letters = len(part.replace("...", ""))
        extra = len(t.lazy.shape) - letters
        if extra < 0 or (extra and "..." not in part):
            raise ShapeError(
                f"einsum {formula!r}: {part!r} names {letters} dimensions, "
                f"the operand has shape {t.lazy.shape}"
            )
        dots = max(dots, extra if "..." in part else 0)
    ellipsis = "".join(chr(0x10000 + i) for i in range(dots))

    def spelled(part: str, extra: int) -> str:
        return part.replace("...", ellipsis[dots - extra :])

    labels = [
        spelled(p, len(t.lazy.shape) - len(p.replace("...", "")))
        for p, t in zip(inputs, tensors, strict=True)
    ]
    if arrow:
        return labels, spelled(right, dots)
    joined = "".join(labels)
    return labels, ellipsis + "".join(
        sorted(c for c in set(joined) if joined.count(c) == 1 and c not in ellipsis)
    )


def _without_repeats(t: Tensor, labels: str, formula: str, sizes: dict[str, int]) -> tuple[Tensor, str]:
    """Diagonals taken for repeated labels, and ``sizes`` filled in."""
    for label, n in zip(labels, t.lazy.shape, strict=True):
        known = sizes.get(label, 1)
        if known != n and 1 not in (known, n):
            raise ShapeError(
                f"einsum {formula!r}: dimension {label!r} is {known} in one place and {n} in another"
            )
        sizes[label] = max(known, n) if 0 not in (known, n) else 0
    while len(set(labels)) < len(labels):
        label = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        t = diagonal(t, 0, i, j)
        labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + label
    return t, labels


def _aligned(t: Tensor, labels: str, order: str) -> Tensor:
    """``t`` with its dimensions in ``order``, size 1 where it lacks one."""
    present = [c for c in order if c in labels]
    t = apply(Op.PERMUTE, tuple(labels.index(c) for c in present), t)
    sizes = dict(zip(present, t.lazy.shape, strict=True))
    return apply(Op.RESHAPE, tuple(sizes.get(c, 1) for c in order), t)


def _contract_pair(a: Tensor, a_labels: str, b: Tensor, b_labels: str, later: set[str]) -> tuple[Tensor, str]:
    a, a_labels = _summed_alone(a, a_labels, later | set(b_labels))
    b, b_labels = _summed_alone(b, b_labels, later | set(a_labels))
    every = a_labels + "".join(c for c in b_labels if c not in a_labels)
    summed = "".join(c for c in every if c not in later)
    kept = "".join(c for c in every if c in later)
    order = kept + summed
    out = contract(_aligned(a, a_labels, order), _aligned(b, b_labels, order), range(len(kept), len(order)))
    return apply(Op.RESHAPE, out.lazy.shape[: len(kept)], out), kept


def _summed_alone(t: Tensor, labels: str, needed: set[str]) -> tuple[Tensor, str]:
    """``t`` summed over the labels that no one else needs."""
    axes = [i for i, c in enumerate(labels) if c not in needed]
    return (t.sum(axes), "".join(c for c in labels if c in needed)) if axes else (t, labels)


def _arrange(t: Tensor, labels: str, output: str) -> Tensor:
    t, labels = _summed_alone(t, labels, set(output))
    return apply(Op.PERMUTE, tuple(labels.index(c) for c in output), t)


# ---- attention


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


@dims
def cross(x: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    """Vector product along ``dim`` of size 3."""
    rolled = [(t.roll(-1, dim), t.roll(-2, dim)) for t in (x, other)]
    (a1, a2), (b1, b2) = rolled
    return ew.sub(ew.mul(a1, b2), ew.mul(a2, b1))
