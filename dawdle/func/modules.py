"""``functional_call``: a module as a function of its parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dawdle.errors import StateError
from dawdle.tensor import Tensor

if TYPE_CHECKING:
    from dawdle.nn.module import Module


def functional_call(
    module: Module, parameters_and_buffers: Mapping[str, Tensor], args: Any = (), kwargs: Any = None
) -> Any:
    """``module(*args, **kwargs)`` with other tensors in the place of the parameters and buffers whose dotted
    names ``parameters_and_buffers`` has; the module itself stays as it is. A single argument needn't be in a
    tuple. A tensor that is shared under several names is replaced under all of them.

    With ``dict(module.named_parameters())`` as an argument, :func:`grad`, :func:`vmap` and the others work on
    modules. Raises StateError for unknown names and for tensors of another shape. As
    ``torch.func.functional_call``.
    """
    given = args if isinstance(args, tuple) else (args,)
    with _replaced(module, parameters_and_buffers):
        return module(*given, **(kwargs or {}))


@contextmanager
def _replaced(module: Module, parts: Mapping[str, Tensor]) -> Iterator[None]:
    """The parts of ``module`` replaced in a block. Nobody is told, for afterwards nothing has changed."""
    tables: list[dict[str, Any]] = []
    for m in module.modules():
        tables += [m._parameters, m._buffers]
    known: dict[str, Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    unknown = sorted(set(parts) - set(known))
    if unknown:
        raise StateError(
            f"{type(module).__name__} has no parameters or buffers {', '.join(unknown)}; it has "
            f"{', '.join(known) or 'none'}"
        )
    for name, tensor in parts.items():
        if tensor.shape != known[name].shape:
            raise StateError(f"{name} has shape {known[name].shape}, the tensor for it {tensor.shape}")
    new = {id(known[name]): tensor for name, tensor in parts.items()}
    before = [dict(table) for table in tables]
    try:
        for table in tables:
            table.update({name: new[id(old)] for name, old in table.items() if id(old) in new})
        yield
    finally:
        for table, entries in zip(tables, before, strict=True):
            table.update(entries)
