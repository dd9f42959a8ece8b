"""The recorder: stores notes with little overhead. `watch` defines what the notes mean.

A note as a tuple of Python numbers would cost a fifth of a microsecond, half of it for creating the numbers and for
memory, and a walk over Python's frames several microseconds. So the functions that run at every op are native, from
LLVM IR: `clock()` returns nanoseconds, `note(start, category, subject, detail, end=now)` writes six words, and
`stack_id()` identifies the stack of calls. The clock is that of `time.perf_counter_ns`. The GIL is held throughout;
there is one recorder per process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from ..device import native

_TEXT = """
%Note = type { i64, i64, i64, ptr, ptr, ptr }  ; start, end, thread, category, subject, detail
@notes = internal global ptr null
@count = internal global i64 0
@room = internal global i64 0
@_Py_NoneStruct = external global i8

declare void @Py_IncRef(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i64 @PyThread_get_thread_ident()
declare ptr @PyMem_RawRealloc(ptr, i64)
declare void @PyMem_RawFree(ptr)
declare ptr @PyErr_NoMemory()
declare void @Py_DecRef(ptr)
declare ptr @PyEval_GetFrame()
declare ptr @PyFrame_GetBack(ptr)
declare ptr @PyFrame_GetCode(ptr)
declare i32 @PyFrame_GetLasti(ptr)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)

define ptr @clock(ptr %self, ptr %nothing) {
  %now = call i64 @now()
  %boxed = tail call ptr @PyLong_FromLongLong(i64 %now)
  ret ptr %boxed
}

define internal void @store_object(ptr %note, i32 %field, ptr %arguments, i64 %which) alwaysinline {
  %from = getelementptr ptr, ptr %arguments, i64 %which
  %object = load ptr, ptr %from
  call void @Py_IncRef(ptr %object)
  %word = zext i32 %field to i64
  %to = getelementptr i64, ptr %note, i64 %word
  store ptr %object, ptr %to
  ret void
}

define internal i64 @number(ptr %arguments, i64 %which) alwaysinline {
  %from = getelementptr ptr, ptr %arguments, i64 %which
  %boxed = load ptr, ptr %from
  %value = call i64 @PyLong_AsLongLong(ptr %boxed)
  ret i64 %value
}

define ptr @note(ptr %self, ptr %arguments, i64 %argument_count) {
  %count = load i64, ptr @count
  %room = load i64, ptr @room
  %full = icmp eq i64 %count, %room
  br i1 %full, label %grow, label %write
grow:
  %double = shl i64 %room, 1
  %more = add i64 %double, 4096
  %bytes = mul i64 %more, 48
  %before = load ptr, ptr @notes
  %moved = call ptr @PyMem_RawRealloc(ptr %before, i64 %bytes)
  %failed = icmp eq ptr %moved, null
  br i1 %failed, label %refuse, label %moving
refuse:
  %error = call ptr @PyErr_NoMemory()
  ret ptr %error
moving:
  store ptr %moved, ptr @notes
  store i64 %more, ptr @room
  br label %write
write:
  %notes = load ptr, ptr @notes
  %note = getelementptr %Note, ptr %notes, i64 %count
  %start = call i64 @number(ptr %arguments, i64 0)
  store i64 %start, ptr %note
  %thread = call i64 @PyThread_get_thread_ident()
  %third = getelementptr i64, ptr %note, i64 2
  store i64 %thread, ptr %third
  call void @store_object(ptr %note, i32 3, ptr %arguments, i64 1)
  call void @store_object(ptr %note, i32 4, ptr %arguments, i64 2)
  call void @store_object(ptr %note, i32 5, ptr %arguments, i64 3)
  %next = add i64 %count, 1
  store i64 %next, ptr @count
  %ended = icmp eq i64 %argument_count, 5
  br i1 %ended, label %end_given, label %end_now
end_given:
  %then = call i64 @number(ptr %arguments, i64 4)
  br label %finish
end_now:
  %now = call i64 @now()
  br label %finish
finish:
  %end = phi i64 [ %then, %end_given ], [ %now, %end_now ]
  %second = getelementptr i64, ptr %note, i64 1
  store i64 %end, ptr %second
  call void @Py_IncRef(ptr @_Py_NoneStruct)
  ret ptr @_Py_NoneStruct
}

define ptr @stack_id(ptr %self, ptr %nothing) {
  %innermost = call ptr @PyEval_GetFrame()
  call void @Py_IncRef(ptr %innermost)
  br label %frame
frame:
  %at = phi ptr [ %innermost, %0 ], [ %outer, %frame ]
  %sum = phi i64 [ 0, %0 ], [ %rotated, %frame ]
  %code = call ptr @PyFrame_GetCode(ptr %at)
  call void @Py_DecRef(ptr %code)  ; its frame keeps it
  %address = ptrtoint ptr %code to i64
  %instruction = call i32 @PyFrame_GetLasti(ptr %at)
  %line = sext i32 %instruction to i64
  %with_code = add i64 %sum, %address
  ; 2^64 over the golden ratio: every bit of the sum moves the upper half
  %spread = mul i64 %with_code, -7046029254386353131
  %with_line = add i64 %spread, %line
  %rotated = call i64 @llvm.fshl.i64(i64 %with_line, i64 %with_line, i64 32)
  %outer = call ptr @PyFrame_GetBack(ptr %at)
  call void @Py_DecRef(ptr %at)
  %outermost = icmp eq ptr %outer, null
  br i1 %outermost, label %done, label %frame
done:
  %boxed = call ptr @PyLong_FromLongLong(i64 %rotated)
  ret ptr %boxed
}
declare i64 @llvm.fshl.i64(i64, i64, i64)

define ptr @take(ptr %self, ptr %nothing) {
  %count = load i64, ptr @count
  %notes = load ptr, ptr @notes
  store i64 0, ptr @count
  store i64 0, ptr @room
  store ptr null, ptr @notes
  %words = mul i64 %count, 6
  %list = call ptr @PyList_New(i64 %words)
  br label %test
test:
  %k = phi i64 [ 0, %0 ], [ %following, %give ]
  %inside = icmp ult i64 %k, %words
  br i1 %inside, label %box, label %done
box:
  %at = getelementptr i64, ptr %notes, i64 %k
  %value = load i64, ptr %at
  %field = urem i64 %k, 6
  %timed = icmp ult i64 %field, 3
  br i1 %timed, label %convert, label %give
convert:
  %boxed = call ptr @PyLong_FromLongLong(i64 %value)
  %address = ptrtoint ptr %boxed to i64
  br label %give
give:
  %item = phi i64 [ %address, %convert ], [ %value, %box ]
  %object = inttoptr i64 %item to ptr
  %ignored = call i32 @PyList_SetItem(ptr %list, i64 %k, ptr %object)
  %following = add i64 %k, 1
  br label %test
done:
  call void @PyMem_RawFree(ptr %notes)
  ret ptr %list
}
"""
_NO_ARGUMENTS, _FAST = 0x4, 0x80  # calling conventions: METH_NOARGS, METH_FASTCALL


class Recorder(NamedTuple):
    """The native functions.

    `clock()` is the time in ns. `note(start, category, subject, detail)` stores a note that ends now. `take()` returns
    all notes since the last call, six items each, in one list. `stack_id()` identifies the caller's stack (code object
    and instruction of each frame); it is unique as long as the code objects exist.
    """

    clock: Callable[[], int]
    note: Callable[..., None]
    take: Callable[[], list]
    stack_id: Callable[[], int]


class _Definition(ctypes.Structure):
    """Python's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
        ("convention", ctypes.c_int),
        ("text", ctypes.c_char_p),
    ]


@cache
def recorder() -> Recorder:
    """The process's recorder. The first call takes ten milliseconds, plus as much to import LLVM."""
    engine = native.build(_TEXT)
    _owners.append(engine)
    conventions = {"clock": _NO_ARGUMENTS, "note": _FAST, "take": _NO_ARGUMENTS, "stack_id": _NO_ARGUMENTS}
    return Recorder(*(_function(engine, name, convention) for name, convention in conventions.items()))


_owners: list[object] = []  # owners of the native code and of its definitions


def _function(engine: object, name: str, convention: int) -> Callable:
    """A native function as a Python callable."""
    definition = _Definition(name.encode(), engine.get_function_address(name), convention, None)
    _owners.append(definition)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return make(ctypes.addressof(definition), None, None)
