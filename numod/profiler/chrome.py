"""Export to other programs: JSON traces for Chrome and Perfetto, stacks for flame graphs, files for TensorBoard."""

from __future__ import annotations

import gzip
import json
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .event import Event, Memory

if TYPE_CHECKING:
    from .profile import profile

_CATEGORIES = {
    "op": "cpu_op",
    "node": "cpu_op",
    "user": "user_annotation",
    "step": "user_annotation",
    "kernel": "kernel",
    "module": "python_function",
}


def export_trace(events: Sequence[Event], memory: Sequence[Memory], metadata: dict[str, str], path: str) -> None:
    """Write the slices, arrows from ops to their gradients, memory usage, and the threads used by parallel kernels."""
    document = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": list(_trace(events, memory)),
        "traceName": path,
    }
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "wt", encoding="utf-8") as file:
        # in one call: json.dump makes many small writes, ten times slower
        file.write(json.dumps(document, separators=(",", ":")))


def _trace(events: Sequence[Event], memory: Sequence[Memory]) -> Iterator[dict[str, Any]]:
    """The entries of a trace: slices of events, counters of busy threads and of memory, arrows to backward."""
    pid = os.getpid()
    threads = {}
    shared = any(event.category == "kernel" and event.subject.parallel for event in events)
    yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "numod"}}
    for event in events:
        tid = threads.setdefault(event.thread, len(threads) + 1)
        yield {
            "ph": "X", "cat": _CATEGORIES.get(event.category, event.category), "name": event.name, "pid": pid,
            "tid": tid,
            "ts": event.start / 1e3, "dur": event.duration / 1e3, "args": describe(event),
        }  # fmt: skip
        if shared and event.category == "kernel":
            for moment, count in ((event.start, len(event.parts.busy) if event.parts else 1), (event.end, 0)):
                yield {
                    "ph": "C",
                    "name": "threads in kernels",
                    "pid": pid,
                    "tid": 0,
                    "ts": moment / 1e3,
                    "args": {"threads": count},
                }
        for start, end, thread in event.parts.chunks if event.parts else ():
            if thread != event.thread:
                worker = threads.setdefault(thread, len(threads) + 1)
                yield {
                    "ph": "X", "cat": "kernel", "name": f"part of {event.name}", "pid": pid, "tid": worker,
                    "ts": start / 1e3, "dur": (end - start) / 1e3, "args": {"External id": event.id},
                }  # fmt: skip
        if event.forward is not None:
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.id, "pid": pid}
            yield {**arrow, "ph": "s", "tid": threads[event.forward.thread], "ts": event.forward.start / 1e3}
            yield {**arrow, "ph": "f", "bp": "e", "tid": tid, "ts": event.start / 1e3}
    names = {item.ident: item.name for item in threading.enumerate()}
    for thread, tid in threads.items():
        yield {
            "ph": "M",
            "name": "thread_name",
            "pid": pid,
            "tid": tid,
            "args": {"name": names.get(thread, f"thread {tid}")},
        }
    used = 0
    for item in memory:
        used += item.size
        yield {"ph": "C", "name": "memory", "pid": pid, "tid": 0, "ts": item.time / 1e3, "args": {"bytes": used}}


def describe(event: Event) -> dict[str, Any]:
    """The attributes of an event other than its times."""
    attributes: dict[str, Any] = {"External id": event.id}
    if event.module:
        attributes["Module"] = event.module
    if event.input_shapes:
        attributes["Input Dims"], attributes["Input type"] = event.input_shapes, event.input_dtypes
    if event.sequence_nr >= 0 and event.category in ("op", "node"):
        attributes["Sequence number"] = event.sequence_nr
    if event.flops:
        attributes["flops"], attributes["bytes"] = event.flops, event.bytes_moved
    if event.category in ("op", "node") and event.stack:
        attributes["Call stack"] = event.stack
    if event.category in ("compile", "load"):
        kernel = event.subject
        attributes.update(signature=kernel.signature, parallel=kernel.parallel, hash=kernel.key, why=kernel.why)
    if event.category == "pass" and event.detail:
        attributes["function"] = event.detail
    if event.parts:
        attributes["us by thread"] = [busy / 1e3 for busy in event.parts.busy.values()]
    return attributes


def export_stacks(events: Sequence[Event], path: str, metric: str) -> None:
    """Write stacks in the format of Brendan Gregg's flamegraph.pl, which speedscope also reads."""
    totals: Counter[str] = Counter()
    for event in events:
        if event.stack:
            lines = [line.replace(";", ",").replace(" ", "_") for line in reversed(event.stack)]
            totals[";".join([*lines, event.name.replace(" ", "_")])] += int(getattr(event, metric))
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(f"{stack} {total}\n" for stack, total in totals.items() if total > 0)


def export_memory(memory: Sequence[Memory], path: str) -> None:
    """Write PyTorch's form of a memory timeline: [times in us, bytes in use by kind].

    The categories of buffers are unknown; all count as the last one.
    """
    times, sizes, used = [], [], 0
    for change in memory:
        used += change.size
        if not times or times[-1] != change.time // 1000:
            times.append(change.time // 1000)
            sizes.append([])
        sizes[-1] = [0] * 8 + [used]
    with (gzip.open if path.endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
        file.write(json.dumps([times, sizes]))


def write_for_tensorboard(folder: str, worker: str | None, compressed: bool, profiler: profile) -> None:
    """Write a profiler's trace to `folder`. Raises RuntimeError if the folder cannot be created."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise RuntimeError(f"Can't create directory: {folder}") from error
    name = f"{worker or f'{socket.gethostname()}_{os.getpid()}'}.{time.time_ns()}.pt.trace.json"
    profiler.export_chrome_trace(os.path.join(folder, name + (".gz" if compressed else "")))
