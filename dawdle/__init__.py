"""dawdle: a deep-learning framework on a lazy tensor compiler."""
from __future__ import annotations

import math

from dawdle import array_api, arrays, func, functions, gradient, linalg, nn, random, windows
from dawdle import dtype as _dtype
from dawdle.array_api import result_type
from dawdle.arrays import *  # noqa: F403
from dawdle.conversion import (
    as_tensor,
    asarray,
    can_cast,
    detach,
    frombuffer,
    get_default_dtype,
    is_complex,
    is_floating_point,
    is_nonzero,
    is_tensor,
    promote_types,
    scalar_tensor,
    tensor,
)
from dawdle.dtype import (
    DType,
    bfloat16,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from dawdle.errors import (
    ArgumentError,
    ArgumentTypeError,
    CompileError,
    ConversionError,
    DataError,
    DawdleError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexingError,
    InterchangeError,
    JitError,
    LinAlgError,
    ModelError,
    OutOfMemoryError,
    RangeError,
    ShapeError,
    StateError,
    TransformError,
)
from dawdle.func import (
    checkpoint,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    value_and_grad,
    vjp,
    vmap,
)
from dawdle.functions import *  # noqa: F403
from dawdle.functions import where
from dawdle.random import Generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state
from dawdle.runtime.jit import jit
from dawdle.tensor import Tensor
from dawdle.tensor.autograd import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from dawdle.tensor.einsum import einsum, tensordot
from dawdle.tensor.joining import cat, stack
from dawdle.tensor.linalg import chain_matmul
from dawdle.windows import *  # noqa: F403

__all__ = [
    "ArgumentError",
    "ArgumentTypeError",
    "CompileError",
    "ConversionError",
    "DType",
    "DTypeError",
    "DataError",
    "DawdleError",
    "DeviceError",
    "Generator",
    "GradientError",
    "IndexingError",
    "InterchangeError",
    "JitError",
    "LinAlgError",
    "ModelError",
    "OutOfMemoryError",
    "RangeError",
    "ShapeError",
    "StateError",
    "Tensor",
    "TransformError",
    "__version__",
    "arange",
    "array_api",
    "as_tensor",
    "asarray",
    "bfloat16",
    "bool_",
    "can_cast",
    "cat",
    "chain_matmul",
    "checkpoint",
    "detach",
    "einsum",
    "empty",
    "enable_grad",
    "eye",
    "finfo",
    "float16",
    "float32",
    "float64",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "func",
    "get_default_dtype",
    "get_rng_state",
    "grad",
    "gradient",
    "hessian",
    "iinfo",
    "inference_mode",
    "initial_seed",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_nonzero",
    "is_tensor",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linalg",
    "linspace",
    "manual_seed",
    "nn",
    "no_grad",
    "ones",
    "promote",
    "promote_types",
    "rand",
    "randint",
    "randn",
    "random",
    "result_type",
    "scalar_tensor",
    "seed",
    "set_grad_enabled",
    "set_rng_state",
    "stack",
    "tensor",
    "tensordot",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "value_and_grad",
    "vjp",
    "vmap",
    "where",
    "zeros",
]

__all__ += functions.__all__
__all__ += arrays.__all__
__all__ += windows.__all__

__version__ = "0.1.0"

bool_ = _dtype.bool_
promote = promote_types
# PyTorch's names; not in __all__, because `from dawdle import *` must not replace what Python calls so
bool, half, float, double = bool_, float16, float32, float64
short, int, long = int16, int32, int64
inf, nan, pi, e, newaxis = math.inf, math.nan, math.pi, math.e, None
zeros, ones, full, empty, eye = Tensor.zeros, Tensor.ones, Tensor.full, Tensor.empty, Tensor.eye
arange, linspace = Tensor.arange, Tensor.linspace
rand, randn, randint = Tensor.rand, Tensor.randn, Tensor.randint
from_numpy, from_dlpack = Tensor.from_numpy, Tensor.from_dlpack
