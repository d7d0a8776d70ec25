"""Strings. They are arrays of Python's str on the host."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable

import numpy as np

from dawdle.dtype import float32, int64
from dawdle.errors import ModelError
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import HostArray, Value, host, on_host
from dawdle.tensor import Tensor

CASES: dict[str, Callable[[str], str]] = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}


def strings(values: Iterable[str], shape: tuple[int, ...]) -> HostArray:
    """Strings as an array of a shape."""
    out = np.empty(shape, object)
    out.reshape(-1)[:] = list(values)
    return HostArray(out)


@operator("StringConcat", host=None)
def concat(node: Node, a: Value, b: Value) -> HostArray:
    return HostArray(np.asarray(host(a) + host(b), object))


@operator("RegexFullMatch", host=None)
def full_match(node: Node, x: Value) -> Tensor:
    """Whether each string matches the pattern as a whole."""
    try:
        pattern = re.compile(node.string("pattern"))
    except re.error as error:
        raise ModelError(f"{node}: bad pattern {node.string('pattern')!r}: {error}") from None
    array = host(x)
    found = [pattern.fullmatch(s) is not None for s in array.reshape(-1)]
    return on_host(np.array(found, np.bool_).reshape(array.shape))


@operator("StringSplit", host=None)
def split(node: Node, x: Value) -> tuple[HostArray, Tensor]:
    """The parts of each string, filled up with "" along a new last axis, and how many there are."""
    array = host(x)
    separator = node.string("delimiter", "") or None
    parts = [s.split(separator, node.int("maxsplit", -1)) for s in array.reshape(-1)]
    most = max(map(len, parts), default=0)
    filled = [s for part in parts for s in [*part, *[""] * (most - len(part))]]
    counts = np.array([len(part) for part in parts], np.int64).reshape(array.shape)
    return strings(filled, (*array.shape, most)), on_host(counts, int64)


@operator("StringNormalizer", host=None)
def normalize(node: Node, x: Value) -> HostArray:
    """Strings in another case, without the stop words; one empty string where none is left."""
    change = CASES[node.string("case_change_action", "NONE")]
    stops = set(node.strings("stopwords", ()))
    exact = node.flag("is_case_sensitive", 0)
    if not exact:
        stops = {s.lower() for s in stops}
    array = host(x)
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    kept = [[change(s) for s in row if (s if exact else s.lower()) not in stops] for row in rows]
    width = max(map(len, kept), default=0) or 1
    filled = [s for row in kept for s in [*row, *[""] * (width - len(row))]]
    return strings(filled, (width,) if array.ndim == 1 else (len(kept), width))


@operator("TfIdfVectorizer", host=None)
def tf_idf(node: Node, x: Value) -> Tensor:
    """How often n-grams of a pool occur in each row, with up to ``max_skip_count`` tokens skipped between
    their tokens; weighted, or only whether they do, by ``mode``.
    """
    array = host(x)
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    pool = _pool(node)
    places = node.ints("ngram_indexes")
    out = np.zeros((len(rows), max(places) + 1), np.float32)
    for row, counts in zip(rows, out, strict=True):
        for gram in _grams(node, row.tolist()):
            if gram in pool:
                counts[places[pool[gram]]] += 1
    mode = node.string("mode")
    if mode == "IDF":
        out = np.minimum(out, 1)
    if mode != "TF" and node.has("weights"):
        weights = np.ones(out.shape[1], np.float32)
        weights[list(places)] = node.floats("weights")
        out = out * weights
    return on_host(out if array.ndim > 1 else out[0], float32)


def _pool(node: Node) -> dict[tuple[object, ...], int]:
    """The n-grams of the pool, which lists those of one token first, then those of two, and so on."""
    tokens = node.strings("pool_strings", None) or node.ints("pool_int64s")
    starts = [*node.ints("ngram_counts"), len(tokens)]
    pool: dict[tuple[object, ...], int] = {}
    for n, (first, last) in enumerate(itertools.pairwise(starts), 1):
        for i in range(first, last, n):
            pool[tuple(tokens[i : i + n])] = len(pool)
    return pool


def _grams(node: Node, tokens: list[object]) -> Iterable[tuple[object, ...]]:
    """The n-grams of a row: of one token once, longer ones for each distance between their tokens."""
    for n in range(node.int("min_gram_length"), node.int("max_gram_length") + 1):
        for step in range(1, (node.int("max_skip_count") if n > 1 else 0) + 2):
            for i in range(len(tokens) - (n - 1) * step):
                yield tuple(tokens[i + k * step] for k in range(n))
