"""Chunks: when each thread of a parallel launch started and finished its part, recorded while `watch` is on, and how
long launches waited for threads.

Parallel kernels start their threads through a function of Numba's threading layer, resolved by name at link time.
Before the first one is linked, that name is redirected to a function of our own, which has the layer run each thread's
part between two clock readings. What a launch takes beyond its longest part, it has waited for a thread without a core
(`late`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from . import native, room

MOST = 1024  # parts recorded per launch
_TEXT = """
%Part = type { ptr, ptr, i64 }  ; function, data, nanoseconds of the longest part
%Chunk = type { i64, i64, i64 }  ; start, end, thread
@on = global i32 0
@count = global i64 0
@late = global i64 0
@chunks = global [MOST x %Chunk] zeroinitializer
declare i64 @PyThread_get_thread_ident()
declare void @numod_plain_parallel_for(ptr, ptr, ptr, ptr, ptr, i64, i64, i64)

define void @timed(ptr %arguments, ptr %sizes, ptr %steps, ptr %part) {
  %function = load ptr, ptr %part
  %second = getelementptr %Part, ptr %part, i64 0, i32 1
  %data = load ptr, ptr %second
  %start = call i64 @now()
  call void %function(ptr %arguments, ptr %sizes, ptr %steps, ptr %data)
  %end = call i64 @now()
  %took = sub i64 %end, %start
  %longest = getelementptr %Part, ptr %part, i64 0, i32 2
  atomicrmw max ptr %longest, i64 %took monotonic
  %on = load i32, ptr @on
  %plain = icmp eq i32 %on, 0
  br i1 %plain, label %done, label %record
record:
  %k = atomicrmw add ptr @count, i64 1 monotonic
  %fits = icmp ult i64 %k, MOST
  br i1 %fits, label %keep, label %done
keep:
  %chunk = getelementptr [MOST x %Chunk], ptr @chunks, i64 0, i64 %k
  store i64 %start, ptr %chunk
  %ended = getelementptr %Chunk, ptr %chunk, i64 0, i32 1
  store i64 %end, ptr %ended
  %ran = getelementptr %Chunk, ptr %chunk, i64 0, i32 2
  %thread = call i64 @PyThread_get_thread_ident()
  store i64 %thread, ptr %ran
  br label %done
done:
  ret void
}

define void @parallel_for(
    ptr %function, ptr %arguments, ptr %sizes, ptr %steps, ptr %data, i64 %inner, i64 %arrays, i64 %threads
) {
  %part = alloca %Part
  store ptr %function, ptr %part
  %second = getelementptr %Part, ptr %part, i64 0, i32 1
  store ptr %data, ptr %second
  %longest = getelementptr %Part, ptr %part, i64 0, i32 2
  store i64 0, ptr %longest
  %start = call i64 @now()
  call void @numod_plain_parallel_for(
    ptr @timed, ptr %arguments, ptr %sizes, ptr %steps, ptr %part, i64 %inner, i64 %arrays, i64 %threads
  )
  %end = call i64 @now()
  %took = sub i64 %end, %start
  %most = load i64, ptr %longest
  %late = sub i64 %took, %most
  %before = load i64, ptr @late
  %sum = add i64 %before, %late
  store i64 %sum, ptr @late
  ret void
}
""".replace("MOST", str(MOST))


class _State:
    """The native code's variables, as ctypes objects."""

    def __init__(self, engine: object) -> None:
        self.engine = engine
        self.on = ctypes.c_int32.from_address(engine.get_global_value_address("on"))
        self.late = ctypes.c_int64.from_address(engine.get_global_value_address("late"))
        self.count = ctypes.c_int64.from_address(engine.get_global_value_address("count"))
        self.chunks = (ctypes.c_int64 * (3 * MOST)).from_address(engine.get_global_value_address("chunks"))


@contextmanager
def _default_threads_kept() -> Iterator[None]:
    """Restore OpenMP's default number of threads, which Numba sets though it needs it nowhere: others, such as PyTorch,
    may use the same library.
    """
    openmp = ctypes.CDLL(None) if os.name == "posix" else None
    shared = hasattr(openmp, "omp_get_max_threads")
    before = openmp.omp_get_max_threads() if shared else 0
    yield
    if shared:
        openmp.omp_set_num_threads(before)


@cache
def install() -> _State:
    """Interpose between parallel kernels and the threading layer; must be called before the first kernel is linked."""
    import llvmlite.binding as llvm
    from numba import config
    from numba.np.ufunc.parallel import _launch_threads

    config.NUMBA_NUM_THREADS = room.startable(config.NUMBA_NUM_THREADS)
    with _default_threads_kept():
        _launch_threads()
    llvm.add_symbol("numod_plain_parallel_for", llvm.address_of_symbol("numba_parallel_for"))
    engine = native.build(_TEXT)
    llvm.add_symbol("numba_parallel_for", engine.get_function_address("parallel_for"))
    return _State(engine)


def late() -> int:
    """Nanoseconds that launches waited since the last call."""
    state = install()
    waited, state.late.value = state.late.value, 0
    return waited


def watch(on: bool) -> None:
    """Start or stop recording chunks."""
    if install.cache_info().currsize or on:
        state = install()
        state.count.value, state.on.value = 0, int(on)


def take() -> list[tuple[int, int, int]]:
    """(start, end, thread) of each part that ran since; times in ns."""
    state = install()
    count, state.count.value = min(state.count.value, MOST), 0
    found = state.chunks[: 3 * count]
    return list(zip(found[::3], found[1::3], found[2::3]))
