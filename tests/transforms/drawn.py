"""Random operands, and whether results are close to what is expected."""

from __future__ import annotations

import numpy as np

from dawdle import Tensor


def data(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def tensor(*shape, seed=0, **options):
    return Tensor(data(*shape, seed=seed), **options)


def close(got, expected, rtol=1e-6, atol=1e-9):
    np.testing.assert_allclose(got.numpy(), np.asarray(expected), rtol=rtol, atol=atol)
