"""Random numbers from a counter-based generator in graph operations: every device draws the same bits.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (SC 2011): Threefry-2x32 with 20 rounds.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dawdle.dtype import DEFAULT_INT, float32, float64, to_dtype, uint32, uint64
from dawdle.errors import ArgumentError, ShapeError
from dawdle.lazy.ops import Op
from dawdle.runtime.executor import realize_later
from dawdle.tensor import elementwise as ew
from dawdle.tensor import transcendental as tr
from dawdle.tensor.autograd import no_grad
from dawdle.tensor.core import apply, broadcast_shape, cast, constant, cut, shape_args, widen
from dawdle.tensor.creation import float_dtype
from dawdle.tensor.lanes import share
from dawdle.tensor.movement import shaped
from dawdle.tensor.sorting import argsort, topk
from dawdle.tensor.trigonometry import sin, tan

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA


def _rotated(x: Tensor, bits: int) -> Tensor:
    return ew.bitor(ew.lshift(x, bits), ew.rshift(x, 32 - bits))


def threefry(key: tuple[Tensor, Tensor], counter: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Two words of random bits for each two-word counter. All uint32, broadcast together."""
    keys = (*key, ew.bitxor(ew.bitxor(key[0], key[1]), PARITY))
    x, y = ew.add(counter[0], keys[0]), ew.add(counter[1], keys[1])
    for group in range(5):
        for bits in ROTATIONS[group % 2]:
            x = ew.add(x, y)
            y = ew.bitxor(_rotated(y, bits), x)
        x = ew.add(x, keys[(group + 1) % 3])
        y = ew.add(ew.add(y, keys[(group + 2) % 3]), group + 1)
    return x, y


class Generator:
    """A stream of random numbers, reproducible by its seed and the same on every device.

    The state on each device is a small tensor (two words of key, two of counter), which a draw advances by
    rebinding it.
    """

    def __init__(self, seed: int = 0) -> None:
        self._seed = 0
        self._states: dict[str, Tensor] = {}
        self.manual_seed(seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream of ``seed``, any integer of up to 64 bits, anew."""
        words = self._words(seed)
        self._seed = seed
        for state in self._states.values():  # the handles stay the same, as a captured function may hold them
            state._rebind(type(state)._of(words, state.lazy.device))
        return self

    @property
    def initial_seed(self) -> int:
        """The seed that the stream was started with."""
        return self._seed

    def seed(self) -> int:
        """Start the stream of a seed that the system draws. Returns it."""
        seed = secrets.randbits(63)
        self.manual_seed(seed)
        return seed

    def state(self, cls: type[Tensor], device: str) -> Tensor:
        """The state on ``device``, a handle that draws rebind."""
        if device not in self._states:
            self._states[device] = cls._of(self._words(self._seed), device)
        return self._states[device]

    @staticmethod
    def _words(seed: int) -> np.ndarray[Any, Any]:
        return np.array([seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF, 0, 0], np.uint32)

    def bits(self, cls: type[Tensor], n: int, device: str) -> tuple[Tensor, Tensor]:
        """Two tensors of ``n`` random uint32 words. The state moves on by ``n`` counters, inside of vmap by
        so many for each element that gets others.
        """
        offset, count = share(n, device)
        state = self.state(cls, device)
        state.realize()  # one kernel for every draw: the counter is always read from memory
        with no_grad():
            words = [apply(Op.RESHAPE, (1,), apply(Op.SLICE, ((i, i + 1, 1),), state)) for i in range(4)]
            counter = cls._iota(n, uint32, device)
            if offset is not None:
                counter = ew.add(counter, cls._wrap(offset))
            low = ew.add(words[2], counter)
            carry = cast(ew.lt(low, words[2]), uint32)
            out = threefry((words[0], words[1]), (low, ew.add(words[3], carry)))
            state._rebind(_advanced(cls, state, words, count))
        return out


def _advanced(cls: type[Tensor], state: Tensor, words: list[Tensor], n: int) -> Tensor:
    """The state with its 64-bit counter moved on by ``n``."""
    low = ew.add(words[2], n & 0xFFFFFFFF)
    high = ew.add(ew.add(words[3], n >> 32), cast(ew.lt(low, words[2]), uint32))
    place = cls._iota(4, uint32, state.lazy.device)
    return ew.where(ew.lt(place, 2), state, ew.where(ew.eq(place, 2), low, high))


default_generator = Generator()


def _draw(
    cls: type[Tensor], n: int, device: str | None, generator: Generator | None
) -> tuple[Tensor, Tensor]:
    return (generator or default_generator).bits(cls, n, cls._device_name(device))


def _unit(high: Tensor, low: Tensor, wide: bool) -> Tensor:
    """Uniform on [0, 1): 24 random bits for float32, 53 for float64."""
    if not wide:
        return ew.mul(cast(ew.rshift(high, 8), float32), 2.0**-24)
    upper, lower = cast(ew.rshift(high, 5), float64), cast(ew.rshift(low, 6), float64)
    return ew.mul(ew.add(ew.mul(upper, 2.0**26), lower), 2.0**-53)


@shaped("size")
def rand(
    cls: type[Tensor],
    *shape: Any,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Uniform random numbers on [0, 1), float32 by default."""
    sizes, kind = shape_args(shape, "rand"), float_dtype(dtype, "rand")
    high, low = _draw(cls, math.prod(sizes), device, generator)
    if kind.bits == 16:  # as many bits as the dtype holds, so that none rounds up to 1
        digits = kind.mantissa + 1
        out = cast(ew.mul(cast(ew.rshift(high, 32 - digits), float32), 2.0**-digits), kind)
    else:
        out = _unit(high, low, kind is float64)
    return out.reshape(sizes).requires_grad_(requires_grad)


@shaped("size")
def randn(
    cls: type[Tensor],
    *shape: Any,
    dtype: object | None = None,
    device: str | None = None,
    requires_grad: bool = False,
    generator: Generator | None = None,
) -> Tensor:
    """Normal random numbers of mean 0 and variance 1, float32 by default. Source: Box and Muller, 1958."""
    sizes, kind = shape_args(shape, "randn"), float_dtype(dtype, "randn")
    high, low = _draw(cls, math.prod(sizes), device, generator)
    wide = kind is float64
    radius = _unit(high, ew.mul(high, 0x9E3779B9), wide)
    angle = _unit(low, ew.mul(low, 0x9E3779B9), wide)
    radius = ew.sub(constant(radius, 1.0), radius)  # in (0, 1]: its logarithm is finite
    half = sin(ew.mul(angle, math.pi))
    cosine = ew.sub(constant(half, 1.0), ew.mul(ew.square(half), 2.0))
    out = ew.mul(tr.sqrt(ew.mul(tr.log(radius), -2.0)), cosine)
    return cast(out, kind).reshape(sizes).requires_grad_(requires_grad)


def _common(shape: Sequence[Any], what: str, *limits: Tensor | float) -> tuple[int, ...]:
    """The shape asked for, or else that of the parameters, broadcast together."""
    if shape:
        return shape_args(shape, what)
    return broadcast_shape(what, (), *[x.lazy.shape for x in limits if hasattr(x, "lazy")])


def _within(what: str, value: Tensor | float, low: float, high: float = math.inf) -> None:
    """Raise ArgumentError for a number that is outside of the bounds. Tensors aren't looked at."""
    if not hasattr(value, "lazy") and not low <= float(value) <= high:
        bounds = f"within {low:g} and {high:g}" if high < math.inf else f"at least {low:g}"
        raise ArgumentError(f"{what} must be {bounds}, got {value}")


def uniform(
    cls: type[Tensor],
    /,
    *shape: Any,
    low: Tensor | float = 0.0,
    high: Tensor | float = 1.0,
    **options: Any,
) -> Tensor:
    """Uniform random numbers on [low, high); options as in :func:`rand`. Limits may be tensors, whose shape
    is then the default.
    """
    wanted = options.pop("requires_grad", False)
    drawn = rand(cls, *_common(shape, "uniform", low, high), **options)
    if not hasattr(low, "lazy"):
        _within("uniform: high", high, low)
    span: Any = high - low
    return ew.add(ew.mul(drawn, span), low).requires_grad_(wanted)


def normal(
    cls: type[Tensor],
    /,
    *shape: Any,
    mean: Tensor | float = 0.0,
    std: Tensor | float = 1.0,
    **options: Any,
) -> Tensor:
    """Normal random numbers of that mean and standard deviation; options as in :func:`rand`.

    Both may be tensors, whose shape is then the default; ``normal(mean, std)`` of tensors and
    ``normal(mean, std, size)`` are understood as PyTorch means them.
    """
    size = options.pop("size", shape[2] if len(shape) == 3 and isinstance(shape[2], (tuple, list)) else None)
    if size is not None or any(hasattr(s, "lazy") for s in shape):
        (mean, std), shape = (*shape, *(mean, std)[len(shape) :])[:2], () if size is None else (size,)
    _within("normal: std", std, 0)
    wanted = options.pop("requires_grad", False)
    drawn = randn(cls, *_common(shape, "normal", mean, std), **options)
    return ew.add(ew.mul(drawn, std), mean).requires_grad_(wanted)


def randint(
    cls: type[Tensor],
    low: int = 0,
    high: int | Sequence[int] | None = None,
    size: int | Sequence[int] = (),
    dtype: object | None = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Random integers in [low, high), or [0, low) if ``high`` is left out; int64 by default. The shape may
    follow one limit, too: ``randint(high, size)``.
    """
    if isinstance(high, Sequence):
        low, top, size = 0, low, high
    else:
        low, top = (0, low) if high is None else (low, high)
    if top <= low:
        raise ShapeError(f"randint: high {top} must be above low {low}")
    sizes, kind = (
        shape_args((size,) if isinstance(size, int) else size, "randint"),
        to_dtype(dtype or DEFAULT_INT),
    )
    first, second = _draw(cls, math.prod(sizes), device, generator)
    word = ew.bitor(ew.lshift(cast(first, uint64), 32), cast(second, uint64))
    out = ew.add(cast(ew.mod(word, top - low), DEFAULT_INT), low)  # biased by less than (high - low) / 2**64
    return cast(out, kind).reshape(sizes)


def randperm(
    cls: type[Tensor],
    n: int,
    dtype: object | None = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """The integers below ``n`` in random order; int64 by default. They are computed at once, as they are read
    piece by piece.
    """
    if n < 0:
        raise ShapeError(f"randperm: the number must not be negative, got {n}")
    first, second = _draw(cls, n, device, generator)
    word = ew.bitor(ew.lshift(cast(first, uint64), 32), cast(second, uint64))
    out = cast(argsort(word), to_dtype(dtype or DEFAULT_INT))
    realize_later([out.lazy])
    return out


def _drawn(x: Tensor, generator: Generator | None) -> Tensor:
    """Uniform numbers on [0, 1) in the shape and on the device of ``x``, in its dtype if that is a float."""
    return rand_like(x.detach(), generator=generator)


def bernoulli(x: Tensor, p: Tensor | float | None = None, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element of ``x`` holds (or ``p``, in its shape), else 0, in its dtype.
    """
    chance = x.detach() if p is None else p
    _within("bernoulli: p", chance, 0, 1)
    return cast(ew.lt(_drawn(x, generator), chance), x.lazy.dtype)


def multinomial(
    x: Tensor, num_samples: int, replacement: bool = False, generator: Generator | None = None
) -> Tensor:
    """``num_samples`` indices for each row of weights (a vector is one row), drawn with a probability in
    proportion to them; int64.

    Weights must not be negative, and without ``replacement`` at least ``num_samples`` of a row positive.
    Source of drawing without replacement: Efraimidis and Spirakis, Weighted Random Sampling with a Reservoir,
    2006.
    """
    shape = x.lazy.shape
    if len(shape) not in (1, 2) or not x.lazy.dtype.is_float:
        raise ShapeError(f"multinomial takes a vector or a matrix of floats, got {x.lazy!r}")
    if num_samples < 1 or not shape[-1] or (not replacement and num_samples > shape[-1]):
        raise ShapeError(f"multinomial: can't draw {num_samples} of {shape[-1]} categories")
    weights = widen(x.detach())
    if not replacement:
        waiting = ew.div(_exponential(_drawn(weights, generator)), weights)
        _, index = topk(ew.where(ew.gt(weights, 0), waiting, math.inf), num_samples, -1, largest=False)
        return index
    sums = apply(Op.SCAN, (Op.ADD, len(shape) - 1), weights)
    total = cut(sums, len(shape) - 1, shape[-1] - 1, shape[-1])
    options: dict[str, Any] = {"dtype": weights.lazy.dtype, "device": x.lazy.device, "generator": generator}
    at = ew.mul(rand(type(x), *shape[:-1], num_samples, 1, **options), total.unsqueeze(-1))
    found = _count(ew.le(sums.unsqueeze(-2), at))
    return ew.minimum(found, _count(ew.lt(sums, total)).unsqueeze(-1))  # where rounding led beyond the last


def _count(x: Tensor) -> Tensor:
    """How many elements of the last dimension are true."""
    return cast(x, DEFAULT_INT).sum(-1)


def rand_like(x: Tensor, /, **options: Any) -> Tensor:
    """:func:`rand` of the shape and device of ``x``, and its dtype if that is a float."""
    return rand(type(x), *x.lazy.shape, **_like(x, options))


def randn_like(x: Tensor, /, **options: Any) -> Tensor:
    """:func:`randn` of the shape and device of ``x``, and its dtype if that is a float."""
    return randn(type(x), *x.lazy.shape, **_like(x, options))


def _like(x: Tensor, options: dict[str, Any]) -> dict[str, Any]:
    dtype = x.lazy.dtype if x.lazy.dtype.is_float else None
    return {"dtype": dtype, "device": x.lazy.device, **options}


def randint_like(x: Tensor, /, low: int, high: int | None = None, **options: Any) -> Tensor:
    """:func:`randint` of the shape, dtype and device of ``x``."""
    given = {"dtype": x.lazy.dtype, "device": x.lazy.device, **options}
    return randint(type(x), low, high, x.lazy.shape, **given)


# ---- a tensor filled in place


def _exponential(u: Tensor) -> Tensor:
    """Uniform numbers on [0, 1) to exponential ones of rate 1."""
    return ew.neg(tr.log1p(ew.neg(u)))


def filled(x: Tensor, values: Tensor) -> Tensor:
    """Give ``x`` the value of ``values`` in its dtype, and return it."""
    return x._rebind(cast(values, x.lazy.dtype))


def uniform_(x: Tensor, low: float = 0.0, high: float = 1.0, generator: Generator | None = None) -> Tensor:
    """In place: uniform random numbers on [low, high)."""
    _within("uniform_: high", high, low)
    return filled(x, ew.add(ew.mul(_drawn(x, generator), high - low), low))


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """In place: normal random numbers."""
    _within("normal_: std", std, 0)
    return filled(x, ew.add(ew.mul(randn_like(x.detach(), generator=generator), std), mean))


def log_normal_(x: Tensor, mean: float = 1.0, std: float = 2.0, generator: Generator | None = None) -> Tensor:
    """In place: numbers whose logarithm is normal."""
    drawn = randn_like(x.detach(), generator=generator)
    return filled(x, tr.exp(ew.add(ew.mul(drawn, std), mean)))


def exponential_(x: Tensor, lambd: float = 1.0, generator: Generator | None = None) -> Tensor:
    """In place: exponential random numbers of rate ``lambd``."""
    return filled(x, ew.div(_exponential(_drawn(x, generator)), lambd))


def cauchy_(
    x: Tensor, median: float = 0.0, sigma: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """In place: random numbers of Cauchy's distribution."""
    angle = ew.mul(ew.sub(_drawn(x, generator), 0.5), math.pi)
    return filled(x, ew.add(ew.mul(tan(angle), sigma), median))


def geometric_(x: Tensor, p: float, generator: Generator | None = None) -> Tensor:
    """In place: how many trials, each with probability ``p``, the first success takes."""
    if not 0 < p < 1:
        raise ArgumentError(f"geometric_: the probability must be between 0 and 1, got {p}")
    trials = ew.ceil(ew.div(_exponential(_drawn(x, generator)), -math.log1p(-p)))
    return filled(x, ew.maximum(trials, 1))


def bernoulli_(x: Tensor, p: Tensor | float = 0.5, generator: Generator | None = None) -> Tensor:
    """In place: 1 with probability ``p``, else 0."""
    _within("bernoulli_: p", p, 0, 1)
    return filled(x, ew.lt(_drawn(x, generator), p))


def random_(x: Tensor, low: int = 0, high: int | None = None, generator: Generator | None = None) -> Tensor:
    """In place: random integers in [low, high); by default all that the dtype holds from 0 on, or to 2**24 in
    a float.
    """
    dtype = x.lazy.dtype
    if high is None:
        high = min(1 << 24 if dtype.is_float else int(dtype.max) + 1, 1 << 63)
    return filled(x, randint_like(x.detach(), low, high, dtype=DEFAULT_INT, generator=generator))
