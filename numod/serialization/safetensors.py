"""The safetensors file format: write and read a dict of tensors. No code is ever stored or run; nested objects are not handled here.

`header` says what a file looks like and checks what is read.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Mapping
from math import prod
from typing import BinaryIO

import numpy as np

from .. import dtypes
from ..core.creation import from_numpy
from ..core.tensor import Tensor
from . import header as rules
from .header import CODES, FORMATS, LENGTH, METADATA, Entry, is_unicode, read_header, refuse


def save(obj: Mapping[str, Tensor], path: str | os.PathLike) -> None:
    """Write a dict of tensors, such as a `state_dict()`, to `path` as safetensors; `load` reads it back.

    The file appears whole or not at all: a crash on the way leaves what was there before. Tied tensors are written once per name. Raises
    TypeError for anything that is no flat dict from string to Tensor, ValueError for a name or size the format cannot hold.
    """
    save_file(obj, path)


def save_file(tensors: Mapping[str, Tensor], filename: str | os.PathLike, metadata: Mapping[str, str] | None = None) -> None:
    """As `save`, with `metadata`, a dict from string to string, in the header."""
    target = _checked_target(filename)
    _check_tensors(tensors)
    _check_metadata_to_save(metadata)
    codes = {name: _code_of(name, tensor) for name, tensor in tensors.items()}
    order = sorted(tensors, key=lambda name: (-FORMATS[codes[name]].bits, name))
    header = _header_bytes(order, tensors, codes, metadata)
    _write_atomically(target, header, (_bytes_of(tensors[name], codes[name]) for name in order))


def load(path: str | os.PathLike, device: object = None, *, map_location: object = None, weights_only: bool = True) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, on `device` (None: the CPU).

    `map_location` is PyTorch's name for `device`. `weights_only` may be given as in PyTorch; the format holds nothing else. Raises
    FileNotFoundError, and RuntimeError naming the file, the tensor and the broken rule where the file is no valid safetensors file or
    holds a dtype that numod has not.
    """
    return load_file(path, map_location if device is None else device)


def load_file(filename: str | os.PathLike, device: object = None) -> dict[str, Tensor]:
    """As `load`."""
    with _open(filename) as file:
        entries, _ = read_header(file, filename)
        for entry in entries:
            _check_supported(entry, filename)
        arrays = {entry.name: _read_array(file, entry, filename) for entry in entries}
    tensors = {entry.name: _to_tensor(arrays[entry.name], entry.code) for entry in entries}
    return tensors if device is None else {name: tensor.to(device) for name, tensor in tensors.items()}


def load_metadata(filename: str | os.PathLike) -> dict[str, str]:
    """The `__metadata__` of a safetensors file, empty where it has none. Raises as `load` does."""
    with _open(filename) as file:
        return read_header(file, filename)[1]


def _checked_target(path: object) -> str:
    """The file that will be replaced: behind symbolic links, in a folder that exists, and no device such as /dev/null."""
    target = os.path.realpath(_checked_path("save", path))
    if not os.path.isdir(os.path.dirname(target)):
        raise FileNotFoundError(errno.ENOENT, "save: the folder does not exist", os.path.dirname(target))
    if os.path.exists(target) and not os.path.isfile(target):
        raise RuntimeError(f"save: {target!r} is a folder or a device; give the path of a file")
    return target


def _check_tensors(tensors: object) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(f"save: expected a dict from names to tensors, such as module.state_dict(), got {type(tensors).__name__}")
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"save: names must be strings, got {name!r} of type {type(name).__name__}")
        if not isinstance(value, Tensor):
            raise TypeError(f"save: {name!r} is a {type(value).__name__}, and only tensors can be saved{_hint_for(value)}")
        _check_text(name, "the tensor name")
        if name == METADATA:
            raise ValueError(f"save: no tensor may be named {METADATA!r}, which the format keeps for itself; rename it")


def _hint_for(value: object) -> str:
    if isinstance(value, Mapping):
        return "; save each inner dict in a file of its own, or flatten the names ('model.0.weight')"
    return "; make it a tensor with numod.tensor(...) or leave it out"


def _check_text(text: str, what: str) -> None:
    if not is_unicode(text):
        raise ValueError(f"save: {what} {text!r} is not valid Unicode and cannot be written as UTF-8")


def _check_metadata_to_save(metadata: Mapping[str, str] | None) -> None:
    for pair in (metadata or {}).items():
        if not all(isinstance(text, str) for text in pair):
            raise TypeError(f"save: metadata must map strings to strings, got {pair[0]!r}: {pair[1]!r}")
        for text in pair:
            _check_text(text, "the metadata text")


def _code_of(name: str, tensor: Tensor) -> str:
    dtype = str(tensor.dtype).rpartition(".")[2]
    if dtype not in CODES:
        raise ValueError(f"save: {name!r} has dtype {tensor.dtype}; can be saved: {', '.join(CODES)}")
    return CODES[dtype]


def _header_bytes(order: list[str], tensors: Mapping[str, Tensor], codes: dict[str, str], metadata: Mapping[str, str] | None) -> bytes:
    """Length and JSON header, padded with spaces so that the data begins at a multiple of 8 bytes."""
    header: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for name in order:
        begin, offset = offset, offset + tensors[name].numel() * FORMATS[codes[name]].bits // 8
        header[name] = {"dtype": codes[name], "shape": list(tensors[name].shape), "data_offsets": [begin, offset]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > rules.MAX_HEADER_BYTES:
        raise ValueError(f"save: the header would have {len(text)} bytes, the format allows {rules.MAX_HEADER_BYTES}; save several files")
    return LENGTH.pack(len(text)) + text


def _bytes_of(tensor: Tensor, code: str) -> memoryview:
    """The elements in C order, little endian, as flat bytes."""
    tensor = tensor.detach().cpu().contiguous()
    if code == "BF16":
        tensor = tensor.view(dtypes.int16)
    array = np.ascontiguousarray(tensor.numpy()).reshape(-1).view(FORMATS[code].numpy)
    return array.view(np.uint8).data


def _write_atomically(target: str, header: bytes, chunks: Iterable[memoryview]) -> None:
    """Write beside `target` and rename over it, keeping its permissions. Created with "x", so that nobody else's file is touched."""
    temporary = os.path.join(os.path.dirname(target), f".numod-{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            file.write(header)
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _checked_path(what: str, path: object) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(f"{what}: expected a path (str or os.PathLike), got {type(path).__name__}") from None


def _open(path: str | os.PathLike) -> BinaryIO:
    """The file, opened for reading. Raises RuntimeError for a pipe or device, whose reading might never end."""
    name = _checked_path("load", path)
    mode = os.stat(name).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a folder gets the usual IsADirectoryError from open
        refuse(path, "it is no regular file")
    return open(name, "rb")


def _check_supported(entry: Entry, path: object) -> None:
    if FORMATS[entry.code].dtype not in dtypes.ALL:
        readable = ", ".join(code for name, code in CODES.items() if name in dtypes.ALL)
        refuse(path, f"numod has no dtype for {entry.code}; it reads {readable}", entry.name)


def _read_array(file: BinaryIO, entry: Entry, path: object) -> np.ndarray:
    """A fresh array for the next tensor of the file. Raises RuntimeError where the file has shrunk since it was checked."""
    array = np.empty(prod(entry.shape), FORMATS[entry.code].numpy)
    if file.readinto(array.view(np.uint8).data) != array.nbytes:
        refuse(path, "the file ended before the tensor did; was it changed while it was read?", entry.name)
    return array.reshape(entry.shape)


def _to_tensor(array: np.ndarray, code: str) -> Tensor:
    if code == "BOOL":
        return from_numpy(np.asarray(array != 0))  # any byte but 0 is true, so that no bool holds a third value
    tensor = from_numpy(array.view(array.dtype.newbyteorder("=")))
    return tensor.view(dtypes.ALL["bfloat16"]) if code == "BF16" else tensor
