"""The CUDA back end: device buffers and the project's only `cuda.jit`. Imported when a CUDA device is first asked for.

Works with `numba-cuda` or Numba's built-in target, whichever `numba.cuda` is, and with its simulator (NUMBA_ENABLE_CUDASIM=1), which runs
kernels as Python. Kernels are grid-stride loops over flat buffers: neighbouring threads take neighbouring elements, so accesses coalesce.
"""

from __future__ import annotations

import functools
import importlib.util
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from .. import config
from . import cuda_memory
from .signature import numba_types

LOOP = PARALLEL_LOOP = "range(cuda.grid(1), {0}, cuda.gridsize(1))"
FLAT, SIMULATED = True, config.cuda_simulator()
# what ends a shared array's declaration: it begins where vector loads may begin, if the package can be told so (the simulator and Numba's own cannot)
SHARED = ")" if config.cuda_simulator() or importlib.util.find_spec("numba_cuda") is None else ", alignment=16)"
ROUNDING = "numpy" if config.cuda_simulator() else "math"  # where kernels take floor, ceil and trunc from: functions from float to float
VECTORISED = False  # whether kernels take exp, tanh and the like from `kernel.vector_math`: a GPU has its own
_BLOCK = 256  # threads: 8 warps, few enough that register-heavy kernels keep several blocks on a multiprocessor
_MOST_BLOCKS = 4096  # beyond it the grid-stride loop takes over
_MOST_TASKS = 1 << 20  # blocks of kernels written for blocks: those that share memory are worth starting anew


@functools.cache
def numba_cuda() -> Any:
    """`numba.cuda`. Raises RuntimeError, with what to do, where there is neither a GPU nor the simulator."""
    from numba import cuda

    if not cuda.is_available():
        raise RuntimeError(
            "no CUDA device: Found no NVIDIA driver on your system. Install one together with `pip install 'numod[cuda]'`, "
            "or set NUMBA_ENABLE_CUDASIM=1 before starting Python to run CUDA kernels in Numba's simulator."
        )
    return cuda


def is_available() -> bool:
    """Whether there is a GPU with its driver, or Numba's simulator where that was asked for."""
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:  # noqa: BLE001  a half-installed toolkit fails in many ways, and each of them means no
        return False


@functools.cache
def pool() -> cuda_memory.Pool:
    """The device's memory."""
    return cuda_memory.make(numba_cuda())


class _Current(threading.local):
    stream: object = None  # Numba's stream that kernels and copies of this thread go to; None is the default stream


current = _Current()


def empty(count: int, storage_dtype: object) -> object:
    """A flat uninitialised device buffer. Raises OutOfMemoryError where the device has no room."""
    return pool().take(count, storage_dtype, current.stream)


def upload(host: np.ndarray) -> object:
    """A device copy of a flat host array. From pinned memory it goes on behind the caller's back, in the stream's order."""
    buffer = empty(host.size, host.dtype)
    if host.size:
        buffer.copy_to_device(np.ascontiguousarray(host), stream=current.stream or 0)
    return buffer


def download(buffer: object) -> np.ndarray:
    """A host copy of a device buffer; waits for the kernels that write it."""
    stream = current.stream
    host = buffer.copy_to_host(stream=stream or 0)
    if stream is not None:
        stream.synchronize()
    return host


def pinned(count: int, storage_dtype: object) -> np.ndarray:
    """A host buffer that the device can read by itself, without the processor copying it first."""
    return numba_cuda().pinned_array(max(count, 1), storage_dtype)[:count]


def adopt(address: int, count: int, storage_dtype: np.dtype, owner: object) -> object:
    """A buffer over device memory of another library, kept alive by `owner`."""
    return pool().source.adopt(address, count, storage_dtype, owner)


def synchronize() -> None:
    """Wait for all kernels."""
    numba_cuda().synchronize()


@functools.cache
def identity() -> str:
    """What compiled code depends on."""
    import numba

    return f"cuda numba {numba.__version__} {'simulator' if config.cuda_simulator() else 'device'}"


def namespace() -> dict[str, object]:
    """Names a kernel's source may use: types that cast, views of a float's bits, `cuda`, and the decorator of helper functions."""
    from numba import cuda

    integers = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "uintp")
    common = {"cuda": cuda, "device_function": cuda.jit(device=True), **_bit_views()}
    if config.cuda_simulator():
        types = {name: getattr(np, name) for name in (*integers, "float32", "float64")}
        return {**types, "uintp": int, "boolean": bool, **common}
    from numba import types

    names = {name: getattr(types, name) for name in (*integers, "float32", "float64")}
    return {**names, "boolean": types.boolean, **common}


def _bit_views() -> dict[str, Callable]:
    """bits32, bits64: the bits of a float as an unsigned integer. float_of_bits32, float_of_bits64: the reverse."""
    if config.cuda_simulator():
        return {
            "bits32": lambda x: np.float32(x).view(np.uint32), "float_of_bits32": lambda x: np.uint32(x).view(np.float32),
            "bits64": lambda x: np.float64(x).view(np.uint64), "float_of_bits64": lambda x: np.uint64(x).view(np.float64),
        }
    from numba import cuda, types
    from numba.cuda import libdevice

    pairs = {
        "bits32": (libdevice.float_as_int, types.uint32), "float_of_bits32": (libdevice.int_as_float, types.float32),
        "bits64": (libdevice.double_as_longlong, types.uint64), "float_of_bits64": (libdevice.longlong_as_double, types.float64),
    }
    return {name: _bitcast(cuda, *pair) for name, pair in pairs.items()}


def _bitcast(cuda: object, view: Callable, kind: object) -> Callable:
    @cuda.jit(device=True)
    def cast(x):  # noqa: ANN001, ANN202
        return kind(view(x))

    return cast


def compile(function: Callable, signature: str, parallel: bool, fastmath: frozenset[str], cache: object, alone: bool = False) -> object:  # noqa: A001
    """A kernel to be launched as `kernel[blocks, threads](*arguments)`."""
    cuda = numba_cuda()
    kernel = cuda.jit(function) if config.cuda_simulator() else cuda.jit(numba_types(signature))(function)
    cache.keep(kernel)
    return kernel


def ptx(function: Callable, signature: str, capability: tuple[int, int]) -> str:
    """The PTX of a kernel for a compute capability such as (9, 0). Needs no GPU."""
    from numba import cuda
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)  # helpers are compiled for the current device: there is none
    try:
        return cuda.compile_ptx(function, numba_types(signature), cc=capability)[0]
    finally:
        dispatcher.get_current_device = before


def choose(make: Callable[[bool], object], work: int, divisible: bool) -> Callable:
    """The launcher of a kernel: enough blocks for `work` elements, or a single thread where its loops cannot be divided."""
    shape = (1, 1)
    if divisible:  # in the simulator every thread is a Python thread; two blocks and an odd size show errors in the strides
        shape = (2, 3) if config.cuda_simulator() else (min(-(-work // _BLOCK), _MOST_BLOCKS), _BLOCK)
    return _launch_on(make(False), shape)


def launch_blocks(kernel: object, blocks: int, threads: int) -> Callable:
    """The launcher of a kernel whose blocks take one task after the other. The simulator has two, so that some take several."""
    return _launch_on(kernel, (min(blocks, 2 if config.cuda_simulator() else _MOST_TASKS), threads))


def _launch_on(kernel: object, shape: tuple[int, int]) -> Callable:
    default = kernel[shape]

    def launch(*arguments: object) -> None:
        stream = current.stream
        (default if stream is None else kernel[(*shape, stream)])(*arguments)

    return launch
