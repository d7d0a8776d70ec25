"""Modules that hold other modules: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, overload

from dawdle.nn.module import Module
from dawdle.runtime.trace import note_structure


class _Numbered(Module):
    """Submodules named "0", "1", … in order."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> _Numbered: ...
    def __getitem__(self, index: int | slice) -> Module:
        chosen = list(self)[index]
        return chosen if isinstance(chosen, Module) else self._of(chosen)

    def __setitem__(self, index: int, module: Module) -> None:
        modules = list(self)
        modules[index] = module
        self._renumber(modules)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index]
        self._renumber(modules)

    def append(self, module: Module) -> None:
        """Add ``module`` at the end."""
        self._renumber([*self, module])

    def extend(self, modules: Iterable[Module]) -> None:
        """Add all ``modules`` at the end."""
        self._renumber([*self, *modules])

    def insert(self, index: int, module: Module) -> None:
        """Add ``module`` before the one at ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def _renumber(self, modules: Iterable[Module]) -> None:
        modules = list(modules)
        for module in modules:
            if not isinstance(module, Module):
                raise TypeError(f"{type(self).__name__} holds modules, not {type(module).__name__}")
        note_structure()
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def _of(self, modules: list[Module]) -> _Numbered:
        made = type(self)()
        made._renumber(modules)
        return made


class Sequential(_Numbered):
    """Calls its modules in order, each on the result of the one before.

    Takes modules, or one dict of named modules.
    """

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            for name, module in modules[0].items():
                self.add_module(name, module)
        else:
            self._renumber(modules)  # type: ignore[arg-type]

    def forward(self, x: Any) -> Any:
        for module in self:
            x = module(x)
        return x


class ModuleList(_Numbered):
    """A list of modules, whose parts are registered."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self._renumber(modules)


class ModuleDict(Module):
    """A dict of modules by name, whose parts are registered."""

    _modules: dict[str, Module]  # type: ignore[assignment]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        self.update(modules or {})

    def update(self, modules: Mapping[str, Module]) -> None:
        """Add or replace modules."""
        for name, module in modules.items():
            self[name] = module

    def __getitem__(self, name: str) -> Module:
        return self._modules[name]

    def __setitem__(self, name: str, module: Module) -> None:
        self.add_module(name, module)

    def __delitem__(self, name: str) -> None:
        note_structure()
        del self._modules[name]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def keys(self) -> KeysView[str]:
        """The modules' names."""
        return self._modules.keys()

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()

    def items(self) -> ItemsView[str, Module]:
        """The modules with their names."""
        return self._modules.items()
