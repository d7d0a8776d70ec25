"""Writes the small files of PyTorch in tests/formats/files, which are read where PyTorch isn't installed."""

from __future__ import annotations

import importlib
from pathlib import Path

FILES = Path(__file__).parent.parent / "tests" / "formats" / "files"


def main() -> None:
    torch = importlib.import_module("torch")
    weight = torch.arange(6.0).reshape(2, 3)
    state = {
        "weight": weight,
        "transposed": weight.T,
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "step": torch.tensor(7),
        "epoch": 3,
    }
    FILES.mkdir(exist_ok=True)
    for name, zipped in (("zip.pt", True), ("legacy.pt", False)):
        torch.save(state, FILES / name, _use_new_zipfile_serialization=zipped)


if __name__ == "__main__":
    main()
