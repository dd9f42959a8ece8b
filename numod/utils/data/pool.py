"""The main process's side of the DataLoader's workers: it starts and stops them, distributes indices, orders batches.

Each worker has its own connection. A worker that dies in the middle of a message does not affect the others, and its
death shows as end of file.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from multiprocessing import connection as channels
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess

from .fetch import Source
from .transport import receive, unpack
from .worker import GRACE, Failure, run

DYING = 30.0  # seconds in which a worker that closed its connection ends: it may have much memory to free
_open: weakref.WeakSet = weakref.WeakSet()  # this process's ends of all connections
_END = object()


def _close_inherited() -> None:
    """In a forked child: close the copies of the parent's ends, so that the parent can close its connections."""
    for connection in list(_open):
        connection.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


class Workers:
    """The worker processes of a DataLoader.

    They end with `close`, with this object, with the interpreter, and with the main process.
    """

    def __init__(
        self, context: BaseContext | None, source: Source, count: int, base_seed: int, worker_init_fn: Callable | None
    ) -> None:
        self.epoch = 0
        self.processes: list[BaseProcess] = []
        self.connections: list[Connection] = []
        self.close = weakref.finalize(self, _end, self.processes, self.connections, os.getpid())
        try:
            for worker_id in range(count):
                self._start(
                    context or multiprocessing.get_context(), (source, worker_id, count, base_seed, worker_init_fn)
                )
        except BaseException:
            self.close()
            raise

    def _start(self, context: BaseContext, arguments: tuple) -> None:
        ours, theirs = context.Pipe()
        _open.add(ours)
        self.connections.append(ours)
        process = context.Process(target=run, args=(theirs, *arguments), daemon=True)
        # a child runs serial kernels and takes none of our locks, so our other threads do not matter
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
            process.start()
        self.processes.append(process)
        theirs.close()

    def send(self, worker: int, task: tuple) -> None:
        """Send a task. Errors from a dead worker are ignored; `receive` reports it."""
        try:
            self.connections[worker].send(task)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self, timeout: float) -> list[tuple[tuple, list[memoryview]]]:
        """The replies that have arrived, at least one, as labels and parts.

        Raises RuntimeError after `timeout` seconds (0: never) or if a worker has died.
        """
        ready = channels.wait([*self.connections, *[process.sentinel for process in self.processes]], timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        answers = []
        for source in ready:
            if not isinstance(source, int):
                try:
                    answers.append(receive(source))
                except (EOFError, ConnectionResetError):
                    break
        else:
            if answers:
                return answers
        raise RuntimeError(self._death_message())

    def _death_message(self) -> str:
        _join(self.processes, DYING, any)
        dead = [process for process in self.processes if not process.is_alive()]
        causes = "; ".join(sorted({_cause(process.exitcode) for process in dead}))
        return (
            f"DataLoader worker (pid(s) {', '.join(str(process.pid) for process in dead)}) exited unexpectedly: "
            f"{causes}"
        )


def _cause(code: int | None) -> str:
    if code is None or code >= 0:
        return f"exit code {code}"
    hint = (
        ". Its memory may have run out: use fewer workers or smaller batches"
        if -code == getattr(signal, "SIGKILL", None)
        else ""
    )
    return f"killed by signal: {signal.strsignal(-code)}{hint}"


def _join(processes: list[BaseProcess], seconds: float, enough: Callable = all) -> None:
    """Wait until all (or any) processes have ended, for at most `seconds`."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        alive = [process.sentinel for process in processes if process.is_alive()]
        if enough(not process.is_alive() for process in processes):
            return
        channels.wait(alive, left)


def _end(processes: list[BaseProcess], connections: list[Connection], owner: int) -> None:
    """Close the connections, which ends the workers. Workers that do not end are killed."""
    if os.getpid() != owner:
        return
    for connection in connections:
        connection.close()
    try:
        _join(processes, GRACE)
    finally:  # even after a second Ctrl-C no process must remain
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


class WorkerPass:
    """One pass over a DataLoader whose batches come from worker processes.

    Tasks are numbered and assigned to the workers in turn, `ahead` to each. Replies are yielded in the order of their
    numbers (or as they arrive without `in_order`). An end of stream is handled when its number is due, so that the
    assignment of tasks does not depend on the workers' speed.
    """

    def __init__(
        self,
        workers: Workers,
        sampler: Iterable,
        *,
        ahead: int,
        timeout: float,
        in_order: bool,
        keep: bool,
        note: Callable[[int], None],
    ) -> None:
        """`keep` leaves the workers running at the end of the pass. `note(samples)` is called for every batch."""
        self._pool, self._timeout, self._in_order, self._keep, self._note = workers, timeout, in_order, keep, note
        self._sampler, self._indices = sampler, iter(sampler)
        workers.epoch += 1
        self._epoch = workers.epoch
        count = len(workers.processes)
        self._active, self._worker_cycle = set(range(count)), itertools.cycle(range(count))
        self._pending: dict[int, int] = {}  # number -> worker, oldest first
        # number -> whether the stream has ended, parts of the reply
        self._replies: dict[int, tuple[bool, list[memoryview]]] = {}
        self._numbers = itertools.count()
        for _ in range(ahead * count):
            self._send_next()

    def __iter__(self) -> WorkerPass:
        return self

    def __len__(self) -> int:
        return len(self._sampler)

    @property
    def _workers(self) -> list[BaseProcess]:
        """The processes, under the name that PyTorch's iterator uses."""
        return self._pool.processes

    def __next__(self) -> object:
        if self._pending and self._epoch != self._pool.epoch:
            raise RuntimeError(
                "DataLoader with persistent_workers: a newer pass uses the workers; only the newest can be continued"
            )
        reply = unpack(self._next_parts())
        if isinstance(reply, Failure):
            reply.reraise()
        self._note(reply.samples)
        return reply.value

    def _next_parts(self) -> list[memoryview]:
        while self._pending:
            number = next(iter(self._pending if self._in_order else self._replies), None)
            if number not in self._replies:
                self._wait()
                continue
            worker, (ended, parts) = self._pending.pop(number), self._replies.pop(number)
            if not ended:
                self._send_next()
                return parts
            self._retire(worker)
        if not self._keep:
            self._pool.close()
        raise StopIteration

    def _send_next(self) -> None:
        """Send the next indices, if there are any, to the next worker whose stream has not ended."""
        if not self._active:
            return
        indices = next(self._indices, _END)
        if indices is _END:
            return
        worker = next(number for number in self._worker_cycle if number in self._active)
        number = next(self._numbers)
        self._pending[number] = worker
        self._pool.send(worker, (self._epoch, number, indices))

    def _retire(self, worker: int) -> None:
        """Assign no more tasks to a worker whose stream has ended, and drop its pending ones."""
        self._active.discard(worker)
        for number in [number for number, owner in self._pending.items() if owner == worker]:
            del self._pending[number]
            self._replies.pop(number, None)

    def _wait(self) -> None:
        try:
            answers = self._pool.receive(self._timeout)
        except RuntimeError:
            if not all(process.is_alive() for process in self._pool.processes):
                self._give_up()
            raise
        except KeyboardInterrupt:
            for process in self._pool.processes:  # do not wait for a batch after Ctrl-C
                process.kill()
            self._give_up()
            raise
        for (epoch, number, ended), parts in answers:
            if epoch == self._epoch and number in self._pending:
                self._replies[number] = ended, parts

    def _give_up(self) -> None:
        self._pool.close()
        self._pending.clear()
