"""The CUDA driver API by ctypes. Its C interface is stable; the wrappers of Numba and `numba-cuda` change.

The memory pool is in `cuda_memory`, compilation in `cuda`. All work is in the device's primary context, like that of
PyTorch, CuPy and Numba; it is made current in every thread that calls these functions. In a forked child they raise.
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
_WRONG_CONTEXT = (201, 400)  # results of a launch if the context is not current: invalid context, invalid handle
# CUresult: illegal addresses or instructions, launches that failed or timed out
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
    """An error of the driver; `number` is its CUresult."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


class _ThreadState(threading.local):
    ready = False  # whether the context is current in this thread


class Driver:
    """The functions of the driver library: `call("cuMemFree_v2", address)`. Raises OSError if it is missing."""

    def __init__(self, library: object | None = None) -> None:
        self.library = library or _open()
        self._functions = {name: _function(self.library, name, types) for name, types in _FUNCTIONS.items()}
        self.thread_state, self.forked = _ThreadState(), False
        self.call("cuInit", 0)
        if not self.read(c_int, "cuDeviceGetCount"):
            raise DriverError(100, "CUDA error: no CUDA-capable device is detected")
        self.device = self.read(c_int, "cuDeviceGet", 0)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._enter_child)

    def call(self, name: str, *arguments: object) -> None:
        """Call a function. Raises DriverError if it fails."""
        number = self._functions[name](*arguments)
        if number:
            raise self.refused(number, name)

    def read(self, kind: type, name: str, *arguments: object) -> object:
        """Call a function that writes one value through its first argument."""
        value = kind()
        self.call(name, byref(value), *arguments)
        return value.value

    def activate(self) -> None:
        """Make the primary context current in this thread; another library may have replaced it."""
        if self.forked:
            raise RuntimeError(
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method"
            )
        self.call("cuCtxSetCurrent", self.context)
        self.thread_state.ready = True

    def _enter_child(self) -> None:
        self.thread_state.ready, self.forked = False, True

    def release(self, name: str, handle: int) -> None:
        """Free a resource with the function `name`, from any thread.

        Errors are ignored, as at the end of the process; in a forked child nothing is freed.
        """
        if not self.forked:
            if not self.thread_state.ready:  # a finalizer may be the first call of its thread
                self._functions["cuCtxSetCurrent"](self.context)
            self._functions[name](handle)

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
        """The device's name, memory and _PROPERTIES."""
        name = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", name, 256, self.device)
        numbers = {property_: self.attribute(number) for property_, number in _PROPERTIES.items()}
        return {
            "name": name.value.decode(),
            "total_memory": self.read(c_size_t, "cuDeviceTotalMem_v2", self.device),
            **numbers,
        }

    def version(self) -> tuple[int, int]:
        """The CUDA version that the driver supports."""
        number = self.read(c_int, "cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def load(self, text: str, name: str) -> int:
        """The handle of the entry `name` of a PTX text. Raises DriverError with the compiler's log."""
        self.activate()
        log, module = ctypes.create_string_buffer(8192), c_void_p()
        options, values = (c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE), (c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", byref(module), text.encode(), 2, options, values)
        except DriverError as error:
            message = log.value.decode(errors="replace").strip()
            hint = "; install a driver for CUDA 11.8 or newer" if error.number == _UNKNOWN_VERSION else ""
            raise DriverError(
                error.number,
                f"{error}; the driver is for CUDA "
                f"{'.'.join(map(str, self.version()))}{hint}{f': {message}' if message else ''}",
            ) from None
        return self.read(c_void_p, "cuModuleGetFunction", module, name.encode())

    def refused(self, number: int, name: str) -> DriverError:
        """The error for a CUresult that the function `name` returned; errors of kernels appear in later calls."""
        late = number in _OF_KERNELS
        hint = (
            ". A kernel started earlier did this, and the process cannot use the GPU any more; CUDA_LAUNCH_BLOCKING=1 "
            "shows which"
            if late
            else ""
        )
        return DriverError(
            number,
            f"CUDA error: {self._error_text('cuGetErrorString', number)} "
            f"({self._error_text('cuGetErrorName', number)} in {name}){hint}",
        )

    def _error_text(self, name: str, number: int) -> str:
        text = c_char_p()
        self._functions[name](number, byref(text))
        return text.value.decode() if text.value else f"error {number}"


def _open() -> object:
    for name in ("nvcuda.dll",) if os.name == "nt" else ("libcuda.so.1", "libcuda.so"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise OSError("libcuda not found; install an NVIDIA driver")


def _function(library: object, name: str, types: tuple) -> Callable:
    function = getattr(library, name)
    function.argtypes, function.restype = types, c_int
    return function


def untyped(function: object) -> Callable:
    """The function without argument types; arguments are ints that fit a C int, and c_void_p.

    Converting eleven typed arguments takes longer than the rest of a launch.
    """
    return ctypes.CFUNCTYPE(c_int)(ctypes.cast(function, c_void_p).value)


class Buffer:
    """A flat array on the device: address, number of elements, their type, and the owner of the memory.

    Without an owner the array owns its memory.
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
        """Overwrite with a dense host array of equal size, which may be changed afterwards."""
        self.driver.activate()
        if self.size:
            self.driver.call("cuMemcpyHtoD_v2", self.address, host.ctypes.data, self.nbytes)

    def begin_copy(self, source: np.ndarray | Buffer, stream: Stream | None) -> None:
        """Enqueue a copy of pinned memory or of another buffer to the first elements."""
        self.driver.activate()
        if source.size:
            name, start = (
                ("cuMemcpyDtoDAsync_v2", source.address)
                if isinstance(source, Buffer)
                else ("cuMemcpyHtoDAsync_v2", source.ctypes.data)
            )
            self.driver.call(name, self.address, start, source.nbytes, None if stream is None else stream.handle)

    def copy_to_host(self, stream: Stream | None = None) -> np.ndarray:
        """A host copy, after the previous work of the stream."""
        self.driver.activate()
        host = np.empty(self.size, self.dtype)
        if self.size and stream is None:
            self.driver.call("cuMemcpyDtoH_v2", host.ctypes.data, self.address, self.nbytes)
        elif self.size:
            self.driver.call("cuMemcpyDtoHAsync_v2", host.ctypes.data, self.address, self.nbytes, stream.handle)
            stream.synchronize()
        return host


class Graph:
    """A CUDA graph of kernel launches, started by one call on any stream. Starts of one graph do not overlap.

    `nodes` are the kernels (`Function.node`), `arguments` their arguments, `dependencies` the numbers of the launches
    that each launch waits for.
    """

    def __init__(
        self,
        driver: Driver,
        nodes: Sequence[Callable],
        arguments: Iterable[Sequence],
        dependencies: Iterable[Sequence[int]],
        current: object,
    ) -> None:
        self.driver, self.nodes, self.current, self.handles = driver, nodes, current, []
        driver.activate()
        self.graph = driver.read(c_void_p, "cuGraphCreate", 0)
        for node, values, numbers in zip(nodes, arguments, dependencies):
            handles = (c_void_p * len(numbers))(*[self.handles[k] for k in numbers])
            self.handles.append(
                driver.read(c_void_p, "cuGraphAddKernelNode", self.graph, handles, len(handles), node(*values))
            )
        self.handle = driver.read(c_void_p, "cuGraphInstantiateWithFlags", self.graph, 0)
        self._start, self._handle_pointer = untyped(driver._functions["cuGraphLaunch"]), c_void_p(self.handle)

    def change(self, arguments: dict[int, Sequence]) -> None:
        """Set the arguments of launches, by their numbers, from the next start on."""
        self.driver.activate()
        for k, values in arguments.items():
            self.driver.call("cuGraphExecKernelNodeSetParams", self.handle, self.handles[k], self.nodes[k](*values))

    def start(self) -> None:
        """Start all launches; does not wait for them."""
        if not self.driver.thread_state.ready:
            self.driver.activate()
        stream = self.current.stream
        stream = None if stream is None else c_void_p(stream.handle)
        number = self._start(self._handle_pointer, stream)
        if number in _WRONG_CONTEXT:
            self.driver.activate()
            number = self._start(self._handle_pointer, stream)
        if number:
            raise self.driver.refused(number, "cuGraphLaunch")

    def __del__(self) -> None:
        for name, attribute in (("cuGraphExecDestroy", "handle"), ("cuGraphDestroy", "graph")):
            if attribute in vars(self):
                self.driver.release(name, getattr(self, attribute))


class _Handle:
    """Base of objects of the driver that are destroyed when they are no longer referenced."""

    make, destroy = "", ""

    def __init__(self, driver: Driver, flags: int = 0) -> None:
        self.driver = driver
        driver.activate()
        self.handle = driver.read(c_void_p, self.make, flags)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.driver.release(self.destroy, self.handle)


class Stream(_Handle):
    """A CUDA stream.

    Unlike PyTorch's, it synchronises with the default stream, so sharing tensors between the two is never a race.
    """

    make, destroy = "cuStreamCreate", "cuStreamDestroy_v2"

    def synchronize(self) -> None:
        """Wait for all work of the stream."""
        self.driver.activate()
        self.driver.call("cuStreamSynchronize", self.handle)


class Event(_Handle):
    """A CUDA event; stream None is the default stream."""

    make, destroy = "cuEventCreate", "cuEventDestroy_v2"

    def __init__(self, driver: Driver, timing: bool = False) -> None:
        super().__init__(driver, 0 if timing else _NO_TIMING)

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the previous work of the stream."""
        self.driver.activate()
        self.driver.call("cuEventRecord", self.handle, stream.handle if stream else None)

    def wait(self, stream: Stream | None = None) -> None:
        """Make the stream wait for the event."""
        self.driver.activate()
        self.driver.call("cuStreamWaitEvent", stream.handle if stream else None, self.handle, 0)

    def query(self) -> bool:
        """Whether the event has completed."""
        self.driver.activate()
        try:
            self.driver.call("cuEventQuery", self.handle)
        except DriverError as error:
            if error.number == NOT_READY:
                return False
            raise
        return True

    def synchronize(self) -> None:
        """Wait for the event."""
        self.driver.activate()
        self.driver.call("cuEventSynchronize", self.handle)

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this event to another."""
        self.driver.activate()
        return self.driver.read(c_float, "cuEventElapsedTime", self.handle, other.handle)


def pinned(driver: Driver, count: int, dtype: np.dtype) -> np.ndarray:
    """A host array in pinned memory."""
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
    """A kernel on the device, with a signature such as `float32[], int64`.

    `launcher(blocks, threads, current)` returns a function that launches it, `node` one that describes a graph node.

    Numba passes an array as seven words (the only pointer is to its elements), a number as one. They are packed into a
    block of memory after the launch configuration; the driver gets pointers into it. So a launch is one
    `struct.pack_into` and one call of the driver.
    """

    def __init__(self, driver: Driver, text: str, name: str, signature: str) -> None:
        self.driver = driver
        self.text = text
        self.signature = signature.split(", ")
        self.handle = driver.load(text, name)

    def attribute(self, name: str) -> int:
        """One of ATTRIBUTES."""
        return self.driver.read(c_int, "cuFuncGetAttribute", ATTRIBUTES[name], self.handle)

    def launcher(self, blocks: int, threads: int, current: object) -> Callable:
        """A function of the kernel's arguments that launches it on the stream of `current`, without waiting."""
        start, handle = untyped(self.driver._functions["cuLaunchKernelEx"]), c_void_p(self.handle)
        namespace = {
            "current": current,
            "start": start,
            "handle": handle,
            "thread_state": self.driver.thread_state,
            "wrong_context": _WRONG_CONTEXT,
        }
        return self._generated(
            _LAUNCH, blocks, threads, {**namespace, "activate": self.driver.activate, "refused": self.driver.refused}
        )

    def node(self, blocks: int, threads: int) -> Callable:
        """A function of the kernel's arguments that returns a CUDA_KERNEL_NODE_PARAMS, valid until its next call."""
        return self._generated(
            _NODE,
            blocks,
            threads,
            {
                "node_parameters": functools.partial(
                    struct.pack, "=Q7I4xQQ", self.handle, blocks, 1, 1, threads, 1, 1, 0
                )
            },
        )

    def _generated(self, text: str, blocks: int, threads: int, namespace: dict[str, object]) -> Callable:
        """The function `run` of a text, specialised for this signature."""
        layout, values = words(self.signature)
        names = ", ".join(f"a{k}" for k in range(len(self.signature)))
        namespace.update(pack=layout.pack_into, buffer=_LaunchBuffer(layout.size, blocks, threads), driver=self.driver)
        exec(text.format(names=names, values=values, at=_STREAM), namespace)
        return namespace["run"]


_STREAM, _CONFIGURATION = 32, 56  # CUlaunchConfig: offset of the stream, size in bytes
_LAUNCH = """\
def run({names}):
    if not thread_state.ready:
        activate()
    stream = current.stream
    block, configuration, pointers = buffer.parts
    pack(block, {at}, 0 if stream is None else stream.handle, {values})
    number = start(configuration, handle, pointers, None)
    if number in wrong_context:
        activate()
        number = start(configuration, handle, pointers, None)
    if number:
        raise refused(number, "cuLaunchKernelEx")
"""
_NODE = """\
def run({names}):
    block, _, pointers = buffer.parts
    pack(block, {at}, 0, {values})
    return node_parameters(pointers.value, 0)
"""


class _LaunchBuffer(threading.local):
    """The memory for a launch: one per thread, since several threads may launch a kernel at once.

    `parts`: the memory, its address (a CUlaunchConfig: blocks, threads, shared bytes, stream, two words for
    attributes), and the address of the pointers to the arguments, which follow it in the memory.
    """

    def __init__(self, size: int, blocks: int, threads: int) -> None:
        block = ctypes.create_string_buffer(_STREAM + size)
        struct.pack_into("=7I", block, 0, blocks, 1, 1, threads, 1, 1, 0)
        start = ctypes.addressof(block)
        self._pointers = (c_void_p * ((_STREAM + size - _CONFIGURATION) // 8))(
            *range(start + _CONFIGURATION, start + _STREAM + size, 8)
        )
        self.parts = block, c_void_p(start), c_void_p(ctypes.addressof(self._pointers))


def words(signature: list[str]) -> tuple[struct.Struct, str]:
    """The layout of a stream's handle, two empty words, and arguments a0, a1 ..., and the text of the values to pack.

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
