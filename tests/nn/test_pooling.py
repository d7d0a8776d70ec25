"""Layers without weights, and transposed convolutions, against PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

from dawdle import Tensor, config, nn
from dawdle.errors import ArgumentError

torch = pytest.importorskip("torch")

SHAPES = {1: (2, 4, 8), 2: (2, 4, 8, 6), 3: (2, 4, 8, 6, 7)}
X = {n: np.random.default_rng(n).standard_normal(shape).astype("float32") for n, shape in SHAPES.items()}
CASES = [
    *[(f"MaxPool{n}d", n, (2,), {"stride": 1, "padding": 1, "ceil_mode": True}) for n in (1, 2, 3)],
    ("MaxPool2d", 2, ((3, 2),), {"dilation": 2, "return_indices": True}),
    *[(f"AvgPool{n}d", n, (3, 2, 1), {"count_include_pad": False}) for n in (1, 2, 3)],
    ("AvgPool2d", 2, (2,), {"divisor_override": 3}),
    *[(f"LPPool{n}d", n, (2.0, 2), {"stride": 1}) for n in (1, 2, 3)],
    *[(f"AdaptiveAvgPool{n}d", n, (3,), {}) for n in (1, 2, 3)],
    *[(f"AdaptiveMaxPool{n}d", n, (3,), {"return_indices": True}) for n in (1, 2, 3)],
    ("Upsample", 2, (), {"scale_factor": 1.5, "mode": "bilinear", "align_corners": True}),
    ("Upsample", 1, (5,), {}),
    ("UpsamplingNearest2d", 2, (), {"scale_factor": 2}),
    ("UpsamplingBilinear2d", 2, ((9, 8),), {}),
    ("Unfold", 2, ((2, 3),), {"padding": 1, "stride": 2}),
]


@pytest.fixture(autouse=True)
def interpreted():
    """The functions run everywhere in the op table; here it is about the layers."""
    with config.override(device="NUMPY"):
        yield


def parts(out):
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize("name, n, args, options", CASES)
def test_layers(name, n, args, options):
    ours, theirs = getattr(nn, name)(*args, **options), getattr(torch.nn, name)(*args, **options)
    got, expected = parts(ours(Tensor(X[n]))), parts(theirs(torch.tensor(X[n])))
    assert len(got) == len(expected)
    for a, b in zip(got, expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-4, atol=1e-5)
    assert not list(ours.parameters()) and repr(ours).startswith(name)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_unpooling(n):
    ours, theirs = getattr(nn, f"MaxUnpool{n}d")(2), getattr(torch.nn, f"MaxUnpool{n}d")(2)
    y, index = getattr(torch.nn.functional, f"max_pool{n}d")(torch.tensor(X[n]), 2, return_indices=True)
    expected = theirs(y, index, output_size=X[n].shape)
    got = ours(Tensor(y.numpy()), Tensor(index.numpy()), output_size=X[n].shape)
    np.testing.assert_array_equal(got.numpy(), expected.numpy())


def test_fractional_pools_have_the_size_asked_for():
    assert nn.FractionalMaxPool2d(2, output_ratio=0.5)(Tensor(X[2])).shape == (2, 4, 4, 3)
    y, index = nn.FractionalMaxPool3d(2, (3, 2, 4), return_indices=True)(Tensor(X[3]))
    assert y.shape == index.shape == (2, 4, 3, 2, 4)


def test_fold_undoes_unfold_of_windows_that_do_not_overlap():
    columns = nn.Unfold(2, stride=2)(Tensor(X[2][..., :6]))
    np.testing.assert_array_equal(nn.Fold((8, 6), 2, stride=2)(columns).numpy(), X[2][..., :6])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [
    {}, {"stride": 2, "padding": 1, "output_padding": 1, "groups": 2}, {"dilation": 2, "bias": False},
])  # fmt: skip
def test_transposed_convolutions(n, options):
    name = f"ConvTranspose{n}d"
    ours, theirs = getattr(nn, name)(4, 6, 3, **options), getattr(torch.nn, name)(4, 6, 3, **options)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    got, expected = ours(Tensor(X[n])), theirs(torch.tensor(X[n]))
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert repr(ours).startswith(f"{name}(4, 6")
    bound = 1 / np.sqrt(np.prod(ours.weight.shape[1:]))
    assert 0.7 * bound < abs(ours.weight.numpy()).max() <= bound


def test_the_size_of_a_transposed_convolution_can_be_asked_for():
    ours, theirs = nn.ConvTranspose2d(4, 2, 3, stride=2), torch.nn.ConvTranspose2d(4, 2, 3, stride=2)
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    got = ours(Tensor(X[2]), output_size=(18, 13))
    expected = theirs(torch.tensor(X[2]), output_size=(18, 13))
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("n, padding", [(1, 2), (2, (1, 2)), (3, 1), (2, "same")])
def test_convolutions_pad_from_the_image_itself(mode, n, padding):
    options = {"padding": padding, "padding_mode": mode}
    ours, theirs = (getattr(library, f"Conv{n}d")(4, 3, 3, **options) for library in (nn, torch.nn))
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
    got, expected = ours(Tensor(X[n])), theirs(torch.tensor(X[n]))
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    assert repr(ours).endswith(f"padding_mode={mode})")


def test_unknown_padding_modes():
    with pytest.raises(ArgumentError, match="use zeros, reflect"):
        nn.Conv2d(1, 1, 3, padding_mode="mirror")
