"""Tensor-core instructions for CUDA kernels, with which a warp multiplies small matrices, and the 16-byte loads and
stores that feed them.

`multiply_float16(totals, s, a0, a1, a2, a3, b0, b1)` adds the product of a (16, 16) and b (16, 8) to a matrix (16, 8)
of float32; each thread has four of its elements, totals[s : s + 4]. `multiply_bfloat16` takes bfloat16; `multiply_tf32`
multiplies (16, 8) by (8, 8). A thread passes words of 32 bits: two numbers of 16 bits, or one of tf32. With g = lane
// 4 and t = lane % 4 (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type" and "... mma.m16n8k8")
    a0, a1, a2, a3   are words t of rows g and g + 8 of a, and words t + 4 of these,
    b0, b1           words t and t + 4 of column g of b,
    totals           elements 2 t and 2 t + 1 of row g, and of row g + 8.
Products are exact and summed in float32, in an unspecified order. All threads of a warp must execute it together.
"""

from __future__ import annotations

from collections.abc import Callable

from . import cuda_vectors

MIN_CAPABILITY = (8, 0)  # the lowest compute capability that has these shapes
_SHAPES = {"float16": ("m16n8k16", "f16"), "bfloat16": ("m16n8k16", "bf16"), "tf32": ("m16n8k8", "tf32")}


def intrinsics() -> dict[str, Callable]:
    """The functions for kernels.

    `shared` is an array in shared memory with elements of 16 bytes.
    - `store_words(shared, k, a, b, c, d)` writes four words to element k.
    - `load_matrices(shared, k)` loads four matrices of 8 rows of 16 bytes. All threads of a warp execute it; row i of
      matrix j is at the k of thread 8 j + i. Thread (g, t) receives word t of row g of each matrix.
    - `load_matrices_transposed(shared, k)`: the thread receives the 16-bit numbers (2 t, g) and (2 t + 1, g) instead.
    - `copy_run(shared, k, x, from, count)` starts to copy `count` elements from x[from] on and fills the rest of 16
      bytes with 0. Requires `begins_run(x, from)`: the address is a multiple of 16.
    - `await_copies()` waits for the copies that the thread started before its last call; other threads see them after a
      barrier.
    - `load_run(x, k)` returns 16 bytes from x[k] on as four words.
    - `tf32_bits(bits)`, `rounded_float16(x)`, `rounded_bfloat16(x)` return the bits of the nearest such number.
    """
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

    def aligned(builder: object, first: object) -> object:
        rest = builder.and_(builder.ptrtoint(first, ir.IntType(64)), ir.Constant(ir.IntType(64), 15))
        return builder.icmp_unsigned("==", rest, ir.Constant(rest.type, 0))

    @extending.intrinsic
    def load_run(context: object, x: object, k: object) -> tuple:
        count = 128 // x.dtype.bitwidth

        def generate(context: object, builder: object, signature: object, values: list) -> object:
            first = builder.gep(data(context, builder, x, values[0]), [values[1]])
            with builder.if_else(aligned(builder, first)) as (then, otherwise):
                with then:
                    vector = builder.load(builder.bitcast(first, words.as_pointer()), align=16)
                    vector_block = builder.block
                with otherwise:
                    by_element = ir.Constant(ir.VectorType(first.type.pointee, count), ir.Undefined)
                    for j in range(count):
                        by_element = builder.insert_element(
                            by_element, builder.load(builder.gep(first, [ir.Constant(word, j)])), ir.Constant(word, j)
                        )
                    by_element, element_block = builder.bitcast(by_element, words), builder.block
            loaded = builder.phi(words)
            loaded.add_incoming(vector, vector_block)
            loaded.add_incoming(by_element, element_block)
            return cgutils.pack_array(builder, lanes(builder, loaded))

        return types.UniTuple(types.uint32, 4)(x, types.uintp), generate

    def element_pointer(context: object, builder: object, array: object, values: list) -> object:
        return builder.bitcast(builder.gep(data(context, builder, array, values[0]), [values[1]]), words.as_pointer())

    def shared_address(context: object, builder: object, array: object, values: list) -> object:
        """The address of an element within shared memory."""
        shared_pointer = ir.PointerType(words, addrspace=3)
        return builder.ptrtoint(
            builder.addrspacecast(element_pointer(context, builder, array, values), shared_pointer), word
        )

    def loading(transposition: str) -> Callable:
        form = ir.FunctionType(ir.LiteralStructType([word] * 4), [word])
        text = f"ldmatrix.sync.aligned.m8n8.x4{transposition}.shared.b16 {{$0, $1, $2, $3}}, [$4];"
        instruction = ir.InlineAsm(form, text, "=r,=r,=r,=r,r,~{memory}", side_effect=True)

        @extending.intrinsic
        def load(context: object, shared: object, k: object) -> tuple:
            def generate(context: object, builder: object, signature: object, values: list) -> object:
                loaded = builder.call(
                    instruction, [shared_address(context, builder, shared, values)], attrs=("convergent",)
                )
                return cgutils.pack_array(builder, [builder.extract_value(loaded, j) for j in range(4)])

            return types.UniTuple(types.uint32, 4)(shared, types.uintp), generate

        return load

    @extending.intrinsic
    def store_words(context: object, shared: object, k: object, a: object, b: object, c: object, d: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            whole = ir.Constant(words, ir.Undefined)
            for j, value in enumerate(values[2:]):
                whole = builder.insert_element(whole, value, ir.Constant(word, j))
            builder.store(whole, element_pointer(context, builder, shared, values), align=16)
            return context.get_dummy_value()

        return types.void(shared, types.uintp, *[types.uint32] * 4), generate

    @extending.intrinsic
    def begins_run(context: object, x: object, k: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            return aligned(builder, builder.gep(data(context, builder, x, values[0]), [values[1]]))

        return types.boolean(x, types.uintp), generate

    @extending.intrinsic
    def copy_run(context: object, shared: object, k: object, x: object, from_: object, count: object) -> tuple:
        form = ir.FunctionType(ir.VoidType(), [word, ir.IntType(64), word])
        begin = ir.InlineAsm(form, "cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,~{memory}", side_effect=True)

        def generate(context: object, builder: object, signature: object, values: list) -> object:
            first = builder.gep(data(context, builder, x, values[2]), [values[3]])
            source = builder.ptrtoint(
                builder.addrspacecast(first, ir.PointerType(first.type.pointee, addrspace=1)), ir.IntType(64)
            )
            size = builder.mul(values[4], ir.Constant(word, x.dtype.bitwidth // 8))
            builder.call(begin, [shared_address(context, builder, shared, values[:2]), source, size])
            return context.get_dummy_value()

        return types.void(shared, types.uintp, x, types.uintp, types.int32), generate

    @extending.intrinsic
    def await_copies(context: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            text = "cp.async.commit_group; cp.async.wait_group 1;"
            builder.call(ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), text, "~{memory}", side_effect=True), [])
            return context.get_dummy_value()

        return types.void(), generate

    @extending.intrinsic
    def tf32_bits(context: object, bits: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            return builder.call(
                ir.InlineAsm(ir.FunctionType(word, [number]), "cvt.rna.tf32.f32 $0, $1;", "=r,f"),
                [builder.bitcast(values[0], number)],
            )

        return types.uint32(types.uint32), generate

    def rounding(kind: str) -> Callable:
        @extending.intrinsic
        def rounded(context: object, x: object) -> tuple:
            def generate(context: object, builder: object, signature: object, values: list) -> object:
                return builder.call(
                    ir.InlineAsm(ir.FunctionType(ir.IntType(16), [number]), f"cvt.rn.{kind}.f32 $0, $1;", "=h,f"),
                    values,
                )

            return types.uint16(types.float32), generate

        return rounded

    def multiplication(shape: str, kind: str) -> Callable:
        """The intrinsic for one shape and kind of matrices."""
        text = (
            f"mma.sync.aligned.{shape}.row.col.f32.{kind}.{kind}.f32 {{$0, $1, $2, $3}}, {{$4, $5, $6, $7}}, {{$8, "
            f"$9}}, {{$10, $11, $12, $13}};"
        )
        form = ir.FunctionType(ir.LiteralStructType([number] * 4), [word] * 6 + [number] * 4)
        instruction = ir.InlineAsm(form, text, "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f")

        @extending.intrinsic
        def multiply(
            context: object,
            totals: object,
            s: object,
            a0: object,
            a1: object,
            a2: object,
            a3: object,
            b0: object,
            b1: object,
        ) -> tuple:
            def generate(context: object, builder: object, signature: object, values: list) -> object:
                first = data(context, builder, totals, values[0])
                pointers = [
                    builder.gep(first, [builder.add(values[1], ir.Constant(values[1].type, j))]) for j in range(4)
                ]
                sums = builder.call(instruction, [*values[2:], *map(builder.load, pointers)], attrs=("convergent",))
                for j, pointer in enumerate(pointers):
                    builder.store(builder.extract_value(sums, j), pointer)
                return context.get_dummy_value()

            return types.void(totals, types.uintp, *[types.uint32] * 6), generate

        return multiply

    functions = {
        "load_run": load_run,
        "load_matrices": loading(""),
        "load_matrices_transposed": loading(".trans"),
        "store_words": store_words,
        "begins_run": begins_run,
        "copy_run": copy_run,
        "await_copies": await_copies,
        "tf32_bits": tf32_bits,
        "rounded_float16": rounding("f16"),
        "rounded_bfloat16": rounding("bf16"),
    }
    return {**functions, **{f"multiply_{name}": multiplication(*shape) for name, shape in _SHAPES.items()}}
