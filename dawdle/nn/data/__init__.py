"""Data sets, the batching loader, and MNIST."""
from dawdle.nn.data.loader import ArrayDataset, DataLoader, Dataset
from dawdle.nn.data.mnist import Mnist, mnist

__all__ = ["ArrayDataset", "DataLoader", "Dataset", "Mnist", "mnist"]
