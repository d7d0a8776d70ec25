"""Operators of the domain ai.onnx.ml: labels, thresholds and ensembles of trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dawdle.dtype import Array
from dawdle.errors import ModelError
from dawdle.onnx.registry import Node, operator
from dawdle.onnx.values import Value, host, on_host
from dawdle.onnx.weights import from_array
from dawdle.tensor import Tensor

ML = "ai.onnx.ml"


@operator("Binarizer", domain=ML)
def binarizer(node: Node, x: Tensor) -> Tensor:
    """1 above the threshold, else 0."""
    return (x > node.float("threshold", 0.0)).cast(x.dtype)


@operator("LabelEncoder", domain=ML, host=None)
def label_encoder(node: Node, x: Value) -> Value:
    """Each element replaced by the value that belongs to it, or by the default."""
    keys, values = _column(node, "keys"), _column(node, "values")
    table = dict(zip(_keys(keys), values.tolist(), strict=True))
    array = host(x)
    default = _default(node, values)
    found = [table.get(key, default) for key in _keys(array.reshape(-1))]
    return from_array(np.array(found, values.dtype).reshape(array.shape))


def _keys(column: Array) -> list[Any]:
    """Elements as keys of a table: all NaNs are one."""
    return ["nan" if isinstance(k, float) and k != k else k for k in column.reshape(-1).tolist()]


def _column(node: Node, side: str) -> Array:
    if node.has(f"{side}_tensor"):
        return host(node.tensor(f"{side}_tensor")).reshape(-1)
    for suffix, dtype in (("strings", object), ("int64s", np.int64), ("floats", np.float32)):
        name = f"{side}_{suffix}"
        if node.has(name):
            given = node.strings(name) if suffix == "strings" else node.get(name)
            return np.array(given, dtype)
    raise ModelError(f"{node} has no {side}")


def _default(node: Node, values: Array) -> Any:
    if node.has("default_tensor"):
        return host(node.tensor("default_tensor")).reshape(-1)[0]
    if values.dtype == object:
        return node.string("default_string", "_Unused")
    return node.int("default_int64", -1) if values.dtype.kind == "i" else node.float("default_float", -0.0)


# TreeEnsemble's ways to compare a feature with a threshold: where it holds, the true branch is taken
COMPARE: dict[int, Callable[[Any, Any], bool]] = {
    0: lambda x, v: bool(x <= v),
    1: lambda x, v: bool(x < v),
    2: lambda x, v: bool(x >= v),
    3: lambda x, v: bool(x > v),
    4: lambda x, v: bool(x == v),
    5: lambda x, v: bool(x != v),
}
MEMBER = 6
COMBINE: dict[int, Callable[[Array], Array]] = {
    0: lambda rows: rows.mean(0),
    1: lambda rows: rows.sum(0),
    2: lambda rows: rows.min(0),
    3: lambda rows: rows.max(0),
}


class Trees:
    """The ensemble of a TreeEnsemble node."""

    def __init__(self, node: Node) -> None:
        self.roots = node.ints("tree_roots")
        self.features = node.ints("nodes_featureids")
        self.modes = host(node.tensor("nodes_modes")).tolist()
        self.splits = host(node.tensor("nodes_splits"))
        self.nan_is_true = node.ints("nodes_missing_value_tracks_true", (0,) * len(self.modes))
        self.branches = {
            True: (node.ints("nodes_trueleafs"), node.ints("nodes_truenodeids")),
            False: (node.ints("nodes_falseleafs"), node.ints("nodes_falsenodeids")),
        }
        self.leaf_targets = node.ints("leaf_targetids")
        self.leaf_weights = host(node.tensor("leaf_weights"))
        self.members = _member_sets(node, self.modes)

    def leaf(self, root: int, x: Array) -> int:
        """The leaf that a row of features arrives at."""
        at, done = root, False
        while not done:
            is_leaf, children = self.branches[self._holds(at, x[self.features[at]])]
            at, done = children[at], bool(is_leaf[at])
        return at

    def _holds(self, at: int, feature: Any) -> bool:
        if feature != feature and self.nan_is_true[at]:
            return True
        if self.modes[at] == MEMBER:
            return float(feature) in self.members[at]
        return COMPARE[self.modes[at]](feature, self.splits[at])


def _member_sets(node: Node, modes: list[int]) -> dict[int, set[float]]:
    """The values of each node that asks for membership; NaN stands between the lists of two nodes."""
    if not node.has("membership_values"):
        return {}
    asking = iter([i for i, mode in enumerate(modes) if mode == MEMBER])
    sets: dict[int, set[float]] = {}
    current: set[float] = set()
    for value in host(node.tensor("membership_values")).tolist():
        if value != value:
            sets[next(asking)] = current
            current = set()
        else:
            current.add(value)
    return sets


@operator("TreeEnsemble", domain=ML, host=None)
def tree_ensemble(node: Node, x: Value) -> Tensor:
    """For each row the weights of the leaves that it arrives at, combined by target."""
    if node.int("post_transform", 0):
        raise ModelError(f"{node}: post_transform is {node.int('post_transform')}, only 0 is supported")
    trees, array = Trees(node), host(x)
    targets = node.int("n_targets")
    out = np.zeros((len(array), targets), array.dtype)
    combine = COMBINE[node.int("aggregate_function", 1)]
    for row, result in zip(array, out, strict=True):
        leaves = [trees.leaf(root, row) for root in trees.roots]
        for target in range(targets):
            weights = [trees.leaf_weights[i] for i in leaves if trees.leaf_targets[i] == target]
            result[target] = combine(np.array(weights)) if weights else 0
    return on_host(out)
