"""`divide`, which runs kernels' parallel loops: a function over a range of iterations.

It is called once for all of them, or by threads for a share each (`workers`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from . import compiler, short_forms, workers
from .target import HALF_REGISTERS

LOOP_PREFIX = "part_of_a_loop"  # the prefix of the names of the loops' functions


def prepare(namespace: dict[str, object]) -> list[object]:
    """New dispatchers of a kernel's loops, to be compiled with it. Fastmath and the error model are the kernel's."""
    from numba import njit

    jit = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=compiler.pipeline())
    for name, function in namespace.items():
        if name.startswith(LOOP_PREFIX):
            namespace[name] = jit(getattr(function, "py_func", function))
    return [loop for name, loop in namespace.items() if name.startswith(LOOP_PREFIX)]


@cache
def divide() -> Callable:
    """divide(part, n, threads, arguments): part(0, n, *arguments), with its iterations divided among threads."""
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def divide(context: object, part: object, n: object, threads: object, arguments: object) -> tuple:
        kinds = (types.int64, types.int64, *map(types.unliteral, arguments))
        part.get_call_type(context, kinds, {})  # compiles it
        compiled = part.dispatcher.overloads[kinds]
        return types.void(part, types.int64, types.int64, arguments), lambda *lowering: _divide(compiled, *lowering)

    return divide


def _divide(compiled: object, context: object, builder: object, signature: object, values: list) -> object:
    """Code that calls `_share` directly, for one thread or iteration; else the threads call it."""
    from llvmlite import ir
    from numba.core import cgutils

    context.add_linking_libs((compiled.library,))
    half = (
        {HALF_REGISTERS}
        if HALF_REGISTERS.encode() in compiled.library.get_function(compiled.fndesc.llvm_func_name).attributes
        else set()
    )
    set.update(builder.function.attributes, half)
    _, n, threads, arguments = values
    sources, targets = signature.args[3], compiled.signature.args[2:]
    captured = [
        context.cast(builder, value, *kinds)
        for value, *kinds in zip(short_forms.elements(builder, arguments), sources, targets)
    ]
    words = [word for kind, value in zip(targets, captured) for word in short_forms.flat_words(builder, kind, value)]
    integer, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    shares = builder.mul(threads, integer(workers.SHARES_PER_THREAD))
    shares = builder.select(builder.icmp_signed("<", n, shares), n, shares)
    alone = builder.or_(*[builder.icmp_signed("<=", count, integer(1)) for count in (threads, n)])
    # one share is the whole loop: LLVM has to optimise the loop only once
    shares = builder.select(alone, integer(1), shares)
    data = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, [n, shares, *words]))
    share = _share(compiled, context, builder.module, data.type)
    set.update(share.attributes, half)
    data = builder.bitcast(data, pointer)
    with builder.if_else(alone) as (here, apart):
        with here:
            builder.call(share, [data, integer(0)])
        with apart:
            kind = ir.FunctionType(ir.VoidType(), [pointer, pointer, integer, integer])
            launch = cgutils.get_or_insert_function(builder.module, kind, "numod_divide")
            builder.call(launch, [builder.bitcast(share, pointer), data, shares, threads])
    return context.get_dummy_value()


def _share(compiled: object, context: object, module: object, data: object) -> object:
    """The function that threads call: share `k` of the iterations."""
    from llvmlite import ir
    from numba.core import cgutils

    integer, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
    kind = ir.FunctionType(ir.VoidType(), [pointer, integer])
    # profilers find it by a name that no other kernel has
    function = ir.Function(module, kind, module.get_unique_name(f"share_{compiled.fndesc.unique_name}"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    builder.no_try = True  # for `short_forms`
    k = function.args[1]
    n, shares, *words = cgutils.unpack_tuple(builder, builder.load(builder.bitcast(function.args[0], data)))
    bounds = [builder.sdiv(builder.mul(n, number), shares) for number in (k, builder.add(k, integer(1)))]
    captured = [short_forms.of_words(context, kind, words) for kind in compiled.signature.args[2:]]
    context.call_internal_no_propagate(builder, compiled.fndesc, compiled.signature, [*bounds, *captured])
    builder.ret_void()
    return function
