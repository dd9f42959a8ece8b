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
AHEAD = 512  # bytes that a line is asked for before it is read: processors do not foresee what masked loads read, which then take up to four times as long
HEIGHTS = (1, 2, 4, 8)  # rows of tiles for few rows


@dataclass(frozen=True)
class Registers:
    """Vector registers of a processor: bytes of each, rows of a tile that fit them, and whether loads can leave lanes out."""

    width: int
    rows: int
    masks: bool = True

    def lanes(self, itemsize: int) -> int:
        """Elements of a register."""
        return self.width // itemsize


def features() -> str:
    """LLVM's names of what kernels may use, with commas between: this processor's features, or those in NUMBA_CPU_FEATURES (also where it is empty)."""
    import llvmlite.binding as llvm
    import numba

    given = numba.config.CPU_FEATURES
    return given if given is not None else llvm.get_host_cpu_features().flatten()


@functools.cache
def host() -> Registers:
    """Those of the processor that kernels are compiled for."""
    import llvmlite.binding as llvm

    return registers(features().split(","), llvm.get_process_triple())


def registers(features: list[str], triple: str) -> Registers:
    """From LLVM's names of features and target."""
    if triple.startswith(("aarch64", "arm64")):
        return Registers(16, 8, False)
    return Registers(64, 8) if "+avx512f" in features else Registers(32, 4) if "+avx2" in features else Registers(16, 4, False)


@functools.cache
def functions() -> dict[str, Callable]:
    """tile1 to tile3, by the vectors of a row: c (rows, columns) = or += a @ b.

    tileN(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, last): a and b are addresses, a's element (i, k) lies i * a_row + k * a_step
    elements behind its own, row k of b k * b_step behind its own, row i of c begins at c_at + i * c_row; `keep` adds to what c holds. `edge` tiles read
    and write only `held` rows, and `last` elements of a row's last vector (where `host().masks` is false they read all of b's).
    shiftedN(a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep), where all are arrays, finds row k of b at
    b_at + table[table_at + k], spreadN row i of a at a_at + table[table_at + i]. lineN is shiftedN of one row; in the place of c_row it is told how many
    elements of the last vector to write.

    tileRxN(a, a_at, a_row, b, b_at, c, c_at, c_row, depth), where all are arrays, is a tile of R rows, of a as it lies and of b in a panel of this width.

    copy_line1(x, x_at, first, last, out, out_at, n): out[out_at + j] = x[x_at + j] for j from first to last, 0 for the rest up to n. copy_line2 and copy_line4 take x[x_at + 2 * j]
    and x[x_at + 4 * j]. copy_rows(x, x_at, out, out_at) copies as many elements as a tile has rows.

    turn_block(x, x_at, x_step, out, out_at, out_step): a transposed square of as many elements as a register holds, out (k, j) = x (j, k), its lines x_step apart.
    turn_edge(..., out_step, held) reads only `held` lines, the last of them in the place of those that are missing.
    """
    rows = host().rows
    found = {f"copy_line{stride}": _copy(stride) for stride in (1, 2, 4)}
    for vectors in range(1, VECTORS + 1):
        found |= {f"{kind}{vectors}": _indirect(rows, vectors, kind) for kind in ("shifted", "spread")}
        found |= {f"{kind}{vectors}": _tile(rows, vectors, kind == "edge") for kind in ("tile", "edge")}
    found |= {"turn_block": _turn(), "turn_edge": _turn_edge(), "copy_rows": _copy_rows(rows)}
    found |= {f"tile{rows}x{vectors}": _few(rows, vectors) for rows in HEIGHTS for vectors in range(1, widest(rows) + 1)}
    return {**found, **{f"line{vectors}": _indirect(1, vectors, "shifted") for vectors in (1, 2, 4, LINE)}}


def widest(rows: int) -> int:
    """Vectors of a row of the widest tile of `rows` rows."""
    return min(LINE, VECTORS * host().rows // rows)


def panel(columns: int, lanes: int, vectors: int = VECTORS) -> tuple[int, int]:
    """The width of panels of equal width, at most `vectors` registers, and what they take together, for so many columns."""
    needed = -(-columns // lanes)
    panels = -(-needed // vectors)
    width = -(-needed // panels) * lanes
    return width, panels * width


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
    """Write the instructions of copy_line: masked loads where a vector is not whole, so that neither the ends nor the borders need loops of their own."""
    from llvmlite import ir

    integer, small, vector, flags = ir.IntType(64), ir.IntType(32), ir.VectorType(real, lanes), ir.VectorType(ir.IntType(1), lanes)
    places, size = ir.VectorType(small, lanes), 4 if isinstance(real, ir.FloatType) else 8
    load, store = (_masked(builder.module, verb, vector) for verb in ("load", "store"))
    alignment, zeros = ir.Constant(small, size), ir.Constant(vector, None)
    low, high, limit = (_broadcast(builder, builder.trunc(value, small), lanes) for value in (first, last, n))

    before, loop, after = builder.block, builder.append_basic_block("line"), builder.append_basic_block("copied")
    builder.cbranch(builder.icmp_signed(">", n, ir.Constant(integer, 0)), loop, after)
    builder.position_at_end(loop)
    j = builder.phi(integer)
    start = _broadcast(builder, builder.trunc(j, small), lanes)

    def place(offset: int) -> object:
        return builder.add(start, ir.Constant(places, [(lane + offset) // stride for lane in range(lanes)]))

    def line(pointer: object, offset: object) -> object:
        return builder.bitcast(builder.gep(pointer, [offset]), vector.as_pointer())

    def copy_some() -> None:
        parts = []
        for part in range(stride):
            asked = ir.Constant(flags, [int((lane + part * lanes) % stride == 0) for lane in range(lanes)])
            mask = builder.and_(asked, builder.and_(builder.icmp_signed(">=", place(part * lanes), low), builder.icmp_signed("<", place(part * lanes), high)))
            at = line(source, builder.add(builder.mul(j, ir.Constant(integer, stride)), ir.Constant(integer, part * lanes)))
            if stride > 1:
                _prefetch(builder, builder.gep(builder.bitcast(at, ir.IntType(8).as_pointer()), [ir.Constant(integer, AHEAD)]), False)
            parts.append(builder.call(load, [at, alignment, mask, zeros]))
        while len(parts) > 1:  # every second element of two vectors, until one is left
            parts = [builder.shuffle_vector(*pair, ir.Constant(places, list(range(0, 2 * lanes, 2)))) for pair in zip(parts[::2], parts[1::2])]
        numbers = builder.add(start, ir.Constant(places, list(range(lanes))))
        builder.call(store, [parts[0], line(target, j), alignment, builder.icmp_signed("<", numbers, limit)])

    following = builder.add(j, ir.Constant(integer, lanes))
    if stride == 1:  # masks cost several times as much as a copy
        ends = builder.and_(builder.icmp_signed("<=", following, last), builder.icmp_signed("<=", following, n))
        with builder.if_else(builder.and_(ends, builder.icmp_signed(">=", j, first)), likely=True) as (whole, partly):
            with whole:
                builder.store(builder.load(line(source, j), align=size), line(target, j), align=size)
            with partly:
                copy_some()
    else:
        copy_some()
    j.add_incoming(ir.Constant(integer, 0), before)
    j.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, n), loop, after)
    builder.position_at_end(after)


def _copy_rows(rows: int) -> Callable:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def copy_rows(context, x, x_at, out, out_at):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            size, vector = x.dtype.bitwidth // 8, ir.VectorType(context.get_value_type(x.dtype), rows)
            data = (context.make_array(signature.args[k])(context, builder, values[k]).data for k in (0, 2))
            source, target = (builder.bitcast(builder.gep(each, [values[k]]), vector.as_pointer()) for each, k in zip(data, (1, 3)))
            builder.store(builder.load(source, align=size), target, align=size)
            return context.get_dummy_value()

        return types.void(x, at, out, at), generate

    return copy_rows


def _turn() -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def turn_block(context, x, x_at, x_step, out, out_at, out_step):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            _call_turn(context, builder, signature, values, False)
            return context.get_dummy_value()

        return types.void(x, at, at, out, at, at), generate

    return turn_block


def _turn_edge() -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def turn_edge(context, x, x_at, x_step, out, out_at, out_step, held):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            _call_turn(context, builder, signature, values, True)
            return context.get_dummy_value()

        return types.void(x, at, at, out, at, at, at), generate

    return turn_edge


def _call_turn(context: object, builder: object, signature: object, values: list, edge: bool) -> None:
    """Call a function of its own, as of a tile: its many shuffles are compiled once in a program."""
    from llvmlite import ir

    real, integer = context.get_value_type(signature.args[0].dtype), ir.IntType(64)
    lanes, pointer = host().lanes(signature.args[0].dtype.bitwidth // 8), real.as_pointer()
    kinds = [pointer, integer, pointer, integer, *([integer] if edge else [])]
    function = declared(builder.module, f"numod_turn_{'edge' if edge else 'block'}_{lanes}_{real}", ir.VoidType(), kinds)
    if function.is_declaration:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        inside = ir.IRBuilder(function.append_basic_block())
        emit_turn(inside, real, lanes, *function.args)
        inside.ret_void()
    places = [builder.gep(context.make_array(signature.args[k])(context, builder, values[k]).data, [values[k + 1]]) for k in (0, 3)]
    builder.call(function, [places[0], values[2], places[1], values[5], *values[6:]])


def emit_turn(builder, real, lanes, source, step, target, target_step, held=None):  # noqa: ANN001, ANN201
    """Write the instructions of turn_block, or of turn_edge: rounds that exchange ever larger blocks across the diagonal of pairs of lines."""
    from llvmlite import ir

    integer, vector, size = ir.IntType(64), ir.VectorType(real, lanes), 4 if isinstance(real, ir.FloatType) else 8
    places = ir.VectorType(ir.IntType(32), lanes)

    def line(pointer: object, step: object, k: object) -> object:
        return builder.bitcast(builder.gep(pointer, [builder.mul(step, k)]), vector.as_pointer())

    numbers = [ir.Constant(integer, k) for k in range(lanes)]
    lines, block = [builder.load(line(source, step, _held(builder, k, held)), align=size) for k in numbers], 1
    while block < lanes:
        low = [k if k // block % 2 == 0 else lanes + k - block for k in range(lanes)]  # of a pair: its even blocks side by side
        high = [k + block if k // block % 2 == 0 else lanes + k for k in range(lanes)]
        for k in range(lanes):
            if k // block % 2 == 0:
                pair = lines[k], lines[k + block]
                lines[k], lines[k + block] = (builder.shuffle_vector(*pair, ir.Constant(places, order)) for order in (low, high))
        block *= 2
    for k, value in zip(numbers, lines):
        builder.store(value, line(target, target_step, k), align=size)


def _held(builder: object, number: object, held: object) -> object:
    """The number of a line, or of the last one that is there."""
    if held is None or number.constant == 0:
        return number
    return builder.select(builder.icmp_signed("<", number, held), number, builder.sub(held, number.type(1)))


def declared(module: object, name: str, result: object, arguments: list) -> object:
    """A module's function of this name."""
    from llvmlite import ir

    return module.globals.get(name) or ir.Function(module, ir.FunctionType(result, arguments), name)


def _indirect(rows: int, vectors: int, kind: str) -> Callable:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def tile(context, a, a_at, a_row, a_step, b, b_at, b_step, table, table_at, c, c_at, c_row, depth, keep):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            named = dict(zip(("a", "a_at", "a_row", "a_step", "b", "b_at", "b_step", "table", "table_at", "c", "c_at", "c_row", "depth", "keep"), values))
            for name, position in (("a", 0), ("b", 4), ("table", 7), ("c", 9)):
                named[name] = context.make_array(signature.args[position])(context, builder, named[name]).data
            for name in "abc":
                named[name] = builder.gep(named[name], [named.pop(f"{name}_at")])
            named["table"] = builder.gep(named["table"], [named.pop("table_at")])
            limits = {"held": ir.Constant(ir.IntType(64), 1), "last": named["c_row"], "masks": False} if rows == 1 else {}
            emit(builder, context.get_value_type(a.dtype), host().lanes(a.dtype.bitwidth // 8), rows, vectors, kind, **named, **limits)
            return context.get_dummy_value()

        return types.void(a, at, at, at, b, at, at, table, at, c, at, at, at, at), generate

    return tile


def _few(rows: int, vectors: int) -> Callable:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def tile(context, a, a_at, a_row, b, b_at, c, c_at, c_row, depth):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            a_data, b_data, c_data = (builder.gep(context.make_array(signature.args[k])(context, builder, values[k]).data, [values[k + 1]]) for k in (0, 3, 5))
            real, lanes = context.get_value_type(a.dtype), host().lanes(a.dtype.bitwidth // 8)
            zero, one, step = (ir.Constant(ir.IntType(64), each) for each in (0, 1, vectors * lanes))
            emit(builder, real, lanes, rows, vectors, "tile", a_data, values[2], one, b_data, step, c_data, values[7], values[8], zero)
            return context.get_dummy_value()

        return types.void(a, at, at, b, at, c, at, at, at), generate

    return tile


def _tile(rows: int, vectors: int, edge: bool) -> Callable:
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def tile(context, a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, last):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            real = context.get_value_type(c.dtype)
            left, right = (builder.inttoptr(values[k], real.as_pointer()) for k in (0, 3))
            target = builder.gep(context.make_array(c)(context, builder, values[5]).data, [values[6]])
            function = tile_function(builder.module, real, host(), rows, vectors, edge)
            builder.call(function, [left, *values[1:3], right, values[4], target, *values[7:]])
            return context.get_dummy_value()

        return types.void(at, at, at, at, at, c, *[at] * 6), generate

    return tile


def tile_function(module, real, registers, rows, vectors, edge):  # noqa: ANN001, ANN201
    """The tile as a function of its own, of which a program holds one however many kernels call it."""
    from llvmlite import ir

    number, integer, lanes = real.as_pointer(), ir.IntType(64), registers.lanes(4 if isinstance(real, ir.FloatType) else 8)
    kinds = {"a": number, "a_row": integer, "a_step": integer, "b": number, "b_step": integer, "c": number, **dict.fromkeys(("c_row", "depth", "keep", "held", "last"), integer)}
    function = declared(module, f"numod_{'edge' if edge else 'tile'}_{rows}x{vectors}x{lanes}_{real}", ir.VoidType(), list(kinds.values()))
    if function.is_declaration:
        function.linkage = "linkonce_odr"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block())
        named = dict(zip(kinds, function.args))
        limits = {name: named.pop(name) for name in ("held", "last")}
        emit(builder, real, lanes, rows, vectors, "tile", **named, **(limits if edge else {}), masks=registers.masks)
        builder.ret_void()
    return function


def emit(  # noqa: ANN201
    builder, real, lanes, rows, vectors, kind, a, a_row, a_step, b, b_step, c, c_row, depth, keep, table=None, held=None, last=None, masks=True,  # noqa: ANN001
):  # fmt: skip
    """Write the tile's instructions; all but the first six, and `masks`, are LLVM values."""
    from llvmlite import ir

    integer, vector = ir.IntType(64), ir.VectorType(real, lanes)
    zero, one = ir.Constant(integer, 0), ir.Constant(integer, 1)
    access = Access(builder, vector, None if held is None else last)

    def entry(position: object) -> object:
        return builder.load(builder.gep(table, [position]))

    def shares(pointer: object) -> list:
        return [builder.bitcast(builder.gep(pointer, [ir.Constant(integer, v * lanes)]), vector.as_pointer()) for v in range(vectors)]

    numbers = [ir.Constant(integer, i) for i in range(rows)]
    places = [entry(number) if kind == "spread" else builder.mul(a_row, _held(builder, number, held)) for number in numbers]
    starts = [builder.gep(a, [place]) for place in places]
    if kind == "tile":  # by the time of the sums what they are added to has come from memory
        for i in range(rows):
            for share in shares(builder.gep(c, [builder.mul(c_row, ir.Constant(integer, i))])):
                _prefetch(builder, share, True)

    def added(k: object, sums: list) -> list:
        """The sums with row k of b, times column k of a."""
        line = builder.gep(b, [entry(k) if kind == "shifted" else builder.mul(k, b_step)])
        right, across, new = [access.load(share, masks and v == vectors - 1) for v, share in enumerate(shares(line))], builder.mul(k, a_step), []
        for i in range(rows):
            left = _broadcast(builder, builder.load(builder.gep(starts[i], [across])), lanes)
            new.append([multiply_add(builder, left, right[v], sums[i][v]) for v in range(vectors)])
        return new

    def turn(k: object, sums: list) -> list:
        """One step for each set of sums."""
        if kind == "shifted" and rows > 1:  # what lies behind these rows is asked for as fast as they are read: processors do not foresee so many lines at once
            _prefetch(builder, builder.gep(a, [builder.mul(builder.add(a_row, k), ir.Constant(integer, rows))]), False)
        return [added(builder.add(k, ir.Constant(integer, step)), each) for step, each in enumerate(sums)]

    nothing = [[ir.Constant(vector, None)] * vectors] * rows
    if kind == "shifted" and vectors == 1 and rows > 1:  # so few sums would each wait for its last: two steps at a time, with sums of their own
        begin = builder.and_(depth, one)
        (only,) = _loop(builder, zero, begin, 1, [nothing], turn)
        first, second = _loop(builder, begin, depth, 2, [only, nothing], turn)
        totals = [[builder.fadd(*pair) for pair in zip(*both)] for both in zip(first, second)]
    else:
        (totals,) = _loop(builder, zero, depth, 1, [nothing], turn)
    done = builder.append_basic_block("done")
    kept = builder.icmp_signed("!=", keep, zero)
    for i in range(rows):
        if held is not None and i > 0:
            there = builder.append_basic_block("row")
            builder.cbranch(builder.icmp_signed("<", ir.Constant(integer, i), held), there, done)
            builder.position_at_end(there)
        targets = shares(builder.gep(c, [builder.mul(c_row, ir.Constant(integer, i))]))
        with builder.if_else(kept) as (adding, fresh):
            with adding:
                for v, target in enumerate(targets):
                    access.store(builder.fadd(access.load(target, v == vectors - 1), totals[i][v]), target, v == vectors - 1)
            with fresh:
                for v, target in enumerate(targets):
                    access.store(totals[i][v], target, v == vectors - 1)
    builder.branch(done)
    builder.position_at_end(done)


def _loop(builder: object, first: object, last: object, step: int, sums: list, turn: Callable) -> list:
    """Write a loop over k from `first` to `last`: sets of sums, rows of vectors each, as `turn(k, sets)` makes them from those of the turn before."""
    before, loop, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed("<", first, last), loop, after)
    builder.position_at_end(loop)

    def phis() -> list:
        return [[[builder.phi(each.type) for each in row] for row in rows] for rows in sums]

    k, inside = builder.phi(first.type), phis()
    new, following = turn(k, inside), builder.add(k, first.type(step))
    end = builder.block
    k.add_incoming(first, before)
    k.add_incoming(following, end)
    builder.cbranch(builder.icmp_signed("<", following, last), loop, after)
    builder.position_at_end(after)
    outside = phis()
    for at in (inside, outside):
        for each, start, made in zip(*([x for rows in sets for row in rows for x in row] for sets in (at, sums, new))):
            each.add_incoming(start, before)
            each.add_incoming(made, end)
    return outside


class Access:
    """Loads and stores of vectors, whole or, where told so, of the first `count` lanes."""

    def __init__(self, builder: object, vector: object, count: object) -> None:
        from llvmlite import ir

        self.builder, self.vector, self.mask = builder, vector, None
        self.size = 4 if isinstance(vector.element, ir.FloatType) else 8
        if count is not None:
            places = ir.Constant(ir.VectorType(ir.IntType(64), vector.count), list(range(vector.count)))
            self.mask = builder.icmp_signed("<", places, _broadcast(builder, count, vector.count))

    def load(self, place: object, masked: bool) -> object:
        from llvmlite import ir

        if self.mask is None or not masked:
            return self.builder.load(place, align=self.size)
        function = _masked(self.builder.module, "load", self.vector)
        return self.builder.call(function, [place, ir.Constant(ir.IntType(32), self.size), self.mask, ir.Constant(self.vector, None)])

    def store(self, value: object, place: object, masked: bool) -> None:
        from llvmlite import ir

        if self.mask is None or not masked:
            self.builder.store(value, place, align=self.size)
            return
        self.builder.call(_masked(self.builder.module, "store", self.vector), [value, place, ir.Constant(ir.IntType(32), self.size), self.mask])


def _masked(module: object, verb: str, vector: object) -> object:
    """LLVM's load or store of the lanes that a mask names."""
    from llvmlite import ir

    small, flags = ir.IntType(32), ir.VectorType(ir.IntType(1), vector.count)
    name = f"llvm.masked.{verb}.v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}.p0"
    if verb == "load":
        return declared(module, name, vector, [vector.as_pointer(), small, flags, vector])
    return declared(module, name, ir.VoidType(), [vector, vector.as_pointer(), small, flags])


def _prefetch(builder: object, place: object, write: bool) -> None:
    """Have a cache line come: to be written, into the first-level cache; to be read later, into the second."""
    from llvmlite import ir

    small, byte = ir.IntType(32), ir.IntType(8).as_pointer()
    function = declared(builder.module, "llvm.prefetch.p0", ir.VoidType(), [byte, small, small, small])
    builder.call(function, [builder.bitcast(place, byte), *(ir.Constant(small, each) for each in (int(write), 3 if write else 2, 1))])


def _broadcast(builder: object, value: object, lanes: int) -> object:
    from llvmlite import ir

    vector, integer = ir.VectorType(value.type, lanes), ir.IntType(32)
    alone = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.Constant(integer, 0))
    return builder.shuffle_vector(alone, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(integer, lanes), [0] * lanes))


def multiply_add(builder: object, left: object, right: object, total: object) -> object:
    """left * right + total, rounded once."""
    from llvmlite import ir

    vector = left.type
    name = f"llvm.fma.v{vector.count}f{32 if isinstance(vector.element, ir.FloatType) else 64}"
    return builder.call(declared(builder.module, name, vector, [vector] * 3), [left, right, total])
