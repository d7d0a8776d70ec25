"""Movements: the same elements at other places."""

from __future__ import annotations

from dawdle.tensor import movement


class Shape:
    __slots__ = ()

    reshape, view, flatten, unflatten = (
        movement.reshape,
        movement.reshape,
        movement.flatten,
        movement.unflatten,
    )
    permute, transpose, movedim = movement.permute, movement.transpose, movement.movedim
    squeeze, unsqueeze, expand, broadcast_to = (
        movement.squeeze,
        movement.unsqueeze,
        movement.expand,
        movement.expand,
    )
    flip, pad, shrink, roll = movement.flip, movement.pad, movement.shrink, movement.roll
    repeat, repeat_interleave = movement.repeat, movement.repeat_interleave
    split, chunk, unbind, unfold = movement.split, movement.chunk, movement.unbind, movement.unfold
    diagonal, tril, triu, contiguous = movement.diagonal, movement.tril, movement.triu, movement.contiguous
    cat, stack = movement.cat_method, movement.stack_method
    expand_as, view_as = movement.expand_as, movement.view_as
