"""A GPU for tests, made of NumPy: the driver's functions, memory, and kernels from the PTX text that a GPU would get.

`Machine().library()` is what `numod.device.cuda_driver` takes for the driver's library; arguments are packed as for it.
The text is read by `ptx_text`, translated to Python by `ptx_writer`, and run by `ptx_run`.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from ptx_arithmetic import Fault
from ptx_run import EMPTY, OUTSIDE, WRITTEN, Kernel, Memory, Run
from ptx_text import Program, read

from numod.device import cuda_driver, cuda_memory

STREAM, CONTEXT = 0x7F0011223344, 0x7F0055667788
_ANYWHERE = ("cuInit", "cuD", "cuGetError", "cuCtxSetCurrent")  # how functions begin that need no context
_ERRORS = {2: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
    201: (b"CUDA_ERROR_INVALID_CONTEXT", b"invalid device context"),
    600: (b"CUDA_ERROR_NOT_READY", b"device not ready"),
           700: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
           719: (b"CUDA_ERROR_LAUNCH_FAILED", b"")}  # fmt: skip
GAP = 512  # bytes that belong to nobody, between two allocations


class Machine:
    """Memory and kernels. `counts`, if it is a Counter, counts instructions and memory traffic by warps."""

    def __init__(self, size: int = 1 << 26, most_threads: int = 1 << 14) -> None:
        self.memory, self.most_threads = Memory(size), most_threads
        self.origin = self.memory.bytes.ctypes.data
        self.next, self.free, self.sizes = GAP, defaultdict(list), {}
        self.modules: list = []
        self.graphs: list[list] = []
        self.kernels: list[Kernel] = []
        self.counts: Counter | None = None
        self.launches, self.fault, self.error_texts = 0, None, []
        self.calls: Counter[str] = Counter()  # of the driver's functions
        self.last: tuple[bytes, int, int] | None = None  # the last launch's arguments, blocks and threads
        # what every later call answers, as behind a kernel that failed; whether a thread has the context
        self.broken, self.here = 0, threading.local()

    # memory

    def allocate(self, size: int) -> int:
        """The address of `size` new bytes; 0 where there is no room."""
        room = -(-max(size, 1) // 512) * 512
        if self.free[room]:
            start = self.free[room].pop()
        else:
            start, self.next = self.next, self.next + room + GAP
            if self.next > self.memory.bytes.size:
                self.next = start
                return 0
        self.sizes[start] = size, room
        self.memory.mark(start, start + size, EMPTY)
        return self.origin + start

    def release(self, address: int) -> None:
        """Take an allocation back."""
        start = address - self.origin
        size, room = self.sizes.pop(start)
        self.memory.mark(start, start + room, OUTSIDE)
        self.free[room].append(start)

    def lend(self, address: int, size: int) -> None:
        """Of an allocation that is used again and again, `size` bytes are in use from now on."""
        start = address - self.origin
        self.memory.mark(start, start + self.sizes[start][0], OUTSIDE)
        self.memory.mark(start, start + size, EMPTY)

    def host(self, address: int, size: int, write: bool) -> None:
        """A copy between host and device touches these bytes."""
        start = address - self.origin
        if (
            start < 0
            or start + size > self.memory.bytes.size
            or (self.memory.known[start : start + size] == OUTSIDE).any()
        ):
            raise Fault(f"a copy of {size} bytes at {address:#x} is outside of what was allocated")
        if write:
            self.memory.mark(start, start + size, WRITTEN)

    # kernels

    def load(self, text: str) -> dict:
        """A module: its functions, its variables in memory."""
        variables, functions = read(text)
        places = {}
        for variable in variables:
            if variable.space == "global":
                places[variable.name] = self.allocate(variable.size)
                if variable.values:
                    start = places[variable.name] - self.origin
                    self.memory.bytes[start : start + variable.size] = np.frombuffer(variable.values, "u1")
                    self.memory.known[start : start + variable.size] = WRITTEN
        return {"variables": variables, "functions": functions, "places": places}

    def entry(self, module: dict, name: str) -> int:
        """The number of a kernel."""
        kernel = Kernel(Program(module["functions"], name, module["variables"]), name)
        kernel.places = module["places"]
        self.kernels.append(kernel)
        return len(self.kernels)

    def launch(self, kernel: Kernel, blocks: int, threads: int, arguments: bytes) -> None:
        """Run a kernel to its end."""
        self.launches += 1
        together = max(1, self.most_threads // threads)
        for first in range(0, blocks, together):
            Run(self, kernel, first, min(together, blocks - first), blocks, threads, arguments).go()

    @contextmanager
    def installed(self) -> Iterator[Machine]:
        """While it lasts, this is the device `cuda`. Kernels and plans made for it are forgotten behind."""
        from numod.device import cuda
        from numod.kernel import bind, build
        from numod.ops import op

        machine, array, give_back = self, cuda_memory.Driver.array, cuda_memory.Pool.give_back

        def lent(source: object, block: object, count: int, dtype: np.dtype, pool: object) -> object:
            machine.lend(block.address, count * dtype.itemsize)
            return array(source, block, count, dtype, pool)

        def given_back(pool: object, block: object) -> None:
            machine.lend(block.address, 0)
            give_back(pool, block)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuda_driver, "_open", self.library)
            patch.setattr(cuda_memory.Driver, "array", lent)
            patch.setattr(cuda_memory.Pool, "give_back", given_back)
            patch.setattr(build, "_built", {})
            known = [cuda.driver, cuda.pool, cuda.reports, cuda.identity, bind._kernel]
            for function in known:
                function.cache_clear()
            yield self
        for function in known:
            function.cache_clear()
        for operation in op.every_op():
            operation.forget()  # they have memory of this one

    # the driver's interface

    def library(self) -> object:
        """What stands in the place of the driver's library."""
        machine = self

        class Library:
            pass

        for name, kinds in cuda_driver._FUNCTIONS.items():
            body = getattr(machine, name, None) or (lambda *_: None)

            def guarded(*args: object, body: object = body, name: str = name) -> int:
                machine.calls[name] += 1
                if not name.startswith(_ANYWHERE) and getattr(machine.here, "context", None) != CONTEXT:
                    return 201
                if machine.broken and name in ("cuLaunchKernelEx", "cuCtxSynchronize"):
                    return machine.broken
                try:
                    return body(*args) or 0
                except Exception as error:  # told by the call's answer and by `cuGetErrorString`
                    machine.fault = error
                    return 719

            function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(guarded)
            setattr(Library, name, function)
        return Library

    def cuCtxSetCurrent(self, context):
        self.here.context = context

    def cuDeviceGetCount(self, out):
        out[0] = 1

    def cuDriverGetVersion(self, out):
        out[0] = 12040

    def cuDeviceGetAttribute(self, out, number, device):
        out[0] = {
            75: 8,
            76: 0,
            16: 132,
            10: 32,
            39: 2048,
            82: 65536,
            8: 49152,
            38: 50 << 20,
            1: 1024,
            97: 166912,
            81: 167936,
            18: 0,
            13: 1410000,
            36: 1215000,
            37: 5120,
        }[number]

    def cuDeviceTotalMem_v2(self, out, device):
        out[0] = self.memory.bytes.size

    def cuDevicePrimaryCtxRetain(self, out, device):
        out[0] = CONTEXT

    def cuStreamCreate(self, out, flags):
        out[0] = STREAM

    def cuEventCreate(self, out, flags):
        out[0] = 3

    def cuFuncGetAttribute(self, out, number, function):
        out[0] = 32

    def cuMemFree_v2(self, address):
        self.release(address)

    def cuMemFreeHost(self, address):
        self.release(address)

    def cuMemGetInfo_v2(self, free, total):
        total[0] = self.memory.bytes.size
        free[0] = total[0] - self.next

    def cuGetErrorName(self, number, out):
        out[0] = _ERRORS.get(number, _ERRORS[719])[0]

    def cuGetErrorString(self, number, out):
        self.error_texts.append(
            text := _ERRORS.get(number, ("", str(self.fault).encode()))[1] or str(self.fault).encode()
        )
        out[0] = text

    def cuMemAlloc_v2(self, out, size):
        out[0] = self.allocate(size)
        return 0 if out[0] else 2

    def cuMemHostAlloc(self, out, size, flags):
        out[0] = self.allocate(size)
        self.host(out[0], size, True)

    def cuMemcpyHtoD_v2(self, to, source, size, stream=None):
        self.host(to, size, True)
        ctypes.memmove(to, source, size)

    def cuMemcpyDtoH_v2(self, to, source, size, stream=None):
        self.host(source, size, False)
        ctypes.memmove(to, source, size)

    def cuMemcpyDtoDAsync_v2(self, to, source, size, stream):
        start, end = to - self.origin, source - self.origin
        self.host(source, 0, False), self.host(to, size, True)
        self.memory.known[start : start + size] = self.memory.known[end : end + size]
        ctypes.memmove(to, source, size)

    cuMemcpyHtoDAsync_v2, cuMemcpyDtoHAsync_v2 = cuMemcpyHtoD_v2, cuMemcpyDtoH_v2

    def cuModuleLoadDataEx(self, out, text, count, options, values):
        self.modules.append(self.load(text.decode()))
        out[0] = len(self.modules)

    def cuModuleGetFunction(self, out, module, name):
        out[0] = self.entry(self.modules[module - 1], name.decode())

    def cuLaunchKernelEx(self, configuration, function, places, extra):
        gx, _, _, bx, _, _, _, stream, attributes, count = struct.unpack(
            "=7I4xQQI", ctypes.string_at(configuration, 52)
        )
        if attributes or count or extra:
            return 801
        if not gx or not bx or bx > 1024:
            return 1
        self.last = self.launch_arguments(function, places), gx, bx
        self.launch(self.kernels[function - 1], gx, bx, self.last[0])

    def launch_arguments(self, function, places):
        """The arguments of a launch, which a driver copies when it is told of it."""
        kernel = self.kernels[function - 1]
        parameters = kernel.program.parameters
        pointers = (ctypes.c_void_p * len(parameters)).from_address(places)
        arguments = bytearray(kernel.program.ends["param"])
        for pointer, parameter in zip(pointers, parameters):
            start = kernel.program.variables[
                next(name for name in kernel.program.variables if name.rpartition(".")[0] == parameter.name)
            ][1]
            arguments[start : start + parameter.size] = ctypes.string_at(pointer, parameter.size)
        return bytes(arguments)

    # graphs: a list of nodes (kernel, blocks, threads, arguments, nodes before); an instance has nodes of its own

    def node(self, parameters):
        """A CUDA_KERNEL_NODE_PARAMS."""
        function, gx, gy, gz, bx, by, bz, shared, places, extra = struct.unpack(
            "=Q7I4xQQ", ctypes.string_at(parameters, 56)
        )
        assert (gy, gz, by, bz, shared, extra) == (1, 1, 1, 1, 0, 0) and gx and 0 < bx <= 1024
        return [self.kernels[function - 1], gx, bx, self.launch_arguments(function, places)]

    def cuGraphCreate(self, out, flags):
        self.graphs.append([])
        out[0] = len(self.graphs)

    def cuGraphAddKernelNode(self, out, graph, before, count, parameters):
        nodes = self.graphs[graph - 1]
        prerequisites = list((ctypes.c_void_p * count).from_address(before)) if count else []
        assert all(1 <= node <= len(nodes) for node in prerequisites)
        nodes.append([*self.node(parameters), prerequisites])
        out[0] = len(nodes)

    def cuGraphInstantiateWithFlags(self, out, graph, flags):
        self.graphs.append([list(node) for node in self.graphs[graph - 1]])
        out[0] = len(self.graphs)

    def cuGraphExecKernelNodeSetParams(self, instance, node, parameters):
        self.graphs[instance - 1][node - 1][:4] = self.node(parameters)

    def cuGraphLaunch(self, instance, stream):
        """The nodes in another order than they were told, as far as they do not wait for each other."""
        nodes = self.graphs[instance - 1]
        left = list(range(len(nodes)))
        while left:
            ready = [k for k in left if not any(node - 1 in left for node in nodes[k][4])]
            left.remove(ready[-1])
            kernel, gx, bx, arguments, _ = nodes[ready[-1]]
            self.launch(kernel, gx, bx, arguments)
