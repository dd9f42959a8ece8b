"""Loads and stores of four neighbouring elements for GPU kernels.

A warp's loads of 16 bytes a thread need a quarter of the instructions, with four times the bytes in flight.

`load_four(x, k)` returns x[k : k + 4] as a tuple, `store_four(x, k, a, b, c, d)` writes it. Unaligned arrays, such as
some views, are accessed element by element.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType

_MAX_ACCESS_BYTES = 16  # of one load or store


def simulated() -> dict[str, Callable]:
    """The two functions for Numba's simulator."""

    def store_four(x: object, k: int, *values: object) -> None:
        for j, value in enumerate(values):
            x[k + j] = value

    return {"load_four": lambda x, k: tuple(x[k + j] for j in range(4)), "store_four": store_four}


def extending() -> ModuleType:
    """The module that extends the compiler's types and functions."""
    try:
        return importlib.import_module("numba.cuda.extending")
    except ImportError:
        return importlib.import_module("numba.extending")


def intrinsics() -> dict[str, Callable]:
    """The two functions for kernels."""
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    def fours(context: object, builder: object, array: object, value: object, k: object) -> tuple:
        """(pointers to the elements, pointer to all of them as a vector, its alignment, whether the array is aligned).

        The last three are None, 0, None if there is no such vector.
        """
        data = context.make_array(array)(context, builder, value).data
        pointers = [builder.gep(data, [builder.add(k, ir.Constant(k.type, j))]) for j in range(4)]
        if isinstance(array.dtype, types.Complex):
            return pointers, None, 0, None
        align = min(4 * array.dtype.bitwidth // 8, _MAX_ACCESS_BYTES)
        rest = builder.and_(builder.ptrtoint(pointers[0], ir.IntType(64)), ir.Constant(ir.IntType(64), align - 1))
        vector = builder.bitcast(pointers[0], ir.VectorType(context.get_data_type(array.dtype), 4).as_pointer())
        return pointers, vector, align, builder.icmp_unsigned("==", rest, ir.Constant(rest.type, 0))

    def lane(j: int) -> object:
        return ir.Constant(ir.IntType(32), j)

    @extending().intrinsic
    def load_four(context: object, x: object, k: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            pointers, vector, align, aligned = fours(context, builder, x, *values)
            if vector is None:
                return cgutils.pack_array(builder, [builder.load(pointer) for pointer in pointers])
            with builder.if_else(aligned) as (then, otherwise):
                with then:
                    whole = builder.load(vector, align=align)
                    together, first = [builder.extract_element(whole, lane(j)) for j in range(4)], builder.block
                with otherwise:
                    scalars, second = [builder.load(pointer) for pointer in pointers], builder.block
            merged = []
            for pair in zip(together, scalars):
                merged.append(builder.phi(pair[0].type))
                for value, block in zip(pair, (first, second)):
                    merged[-1].add_incoming(value, block)
            return cgutils.pack_array(builder, merged)

        return types.UniTuple(x.dtype, 4)(x, types.uintp), generate

    @extending().intrinsic
    def store_four(context: object, x: object, k: object, a: object, b: object, c: object, d: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            pointers, vector, align, aligned = fours(context, builder, x, *values[:2])
            if vector is None:
                for value, pointer in zip(values[2:], pointers):
                    builder.store(value, pointer)
                return context.get_dummy_value()
            with builder.if_else(aligned) as (then, otherwise):
                with then:
                    whole = ir.Constant(vector.type.pointee, ir.Undefined)
                    for j, value in enumerate(values[2:]):
                        whole = builder.insert_element(whole, value, lane(j))
                    builder.store(whole, vector, align=align)
                with otherwise:
                    for value, pointer in zip(values[2:], pointers):
                        builder.store(value, pointer)
            return context.get_dummy_value()

        return types.void(x, types.uintp, *[x.dtype] * 4), generate

    return {"load_four": load_four, "store_four": store_four}
