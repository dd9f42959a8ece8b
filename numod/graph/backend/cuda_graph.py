"""Runs a section's GPU kernels as a CUDA graph, which one call launches.

Before a launch, only kernels whose arguments changed are updated: addresses of inputs, results and gradients, random
numbers, and hyper-parameters. Most kernels access local memory and weights and do not change. The allocator reuses
freed memory, so addresses recur: up to `MAX_GRAPHS` graphs are cached by their addresses. Independent kernels may run
concurrently.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .lower import Buffer, Call, CheckCall, Integer, Number, Span

MIN_KERNELS = 3  # with fewer kernels a graph saves too little
# In a training loop that replaces its loss and gradients at each step, addresses recur after four steps.
MAX_GRAPHS = 4
# A graph owns its local memory. With more than this, kernels take longer than their launches.
MAX_LOCAL_BYTES = 1 << 27


def suits_cuda_graph(calls: Sequence[Call | CheckCall], size: int) -> bool:
    """Whether a CUDA graph can run the calls: enough kernels, all on a GPU, and not too much local memory (`size`)."""
    kernels = [call.kernel for call in calls if isinstance(call, Call)]
    if len(calls) < MIN_KERNELS or len(kernels) < len(calls) or size > MAX_LOCAL_BYTES:
        return False
    return all(
        kernel is not None and kernel.device.type == "cuda" and not kernel.device.backend.SIMULATED
        for kernel in kernels
    )


class GraphExec:
    """A CUDA graph, and the packed run-time numbers that its kernels currently have."""

    def __init__(self, graph: Any) -> None:
        self.graph, self.numbers = graph, b""


class Replay:
    """CUDA graphs of a section's calls. Hold `lock` to run one: all graphs share local memory.

    `launchers`: a function that returns each call's launcher.
    `buffers`, `numbers`: the arguments that may change between runs, non-local memory and the (source, index) of
    run-time numbers.
    """

    def __init__(
        self, calls: Sequence[Call], launchers: Callable[[], Sequence[Callable]], places: dict[Buffer, int]
    ) -> None:
        self.calls, self.launchers, self.places = calls, launchers, places
        self.backend, self.lock = calls[0].kernel.device.backend, threading.Lock()
        spans = dict.fromkeys(a.buffer for call in calls for a in call.arguments if isinstance(a, Span))
        self.size = max((places[span] + span.nbytes for span in spans if span.kind == "local"), default=1)
        self.buffers = sorted((span for span in spans if span.kind != "local"), key=lambda span: span.kind != "held")
        # bytes of the held buffers' packed addresses, which come first
        self.held_bytes = 8 * sum(buffer.kind == "held" for buffer in self.buffers)
        number_kinds = sorted(
            {
                ((a.source, a.index), a.kind)
                for call in calls
                for a in call.arguments
                if isinstance(a, (Number, Integer))
            }
        )
        self.numbers = [key for key, _ in number_kinds]
        self.calls_using: list[list[int]] = [[] for _ in self.buffers]  # per buffer: numbers of the calls that use it
        index = {buffer: k for k, buffer in enumerate(self.buffers)}
        for k, call in enumerate(calls):
            for buffer in dict.fromkeys(a.buffer for a in call.arguments if isinstance(a, Span) and a.buffer in index):
                self.calls_using[index[buffer]].append(k)
        self.calls_with_numbers = [
            k for k, call in enumerate(calls) if any(isinstance(a, (Number, Integer)) for a in call.arguments)
        ]
        self.addresses = struct.Struct(f"={len(self.buffers)}Q")
        self.packed_numbers = struct.Struct(f"={''.join('q' if kind == 'int64' else 'd' for _, kind in number_kinds)}")
        self.graphs: dict[bytes, GraphExec] = {}  # by packed addresses, least recently used first
        self.stream: Any = None  # the stream of the last launch

    def ready(self, arrays: Sequence) -> GraphExec:
        """The graph for these arrays, one per buffer of `buffers`.

        Raises RuntimeError if no graph can be created; the run has not changed anything yet.
        """
        key = self.addresses.pack(*[array.address for array in arrays])
        graph_exec = self.graphs[key] = self.graphs.pop(key, None) or self._updated_graph(key, arrays)
        return graph_exec

    def start(self, graph_exec: GraphExec, arrays: Sequence, numbers: Sequence[float]) -> None:
        """Launch a graph returned by `ready(arrays)` with these run-time numbers on the current stream."""
        packed = self.packed_numbers.pack(*numbers)
        if packed != graph_exec.numbers:
            graph_exec.graph.change(self._arguments(self.calls_with_numbers, arrays, numbers))
            graph_exec.numbers = packed
        if self.backend.current.stream is not self.stream:
            self._switch_stream(self.backend.current.stream)
        graph_exec.graph.start()

    def _updated_graph(self, key: bytes, arrays: Sequence) -> GraphExec:
        """A graph for these addresses: a new one, or the least recently used one, updated."""
        oldest = next(iter(self.graphs), b"")
        if len(self.graphs) == MAX_GRAPHS and oldest[: self.held_bytes] == key[: self.held_bytes]:
            changed = [k for k in range(len(self.calls_using)) if key[8 * k : 8 * k + 8] != oldest[8 * k : 8 * k + 8]]
            graph_exec = self.graphs.pop(oldest)
            graph_exec.numbers = b""  # the zeros passed here are not numbers of a run
            graph_exec.graph.change(
                self._arguments(
                    dict.fromkeys(number for k in changed for number in self.calls_using[k]),
                    arrays,
                    [0] * len(self.numbers),
                )
            )
            return graph_exec
        if not self.graphs:
            self.arena, self.stream = self.backend.empty(self.size, np.dtype(np.uint8)), self.backend.current.stream
        arguments = self._arguments(range(len(self.calls)), arrays, [0] * len(self.numbers))
        graph_exec = GraphExec(
            self.backend.graph(self.launchers(), list(arguments.values()), dependencies(self.calls, self.places))
        )
        if len(self.graphs) == MAX_GRAPHS:
            del self.graphs[oldest]
        return graph_exec

    def _arguments(
        self, numbers_of_calls: Iterable[int], arrays: Sequence, numbers: Sequence[float]
    ) -> dict[int, list]:
        """The resolved arguments of these calls, by the call's number."""
        memory, values = dict(zip(self.buffers, arrays)), dict(zip(self.numbers, numbers))

        def resolved(argument: Any) -> Any:
            if isinstance(argument, Span):
                return argument.of(
                    memory[argument.buffer] if argument.buffer in memory else self._local(argument.buffer)
                )
            return values[argument.source, argument.index] if isinstance(argument, (Number, Integer)) else argument

        return {k: [resolved(a) for a in self.calls[k].arguments] for k in numbers_of_calls}

    def _switch_stream(self, stream: Any) -> None:
        """Make the stream wait for the last launch: all graphs share local memory."""
        event = self.backend.make_event(False)
        event.record(self.stream)
        event.wait(stream)
        self.stream = stream
        self.backend.record_stream(self.arena, stream)

    def _local(self, buffer: Buffer) -> Any:
        """The memory of a local buffer, in the arena."""
        offset = self.places[buffer]
        return self.arena[offset : offset + buffer.nbytes].view(buffer.storage)


def dependencies(calls: Sequence[Call], places: dict[Buffer, int]) -> list[list[int]]:
    """Dependencies of each call, as numbers of earlier calls: read-after-write, write-after-write, write-after-read.

    Local and held buffers conflict if their byte ranges overlap. Inputs may alias each other and held memory, so all
    inputs count as one buffer.
    """
    touched = [
        dict.fromkeys("input" if a.buffer.kind == "input" else a.buffer for a in call.arguments if isinstance(a, Span))
        for call in calls
    ]
    buffers = [
        shared_key for shared_key in dict.fromkeys(key for keys in touched for key in keys) if shared_key != "input"
    ]
    overlaps = _overlapping({buffer: places[buffer] for buffer in buffers if buffer.kind == "local"})
    held_overlaps = _overlapping(
        {buffer: buffer.tensor._storage.data.address for buffer in buffers if buffer.kind == "held"}
    )
    overlaps |= {
        **{shared_key: ["input", *others] for shared_key, others in held_overlaps.items()},
        "input": ["input", *held_overlaps],
    }
    writer: dict[Any, int] = {}  # by buffer, the last call that wrote to it
    readers: dict[Any, list[int]] = {}  # by buffer, the calls that have read it since then
    dependencies_of, reachable = [], []  # `reachable`: per call, a bit mask of its direct and indirect dependencies
    for number, (call, keys) in enumerate(zip(calls, touched)):
        reads = {"input" if read.kind == "input" else read for read in call.reads}
        writes = {"input" if write.kind == "input" else write for write in call.writes}
        written = {key for key in keys if key in writes or key not in reads}
        waits = {writer[shared_key] for key in keys for shared_key in overlaps.get(key, [key]) if shared_key in writer}
        waits.update(
            reader
            for key in written
            for shared_key in overlaps.get(key, [key])
            for reader in readers.get(shared_key, ())
        )
        indirect = 0
        for wait in waits:
            indirect |= reachable[wait]
        dependencies_of.append(sorted(wait for wait in waits if not indirect >> wait & 1))
        reachable.append(indirect | sum(1 << wait for wait in waits))
        for key in keys:
            if key in written:
                writer[key], readers[key] = number, []
            else:
                readers.setdefault(key, []).append(number)
    return dependencies_of


def _overlapping(start_of: dict[Buffer, int]) -> dict[Buffer, list[Buffer]]:
    """For each buffer, the buffers with overlapping byte ranges, including itself. `start_of`: start addresses."""
    buffers, starts = list(start_of), np.array(list(start_of.values()), np.int64)
    ends = starts + np.array([max(buffer.nbytes, 1) for buffer in buffers], np.int64)
    return {
        buffer: [buffers[j] for j in np.flatnonzero((starts < ends[k]) & (starts[k] < ends))]
        for k, buffer in enumerate(buffers)
    }
