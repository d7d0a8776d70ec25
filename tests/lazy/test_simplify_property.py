"""simplify preserves every value bit by bit, leaves its input alone and makes graphs that verify."""
from __future__ import annotations

import warnings

from hypothesis import HealthCheck, given, settings
from random_graphs import ALL_OPS, assert_same_values, graphs, leaves, values_of

from dawdle.lazy.buffer import format_graph
from dawdle.lazy.simplify import simplify
from dawdle.lazy.verify import verify_graph


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs(ops=ALL_OPS))
def test_simplify_preserves_values(outputs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verify_graph(outputs)
        before = format_graph(outputs)
        simple = simplify(outputs)
        assert format_graph(outputs) == before
        verify_graph(simple)
        assert {id(x.arg) for x in leaves(simple)} <= {id(x.arg) for x in leaves(outputs)}
        for a, b in zip(values_of(*outputs), values_of(*simple), strict=True):
            assert_same_values(a, b)
        for a, b in zip(simple, simplify(simple), strict=True):
            assert a is b, "simplifying again must change nothing"
