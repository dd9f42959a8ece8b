"""A GPU for tests, made of NumPy: it runs the PTX text that a real one would be given, with the arguments as they were
packed for the driver.

The text is read by `ptx_text`, made into Python by `ptx_writer`, with what `ptx_arithmetic` computes.
`Machine().library()` is what `numod.device.cuda_driver` takes for the driver's library. A register is an array over the
threads of a launch; a basic block of the text is a Python function over the threads that are there. Of all threads
those at the lowest place in the text go on, so that branches come together again. Arithmetic is the text's: widths,
wrapping, rounding. It stops at what a real GPU may forgive: reads and writes outside of what was allocated or not
aligned, reads of what nobody wrote, barriers that only some threads reach, and two threads that use a place without a
barrier between them (or at all, where they are of different blocks), one of them writing.

Not here: speed, caches, the order of a real scheduler, contraction by the assembler of `mul` and `add` that lack `.rn`,
exact approximations (`ex2.approx` and its kin are rounded exactly instead), and instructions that no kernel of ours
has: these raise NotImplementedError.
"""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import ptx_arithmetic
import pytest
from ptx_arithmetic import Fault, dealt, matrices
from ptx_text import SIZES, TYPES, Program, read
from ptx_writer import DONE, WAITING, Writer

from numod.device import cuda_driver, cuda_memory

WARP = 32
OUTSIDE, EMPTY, WRITTEN = 0, 1, 3  # of a byte of memory
STREAM, CONTEXT = 0x7F0011223344, 0x7F0055667788
_ANYWHERE = ("cuInit", "cuD", "cuGetError", "cuCtxSetCurrent")  # how functions begin that need no context
_ERRORS = {2: (b"CUDA_ERROR_OUT_OF_MEMORY", b"out of memory"),
    201: (b"CUDA_ERROR_INVALID_CONTEXT", b"invalid device context"),
    600: (b"CUDA_ERROR_NOT_READY", b"device not ready"),
           700: (b"CUDA_ERROR_ILLEGAL_ADDRESS", b"an illegal memory access was encountered"),
           719: (b"CUDA_ERROR_LAUNCH_FAILED", b"")}  # fmt: skip
GAP = 512  # bytes that belong to nobody, between two allocations


class Memory:
    """Bytes, what is known of each of them (OUTSIDE, EMPTY or WRITTEN), and who wrote and read last the element that
    begins there.

    Who: launch, block, barriers passed and thread, in 19, 20, 13 and 11 bits; all bits of a thread or block stand for
    several. Several that wrote did so atomically.
    """

    def __init__(self, size: int) -> None:
        room = np.zeros(size + 4096, "u1")
        self.bytes, self.known = room[-room.ctypes.data % 4096 :][:size], np.zeros(size, "u1")
        self.writers, self.readers = np.zeros(size, "i8"), np.zeros(size, "i8")

    def mark(self, start: int, stop: int, known: int) -> None:
        """Say what bytes are from now on."""
        self.known[start:stop] = known
        self.writers[start:stop] = self.readers[start:stop] = 0


def who(launch: int, block: np.ndarray, barriers: np.ndarray, thread: np.ndarray) -> np.ndarray:
    """Tokens of threads."""
    return (launch & 0x7FFFF) << 44 | block << 24 | (barriers & 0x1FFF) << 11 | thread + 1


def meet(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether two tokens are of threads that nothing keeps apart."""
    other = x ^ y
    return (other >> 44 == 0) & (other != 0) & ((other >> 24 != 0) | (other >> 11 == 0))


class Kernel:
    """A program ready to run."""

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name
        self.writer = Writer(program)
        self.compiled = compile(self.writer.source, name[:60], "exec")


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
            known = [cuda.driver, cuda.pool, cuda.reports, cuda.identity, bind._built]
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


class Run:
    """Some blocks of a launch."""

    def __init__(
        self, machine: Machine, kernel: Kernel, first: int, count: int, blocks: int, threads: int, arguments: bytes
    ) -> None:
        self.machine, self.kernel, self.arguments = machine, kernel, arguments
        self.count, self.threads, n = count, threads, count * threads
        program, writer = kernel.program, kernel.writer
        self.thread, self.block = np.arange(n) % threads, first + np.arange(n) // threads
        self.near, self.warp = (
            np.arange(n) // threads,
            np.arange(n) // threads * -(-threads // WARP) + np.arange(n) % threads // WARP,
        )
        self.barriers = np.zeros(n, "i8")
        self.tokens = who(machine.launches, self.block, self.barriers, self.thread)
        self.pc = np.zeros(n, "i4")
        # those on their way: threads, places in shared memory, and the commits of each thread before
        self.copies, self.commits = [], np.zeros(n, "i4")
        self.spaces = {"global": (machine.memory, 0, 0)}
        for space, starts, copies in (("shared", self.near, count), ("local", np.arange(n), n)):
            if size := -(-program.ends[space] // 128) * 128:
                memory = Memory(size * copies)
                for start, stop in program.spans[space]:
                    memory.known.reshape(copies, size)[:, start:stop] = EMPTY
                self.spaces[space] = memory, starts * size, size
        stores = {
            name: np.zeros(n, bool if program.registers[name] == "pred" else f"u{SIZES[program.registers[name]]}")
            for name in {register for register, _ in writer.used.values()}
        }
        names = {
            name: stores[register] if kind == "pred" else stores[register].view(TYPES[kind])
            for name, (register, kind) in writer.used.items()
        }
        grid = {
            "thread": self.thread.astype("u4"),
            "block": self.block.astype("u4"),
            "threads": np.full(n, threads, "u4"),
            "blocks": np.full(n, blocks, "u4"),
        }
        self.names = {
            **vars(ptx_arithmetic),
            "TYPES": TYPES,
            **names,
            **grid,
            **writer.constants,
            "pc": self.pc,
            "carry": np.zeros(n, "i8"),
            "those": self.those,
            "place": self.element_address,
            "load": self.load,
            "store": self.store,
            "join": self.join,
            "multiply": self.multiply,
            "rows": self.rows,
            "copy": self.copy,
            "land": self.land,
            "commits": self.commits,
            "parameter": self.parameter,
            "address": kernel.places.__getitem__,
        }
        exec(kernel.compiled, self.names)  # the kernel, written by Writer
        self.steps = [self.names[f"step{k}"] for k in range(len(writer.lengths))]

    def go(self) -> None:
        """Run until all threads have ended."""
        everyone, n, pc, counts = slice(None), len(self.pc), self.pc, self.machine.counts
        with np.errstate(all="ignore"):
            while True:
                low = int(pc.min())
                if low == DONE:
                    return
                if low >= WAITING:
                    self.pass_barrier()
                    continue
                there = np.flatnonzero(pc == low)
                if counts is not None:
                    counts["instructions"] += self.kernel.writer.lengths[low] * len(np.unique(self.warp[there]))
                self.steps[low](everyone if len(there) == n else there)

    def pass_barrier(self) -> None:
        """Every thread waits or has ended: those of a block must all be at one barrier."""
        places = self.pc.reshape(self.count, self.threads)
        stuck = np.flatnonzero((places != places[:, :1]).any(1))
        if len(stuck):
            k = stuck[0]
            raise Fault(
                f"{self.kernel.name[:80]}: a barrier is reached by {int((places[k] == places[k].min()).sum())} of "
                f"{self.threads} threads of block {self.block[k * self.threads]}"
            )
        waiting = self.pc < DONE
        self.pc[waiting] -= WAITING
        self.barriers[waiting] += 1
        self.tokens = who(self.machine.launches, self.block, self.barriers, self.thread)

    def those(self, m: object, guard: np.ndarray) -> np.ndarray:
        """The threads of m that a guard lets through."""
        return np.arange(len(self.pc))[m][guard]

    def parameter(self, position: int, kind: np.dtype) -> object:
        """A launch argument."""
        return np.frombuffer(self.arguments, kind, 1, position)[0]

    def _fail(self, number: int, what: str, m: object, which: np.ndarray, address: np.ndarray) -> None:
        k = int(np.flatnonzero(which)[0])
        lane = np.arange(len(self.pc))[m][k]
        raise Fault(
            f"{what}, by {int(np.count_nonzero(which))} threads; the first is thread {self.thread[lane]} of block "
            f"{self.block[lane]} at {int(address[k]):#x}: "
            f"{self.kernel.program.code[number].text[:160]} in {re.sub('B[0-9].*', '', self.kernel.name)}"
        )

    def element_address(
        self, number: int, space: str, m: object, address: object, size: int, parts: int, write: bool
    ) -> np.ndarray:
        """Where in a space's memory an access begins, after it was checked."""
        memory, base, most = self.spaces[space]
        lanes = self.tokens[m]
        address = np.broadcast_to(np.asarray(address, "i8"), lanes.shape)
        at = address - self.machine.origin if space == "global" else address + base[m]
        if (wrong := address % size != 0).any():
            self._fail(number, f"misaligned access to {space} memory", m, wrong, address)
        outside = (address < 0) | (address > most - size) if most else (at < 0) | (at > memory.bytes.size - size)
        if not outside.any():
            known = memory.known[at[:, None] + np.arange(size)]
            outside = (known == OUTSIDE).any(1)
            if not write and not outside.any() and (empty := (known != WRITTEN).any(1)).any():
                self._fail(number, f"{space} memory is read that nobody wrote", m, empty, address)
        if outside.any():
            self._fail(number, f"{'write' if write else 'read'} outside of {space} memory", m, outside, address)
        if self.machine.counts is not None:
            self._count(space, m, address, size, write)
        return at

    def _count(self, space: str, m: object, address: np.ndarray, size: int, write: bool) -> None:
        counts, warps = self.machine.counts, self.warp[m]
        name = f"{space} {'stores' if write else 'loads'}"
        counts[name] += len(np.unique(warps))
        if space == "global":
            counts[f"{name} sectors"] += len(np.unique(warps << 44 | (address - self.machine.origin) >> 5))
        elif space == "shared":
            # words of 4 bytes in 32 banks; as many threads as need 128 bytes are served together, and their words of
            # one bank one after the other
            served = warps * 8 + self.thread[m] % WARP * size // 128
            words = np.unique(np.concatenate([served << 32 | (address >> 2) + k for k in range(max(size // 4, 1))]))
            banks = np.unique(words >> 32 << 32 | words & 31, return_counts=True)
            most: dict[int, int] = defaultdict(int)
            for key, several in zip(*banks):
                most[int(key) >> 32] = max(most[int(key) >> 32], int(several))
            counts[f"{name} passes"] += sum(most.values())

    def multiply(self, number: int, m: object, shape: str, kind: str, *fragments: list[np.ndarray]) -> np.ndarray:
        """`mma` by the warps of m, all of whose threads must be there."""
        return matrices(shape, kind, *(self._warps(number, m, registers) for registers in fragments)).reshape(-1, 4)

    def rows(self, number: int, m: object, transposed: bool, words: list[np.ndarray]) -> np.ndarray:
        """`ldmatrix` by the warps of m: the registers (threads, 4), of the words of the row that each thread gave the
        address of.
        """
        return dealt(self._warps(number, m, words), transposed).reshape(-1, 4)

    def copy(self, number: int, m: object, near: object, far: object, count: object) -> None:
        """`cp.async` of `count` bytes to 16 of shared memory, the others 0.

        Until they have landed nobody may read there.
        """
        lanes, counts, self.machine.counts = np.arange(len(self.pc))[m], self.machine.counts, None
        far, count = (np.broadcast_to(np.asarray(operand, "i8"), lanes.shape) for operand in (far, count))
        if (wrong := (far % 16 != 0) | (count > 16)).any():
            self._fail(number, "a copy of more than 16 bytes, or of what is not aligned", m, wrong, far)
        halves = np.zeros((len(lanes), 8), "u2")
        for k in range(8):
            some = count > 2 * k
            start = self.element_address(number, "global", lanes[some], far[some] + 2 * k, 2, 1, False)
            halves[some, k] = self.load(number, "global", lanes[some], start, TYPES["u16"], 0)
        self.machine.counts = counts
        if counts is not None and count.any():
            self._count("global", lanes[count > 0], far[count > 0], 16, False)
        at = self.element_address(number, "shared", m, near, 16, 4, True)
        for k in range(4):
            self.store(number, "shared", m, at, TYPES["u32"], k, halves.view("u4")[:, k])
        self.spaces["shared"][0].known[at[:, None] + np.arange(16)] = EMPTY
        self.copies.append((lanes, at, self.commits[lanes]))

    def land(self, m: object, most: int) -> None:
        """`cp.async.wait_group`: the copies of the threads of m that are not in their last `most` groups are there."""
        memory, asked, left = self.spaces["shared"][0], np.zeros(len(self.pc), bool), []
        asked[m] = True
        for lanes, at, group in self.copies:
            here = asked[lanes] & (group < self.commits[lanes] - most)
            memory.known[at[here, None] + np.arange(16)] = WRITTEN
            memory.writers[at[here, None] + np.arange(0, 16, 4)] = self.tokens[lanes[here], None]
            left.append((lanes[~here], at[~here], group[~here]))
        self.copies = [copy for copy in left if len(copy[0])]

    def _warps(self, number: int, m: object, registers: list[np.ndarray]) -> np.ndarray:
        """Registers of the threads of m as (warps, 32, registers): all threads of a warp must be there."""
        lanes = np.arange(len(self.pc))[m]
        if len(lanes) % WARP or (self.warp[lanes].reshape(-1, WARP) != self.warp[lanes[::WARP], None]).any():
            raise Fault(f"{self.kernel.program.code[number].text[:160]}: some threads of a warp are not there")
        return np.stack([np.broadcast_to(register, lanes.shape) for register in registers], -1).reshape(
            -1, WARP, len(registers)
        )

    def load(self, number: int, space: str, m: object, at: np.ndarray, kind: np.dtype, part: int) -> np.ndarray:
        """The elements at places of a space, the part-th after each."""
        memory, at = self.spaces[space][0], at + part * kind.itemsize
        if space != "local":
            mine = self.tokens[m]
            if (wrong := meet(memory.writers[at], mine)).any():
                self._fail(
                    number,
                    f"race: {space} memory is read that another thread wrote, with no barrier between",
                    m,
                    wrong,
                    at,
                )
            before = memory.readers[at]
            alone = before >> 44 != mine >> 44
            memory.readers[at] = np.where(
                alone | ~meet(before, mine), mine, mine | np.where(before >> 24 == mine >> 24, 0x7FF, 0xFFFFF << 24)
            )
            several = memory.readers[at] ^ mine  # threads of one instruction that read one place
            if (several := (several != 0) & (several >> 44 == 0)).any():
                memory.readers[at[several]] |= np.where(
                    memory.readers[at[several]] >> 24 == mine[several] >> 24, 0x7FF, 0xFFFFF << 24
                )
        return memory.bytes.view(kind)[at // kind.itemsize]

    def store(
        self, number: int, space: str, m: object, at: np.ndarray, kind: np.dtype, part: int, values: object
    ) -> None:
        """Write elements at places of a space."""
        memory, at = self.spaces[space][0], at + part * kind.itemsize
        data, element = memory.bytes.view(kind), at // kind.itemsize
        values = np.broadcast_to(values, at.shape)
        if space != "local":
            mine = self.tokens[m]
            if (wrong := meet(memory.readers[at], mine)).any():
                self._fail(
                    number,
                    f"race: {space} memory is written that another thread read, with no barrier between",
                    m,
                    wrong,
                    at,
                )
            if (
                wrong := meet(memory.writers[at], mine)
                & (data[element].view(f"u{kind.itemsize}") != values.astype(kind).view(f"u{kind.itemsize}"))
            ).any():
                self._fail(
                    number,
                    f"race: {space} memory is written that another thread wrote, with no barrier between",
                    m,
                    wrong,
                    at,
                )
            memory.writers[at] = mine
        data[element] = values
        if (
            space != "local"
            and (
                wrong := (memory.writers[at] != mine)
                & (data[element].view(f"u{kind.itemsize}") != values.astype(kind).view(f"u{kind.itemsize}"))
            ).any()
        ):
            self._fail(number, f"race: {space} memory is written by several threads at once", m, wrong, at)
        memory.known[at[:, None] + np.arange(kind.itemsize)] = WRITTEN

    def join(
        self, number: int, space: str, m: object, at: np.ndarray, kind: np.dtype, function: Callable, *values: object
    ) -> np.ndarray:
        """Elements of memory become function(element, *values), atomically, one thread after the other; what was there
        before. The last threads come first, as they may.
        """
        memory, mine = self.spaces[space][0], self.tokens[m]
        # several threads; of several blocks there is no barrier that could come between
        atomic = mine | (0x7FF if space == "shared" else 0xFFFFF << 24 | 0xFFFFFF)
        if (
            wrong := meet(memory.readers[at], mine) | (meet(memory.writers[at], mine) & (memory.writers[at] != atomic))
        ).any():
            self._fail(
                number,
                f"race: {space} memory is changed atomically that another thread read or wrote, with no barrier "
                "between",
                m,
                wrong,
                at,
            )
        memory.writers[at] = atomic
        data = memory.bytes.view(kind)
        element = at // kind.itemsize
        values = [np.broadcast_to(value, at.shape) for value in values]
        before = np.zeros(at.shape, kind)
        flush = ptx_arithmetic.flushed if kind == np.float32 else lambda x: x  # so global memory adds float32
        left = np.arange(len(at))[::-1]
        while len(left):
            first = np.unique(element[left], return_index=True)[1]
            here = left[first]
            before[here] = data[element[here]]
            data[element[here]] = flush(function(flush(before[here]), *(flush(value[here]) for value in values)))
            left = np.delete(left, first)
        return before
