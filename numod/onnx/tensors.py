"""Tensors of ONNX files as NumPy arrays and as numod tensors.

A file's sizes are compared with the bytes that it has before anything is allocated.
"""

from __future__ import annotations

import math
import os
import stat
from pathlib import Path

import numpy as np

from .. import dtypes
from ..core import Tensor, from_numpy, tensor
from .library import onnx

# by the number of onnx.TensorProto.DataType
DTYPES = {
    1: dtypes.float32,
    2: dtypes.uint8,
    3: dtypes.int8,
    4: dtypes.uint16,
    5: dtypes.int16,
    6: dtypes.int32,
    7: dtypes.int64,
    9: dtypes.bool_,
    10: dtypes.float16,
    11: dtypes.float64,
    12: dtypes.uint32,
    13: dtypes.uint64,
    14: dtypes.complex64,
    15: dtypes.complex128,
    16: dtypes.bfloat16,
}
# constants of integer dtypes that numod has not are held in a wider one: quantized weights and zero points
WIDER = {21: np.uint8, 22: np.int8, 25: np.uint8, 26: np.int8}
_BITS = {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2}
_STRING = 8
_MAX_RECORDED_SIZE = 65536  # elements of an array that may become part of a recorded program


def dtype_name(number: int) -> str:
    """The name of a data type, as onnx.TensorProto has it, in lower case."""
    try:
        return onnx().TensorProto.DataType.Name(number).lower()
    except ValueError:
        return f"number {number}"


def to_dtype(number: int) -> dtypes.dtype:
    """The dtype of an onnx.TensorProto.DataType. Raises NotImplementedError where numod has none."""
    if number not in DTYPES:
        raise NotImplementedError(f"numod has no dtype for ONNX's {dtype_name(number)}")
    return DTYPES[number]


def read_tensor(proto: object, folder: Path | None = None) -> np.ndarray | Tensor:
    """The values of a TensorProto: an array, or for bfloat16, which NumPy has not, a tensor.

    `folder` is where external data may lie. Raises ValueError for sizes that the data contradicts.
    """
    shape = _checked_shape(proto)
    if proto.data_type == _STRING:
        return np.array([text.decode("utf-8", "replace") for text in proto.string_data], object).reshape(shape)
    if proto.data_type not in DTYPES and proto.data_type not in WIDER:
        raise NotImplementedError(f"tensor '{proto.name}': numod has no dtype for {dtype_name(proto.data_type)}")
    if proto.data_location == onnx().TensorProto.EXTERNAL:
        return _from_bytes(proto, shape, _external_bytes(proto, shape, folder))
    if proto.HasField("raw_data"):
        raw = np.frombuffer(proto.raw_data, np.uint8)
        _check_bytes(proto, shape, raw.size)
        return _from_bytes(proto, shape, raw.copy())
    _check_elements(proto, shape)
    return _converted(proto, shape)


def _checked_shape(proto: object) -> tuple[int, ...]:
    shape = tuple(proto.dims)
    if any(size < 0 for size in shape):
        raise ValueError(f"tensor '{proto.name}' has a negative size: {list(shape)}")
    if proto.HasField("segment"):
        raise ValueError(f"tensor '{proto.name}' is stored in segments, which ONNX has withdrawn")
    return shape


def _byte_count(proto: object, shape: tuple[int, ...]) -> int:
    bits = _BITS[proto.data_type] if proto.data_type in _BITS else 8 * DTYPES[proto.data_type].itemsize
    return (math.prod(shape) * bits + 7) // 8


def _check_bytes(proto: object, shape: tuple[int, ...], count: int) -> None:
    if count != _byte_count(proto, shape):
        raise ValueError(
            f"tensor '{proto.name}' of shape {list(shape)} and type {dtype_name(proto.data_type)} needs "
            f"{_byte_count(proto, shape)} bytes, the file has {count}"
        )


def _check_elements(proto: object, shape: tuple[int, ...]) -> None:
    """Numbers that are listed one by one, several to a number for types below 8 bits, two for complex ones."""
    fields = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")
    count = sum(len(getattr(proto, field)) for field in fields)
    bits = _BITS.get(proto.data_type, 8)
    expected = math.prod(shape)
    expected = -(-expected * bits // 8) if bits < 8 else expected * (2 if proto.data_type in (14, 15) else 1)
    if count != expected:
        raise ValueError(
            f"tensor '{proto.name}' of shape {list(shape)} needs {expected} elements, the file has {count}"
        )


def _external_bytes(proto: object, shape: tuple[int, ...], folder: Path | None) -> np.ndarray:
    """The bytes of a tensor in a separate file, which must be in `folder` or below, after links are resolved."""
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ValueError(f"tensor '{proto.name}' is in the file '{location}': load the model by its path")
    path = _checked_path(proto.name, location, folder)
    try:
        offset = int(entries.get("offset") or 0)
        length = int(entries["length"]) if entries.get("length") else _byte_count(proto, shape)
    except ValueError:
        raise ValueError(f"tensor '{proto.name}': offset and length of external data must be integers") from None
    _check_bytes(proto, shape, length)
    size = path.stat().st_size
    if offset < 0 or offset + length > size:
        raise ValueError(
            f"tensor '{proto.name}': bytes {offset} to {offset + length} of '{location}', which has {size}"
        )
    return np.fromfile(path, np.uint8, length, offset=offset)


def _checked_path(name: str, location: str, folder: Path) -> Path:
    refusal = f"tensor '{name}': external data must be a file in the model's own folder, not '{location}'"
    if not location or "\0" in location or os.path.isabs(location) or ".." in location.replace("\\", "/").split("/"):
        raise ValueError(refusal)
    try:
        path = (folder / location).resolve()
        exists = path.exists()
    except (OSError, RuntimeError) as error:  # a name that is too long, or links in a cycle
        raise ValueError(f"tensor '{name}': '{location[:80]}' is no file: {error.__class__.__name__}") from error
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(refusal + ", a link to elsewhere")
    if not exists:
        raise FileNotFoundError(f"tensor '{name}': there is no file '{location}' next to the model")
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError(refusal)
    return path


def _from_bytes(proto: object, shape: tuple[int, ...], raw: np.ndarray) -> np.ndarray | Tensor:
    """Little-endian bytes as elements, without a copy where NumPy has the dtype."""
    dtype = DTYPES.get(proto.data_type)
    if dtype is None:
        copied = type(proto)(name=proto.name, data_type=proto.data_type, dims=proto.dims, raw_data=raw.tobytes())
        return _converted(copied, shape)
    if dtype is dtypes.bfloat16:
        return from_numpy(raw.view("<i2").astype(np.int16).reshape(shape)).view(dtypes.bfloat16)
    elements = raw.view(dtype.numpy.newbyteorder("<")).reshape(shape)
    return elements.astype(dtype.numpy, copy=False)


def _converted(proto: object, shape: tuple[int, ...]) -> np.ndarray | Tensor:
    """The elements by the package, for numbers listed one by one and for dtypes that numod has not."""
    try:
        array = onnx().numpy_helper.to_array(proto).reshape(shape)
    except Exception as error:  # any error of the package for data that does not fit
        raise ValueError(f"tensor '{proto.name}': {error}") from error
    if proto.data_type in WIDER:
        return array.astype(WIDER[proto.data_type])
    if DTYPES[proto.data_type] is dtypes.bfloat16:
        return from_numpy(array.view(np.int16).copy()).view(dtypes.bfloat16)
    return array if array.flags.writeable else array.copy()


def as_tensor(value: object) -> object:
    """`value`, as a tensor where it is an array or a number. Small arrays become part of a recorded program."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise TypeError("numod has no tensors of strings")
        dtype = dtypes.from_numpy(value.dtype)
        return (
            tensor(value.tolist(), dtype=dtype).reshape(value.shape)
            if value.size <= _MAX_RECORDED_SIZE
            else from_numpy(value)
        )
    return tensor(value) if isinstance(value, (bool, int, float)) else value


def as_array(value: object) -> object:
    """`value`, as an array where it is a tensor, whose numbers are read."""
    if not isinstance(value, Tensor):
        return value
    dtype = value.dtype.numpy if value.dtype.numpy is not None else np.float32
    return np.array(value.detach().tolist(), dtype).reshape(tuple(value.shape))
