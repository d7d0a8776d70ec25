"""Products of matrices, contractions, attention."""
from __future__ import annotations

import numpy as np
from table import F, row

from dawdle import Tensor

row("matmul", lambda a, b: a @ b, np.matmul, lambda a, b: a @ b, shapes=(
    ((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (5,
    4, 2)),
    ((4,), (2, 4, 3)), ((2, 3, 4), (4,)), ((3, 0), (0, 2)), ((0, 3), (3, 2)), ((1, 1), (1, 1)),
))  # fmt: skip
row("int matmul", lambda a, b: a @ b, np.matmul, shapes=(((3, 4), (4, 5)),), domain="int", gradient=False)
row("bool matmul", lambda a, b: a @ b, np.matmul, shapes=(((3, 4), (4, 5)),), domain="bits", gradient=False)
row("dot", Tensor.dot, np.dot, shapes=(((4,), (4,)),))
row("outer", Tensor.outer, np.outer, shapes=(((4,), (3,)),))
row("cross", Tensor.cross, np.cross, shapes=(((4, 3), (4, 3)),))
row("linear", lambda x, w, b: x.linear(w, b), lambda x, w, b: x @ w + b, shapes=(((2, 5, 4), (4, 3), (3,)),))
for formula, shapes in {
    "ij,jk->ik": ((2, 3), (3, 4)), "ij->ji": ((2, 3),), "ii->i": ((3, 3),), "ii": ((3, 3),), "ij->": ((2,
    3),),
    "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)), "...ij,...jk->...ik": ((2, 3, 4), (2, 4, 5)), "i,j->ij": ((2,),
    (3,)),
    "ij,jk": ((2, 3), (3, 4)), "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4)), "ij,ij->i": ((2, 3), (2, 3)),
    "ab,bc,cd->ad": ((2, 3), (3, 4), (4, 2)), "...a->...": ((2, 3),), "iij,j->ji": ((2, 2, 3), (3,)),
    "ij,kj->ik": ((2, 3), (4, 3)), "abc,cd,e->be": ((2, 3, 4), (4, 5), (2,)), "i...,i->...": ((3, 2, 4), (3,
    )),
}.items():  # fmt: skip
    row(f"einsum {formula}", lambda *a, formula=formula: Tensor.einsum(formula, *a),
        lambda *a, formula=formula: np.einsum(formula, *a), shapes=(shapes,))  # fmt: skip
ATTEND = (((2, 3, 5, 4), (2, 3, 6, 4), (2, 3, 6, 7)),)
row("attention", Tensor.scaled_dot_product_attention, None, lambda q, k,
    v: F.scaled_dot_product_attention(q, k, v),
    shapes=ATTEND)  # fmt: skip
row("attention causal", lambda q, k, v: q.scaled_dot_product_attention(k, v, is_causal=True), None,
    lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), shapes=(((1, 2, 5, 4),) * 3,
        ))  # fmt: skip
row("attention mask", lambda q, k, v, m: q.scaled_dot_product_attention(k, v, attn_mask=m), None,
    lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), shapes=((*ATTEND[0], (5, 6)),
        ))  # fmt: skip
