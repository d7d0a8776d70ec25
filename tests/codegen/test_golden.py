"""Golden kernels: how many kernels typical graphs become, and the loops of each. They change when fusion is
lost.

A skeleton shows loops as ``{...}``, each running sum or maximum as ``+`` or ``^``, a write to private memory
as ``p``, and a write to a result as ``w``; ``4w`` is four in a row, and a bar divides kernels.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from dawdle import Tensor, nn
from dawdle.codegen import loop
from dawdle.codegen.generate import generate
from dawdle.codegen.target import Target
from dawdle.lazy.ops import Op
from dawdle.lazy.plan import Group
from dawdle.lazy.schedule import schedule
from dawdle.lazy.simplify import simplify

TARGET = Target(threads=2)


def tensor(*shape: int) -> Tensor:
    return Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def skeleton(f: loop.Function) -> str:
    results = {name for name, _, written in f.params if written}
    local: set[str] = set()

    def show(body: tuple[loop.Stmt, ...]) -> str:
        out = ""
        for s in body:
            match s:
                case loop.For(_, _, _, _, inner):
                    out += "{" + show(inner) + "}"
                case loop.If(_, inner):
                    out += show(inner)
                case loop.Alloc(name, _, _, "scratch"):
                    local.add(name)
                case loop.Store(target, _, _, how) if target in results:
                    out += "w" if how is None else "W"
                case loop.Store(target, _, _, how) if target in local:
                    out += "p"
                case loop.Store(_, _, value) if value.op is Op.FMA:
                    out += "+"
                case loop.Store(_, _, _, how) if how is not None:
                    out += {"add": "+", "max": "^", "mul": "*"}[how.value]
        return out

    return re.sub(r"(.)\1+", lambda m: f"{len(m[0])}{m[1]}" if m[1] not in "{}" else m[0], show(f.body))


def kernels(*outputs: Tensor) -> str:
    plan = schedule(simplify([t.lazy for t in outputs]))
    groups = [s for s in plan.steps if isinstance(s, Group)]
    return " | ".join(skeleton(generate(g, TARGET).function) for g in groups)


def softmax() -> str:
    return kernels(tensor(64, 512).softmax(-1))


def log_softmax() -> str:
    return kernels(tensor(64, 512).log_softmax(-1))


def layer_norm() -> str:
    return kernels(tensor(64, 512).layernorm() * tensor(512) + tensor(512))


def matmul_bias_relu() -> str:
    return kernels((tensor(64, 128) @ tensor(128, 96) + tensor(96)).relu())


def linear_gelu() -> str:
    return kernels((tensor(64, 128) @ tensor(128, 96) + tensor(96)).gelu("tanh"))


def conv_bn_relu() -> str:
    x, w = tensor(2, 8, 16, 16), tensor(16, 8, 3, 3)
    scale, shift = tensor(1, 16, 1, 1), tensor(1, 16, 1, 1)
    return kernels((x.conv2d(w, padding=1) * scale + shift).relu())


def depthwise_conv() -> str:
    """Vectors lie along the row: the window, which every load runs along too, is shorter than one."""
    return kernels(tensor(1, 64, 12, 64).conv2d(tensor(64, 1, 5, 5), padding=2, groups=64))


def adam() -> str:
    p, g = tensor(512, 96), tensor(512, 96)
    p.requires_grad_()
    optimizer = nn.optim.Adam([p], lr=1e-3)
    p.grad = g
    optimizer.step()  # makes the state; the next update is that of every later step
    p.grad = g
    optimizer.schedule_step()
    return kernels(p, *optimizer.param_groups[0].slots[0].values())


def cross_entropy() -> str:
    return kernels(nn.functional.cross_entropy(tensor(64, 100), Tensor(np.arange(64)), reduction="none"))


def mean_and_variance() -> str:
    x = tensor(64, 512)
    return kernels(x.mean(-1), x.var(-1))


def column_sums() -> str:
    return kernels(tensor(5000, 64).sum(0))


def column_softmax() -> str:
    return kernels(tensor(512, 300).softmax(0))


def extremes_with_indices() -> str:
    return kernels(*tensor(64, 100).max(1))


def sorted_rows() -> str:
    return kernels(*tensor(64, 32).sort(1))


def elementwise_chain() -> str:
    x = tensor(100, 100)
    return kernels((x * 1.5 + 2).gelu("tanh") * x.sigmoid() + x.tanh())


def embedding() -> str:
    return kernels(tensor(1000, 64)[Tensor(np.arange(32))] * 2)


def transpose_add() -> str:
    return kernels(tensor(64, 128).transpose(0, 1) + tensor(128, 64))


GOLDEN: dict[Callable[[], str], str] = {
    softmax: "{{4^}{p}{4+}{w}}",
    log_softmax: "{{4^}{4+}{w}}",
    layer_norm: "{{4+}{4+}{w}}",
    matmul_bias_relu: "{{8p}}{{{24p}}{{{48+}12w}}}",
    linear_gelu: "{{8p}}{{{24p}}{{{48+}12w}}}",
    conv_bn_relu: "{{{w}}} | {{24p}}{{{{8p}}{{{48+}12w}}}}",
    depthwise_conv: "{{{{{2+}}2w}}}",
    adam: "{3w}",
    cross_entropy: "{{^}{4^}{+}{4+}w}",
    mean_and_variance: "{{4+}{4+}2w}",
    column_sums: "{{2+}{{2+}2+}2w}",
    column_softmax: "{{9^}9w} | {{w}} | {{{9+}9+}9w} | {{w}}",
    extremes_with_indices: "{{^}{4^}{^}{4^}2w}",
    sorted_rows: "{w} | {{{+}w}} | {{w}{w}} | {{w}}",
    elementwise_chain: "{w}",
    embedding: "{{w}}",
    transpose_add: "{{8w}}",
}


@pytest.mark.parametrize("graph", GOLDEN, ids=lambda g: g.__name__)
def test_kernels_are_as_recorded(graph: Callable[[], str]) -> None:
    assert graph() == GOLDEN[graph]
