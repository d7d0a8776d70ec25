"""The op table: a row says how an operation is called, what NumPy or PyTorch gives, and on which inputs.

A row's inputs are drawn from its domain in float64 for each of its shapes. ``reference`` takes arrays;
``torch_reference`` takes torch tensors, and serves for gradients too. Adding an operation means adding a row.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

try:
    import torch
    import torch.nn.functional as F
except ImportError:  # rows without a NumPy reference are then skipped
    torch = F = None

UNARY = (((3, 4),), ((),), ((0, 3),), ((2, 1, 5),))
LINES = (((3, 4),), ((2, 3, 4),), ((5, 1),))
CUBE = (((2, 3, 4),),)
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
    "ties": lambda r, s: r.integers(0, 3, s).astype(float),  # many equal floats
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
    special: str = ""  # kinds of dtypes for which test_special_values tries NaN, infinities, limits, ...
    compiled: bool = True  # False: made of what other rows try, the interpreter is enough
    near_zero: float = 0.0  # the absolute error that results near 0 may have there, in units of the precision

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
