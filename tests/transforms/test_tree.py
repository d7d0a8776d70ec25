"""Nested containers: leaves and structure, and the way back."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field

import pytest

from dawdle import tree
from dawdle.errors import ShapeError

Point = namedtuple("Point", "x y")


@dataclass(frozen=True)
class Frozen:
    a: object
    b: object = 2


@dataclass
class Derived:
    a: object
    twice: object = field(init=False, default=0)


NESTED = [
    5, None, (), [], {}, (1,), [1, (2, [3])], {"b": 1, "a": {"c": (2, 3)}}, Point(1, [2]),
    OrderedDict(z=1, y=2), Frozen(1), Frozen([1, 2], {"k": 3}), {1: (None, "text")},
]  # fmt: skip


@pytest.mark.parametrize("x", NESTED, ids=repr)
def test_there_and_back(x):
    leaves, structure = tree.flatten(x)
    assert len(leaves) == structure.size
    again = tree.refill(x, leaves)
    assert again == x and type(again) is type(x)
    assert tree.flatten(tree.transform(lambda leaf: (leaf,), x))[0] == leaves


def test_the_types_of_containers_stay():
    default = defaultdict(list, a=1)
    again = tree.transform(lambda x: x + 1, default)
    assert again == {"a": 2} and again["new"] == [] and default == {"a": 1}
    point = tree.refill(Point(1, (2, 3)), [4, 5, 6])
    assert point == Point(4, (5, 6))
    frozen = Frozen(1, 2)
    assert tree.transform(lambda x: -x, frozen) == Frozen(-1, -2) and frozen == Frozen(1, 2)
    derived = Derived(3)
    derived.twice = 6
    again = tree.transform(lambda x: x * 10, derived)
    assert (again.a, again.twice) == (30, 60) and derived.a == 3


def test_structures_are_readable():
    assert str(tree.flatten(([1, (2,)], {"a": 3, "b": (4, 5)}))[1]) == "([*, (*,)], {a: *, b: (*, *)})"
    assert str(tree.flatten(1)[1]) == "*"


def test_spread():
    structure = tree.flatten(([1, 2], {"a": 3, "b": (4, 5)}))[1]
    assert tree.spread(7, structure, "dims") == [7] * 5
    assert tree.spread((0, 1), structure, "dims") == [0, 0, 1, 1, 1]
    assert tree.spread(([0, None], {"a": 1, "b": (2, 3)}), structure, "dims") == [0, None, 1, 2, 3]
    for wrong in ((0,), (0, {"a": 1}), (0, {"b": 1, "a": 2}), ([1, [2, 3]], 0)):
        with pytest.raises(ShapeError, match=r"dims .* doesn't fit the nesting"):
            tree.spread(wrong, structure, "dims")
