"""Layers with weights: Linear, convolutions, Embedding; and those that only reshape or drop."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dawdle.errors import ArgumentError, ShapeError
from dawdle.nn import functional as F
from dawdle.nn import init
from dawdle.nn.module import Module, Parameter
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import no_grad
from dawdle.tensor.elementwise import where
from dawdle.tensor.windows import paddings

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class Identity(Module):
    """Gives back its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, x: Any) -> Any:
        return x


class Flatten(Module):
    """Joins the axes from ``start_dim`` to ``end_dim`` into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Linear(Module):
    """:func:`functional.linear` with ``weight`` (out, in) and ``bias`` (out,), both uniform in ±1/√in at
    first.
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = empty_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", empty_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        _reset_weight_and_bias(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}" + ("" if self.bias is not None else ", bias=False")


class _Conv(Module):
    """Common part of the convolutions; ``weight`` (out, in/groups, *kernel), initialised as Linear's."""

    spatial: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] | str = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ShapeError(
                f"groups={groups} must divide both {in_channels} input and {out_channels} output channels"
            )
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = per_axis(kernel_size, self.spatial), per_axis(stride, self.spatial)
        self.padding = padding if isinstance(padding, str) else per_axis(padding, self.spatial)
        self.dilation = per_axis(dilation, self.spatial)
        if padding_mode not in PADDING_MODES:
            raise ArgumentError(f"padding_mode {padding_mode!r} is unknown; use {', '.join(PADDING_MODES)}")
        self.padding_mode = padding_mode
        self.weight = empty_parameter((out_channels, in_channels // groups, *self.kernel_size), device, dtype)
        self.register_parameter("bias", empty_parameter((out_channels,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        _reset_weight_and_bias(self.weight, self.bias)

    def forward(self, x: Tensor) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            span = [(k - 1) * d + 1 for k, d in zip(self.kernel_size, self.dilation, strict=True)]
            pairs = [(0, 0)] * (len(x.shape) - self.spatial) + paddings(padding, self.spatial, span)
            x, padding = x.pad(pairs, self.padding_mode), 0
        return self.function(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        )
        if self.padding != (0,) * self.spatial:
            text += f", padding={self.padding!r}"
        if self.dilation != (1,) * self.spatial:
            text += f", dilation={self.dilation}"
        text += "" if self.groups == 1 else f", groups={self.groups}"
        text += "" if self.bias is not None else ", bias=False"
        return text + ("" if self.padding_mode == "zeros" else f", padding_mode={self.padding_mode}")


class Conv1d(_Conv):
    """:func:`functional.conv1d` with its weights: (N, in, L) → (N, out, L')."""

    spatial = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """:func:`functional.conv2d` with its weights: (N, in, H, W) → (N, out, H', W')."""

    spatial = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """:func:`functional.conv3d` with its weights: (N, in, D, H, W) → (N, out, D', H', W')."""

    spatial = 3
    function = staticmethod(F.conv3d)


class _ConvTranspose(_Conv):
    """Common part of the transposed convolutions; ``weight`` (in, out/groups, *kernel)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
            device=device, dtype=dtype,
        )  # fmt: skip
        self.output_padding = per_axis(output_padding, self.spatial)
        shape = (in_channels, out_channels // groups, *self.kernel_size)
        self.weight = empty_parameter(shape, device, dtype)
        self.reset_parameters()

    def _output_padding(self, x: Tensor, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """What makes the result of ``output_size``, the layer's own by default."""
        if output_size is None:
            return self.output_padding
        assert not isinstance(self.padding, str)
        rows = zip(
            x.shape[-self.spatial :], self.stride, self.padding, self.dilation, self.kernel_size, strict=True
        )
        least = [(n - 1) * s - 2 * p + d * (k - 1) + 1 for n, s, p, d, k in rows]
        return tuple(wanted - size for wanted, size in zip(output_size[-self.spatial :], least, strict=True))

    def forward(self, x: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self._output_padding(x, output_size)
        return self.function(
            x, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def extra_repr(self) -> str:
        text = super().extra_repr()
        extra = self.output_padding
        return text + (f", output_padding={extra}" if any(extra) else "")


class ConvTranspose1d(_ConvTranspose):
    """:func:`functional.conv_transpose1d` with its weights: (N, in, L) → (N, out, L')."""

    spatial = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """:func:`functional.conv_transpose2d` with its weights: (N, in, H, W) → (N, out, H', W')."""

    spatial = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """:func:`functional.conv_transpose3d` with its weights: (N, in, D, H, W) → (N, out, D', H', W')."""

    spatial = 3
    function = staticmethod(F.conv_transpose3d)


class Embedding(Module):
    """A table of vectors, looked up by index: (…) → (…, embedding_dim). Normal at first.

    The vector at ``padding_idx`` is zero at first and gets no gradient.
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: str | None = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise ArgumentError(f"padding_idx={padding_idx} is out of range for {num_embeddings} embeddings")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx if padding_idx is None else padding_idx % num_embeddings
        self.weight = empty_parameter((num_embeddings, embedding_dim), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            rows = Tensor.arange(self.num_embeddings, device=self.weight.device).unsqueeze(1)
            with no_grad():
                self.weight.assign(where(rows != self.padding_idx, self.weight, 0.0))

    def forward(self, index: Tensor) -> Tensor:
        return F.embedding(index, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"


class InPlace(Module):
    """A layer that can rebind its input to its output: with ``inplace``, ``layer(x)`` changes and returns
    ``x``.
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def settings(self) -> str:
        """The other arguments, as they are shown."""
        return ""

    def extra_repr(self) -> str:
        return ", ".join(filter(None, (self.settings(), "inplace=True" if self.inplace else "")))


class Dropout(InPlace):
    """:func:`functional.dropout` in training mode, else the identity."""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__(inplace)
        if not 0 <= p <= 1:
            raise ArgumentError(f"dropout's probability must be in [0, 1], not {p}")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training, self.inplace)

    def settings(self) -> str:
        return f"p={self.p}"


def empty_parameter(shape: tuple[int, ...], device: str | None, dtype: Any) -> Parameter:
    """A parameter of zeros, to be initialised."""
    return Parameter(Tensor.zeros(*shape, dtype=dtype, device=device))


def per_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """One number for each of ``axes`` axes. Raises ShapeError for another count."""
    numbers = (value,) * axes if isinstance(value, int) else tuple(value)
    if len(numbers) != axes:
        raise ShapeError(f"expected one number or {axes}, not {numbers}")
    return numbers


def _reset_weight_and_bias(weight: Tensor, bias: Tensor | None) -> None:
    """Uniform in ±1/√fan_in, as PyTorch: kaiming_uniform_ with the slope √5 comes to the same."""
    fan_in, _ = init.fans(weight)
    bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
    init.uniform_(weight, -bound, bound)
    if bias is not None:
        init.uniform_(bias, -bound, bound)
