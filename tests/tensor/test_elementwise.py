"""What elementwise functions are beside their values: dtypes, in-place forms, names, errors, gradients where
they have kinks and poles.
"""
from __future__ import annotations

import inspect
import math

import numpy as np
import pytest
from rows import ROWS
from table import BINARY, Row, torch

import dawdle
from dawdle import Tensor, config, promote
from dawdle.dtype import ALL, DType, float32, int64
from dawdle.errors import ArgumentError, DTypeError, GradientError, RangeError, ShapeError
from dawdle.tensor.methods.activations import Activations
from dawdle.tensor.methods.elements import Elements

pytestmark = pytest.mark.parametrize("device", ["NUMPY"], indirect=True)
ROW = {row.name: row for row in ROWS}

# ---- dtypes

KEPT = ("add", "mul", "maximum", "minimum", "fmod", "remainder", "floor_divide", "fmax", "fmin")
FLOATING = ("div", "atan2", "hypot", "copysign", "logaddexp", "xlogy")
COMPARED = ("lt", "le", "eq", "ne", "logical_and", "isclose")


def ones(dtype: DType) -> Tensor:
    return Tensor.ones(2, dtype=dtype)


@pytest.mark.parametrize("a", ALL, ids=str)
def test_operands_are_promoted(a):
    """Kept dtypes promote as NumPy's, float functions of integers give float32, comparisons give bools."""
    for b in ALL:
        common = promote(a, b)
        for name in KEPT if not common.is_bool else ("add", "mul", "maximum", "minimum"):
            assert getattr(ones(a), name)(ones(b)).dtype is common, name
        for name in FLOATING:
            assert getattr(ones(a), name)(ones(b)).dtype is (common if common.is_float else float32), name
        for name in COMPARED:
            assert getattr(ones(a), name)(ones(b)).dtype is dawdle.bool_, name


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_numbers_of_python_are_weak(dtype):
    x = ones(dtype)
    assert (x + 1).dtype is (int64 if dtype.is_bool else dtype)
    assert (x * 1.5).dtype is (x / 2).dtype is (dtype if dtype.is_float else float32)
    assert (x**2).dtype is (int64 if dtype.is_bool else dtype)
    assert x.clamp(0, 1.5).dtype is (dtype if dtype.is_float else float32)
    assert x.clamp(max=Tensor([2.0], dtype="float64")).dtype.name == "float64"
    assert x.lerp(x, 0.5).dtype is (dtype if dtype.is_float else float32)
    assert x.sin().dtype is x.gelu().dtype is (dtype if dtype.is_float else float32)


# ---- names

ALIASES = {
    "absolute": "abs", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div",
    "negative": "neg", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "fix": "trunc", "clip": "clamp",
    "not_equal": "ne", "less": "lt",
    "greater": "gt", "less_equal": "le", "greater_equal": "ge", "swish": "silu", "sgn": "sign",
    "expit": "sigmoid",
}  # fmt: skip


def test_aliases(device):
    for alias, name in ALIASES.items():
        assert inspect.getattr_static(Tensor, alias) is inspect.getattr_static(Tensor, name)


IN_PLACE = [n for topic in (Elements, Activations) for n in vars(topic) if n.endswith("_") and n[0] != "_"]
ARGUMENTS = {  # of the methods that need some, after the tensor
    **dict.fromkeys(("copysign_", "hypot_", "xlogy_", "pow_", "clamp_min_", "clamp_max_"), (0.5,)),
    **dict.fromkeys(("add_", "sub_", "mul_", "div_", "subtract_", "multiply_", "divide_"), (2,)),
    **dict.fromkeys(("true_divide_", "floor_divide_", "remainder_", "fmod_", "clamp_", "clip_"), (2,)),
    **dict.fromkeys(("bitwise_and_", "bitwise_or_", "bitwise_xor_"), (6,)), "lerp_": (3.0, 0.25),
    "addcmul_": (2.0, 3.0), "addcdiv_": (2.0, 4.0), "masked_fill_": ([True, False], 9),
    "threshold_": (0.5, 7),
    **dict.fromkeys(("eq_", "ne_", "lt_", "gt_", "le_", "ge_", "not_equal_", "less_", "greater_"), (0.25,)),
    **dict.fromkeys(("less_equal_", "greater_equal_", "atan2_", "arctan2_", "float_power_"), (0.25,)),
    **dict.fromkeys(("logical_and_", "logical_or_", "logical_xor_"), ([True, False],)),
    **dict.fromkeys(("bitwise_left_shift_", "bitwise_right_shift_", "gcd_", "lcm_"), (2,)),
    **dict.fromkeys(("ldexp_", "heaviside_", "nextafter_"), (2,)),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_forms_rebind_the_handle(name, device):
    kinds = {"bitwise": "int32", "gcd": "int32", "lcm": "int32", "logical": "bool"}
    dtype = kinds.get(name.split("_")[0], "float32")
    x = Tensor([0.25, 0.75]).astype(dtype)
    before, view = x.clone(), x * 1
    wanted = getattr(x, name[:-1])(*ARGUMENTS.get(name, ()))
    assert getattr(x, name)(*ARGUMENTS.get(name, ())) is x
    np.testing.assert_array_equal(x.numpy(), wanted.numpy().astype(dtype))
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(view.numpy(), before.numpy())


def test_in_place_forms_keep_dtype_and_shape(device):
    x = Tensor([1, 2])
    with pytest.raises(DTypeError, match="in-place div would change int64 to float32"):
        x.div_(2)
    with pytest.raises(ShapeError, match=r"in-place add would change the shape \(2,\) to \(3, 2\)"):
        x.add_(Tensor.ones(3, 2, dtype="int64"))
    leaf = Tensor([1.0], requires_grad=True)
    with pytest.raises(GradientError, match="under no_grad"):
        leaf.mul_(2)
    y = leaf * 3
    y.exp_().add_(leaf, alpha=2)
    y.backward()
    np.testing.assert_allclose(leaf.grad.numpy(), [3 * math.exp(3) + 2], rtol=1e-6)


# ---- operators


def test_every_form_of_an_operator(device):
    a, b = np.array([[7, -7, 3], [2, 9, -1]]), np.array([2, -3, 5])
    x, y = Tensor(a), Tensor(b)
    for got, want in zip(divmod(x, y), divmod(a, b), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    for got, want in zip(divmod(20, y), divmod(20, b), strict=True):
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal((+x).numpy(), a)
    m = Tensor([[1.0, 2.0], [3.0, 4.0]])
    m @= Tensor([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_array_equal(m.numpy(), [[2, 1], [4, 3]])
    x <<= 2
    x |= 1
    x ^= y
    np.testing.assert_array_equal(x.numpy(), ((a << 2) | 1) ^ b)
    for wrong in (lambda: x + "one", lambda: divmod(x, "one"), lambda: divmod("one", x), lambda: None ** x):
        with pytest.raises(TypeError, match="unsupported operand"):
            wrong()


def test_python_bools(device):
    x = Tensor([1.0, math.nan])
    assert x.allclose(x, equal_nan=True) is True and x.allclose(x) is False
    assert x[:1].equal(Tensor([1.0])) is True and x.equal(Tensor([1.0])) is False
    assert Tensor([1.0, 2.0]).allclose(Tensor([1.0, 2.000001])) is True
    assert Tensor([2**63 - 1]).isclose(Tensor([-(2**63)])).tolist() == [False]
    assert Tensor([3], dtype="uint8").isclose(Tensor([5], dtype="uint8"), atol=2).tolist() == [True]


# ---- errors


@pytest.mark.parametrize("wrong, error, words", [
    (lambda x: x.where(x, x), DTypeError, r"keeps x where the condition holds.*dawdle\.where"),
    (lambda x: x.where(x > 0, Tensor.ones(4)), ShapeError, "don't broadcast"),
    (lambda x: x & 1.5, DTypeError, "bool and integers"), (lambda x: x << 1, DTypeError, "integers"),
    (lambda x: ~x, DTypeError, "bool and integers, got float32; cast"),
    (lambda x: x.div(2, rounding_mode="up"), ArgumentError, "None, 'trunc' or 'floor', got 'up'"),
    (lambda x: x.gelu("fast"), ArgumentError, "'none' or 'tanh', got 'fast'"),
    (lambda x: x.clamp(), ArgumentError, "min, max or both"),
    (lambda x: x.hardtanh(2, 1), ArgumentError, "larger"),
    (lambda x: x.int().add(1, alpha=0.5), DTypeError, "alpha=0.5 would make integers floats"),
    (lambda x: x.int().round(decimals=-1), DTypeError, "needs floats, got int32"),
    (lambda x: x.int() ** -1, DTypeError, "negative power -1; cast to float"),
    (lambda x: x.gcd(x), DTypeError, "gcd takes integers, got float32"),
    (lambda x: -(x > 0), DTypeError, "bool"), (lambda x: +(x > 0), DTypeError, "unary plus"),
    (lambda x: x.softshrink(-1), ArgumentError, "negative, got -1"),
    (lambda x: x.glu(), ShapeError, r"dim -1 of shape \(2, 3\) can't be halved"),
    (lambda x: x.prelu(Tensor.ones(4)), ShapeError, "4 channels"),
    (lambda x: x.celu(0), ArgumentError, "alpha"),
    (lambda x: x.astype("int8").clamp(0, 300), RangeError, "300 is out of the range of int8"),
    (lambda x: x.astype("int8").masked_fill(x > 0, 128.5), RangeError, "128.5 is out of the range of int8"),
])  # fmt: skip
def test_errors_teach(wrong, error, words, device):
    with pytest.raises(error, match=words):
        wrong(Tensor.ones(2, 3))


# ---- gradients where functions have kinks, poles and flat pieces

POINTS = [-4.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 3.0, 6.0]
KINKED = [
    "abs", "relu", "relu6", "leaky_relu", "hardtanh", "threshold", "hardshrink", "softshrink",
    "hardsigmoid", "hardswish", "elu", "selu", "celu", "softplus", "sqrt", "rsqrt", "clamp", "clamp min",
    "clamp max", "floor", "round", "asin", "acos", "atanh", "log", "log1p", "square by **", "** -1",
    "** 0.5", "cube by **", "reciprocal", "sigmoid", "tanh", "exp", "expm1", "erf", "erfc", "sinc",
    "softsign", "logsigmoid", "trunc", "sign",
]  # fmt: skip
PAIRS = [
    "maximum", "minimum", "fmax", "fmin", "atan2", "copysign", "logaddexp", "clamp tensor min",
    "clamp tensor max", "mul", "div", "pow", "fmod", "hypot",
]  # fmt: skip


def slopes(row: Row, arrays: list[np.ndarray], make, call) -> list[np.ndarray]:
    leaves = [make(a) for a in arrays]
    call(*leaves).sum().backward()
    return [np.asarray(leaf.grad.numpy()) for leaf in leaves]


@pytest.mark.skipif(torch is None, reason="PyTorch is the reference")
@pytest.mark.parametrize("name", KINKED + PAIRS)
def test_gradients_at_kinks_are_pytorchs(name, device):
    row = ROW[name]
    points = np.array(POINTS if row.shapes is BINARY else [*POINTS, math.inf, -math.inf])
    pairs = [g.ravel() for g in np.meshgrid(points, points)]
    arrays = pairs if row.shapes is BINARY else [points]
    ours = slopes(row, arrays, lambda a: Tensor(a, requires_grad=True), row.call)
    theirs = slopes(row, arrays, lambda a: torch.tensor(a, requires_grad=True), row.torch_reference)
    for got, want in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-12)


def test_where_keeps_gradients_of_the_other_branch_out(device):
    x, y = Tensor([1.0, math.nan], requires_grad=True), Tensor([math.inf, 4.0], requires_grad=True)
    (x * 2).where(Tensor([True, False]), y.sqrt()).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [2, 0])
    np.testing.assert_array_equal(y.grad.numpy(), [0, 0.25])


def test_rrelu_draws_slopes_in_training(device):
    x = Tensor([-1.0] * 1000 + [2.0])
    y = x.rrelu(0.1, 0.3, training=True).numpy()
    assert y[-1] == 2 and -0.3 <= y[:-1].min() < -0.25 and -0.15 < y[:-1].max() <= -0.1
    np.testing.assert_allclose(x.rrelu(0.1, 0.3).numpy()[:2], [-0.2, -0.2], rtol=1e-6)
    with Tensor.train(), config.override(device="NUMPY"):
        assert len(set(x.rrelu().tolist())) > 900


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_nextafter_at_special_values(dtype, device):
    tiny = np.finfo(dtype).smallest_subnormal
    values = [0.0, -0.0, tiny, -tiny, 1.0, -1.5, np.finfo(dtype).max, -np.inf, np.inf, np.nan]
    a, b = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    with np.errstate(all="ignore"):
        want = np.nextafter(a, b)
    got = Tensor(a).nextafter(Tensor(b)).numpy()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got[got == got]), np.signbit(want[want == want]))
