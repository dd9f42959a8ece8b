"""Vector registers and their instructions, as LLVM IR.

`primitive` defines a function that kernels can call; a `Writer` appends its instructions. The same emitter serves
AVX-512, AVX2 and NEON: only the number and the width of registers differ.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from ...device import code_library, loops, short_forms, target


@dataclass(frozen=True)
class Registers:
    """Vector registers of a processor."""

    width: int  # bytes
    rows: int  # of a matrix-product tile that fits the registers
    masks: bool = True  # whether loads can be masked
    fuses: bool = True  # whether there is a fused multiply-add

    def lanes(self, itemsize: int) -> int:
        """The number of elements in a register."""
        return self.width // itemsize


# features with a fused multiply-add
_FUSING = frozenset({"+fma", "+fma4", "+vfp4", "+vfp4d16sp", "+fp-armv8d16", "+fp-armv8d16sp", "+f"})


@functools.cache
def host() -> Registers:
    """The registers of the processor that kernels are compiled for."""
    return registers(target.features().split(","), target.triple())


def registers(features: list[str], triple: str) -> Registers:
    """The registers of a processor, from LLVM's names of its features and its target triple."""
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
    """half_registers(): vectorise this function's loops by 256 bits, as LLVM does by default for Intel's processors.

    This is faster for memory-bound loops. On a Zen 4, 512-bit loads took 1.1 times as long from the shared cache, and
    1.2 times as long for 8-byte elements.
    """
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def half_registers(context: object) -> tuple:
        def generate(context: object, builder: object, signature: object, values: list) -> object:
            if host().width == 64:
                # llvmlite's own `add` takes no attribute with a value
                set.add(builder.function.attributes, target.HALF_REGISTERS)
            return context.get_dummy_value()

        return types.void(), generate

    return half_registers


@functools.cache
def either() -> Callable:
    """either(condition, x, y): x if the condition holds, else y; both are evaluated before.

    For `x if condition else y` LLVM may move a load into the branch that uses it, and it does not vectorise such a loop
    if loads cannot be masked. On a Zen 3, `where` of 1 M elements by a random mask took ten times as long.
    """
    from numba import types
    from numba.extending import intrinsic

    @intrinsic
    def either(context: object, condition: object, x: object, y: object) -> tuple:
        return x(types.boolean, x, x), lambda context, builder, signature, values: builder.select(*values)

    return either


@functools.cache
def whole() -> Callable:
    """whole(value, array): the value (32 or 64 bits), hidden from LLVM so that it is stored without a mask.

    If the value may equal the element of the array that it replaces, LLVM uses AVX's masked store instead. On a Zen 3
    that took eight times as long for 64 k float32. Here the value is combined with a zero that LLVM cannot know: the
    highest bit of an address, which is 0 in user space.
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
            start = short_forms.data(builder, values[1])
            kind = values[0].type
            bits = ir.IntType(value.bitwidth)
            highest = builder.lshr(builder.ptrtoint(start, ir.IntType(64)), ir.IntType(64)(63))
            return builder.bitcast(builder.xor(builder.bitcast(values[0], bits), builder.trunc(highest, bits)), kind)

        return value(value, array), generate

    return whole


@functools.cache
def stack_words() -> Callable:
    """stack_words(): stack memory for 260 32-bit numbers, the random words of a strip (`kernel.emit`)."""
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
    """The kernel function `name(arguments)`.

    `emit(writer, *values)` appends its instructions and returns the result, if there is one.

    `arguments` are separated by commas: `x[at]` is an array and the index of its first element, which `emit` receives
    as one pointer; `x[]` an array from its first element on; `x*` the address of an element; `real r` a number of the
    elements' type; anything else an int64. The first array determines the elements' type. With `shared`, the
    instructions become a separate function, which all kernels call. `result` is "void", "int64" or "real".
    """
    from numba import types
    from numba.extending import intrinsic

    parsed = [_argument(text.strip()) for text in arguments.split(",")]
    names = [parameter for _, parameters in parsed for parameter in parameters]
    first = next(
        k
        for k, name in enumerate(names)
        if any(kind == "array" and name == parameters[0] for kind, parameters in parsed)
    )

    def define(context: object, *argument_types: object) -> tuple:
        element = argument_types[first].dtype
        types_of = {"array": [None, types.int64], "address": [types.int64], "real": [element], "number": [types.int64]}
        parameter_types = [
            fixed_type or argument_types[names.index(parameters[0])]
            for kind_name, parameters in parsed
            for fixed_type, _ in zip(types_of[kind_name], parameters)
        ]

        def generate(context: object, builder: object, signature: object, values: list) -> object:
            writer = Writer(builder, context.get_value_type(element), signed=getattr(element, "signed", True))
            operands = []
            pairs = iter(zip(signature.args, values))
            for fixed_type, parameters in parsed:
                (_, value), *start = [next(pairs) for _ in parameters]
                if fixed_type == "array":
                    value = writer.at(short_forms.data(builder, value), *[at for _, at in start])
                operands.append(
                    builder.inttoptr(value, writer.element.as_pointer()) if fixed_type == "address" else value
                )
            result_value = _call(context, writer, name, operands, emit, result) if shared else emit(writer, *operands)
            return context.get_dummy_value() if result == "void" else result_value

        return (element if result == "real" else getattr(types, result))(*parameter_types), generate

    define.__name__ = name
    # Numba matches arguments by it
    define.__signature__ = inspect.Signature(
        [inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD) for parameter in ("context", *names)]
    )
    return intrinsic(define)


def _argument(text: str) -> tuple[str, list[str]]:
    """The kind of an argument, and the names of its parameters."""
    array = re.fullmatch(r"(\w+)\[(\w*)\]", text)
    if array:
        return "array", [group for group in array.groups() if group]
    if text.endswith("*"):
        return ("address", [text[:-1]])
    if " " in text:
        return ("real", [text.split()[1]])
    return ("number", [text])


class Writer:
    """Appends instructions to a function.

    Vectors have `lanes` elements of the LLVM type `element`, by default as many as a register of this processor.

    An offset counts elements. It is a Python number, an int64 value, or a pair of these, which are multiplied; several
    offsets are added.
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
        """A Python number as an int64 constant; a value unchanged."""
        return self.ir.Constant(self.ir.IntType(64), value) if isinstance(value, int) else value

    def offset(self, *parts: object) -> object:
        """The sum of offsets."""
        return self.number(self._total(*parts))

    def _total(self, *parts: object) -> object:
        """The sum of offsets, as a Python number if all are, without instructions for 0 and 1."""
        add, multiply = functools.partial(self._combined, "add"), functools.partial(self._combined, "mul")
        return functools.reduce(add, [multiply(*part) if isinstance(part, tuple) else part for part in parts])

    def _combined(self, operation: str, left: object, right: object) -> object:
        """The result of "add" or "mul", a constant second. An instruction is written only where one is needed."""
        left, right = sorted(map(self._plain, (left, right)), key=lambda value: isinstance(value, int))
        if isinstance(left, int):
            return getattr(operator, operation)(left, right)
        if (operation, right) in (("add", 0), ("mul", 1)):
            return left
        if (operation, right) == ("mul", 0):
            return 0
        return getattr(self.builder, operation)(left, self.number(right))

    def _plain(self, value: object) -> object:
        """A constant as a Python number; another value unchanged."""
        return value.constant if isinstance(value, self.ir.Constant) and isinstance(value.constant, int) else value

    def at(self, pointer: object, *offset: object) -> object:
        """The address of an element."""
        total = self._total(*offset) if offset else 0
        return pointer if isinstance(total, int) and total == 0 else self.builder.gep(pointer, [self.number(total)])

    def element_at(self, pointer: object, *offset: object) -> object:
        """One element."""
        return self.builder.load(self.at(pointer, *offset))

    def load(self, pointer: object, *offset: object, mask: object = None, other: object = None) -> object:
        """A vector of elements. Masked-out elements are not read; their lanes are taken from `other`, or 0."""
        address = self._vector_at(pointer, offset)
        if mask is None:
            return self.builder.load(address, align=self.size)
        return self.builder.call(
            self._masked("load"), [address, self._lane(self.size), mask, self.zeros if other is None else other]
        )

    def store(self, value: object, pointer: object, *offset: object, mask: object = None) -> None:
        """Write a vector, or the lanes selected by a mask."""
        address = self._vector_at(pointer, offset)
        if mask is None:
            self.builder.store(value, address, align=self.size)
        else:
            self.builder.call(self._masked("store"), [value, address, self._lane(self.size), mask])

    def store_first(self, value: object, count: object, pointer: object, *offset: object) -> None:
        """Write the first `count` lanes; none if it is negative.

        Without AVX-512, writes halves of halves: AVX2's masked stores are slow on AMD's processors, and NEON has none.
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
                zero, address, lanes = self.ir.Constant(count.type, 0), self.at(pointer, *offset), self.lanes
                count = builder.select(builder.icmp_signed(">", count, zero), count, zero)
                while lanes > 1:
                    lanes //= 2
                    undefined, before = self.ir.Constant(value.type, self.ir.Undefined), builder.block
                    low, high = (self.shuffle(value, undefined, list(range(k, k + lanes))) for k in (0, lanes))
                    with builder.if_then(
                        builder.icmp_unsigned("!=", builder.and_(count, self.ir.Constant(count.type, lanes)), zero)
                    ):
                        builder.store(low, builder.bitcast(address, low.type.as_pointer()), align=self.size)
                        written = [high, self.at(address, lanes)], builder.block
                    value, address = self.either(*written, [low, address], before)

    def _vector_at(self, pointer: object, offset: tuple) -> object:
        return self.builder.bitcast(self.at(pointer, *offset), self.vector.as_pointer())

    def _masked(self, verb: str) -> object:
        """LLVM's masked load or store."""
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
        """A mask of the lanes k with first <= start + k < last."""
        small = self.ir.IntType(32)
        lane_numbers = self.ir.Constant(self.ir.VectorType(small, self.lanes), list(range(self.lanes)))
        low, high = (
            self.splat(self.builder.trunc(self.builder.sub(self.number(bound), self.number(start)), small))
            for bound in (first, last)
        )
        return self.builder.and_(
            self.builder.icmp_signed(">=", lane_numbers, low), self.builder.icmp_signed("<", lane_numbers, high)
        )

    def splat(self, value: object) -> object:
        """A value in all lanes."""
        vector = self.ir.VectorType(value.type, self.lanes)
        first_lane = self.builder.insert_element(self.ir.Constant(vector, self.ir.Undefined), value, self._lane(0))
        return self.shuffle(first_lane, self.ir.Constant(vector, self.ir.Undefined), [0] * self.lanes)

    def shuffle(self, a: object, b: object, order: list[int]) -> object:
        """The lanes `order` of two vectors; lanes of b are numbered after those of a."""
        return self.builder.shuffle_vector(
            a, b, self.ir.Constant(self.ir.VectorType(self.ir.IntType(32), len(order)), order)
        )

    def every_second(self, vectors: list, first: int = 0) -> object:
        """One vector of every n-th lane, from lane `first` on, of n consecutive vectors; n is a power of 2."""
        while len(vectors) > 1:
            vectors = [
                self.shuffle(a, b, list(range(first % 2, 2 * self.lanes, 2)))
                for a, b in zip(vectors[::2], vectors[1::2])
            ]
            first //= 2
        return vectors[0]

    def transposed(self, lines: list) -> list:
        """Transpose a square of vectors, by rounds that swap blocks of doubling size across the diagonal."""
        lines, lanes, block = list(lines), range(self.lanes), 1
        while block < self.lanes:
            # the even blocks of a pair, then its odd blocks
            low_order = [k if k // block % 2 == 0 else self.lanes + k - block for k in lanes]
            high_order = [k + block if k // block % 2 == 0 else self.lanes + k for k in lanes]
            for k in lanes:
                if k // block % 2 == 0:
                    two_lines = lines[k], lines[k + block]
                    lines[k], lines[k + block] = (self.shuffle(*two_lines, order) for order in (low_order, high_order))
            block *= 2
        return lines

    def narrowed(self, join: Callable, vector: object, lanes: int) -> object:
        """A vector of `lanes` lanes, reduced by joining halves."""
        lane_count = self.lanes
        while lane_count > lanes:
            lane_count //= 2
            vector = join(
                *[self.shuffle(vector, vector, list(range(first, first + lane_count))) for first in (0, lane_count)]
            )
        return vector

    def across(self, join: Callable, vector: object) -> object:
        """All lanes joined to one element, by joining halves."""
        lane_count = self.lanes
        while lane_count > 1:
            lane_count //= 2
            vector = join(
                vector, self.shuffle(vector, vector, [(lane + lane_count) % self.lanes for lane in range(self.lanes)])
            )
        return self.builder.extract_element(vector, self._lane(0))

    def _lane(self, number: int) -> object:
        return self.ir.Constant(self.ir.IntType(32), number)

    def multiply_add(self, left: object, right: object, total: object) -> object:
        """left * right + total, fused if the processor has an instruction for it (a library call takes ten times as
        long).
        """
        name = f"{'fma' if host().fuses else 'fmuladd'}.v{self.lanes}f{8 * self.size}"
        return self.builder.call(self.declared(name, self.vector, [self.vector] * 3), [left, right, total])

    def lesser(self, x: object, y: object) -> object:
        """The lesser of two int64."""
        x, y = self.number(x), self.number(y)
        return self.builder.select(self.builder.icmp_signed("<", x, y), x, y)

    def within(self, number: int, count: object) -> object:
        """min(number, count - 1); `number` if count is None."""
        return (
            self.number(number)
            if count is None or number == 0
            else self.lesser(number, self.builder.sub(count, self.number(1)))
        )

    def prefetch(self, pointer: object, *offset: object, write: bool = False) -> None:
        """Prefetch a cache line: into the first-level cache to `write` it, else into the second-level cache."""
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
        """The state after `state = body(k, state)` for k in range(start, stop, step).

        A state is a list of values, or of such lists.
        """
        builder, start, stop = self.builder, self.number(start), self.number(stop)
        entry_block = builder.block
        loop = builder.append_basic_block("loop")
        after = builder.append_basic_block("after")
        builder.cbranch(builder.icmp_signed("<", start, stop), loop, after)
        builder.position_at_end(loop)
        k, initial = builder.phi(start.type), _flattened(state)
        phis = [builder.phi(value.type) for value in initial]
        last_values = _flattened(body(k, _nested(state, iter(phis))))
        next_k, end = builder.add(k, self.number(step)), builder.block
        for phi, first, last in zip((k, *phis), (start, *initial), (next_k, *last_values)):
            phi.add_incoming(first, entry_block)
            phi.add_incoming(last, end)
        again = builder.cbranch(builder.icmp_signed("<", next_k, stop), loop, after)
        loops.mark(again, builder.function)
        builder.position_at_end(after)
        return self.either(state, entry_block, last_values, end)

    def either(self, first: list, first_block: object, second: list, second_block: object) -> list:
        """The state from one block or the other (phi)."""
        merged = [self.builder.phi(value.type) for value in _flattened(first)]
        for phi, a, b in zip(merged, _flattened(first), _flattened(second)):
            phi.add_incoming(a, first_block)
            phi.add_incoming(b, second_block)
        return _nested(first, iter(merged))

    def rows(self, row_count: int, count: object, write: Callable) -> None:
        """Call `write(i)` for i < row_count and, if `count` is not None, i < count, which is at least 1."""
        builder, done = self.builder, self.builder.append_basic_block("done")
        for i in range(row_count):
            if count is not None and i > 0:
                row = builder.append_basic_block("row")
                builder.cbranch(builder.icmp_signed("<", self.number(i), count), row, done)
                builder.position_at_end(row)
            write(i)
        builder.branch(done)
        builder.position_at_end(done)

    def put(self, values: list, pointers: list, keep: object, masks: list) -> None:
        """Write vectors; if `keep` is not 0, add them to the elements in memory."""
        with self.builder.if_else(self.builder.icmp_signed("!=", keep, self.number(0))) as (adding, fresh):
            with adding:
                for value, pointer, mask in zip(values, pointers, masks):
                    self.store(self.builder.fadd(self.load(pointer, mask=mask), value), pointer, mask=mask)
            with fresh:
                for value, pointer, mask in zip(values, pointers, masks):
                    self.store(value, pointer, mask=mask)


def _call(context: object, w: Writer, symbol: str, arguments: list, emit: Callable, result: str) -> object:
    """Call a function with machine code that all kernels share."""
    symbol = f"numod_{symbol}_{w.lanes}_{w.element}{'' if w.signed else '_unsigned'}"
    function_type = w.ir.FunctionType(
        {"void": w.ir.VoidType(), "int64": w.ir.IntType(64), "real": w.element}[result],
        [argument.type for argument in arguments],
    )

    def write(module: object) -> None:
        function = w.ir.Function(module, function_type, symbol)
        writer = Writer(w.ir.IRBuilder(function.append_basic_block()), w.element, w.lanes, w.signed)
        value = emit(writer, *function.args)
        writer.builder.ret_void() if result == "void" else writer.builder.ret(value)

    context.add_linking_libs((code_library.shared_instructions(symbol, write),))
    function = w.builder.module.globals.get(symbol)
    if function is None:
        function = w.ir.Function(w.builder.module, function_type, symbol)
        # it is where the time goes: LLVM makes no copies of the loops around it, for conditions that stay the same
        function.attributes.add("convergent")
    return w.builder.call(function, arguments)


def tree(join: Callable, values: list) -> object:
    """Values joined by a balanced binary tree."""
    while len(values) > 1:
        values = [join(*values[k : k + 2]) if k + 1 < len(values) else values[k] for k in range(0, len(values), 2)]
    return values[0]


def _flattened(state: object) -> list:
    """The values of a state, one after the other."""
    return [value for part in state for value in _flattened(part)] if isinstance(state, list) else [state]


def _nested(state: object, values: object) -> object:
    """The next values, nested like a state."""
    return [_nested(part, values) for part in state] if isinstance(state, list) else next(values)
