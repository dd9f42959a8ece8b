"""Code for Linux `perf`: a jitdump file, so that `perf annotate` shows the instructions of kernels.

`perf inject --jit` creates an object file per kernel from it:

    perf record -k mono python -m numod profile --jit-dump script.py
    perf inject --jit -i perf.data -o perf.jit.data && perf report -i perf.jit.data

The format is the kernel's tools/perf/Documentation/jitdump-specification.txt, version 1.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
import time
from threading import get_native_id

from ..kernel import build
from .perf_map import functions

_MAGIC, _VERSION, _LOAD, _CLOSE = 0x4A695444, 1, 0, 3
_MACHINES = {"x86_64": 62, "aarch64": 183}  # as ELF numbers them
_HEADER, _PREFIX, _CODE = struct.Struct("<IIIIIIQQ"), struct.Struct("<IIQ"), struct.Struct("<IIQQQQ")


class JitDump:
    """Writes the code of all kernels of this process, including future ones, until `close`. Linux only.

    `path` is the file, jit-<process>.dump in a folder, the name that `perf` expects. Raises OSError if it cannot be
    written.
    """

    def __init__(self, folder: str = "/tmp") -> None:
        self.path = os.path.join(folder, f"jit-{os.getpid()}.dump")
        self._file = open(self.path, "w+b")
        self._file.write(
            _HEADER.pack(
                _MAGIC, _VERSION, _HEADER.size, _MACHINES.get(platform.machine(), 0), 0, os.getpid(), _now(), 0
            )
        )
        self._file.flush()
        # perf finds the file by this mapping
        self._mark = mmap.mmap(self._file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
        self._written: set[int] = set()
        self._write_all()
        build.listeners.append(self._write_new)

    def __enter__(self) -> JitDump:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish the file. A second call does nothing."""
        if not self._file.closed:
            build.listeners.remove(self._write_new)
            self._file.write(_PREFIX.pack(_CLOSE, _PREFIX.size, _now()))
            self._file.close()
            self._mark.close()

    def _write_new(self, kernel: build.Kernel) -> None:
        self._write_all([*build.kernels(), kernel])

    def _write_all(self, kernels: list[build.Kernel] | None = None) -> None:
        mine = self.path.endswith(f"-{os.getpid()}.dump")  # a forked child must not write to the parent's file
        for address, size, name in functions(build.kernels() if kernels is None else kernels) if mine else ():
            if address not in self._written:
                self._written.add(address)
                self._write(address, ctypes.string_at(address, size), name.encode() + b"\0")
        self._file.flush()

    def _write(self, address: int, code: bytes, name: bytes) -> None:
        length = _PREFIX.size + _CODE.size + len(name) + len(code)
        self._file.write(_PREFIX.pack(_LOAD, length, _now()))
        self._file.write(
            _CODE.pack(os.getpid(), get_native_id(), address, address, len(code), len(self._written)) + name + code
        )


def _now() -> int:
    """Nanoseconds on the clock of `perf record -k mono`."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)
