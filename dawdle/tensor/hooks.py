"""Gradients of single tensors, looked at and changed on the way back."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from dawdle.errors import GradientError
from dawdle.tensor.autograd import Hook, Node, is_grad_enabled

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

class RemovableHandle:
    """What :func:`register_hook` returns: ``remove()`` takes the hook away again, as the end of a ``with``
    block does.
    """

    def __init__(self, node: Node) -> None:
        self._node = weakref.ref(node)

    def remove(self) -> None:
        """The hook isn't called any more."""
        node = self._node()
        if node is not None and node.hooks is not None:
            node.hooks.pop(self, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def _tracked(x: Tensor, what: str) -> Node:
    if x._node is None or not x._node.tracked:
        raise GradientError(
            f"{what}: this tensor doesn't require gradients; call requires_grad_() or compute it from one "
            "that does"
        )
    return x._node


def register_hook(x: Tensor, hook: Hook) -> RemovableHandle:
    """Call ``hook`` with the gradient of this tensor whenever one is computed; what it returns, unless None,
    goes on in its place. Returns a handle whose ``remove()`` undoes it.

    A function under ``@jit`` calls it while it is traced: what it computes is replayed, not the call. Raises
    GradientError for a tensor that doesn't require gradients.
    """
    node = _tracked(x, "register_hook()")
    if node.hooks is None:
        node.hooks = {}
    handle = RemovableHandle(node)
    node.hooks[handle] = hook
    return handle


def retain_grad(x: Tensor) -> None:
    """Let :meth:`Tensor.backward` set ``.grad`` of this tensor, too, though it isn't a leaf."""
    node = _tracked(x, "retain_grad()")
    if node.leaf is None:
        node.retained = weakref.ref(x)


def retains_grad(x: Tensor) -> bool:
    """Whether :func:`retain_grad` was called."""
    node = x._node
    return node is not None and node.retained is not None and node.retained() is x


def hooked(node: Node, gradient: Any) -> Any:
    """The gradient at ``node``, after its hooks and kept for who asked."""
    if node.hooks:
        for hook in list(node.hooks.values()):
            changed = hook(gradient)
            gradient = gradient if changed is None else changed
    x = None if node.retained is None else node.retained()
    if x is not None and x._node is node:
        found = gradient if is_grad_enabled() else gradient.detach()
        x.grad = found if x.grad is None else x.grad + found
    return gradient
