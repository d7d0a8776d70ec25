"""The kernel IR: stores over shared ranges, scalar expressions, and the decisions taken so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from dawdle.codegen.expr import Expr, Range, format_exprs, walk
from dawdle.dtype import DType
from dawdle.lazy.ops import Op


@dataclass(frozen=True)
class Param:
    """A buffer that the kernel reads or writes: ``size`` elements of ``dtype``."""

    name: str
    dtype: DType
    size: int
    written: bool = False


@dataclass(frozen=True)
class Store:
    """``param[index] = value``, or with ``how`` combined into what is there; skipped where ``valid`` is
    false.
    """

    param: str
    index: Expr
    value: Expr
    valid: Expr | None = None
    how: Op | None = None

    @property
    def exprs(self) -> tuple[Expr, ...]:
        return (self.index, self.value) if self.valid is None else (self.index, self.value, self.valid)


@dataclass(frozen=True)
class StageBuffer:
    """A tile of ``value`` copied into a small buffer at the top of the loop over ``at`` (None: of the
    kernel).

    ``dims`` are the ranges that the tile spans, outermost first in the buffer's memory order. With ``lanes``
    > 1 it is filled in vectors of that width along the last of them.
    """

    name: str
    value: Expr
    at: Range | None
    dims: tuple[Range, ...]
    lanes: int = 1
    double: bool = False  # twice the memory: the next tile is fetched while this one is in use


@dataclass(frozen=True)
class Kernel:
    """A set of stores over ``ranges``, outermost loop first.

    ``marks`` holds what the schedule decided for a range ("parallel", "vector", "unroll", on a GPU "group"
    and "local"), also for ranges that a reduction binds. A vector range's extent is the vector's width.
    ``applied`` lists the transformations, for people.
    """

    name: str
    params: tuple[Param, ...]
    ranges: tuple[Range, ...]
    stores: tuple[Store, ...]
    marks: dict[Range, str] = field(default_factory=dict)
    stages: tuple[StageBuffer, ...] = ()
    applied: tuple[Any, ...] = ()
    launched: bool = False  # on a GPU, over ranges marked "group" and "local"

    def with_(self, **changes: Any) -> Kernel:
        return replace(self, **changes)

    def exprs(self) -> list[Expr]:
        """Every expression node of the stages and stores, operands first."""
        return walk([s.value for s in self.stages] + [e for s in self.stores for e in s.exprs])

    def __str__(self) -> str:
        return format_kernel(self)


def format_kernel(k: Kernel) -> str:
    """The kernel as text: what ``DEBUG=3`` prints."""

    def ranged(r: Range) -> str:
        return f"{r!r}{' ' + k.marks[r] if r in k.marks else ''}"

    lines = [f"kernel {k.name}({', '.join(f'{p.dtype.name} {p.name}[{p.size}]' for p in k.params)})"]
    lines.append("  for " + ", ".join(map(ranged, k.ranges)))
    named, texts = format_exprs([s.value for s in k.stages] + [e for s in k.stores for e in s.exprs])
    lines += [f"    {line}" for line in named]
    text = iter(texts)
    lines += [f"    stage {s.name}{list(s.dims)} at {s.at} = {next(text)}" for s in k.stages]
    for s in k.stores:
        index, value = next(text), next(text)
        condition = "" if s.valid is None else f" if {next(text)}"
        lines.append(f"    {s.param}[{index}] {s.how.value if s.how else ''}= {value}{condition}")
    lines += [f"  applied {t}" for t in k.applied]
    return "\n".join(lines)
