"""Making tensors."""

from __future__ import annotations

from dawdle.tensor import creation, sampling


class Creation:
    __slots__ = ()

    zeros = classmethod(creation.zeros)
    ones = classmethod(creation.ones)
    full = classmethod(creation.full)
    empty = classmethod(creation.zeros)
    eye = classmethod(creation.eye)
    arange = classmethod(creation.arange)
    linspace = classmethod(creation.linspace)
    zeros_like = creation.zeros_like
    ones_like = creation.ones_like
    full_like = creation.full_like
    empty_like = creation.zeros_like
    rand = classmethod(sampling.rand)
    randn = classmethod(sampling.randn)
    randint = classmethod(sampling.randint)
    randperm = classmethod(sampling.randperm)
    uniform = classmethod(sampling.uniform)
    normal = classmethod(sampling.normal)
    rand_like = sampling.rand_like
    randn_like = sampling.randn_like
    bernoulli = sampling.bernoulli
    manual_seed = staticmethod(sampling.default_generator.manual_seed)
