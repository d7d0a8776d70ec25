"""Products, and the functions that layers are made of."""

from __future__ import annotations

from dawdle.tensor import (
    attention,
    convolution,
    decompositions,
    distances,
    einsum,
    gridsample,
    linalg,
    matrices,
    pooling,
    resample,
    solving,
)
from dawdle.tensor import normalize as normalization
from dawdle.tensor.operators import rebinding


class Products:
    __slots__ = ()

    matmul, mm, bmm, mv, linear = linalg.matmul, linalg.mm, linalg.bmm, linalg.mv, linalg.linear
    dot, vdot, inner, outer, ger = linalg.dot, linalg.dot, linalg.inner, linalg.outer, linalg.outer
    cross, kron, vecdot, matrix_power = linalg.cross, linalg.kron, linalg.vecdot, linalg.matrix_power
    addmm, addmv, addr, addbmm, baddbmm = (
        linalg.addmm, linalg.addmv, linalg.addr, linalg.addbmm, linalg.baddbmm
    )  # fmt: skip
    dist = distances.dist
    einsum, tensordot = staticmethod(einsum.einsum), einsum.tensordot
    scaled_dot_product_attention = attention.scaled_dot_product_attention
    solve, triangular_solve, lstsq = solving.solve, solving.triangular_solve, matrices.lstsq
    solve_triangular, inverse, pinverse = (
        solving.solve_triangular, solving.inverse, decompositions.pinv
    )  # fmt: skip
    det, slogdet, logdet = solving.det, solving.slogdet, solving.logdet
    cholesky, cholesky_solve, cholesky_inverse = (
        decompositions.cholesky, matrices.cholesky_solve, matrices.cholesky_inverse
    )  # fmt: skip
    qr, svd, svdvals = matrices.qr_method, matrices.svd_method, decompositions.svdvals
    eigh, eigvalsh, pinv = decompositions.eigh, decompositions.eigvalsh, decompositions.pinv
    matrix_norm, matrix_rank = matrices.matrix_norm, matrices.matrix_rank
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

    addmm_, addmv_, addr_, addbmm_, baddbmm_ = rebinding(addmm, addmv, addr, addbmm, baddbmm)
