"""The back end `meta`: tensors with shapes, strides and dtypes but no bytes.

Ops plan as on other devices, but launches do nothing (see `ops.op`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

# planning reads how kernels would be written
from .cpu import is_gpu, LOOP, MATH, ROUNDING, VECTORISED, further_math, identity, namespace  # noqa: F401


class Nothing:
    """A buffer with a size and dtype but no memory. A slice is one, too."""

    __slots__ = ("size", "dtype")

    def __init__(self, size: int, dtype: object) -> None:
        self.size, self.dtype = size, np.dtype(dtype)

    def __getitem__(self, key: slice) -> Nothing:
        return Nothing(len(range(*key.indices(self.size))), self.dtype)

    def view(self, dtype: object) -> Nothing:
        """The same bytes as another dtype."""
        return Nothing(self.size * self.dtype.itemsize // np.dtype(dtype).itemsize, dtype)

    @property
    def __array_interface__(self) -> dict:
        return {"data": (0, False)}


def empty(count: int, storage_dtype: object) -> Nothing:
    """No memory for `count` elements."""
    return Nothing(count, storage_dtype)


def allocator(size: int) -> Callable:
    """No memory for `size` bytes."""
    return empty


def scratch(parts: tuple[tuple[int, object], ...]) -> list[Nothing]:
    """Buffers without memory."""
    return [Nothing(*part) for part in parts]


def upload(host: np.ndarray) -> Nothing:
    """A buffer for `host`, without its values."""
    return Nothing(host.size, host.dtype)


def lengthened(buffer: Nothing, count: int) -> Nothing:
    """A buffer of `count` elements."""
    return Nothing(count, buffer.dtype)


def download(buffer: Nothing) -> np.ndarray:
    """Raises NotImplementedError: there is nothing to read."""
    raise NotImplementedError(
        "Cannot copy out of meta tensor; no data! Please use Module.to_empty() instead of Module.to() when moving a "
        "module from meta to a different device."
    )


def launch(*buffers: object) -> None:
    """Do nothing, in place of any kernel."""


def choose(make: Callable[[bool], Callable], work: int, divisible: bool, long: bool) -> Callable:
    """No kernel is built."""
    return launch


def compile(
    make: Callable[[], Callable],
    signature: str,
    parallel: bool,
    fastmath: frozenset[str],
    cache: object,
    alone: bool = False,
) -> Callable:
    """No kernel is compiled."""
    return launch


def synchronize() -> None:
    """Return at once: no kernel runs."""
