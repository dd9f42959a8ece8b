"""The interface of a back end: a module with these names (`cpu`, `cuda`, `meta`). `Device.backend` returns it.

A back end holds buffers (flat, of one storage dtype) and compiles and launches kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Backend(Protocol):
    """What every back end has."""

    is_gpu: bool
    VECTORISED: bool  # whether kernels use `kernel.vector_math` and `kernel.registers`
    LOOP: str  # the loop that replaces `parallel_range(n)`; {0} is n
    ROUNDING: str  # the module from which kernels import floor, ceil and trunc, which return floats
    MATH: str  # the module from which kernels import the other functions of `math`

    # ---- memory

    def empty(self, count: int, storage_dtype: object) -> object:
        """An uninitialised buffer of `count` elements."""

    def allocator(self, size: int) -> Callable:
        """`empty` for buffers of `size` bytes."""

    def scratch(self, parts: tuple[tuple[int, np.dtype], ...]) -> list:
        """Uninitialised buffers, (count, dtype) each, that are valid during one launch."""

    def upload(self, host: np.ndarray) -> object:
        """A buffer with the elements of a flat host array."""

    def download(self, buffer: object) -> np.ndarray:
        """A host array with the elements of a buffer. Waits for the kernels that write it."""

    def lengthened(self, buffer: object, count: int) -> object:
        """A copy of a buffer, extended to `count` elements by uninitialised ones."""

    def synchronize(self) -> None:
        """Wait for all kernels. Raises the errors that they reported."""

    # ---- kernels

    def identity(self) -> str:
        """Everything besides a kernel's source that its compiled code depends on."""

    def namespace(self) -> dict[str, object]:
        """Names that a kernel's source may use."""

    def further_math(self) -> tuple[str, ...]:
        """Functions of `math` that kernels use in place of those of `kernel.scalar`."""

    def compile(
        self,
        make: Callable[[], Callable],
        signature: str,
        parallel: bool,
        fastmath: frozenset[str],
        cache: object,
        alone: bool = False,
    ) -> object:
        """The compiled form of the Python function that `make` returns, from the cache if possible."""

    def choose(self, make: Callable[[bool], object], work: int, divisible: bool, long: bool) -> Callable:
        """The launcher for `work` elements of the kernel that `make(parallel)` builds."""


@runtime_checkable
class GPUBackend(Backend, Protocol):
    """What ops and kernels also use if `is_gpu`."""

    SIMULATED: bool  # whether kernels run as Python, in Numba's simulator

    def threads_per_row(self, n: int, most: int = 256, per_thread: int = 16) -> int:
        """The number of threads that share a row of n elements."""

    def chunks(self, outs: int, n: int, together: bool) -> int:
        """The number of parts in which to reduce n elements for each of `outs` results."""

    def block_sort_size(self) -> int:
        """The number of elements that a block sorts in shared memory."""

    def tensor_cores(self) -> bool:
        """Whether kernels can multiply 16-bit floats by tensor cores."""

    def shared_end(self) -> str:
        """The end of a shared array's declaration."""

    def launch_on(self, kernel: object, shape: tuple[int, int]) -> Callable:
        """The launcher of a kernel for a number of blocks and of threads."""

    def launch_blocks(self, kernel: object, blocks: int, threads: int) -> Callable:
        """The launcher of a kernel whose blocks loop over tasks."""
