"""Losses."""
from __future__ import annotations

from table import F, row

from dawdle.nn import functional

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


def loss(
    name: str, shapes: tuple, domain: object = "normal", call: object = None, gradient: bool = True,
    **options: object,
) -> None:  # fmt: skip
    """A row for the loss of this name, called in the same way in both libraries."""
    how = call or (lambda f, *operands, **given: f(*operands, **given))
    label = " ".join([name, *[f"{k}={v}" for k, v in options.items()]])
    row(label, lambda *a: how(getattr(functional, name), *a, **options), None,
        lambda *a: how(getattr(F, name), *a, **options), shapes=(shapes,), domain=domain, gradient=gradient,
        compiled=False)  # fmt: skip


def signs(f: object, *operands: object, **given: object) -> object:
    """Called with 1 and -1 for the parities of the last operand."""
    *others, target = operands
    return f(*others, target % 2 * 2 - 1, **given)


def labels(f: object, x: object, y: object, *w: object, **given: object) -> object:
    """Called with labels of four classes."""
    return f(x, y % 4, **given, **({"weight": w[0].detach()} if w else {}))


PAIR, TRIPLE = ((5, 4), (5, 4)), ((5, 4), (5, 4), (5, 4))
COUNTED = ("normal", "count")
loss("poisson_nll_loss", PAIR, COUNTED)
loss("poisson_nll_loss", PAIR, COUNTED, full=True, reduction="sum")
loss("poisson_nll_loss", PAIR, ("positive", "count"), log_input=False, full=True)
loss("gaussian_nll_loss", TRIPLE, ("normal", "normal", "positive"))
loss("gaussian_nll_loss", ((5, 4), (5, 4), (5,)), ("normal", "normal", "positive"), full=True)
loss("gaussian_nll_loss", TRIPLE, ("normal", "normal", "positive"), gradient=False, eps=1.5)
loss("margin_ranking_loss", ((5,), (5,), (5,)), ("normal", "normal", "count"), signs, margin=0.3)
loss("hinge_embedding_loss", PAIR, COUNTED, signs)
loss("soft_margin_loss", PAIR, COUNTED, signs)
loss("cosine_embedding_loss", ((5, 4), (5, 4), (5,)), ("normal", "normal", "count"), signs, margin=0.1)
loss("cosine_embedding_loss", ((4,), (4,), ()), ("normal", "normal", "count"), signs, reduction="none")
loss("triplet_margin_loss", TRIPLE)
loss("triplet_margin_loss", TRIPLE, p=3, swap=True, reduction="none")
loss("triplet_margin_with_distance_loss", TRIPLE, swap=True, margin=2.0)
loss("multi_margin_loss", ((5, 4), (5,)), COUNTED, labels)
loss("multi_margin_loss", ((5, 4), (5,), (4,)), ("normal", "count", "positive"), labels, p=2, margin=0.5)
loss("multilabel_soft_margin_loss", PAIR, COUNTED, lambda f, x, y: f(x, y % 2 * 1.0))
loss("multilabel_margin_loss", PAIR, ("normal", "int"), lambda f, x, y: f(x, y.clamp(-1, 3)))
loss("cosine_similarity", PAIR)
loss("cosine_similarity", ((2, 3, 4), (3, 1)), dim=-2, eps=0.5)
loss("cosine_similarity", ((3, 4), (1,)), dim=0)  # broadcast along dim too
loss("pairwise_distance", PAIR, p=1.5, keepdim=True)
loss("pairwise_distance", ((5, 4), (4,)))
loss("pdist", ((5, 4),))
loss("pdist", ((4, 3),), p=1)
loss("bilinear", ((2, 3, 4), (2, 3, 5), (6, 4, 5), (6,)))
loss("local_response_norm", ((2, 5, 3),), size=3, alpha=0.5)
loss("local_response_norm", ((2, 5, 2, 2),), size=4, beta=0.5, k=2.0)
loss("channel_shuffle", ((2, 6, 3),), groups=3)
loss("instance_norm", ((2, 3, 4),))
loss("instance_norm", ((2, 3, 4), (3,), (3,)), "normal", lambda f, x, w, b: f(x, weight=w, bias=b))
