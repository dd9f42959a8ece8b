"""The main process's side of the DataLoader's workers: starting and stopping them, distributing indices, and ordering
batches.

Each worker has its own connection, so one that dies in the middle of a message does not affect the others, and its
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

_open: weakref.WeakSet = weakref.WeakSet()  # this process's ends of all connections
_END = object()


def _close_inherited() -> None:
    """In a forked child: drop the copies of the parent's ends, or its siblings would never see them close."""
    for each in list(_open):
        each.close()


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
        # a child runs serial kernels and takes no lock of ours, so other threads do not matter to it
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "This process .* is multi-threaded, use of fork", DeprecationWarning)
            process.start()
        self.processes.append(process)
        theirs.close()

    def send(self, worker: int, task: tuple) -> None:
        """Send a task. To a dead worker nothing is sent: `receive` reports it."""
        try:
            self.connections[worker].send(task)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def receive(self, timeout: float) -> list[tuple[tuple, list[memoryview]]]:
        """The answers that have arrived, at least one, as labels and parts.

        Raises RuntimeError after `timeout` seconds (0: never) and when a worker has died.
        """
        ready = channels.wait([*self.connections, *[process.sentinel for process in self.processes]], timeout or None)
        if not ready:
            raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        answers = []
        for each in ready:
            if not isinstance(each, int):
                try:
                    answers.append(receive(each))
                except (EOFError, ConnectionResetError):
                    break
        else:
            if answers:
                return answers
        raise RuntimeError(self._obituary())

    def _obituary(self) -> str:
        _join(self.processes, 1.0, any)
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
    """Wait until all processes (or `any`) have ended, at most so long."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        alive = [process.sentinel for process in processes if process.is_alive()]
        if enough(not process.is_alive() for process in processes):
            return
        channels.wait(alive, left)


def _end(processes: list[BaseProcess], connections: list[Connection], owner: int) -> None:
    """Close the connections, upon which the workers end; the ones that do not are made to."""
    if os.getpid() != owner:
        return
    for connection in connections:
        connection.close()
    try:
        _join(processes, GRACE)
    finally:  # a second Ctrl-C while we wait must leave nothing behind either
        for process in processes:
            if process.is_alive():
                process.kill()
            process.join()


class WorkerPass:
    """One pass over a DataLoader whose batches come from worker processes.

    Tasks are numbered and given out in turn, `ahead` to each worker; answers are yielded by number (as they arrive
    without `in_order`). An end of stream is acted on when its number is due, so that who gets which task does not
    depend on who was faster.
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
        """`keep` leaves the workers running at the end of the pass.

        `note` is told the number of samples of every batch.
        """
        self._pool, self._timeout, self._in_order, self._keep, self._note = workers, timeout, in_order, keep, note
        self._sampler, self._indices = sampler, iter(sampler)
        workers.epoch += 1
        self._epoch = workers.epoch
        count = len(workers.processes)
        self._going, self._turns = set(range(count)), itertools.cycle(range(count))
        self._asked: dict[int, int] = {}  # number -> worker, oldest first
        # number -> whether the stream has ended, parts of the reply
        self._arrived: dict[int, tuple[bool, list[memoryview]]] = {}
        self._numbers = itertools.count()
        for _ in range(ahead * count):
            self._ask()

    def __iter__(self) -> WorkerPass:
        return self

    def __len__(self) -> int:
        return len(self._sampler)

    @property
    def _workers(self) -> list[BaseProcess]:
        """The processes, as PyTorch's iterator holds them."""
        return self._pool.processes

    def __next__(self) -> object:
        if self._asked and self._epoch != self._pool.epoch:
            raise RuntimeError(
                "DataLoader with persistent_workers: a newer pass has taken the workers over; only the newest can be "
                "continued"
            )
        reply = unpack(self._next_parts())
        if isinstance(reply, Failure):
            reply.reraise()
        self._note(reply.samples)
        return reply.value

    def _next_parts(self) -> list[memoryview]:
        while self._asked:
            number = next(iter(self._asked if self._in_order else self._arrived), None)
            if number not in self._arrived:
                self._wait()
                continue
            worker, (ended, parts) = self._asked.pop(number), self._arrived.pop(number)
            if not ended:
                self._ask()
                return parts
            self._retire(worker)
        if not self._keep:
            self._pool.close()
        raise StopIteration

    def _ask(self) -> None:
        """Give the next indices, if there are any, to the next worker in turn whose stream has not ended."""
        if not self._going:
            return
        indices = next(self._indices, _END)
        if indices is _END:
            return
        worker = next(each for each in self._turns if each in self._going)
        number = next(self._numbers)
        self._asked[number] = worker
        self._pool.send(worker, (self._epoch, number, indices))

    def _retire(self, worker: int) -> None:
        """No more tasks for a worker whose stream has ended; its other answers say the same."""
        self._going.discard(worker)
        for number in [number for number, asked in self._asked.items() if asked == worker]:
            del self._asked[number]
            self._arrived.pop(number, None)

    def _wait(self) -> None:
        try:
            answers = self._pool.receive(self._timeout)
        except RuntimeError:
            if not all(process.is_alive() for process in self._pool.processes):
                self._give_up()
            raise
        except KeyboardInterrupt:
            for process in self._pool.processes:  # whoever presses Ctrl-C does not want to wait for a batch
                process.kill()
            self._give_up()
            raise
        for (epoch, number, ended), parts in answers:
            if epoch == self._epoch and number in self._asked:
                self._arrived[number] = ended, parts

    def _give_up(self) -> None:
        self._pool.close()
        self._asked.clear()
