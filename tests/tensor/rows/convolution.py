"""Convolutions."""
from __future__ import annotations

from typing import Any

from table import F, row

from dawdle.nn import functional as ours


def convolution(name: str, shapes: Any, **options: Any) -> None:
    n = len(shapes[0]) - 2
    bias = len(shapes) > 2
    theirs = {1: "conv1d", 2: "conv2d", 3: "conv3d"}[n]
    row(f"conv {name}", lambda x, w, *b: getattr(x, theirs)(w, *b, **options), None,
        lambda x, w, *b: getattr(F, theirs)(x, w, *(b if bias else (None,)), **options), shapes=(shapes,
            ))  # fmt: skip


convolution("2d", ((2, 3, 6, 5), (4, 3, 3, 3), (4,)))
convolution("2d padded", ((2, 3, 6, 5), (4, 3, 3, 2)), padding=(1, 2))
convolution("2d stride", ((2, 3, 7, 8), (4, 3, 3, 3)), stride=2, padding=1)
convolution("2d dilation", ((1, 2, 8, 8), (2, 2, 3, 3)), dilation=(2, 3), stride=(1, 2), padding=2)
convolution("2d groups", ((2, 4, 5, 5), (6, 2, 3, 3), (6,)), groups=2)
convolution("2d depthwise", ((2, 4, 5, 5), (4, 1, 3, 3)), groups=4, padding=1)
convolution("2d same", ((1, 2, 5, 6), (2, 2, 3, 4)), padding="same")
convolution("1d", ((2, 3, 9), (4, 3, 3), (4,)), stride=2, padding=1)
convolution("3d", ((1, 2, 4, 5, 4), (3, 2, 2, 3, 2)), padding=1)
row("conv unbatched", lambda x, w: x.conv2d(w), None, lambda x, w: F.conv2d(x, w), shapes=(((3, 5, 5), (4,
    3, 3, 3)),))
row("conv asymmetric", lambda x, w: x.conv2d(w, padding=((1, 0), (0, 2))), None,
    lambda x, w: F.conv2d(F.pad(x, (0, 2, 1, 0)), w), shapes=(((1, 2, 4, 4), (2, 2, 3, 3)),))  # fmt: skip
for name, options in {
    "plain": {}, "stride": {"stride": 2}, "padding": {"stride": 2, "padding": 1, "output_padding": 1},
    "groups": {"groups": 2},
    "dilation": {"dilation": 2, "padding": 1},
}.items():  # fmt: skip
    row(f"conv_transpose {name}", lambda x, w, options=options: x.conv_transpose2d(w, **options), None,
        lambda x, w, options=options: F.conv_transpose2d(x, w, **options), shapes=(((2, 4, 3, 4), (4, 2, 3,
            3)),))  # fmt: skip
for n, (image, kernel) in {1: ((2, 4, 5), (4, 3, 3)), 3: ((1, 4, 3, 2, 3), (4, 2, 2, 1, 3))}.items():
    options = {"groups": 2, "stride": 2, "padding": 1, "output_padding": 1}
    options = options if n == 1 else {"stride": (1, 2, 3)}
    row(f"conv_transpose{n}d", lambda x, w, b, n=n, options=options: getattr(ours, f"conv_transpose{n}d")(
        x, w, b, **options), None, lambda x, w, b, n=n, options=options: getattr(F, f"conv_transpose{n}d")(
        x, w, b, **options), shapes=((image, kernel, (6 if n == 1 else 2,)),))  # fmt: skip
row("conv_transpose unbatched", lambda x, w: ours.conv_transpose2d(x, w, padding=1), None,
    lambda x, w: F.conv_transpose2d(x, w, padding=1), shapes=(((4, 3, 4), (4, 2, 3, 3)),))  # fmt: skip
row("conv_transpose asymmetric", lambda x, w: ours.conv_transpose2d(x, w, padding=((1, 0), (0, 2))), None,
    lambda x, w: F.conv_transpose2d(x, w)[:, :, 1:, :-2], shapes=(((1, 2, 4, 4), (2, 2, 3, 3)),))  # fmt: skip
row("batchnorm", lambda x, w, b, m, v: x.batchnorm(w, b, m, (v + 1e-5).rsqrt()), None,
    lambda x, w, b, m, v: (x - m[:, None]) * (v + 1e-5).rsqrt()[:, None] * w[:, None] + b[:, None],
    shapes=(((2, 3, 4), (3,), (3,), (3,), (3,)),), domain=("normal", "normal", "normal", "normal",
        "positive"))  # fmt: skip
