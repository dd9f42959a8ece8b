"""Vector registers and their instructions, as LLVM IR.

`tiles`, `dots`, `pool_rows`, `argminmax`, `depthwise_fma` and `byte_tiles` are written in them.

`primitive` gives kernels a function, and a `Writer` appends its instructions. The same text serves AVX-512, AVX2 and
NEON: only the number of registers and their width differ.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...device import compiler, target


@dataclass(frozen=True)
class Registers:
    """Vector registers of a processor: bytes of each, rows of a tile that fit them, whether loads can leave lanes out,
    and whether it multiplies and adds in one instruction.
    """

    width: int
    rows: int
    masks: bool = True
    fuses: bool = True

    def lanes(self, itemsize: int) -> int:
        """Elements of a register."""
        return self.width // itemsize


# features with a fused multiply-add
_FUSING = frozenset({"+fma", "+fma4", "+vfp4", "+vfp4d16sp", "+fp-armv8d16", "+f"})


@functools.cache
def host() -> Registers:
    """Those of the processor that kernels are compiled for."""
    return registers(target.features().split(","), target.triple())


def registers(features: list[str], triple: str) -> Registers:
    """From LLVM's names of features and target."""
    if triple.startswith(("aarch64", "arm64")):
        return Registers(16, 8, False)
    if "+avx512f" in features:
        return Registers(64, 8)
    return Registers(32, 4) if "+avx2" in features else Registers(16, 4, False, not _FUSING.isdisjoint(features))


@functools.cache
def functions() -> dict[str, Callable]:
    """Hints for LLVM, and memory on the stack."""
    return {"half_registers": half_registers(), "either": either(), "whole": whole(), "stack_words": stack_words()}


@functools.cache
def half_registers() -> Callable:
    """half_registers(): a loop that waits for memory is vectorised by halves of registers of 512 bits, which LLVM does
    by itself for Intel's processors.

    Without it, on a Zen 4, loads of whole registers took 1.1 times as long from the cache that cores share, and 1.2
    times as long of 8-byte elements.
    """
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def half_registers(context: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            if host().width == 64:
                set.add(builder.function.attributes, target.HALF_REGISTERS)  # llvmlite knows no attributes with values
            return context.get_dummy_value()

        return types.void(), generate

    return half_registers


@functools.cache
def either() -> Callable:
    """either(condition, x, y): x where the condition holds, else y, both of which are there already.

    For Python's choice LLVM may read each in a branch that alone needs it, and where loads have no masks it vectorises
    no such loop: on a Zen 3 `where` of 1 M elements by a random mask took ten times as long.
    """
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def either(context: object, condition: object, x: object, y: object) -> tuple:
        return x(types.boolean, x, x), lambda context, builder, signature, values: builder.select(*values)

    return either


@functools.cache
def whole() -> Callable:
    """whole(value, array): the value, of 32 or 64 bits, which is stored to an element of the array whether or not it is
    what that holds already.

    Where it may be, LLVM stores by a mask, which has an instruction of its own in AVX. On a Zen 3 that took eight times
    as long at 64 k float32. An unknown zero keeps LLVM from it: the highest bit of an address, of which programs have
    the lower half.
    """
    from llvmlite import ir
    from numba.extending import intrinsic

    # AVX-512 has masks in registers of their own
    masked = {"+avx", "+avx512f"} & set(target.features().split(",")) == {"+avx"}

    @intrinsic
    def whole(context: object, value: object, array: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            if not masked:
                return values[0]
            start, kind, bits = (
                context.make_array(array)(context, builder, values[1]).data,
                values[0].type,
                ir.IntType(value.bitwidth),
            )
            highest = builder.lshr(builder.ptrtoint(start, ir.IntType(64)), ir.IntType(64)(63))
            return builder.bitcast(builder.xor(builder.bitcast(values[0], bits), builder.trunc(highest, bits)), kind)

        return value(value, array), generate

    return whole


@functools.cache
def stack_words() -> Callable:
    """stack_words(): memory for 260 numbers of 32 bits while the kernel runs, the random words of a strip
    (`kernel.emit`).
    """
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic
    def stack_words(context: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            return cgutils.alloca_once(builder, ir.IntType(32), ir.IntType(64)(260))

        return types.CPointer(types.uint32)(), generate

    return stack_words


def primitive(name: str, arguments: str, emit: Callable, shared: bool = False, result: str = "void") -> Callable:
    """The function `name(arguments)` for kernels, whose instructions `emit(writer, *values)` appends; what it returns
    is the function's result, if it has one.

    Arguments are told by a text, separated by commas: `x[at]` is an array x and the number of the element where it
    begins, which `emit` gets as one pointer, `x[]` an array from its first element on, `x*` the address of an element,
    `real r` a number of the type of the elements, and all else are int64. The elements' type is that of the first
    array. `shared`: the instructions form a function of their own, of which a program holds one however many kernels
    call it. `result` is "void", "int64" or "real".
    """
    from numba import types
    from numba.extending import intrinsic

    kinds = [_argument(text.strip()) for text in arguments.split(",")]
    names = [each for _, these in kinds for each in these]
    first = next(
        k for k, name in enumerate(names) if any(kind == "array" and name == these[0] for kind, these in kinds)
    )

    def define(context: object, *given: object) -> tuple:
        element = given[first].dtype
        of = {"array": [None, types.int64], "address": [types.int64], "real": [element], "number": [types.int64]}
        typed = [kind or given[names.index(these[0])] for shape, these in kinds for kind, _ in zip(of[shape], these)]

        def generate(context: object, builder: object, signature: object, values: list) -> object:
            writer, found, rest = (
                Writer(builder, context.get_value_type(element), signed=getattr(element, "signed", True)),
                [],
                iter(zip(signature.args, values)),
            )
            for kind, these in kinds:
                (form, value), *start = [next(rest) for _ in these]
                if kind == "array":
                    value = writer.at(context.make_array(form)(context, builder, value).data, *[at for _, at in start])
                found.append(builder.inttoptr(value, writer.element.as_pointer()) if kind == "address" else value)
            made = _call(context, writer, name, found, emit, result) if shared else emit(writer, *found)
            return context.get_dummy_value() if result == "void" else made

        return (element if result == "real" else getattr(types, result))(*typed), generate

    define.__name__ = name
    # Numba matches arguments by it
    define.__signature__ = inspect.Signature(
        [inspect.Parameter(each, inspect.Parameter.POSITIONAL_OR_KEYWORD) for each in ("context", *names)]
    )
    return intrinsic(define)


def _argument(text: str) -> tuple[str, list[str]]:
    """The kind of an argument, and the names it takes in a call."""
    array = re.fullmatch(r"(\w+)\[(\w*)\]", text)
    if array:
        return "array", [group for group in array.groups() if group]
    return (
        ("address", [text[:-1]])
        if text.endswith("*")
        else ("real", [text.split()[1]])
        if " " in text
        else ("number", [text])
    )


class Writer:
    """Appends instructions to a function.

    Vectors have `lanes` elements of the LLVM type `element`, by default as many as this processor's registers hold.

    Offsets are elements: a Python number, an int64 value, or a pair of them to be multiplied; several are added up.
    """

    def __init__(self, builder: object, element: object, lanes: int | None = None, signed: bool = True) -> None:
        from llvmlite import ir

        self.ir, self.builder, self.element, self.signed = ir, builder, element, signed
        self.is_float = not isinstance(element, ir.IntType)
        self.size = element.width // 8 if not self.is_float else 4 if isinstance(element, ir.FloatType) else 8
        self.lanes = lanes or host().lanes(self.size)
        self.vector = ir.VectorType(element, self.lanes)
        self.zeros = ir.Constant(self.vector, None)

    def number(self, value: object) -> object:
        """A Python number as a constant int64; a value as it is."""
        return self.ir.Constant(self.ir.IntType(64), value) if isinstance(value, int) else value

    def offset(self, *parts: object) -> object:
        """The sum of offsets."""
        parts = [
            self.builder.mul(*map(self.number, part)) if isinstance(part, tuple) else self.number(part)
            for part in parts
        ]
        return functools.reduce(self.builder.add, parts)

    def at(self, pointer: object, *offset: object) -> object:
        """The address of an element."""
        return self.builder.gep(pointer, [self.offset(*offset)]) if offset else pointer

    def element_at(self, pointer: object, *offset: object) -> object:
        """One element."""
        return self.builder.load(self.at(pointer, *offset))

    def load(self, pointer: object, *offset: object, mask: object = None, other: object = None) -> object:
        """A vector of elements; of those that a mask leaves out, nothing is read and the lanes are those of `other`, or
        0.
        """
        place = self._vector_at(pointer, offset)
        if mask is None:
            return self.builder.load(place, align=self.size)
        return self.builder.call(
            self._masked("load"), [place, self._lane(self.size), mask, self.zeros if other is None else other]
        )

    def store(self, value: object, pointer: object, *offset: object, mask: object = None) -> None:
        """Write a vector, or the lanes that a mask names."""
        place = self._vector_at(pointer, offset)
        if mask is None:
            self.builder.store(value, place, align=self.size)
        else:
            self.builder.call(self._masked("store"), [value, place, self._lane(self.size), mask])

    def store_first(self, value: object, count: object, pointer: object, *offset: object) -> None:
        """Write the first `count` lanes, none if it is negative.

        Where masks are no registers of their own, by halves: stores by AVX2's masks are slow on AMD's processors, and
        NEON has none.
        """
        if host().width == 64:
            self.store(value, pointer, *offset, mask=self.first(count))
            return
        builder = self.builder
        with builder.if_else(
            builder.icmp_signed(">=", count, self.ir.Constant(count.type, self.lanes)), likely=True
        ) as (whole, partly):
            with whole:
                self.store(value, pointer, *offset)
            with partly:
                zero, place, size = self.ir.Constant(count.type, 0), self.at(pointer, *offset), self.lanes
                count = builder.select(builder.icmp_signed(">", count, zero), count, zero)
                while size > 1:
                    size //= 2
                    nothing, before = self.ir.Constant(value.type, self.ir.Undefined), builder.block
                    low, high = (self.shuffle(value, nothing, list(range(k, k + size))) for k in (0, size))
                    with builder.if_then(
                        builder.icmp_unsigned("!=", builder.and_(count, self.ir.Constant(count.type, size)), zero)
                    ):
                        builder.store(low, builder.bitcast(place, low.type.as_pointer()), align=self.size)
                        written = [high, self.at(place, size)], builder.block
                    value, place = self.either(*written, [low, place], before)

    def _vector_at(self, pointer: object, offset: tuple) -> object:
        return self.builder.bitcast(self.at(pointer, *offset), self.vector.as_pointer())

    def _masked(self, verb: str) -> object:
        """LLVM's load or store of the lanes that a mask names."""
        flags = self.ir.VectorType(self.ir.IntType(1), self.lanes)
        name = f"masked.{verb}.v{self.lanes}{'f' if self.is_float else 'i'}{8 * self.size}.p0"
        if verb == "load":
            return self.declared(name, self.vector, [self.vector.as_pointer(), self.ir.IntType(32), flags, self.vector])
        return self.declared(
            name, self.ir.VoidType(), [self.vector, self.vector.as_pointer(), self.ir.IntType(32), flags]
        )

    def first(self, count: object) -> object:
        """A mask of the first `count` lanes."""
        indices = self.ir.Constant(self.ir.VectorType(count.type, self.lanes), list(range(self.lanes)))
        return self.builder.icmp_signed("<", indices, self.splat(count))

    def between(self, first: object, last: object, start: object) -> object:
        """A mask of the lanes whose numbers, counted on from `start`, are from first to last."""
        small = self.ir.IntType(32)
        places = self.ir.Constant(self.ir.VectorType(small, self.lanes), list(range(self.lanes)))
        low, high = (
            self.splat(self.builder.trunc(self.builder.sub(self.number(each), self.number(start)), small))
            for each in (first, last)
        )
        return self.builder.and_(
            self.builder.icmp_signed(">=", places, low), self.builder.icmp_signed("<", places, high)
        )

    def splat(self, value: object) -> object:
        """A value in all lanes."""
        vector = self.ir.VectorType(value.type, self.lanes)
        alone = self.builder.insert_element(self.ir.Constant(vector, self.ir.Undefined), value, self._lane(0))
        return self.shuffle(alone, self.ir.Constant(vector, self.ir.Undefined), [0] * self.lanes)

    def shuffle(self, a: object, b: object, order: list[int]) -> object:
        """The lanes of `order` of two vectors, those of b counted on from a's."""
        return self.builder.shuffle_vector(
            a, b, self.ir.Constant(self.ir.VectorType(self.ir.IntType(32), len(order)), order)
        )

    def every_second(self, vectors: list, first: int = 0) -> object:
        """One vector of evenly spaced lanes, from lane `first` on, of vectors in a row, whose count is a power of 2."""
        while len(vectors) > 1:
            vectors = [
                self.shuffle(a, b, list(range(first % 2, 2 * self.lanes, 2)))
                for a, b in zip(vectors[::2], vectors[1::2])
            ]
            first //= 2
        return vectors[0]

    def turned(self, lines: list) -> list:
        """A transposed square of as many vectors as each has lanes, by rounds that exchange ever larger blocks across
        the diagonal of pairs of lines.
        """
        lines, lanes, block = list(lines), range(self.lanes), 1
        while block < self.lanes:
            # of a pair: its even blocks side by side
            low = [k if k // block % 2 == 0 else self.lanes + k - block for k in lanes]
            high = [k + block if k // block % 2 == 0 else self.lanes + k for k in lanes]
            for k in lanes:
                if k // block % 2 == 0:
                    pair = lines[k], lines[k + block]
                    lines[k], lines[k + block] = (self.shuffle(*pair, order) for order in (low, high))
            block *= 2
        return lines

    def narrowed(self, join: Callable, vector: object, lanes: int) -> object:
        """A vector of so many lanes, to which halves are joined."""
        width = self.lanes
        while width > lanes:
            width //= 2
            vector = join(*[self.shuffle(vector, vector, list(range(first, first + width))) for first in (0, width)])
        return vector

    def across(self, join: Callable, vector: object) -> object:
        """All lanes joined to one element, by halves."""
        width = self.lanes
        while width > 1:
            width //= 2
            vector = join(
                vector, self.shuffle(vector, vector, [(lane + width) % self.lanes for lane in range(self.lanes)])
            )
        return self.builder.extract_element(vector, self._lane(0))

    def _lane(self, number: int) -> object:
        return self.ir.Constant(self.ir.IntType(32), number)

    def multiply_add(self, left: object, right: object, total: object) -> object:
        """left * right + total, rounded once where the processor has an instruction for that: a call of the C library
        would take ten times as long.
        """
        name = f"{'fma' if host().fuses else 'fmuladd'}.v{self.lanes}f{8 * self.size}"
        return self.builder.call(self.declared(name, self.vector, [self.vector] * 3), [left, right, total])

    def lesser(self, x: object, y: object) -> object:
        """The lesser of two int64."""
        x, y = self.number(x), self.number(y)
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def within(self, number: int, count: object) -> object:
        """`number`, or the last of a count if that has fewer; None is a count that has enough."""
        return (
            self.number(number)
            if count is None or number == 0
            else self.lesser(number, self.builder.sub(count, self.number(1)))
        )

    def prefetch(self, pointer: object, *offset: object, write: bool = False) -> None:
        """Have a cache line come: to be written, into the first-level cache; to be read later, into the second."""
        byte, small = self.ir.IntType(8).as_pointer(), self.ir.IntType(32)
        function = self.declared("prefetch.p0", self.ir.VoidType(), [byte, small, small, small])
        self.builder.call(
            function,
            [
                self.builder.bitcast(self.at(pointer, *offset), byte),
                *map(self._lane, (int(write), 3 if write else 2, 1)),
            ],
        )

    def declared(self, name: str, result: object, arguments: list) -> object:
        """LLVM's intrinsic of this name."""
        module = self.builder.module
        return module.globals.get(f"llvm.{name}") or self.ir.Function(
            module, self.ir.FunctionType(result, arguments), f"llvm.{name}"
        )

    def loop(self, start: object, stop: object, step: int, state: list, body: Callable) -> list:
        """The state after `state = body(k, state)` for k from start on in steps, while k < stop.

        A state is a list of values, or of such lists.
        """
        builder, start, stop = self.builder, self.number(start), self.number(stop)
        before, loop, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", start, stop), loop, after)
        builder.position_at_end(loop)
        k, given = builder.phi(start.type), _flat(state)
        held = [builder.phi(each.type) for each in given]
        made = _flat(body(k, _shaped(state, iter(held))))
        following, end = builder.add(k, self.number(step)), builder.block
        for phi, first, last in zip((k, *held), (start, *given), (following, *made)):
            phi.add_incoming(first, before)
            phi.add_incoming(last, end)
        builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)
        builder.position_at_end(after)
        return self.either(state, before, made, end)

    def either(self, first: list, first_block: object, second: list, second_block: object) -> list:
        """The state that comes from one block or the other."""
        merged = [self.builder.phi(each.type) for each in _flat(first)]
        for phi, a, b in zip(merged, _flat(first), _flat(second)):
            phi.add_incoming(a, first_block)
            phi.add_incoming(b, second_block)
        return _shaped(first, iter(merged))

    def rows(self, most: int, held: object, write: Callable) -> None:
        """`write(i)` for i < most and, unless it is None, i < held, which is at least 1."""
        builder, done = self.builder, self.builder.append_basic_block("done")
        for i in range(most):
            if held is not None and i > 0:
                row = builder.append_basic_block("row")
                builder.cbranch(builder.icmp_signed("<", self.number(i), held), row, done)
                builder.position_at_end(row)
            write(i)
        builder.branch(done)
        builder.position_at_end(done)

    def put(self, values: list, pointers: list, keep: object, masks: list) -> None:
        """Write vectors, or add them to what lies there where `keep` is not 0."""
        with self.builder.if_else(self.builder.icmp_signed("!=", keep, self.number(0))) as (adding, fresh):
            with adding:
                for value, pointer, mask in zip(values, pointers, masks):
                    self.store(self.builder.fadd(self.load(pointer, mask=mask), value), pointer, mask=mask)
            with fresh:
                for value, pointer, mask in zip(values, pointers, masks):
                    self.store(value, pointer, mask=mask)


def _call(context: object, w: Writer, name: str, arguments: list, emit: Callable, result: str) -> object:
    """Call a function whose machine code kernels share."""
    name = f"numod_{name}_{w.lanes}_{w.element}{'' if w.signed else '_unsigned'}"
    kind = w.ir.FunctionType(
        {"void": w.ir.VoidType(), "int64": w.ir.IntType(64), "real": w.element}[result],
        [argument.type for argument in arguments],
    )

    def write(module: object) -> None:
        function = w.ir.Function(module, kind, name)
        inside = Writer(w.ir.IRBuilder(function.append_basic_block()), w.element, w.lanes, w.signed)
        made = emit(inside, *function.args)
        inside.builder.ret_void() if result == "void" else inside.builder.ret(made)

    context.add_linking_libs((compiler.shared_instructions(name, write),))
    module = w.builder.module
    return w.builder.call(module.globals.get(name) or w.ir.Function(module, kind, name), arguments)


def tree(join: Callable, values: list) -> object:
    """Values joined in pairs, pairs of pairs and so on."""
    while len(values) > 1:
        values = [join(*values[k : k + 2]) if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
    return values[0]


def _flat(state: object) -> list:
    """The values of a state, one after the other."""
    return [value for each in state for value in _flat(each)] if isinstance(state, list) else [state]


def _shaped(state: object, values: object) -> object:
    """The next of these values in the form of a state."""
    return [_shaped(each, values) for each in state] if isinstance(state, list) else next(values)
