"""Kernels over one space that are independent and have a large input in common, made one kernel."""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dawdle.lazy.draft import MAX_OPS, MAX_OUTPUTS, MAX_READS, Draft
from dawdle.lazy.walk import postorder

SMALL = 1024  # elements of a space


def topological(drafts: Sequence[Draft]) -> list[int]:
    """The numbers of ``drafts``, producers before users and close to them. What nobody uses comes as soon
    as it can, because it may be the last that uses something.
    """
    used = set().union(*(d.producers for d in drafts))
    level = _levels(drafts)
    last = sorted((n for n in range(len(drafts)) if n not in used), key=level.__getitem__)
    return _order(drafts, last)


def _order(drafts: Sequence[Draft], roots: Sequence[int]) -> list[int]:
    return postorder(roots, lambda number: sorted(drafts[number].producers, reverse=True))


def _levels(drafts: Sequence[Draft]) -> list[int]:
    level = [0] * len(drafts)
    for number in _order(drafts, range(len(drafts))):
        level[number] = max((level[p] + 1 for p in drafts[number].producers), default=0)
    return level


def _fits(a: Draft, b: Draft, max_params: int) -> bool:
    params = len(a.reads | b.reads) + len(a.outputs) + len(b.outputs)
    return (
        (not max_params or params <= max_params)
        and a.ops + b.ops <= MAX_OPS
        and len(a.reads | b.reads) <= MAX_READS
        and len(a.outputs) + len(b.outputs) <= MAX_OUTPUTS
    )


def merge_sideways(drafts: list[Draft], max_params: int = 0) -> list[Draft]:
    """``drafts`` with alike ones merged. Two at one level (longest path from the leaves) are independent.

    None gets more than ``max_params`` outputs and inputs together, where that isn't 0.
    """
    level = _levels(drafts)
    into = list(range(len(drafts)))
    merged = [replace(d) for d in drafts]
    found: dict[tuple[object, ...], int] = {}
    for number, draft in enumerate(drafts):
        if not draft.is_map or draft.contraction:
            continue
        kind = (level[number], draft.root.device, draft.space, tuple(sorted(set(draft.reductions))))
        size = math.prod(draft.space)
        large = [i for i, n in draft.inputs.items() if n.size > 1 and n.size >= size]
        if size <= SMALL and not draft.reductions:
            large.append(0)  # as if they read the same: they cost little but for their launch
        partner = next((found[(kind, i)] for i in large if (kind, i) in found), None)
        if partner is not None and _fits(merged[partner], draft, max_params):
            into[number] = partner
            merged[partner] = _merge(merged[partner], draft)
        for i in large:
            found.setdefault((kind, i), into[number])
    kept = [n for n in range(len(drafts)) if into[n] == n]
    number_of = {n: i for i, n in enumerate(kept)}
    return [replace(merged[n], producers={number_of[into[p]] for p in merged[n].producers}) for n in kept]


def _merge(a: Draft, b: Draft) -> Draft:
    return replace(
        a,
        outputs=a.outputs + b.outputs,
        reasons=a.reasons + [f"{r}; beside a kernel with the same input" for r in b.reasons],
        inputs={**a.inputs, **b.inputs},
        reads=a.reads | b.reads,
        producers=a.producers | b.producers,
        ops=a.ops + b.ops,
        reductions=a.reductions + b.reductions,
    )
