"""Attention, its linear and flexible kin, rotary embeddings, and what stands beside them."""

from __future__ import annotations

import math

import numpy as np

from dawdle.dtype import DType, float32, float64
from dawdle.errors import ModelError
from dawdle.onnx.ops.recurrent import at_time, unrolls
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import tensor_dtype
from dawdle.tensor import Tensor
from dawdle.tensor.convolution import conv
from dawdle.tensor.elementwise import where


def _heads(x: Tensor, heads: int) -> Tensor:
    """(B, T, heads * D) as (B, heads, T, D)."""
    return x.reshape(*x.shape[:2], heads, x.shape[2] // heads).transpose(1, 2)


def _joined(x: Tensor) -> Tensor:
    """(B, heads, T, D) as (B, T, heads * D)."""
    return x.transpose(1, 2).flatten(2)


def _precision(node: Node, x: Tensor) -> DType:
    code = node.int("softmax_precision", None)
    return x.dtype if code is None else tensor_dtype(code) or x.dtype


@operator("Attention", since=23)
def attention(
    node: Node,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    valid: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """softmax(query @ key^T * scale + mask) @ value; the keys and values with those of the past before them;
    and the scores, at the stage that ``qk_matmul_output_mode`` says. Rows that may see nothing are 0.
    """
    packed = query.ndim == 3
    if packed:
        query = _heads(query, node.int("q_num_heads"))
        key, value = (_heads(t, node.int("kv_num_heads")) for t in (key, value))
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        key, value = Tensor.cat([past_key, key], 2), Tensor.cat([past_value, value], 2)
    scale = math.sqrt(node.float("scale", 1 / math.sqrt(query.shape[-1])))
    groups = query.shape[1] // key.shape[1]
    keys, values = (t if groups == 1 else t.repeat_interleave(groups, 1) for t in (key, value))
    scores = (query * scale) @ (keys * scale).mT
    stages = [scores]
    cap = node.float("softcap", 0.0)
    scores = (scores / cap).tanh() * cap if cap else scores
    stages.append(scores)
    bias = _bias(node, scores, mask, past, valid)
    scores = scores if bias is None else scores + bias
    stages.append(scores)
    weights = _softmax(scores.cast(_precision(node, query))).cast(query.dtype)
    if bias is not None:
        weights = where(bias.amax(-1, keepdim=True) == -math.inf, 0.0, weights)
    stages.append(weights)
    out = weights @ values
    return _joined(out) if packed else out, key, value, stages[node.int("qk_matmul_output_mode", 0)]


def _softmax(x: Tensor) -> Tensor:
    """Along the last axis, every step rounded to the dtype of ``x``, the precision that was asked for."""
    powers = (x - x.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True)


def _bias(node: Node, scores: Tensor, mask: Tensor | None, past: int, valid: Tensor | None) -> Tensor | None:
    """What is added to the scores: the mask, and -inf where a query may not see a key."""
    queries, keys = scores.shape[-2:]
    if mask is not None and mask.shape[-1] < keys:
        short = [(0, 0)] * (mask.ndim - 1) + [(0, keys - mask.shape[-1])]
        mask = mask.pad(short, value=False if mask.dtype.is_bool else -math.inf)
    seen = mask if mask is not None and mask.dtype.is_bool else None
    limits = _seen(node, queries, keys, past, valid)
    if limits is not None:
        seen = limits if seen is None else seen & limits
    added = None if mask is None or mask.dtype.is_bool else mask
    if seen is None:
        return added
    ground = Tensor.zeros(1, dtype=scores.dtype, device=scores.device) if added is None else added
    return where(seen, ground, -math.inf)


def _seen(node: Node, queries: int, keys: int, past: int, valid: Tensor | None) -> Tensor | None:
    """Which key each query may see, by causality, window and the number of valid keys; None: all."""
    left, right = node.int("left_window_size", -1), node.int("right_window_size", -1)
    if node.flag("is_causal", 0):
        right = 0 if right < 0 else min(right, 0)
    key = node.constant(np.arange(keys))
    conditions = []
    if left >= 0 or right >= 0:
        place = node.constant(np.arange(queries)[:, None] + past)
        if valid is not None:
            place = place + (valid.reshape(-1, 1, 1, 1) - queries)
        if left >= 0:
            conditions.append(key >= place - left)
        if right >= 0:
            conditions.append(key <= place + right)
    if valid is not None:
        conditions.append(key < valid.reshape(-1, 1, 1, 1))
    out = None
    for condition in conditions:
        out = condition if out is None else out & condition
    return out


@operator("FlexAttention", domain="ai.onnx.preview", pure=False)
def flex_attention(node: Node, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention whose scores and weights pass through bodies of the model's own."""
    default = float64 if query.dtype == float64 else float32
    kind = _precision(node, query) if node.has("softmax_precision") else default
    groups = query.shape[1] // key.shape[1]
    keys, values = (t if groups == 1 else t.repeat_interleave(groups, 1) for t in (key, value))
    scores = (query @ keys.mT) * node.float("scale", 1 / math.sqrt(query.shape[-1]))
    scores = _modified(node, "score_mod", scores.cast(kind))
    weights = _modified(node, "prob_mod", scores.softmax(-1))
    return weights.cast(query.dtype) @ values


def _modified(node: Node, name: str, x: Tensor) -> Tensor:
    if not node.has(name):
        return x
    body = node.graph(name)
    (out,) = node.run(body, {body.inputs[0]: x})
    if not isinstance(out, Tensor):
        raise ModelError(f"{node}: {name} must give a tensor")
    return out


# ---- linear attention


@operator("LinearAttention", since=27)
def linear_attention(
    node: Node,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """A matrix for each head as state, to which each token adds key x value, after a decay and less what the
    state already says ("delta"); each output is the query times the state.
    """
    rule, heads = node.string("update_rule", "gated_delta"), node.int("kv_num_heads")
    gated, delta = rule in ("gated", "gated_delta"), rule in ("delta", "gated_delta")
    if rule not in ("linear", "gated", "delta", "gated_delta") or (gated and decay is None):
        raise ModelError(f"{node}: update rule {rule!r} with decay {decay} is not in the specification")
    if delta and beta is None:
        raise ModelError(f"{node}: update rule {rule!r} needs beta")
    batch, times = query.shape[:2]
    groups = node.int("q_num_heads") // heads
    queries = _by_time(query, node.int("q_num_heads"))  # (T, B, Hq, dk)
    keys, values = _by_time(key, heads), _by_time(value, heads)
    gates = _by_time(decay, heads).exp().contiguous() if gated and decay is not None else None
    rates = _by_time(beta, beta.shape[-1]) if delta and beta is not None else None
    width, depth = keys.shape[-1], values.shape[-1]
    zeros = node.constant(np.zeros((batch, heads, width, depth), np.float32))
    state = zeros if past is None else past.cast(float32)
    outputs = []
    for t in range(times):
        k, v, q = (at_time(node, table, t) for table in (keys, values, queries))
        if gates is not None:
            state = state * at_time(node, gates, t).unsqueeze(-1)
        if rates is not None:
            known = (state * k.unsqueeze(-1)).sum(2)
            v = (v - known) * at_time(node, rates, t)
        state = state + k.unsqueeze(-1) * v.unsqueeze(-2)
        shared = q.reshape(batch, heads, groups, width)
        outputs.append((shared @ state).reshape(batch, heads * groups * depth))
        if unrolls(times):
            outputs[-1].realize(state)
    scale = node.float("scale", 0.0) or 1 / math.sqrt(width)
    out = (Tensor.stack(outputs, 1) * scale).cast(query.dtype)
    return out, state.cast(query.dtype if past is None else past.dtype)


def _by_time(x: Tensor, heads: int) -> Tensor:
    """(B, T, heads * D) as (T, B, heads, D) in float32."""
    parts = x.cast(float32).reshape(*x.shape[:2], heads, x.shape[2] // heads)
    return parts.transpose(0, 1).contiguous()


@operator("CausalConvWithState", since=27)
def causal_conv(
    node: Node, x: Tensor, weight: Tensor, bias: Tensor | None = None, past: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A convolution of each channel over what was before; and the last inputs, for the next call."""
    reach = weight.shape[2] - 1
    if past is None:
        past = node.constant(np.zeros((*x.shape[:2], reach), np.float32)).cast(x.dtype)
    whole = Tensor.cat([past, x], 2) if reach else x
    out = conv(whole, weight, bias, groups=x.shape[1])
    if node.string("activation", "none") in ("silu", "swish"):
        out = out.silu()
    return out, whole[:, :, whole.shape[2] - reach :]


# ---- around attention


@operator("RotaryEmbedding", since=23)
def rotary_embedding(
    node: Node, x: Tensor, cosine: Tensor, sine: Tensor, places: Tensor | None = None
) -> Tensor:
    """Pairs of features turned by an angle for each position; those beyond ``rotary_embedding_dim`` stay."""
    packed = x.ndim == 3
    heads = _heads(x, node.int("num_heads")) if packed else x  # (B, heads, T, D)
    size = node.int("rotary_embedding_dim", 0) or heads.shape[-1]
    cosine, sine = ((t if places is None else t[places]).unsqueeze(1) for t in (cosine, sine))
    turned, rest = heads[..., :size], heads[..., size:]
    interleaved = node.flag("interleaved", 0)
    if interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
    else:
        first, second = turned.chunk(2, -1)
    real, imaginary = cosine * first - sine * second, sine * first + cosine * second
    if interleaved:
        turned = Tensor.stack([real, imaginary], -1).flatten(-2)
    else:
        turned = Tensor.cat([real, imaginary], -1)
    out = Tensor.cat([turned, rest], -1) if rest.shape[-1] else turned
    return _joined(out) if packed else out


@operator("SwiGLU", since=28)
def swiglu(node: Node, gate: Tensor, x: Tensor) -> Tensor:
    return gate * (gate * node.float("alpha", 1.0)).sigmoid() * x
