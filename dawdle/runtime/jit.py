"""``@jit``: trace a function once for each signature, then replay its kernels with one foreign call.

What a replay reads and writes:

* tensors in the arguments, nested in lists, tuples and dicts: those of the call;
* arguments that the function can also reach otherwise (by its closure, globals, ``self``, other arguments):
  outside state, as below; each gets a trace of its own;
* tensors that the function uses without their being arguments (parameters): what they hold at the call;
* tensors that it assigns to (parameters, an optimizer's and a random generator's state, running statistics)
  and their ``grad``: they get their new values after all kernels have run, so an error or Ctrl-C leaves them
  as they were;
* everything else, numbers and the like, is as it was when the function was traced.

Where a tensor was found is watched: another one in its place (a name, an attribute, an element of a list or
dict), or another part in an ``nn.Module`` that the function can reach, is traced anew. A change that turns up
only in other Python objects, such as a number or a tensor instead of None in a list, goes unnoticed.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, ParamSpec, TypeVar

from dawdle import config
from dawdle.lazy.buffer import LazyBuffer
from dawdle.lazy.ops import Op
from dawdle.runtime.executor import realize
from dawdle.runtime.reach import reach
from dawdle.runtime.replay import Replay, Trace
from dawdle.runtime.signature import flatten, modules, others
from dawdle.runtime.trace import (
    Handle,
    Recorder,
    is_tracing,
    note_attribute,
    note_new,
    note_read,
    note_rebind,
    recording,
)

__all__ = ["Jit", "is_tracing", "jit", "note_attribute", "note_new", "note_read", "note_rebind"]

P = ParamSpec("P")
R = TypeVar("R")
MANY = 32  # traces of one function after which something is amiss


class Jit(Generic[P, R]):
    """A function that is traced once for each signature and replayed afterwards. Made by :func:`jit`."""

    def __init__(self, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._replays: dict[Hashable, list[Replay]] = {}
        self._warmed: set[Hashable] = set()
        self.traces = 0  # how often the function's Python code ran

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        # one for each object: they share nothing
        bound = type(self)(self._function.__get__(instance, owner))
        instance.__dict__[self._function.__name__] = bound
        return bound

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if is_tracing():
            return self._function(*args, **kwargs)
        handles: list[Handle] = []
        key = (
            flatten(args, handles),
            flatten(kwargs, handles),
            tuple([(m, m.training) for m in modules(self._function)]),
        )
        realize([h.lazy for h in handles])
        for replay in self._replays.get(key, ()):
            if replay.fits(handles):
                return replay(handles)  # type: ignore[no-any-return]
        return self._trace(key, handles, args, kwargs)

    def _trace(self, key: Hashable, handles: Sequence[Handle], args: Any, kwargs: Any) -> R:
        self.traces += 1
        name = getattr(self, "__name__", "function")
        if config.current().debug >= 1:
            print(f"dawdle: jit traces {name}, trace {self.traces}")
        if self.traces == MANY:
            warnings.warn(
                f"jit has traced {name} {MANY} times: an argument that isn't a tensor, or a shape, is another"
                " one each time; pass numbers that change as tensors, and pad batches to one size",
                RuntimeWarning,
                stacklevel=3,
            )
        before = [h.lazy for h in handles]
        known = [h for replays in self._replays.values() for replay in replays for h in replay.outside]
        reached = reach([self._function, *others((args, kwargs)), *known])
        # leaves of their own, so that two arguments that hold one value are told apart
        leaves = [
            x if h in reached else LazyBuffer(Op.BUFFER, (), x.arg, x.shape, x.dtype, x.device)
            for h, x in zip(handles, before, strict=True)
        ]
        recorder = Recorder(realize)
        try:
            with recording(recorder):
                _bind(handles, leaves)
                result = self._function(*args, **kwargs)
            trace = Trace(recorder, handles, leaves, result, reached)
            if trace.local and key not in self._warmed:
                # is it state that was made in this call, or local to it? This call runs without jit, the next
                # tells
                trace.realize()
                self._warmed.add(key)
                for handle, leaf, lazy in zip(handles, leaves, before, strict=True):
                    handle.lazy = lazy if handle.lazy is leaf else handle.lazy
                return result
            replay = Replay(trace)
        except BaseException:
            recorder.undo()
            _bind(handles, before)
            raise
        recorder.undo()
        _bind(handles, before)
        self._replays.setdefault(key, []).append(replay)
        return replay(handles)  # type: ignore[no-any-return]


def _bind(handles: Sequence[Handle], values: Sequence[LazyBuffer]) -> None:
    for handle, lazy in zip(handles, values, strict=True):
        handle.lazy = lazy


def jit(function: Callable[P, R]) -> Jit[P, R]:
    """Decorator: the function runs as Python once for each signature; later calls replay its kernels.

    The signature is the arguments' structure, the shapes, dtypes and devices of the tensors in them, the
    values of all other arguments, and the flags that the function was seen to read: ``training`` of modules,
    ``requires_grad`` of tensors. Calls with another signature are traced anew. A whole training step, with
    ``backward()`` and an optimizer's ``step()``, can be one jitted function.

    Parameters, buffers and tensors that the function reaches by itself are read anew at each call. Replacing
    one by another (``layer.weight = Parameter(...)``, ``layer.bias = None``, ``box[0] = Tensor(...)``) leads
    to another trace. Replacing other Python objects that the function uses, such as numbers in a list or an
    attribute, doesn't: pass those as arguments.

    An argument that the function also reaches by itself (its closure, the globals that its code names, its
    ``self``, and what those hold) is no mere argument: its identity belongs to the signature, so that what
    ``f(s)`` did to ``s`` isn't replayed on ``t`` by ``f(t)``. Pass a ``clone()`` where such tensors are many.
    The search looks at 20,000 objects and not into libraries, generators or objects written in C.

    The function must not read values (``item()``, ``numpy()``, ``if tensor``): that raises JitError. Results
    have no gradient history. A jitted function called within another is traced as part of it.
    """
    return Jit(function)
