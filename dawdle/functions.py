"""Functions of tensors by the names that they have as methods: ``dawdle.sum(x, 0)`` is ``x.sum(0)``.

Arrays, nested lists and numbers serve as the first argument too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from dawdle.tensor import Tensor
from dawdle.tensor import counts as _counts
from dawdle.tensor import distances as _distances
from dawdle.tensor import elementwise as _elementwise
from dawdle.tensor.arguments import public as _public
from dawdle.tensor.core import Operand, is_scalar, keywords
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

P = ParamSpec("P")
R = TypeVar("R")


_MISSING: Any = object()


def function(method: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Operand, P], R]:
    """A method as a function, whose first argument, ``input``, may be anything that a tensor can be made of.
    """
    return _function(method, False)


def elementwise(method: Callable[Concatenate[Tensor, P], R]) -> Callable[Concatenate[Operand, P], R]:
    """:func:`function` for methods of two operands: a number beside a tensor takes the dtype of that."""
    return _function(method, True)


def _function(
    method: Callable[Concatenate[Tensor, P], R], weak: bool
) -> Callable[Concatenate[Operand, P], R]:
    @wraps(method)
    def of(x: Operand = _MISSING, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if x is _MISSING:
            if "input" not in kwargs:
                raise TypeError(f"{method.__name__}() missing its first argument, 'input'")
            x = kwargs.pop("input")  # type: ignore[assignment]
        if not isinstance(x, Tensor):
            others = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
            if not (weak and others and is_scalar(x)):
                x = Tensor(x, device=others[0].device if others else None)
        return method(x, *args, **kwargs)  # type: ignore[arg-type]

    return of


_where = keywords(input="a", other="b")(_elementwise.where)


@overload
def where(condition: Operand, /) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Operand, *choices: Operand, **named: Operand) -> Tensor: ...
def where(condition: Any, *choices: Any, **named: Any) -> Any:
    """``where(condition, a, b)``: ``a`` where the bool ``condition`` holds, else ``b``, broadcast together;
    the branch not taken gets a zero gradient, even where its value is NaN. ``a`` and ``b`` are also called
    ``input`` and ``other``.

    ``where(condition)``: the indices at which it holds, as :meth:`Tensor.nonzero` with ``as_tuple``.
    """
    if not choices and not named:
        places: tuple[Tensor, ...] = nonzero(condition, as_tuple=True)
        return places
    return _where(condition, *choices, **named)


abs = function(Tensor.abs)
absolute = function(Tensor.absolute)
acos = function(Tensor.acos)
acosh = function(Tensor.acosh)
adaptive_avg_pool1d = function(Tensor.adaptive_avg_pool1d)
adaptive_max_pool1d = function(Tensor.adaptive_max_pool1d)
add = elementwise(Tensor.add)
addbmm = function(Tensor.addbmm)
addcdiv = elementwise(Tensor.addcdiv)
addcmul = elementwise(Tensor.addcmul)
addmm = function(Tensor.addmm)
addmv = function(Tensor.addmv)
addr = function(Tensor.addr)
all = function(Tensor.all)
allclose = elementwise(Tensor.allclose)
amax = function(Tensor.amax)
amin = function(Tensor.amin)
aminmax = function(Tensor.aminmax)
any = function(Tensor.any)
arccos = function(Tensor.arccos)
arccosh = function(Tensor.arccosh)
arcsin = function(Tensor.arcsin)
arcsinh = function(Tensor.arcsinh)
arctan = function(Tensor.arctan)
arctan2 = elementwise(Tensor.arctan2)
arctanh = function(Tensor.arctanh)
argmax = function(Tensor.argmax)
argmin = function(Tensor.argmin)
argsort = function(Tensor.argsort)
argwhere = function(Tensor.argwhere)
as_strided = function(Tensor.as_strided)
asin = function(Tensor.asin)
asinh = function(Tensor.asinh)
atan = function(Tensor.atan)
atan2 = elementwise(Tensor.atan2)
atanh = function(Tensor.atanh)
atleast_1d = function(Tensor.atleast_1d)
atleast_2d = function(Tensor.atleast_2d)
atleast_3d = function(Tensor.atleast_3d)
avg_pool1d = function(Tensor.avg_pool1d)
baddbmm = function(Tensor.baddbmm)
bernoulli = function(Tensor.bernoulli)
bincount = function(Tensor.bincount)
binomial = _public(_counts.binomial)
bitwise_and = elementwise(Tensor.bitwise_and)
bitwise_left_shift = elementwise(Tensor.bitwise_left_shift)
bitwise_not = function(Tensor.bitwise_not)
bitwise_or = elementwise(Tensor.bitwise_or)
bitwise_right_shift = elementwise(Tensor.bitwise_right_shift)
bitwise_xor = elementwise(Tensor.bitwise_xor)
bmm = function(Tensor.bmm)
broadcast_to = function(Tensor.broadcast_to)
bucketize = function(Tensor.bucketize)
cdist = _public(_distances.cdist)
ceil = function(Tensor.ceil)
celu = function(Tensor.celu)
cholesky = function(Tensor.cholesky)
cholesky_inverse = function(Tensor.cholesky_inverse)
cholesky_solve = function(Tensor.cholesky_solve)
chunk = function(Tensor.chunk)
clamp = function(Tensor.clamp)
clamp_max = function(Tensor.clamp_max)
clamp_min = function(Tensor.clamp_min)
clip = function(Tensor.clip)
clone = function(Tensor.clone)
concat = Tensor.concat
concatenate = Tensor.concatenate
conv1d = function(Tensor.conv1d)
conv2d = function(Tensor.conv2d)
conv3d = function(Tensor.conv3d)
conv_transpose1d = function(Tensor.conv_transpose1d)
conv_transpose2d = function(Tensor.conv_transpose2d)
conv_transpose3d = function(Tensor.conv_transpose3d)
copysign = elementwise(Tensor.copysign)
corrcoef = function(Tensor.corrcoef)
cos = function(Tensor.cos)
cosh = function(Tensor.cosh)
cosine_similarity = _public(_distances.cosine_similarity)
count_nonzero = function(Tensor.count_nonzero)
cov = function(Tensor.cov)
cross = function(Tensor.cross)
cummax = function(Tensor.cummax)
cummin = function(Tensor.cummin)
cumprod = function(Tensor.cumprod)
cumsum = function(Tensor.cumsum)
cumulative_trapezoid = function(Tensor.cumulative_trapezoid)
deg2rad = function(Tensor.deg2rad)
det = function(Tensor.det)
diag = function(Tensor.diag)
diag_embed = function(Tensor.diag_embed)
diagflat = function(Tensor.diagflat)
diagonal = function(Tensor.diagonal)
diagonal_scatter = function(Tensor.diagonal_scatter)
diff = function(Tensor.diff)
digamma = function(Tensor.digamma)
dist = function(Tensor.dist)
div = elementwise(Tensor.div)
divide = elementwise(Tensor.divide)
dot = function(Tensor.dot)
dropout = function(Tensor.dropout)
dsplit = function(Tensor.dsplit)
empty_like = function(Tensor.empty_like)
eq = elementwise(Tensor.eq)
equal = function(Tensor.equal)
erf = function(Tensor.erf)
erfc = function(Tensor.erfc)
erfinv = function(Tensor.erfinv)
exp = function(Tensor.exp)
exp2 = function(Tensor.exp2)
expand = function(Tensor.expand)
expm1 = function(Tensor.expm1)
fill = function(Tensor.fill)
fix = function(Tensor.fix)
flatten = function(Tensor.flatten)
flip = function(Tensor.flip)
fliplr = function(Tensor.fliplr)
flipud = function(Tensor.flipud)
float_power = elementwise(Tensor.float_power)
floor = function(Tensor.floor)
floor_divide = elementwise(Tensor.floor_divide)
fmax = elementwise(Tensor.fmax)
fmin = elementwise(Tensor.fmin)
fmod = elementwise(Tensor.fmod)
frac = function(Tensor.frac)
frexp = function(Tensor.frexp)
full_like = function(Tensor.full_like)
gather = function(Tensor.gather)
gcd = elementwise(Tensor.gcd)
ge = elementwise(Tensor.ge)
ger = function(Tensor.ger)
greater = elementwise(Tensor.greater)
greater_equal = elementwise(Tensor.greater_equal)
gt = elementwise(Tensor.gt)
hardshrink = function(Tensor.hardshrink)
heaviside = elementwise(Tensor.heaviside)
histc = function(Tensor.histc)
histogram = function(Tensor.histogram)
hsplit = function(Tensor.hsplit)
hypot = elementwise(Tensor.hypot)
index_add = function(Tensor.index_add)
index_copy = function(Tensor.index_copy)
index_fill = function(Tensor.index_fill)
index_put = function(Tensor.index_put)
index_reduce = function(Tensor.index_reduce)
index_select = function(Tensor.index_select)
inner = function(Tensor.inner)
inverse = function(Tensor.inverse)
isclose = elementwise(Tensor.isclose)
isfinite = function(Tensor.isfinite)
isin = function(Tensor.isin)
isinf = function(Tensor.isinf)
isnan = function(Tensor.isnan)
isneginf = function(Tensor.isneginf)
isposinf = function(Tensor.isposinf)
kron = function(Tensor.kron)
kthvalue = function(Tensor.kthvalue)
lcm = elementwise(Tensor.lcm)
ldexp = function(Tensor.ldexp)
le = elementwise(Tensor.le)
lerp = elementwise(Tensor.lerp)
less = elementwise(Tensor.less)
less_equal = elementwise(Tensor.less_equal)
lgamma = function(Tensor.lgamma)
log = function(Tensor.log)
log10 = function(Tensor.log10)
log1p = function(Tensor.log1p)
log2 = function(Tensor.log2)
log_softmax = function(Tensor.log_softmax)
logaddexp = elementwise(Tensor.logaddexp)
logaddexp2 = elementwise(Tensor.logaddexp2)
logcumsumexp = function(Tensor.logcumsumexp)
logdet = function(Tensor.logdet)
logical_and = function(Tensor.logical_and)
logical_not = function(Tensor.logical_not)
logical_or = function(Tensor.logical_or)
logical_xor = function(Tensor.logical_xor)
logit = function(Tensor.logit)
logspace = Tensor.logspace
logsumexp = function(Tensor.logsumexp)
lt = elementwise(Tensor.lt)
masked_fill = function(Tensor.masked_fill)
masked_scatter = function(Tensor.masked_scatter)
masked_select = function(Tensor.masked_select)
matmul = function(Tensor.matmul)
matrix_power = function(Tensor.matrix_power)
matrix_rank = function(Tensor.matrix_rank)
max = elementwise(Tensor.max)
max_pool1d = function(Tensor.max_pool1d)
max_pool2d = function(Tensor.max_pool2d)
max_pool3d = function(Tensor.max_pool3d)
maximum = elementwise(Tensor.maximum)
mean = function(Tensor.mean)
median = function(Tensor.median)
min = elementwise(Tensor.min)
minimum = elementwise(Tensor.minimum)
mm = function(Tensor.mm)
mode = function(Tensor.mode)
moveaxis = function(Tensor.moveaxis)
movedim = function(Tensor.movedim)
msort = function(Tensor.msort)
mul = elementwise(Tensor.mul)
multinomial = function(Tensor.multinomial)
multiply = elementwise(Tensor.multiply)
mv = function(Tensor.mv)
mvlgamma = function(Tensor.mvlgamma)
nan_to_num = function(Tensor.nan_to_num)
nanmean = function(Tensor.nanmean)
nanmedian = function(Tensor.nanmedian)
nanquantile = function(Tensor.nanquantile)
nansum = function(Tensor.nansum)
narrow = function(Tensor.narrow)
ne = elementwise(Tensor.ne)
neg = function(Tensor.neg)
negative = function(Tensor.negative)
nextafter = elementwise(Tensor.nextafter)
nonzero = function(Tensor.nonzero)
norm = function(Tensor.norm)
normal = Tensor.normal
not_equal = elementwise(Tensor.not_equal)
numel = function(Tensor.numel)
one_hot = function(Tensor.one_hot)
ones_like = function(Tensor.ones_like)
outer = function(Tensor.outer)
pad = function(Tensor.pad)
pairwise_distance = _public(_distances.pairwise_distance)
pdist = _public(_distances.pdist)
permute = function(Tensor.permute)
pinverse = function(Tensor.pinverse)
pixel_shuffle = function(Tensor.pixel_shuffle)
pixel_unshuffle = function(Tensor.pixel_unshuffle)
poisson = function(Tensor.poisson)
positive = function(Tensor.positive)
pow = elementwise(Tensor.pow)
prod = function(Tensor.prod)
put = function(Tensor.put)
qr = function(Tensor.qr)
quantile = function(Tensor.quantile)
rad2deg = function(Tensor.rad2deg)
rand_like = function(Tensor.rand_like)
randint_like = function(Tensor.randint_like)
randn_like = function(Tensor.randn_like)
randperm = Tensor.randperm
ravel = function(Tensor.ravel)
rearrange = function(Tensor.rearrange)
reciprocal = function(Tensor.reciprocal)
relu = function(Tensor.relu)
remainder = elementwise(Tensor.remainder)
renorm = function(Tensor.renorm)
repeat = function(Tensor.repeat)
repeat_interleave = function(Tensor.repeat_interleave)
reshape = function(Tensor.reshape)
rms_norm = function(Tensor.rms_norm)
roll = function(Tensor.roll)
rot90 = function(Tensor.rot90)
round = function(Tensor.round)
rrelu = function(Tensor.rrelu)
rsqrt = function(Tensor.rsqrt)
scatter = function(Tensor.scatter)
scatter_add = function(Tensor.scatter_add)
scatter_reduce = function(Tensor.scatter_reduce)
searchsorted = keywords(input="values", sorted_sequence="input")(function(Tensor.searchsorted))
select = function(Tensor.select)
select_scatter = function(Tensor.select_scatter)
selu = function(Tensor.selu)
sgn = function(Tensor.sgn)
sigmoid = function(Tensor.sigmoid)
sign = function(Tensor.sign)
signbit = function(Tensor.signbit)
sin = function(Tensor.sin)
sinc = function(Tensor.sinc)
sinh = function(Tensor.sinh)
slice_scatter = function(Tensor.slice_scatter)
slogdet = function(Tensor.slogdet)
softmax = function(Tensor.softmax)
solve = function(Tensor.solve)
sort = function(Tensor.sort)
split = function(Tensor.split)
split_with_sizes = function(Tensor.split_with_sizes)
sqrt = function(Tensor.sqrt)
square = function(Tensor.square)
squeeze = function(Tensor.squeeze)
std = function(Tensor.std)
std_mean = function(Tensor.std_mean)
sub = elementwise(Tensor.sub)
subtract = elementwise(Tensor.subtract)
sum = function(Tensor.sum)
svd = function(Tensor.svd)
swapaxes = function(Tensor.swapaxes)
swapdims = function(Tensor.swapdims)
t = function(Tensor.t)
take = function(Tensor.take)
take_along_dim = function(Tensor.take_along_dim)
tan = function(Tensor.tan)
tanh = function(Tensor.tanh)
tensor_split = function(Tensor.tensor_split)
threshold = function(Tensor.threshold)
tile = function(Tensor.tile)
topk = function(Tensor.topk)
trace = function(Tensor.trace)
transpose = function(Tensor.transpose)
trapezoid = function(Tensor.trapezoid)
triangular_solve = function(Tensor.triangular_solve)
tril = function(Tensor.tril)
tril_indices = Tensor.tril_indices
triu = function(Tensor.triu)
triu_indices = Tensor.triu_indices
true_divide = elementwise(Tensor.true_divide)
trunc = function(Tensor.trunc)
unbind = function(Tensor.unbind)
unflatten = function(Tensor.unflatten)
uniform = Tensor.uniform
unique = function(Tensor.unique)
unique_consecutive = function(Tensor.unique_consecutive)
unsqueeze = function(Tensor.unsqueeze)
vander = function(Tensor.vander)
var = function(Tensor.var)
var_mean = function(Tensor.var_mean)
vdot = function(Tensor.vdot)
vecdot = function(Tensor.vecdot)
vsplit = function(Tensor.vsplit)
xlogy = elementwise(Tensor.xlogy)
zeros_like = function(Tensor.zeros_like)
row_stack, trapz = vstack, trapezoid

# fmt: off
__all__ = [  # noqa: RUF022
    "abs", "absolute", "acos", "acosh", "adaptive_avg_pool1d", "adaptive_max_pool1d", "add", "addbmm",
    "addcdiv", "addcmul", "addmm", "addmv", "addr", "all", "allclose", "amax", "amin", "aminmax", "any",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin", "argsort",
    "argwhere", "as_strided", "asin", "asinh", "atan", "atan2", "atanh", "atleast_1d", "atleast_2d",
    "atleast_3d", "avg_pool1d", "baddbmm", "bernoulli", "bincount", "binomial", "bitwise_and",
    "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "block_diag",
    "bmm", "broadcast_shapes", "broadcast_tensors", "broadcast_to", "bucketize", "cartesian_prod", "cdist",
    "ceil", "celu", "cholesky", "cholesky_inverse", "cholesky_solve", "chunk", "clamp", "clamp_max",
    "clamp_min", "clip", "clone", "column_stack", "concat", "concatenate", "conv1d", "conv2d", "conv3d",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "copysign", "corrcoef", "cos", "cosh",
    "cosine_similarity", "count_nonzero", "cov", "cross", "cummax", "cummin", "cumprod", "cumsum",
    "cumulative_trapezoid", "deg2rad", "det", "diag", "diag_embed", "diagflat", "diagonal",
    "diagonal_scatter", "diff", "digamma", "dist", "div", "divide", "dot", "dropout", "dsplit", "dstack",
    "empty_like", "eq", "equal", "erf", "erfc", "erfinv", "exp", "exp2", "expand", "expm1", "fill", "fix",
    "flatten", "flip", "fliplr", "flipud", "float_power", "floor", "floor_divide", "fmax", "fmin", "fmod",
    "frac", "frexp", "full_like", "gather", "gcd", "ge", "ger", "greater", "greater_equal", "gt",
    "hardshrink", "heaviside", "histc", "histogram", "hsplit", "hstack", "hypot", "index_add", "index_copy",
    "index_fill", "index_put", "index_reduce", "index_select", "inner", "inverse", "isclose", "isfinite",
    "isin", "isinf", "isnan", "isneginf", "isposinf", "kron", "kthvalue", "lcm", "ldexp", "le", "lerp",
    "less", "less_equal", "lgamma", "log", "log10", "log1p", "log2", "log_softmax", "logaddexp", "logaddexp2",
    "logcumsumexp", "logdet", "logical_and", "logical_not", "logical_or", "logical_xor", "logit", "logspace",
    "logsumexp", "lt", "masked_fill", "masked_scatter", "masked_select", "matmul", "matrix_power",
    "matrix_rank", "max", "max_pool1d", "max_pool2d", "max_pool3d", "maximum", "mean", "median", "meshgrid",
    "min", "minimum", "mm", "mode", "moveaxis", "movedim", "msort", "mul", "multinomial", "multiply", "mv",
    "mvlgamma", "nan_to_num", "nanmean", "nanmedian", "nanquantile", "nansum", "narrow", "ne", "neg",
    "negative", "nextafter", "nonzero", "norm", "normal", "not_equal", "numel", "one_hot", "ones_like",
    "outer", "pad", "pairwise_distance", "pdist", "permute", "pinverse", "pixel_shuffle", "pixel_unshuffle",
    "poisson", "positive", "pow", "prod", "put", "qr", "quantile", "rad2deg", "rand_like", "randint_like",
    "randn_like", "randperm", "ravel", "rearrange", "reciprocal", "relu", "remainder", "renorm", "repeat",
    "repeat_interleave", "reshape", "rms_norm", "roll", "rot90", "round", "row_stack", "rrelu", "rsqrt",
    "scatter", "scatter_add", "scatter_reduce", "searchsorted", "select", "select_scatter", "selu", "sgn",
    "sigmoid", "sign", "signbit", "sin", "sinc", "sinh", "slice_scatter", "slogdet", "softmax", "solve",
    "sort", "split", "split_with_sizes", "sqrt", "square", "squeeze", "std", "std_mean", "sub", "subtract",
    "sum", "svd", "swapaxes", "swapdims", "t", "take", "take_along_dim", "tan", "tanh", "tensor_split",
    "threshold", "tile", "topk", "trace", "transpose", "trapezoid", "trapz", "triangular_solve", "tril",
    "tril_indices", "triu", "triu_indices", "true_divide", "trunc", "unbind", "unflatten", "uniform",
    "unique", "unique_consecutive", "unsqueeze", "vander", "var", "var_mean", "vdot", "vecdot", "vsplit",
    "vstack", "xlogy", "zeros_like",
]
# fmt: on
