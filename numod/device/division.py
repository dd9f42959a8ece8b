"""`divide`, of which kernels make their parallel loops: a function over a range of turns, called once, or by every
thread of Numba's threading layer for its share.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from . import compiler
from .vectors import HALF

MARK = "part_of_a_loop"  # what marks the loops' functions, and what their names begin with


def prepare(namespace: dict[str, object]) -> list[object]:
    """New dispatchers of a kernel's loops, to be compiled with it. They take fastmath and the error model from it."""
    from numba import njit

    own = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=compiler.pipeline())
    for name, function in namespace.items():
        if name.startswith(MARK):
            namespace[name] = own(getattr(function, "py_func", function))
    return [each for name, each in namespace.items() if name.startswith(MARK)]


@cache
def divide() -> Callable:
    """divide(part, n, threads, arguments): part(0, n, *arguments), its turns shared out to so many threads."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def divide(context: object, part: object, n: object, threads: object, arguments: object) -> tuple:
        kinds = (types.int64, types.int64, *map(types.unliteral, arguments))
        part.get_call_type(context, kinds, {})  # compiles it
        compiled = part.dispatcher.overloads[kinds]
        return types.void(part, types.int64, types.int64, arguments), lambda *given: _divide(compiled, *given)

    return divide


def _divide(compiled: object, context: object, builder: object, signature: object, values: list) -> object:
    """Code that calls the compiled part directly for one thread, and else has the threading layer call `_share` for
    each.
    """
    from llvmlite import ir
    from numba.core import cgutils

    context.add_linking_libs((compiled.library,))
    half = (
        {HALF} if HALF.encode() in compiled.library.get_function(compiled.fndesc.llvm_func_name).attributes else set()
    )
    set.update(builder.function.attributes, half)  # LLVM inlines the part into both
    _, n, threads, arguments = values
    sources, targets = signature.args[3], compiled.signature.args[2:]
    given = [
        context.cast(builder, each, *kinds)
        for each, *kinds in zip(cgutils.unpack_tuple(builder, arguments), sources, targets)
    ]
    integer, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    with builder.if_else(builder.icmp_signed("<=", threads, integer(1))) as (alone, shared):
        with alone:
            context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, [integer(0), n, *given])
        with shared:
            data = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, [n, threads, *given]))
            places, sizes, steps = (cgutils.alloca_once(builder, kind) for kind in (pointer, integer, integer))
            # a thread's number comes as an address that grows by 1
            for place, value in ((places, pointer(None)), (sizes, threads), (steps, integer(1))):
                builder.store(value, place)
            kind = ir.FunctionType(
                ir.VoidType(), [pointer, places.type, sizes.type, steps.type, pointer, integer, integer, integer]
            )
            launch = cgutils.get_or_insert_function(builder.module, kind, "numba_parallel_for")
            share = _share(compiled, context, builder.module, data.type)
            set.update(share.attributes, half)
            builder.call(
                launch,
                [
                    builder.bitcast(share, pointer),
                    places,
                    sizes,
                    steps,
                    builder.bitcast(data, pointer),
                    integer(0),
                    integer(1),
                    threads,
                ],
            )
    return context.get_dummy_value()


def _share(compiled: object, context: object, module: object, data: object) -> object:
    """What the threading layer calls: `count` shares of the turns from share `k` on."""
    from llvmlite import ir
    from numba.core import cgutils

    integer, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer.as_pointer(), integer.as_pointer(), integer.as_pointer(), pointer])
    # profilers find it by a name that no other kernel has
    function = ir.Function(module, kind, module.get_unique_name(f"share_{compiled.fndesc.unique_name}"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    k, count = builder.ptrtoint(builder.load(function.args[0]), integer), builder.load(function.args[1])
    n, threads, *given = cgutils.unpack_tuple(builder, builder.load(builder.bitcast(function.args[3], data)))
    ends = [builder.sdiv(builder.mul(n, each), threads) for each in (k, builder.add(k, count))]
    context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, [*ends, *given])
    builder.ret_void()
    return function
