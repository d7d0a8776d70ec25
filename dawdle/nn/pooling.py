"""Layers without weights over windows and whole images: pools and unpools, resizing, images as columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from dawdle.nn import functional as F
from dawdle.nn.module import Module
from dawdle.tensor import Tensor

Sizes = int | Sequence[int]


class _Configured(Module):
    """Common part: a function and its ``settings``, attributes of the layer by name."""

    function: ClassVar[Callable[..., Any]]
    settings: ClassVar[tuple[str, ...]] = ()

    def extra_repr(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.settings)


class _Windowed(_Configured):
    """One input."""

    def forward(self, x: Tensor) -> Any:
        return self.function(x, **{name: getattr(self, name) for name in self.settings})


class _MaxPool(_Windowed):
    settings = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Any = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode


class MaxPool1d(_MaxPool):
    """:func:`functional.max_pool1d`; the stride is the kernel's size by default."""

    function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """:func:`functional.max_pool2d`; the stride is the kernel's size by default."""

    function = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """:func:`functional.max_pool3d`; the stride is the kernel's size by default."""

    function = staticmethod(F.max_pool3d)


class _AvgPool(_Windowed):
    settings = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode = padding, ceil_mode
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override


class AvgPool1d(_AvgPool):
    """:func:`functional.avg_pool1d`; the stride is the kernel's size by default."""

    function = staticmethod(F.avg_pool1d)


class AvgPool2d(_AvgPool):
    """:func:`functional.avg_pool2d`; the stride is the kernel's size by default."""

    function = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """:func:`functional.avg_pool3d`; the stride is the kernel's size by default."""

    function = staticmethod(F.avg_pool3d)


class _LPPool(_Windowed):
    settings = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type, self.kernel_size = norm_type, kernel_size
        self.stride, self.ceil_mode = stride, ceil_mode


class LPPool1d(_LPPool):
    """:func:`functional.lp_pool1d`."""

    function = staticmethod(F.lp_pool1d)


class LPPool2d(_LPPool):
    """:func:`functional.lp_pool2d`."""

    function = staticmethod(F.lp_pool2d)


class LPPool3d(_LPPool):
    """:func:`functional.lp_pool3d`."""

    function = staticmethod(F.lp_pool3d)


class _AdaptiveAvgPool(_Windowed):
    settings = ("output_size",)

    def __init__(self, output_size: int | Sequence[int | None]) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """:func:`functional.adaptive_avg_pool1d`."""

    function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """:func:`functional.adaptive_avg_pool2d`."""

    function = staticmethod(F.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """:func:`functional.adaptive_avg_pool3d`."""

    function = staticmethod(F.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_Windowed):
    settings = ("output_size", "return_indices")

    def __init__(self, output_size: int | Sequence[int | None], return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """:func:`functional.adaptive_max_pool1d`."""

    function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """:func:`functional.adaptive_max_pool2d`."""

    function = staticmethod(F.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """:func:`functional.adaptive_max_pool3d`."""

    function = staticmethod(F.adaptive_max_pool3d)


class _FractionalMaxPool(_Windowed):
    settings = ("kernel_size", "output_size", "output_ratio", "return_indices")

    def __init__(
        self,
        kernel_size: Sizes,
        output_size: Sizes | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.output_size = kernel_size, output_size
        self.output_ratio, self.return_indices = output_ratio, return_indices


class FractionalMaxPool2d(_FractionalMaxPool):
    """:func:`functional.fractional_max_pool2d`."""

    function = staticmethod(F.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """:func:`functional.fractional_max_pool3d`."""

    function = staticmethod(F.fractional_max_pool3d)


class _MaxUnpool(_Configured):
    settings = ("kernel_size", "stride", "padding")

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, x: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Any:
        return self.function(x, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """:func:`functional.max_unpool1d`."""

    function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """:func:`functional.max_unpool2d`."""

    function = staticmethod(F.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """:func:`functional.max_unpool3d`."""

    function = staticmethod(F.max_unpool3d)


class Upsample(_Windowed):
    """:func:`functional.interpolate` to ``size`` or by ``scale_factor``."""

    function = staticmethod(F.interpolate)
    settings = ("size", "scale_factor", "mode", "align_corners", "recompute_scale_factor")

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: float | Sequence[float] | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.mode = size, scale_factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor


class UpsamplingNearest2d(Upsample):
    """:class:`Upsample` of images, mode "nearest"."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """:class:`Upsample` of images, mode "bilinear" with aligned corners."""

    def __init__(
        self, size: Sizes | None = None, scale_factor: float | Sequence[float] | None = None
    ) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


class Unfold(_Windowed):
    """:func:`functional.unfold`: images as columns of windows."""

    function = staticmethod(F.unfold)
    settings = ("kernel_size", "dilation", "padding", "stride")

    def __init__(
        self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride


class Fold(_Windowed):
    """:func:`functional.fold`: columns of windows added up to images."""

    function = staticmethod(F.fold)
    settings = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(
        self,
        output_size: Sizes,
        kernel_size: Sizes,
        dilation: Sizes = 1,
        padding: Sizes = 0,
        stride: Sizes = 1,
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride
