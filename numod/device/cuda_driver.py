"""The CUDA driver, by ctypes: its C functions are the same for ever, while Numba and `numba-cuda` wrap them each in
objects of their own that change.

Not the pool of memory, nor what kernels compute. All work is in the device's primary context, which PyTorch, CuPy and
Numba use too; every thread that comes here is given it. A forked child cannot use it: it is told so.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from ctypes import POINTER, byref, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint64, c_void_p

import numpy as np

_FUNCTIONS = {
    "cuInit": (c_uint,), "cuDriverGetVersion": (POINTER(c_int),), "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),), "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int), "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int), "cuCtxSetCurrent": (c_void_p,), "cuCtxSynchronize": (),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t), "cuMemFree_v2": (c_uint64,),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint), "cuMemFreeHost": (c_void_p,),
    "cuMemcpyHtoD_v2": (c_uint64, c_void_p, c_size_t), "cuMemcpyDtoH_v2": (c_void_p, c_uint64, c_size_t),
    "cuMemcpyDtoDAsync_v2": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemcpyHtoDAsync_v2": (c_uint64, c_void_p, c_size_t, c_void_p),
    "cuMemcpyDtoHAsync_v2": (c_void_p, c_uint64, c_size_t, c_void_p),
    "cuStreamCreate": (POINTER(c_void_p), c_uint), "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuEventCreate": (POINTER(c_void_p), c_uint), "cuEventDestroy_v2": (c_void_p,),
    "cuEventRecord": (c_void_p, c_void_p), "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,), "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuModuleLoadDataEx": (POINTER(c_void_p), c_char_p, c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuLaunchKernelEx": (c_void_p, c_void_p, c_void_p, c_void_p),
    "cuGraphCreate": (POINTER(c_void_p), c_uint), "cuGraphDestroy": (c_void_p,), "cuGraphExecDestroy": (c_void_p,),
    "cuGraphAddKernelNode": (POINTER(c_void_p), c_void_p, c_void_p, c_size_t, c_void_p),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64),
    "cuGraphExecKernelNodeSetParams": (c_void_p, c_void_p, c_void_p), "cuGraphLaunch": (c_void_p, c_void_p),
}  # fmt: skip
OUT_OF_MEMORY, NOT_READY = 2, 600
_UNKNOWN_VERSION = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION
_ELSEWHERE = (201, 400)  # what a launch answers where the context is not this thread's: invalid context, invalid handle
# CUresult: illegal addresses, instructions and the like, and launches that ran too long or failed
_OF_KERNELS = (700, 702, 710, 714, 715, 716, 717, 718, 719)
_MAJOR, _MINOR = 75, 76  # CUdevice_attribute
_PROPERTIES = {
    "multi_processor_count": 16, "warp_size": 10, "max_threads_per_multi_processor": 39, "max_threads_per_block": 1,
    "regs_per_multiprocessor": 82, "shared_memory_per_block": 8, "shared_memory_per_block_optin": 97,
    "shared_memory_per_multiprocessor": 81, "L2_cache_size": 38, "is_integrated": 18, "clock_rate": 13,
    "memory_clock_rate": 36, "memory_bus_width": 37,
}  # fmt: skip
_NO_TIMING, _ERROR_LOG, _ERROR_LOG_SIZE = 2, 5, 6  # CU_EVENT_DISABLE_TIMING; CUjit_option
# CUfunction_attribute: a thread's registers, a block's shared bytes, a thread's spilled bytes
ATTRIBUTES = {"registers": 4, "shared": 1, "local": 3}


class DriverError(RuntimeError):
    """What the driver refused: `number` is its CUresult."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class _Here(threading.local):
    ready = False  # whether this thread has the context


class Driver:
    """The driver's functions on one library:

    `call("cuMemFree_v2", address)`. Raises OSError where the library is missing.
    """

    def __init__(self, library: object | None = None) -> None:
        self.library = library or _open()
        self._functions = {name: _function(self.library, name, types) for name, types in _FUNCTIONS.items()}
        self.here, self.forked = _Here(), False
        self.call("cuInit", 0)
        if not self.read(c_int, "cuDeviceGetCount"):
            raise DriverError(100, "CUDA error: no CUDA-capable device is detected")
        self.device = self.read(c_int, "cuDeviceGet", 0)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._enter_child)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises DriverError for whatever it refuses."""
        number = self._functions[name](*arguments)
        if number:
            raise self.refused(number, name)

    def read(self, kind: type, name: str, *arguments: object) -> object:
        """Call a function that writes one value through its first argument."""
        value = kind()
        self.call(name, byref(value), *arguments)
        return value.value

    def activate(self) -> None:
        """Make the primary context this thread's.

        Another library, at work on another GPU, may have taken it away since.
        """
        if self.forked:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )
        self.call("cuCtxSetCurrent", self.context)
        self.here.ready = True

    def _enter_child(self) -> None:
        self.here.ready, self.forked = False, True

    def release(self, name: str, what: int) -> None:
        """Give something back by the function `name`, from any thread.

        Whatever it answers: a process at its end, or a forked one, has nothing to give.
        """
        if not self.forked:
            if not self.here.ready:  # a finalizer may be the first that its thread does here
                self._functions["cuCtxSetCurrent"](self.context)
            self._functions[name](what)

    @functools.cached_property
    def context(self) -> int:
        """The device's primary context, held for the life of the process."""
        return self.read(c_void_p, "cuDevicePrimaryCtxRetain", self.device)

    def attribute(self, number: int) -> int:
        """A property of the device."""
        return self.read(c_int, "cuDeviceGetAttribute", number, self.device)

    @functools.cached_property
    def capability(self) -> tuple[int, int]:
        """The compute capability, such as (9, 0)."""
        return self.attribute(_MAJOR), self.attribute(_MINOR)

    def properties(self) -> dict[str, object]:
        """Name and memory of the device, and _PROPERTIES."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self.device)
        numbers = {each: self.attribute(number) for each, number in _PROPERTIES.items()}
        return {
            "name": name.value.decode(),
            "total_memory": self.read(c_size_t, "cuDeviceTotalMem_v2", self.device),
            **numbers,
        }

    def version(self) -> tuple[int, int]:
        """The CUDA version that the driver is for."""
        number = self.read(c_int, "cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def load(self, text: str, name: str) -> int:
        """The handle of the entry `name` of a PTX text. Raises DriverError with what the driver's compiler says."""
        self.activate()
        log, module = ctypes.create_string_buffer(8192), c_void_p()
        options, values = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE), (c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", byref(module), text.encode(), 2, options, values)
        except DriverError as error:
            told = log.value.decode(errors="replace").strip()
            hint = "; install a driver for CUDA 11.8 or newer" if error.number == _UNKNOWN_VERSION else ""
            raise DriverError(
                error.number,
                f"{error}; the driver is for CUDA "
                f"{'.'.join(map(str, self.version()))}{hint}{f': {told}' if told else ''}",
            ) from None
        return self.read(c_void_p, "cuModuleGetFunction", module, name.encode())

    def refused(self, number: int, name: str) -> DriverError:
        """The error for a CUresult that the function `name` gave.

        What a kernel did wrong is told by whatever is called after it.
        """
        late = number in _OF_KERNELS
        hint = (
            ". A kernel started earlier did this, and the process cannot use the GPU any more; CUDA_LAUNCH_BLOCKING=1 "
            "shows which"
            if late
            else ""
        )
        return DriverError(
            number,
            f"CUDA error: {self._told('cuGetErrorString', number)} ({self._told('cuGetErrorName', number)} in "
            f"{name}){hint}",
        )

    def _told(self, name: str, number: int) -> str:
        text = c_char_p()
        self._functions[name](number, byref(text))
        return text.value.decode() if text.value else f"error {number}"


def _open() -> object:
    for name in ("nvcuda.dll",) if os.name == "nt" else ("libcuda.so.1", "libcuda.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("libcuda is not there")


def _function(library: object, name: str, types: tuple) -> Callable:
    function = getattr(library, name)
    function.argtypes, function.restype = types, c_int
    return function


def untyped(function: object) -> Callable:
    """The function with its arguments passed as they are: numbers that fit an int, and c_void_p.

    To convert eleven of them takes ctypes longer than all else in a launch.
    """
    return ctypes.CFUNCTYPE(c_int)(ctypes.cast(function, c_void_p).value)


class Buffer:
    """A flat array on the device: an address, a number of elements, their type, and what keeps the memory (None: the
    array itself does).
    """

    __slots__ = ("address", "size", "dtype", "owner", "driver", "__weakref__")

    def __init__(self, address: int, size: int, dtype: np.dtype, owner: object, driver: Driver) -> None:
        self.address, self.size, self.dtype, self.owner, self.driver = address, size, dtype, owner, driver

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> Buffer:
        start, stop, _ = part.indices(self.size)
        return Buffer(
            self.address + start * self.dtype.itemsize,
            max(stop - start, 0),
            self.dtype,
            self.owner or self,
            self.driver,
        )

    def view(self, dtype: np.dtype) -> Buffer:
        """The same bytes as elements of another type."""
        dtype = np.dtype(dtype)
        return Buffer(self.address, self.nbytes // dtype.itemsize, dtype, self.owner or self, self.driver)

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def __cuda_array_interface__(self) -> dict[str, object]:
        return {
            "shape": (self.size,),
            "typestr": self.dtype.str,
            "strides": None,
            "data": (self.address, False),
            "version": 3,
        }

    def copy_to_device(self, host: np.ndarray) -> None:
        """Overwrite with a dense host array of as many elements, which the caller may then change."""
        self.driver.activate()
        if self.size:
            self.driver.call("cuMemcpyHtoD_v2", self.address, host.ctypes.data, self.nbytes)

    def begin_copy(self, source: np.ndarray | Buffer, stream: Stream | None) -> None:
        """Overwrite the first elements with those of pinned memory or of another buffer, which are read when the stream
        comes to it.
        """
        self.driver.activate()
        if source.size:
            name, start = (
                ("cuMemcpyDtoDAsync_v2", source.address)
                if isinstance(source, Buffer)
                else ("cuMemcpyHtoDAsync_v2", source.ctypes.data)
            )
            self.driver.call(name, self.address, start, source.nbytes, None if stream is None else stream.handle)

    def copy_to_host(self, stream: Stream | None = None) -> np.ndarray:
        """A host copy, after what the stream was told before."""
        self.driver.activate()
        host = np.empty(self.size, self.dtype)
        if self.size and stream is None:
            self.driver.call("cuMemcpyDtoH_v2", host.ctypes.data, self.address, self.nbytes)
        elif self.size:
            self.driver.call("cuMemcpyDtoHAsync_v2", host.ctypes.data, self.address, self.nbytes, stream.handle)
            stream.synchronize()
        return host


class Graph:
    """Launches that the driver keeps, and starts by one call.

    `nodes` are their functions (`Function.node`), `given` their arguments, `behind` for each the numbers of those that
    must have ended before. It may be started on any stream, and waits for its last time.
    """

    def __init__(
        self,
        driver: Driver,
        nodes: Sequence[Callable],
        given: Iterable[Sequence],
        behind: Iterable[Sequence[int]],
        current: object,
    ) -> None:
        self.driver, self.nodes, self.current, self.handles = driver, nodes, current, []
        driver.activate()
        self.graph = driver.read(c_void_p, "cuGraphCreate", 0)
        for node, arguments, before in zip(nodes, given, behind):
            before = (c_void_p * len(before))(*[self.handles[k] for k in before])
            self.handles.append(
                driver.read(c_void_p, "cuGraphAddKernelNode", self.graph, before, len(before), node(*arguments))
            )
        self.handle = driver.read(c_void_p, "cuGraphInstantiateWithFlags", self.graph, 0)
        self._start, self._what = untyped(driver._functions["cuGraphLaunch"]), c_void_p(self.handle)

    def change(self, given: dict[int, Sequence]) -> None:
        """Give launches, by their numbers, other arguments from the next start on."""
        self.driver.activate()
        for k, arguments in given.items():
            self.driver.call("cuGraphExecKernelNodeSetParams", self.handle, self.handles[k], self.nodes[k](*arguments))

    def start(self) -> None:
        """Start all, and return at once."""
        if not self.driver.here.ready:
            self.driver.activate()
        stream = self.current.stream
        stream = None if stream is None else c_void_p(stream.handle)
        number = self._start(self._what, stream)
        if number in _ELSEWHERE:
            self.driver.activate()
            number = self._start(self._what, stream)
        if number:
            raise self.driver.refused(number, "cuGraphLaunch")

    def __del__(self) -> None:
        for name, kept in (("cuGraphExecDestroy", "handle"), ("cuGraphDestroy", "graph")):
            if kept in vars(self):
                self.driver.release(name, getattr(self, kept))


class _Made:
    """Base of what the driver makes and is told to destroy when nobody refers to it any more."""

    make, destroy = "", ""

    def __init__(self, driver: Driver, flags: int = 0) -> None:
        self.driver = driver
        driver.activate()
        self.handle = driver.read(c_void_p, self.make, flags)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.driver.release(self.destroy, self.handle)


class Stream(_Made):
    """A queue of the driver.

    It waits for the default stream and the default stream for it, as PyTorch's do not; so sharing is never a race.
    """

    make, destroy = "cuStreamCreate", "cuStreamDestroy_v2"

    def synchronize(self) -> None:
        """Wait for all its work."""
        self.driver.activate()
        self.driver.call("cuStreamSynchronize", self.handle)


class Event(_Made):
    """A mark of the driver's in a stream; None is the default stream."""

    make, destroy = "cuEventCreate", "cuEventDestroy_v2"

    def __init__(self, driver: Driver, timing: bool = False) -> None:
        super().__init__(driver, 0 if timing else _NO_TIMING)

    def record(self, stream: Stream | None = None) -> None:
        """Put it behind what the stream was told."""
        self.driver.activate()
        self.driver.call("cuEventRecord", self.handle, stream.handle if stream else None)

    def wait(self, stream: Stream | None = None) -> None:
        """Let the stream wait for it."""
        self.driver.activate()
        self.driver.call("cuStreamWaitEvent", stream.handle if stream else None, self.handle, 0)

    def query(self) -> bool:
        """Whether it is passed."""
        self.driver.activate()
        try:
            self.driver.call("cuEventQuery", self.handle)
        except DriverError as error:
            if error.number == NOT_READY:
                return False
            raise
        return True

    def synchronize(self) -> None:
        """Wait for it."""
        self.driver.activate()
        self.driver.call("cuEventSynchronize", self.handle)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from it to another."""
        self.driver.activate()
        return self.driver.read(c_float, "cuEventElapsedTime", self.handle, other.handle)


def pinned(driver: Driver, count: int, dtype: np.dtype) -> np.ndarray:
    """A host array that the device can read by itself."""
    driver.activate()
    size = max(count * dtype.itemsize, 1)
    # CU_MEMHOSTALLOC_PORTABLE
    memory = (ctypes.c_uint8 * size).from_address(driver.read(c_void_p, "cuMemHostAlloc", size, 1))
    memory.owner = _Pinned(driver, ctypes.addressof(memory))
    return np.frombuffer(memory, dtype, count)


class _Pinned:
    def __init__(self, driver: Driver, address: int) -> None:
        self.driver, self.address = driver, address

    def __del__(self) -> None:
        self.driver.release("cuMemFreeHost", self.address)


class Function:
    """A kernel on the device, for a signature such as `float32[], int64`:

    `launcher(blocks, threads, current)` gives what launches it, `node` what tells a graph of its launch.

    Numba passes an array as seven words (none of them pointers to anything but its elements), a number as one. They are
    packed into a block whose places the driver was told once, behind what says where to run; so a launch is one
    `struct.pack_into` and one call of the driver.
    """

    def __init__(self, driver: Driver, text: str, name: str, signature: str) -> None:
        self.driver, self.text, self.signature, self.handle = (
            driver,
            text,
            signature.split(", "),
            driver.load(text, name),
        )

    def attribute(self, name: str) -> int:
        """One of ATTRIBUTES."""
        return self.driver.read(c_int, "cuFuncGetAttribute", ATTRIBUTES[name], self.handle)

    def launcher(self, blocks: int, threads: int, current: object) -> Callable:
        """A function of the kernel's arguments; it launches on the stream of `current`, and returns at once."""
        start, handle = untyped(self.driver._functions["cuLaunchKernelEx"]), c_void_p(self.handle)
        known = {
            "current": current,
            "start": start,
            "handle": handle,
            "here": self.driver.here,
            "elsewhere": _ELSEWHERE,
        }
        return self._written(
            _LAUNCH, blocks, threads, {**known, "activate": self.driver.activate, "refused": self.driver.refused}
        )

    def node(self, blocks: int, threads: int) -> Callable:
        """A function of the kernel's arguments; it gives a launch as graphs are told of it, a CUDA_KERNEL_NODE_PARAMS,
        which is valid until the next.
        """
        return self._written(
            _NODE,
            blocks,
            threads,
            {"told": functools.partial(struct.pack, "=Q7I4xQQ", self.handle, blocks, 1, 1, threads, 1, 1, 0)},
        )

    def _written(self, text: str, blocks: int, threads: int, known: dict[str, object]) -> Callable:
        """A text's function, with the words of this signature written out."""
        layout, values = words(self.signature)
        names = ", ".join(f"a{k}" for k in range(len(self.signature)))
        known.update(pack=layout.pack_into, own=_Told(layout.size, blocks, threads), kept=self.driver)
        exec(text.format(names=names, values=values, at=_STREAM), known)
        return known["run"]


_STREAM, _CONFIGURATION = 32, 56  # bytes: where CUlaunchConfig has the stream, and all of it
_LAUNCH = """\
def run({names}):
    if not here.ready:
        activate()
    stream = current.stream
    block, configuration, places = own.parts
    pack(block, {at}, 0 if stream is None else stream.handle, {values})
    number = start(configuration, handle, places, None)
    if number in elsewhere:
        activate()
        number = start(configuration, handle, places, None)
    if number:
        raise refused(number, "cuLaunchKernelEx")
"""
_NODE = """\
def run({names}):
    block, _, places = own.parts
    pack(block, {at}, 0, {values})
    return told(places.value, 0)
"""


class _Told(threading.local):
    """What the driver is told of a launch, for each thread its own: two may launch one kernel at once.

    `parts`: the memory, its address as a CUlaunchConfig (blocks, threads, shared bytes, stream, two words for
    attributes), and that of pointers to the arguments' words, which lie behind.
    """

    def __init__(self, size: int, blocks: int, threads: int) -> None:
        block = ctypes.create_string_buffer(_STREAM + size)
        struct.pack_into("=7I", block, 0, blocks, 1, 1, threads, 1, 1, 0)
        start = ctypes.addressof(block)
        self._places = (c_void_p * ((_STREAM + size - _CONFIGURATION) // 8))(
            *range(start + _CONFIGURATION, start + _STREAM + size, 8)
        )
        self.parts = block, c_void_p(start), c_void_p(ctypes.addressof(self._places))


def words(signature: list[str]) -> tuple[struct.Struct, str]:
    """How a stream's handle and arguments a0, a1 … lie in words of 8 bytes, two empty ones between, and the text of the
    arguments' values to pack.

    Numba's flat array: meminfo, parent, size, itemsize, data, shape, stride.
    """
    form, values = "=Q16x", []
    for k, kind in enumerate(signature):
        if kind.endswith("[]"):
            step = np.dtype(kind[:-2]).itemsize
            form += "16xqqQqq"
            values += [f"a{k}.size", str(step), f"a{k}.address", f"a{k}.size", str(step)]
        elif kind == "complex128":  # its parts are two arguments
            form += "dd"
            values += [f"a{k}.real", f"a{k}.imag"]
        else:
            form += {"int64": "q", "float64": "d"}[kind]
            values.append(f"a{k}")
    return struct.Struct(form), ", ".join(values)
