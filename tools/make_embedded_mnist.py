"""Makes the digits that come with the package: the first of each class of the full MNIST, in their original
order.

python tools/make_embedded_mnist.py [--root FOLDER] [--train 5000] [--test 1000]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dawdle.nn.data import digits as source

LIMIT = 1_000_000  # bytes
OUTPUT = Path(source.__file__).parent / source.EMBEDDED


def first_of_each_class(labels: np.ndarray, count: int) -> np.ndarray:
    """Indices of the first ``count / 10`` digits of each class, ascending."""
    per_class = [np.flatnonzero(labels == digit)[: count // 10] for digit in range(10)]
    return np.sort(np.concatenate(per_class))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root")
    parser.add_argument("--train", type=int, default=5000)
    parser.add_argument("--test", type=int, default=1000)
    args = parser.parse_args()
    full = source.mnist("full", args.root)
    train = first_of_each_class(full.train_labels, args.train)
    test = first_of_each_class(full.test_labels, args.test)
    np.savez_compressed(
        OUTPUT,
        train_images=full.train_images[train],
        train_labels=full.train_labels[train].astype(np.uint8),
        test_images=full.test_images[test],
        test_labels=full.test_labels[test].astype(np.uint8),
    )
    size = OUTPUT.stat().st_size
    print(f"{OUTPUT.name}: {len(train)} + {len(test)} digits, {size:,} bytes")
    if size > LIMIT:
        raise SystemExit(f"more than {LIMIT:,} bytes: take fewer digits")


if __name__ == "__main__":
    main()
