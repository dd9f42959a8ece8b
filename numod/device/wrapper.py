"""The machine code that Python calls to launch a kernel: it unpacks flat arrays and numbers from a tuple.

Numba's wrapper has a page of instructions for each argument, which took a sixth of the compile time of kernels. Here
one function, shared by all kernels, unpacks the arguments; a byte string describes their kinds.
"""

from __future__ import annotations

TAKE_ARGUMENTS = "numod_take_arguments"
_INTEGER, _FLOAT, _COMPLEX, _ARRAY = 0, 1, 2, 16  # kinds; that of an array is 16 and the size of an item
TAKE_ARGUMENTS_TEXT = f"""
@count = private constant [45 x i8] c"a kernel was given a wrong number of objects\\00"
@kind = private constant [42 x i8] c"a kernel was given an array of other type\\00"
@PyExc_TypeError = external global i8  ; Numba gives this name to the class itself
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyNumber_Long(ptr)
declare i64 @PyLong_AsLongLong(ptr)
declare void @Py_DecRef(ptr)
declare double @PyFloat_AsDouble(ptr)
declare double @PyComplex_RealAsDouble(ptr)
declare double @PyComplex_ImagAsDouble(ptr)
declare ptr @PyErr_Occurred()
declare void @PyErr_SetString(ptr, ptr)
declare i32 @numba_adapt_ndarray(ptr, ptr)

; two words for each argument; 0 where an error is set
define i32 @{TAKE_ARGUMENTS}(ptr %arguments, i64 %n, ptr %kinds, ptr %places) {{
  ; its owner, two words; its length, the size of an item, the data; up to 32 sizes and strides
  %array = alloca [72 x i64]
  %given = call i64 @PyTuple_Size(ptr %arguments)
  %fits = icmp eq i64 %given, %n
  br i1 %fits, label %next, label %miscounted
next:
  %k = phi i64 [ 0, %0 ], [ %after, %taken ]
  %done = icmp eq i64 %k, %n
  br i1 %done, label %good, label %take
take:
  %object = call ptr @PyTuple_GetItem(ptr %arguments, i64 %k)
  %at = getelementptr i8, ptr %kinds, i64 %k
  %which = load i8, ptr %at
  %twice = shl i64 %k, 1
  %place = getelementptr i64, ptr %places, i64 %twice
  %second = getelementptr i64, ptr %place, i64 1
  switch i8 %which, label %of_array [
    i8 {_INTEGER}, label %of_integer i8 {_FLOAT}, label %of_float i8 {_COMPLEX}, label %of_complex ]
of_array:
  %failed = call i32 @numba_adapt_ndarray(ptr %object, ptr %array)
  %size_at = getelementptr i64, ptr %array, i64 3
  %size = load i64, ptr %size_at
  %wide = zext i8 %which to i64
  %expected = sub i64 %wide, {_ARRAY}
  %same = icmp eq i64 %size, %expected
  %adapted = icmp eq i32 %failed, 0
  %right = and i1 %same, %adapted
  br i1 %right, label %is_array, label %mistyped
is_array:
  %data_at = getelementptr i64, ptr %array, i64 4
  %data = load i64, ptr %data_at
  %length_at = getelementptr i64, ptr %array, i64 2
  %length = load i64, ptr %length_at
  store i64 %data, ptr %place
  store i64 %length, ptr %second
  br label %taken
of_integer:
  %whole = call ptr @PyNumber_Long(ptr %object)
  %none = icmp eq ptr %whole, null
  br i1 %none, label %bad, label %is_whole
is_whole:
  %integer = call i64 @PyLong_AsLongLong(ptr %whole)
  call void @Py_DecRef(ptr %whole)
  store i64 %integer, ptr %place
  %doubtful = icmp eq i64 %integer, -1
  br i1 %doubtful, label %check, label %taken
of_float:
  %float = call double @PyFloat_AsDouble(ptr %object)
  store double %float, ptr %place
  %odd = fcmp oeq double %float, -1.0
  br i1 %odd, label %check, label %taken
of_complex:
  %real = call double @PyComplex_RealAsDouble(ptr %object)
  %imaginary = call double @PyComplex_ImagAsDouble(ptr %object)
  store double %real, ptr %place
  store double %imaginary, ptr %second
  %strange = fcmp oeq double %real, -1.0
  br i1 %strange, label %check, label %taken
check:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %taken, label %bad
taken:
  %after = add i64 %k, 1
  br label %next
good:
  ret i32 1
miscounted:
  call void @PyErr_SetString(ptr @PyExc_TypeError, ptr @count)
  br label %bad
mistyped:
  call void @PyErr_SetString(ptr @PyExc_TypeError, ptr @kind)
  br label %bad
bad:
  ret i32 0
}}
"""


def text(name: str, function: str, environment: str, arguments: tuple, result: object, releases: bool) -> str | None:
    """LLVM's text of a wrapper `name` of the kernel `function`, by Numba's types of its arguments and result.

    None for types that kernels do not have.

    `environment` is the variable for Numba's, which no kernel uses. `releases`: whether the kernel runs without the
    GIL.
    """
    from numba import types
    from numba.core import callconv

    returned = f"i32 {callconv.RETCODE_OK.constant}, label %end i32 {callconv.RETCODE_NONE.constant}, label %end"
    if result not in (types.none, types.int64):
        return None
    n, kinds, lines, parameters_text = len(arguments), [], [], []
    for k, argument in enumerate(arguments):
        first, second = f"%first{k}", f"%second{k}"
        lines += [
            f"  %place{k} = getelementptr i64, ptr %places, i64 {2 * k}",
            f"  %after{k} = getelementptr i64, ptr %places, i64 {2 * k + 1}",
        ]
        if isinstance(argument, types.Array) and argument.ndim == 1 and argument.layout == "C":
            size = argument.dtype.bitwidth // 8
            kinds.append(_ARRAY + size)
            lines += [f"  {first} = load ptr, ptr %place{k}", f"  {second} = load i64, ptr %after{k}"]
            # without an owner
            parameters_text += [
                "ptr null",
                "ptr null",
                f"i64 {second}",
                f"i64 {size}",
                f"ptr {first}",
                f"i64 {second}",
                f"i64 {size}",
            ]
        elif argument in (types.int64, types.float64):
            kind = "i64" if argument == types.int64 else "double"
            kinds.append(_INTEGER if argument == types.int64 else _FLOAT)
            lines.append(f"  {first} = load {kind}, ptr %place{k}")
            parameters_text.append(f"{kind} {first}")
        elif argument == types.complex128:
            kinds.append(_COMPLEX)
            lines += [f"  {first} = load double, ptr %place{k}", f"  {second} = load double, ptr %after{k}"]
            parameters_text += [f"double {first}", f"double {second}"]
        else:
            return None
    parameter_types = ", ".join(["ptr", "ptr", *(parameter.split()[0] for parameter in parameters_text)])
    before, after = (
        ("%thread = call ptr @PyEval_SaveThread()", "call void @PyEval_RestoreThread(ptr %thread)")
        if releases
        else ("", "")
    )
    boxed = "%number = load i64, ptr %result\n  %boxed = call ptr @PyLong_FromLongLong(i64 %number)"
    boxed = (
        boxed
        if result == types.int64
        else "call void @Py_IncRef(ptr @_Py_NoneStruct)\n  %boxed = getelementptr i8, ptr @_Py_NoneStruct, i64 0"
    )
    loads = "\n".join(lines)
    return f"""
@kinds = private constant [{n} x i8] [{", ".join(f"i8 {parameter}" for parameter in kinds)}]
@failure = private constant [16 x i8] c"a kernel failed\\00"
@"{environment}" = common global ptr null
@_Py_NoneStruct = external global i8
@PyExc_RuntimeError = external global i8
declare i32 @{TAKE_ARGUMENTS}(ptr, i64, ptr, ptr)
declare i32 @"{function}"({parameter_types})
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare void @Py_IncRef(ptr)
declare void @PyErr_SetString(ptr, ptr)

define ptr @"{name}"(ptr %closure, ptr %arguments, ptr %named) {{
  %places = alloca [{2 * n} x i64]
  %result = alloca i64
  %raised = alloca ptr
  store i64 0, ptr %result
  store ptr null, ptr %raised
  %taken = call i32 @{TAKE_ARGUMENTS}(ptr %arguments, i64 {n}, ptr @kinds, ptr %places)
  %good = icmp ne i32 %taken, 0
  br i1 %good, label %run, label %bad
run:
{loads}
  {before}
  %status = call i32 @"{function}"({", ".join(["ptr %result", "ptr %raised", *parameters_text])}) noinline
  {after}
  switch i32 %status, label %fail [ {returned} ]
end:
  {boxed}
  ret ptr %boxed
fail:
  call void @PyErr_SetString(ptr @PyExc_RuntimeError, ptr @failure)
  br label %bad
bad:
  ret ptr null
}}
"""
