"""Loading and calling models: ports, outputs, errors, weights in files, jit, functions, placement."""
from __future__ import annotations

import doctest
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from models import linear, made, port
from onnx import TensorProto, helper, numpy_helper

import dawdle.onnx
from dawdle import Tensor, float32, int64
from dawdle.errors import DTypeError, ModelError, ShapeError
from dawdle.onnx import weights, wire
from dawdle.onnx.registry import find, operator
from dawdle.runtime import executor

RNG = np.random.default_rng(7)
FLOAT, INT64, BOOL, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


@pytest.fixture(autouse=True)
def everywhere(device):
    """Runs every test on each device."""


def node(op, inputs, outputs, name="", **attributes):
    return helper.make_node(op, inputs, outputs, name, **attributes)


def load(nodes, inputs, outputs, weights=None, jit=False, **more):
    return dawdle.onnx.load(made(nodes, inputs, outputs, weights, **more), jit=jit)


def expected(weights, x):
    return np.maximum(x @ weights["w"] + weights["b"], 0)


# ---- sources and weights


@pytest.mark.parametrize("how", ["path", "text", "bytes", "proto"])
def test_sources(how, tmp_path):
    proto, weights = linear(RNG)
    path = tmp_path / "model.onnx"
    path.write_bytes(proto.SerializeToString())
    source = {"path": path, "text": str(path), "bytes": path.read_bytes(), "proto": proto}[how]
    x = RNG.normal(size=(3, 300)).astype(np.float32)
    (y,) = dawdle.onnx.load(source)(x)
    np.testing.assert_allclose(y.numpy(), expected(weights, x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("one_file", [True, False])
def test_external_data(one_file, tmp_path):
    proto, weights = linear(RNG)
    path = tmp_path / "model.onnx"
    onnx.save_model(proto, path, save_as_external_data=True, all_tensors_to_one_file=one_file,
                    location="weights.bin" if one_file else None, size_threshold=0)  # fmt: skip
    x = RNG.normal(size=(2, 300)).astype(np.float32)
    model = dawdle.onnx.load(path)
    np.testing.assert_allclose(model(x)["y"].numpy(), expected(weights, x), rtol=1e-4, atol=1e-4)
    with pytest.raises(ModelError, match="load the model by its path"):
        dawdle.onnx.load(path.read_bytes())(x)


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "weights").mkdir()
    with pytest.raises(ModelError, match="can't read"):
        weights.mapped(tmp_path / "weights")


def test_weights_stay_in_the_file(tmp_path):
    proto, _ = linear(RNG)
    data = proto.SerializeToString()
    small = wire.without_weights(memoryview(data))
    assert len(data) > 48000 > 2000 > len(small)
    entries = {e.key: e.value for e in onnx.ModelProto.FromString(small).graph.initializer[0].external_data}
    at = int(entries["offset"])
    raw = proto.graph.initializer[0].raw_data
    assert data[at : at + int(entries["length"])] == raw


def test_weights_in_bodies_and_attributes_stay_in_the_file():
    big = numpy_helper.from_array(np.arange(1000, dtype=np.float32), "big")
    then = helper.make_graph([node("Identity", ["big"], ["t"])], "then", [], [port("t")], [big])
    other = helper.make_graph([node("Constant", [], ["e"], value=big)], "else", [], [port("e")])
    model = made([node("If", ["c"], ["y"], then_branch=then, else_branch=other)],
                 [port("c", BOOL, [])], [port("y", shape=[1000])])  # fmt: skip
    assert len(wire.without_weights(memoryview(model.SerializeToString()))) < 1000
    loaded = dawdle.onnx.load(model.SerializeToString())
    for choice in (True, False):
        np.testing.assert_array_equal(loaded(choice)[0].numpy(), np.arange(1000))


@pytest.mark.parametrize("data", [b"no model at all", b"", bytes(range(256)), b"\x3a\xff\xff\xff\xff\x0f",
                                  None, 3])  # fmt: skip
def test_what_is_no_model(data):
    with pytest.raises(ModelError):
        dawdle.onnx.load(data)


def test_a_file_that_is_cut_off(tmp_path):
    data = linear(RNG)[0].SerializeToString()
    with pytest.raises(ModelError, match="cut off or damaged"):
        dawdle.onnx.load(data[: len(data) // 2])


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelError, match="there is no model at"):
        dawdle.onnx.load(tmp_path / "nowhere.onnx")


def test_without_the_onnx_package(device):
    code = (
        "import sys; sys.modules['onnx'] = None\n"
        "import dawdle.errors, dawdle.onnx\n"
        "try: dawdle.onnx.load('model.onnx')\n"
        "except dawdle.errors.ModelError as e: print(e)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'dawdle[onnx]'" in done.stdout


# ---- ports, arguments and outputs


def adder(**shapes):
    """y = a + b, z = a - b."""
    inputs = [port(name, shape=shape) for name, shape in shapes.items()]
    nodes = [node("Add", ["a", "b"], ["y"]), node("Sub", ["a", "b"], ["z"])]
    return load(nodes, inputs, [port("y", shape=["n", "m"]), port("z", shape=None)])


def test_ports():
    model = adder(a=["n", "m"], b=["n", 3])
    assert [p.name for p in model.inputs] == ["a", "b"]
    assert [p.shape for p in model.inputs] == [("n", "m"), ("n", 3)]
    assert [p.dtype for p in model.inputs] == [float32, float32]
    assert [(p.name, p.shape) for p in model.outputs] == [("y", ("n", "m")), ("z", None)]
    assert model.opset == 21
    assert str(model.inputs[1]) == "b: float32[n, 3]"
    assert "a: float32[n, m]" in repr(model) and "opset 21" in repr(model)


def test_outputs_by_position_and_name():
    out = adder(a=["n"], b=["n"])([1.0, 2.0], b=np.float32([3, 5]))
    y, z = out
    assert out["y"] is y is out[0] and len(out) == 2
    assert y.tolist() == [4, 7] and z.tolist() == [-2, -3]
    assert dict(out) == {"y": y, "z": z} and out.keys() == ("y", "z")
    with pytest.raises(KeyError, match="its outputs are y, z"):
        out["x"]


def test_arguments_are_tensors_arrays_lists_and_numbers():
    model = adder(a=["n"], b=[])
    for a in (Tensor([1.0, 2.0]), np.float32([1, 2]), [1, 2], (1.0, 2.0)):
        assert model(a, 1)["y"].tolist() == [2, 3]


def test_symbols_have_one_size():
    model = adder(a=["n", "m"], b=["n", "m"])
    assert model(np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32))[0].shape == (2, 3)
    assert model(np.zeros((5, 1), np.float32), np.zeros((5, 1), np.float32))[0].shape == (5, 1)
    words = r"input 'b' is declared b: float32\[n, m\], got shape \(1, 3\): n is 1 here and 2 in input 'a'"
    with pytest.raises(ShapeError, match=words):
        model(np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32))


@pytest.mark.parametrize("shape", [(2, 3), (3,), (3, 4, 1), ()])
def test_fixed_shapes_are_checked(shape):
    with pytest.raises(ShapeError, match=r"input 'a' is declared a: float32\[n, 4\], got shape"):
        adder(a=["n", 4], b=[])(np.zeros(shape, np.float32), 1)


@pytest.mark.parametrize("array", [np.zeros(2), np.zeros(2, np.int64)])
def test_dtypes_are_checked(array):
    with pytest.raises(DTypeError, match="input 'a' is declared float32, got"):
        adder(a=["n"], b=["n"])(array, array)
    with pytest.raises(DTypeError, match=r"input 'a' is declared a: float32\[n\], got 'abc'"):
        adder(a=["n"], b=["n"])("abc", array)


def test_arguments_are_counted():
    model = adder(a=["n"], b=["n"])
    with pytest.raises(ModelError, match="inputs 'b' are missing"):
        model([1])
    with pytest.raises(ModelError, match="takes 2 inputs, got 3"):
        model([1], [2], [3])
    with pytest.raises(ModelError, match="input 'a' was given twice"):
        model([1], a=[1])
    with pytest.raises(ModelError, match="input 'c' is none of the model's"):
        model([1], [2], c=[3])


def test_a_weight_can_be_given():
    inputs = [port("x", shape=[2]), port("w", shape=[2])]
    model = load([node("Mul", ["x", "w"], ["y"])], inputs, [port("y")], {"w": np.float32([2, 3])})
    assert [p.name for p in model.inputs] == ["x"]
    assert model([1, 1])[0].tolist() == [2, 3]
    assert model([1, 1], w=[5, 7])[0].tolist() == [5, 7]


def test_strings_and_sequences():
    model = load([node("SequenceConstruct", ["s", "s"], ["y"])], [port("s", STRING, [None])],
                 [helper.make_tensor_sequence_value_info("y", STRING, None)])  # fmt: skip
    assert str(model.outputs[0]) == "y: sequence of string[?]"
    (y,) = model(["a", "b"])
    assert [part.tolist() for part in y] == [["a", "b"]] * 2


def test_gradients_flow_to_inputs():
    proto, weights = linear(RNG)
    x = Tensor(RNG.normal(size=(2, 300)).astype(np.float32), requires_grad=True)
    dawdle.onnx.load(proto)(x)[0].sum().backward()
    mask = expected(weights, x.numpy()) > 0
    np.testing.assert_allclose(x.grad.numpy(), mask @ weights["w"].T, rtol=1e-4, atol=1e-4)


# ---- operators


def test_unknown_operators_are_listed_together():
    then = helper.make_graph([node("Mystery", ["x"], ["t"], "inner")], "then", [], [port("t")])
    nodes = [
        node("Mystery", ["x"], ["a"], "first"),
        node("Relu", ["a"], ["b"]),
        node("Riddle", ["b"], ["d"], domain="com.example"),
        node("If", ["c"], ["y"], then_branch=then, else_branch=then),
    ]
    with pytest.raises(ModelError) as caught:
        load(nodes, [port("x"), port("c", BOOL, [])], [port("y")],
             domains=[helper.make_opsetid("com.example", 3)])  # fmt: skip
    words = str(caught.value)
    assert "4 nodes of operators that dawdle doesn't know" in words
    parts = ("Mystery (opset 21) of Mystery 'first'", "Mystery 'inner'", "gives 'd'", "com.example.Riddle")
    assert all(part in words for part in parts)


def test_operators_can_be_registered():
    @operator("Twice", domain="test.registered", since=2)
    def twice(node, x):
        return x * node.float("factor", 2.0)

    nodes = [node("Twice", ["x"], ["y"], domain="test.registered")]
    model = load(nodes, [port("x")], [port("y")], domains=[helper.make_opsetid("test.registered", 2)])
    assert model([1, 2])[0].tolist() == [2, 4]
    assert find("Twice", "test.registered", 1) is None


def test_the_newest_version_that_the_opset_has():
    assert find("Clip", "", 6) is not find("Clip", "", 11)
    assert find("Clip", "", 10) is find("Clip", "ai.onnx", 7)
    assert find("Clip", "", 28) is find("Clip", "", 11)


def test_operators_are_listed():
    listed = dawdle.onnx.operators()
    some = {("", "Conv", 1), ("", "Clip", 6), ("", "Clip", 11), ("ai.onnx.ml", "LabelEncoder", 1)}
    assert some <= set(listed)
    assert listed == sorted(listed) and len(listed) > 200


def test_errors_name_the_node():
    with pytest.raises(ShapeError, match="Add 'plus': add: shapes"):
        load([node("Add", ["a", "b"], ["y"], "plus")], [port("a"), port("b", shape=["m"])],
             [port("y")])([1, 2], [1, 2, 3])  # fmt: skip


@pytest.mark.parametrize("inputs", [["a"], ["a", "a", "a"]])
def test_inputs_are_counted(inputs):
    words = f"MatMul 'times' has {len(inputs)} inputs, its operator takes 2"
    with pytest.raises(ModelError, match=words):
        load([node("MatMul", inputs, ["y"], "times")], [port("a")], [port("y", shape=None)])


def test_inputs_that_are_left_out_may_be_listed():
    nodes = [node("Clip", ["a", "low", ""], ["b"]), node("Relu", ["b", ""], ["y"])]
    model = load(nodes, [port("a")], [port("y")], {"low": np.float32(-1)})
    assert model([-5, 5])[0].tolist() == [0, 5]


def test_local_functions():
    """A function with an attribute that has a default, called twice, and with an optional input left out."""
    body = [
        node("Constant", [], ["f"]),
        node("Mul", ["v", "f"], ["scaled"]),
        node("Clip", ["scaled", "", "limit"], ["w"]),
    ]
    body[0].attribute.add(name="value_float", type=1, ref_attr_name="factor")
    default = helper.make_attribute("factor", 10.0)
    function = helper.make_function("test", "Scale", ["v", "limit"], ["w"], body,
                                    [helper.make_opsetid("", 21)], [], [default])  # fmt: skip
    nodes = [
        node("Scale", ["x"], ["a"], domain="test"),
        node("Scale", ["a", "top"], ["y"], domain="test", factor=2.0),
    ]
    model = load(nodes, [port("x")], [port("y")], {"top": np.float32(35)}, functions=[function],
                 domains=[helper.make_opsetid("test", 1)])  # fmt: skip
    assert model([1, 2])[0].tolist() == [20, 35]


def test_a_dtype_that_an_operator_has_not():
    model = load([node("Concat", ["s", "s"], ["t"], axis=0), node("Relu", ["t"], ["y"], "loud")],
                 [port("s", STRING, [1])], [port("y", STRING)])  # fmt: skip
    with pytest.raises(DTypeError, match="Relu 'loud': the operator isn't there for values of dtype object"):
        model(["a"])


def test_strings_are_moved_about():
    nodes = [
        node("Transpose", ["s"], ["t"]),
        node("Unsqueeze", ["t", "zero"], ["u"]),
        node("Expand", ["u", "twice"], ["v"]),
        node("Slice", ["v", "zero", "one", "two"], ["w"]),
        node("Reshape", ["w", "flat"], ["y"]),
    ]
    numbers = {"zero": [0], "one": [1], "two": [2], "twice": [2, 2, 2], "flat": [-1]}
    weights = {name: np.array(n) for name, n in numbers.items()}
    model = load(nodes, [port("s", STRING, [2, 2])], [port("y", STRING)], weights)
    assert model([["a", "b"], ["c", "d"]])[0].tolist() == ["a", "b", "a", "b"]


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_weights(flat):
    values = numpy_helper.from_array(np.float32([5, 7]), "w")
    places = numpy_helper.from_array(np.array([1, 5]) if flat else np.array([[0, 1], [1, 2]]), "places")
    sparse = helper.make_sparse_tensor(values, places, [2, 3])
    proto = made([node("Add", ["x", "w"], ["y"])], [port("x", shape=[])], [port("y", shape=None)])
    proto.graph.sparse_initializer.append(sparse)
    assert dawdle.onnx.load(proto)(1)[0].tolist() == [[1, 6, 1], [1, 1, 8]]


# ---- control flow


def countdown():
    """Doubles x until it exceeds 100, at most n times; gathers each step."""
    body = helper.make_graph(
        [
            node("Mul", ["v", "two"], ["out"]),
            node("ReduceMax", ["out"], ["top"], keepdims=0),
            node("Less", ["top", "limit"], ["go"]),
            node("Identity", ["out"], ["step"]),
        ],
        "body",
        [port("i", INT64, []), port("c", BOOL, []), port("v")],
        [port("go", BOOL, []), port("out"), port("step")],
    )
    return made([node("Loop", ["n", "", "x"], ["y", "steps"], body=body)],
                [port("n", INT64, []), port("x")], [port("y"), port("steps", shape=None)],
                {"two": np.float32(2), "limit": np.float32(100)})  # fmt: skip


def test_loop():
    model = dawdle.onnx.load(countdown())
    y, steps = model(3, [1, 5])
    assert y.tolist() == [8, 40] and steps.tolist() == [[2, 10], [4, 20], [8, 40]]
    assert model(100, [1, 5])["y"].tolist() == [32, 160]
    assert model(0, [1, 5])["y"].tolist() == [1, 5]


def test_a_loop_whose_length_is_known_is_jitted():
    steps = [node("Identity", ["c"], ["go"]), node("Mul", ["v", "two"], ["out"])]
    body = helper.make_graph(steps, "body", [port("i", INT64, []), port("c", BOOL, []), port("v")],
                             [port("go", BOOL, []), port("out")])  # fmt: skip
    model = load([node("Loop", ["n", "", "x"], ["y"], body=body)], [port("n", INT64, []), port("x")],
                 [port("y")], {"two": np.float32(2)}, jit=True)  # fmt: skip
    for _ in range(3):
        assert model(3, [1, 5])[0].tolist() == [8, 40]
        assert model(4, [1, 5])[0].tolist() == [16, 80]


def powers(rounds):
    """Multiplies x by w at each of the rounds, and gathers what it was multiplied by: one Loop, one Scan."""
    steps = [
        node("Identity", ["c"], ["go"]),
        node("Gather", ["w", "i"], ["f"]),
        node("Mul", ["v", "f"], ["out"]),
    ]
    loop = helper.make_graph(
        steps, "loop", [port("i", INT64, []), port("c", BOOL, []), port("v")],
        [port("go", BOOL, []), port("out"), port("f", shape=[])])  # fmt: skip
    scan = helper.make_graph(
        [node("Mul", ["v", "f"], ["out"]), node("Identity", ["f"], ["g"])], "scan",
        [port("v"), port("f", shape=[])], [port("out"), port("g", shape=[])])  # fmt: skip
    nodes = [
        node("Loop", ["n", "", "x"], ["y", "used"], body=loop),
        node("Scan", ["x", "w"], ["z", "scanned"], body=scan, num_scan_inputs=1),
    ]
    outputs = [port(name, shape=None) for name in ("y", "used", "z", "scanned")]
    inputs = [port("x"), port("w", shape=[rounds])]
    return load(nodes, inputs, outputs, {"n": np.array(rounds)})


@pytest.mark.parametrize("rounds", [3, 40])
def test_many_rounds_are_the_same_kernels(rounds, device, monkeypatch):
    model = powers(rounds)
    w = RNG.uniform(0.9, 1.1, rounds).astype(np.float32)
    built = []
    build = executor.build_plan
    monkeypatch.setattr(executor, "build_plan", lambda *args: built.append(args) or build(*args))
    out = model([1, 2], w)
    for product, factors in (("y", "used"), ("z", "scanned")):
        np.testing.assert_allclose(out[product].numpy(), np.float32([1, 2]) * w.prod(), rtol=1e-5)
        np.testing.assert_array_equal(out[factors].numpy(), w)
    if device != "NUMPY":
        assert len(built) < 10


def test_a_loop_of_no_rounds_gives_empty_outputs_of_its_dtypes():
    results = {"c": "go", "i": "number", "w": "row"}
    body = helper.make_graph(
        [node("Identity", [name], [result]) for name, result in results.items()],
        "body", [port("i", INT64, []), port("c", BOOL, [])],
        [port("go", BOOL, []), port("number", INT64, []), port("row", shape=[2, "m"])])  # fmt: skip
    outputs = [port("numbers", INT64, None), port("rows", shape=None)]
    model = load([node("Loop", ["n", ""], ["numbers", "rows"], body=body)],
                 [port("n", INT64, []), port("w", shape=[2, 3])], outputs)  # fmt: skip
    numbers, rows = model(0, np.zeros((2, 3), np.float32))
    assert (numbers.dtype, numbers.shape) == (int64, (0,))
    assert (rows.dtype, rows.shape) == (float32, (0, 2, 0))
    assert model(2, np.zeros((2, 3), np.float32))["rows"].shape == (2, 2, 3)


# ---- jit and placement


def test_jit_traces_once_for_each_signature(device):
    proto, weights = linear(RNG)
    model = dawdle.onnx.load(proto, jit=True)
    for batch in (2, 3, 2, 3, 2):
        x = RNG.normal(size=(batch, 300)).astype(np.float32)
        np.testing.assert_allclose(model(x)["y"].numpy(), expected(weights, x), rtol=1e-4, atol=1e-4)
    if device != "NUMPY":
        assert model._jitted.traces <= 3  # the first call may run untraced


@pytest.mark.parametrize("jit", [False, True])
def test_shape_arithmetic_runs_on_the_host(jit, device, monkeypatch):
    """x reshaped to (rows * 2, -1), by way of Shape, Gather, Mul and Concat; then to a given shape."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "zero"], ["rows"]),
        node("Mul", ["rows", "two"], ["twice"]),
        node("Concat", ["twice", "rest"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["y"]),
        node("Reshape", ["y", "given"], ["z"]),
        node("Neg", ["z"], ["w"]),
    ]
    weights = {"zero": np.array([0]), "two": np.array([2]), "rest": np.array([-1])}
    model = load(nodes, [port("x", shape=["n", "m"]), port("given", INT64, ["r"])], [port("w", shape=None)],
                 weights, jit=jit)  # fmt: skip
    compiled = []
    build = executor.build_plan
    monkeypatch.setattr(executor, "build_plan", lambda *args: compiled.append(args) or build(*args))
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for given in ([24], [2, 12], [24]):
        np.testing.assert_array_equal(model(x, given)[0].numpy(), -x.reshape(given))
    for outputs, *_ in compiled:
        assert all(out.dtype is not int64 for out in outputs)


def test_constants_are_computed_once():
    """The product of two constants is found by the first call; later calls take it as it is."""
    nodes = [node("Add", ["a", "b"], ["c"]), node("Mul", ["x", "c"], ["y"])]
    weights = {"a": np.float32([1, 2]), "b": np.float32([3, 4])}
    model = load(nodes, [port("x", shape=[2])], [port("y")], weights)
    assert model([1, 1])[0].tolist() == [4, 6]
    first, second = model._graph.steps
    assert first.folded is not None and second.folded is None
    assert model([2, 2])[0].tolist() == [8, 12]


def test_large_results_of_the_host_are_computed_on_the_device(device):
    nodes = [node("ConstantOfShape", ["size"], ["zeros"]), node("Add", ["zeros", "x"], ["y"])]
    model = load(nodes, [port("size", INT64, [2]), port("x", shape=[])], [port("y", shape=None)])
    (y,) = model([300, 200], 2)
    assert y.shape == (300, 200) and y.device == device
    np.testing.assert_array_equal(y.numpy(), 2)


def test_the_page_about_onnx():
    page = Path(__file__).parents[2] / "docs" / "onnx.md"
    failed, tried = doctest.testfile(str(page), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried > 15 and not failed
