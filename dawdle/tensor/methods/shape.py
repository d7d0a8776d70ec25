"""Movements: the same elements at other places."""

from __future__ import annotations

from dawdle.tensor import joining, layouts, movement, padding
from dawdle.tensor.operators import rebinding


class Shape:
    __slots__ = ()

    reshape, view, contiguous = movement.reshape, movement.view, movement.contiguous
    is_contiguous = movement.is_contiguous
    flatten, ravel, unflatten = movement.flatten, movement.flatten, movement.unflatten
    permute, transpose, t = movement.permute, movement.transpose, movement.t
    swapaxes, swapdims = movement.transpose, movement.transpose
    movedim, moveaxis = movement.movedim, movement.movedim
    squeeze, unsqueeze, expand_as, view_as = (
        movement.squeeze, movement.unsqueeze, movement.expand_as, movement.view_as
    )  # fmt: skip
    expand, broadcast_to, reshape_as = movement.expand, movement.expand, movement.view_as
    flip, fliplr, flipud, rot90 = movement.flip, movement.fliplr, movement.flipud, movement.rot90
    repeat, tile, repeat_interleave = movement.repeat, movement.tile, layouts.repeat_interleave
    pad, roll, shrink = padding.pad, padding.roll, movement.shrink
    cat, stack, concat, concatenate = (
        joining.cat_method, joining.stack_method, joining.cat_method, joining.cat_method
    )  # fmt: skip
    split, chunk, unbind, tensor_split = joining.split, joining.chunk, joining.unbind, joining.tensor_split
    split_with_sizes = joining.split
    hsplit, vsplit, dsplit = joining.hsplit, joining.vsplit, joining.dsplit
    atleast_1d, atleast_2d, atleast_3d = joining.atleast_1d, joining.atleast_2d, joining.atleast_3d
    unfold, as_strided = layouts.unfold, layouts.as_strided
    diagonal, diag, diag_embed, diagflat = (
        movement.diagonal, layouts.diag, layouts.diag_embed, layouts.diagflat
    )  # fmt: skip
    tril, triu, trace = movement.tril, movement.triu, layouts.trace
    pixel_shuffle, pixel_unshuffle = layouts.pixel_shuffle, layouts.pixel_unshuffle
    rearrange = layouts.rearrange

    squeeze_, unsqueeze_, t_, transpose_ = rebinding(squeeze, unsqueeze, t, transpose, reshapes=True)
    swapaxes_ = swapdims_ = transpose_
    tril_, triu_ = rebinding(tril, triu)
