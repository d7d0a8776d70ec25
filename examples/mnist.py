"""Trains a network on handwritten digits, and shows what it reads in some of them.

python examples/mnist.py                             5,000 digits that come with dawdle, no network needed
python examples/mnist.py --data full                 all 60,000 (read from $DAWDLE_DATA or downloaded once)
python examples/mnist.py --data full --model cnn --epochs 3
python examples/mnist.py --save digits.safetensors   … and later: --resume digits.safetensors --epochs 40
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import dawdle
from dawdle import Tensor, nn
from dawdle.nn import functional as F
from dawdle.random import default_generator

EVAL_BATCH = 500
SHADES = " ░▒▓█"


def mlp() -> nn.Module:
    """784 → 400 → 100 → 10, with Xavier's initial weights."""
    layers = [nn.Linear(784, 400), nn.Linear(400, 100), nn.Linear(100, 10)]
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
    return nn.Sequential(nn.Flatten(), layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


def cnn() -> nn.Module:
    """Three convolutions with batch norm."""
    return nn.Sequential(
        nn.Conv2d(1, 32, 5),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(64 * 4 * 4, 10),
    )


MODELS: dict[str, Callable[[], nn.Module]] = {"mlp": mlp, "cnn": cnn}
DECAY = {"mlp": 0.7, "cnn": 0.5}  # of the learning rate for every 60,000 digits: it settles the last epochs


class Trainer:
    """A model, its optimizer, and the jitted functions that train and evaluate it."""

    def __init__(self, model: nn.Module, lr: float = 1e-3, decay: float = 1.0) -> None:
        self.model = model
        self.optimizer = nn.optim.Adam(model.parameters(), lr=lr)
        self.lr, self.decay = lr, decay
        self.device = next(model.parameters()).device
        self.epoch = 0
        self._step = dawdle.jit(self._train_step)
        self._predict = dawdle.jit(self._predict_batch)

    def _train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(prepare(images)), labels)
        loss.backward()
        return loss.realize(*self.optimizer.schedule_step(), *self.model.buffers())

    def _predict_batch(self, images: Tensor) -> Tensor:
        with dawdle.no_grad():
            scores: Tensor = self.model(prepare(images))
            return scores.argmax(-1).realize()

    def train_epoch(self, loader: nn.DataLoader, show: Callable[[int, float], None]) -> float:
        """Train on every batch once, and give the mean loss."""
        self.model.train()
        self.optimizer.lr = self.lr * self.decay ** (self.epoch * len(loader.dataset) / 60_000)
        loader.epoch = self.epoch
        total = 0.0
        for i, (images, labels) in enumerate(loader, 1):
            total += self._step(images, labels).item()
            show(i, total / i)
        self.epoch += 1
        return total / len(loader)

    def predict(self, images: np.ndarray) -> np.ndarray:
        """The digit read in each image."""
        self.model.eval()
        batches = [images[i : i + EVAL_BATCH] for i in range(0, len(images), EVAL_BATCH)]
        return np.concatenate([self._predict(Tensor(b, device=self.device)).numpy() for b in batches])

    def save(self, path: str, seed: int) -> None:
        """Everything that a run needs to go on as if it had not stopped."""
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": self.epoch,
            "seed": seed,
            "random": self._random_state(),
        }
        nn.save(state, path)

    def resume(self, path: str) -> int:
        """Take over what :meth:`save` wrote; gives the seed of that run."""
        state = nn.load(path)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"]
        self._random_state().assign(state["random"])
        return int(state["seed"])

    def _random_state(self) -> Tensor:
        """The place in the stream of random numbers, which a model with dropout draws from."""
        return default_generator.state(Tensor, self.device)


def prepare(images: Tensor) -> Tensor:
    """Bytes (n, 28, 28) → floats from 0 to 1 with a channel axis: (n, 1, 28, 28)."""
    return images.unsqueeze(1).float() / 255


def draw(images: np.ndarray, captions: list[str]) -> str:
    """Digits side by side as text, two pixels to a line."""
    encoding = sys.stdout.encoding or "ascii"
    shades = SHADES if "utf" in encoding.lower() else " .:+#"
    pairs = images.reshape(len(images), 14, 2, 28).mean(2) / 256 * len(shades)
    rows = ["  ".join("".join(shades[int(v)] for v in digit[row]) for digit in pairs) for row in range(14)]
    return "\n".join([*rows, "  ".join(caption.center(28) for caption in captions)])


def progress(epoch: int, epochs: int, batches: int) -> Callable[[int, float], None]:
    """A function that draws a bar, where the output is a terminal."""
    if not sys.stdout.isatty():
        return lambda _done, _loss: None

    def show(done: int, loss: float) -> None:
        bar = "█" * (20 * done // batches)
        print(f"\repoch {epoch:2}/{epochs}  {bar:20}  loss {loss:.4f}", end="", flush=True)

    return show


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a network on handwritten digits.")
    parser.add_argument("--model", choices=MODELS, default="mlp")
    parser.add_argument("--data", choices=("embedded", "full"), default="embedded")
    parser.add_argument("--device", default=None, help="CPU, NUMPY, …; the best that works by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=20, help="train up to this epoch")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--save", metavar="FILE", help="write a checkpoint after each epoch")
    parser.add_argument("--resume", metavar="FILE", help="go on from a checkpoint")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> float:
    """Train as the command line says; gives the last test accuracy."""
    args = parse(arguments)
    start = time.perf_counter()
    dawdle.manual_seed(args.seed)
    digits = nn.mnist(args.data)
    if not 0 < args.batch <= len(digits.train_images):
        raise SystemExit(f"--batch must be from 1 to the {len(digits.train_images)} training digits")
    trainer = Trainer(MODELS[args.model]().to(device=args.device), decay=DECAY[args.model])
    seed = trainer.resume(args.resume) if args.resume else args.seed
    loader = nn.DataLoader(
        (digits.train_images, digits.train_labels),
        args.batch,
        shuffle=True,
        drop_last=True,
        seed=seed,
        device=trainer.device,
    )
    parameters = sum(p.numel() for p in trainer.model.parameters())
    print(
        f"{args.model} with {parameters:,} parameters on {trainer.device}: "
        f"{len(digits.train_images):,} training and {len(digits.test_images):,} test digits"
    )

    accuracy = float(np.mean(trainer.predict(digits.test_images) == digits.test_labels))
    while trainer.epoch < args.epochs:
        began, number = time.perf_counter(), trainer.epoch + 1
        loss = trainer.train_epoch(loader, progress(number, args.epochs, len(loader)))
        accuracy = float(np.mean(trainer.predict(digits.test_images) == digits.test_labels))
        clear = "\r" if sys.stdout.isatty() else ""
        print(
            f"{clear}epoch {number:2}/{args.epochs}  loss {loss:.4f}  test accuracy {accuracy:.4f}  "
            f"{time.perf_counter() - began:6.2f} s" + 12 * " " * bool(clear),
            flush=True,
        )
        if args.save:
            trainer.save(args.save, seed)
    show_some(trainer, digits)
    print(f"test accuracy {accuracy:.4f} after {trainer.epoch} epochs; {time.perf_counter() - start:.1f} s")
    if args.save:
        print(f"saved to {Path(args.save)}")
    return accuracy


def show_some(trainer: Trainer, digits: nn.Mnist, count: int = 4) -> None:
    """Draw test digits, the first ones and one that was misread, with what the network reads in them."""
    read = trainer.predict(digits.test_images)
    wrong = np.flatnonzero(read != digits.test_labels)
    chosen = [*range(count - 1), int(wrong[0])] if len(wrong) else list(range(count))
    captions = [
        f"reads {read[i]}"
        + ("" if read[i] == digits.test_labels[i] else f", but it is a {digits.test_labels[i]}")
        for i in chosen
    ]
    print("\n" + draw(digits.test_images[chosen], captions) + "\n")


if __name__ == "__main__":
    main()
