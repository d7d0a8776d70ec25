"""Sums of products by Einstein's convention."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dawdle.errors import ShapeError
from dawdle.lazy.ops import Op
from dawdle.tensor.core import apply, axis_of, operands, tensors_of
from dawdle.tensor.linalg import contract
from dawdle.tensor.movement import diagonal
from dawdle.tensor.reduce import any as any_of
from dawdle.tensor.reduce import sum as total

if TYPE_CHECKING:
    from dawdle.tensor import Tensor

Term = tuple["Tensor", str]  # a tensor and the labels of its dimensions, each once


def einsum(formula: Any, *operands: Any) -> Tensor:
    """Sums of products by Einstein's convention, as NumPy's and PyTorch's: ``einsum("bij,bjk->bik", a, b)``.

    Letters name dimensions; those missing in the output are summed; a letter twice in an operand takes the
    diagonal; "..." stands for dimensions that broadcast. Without "->" the output has the letters that occur
    once, in order. In the other form, ``einsum(a, [0, 1], b, [1, 2], [0, 2])``, lists of integers (and ...)
    name dimensions. Operands are contracted in pairs, each time the pair that costs least. Raises ShapeError
    for formulas that don't fit.
    """
    if not isinstance(formula, str):
        formula, operands = _from_lists([formula, *operands])
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    tensors = tensors_of(operands[0] if listed else operands, "einsum")
    inputs, output = _parse(formula, tensors)
    sizes: dict[str, int] = {}
    terms = [_without_repeats(t, labels, formula, sizes) for t, labels in zip(tensors, inputs, strict=True)]
    for label in output:
        if label not in sizes:
            raise ShapeError(f"einsum {formula!r}: output dimension {label!r} is in no operand")
        if output.count(label) > 1:
            raise ShapeError(f"einsum {formula!r}: output dimension {label!r} is named twice")
    return contracted(terms, output, sizes)


def _from_lists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The form with lists as a formula."""
    if len(arguments) < 2:
        raise ShapeError(
            "einsum takes a formula and operands, or operands each followed by a list of integers"
        )
    operands = tuple(arguments[: len(arguments) // 2 * 2 : 2])
    lists = arguments[1::2]
    right = f"->{_letters(arguments[-1])}" if len(arguments) % 2 else ""
    return ",".join(map(_letters, lists)) + right, operands


def _letters(names: Any) -> str:
    if not isinstance(names, (list, tuple)) or any(
        n is not Ellipsis and not (isinstance(n, int) and 0 <= n < 52) for n in names
    ):
        raise ShapeError(
            f"einsum: dimensions are named by lists of integers from 0 to 51 and ..., got {names!r}"
        )
    return "".join("..." if n is Ellipsis else chr((65 if n < 26 else 97 - 26) + n) for n in names)


def _parse(formula: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Labels of each operand and of the output; an ellipsis becomes upper-end characters of its own."""
    text = formula.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    if len(inputs) != len(tensors):
        raise ShapeError(f"einsum {formula!r} names {len(inputs)} operands, got {len(tensors)}")
    for part in [*inputs, right]:
        if not all(c.isalpha() for c in part.replace("...", "", 1)):
            raise ShapeError(f"einsum {formula!r}: {part!r} may hold letters and one '...'")
    dots = 0
    for part, t in zip(inputs, tensors, strict=True):
        letters = len(part.replace("...", ""))
        extra = len(t.lazy.shape) - letters
        if extra < 0 or (extra and "..." not in part):
            raise ShapeError(
                f"einsum {formula!r}: {part!r} names {letters} dimensions, "
                f"the operand has shape {t.lazy.shape}"
            )
        dots = max(dots, extra if "..." in part else 0)
    ellipsis = "".join(chr(0x10000 + i) for i in range(dots))

    def spelled(part: str, extra: int) -> str:
        return part.replace("...", ellipsis[dots - extra :])

    labels = [
        spelled(p, len(t.lazy.shape) - len(p.replace("...", "")))
        for p, t in zip(inputs, tensors, strict=True)
    ]
    if arrow:
        return labels, spelled(right, dots)
    joined = "".join(labels)
    return labels, ellipsis + "".join(
        sorted(c for c in set(joined) if joined.count(c) == 1 and c not in ellipsis)
    )


def _without_repeats(t: Tensor, labels: str, formula: str, sizes: dict[str, int]) -> Term:
    """Diagonals taken for repeated labels, and ``sizes`` filled in."""
    own: dict[str, int] = {}
    for label, n in zip(labels, t.lazy.shape, strict=True):
        known = sizes.get(label, 1)
        if own.setdefault(label, n) != n or (known != n and 1 not in (known, n)):
            other = own[label] if own[label] != n else known
            raise ShapeError(
                f"einsum {formula!r}: dimension {label!r} is {other} in one place and {n} in another"
            )
        sizes[label] = max(known, n) if 0 not in (known, n) else 0
    while len(set(labels)) < len(labels):
        label = next(c for c in labels if labels.count(c) > 1)
        i = labels.index(label)
        j = labels.index(label, i + 1)
        t = diagonal(t, 0, i, j)
        labels = labels[:i] + labels[i + 1 : j] + labels[j + 1 :] + label
    return t, labels


def contracted(terms: Sequence[Term], output: str, sizes: dict[str, int]) -> Tensor:
    """The product of ``terms`` summed over all labels but those of ``output``, in this order."""
    left = list(terms)
    while len(left) > 1:
        i, j = min(
            itertools.combinations(range(len(left)), 2), key=lambda pair: _cost(left, pair, output, sizes)
        )
        others = [term for k, term in enumerate(left) if k not in (i, j)]
        needed = set(output).union(*[labels for _, labels in others])
        left = [_contract_pair(*left[i], *left[j], needed), *others]
    t, labels = _summed_alone(*left[0], set(output))
    return apply(Op.PERMUTE, tuple(labels.index(c) for c in output), t)


def _cost(
    terms: Sequence[Term], pair: tuple[int, int], output: str, sizes: dict[str, int]
) -> tuple[int, int, int]:
    """What it takes to contract a pair: how much larger its result is than both, then the multiplications."""
    a, b = (set(terms[i][1]) for i in pair)
    needed = set(output).union(*[labels for k, (_, labels) in enumerate(terms) if k not in pair])
    inputs, result = (a, b), (a | b) & needed

    def elements(labels: set[str]) -> int:
        return math.prod(sizes[c] for c in labels)

    grown = elements(result) - sum(map(elements, inputs))
    return grown, elements(a | b), pair[0]


def aligned(t: Tensor, labels: str, order: str) -> Tensor:
    """``t`` with its dimensions in ``order``, size 1 where it lacks one."""
    present = [c for c in order if c in labels]
    t = apply(Op.PERMUTE, tuple(labels.index(c) for c in present), t)
    sizes = dict(zip(present, t.lazy.shape, strict=True))
    return apply(Op.RESHAPE, tuple(sizes.get(c, 1) for c in order), t)


def _contract_pair(a: Tensor, a_labels: str, b: Tensor, b_labels: str, later: set[str]) -> Term:
    a, a_labels = _summed_alone(a, a_labels, later | set(b_labels))
    b, b_labels = _summed_alone(b, b_labels, later | set(a_labels))
    every = a_labels + "".join(c for c in b_labels if c not in a_labels)
    summed = "".join(c for c in every if c not in later)
    kept = "".join(c for c in every if c in later)
    order = kept + summed
    out = contract(aligned(a, a_labels, order), aligned(b, b_labels, order), range(len(kept), len(order)))
    return apply(Op.RESHAPE, out.lazy.shape[: len(kept)], out), kept


def _summed_alone(t: Tensor, labels: str, needed: set[str]) -> Term:
    """``t`` summed over the labels that no one else needs, in its own dtype."""
    axes = [i for i, c in enumerate(labels) if c not in needed]
    if not axes:
        return t, labels
    dtype = t.lazy.dtype
    summed: Tensor = any_of(t, axes) if dtype.is_bool else total(t, axes, dtype=dtype)
    return summed, "".join(c for c in labels if c in needed)


@operands("b")
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Any] = 2) -> Tensor:
    """The sum of products over dimensions of both: over the last ``dims`` of ``a`` and the first of ``b``, or
    over those that a pair of lists names, in their order. Raises ShapeError where sizes differ.
    """
    shapes = a.lazy.shape, b.lazy.shape
    if isinstance(dims, int):
        if not 0 <= dims <= min(map(len, shapes)):
            raise ShapeError(f"tensordot over {dims} dimensions of shapes {shapes[0]} and {shapes[1]}")
        pairs = (list(range(-dims, 0)), list(range(dims)))
    else:
        pairs = tuple(list(d) if isinstance(d, Sequence) else [d] for d in dims)  # type: ignore[assignment]
        if len(pairs) != 2 or any(isinstance(d, float) for named in pairs for d in named):
            raise ShapeError(f"tensordot: dims is a number or a pair of lists, got {dims!r}")
    wrong = f"tensordot over dims {dims} of shapes {shapes[0]} and {shapes[1]}"
    if any(len(named) > len(shape) for named, shape in zip(pairs, shapes, strict=True)):
        raise ShapeError(f"{wrong}: there are fewer")
    axes = [
        [axis_of(d, len(shape), "tensordot", shape) for d in named]
        for named, shape in zip(pairs, shapes, strict=True)
    ]
    sizes = [[shape[d] for d in named] for named, shape in zip(axes, shapes, strict=True)]
    if sizes[0] != sizes[1] or any(len(set(named)) < len(named) for named in axes):
        raise ShapeError(f"{wrong}: sizes differ, or one is named twice")
    names = "".join(map(chr, range(0x100, 0x100 + len(shapes[0]) + len(shapes[1]))))
    left, right = names[: len(shapes[0])], list(names[len(shapes[0]) :])
    for i, j in zip(*axes, strict=True):
        right[j] = left[i]
    output = "".join(c for c in left if c not in right) + "".join(c for c in right if c not in left)
    extents = {**dict(zip(left, shapes[0], strict=True)), **dict(zip(right, shapes[1], strict=True))}
    return contracted([(a, left), (b, "".join(right))], output, extents)
