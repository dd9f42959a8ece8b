"""The worker threads of parallel loops: a loop is split into shares, which the launching thread and the workers claim.

`threads` decides how many threads a launch uses; `division` compiles the loops.

A worker without a core claims no share, and the launch does not wait for it: the launching thread runs all unclaimed
shares. It waits only for shares that were begun, at most one for each worker. A waiting thread spins for a moment and
then sleeps on a lock, so that another thread gets its core. Workers never run Python code. The locks are Python's,
which exist on every system.

A loop that takes longer than the processor time of all its shares would have been faster with one thread. The
difference is counted (`lost`): waiting for a worker that lost its core within a share, waiting of the launching thread
for a core, waking workers. An uneven division of the work does not count.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache

from . import native

MAX_WORKERS = 1000
MAX_RECORDED_SHARES = 1024  # per launch
# nanoseconds for which a worker spins before it sleeps, longer than the gap between two launches of a training step
SPIN_NANOSECONDS = 100_000
LAST_SHARE_NANOSECONDS = 30_000  # for which the launching thread spins for the last share
SHARES_PER_THREAD = 4

_TEXT = """
%Line = type [16 x i64]  ; a cache line, so that threads do not write to one another's
%Share = type { i64, i64, i64 }  ; start, end, thread

; helpers << 48 | first unclaimed share << 24 | end of the unclaimed shares. The launching thread claims the first one,
; workers the last, so that data stay in a core's caches
@ticket = internal global i64 0, align 128
@done = internal global %Line zeroinitializer, align 128  ; shares that are done
@waiting = internal global %Line zeroinitializer, align 128  ; whether the launching thread sleeps
@asleep = internal global [MAX_WORKERS x %Line] zeroinitializer, align 128  ; whether a worker does
@function = internal global ptr null, align 128  ; the loop
@data = internal global ptr null
@shares = internal global i64 0
@worked = internal global %Line zeroinitializer, align 128  ; nanoseconds of processor time that the shares took
@lost = global i64 0  ; nanoseconds that loops took beyond those; below 0 where threads saved time
@woken = global ptr null  ; the launching thread's lock
@bells = global [MAX_WORKERS x ptr] zeroinitializer  ; the workers' locks
@on = global i32 0
@count = global i64 0
@recorded = global [MAX_RECORDED_SHARES x %Share] zeroinitializer

declare i64 @PyThread_get_thread_ident()
declare i32 @PyThread_acquire_lock(ptr, i32)
declare void @PyThread_release_lock(ptr)
declare i64 @llvm.umin.i64(i64, i64)
CLOCK

declare i32 @YIELD()

define internal i1 @is_called(i64 %ticket, i64 %worker) alwaysinline {
  %end = and i64 %ticket, 16777215
  %shifted = lshr i64 %ticket, 24
  %first = and i64 %shifted, 16777215
  %helpers = lshr i64 %ticket, 48
  %left = icmp ult i64 %first, %end
  %helps = icmp ule i64 %worker, %helpers
  %called = and i1 %left, %helps
  ret i1 %called
}

; claim a share: its number, or -1. Worker 0 is the launching thread
define internal i64 @claim(i64 %worker) {
  %read = load atomic i64, ptr @ticket seq_cst, align 8
  br label %try
try:
  %ticket = phi i64 [ %read, %0 ], [ %changed, %take ]
  %called = call i1 @is_called(i64 %ticket, i64 %worker)
  br i1 %called, label %take, label %none
take:
  %launches = icmp eq i64 %worker, 0
  %step = select i1 %launches, i64 16777216, i64 -1
  %next = add i64 %ticket, %step
  %pair = cmpxchg ptr @ticket, i64 %ticket, i64 %next seq_cst seq_cst
  %changed = extractvalue { i64, i1 } %pair, 0
  %won = extractvalue { i64, i1 } %pair, 1
  br i1 %won, label %mine, label %try
mine:
  %shifted = lshr i64 %ticket, 24
  %first = and i64 %shifted, 16777215
  %end = and i64 %ticket, 16777215
  %last = sub i64 %end, 1
  %share = select i1 %launches, i64 %first, i64 %last
  ret i64 %share
none:
  ret i64 -1
}

define internal void @run(i64 %share) {
  %function = load ptr, ptr @function
  %data = load ptr, ptr @data
  %on = load i32, ptr @on
  %plain = icmp eq i32 %on, 0
  br i1 %plain, label %call, label %watched
call:
  call void %function(ptr %data, i64 %share)
  ret void
watched:
  %start = call i64 @now()
  call void %function(ptr %data, i64 %share)
  %end = call i64 @now()
  %k = atomicrmw add ptr @count, i64 1 monotonic
  %fits = icmp ult i64 %k, MAX_RECORDED_SHARES
  br i1 %fits, label %keep, label %full
keep:
  %record = getelementptr [MAX_RECORDED_SHARES x %Share], ptr @recorded, i64 0, i64 %k
  store i64 %start, ptr %record
  %ended = getelementptr %Share, ptr %record, i64 0, i32 1
  store i64 %end, ptr %ended
  %ran = getelementptr %Share, ptr %record, i64 0, i32 2
  %thread = call i64 @PyThread_get_thread_ident()
  store i64 %thread, ptr %ran
  ret void
full:
  ret void
}

; record that a share is done; after the last one the launching thread may begin another loop
define internal void @finish() {
  %shares = load i64, ptr @shares
  %before = atomicrmw add ptr @done, i64 1 seq_cst
  %count = add i64 %before, 1
  %last = icmp eq i64 %count, %shares
  br i1 %last, label %look, label %end
look:
  %sleeps = load atomic i64, ptr @waiting seq_cst, align 8
  %awake = icmp eq i64 %sleeps, 0
  br i1 %awake, label %end, label %change
change:
  %slept = atomicrmw xchg ptr @waiting, i64 0 seq_cst
  %others = icmp eq i64 %slept, 0
  br i1 %others, label %end, label %wake
wake:
  %lock = load ptr, ptr @woken
  call void @PyThread_release_lock(ptr %lock)
  br label %end
end:
  ret void
}

; sleep until another thread has set the flag to 0 and released the lock; return at once if `ready`
define internal void @sleep(ptr %flag, ptr %lock, i1 %ready) {
  br i1 %ready, label %cancel, label %wait
cancel:
  %set = atomicrmw xchg ptr %flag, i64 0 seq_cst
  %own = icmp eq i64 %set, 1
  br i1 %own, label %end, label %wait
wait:
  %got = call i32 @PyThread_acquire_lock(ptr %lock, i32 1)
  br label %end
end:
  ret void
}

; run shares until none is unclaimed. A short share's wall-clock time counts as its processor time, which saves a system
; call
define internal void @help(i64 %worker) {
  %began = call i64 @now()
  %ran_before = call i64 @thread_time()
  br label %next
next:
  %since = phi i64 [ %began, %0 ], [ %ended, %short ], [ %ended, %long ]
  %ran_then = phi i64 [ %ran_before, %0 ], [ %ran_with, %short ], [ %ran_since, %long ]
  %share = call i64 @claim(i64 %worker)
  %none = icmp eq i64 %share, -1
  br i1 %none, label %end, label %do
do:
  call void @run(i64 %share)
  %ended = call i64 @now()
  %took = sub i64 %ended, %since
  %is_short = icmp slt i64 %took, LAST_SHARE_NANOSECONDS
  br i1 %is_short, label %short, label %long
short:
  %ran_with = add i64 %ran_then, %took
  %short_sum = atomicrmw add ptr @worked, i64 %took monotonic
  call void @finish()
  br label %next
long:
  %ran_since = call i64 @thread_time()
  %ran = sub i64 %ran_since, %ran_then
  %long_sum = atomicrmw add ptr @worked, i64 %ran monotonic
  call void @finish()
  br label %next
end:
  ret void
}

; the endless loop of a worker
define void @work(i64 %worker) {
  %flag = getelementptr [MAX_WORKERS x %Line], ptr @asleep, i64 0, i64 %worker
  %bell = getelementptr [MAX_WORKERS x ptr], ptr @bells, i64 0, i64 %worker
  %lock = load ptr, ptr %bell
  br label %idle
idle:
  %idle_since = call i64 @now()
  br label %look
look:
  %ticket = load atomic i64, ptr @ticket seq_cst, align 8
  %called = call i1 @is_called(i64 %ticket, i64 %worker)
  br i1 %called, label %serve, label %spin
spin:
  %spinning = call i64 @now()
  %idle_for = sub i64 %spinning, %idle_since
  %patient = icmp slt i64 %idle_for, SPIN_NANOSECONDS
  br i1 %patient, label %look_again, label %lie_down
look_again:
  %yielded = call i32 @YIELD()
  br label %look
lie_down:
  store atomic i64 1, ptr %flag seq_cst, align 8
  %again = load atomic i64, ptr @ticket seq_cst, align 8
  %ready = call i1 @is_called(i64 %again, i64 %worker)
  call void @sleep(ptr %flag, ptr %lock, i1 %ready)
  br label %serve
serve:
  call void @help(i64 %worker)
  br label %idle
}

define void @divide(ptr %function, ptr %data, i64 %shares, i64 %threads) {
  %began = call i64 @now()
  store ptr %function, ptr @function
  store ptr %data, ptr @data
  store i64 %shares, ptr @shares
  store i64 0, ptr @worked
  store atomic i64 0, ptr @done seq_cst, align 8
  %others = sub i64 %shares, 1
  %most = sub i64 %threads, 1
  %helpers = call i64 @llvm.umin.i64(i64 %others, i64 %most)
  %shifted = shl i64 %helpers, 48
  %all = or i64 %shifted, %shares
  store atomic i64 %all, ptr @ticket seq_cst, align 8
  br label %each
each:
  %worker = phi i64 [ 1, %0 ], [ %following, %called ]
  %more = icmp ule i64 %worker, %helpers
  br i1 %more, label %call, label %serve
call:
  %flag = getelementptr [MAX_WORKERS x %Line], ptr @asleep, i64 0, i64 %worker
  %sleeps = load atomic i64, ptr %flag seq_cst, align 8
  %awake = icmp eq i64 %sleeps, 0
  br i1 %awake, label %called, label %change
change:
  %slept = atomicrmw xchg ptr %flag, i64 0 seq_cst
  %woke = icmp eq i64 %slept, 0
  br i1 %woke, label %called, label %ring
ring:
  %bell = getelementptr [MAX_WORKERS x ptr], ptr @bells, i64 0, i64 %worker
  %lock = load ptr, ptr %bell
  call void @PyThread_release_lock(ptr %lock)
  br label %called
called:
  %following = add i64 %worker, 1
  br label %each
serve:
  call void @help(i64 0)
  br label %look
look:
  %done = load atomic i64, ptr @done seq_cst, align 8
  %all_done = icmp eq i64 %done, %shares
  br i1 %all_done, label %end, label %wait
wait:
  %waits_since = call i64 @now()
  br label %spin
spin:
  %done_now = load atomic i64, ptr @done seq_cst, align 8
  %over = icmp eq i64 %done_now, %shares
  br i1 %over, label %end, label %still
still:
  %spinning = call i64 @now()
  %waited_for = sub i64 %spinning, %waits_since
  %patient = icmp slt i64 %waited_for, LAST_SHARE_NANOSECONDS
  br i1 %patient, label %spin_again, label %lie_down
spin_again:
  %yielded = call i32 @YIELD()
  br label %spin
lie_down:
  store atomic i64 1, ptr @waiting seq_cst, align 8
  %done_then = load atomic i64, ptr @done seq_cst, align 8
  %ready = icmp eq i64 %done_then, %shares
  %own = load ptr, ptr @woken
  call void @sleep(ptr @waiting, ptr %own, i1 %ready)
  %done_at_last = load atomic i64, ptr @done seq_cst, align 8
  %woken_in_time = icmp eq i64 %done_at_last, %shares
  br i1 %woken_in_time, label %end, label %lie_down  ; a late wake-up of the loop before
end:
  %ended = call i64 @now()
  %took = sub i64 %ended, %began
  %worked = load i64, ptr @worked
  %lost = sub i64 %took, %worked
  %lost_before = load i64, ptr @lost
  %sum = add i64 %lost_before, %lost
  store i64 %sum, ptr @lost
  ret void
}
"""
_CLOCKS = {  # the number of the clock of a thread's processor time
    "linux": 3,
    "darwin": 16,
}
_CLOCK = """
declare i32 @clock_gettime(i32, ptr)
define internal i64 @thread_time() {
  %place = alloca { i64, i64 }
  %failed = call i32 @clock_gettime(i32 NUMBER, ptr %place)
  %seconds = load i64, ptr %place
  %second = getelementptr { i64, i64 }, ptr %place, i64 0, i32 1
  %rest = load i64, ptr %second
  %whole = mul i64 %seconds, 1000000000
  %time = add i64 %whole, %rest
  ret i64 %time
}
"""
# Windows measures this time in steps of milliseconds only; there, waiting for a core within a share counts as work
_NO_CLOCK = """
define internal i64 @thread_time() alwaysinline {
  %time = call i64 @now()
  ret i64 %time
}
"""


class Team:
    """The workers, and the native code's variables as ctypes objects."""

    def __init__(self, text: str) -> None:
        self.engine = native.build(text)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.engine))  # workers run its code until the process ends
        self.divide = self.engine.get_function_address("divide")
        self.lost, self.count = (self._variable(ctypes.c_int64, name) for name in ("lost", "count"))
        self.on = self._variable(ctypes.c_int32, "on")
        self.recorded = self._variable(ctypes.c_int64 * (3 * MAX_RECORDED_SHARES), "recorded")
        self._bells = self._variable(ctypes.c_void_p * MAX_WORKERS, "bells")
        self._variable(ctypes.c_void_p, "woken").value = _lock()
        # the number of threads, including the launching one; whether the system refused to start another
        self.size, self.refused = 1, False

    def _variable(self, kind: type, name: str) -> object:
        return kind.from_address(self.engine.get_global_value_address(name))

    def grow(self, size: int) -> int:
        """Start threads until there are `size`, or as many as the system allows; returns how many of them there are."""
        while self.size < min(size, MAX_WORKERS) and not self.refused:
            self._bells[self.size] = _lock()
            self.refused = _start(self.engine.get_function_address("work"), self.size) == -1
            self.size += not self.refused
        return min(size, self.size)


def _start(work: int, worker: int) -> int:
    """Start a thread, unknown to Python, that calls the function at `work` with a number; returns -1 on failure."""
    start = ctypes.pythonapi.PyThread_start_new_thread
    start.argtypes, start.restype = [ctypes.c_void_p, ctypes.c_void_p], ctypes.c_ssize_t
    return start(work, worker)


def _lock() -> int:
    """A lock of Python's C API, acquired."""
    allocate, acquire = ctypes.pythonapi.PyThread_allocate_lock, ctypes.pythonapi.PyThread_acquire_lock
    allocate.restype, acquire.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_int]
    lock = allocate()
    if not lock:
        raise MemoryError("no memory for a lock of a worker thread")
    acquire(lock, 1)
    return lock


@cache
def team() -> Team:
    """The process's workers, none at first. Must be called before a kernel with parallel loops is linked."""
    import llvmlite.binding as llvm

    workers = create()
    llvm.add_symbol("numod_divide", workers.divide)
    return workers


def create() -> Team:
    """A new `Team`."""
    clock = _CLOCKS.get(sys.platform)
    values = {
        "CLOCK": _NO_CLOCK if clock is None else _CLOCK.replace("NUMBER", str(clock)),
        "YIELD": "sched_yield" if os.name == "posix" else "SwitchToThread",
        "MAX_WORKERS": str(MAX_WORKERS),
        "MAX_RECORDED_SHARES": str(MAX_RECORDED_SHARES),
        "LAST_SHARE_NANOSECONDS": str(LAST_SHARE_NANOSECONDS),
        "SPIN_NANOSECONDS": str(SPIN_NANOSECONDS),
    }
    text = _TEXT
    for name, value in values.items():
        text = text.replace(name, value)
    return Team(text)
