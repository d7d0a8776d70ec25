"""Saving and loading tensors: safetensors files, nested structures included, and reading what PyTorch and
llama.cpp write.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dawdle.errors import StateError
from dawdle.formats import gguf, safetensors, torchfile
from dawdle.formats.files import File, PathLike, open_file, write_atomically
from dawdle.nn.module import Module
from dawdle.tensor import Tensor

TREE = "dawdle.tree"  # a key of our metadata
_LEAF = "$tensor"


def save(
    state: Module | Mapping[str, Any] | Sequence[Any],
    path: PathLike,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write tensors to ``path`` as safetensors.

    ``state`` is a dict of tensors, a module (its state dict), or nested dicts and lists that also hold
    numbers, strings, bools and None, such as ``{"model": model.state_dict(), "optimizer":
    optimizer.state_dict(), "epoch": 3}``. The file appears complete or not at all. Raises StateError for
    anything that can't be stored.
    """
    tensors: dict[str, Tensor] = {}
    tree = _flatten(state.state_dict() if isinstance(state, Module) else state, (), tensors)
    if isinstance(tree, dict) and all(value == {_LEAF: name} for name, value in tree.items()):
        tree = None  # a flat dict of tensors needs no description
    if tensors:
        Tensor.realize(*tensors.values())
    extra = {**(metadata or {}), **({TREE: json.dumps(tree)} if tree is not None else {})}
    write_atomically(path, safetensors.encode(tensors, extra))


def load(path: PathLike, device: str | None = None, verify: bool = True, mmap: bool = True) -> Any:
    """The tensors of a file; which format it has is seen from its contents.

    * safetensors: what was given to :func:`save` as ``state``, or a flat dict of tensors for files written
      elsewhere.
    * Files of ``torch.save``: the dicts, lists, numbers and tensors that were saved. Nothing in the file is
      run, and PyTorch isn't needed.
    * GGUF: a flat dict of tensors; quantised ones are float32, computed when they are used, with the package
      ``gguf`` (``pip install 'dawdle[gguf]'``).

    The file is mapped into memory, and a tensor's bytes are read when it is used. Tensors on the CPU stay
    views of it: as long as they live it must not be changed in place or truncated (:func:`save` replaces a
    file as a whole, which does them no harm). ``mmap=False`` reads it instead. ``verify`` compares the
    checksums that :func:`save` and ``torch.save`` have stored, for which it reads all of the file; files
    without them are not read.

    Raises StateError, with the reason, for a file that is missing, truncated or damaged, whose tensors
    overlap, or that refers to what a file of tensors has no need of.
    """
    file = open_file(path, mmap)
    if torchfile.is_torch(file.data):
        return torchfile.read(file, device, verify)
    if file.data[:4] == gguf.MAGIC:
        model = gguf.parse(file)
        return {name: model.tensor(name, device) for name in model.entries}
    contents = safetensors.parse(file)
    if verify:
        contents.verify()
    tensors = {name: contents.tensor(name, device) for name in contents.entries}
    return _unflatten(_tree(contents), tensors, file) if TREE in contents.metadata else tensors


def load_metadata(path: PathLike) -> dict[str, Any]:
    """What a file says beside its tensors, of which it reads only the header: the ``metadata`` that was given
    to :func:`save`, or the keys and values of a GGUF file. Files of PyTorch have none.

    Raises StateError as :func:`load` does.
    """
    file = open_file(path)
    if torchfile.is_torch(file.data):
        return {}
    if file.data[:4] == gguf.MAGIC:
        return gguf.parse(file).metadata
    metadata = safetensors.parse(file).metadata
    return {k: v for k, v in metadata.items() if k not in (TREE, safetensors.CHECKSUM)}


def _tree(contents: safetensors.Contents) -> Any:
    try:
        return json.loads(contents.metadata[TREE])
    except (ValueError, RecursionError) as error:
        raise contents.file.damaged(f"its structure is not JSON ({error})") from error


def _flatten(value: Any, path: tuple[str, ...], tensors: dict[str, Tensor]) -> Any:
    """The structure of ``value`` as JSON, its tensors replaced by their names in the file and collected in
    ``tensors``.
    """
    if isinstance(value, Tensor):
        name = ".".join(path) or "value"
        while name in tensors:
            name += "_"
        tensors[name] = value
        return {_LEAF: name}
    if isinstance(value, Mapping):
        if bad := [k for k in value if not isinstance(k, str) or k == _LEAF or k == "__metadata__"]:
            raise StateError(
                f"can't save keys {bad}: keys must be strings other than {_LEAF} and __metadata__"
            )
        return {k: _flatten(v, (*path, k), tensors) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_flatten(v, (*path, str(i)), tensors) for i, v in enumerate(value)]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    where = ".".join(path) or "the state"
    raise StateError(
        f"can't save {where}: {type(value).__name__} is neither a tensor, dict, list, number, string nor None"
    )


def _unflatten(tree: Any, tensors: Mapping[str, Tensor], file: File) -> Any:
    if isinstance(tree, dict):
        if set(tree) == {_LEAF}:
            name = tree[_LEAF]
            if not isinstance(name, str) or name not in tensors:
                raise file.damaged(f"its structure names a tensor {name!r}, which it lacks")
            return tensors[name]
        return {k: _unflatten(v, tensors, file) for k, v in tree.items()}
    return [_unflatten(v, tensors, file) for v in tree] if isinstance(tree, list) else tree
