"""Models that people use, from packages of PyPI, agree with onnxruntime: voice, file types, text in images.

The packages need much beside their models, so only the models' files are looked for:
``pip install --no-deps silero-vad magika rapidocr-onnxruntime``.
"""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from devices import WORKING

pytest.importorskip("onnx")

import dawdle.onnx

onnxruntime = pytest.importorskip("onnxruntime")

DEVICE = "CPU" if "CPU" in WORKING else "NUMPY"
TOLERANCE = 1e-3
Inputs = dict[str, np.ndarray[Any, Any]]


def packaged(package: str, name: str) -> Path:
    """A file of an installed package, found without importing it. Skips the test where it isn't there."""
    try:
        files = metadata.files(package) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{package} isn't installed")
    found = next((f for f in files if f.match(name)), None)
    assert found is not None, f"{package} has no {name}"
    return Path(str(found.locate()))


class Pair:
    """A model in dawdle, jitted, and in onnxruntime."""

    def __init__(self, path: Path, jit: bool = True) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self.model = dawdle.onnx.load(path, device=DEVICE, jit=jit)
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, **inputs: Any) -> list[np.ndarray[Any, Any]]:
        """dawdle's outputs, once they are seen to agree."""
        got = [t.numpy() for t in self.model(**inputs)]
        want = self.session.run(None, inputs)
        for g, w in zip(got, want, strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(g, w, atol=TOLERANCE, rtol=TOLERANCE)
        return got


# ---- silero-vad: is somebody speaking?

RATES = {16000: 576, 8000: 288}  # samples of a call at each rate, those of the call before included


def sound(samples: int, rate: int, seed: int) -> np.ndarray[Any, Any]:
    """A harmonic tone that swells and fades, and noise."""
    t = np.arange(samples) / rate
    voice = sum(np.sin(2 * np.pi * 140 * k * t) / k for k in range(1, 12)) * np.sin(2 * np.pi * 3 * t) ** 2
    noise = np.random.default_rng(seed).standard_normal(samples)
    return (0.1 * voice + 0.005 * noise).astype(np.float32)


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("name", ["silero_vad.onnx", "silero_vad_op18_ifless.onnx"])
def test_voice(name: str, rate: int) -> None:
    pair = Pair(packaged("silero-vad", name))
    state = np.zeros((2, 1, 128), np.float32)
    for i in range(3):  # the state goes from call to call, so errors would add up
        given = sound(RATES[rate], rate, i)[None]
        probability, state = pair(input=given, state=state, sr=np.array(rate, np.int64))
        assert probability.shape == (1, 1) and 0 <= probability.item() <= 1
    silent = np.zeros((1, RATES[rate]), np.float32)
    probability, _ = pair(input=silent, state=np.zeros_like(state), sr=np.array(rate, np.int64))
    assert probability.item() < 0.1


def test_voice_without_jit() -> None:
    pair = Pair(packaged("silero-vad", "silero_vad_16k_op15.onnx"), jit=False)
    state = np.zeros((2, 1, 128), np.float32)
    pair(input=sound(576, 16000, 0)[None], state=state, sr=np.array(16000, np.int64))


def test_voice_sequence() -> None:
    """An LSTM over 20 steps."""
    pair = Pair(packaged("silero-vad", "silero_vad_16k_sequence.onnx"))
    state = np.zeros((1, 1, 128), np.float32)
    windows = sound(20 * 576, 16000, 0).reshape(20, 576)
    probabilities, _, _ = pair(input=windows, h=state, c=state)
    assert probabilities.shape == (20,)


# ---- magika: what kind of file is it?

TEXTS = {
    "python": b"import os\n\n\ndef main(path: str) -> int:\n    print(os.listdir(path))\n    return 0\n\n\n"
    b'if __name__ == "__main__":\n    raise SystemExit(main("."))\n' * 4,
    "json": b'{"name": "dawdle", "tags": ["a", "b"], "size": 3, "nested": {"x": [1, 2, 3], "y": null}}\n',
    "html": b"<!DOCTYPE html>\n<html><head><title>dawdle</title></head><body><p>Hi</p></body></html>\n",
}


def ends(data: bytes, size: int = 1024, padding: int = 256) -> np.ndarray[Any, Any]:
    """The first and last ``size`` bytes of a short file, without white space around it."""
    tokens = list(data.strip())
    first, last = tokens[:size], tokens[-size:]
    row = first + [padding] * (size - len(first)) + [padding] * (size - len(last)) + last
    return np.array([row], np.int32)


def test_file_types() -> None:
    path = packaged("magika", "models/*/model.onnx")
    labels = json.loads((path.parent / "config.min.json").read_text())["target_labels_space"]
    pair = Pair(path)
    for label, data in TEXTS.items():
        (scores,) = pair(bytes=ends(data))
        assert labels[int(scores.argmax())] == label
    (scores,) = pair(bytes=np.concatenate([ends(data) for data in TEXTS.values()]))  # another batch size
    assert [labels[i] for i in scores.argmax(1)] == list(TEXTS)


# ---- rapidocr: where is text, which way up is it, and what does it say?

TEXT = "dawdle reads 2048"


@pytest.fixture(scope="module")
def drawn() -> np.ndarray[Any, Any]:
    """(96, 320, 3) black text on white, as uint8."""
    image = pytest.importorskip("PIL.Image")
    draw = pytest.importorskip("PIL.ImageDraw")
    font = pytest.importorskip("PIL.ImageFont")
    page = image.new("RGB", (320, 96), "white")
    draw.Draw(page).text((16, 30), TEXT, "black", font.load_default(32))
    return np.asarray(page)


def channels_first(pixels: np.ndarray[Any, Any], mean: Any, deviation: Any) -> np.ndarray[Any, Any]:
    scaled = (pixels.astype(np.float32) / 255 - mean) / deviation
    return np.ascontiguousarray(scaled.transpose(2, 0, 1)[None], np.float32)


def test_text_is_found(drawn: np.ndarray[Any, Any]) -> None:
    pair = Pair(packaged("rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx"))
    given = channels_first(drawn, np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225]))
    (probability,) = pair(x=given)
    rows, columns = np.nonzero(probability[0, 0] > 0.3)
    ink_rows, ink_columns = np.nonzero(drawn.min(2) < 128)
    assert probability.shape == (1, 1, *drawn.shape[:2])
    assert abs(rows.mean() - ink_rows.mean()) < 6 and rows.min() > 10 and rows.max() < 86
    assert abs(columns.min() - ink_columns.min()) < 12 and abs(columns.max() - ink_columns.max()) < 12


def test_text_is_read(drawn: np.ndarray[Any, Any]) -> None:
    path = packaged("rapidocr-onnxruntime", "ch_PP-OCRv4_rec_infer.onnx")
    pair = Pair(path)
    line = drawn[24:72]  # 48 rows, as the model wants
    (scores,) = pair(x=channels_first(line, 0.5, 0.5))
    letters = pair.session.get_modelmeta().custom_metadata_map["character"].splitlines()
    assert read(scores[0], ["", *letters, " "]).strip() == TEXT


def read(scores: np.ndarray[Any, Any], letters: list[str]) -> str:
    """The best letter at each place, without repetitions and blanks (number 0)."""
    best = scores.argmax(1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return "".join(letters[i] for i in best[changed & (best > 0)])


@pytest.mark.parametrize("upside_down", [False, True])
def test_text_is_upright(drawn: np.ndarray[Any, Any], upside_down: bool) -> None:
    pair = Pair(packaged("rapidocr-onnxruntime", "ch_ppocr_mobile_v2.0_cls_infer.onnx"))
    line = drawn[24:72, :192]
    line = line[::-1, ::-1] if upside_down else line
    (scores,) = pair(x=channels_first(line, 0.5, 0.5))
    assert scores.argmax() == int(upside_down)
