"""The loop IR: in which order and in which registers a kernel runs. Statements are frozen; expressions are
scalar or vector.
"""

from __future__ import annotations

from dataclasses import dataclass

from dawdle.codegen.expr import Expr
from dawdle.dtype import DType
from dawdle.lazy.ops import Op


@dataclass(frozen=True)
class Stmt:
    """Base class of the six statements."""


@dataclass(frozen=True)
class For(Stmt):
    """``for var in range(start, stop, step): body``; ``var`` is the name of an index variable."""

    var: str
    start: Expr
    stop: Expr
    step: int
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class If(Stmt):
    condition: Expr
    body: tuple[Stmt, ...]


@dataclass(frozen=True)
class Let(Stmt):
    """Bind ``name`` to a value, once."""

    name: str
    value: Expr


@dataclass(frozen=True)
class Alloc(Stmt):
    """A local array of ``size`` elements; ``lanes`` > 1 makes each element a vector, and indices count
    vectors.

    ``space`` is "register" (one element, a variable), "scratch" (the thread's private memory) or "shared" (by
    the threads of a group).
    """

    name: str
    dtype: DType
    size: int
    space: str
    lanes: int = 1


@dataclass(frozen=True)
class Store(Stmt):
    """``target[index] = value`` or, with ``how``, combined into what is there. A vector value goes to
    consecutive elements.
    """

    target: str
    index: Expr
    value: Expr
    how: Op | None = None


@dataclass(frozen=True)
class Barrier(Stmt):
    """Wait for all threads that run the kernel."""


@dataclass(frozen=True)
class Function:
    """A whole kernel: parameters as (name, dtype, written), and its body.

    ``thread`` and ``threads`` are bound index variables; in a GPU kernel, which ``groups`` groups of
    ``local`` threads run, ``group_id`` and ``local_id`` are. ``scratch`` is the bytes of private memory each
    thread needs.
    """

    name: str
    params: tuple[tuple[str, DType, bool], ...]
    body: tuple[Stmt, ...]
    scratch: int = 0
    groups: int = 0
    local: int = 0


def format_loops(f: Function) -> str:
    """The loop tree as indented text: what ``DEBUG=5`` prints."""
    lines = [f"function {f.name}({', '.join(f'{d.name} {n}' for n, d, _ in f.params)}) scratch {f.scratch}"]

    def show(body: tuple[Stmt, ...], depth: int) -> None:
        pad = "  " * depth
        for s in body:
            match s:
                case For(var, start, stop, step, inner):
                    lines.append(f"{pad}for {var} in {start}..{stop} by {step}")
                    show(inner, depth + 1)
                case If(condition, inner):
                    lines.append(f"{pad}if {condition}")
                    show(inner, depth + 1)
                case Let(name, value):
                    lanes = f"x{value.lanes}" if value.lanes > 1 else ""
                    lines.append(f"{pad}{name}: {value.dtype.name}{lanes} = {value}")
                case Alloc(name, dtype, size, space, lanes):
                    lines.append(
                        f"{pad}alloc {name}: {dtype.name}{f'x{lanes}' if lanes > 1 else ''}[{size}] {space}"
                    )
                case Store(target, index, value, how):
                    lines.append(f"{pad}{target}[{index}] {how.value if how else ''}= {value}")
                case Barrier():
                    lines.append(f"{pad}barrier")

    show(f.body, 1)
    return "\n".join(lines)
