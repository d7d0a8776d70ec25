"""The registry of devices: names, which of them work here, and the default."""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from dawdle import config
from dawdle.errors import DawdleError, DeviceError
from dawdle.runtime import cuda, opencl
from dawdle.runtime.base import Device
from dawdle.runtime.cpu import CpuDevice
from dawdle.runtime.numpy import NumpyDevice

# from the most to the least preferred default; a factory raises a DawdleError that says why a device doesn't
# work
FACTORIES: dict[str, Callable[[], Device]] = {"CPU": CpuDevice, "NUMPY": NumpyDevice}


@dataclass(frozen=True)
class Family:
    """Devices of one kind, named ``CL``, ``CL:1`` and so on. Both functions raise a DawdleError that says why
    there are none.
    """

    names: Callable[[], list[str]]
    open: Callable[[int], Device]


# devices that serve only who asks for them: looking for them takes long
FAMILIES: dict[str, Family] = {
    "CL": Family(opencl.names, opencl.open_device),
    "CUDA": Family(cuda.names, cuda.open_device),
}
_lock = threading.Lock()


def get_device(name: str) -> Device:
    """The device of that name, in any case of letters.

    Raises DeviceError for an unknown name, and what the device itself raises where it can't work here:
    CompileError, if there is no compiler for it.
    """
    if not isinstance(name, str):
        raise DeviceError(f"a device is named by a string, as 'CPU' or 'CL:1', got {name!r}")
    found = _opened.get(name)
    return found if found is not None else _open(name)


_opened: dict[str, Device] = {}


def _open(name: str) -> Device:
    family, _, number = name.upper().partition(":")
    known = (family in FACTORIES and not number) or family in FAMILIES
    if not known or not (number or "0").isdecimal():
        names = ", ".join([*FACTORIES, *(f"{f}, {f}:1, ..." for f in FAMILIES)])
        raise DeviceError(f"unknown device {name!r}; known are {names}")
    index = int(number or 0)
    canonical = f"{family}:{index}" if index else family
    with _lock:
        if canonical not in _opened:
            opened = FACTORIES[family]() if family in FACTORIES else FAMILIES[family].open(index)
            _opened[canonical] = opened
            if config.current().debug >= 1:
                print(f"dawdle: opened device {canonical}{opened.description and f', {opened.description}'}")
        return _opened[canonical]


def default_device() -> str:
    """The canonical name of the device on which values are made: DAWDLE_DEVICE, or the best that works.

    Warns, once, where that isn't the fastest kind and says how to get it.
    """
    return get_device(config.current().device or _best()).name


@functools.lru_cache
def _best() -> str:
    for name in FACTORIES:
        try:
            return get_device(name).name
        except DawdleError as e:
            text = f"device {name} doesn't work here, so the next best serves: {e}"
            warnings.warn(text, RuntimeWarning, stacklevel=_users_level())
    raise AssertionError("NUMPY always works")


def _users_level() -> int:
    """The ``stacklevel`` at which the caller's warning names the line outside of dawdle that led to it."""
    package, level = __name__.partition(".")[0], 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    return level


@dataclass(frozen=True)
class Status:
    """Whether a device works here; if not, ``reason`` says why. ``description`` says what it is."""

    name: str
    works: bool
    reason: str
    description: str = ""


def devices() -> list[Status]:
    """Every known device: those that serve by default, from the fastest kind to the slowest, then the others.
    """
    return [_status(name) for name in [*FACTORIES, *(n for f in FAMILIES for n in _members(f))]]


def _members(family: str) -> list[str]:
    try:
        return FAMILIES[family].names()
    except DawdleError:
        return [family]


def _status(name: str) -> Status:
    try:
        return Status(name, True, "", get_device(name).description)
    except DawdleError as e:
        return Status(name, False, str(e))
