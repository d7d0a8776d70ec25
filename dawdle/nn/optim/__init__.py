"""Optimizers."""

from dawdle.nn.optim.adam import Adam, AdamW
from dawdle.nn.optim.base import Optimizer, ParamGroup
from dawdle.nn.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "ParamGroup"]
