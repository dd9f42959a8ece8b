"""Numba in less time: what a kernel does not need is left out of its compilation, and what two kernels share is compiled once. Not how kernels run.

Most of a compilation is Python: inferring types, and writing LLVM's text. A kernel is loops over flat arrays and numbers, without closures,
array expressions, generators or references to count, so half of Numba's passes look for what cannot be there.
"""

from __future__ import annotations

import builtins
import dis
import functools
import gc
import operator
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SPARED = (  # passes for array expressions, closures, `with`, literal_unroll, inlining by Numba
    "with_lifting", "inline_closure_likes", "rewrite_dynamic_raises", "make_function_op_code_to_jit_function", "inline_inlinables", "find_literally", "literal_unroll",
    "inline_overloads", "nopython_rewrites",
)  # fmt: skip
_helpers: dict[tuple, Callable] = {}
_waiting = False  # whether collecting garbage has been put off


def device_function(function: Callable | None = None, **options: object) -> Callable:
    """Let kernels call a function, as a decorator. One of the same code over the same names, in another kernel's text, is the same function."""
    if function is None:
        return functools.partial(device_function, **options)
    key = _key(function, options)
    if key is None:
        return _registered(function, options)
    if key not in _helpers:
        _helpers[key] = _registered(function, options)
    return _helpers[key]


def _registered(function: Callable, options: dict) -> Callable:
    from numba.extending import register_jitable

    return register_jitable(pipeline_class=pipeline(), **options)(function)


def _key(function: Callable, options: dict) -> tuple | None:
    """What a helper is: its code, and the things its names stand for. None where a name has no meaning yet."""
    code, space = function.__code__, function.__globals__
    if any(name not in space and not hasattr(builtins, name) and name in _asked(code) for name in code.co_names) or any(isinstance(each, types.CodeType) for each in code.co_consts):
        return None
    things = tuple((name, id(space[name])) for name in code.co_names if name in space)
    return function.__name__, code.co_code, repr(code.co_consts), code.co_names, code.co_varnames, things, repr(options)


def _asked(code: types.CodeType) -> set[str]:
    """The names that a code looks up as globals; `co_names` has those of attributes too."""
    return {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}


@functools.cache
def pipeline() -> type:
    """Numba's compiler without the passes that kernels do not need."""
    from numba.core.compiler import Compiler, DefaultPassBuilder

    class KernelCompiler(Compiler):
        def define_pipelines(self) -> list:
            made = DefaultPassBuilder.define_nopython_pipeline(self.state)
            made.passes = [each for each in made.passes if each[0].name() not in _SPARED]
            return [made]

    return KernelCompiler


@contextmanager
def quickly() -> Iterator[None]:
    """While kernels are compiled (by one thread at a time): remember types of operators, and leave the garbage, of which there is much, for later."""
    global _waiting
    from numba.core import registry

    context = registry.cpu_target.typing_context
    context.resolve_function_type = _remembered(context)
    _waiting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        forget()


def forget() -> None:
    """Compile as Numba does again."""
    global _waiting
    from numba.core import registry

    vars(registry.cpu_target.typing_context).pop("resolve_function_type", None)
    if _waiting:
        gc.enable()
    _waiting = False


@functools.cache
def _remembered(context: object) -> Callable:
    """`context.resolve_function_type`, which asks once what an operator makes of numbers and arrays: Numba tries all its rules, one by one, every time."""
    resolve, known = type(context).resolve_function_type.__get__(context), {}

    def resolved(function: object, arguments: tuple, named: dict) -> object:
        if named or getattr(getattr(function, "typing_key", None), "__module__", None) != operator.add.__module__:
            return resolve(function, arguments, named)
        key = function, tuple(arguments)
        if key not in known:
            known[key] = resolve(function, arguments, named)
        return known[key]

    return resolved


def without_code(reduced: tuple) -> tuple:
    """What Numba would save of a compiled function, without LLVM's code: that is for inlining it elsewhere, and reading it takes longer than the machine code.

    The names that are defined stay; Numba and profilers ask for them.
    """
    import llvmlite.binding as llvm

    (name, kind, (machine_code, code)), *others = reduced
    module = llvm.parse_bitcode(code)
    names = [f'define void @"{each.name}"() {{ ret void }}' for each in module.functions if not each.is_declaration]
    names += [f'@"{each.name}" = global i8 0' for each in module.global_variables if not each.is_declaration]
    return (name, kind, (machine_code, llvm.parse_assembly("\n".join(names)).as_bitcode())), *others
