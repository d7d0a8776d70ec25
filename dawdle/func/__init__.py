"""Transforms of functions, with the names of ``torch.func``."""

from __future__ import annotations

from dawdle.func.batching import vmap
from dawdle.func.checkpointing import checkpoint
from dawdle.func.derivatives import grad, jvp, value_and_grad, vjp
from dawdle.func.jacobians import hessian, jacfwd, jacobian, jacrev
from dawdle.func.modules import functional_call

__all__ = [
    "checkpoint",
    "functional_call",
    "grad",
    "hessian",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "value_and_grad",
    "vjp",
    "vmap",
]
