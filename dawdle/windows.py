"""Windows of signals, by PyTorch's names: float32 by default, computed on the host in float64. ``periodic``
ones are a symmetric window of one element more, without the last, as Fourier transforms want them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dawdle.dtype import Array
from dawdle.errors import ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.arguments import public
from dawdle.tensor.creation import float_dtype


def _made(n: int, periodic: bool, symmetric: Callable[[int], Array], options: dict[str, Any]) -> Tensor:
    if n < 0:
        raise ShapeError(f"a window's length must not be negative, got {n}")
    values = symmetric(n + 1)[:-1] if periodic and n > 1 else symmetric(n)
    return Tensor(values, **{**options, "dtype": float_dtype(options.get("dtype"), "a window")})


@public
def bartlett_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """A triangle from 0 to 1 and back to 0. ``options`` are ``dtype``, ``device`` and ``requires_grad``."""
    return _made(window_length, periodic, np.bartlett, options)


@public
def blackman_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """0.42 - 0.5 cos(2 pi i / (n - 1)) + 0.08 cos(4 pi i / (n - 1)); options as of :func:`bartlett_window`.
    """
    return _made(window_length, periodic, np.blackman, options)


@public
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **options: Any
) -> Tensor:
    """alpha - beta cos(2 pi i / (n - 1)); options as of :func:`bartlett_window`."""

    def symmetric(n: int) -> Array:
        return alpha - beta * np.cos(2 * np.pi * np.arange(n) / (n - 1)) if n > 1 else np.ones(n)

    return _made(window_length, periodic, symmetric, options)


@public
def hann_window(window_length: int, periodic: bool = True, **options: Any) -> Tensor:
    """(1 - cos(2 pi i / (n - 1))) / 2; options as of :func:`bartlett_window`."""
    return hamming_window(window_length, periodic, 0.5, 0.5, **options)


@public
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, **options: Any) -> Tensor:
    """I0(beta sqrt(1 - (2 i / (n - 1) - 1)²)) / I0(beta), I0 a Bessel function (Kaiser and Schafer, 1980);
    options as of :func:`bartlett_window`.
    """
    return _made(window_length, periodic, lambda n: np.kaiser(n, beta), options)


__all__ = ["bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"]
