"""Products, and the functions that layers are made of."""

from __future__ import annotations

from dawdle.tensor import convolution, gridsample, linalg, resample
from dawdle.tensor import normalize as normalization


class Products:
    __slots__ = ()

    matmul, dot, outer, cross, linear = linalg.matmul, linalg.dot, linalg.outer, linalg.cross, linalg.linear
    mm = bmm = linalg.matmul
    einsum = staticmethod(linalg.einsum)
    scaled_dot_product_attention = linalg.scaled_dot_product_attention
    conv1d = conv2d = conv3d = convolution.conv
    conv_transpose1d = conv_transpose2d = conv_transpose3d = convolution.conv_transpose
    max_pool2d, avg_pool2d = convolution.max_pool, convolution.avg_pool
    interpolate, grid_sample = resample.interpolate, gridsample.grid_sample
    batchnorm, layernorm, rms_norm, normalize = (
        normalization.batchnorm, normalization.layernorm, normalization.rms_norm, normalization.normalize
    )  # fmt: skip
    cross_entropy, nll_loss = normalization.cross_entropy, normalization.nll_loss
    sparse_categorical_crossentropy = normalization.sparse_categorical_crossentropy
