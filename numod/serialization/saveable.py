"""Checks that an object can be saved as safetensors: tensors and plain data in plain containers.

The object is traversed once, before anything is written.
"""

from __future__ import annotations

import pickle
from collections import Counter, OrderedDict
from typing import Any

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor
from ..device import Size
from ..device.device import Device
from ..nn.module import Module
from .keys import checked_key

MAPPINGS = (dict, OrderedDict, Counter)
SEQUENCES = (list, tuple, Size)
SETS = (set, frozenset)
_PLAIN_TYPES = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    dtypes.dtype,
    dtypes.AbsentDtype,
    dtypes.QuantizedDtype,
    Device,
)
_NUMBER_KINDS = "biufc"  # of NumPy dtypes


def tensors_of(obj: object) -> list[tuple[str, Tensor]]:
    """All tensors in `obj` with their paths ("model.0.weight"), each object once.

    Raises TypeError or ValueError if something in `obj` cannot be saved.
    """
    tensors: list[tuple[str, Tensor]] = []
    try:
        _visit(obj, (), tensors, set(), set())
    except RecursionError:
        raise ValueError("save: the object is nested too deeply") from None
    return tensors


def _visit(value: object, path: tuple, tensors: list, seen: set[int], ancestors: set[int]) -> None:
    if isinstance(value, Tensor) and value.is_quantized:
        for name, part in quantized_parts(value).items():
            _visit(part, (*path, name), tensors, seen, ancestors)
    elif isinstance(value, Tensor):
        tensors.append((".".join(map(str, path)) or "tensor", value))
    elif type(value) in (*MAPPINGS, *SEQUENCES, *SETS):
        if id(value) in ancestors:
            raise ValueError(f"save: {_show(path)} contains itself")
        if id(value) not in seen:
            seen.add(id(value))
            for key, member in _members(value, path):
                _visit(member, (*path, key), tensors, seen, ancestors | {id(value)})
    elif type(value) not in _PLAIN_TYPES and not is_number_array(value):
        raise TypeError(f"save: {_show(path)} is a {type(value).__name__}, {_hint(value)}")


def saveable_quantizer(tensor: Tensor) -> Any:
    """The quantizer. Raises RuntimeError for a row of a table whose zero points are floats: files have integers."""
    quantizer = tensor._quantizer
    if not quantizer.scheme.is_per_channel and isinstance(quantizer.zero_point, float):
        raise RuntimeError(
            f"save: the zero point of a quantized tensor must be an integer, got {quantizer.zero_point}; save the "
            "whole table, rows of it as in table[:1], or the result of dequantize()"
        )
    return quantizer


def quantized_parts(tensor: Tensor) -> dict[str, object]:
    """What a file holds of a quantized tensor: its integers, and how they stand for values."""
    quantizer = saveable_quantizer(tensor)
    parts = {"integers": tensor._memory, "dtype": quantizer.dtype, "scheme": quantizer.scheme.name}
    parts |= {"scale": quantizer.scale, "zero_point": quantizer.zero_point, "axis": quantizer.axis}
    return parts | ({"shape": tuple(tensor.shape)} if quantizer.dtype.bits < 8 else {})


def _members(value: object, path: tuple) -> list[tuple]:
    if type(value) in SEQUENCES:
        return list(enumerate(value))
    for key in value:
        _check_key(key, path)
    return list(value.items()) + [("_metadata", getattr(value, "_metadata", None))] if type(value) in MAPPINGS else []


def _check_key(key: object, path: tuple) -> None:
    try:
        checked_key(key)
        if not isinstance(key, tuple) and type(key) not in _PLAIN_TYPES:
            raise ValueError(f"a {type(key).__name__}")
    except ValueError as error:
        raise TypeError(
            f"save: {_show(path)} has a key or member that cannot be saved: {error}; use text or numbers"
        ) from None


def is_number_array(value: object) -> bool:
    """Whether `value` is a NumPy array, scalar or dtype of numbers."""
    return (
        isinstance(value, (np.generic, np.ndarray, np.dtype)) and getattr(value, "dtype", value).kind in _NUMBER_KINDS
    )


def _show(path: tuple) -> str:
    return "the object" + "".join(f"[{key!r}]" for key in path)


def _hint(value: object) -> str:
    if isinstance(value, Module):
        return "and safetensors files hold data, not programs: save its state_dict(), or use another file extension"
    if hasattr(value, "state_dict"):
        return "and safetensors files hold data, not programs: save its state_dict()"
    return (
        "and safetensors files hold tensors, numbers, strings, bytes, None and dicts, lists, tuples and sets of "
        "them; convert it, or use another file extension"
    )


def refuse_pickle_module(module: object) -> None:
    """Raise if a caller passes a `pickle_module`: files are read and written without one."""
    if module not in (None, pickle):
        raise RuntimeError(
            "numod reads and writes checkpoints without a pickle module, so that no code in a file can run; omit "
            "pickle_module"
        )
