"""Products of matrices, contractions, attention."""
from __future__ import annotations

import math

import numpy as np
from table import F, row, torch

import dawdle
from dawdle import Tensor, linalg

row("matmul", lambda a, b: a @ b, np.matmul, lambda a, b: a @ b, shapes=(
    ((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5,
    4, 2)),
    ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((1, 1), (1, 1)),
))  # fmt: skip
row("int matmul", lambda a, b: a @ b, np.matmul, shapes=(((3, 4), (4, 5)),), domain="int", gradient=False)
row("bool matmul", lambda a, b: a @ b, np.matmul, shapes=(((3, 4), (4, 5)),), domain="bits", gradient=False)
row("dot", Tensor.dot, np.dot, shapes=(((4,), (4,)),))
row("outer", Tensor.outer, np.outer, shapes=(((4,), (3,)),))
row("mm", Tensor.mm, np.matmul, shapes=(((2, 3), (3, 4)), ((0, 3), (3, 2))))
row("bmm", Tensor.bmm, np.matmul, shapes=(((5, 2, 3), (5, 3, 4)),))
row("mv", Tensor.mv, np.matmul, shapes=(((2, 3), (3,)), ((2, 0), (0,))))
row("vdot", Tensor.vdot, np.vdot, shapes=(((4,), (4,)),))
row("inner", Tensor.inner, np.inner, lambda a, b: torch.inner(a, b),
    shapes=(((2, 3), (4, 5, 3)), ((3,), (3,)), ((2, 3), ()), ((2, 0), (3, 0))))  # fmt: skip
row("vecdot", linalg.vecdot, None, lambda a, b: torch.linalg.vecdot(a, b),
    shapes=(((2, 3), (2, 3)), ((4, 1, 3), (2, 3))))  # fmt: skip
row("vecdot dim", lambda a, b: linalg.vecdot(a, b, dim=0), None,
    lambda a, b: torch.linalg.vecdot(a, b, dim=0), shapes=(((2, 3), (2, 3)),))  # fmt: skip
row("kron", Tensor.kron, np.kron, lambda a, b: torch.kron(a, b),
    shapes=(((2, 3), (4, 2)), ((2, 3), (4, 1, 2)), ((), (2,)), ((0, 2), (3, 1))))  # fmt: skip
row("cross", Tensor.cross, None, lambda a, b: torch.cross(a, b), shapes=(((4, 3), (4, 3)), ((3, 3), (3, 3))))
row("cross last", lambda a, b: linalg.cross(a, b), np.cross, shapes=(((3, 3), (3, 3)), ((4, 1, 3), (2, 3))))
for factors in ({}, {"beta": 0.5, "alpha": 2}, {"beta": 0, "alpha": -1}):
    for name, shapes in {
        "addmm": ((4,), (2, 3), (3, 4)), "addmv": ((2,), (2, 3), (3,)), "addr": ((2, 3), (2,), (3,)),
        "addbmm": ((2, 4), (5, 2, 3), (5, 3, 4)), "baddbmm": ((5, 2, 4), (5, 2, 3), (5, 3, 4)),
    }.items():  # fmt: skip
        row(f"{name} {factors}", lambda x, a, b, name=name, f=factors: getattr(x, name)(a, b, **f), None,
            lambda x, a, b, name=name, f=factors: getattr(x if f.get("beta") != 0 else x.detach(), name)(
                a, b, **f), shapes=(shapes,))  # fmt: skip
row("addmm int", lambda x, a, b: x.addmm(a, b), lambda x, a, b: x + a @ b, shapes=(((4,), (2, 3), (3, 4)),),
    domain="int", gradient=False)  # fmt: skip
for axes in (0, 1, ([0, 1], [1, 0]), ([1], [0])):
    row(f"tensordot {axes}", lambda a, b, axes=axes: a.tensordot(b, axes),
        lambda a, b, axes=axes: np.tensordot(a, b, axes), shapes=(((3, 3), (3, 3)),))  # fmt: skip
row("tensordot 2", lambda a, b: a.tensordot(b), np.tensordot, shapes=(((2, 3, 4), (3, 4, 5)),))
for shapes in (((2, 3),), ((2, 3), (3, 4)), ((2, 3), (3, 4), (4, 5), (5, 2)), ((3,), (3, 4), (4,)),
               ((3,), (3, 2)), ((2, 3), (3,))):  # fmt: skip
    row(f"multi_dot {shapes}", lambda *a: linalg.multi_dot(a), None,
        lambda *a: torch.linalg.multi_dot(a) if len(a) > 1 else a[0], shapes=(shapes,))  # fmt: skip
row("linear", lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b, shapes=(((2, 5, 4), (4, 3), (3,)),))
for formula, shapes in {
    "ij,jk->ik": ((2, 3), (3, 4)), "ij->ji": ((2, 3),), "ii->i": ((3, 3),), "ii": ((3, 3),), "ij->": ((2,
    3),),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)), "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)), "i,j->ij": ((2,),
    (3,)),
    "ij,jk": ((2, 3), (3, 4)), "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)), "ij,ij->i": ((2, 3), (2, 3)),
    "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 2)), "...a->...": ((2, 3),), "iij,j->ji": ((2, 2, 3), (3,)),
    "a,a,a->": ((3,), (3,), (3,)), "ab,bc,ca->": ((2, 3), (3, 4), (4, 2)), "...,...": ((2, 3), (3,)),
    "ij,jk,kl->il": ((4, 5), (5, 2), (2, 6)), "i->": ((0,),), ",a->a": ((), (3,)), "b...,b->...": ((2, 3, 4),
    (2,)), "...ij,...jk": ((2, 1, 3, 4), (5, 4, 2)),
    "ij,kj->ik": ((2, 3), (4, 3)), "abc,cd,e->be": ((2, 3, 4), (4, 5), (2,)), "i...,i->...": ((3, 2, 4), (3,
    )),
}.items():  # fmt: skip
    row(f"einsum {formula}", lambda *a, formula=formula: Tensor.einsum(formula, *a),
        lambda *a, formula=formula: np.einsum(formula, *a), shapes=(shapes,))  # fmt: skip
row("einsum lists", lambda a, b: Tensor.einsum(a, [0, 1], b, [1, 2], [2, 0]),
    lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), shapes=(((2, 3), (3, 4)),))  # fmt: skip
row("einsum lists implicit", lambda a, b: Tensor.einsum(a, [..., 0, 26], b, [..., 26, 1]),
    lambda a, b: np.einsum(a, [..., 0, 26], b, [..., 26, 1]), shapes=(((5, 2, 3), (5, 3, 4)),))  # fmt: skip
row("einsum int", lambda a: Tensor.einsum("ij->j", a), lambda a: np.einsum("ij->j", a), shapes=(((2, 3),),),
    domain="int", gradient=False)  # fmt: skip
row("einsum bool", lambda a, b: Tensor.einsum("ij,j->i", a, b), lambda a, b: np.einsum("ij,j->i", a, b),
    shapes=(((2, 3), (3,)),), domain="bits", gradient=False)  # fmt: skip
NOTHING = np.array([[0, 1], [-np.inf, -np.inf], [-np.inf, 0]], np.float32)
ATTEND = (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7)),)
row("attention", Tensor.scaled_dot_product_attention, None, lambda q, k,
    v: F.scaled_dot_product_attention(q, k, v),
    shapes=ATTEND)  # fmt: skip
row("attention causal", lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), None,
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), shapes=(((1, 2, 5, 4),) * 3,
        ))  # fmt: skip
row("attention bool mask", lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m), None,
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m),
    shapes=((*ATTEND[0], (5, 6)), ((1, 3, 4), (1, 2, 4), (1, 2, 5), (3, 2))),
    domain=("normal", "normal", "normal", "bits"))  # fmt: skip
row("attention nothing allowed", lambda q, k, v: q.scaled_dot_product_attention(
    k, v, attn_mask=Tensor(NOTHING)), None, lambda q, k, v: F.scaled_dot_product_attention(
    q, k, v, attn_mask=torch.tensor(NOTHING).to(q.dtype)),
    shapes=(((2, 3, 4), (2, 2, 4), (2, 2, 5)),))  # fmt: skip
row("attention groups", lambda q, k, v: q.scaled_dot_product_attention(k, v, enable_gqa=True), None,
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
    shapes=(((2, 4, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3)),))  # fmt: skip
row("attention mask", lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m), None,
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), shapes=((*ATTEND[0], (5, 6)),
        ))  # fmt: skip
ROWS_OF_VECTORS = (((4, 3), (5, 3)), ((2, 4, 3), (1, 5, 3)), ((2, 0), (3, 0)))
for p in (2.0, 1.0, 0.0, 2.5, math.inf):
    row(f"cdist p={p}", lambda a, b, p=p: dawdle.cdist(a, b, p), None, lambda a, b, p=p: torch.cdist(a, b, p),
        shapes=ROWS_OF_VECTORS[:2], gradient=p > 0, compiled=p == 2)
row("cdist of nothing", dawdle.cdist, lambda a, b: np.zeros((2, 3), a.dtype), shapes=ROWS_OF_VECTORS[2:])
row("dist", Tensor.dist, None, lambda a, b: a.dist(b), shapes=(((3, 4), (3, 4)), ((3, 4), (4,))))
row("dist p=1", lambda a, b: a.dist(b, 1), None, lambda a, b: a.dist(b, 1), shapes=(((3, 4), (3, 4)),))
