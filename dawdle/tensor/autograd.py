"""Recording of operations on tensors. The rules for primitives are in dawdle.gradient, those for composites
beside these; the reverse walk is in dawdle.tensor.backpropagation.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeAlias

from dawdle.dtype import DType
from dawdle.errors import GradientError
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime.trace import note_read, note_rebind

if TYPE_CHECKING:
    from dawdle.tensor import Tensor


class Composite(Enum):
    """Functions composed of primitives whose gradient is simpler or more accurate than the composition's own.
    """

    EXP = "exp"
    EXPM1 = "expm1"
    LOG1P = "log1p"
    COS = "cos"
    TANH = "tanh"
    SIGMOID = "sigmoid"
    ERF = "erf"
    POW = "pow"
    ABS = "abs"
    RELU = "relu"
    CLAMP = "clamp"
    FMOD = "fmod"
    COPYSIGN = "copysign"
    HYPOT = "hypot"
    LOGADDEXP = "logaddexp"
    TAN = "tan"
    ASIN = "asin"
    ACOS = "acos"
    ATAN = "atan"
    ATAN2 = "atan2"
    SINH = "sinh"
    COSH = "cosh"
    ASINH = "asinh"
    ACOSH = "acosh"
    ATANH = "atanh"
    ERFC = "erfc"
    ERFINV = "erfinv"
    LGAMMA = "lgamma"
    HARDSWISH = "hardswish"
    CAT = "cat"
    CALL = "call"  # a function as a whole, see results_of
    RESULT = "result"
    RESAMPLE = "resample"
    MEDIAN = "median"
    MAX_POOL = "max pool"
    SUM_POOL = "sum pool"
    SOLVE = "solve"
    DET = "det"
    COFACTOR = "cofactor"
    SLOGDET = "slogdet"
    LU = "lu"
    CHOLESKY = "cholesky"
    QR = "qr"
    EIGH = "eigh"
    EIGVALSH = "eigvalsh"
    SVD = "svd"
    SVDVALS = "svdvals"
    PINV = "pinv"


class _Mode(threading.local):
    enabled = True


_mode = _Mode()


class _set_mode(ContextDecorator):
    """Switches recording on or off for a block or a function, in this thread."""

    _value = False

    def __new__(cls, function: Any = None) -> Any:
        """The bare class decorates, too: ``@no_grad``."""
        made = super().__new__(cls)
        if not callable(function):
            return made
        made.__init__()  # type: ignore[misc]
        return made(function)

    def __init__(self) -> None:
        self._saved: list[bool] = []

    def _recreate_cm(self) -> _set_mode:
        return type(self)()

    def __enter__(self) -> None:
        self._saved.append(_mode.enabled)
        _mode.enabled = self._value

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._saved.pop()


class no_grad(_set_mode):
    """``with no_grad():`` or ``@no_grad()``: results inside don't require gradients, whatever their operands.
    """


class enable_grad(_set_mode):
    """Undoes :class:`no_grad` for a block or function."""

    _value = True


class inference_mode(_set_mode):
    """PyTorch's name of :class:`no_grad`; with ``mode=False`` :class:`enable_grad`."""

    def __init__(self, mode: bool = True) -> None:
        super().__init__()
        self._value = not mode

    def _recreate_cm(self) -> inference_mode:
        return inference_mode(not self._value)


class set_grad_enabled(ContextDecorator):
    """``set_grad_enabled(mode)`` says from now on whether operations in this thread are recorded; in a
    ``with`` statement, or as a decorator, only for the block or function.
    """

    def __init__(self, mode: bool) -> None:
        self._before, self._wanted = _mode.enabled, mode
        _mode.enabled = mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:  # type: ignore[override]
        _mode.enabled = self._before
        return super().__call__(function)

    def _recreate_cm(self) -> set_grad_enabled:
        return set_grad_enabled(self._wanted)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._before


def is_grad_enabled() -> bool:
    """Whether operations in this thread are being recorded for gradients."""
    return _mode.enabled


def rebind(x: Tensor, value: Tensor) -> Tensor:
    """Make the handle ``x`` denote ``value``. Nodes that were built from the old value keep it.

    Raises GradientError for a leaf that requires gradients, unless under :class:`no_grad`.
    """
    note_rebind(x)
    note_read(value)
    if _mode.enabled:
        if x._node is not None and x._node.leaf is not None:
            raise GradientError(
                "a leaf tensor that requires gradients can't be changed in place while operations are "
                "recorded; do it under no_grad(), or write x = x + y"
            )
        x._node = value._node
    x.lazy = value.lazy
    return x


Parent: TypeAlias = "Node | LazyBuffer | None"
Hook: TypeAlias = "Callable[[Tensor], Tensor | None]"
Parts: TypeAlias = "tuple[Tensor | None, ...]"  # a gradient for each operand, None where there is none


class Node:
    """A vertex of the autograd graph: one recorded operation, or (``op`` None) a leaf that gradients are
    gathered for.

    It keeps graph nodes rather than tensors, because a tensor is a handle that may be rebound later. A parent
    is the node of an operand, or the operand's graph node if it has none, or None where gradients stop.

    ``tracked`` says that a leaf requires gradients. Other operations are recorded too, until their result is
    realised, so that ``y.gradient(x)`` works for an ``x`` that didn't ask for gradients.
    """

    __slots__ = (
        "__weakref__",
        "arg",
        "dtypes",
        "hooks",
        "inputs",
        "leaf",
        "op",
        "output",
        "parents",
        "retained",
        "shapes",
        "tracked",
        "wanted",
    )

    def __init__(
        self,
        op: Op | Composite | None,
        arg: Any = None,
        parents: tuple[Parent, ...] = (),
        tracked: bool = False,
    ):
        self.op = op
        self.arg = arg
        self.parents = parents
        self.tracked = tracked
        self.wanted: tuple[bool, ...] = ()
        self.shapes: tuple[tuple[int, ...], ...] = ()
        self.dtypes: tuple[DType, ...] = ()
        self.inputs: tuple[LazyBuffer, ...] = ()
        self.output: LazyBuffer | None = None
        self.leaf: weakref.ref[Tensor] | None = None
        self.hooks: dict[object, Hook] | None = None  # by the handles that take them away
        self.retained: weakref.ref[Tensor] | None = None

    def __repr__(self) -> str:
        return f"<{self.name()}>"

    def name(self) -> str:
        """What was recorded, in words."""
        return "leaf" if self.op is None else f"gradient of {self.op.value}"

    def needs(self, i: int) -> bool:
        """Whether the walk in progress wants a gradient for operand ``i``."""
        return self.wanted[i]

    def x(self, g: Tensor, i: int = 0) -> Tensor:
        """Operand ``i`` as a tensor that leads back to the operations that made it."""
        parent = self.parents[i]
        return g._new(
            self.inputs[i], parent if isinstance(parent, Node) else DETACHED if parent is None else None
        )

    def y(self, g: Tensor) -> Tensor:
        """The result as a tensor."""
        assert self.output is not None
        return g._new(self.output, self)

    def release(self) -> None:
        """Let go of everything that the backward pass needed."""
        self.parents, self.inputs, self.output, self.arg = (), (), None, _RELEASED

    @property
    def is_released(self) -> bool:
        return self.arg is _RELEASED


_RELEASED = object()
DETACHED = Node(None)  # the node of values that gradients must not flow into


@dataclass(frozen=True)
class Rule:
    """``function(node, g)`` gives the gradient for each operand; ``inputs`` and ``output`` say which values
    it reads.
    """

    function: Callable[[Node, Tensor], Parts]
    inputs: bool
    output: bool


RULES: dict[Op | Composite, Rule] = {}


def rule(*ops: Op | Composite, inputs: bool = False, output: bool = False) -> Callable[..., Any]:
    """Decorator that enters a function into the rule table for ``ops``."""

    def enter(function: Callable[[Node, Tensor], Parts]) -> Any:
        for op in ops:
            RULES[op] = Rule(function, inputs, output)
        return function

    return enter


def record(op: Op | Composite, arg: Any, operands: Sequence[Tensor], result: LazyBuffer) -> Node | None:
    """The node for an operation that was just done, or None where no gradient can flow through it."""
    if not _mode.enabled or not result.dtype.is_float:
        return None
    entry = RULES.get(op)
    if entry is None:
        return None
    tracked, open_, parents = False, False, []
    for t in operands:
        own = t._node
        parent: Parent = own
        if own is None:
            parent = t.lazy
        elif own is DETACHED:
            parent = None
        elif own.tracked:
            tracked = True
        elif t.lazy.op is Op.BUFFER:  # a realised value lets go of what made it
            t._node, parent = None, t.lazy
        parents.append(parent)
        open_ = open_ or parent is not None
    if not open_:
        return None
    node = Node(op, arg, tuple(parents), tracked)
    node.shapes = tuple([t.lazy.shape for t in operands])
    node.dtypes = tuple([t.lazy.dtype for t in operands])
    if entry.inputs:
        node.inputs = tuple([t.lazy for t in operands])
    if entry.output:
        node.output = result
    return node


def leaf_node(tensor: Tensor) -> Node:
    """The vertex at which gradients for ``tensor`` are gathered; it doesn't keep the tensor alive."""
    node = Node(None, tracked=True)
    node.leaf = weakref.ref(tensor)
    return node


class Several:
    """The gradients of some of a call's results, by their numbers."""

    def __init__(self, parts: dict[int, Tensor]) -> None:
        self.parts = parts

    def __add__(self, other: Several) -> Several:
        out = dict(self.parts)
        for i, g in other.parts.items():
            out[i] = out[i] + g if i in out else g
        return Several(out)


Pull: TypeAlias = "Callable[[Node, dict[int, Tensor]], Sequence[Tensor | None]]"


def results_of(pull: Pull, parents: Sequence[Parent], count: int) -> list[Node]:
    """The nodes of the ``count`` results of a function of ``parents``.

    ``pull(node, gradients)`` gives the gradient of each parent, None where the node doesn't need it, from
    those of the results, by number. It is called once for all results.
    """
    tracked = any(isinstance(p, Node) and p.tracked for p in parents)
    call = Node(Composite.CALL, pull, tuple(parents), tracked)
    return [Node(Composite.RESULT, i, (call,), tracked) for i in range(count)]


@rule(Composite.RESULT)
def _result(n: Node, g: Tensor) -> tuple[Any, ...]:
    return (Several({n.arg: g}),)


@rule(Composite.CALL)
def _call(n: Node, g: Any) -> Parts:
    return tuple(n.arg(n, g.parts))
