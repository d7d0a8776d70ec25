"""The example programs, run as a user would, on the data that comes with the package."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name):
    spec = importlib.util.spec_from_file_location(f"{name}_example", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def mnist():
    return example("mnist")


@pytest.fixture(scope="module")
def onnx_run():
    pytest.importorskip("onnx")
    return example("onnx_run")


def losses(text):
    return re.findall(r"loss (\S+)  test accuracy (\S+)", text)


def test_mlp_learns_and_shows_digits(mnist, capsys):
    accuracy = mnist.main(["--epochs", "4"])
    text = capsys.readouterr().out
    assert accuracy > 0.88
    assert len(losses(text)) == 4 and "reads" in text and "█" in text
    assert float(losses(text)[0][0]) > 2 * float(losses(text)[3][0])


def test_a_resumed_run_goes_on_identically(mnist, tmp_path, capsys):
    path = str(tmp_path / "run")
    mnist.main(["--epochs", "3", "--batch", "500", "--seed", "5"])
    whole = losses(capsys.readouterr().out)
    mnist.main(["--epochs", "2", "--batch", "500", "--seed", "5", "--save", path])
    mnist.main(["--epochs", "3", "--batch", "500", "--resume", path])
    assert losses(capsys.readouterr().out) == whole


def test_cnn_takes_a_step(mnist):
    trainer = mnist.Trainer(mnist.cnn())
    images = np.random.default_rng(0).integers(0, 256, (16, 28, 28), dtype=np.uint8)
    loader = mnist.nn.DataLoader((images, np.arange(16) % 10), batch_size=8)
    first = trainer.train_epoch(loader, lambda done, loss: None)
    for _ in range(5):
        last = trainer.train_epoch(loader, lambda done, loss: None)
    assert last < first / 2
    assert trainer.predict(images[:3]).shape == (3,)


def test_drawing(mnist):
    image = np.zeros((1, 28, 28), np.uint8)
    image[:, :14] = 255
    lines = mnist.draw(image, ["reads 1"]).split("\n")
    assert (
        len(lines) == 15 and lines[0] == "█" * 28 and lines[13] == " " * 28 and lines[14].strip() == "reads 1"
    )


def test_onnx_model_made_in_the_example(onnx_run, capsys):
    onnx_run.main(["--jit"])
    text = capsys.readouterr().out
    assert "the edges of a 7" in text and "█" in text
    assert re.search(r"a call takes \S+ ms", text)


def test_without_onnx_the_example_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"pip install 'dawdle\[onnx\]'"):
        example("onnx_run").main([])


def test_onnx_model_of_a_file(onnx_run, tmp_path, capsys):
    path = tmp_path / "edges.onnx"
    path.write_bytes(onnx_run.edge_model())
    onnx_run.main([str(path), "--shape", "image=2,1,6,5"])
    assert "edges: float32 (2, 1, 6, 10)" in capsys.readouterr().out
    onnx_run.main([str(path), "--shape", "image=0,1,6,5"])
    assert capsys.readouterr().out.endswith("edges: float32 (0, 1, 6, 10)\n")


@pytest.mark.parametrize("arguments, words", [
    (["nowhere.onnx"], "there is no model at nowhere.onnx"),
    (["MODEL", "--shape", "image=2,3"], "got shape"),
])  # fmt: skip
def test_onnx_mistakes_end_with_a_message(onnx_run, tmp_path, arguments, words):
    path = tmp_path / "edges.onnx"
    path.write_bytes(onnx_run.edge_model())
    with pytest.raises(SystemExit, match=words):
        onnx_run.main([str(path) if a == "MODEL" else a for a in arguments])


def test_onnx_file_types(onnx_run, capsys):
    if onnx_run.magika_folder() is None:
        pytest.skip("magika isn't installed")
    onnx_run.main([str(EXAMPLES / "mnist.py"), str(EXAMPLES.parent / "pyproject.toml")])
    text = capsys.readouterr().out
    assert "mnist.py: python" in text and "pyproject.toml: toml" in text


def test_onnx_says_what_to_install(onnx_run, monkeypatch):
    monkeypatch.setattr(onnx_run, "magika_folder", lambda: None)
    with pytest.raises(SystemExit, match="pip install --no-deps magika"):
        onnx_run.main(["README.md"])
