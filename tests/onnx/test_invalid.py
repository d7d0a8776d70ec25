"""Models that are not valid are refused when they are loaded, with all that is wrong; the unusual run."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from models import made, port
from onnx import TensorProto, helper

import dawdle.onnx
from dawdle.errors import DawdleError, ModelError
from dawdle.onnx.order import DEEPEST
from dawdle.onnx.schema import NEWEST, NEWEST_IR

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
BIAS = {"w": np.float32([1, 2])}
Rows = dict[str, tuple[Callable[[], onnx.ModelProto], str]]


def node(op: str, inputs: list[str], outputs: list[str], name: str = "", **attributes: Any) -> Any:
    return helper.make_node(op, inputs, outputs, name, **attributes)


def graph(
    *nodes: Any, outputs: tuple[str, ...] = ("y",), weights: Any = None, **more: Any
) -> onnx.ModelProto:
    """A model of the input x."""
    return made(nodes, [port("x")], [port(name) for name in outputs], weights, **more)


def body(*nodes: Any, output: str = "t") -> Any:
    return helper.make_graph(list(nodes), "body", [], [port(output)])


def choice(then: Any, *others: Any) -> onnx.ModelProto:
    """A model of x and c with an If, whose other branch gives x."""
    otherwise = body(node("Identity", ["x"], ["e"]), output="e")
    nodes = [*others, node("If", ["c"], ["y"], "if", then_branch=then, else_branch=otherwise)]
    return made(nodes, [port("x"), port("c", BOOL, [])], [port("y")])


def calling(
    *nodes: Any,
    inputs: tuple[str, ...] = ("a",),
    outputs: tuple[str, ...] = ("b",),
    call: Any = None,
    copies: int = 1,
) -> onnx.ModelProto:
    """A model that calls the function F, which is made of these nodes."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", inputs, outputs, nodes, opsets)
    call = call or node("F", ["x"], ["y"], "call", domain="own")
    return graph(call, functions=[function] * copies, domains=opsets[1:])


def twice(attribute: Any) -> onnx.ModelProto:
    model = graph(node("Cast", ["x"], ["y"], "cast", to=1))
    model.graph.node[0].attribute.append(attribute)
    return model


def without_opsets() -> onnx.ModelProto:
    model = graph(node("Relu", ["x"], ["y"]))
    del model.opset_import[:]
    return model


def newer() -> onnx.ModelProto:
    model = graph(node("Relu", ["x"], ["y"]))
    model.ir_version = NEWEST_IR + 1
    return model


def typed(op: str, **attributes: Any) -> onnx.ModelProto:
    return graph(node(op, ["x"], ["y"], "n", **attributes))


NAMES: Rows = {
    "undefined": (
        lambda: graph(node("Relu", ["t"], ["y"], "r")),
        "Relu 'r' uses the value 't', which nothing",
    ),
    "undefined for an unused node": (
        lambda: graph(node("Relu", ["t"], ["z"], "r"), node("Neg", ["x"], ["y"])),
        "Relu 'r' uses the value 't'",
    ),
    "circle": (
        lambda: graph(node("Add", ["x", "b"], ["y"], "first"), node("Relu", ["y"], ["b"], "second")),
        "need each other's results: .*'first'.*",
    ),
    "given twice": (
        lambda: graph(node("Relu", ["x"], ["y"], "one"), node("Neg", ["x"], ["y"], "two")),
        "Neg 'two' gives 'y', which Relu 'one' gives too",
    ),
    "given twice by one": (
        lambda: graph(node("Split", ["x"], ["y", "y"], "parts", num_outputs=2)),
        "Split 'parts' gives 'y', which Split 'parts' gives too",
    ),
    "a weight is given": (
        lambda: graph(node("Relu", ["x"], ["w"], "r"), node("Neg", ["w"], ["y"]), weights=BIAS),
        "Relu 'r' gives 'w', which is an input or a weight",
    ),
    "an input is given": (
        lambda: graph(node("Neg", ["x"], ["x"], "n"), outputs=("x",)),
        "'n' gives 'x', which is an",
    ),
    "two inputs": (
        lambda: made([node("Neg", ["x"], ["y"])], [port("x"), port("x")], [port("y")]),
        "there are two inputs of the name 'x'",
    ),
    "an output that nothing gives": (
        lambda: graph(node("Neg", ["x"], ["z"])),
        "the output 'y' of the graph 'test' is given by nothing",
    ),
    "undefined in a body": (
        lambda: choice(body(node("Neg", ["t"], ["u"], "inner"), output="u")),
        "Neg 'inner' uses",
    ),
    "a body gives what is there": (
        lambda: choice(body(node("Neg", ["x"], ["t"], "inner")), node("Abs", ["x"], ["t"])),
        "Neg 'inner' gives 't', which the graph around it defines",
    ),
    "a body needs its own result": (
        lambda: choice(body(node("Neg", ["y"], ["t"]))),
        "need each other's .*If 'if'",
    ),
    "a function sees its inputs only": (
        lambda: calling(node("Neg", ["x"], ["b"], "inner")),
        "in the function 'F': Neg 'inner' uses the value 'x'",
    ),
    "a function's output": (
        lambda: calling(node("Neg", ["a"], ["c"])),
        "in the function 'F': the output 'b' of the function 'F' is given by nothing",
    ),
    "a function's inputs": (
        lambda: calling(node("Neg", ["a"], ["b"]), call=node("F", ["x", "x"], ["y"], "call", domain="own")),
        "F 'call' has 2 inputs, its function has 1",
    ),
    "a function that calls itself": (
        lambda: calling(node("F", ["a"], ["b"], domain="own")),
        "function 'F' calls itself",
    ),
    "two functions": (
        lambda: calling(node("Neg", ["a"], ["b"]), copies=2),
        "two functions of the same domain",
    ),
}

NODES: Rows = {
    "unknown attribute": (
        lambda: typed("LeakyRelu", slope=1.0),
        "LeakyRelu 'n' has an attribute 'slope', which opset 21 doesn't know; it knows alpha",
    ),
    "no attribute": (lambda: typed("Relu", slope=1.0), "its operator has none"),
    "newer attribute": (
        lambda: graph(node("Cast", ["x"], ["y"], to=1, saturate=1), opset=13),
        "'saturate', which opset 13 doesn't",
    ),
    "missing": (lambda: typed("Concat"), "Concat 'n' has no attribute 'axis', which its operator requires"),
    "integer for a float": (
        lambda: typed("LeakyRelu", alpha=1),
        "'alpha' of LeakyRelu 'n' is of the wrong type: INT",
    ),
    "string for an integer": (lambda: typed("Softmax", axis="last"), "wrong type: STRING instead of INT"),
    "one for several": (lambda: typed("Transpose", perm=0), "INT instead of INTS"),
    "twice": (lambda: twice(helper.make_attribute("to", 7)), "Cast 'cast' has the attribute 'to' twice"),
    "too many inputs": (lambda: graph(node("Relu", ["x", "x"], ["y"])), "has 2 inputs, its operator takes 1"),
    "too many outputs": (
        lambda: graph(node("Relu", ["x"], ["y", "z"])),
        "has 2 outputs, its operator gives 1",
    ),
    "an input left out": (
        lambda: graph(node("Gather", ["", "x"], ["y"], "g")),
        "Gather 'g' leaves out the input 'data'",
    ),
    "another type": (
        lambda: made([node("Add", ["x", "w"], ["y"])], [port("x"), port("w", INT64)], [port("y")], BIAS),
        "the weight 'w' is of the type float32, the input of that name of int64",
    ),
}

VERSIONS: Rows = {
    "opset 99": (
        lambda: graph(opset=99),
        "uses opset 99 of the domain 'ai.onnx'; dawdle knows those from 1 to 28",
    ),
    "opset 0": (lambda: graph(opset=0), "uses opset 0"),
    "another domain": (
        lambda: graph(domains=[helper.make_opsetid("ai.onnx.ml", 40)]),
        "opset 40 of the domain 'ai.onnx.ml'",
    ),
    "a function's": (
        lambda: graph(
            node("F", ["x"], ["y"], domain="own"),
            domains=[helper.make_opsetid("own", 1)],
            functions=[
                helper.make_function(
                    "own", "F", ["a"], ["b"], [node("Neg", ["a"], ["b"])], [helper.make_opsetid("", 99)]
                )
            ],
        ),
        "opset 99",
    ),
    "none": (without_opsets, "doesn't say which opset"),
    "IR": (newer, f"IR version {NEWEST_IR + 1}; the newest that dawdle knows is {NEWEST_IR}"),
}

ROWS = NAMES | NODES | VERSIONS


@pytest.mark.parametrize("row", ROWS)
def test_refused(row: str) -> None:
    make, words = ROWS[row]
    with pytest.raises(ModelError, match=words):
        dawdle.onnx.load(make(), device="NUMPY")


def test_all_faults_are_listed_together() -> None:
    nodes = [
        node("Mystery", ["x"], ["a"]),
        node("Relu", ["lost"], ["b"], slope=1.0),
        node("Concat", ["b"], ["y"]),
    ]
    with pytest.raises(ModelError) as caught:
        dawdle.onnx.load(graph(*nodes), device="NUMPY")
    words = str(caught.value)
    assert all(part in words for part in ("Mystery", "'lost'", "'slope'", "'axis'"))


def test_the_newest_opsets_are_those_of_the_package() -> None:
    assert NEWEST[""] >= onnx.defs.onnx_opset_version()
    assert NEWEST["ai.onnx.ml"] >= onnx.defs.onnx_ml_opset_version()
    assert NEWEST_IR >= onnx.IR_VERSION


X = np.float32([-1, 2])
UNUSUAL = {
    "in another order": (lambda: graph(node("Relu", ["t"], ["y"]), node("Neg", ["x"], ["t"])), [1, 0]),
    "a body uses what comes later": (
        lambda: made(
            [
                *reversed(
                    choice(body(node("Neg", ["later"], ["t"])), node("Abs", ["x"], ["later"])).graph.node
                )
            ],
            [port("x"), port("c", BOOL, [])],
            [port("y")],
        ),
        [-1, -2],
    ),
    "a function in another order": (
        lambda: calling(node("Relu", ["t"], ["b"]), node("Neg", ["a"], ["t"])),
        [1, 0],
    ),
    "a body's name that comes again": (lambda: choice(body(node("Neg", ["x"], ["e"]), output="e")), [1, -2]),
    "a body that captures a weight": (
        lambda: made(
            list(choice(body(node("Add", ["x", "w"], ["t"]))).graph.node),
            [port("x"), port("c", BOOL, [])],
            [port("y")],
            BIAS,
        ),
        [0, 4],
    ),
    "an input as output": (lambda: graph(outputs=("x",)), [-1, 2]),
    "a weight as output": (lambda: graph(outputs=("w",), weights=BIAS), [1, 2]),
    "an output without a name": (lambda: graph(node("Dropout", ["x"], ["y", ""])), [-1, 2]),
    "an older IR": (lambda: made_of_ir(3), [0, 4]),
}


def made_of_ir(version: int) -> onnx.ModelProto:
    model = made([node("Add", ["x", "w"], ["y"])], [port("x"), port("w")], [port("y")], BIAS, opset=8)
    model.ir_version = version
    return model


@pytest.mark.parametrize("row", UNUSUAL)
def test_unusual(row: str) -> None:
    make, wanted = UNUSUAL[row]
    model = dawdle.onnx.load(make(), device="NUMPY")
    given: dict[str, Any] = {"x": X, "c": np.array(True)}
    (y,) = model(**{port.name: given[port.name] for port in model.inputs})
    assert y.tolist() == wanted


def test_an_output_asked_for_twice() -> None:
    first, second = dawdle.onnx.load(graph(node("Neg", ["x"], ["y"]), outputs=("y", "y")), device="NUMPY")(X)
    assert first.tolist() == second.tolist() == [1, -2]


# ---- calls


def takes(port_: Any, op: str, given: str, **out: Any) -> dawdle.onnx.Model:
    return dawdle.onnx.load(made([node(op, [given], ["y"])], [port_], [port("y", **out)]), device="NUMPY")


def sequence(value: Any) -> Any:
    kind = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, ["n", 2])
    return takes(kind, "SequenceLength", "s", dtype=INT64, shape=[])(value)


def optional(value: Any) -> Any:
    type_ = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    kind = helper.make_value_info("o", type_)
    return takes(kind, "OptionalHasElement", "o", dtype=BOOL, shape=[])(value)


def text(value: Any) -> Any:
    return takes(port("s", TensorProto.STRING), "Identity", "s", dtype=TensorProto.STRING)(value)


def number(value: Any) -> Any:
    return takes(port("x", shape=[]), "Neg", "x", shape=[])(value)


CALLS: list[tuple[Callable[[Any], Any], Any, str]] = [
    (number, None, "'x' is declared x: float32.*, got None: it is needed"),
    (number, 10**400, "too large"),
    (sequence, np.zeros((1, 2), np.float32), "got ndarray; pass a list"),
    (sequence, None, "got NoneType; pass a list"),
    (sequence, [None], "it is needed"),
    (sequence, [np.zeros(2, np.float32)], r"got shape \(2,\)"),
    (optional, np.zeros(3, np.float32), r"got shape \(3,\)"),
    (text, [1, 2], "1 is no string"),
    (text, [None], "None is no string"),
]


@pytest.mark.parametrize(
    "call, value, words", CALLS, ids=[f"{c.__name__}-{i}" for i, (c, _, _) in enumerate(CALLS)]
)
def test_values_that_do_not_fit(call: Callable[[Any], Any], value: Any, words: str) -> None:
    with pytest.raises(DawdleError, match=words):
        call(value)


def test_values_that_fit() -> None:
    assert number(np.array(2, ">f4"))["y"].item() == -2
    assert text([b"a", "b"])["y"].tolist() == ["a", "b"]
    assert sequence([np.zeros((1, 2), np.float32), np.zeros((0, 2), np.float32)])["y"].item() == 2
    assert [optional(v)["y"].item() for v in (None, [1, 2])] == [False, True]


# ---- bombs


def functions(count: int, calls: int) -> onnx.ModelProto:
    """Functions each of which calls the one before it so many times."""
    domains = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    made_of = [helper.make_function("own", "F0", ["a"], ["b"], [node("Neg", ["a"], ["b"])], domains)]
    for i in range(1, count):
        steps = ["a", *[f"t{k}" for k in range(calls - 1)], "b"]
        nodes = [node(f"F{i - 1}", [a], [b], domain="own") for a, b in itertools.pairwise(steps)]
        made_of.append(helper.make_function("own", f"F{i}", ["a"], ["b"], nodes, domains))
    call = node(f"F{count - 1}", ["x"], ["y"], domain="own")
    return graph(call, functions=made_of, domains=domains[1:])


def nested(depth: int) -> onnx.ModelProto:
    """Ifs within each other."""
    inner = body(node("Neg", ["x"], ["t0"]), output="t0")
    for i in range(depth):
        other = body(node("Abs", ["x"], [f"e{i}"]), output=f"e{i}")
        inner = body(
            node("If", ["c"], [f"t{i + 1}"], then_branch=inner, else_branch=other), output=f"t{i + 1}"
        )
    return choice(inner)


def test_functions_that_grow_without_end() -> None:
    start = time.perf_counter()
    with pytest.raises(ModelError, match="nodes once its functions are written out"):
        dawdle.onnx.load(functions(40, 2), device="NUMPY")
    assert time.perf_counter() - start < 5


def test_functions_too_deep_within_each_other() -> None:
    with pytest.raises(ModelError, match="deep within each other"):
        dawdle.onnx.load(functions(DEEPEST + 5, 1), device="NUMPY")
    assert dawdle.onnx.load(functions(DEEPEST - 5, 1), device="NUMPY")(X)[0].shape == (2,)


def test_bodies_as_deep_as_files_can_hold() -> None:
    model = dawdle.onnx.load(nested(29).SerializeToString(), device="NUMPY")
    assert model(X, np.array(True))[0].tolist() == [1, -2]


def test_messages_too_deep_within_each_other() -> None:
    """What protobuf would refuse is refused before."""
    data = bytes(2000)
    for _ in range(300):
        for tag in (6 << 3 | 2, 5 << 3 | 2, 1 << 3 | 2):  # a graph, in an attribute, in a node, in a graph
            data = bytes([tag]) + encoded(len(data)) + data
    with pytest.raises(ModelError, match="within each other"):
        dawdle.onnx.load(b"\x3a" + encoded(len(data)) + data)


def encoded(n: int) -> bytes:
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


def test_what_is_newer_than_the_package_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its schemas are of an older opset, which may not know an attribute."""
    monkeypatch.setattr(onnx.defs, "onnx_opset_version", lambda: 20)
    model = dawdle.onnx.load(typed("Relu", slope=1.0), device="NUMPY")
    assert model(X)["y"].tolist() == [0, 2]
