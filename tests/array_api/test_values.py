"""Results and dtypes of every function of dawdle.array_api are those of array_api_strict."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dawdle import Tensor, config
from dawdle import array_api as xp

strict = pytest.importorskip("array_api_strict")

BOOL, FLOAT = ["bool"], ["float32", "float64"]
SIGNED, UNSIGNED = ["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]
INT = SIGNED + UNSIGNED
NUMERIC = INT + FLOAT
ANY = BOOL + NUMERIC

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 7.25, 100.0, np.inf, -np.inf, np.nan]
FINITE = [f for f in FLOATS if np.isfinite(f)]

Draw = Callable[[st.SearchStrategy], object]


def array(draw, kinds=ANY, shape=None, values=None, least_dims=0, most_dims=3, least_size=0):
    """An array of one of some dtypes, with awkward values unless others are given."""
    kind = draw(st.sampled_from(kinds)) if isinstance(kinds, list) else kinds
    if shape is None:
        sizes = st.integers(least_size, 3)
        shape = tuple(draw(st.lists(sizes, min_size=least_dims, max_size=most_dims)))
    if values is None:
        values = elements(kind)
    n = int(np.prod(shape))
    return np.array(draw(st.lists(st.sampled_from(values), min_size=n, max_size=n)), kind).reshape(shape)


def elements(kind):
    if kind == "bool":
        return [False, True]
    if kind in FLOAT:
        return FLOATS
    limits = np.iinfo(kind)
    return sorted(
        {0, 1, 2, 3, 5, 7, limits.max, limits.max - 1, limits.min, max(limits.min, -1), max(limits.min, -4)}
    )


def axis(draw, ndim, several=False, optional=True):
    """An axis of an array of ``ndim`` dimensions, None, or several."""
    choices = [st.integers(-ndim, ndim - 1)] if ndim else []
    if optional or not ndim:
        choices.append(st.none())
    if several and ndim:
        order = st.permutations(range(ndim))
        choices.append(
            st.builds(
                lambda p, n, s: tuple(a - ndim * s for a in p[:n]), order, st.integers(0, ndim), st.booleans()
            )
        )
    return draw(st.one_of(choices))


def broadcastable(draw, shape):
    """A shape that broadcasts with ``shape``."""
    out = tuple(n if draw(st.booleans()) else 1 for n in shape)
    return out[draw(st.integers(0, len(out))) :]


# ---- one generator of arguments for each function, by name


def one(kinds, **options):
    return lambda draw: ((array(draw, kinds, **options),), {})


def two(kinds, right=None, number=True, **options):
    """Two arrays of one dtype that broadcast, or one and a Python number."""

    def make(draw):
        a = array(draw, kinds, **options)
        kind = a.dtype.name
        form = draw(st.sampled_from(["arrays", "left", "right"] if number and right is None else ["arrays"]))
        if form == "arrays":
            b = array(draw, kind, shape=broadcastable(draw, a.shape), values=right or options.get("values"))
            return ((a, b) if right or draw(st.booleans()) else (b, a)), {}
        value = draw(st.sampled_from(options.get("values") or elements(kind)))
        return ((a, value) if form == "right" else (value, a)), {}

    return make


def reduction(kinds, least_size=0, several=True, dtype=False, extra=None):
    def make(draw):
        a = array(draw, kinds, least_size=least_size)
        options = {
            "axis": axis(draw, a.ndim, several),
            "keepdims": draw(st.booleans()),
            **(extra(draw) if extra else {}),
        }
        if dtype and draw(st.booleans()):
            options["dtype"] = np.dtype(
                {"b": "int64", "i": "int64", "u": "uint64", "f": "float64"}[a.dtype.kind]
            )
        return (a,), options

    return make


def powers(draw):
    kind = draw(st.sampled_from(NUMERIC))
    exponents = [0.0, 1.0, 2.0, -1.0, 0.5, 3.0] if kind in FLOAT else [0, 1, 2, 3]
    a = array(draw, kind)
    return (a, array(draw, kind, shape=broadcastable(draw, a.shape), values=exponents)), {}


def shifts(draw):
    kind = draw(st.sampled_from(INT))
    a = array(draw, kind)
    return (a, array(draw, kind, shape=broadcastable(draw, a.shape), values=[0, 1, 3, 7])), {}


def clips(draw):
    a = array(draw, NUMERIC)
    values = FINITE if a.dtype.kind == "f" else [0, 1, 2, 3, 5]
    low, high = sorted(draw(st.lists(st.sampled_from(values), min_size=2, max_size=2)))
    limits = [low, high]
    for i in (0, 1):
        form = draw(st.sampled_from(["none", "number", "array"]))
        limits[i] = {"none": None, "number": limits[i], "array": np.array(limits[i], a.dtype)}[form]
    return (a, *limits), {}


def scans(draw):
    a = array(draw, NUMERIC, least_dims=1, values=None)
    if a.dtype.kind == "f":
        a = np.nan_to_num(a, nan=2.0, posinf=1.0, neginf=-1.0)
    where = axis(draw, a.ndim, optional=a.ndim == 1)
    return (a,), {"axis": where, "include_initial": draw(st.booleans())}


def along(kinds, **more):
    def make(draw):
        a = array(draw, kinds, least_dims=1)
        options = {"axis": axis(draw, a.ndim, optional=False)}
        return (a,), options | {name: draw(strategy) for name, strategy in more.items()}

    return make


def variances(draw):
    a = array(draw, FLOAT, values=FINITE, least_size=1)
    return (a,), {
        "axis": axis(draw, a.ndim, True),
        "keepdims": draw(st.booleans()),
        "correction": draw(st.sampled_from([0.0, 0, 0.5])),
    }


def differences(draw):
    a = array(draw, NUMERIC, least_dims=1, least_size=1)
    where = draw(st.integers(-a.ndim, a.ndim - 1))
    options = {"axis": where, "n": draw(st.integers(0, 2))}
    for name in ("prepend", "append"):
        if draw(st.booleans()):
            shape = tuple(2 if i == where % a.ndim else n for i, n in enumerate(a.shape))
            options[name] = array(draw, a.dtype.name, shape=shape)
    return (a,), options


def searches(draw):
    kind = draw(st.sampled_from(NUMERIC))
    values = None if kind in INT else [f for f in FLOATS if f == f]
    a = array(draw, kind, shape=(draw(st.integers(0, 5)),), values=values)
    options = {"side": draw(st.sampled_from(["left", "right"]))}
    if draw(st.booleans()):
        options["sorter"] = np.argsort(a)
    else:
        a = np.sort(a)
    return (a, array(draw, kind, values=values)), options


def takes(draw):
    a = array(draw, least_dims=1, least_size=1)
    where = axis(draw, a.ndim, optional=a.ndim == 1)
    n = a.shape[0 if where is None else where]
    indices = array(
        draw, ["int64", "int32", "uint8"], shape=(draw(st.integers(0, 4)),), values=list(range(n))
    )
    return (a, indices), {"axis": where}


def takes_along(draw):
    a = array(draw, least_dims=1, least_size=1)
    where = draw(st.integers(-a.ndim, a.ndim - 1))
    shape = list(a.shape)
    shape[where] = draw(st.integers(0, 3))
    values = list(range(-a.shape[where], a.shape[where]))
    return (a, array(draw, ["int64"], shape=tuple(shape), values=values)), {"axis": where}


def choices(draw):
    kind = draw(st.sampled_from(ANY))
    c = array(draw, BOOL)
    a = array(draw, kind, shape=broadcastable(draw, c.shape))
    b = array(draw, kind, shape=broadcastable(draw, c.shape))
    numbers = draw(st.sampled_from([(a, b), (a, elements(kind)[1]), (elements(kind)[1], b)]))
    return (c, *numbers), {}


def joined(draw):
    kind = draw(st.sampled_from(ANY))
    first = array(draw, kind, least_dims=1)
    where = axis(draw, first.ndim)
    arrays = [first]
    for _ in range(draw(st.integers(0, 2))):
        shape = list(first.shape)
        if where is not None:
            shape[where] = draw(st.integers(0, 3))
        arrays.append(array(draw, kind, shape=tuple(shape)))
    return (arrays,), {"axis": where}


def stacked(draw):
    first = array(draw)
    arrays = [
        first,
        *[array(draw, first.dtype.name, shape=first.shape) for _ in range(draw(st.integers(0, 2)))],
    ]
    return (arrays,), {"axis": draw(st.integers(-first.ndim - 1, first.ndim))}


def broadcasts(draw):
    a = array(draw, most_dims=2)
    shape = tuple(3 if n == 1 else n for n in a.shape)
    return (a, (*[2] * draw(st.integers(0, 1)), *shape)), {}


def grouped(draw):
    a = array(draw, most_dims=2)
    return (a, *[array(draw, shape=broadcastable(draw, a.shape)) for _ in range(draw(st.integers(0, 2)))]), {}


def grids(draw):
    arrays = [array(draw, ["float32"], most_dims=1, least_dims=1) for _ in range(draw(st.integers(1, 3)))]
    return tuple(arrays), {"indexing": draw(st.sampled_from(["xy", "ij"]))}


def axis_moves(draw):
    a = array(draw, least_dims=1)
    source, target = axis(draw, a.ndim, optional=False), axis(draw, a.ndim, optional=False)
    if draw(st.booleans()):
        n = draw(st.integers(1, a.ndim))
        source, target = (tuple(draw(st.permutations(range(a.ndim)))[:n]) for _ in range(2))
    return (a, source, target), {}


def orders(draw):
    a = array(draw)
    return (a, tuple(draw(st.permutations(range(a.ndim))))), {}


def repeats(draw):
    a = array(draw)
    where = axis(draw, a.ndim)
    n = a.size if where is None else a.shape[where]
    counts = draw(st.integers(0, 3))
    if draw(st.booleans()):
        counts = array(draw, ["int64"], shape=(n,), values=[0, 1, 2])
    return (a, counts), {"axis": where}


def reshapes(draw):
    a = array(draw, most_dims=3)
    shapes = [(a.size,), (1, a.size, 1), a.shape[::-1]] + ([(-1,), (-1, 1)] if a.size else [])
    return (a, draw(st.sampled_from(shapes))), {}


def rolls(draw):
    a = array(draw)
    where = axis(draw, a.ndim, several=True)
    shift = draw(st.integers(-4, 4))
    if isinstance(where, tuple) and draw(st.booleans()):
        shift = tuple(draw(st.integers(-4, 4)) for _ in where)
    return (a, shift), {"axis": where}


def squeezes(draw):
    a = array(draw, most_dims=2)
    where = draw(st.integers(0, a.ndim))
    out = np.expand_dims(a, where)
    return (out, draw(st.sampled_from([where, (where,), where - out.ndim]))), {}


def expansions(draw):
    a = array(draw)
    return (a,), {"axis": draw(st.integers(-a.ndim - 1, a.ndim))}


def tiles(draw):
    a = array(draw, most_dims=2)
    return (a, tuple(draw(st.lists(st.integers(0, 2), max_size=3)))), {}


SMALL_INTS = list(range(-3, 4))


def products(draw):
    kind = draw(st.sampled_from(SIGNED[2:] + FLOAT))
    n, m, k = (draw(st.integers(0, 3)) for _ in range(3))
    left, right = draw(
        st.sampled_from(
            [
                ((n, k), (k, m)),
                ((k,), (k, m)),
                ((n, k), (k,)),
                ((k,), (k,)),
                ((2, n, k), (k, m)),
                ((2, n, k), (2, k, m)),
            ]
        )
    )
    return tuple(array(draw, kind, shape=s, values=SMALL_INTS) for s in (left, right)), {}


def contractions(draw):
    kind = draw(st.sampled_from(SIGNED[2:] + FLOAT))
    n, m, k = (draw(st.integers(0, 3)) for _ in range(3))
    left, right, axes = draw(
        st.sampled_from(
            [
                ((n, m, k), (m, k, 2), 2),
                ((n, k), (k, m), 1),
                ((n,), (m,), 0),
                ((n, m, k), (k, 2, n), ((0, 2), (2, 0))),
                ((n, k, m), (k, m), ((-2,), (0,))),
            ]
        )
    )
    return tuple(array(draw, kind, shape=s, values=SMALL_INTS) for s in (left, right)), {"axes": axes}


def dots(draw):
    kind = draw(st.sampled_from(SIGNED[2:] + FLOAT))
    k = draw(st.integers(1, 3))
    left, right, where = draw(
        st.sampled_from([((2, k), (2, k), -1), ((2, k), (k,), -1), ((k, 2), (3, k, 2), -2)])
    )
    return tuple(array(draw, kind, shape=s, values=SMALL_INTS) for s in (left, right)), {"axis": where}


def shapes(draw):
    shape = draw(st.sampled_from([(), (2,), (2, 0), (2, 3), 3]))
    return (shape,), {"dtype": np.dtype(draw(st.sampled_from(ANY)))}


def filled(draw):
    kind = draw(st.sampled_from(ANY))
    ((shape,), _), value = shapes(draw), draw(st.sampled_from(elements(kind)))
    return (shape, value), {"dtype": np.dtype(kind)}


def likes(value=False):
    def make(draw):
        a = array(draw)
        return ((a, draw(st.sampled_from(elements(a.dtype.name)))) if value else (a,)), {}

    return make


def spans(draw):
    start, stop = draw(st.integers(-5, 5)), draw(st.integers(-5, 5))
    arguments = draw(st.sampled_from([(start,), (start, stop), (start, stop, 2), (start, stop, -1)]))
    return arguments, {"dtype": np.dtype(draw(st.sampled_from(["int64", "int32", "float64"])))}


def spaces(draw):
    start, stop = (float(draw(st.integers(-5, 5))) for _ in range(2))
    options = {"dtype": np.dtype(draw(st.sampled_from(FLOAT))), "endpoint": draw(st.booleans())}
    return (start, stop, draw(st.integers(0, 7))), options


def eyes(draw):
    n, m = draw(st.integers(0, 4)), draw(st.one_of(st.none(), st.integers(0, 4)))
    return (n, m), {"k": draw(st.integers(-5, 5)), "dtype": np.dtype(draw(st.sampled_from(ANY)))}


def triangles(draw):
    a = array(draw, least_dims=2)
    return (a,), {"k": draw(st.integers(-4, 4))}


def lists(draw):
    a = array(draw, values=None, most_dims=2)
    return (a.tolist(),), {"dtype": a.dtype}


def casts(draw):
    source, target = draw(st.sampled_from(ANY)), draw(st.sampled_from(ANY))
    values = [0, 1, 3, 5] if "bool" not in (source, target) else [0, 1]
    return (array(draw, source, values=values), np.dtype(target)), {}


CASES: dict[str, Callable[[Draw], tuple]] = {
    **dict.fromkeys(["abs", "negative", "positive", "sign", "square"], one(SIGNED + FLOAT)),
    **dict.fromkeys(["ceil", "floor", "round", "trunc", "isfinite", "isinf", "isnan"], one(NUMERIC)),
    **dict.fromkeys(
        ["acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "tan", "tanh"], one(FLOAT)
    ),
    **dict.fromkeys(["exp", "expm1", "log", "log10", "log1p", "log2", "reciprocal", "sqrt"], one(FLOAT)),
    **dict.fromkeys(["signbit", "sin", "sinh"], one(FLOAT)),
    "bitwise_invert": one(BOOL + INT),
    "logical_not": one(BOOL),
    **dict.fromkeys(["add", "subtract", "multiply", "maximum", "minimum"], two(NUMERIC)),
    **dict.fromkeys(["divide", "atan2", "copysign", "hypot", "logaddexp", "nextafter"], two(FLOAT)),
    "floor_divide": two(INT + FLOAT, values=[1, 2, 3, 5, 7]),
    "remainder": two(INT + FLOAT, values=[1, 2, 3, 5, 7]),
    **dict.fromkeys(["bitwise_and", "bitwise_or", "bitwise_xor"], two(BOOL + INT)),
    **dict.fromkeys(["logical_and", "logical_or", "logical_xor"], two(BOOL)),
    **dict.fromkeys(["equal", "not_equal"], two(ANY)),
    **dict.fromkeys(["less", "less_equal", "greater", "greater_equal"], two(NUMERIC)),
    "pow": powers,
    "bitwise_left_shift": shifts,
    "bitwise_right_shift": shifts,
    "clip": clips,
    **dict.fromkeys(["all", "any"], reduction(ANY)),
    "count_nonzero": reduction(ANY),
    **dict.fromkeys(["sum", "prod"], reduction(NUMERIC, dtype=True)),
    "mean": reduction(FLOAT, least_size=1),
    **dict.fromkeys(["max", "min"], reduction(NUMERIC, least_size=1)),
    **dict.fromkeys(["argmax", "argmin"], reduction(NUMERIC, least_size=1, several=False)),
    **dict.fromkeys(["std", "var"], variances),
    "cumulative_sum": scans,
    "cumulative_prod": scans,
    "diff": differences,
    "searchsorted": searches,
    "take": takes,
    "take_along_axis": takes_along,
    "where": choices,
    **dict.fromkeys(["sort", "argsort"], along(NUMERIC, descending=st.booleans())),
    "unstack": along(ANY),
    "nonzero": one(ANY, least_dims=1),
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse", "unique_values"], one(ANY)),
    "concat": joined,
    "stack": stacked,
    "broadcast_to": broadcasts,
    "broadcast_arrays": grouped,
    "meshgrid": grids,
    "moveaxis": axis_moves,
    "permute_dims": orders,
    "repeat": repeats,
    "reshape": reshapes,
    "roll": rolls,
    "squeeze": squeezes,
    "expand_dims": expansions,
    "tile": tiles,
    "matrix_transpose": one(ANY, least_dims=2),
    "flip": lambda draw: ((a := array(draw),), {"axis": axis(draw, a.ndim, several=True)}),
    "matmul": products,
    "tensordot": contractions,
    "vecdot": dots,
    "zeros": shapes,
    "ones": shapes,
    "full": filled,
    "full_like": likes(True),
    "zeros_like": likes(),
    "ones_like": likes(),
    "arange": spans,
    "linspace": spaces,
    "eye": eyes,
    "tril": triangles,
    "triu": triangles,
    "asarray": lists,
    "astype": casts,
}

# nothing to compare: undefined elements, questions about dtypes (see test_names), memory (test_interop), and
# functions of complex numbers
ELSEWHERE = {
    "empty",
    "empty_like",
    "from_dlpack",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
    "conj",
    "imag",
    "real",
    "__array_namespace_info__",
}


def converted(namespace, value):
    """An argument in the terms of a namespace."""
    if isinstance(value, np.ndarray):
        return namespace.asarray(value, dtype=getattr(namespace, value.dtype.name))
    if isinstance(value, np.dtype):
        return getattr(namespace, value.name)
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [converted(namespace, v) for v in value]
    return value


def results(value):
    """The arrays of a result."""
    return [np.asarray(v) for v in value] if isinstance(value, (tuple, list)) else [np.asarray(value)]


def compare(name, arguments, options):
    calls = []
    for namespace in (strict, xp):
        given_options = {k: converted(namespace, v) for k, v in options.items()}
        calls.append(getattr(namespace, name)(*[converted(namespace, a) for a in arguments], **given_options))
    expected, got = map(results, calls)
    assert len(expected) == len(got) and isinstance(calls[1], list) == isinstance(calls[0], list)
    for theirs, ours in zip(expected, got, strict=True):
        assert ours.shape == theirs.shape
        assert ours.dtype == theirs.dtype
        if theirs.dtype.kind != "f":
            np.testing.assert_array_equal(ours, theirs)
            continue
        bound = 1e-5 if theirs.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound)
        if name in EXACT:
            np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


EXACT = {"abs", "negative", "copysign", "trunc", "round", "floor", "ceil", "nextafter", "reshape", "where"}


def test_every_function_is_compared():
    import inspect

    functions = {n for n in xp.__all__ if inspect.isfunction(getattr(xp, n))}
    assert functions == set(CASES) | ELSEWHERE


@pytest.fixture(autouse=True)
def _version():
    strict.set_array_api_strict_flags(api_version="2024.12")
    yield
    strict.reset_array_api_strict_flags()


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_reference(name):
    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def check(data):
        arguments, options = CASES[name](data.draw)
        with np.errstate(all="ignore"), config.override(device="NUMPY"):
            compare(name, arguments, options)

    check()


def test_complex_parts_of_real_numbers():
    x = xp.asarray([1.0, -2.0])
    assert xp.real(x).tolist() == xp.conj(x).tolist() == [1, -2] and xp.imag(x).tolist() == [0, 0]


def test_gradients_pass():
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True)
    xp.sum(xp.take(xp.multiply(2.0, xp.square(x)), xp.asarray([0, 2]))).backward()
    assert x.grad.tolist() == [4, 0, 12]


COMPOSED = {
    "nextafter": ((np.array([0.0, 1, -1, np.inf, 3, np.nan]), np.array([-1.0, 2, 0, 0, 3, 1])), {}),
    "eye": ((3, 4), {"k": 1, "dtype": np.dtype("int8")}),
    "linspace": ((0.0, 1.0, 5), {"endpoint": False, "dtype": np.dtype("float32")}),
    "meshgrid": ((np.arange(3), np.arange(2)), {}), "unique_all": ((np.array([3, 1, 3, 2, 1]),), {}),
    "cumulative_sum": ((np.arange(6, dtype="uint8").reshape(2, 3),), {"axis": 1, "include_initial": True}),
    "clip": ((np.arange(5, dtype="int8"), 1, np.array(3, "int8")), {}),
    "vecdot": ((np.eye(3), np.arange(3.0)), {}),
    "tensordot": ((np.ones((2, 3)), np.ones((3, 2))), {"axes": ((0, 1), (1, 0))}),
    "searchsorted": ((np.arange(5.0), np.array([0.5, 4.0, -1])), {"side": "right"}),
    "where": ((np.array([True, False]), 1.5, np.zeros(2)), {}), "subtract": ((3, np.arange(3)), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSED)
def test_what_is_composed_here_agrees_on_every_device(name, device):
    compare(name, *COMPOSED[name])
