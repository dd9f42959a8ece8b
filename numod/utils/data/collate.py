"""Collating a list of samples into a batch.

`default_collate_fn_map` may be extended in place, as in PyTorch. It maps a type, or a tuple of types, to a function
`(batch, *, collate_fn_map) -> object`, which `default_collate` uses.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from ...core.methods import functions
from ...core.tensor import Tensor
from ...core.create.values import as_tensor, tensor
from ...dtypes import float64

np_str_obj_array_pattern = re.compile("[SaUO]")  # the kinds of NumPy dtypes that cannot become tensors
default_collate_err_msg_format = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists"
_EXPECTED = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}; for others "
    "pass a collate_fn"
)


def default_collate(batch: Sequence) -> Any:
    """Join the samples of `batch` along a new first dimension, keeping their structure.

    Tensors and NumPy arrays of the same shape become a tensor (B, ...), floats a float64 tensor (B,), and ints an int64
    tensor (B,). Strings stay a list. Dicts, named tuples and lists are joined entry by entry, and tuples become lists.
    Raises TypeError for other types and RuntimeError if shapes or lengths differ.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Sequence, *, collate_fn_map: dict | None = None) -> object:
    """`default_collate` with the functions of `collate_fn_map` for its types. Raises as `default_collate` does."""
    first = batch[0]
    function = _function_for(first, collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        joined = {key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map) for key in first}
        return _like_mapping(first, joined)
    if isinstance(first, Sequence):
        return _collate_sequences(batch, collate_fn_map)
    raise TypeError(_EXPECTED.format(type(first)))


def default_convert(data: object) -> object:
    """`data` with NumPy arrays converted to tensors. The DataLoader applies it to samples if `batch_size=None`."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.bool_, np.number)):
        return data if _is_text_or_object(np.asarray(data)) else as_tensor(data)
    if isinstance(data, Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _like_sequence(data, [default_convert(item) for item in data])
    return data


def pinned(batch: object) -> object:
    """A batch with its tensors, at any depth, in pinned memory. Objects with a `pin_memory` method are passed to it."""
    if hasattr(batch, "pin_memory"):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return _like_mapping(batch, {key: pinned(value) for key, value in batch.items()})
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return _like_sequence(batch, [pinned(item) for item in batch])
    return batch


def pin_memory(data: Any, device: Any = None) -> Any:
    """`pinned` under PyTorch's name, where it belongs to `utils.data._utils.pin_memory`."""
    return pinned(data)


def _function_for(first: object, collate_fn_map: dict) -> Callable | None:
    exact = collate_fn_map.get(type(first))
    if exact is not None:
        return exact
    return next((function for kind, function in collate_fn_map.items() if isinstance(first, kind)), None)


def _collate_sequences(batch: Sequence, collate_fn_map: dict | None) -> object:
    lengths = {len(sample) for sample in batch}
    if len(lengths) > 1:
        raise RuntimeError(
            f"each element in list of batch should be of equal size, got lengths {sorted(lengths)}; pad in a collate_fn"
        )
    joined = [collate(samples, collate_fn_map=collate_fn_map) for samples in zip(*batch, strict=True)]
    return _like_sequence(batch[0], joined)


def _like_mapping(original: Mapping, entries: dict) -> Mapping:
    """A mapping of the original's type with new entries; a plain dict if the type cannot be built that way."""
    try:
        if not isinstance(original, MutableMapping):
            return type(original)(entries)
        clone = copy.copy(original)
        clone.update(entries)
        return clone
    except TypeError:
        return entries


def _like_sequence(original: Sequence, entries: list) -> Sequence:
    """A sequence of the original's type with new entries.

    Tuples, as in PyTorch, and types that cannot be built become a list.
    """
    if isinstance(original, tuple):
        return type(original)(*entries) if hasattr(original, "_fields") else entries
    try:
        if not isinstance(original, MutableSequence):
            return type(original)(entries)
        clone = copy.copy(original)
        for position, entry in enumerate(entries):
            clone[position] = entry
        return clone
    except TypeError:
        return entries


def _is_text_or_object(array: np.ndarray) -> bool:
    return np_str_obj_array_pattern.search(array.dtype.kind) is not None


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: dict | None = None) -> Tensor:
    """Stack tensors of the same shape to (B, ...). Raises RuntimeError if the shapes differ."""
    try:
        return functions["stack"](list(batch))
    except RuntimeError as error:
        if len({sample.shape for sample in batch}) == 1:
            raise
        raise RuntimeError(
            f"{error}; crop the samples to one size, or pass a collate_fn that pads them (nn.utils.rnn.pad_sequence)"
        ) from None


def collate_numpy_array_fn(batch: Sequence[np.ndarray], *, collate_fn_map: dict | None = None) -> object:
    """Stack arrays of the same shape to a tensor (B, ...). Raises TypeError for arrays of strings or objects."""
    if _is_text_or_object(batch[0]):
        raise TypeError(_EXPECTED.format(batch[0].dtype))
    return collate([as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch: Sequence, *, collate_fn_map: dict | None = None) -> Tensor:
    """Convert NumPy numbers to a tensor (B,) of their dtype."""
    return as_tensor(np.asarray(batch))


def collate_float_fn(batch: Sequence[float], *, collate_fn_map: dict | None = None) -> Tensor:
    """Convert floats to a float64 tensor (B,), which has a Python float's precision."""
    return tensor(batch, dtype=float64)


def collate_int_fn(batch: Sequence[int], *, collate_fn_map: dict | None = None) -> Tensor:
    """Convert ints to an int64 tensor (B,), bools to a bool tensor."""
    return tensor(batch)


def collate_str_fn(batch: Sequence, *, collate_fn_map: dict | None = None) -> Sequence:
    """Return strings and bytes unchanged."""
    return batch


default_collate_fn_map: dict[type | tuple[type, ...], Callable] = {
    Tensor: collate_tensor_fn,
    np.ndarray: collate_numpy_array_fn,
    (np.bool_, np.number, np.object_): collate_numpy_scalar_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def stacks_rows(collate_fn: Callable) -> bool:
    """Whether `collate_fn` stacks tensors as `default_collate` does, so that indexing columns gives the same batch."""
    return collate_fn is default_collate and default_collate_fn_map.get(Tensor) is collate_tensor_fn
