"""One launch on the GPU of `ptx_machine`: a kernel's threads run block by block of its PTX, and accesses are checked.

A register is an array over the threads of a launch; a basic block of the text is a Python function over the threads
that are in it. The threads at the lowest place in the text go on, so that branches come together again. Arithmetic is
the text's (`ptx_arithmetic`): widths, wrapping, rounding. A run stops at errors that a real GPU may forgive: accesses
outside of an allocation or not aligned, reads of memory that nobody wrote, barriers that only some threads reach, and
two threads that access a place without a barrier between them (or at all, if their blocks differ), one of them writing.

Not here: speed, caches, the order of a real scheduler, contraction by the assembler of `mul` and `add` that lack `.rn`,
approximations (`ex2.approx` and others are rounded exactly), and instructions that no kernel of numod has, which raise
NotImplementedError.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import ptx_arithmetic
from ptx_arithmetic import Fault, dealt, matrices
from ptx_text import SIZES, TYPES, Program
from ptx_writer import DONE, WAITING, Writer

if TYPE_CHECKING:
    from ptx_machine import Machine

WARP = 32
OUTSIDE, EMPTY, WRITTEN = 0, 1, 3  # of a byte of memory


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
