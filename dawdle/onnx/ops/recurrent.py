"""RNN, GRU and LSTM: one step composed from tensor operations, repeated over time.

The products with the inputs of all times and directions are one matrix product before the first step. A step
reads its share of them through an index that lies in memory, so that all steps are the same kernels. Both
directions take their steps together, the backward one on reversed inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dawdle.errors import ModelError, ShapeError
from dawdle.onnx.registry import Node, operator
from dawdle.runtime.cache import Cache
from dawdle.runtime.jit import jit
from dawdle.tensor import Tensor
from dawdle.tensor.elementwise import where

State = tuple[Tensor, ...]
# "recurrence" (D, gates * H, H); maybe "bias" (D, 1, gates * H), which belongs to it alone, and "peepholes"
# (D, 1, 3 * H)
Weights = dict[str, Tensor]
Step = Callable[["Cell", Weights, Tensor, State], State]

# name -> (function of x, alpha and beta; the default of alpha; that of beta)
ACTIVATIONS: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float | None, float | None]] = {
    "affine": (lambda x, alpha, beta: x * alpha + beta, 1.0, 0.0),
    "elu": (lambda x, alpha, beta: x.elu(alpha), 1.0, None),
    "hardsigmoid": (lambda x, alpha, beta: (x * alpha + beta).clamp(0.0, 1.0), 0.2, 0.5),
    "leakyrelu": (lambda x, alpha, beta: x.leaky_relu(alpha), 0.01, None),
    "relu": (lambda x, alpha, beta: x.relu(), None, None),
    "scaledtanh": (lambda x, alpha, beta: (x * beta).tanh() * alpha, 1.0, 1.0),
    "sigmoid": (lambda x, alpha, beta: x.sigmoid(), None, None),
    "softplus": (lambda x, alpha, beta: x.softplus(), None, None),
    "softsign": (lambda x, alpha, beta: x.softsign(), None, None),
    "tanh": (lambda x, alpha, beta: x.tanh(), None, None),
    "thresholdedrelu": (lambda x, alpha, beta: where(x >= alpha, x, 0.0), 1.0, None),
}


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

_steps: Cache[Hashable, Callable[..., Any]] = Cache("recurrent steps", 64)


def _index(node: Node, t: int, times: int) -> Tensor | None:
    """``t`` in memory: a number would make each step a kernel of its own. None where there is only one."""
    return node.constant(np.full(1, t)) if times > 1 else None


def _row(table: Tensor, t: Tensor | None) -> Tensor:
    return table[0] if t is None else table[t][0]


def at_time(node: Node, table: Tensor, t: int) -> Tensor:
    """``table[t]``, so that all steps are the same kernels."""
    return _row(table, _index(node, t, table.shape[0]))


def unrolls(times: int) -> bool:
    """Whether each of so many steps is computed at once, so that no schedule grows with their number."""
    return times >= 16


@dataclass(frozen=True)
class Function:
    """An activation with its parameters. ``clip`` limits what it is given."""

    name: str
    alpha: float
    beta: float
    clip: float | None

    def __call__(self, x: Tensor) -> Tensor:
        x = x if self.clip is None else x.clamp(-self.clip, self.clip)
        return ACTIVATIONS[self.name][0](x, self.alpha, self.beta)


def _activations(node: Node, default: Sequence[str], directions: int) -> tuple[Activation, ...]:
    """The functions of a step, each for all directions. Those with parameters take the next of
    ``activation_alpha`` and ``activation_beta``.
    """
    names = node.strings("activations", None) or tuple(default) * directions
    if len(names) != len(default) * directions:
        raise ModelError(f"{node}: {len(default) * directions} activations are needed, got {names}")
    alphas, betas = (list(node.floats(f"activation_{kind}", ())) for kind in ("alpha", "beta"))
    functions = []
    for i, name in enumerate(map(str.lower, names)):
        if name not in ACTIVATIONS:
            raise ModelError(f"{node}: unknown activation {name!r}; known are {', '.join(ACTIVATIONS)}")
        _, alpha, beta = ACTIVATIONS[name]
        a = alphas.pop(0) if alphas and alpha is not None else alpha or 0.0
        b = betas.pop(0) if betas and beta is not None else beta or 0.0
        gate = i % len(default) < 2  # the third, an LSTM's output, isn't clipped: so does onnxruntime read it
        functions.append(Function(name, a, b, node.float("clip", None) if gate else None))
    places = [tuple(functions[i :: len(default)]) for i in range(len(default))]
    return tuple(same[0] if len(set(same)) == 1 else Each(same) for same in places)


@dataclass(frozen=True)
class Each:
    """An activation of its own for each direction, on (D, ...)."""

    functions: tuple[Function, ...]

    def __call__(self, x: Tensor) -> Tensor:
        parts = zip(self.functions, x.split(1, 0), strict=True)
        return Tensor.cat([f(part) for f, part in parts])


Activation = Function | Each


@dataclass(frozen=True)
class Cell:
    """What a step does, beside its weights."""

    step: Step
    activations: tuple[Activation, ...]
    input_forget: bool
    hidden: int

    def gates(self, t: Tensor) -> tuple[Tensor, ...]:
        """The parts of the last axis that belong to each gate."""
        return t.split(self.hidden, -1)

    def first(self, t: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """The part of so many gates of one activation, and the last gate's. Applied to all at once, it makes
        a third less of a graph of many steps to be scheduled.
        """
        together, last = t.split((count * self.hidden, self.hidden), -1)
        return together, last


def _rnn_step(cell: Cell, weights: Weights, inputs: Tensor, state: State) -> State:
    (f,) = cell.activations
    return (f(inputs + state[0] @ weights["recurrence"].mT),)


def _gru_step(cell: Cell, weights: Weights, inputs: Tensor, state: State) -> State:
    f, g = cell.activations
    (h,) = state
    both, last = weights["recurrence"].mT.split((2 * cell.hidden, cell.hidden), -1)
    gates, new = cell.first(inputs, 2)
    update, reset = cell.gates(f(gates + h @ both))
    candidate = g(new + (reset * h) @ last)
    return ((1 - update) * candidate + update * h,)


def _gru_step_reset_after(cell: Cell, weights: Weights, inputs: Tensor, state: State) -> State:
    """With linear_before_reset: the reset gate scales the product instead of its operand."""
    f, g = cell.activations
    (h,) = state
    product = h @ weights["recurrence"].mT
    product = product + weights["bias"] if "bias" in weights else product
    gates, new = cell.first(inputs, 2)
    from_gates, from_new = cell.first(product, 2)
    update, reset = cell.gates(f(gates + from_gates))
    candidate = g(new + reset * from_new)
    return ((1 - update) * candidate + update * h,)


def _lstm_step(cell: Cell, weights: Weights, inputs: Tensor, state: State) -> State:
    f, g, h = cell.activations
    hidden, memory = state
    sums = inputs + hidden @ weights["recurrence"].mT
    if "peepholes" in weights:
        return _lstm_step_with_peepholes(cell, weights, sums, memory)
    gates, new = cell.first(sums, 3)
    i, o, forget = cell.gates(f(gates))
    memory = (1 - i if cell.input_forget else forget) * memory + i * g(new)
    return o * h(memory), memory


def _lstm_step_with_peepholes(cell: Cell, weights: Weights, sums: Tensor, memory: Tensor) -> State:
    """The gates see the memory, that of the output the new one."""
    f, g, h = cell.activations
    i, o, forget, new = cell.gates(sums)
    to_i, to_o, to_forget = cell.gates(weights["peepholes"])
    i = f(i + to_i * memory)
    kept = 1 - i if cell.input_forget else f(forget + to_forget * memory)
    memory = kept * memory + i * g(new)
    return f(o + to_o * memory) * h(memory), memory


def _directions(node: Node, weight: Tensor) -> list[bool]:
    """Whether each direction runs backwards."""
    known = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    direction = node.string("direction", "forward")
    if direction not in known or len(known[direction]) != weight.shape[0]:
        raise ModelError(f"{node}: direction {direction!r} doesn't fit weights of shape {weight.shape}")
    return known[direction]


def _turned(t: Tensor, backwards: Sequence[bool]) -> Tensor:
    """(T, D, ...) with time reversed in the directions that run backwards."""
    if all(backwards):
        return t.flip(0)
    if not any(backwards):
        return t
    parts = zip(t.split(1, 1), backwards, strict=True)
    return Tensor.cat([part.flip(0) if back else part for part, back in parts], 1)


@dataclass(frozen=True)
class Layer:
    """The inputs that RNN, GRU and LSTM have in common, time first."""

    x: Tensor  # (T, B, I)
    weight: Tensor  # (D, gates * H, I)
    recurrence: Tensor  # (D, gates * H, H)
    bias: tuple[Tensor, Tensor] | None  # (D, gates * H) for the inputs, and for the recurrence
    lengths: Tensor | None  # (B,)

    def products(self, backwards: Sequence[bool], late: bool) -> Tensor:
        """(T, D, B, gates * H): what inputs add to each step, the recurrence's bias too unless ``late``."""
        times, batch, features = self.x.shape
        n, rows, _ = self.weight.shape
        flat = self.x.reshape(times * batch, features) @ self.weight.reshape(n * rows, features).T
        out = flat.reshape(times, batch, n, rows).transpose(1, 2)
        if self.bias is not None:
            out = out + (self.bias[0] if late else self.bias[0] + self.bias[1]).unsqueeze(1)
        return _turned(out, backwards).contiguous()

    def alive(self, backwards: Sequence[bool]) -> Tensor | None:
        """(T, D, B, 1): whether a sequence has a step at that time."""
        if self.lengths is None:
            return None
        times, batch = self.x.shape[:2]
        clock = Tensor.arange(times, dtype=self.lengths.dtype, device=self.x.device).reshape(-1, 1, 1, 1)
        within = (clock < self.lengths.reshape(-1, 1)).expand(times, len(backwards), batch, 1)
        return _turned(within, backwards).contiguous()


def _layer(
    node: Node, x: Tensor, weight: Tensor, recurrence: Tensor, bias: Tensor | None, lengths: Tensor | None
) -> Layer:
    hidden, gates = node.int("hidden_size", recurrence.shape[-1]), GATES[node.op]
    fits = x.ndim == 3 and weight.shape[1:] == (gates * hidden, x.shape[-1])
    if not fits or recurrence.shape != (weight.shape[0], gates * hidden, hidden):
        raise ShapeError(
            f"{node}: an input of shape {x.shape}, weights {weight.shape} and {recurrence.shape} don't fit"
            f" each other, or {hidden} units of {gates} gates"
        )
    halves = None if bias is None else bias.split(weight.shape[1], 1)
    return Layer(
        x.transpose(0, 1) if _by_batch(node) else x,
        weight,
        recurrence,
        None if halves is None else (halves[0], halves[1]),
        lengths,
    )


def _by_batch(node: Node) -> bool:
    """Whether the batch comes first."""
    return node.int("layout", 0) == 1


def _run(
    node: Node,
    layer: Layer,
    step: Step,
    default: Sequence[str],
    initial: Sequence[Tensor | None],
    peepholes: Tensor | None = None,
    late: bool = False,
) -> tuple[Tensor, ...]:
    """(all outputs, the last state...), in the node's layout."""
    backwards = _directions(node, layer.weight)
    n, hidden = len(backwards), layer.recurrence.shape[-1]
    zeros = node.constant(np.zeros((n, layer.x.shape[1], hidden), np.float32)).cast(layer.x.dtype)
    state = tuple(zeros if t is None else t.transpose(0, 1) if _by_batch(node) else t for t in initial)
    weights = {"recurrence": layer.recurrence}
    if late and layer.bias:
        weights["bias"] = layer.bias[1].unsqueeze(1)
    if peepholes is not None:
        weights["peepholes"] = peepholes.unsqueeze(1)
    cell = Cell(step, _activations(node, default, n), node.flag("input_forget", 0), hidden)
    rows, state = _unrolled(
        node, cell, weights, layer.products(backwards, late), layer.alive(backwards), state
    )
    outputs = _turned(Tensor.stack(rows) if rows else zeros.unsqueeze(0)[:0], backwards)
    if _by_batch(node):
        return outputs.permute(2, 0, 1, 3), *[t.transpose(0, 1) for t in state]
    return outputs, *state


def _unrolled(
    node: Node, cell: Cell, weights: Weights, products: Tensor, alive: Tensor | None, state: State
) -> tuple[list[Tensor], State]:
    """The output of each step, and the last state.

    Many steps replay the first, unless all are traced or gradients are recorded.
    """
    times = products.shape[0]
    shapes = (products.shape, products.dtype, products.device, alive is not None)
    tracked = any(t.requires_grad for t in (products, *state, *weights.values()))
    advance = _replayed(cell, shapes) if unrolls(times) and not tracked else _advance
    outputs = []
    for t in range(times):
        output, state = advance(cell, weights, products, alive, _index(node, t, times), state)
        outputs.append(output)
    return outputs, state


def _advance(
    cell: Cell, weights: Weights, products: Tensor, alive: Tensor | None, t: Tensor | None, state: State
) -> tuple[Tensor, State]:
    """One step: (its output, the state). A sequence that has ended keeps its state and gives 0."""
    new = cell.step(cell, weights, _row(products, t), state)
    if alive is None:
        return new[0], new
    mask = _row(alive, t)
    kept = tuple(where(mask, now, before) for now, before in zip(new, state, strict=True))
    return where(mask, new[0], 0.0), kept


def _replayed(cell: Cell, shapes: Hashable) -> Callable[..., tuple[Tensor, State]]:
    """:func:`_advance`, traced once for each kind of layer. Within a trace it is called as it is."""
    key = (cell, shapes)
    return _steps.get(key) or _steps.put(key, jit(_advance))


@operator("RNN")
def rnn(
    node: Node,
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    hidden: Tensor | None = None,
) -> tuple[Tensor, ...]:
    layer = _layer(node, x, weight, recurrence, bias, lengths)
    return _run(node, layer, _rnn_step, ("Tanh",), (hidden,))


@operator("GRU")
def gru(
    node: Node,
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    hidden: Tensor | None = None,
) -> tuple[Tensor, ...]:
    layer = _layer(node, x, weight, recurrence, bias, lengths)
    after = node.flag("linear_before_reset", 0)
    step = _gru_step_reset_after if after else _gru_step
    return _run(node, layer, step, ("Sigmoid", "Tanh"), (hidden,), late=after)


@operator("LSTM")
def lstm(
    node: Node,
    x: Tensor,
    weight: Tensor,
    recurrence: Tensor,
    bias: Tensor | None = None,
    lengths: Tensor | None = None,
    hidden: Tensor | None = None,
    memory: Tensor | None = None,
    peepholes: Tensor | None = None,
) -> tuple[Tensor, ...]:
    layer = _layer(node, x, weight, recurrence, bias, lengths)
    return _run(node, layer, _lstm_step, ("Sigmoid", "Tanh", "Tanh"), (hidden, memory), peepholes)
