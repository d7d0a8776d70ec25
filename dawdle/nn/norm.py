"""Normalisation layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dawdle.errors import ShapeError
from dawdle.nn import functional as F
from dawdle.nn.layers import per_axis
from dawdle.nn.module import Buffer, Module, Parameter
from dawdle.tensor import Tensor


class _BatchNorm(Module):
    """Common part of the batch norms: ``weight``, ``bias`` and the buffers ``running_mean``, ``running_var``.

    ``momentum=None`` makes the running statistics plain averages over all batches.
    """

    ranks: tuple[int, ...] = ()
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        _register_affine(self, (num_features,), affine, affine, device, dtype)
        statistics: dict[str, Tensor | None] = dict.fromkeys(
            ("running_mean", "running_var", "num_batches_tracked")
        )
        if track_running_stats:
            statistics["running_mean"] = Buffer(Tensor.zeros(num_features, dtype=dtype, device=device))
            statistics["running_var"] = Buffer(Tensor.ones(num_features, dtype=dtype, device=device))
            statistics["num_batches_tracked"] = Buffer(0, dtype="int64", device=device)
        for name, tensor in statistics.items():
            self.register_buffer(name, tensor)

    def forward(self, x: Tensor) -> Tensor:
        if len(x.shape) not in self.ranks or x.shape[1] != self.num_features:
            raise ShapeError(
                f"{type(self).__name__}({self.num_features}) needs {' or '.join(map(str, self.ranks))} axes, "
                f"with {self.num_features} channels on axis 1, but the input has shape {x.shape}"
            )
        batch_statistics = self.training or self.running_mean is None
        momentum: float | Tensor = self.momentum or 0.0
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.assign(self.num_batches_tracked + 1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.to(x.dtype)
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            batch_statistics,
            momentum,
            self.eps,
        )

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"track_running_stats={self.track_running_stats}"
        )


class BatchNorm1d(_BatchNorm):
    """:func:`functional.batch_norm` of (N, C) or (N, C, L), with running statistics for evaluation mode."""

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """:func:`functional.batch_norm` of (N, C, H, W), with running statistics for evaluation mode."""

    ranks = (4,)


class LayerNorm(Module):
    """:func:`functional.layer_norm` over the last axes, whose sizes are ``normalized_shape``."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        _register_affine(
            self, self.normalized_shape, elementwise_affine, elementwise_affine and bias, device, dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class RMSNorm(Module):
    """:func:`functional.rms_norm` over the last axes, whose sizes are ``normalized_shape``."""

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = Parameter(Tensor.ones(*self.normalized_shape, dtype=dtype, device=device))
        self.register_parameter("weight", weight if elementwise_affine else None)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """:func:`functional.group_norm` of (N, num_channels, …)."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if num_groups < 1 or num_channels % num_groups:
            raise ShapeError(f"{num_channels} channels can't be cut into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        _register_affine(self, (num_channels,), affine, affine, device, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}"


def _register_affine(
    module: Module, shape: tuple[int, ...], weight: bool, bias: bool, device: str | None, dtype: Any
) -> None:
    ones, zeros = (make(*shape, dtype=dtype, device=device) for make in (Tensor.ones, Tensor.zeros))
    module.register_parameter("weight", Parameter(ones) if weight else None)
    module.register_parameter("bias", Parameter(zeros) if bias else None)


def _shape(shape: int | Sequence[int]) -> tuple[int, ...]:
    return per_axis(shape, 1) if isinstance(shape, int) else tuple(shape)
