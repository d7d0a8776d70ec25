"""Products, and the functions that layers are made of."""

from __future__ import annotations

from dawdle.tensor import convolution, gridsample, linalg, pooling, resample
from dawdle.tensor import normalize as normalization


class Products:
    __slots__ = ()

    matmul, dot, outer, cross, linear = linalg.matmul, linalg.dot, linalg.outer, linalg.cross, linalg.linear
    mm = bmm = linalg.matmul
    einsum = staticmethod(linalg.einsum)
    scaled_dot_product_attention = linalg.scaled_dot_product_attention
    conv1d, conv2d, conv3d = convolution.conv1d, convolution.conv2d, convolution.conv3d
    conv_transpose1d, conv_transpose2d, conv_transpose3d = (
        convolution.conv_transpose1d, convolution.conv_transpose2d, convolution.conv_transpose3d
    )  # fmt: skip
    max_pool1d, max_pool2d, max_pool3d = pooling.max_pool1d, pooling.max_pool2d, pooling.max_pool3d
    avg_pool1d, avg_pool2d, avg_pool3d = pooling.avg_pool1d, pooling.avg_pool2d, pooling.avg_pool3d
    lp_pool1d, lp_pool2d, lp_pool3d = pooling.lp_pool1d, pooling.lp_pool2d, pooling.lp_pool3d
    adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (
        pooling.adaptive_avg_pool1d, pooling.adaptive_avg_pool2d, pooling.adaptive_avg_pool3d
    )  # fmt: skip
    adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (
        pooling.adaptive_max_pool1d, pooling.adaptive_max_pool2d, pooling.adaptive_max_pool3d
    )  # fmt: skip
    max_unpool1d, max_unpool2d, max_unpool3d = (
        pooling.max_unpool1d, pooling.max_unpool2d, pooling.max_unpool3d
    )  # fmt: skip
    interpolate, grid_sample = resample.interpolate, gridsample.grid_sample
    batchnorm, layernorm, rms_norm, normalize = (
        normalization.batchnorm, normalization.layernorm, normalization.rms_norm, normalization.normalize
    )  # fmt: skip
    cross_entropy, nll_loss = normalization.cross_entropy, normalization.nll_loss
    sparse_categorical_crossentropy = normalization.sparse_categorical_crossentropy
