"""Values derived from the data of tensors, such as packed weights: computed once for each state of their memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from itertools import repeat
from typing import TypeVar

import numpy as np

from ..device.storage import Storage, WatchedStorage, is_returned, is_unshared, lend, watch
from .listeners import listeners, notify
from .tensor import DataVersionCounter, Tensor

T = TypeVar("T")
_MOST_VALUES = 8  # values of one tensor, such as offsets for several scales


def derived(tensor: Tensor, key: Hashable, compute: Callable[[], T], other: Tensor | None = None) -> T:
    """`compute()`, which depends only on `key` and on the data of a tensor and perhaps of another.

    The tensor keeps it until one of the two is written to. Writes that nobody counts, through NumPy or by another
    process, are seen as well: memory that others may write is compared at each call. A recorder always gets a new
    value, since its program has to compute it from the tensors.
    """
    if listeners:
        return compute()
    storage, last = tensor._storage, DataVersionCounter.last
    if other is None:  # these lines run several times in every layer
        state: tuple = last, storage, storage.version, tensor._offset, tensor._layout
    else:
        memory = other._storage
        state = (
            last, storage, storage.version, tensor._offset, tensor._layout, memory, memory.version, other._offset,
            other._layout,
        )  # fmt: skip
    values = tensor._derived
    known = None if values is None else values.get(key)
    if known is None or known[0] != state or known[2] is not None:
        if values is None:
            values = tensor._derived = {}
        elif len(values) == _MOST_VALUES and key not in values:
            values.pop([*values][0], None)  # another thread may have removed it
        known = values[key] = _renewed(known, state, (tensor,) if other is None else (tensor, other), compute)
    return known[1]


def _renewed(known: tuple | None, state: tuple, tensors: tuple[Tensor, ...], compute: Callable) -> tuple:
    """(the state, the value for it, the bytes of memory that others may write). Only a change makes a new value."""
    storages = [tensor._storage for tensor in tensors]
    settle(storages)
    parts = [slice(tensor._offset, tensor._offset + tensor._layout.extent) for tensor in tensors]
    state, lent = (DataVersionCounter.last, *state[1:]), lent_bytes(storages, parts)
    if known is None or known[0][1:] != state[1:] or known[2] != lent or written_since(storages, known[0][0]):
        return state, compute(), lent
    return state, known[1], lent


def written_since(storages: Iterable[Storage], last: int) -> bool:
    """Whether one of the storages was written to through `.data` after `DataVersionCounter.last` had this value."""
    return any(getattr(storage, "stamp", 0) > last for storage in storages)


def settle(storages: Iterable[Storage]) -> None:
    """Count writes to memory of values to be cached that was lent, where no borrower is left, and watch the memory."""
    for storage in storages:
        if storage.lent and isinstance(storage.data, np.ndarray) and is_returned(storage):
            storage.__class__ = WatchedStorage
            DataVersionCounter.note(storage)
            if not is_unshared(storage):  # another thread has made an array meanwhile, which it found lent
                lend(storage)
        watch(storage)


def lent_bytes(storages: Iterable[Storage], parts: Iterable[slice] = repeat(slice(None))) -> list | None:
    """The memory, or parts of it, that others may write and that has to be compared; None if there is none."""
    lent = [_bytes_of(storage.data, part) for storage, part in zip(storages, parts) if storage.lent]
    return lent or None


def _bytes_of(data: object, part: slice) -> bytes | object:
    """The bytes of a part of memory; of a device's memory an object that is equal to no other."""
    return data[part].tobytes() if isinstance(data, np.ndarray) else object()


def state_of(tensor: Tensor) -> tuple:
    """What changes with every counted write to a tensor, and when it gets other memory."""
    storage = tensor._storage
    return getattr(storage, "stamp", 0), storage, storage.version, tensor._offset, tensor._layout


def number_of(tensor: Tensor) -> float | int:
    """The number in a tensor of one element. A compiled function is recorded again when the tensor has another one."""
    return derived(tensor, "number", partial(_number_in, tensor))


def _number_in(tensor: Tensor) -> float | int:
    return data_of(tensor)[tensor._offset].item()


def data_of(tensor: Tensor) -> np.ndarray:
    """The numbers in a tensor's memory.

    Recorders are notified of this read: the next calls of a compiled function must find the same numbers.
    """
    if listeners:
        notify("data_read", tensor)
    return memory_of(tensor)


def memory_of(tensor: Tensor) -> np.ndarray:
    """The numbers in a tensor's memory, read without notice."""
    return tensor.device.backend.download(tensor._storage.data)
