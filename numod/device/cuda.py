"""The CUDA back end: device buffers, and the project's only use of `cuda.jit`. Imported when CUDA is first used.

Works with `numba-cuda`, with Numba's built-in target, and with the simulator (NUMBA_ENABLE_CUDASIM=1), which runs
kernels as Python. Kernels are grid-stride loops over flat buffers: neighbouring threads access neighbouring elements,
so accesses coalesce.
"""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace

import numpy as np

from .. import config
from . import compiler, cuda_driver, cuda_memory, cuda_reports, cuda_tensor_cores, cuda_vectors
from .signature import numba_types
from .storage import address

LOOP = "range(cuda.grid(1), {0}, cuda.gridsize(1))"
is_gpu, SIMULATED = True, config.cuda_simulator()
# the module from which kernels import floor, ceil and trunc, which return floats
ROUNDING = "numpy" if config.cuda_simulator() else "math"
MATH = "numod.device.simulated_math" if config.cuda_simulator() else "math"  # and other functions
VECTORISED = False  # whether kernels use `kernel.vector_math` and `kernel.registers`
# parts of one long row: enough blocks for every multiprocessor, few enough for one block to join
_MAX_CHUNKS = 1024
_FULL_GPU_THREADS = 1 << 18  # threads that fill the largest devices
_BLOCK_THREADS = 256  # 8 warps, few enough that register-heavy kernels keep several blocks on a multiprocessor
_MOST_BLOCKS = 4096  # more elements are covered by the grid-stride loop
_MOST_STREAMS = 32
_MOST_TASKS = 1 << 20  # most blocks of a kernel that is written for blocks
# the oldest PTX version that supports each target, so that a driver older than the compiler accepts the text
_PTX_VERSIONS = {"100": "8.6", "101": "8.6", "103": "8.8", "110": "9.0", "120": "8.7", "121": "8.8"}
_NO_DRIVER = (
    "no CUDA device: Found no NVIDIA driver on your system. Install one together with `pip install 'numod[cuda]'`, "
    "or set NUMBA_ENABLE_CUDASIM=1 before starting Python to run CUDA kernels in Numba's simulator."
)


@functools.cache
def driver() -> cuda_driver.Driver | None:
    """The CUDA driver; None in Numba's simulator. Raises RuntimeError, with advice, if there is neither."""
    if config.cuda_simulator():
        return None
    try:
        return cuda_driver.Driver()
    except OSError:
        raise RuntimeError(_NO_DRIVER) from None
    except AttributeError as error:  # a library older than its functions
        raise RuntimeError(f"{_NO_DRIVER} (the installed driver is too old: {error})") from None
    except cuda_driver.DriverError as error:
        raise RuntimeError(
            f"no CUDA device: the NVIDIA driver is installed, but reports: {error}. Check that "
            "nvidia-smi lists a working GPU and that CUDA_VISIBLE_DEVICES does not hide it, "
            "or set NUMBA_ENABLE_CUDASIM=1 before starting Python to run CUDA kernels in Numba's simulator."
        ) from None


def is_available() -> bool:
    """Whether there is a GPU with a driver, or Numba's simulator is enabled."""
    try:
        driver()
        return True
    except RuntimeError:
        return False


@functools.cache
def pool() -> cuda_memory.Pool:
    """The device's memory."""
    return cuda_memory.make(driver())


class _Current(threading.local):
    stream: object = None  # the stream that kernels and copies of this thread go to; None is the default stream


current = _Current()


def empty(count: int, storage_dtype: object) -> object:
    """A flat uninitialised device buffer. Raises OutOfMemoryError if there is no room."""
    return pool().take(count, storage_dtype, current.stream)


def allocator(size: int) -> Callable:
    """`empty` for buffers of `size` bytes."""
    return pool().taker(size, current)


def scratch(parts: tuple[tuple[int, np.dtype], ...]) -> list[object]:
    """Flat uninitialised buffers, (count, dtype) each, for one launch."""
    return [empty(*part) for part in parts]


def upload(host: np.ndarray) -> object:
    """A device copy of a flat host array."""
    buffer = empty(host.size, host.dtype)
    if host.size:
        buffer.copy_to_device(np.ascontiguousarray(host))
    return buffer


def lengthened(buffer: object, count: int) -> object:
    """A copy of a buffer, extended to `count` elements by uninitialised ones."""
    extended = empty(count, buffer.dtype)
    if driver() is None:
        extended[: buffer.size].copy_to_device(buffer)
    else:
        extended.begin_copy(buffer, current.stream)
    return extended


# whether compiled functions launch their kernels as a graph; the profiler, which times each kernel, disables it
replaying = True


def graph(
    launches: Sequence[Callable], arguments: Iterable[Sequence], dependencies: Iterable[Sequence[int]]
) -> cuda_driver.Graph:
    """A CUDA graph of launches (of `launch_on`) with their arguments.

    `dependencies`: the numbers of the launches that each launch waits for.
    """
    return cuda_driver.Graph(
        driver(), [launch.kernel.node(*launch.shape) for launch in launches], arguments, dependencies, current
    )


_pending_copies: list[tuple] = []  # (event, host array)
_pending_lock = threading.Lock()


def upload_pinned(host: np.ndarray, wait: bool) -> object:
    """A device copy of a flat array of `pinned` memory. Unless `wait` is set, returns before it is complete."""
    if driver() is None:
        return upload(host)
    buffer = empty(host.size, host.dtype)
    buffer.begin_copy(host, current.stream)
    mark = pool().source.event(current.stream)
    if wait:
        mark.synchronize()
    else:  # keep the host memory alive until the copy is complete
        with _pending_lock:
            _pending_copies[:] = [copy for copy in _pending_copies if not copy[0].query()] + [(mark, host)]
    return buffer


def download(buffer: object) -> np.ndarray:
    """A host copy of a device buffer; waits for the kernels that write it and raises their reported errors."""
    host = buffer.copy_to_host() if current.stream is None else buffer.copy_to_host(stream=current.stream)
    reports().raise_reported()
    return host


@functools.cache
def reports() -> cuda_reports.Reports:
    """Host memory, mapped into the device's address space, where kernels report errors."""
    words = pinned(cuda_reports.WORD_COUNT, np.dtype(np.int64))
    return cuda_reports.Reports(words, pool().source.adopt(words.ctypes.data, words.size, words.dtype, words))


def pinned(count: int, storage_dtype: object) -> np.ndarray:
    """A page-locked host buffer, which the device can read directly."""
    return (
        np.empty(count, storage_dtype)
        if config.cuda_simulator()
        else cuda_driver.pinned(driver(), count, np.dtype(storage_dtype))
    )


def record_stream(buffer: object, stream: object) -> None:
    """Do not reuse a buffer's memory after it is freed until the work queued on `stream` by then is done."""
    pool().record_stream(address(buffer), stream)


_streams: list[cuda_driver.Stream] = []


def make_stream() -> object:
    """A new stream; after many, an earlier one again, as in PyTorch, since each stream has its own free memory."""
    if driver() is None:
        return Simulated()
    if len(_streams) < _MOST_STREAMS:
        stream = cuda_driver.Stream(driver())
    else:
        stream = _streams.pop(0)
    _streams.append(stream)
    return stream


def make_event(timing: bool) -> object:
    """A new event."""
    return Simulated() if driver() is None else cuda_driver.Event(driver(), timing)


class Simulated:
    """A stream or an event of the simulator, where a launch returns when its kernel has finished."""

    handle = 0

    def synchronize(self) -> None:
        """Return at once."""

    def record(self, stream: object = None) -> None:
        """Do nothing."""

    wait = record

    def query(self) -> bool:
        """True: all work is done."""
        return True


def adopt(address: int, count: int, storage_dtype: np.dtype, owner: object) -> object:
    """A buffer over device memory of another library, kept alive by `owner`."""
    return pool().source.adopt(address, count, storage_dtype, owner)


def synchronize() -> None:
    """Wait for all kernels. Raises the errors that they reported."""
    pool().source.synchronize()
    reports().raise_reported()


def properties() -> dict[str, object]:
    """Name, memory, multiprocessors, warp size and compute capability of the device."""
    if driver() is None:
        return {
            "name": "CUDA simulator",
            "total_memory": pool().source.information()[1],
            "multi_processor_count": 1,
            "warp_size": 32,
            "capability": (5, 2),
        }
    driver().activate()
    return {**driver().properties(), "capability": driver().capability}


@functools.cache
def identity() -> str:
    """What compiled code depends on: Numba's and the PTX compiler's versions, and the device's capability."""
    import numba

    if config.cuda_simulator():
        return f"cuda numba {numba.__version__} simulator"
    return (
        f"cuda numba {numba.__version__} {'own' if _is_built_in() else _version('numba-cuda')} nvvm "
        f"{_version('nvidia-nvvm')} sm_{capability()}"
    )


@functools.cache
def _is_built_in() -> bool:
    """Whether `numba.cuda` is Numba's built-in target, not the package `numba-cuda`."""
    from numba import cuda

    return "numba_cuda" not in cuda.__file__


def further_math() -> tuple[str, ...]:
    """Functions of `math` that kernels use in place of those of `kernel.scalar`; the built-in target has no exp2."""
    return ("fmod",) if _is_built_in() else ("exp2", "fmod")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of the toolkit"


def capability() -> tuple[int, int]:
    """The compute capability that kernels are compiled for."""
    return driver().capability


def tensor_cores() -> bool:
    """Whether kernels can multiply 16-bit floats by tensor cores."""
    return not config.cuda_simulator() and capability() >= cuda_tensor_cores.MIN_CAPABILITY


def namespace() -> dict[str, object]:
    """Names that a kernel's source may use: types that cast, bit casts, `cuda`, and decorators of helpers."""
    from numba import cuda

    integer_types = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "uintp")
    float_types = ("float32", "float64", "complex64", "complex128")
    helper = cuda.jit(device=True)
    inlined = helper if config.cuda_simulator() or _is_built_in() else cuda.jit(device=True, forceinline=True)
    common = {
        "cuda": cuda,
        "device_function": helper,
        "inlined_function": inlined,
        "shared_function": helper,
        "rolled_function": helper,
        "rounded_product": _rounded_product(),
        **_bit_views(),
        **_fours(),
    }
    if config.cuda_simulator():
        types = {name: getattr(np, name) for name in (*integer_types, *float_types)}
        return {**types, "uintp": int, "boolean": bool, **common}
    from numba import types

    names = {name: getattr(types, name) for name in (*integer_types, *float_types)}
    return {**names, "boolean": types.boolean, **common, **(_extremes() if _is_built_in() else {})}


@functools.cache
def _extremes() -> dict[str, Callable]:
    """min and max of two numbers, which Numba 0.68's built-in target does not compile."""
    from numba import cuda

    return {
        "min": cuda.jit(device=True)(lambda x, y: x if x < y else y),
        "max": cuda.jit(device=True)(lambda x, y: x if x > y else y),
    }


@functools.cache
def _rounded_product() -> Callable:
    """rounded_product(x, y): x * y, never contracted with an addition into a fused multiply-add."""
    if config.cuda_simulator():
        return lambda x, y: x * y
    from llvmlite import ir
    from numba.core import cgutils

    @cuda_vectors.extending().intrinsic
    def rounded_product(context: object, x: object, y: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            number = context.get_value_type(x)
            multiply = ir.FunctionType(number, [number, number])
            return builder.call(
                cgutils.get_or_insert_function(
                    builder.module, multiply, f"llvm.nvvm.mul.rn.{'f' if x.bitwidth == 32 else 'd'}"
                ),
                values,
            )

        return x(x, x), generate

    return rounded_product


@functools.cache
def _fours() -> dict[str, Callable]:
    return (
        cuda_vectors.simulated()
        if config.cuda_simulator()
        else {**cuda_vectors.intrinsics(), **cuda_tensor_cores.intrinsics()}
    )


def _bit_views() -> dict[str, Callable]:
    """bits32, bits64: the bits of a float as an unsigned integer. float_of_bits32, float_of_bits64: the reverse."""
    if config.cuda_simulator():
        return {
            "bits32": lambda x: np.float32(x).view(np.uint32),
            "float_of_bits32": lambda x: np.uint32(x).view(np.float32),
            "bits64": lambda x: np.float64(x).view(np.uint64),
            "float_of_bits64": lambda x: np.uint64(x).view(np.float64),
        }
    from numba import cuda, types
    from numba.cuda import libdevice

    pairs = {
        "bits32": (libdevice.float_as_int, types.uint32),
        "float_of_bits32": (libdevice.int_as_float, types.float32),
        "bits64": (libdevice.double_as_longlong, types.uint64),
        "float_of_bits64": (libdevice.longlong_as_double, types.float64),
    }
    return {name: _bitcast(cuda, *pair) for name, pair in pairs.items()}


def _bitcast(cuda: object, view: Callable, kind: object) -> Callable:
    @cuda.jit(device=True)
    def cast(x):
        return kind(view(x))

    return cast


def compile(
    make: Callable[[], Callable],
    signature: str,
    parallel: bool,
    fastmath: frozenset[str],
    cache: object,
    alone: bool = False,
) -> object:
    """The compiled form, for `launch_on`, of the function that `make` returns.

    The cache stores its PTX; the driver caches the machine code that it generates from it.
    """
    if config.cuda_simulator():
        from numba import cuda

        kernel = cuda.jit(make())
    else:
        text = cache.text(lambda: ptx(make(), signature, capability()))
        kernel = cuda_driver.Function(driver(), text, re.search(r"\.entry\s+(\w+)", text)[1], signature)
    return kernel


def ptx(function: Callable, signature: str, capability: tuple[int, int]) -> str:
    """The PTX of a kernel for a compute capability such as (9, 0). Needs no GPU."""
    from numba import cuda
    from numba.cuda import dispatcher

    before = dispatcher.get_current_device
    # helpers are compiled for the current device, which need not exist
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
    try:
        with compiler.quickly(gpu=True, package="numba" if _is_built_in() else "numba.cuda"):
            text = cuda.compile_ptx(function, numba_types(signature), cc=capability)[0]
    except (ImportError, OSError, RuntimeError) as error:
        # Numba's and NVIDIA's, for a compiler or its library that is missing
        raise RuntimeError(
            f"CUDA kernels cannot be compiled here: {error}. Install the compiler with `pip install 'numod[cuda]'`"
        ) from error
    finally:
        dispatcher.get_current_device = before
    # threads per block and blocks per multiprocessor, which limit the number of registers
    if bounds := function.__globals__.get("RESIDENT"):
        text = re.sub(
            r"(\.entry\s+\w+\([^)]*\))", rf"\1\n.maxntid {bounds[0]}, 1, 1\n.minnctapersm {bounds[1]}", text, count=1
        )
    # a driver refuses the version that a newer compiler writes, even if the text uses nothing new
    target = re.search(r"^\.target sm_(\d+)", text, flags=re.M)[1]
    return re.sub(r"^\.version .*$", f".version {_PTX_VERSIONS.get(target, '7.8')}", text, count=1, flags=re.M)


@functools.cache
def shared_end() -> str:
    """The end of a shared array's declaration, which aligns it for vector loads if the package supports that.

    The simulator and the built-in target do not.
    """
    if config.cuda_simulator():
        return ")"
    from numba.cuda import stubs

    return ", alignment=16)" if "alignment" in inspect.signature(stubs.shared.array).parameters else ")"


def choose(make: Callable[[bool], object], work: int, divisible: bool, long: bool) -> Callable:
    """The launcher of a kernel: enough blocks for `work` elements; one thread if its loops are not divisible."""
    shape = (1, 1)
    # in the simulator every thread is a Python thread; two blocks and an odd size show errors in the strides
    if divisible:
        # no blocks at all would be an error
        shape = (
            (2, 3)
            if config.cuda_simulator()
            else (min(max(-(-work // _BLOCK_THREADS), 1), _MOST_BLOCKS), _BLOCK_THREADS)
        )
    return launch_on(make(False), shape)


def threads_per_row(n: int, most: int = 256, per_thread: int = 16) -> int:
    """The number of threads that share a row of n elements; 4 in the simulator.

    Each has about `per_thread` elements, so that several loads are in flight.
    """
    return 4 if config.cuda_simulator() else min(most, max(32, 1 << max(n // per_thread - 1, 0).bit_length()))


def block_sort_size() -> int:
    """The number of elements that a block sorts in shared memory (24 KiB). 16 in the simulator."""
    return 16 if config.cuda_simulator() else 2048


def chunks(outs: int, n: int, together: bool) -> int:
    """The number of parts in which to reduce n elements for each of `outs` results.

    A part belongs to a block if elements are contiguous (`together`), else to a thread.
    """
    if config.cuda_simulator():
        return max(1, min(6 // max(outs, 1), n // 8))
    wanted, least = (_MAX_CHUNKS, 4096) if together else (_FULL_GPU_THREADS, 128)
    return max(1, min(wanted // max(outs, 1), n // least, _MAX_CHUNKS))


def launch_blocks(kernel: object, blocks: int, threads: int) -> Callable:
    """The launcher of a kernel whose blocks loop over tasks. The simulator has two blocks, which exercises the loop."""
    return launch_on(kernel, (min(max(blocks, 1), 2 if config.cuda_simulator() else _MOST_TASKS), threads))


def launch_on(kernel: object, shape: tuple[int, int]) -> Callable:
    """The launcher of a kernel for a number of blocks and threads.

    It has the kernel and the shape as attributes, for the profiler and for graphs.
    """
    if config.cuda_simulator():
        start = kernel[shape]

        def launch(*arguments: object) -> None:
            start(*arguments)

    else:
        launch = kernel.launcher(*shape, current)
    launch.kernel, launch.shape = kernel, shape
    return launch
