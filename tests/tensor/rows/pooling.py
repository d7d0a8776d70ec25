"""Pools, in all forms, and back; images as columns."""
from __future__ import annotations

import math
from typing import Any

from table import F, row

from dawdle.nn import functional as ours

SHAPES = {1: (2, 3, 9), 2: (2, 3, 6, 7), 3: (1, 2, 4, 5, 6)}


def pooled(n: int, name: str, shapes: Any, domain: str = "normal", **options: Any) -> None:
    words = " ".join(f"{k}={v}" for k, v in options.items())
    row(f"{name}{n}d {domain} {words}", lambda x: getattr(ours, f"{name}{n}d")(x, **options), None,
        lambda x: getattr(F, f"{name}{n}d")(x, **options), shapes=shapes, domain=domain)  # fmt: skip


def for_rows(shape: tuple[int, ...]) -> Any:
    return ((shape,),)


for n, shape in SHAPES.items():
    shapes = for_rows(shape)
    for options in ({"kernel_size": 2}, {"kernel_size": 3, "stride": 2, "padding": 1},
                    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
                    {"kernel_size": 2, "stride": 1, "dilation": 2, "padding": 1}):  # fmt: skip
        # of equal elements, which "ties" has many of, the first gets the gradient
        pooled(n, "max_pool", shapes, "ties", **options)
        pooled(n, "max_pool", shapes, return_indices=True, **options)
        if "dilation" not in options:
            for counted in (True, False):
                pooled(n, "avg_pool", shapes, count_include_pad=counted, **options)
    pooled(n, "max_pool", for_rows(shape[1:]), kernel_size=(2, 3, 1)[:n], return_indices=True)
    pooled(n, "lp_pool", shapes, "positive", norm_type=3.0, kernel_size=2)
    pooled(n, "lp_pool", shapes, "positive", norm_type=2.0, kernel_size=3, stride=2, ceil_mode=True)
    if n < 3:  # PyTorch has none of three dimensions
        pooled(n, "lp_pool", shapes, norm_type=math.inf, kernel_size=3, stride=2, ceil_mode=True)
    for size in (1, 3, 4):
        pooled(n, "adaptive_avg_pool", shapes, output_size=size)
        pooled(n, "adaptive_max_pool", shapes, output_size=size)
        pooled(n, "adaptive_max_pool", shapes, "ties", output_size=size, return_indices=True)
# windows of zeros, and one window larger than the input
pooled(1, "lp_pool", for_rows((1, 2, 3)), "ties", norm_type=2.0, kernel_size=1)
for name in ("max_pool", "avg_pool"):
    pooled(2, name, for_rows((1, 2, 1, 4)), kernel_size=2, stride=(3, 1), ceil_mode=True)
for n in (2, 3):
    pooled(n, "avg_pool", for_rows(SHAPES[n]), kernel_size=3, stride=2, padding=1, divisor_override=5)
    pooled(n, "adaptive_avg_pool", for_rows(SHAPES[n]), output_size=(None, 2, 3)[:n])


for n, shape in ((2, (2, 3, 6, 7)), (3, (1, 2, 4, 5, 6))):
    for options in ({"output_size": 2}, {"output_ratio": (0.6, 0.5, 0.7)[:n]}, {"output_size": 1}):
        words = " ".join(f"{k}={v}" for k, v in options.items())
        name = f"fractional_max_pool{n}d"
        row(f"{name} {words}", lambda x, u, name=name, options=options: getattr(ours, name)(
            x, 2, return_indices=True, _random_samples=u.abs(), **options), None,
            lambda x, u, name=name, options=options: getattr(F, name)(
            x, 2, return_indices=True, _random_samples=u.abs(), **options),
            shapes=((shape, (*shape[:2], n)),), domain=("normal", "unit"), gradient=False)  # fmt: skip


def there_and_back(functions: Any, n: int, x: Any, whole: bool) -> Any:
    y, index = getattr(functions, f"max_pool{n}d")(x, 2, return_indices=True)
    return getattr(functions, f"max_unpool{n}d")(y, index, 2, output_size=tuple(x.shape) if whole else None)


for n, shape in {1: (2, 3, 8), 2: (2, 3, 4, 6), 3: (1, 2, 4, 2, 6)}.items():
    for whole in (False, True):
        row(f"max_unpool{n}d {whole}", lambda x, n=n, whole=whole: there_and_back(ours, n, x, whole), None,
            lambda x, n=n, whole=whole: there_and_back(F, n, x, whole), shapes=for_rows(shape))  # fmt: skip
for options in ({"kernel_size": 2}, {"kernel_size": (2, 3), "dilation": (1, 2), "padding": 1, "stride": 2}):
    words = " ".join(f"{k}={v}" for k, v in options.items())
    row(f"im2col {words}", lambda x, options=options: ours.unfold(x, **options), None,
        lambda x, options=options: F.unfold(x, **options),
        shapes=(((2, 3, 6, 5),), ((3, 6, 5),)))  # fmt: skip
row("col2im", lambda x: ours.fold(x, (5, 4), 2, padding=1, stride=(1, 2)), None,
    lambda x: F.fold(x, (5, 4), 2, padding=1, stride=(1, 2)),
    shapes=(((2, 12, 18),), ((12, 18),)))  # fmt: skip
row("int max_pool", lambda x: ours.max_pool2d(x, 2, 1, 1), None,
    lambda x: F.max_pool2d(x.double(), 2, 1, 1).long(), shapes=for_rows(SHAPES[2]), domain="int",
    gradient=False)  # fmt: skip
