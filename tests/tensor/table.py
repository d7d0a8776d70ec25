"""Every operation of Tensor as one row: how it is called, what NumPy or PyTorch gives, and on which inputs.

A row's inputs are drawn from its domain in float64 for each of its shapes. ``reference`` takes arrays;
``torch_reference`` takes torch tensors, and serves for gradients too. Adding an operation means adding a row.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dawdle import Tensor

try:
    import torch
    import torch.nn.functional as F
except ImportError:  # rows without a NumPy reference are then skipped
    torch = F = None

UNARY = (((3, 4),), ((),), ((0, 3),), ((2, 1, 5),))
BINARY = (((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((0, 3), (1, 3)), ((1,), ()))

DOMAINS: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda r, s: r.normal(size=s) * 1.5,
    "positive": lambda r, s: r.uniform(0.2, 3, s),
    "unit": lambda r, s: r.uniform(-0.9, 0.9, s),
    "away": lambda r, s: r.uniform(0.3, 2, s) * r.choice([-1, 1], s),  # not near 0
    "distinct": lambda r, s: r.permutation(math.prod(s)).reshape(s) * 0.37 - 1.0,
    "bits": lambda r, s: r.integers(0, 2, s).astype(bool),
    "int": lambda r, s: r.integers(-7, 8, s),
    "nonzero": lambda r, s: r.integers(1, 8, s) * r.choice([-1, 1], s),
    "count": lambda r, s: r.integers(0, 6, s),
}


@dataclass(frozen=True)
class Row:
    name: str
    call: Callable[..., Any]
    reference: Callable[..., Any] | None = None
    torch_reference: Callable[..., Any] | None = None
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = UNARY
    domain: str | tuple[str, ...] = "normal"
    gradient: bool = True
    tolerance: float = 1e-5
    kinds: tuple[str, ...] = field(default=("float32", "float64"))

    def inputs(self, which: int, kind: str = "float64") -> list[np.ndarray]:
        """The arrays for the shapes number ``which``; floats are cast to ``kind``."""
        rng = np.random.default_rng([which, *map(ord, self.name)])
        shapes = self.shapes[which]
        domains = (self.domain,) * len(shapes) if isinstance(self.domain, str) else self.domain
        arrays = [np.asarray(DOMAINS[d](rng, s)) for d, s in zip(domains, shapes, strict=True)]
        return [a.astype(kind) if a.dtype.kind == "f" else a for a in arrays]

    @property
    def available(self) -> bool:
        return self.reference is not None or torch is not None

    def expected(self, arrays: list[np.ndarray]) -> Any:
        if self.reference is not None:
            with np.errstate(all="ignore"):
                return self.reference(*arrays)
        out = self.torch_reference(*[torch.from_numpy(np.array(a)) for a in arrays])
        return [t.numpy() for t in out] if isinstance(out, (tuple, list)) else out.numpy()


ROWS: list[Row] = []


def row(name: str, call: Callable[..., Any], reference: Any = None, torch_reference: Any = None,
    **options: Any) -> None:
    ROWS.append(Row(name, call, reference, torch_reference, **options))


def unary(name: str, call: Any, reference: Any = None, torch_reference: Any = None, **options: Any) -> None:
    row(name, call, reference, torch_reference, shapes=UNARY, **options)


def binary(name: str, call: Any, reference: Any = None, torch_reference: Any = None, **options: Any) -> None:
    row(name, call, reference, torch_reference, shapes=BINARY, **options)


# ---- arithmetic

binary("add", lambda a, b: a + b, np.add, lambda a, b: a + b)
binary("sub", lambda a, b: a - b, np.subtract, lambda a, b: a - b)
binary("mul", lambda a, b: a * b, np.multiply, lambda a, b: a * b)
binary("div", lambda a, b: a / b, np.divide, lambda a, b: a / b, domain=("normal", "away"))
binary("floordiv", lambda a, b: a // b, np.floor_divide, domain=("normal", "away"), gradient=False)
binary("mod", lambda a, b: a % b, np.mod, lambda a, b: a % b, domain=("normal", "away"))
binary("maximum", Tensor.maximum, np.maximum, lambda a, b: torch.maximum(a, b))
binary("minimum", Tensor.minimum, np.minimum, lambda a, b: torch.minimum(a, b))
binary("pow", lambda a, b: a**b, np.power, lambda a, b: a**b, domain=("positive", "normal"))
binary("logaddexp", Tensor.logaddexp, np.logaddexp, lambda a, b: torch.logaddexp(a, b))
binary("int add", lambda a, b: a + b, np.add, domain="int", gradient=False)
binary("int floordiv", lambda a, b: a // b, np.floor_divide, domain=("int", "nonzero"), gradient=False)
binary("int mod", lambda a, b: a % b, np.mod, domain=("int", "nonzero"), gradient=False)
binary("int div", lambda a, b: a / b, lambda a, b: (a / b).astype("f"), domain=("int", "nonzero"),
    gradient=False)
binary("int pow", lambda a, b: a**b, np.power, domain=("int", "count"), gradient=False)
binary("int min", Tensor.minimum, np.minimum, domain="int", gradient=False)
binary("and", lambda a, b: a & b, np.bitwise_and, domain="int", gradient=False)
binary("or", lambda a, b: a | b, np.bitwise_or, domain="int", gradient=False)
binary("xor", lambda a, b: a ^ b, np.bitwise_xor, domain="int", gradient=False)
binary("shl", lambda a, b: a << b, np.left_shift, domain=("int", "count"), gradient=False)
binary("shr", lambda a, b: a >> b, np.right_shift, domain=("int", "count"), gradient=False)
binary("bool add", lambda a, b: a + b, np.add, domain="bits", gradient=False)
binary("logical", lambda a, b: a.logical_and(b) ^ a.logical_or(b), lambda a, b: (a != 0) ^ (b != 0),
       domain=("int", "bits"), gradient=False)  # fmt: skip
for symbol, compare in {
    "lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal, "eq": np.equal,
    "ne": np.not_equal
}.items():  # fmt: skip
    for domain in ("normal", "int"):
        binary(f"{symbol} {domain}", getattr(Tensor, symbol), compare, domain=domain, gradient=False)
binary("isclose", lambda a, b: a.isclose(b * 0 + a * 1.000001), lambda a, b: np.ones(np.broadcast(a,
    b).shape, bool),
       gradient=False)  # fmt: skip
binary("lerp", lambda a, b: a.lerp(b, 0.3), lambda a, b: a + 0.3 * (b - a))
binary("where", lambda a, b: (a > 0.1).where(a, b), lambda a, b: np.where(a > 0.1, a, b), domain=("away",
    "normal"))

# ---- functions of one element

unary("neg", lambda a: -a, np.negative, lambda a: -a)
unary("reciprocal", Tensor.reciprocal, np.reciprocal, lambda a: 1 / a, domain="away")
unary("square", Tensor.square, np.square, lambda a: a * a)
unary("abs", abs, np.abs, lambda a: a.abs(), domain="away")
unary("int abs", abs, np.abs, domain="int", gradient=False)
unary("sign", Tensor.sign, np.sign, lambda a: a.sign(), gradient=False)
unary("sqrt", Tensor.sqrt, np.sqrt, lambda a: a.sqrt(), domain="positive")
unary("rsqrt", Tensor.rsqrt, lambda a: 1 / np.sqrt(a), lambda a: a.rsqrt(), domain="positive")
unary("exp", Tensor.exp, np.exp, lambda a: a.exp())
unary("exp2", Tensor.exp2, np.exp2, lambda a: a.exp2())
unary("expm1", Tensor.expm1, np.expm1, lambda a: a.expm1())
unary("log", Tensor.log, np.log, lambda a: a.log(), domain="positive")
unary("log2", Tensor.log2, np.log2, lambda a: a.log2(), domain="positive")
unary("log10", Tensor.log10, np.log10, lambda a: a.log10(), domain="positive")
unary("log1p", Tensor.log1p, np.log1p, lambda a: a.log1p(), domain="unit")
unary("sin", Tensor.sin, np.sin, lambda a: a.sin())
unary("cos", Tensor.cos, np.cos, lambda a: a.cos())
unary("tan", Tensor.tan, np.tan, lambda a: a.tan(), domain="unit")
unary("sinh", Tensor.sinh, np.sinh, lambda a: a.sinh())
unary("cosh", Tensor.cosh, np.cosh, lambda a: a.cosh())
unary("tanh", Tensor.tanh, np.tanh, lambda a: a.tanh())
unary("sigmoid", Tensor.sigmoid, lambda a: 1 / (1 + np.exp(-a)), lambda a: a.sigmoid())
unary("erf", Tensor.erf, None, lambda a: a.erf())
unary("floor", Tensor.floor, np.floor, lambda a: a.floor())
unary("ceil", Tensor.ceil, np.ceil, lambda a: a.ceil())
unary("trunc", Tensor.trunc, np.trunc, lambda a: a.trunc())
unary("round", Tensor.round, np.round, lambda a: a.round())
unary("frac", Tensor.frac, lambda a: a - np.trunc(a), lambda a: a.frac())
unary("clamp", lambda a: a.clamp(-0.5, 0.7), lambda a: np.clip(a, -0.5, 0.7), lambda a: a.clamp(-0.5, 0.7))
unary("clamp min", lambda a: a.clamp(min=0.2), lambda a: np.maximum(a, 0.2), lambda a: a.clamp(min=0.2))
unary("int clamp", lambda a: a.clamp(-2, 3), lambda a: np.clip(a, -2, 3), domain="int", gradient=False)
unary("isnan", lambda a: (a * math.nan).isnan(), lambda a: np.isnan(a * np.nan), gradient=False)
unary("isinf", lambda a: (a / 0.0).isinf(), lambda a: np.isinf(a / 0.0), gradient=False)
unary("isfinite", lambda a: (1 / a.floor()).isfinite(), lambda a: np.isfinite(1 / np.floor(a)),
    gradient=False)
unary("invert", lambda a: ~a, np.invert, domain="int", gradient=False)
unary("not", lambda a: ~a, np.invert, domain="bits", gradient=False)
unary("logical_not", Tensor.logical_not, np.logical_not, domain="count", gradient=False)
unary("square by **", lambda a: a**2, lambda a: a**2, lambda a: a**2)
unary("cube by **", lambda a: a**3, lambda a: a**3, lambda a: a**3)
unary("** -2", lambda a: a**-2, lambda a: a**-2.0, lambda a: a**-2, domain="away")
unary("** 0", lambda a: a**0, lambda a: a**0)
unary("** 0.5", lambda a: a**0.5, np.sqrt, lambda a: a**0.5, domain="positive")
unary("** 2.5", lambda a: a**2.5, lambda a: a**2.5, lambda a: a**2.5, domain="positive")
unary("2 **", lambda a: 2**a, lambda a: 2**a, lambda a: 2**a)
unary("1 -", lambda a: 1 - a, lambda a: 1 - a)
unary("1 /", lambda a: 1 / a, lambda a: 1 / a, domain="away")
unary("int + float", lambda a: a + 0.5, lambda a: (a + 0.5).astype("f"), domain="int", gradient=False)
unary("masked_fill", lambda a: a.masked_fill(a > 0, 2.0), lambda a: np.where(a > 0, 2.0, a), domain="away")

# ---- activations

unary("relu", Tensor.relu, lambda a: np.maximum(a, 0), lambda a: a.relu(), domain="away")
unary("relu6", lambda a: (a * 4).relu6(), None, lambda a: F.relu6(a * 4), domain="away")
unary("leaky_relu", Tensor.leaky_relu, None, lambda a: F.leaky_relu(a), domain="away")
unary("gelu", Tensor.gelu, None, lambda a: F.gelu(a, approximate="tanh"))
unary("gelu exact", lambda a: a.gelu("none"), None, lambda a: F.gelu(a))
unary("silu", Tensor.silu, None, lambda a: F.silu(a))
unary("elu", Tensor.elu, None, lambda a: F.elu(a))
unary("selu", Tensor.selu, None, lambda a: F.selu(a))
unary("celu", lambda a: a.celu(1.3), None, lambda a: F.celu(a, 1.3))
unary("softplus", Tensor.softplus, None, lambda a: F.softplus(a))
unary("softplus beta", lambda a: a.softplus(2.0), None, lambda a: F.softplus(a, 2.0))
unary("logsigmoid", Tensor.logsigmoid, None, lambda a: F.logsigmoid(a))
unary("mish", Tensor.mish, None, lambda a: F.mish(a))
unary("hardtanh", Tensor.hardtanh, None, lambda a: F.hardtanh(a))
unary("hardsigmoid", Tensor.hardsigmoid, None, lambda a: F.hardsigmoid(a))
unary("hardswish", Tensor.hardswish, None, lambda a: F.hardswish(a))
unary("softsign", Tensor.softsign, None, lambda a: F.softsign(a))

# ---- along dimensions

LINES = (((3, 4),), ((2, 3, 4),), ((5, 1),))
for dim in (None, 0, -1, (0, 1)):
    for keep in (False, True):
        label = f"{dim} {keep}"
        along: dict[str, Any] = {"dim": dim, "keepdim": keep}
        numpy_along: dict[str, Any] = {"axis": dim, "keepdims": keep}

        def both(ours: Any, theirs: Any, along: Any = along, numpy_along: Any = numpy_along) -> Any:
            return lambda a: ours(a, **along), lambda a: theirs(a, **numpy_along)

        row(f"sum {label}", *both(Tensor.sum, np.sum), shapes=(*LINES, ((0, 3),)))
        row(f"prod {label}", *both(Tensor.prod, np.prod), shapes=(*LINES, ((0, 3),)), domain="away")
        row(f"mean {label}", *both(Tensor.mean, np.mean), shapes=LINES)
        row(f"var {label}", *both(Tensor.var, lambda a, **k: np.var(a, ddof=1, **k)), shapes=LINES[:2])
        row(f"std {label}", *both(Tensor.std, lambda a, **k: np.std(a, ddof=1, **k)), shapes=LINES[:2])
        row(f"max {label}", *both(Tensor.max, np.max), shapes=LINES, domain="distinct")
        row(f"min {label}", *both(Tensor.min, np.min), shapes=LINES, domain="distinct")
        row(f"any {label}", *both(Tensor.any, np.any), shapes=LINES, domain="bits", gradient=False)
        row(f"all {label}", *both(Tensor.all, np.all), shapes=LINES, domain="bits", gradient=False)
        row(f"int max {label}", *both(Tensor.max, np.max), shapes=LINES, domain="int", gradient=False)
        row(f"int min {label}", *both(Tensor.min, np.min), shapes=LINES, domain="int", gradient=False)
        row(f"bool sum {label}", *both(Tensor.sum, np.sum), shapes=LINES, domain="bits", gradient=False)
        row(f"logsumexp {label}", *both(Tensor.logsumexp, lambda a, **k: np.log(np.sum(np.exp(a), **k))),
            shapes=LINES)
        if not isinstance(dim, tuple):
            row(f"argmax {label}", *both(Tensor.argmax, np.argmax), shapes=LINES, domain="int",
                gradient=False)
            row(f"argmin {label}", *both(Tensor.argmin, np.argmin), shapes=LINES, gradient=False)
row("sum 0-d", lambda a: a.sum(0), lambda a: a, shapes=(((),),))
row("prod with zeros", lambda a: (a * Tensor([1.0, 0.0, 1.0, 1.0])).prod(1), None,
    lambda a: (a * torch.tensor([1.0, 0.0, 1.0, 1.0])).prod(1), shapes=(((3, 4),),))  # fmt: skip
row("softmax", Tensor.softmax, None, lambda a: a.softmax(-1), shapes=LINES)
row("softmax 0", lambda a: a.softmax(0), None, lambda a: a.softmax(0), shapes=LINES)
row("log_softmax", Tensor.log_softmax, None, lambda a: a.log_softmax(-1), shapes=LINES)
row("cumsum", lambda a: a.cumsum(1), lambda a: np.cumsum(a, 1), lambda a: a.cumsum(1), shapes=LINES)
row("cumprod", lambda a: a.cumprod(1), lambda a: np.cumprod(a, 1), lambda a: a.cumprod(1), shapes=LINES)
row("cumprod with zeros", lambda a: (a * Tensor([1.0, 0.0, 1.0, 0.0])).cumprod(1), None,
    lambda a: (a * torch.tensor([1.0, 0.0, 1.0, 0.0])).cumprod(1), shapes=(((3, 4),),))  # fmt: skip
row("cummax", lambda a: a.cummax(1), lambda a: np.maximum.accumulate(a, 1), lambda a: a.cummax(1)[0],
    shapes=LINES)
row("norm", Tensor.norm, np.linalg.norm, lambda a: a.norm(), shapes=(((3, 4),), ((7,),)))
row("norm 1", lambda a: a.norm(1, 0), lambda a: np.abs(a).sum(0), shapes=LINES, domain="away")
row("normalize", lambda a: a.normalize(dim=1), None, lambda a: F.normalize(a, dim=1), shapes=LINES)
row("layernorm", Tensor.layernorm, None, lambda a: F.layer_norm(a, a.shape[-1:]), shapes=LINES[:2])
row("rms_norm", Tensor.rms_norm, None, lambda a: a / (a.square().mean(-1, True) + 1e-6).sqrt(), shapes=LINES)

# ---- movement

CUBE = (((2, 3, 4),),)
row("reshape", lambda a: a.reshape(4, -1), lambda a: a.reshape(4, 6), shapes=CUBE)
row("view", lambda a: a.view((6, 4)), lambda a: a.reshape(6, 4), shapes=CUBE)
row("flatten", lambda a: a.flatten(1), lambda a: a.reshape(2, 12), shapes=CUBE)
row("unflatten", lambda a: a.unflatten(2, (2, -1)), lambda a: a.reshape(2, 3, 2, 2), shapes=CUBE)
row("permute", lambda a: a.permute(2, 0, 1), lambda a: a.transpose(2, 0, 1), shapes=CUBE)
row("transpose", lambda a: a.transpose(0, -1), lambda a: a.swapaxes(0, 2), shapes=CUBE)
row("T", lambda a: a.T, lambda a: a.T, shapes=CUBE)
row("mT", lambda a: a.mT, lambda a: a.swapaxes(1, 2), shapes=CUBE)
row("movedim", lambda a: a.movedim(0, 2), lambda a: np.moveaxis(a, 0, 2), shapes=CUBE)
row("squeeze", lambda a: a.squeeze(), lambda a: a.squeeze(), shapes=(((1, 3, 1),), ((2,),), ((),)))
row("squeeze dim", lambda a: a.squeeze(0), lambda a: a.squeeze(0), shapes=(((1, 3, 1),),))
row("unsqueeze", lambda a: a.unsqueeze(-1), lambda a: a[..., None], shapes=(((2, 3),), ((),)))
row("expand", lambda a: a.expand(2, -1, 4), lambda a: np.broadcast_to(a, (2, 3, 4)), shapes=(((3, 1),), ((1,
    3, 1),)))
row("flip", lambda a: a.flip(0, 2), lambda a: np.flip(a, (0, 2)), shapes=CUBE)
row("pad", lambda a: a.pad((1, 2, 0, 1)), lambda a: np.pad(a, ((0, 0), (0, 1), (1, 2))), shapes=CUBE)
row("pad value", lambda a: a.pad(((1, 0), (0, 0), (2, 1)), value=-3.0),
    lambda a: np.pad(a, ((1, 0), (0, 0), (2, 1)), constant_values=-3.0), shapes=CUBE)  # fmt: skip
row("pad negative", lambda a: a.pad((-1, 2)), None, lambda a: F.pad(a, (-1, 2)), shapes=CUBE)
for mode in ("reflect", "replicate", "circular"):
    row(f"pad {mode}", lambda a, mode=mode: a.pad((2, 1), mode=mode), None,
        lambda a, mode=mode: F.pad(a, (2, 1), mode=mode), shapes=CUBE)  # fmt: skip
row("roll", lambda a: a.roll(3), lambda a: np.roll(a, 3), shapes=CUBE)
row("roll dims", lambda a: a.roll((1, -1), (0, 2)), lambda a: np.roll(a, (1, -1), (0, 2)), shapes=CUBE)
row("repeat", lambda a: a.repeat(2, 1, 3), lambda a: np.tile(a, (2, 1, 3)), shapes=(((2, 3),), ((2, 1, 4),)))
row("repeat_interleave", lambda a: a.repeat_interleave(2, 1), lambda a: np.repeat(a, 2, 1), shapes=CUBE)
row("cat", lambda a, b: Tensor.cat([a, b, a], 1), lambda a, b: np.concatenate([a, b, a], 1),
    shapes=(((2, 3), (2, 1)), ((2, 0), (2, 2)), ((0, 3), (0, 3))))  # fmt: skip
row("cat of many", lambda a, b: Tensor.cat([a, b] * 10, 1), lambda a, b: np.concatenate([a, b] * 10, 1),
    shapes=(((2, 3), (2, 1)),))  # fmt: skip
row("cat method", lambda a, b: a.cat(b, dim=-1), lambda a, b: np.concatenate([a, b], -1), shapes=(((2, 3),
    (2, 1)),))
row("stack", lambda a, b: Tensor.stack([a, b], dim=1), lambda a, b: np.stack([a, b], 1), shapes=(((2, 3),
    (2, 3)),))
row("stack method", lambda a, b: a.stack(b, a), lambda a, b: np.stack([a, b, a]), shapes=(((2, 3), (2, 3)),
    ((), ())))
row("split", lambda a: a.split(2, 1), lambda a: [a[:, :2], a[:, 2:]], shapes=CUBE)
row("split sizes", lambda a: a.split([1, 3], -1), lambda a: np.split(a, [1], -1), shapes=CUBE)
row("chunk", lambda a: a.chunk(3, -1), lambda a: [a[..., :2], a[..., 2:]], shapes=CUBE)
row("unbind", lambda a: a.unbind(1), lambda a: [a[:, i] for i in range(3)], shapes=CUBE)
row("unfold", lambda a: a.unfold(1, 3, 2), None, lambda a: a.unfold(1, 3, 2), shapes=(((2, 8, 3),),))
row("diagonal", lambda a: a.diagonal(), np.diagonal, shapes=(((3, 4),), ((4, 2),), ((2, 3, 4),)))
row("diagonal offset", lambda a: a.diagonal(-1, 0, 2), lambda a: np.diagonal(a, -1, 0, 2), shapes=CUBE)
row("diagonal outside", lambda a: a.diagonal(9), lambda a: np.diagonal(a, 9), shapes=(((3, 4),),))
row("tril", lambda a: a.tril(), np.tril, shapes=CUBE)
row("triu", lambda a: a.triu(1), lambda a: np.triu(a, 1), shapes=CUBE)
row("contiguous", lambda a: a.permute(2, 0, 1).contiguous() * 2, lambda a: a.transpose(2, 0, 1) * 2,
    shapes=CUBE)

# ---- indexing

I1, I2 = np.array([2, 0, -1, 2]), np.array([[0, 1], [1, -2]])
for name, key in {
    "int": 1, "negative int": (-1, 0), "slice": (slice(None), slice(1, 3)), "step": (0, slice(None, None, 2)),
    "negative step": (slice(None, None, -1), slice(None, None, -2)), "empty": (slice(2, 1),),
    "ellipsis": (..., 1),
    "none": (None, 0, None, ..., None), "reversed range": (slice(None), slice(2, 0, -1)),
    "whole": (slice(None),),
}.items():  # fmt: skip
    row(f"getitem {name}", lambda a, key=key: a[key], lambda a, key=key: a[key], shapes=CUBE)
for name, key in {
    "array": (I2,), "list": ([1, 0, 1],), "array last": (..., I1), "two arrays": (I2, I2), "apart": (I2,
    slice(1, 3), I2),
    "array and int": (slice(None), I1 % 3, 1), "broadcast arrays": (np.array([[0], [1]]), np.array([0, 2])),
    "empty array": (np.zeros(0, int),), "mask": (np.array([True, False]),), "mask and none": (None,
    np.array([False, True])),
}.items():  # fmt: skip
    row(f"getitem {name}", lambda a, key=key: a[tuple(key)],
        lambda a, key=key: a[tuple(np.asarray(k) if isinstance(k, list) else k for k in key)],
            shapes=CUBE)  # fmt: skip
row("getitem mask of shape", lambda a: a[np.arange(24).reshape(2, 3, 4) % 5 == 0],
    lambda a: a[np.arange(24).reshape(2, 3, 4) % 5 == 0], shapes=CUBE)  # fmt: skip
row("embedding", lambda w, i: w[i], lambda w, i: w[i], None, shapes=(((6, 3), (2, 5)),), domain=("normal",
    "count"))
row("gather", lambda a, i: a.gather(1, i % 4), None, lambda a, i: a.gather(1, i % 4),
    shapes=(((3, 4), (3, 2)), ((3, 4), (2, 6)), ((3, 4), (3, 0))), domain=("normal", "count"))  # fmt: skip
row("take_along_dim", lambda a, i: a.take_along_dim(i % 4, 1), lambda a, i: np.take_along_axis(a, i % 4, 1),
    shapes=(((3, 4), (3, 2)), ((3, 4), (1, 2))), domain=("normal", "count"))  # fmt: skip
row("index_select", lambda a, i: a.index_select(1, i % 4), lambda a, i: a[:, i % 4], shapes=(((3, 4), (5,)),),
    domain=("normal", "count"))  # fmt: skip
row("scatter_add", lambda a, i, b: a.scatter_add(1, i % 4, b), None, lambda a, i, b: a.scatter_add(1, i % 4,
    b),
    shapes=(((3, 4), (3, 2), (3, 2)), ((3, 4), (2, 3), (2, 3))), domain=("normal", "count",
        "normal"))  # fmt: skip
row("scatter", lambda a, b: a.scatter(1, Tensor([[0, 2], [1, 0]]), b), None,
    lambda a, b: a.scatter(1, torch.tensor([[0, 2], [1, 0]]), b), shapes=(((2, 3), (2, 2)),))  # fmt: skip
row("index_add", lambda a, b: a.index_add(0, Tensor([1, 1, 0]), b), None,
    lambda a, b: a.index_add(0, torch.tensor([1, 1, 0]), b), shapes=(((2, 3), (3, 3)),))  # fmt: skip
row("one_hot", lambda i: i.one_hot(7), lambda i: np.eye(7, dtype=int)[i], domain="count", gradient=False)
row("select", lambda a: a.select(1, -1), lambda a: a[:, -1], shapes=CUBE)
row("narrow", lambda a: a.narrow(2, 1, 2), lambda a: a[:, :, 1:3], shapes=CUBE)
row("masked_select", lambda a: a.masked_select(Tensor([True, False, True, False])), lambda a: a[...,
    ::2].reshape(-1),
    shapes=CUBE)  # fmt: skip


def assigned(key: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    def ours(a: Tensor, b: Tensor) -> Tensor:
        a = a * 1
        a[key] = b
        return a

    def theirs(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a = a * 1
        a[key] = b
        return a

    return ours, theirs


for name, (key, shape) in {
    "int": (1, (3, 4)), "broadcast": (slice(None), (4,)), "scalar": ((0, 1, 2), ()), "step": ((0,
    slice(None, None, 2)), (2, 4)),
    "negative step": ((slice(None), slice(None, None, -1)), (2, 3, 4)), "negative stride": ((...,
    slice(None, None, -2)), (2,)),
    "array": ((slice(None), np.array([0, 2])), (2, 2, 4)), "arrays": ((np.array([0, 1]), np.array([2, 0])),
    (2, 4)),
    "mask": (np.array([False, True]), (1, 3, 4)), "mask scalar": (np.arange(24).reshape(2, 3, 4) % 2 == 0,
    ()),
    "mask values": (np.arange(24).reshape(2, 3, 4) % 2 == 0, (12,)), "empty": (slice(0, 0), (3, 4)),
    "leading ones": (0, (1, 1, 3, 4)),
}.items():  # fmt: skip
    row(f"setitem {name}", *assigned(key), shapes=(((2, 3, 4), shape),))

# ---- sorting

row("sort", lambda a: a.sort(1), None, lambda a: a.sort(1), shapes=CUBE)
row("sort descending", lambda a: a.sort(0, descending=True), None, lambda a: a.sort(0, descending=True),
    shapes=CUBE)
row("argsort stable", lambda a: a.argsort(), lambda a: np.argsort(a, kind="stable"), shapes=(((9,),), ((3,
    7),), ((0,),)),
    domain="count", gradient=False)  # fmt: skip
row("argsort down", lambda a: a.argsort(0, descending=True), None,
    lambda a: torch.argsort(a, dim=0, descending=True, stable=True), shapes=(((9,),), ((3, 7),)),
        domain="count", gradient=False)  # fmt: skip
row("topk", lambda a: a.topk(2, -1), None, lambda a: a.topk(2, -1), shapes=CUBE)
row("topk smallest", lambda a: a.topk(2, 1, largest=False), None, lambda a: a.topk(2, 1, largest=False),
    shapes=CUBE)
row("median", lambda a: a.median(1), None, lambda a: a.median(1)[0], shapes=CUBE)

# ---- products

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
IMAGE = (((2, 3, 6, 7),),)
for name, options in {
    "2": {"kernel_size": 2}, "3 2 1": {"kernel_size": 3, "stride": 2, "padding": 1},
    "tuple": {"kernel_size": (2, 3), "stride": 1},
    "ceil": {"kernel_size": 3, "stride": 2, "ceil_mode": True}, "ceil padded": {"kernel_size": 3,
    "padding": 1, "ceil_mode": True},
}.items():  # fmt: skip
    row(f"max_pool {name}", lambda x, options=options: x.max_pool2d(**options), None,
        lambda x, options=options: F.max_pool2d(x, **options), shapes=IMAGE, domain="distinct")  # fmt: skip
    for counted in (True, False):
        row(f"avg_pool {name} {counted}",
            lambda x, options=options, counted=counted: x.avg_pool2d(**options, count_include_pad=counted),
                None,
            lambda x, options=options, counted=counted: F.avg_pool2d(x, **options, count_include_pad=counted),
            shapes=IMAGE)  # fmt: skip
row("max_pool dilated", lambda x: x.max_pool2d(2, 1, dilation=2), None, lambda x: F.max_pool2d(x, 2, 1,
    dilation=2),
    shapes=IMAGE, domain="distinct")  # fmt: skip
row("batchnorm", lambda x, w, b, m, v: x.batchnorm(w, b, m, (v + 1e-5).rsqrt()), None,
    lambda x, w, b, m, v: (x - m[:, None]) * (v + 1e-5).rsqrt()[:, None] * w[:, None] + b[:, None],
    shapes=(((2, 3, 4), (3,), (3,), (3,), (3,)),), domain=("normal", "normal", "normal", "normal",
        "positive"))  # fmt: skip

# ---- losses

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
row("nll_loss", lambda x, y: x.nll_loss(y % 4, ignore_index=2), None, lambda x, y: F.nll_loss(x, y % 4,
    ignore_index=2),
    **LABELLED)  # fmt: skip

# ---- dtypes

row("to float16", lambda a: a.half().float(), lambda a: a.astype("float16").astype("f"), gradient=False)
row("to int", lambda a: a.int(), lambda a: a.astype("int32"), gradient=False)
row("to bool", lambda a: a.bool(), lambda a: a.astype(bool), domain="count", gradient=False)
row("cast", lambda a: a.double() * 2, lambda a: a.astype("float64") * 2)
