"""Data sets, the batching loader, and MNIST."""

from dawdle.nn.data.digits import Mnist, mnist
from dawdle.nn.data.loader import ArrayDataset, DataLoader, Dataset

__all__ = ["ArrayDataset", "DataLoader", "Dataset", "Mnist", "mnist"]
