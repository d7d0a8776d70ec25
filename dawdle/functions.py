"""Functions of tensors by the names that they have as methods: ``dawdle.sum(x, 0)`` is ``x.sum(0)``."""

from __future__ import annotations

from dawdle.tensor import Tensor
from dawdle.tensor.joining import (
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    column_stack,
    dstack,
    hstack,
    meshgrid,
    vstack,
)

# fmt: off
abs, absolute, acos, acosh = Tensor.abs, Tensor.absolute, Tensor.acos, Tensor.acosh
adaptive_avg_pool1d, adaptive_max_pool1d = Tensor.adaptive_avg_pool1d, Tensor.adaptive_max_pool1d
add, addbmm, addcdiv, addcmul = Tensor.add, Tensor.addbmm, Tensor.addcdiv, Tensor.addcmul
addmm, addmv, addr, all, allclose = Tensor.addmm, Tensor.addmv, Tensor.addr, Tensor.all, Tensor.allclose
amax, amin, aminmax, any, arccos = Tensor.amax, Tensor.amin, Tensor.aminmax, Tensor.any, Tensor.arccos
arccosh, arcsin, arcsinh, arctan = Tensor.arccosh, Tensor.arcsin, Tensor.arcsinh, Tensor.arctan
arctan2, arctanh, argmax, argmin = Tensor.arctan2, Tensor.arctanh, Tensor.argmax, Tensor.argmin
argsort, argwhere, as_strided, asin = Tensor.argsort, Tensor.argwhere, Tensor.as_strided, Tensor.asin
asinh, atan, atan2, atanh = Tensor.asinh, Tensor.atan, Tensor.atan2, Tensor.atanh
atleast_1d, atleast_2d, atleast_3d = Tensor.atleast_1d, Tensor.atleast_2d, Tensor.atleast_3d
avg_pool1d, baddbmm, bernoulli = Tensor.avg_pool1d, Tensor.baddbmm, Tensor.bernoulli
bincount, bitwise_and, bitwise_left_shift = Tensor.bincount, Tensor.bitwise_and, Tensor.bitwise_left_shift
bitwise_not, bitwise_or = Tensor.bitwise_not, Tensor.bitwise_or
bitwise_right_shift, bitwise_xor, bmm = Tensor.bitwise_right_shift, Tensor.bitwise_xor, Tensor.bmm
broadcast_to, bucketize, ceil, celu = Tensor.broadcast_to, Tensor.bucketize, Tensor.ceil, Tensor.celu
cholesky, cholesky_inverse, cholesky_solve = Tensor.cholesky, Tensor.cholesky_inverse, Tensor.cholesky_solve
chunk, clamp, clamp_max, clamp_min = Tensor.chunk, Tensor.clamp, Tensor.clamp_max, Tensor.clamp_min
clip, clone, concat, concatenate = Tensor.clip, Tensor.clone, Tensor.concat, Tensor.concatenate
conv1d, conv2d, conv3d = Tensor.conv1d, Tensor.conv2d, Tensor.conv3d
conv_transpose1d, conv_transpose2d = Tensor.conv_transpose1d, Tensor.conv_transpose2d
conv_transpose3d, copysign, corrcoef = Tensor.conv_transpose3d, Tensor.copysign, Tensor.corrcoef
cos, cosh, count_nonzero, cov = Tensor.cos, Tensor.cosh, Tensor.count_nonzero, Tensor.cov
cross, cummax, cummin, cumprod = Tensor.cross, Tensor.cummax, Tensor.cummin, Tensor.cumprod
cumsum, cumulative_trapezoid, deg2rad = Tensor.cumsum, Tensor.cumulative_trapezoid, Tensor.deg2rad
det, diag, diag_embed, diagflat = Tensor.det, Tensor.diag, Tensor.diag_embed, Tensor.diagflat
diagonal, diagonal_scatter, diff = Tensor.diagonal, Tensor.diagonal_scatter, Tensor.diff
digamma, div, divide, dot, dropout = Tensor.digamma, Tensor.div, Tensor.divide, Tensor.dot, Tensor.dropout
dsplit, empty_like, eq, equal, erf = Tensor.dsplit, Tensor.empty_like, Tensor.eq, Tensor.equal, Tensor.erf
erfc, exp, exp2, expand, expm1 = Tensor.erfc, Tensor.exp, Tensor.exp2, Tensor.expand, Tensor.expm1
fill, fix, flatten, flip, fliplr = Tensor.fill, Tensor.fix, Tensor.flatten, Tensor.flip, Tensor.fliplr
flipud, float_power, floor = Tensor.flipud, Tensor.float_power, Tensor.floor
floor_divide, fmax, fmin, fmod = Tensor.floor_divide, Tensor.fmax, Tensor.fmin, Tensor.fmod
frac, frexp, full_like, gather, gcd = Tensor.frac, Tensor.frexp, Tensor.full_like, Tensor.gather, Tensor.gcd
ge, ger, greater, greater_equal, gt = Tensor.ge, Tensor.ger, Tensor.greater, Tensor.greater_equal, Tensor.gt
hardshrink, heaviside, histc = Tensor.hardshrink, Tensor.heaviside, Tensor.histc
histogram, hsplit, hypot, index_add = Tensor.histogram, Tensor.hsplit, Tensor.hypot, Tensor.index_add
index_copy, index_fill, index_put = Tensor.index_copy, Tensor.index_fill, Tensor.index_put
index_reduce, index_select, inner = Tensor.index_reduce, Tensor.index_select, Tensor.inner
inverse, isclose, isfinite, isin = Tensor.inverse, Tensor.isclose, Tensor.isfinite, Tensor.isin
isinf, isnan, isneginf, isposinf = Tensor.isinf, Tensor.isnan, Tensor.isneginf, Tensor.isposinf
kron, kthvalue, lcm, ldexp, le = Tensor.kron, Tensor.kthvalue, Tensor.lcm, Tensor.ldexp, Tensor.le
lerp, less, less_equal, lgamma, log = Tensor.lerp, Tensor.less, Tensor.less_equal, Tensor.lgamma, Tensor.log
log10, log1p, log2, log_softmax = Tensor.log10, Tensor.log1p, Tensor.log2, Tensor.log_softmax
logaddexp, logaddexp2, logcumsumexp = Tensor.logaddexp, Tensor.logaddexp2, Tensor.logcumsumexp
logdet, logical_and, logical_not = Tensor.logdet, Tensor.logical_and, Tensor.logical_not
logical_or, logical_xor, logit = Tensor.logical_or, Tensor.logical_xor, Tensor.logit
logspace, logsumexp, lt, masked_fill = Tensor.logspace, Tensor.logsumexp, Tensor.lt, Tensor.masked_fill
masked_scatter, masked_select, matmul = Tensor.masked_scatter, Tensor.masked_select, Tensor.matmul
matrix_power, matrix_rank, max = Tensor.matrix_power, Tensor.matrix_rank, Tensor.max
max_pool1d, max_pool2d, max_pool3d = Tensor.max_pool1d, Tensor.max_pool2d, Tensor.max_pool3d
maximum, mean, median, min, minimum = Tensor.maximum, Tensor.mean, Tensor.median, Tensor.min, Tensor.minimum
mm, mode, moveaxis, movedim, msort = Tensor.mm, Tensor.mode, Tensor.moveaxis, Tensor.movedim, Tensor.msort
mul, multinomial, multiply, mv = Tensor.mul, Tensor.multinomial, Tensor.multiply, Tensor.mv
nan_to_num, nanmean, nanmedian = Tensor.nan_to_num, Tensor.nanmean, Tensor.nanmedian
nanquantile, nansum, narrow, ne = Tensor.nanquantile, Tensor.nansum, Tensor.narrow, Tensor.ne
neg, negative, nonzero, norm = Tensor.neg, Tensor.negative, Tensor.nonzero, Tensor.norm
normal, not_equal, one_hot, ones_like = Tensor.normal, Tensor.not_equal, Tensor.one_hot, Tensor.ones_like
outer, pad, permute, pinverse = Tensor.outer, Tensor.pad, Tensor.permute, Tensor.pinverse
pixel_shuffle, pixel_unshuffle, positive = Tensor.pixel_shuffle, Tensor.pixel_unshuffle, Tensor.positive
pow, prod, put, qr, quantile = Tensor.pow, Tensor.prod, Tensor.put, Tensor.qr, Tensor.quantile
rad2deg, rand_like, randint_like = Tensor.rad2deg, Tensor.rand_like, Tensor.randint_like
randn_like, randperm, ravel, rearrange = Tensor.randn_like, Tensor.randperm, Tensor.ravel, Tensor.rearrange
reciprocal, relu, remainder, repeat = Tensor.reciprocal, Tensor.relu, Tensor.remainder, Tensor.repeat
repeat_interleave, reshape, rms_norm = Tensor.repeat_interleave, Tensor.reshape, Tensor.rms_norm
roll, rot90, round, rrelu, rsqrt = Tensor.roll, Tensor.rot90, Tensor.round, Tensor.rrelu, Tensor.rsqrt
scatter, scatter_add, scatter_reduce = Tensor.scatter, Tensor.scatter_add, Tensor.scatter_reduce
searchsorted, select, select_scatter = Tensor.searchsorted, Tensor.select, Tensor.select_scatter
selu, sgn, sigmoid, sign, signbit = Tensor.selu, Tensor.sgn, Tensor.sigmoid, Tensor.sign, Tensor.signbit
sin, sinc, sinh, slice_scatter = Tensor.sin, Tensor.sinc, Tensor.sinh, Tensor.slice_scatter
slogdet, softmax, solve, sort = Tensor.slogdet, Tensor.softmax, Tensor.solve, Tensor.sort
split, sqrt, square, squeeze, std = Tensor.split, Tensor.sqrt, Tensor.square, Tensor.squeeze, Tensor.std
std_mean, sub, subtract, sum, svd = Tensor.std_mean, Tensor.sub, Tensor.subtract, Tensor.sum, Tensor.svd
swapaxes, swapdims, t, take = Tensor.swapaxes, Tensor.swapdims, Tensor.t, Tensor.take
take_along_dim, tan, tanh = Tensor.take_along_dim, Tensor.tan, Tensor.tanh
tensor_split, threshold, tile, topk = Tensor.tensor_split, Tensor.threshold, Tensor.tile, Tensor.topk
trace, transpose, trapezoid = Tensor.trace, Tensor.transpose, Tensor.trapezoid
triangular_solve, tril, tril_indices = Tensor.triangular_solve, Tensor.tril, Tensor.tril_indices
triu, triu_indices, true_divide, trunc = Tensor.triu, Tensor.triu_indices, Tensor.true_divide, Tensor.trunc
unbind, unflatten, uniform, unique = Tensor.unbind, Tensor.unflatten, Tensor.uniform, Tensor.unique
unique_consecutive, unsqueeze, vander = Tensor.unique_consecutive, Tensor.unsqueeze, Tensor.vander
var, var_mean, vdot, vecdot, vsplit = Tensor.var, Tensor.var_mean, Tensor.vdot, Tensor.vecdot, Tensor.vsplit
xlogy, zeros_like = Tensor.xlogy, Tensor.zeros_like

__all__ = [
    "abs", "absolute", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_max_pool1d", "add", "addbmm",
    "addcdiv", "addcmul", "addmm", "addmv", "addr", "all", "allclose", "amax", "amin", "aminmax", "any",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort",
    "argwhere", "as_strided", "asin", "asinh", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d",
    "atleast_3d", "avg_pool1d", "baddbmm", "bernoulli", "bincount", "bitwise_and", "bitwise_left_shift",
    "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "block_diag", "bmm",
    "broadcast_shapes", "broadcast_tensors", "broadcast_to", "bucketize", "cartesian_prod", "ceil", "celu",
    "cholesky", "cholesky_inverse", "cholesky_solve", "chunk", "clamp", "clamp_max", "clamp_min", "clip",
    "clone", "column_stack", "concat", "concatenate", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "copysign", "corrcoef", "cos", "cosh", "count_nonzero", "cov",
    "cross", "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "deg2rad", "det", "diag",
    "diag_embed", "diagflat", "diagonal", "diagonal_scatter", "diff", "digamma", "div", "divide", "dot",
    "dropout", "dsplit", "dstack", "empty_like", "eq", "equal", "erf", "erfc", "exp", "exp2", "expand",
    "expm1", "fill", "fix", "flatten", "flip", "fliplr", "flipud", "float_power", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "frac", "frexp", "full_like", "gather", "gcd", "ge", "ger", "greater",
    "greater_equal", "gt", "hardshrink", "heaviside", "histc", "histogram", "hsplit", "hstack", "hypot",
    "index_add", "index_copy", "index_fill", "index_put", "index_reduce", "index_select", "inner",
    "inverse", "isclose", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "kron", "kthvalue",
    "lcm", "ldexp", "le", "lerp", "less", "less_equal", "lgamma", "log", "log1p", "log2", "log10",
    "log_softmax", "logaddexp", "logaddexp2", "logcumsumexp", "logdet", "logical_and", "logical_not",
    "logical_or", "logical_xor", "logit", "logspace", "logsumexp", "lt", "masked_fill", "masked_scatter",
    "masked_select", "matmul", "matrix_power", "matrix_rank", "max", "max_pool1d", "max_pool2d",
    "max_pool3d", "maximum", "mean", "median", "meshgrid", "min", "minimum", "mm", "mode", "moveaxis",
    "movedim", "msort", "mul", "multinomial", "multiply", "mv", "nan_to_num", "nanmean", "nanmedian",
    "nanquantile", "nansum", "narrow", "ne", "neg", "negative", "nonzero", "norm", "normal", "not_equal",
    "one_hot", "ones_like", "outer", "pad", "permute", "pinverse", "pixel_shuffle", "pixel_unshuffle",
    "positive", "pow", "prod", "put", "qr", "quantile", "rad2deg", "rand_like", "randint_like",
    "randn_like", "randperm", "ravel", "rearrange", "reciprocal", "relu", "remainder", "repeat",
    "repeat_interleave", "reshape", "rms_norm", "roll", "rot90", "round", "rrelu", "rsqrt", "scatter",
    "scatter_add", "scatter_reduce", "searchsorted", "select", "select_scatter", "selu", "sgn", "sigmoid",
    "sign", "signbit", "sin", "sinc", "sinh", "slice_scatter", "slogdet", "softmax", "solve", "sort",
    "split", "sqrt", "square", "squeeze", "std", "std_mean", "sub", "subtract", "sum", "svd", "swapaxes",
    "swapdims", "t", "take", "take_along_dim", "tan", "tanh", "tensor_split", "threshold", "tile", "topk",
    "trace", "transpose", "trapezoid", "triangular_solve", "tril", "tril_indices", "triu", "triu_indices",
    "true_divide", "trunc", "unbind", "unflatten", "uniform", "unique", "unique_consecutive", "unsqueeze",
    "vander", "var", "var_mean", "vdot", "vecdot", "vsplit", "vstack", "xlogy", "zeros_like",
]
# fmt: on
