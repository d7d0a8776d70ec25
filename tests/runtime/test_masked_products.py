"""A masked sum of products never multiplies what the mask leaves out: infinities there don't become NaN."""

from __future__ import annotations

import numpy as np
import pytest
from devices import WORKING

from dawdle import Tensor, where


@pytest.mark.parametrize("device", [name for name in WORKING if name != "NUMPY"])
@pytest.mark.parametrize("along", ["sum", "rows"])
def test_infinities_behind_the_mask(device: str, along: str) -> None:
    m, n, k = 16, 32, 64
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, 1, k), np.float32), rng.standard_normal((1, n, k), np.float32)
    keep = np.arange(k) % 3 > 0 if along == "sum" else (np.arange(k) < 4 * np.arange(m)[:, None])[:, None, :]
    b[..., 0] = np.inf
    mask = np.broadcast_to(keep & (np.arange(k) > 0), (m, n, k))
    with np.errstate(all="ignore"):
        expected = np.where(mask, a * b, 0).sum(-1)
    x, y = Tensor(a, device=device), Tensor(b, device=device)
    got = where(Tensor(mask.copy(), device=device), x * y, 0.0).sum(-1).numpy()
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)
