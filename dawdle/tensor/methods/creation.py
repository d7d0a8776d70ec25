"""Making tensors, and filling them with random numbers."""

from __future__ import annotations

from dawdle.tensor import counts, creation, sampling


class Creation:
    __slots__ = ()

    zeros = classmethod(creation.zeros)
    ones = classmethod(creation.ones)
    full = classmethod(creation.full)
    empty = classmethod(creation.zeros)
    eye = classmethod(creation.eye)
    arange = classmethod(creation.arange)
    linspace = classmethod(creation.linspace)
    logspace = classmethod(creation.logspace)
    tril_indices = classmethod(creation.tril_indices)
    triu_indices = classmethod(creation.triu_indices)
    vander = creation.vander
    zeros_like, ones_like, full_like = creation.zeros_like, creation.ones_like, creation.full_like
    empty_like, new_empty, new_zeros = creation.zeros_like, creation.new_zeros, creation.new_zeros
    new_ones, new_full, new_tensor = creation.new_ones, creation.new_full, creation.new_tensor
    rand = classmethod(sampling.rand)
    randn = classmethod(sampling.randn)
    randint = classmethod(sampling.randint)
    randperm = classmethod(sampling.randperm)
    uniform = classmethod(sampling.uniform)
    normal = classmethod(sampling.normal)
    rand_like, randn_like, randint_like = sampling.rand_like, sampling.randn_like, sampling.randint_like
    bernoulli, multinomial = sampling.bernoulli, sampling.multinomial
    poisson = counts.poisson
    uniform_, normal_, log_normal_ = sampling.uniform_, sampling.normal_, sampling.log_normal_
    exponential_, cauchy_, geometric_ = sampling.exponential_, sampling.cauchy_, sampling.geometric_
    bernoulli_, random_ = sampling.bernoulli_, sampling.random_
    manual_seed = staticmethod(sampling.default_generator.manual_seed)
