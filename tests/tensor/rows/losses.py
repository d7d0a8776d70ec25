"""Losses."""
from __future__ import annotations

from table import F, row

LABELLED = {"shapes": (((5, 4), (5,)),), "domain": ("normal", "count")}
row("cross_entropy", lambda x, y: x.cross_entropy(y % 4), None, lambda x, y: F.cross_entropy(x, y % 4),
    **LABELLED)
row("sparse xent", lambda x, y: x.sparse_categorical_crossentropy(y % 4), None, lambda x,
    y: F.cross_entropy(x, y % 4),
    **LABELLED)  # fmt: skip
for name, options in {
    "ignored": {"ignore_index": 1}, "sum": {"reduction": "sum"}, "none": {"reduction": "none"},
    "smooth": {"label_smoothing": 0.1},
    "smooth ignored": {"label_smoothing": 0.1, "ignore_index": 1, "reduction": "mean"},
}.items():  # fmt: skip
    row(f"cross_entropy {name}", lambda x, y, options=options: x.cross_entropy(y % 4, **options), None,
        lambda x, y, options=options: F.cross_entropy(x, y % 4, **options), **LABELLED)  # fmt: skip
    row(f"cross_entropy weighted {name}", lambda x, y, w, options=options: x.cross_entropy(y % 4,
        w.detach(), **options), None,
        lambda x, y, w, options=options: F.cross_entropy(x, y % 4, w.detach(), **options),
        shapes=(((5, 4), (5,), (4,)),), domain=("normal", "count", "positive"))  # fmt: skip
row("cross_entropy 2d", lambda x, y: x.cross_entropy(y % 4), None, lambda x, y: F.cross_entropy(x, y % 4),
    shapes=(((2, 4, 3), (2, 3)), ((4,), ())), domain=("normal", "count"))  # fmt: skip
row("cross_entropy soft", lambda x, p: x.cross_entropy(p.softmax(1), label_smoothing=0.2), None,
    lambda x, p: F.cross_entropy(x, p.softmax(1), label_smoothing=0.2), shapes=(((5, 4), (5, 4)),
        ))  # fmt: skip
row("cross_entropy soft weighted", lambda x, p, w: x.cross_entropy(p.softmax(1), w.detach(), reduction="sum"),
    None, lambda x, p, w: F.cross_entropy(x, p.softmax(1), w.detach(), reduction="sum"),
    shapes=(((5, 4), (5, 4), (4,)), ((2, 4, 3), (2, 4, 3), (4,))),
    domain=("normal", "normal", "positive"))  # fmt: skip
row("cross_entropy 3d smooth weighted", lambda x, y, w: x.cross_entropy(y % 4, w.detach(),
        label_smoothing=0.1), None,
    lambda x, y, w: F.cross_entropy(x, y % 4, w.detach(), label_smoothing=0.1),
    shapes=(((2, 4, 3), (2, 3), (4,)),), domain=("normal", "count", "positive"))  # fmt: skip
row("nll_loss weighted", lambda x, y, w: x.nll_loss(y % 4, w.detach(), reduction="none"), None,
    lambda x, y, w: F.nll_loss(x, y % 4, w.detach(), reduction="none"),
    shapes=(((5, 4), (5,), (4,)),), domain=("normal", "count", "positive"))  # fmt: skip
row("nll_loss", lambda x, y: x.nll_loss(y % 4, ignore_index=2), None, lambda x, y: F.nll_loss(x, y % 4,
    ignore_index=2),
    **LABELLED)  # fmt: skip
