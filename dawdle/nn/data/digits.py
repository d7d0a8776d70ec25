"""MNIST's handwritten digits: some thousands in the package, the full set from local files or a mirror."""

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
import urllib.request
import zlib
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dawdle import config
from dawdle.errors import DataError

EMBEDDED = "mnist_embedded.npz"
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
# SHA-256 of the uncompressed IDX files: mirrors compress the same content differently.
CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


class Mnist(NamedTuple):
    """The digits as NumPy arrays: images uint8 of shape (n, 28, 28), labels int64 of shape (n,)."""

    train_images: NDArray[np.uint8]
    train_labels: NDArray[np.int64]
    test_images: NDArray[np.uint8]
    test_labels: NDArray[np.int64]


def mnist(
    subset: str = "embedded", root: str | os.PathLike[str] | None = None, download: bool = True
) -> Mnist:
    """MNIST (LeCun, Cortes and Burges, 1998).

    ``subset="embedded"``: 5,000 training and 1,000 test digits, as many of each class, that come with the
    package. ``subset="full"``: all 60,000 and 10,000, read from the four gzipped IDX files in ``root``, else
    in ``$DAWDLE_DATA`` or its folder ``mnist``, else in ``../shared/data/mnist`` beside a source checkout,
    else downloaded once into the cache. Raises DataError for another ``subset``, missing or damaged files,
    and when the download fails.
    """
    if subset == "embedded":
        return _embedded()
    if subset != "full":
        raise DataError(f"mnist(subset={subset!r}): choose 'embedded' or 'full'")
    folder = _find(root)
    if folder is None:
        folder = _cache_folder()
        if not download:
            raise DataError(
                f"no MNIST files found and download=False; put {', '.join(CHECKSUMS)} into {folder}"
            )
        for name in CHECKSUMS:
            _download(name, folder)
    arrays: list[Any] = [parse_idx(_read_checked(folder / name), name) for name in CHECKSUMS]
    return Mnist(*arrays)


def parse_idx(data: bytes, name: str = "IDX data") -> NDArray[np.uint8] | NDArray[np.int64]:
    """The array in an (uncompressed) IDX file of bytes: one-dimensional ones, the labels, become int64."""
    if len(data) < 4 or data[:3] != b"\x00\x00\x08":
        raise DataError(f"{name} is not an IDX file of unsigned bytes")
    ndim = data[3]
    shape = tuple(int.from_bytes(data[4 + 4 * i : 8 + 4 * i], "big") for i in range(ndim))
    body = np.frombuffer(data, np.uint8, offset=4 + 4 * ndim)
    if body.size != np.prod(shape):
        raise DataError(f"{name} is truncated: {body.size} bytes for shape {shape}")
    array = body.reshape(shape)
    return array.astype(np.int64) if ndim == 1 else array


def _embedded() -> Mnist:
    with resources.files(__package__).joinpath(EMBEDDED).open("rb") as file, np.load(file) as arrays:
        return Mnist(
            *(arrays[n].astype(np.int64) if n.endswith("labels") else arrays[n] for n in Mnist._fields)
        )


def _cache_folder() -> Path:
    return config.current().cache_dir / "data" / "mnist"


def _candidates() -> Iterable[Path]:
    if base := os.environ.get("DAWDLE_DATA"):
        yield Path(base)
        yield Path(base) / "mnist"
    yield Path(__file__).resolve().parents[3].parent / "shared" / "data" / "mnist"
    yield _cache_folder()


def _find(root: str | os.PathLike[str] | None) -> Path | None:
    def complete(folder: Path) -> bool:
        return all((folder / name).is_file() for name in CHECKSUMS)

    if root is None:
        return next(filter(complete, _candidates()), None)
    if not complete(Path(root)):
        raise DataError(f"{root} lacks some of the MNIST files {', '.join(CHECKSUMS)}")
    return Path(root)


def _read_checked(path: Path) -> bytes:
    try:
        data = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); delete it") from error
    if hashlib.sha256(data).hexdigest() != CHECKSUMS[path.name]:
        raise DataError(f"{path} is damaged (its checksum differs); delete it")
    return data


def _download(name: str, folder: Path) -> None:
    """Fetch one file into ``folder``; it appears there only when complete and correct."""
    folder.mkdir(parents=True, exist_ok=True)
    failures = []
    for mirror in MIRRORS:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=name, suffix=".part")
        os.close(handle)
        try:
            with urllib.request.urlopen(mirror + name, timeout=30) as response:
                content = response.read()
            if hashlib.sha256(gzip.decompress(content)).hexdigest() != CHECKSUMS[name]:
                raise DataError("its checksum differs")
            Path(temporary).write_bytes(content)
            os.replace(temporary, folder / name)
            return
        except (OSError, EOFError, DataError, zlib.error) as error:  # urllib's errors are OSErrors
            failures.append(f"{mirror}{name}: {error}")
        finally:
            Path(temporary).unlink(missing_ok=True)
    raise DataError(
        "MNIST could not be downloaded:\n  "
        + "\n  ".join(failures)
        + f"\nPut the files into {folder}, set DAWDLE_DATA to their folder, or use subset='embedded', "
        "which needs no network"
    )
