"""The linear algebra of dawdle.array_api against array_api_strict's."""

from __future__ import annotations

import numpy as np
import pytest

from dawdle import array_api as xp
from dawdle import config
from dawdle.errors import ShapeError

strict = pytest.importorskip("array_api_strict")

rng = np.random.default_rng(0)
SQUARE = [rng.normal(size=s) for s in ((3, 3), (2, 4, 4), (1, 1), (2, 0, 3, 3))]
WIDE = [rng.normal(size=s) for s in ((3, 5), (5, 3), (2, 4, 2), (1, 4))]
SYMMETRIC = [a + a.mT for a in SQUARE]
POSITIVE = [a @ a.mT + np.eye(a.shape[-1]) for a in SQUARE]
WHOLE = [np.arange(12).reshape(3, 4), np.arange(18, dtype=np.uint8).reshape(2, 3, 3)]
INFINITIES = (np.inf, -np.inf)

CASES = [
    *[("cholesky", (a,), {"upper": u}) for a in POSITIVE for u in (False, True)],
    ("cross", (rng.normal(size=(2, 3)), rng.normal(size=3)), {}),
    ("cross", (rng.normal(size=(3, 2)), rng.normal(size=(4, 3, 2))), {"axis": -2}),
    *[(name, (a,), {}) for name in ("det", "inv", "slogdet") for a in SQUARE],
    *[("diagonal", (a,), {"offset": k}) for a in WIDE for k in (0, 1, -2)],
    *[(name, (a,), {}) for name in ("eigh", "eigvalsh") for a in SYMMETRIC],
    *[("matrix_norm", (a,), {"ord": o, "keepdims": k}) for a in (WIDE[0], WIDE[2]) for k in (False, True)
      for o in ("fro", "nuc", 1, -1, 2, -2, *INFINITIES)],
    *[("matrix_power", (a, n), {}) for a in SQUARE[:3] for n in (0, 1, 2, 5, -1, -3)],
    *[("matrix_rank", (a,), {"rtol": r}) for a in (*WIDE, np.ones((2, 3))) for r in (None, 0.5)],
    ("matrix_rank", (WIDE[2],), {"rtol": np.array([0.1, 0.9])}),
    ("outer", (rng.normal(size=3), rng.normal(size=2)), {}),
    *[("pinv", (a,), {"rtol": r}) for a in WIDE for r in (None, 0.3)],
    ("pinv", (WIDE[2],), {"rtol": np.array([1e-9, 0.9])}),
    *[("qr", (a,), {"mode": m}) for a in WIDE for m in ("reduced", "complete")],
    *[("solve", (a, rng.normal(size=(a.shape[-1], 2))), {}) for a in SQUARE],
    ("solve", (SQUARE[0], rng.normal(size=3)), {}), ("solve", (rng.normal(size=(2, 2, 2)), np.eye(2)), {}),
    *[("svd", (a,), {"full_matrices": f}) for a in WIDE for f in (False, True)],
    *[("svdvals", (a,), {}) for a in WIDE],
    *[("trace", (a,), {"offset": k}) for a in (*WIDE, *WHOLE) for k in (0, 1)],
    ("trace", (WHOLE[0],), {"dtype": np.dtype("float64")}),
    *[("vector_norm", (a,), {"axis": x, "ord": o, "keepdims": x is None}) for a in (WIDE[0], WIDE[2])
      for x in (None, 0, (1, 0)) for o in (0, 1, 2, 3.5, -1, *INFINITIES)],
    ("matmul", (WIDE[0], WIDE[1]), {}), ("tensordot", (WIDE[0], WIDE[1]), {"axes": 1}),
    ("vecdot", (WIDE[0], WIDE[0]), {}), ("matrix_transpose", (WIDE[2],), {}),
]  # fmt: skip


def name_of(value):
    return value if isinstance(value, str) else None


@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("name, arguments, options", CASES, ids=name_of)
def test_agrees_with_the_reference(name, arguments, options, kind):
    with config.override(device="NUMPY"):  # other devices are held to it by the table of ops
        compare(name, arguments, options, kind)


def compare(name, arguments, options, kind):
    calls = []
    for namespace in (strict, xp):

        def convert(value, namespace=namespace):
            if isinstance(value, np.dtype):
                return getattr(namespace, value.name)
            if not isinstance(value, np.ndarray):
                return value
            return namespace.asarray(value.astype(kind) if value.dtype.kind == "f" else value)

        given = {k: convert(v) for k, v in options.items()}
        calls.append(getattr(namespace.linalg, name)(*map(convert, arguments), **given))
    assert getattr(calls[1], "_fields", None) == getattr(calls[0], "_fields", None)
    bound = {"float32": 1e-4, "float64": 1e-9}[kind]
    parts = [c if isinstance(c, tuple) else (c,) for c in calls]
    for theirs, ours in zip(*[map(np.asarray, p) for p in parts], strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound)


def test_every_function_is_compared():
    assert {name for name, *_ in CASES} == set(xp.linalg.__all__)


def test_mistakes():
    with pytest.raises(ShapeError, match="takes matrices"):
        xp.linalg.trace(xp.ones(3))
