"""Tiles of a matrix product in vector registers: the one place that writes LLVM vectors. Not blocking, packing or edges, which are loops in kernels.

A tile is `rows` x `vectors` registers of sums; each step loads a row of B and adds it times one element of each row of A, by fused multiply-adds.
The same text serves AVX-512, AVX2 and NEON: only the number of registers and their width differ.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

VECTORS = 3  # of a full tile's width: with 8 rows 24 sums in 32 registers, with 4 rows 12 in 16
LINE = 8  # vectors of a tile of one row


@dataclass(frozen=True)
class Registers:
    """Vector registers of a processor: bytes of each, and rows of a tile that fit them."""

    width: int
    rows: int

    def lanes(self, itemsize: int) -> int:
        """Elements of a register."""
        return self.width // itemsize


@functools.cache
def host() -> Registers:
    """Those of this processor, or of the one that NUMBA_CPU_FEATURES describes."""
    import llvmlite.binding as llvm
    import numba

    given = numba.config.CPU_FEATURES
    features = given if given is not None else llvm.get_host_cpu_features().flatten()
    return registers(features.split(","), llvm.get_process_triple())


def registers(features: list[str], triple: str) -> Registers:
    """From LLVM's names of features and target."""
    if triple.startswith(("aarch64", "arm64")):
        return Registers(16, 8)
    return Registers(64, 8) if "+avx512f" in features else Registers(32, 4) if "+avx2" in features else Registers(16, 4)


@functools.cache
def functions() -> dict[str, Callable]:
    """tile1 to tile3, by the vectors of a row: c (rows, columns) = or += a @ b.

    tileN(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep): a's element (i, k) is at a_at + i * a_row + k * a_step,
    row k of b at b_at + k * b_step, row i of c at c_at + i * c_row; `keep` adds to what c holds. `shifted` tiles find row k of b at
    b_at + table[table_at + k], `spread` tiles row i of a at a_at + table[table_at + i]. shifted_line is one row of LINE vectors.

    copy_line1(x, x_at, first, last, out, out_at, n): out[out_at + j] = x[x_at + j] for j from first to last, 0 for the rest up to n. copy_line2 and copy_line4 take x[x_at + 2 * j]
    and x[x_at + 4 * j].

    turn_block(x, x_at, x_step, out, out_at, out_step): a transposed square of as many elements as a register holds, out (k, j) = x (j, k), its lines x_step apart.
    """
    rows = host().rows
    found = {f"copy_line{stride}": _copy(stride) for stride in (1, 2, 4)}
    found |= {f"{kind}{vectors}": _tile(rows, vectors, kind) for kind in ("tile", "shifted", "spread") for vectors in range(1, VECTORS + 1)}
    found["turn_block"] = _turn()
    return {**found, "shifted_line": _tile(1, LINE, "shifted")}


def _copy(stride: int) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def copy_line(context, x, x_at, first, last, out, out_at, n):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            x_data, out_data = (context.make_array(signature.args[k])(context, builder, values[k]).data for k in (0, 4))
            source, target = builder.gep(x_data, [values[1]]), builder.gep(out_data, [values[5]])
            emit_copy(builder, context.get_value_type(x.dtype), host().lanes(x.dtype.bitwidth // 8), stride, source, values[2], values[3], target, values[6])
            return context.get_dummy_value()

        return types.void(x, at, at, at, out, at, at), generate

    return copy_line


def emit_copy(builder, real, lanes, stride, source, first, last, target, n):  # noqa: ANN001, ANN201
    """Write the instructions of copy_line: a masked load for each vector, so that neither the ends nor the borders need loops of their own."""
    from llvmlite import ir

    integer, small, vector, flags = ir.IntType(64), ir.IntType(32), ir.VectorType(real, lanes), ir.VectorType(ir.IntType(1), lanes)
    places, size = ir.VectorType(small, lanes), 4 if isinstance(real, ir.FloatType) else 8
    kind = f"v{lanes}f{8 * size}.p0"
    load = _declared(builder.module, f"llvm.masked.load.{kind}", vector, [vector.as_pointer(), small, flags, vector])
    store = _declared(builder.module, f"llvm.masked.store.{kind}", ir.VoidType(), [vector, vector.as_pointer(), small, flags])
    alignment, zeros = ir.Constant(small, size), ir.Constant(vector, None)
    first, last, limit = (_broadcast(builder, builder.trunc(value, small), lanes) for value in (first, last, n))

    before, loop, after = builder.block, builder.append_basic_block("line"), builder.append_basic_block("copied")
    builder.cbranch(builder.icmp_signed(">", n, ir.Constant(integer, 0)), loop, after)
    builder.position_at_end(loop)
    j = builder.phi(integer)
    start = _broadcast(builder, builder.trunc(j, small), lanes)

    def place(offset: int) -> object:
        return builder.add(start, ir.Constant(places, [(lane + offset) // stride for lane in range(lanes)]))

    parts = []
    for part in range(stride):
        asked = ir.Constant(flags, [int((lane + part * lanes) % stride == 0) for lane in range(lanes)])
        mask = builder.and_(asked, builder.and_(builder.icmp_signed(">=", place(part * lanes), first), builder.icmp_signed("<", place(part * lanes), last)))
        at = builder.gep(source, [builder.add(builder.mul(j, ir.Constant(integer, stride)), ir.Constant(integer, part * lanes))])
        parts.append(builder.call(load, [builder.bitcast(at, vector.as_pointer()), alignment, mask, zeros]))
    while len(parts) > 1:  # every second element of two vectors, until one is left
        parts = [builder.shuffle_vector(low, high, ir.Constant(places, list(range(0, 2 * lanes, 2)))) for low, high in zip(parts[::2], parts[1::2])]
    numbers = builder.add(start, ir.Constant(places, list(range(lanes))))
    builder.call(store, [parts[0], builder.bitcast(builder.gep(target, [j]), vector.as_pointer()), alignment, builder.icmp_signed("<", numbers, limit)])
    following = builder.add(j, ir.Constant(integer, lanes))
    j.add_incoming(ir.Constant(integer, 0), before)
    j.add_incoming(following, loop)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)


def _turn() -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def turn_block(context, x, x_at, x_step, out, out_at, out_step):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            x_data, out_data = (context.make_array(signature.args[k])(context, builder, values[k]).data for k in (0, 3))
            source, target = builder.gep(x_data, [values[1]]), builder.gep(out_data, [values[4]])
            emit_turn(builder, context.get_value_type(x.dtype), host().lanes(x.dtype.bitwidth // 8), source, values[2], target, values[5])
            return context.get_dummy_value()

        return types.void(x, at, at, out, at, at), generate

    return turn_block


def emit_turn(builder, real, lanes, source, step, target, target_step):  # noqa: ANN001, ANN201
    """Write the instructions of turn_block: rounds that exchange ever larger blocks across the diagonal of pairs of lines."""
    from llvmlite import ir

    integer, vector, size = ir.IntType(64), ir.VectorType(real, lanes), 4 if isinstance(real, ir.FloatType) else 8
    places = ir.VectorType(ir.IntType(32), lanes)

    def line(pointer: object, step: object, k: int) -> object:
        return builder.bitcast(builder.gep(pointer, [builder.mul(step, ir.Constant(integer, k))]), vector.as_pointer())

    lines, block = [builder.load(line(source, step, k), align=size) for k in range(lanes)], 1
    while block < lanes:
        low = [k if k // block % 2 == 0 else lanes + k - block for k in range(lanes)]  # of a pair: its even blocks side by side
        high = [k + block if k // block % 2 == 0 else lanes + k for k in range(lanes)]
        for k in range(lanes):
            if k // block % 2 == 0:
                pair = lines[k], lines[k + block]
                lines[k], lines[k + block] = (builder.shuffle_vector(*pair, ir.Constant(places, order)) for order in (low, high))
        block *= 2
    for k, value in enumerate(lines):
        builder.store(value, line(target, target_step, k), align=size)


def _declared(module: object, name: str, result: object, arguments: list) -> object:
    from llvmlite import ir

    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def _tile(rows: int, vectors: int, kind: str) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def tile(context, a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            named = dict(zip(("a", "a_at", "a_row", "a_step", "b", "b_at", "b_step", "table", "table_at", "c", "c_at", "c_row", "depth", "keep"), values))
            for name, position in (("a", 0), ("b", 4), ("table", 7), ("c", 9)):
                named[name] = context.make_array(signature.args[position])(context, builder, named[name]).data
            emit(builder, context.get_value_type(a.dtype), host().lanes(a.dtype.bitwidth // 8), rows, vectors, kind, **named)
            return context.get_dummy_value()

        return types.void(a, at, at, at, b, at, at, table, at, c, at, at, at, at), generate

    return tile


def emit(builder, real, lanes, rows, vectors, kind, a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):  # noqa: ANN001, ANN201
    """Write the tile's instructions; all but the first six are LLVM values."""
    from llvmlite import ir

    integer, vector = ir.IntType(64), ir.VectorType(real, lanes)
    size = 4 if isinstance(real, ir.FloatType) else 8
    zero, one = ir.Constant(integer, 0), ir.Constant(integer, 1)

    def entry(position: object) -> object:
        return builder.load(builder.gep(table, [builder.add(table_at, position)]))

    def shares(pointer: object) -> list:
        return [builder.bitcast(builder.gep(pointer, [ir.Constant(integer, v * lanes)]), vector.as_pointer()) for v in range(vectors)]

    places = [entry(ir.Constant(integer, i)) if kind == "spread" else builder.mul(a_row, ir.Constant(integer, i)) for i in range(rows)]
    starts = [builder.gep(a, [builder.add(a_at, place)]) for place in places]
    before, loop, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed(">", depth, zero), loop, after)

    builder.position_at_end(loop)
    k, sums = builder.phi(integer), [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
    line = builder.gep(b, [builder.add(b_at, entry(k) if kind == "shifted" else builder.mul(k, b_step))])
    right = [builder.load(share, align=size) for share in shares(line)]
    across, new = builder.mul(k, a_step), []
    for i in range(rows):
        left = _broadcast(builder, builder.load(builder.gep(starts[i], [across])), lanes)
        new.append([_multiply_add(builder, left, right[v], sums[i][v]) for v in range(vectors)])
    following = builder.add(k, one)
    k.add_incoming(zero, before)
    k.add_incoming(following, loop)
    for i in range(rows):
        for v in range(vectors):
            sums[i][v].add_incoming(ir.Constant(vector, None), before)
            sums[i][v].add_incoming(new[i][v], loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

    builder.position_at_end(after)
    totals = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
    for i in range(rows):
        for v in range(vectors):
            totals[i][v].add_incoming(ir.Constant(vector, None), before)
            totals[i][v].add_incoming(new[i][v], loop)
    targets = [shares(builder.gep(c, [builder.add(c_at, builder.mul(c_row, ir.Constant(integer, i)))])) for i in range(rows)]
    with builder.if_else(builder.icmp_signed("!=", keep, zero)) as (kept, fresh):
        with kept:
            for total, target in ((total, target) for pair in zip(totals, targets) for total, target in zip(*pair)):
                builder.store(builder.fadd(builder.load(target, align=size), total), target, align=size)
        with fresh:
            for total, target in ((total, target) for pair in zip(totals, targets) for total, target in zip(*pair)):
                builder.store(total, target, align=size)


def _broadcast(builder: object, value: object, lanes: int) -> object:
    from llvmlite import ir

    vector, integer = ir.VectorType(value.type, lanes), ir.IntType(32)
    alone = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(integer, 0))
    return builder.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(integer, lanes), [0] * lanes))


def _multiply_add(builder: object, left: object, right: object, total: object) -> object:
    """left * right + total, rounded once."""
    from llvmlite import ir

    vector = left.type
    name = f"llvm.fma.v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"
    return builder.call(_declared(builder.module, name, vector, [vector] * 3), [left, right, total])
