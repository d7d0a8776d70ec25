"""Random numbers: the same on every device, reproducible by seed, inside ``@jit`` too."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dawdle.dtype import uint32
from dawdle.errors import ShapeError
from dawdle.tensor import Tensor
from dawdle.tensor.arguments import public
from dawdle.tensor.sampling import Generator, default_generator

rand, randn, randint, randperm = Tensor.rand, Tensor.randn, Tensor.randint, Tensor.randperm
uniform, normal, bernoulli, multinomial = Tensor.uniform, Tensor.normal, Tensor.bernoulli, Tensor.multinomial


@public
def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of ``seed`` anew, on every device. Returns the generator."""
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator's stream of a seed that the system draws. Returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator's stream was started with."""
    return default_generator.initial_seed


@public
def get_rng_state(device: str | None = None, generator: Generator | None = None) -> Tensor:
    """How far a generator's stream has come on a device, the default ones by default.

    Four words, uint32, which can be saved with a checkpoint and given to :func:`set_rng_state`.
    """
    state = (generator or default_generator).state(Tensor, Tensor._device_name(device))
    return state.detach().realize()


def set_rng_state(state: Tensor, generator: Generator | None = None) -> None:
    """Go on with the numbers that came after :func:`get_rng_state`, on the device of ``state``."""
    if state.shape != (4,) or state.dtype is not uint32:
        raise ShapeError(f"a generator's state is four uint32 words, got {state.dtype.name} {state.shape}")
    (generator or default_generator).state(Tensor, state.device).assign(state.detach())


@contextmanager
def fork_rng(device: str | None = None, generator: Generator | None = None) -> Iterator[None]:
    """Numbers drawn inside of the block leave the stream outside as it was."""
    saved = get_rng_state(device, generator)
    try:
        yield
    finally:
        set_rng_state(saved, generator)


__all__ = [
    "Generator",
    "bernoulli",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "multinomial",
    "normal",
    "rand",
    "randint",
    "randn",
    "randperm",
    "seed",
    "set_rng_state",
    "uniform",
]
