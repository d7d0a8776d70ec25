"""NumPy's functions, see test_arrays.py: those that compute, with their gradients."""
from __future__ import annotations

import numpy as np
from table import row

import dawdle
from dawdle import Tensor

GAPS = np.array([[False, True, False, False], [True, True, True, False], [False, False, False, True]])


def with_gaps(a):
    """NaN in some places of (3, 4)."""
    return dawdle.where(Tensor(GAPS), np.nan, a) if isinstance(a, Tensor) else np.where(GAPS, np.nan, a)


def both(name: str, call, shapes, domain="normal", **options) -> None:
    """A row that calls the function of this name in both libraries."""
    row(name, lambda *a: call(dawdle, *a), lambda *a: call(np, *a), shapes=(shapes,), domain=domain,
        compiled=False, **options)  # fmt: skip


MATRIX = ((3, 4),)
both("cbrt", lambda m, a: m.cbrt(a), MATRIX, "away")
both("modf", lambda m, a: m.modf(a), MATRIX)
both("interp", lambda m, a, f: m.interp(a, np.array([-1.0, 0, 0.5, 2]), f), ((3, 4), (4,)))
both("polyval", lambda m, p, a: m.polyval(p, a), ((4,), (2, 3)))
both("percentile", lambda m, a: m.percentile(a, [10, 55], axis=0), MATRIX, "distinct")
both("nanpercentile", lambda m, a: m.nanpercentile(with_gaps(a), 40, axis=1), MATRIX, "distinct")
both("ptp", lambda m, a: m.ptp(a, axis=1), MATRIX, "distinct")
both("average", lambda m, a, w: m.average(a, axis=0, weights=w), ((3, 4), (3,)), ("normal", "positive"))
for name in ("nanmax", "nanmin", "nanprod", "nancumsum", "nancumprod"):
    both(name, lambda m, a, n=name: getattr(m, n)(with_gaps(a), axis=1), MATRIX, "distinct")
for name in ("nanvar", "nanstd"):
    both(name, lambda m, a, n=name: getattr(m, n)(with_gaps(a), axis=0, ddof=0), MATRIX, "distinct")
both("convolve", lambda m, a, v: m.convolve(a, v), ((6,), (3,)))
both("correlate", lambda m, a, v: m.correlate(a, v, "same"), ((6,), (3,)))
both("insert", lambda m, a, v: m.insert(a, [1, 3], v, axis=1), ((3, 4), (3, 2)))
both("ediff1d", lambda m, a: m.ediff1d(a), MATRIX)
