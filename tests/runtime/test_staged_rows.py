"""Rows that a kernel keeps, such as softmax's exponentials, in loops that are merged for threads."""
from __future__ import annotations

import numpy as np
import pytest

from dawdle import Tensor, where


@pytest.mark.parametrize("heads", [2, 9, 40])
def test_rows_that_depend_on_the_innermost_of_several_loops(device, heads):
    """The mask has one row for each of the four rows, whatever batch and head they are of."""
    rng = np.random.default_rng(heads)
    scores, mask = rng.normal(size=(2, heads, 4, 18)), rng.normal(size=(4, 18))
    dropped = np.array([[0.0], [1.0], [0.0], [1.0]])
    x, m, d = (Tensor(a.astype(np.float32)).realize() for a in (scores, mask, dropped))
    out = where(d.eq(1.0), 0.0, (x + m).softmax(-1))
    e = np.exp(scores + mask)
    want = np.where(dropped == 1, 0, e / e.sum(-1, keepdims=True))
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-6)
