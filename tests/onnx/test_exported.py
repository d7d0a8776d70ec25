"""Models that PyTorch exports give what PyTorch gives, for other batch sizes than the exported one too."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import pytest
from devices import WORKING

pytest.importorskip("onnx")

import dawdle.onnx

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

DEVICE = "CPU" if "CPU" in WORKING else "NUMPY"


class Recurrent(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(32, 12, batch_first=True)
        self.last = nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        y, _ = self.lstm(x)
        z, state = self.gru(y)
        return self.last(z), state


class Images(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.same, self.down = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, 2, 1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.groups, self.instances = nn.GroupNorm(4, 8), nn.InstanceNorm2d(8, affine=True)

    def forward(self, x: Any) -> Any:
        a = F.silu(self.groups(self.same(x)))
        b = F.gelu(self.down(a))
        wide = F.interpolate(b, scale_factor=2, mode="bilinear", align_corners=False)
        smooth = F.interpolate(b, size=(16, 24), mode="bicubic", align_corners=True)
        return (
            self.instances(self.up(b) + a) * wide.mean(1, keepdim=True),
            smooth.amax(1, keepdim=True),
            F.adaptive_avg_pool2d(b, 1).flatten(1),
            F.max_pool2d(a, 3, 2, 1, ceil_mode=True),
            F.pixel_shuffle(b, 2),
        )


class Transformer(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2)

    def forward(self, x: Any) -> Any:
        later = torch.triu(torch.ones(7, 7, dtype=torch.bool), 1)
        return self.layers(self.embedding(x), mask=later).log_softmax(-1).topk(3, -1)


CASES = {
    Recurrent: lambda n: torch.randn(n, 9, 8),
    Images: lambda n: torch.randn(n, 3, 16, 24),
    Transformer: lambda n: torch.randint(0, 50, (n, 7)),
}


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_exported(kind: type) -> None:
    torch.manual_seed(0)
    module = kind().eval()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {
            "dynamo": False,
            "opset_version": 17,
            "input_names": ["x"],
            "dynamic_axes": {"x": {0: "batch"}},
        }
        torch.onnx.export(module, (CASES[kind](2),), file, **options)
    model = dawdle.onnx.load(file.getvalue(), device=DEVICE, jit=True)
    for batch in (2, 3):
        x = CASES[kind](batch)
        with torch.no_grad():
            want = module(x)
        for ours, theirs in zip(model(x.numpy()), want, strict=True):
            np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)
