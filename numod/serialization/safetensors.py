"""The safetensors file format: tensors by name and, in the metadata, a description of the object that contained them.

No code is stored or executed. `header` defines and validates the layout of a file; `structure` describes objects.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor
from . import header as rules
from .atomic import written
from .header import CODES, FORMATS, LENGTH, METADATA, Entry, is_unicode, read_header
from .placement import Placement, flat_tensor, placement
from .refusal import refuse
from .source import Source, opened
from .structure import Description, build_object
from .torch_objects import window

STRUCTURE = "numod.structure"  # the metadata key of an object's description


def save_file(
    tensors: Mapping[str, Tensor], filename: str | os.PathLike, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a flat dict of tensors, such as a `state_dict()`, with a dict of strings as `metadata` in the header.

    The bytes are identical to those of the package `safetensors`. Tied tensors are written once per name. Raises
    TypeError if `tensors` is not a dict from string to Tensor, ValueError for a name or size that the format cannot
    represent.
    """
    _check_tensors(tensors)
    _check_metadata_to_save(metadata)
    _write(tensors, metadata, filename)


def save_object(obj: object, f: object) -> None:
    """Write an object of tensors and plain data.

    A dict of tensors becomes an ordinary safetensors file. For other objects the metadata describes the structure. In a
    flat dict every name has its own tensor in the file, tied or not, so that other readers find all of them.
    """
    description = Description(obj)
    tensors = dict(description.tensors)
    if isinstance(obj, Mapping) and all(
        isinstance(name, str) and isinstance(value, Tensor) and not value.is_quantized for name, value in obj.items()
    ):
        tensors |= obj
        _check_tensors(tensors)
    plain = type(obj) is dict and _in_file_order(tensors) == list(obj) and description.is_flat_dict_of(list(obj))
    _write(tensors, None if plain else {STRUCTURE: description.text}, f)


def load_file(filename: str | os.PathLike, device: object = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by name, on `device` (None: the CPU), without the object that contained them.

    Raises FileNotFoundError, and CheckpointError (a RuntimeError) if the file is not a valid safetensors file or
    contains a dtype that numod does not support. The message names the file, the tensor and the rule.
    """
    with opened(filename) as source:
        entries, _, begin = read_header(source)
        return _plain_tensors(source, entries, begin, placement("cpu" if device is None else device, filename))


def load_metadata(filename: str | os.PathLike) -> dict[str, str]:
    """The `__metadata__` of a safetensors file, empty if it has none. An open file stays at its position.

    Raises as `load_file` does.
    """
    start = None if isinstance(filename, (str, os.PathLike)) else filename.tell()
    try:
        with opened(filename) as source:
            return read_header(source)[1]
    finally:
        if start is not None:
            filename.seek(start)


def read_object(source: Source, to_device: Placement) -> Any:
    """Load an object written by `save_object`, or the dict of tensors of any other safetensors file."""
    entries, metadata, begin = read_header(source)
    if STRUCTURE not in metadata:
        return _plain_tensors(source, entries, begin, to_device)
    try:
        return build_object(metadata[STRUCTURE], _reader(source, entries, begin, to_device))
    except ValueError as error:
        refuse(source.name, f"its metadata {STRUCTURE!r}: {error}")


def _plain_tensors(source: Source, entries: list[Entry], begin: int, to_device: Placement) -> dict[str, Tensor]:
    tensor_of = _reader(source, entries, begin, to_device)
    for entry in entries:
        _check_supported(entry, source.name)
    return {entry.name: window(tensor_of(entry.name, "cpu")[0], 0, entry.shape, None) for entry in entries}


def _reader(
    source: Source, entries: list[Entry], begin: int, to_device: Placement
) -> Callable[[str, str], tuple[Tensor, tuple]]:
    """A function (tensor name, device) -> (flat values, read once; shape)."""
    by_name = {entry.name: entry for entry in entries}
    values: dict[str, Tensor] = {}

    def tensor_of(name: str, device: str) -> tuple[Tensor, tuple]:
        if name not in by_name or not isinstance(device, str):
            raise ValueError(f"the file has no tensor {name!r:.80}")
        entry = by_name[name]
        if name not in values:
            _check_supported(entry, source.name)
            raw = source.bytes_at(begin + entry.begin, entry.end - entry.begin)
            values[name] = to_device(flat_tensor(raw, dtypes.ALL[FORMATS[entry.code].dtype]), device)
        return values[name], entry.shape

    return tensor_of


def _check_supported(entry: Entry, path: object) -> None:
    if FORMATS[entry.code].dtype not in dtypes.ALL:
        readable = ", ".join(code for name, code in CODES.items() if name in dtypes.ALL)
        refuse(path, f"numod has no dtype for {entry.code}; it reads {readable}", entry.name)


def _check_tensors(tensors: object) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"save: expected a dict from names to tensors, such as module.state_dict(), got {type(tensors).__name__}"
        )
    for name, value in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"save: names must be strings, got {name!r} of type {type(name).__name__}")
        if not isinstance(value, Tensor):
            raise TypeError(
                f"save: {name!r} is a {type(value).__name__}, and only tensors can be saved; make it a tensor, or use "
                "numod.save"
            )
        _check_text(name, "the tensor name")
        if name == METADATA:
            raise ValueError(f"save: no tensor may be named {METADATA!r}, which the format reserves; rename it")


def _check_text(text: str, label: str) -> None:
    if not is_unicode(text):
        raise ValueError(f"save: {label} {text!r} is not valid Unicode and cannot be written as UTF-8")


def _check_metadata_to_save(metadata: Mapping[str, str] | None) -> None:
    for pair in (metadata or {}).items():
        if not all(isinstance(text, str) for text in pair):
            raise TypeError(f"save: metadata must map strings to strings, got {pair[0]!r}: {pair[1]!r}")
        for text in pair:
            _check_text(text, "the metadata text")


def _code_of(name: str, tensor: Tensor) -> str:
    if tensor.dtype.name not in CODES:
        raise ValueError(f"save: {name!r} has dtype {tensor.dtype}; can be saved: {', '.join(CODES)}")
    return CODES[tensor.dtype.name]


def _in_file_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """The order of the package safetensors: by descending element size, then by name, so that tensors are aligned."""
    return sorted(tensors, key=lambda name: (-FORMATS[_code_of(name, tensors[name])].bits, name))


def _write(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None, f: object) -> None:
    order = _in_file_order(tensors)
    header = _header_bytes(order, tensors, metadata)
    with written(f) as file:
        _write_all(file, header, (_bytes_of(tensors[name]) for name in order))


def _write_all(file: BinaryIO, header: bytes, chunks: Iterable[memoryview]) -> None:
    file.write(header)
    for chunk in chunks:
        file.write(chunk)


def _header_bytes(order: list[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> bytes:
    """The length and the JSON header, padded with spaces so that the data starts at a multiple of 8 bytes."""
    header: dict[str, object] = {METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for name in order:
        code = _code_of(name, tensors[name])
        begin, offset = offset, offset + tensors[name].numel() * FORMATS[code].bits // 8
        header[name] = {"dtype": code, "shape": list(tensors[name].shape), "data_offsets": [begin, offset]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > rules.MAX_HEADER_BYTES:
        raise ValueError(
            f"save: the header would have {len(text)} bytes, the format allows {rules.MAX_HEADER_BYTES}; save several "
            "files"
        )
    return LENGTH.pack(len(text)) + text


def _bytes_of(tensor: Tensor) -> memoryview:
    """The elements in C order, little endian, as flat bytes."""
    tensor = tensor.detach().contiguous()
    stored = tensor._storage.data[tensor._offset : tensor._offset + tensor.numel()]
    values = np.ascontiguousarray(tensor.device.backend.download(stored))
    return values.astype(values.dtype.newbyteorder("<"), copy=False).view(np.uint8).data
