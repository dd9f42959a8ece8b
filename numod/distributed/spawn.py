"""Starts the ranks of `multiprocessing.spawn` under mpiexec, for functions that call `init_process_group`."""

from __future__ import annotations

import glob
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from multiprocessing import spawn as python_spawn
from types import CodeType, FunctionType

from . import mpiexec


def needs_ranks(function: Callable) -> bool:
    """Whether a function calls `init_process_group`, itself or by functions and classes that it names."""
    seen, pending = set(), [function]
    while pending:
        candidate = pending.pop()
        if isinstance(candidate, FunctionType):
            functions = [candidate]
        elif isinstance(candidate, type):
            functions = vars(candidate).values()
        else:
            functions = ()
        for part in functions:
            if isinstance(part, FunctionType) and part not in seen and not part.__module__.startswith("numod."):
                seen.add(part)
                names = set(_names(part.__code__))
                if "init_process_group" in names:
                    return True
                pending += [part.__globals__[name] for name in names if name in part.__globals__]
    return False


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function's code and the functions within it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


class Ranks:
    """Processes that run function(rank, *arguments). `join` waits for them, and raises if one fails."""

    def __init__(self, function: Callable, arguments: tuple, count: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="numod-ranks-")
        self._path = os.path.join(self._folder, "call")
        preparation = python_spawn.get_preparation_data("rank")
        del preparation["authkey"]  # refuses to be pickled outside Python's own spawn
        with open(self._path, "wb") as file:
            pickle.dump((preparation, pickle.dumps((function, arguments))), file)
        worker = [sys.executable, "-m", "numod.distributed.worker", "--function", self._path]
        # the file may be read by its owner only, since it is unpickled: mkdtemp's folder is so
        self._process = mpiexec.start(mpiexec.command(worker, count, prefix=False))

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the ranks; returns whether they have ended. Raises RuntimeError with a failed one's error."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        except BaseException:  # Ctrl-C
            self.terminate()
            raise
        failures = sorted(glob.glob(f"{self._path}.*"), key=os.path.getmtime)
        texts = [(path.rpartition(".")[2], _text(path)) for path in failures]
        shutil.rmtree(self._folder, ignore_errors=True)
        if texts:
            rank, text = texts[0]
            raise RuntimeError(f"\n\n-- Process {rank} terminated with the following error:\n{text}")
        if code:
            raise RuntimeError(f"the ranks terminated with exit code {code}")
        return True

    def terminate(self) -> None:
        """End the ranks."""
        mpiexec.end(self._process)
        shutil.rmtree(self._folder, ignore_errors=True)

    kill = terminate


def _text(path: str) -> str:
    with open(path) as file:
        return file.read()
