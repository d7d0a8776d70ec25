"""Small pieces of networks built from primitives, for tests of the scheduler."""
from __future__ import annotations

import itertools
import math

import numpy as np
from random_graphs import leaf

from dawdle.dtype import DType, float32, int64
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op

LOG2E = 1.4426950408889634


def data(*shape: int, dtype: DType = float32, seed: int = 0) -> LazyBuffer:
    """A leaf of random positive numbers."""
    return leaf(np.random.default_rng(seed + sum(shape)).random(shape) + 0.5, dtype)


def big(*shape: int, dtype: DType = float32) -> LazyBuffer:
    """A leaf that has no elements: good for scheduling only."""
    return build.buffer(None, shape, dtype, "NUMPY")


def fill(x: LazyBuffer, value: float) -> LazyBuffer:
    return build.full(x.shape, value, x.dtype, x.device)


def op2(op: Op, a: LazyBuffer, b: LazyBuffer | float) -> LazyBuffer:
    """A binary op; the second operand may be a number, or an array with axes of size 1 to repeat."""
    if isinstance(b, LazyBuffer):
        shape = tuple(max(n, m) for n, m in zip(a.shape, b.shape, strict=True))
        return build.binary(op, build.expand(a, shape), build.expand(b, shape))
    return build.binary(op, a, fill(a, b))


def add(a, b):
    return op2(Op.ADD, a, b)


def sub(a, b):
    return op2(Op.SUB, a, b)


def mul(a, b):
    return op2(Op.MUL, a, b)


def div(a, b):
    return op2(Op.DIV, a, b)


def exp(x):
    return build.unary(Op.EXP2, mul(x, LOG2E))


def log(x):
    return mul(build.unary(Op.LOG2, x), 1 / LOG2E)


def sqrt(x):
    return build.unary(Op.SQRT, x)


def relu(x):
    return op2(Op.MAX, x, 0.0)


def total(x, *axes):
    return build.reduce(Op.SUM, x, axes or range(x.ndim))


def mean(x, *axes):
    return mul(total(x, *axes), math.prod(x.shape[a] for a in axes or range(x.ndim)) ** -1)


def highest(x, *axes):
    return build.reduce(Op.AMAX, x, axes)


def softmax(x):
    e = exp(sub(x, highest(x, x.ndim - 1)))
    return div(e, total(e, x.ndim - 1))


def log_softmax(x):
    y = sub(x, highest(x, x.ndim - 1))
    return sub(y, log(total(exp(y), x.ndim - 1)))


def row(x: LazyBuffer, ndim: int) -> LazyBuffer:
    return build.reshape(x, (1,) * (ndim - 1) + x.shape)


def layer_norm(x, gain, bias):
    last = x.ndim - 1
    centred = sub(x, mean(x, last))
    scale = sqrt(add(mean(mul(centred, centred), last), 1e-5))
    return add(mul(div(centred, scale), row(gain, x.ndim)), row(bias, x.ndim))


def matmul(a, b):
    """(..., m, k) @ (..., k, n)"""
    *lead, m, k = a.shape
    n = b.shape[-1]
    a = build.reshape(a, (*lead, m, k, 1))
    b = build.reshape(b, (*lead, 1, k, n))
    return build.reshape(total(mul(a, b), len(lead) + 1), (*lead, m, n))


def transpose(x):
    return build.permute(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def conv2d(x, w, padding=0):
    """(n, i, h, w) with (o, i, kh, kw): one sum over i, kh, kw."""
    p = (padding, padding, 0)
    x = build.pad(x, [(0, 0, 0), (0, 0, 0), p, p])
    o, i, kh, kw = w.shape
    x = build.window(x, [(kh, 1, 1), (kw, 1, 1)])
    n, _, oh, ow = x.shape[:4]
    x = build.reshape(x, (n, 1, i, oh, ow, kh, kw))
    w = build.reshape(w, (1, o, i, 1, 1, kh, kw))
    return build.reshape(total(mul(x, w), 2, 5, 6), (n, o, oh, ow))


def channels(x):
    return build.reshape(x, (1, x.size, 1, 1))


def batch_norm(x, average, variance, gain, bias):
    scale = div(gain, sqrt(add(variance, 1e-5)))
    return add(mul(sub(x, channels(average)), channels(scale)), channels(bias))


def cross_entropy(logits, labels):
    rows = build.gather(log_softmax(logits), build.reshape(labels, (labels.size, 1)), 1)
    return mul(total(rows), -1.0 / labels.size)


def adam(p, g, m, v, lr=1e-3):
    m = add(mul(m, 0.9), mul(g, 0.1))
    v = add(mul(v, 0.999), mul(mul(g, g), 0.001))
    return [sub(p, mul(div(m, add(sqrt(v), 1e-8)), lr)), m, v]


def labels(n: int, classes: int) -> LazyBuffer:
    return leaf(np.arange(n) % classes, int64)


def mlp_step(batch: int, sizes: tuple[int, ...], make=data) -> list[LazyBuffer]:
    """Loss and new parameters of a perceptron with ReLU, softmax cross-entropy and plain gradient descent."""
    x, y = make(batch, sizes[0]), labels(batch, sizes[-1])
    params = [(make(i, o), make(o)) for i, o in itertools.pairwise(sizes)]
    inputs, h = [], x
    for n, (w, b) in enumerate(params):
        inputs.append(h)
        h = add(matmul(h, w), row(b, 2))
        h = relu(h) if n + 1 < len(params) else h
    loss = cross_entropy(h, y)
    classes = build.reshape(build.iota(sizes[-1], int64, "NUMPY"), (1, sizes[-1]))
    hot = build.cast(op2(Op.CMPEQ, build.reshape(y, (batch, 1)), classes), float32)
    grad = mul(sub(softmax(h), hot), 1 / batch)
    new = []
    for (w, b), h in reversed(list(zip(params, inputs, strict=True))):
        new.append(sub(w, mul(matmul(transpose(h), grad), 0.1)))
        new.append(sub(b, mul(build.reshape(total(grad, 0), b.shape), 0.1)))
        alive = build.cast(build.binary(Op.CMPLT, fill(h, 0.0), h), float32)
        grad = mul(matmul(grad, transpose(w)), alive)
    return [loss, *new]


def conv2d_gradients(x, w, dy, padding=0):
    """Of the input and of the weights."""
    p = (padding, padding, 0)
    padded = build.pad(x, [(0, 0, 0), (0, 0, 0), p, p])
    (o, i, kh, kw), (n, _, oh, ow) = w.shape, dy.shape
    windows = [(kh, 1, 1), (kw, 1, 1)]
    dy7 = build.reshape(dy, (n, o, 1, oh, ow, 1, 1))
    taps = total(mul(dy7, build.reshape(w, (1, o, i, 1, 1, kh, kw))), 1)
    taps = build.reshape(taps, (n, i, oh, ow, kh, kw))
    dx = build.unwindow(taps, windows, padded.shape[2:])
    h, width = x.shape[2:]
    dx = build.slice_(dx, [(0, n, 1), (0, i, 1), (padding, padding + h, 1), (padding, padding + width, 1)])
    x7 = build.reshape(build.window(padded, windows), (n, 1, i, oh, ow, kh, kw))
    dw = build.reshape(total(mul(x7, dy7), 0, 3, 4), w.shape)
    return dx, dw


def batch_norm_step(x, w, gain, bias, w2):
    """Gradients through convolution, batch norm over its batch, ReLU and convolution."""
    h = conv2d(x, w)
    n = h.size // w.shape[0]
    average = mean(h, 0, 2, 3)
    centred = sub(h, average)
    variance = mean(mul(centred, centred), 0, 2, 3)
    scale = div(fill(variance, 1.0), sqrt(add(variance, 1e-5)))
    normal = mul(centred, scale)
    y = relu(add(mul(normal, channels(gain)), channels(bias)))
    dy, dw2 = conv2d_gradients(y, w2, conv2d(y, w2))
    dy = mul(dy, build.cast(build.binary(Op.CMPLT, fill(y, 0.0), y), float32))
    dbias, dgain = total(dy, 0, 2, 3), total(mul(dy, normal), 0, 2, 3)
    dh = sub(sub(dy, mul(dbias, 1 / n)), mul(normal, mul(dgain, 1 / n)))
    _, dw = conv2d_gradients(x, w, mul(dh, mul(scale, channels(gain))))
    return [dw, dw2, dgain, dbias, average, variance]
