"""Module: a tree of parameters, buffers and submodules, with PyTorch's habits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from dawdle.dtype import DType, to_dtype
from dawdle.errors import DTypeError, StateError
from dawdle.runtime.trace import note_flag, note_structure
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import no_grad

Self = TypeVar("Self", bound="Module")
T = TypeVar("T", bound=Tensor)


class Parameter(Tensor):
    """A tensor that a Module registers as a parameter when it becomes an attribute.

    Its gradient is wanted by default.
    """

    def __init__(
        self, data: Any, requires_grad: bool = True, dtype: object | None = None, device: str | None = None
    ) -> None:
        super().__init__(data, dtype=dtype, device=device, requires_grad=requires_grad)


class Buffer(Tensor):
    """A tensor that a Module registers as a buffer: state that isn't trained, such as running statistics.

    ``persistent=False`` keeps it out of the state dict.
    """

    def __init__(
        self, data: Any, persistent: bool = True, dtype: object | None = None, device: str | None = None
    ) -> None:
        super().__init__(data, dtype=dtype, device=device)
        self.persistent = persistent


class IncompatibleKeys(NamedTuple):
    """What :meth:`Module.load_state_dict` found: names that the state lacks, and those that it doesn't know.
    """

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """Base class of layers and models. Assigning a Parameter, Buffer or Module to an attribute registers it.

    Subclasses define ``forward`` and call ``super().__init__()`` before assigning attributes.
    """

    _training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]  # names of the buffers that the state dict leaves out

    def __init__(self) -> None:
        for name in ("_parameters", "_buffers", "_modules"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "_transient", set())
        object.__setattr__(self, "_training", True)

    @property
    def training(self) -> bool:
        """Whether the module is in training mode; see :meth:`train`."""
        note_flag(self, "training", self._training)
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        note_flag(self, "training", mode, written=True)
        object.__setattr__(self, "_training", mode)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module computes; subclasses define it."""
        raise TypeError(f"{type(self).__name__} can't be called: it doesn't define forward()")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    # ---- registration

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            raise AttributeError(
                f"call super().__init__() in {type(self).__name__} before assigning {name!r}"
            )
        kinds = ((Parameter, self._parameters), (Module, self._modules), (Buffer, self._buffers))
        table: dict[str, Any] | None = next((table for kind, table in kinds if isinstance(value, kind)), None)
        if table is None:
            table = next(
                (table for _, table in kinds if name in table), None
            )  # a registered name keeps its role
            if table is None:
                if isinstance(value, Tensor) or isinstance(self.__dict__.get(name), Tensor):
                    note_structure()
                return object.__setattr__(self, name, value)
            if value is not None and not (table is self._buffers and isinstance(value, Tensor)):
                role = {id(t): kind.__name__ for kind, t in kinds}[id(table)]
                raise TypeError(
                    f"{name!r} is a {role} of {type(self).__name__}; assign a {role} or None, "
                    f"not {type(value).__name__}"
                )
        else:
            self._forget(name, but=table)
        if isinstance(value, Buffer) and not value.persistent:
            self._transient.add(name)
        note_structure()
        table[name] = value
        return None

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            table = self.__dict__.get(kind, {})
            if name in table:
                return table[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        if name in self._registered():
            self._forget(name)
        else:
            note_structure()
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._registered()]

    def _registered(self) -> list[str]:
        return [*self._parameters, *self._buffers, *self._modules]

    def _forget(self, name: str, but: dict[str, Any] | None = None) -> None:
        """Drop what is called ``name``; in the table ``but`` it keeps its place, to be replaced."""
        note_structure()
        self.__dict__.pop(name, None)
        self._transient.discard(name)
        for table in (self._parameters, self._buffers, self._modules):
            if table is not but:
                table.pop(name, None)

    def register_parameter(self, name: str, parameter: Parameter | None) -> None:
        """Register ``parameter`` under ``name``; None registers the name of an absent one, such as a bias."""
        self._register(self._parameters, name, parameter)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register ``tensor`` as state that isn't trained; the state dict has it if it is ``persistent``."""
        self._register(self._buffers, name, tensor)
        if not persistent:
            self._transient.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register ``module`` as a submodule called ``name``, which needn't be an identifier."""
        self._register(self._modules, name, module)

    def _register(self, table: dict[str, Any], name: str, value: Any) -> None:
        if not name or "." in name:
            raise ValueError(f"{name!r} can't name a part of a module: names are non-empty and have no dot")
        if hasattr(type(self), name):
            raise ValueError(f"{type(self).__name__} already has an attribute {name!r}")
        self._forget(name, but=table)
        table[name] = value

    def jit_parts(self) -> dict[str, Any]:
        """The parameters, buffers, submodules and other tensors, by attribute: ``@jit`` traces anew where one
        is replaced.
        """
        plain = {name: value for name, value in self.__dict__.items() if isinstance(value, Tensor)}
        return {**plain, **self._parameters, **self._buffers, **self._modules}

    # ---- walking the tree

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with their dotted names; parents before children."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            stack += [(_join(name, k), m) for k, m in reversed(module._modules.items()) if m is not None]

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names."""
        return ((name, module) for name, module in self._modules.items() if module is not None)

    def children(self) -> Iterator[Module]:
        """The direct submodules."""
        return (module for _, module in self.named_children())

    def named_parameters(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their dotted names; one that is shared appears once, under its first name."""
        return _once(self._named("_parameters", prefix, recurse))

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers with their dotted names, each once."""
        return _once(self._named("_buffers", prefix, recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named(self, kind: str, prefix: str, recurse: bool) -> Iterator[tuple[str, Any]]:
        for path, module in self.named_modules(prefix) if recurse else [(prefix, self)]:
            for name, value in getattr(module, kind).items():
                if value is not None:
                    yield _join(path, name), value

    # ---- state

    def state_dict(self, prefix: str = "") -> dict[str, Tensor]:
        """The parameters and persistent buffers by dotted name, detached: their present values, not the
        handles.
        """
        return {_join(prefix, name): tensor.detach() for name, tensor in self._state()}

    def _state(self) -> Iterator[tuple[str, Tensor]]:
        """The handles that the state dict is about; a shared one under each of its names."""
        stack: list[tuple[str, Module]] = [("", self)]
        while stack:
            path, module = stack.pop()
            for table, skipped in ((module._parameters, set[str]()), (module._buffers, module._transient)):
                for name, tensor in table.items():
                    if tensor is not None and name not in skipped:
                        yield _join(path, name), tensor
            stack += [(_join(path, k), m) for k, m in reversed(module._modules.items()) if m is not None]

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Set the parameters and buffers to the values in ``state``, tensors or arrays, converted to each
        one's dtype. Returns the missing and the unexpected keys, of which there are some only with
        ``strict=False``.

        Raises StateError that lists these keys (not with ``strict=False``) and shapes that differ; then
        nothing has been loaded.
        """
        own = dict(self._state())
        keys = IncompatibleKeys([k for k in own if k not in state], [k for k in state if k not in own])
        problems = [f"missing: {k}" for k in keys.missing_keys] if strict else []
        problems += [f"unexpected: {k}" for k in keys.unexpected_keys] if strict else []
        values = {k: v if isinstance(v, Tensor) else Tensor(v) for k, v in state.items() if k in own}
        problems += [
            f"shape of {k}: the module has {own[k].shape}, the state {v.shape}"
            for k, v in values.items()
            if own[k].shape != v.shape
        ]
        if problems:
            raise StateError(
                f"the state doesn't fit {type(self).__name__}; nothing was loaded:\n  "
                + "\n  ".join(problems)
            )
        with no_grad():
            for name, value in values.items():
                own[name].assign(value)
        return keys

    # ---- changing all parts

    def apply(self: Self, function: Callable[[Module], object]) -> Self:
        """Call ``function`` on every module of the tree, children first."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode, in which Dropout drops and BatchNorm uses the batch's statistics, for the whole
        tree.
        """
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode for the whole tree."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Say for every parameter whether its gradient is wanted."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self) -> None:
        """Drop the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self: Self, *targets: Any, device: str | None = None, dtype: Any = None) -> Self:
        """Move the parameters and buffers to a device and cast those of float dtype; either may be given by
        position.

        The handles stay the same, so optimizers keep working. Raises DTypeError for a dtype that isn't float.
        """
        for target in targets:
            if isinstance(target, str) and not _names_dtype(target):
                device = target
            else:
                dtype = target
        chosen: DType | None = None if dtype is None else to_dtype(dtype)
        if chosen is not None and not chosen.is_float:
            raise DTypeError(f"a module's dtype must be float, not {chosen.name}")
        with no_grad():
            for tensor in [*self.parameters(), *self.buffers()]:
                tensor._rebind(tensor.to(device=device, dtype=chosen if tensor.dtype.is_float else None))
                tensor.grad = None
        return self

    # ---- printing

    def extra_repr(self) -> str:
        """What stands between the parentheses of the repr; subclasses name their settings here."""
        return ""

    def __repr__(self) -> str:
        head, extra = type(self).__name__, self.extra_repr()
        parts = [f"({name}): " + repr(module).replace("\n", "\n  ") for name, module in self._modules.items()]
        if not parts:
            return f"{head}({extra})"
        return f"{head}({extra}\n  " + "\n  ".join(parts) + "\n)"


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _once(named: Iterator[tuple[str, T]]) -> Iterator[tuple[str, T]]:
    seen: set[int] = set()
    for name, value in named:
        if id(value) not in seen:
            seen.add(id(value))
            yield name, value


def _names_dtype(text: str) -> bool:
    try:
        to_dtype(text)
    except DTypeError:
        return False
    return True
