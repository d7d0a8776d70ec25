"""Random numbers: the same on every device, reproducible by seed, inside ``@jit`` too."""
from __future__ import annotations

from dawdle.tensor import Tensor
from dawdle.tensor.sampling import Generator, default_generator

rand, randn, randint = Tensor.rand, Tensor.randn, Tensor.randint
uniform, normal = Tensor.uniform, Tensor.normal


def manual_seed(seed: int) -> Generator:
    """Start the default generator's stream of ``seed`` anew, on every device. Returns the generator."""
    return default_generator.manual_seed(seed)


__all__ = ["Generator", "default_generator", "manual_seed", "normal", "rand", "randint", "randn", "uniform"]
