"""`numod.multiprocessing.spawn`: processes that run one function, and the error of the first that fails."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from ..distributed.group import is_available
from ..distributed.spawn import Ranks, needs_ranks

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn",
    "start_processes",
]  # fmt: skip


class ProcessException(RuntimeError):
    """A started process failed: `msg`, its number `error_index` and its id `error_pid`."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """The function raised in a started process. The message has the traceback."""


class ProcessExitedException(ProcessException):
    """A started process ended by a signal (`signal_name`) or with another `exit_code` than 0."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _wrap(fn: Callable, i: int, args: tuple, errors: Connection) -> None:
    """The main function of a process: it sends the traceback of an error."""
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the starting process ends the others
    except Exception:
        errors.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Started processes: `join` waits for them and raises the error of the first that failed."""

    def __init__(self, processes: list[BaseProcess], error_files: list[Connection]) -> None:
        self.processes, self.error_files = processes, error_files
        self.sentinels = {process.sentinel: number for number, process in enumerate(processes)}
        self._unread = dict(zip(error_files, range(len(processes))))
        self._texts: dict[int, str] = {}  # errors of the function

    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends; returns whether all have ended.

        If one failed, the others have `grace_period` seconds to end, then they are terminated. Raises
        ProcessRaisedException with the traceback of the failed one, or ProcessExitedException.
        """
        ended = [self.sentinels.pop(sentinel) for sentinel in self._wait(timeout)]
        for number in ended:
            self.processes[number].join()
        failed = [number for number in ended if self.processes[number].exitcode]
        if not failed:
            return not self.sentinels
        self._end(grace_period)
        raise self._error(failed[0])

    def _wait(self, timeout: float | None) -> list[int]:
        """The sentinels of processes that have ended. Meanwhile reads their errors, which a pipe may not hold."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = wait([*self.sentinels, *self._unread], left) if self.sentinels else []
            for errors in [pipe for pipe in ready if pipe in self._unread]:
                self._read(errors)
            ended = [sentinel for sentinel in ready if sentinel in self.sentinels]
            if ended or not ready:
                return ended

    def _read(self, errors: Connection) -> None:
        """Keep the error that a pipe has; a process without one closes it."""
        number = self._unread.pop(errors)
        with suppress(EOFError, OSError):  # or was killed while it sent one
            self._texts[number] = errors.recv()

    def _end(self, grace_period: float | None) -> None:
        """End the processes that run: by waiting if there is a grace period, by a signal, and by force."""
        limits = [0.0 if grace_period is None else grace_period, 30.0 if grace_period is None else grace_period, None]
        for end, limit in zip((lambda process: None, BaseProcess.terminate, BaseProcess.kill), limits):
            for process in self.processes:
                if process.is_alive():
                    end(process)
            until = None if limit is None else time.monotonic() + limit
            for process in self.processes:
                process.join(None if until is None else max(0.0, until - time.monotonic()))

    def _error(self, number: int) -> ProcessException:
        process, errors = self.processes[number], self.error_files[number]
        if errors in self._unread and errors.poll():
            self._read(errors)
        text = self._texts.get(number)
        if text is not None:
            text = f"\n\n-- Process {number} terminated with the following error:\n{text}"
            return ProcessRaisedException(text, number, process.pid)
        if process.exitcode > 0:
            text = f"process {number} terminated with exit code {process.exitcode}"
            return ProcessExitedException(text, number, process.pid, process.exitcode)
        try:
            name = signal.Signals(-process.exitcode).name
        except ValueError:  # a real-time signal
            name = f"<Unknown signal {-process.exitcode}>"
        text = f"process {number} terminated with signal {name}"
        return ProcessExitedException(text, number, process.pid, process.exitcode, name)


class SpawnContext(ProcessContext):
    """PyTorch's former name of ProcessContext."""


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """Run fn(number, *args) in `nprocs` processes, and wait for them if `join`; else return their ProcessContext.

    Raises ProcessRaisedException or ProcessExitedException where one fails, once the others have been ended. If mpi4py
    is installed and `fn` calls `init_process_group`, the processes are started by mpiexec as its ranks.
    """
    if nprocs > 1 and is_available() and needs_ranks(fn):
        ranks = Ranks(fn, tuple(args), nprocs)
        if not join:
            return ranks
        ranks.join()
        return None
    context, processes, pipes = multiprocessing.get_context(start_method), [], []
    for number in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        processes.append(context.Process(target=_wrap, args=(fn, number, tuple(args), writer), daemon=daemon))
        processes[-1].start()
        writer.close()  # so that the reader sees the end of the process
        pipes.append(reader)
    started = SpawnContext(processes, pipes) if start_method == "spawn" else ProcessContext(processes, pipes)
    while join and not started.join():
        continue
    return None if join else started


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> Any:
    """`start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
