"""Values derived from the data of tensors, such as packed weights: computed once for each state of their memory."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

import numpy as np

from .listeners import listeners, notify
from .tensor import DataVersionCounter, Tensor

T = TypeVar("T")
_MOST_VALUES = 8  # values of one tensor, such as offsets for several scales


def derived(tensor: Tensor, key: Hashable, compute: Callable[[], T], other: Tensor | None = None) -> T:
    """`compute()`, which depends only on `key` and on the data of a tensor and perhaps of another.

    The tensor keeps it until one of the two is written to. A recorder always gets a new value, since its program has to
    compute it from the tensors. So does memory of other libraries, which write to it without counting.
    """
    if listeners:
        return compute()
    storage, count = tensor._storage, DataVersionCounter.total
    if other is None:  # as `state_of`, without its call: these lines run several times in every layer
        state: tuple = count, storage, storage.version, tensor._offset, tensor._layout
    else:
        memory = other._storage
        state = (
            count, storage, storage.version, tensor._offset, tensor._layout, memory, memory.version, other._offset,
            other._layout,
        )  # fmt: skip
    values = tensor._derived
    known = None if values is None else values.get(key)
    if known is None or known[0] != state:
        value = compute()
        if storage.foreign or (other is not None and other._storage.foreign):
            return value
        if values is None:
            values = tensor._derived = {}
        elif len(values) == _MOST_VALUES and key not in values:
            values.pop([*values][0], None)  # another thread may have removed it
        known = values[key] = state, value
    return known[1]


def state_of(tensor: Tensor) -> tuple:
    """What changes with every counted write to a tensor, and when it gets other memory."""
    storage = tensor._storage
    return DataVersionCounter.total, storage, storage.version, tensor._offset, tensor._layout


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
