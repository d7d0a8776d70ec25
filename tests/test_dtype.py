"""Dtypes, promotion by NumPy's rules, conversions to and from storage, and settings."""
from __future__ import annotations

import math
import os

import numpy as np
import pytest

from dawdle import config
from dawdle.dtype import (
    ALL,
    BY_NAME,
    bfloat16,
    bool_,
    finfo,
    float16,
    float32,
    float64,
    from_storage,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    of_scalar,
    promote,
    promote_scalar,
    round_bfloat16,
    round_to,
    to_dtype,
    to_storage,
    uint8,
    uint16,
    uint64,
)
from dawdle.errors import DawdleError, DTypeError

NUMPY = [d for d in ALL if d != bfloat16]


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
def test_properties(d):
    assert BY_NAME[d.name] is d and repr(d) == f"dawdle.{d.name}"
    assert d.storage.itemsize == d.itemsize
    assert (d.is_bool, d.is_int, d.is_float).count(True) == 1
    if d.is_int:
        info = np.iinfo(d.name)
        assert (d.min, d.max) == (info.min, info.max)
    else:
        assert (d.min, d.max) == ((False, True) if d.is_bool else (-np.inf, np.inf))
    if d != bfloat16:
        assert d.storage == d.compute == np.dtype(d.name)
    assert (bfloat16.storage, bfloat16.compute) == (np.uint16, np.float32)


def test_to_dtype():
    for d in ALL:
        assert to_dtype(d) is d and to_dtype(d.name) is d
    for d in NUMPY:
        assert to_dtype(np.dtype(d.name)) is d and to_dtype(np.dtype(d.name).type) is d
    assert (to_dtype(bool), to_dtype(int), to_dtype(float)) == (bool_, int64, float32)
    assert (to_dtype("<f4"), to_dtype(">i2"), to_dtype("?")) == (float32, int16, bool_)
    for bad in ("complex64", np.complex128, str, "float8", "nonsense", 3.5, object):
        with pytest.raises(DTypeError, match=r"is not supported; use one of bool, int8, .*float64"):
            to_dtype(bad)


@pytest.mark.parametrize("a", NUMPY, ids=lambda d: d.name)
def test_promotion_is_numpys(a):
    for b in NUMPY:
        assert promote(a, b).name == np.promote_types(a.name, b.name).name


def test_promotion_with_bfloat16():
    wanted = {
        bool_: bfloat16, int8: bfloat16, uint8: bfloat16, int16: float32, uint16: float32, int32: float64,
        int64: float64, uint64: float64, float16: float32, bfloat16: bfloat16, float32: float32,
        float64: float64,
    }  # fmt: skip
    for other, result in wanted.items():
        assert promote(bfloat16, other) == promote(other, bfloat16) == result


@pytest.mark.parametrize("a", ALL, ids=lambda d: d.name)
def test_scalars_are_weak(a):
    assert promote_scalar(a, True) == a
    assert promote_scalar(a, 3) == (int64 if a.is_bool else a)
    assert promote_scalar(a, 2.5) == (a if a.is_float else float32)
    assert [of_scalar(v) for v in (True, 3, 2.5)] == [bool_, int64, float32]


def nearest_bfloat16(x):
    """The nearest bfloat16 to a finite float, ties to even, by exact arithmetic on the two candidates."""
    bits = np.float32(x).view(np.uint32)
    below = np.uint32(bits & np.uint32(0xFFFF0000))
    above = np.uint32(below + np.uint32(0x10000))
    low, high = (float(b.view(np.float32)) for b in (below, above))
    high = math.copysign(2.0**128, x) if np.isinf(high) else high
    gap_low, gap_high = abs(float(x) - low), abs(high - float(x))
    if gap_low != gap_high:
        chosen = below if gap_low < gap_high else above
    else:
        chosen = below if not (below >> 16) & 1 else above
    return chosen.view(np.float32)


def test_bfloat16_rounding():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2**32, 3000, dtype=np.uint32)
    ties = (bits & np.uint32(0xFFFF0000)) | np.uint32(0x8000)
    x = np.concatenate([bits, ties]).view(np.float32)
    x = x[np.isfinite(x)]
    wanted = np.array([nearest_bfloat16(v) for v in x])
    np.testing.assert_array_equal(round_bfloat16(x).view(np.uint32), wanted.view(np.uint32))


def test_bfloat16_specials():
    bits = np.uint32([0x7F800001, 0xFFFFFFFF, 0x7FC00000, 0x7F800000, 0xFF800000, 0x80000000, 0x7F7FFFFF, 1])
    x = bits.view(np.float32)
    wanted = [np.nan, np.nan, np.nan, np.inf, -np.inf, -0.0, np.inf, 0.0]
    for got in (round_bfloat16(x), from_storage(to_storage(x, bfloat16), bfloat16)):
        np.testing.assert_array_equal(got, np.float32(wanted))
        assert np.signbit(got[5])


def test_every_bfloat16_survives_storage():
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = from_storage(bits, bfloat16)
    assert values.dtype == np.float32
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(to_storage(values, bfloat16)[numbers], bits[numbers])
    assert np.isnan(from_storage(to_storage(values, bfloat16), bfloat16)[~numbers]).all()
    np.testing.assert_array_equal(round_bfloat16(values)[numbers], values[numbers])


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
def test_storage_keeps_shape_and_dtype(d, shape):
    x = np.ones(shape, d.compute)
    stored = to_storage(x, d)
    back = from_storage(stored, d)
    assert (stored.shape, stored.dtype, back.shape, back.dtype) == (shape, d.storage, shape, d.compute)
    # of zero dimensions too: NumPy's scalars can't be made read-only
    assert type(stored) is type(back) is type(round_to(x, d)) is np.ndarray
    np.testing.assert_array_equal(back, x)


def test_rounding_to_a_dtype():
    x = np.array([1 / 3, 300.0])
    assert round_to(x, float16).dtype == np.float16 and round_to(x, bfloat16).dtype == np.float32
    np.testing.assert_array_equal(round_to(x, bfloat16), np.float32([0.333984375, 300.0]))
    np.testing.assert_array_equal(round_to(np.array([300, -1]), int8), np.int8([44, -1]))
    assert round_to(np.array([2]), int32).dtype == np.int32


# settings


def test_threads_setting_wins(monkeypatch):
    with config.override(threads=3) as settings:
        assert settings.num_threads == config.current().num_threads == 3
        monkeypatch.delattr(os, "sched_getaffinity", raising=False)
        assert settings.num_threads == 3
    with config.override(threads=0) as settings:
        monkeypatch.setattr(os, "cpu_count", lambda: 5)
        assert settings.num_threads == 5
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 4}, raising=False)
        assert settings.num_threads == 2
        monkeypatch.delattr(os, "sched_getaffinity")
        monkeypatch.setattr(os, "cpu_count", lambda: None)
        assert settings.num_threads == 1


def test_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("DEBUG", "2")
    monkeypatch.setenv("DAWDLE_DEVICE", "NUMPY")
    monkeypatch.setenv("DAWDLE_THREADS", "4")
    monkeypatch.setenv("DAWDLE_MEMORY_LIMIT", "")
    monkeypatch.setenv("DAWDLE_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    settings = config.Config.from_env()
    assert (settings.debug, settings.device, settings.threads, settings.memory_limit) == (2, "NUMPY", 4, 0)
    assert settings.cache_dir == tmp_path / "here"
    monkeypatch.delenv("DAWDLE_CACHE_DIR")
    assert config.Config.from_env().cache_dir == tmp_path / "xdg" / "dawdle"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert config.Config.from_env().cache_dir == tmp_path / ".cache" / "dawdle"


@pytest.mark.parametrize("name, text, words", [
    ("DEBUG", "lots", r"environment variable DEBUG='lots' is not an integer"),
    ("DAWDLE_THREADS", "-1", r"setting threads \(DAWDLE_THREADS\) is -1; it must not be negative"),
    ("DAWDLE_MEMORY_LIMIT", "-5", r"setting memory_limit \(DAWDLE_MEMORY_LIMIT\) is -5"),
])  # fmt: skip
def test_a_bad_environment_is_explained(monkeypatch, name, text, words):
    monkeypatch.setenv(name, text)
    with pytest.raises(DawdleError, match=words):
        config.Config.from_env()


def test_override_is_undone():
    before = config.current()
    with pytest.raises(KeyError), config.override(debug=5):
        assert config.current().debug == 5
        raise KeyError
    assert config.current() is before
    words = r"unknown settings \['colour'\]; known are \['debug', "
    with pytest.raises(DawdleError, match=words), config.override(colour=1):
        pass
    with pytest.raises(DawdleError, match=r"threads .* is -2; it must not be"), config.override(threads=-2):
        pass
    assert config.current() is before


@pytest.mark.parametrize("d", ALL, ids=lambda d: d.name)
def test_a_dtype_equals_what_it_is_known_by(d):
    assert d == d.name and d.name == d and d != "float" and d in ("x", d.name) and {d: 1}[d.name] == 1
    if d is not bfloat16:
        assert d == np.dtype(d.name) and np.dtype(d.name).type == d
    assert d != None and d != 3  # noqa: E711
    assert sum(d == other for other in ALL) == 1
    assert (d.is_floating_point, d.is_signed, d.is_complex) == (d.kind == "f", d.kind in "fi", False)


def test_limits_of_dtypes():
    torch = pytest.importorskip("torch")
    for d in ALL:
        if d.is_float:
            mine, theirs = finfo(d.name), torch.finfo(getattr(torch, d.name))
            for name in ("bits", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
                assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-12)
        elif d.is_int:
            mine, theirs = iinfo(d), torch.iinfo(getattr(torch, d.name))
            assert (mine.bits, mine.min, mine.max) == (theirs.bits, theirs.min, theirs.max)
    assert finfo() == finfo("float32") and finfo(float16).smallest_subnormal == 2.0**-24
    with pytest.raises(DTypeError, match="iinfo"):
        finfo(int64)
    with pytest.raises(DTypeError, match="finfo"):
        iinfo(float)
