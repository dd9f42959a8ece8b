"""Launches that wait while LLVM works on their kernels, so that several kernels are compiled at a time.

In a process without a cache, each op of a first step needs new kernels. Their front end runs in Python, LLVM's part in
background threads. So the launch of a new kernel, and those that follow it, wait in a queue, and the program goes on
with the next op. A storage that such a launch reads or writes hides its `data` meanwhile: whoever reads this attribute
(a launch outside of the queue, `numpy()`, `item()`) runs the queue first. So results and their order are the same.

Only with NUMOD_COMPILE_AHEAD=1: an op's time and its errors then appear where a result is read.

Memory that something else than its storage refers to, such as NumPy's views, is not deferred; nor are ops that may
raise, nor ops while a profiler listens, nor ops of other threads than the main thread.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from sys import getrefcount

import numpy as np

from .. import dtypes
from ..device import Layout, Storage, background, host_memory, signals, storage
from ..kernel import build
from ..ops.op import Op, Plan
from .listeners import listeners
from .tensor import Tensor

MOST_BYTES = 1 << 28  # of results that wait; eager ops would have freed some of them
_slot = vars(Storage)["data"]
_queue: deque[tuple[Callable, tuple]] = deque()  # launches with their arguments
# hidden data of storages, with weak references to them, by id
_hidden: dict[int, tuple[weakref.ref, np.ndarray]] = {}
_plans: dict[tuple[Op, tuple], Plan] = {}  # plans that defer their launch
_lock = threading.RLock()
_bytes = 0  # of results that wait
_read: list[tuple[weakref.ref, int]] = []  # the other storages that launches use, and their sizes in bytes
_bytes_read = 0  # the sum of these
dtypes.on_default_change.append(_plans.clear)  # as the plans of ops: they may be others then


class Hidden(Storage):
    """A storage while launches wait that read or write its data. Reading `data` runs them."""

    __slots__ = ()

    def __getattr__(self, name: str) -> object:
        if name != "data":
            raise AttributeError(f"'Storage' object has no attribute '{name}'")
        with _lock:  # otherwise the main thread could hide the data again
            run_all()
            return _slot.__get__(self)

    def __reduce_ex__(self, protocol: object) -> object:
        run_all()
        return Storage.__reduce_ex__(self, protocol)


Hidden.__module__, Hidden.__qualname__, Hidden.__name__ = Storage.__module__, Storage.__qualname__, Storage.__name__


def planned(op: Op, key: tuple, make: Callable[[], Plan], runner: Callable[[Plan, bool], Callable]) -> Plan:
    """The plan of a call that is not among the op's plans, with `run`.

    `make` makes the plan, `runner(plan, hidden)` its `run`, which finds `hidden` data. If its kernels are not complete,
    or launches wait, `run` defers the launch. Then the op does not remember the plan, which is made again later.
    """
    if not _suits(op):
        plan = make()
        plan.run = runner(plan, False)
        op.remember(key, plan)
        return plan
    plan = _plans.get((op, key))
    if plan is None:
        with build.ahead() as complete:
            plan = make()
        plan.run = runner(plan, False)
        if _on_cpu(plan) and waits(complete):
            _plans[op, key] = plan
            plan.run = _deferring(plan, runner)
        elif all(complete):
            op.remember(key, plan)
    return plan


def waits(complete: list[bool]) -> bool:
    """Whether a launch is deferred: of its kernels, which are `complete` or not, or since others wait."""
    return bool(complete) and (bool(_queue) or not all(complete))


def _suits(op: Op) -> bool:
    return (
        not op.reports
        and op.repeatable
        and threading.current_thread() is threading.main_thread()
        and not storage.addressed
        and not build.listeners
        and all(hasattr(listener, "schedule_stepped") for listener in listeners)  # recorders of compiled functions
        and not type(op).__module__.startswith("numod.ops.linalg")  # it may raise
        and background.suits()
    )


def _on_cpu(plan: Plan) -> bool:
    layouts = plan.layout if isinstance(plan.layout, tuple) else (plan.layout,)
    return all(layout.device.type == "cpu" for layout in layouts if isinstance(layout, Layout))


def _deferring(plan: Plan, runner: Callable[[Plan, bool], Callable]) -> Callable:
    """`run` for a plan: it appends the launch to the queue, if only storages refer to the memory."""
    usual, launch = plan.run, plan.launch
    waiting = Plan(plan.layout, lambda *arguments: _queue.append((launch, arguments)), plan.constants)
    waiting.kinds = plan.kinds
    append = runner(waiting, True)

    def run(inputs: tuple, *targets: tuple[Tensor, ...]) -> object:
        global _bytes, _bytes_read
        used = [x._storage for part in (inputs, *targets) for x in part if isinstance(x, Tensor)]
        with _lock:
            if not all(map(_may_hide, used)) or any(map(_overflows, inputs)):
                outputs = usual(inputs, *targets)
                if not background.is_busy():
                    run_all()  # so that the op remembers its plan
                return outputs
            with signals.waiting():  # an exception would leave a launch in the queue whose storages are not hidden
                outputs = append(inputs, *targets)
                results = [] if outputs is None else [x._storage for x in _as_tuple(outputs)]
                _bytes += sum(memory.nbytes() for memory in results)
                first_read = [(weakref.ref(memory), memory.nbytes()) for memory in used if type(memory) is Storage]
                _read.extend(first_read)
                _bytes_read += sum(size for _, size in first_read)
                for memory in (*used, *results):
                    _hide(memory)
            if _is_much() or not background.is_busy():
                run_all()
        return outputs

    return run


def _is_much() -> bool:
    """Whether launches keep more memory than they may: results, and what they read of storages that have died."""
    return _bytes + _bytes_read > MOST_BYTES and (
        _bytes + sum(size for memory, size in _read if memory() is None) > MOST_BYTES
    )


def _as_tuple(outputs: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return outputs if isinstance(outputs, tuple) else (outputs,)


def _overflows(number: object) -> bool:
    """Whether a launch with this argument raises OverflowError, which `apply` handles."""
    return type(number) is int and not -(1 << 63) <= number < 1 << 63


def _may_hide(memory: Storage) -> bool:
    """Whether nothing but the storage refers to its memory. It may be hidden already."""
    return type(memory) is Hidden or (
        type(memory) is Storage
        and type(memory.data) is np.ndarray
        and _references(memory) == _UNSHARED
        and host_memory.is_own(memory.data)
    )


def _references(memory: Storage) -> int:
    data = memory.data
    return getrefcount(data)


_UNSHARED = _references(Storage(np.empty(1)))  # the count differs between versions of Python


def _hide(memory: Storage) -> None:
    if type(memory) is Storage:
        _hidden[id(memory)] = weakref.ref(memory), memory.data
        memory.__class__ = Hidden
        _slot.__delete__(memory)


def _data(memory: Storage) -> np.ndarray:
    """The data of a storage, which may be hidden."""
    return _hidden[id(memory)][1] if type(memory) is Hidden else memory.data


def data_of(x: Tensor) -> np.ndarray:
    """The data of a tensor from its offset on, which may be hidden."""
    data = _data(x._storage)
    return data[x._offset :] if x._offset else data


def length_of(memory: Storage) -> int:
    """The number of elements of a storage, whose data may be hidden."""
    if type(memory) is not Hidden:  # without the lock; if another thread hides the data meanwhile, reading it is right
        return memory.data.size
    with _lock:
        return _data(memory).size


def run_all() -> None:
    """Run the launches that wait. A signal's handler may raise between two of them; the others wait on."""
    global _bytes, _bytes_read
    with _lock:
        build.complete_all()
        while _queue:
            with signals.waiting():
                launch, arguments = _queue[0]
                try:
                    launch(*arguments)
                except MemoryError:  # the next reader tries again
                    raise
                except Exception:
                    _queue.popleft()
                    raise
                _queue.popleft()
        _plans.clear()
        _read.clear()
        _bytes = _bytes_read = 0
        for key, entry in tuple(_hidden.items()):
            memory = entry[0]()
            if memory is not None:
                _slot.__set__(memory, entry[1])
                memory.__class__ = Storage
            if _hidden.get(key) is entry:  # last, since a signal's handler may read the data
                del _hidden[key]


def _leave_parent() -> None:
    _lock.acquire()
    run_all()


def _enter_child() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_leave_parent, after_in_parent=lambda: _lock.release(), after_in_child=_enter_child)
