"""Random counts, drawn on the host by NumPy from bits of the generator: nobody knows before how many steps a
draw takes. Every device draws the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dawdle.dtype import Array, int64
from dawdle.errors import ArgumentError
from dawdle.tensor import elementwise as ew
from dawdle.tensor.core import cast, on_host, operands
from dawdle.tensor.sampling import Generator, default_generator

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


def poisson(x: Tensor, generator: Generator | None = None) -> Tensor:
    """How many events happen where ``x`` are expected (Poisson's distribution), in the dtype of ``x``.
    Computing it raises ArgumentError for a rate that is negative, NaN or beyond 9e18.
    """
    rates = ew.float_pair("poisson", x, 0.0)[0].detach()
    drawn = on_host(_poisson, x.lazy.shape, rates, *_words(x, generator), dtype=int64)
    return cast(drawn, x.lazy.dtype)


@operands("prob")
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of ``count`` trials succeed, each with probability ``prob``, in the dtype of ``prob``; both
    broadcast. Computing it raises ArgumentError for counts below 0 and probabilities outside of [0, 1].
    """
    n, p = ew.float_pair("binomial", count.detach(), prob.detach())
    drawn = on_host(_binomial, n.lazy.shape, n, p, *_words(count, generator), dtype=int64)
    return cast(drawn, prob.lazy.dtype)


def _words(x: Tensor, generator: Generator | None) -> tuple[Tensor, Tensor]:
    return (generator or default_generator).bits(type(x), 2, x.lazy.device)


def _stream(high: Array, low: Array) -> np.random.Generator:
    words = np.concatenate([high, low]).astype(np.uint64)
    return np.random.Generator(np.random.Philox(key=words[:2] << np.uint64(32) | words[2:]))


def _poisson(rates: Array, high: Array, low: Array) -> Array:
    try:
        return np.asarray(_stream(high, low).poisson(rates.astype(np.float64)), np.int64)
    except ValueError as error:
        raise ArgumentError(f"poisson: {error}; rates must be 0 or more") from None


def _binomial(n: Array, p: Array, high: Array, low: Array) -> Array:
    try:
        drawn = _stream(high, low).binomial(n.astype(np.int64), p.astype(np.float64))
    except ValueError as error:
        raise ArgumentError(f"binomial: {error}") from None
    return np.asarray(drawn, np.int64)
