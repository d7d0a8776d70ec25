"""Solvers, decompositions and what is composed of them."""
from __future__ import annotations

from typing import Any

import numpy as np
from table import row, torch

from dawdle import Tensor
from dawdle import linalg as ours

theirs = getattr(torch, "linalg", None)
SQUARE = (((3, 3),), ((2, 4, 4),), ((1, 1),), ((0, 3, 3),), ((2, 0, 0),))
OBLONG = (((4, 3),), ((3, 4),), ((2, 3, 3),), ((2, 5, 1),), ((0, 3, 2),))


def matrices(name: str, call: Any, torch_reference: Any, shapes: Any = SQUARE, **options: Any) -> None:
    row(name, call, None, torch_reference, shapes=shapes, tolerance=2e-4, **options)


def definite(x: Any) -> Any:
    """A symmetric positive definite matrix of any."""
    return x @ x.mT + 2 * eye(x)


def eye(x: Any) -> Any:
    n = x.shape[-1]
    return Tensor.eye(n, dtype=x.dtype) if isinstance(x, Tensor) else torch.eye(n, dtype=x.dtype)


def regular(x: Any) -> Any:
    return x + 5 * eye(x)


def plain(parts: Any) -> list[Any]:
    """Without the signs that a decomposition may choose."""
    return [p.abs() for p in parts]


matrices("inverse", lambda x: regular(x).inverse(), lambda x: regular(x).inverse())
matrices("inv", lambda x: ours.inv(regular(x)), lambda x: theirs.inv(regular(x)), SQUARE[:1])
matrices("det", lambda x: x.det(), lambda x: x.det())
matrices("det of rank", lambda x: (x @ x.mT).det(), lambda x: (x @ x.mT).det(), (((3, 3),),))
row("det singular", lambda x: ours.det(x[..., :1] * x[..., :1, :] + x[..., 1:2] * x[..., 1:2, :]),
    lambda x: np.linalg.det(x[..., :1] * x[..., :1, :] + x[..., 1:2] * x[..., 1:2, :]), shapes=(((3, 3),),),
    tolerance=1e-4)  # fmt: skip
matrices("slogdet", lambda x: x.slogdet(), lambda x: x.slogdet())
matrices("logdet", lambda x: definite(x).logdet(), lambda x: definite(x).logdet())
matrices("cholesky", lambda x: definite(x).cholesky(), lambda x: theirs.cholesky(definite(x)))
matrices("cholesky upper", lambda x: ours.cholesky(definite(x), upper=True),
         lambda x: theirs.cholesky(definite(x), upper=True), SQUARE[:2])  # fmt: skip
matrices("cholesky_solve", lambda b, x: b.cholesky_solve(definite(x).cholesky()),
         lambda b, x: torch.cholesky_solve(b, theirs.cholesky(definite(x))), (((3, 2), (3, 3)),))  # fmt: skip
matrices("cholesky_inverse", lambda x: definite(x).cholesky().cholesky_inverse(),
         lambda x: torch.cholesky_inverse(theirs.cholesky(definite(x))), SQUARE[:1])  # fmt: skip
matrices("eigvalsh", lambda x: ours.eigvalsh(x + x.mT), lambda x: theirs.eigvalsh(x + x.mT))
matrices("eigh", lambda x: plain(ours.eigh(x + x.mT)), lambda x: plain(theirs.eigh(x + x.mT)))
matrices("eigh upper", lambda x: plain(ours.eigh(x, "U")), lambda x: plain(theirs.eigh(x, "U")), SQUARE[:1],
         gradient=False)  # fmt: skip
matrices("qr", lambda x: plain(ours.qr(x)), lambda x: plain(theirs.qr(x)), OBLONG)
matrices("qr complete", lambda x: plain(ours.qr(x, "complete")), lambda x: plain(theirs.qr(x, "complete")),
         OBLONG[1:3])  # fmt: skip
matrices("qr complete tall", lambda x: plain(x.qr(some=False)), lambda x: plain(theirs.qr(x, "complete")),
         (((4, 3),),), gradient=False)  # fmt: skip
matrices("lu", lambda x: ours.lu(x), lambda x: theirs.lu(x), OBLONG)
row("lu unpivoted", lambda x: (lambda f: f.L @ f.U)(ours.lu(regular(x), pivot=False)),
    lambda x: x + 5 * np.eye(x.shape[-1], dtype=x.dtype), shapes=SQUARE[:2], tolerance=1e-4)  # fmt: skip
matrices("svdvals", ours.svdvals, lambda x: theirs.svdvals(x), OBLONG)
matrices("svd", lambda x: plain(ours.svd(x, full_matrices=False)),
         lambda x: plain(theirs.svd(x, full_matrices=False)), OBLONG)  # fmt: skip
matrices("svd full", lambda x: plain(ours.svd(x)), lambda x: plain(theirs.svd(x)), OBLONG, gradient=False)
matrices("svd method", lambda x: plain(x.svd()), lambda x: plain(x.svd()), OBLONG[:2])
matrices("pinv", ours.pinv, lambda x: theirs.pinv(x), OBLONG)
matrices("lstsq", lambda a, b: ours.lstsq(a, b).solution, lambda a, b: theirs.lstsq(a, b).solution,
         (((4, 3), (4, 2)), ((2, 3, 3), (2, 3, 1))))  # fmt: skip
matrices("matrix_rank", ours.matrix_rank, lambda x: theirs.matrix_rank(x), OBLONG, gradient=False)
matrices("matrix_power", lambda x: ours.matrix_power(x, 5), lambda x: theirs.matrix_power(x, 5), SQUARE[:3])
matrices("matrix_power 0", lambda x: ours.matrix_power(x, 0) * x, lambda x: theirs.matrix_power(x, 0) * x,
         SQUARE[:2])  # fmt: skip
matrices("matrix_power -3", lambda x: regular(x).matrix_power(-3), lambda x: regular(x).matrix_power(-3),
         SQUARE[:2])  # fmt: skip
for left in (True, False):
    shapes = (((3, 3), (3, 2) if left else (2, 3)), ((2, 1, 3, 3), (4, 3, 2) if left else (4, 2, 3)))
    matrices(f"solve {left}", lambda a, b, left=left: ours.solve(regular(a), b, left=left),
             lambda a, b, left=left: theirs.solve(regular(a), b, left=left), shapes)  # fmt: skip
    for upper in (True, False):
        for unit in (True, False):
            options = {"upper": upper, "left": left, "unitriangular": unit}
            words = " ".join(f"{k}={v}" for k, v in options.items())
            matrices(
                f"solve_triangular {words}",
                lambda a, b, options=options: ours.solve_triangular(regular(a), b, **options),
                lambda a, b, options=options: theirs.solve_triangular(regular(a), b, **options),
                (shapes[0], ((2, 2, 2), (2, 2))) if upper and not unit else shapes[:1],  # b isn't vectors
            )  # fmt: skip
matrices("solve_triangular blocks", lambda a, b: ours.solve_triangular(a / 9 + 5 * eye(a), b, upper=False),
         lambda a, b: theirs.solve_triangular(a / 9 + 5 * eye(a), b, upper=False),
         (((70, 70), (70, 2)),))  # fmt: skip
matrices("solve vectors", lambda a, b: regular(a).solve(b), lambda a, b: theirs.solve(regular(a), b),
         (((3, 3), (3,)), ((2, 3, 3), (2, 3))))  # fmt: skip
matrices("triangular_solve", lambda b, a: b.triangular_solve(regular(a), transpose=True)[0],
         lambda b, a: theirs.solve_triangular(regular(a).mT.tril(), b, upper=False),
         (((3, 2), (3, 3)),))  # fmt: skip
for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
    matrices(f"matrix_norm {order}", lambda x, p=order: ours.matrix_norm(x, p),
             lambda x, p=order: theirs.matrix_norm(x, p), OBLONG[:3])  # fmt: skip
    matrices(f"matrix_norm {order} dims", lambda x, p=order: ours.matrix_norm(x, p, (2, 0), keepdim=True),
             lambda x, p=order: theirs.matrix_norm(x, p, (2, 0), keepdim=True), (((2, 3, 4),),))  # fmt: skip
for order in (None, 2, -2, "fro", 1):  # of the last two PyTorch's gradient is broken
    matrices(f"cond {order}", lambda x, p=order: ours.cond(regular(x), p),
             lambda x, p=order: theirs.cond(regular(x), p), SQUARE[:2],
             gradient=order not in ("fro", 1))  # fmt: skip
matrices("linalg.norm", ours.norm, lambda x: theirs.norm(x), (((3, 4),), ((2, 3, 2),)))
matrices("linalg.norm nuc", lambda x: ours.norm(x, "nuc"), lambda x: theirs.norm(x, "nuc"), OBLONG[:1])
matrices("linalg.norm 3", lambda x: ours.norm(x, 3, dim=1), lambda x: theirs.norm(x, 3, dim=1), OBLONG[:2])
matrices("vector_norm", lambda x: ours.vector_norm(x, 1, dim=0), lambda x: theirs.vector_norm(x, 1, dim=0),
         OBLONG[:2])  # fmt: skip
