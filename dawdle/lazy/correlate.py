"""UNWINDOWs, the adjoints of windows, rewritten in forms without a mask for each tap of each element.

That of a contraction, the gradient of a convolution with respect to its input, becomes a convolution of a
padded factor. That of windows that don't overlap, as in most pooling, is a mere rearrangement.
"""
from __future__ import annotations

from dataclasses import dataclass

from dawdle.lazy import build
from dawdle.lazy.axes import Access, Axes, Index
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.facts import SAME_ELEMENTS, dependence, product_below
from dawdle.lazy.ops import Op


@dataclass(frozen=True)
class _Factor:
    """A factor of a product, and the product's axes along which it only repeats itself."""

    value: LazyBuffer
    repeated: frozenset[int]


@dataclass(frozen=True)
class _Product:
    """The product that an UNWINDOW of a SUM adds up: which of its axes are what.

    ``places`` and ``taps`` hold the axis of each window, None where there is only one place or tap.
    """

    shape: tuple[int, ...]
    moved: _Factor  # has places
    fixed: _Factor  # has taps
    others: tuple[int, ...]  # the remaining axes
    summed: tuple[int, ...]  # those of them that are summed over
    lead: tuple[int, ...]  # those that are axes of the result, in its order
    places: tuple[int | None, ...]
    taps: tuple[int | None, ...]

    def laid_out(self, factor: _Factor, spatial: tuple[int | None, ...]) -> LazyBuffer:
        """A factor with the other axes first, then its places or taps, which are whole: what is beside them
        isn't what they hold. The others have size 1 where it repeats itself.
        """
        once = factor.repeated.difference(spatial)
        sizes = enumerate(factor.value.shape)
        value = build.slice_(factor.value, [(0, 1 if a in once else n, 1) for a, n in sizes])
        order = [*self.others, *(a for a in (*self.places, *self.taps) if a is not None)]
        shape = [value.shape[a] for a in self.others] + [1 if a is None else value.shape[a] for a in spatial]
        return build.reshape(build.permute(value, order), shape)


def correlate(node: LazyBuffer) -> LazyBuffer | None:
    """UNWINDOW(SUM(a * b)) -> SUM(flip(WINDOW(PAD(a))) * b), where only a has places and only b has taps."""
    product = _product(node)
    if product is None:
        return None
    windows, sizes = node.arg
    first, count = len(product.others), len(windows)
    moved = product.laid_out(product.moved, product.places)
    amounts = [(0, 0, 0)] * first
    for n, places, (size, stride, dilation) in zip(sizes, moved.shape[first:], windows, strict=True):
        # a place adds to the elements from place * stride on: tap k of an element lies k * dilation before it
        amounts.append(((size - 1) * dilation, n - (places - 1) * stride - 1, stride - 1))
    moved = build.window(build.pad(moved, amounts), [(size, 1, dilation) for size, _, dilation in windows])
    moved = build.flip(moved, range(first + count, first + 2 * count))
    fixed = product.laid_out(product.fixed, product.taps)
    fixed = build.reshape(fixed, (*fixed.shape[:first], *(1 for _ in windows), *fixed.shape[first:]))
    full = [product.shape[a] for a in product.others] + [*sizes, *(size for size, _, _ in windows)]
    body = build.binary(Op.MUL, build.expand(moved, full), build.expand(fixed, full))
    summed = [i for i, a in enumerate(product.others) if a in product.summed]
    total = build.reduce(Op.SUM, body, [*summed, *range(first + count, first + 2 * count)])
    order = [*(product.others.index(a) for a in product.lead), *range(first, first + count)]
    order += [a for a in range(total.ndim) if a not in order]
    return build.reshape(build.permute(total, order), node.shape)


def are_disjoint(node: LazyBuffer) -> bool:
    """Whether no element lies in two windows of an UNWINDOW."""
    return all((size - 1) * dilation < stride for size, stride, dilation in node.arg[0])


def assemble(node: LazyBuffer) -> LazyBuffer:
    """UNWINDOW(x) -> 0 + PAD(RESHAPE(PERMUTE(PAD(x)))): disjoint windows, each padded to its stride."""
    windows, sizes = node.arg
    (x,) = node.src
    count = len(windows)
    first = x.ndim - 2 * count
    taps = [(0, stride - (size - 1) * dilation - 1, dilation - 1) for size, stride, dilation in windows]
    x = build.pad(x, [(0, 0, 0)] * (first + count) + taps)
    x = build.permute(x, [*range(first), *(a for i in range(first, first + count) for a in (i, i + count))])
    spans = [x.shape[first + 2 * i] * x.shape[first + 2 * i + 1] for i in range(count)]
    x = build.reshape(x, (*x.shape[:first], *spans))
    x = build.slice_(x, [(0, n, 1) for n in (*x.shape[:first], *map(min, spans, sizes))])
    x = build.pad(x, [(0, n - m, 0) for m, n in zip(x.shape, node.shape, strict=True)])
    # a sum that starts from 0 never is -0.0
    return build.binary(Op.ADD, x, build.full(x.shape, 0, x.dtype, x.device)) if x.dtype.is_float else x


def _product(node: LazyBuffer) -> _Product | None:
    axes = Axes()
    count = len(node.arg[0])
    index: Access = tuple(axes.range(n) for n in node.src[0].shape)
    lead, places, taps = index[: -2 * count], index[-2 * count : -count], index[-count:]
    below = node.src[0]
    while below.op in SAME_ELEMENTS:
        index = axes.move(below, index)
        below = below.src[0]
    found = product_below(axes, below, index)
    if found is None or any(n.op is Op.CAST for n in found[0]):
        return None
    path, inner, reduced = found
    mul = path[-1]
    at = {t: a for a, t in enumerate(inner) if t.kind == "range"}
    wanted = {t for t in (*lead, *places, *taps) if t is not axes.zero}
    if at.keys() != wanted | reduced or len(at) != sum(t is not axes.zero for t in inner):
        return None
    spatial: set[Index] = {*places, *taps} - {axes.zero}
    depends = [dependence(axes, factor, inner) for factor in mul.src]
    repeated = [frozenset(at[t] for t in at.keys() - d) for d in depends]
    factors = [_Factor(f, r) for f, r in zip(mul.src, repeated, strict=True)]
    for moved, fixed in ((0, 1), (1, 0)):
        if depends[moved].isdisjoint(taps) and depends[fixed].isdisjoint(places):
            return _Product(
                mul.shape,
                factors[moved],
                factors[fixed],
                others=tuple(a for a, t in enumerate(inner) if t not in spatial),
                summed=tuple(at[t] for t in reduced),
                lead=tuple(at[t] for t in lead if t is not axes.zero),
                places=tuple(at.get(t) for t in places),
                taps=tuple(at.get(t) for t in taps),
            )
    return None
