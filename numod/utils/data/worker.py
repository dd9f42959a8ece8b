"""A worker process of the DataLoader: it receives indices and sends batches. `pool` is the main process's side.

A task is (epoch, number, indices). Its reply has the label (epoch, number, ended) and contains a Batch or a Failure,
unless a stream has ended.
"""

from __future__ import annotations

import os
import queue
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import numpy as np

from ...core.create.generator import manual_seed
from ...device.threads import set_num_threads
from .fetch import Batch, Source
from .info import WorkerInfo, set_worker_info
from .transport import pack, send

GRACE = 2.0  # seconds after which a worker that does not end is killed
_GONE = float("inf")  # the epoch after the last: every task is older


class Failure:
    """An exception with its traceback as text, which can be raised in another process."""

    def __init__(self, error: BaseException, where: str) -> None:
        self.kind, self.where = type(error), where
        self.text = "".join(traceback.format_exception(error))

    def reraise(self) -> None:
        """Raise an exception of the same type, with the original traceback in its message.

        RuntimeError is raised if the type cannot be created from a text.
        """
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        try:
            error = self.kind(_Verbatim(message) if issubclass(self.kind, KeyError) else message)
        except Exception:  # its constructor may need other arguments
            raise RuntimeError(message) from None
        raise error


class _Verbatim(str):
    """A text whose repr is the text itself. KeyError shows the repr of its argument, which would hide line ends."""

    def __repr__(self) -> str:
        return str(self)


class _Inbox:
    """The tasks that arrive, read by a thread.

    So the sender never waits for a busy worker, and the end of the connection is noticed at once.
    """

    def __init__(self, connection: Connection) -> None:
        self.epoch, self._connection = 0.0, connection
        self._tasks: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        try:
            while True:
                task = self._connection.recv()
                self.epoch = task[0]
                self._tasks.put(task)
        except (EOFError, OSError):
            self.epoch = _GONE
            self._tasks.put(None)
        time.sleep(GRACE)
        os._exit(1)  # the main thread hangs in the dataset

    def __iter__(self) -> Iterator[tuple]:
        """Tasks of the current epoch, until the other side closes the connection."""
        while (task := self._tasks.get()) is not None:
            if task[0] == self.epoch:
                yield task


def run(
    connection: Connection,
    source: Source,
    worker_id: int,
    num_workers: int,
    base_seed: int,
    worker_init_fn: Callable | None,
) -> None:
    """The main function of a worker process."""
    # Ctrl-C reaches all processes of a terminal; only the main process handles it
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    inbox = _Inbox(connection)
    set_num_threads(1)
    set_worker_info(WorkerInfo(worker_id, num_workers, base_seed + worker_id, source.dataset))
    _seed(worker_id, base_seed)
    where = f"in DataLoader worker process {worker_id}"
    failure = None if worker_init_fn is None else _failure_of(lambda: worker_init_fn(worker_id), where)
    try:
        _serve(connection, inbox, source, where, failure)
    except (BrokenPipeError, ConnectionResetError):
        pass  # the main process closed its end during a reply


def _serve(connection: Connection, inbox: _Inbox, source: Source, where: str, failure: Failure | None) -> None:
    current, answer = None, None
    for epoch, number, indices in inbox:
        if epoch != current:
            current, answer = epoch, _Answers(source, where, failure)
        reply = answer(indices)
        send(connection, (epoch, number, reply is None), _packed(reply, where))


def _packed(reply: object, where: str) -> list[memoryview]:
    try:
        return pack(reply)
    except Exception as error:  # report that the reply cannot be pickled
        failure = reply if isinstance(reply, Failure) else Failure(error, where)
    failure.kind = RuntimeError  # a class local to a function cannot be pickled either
    return pack(failure)


class _Answers:
    """Replies to the tasks of one pass."""

    def __init__(self, source: Source, where: str, failure: Failure | None) -> None:
        self._source, self._where, self._ended = source, where, False
        self._failure = failure or _failure_of(self._start, where)

    def _start(self) -> None:
        self._fetch = self._source.start()

    def __call__(self, indices: object) -> Batch | Failure | None:
        if self._failure is not None:
            return self._failure
        if self._ended:
            return None
        try:
            return self._fetch(indices)
        except Exception as error:  # raised again in the main process
            self._ended = self._source.is_stream and isinstance(error, StopIteration)
            return None if self._ended else Failure(error, self._where)


def _failure_of(function: Callable[[], object], where: str) -> Failure | None:
    try:
        function()
    except Exception as error:  # raised again in the main process
        return Failure(error, where)
    return None


def _seed(worker_id: int, base_seed: int) -> None:
    """Seed all sources of random numbers with this worker's seed."""
    manual_seed(base_seed + worker_id)
    random.seed(base_seed + worker_id)
    np.random.seed(np.random.SeedSequence((worker_id, base_seed)).generate_state(4))
