"""The recipe for contractions: sums of products whose factors are each reused along some output axes."""
from __future__ import annotations

from dawdle.codegen.kernel import Kernel
from dawdle.codegen.target import Target


def find_contraction(k: Kernel, target: Target) -> None:
    return None


def contract(k: Kernel, found: None, target: Target) -> Kernel:
    return k
