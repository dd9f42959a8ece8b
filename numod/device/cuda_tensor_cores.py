"""Tensor cores, for kernels on a GPU: instructions with which a warp of 32 threads multiplies small matrices together, and accesses of 16 bytes that feed them.

`multiply_float16(totals, s, a0, a1, a2, a3, b0, b1)` adds the product of a (16, 16) and b (16, 8) to a matrix (16, 8) of float32, of which each thread has four
elements, totals[s : s + 4]; `multiply_bfloat16` likewise, and `multiply_tf32` that of a (16, 8) and b (8, 8). A thread gives words of 32 bits: two numbers
of 16 bits, or one of tf32. With g = lane // 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "... mma.m16n8k8")
    a0, a1, a2, a3   are words t of rows g and g + 8 of a, and words t + 4 of these,
    b0, b1           words t and t + 4 of column g of b,
    totals           elements 2 t and 2 t + 1 of row g, and of row g + 8.
Products are exact and summed in float32, in an order that is not told. All threads of a warp must come there together.
"""

from __future__ import annotations

from collections.abc import Callable

from . import cuda_vectors

LEAST = (8, 0)  # the compute capability from which on these shapes are there
_SHAPES = {"float16": ("m16n8k16", "f16"), "bfloat16": ("m16n8k16", "bf16"), "tf32": ("m16n8k8", "tf32")}


def intrinsics() -> dict[str, Callable]:
    """The functions for kernels. `load_run(x, k)` gives 16 bytes from x[k] on as four words; `load_words(near, k)` and `store_words(near, k, ...)` access the
    k-th
    16 bytes of an array whose elements are as long. `tf32_bits(bits)` gives those of the nearest tf32 to a float32, `rounded_float16(x)` and
    `rounded_bfloat16(x)` those of the nearest such number."""  # fmt: skip
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    word, number = ir.IntType(32), ir.FloatType()
    words = ir.VectorType(word, 4)
    extending = cuda_vectors.extending()

    def data(context: object, builder: object, array: object, value: object) -> object:
        return context.make_array(array)(context, builder, value).data

    def lanes(builder: object, vector: object) -> list:
        return [builder.extract_element(vector, ir.Constant(word, j)) for j in range(4)]

    @extending.intrinsic
    def load_run(context: object, x: object, k: object) -> tuple:
        count = 128 // x.dtype.bitwidth

        def generate(context: object, builder: object, signature: object, values: list) -> object:
            first = builder.gep(data(context, builder, x, values[0]), [values[1]])
            rest = builder.and_(builder.ptrtoint(first, ir.IntType(64)), ir.Constant(ir.IntType(64), 15))
            with builder.if_else(builder.icmp_unsigned("==", rest, ir.Constant(rest.type, 0))) as (then, otherwise):
                with then:
                    together, here = builder.load(builder.bitcast(first, words.as_pointer()), align=16), builder.block
                with otherwise:
                    apart = ir.Constant(ir.VectorType(first.type.pointee, count), ir.Undefined)
                    for j in range(count):
                        apart = builder.insert_element(apart, builder.load(builder.gep(first, [ir.Constant(word, j)])), ir.Constant(word, j))
                    apart, there = builder.bitcast(apart, words), builder.block
            found = builder.phi(words)
            found.add_incoming(together, here)
            found.add_incoming(apart, there)
            return cgutils.pack_array(builder, lanes(builder, found))

        return types.UniTuple(types.uint32, 4)(x, types.uintp), generate

    def place(context: object, builder: object, array: object, values: list) -> object:
        return builder.bitcast(builder.gep(data(context, builder, array, values[0]), [values[1]]), words.as_pointer())

    @extending.intrinsic
    def load_words(context: object, near: object, k: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            return cgutils.pack_array(builder, lanes(builder, builder.load(place(context, builder, near, values), align=16)))

        return types.UniTuple(types.uint32, 4)(near, types.uintp), generate

    @extending.intrinsic
    def store_words(context: object, near: object, k: object, a: object, b: object, c: object, d: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            whole = ir.Constant(words, ir.Undefined)
            for j, value in enumerate(values[2:]):
                whole = builder.insert_element(whole, value, ir.Constant(word, j))
            builder.store(whole, place(context, builder, near, values), align=16)
            return context.get_dummy_value()

        return types.void(near, types.uintp, *[types.uint32] * 4), generate

    @extending.intrinsic
    def tf32_bits(context: object, bits: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            return builder.call(ir.InlineAsm(ir.FunctionType(word, [number]), "cvt.rna.tf32.f32 $0, $1;", "=r,f"), [builder.bitcast(values[0], number)])

        return types.uint32(types.uint32), generate

    def rounding(kind: str) -> Callable:
        @extending.intrinsic
        def rounded(context: object, x: object) -> tuple:
            def generate(context: object, builder: object, signature: object, values: list) -> object:
                return builder.call(ir.InlineAsm(ir.FunctionType(ir.IntType(16), [number]), f"cvt.rn.{kind}.f32 $0, $1;", "=h,f"), values)

            return types.uint16(types.float32), generate

        return rounded

    def multiplication(shape: str, kind: str) -> Callable:
        text = f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, $9}}, {{$10, $11, $12, $13}};"
        form = ir.FunctionType(ir.LiteralStructType([number] * 4), [word] * 6 + [number] * 4)
        together = ir.InlineAsm(form, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f")

        @extending.intrinsic
        def multiply(context: object, totals: object, s: object, a0: object, a1: object, a2: object, a3: object, b0: object, b1: object) -> tuple:
            def generate(context: object, builder: object, signature: object, values: list) -> object:
                first = data(context, builder, totals, values[0])
                places = [builder.gep(first, [builder.add(values[1], ir.Constant(values[1].type, j))]) for j in range(4)]
                found = builder.call(together, [*values[2:], *map(builder.load, places)], attrs=("convergent",))
                for j, each in enumerate(places):
                    builder.store(builder.extract_value(found, j), each)
                return context.get_dummy_value()

            return types.void(totals, types.uintp, *[types.uint32] * 6), generate

        return multiply

    found = {
        "load_run": load_run, "load_words": load_words, "store_words": store_words, "tf32_bits": tf32_bits, "rounded_float16": rounding("f16"),
        "rounded_bfloat16": rounding("bf16"),
    }
    return {**found, **{f"multiply_{name}": multiplication(*shape) for name, shape in _SHAPES.items()}}
