"""The optimizers' common part: parameter groups, state, and the step that realises everything at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from dawdle import dtype as dt
from dawdle.errors import ArgumentError, GradientError, StateError
from dawdle.nn.module import Parameter
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import no_grad

Slots = dict[str, Tensor]


class ParamGroup(MutableMapping[str, Any]):
    """Parameters that share their settings, which are read and written as ``group["lr"]``.

    The learning rate is also kept as a scalar tensor, ``group.lr``: setting ``group["lr"]`` takes effect in
    jitted steps too. Other settings are constants of a jitted step. A tensor given as ``lr`` is used as it
    is.
    """

    def __init__(self, params: list[Tensor], options: Mapping[str, Any]) -> None:
        self.params = params
        self.slots: list[Slots] = [{} for _ in params]
        self.scalars: Slots = {}
        self._options = dict(options)
        self.lr = self._own_lr = scalar(0.0, params[0].device)
        self["lr"] = options["lr"]

    def __getitem__(self, key: str) -> Any:
        return self.params if key == "params" else self._options[key]

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._options:
            raise ArgumentError(f"there is no setting {key!r}; choose one of {', '.join(self._options)}")
        self._options[key] = value
        if key == "lr" and isinstance(value, Tensor):
            self.lr = value
        elif key == "lr":
            self.lr = self._own_lr.assign(scalar(value, self._own_lr.device))

    def __delitem__(self, key: str) -> None:
        raise ArgumentError(f"the setting {key!r} can't be removed")

    def __iter__(self) -> Iterator[str]:
        return iter(("params", *self._options))

    def __len__(self) -> int:
        return 1 + len(self._options)

    def __repr__(self) -> str:
        settings = ", ".join(
            f"{k}={v.item() if isinstance(v, Tensor) else v}" for k, v in self._options.items()
        )
        return f"{len(self.params)} parameters, {settings}"


class Optimizer:
    """Base class. A subclass names its state and gives one parameter's new value in :meth:`update`.

    ``params`` are tensors, or dicts with "params" and settings of their own. Plain tensors get
    ``requires_grad``; a Parameter that doesn't require a gradient is left alone. All state is held by
    tensors, so steps can be jitted.
    """

    def __init__(
        self, params: Iterable[Tensor] | Iterable[dict[str, Any]], defaults: Mapping[str, Any]
    ) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[ParamGroup] = []
        given = list(params)
        if not given:
            raise ArgumentError(f"{type(self).__name__} was given no parameters")
        for group in given if isinstance(given[0], dict) else [{"params": given}]:
            self.add_param_group(group)  # type: ignore[arg-type]
        Tensor.realize(*(p for group in self.param_groups for p in group.params))

    # ---- what a subclass defines

    def slot_names(self, group: ParamGroup) -> tuple[str, ...]:
        """Names of the tensors kept for each parameter, of its shape and dtype, 0 at first."""
        return ()

    def scalar_names(self, group: ParamGroup) -> tuple[str, ...]:
        """Names of the float32 scalars kept for the group, 0 at first."""
        return ()

    def advance(self, group: ParamGroup) -> Slots:
        """The group's scalars after this step."""
        return {}

    def update(
        self, param: Tensor, grad: Tensor, slots: Slots, scalars: Slots, group: ParamGroup
    ) -> tuple[Tensor, Slots]:
        """The new value of ``param`` and of its slots, from their old values and the advanced scalars."""
        raise TypeError(f"{type(self).__name__} doesn't define update()")

    # ---- what everyone calls

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Add parameters with settings of their own, such as a lower ``lr`` for a pretrained part."""
        params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        known = {id(p) for g in self.param_groups for p in g.params}
        for param in params:
            if not isinstance(param, Tensor):
                raise ArgumentError(f"an optimizer takes tensors, not {type(param).__name__}")
            if not param.dtype.is_float:
                raise GradientError(
                    f"a parameter of dtype {param.dtype.name} has no gradient; use a float dtype"
                )
            if id(param) in known:
                raise ArgumentError("a parameter was given twice")
            known.add(id(param))
            if not isinstance(param, Parameter):
                param.requires_grad_(True)
        if unknown := [k for k in group if k != "params" and k not in self.defaults]:
            raise ArgumentError(
                f"{type(self).__name__} has no settings {unknown}; it has {', '.join(self.defaults)}"
            )
        if not params:
            raise ArgumentError("a parameter group is empty")
        options = {**self.defaults, **{k: v for k, v in group.items() if k != "params"}}
        made = ParamGroup(params, options)
        made.scalars = {name: scalar(0.0, made.lr.device) for name in self.scalar_names(made)}
        made.slots = [{name: _zeros_like(p) for name in self.slot_names(made)} for p in params]
        self.param_groups.append(made)

    @property
    def lr(self) -> Any:
        """The first group's learning rate; setting it sets that of all groups."""
        return self.param_groups[0]["lr"]

    @lr.setter
    def lr(self, value: Any) -> None:
        for group in self.param_groups:
            group["lr"] = value

    def zero_grad(self) -> None:
        """Drop the gradients."""
        for group in self.param_groups:
            for param in group.params:
                param.grad = None

    def step(self) -> None:
        """Update the parameters from their gradients; parameters without one stay as they are."""
        if changed := self.schedule_step():
            Tensor.realize(*changed)

    def schedule_step(self) -> list[Tensor]:
        """As :meth:`step`, but lazily: gives the tensors to realise, best in one call with the loss."""
        changed: list[Tensor] = []
        with no_grad():
            for group in self.param_groups:
                changed += self._schedule_group(group)
        return changed

    def _schedule_group(self, group: ParamGroup) -> list[Tensor]:
        pairs = [(p, slots) for p, slots in zip(group.params, group.slots, strict=True) if p.grad is not None]
        if not pairs:
            return []
        scalars = self.advance(group)
        changes = [(group.scalars[name], value) for name, value in scalars.items()]
        for param, slots in pairs:
            assert param.grad is not None
            value, new_slots = self.update(param, param.grad, slots, scalars, group)
            changes += [(param, value), *((slots[name], new) for name, new in new_slots.items())]
        for handle, value in changes:
            handle.assign(value)
        return [handle for handle, _ in changes]

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """Settings and state, for :func:`dawdle.nn.save`; parameters appear as numbers in the order they were
        given.
        """
        groups: list[dict[str, Any]] = []
        state: list[Slots] = []
        for group in self.param_groups:
            numbers = list(range(len(state), len(state) + len(group.params)))
            settings = {
                k: v.detach() if isinstance(v, Tensor) else v for k, v in group.items() if k != "params"
            }
            scalars = {k: v.detach() for k, v in group.scalars.items()}
            groups.append({**settings, "scalars": scalars, "params": numbers})
            state += [{k: v.detach() for k, v in slots.items()} for slots in group.slots]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what :meth:`state_dict` gave for an optimizer with the same groups and parameter shapes.

        Raises StateError where it doesn't fit; then nothing has been loaded.
        """
        handles, settings = [], []
        all_slots = [slots for group in self.param_groups for slots in group.slots]
        try:
            sizes = [len(g["params"]) for g in state["param_groups"]]
            own_sizes = [len(g.params) for g in self.param_groups]
            if sizes != own_sizes:
                raise StateError(f"the optimizer has groups of {own_sizes} parameters, the state of {sizes}")
            for own, saved in zip(all_slots, state["state"], strict=True):
                handles += [(handle, saved[name], name) for name, handle in own.items()]
            for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
                handles += [(handle, saved["scalars"][name], name) for name, handle in group.scalars.items()]
                settings += [(group, k, saved[k]) for k in group if k != "params"]
        except (KeyError, TypeError) as error:
            raise StateError(
                f"this is not the state of {type(self).__name__}: {error} is missing or malformed"
            ) from error
        for handle, value, name in handles:
            if handle.shape != value.shape:
                raise StateError(f"{name}: the optimizer has shape {handle.shape}, the state {value.shape}")
        for group, key, setting in settings:
            group[key] = tuple(setting) if isinstance(setting, list) else setting
        with no_grad():
            for handle, value, _ in handles:
                handle.assign(value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n  " + "\n  ".join(map(repr, self.param_groups)) + "\n)"


def scalar(value: float, device: str) -> Tensor:
    """A float32 scalar in memory: a constant would be compiled into the kernels that use it."""
    return Tensor(np.asarray(value, np.float32), dtype=dt.float32, device=device)


def require(condition: bool, name: str, value: object, wanted: str) -> None:
    """Raise unless a setting has a sensible value."""
    if not condition:
        raise ArgumentError(f"{name} must be {wanted}, not {value}")


def require_rate(lr: float | Tensor) -> None:
    """Raise for a negative learning rate."""
    require(isinstance(lr, Tensor) or lr >= 0, "lr", lr, "at least 0")


def _zeros_like(param: Tensor) -> Tensor:
    return Tensor(np.zeros(param.shape, param.dtype.compute), dtype=param.dtype, device=param.device)
