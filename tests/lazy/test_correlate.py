"""UNWINDOWs of contractions become convolutions of the same values."""
from __future__ import annotations

import networks as net
import numpy as np
import pytest
from random_graphs import leaf, values_of

from dawdle.dtype import float32, int64
from dawdle.lazy import build
from dawdle.lazy.buffer import LazyBuffer, toposort
from dawdle.lazy.correlate import are_disjoint, assemble, correlate
from dawdle.lazy.ops import Op

# (size, stride, dilation, places) along each of the last axes
SPATIAL = [
    [(3, 1, 1, 5)],
    [(3, 2, 1, 4)],
    [(2, 3, 1, 3)],
    [(3, 2, 2, 4)],
    [(1, 2, 1, 5)],
    [(4, 1, 1, 1)],
    [(3, 1, 1, 4), (2, 2, 1, 3)],
    [(1, 1, 1, 4), (3, 1, 2, 3)],
    [(2, 1, 1, 1), (1, 1, 1, 2)],
]


def numbers(*shape: int) -> LazyBuffer:
    return leaf(np.random.default_rng(sum(shape)).integers(-4, 5, shape), int64)


def gradient(
    spatial: list[tuple[int, int, int, int]], slack: int, weights_first: bool, repeated: int = 0
) -> LazyBuffer:
    """Of the input that dy (2, o, places) and w (o, i, sizes) come from, with ``slack`` at its end. Both
    repeat themselves along the first ``repeated`` of their places and sizes.
    """
    sizes, places = [s[0] for s in spatial], [s[3] for s in spatial]
    ones = [1] * len(spatial)
    once = [1] * repeated
    dy = build.expand(numbers(2, 5, *once, *places[repeated:]), (2, 5, *places))
    dy = build.reshape(dy, (2, 5, 1, *places, *ones))
    w = build.expand(numbers(5, 4, *once, *sizes[repeated:]), (5, 4, *sizes))
    w = build.reshape(w, (1, 5, 4, *ones, *sizes))
    taps = net.total(net.mul(w, dy) if weights_first else net.mul(dy, w), 1)
    taps = build.reshape(taps, (2, 4, *places, *sizes))
    ends = [(p - 1) * stride + (size - 1) * dilation + 1 for size, stride, dilation, p in spatial]
    least = min(s[1] for s in spatial) - 1
    return build.unwindow(taps, [s[:3] for s in spatial], [n + min(slack, least) for n in ends])


@pytest.mark.parametrize("spatial", SPATIAL)
@pytest.mark.parametrize("slack", [0, 2])
@pytest.mark.parametrize("weights_first", [False, True])
@pytest.mark.parametrize("repeated", [0, 1])
def test_convolutions_gradient(spatial, slack, weights_first, repeated):
    node = gradient(spatial, slack, weights_first, repeated)
    rewritten = correlate(node)
    assert rewritten is not None and rewritten.shape == node.shape
    assert all(n.op is not Op.UNWINDOW for n in toposort([rewritten]))
    got, want = values_of(rewritten, node)
    np.testing.assert_array_equal(got, want)


def test_padding_does_not_repeat_itself():
    rewritten = correlate(gradient([(3, 1, 1, 5)], 0, False))
    (pad,) = (n for n in toposort([rewritten]) if n.op is Op.PAD)
    assert pad.size == 2 * 5 * 9


def test_what_is_no_convolution_stays():
    windows = [(3, 1, 1)]
    x = numbers(2, 5, 4, 3)
    assert correlate(build.unwindow(net.total(net.mul(x, x), 1), windows, (6,))) is None
    assert correlate(build.unwindow(net.total(x, 1), windows, (6,))) is None
    both = net.mul(numbers(2, 5, 4, 3), numbers(1, 5, 1, 3))  # one factor has places and taps
    assert correlate(build.unwindow(net.total(both, 1), windows, (6,))) is None
    rounded = build.cast(net.mul(numbers(2, 5, 4, 1), numbers(1, 5, 1, 3)), float32)
    assert correlate(build.unwindow(net.total(rounded, 1), windows, (6,))) is None


@pytest.mark.parametrize("spatial", [s for s in SPATIAL if all((k - 1) * d < t for k, t, d, _ in s)] + [
    [(2, 2, 1, 3)], [(2, 4, 2, 3), (3, 3, 1, 2)], [(1, 3, 1, 2), (2, 2, 1, 2)],
])  # fmt: skip
@pytest.mark.parametrize("slack", [0, 1])
def test_disjoint_windows_are_put_side_by_side(spatial, slack):
    x = numbers(2, *(s[3] for s in spatial), *(s[0] for s in spatial))
    ends = [(p - 1) * stride + (size - 1) * dilation + 1 for size, stride, dilation, p in spatial]
    least = min(s[1] for s in spatial) - 1
    node = build.unwindow(x, [s[:3] for s in spatial], [n + min(slack, least) for n in ends])
    assert are_disjoint(node)
    got, want = values_of(assemble(node), node)
    np.testing.assert_array_equal(got, want)


def test_overlapping_windows_are_not_disjoint():
    assert not are_disjoint(build.unwindow(numbers(2, 4, 3), [(3, 2, 1)], (9,)))


def test_negative_zeros_become_sums():
    x = leaf(np.full((3, 2), -0.0), float32)
    (got,) = values_of(assemble(build.unwindow(x, [(2, 2, 1)], (6,))))
    assert not np.signbit(got).any()
