"""Shorter LLVM IR for what Numba writes in many instructions, with the same results.

Each instruction costs time twice: in Python, which creates it, prints it and has LLVM read it, and in LLVM. Here are
divisions of integers, calls of compiled functions, and arrays, which Numba passes as seven words. `replacements` puts
them in place.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable

Write = Callable[[object, object, object, list], object]  # (context, builder, signature, values) -> value


def divisions() -> dict[Callable, Write]:
    """Code for // and % of signed integers, by operator."""
    return {
        operator.floordiv: _floor_division, operator.ifloordiv: _floor_division,
        operator.mod: _remainder, operator.imod: _remainder,
    }  # fmt: skip


def can_divide(context: object, signature: object) -> bool:
    """Whether `divisions` has the code: for equal signed types, and if a division by zero is no error."""
    from numba.core import types
    from numba.core.callconv import NumpyErrorModel

    kind = signature.return_type
    return (
        isinstance(kind, types.Integer)
        and kind.signed
        and all(argument == kind for argument in signature.args)
        and isinstance(context.error_model, NumpyErrorModel)
    )


def _floor_division(context: object, builder: object, signature: object, values: list) -> object:
    from llvmlite import ir

    x, y = values
    constant = _positive(y)
    if constant and constant & (constant - 1) == 0:
        return builder.ashr(x, ir.Constant(x.type, constant.bit_length() - 1))
    return _when_defined(builder, x, y, _floored)


def _remainder(context: object, builder: object, signature: object, values: list) -> object:
    from llvmlite import ir

    x, y = values
    constant = _positive(y)
    if constant and constant & (constant - 1) == 0:
        return builder.and_(x, ir.Constant(x.type, constant - 1))
    return _when_defined(builder, x, y, _rest)


def _positive(value: object) -> int:
    """The value of a positive constant, else 0."""
    from llvmlite import ir

    number = value.constant if isinstance(value, ir.Constant) else 0
    return number if isinstance(number, int) and number > 0 else 0


def _when_defined(builder: object, x: object, y: object, write: Callable) -> object:
    """`write(builder, x, y)`; 0 if y is zero or the quotient overflows, for which processors raise an exception."""
    from llvmlite import ir

    if _positive(y):
        return write(builder, x, y)
    zero, least = ir.Constant(x.type, 0), ir.Constant(x.type, -(1 << (x.type.width - 1)))
    overflows = builder.and_(builder.icmp_signed("==", x, least), builder.icmp_signed("==", y, ir.Constant(x.type, -1)))
    undefined = builder.or_(builder.icmp_signed("==", y, zero), overflows)
    before, defined, end = builder.block, *(builder.append_basic_block() for _ in range(2))
    builder.cbranch(undefined, end, defined).set_weights([1, 99])
    builder.position_at_end(defined)
    value = write(builder, x, y)
    builder.branch(end)
    builder.position_at_end(end)
    result = builder.phi(x.type)
    result.add_incoming(zero, before)
    result.add_incoming(value, defined)
    return result


def _floored(builder: object, x: object, y: object) -> object:
    return builder.add(builder.sdiv(x, y), builder.sext(_differs(builder, builder.srem(x, y), y), x.type))


def _rest(builder: object, x: object, y: object) -> object:
    from llvmlite import ir

    rest = builder.srem(x, y)
    return builder.add(rest, builder.select(_differs(builder, rest, y), y, ir.Constant(x.type, 0)))


def _differs(builder: object, rest: object, y: object) -> object:
    """Whether a remainder has not the divisor's sign: Python's has, LLVM's has the dividend's."""
    from llvmlite import ir

    zero = ir.Constant(rest.type, 0)
    if _positive(y):
        return builder.icmp_signed("<", rest, zero)
    return builder.and_(builder.icmp_signed("!=", rest, zero), builder.icmp_signed("<", builder.xor(rest, y), zero))


# ---- calls


class Status:
    """The status of a call of a compiled function that returns no Optional. Instructions are written when asked for."""

    def __init__(self, convention: object, builder: object, code: object, address: object) -> None:
        self.convention, self.builder, self.code, self.address = convention, builder, code, address

    @property
    def is_error(self) -> object:
        """Whether the function failed."""
        return self.builder.icmp_signed("!=", self.code, self.code.type(0))

    @property
    def excinfoptr(self) -> object:
        """The address of what is known of the error."""
        return self.builder.load(self.address)

    def __getattr__(self, name: str) -> object:
        return getattr(self.convention._get_return_status(self.builder, self.code, self.excinfoptr), name)


def call_function(original: Callable) -> Callable:
    """`CPUCallConv.call_function`: without zeros in the places that the function writes, and with a `Status`.

    Only in functions without `try`: after an error, others free the variable that a result was for.
    """
    from numba.core import types
    from numba.core.callconv import excinfo_ptr_t

    def call(
        self: object, builder: object, callee: object, result: object, kinds: tuple, values: list, attrs: object = None
    ) -> tuple:
        if attrs is not None or isinstance(result, types.Optional) or not getattr(builder, "no_try", False):
            return original(self, builder, callee, result, kinds, values, attrs)
        with builder.goto_entry_block():
            returned, error = builder.alloca(self.get_return_type(result).pointee), builder.alloca(excinfo_ptr_t)
        arguments = self._get_arg_packer(kinds).as_arguments(builder, values)
        code = builder.call(callee, [returned, error, *arguments])
        value = self.context.get_returned_value(builder, result, builder.load(returned))
        return Status(self, builder, code, error), value

    return call


def propagate(original: Callable) -> Callable:
    """`return_status_propagate`, which asks whether the caller has a `try` only if it may have one."""

    def propagate_status(self: object, builder: object, status: object) -> None:
        if not getattr(builder, "no_try", False):
            original(self, builder, status)
            return
        builder.store(status.excinfoptr, self._get_excinfo_argument(builder.function))
        self._return_errcode_raw(builder, status.code)

    return propagate_status


# ---- arrays

_DATA, _SHAPE = 4, 5  # the places of fields in `parts`


def with_parts(original: Callable) -> Callable:
    """`ArrayModel.from_argument`: the array remembers the words that it was made of."""

    def from_argument(self: object, builder: object, words: tuple) -> object:
        array = original(self, builder, words)
        array.parts = words
        return array

    return from_argument


def as_parts(original: Callable) -> Callable:
    """`ArrayModel.as_argument`: the words that the array was made of."""

    def as_argument(self: object, builder: object, array: object) -> tuple:
        parts = getattr(array, "parts", None)
        return original(self, builder, array) if parts is None else parts

    return as_argument


def data(builder: object, array: object) -> object:
    """The address of an array's first element."""
    parts = getattr(array, "parts", None)
    return builder.extract_value(array, _DATA) if parts is None else parts[_DATA]


def size(builder: object, array: object) -> object:
    """The number of elements of a flat array."""
    parts = getattr(array, "parts", None)
    return builder.extract_value(array, [_SHAPE, 0]) if parts is None else parts[_SHAPE][0]


def drop_unread(function: object) -> None:
    """Remove the instructions that make structs which nothing reads: arrays and tuples whose parts are known."""
    from llvmlite.ir.instructions import InsertValue, PhiInstr

    uses: dict[int, int] = {}
    structs = []
    for block in function.blocks:
        for instruction in block.instructions:
            if type(instruction) is InsertValue:
                structs.append(instruction)
            is_phi = type(instruction) is PhiInstr
            for operand in [value for value, _ in instruction.incomings] if is_phi else instruction.operands:
                if type(operand) is InsertValue:
                    uses[id(operand)] = uses.get(id(operand), 0) + 1
    unread: set[int] = set()
    for struct in reversed(structs):  # what a struct is made of comes before it
        if not uses.get(id(struct)):
            unread.add(id(struct))
            for operand in struct.operands:
                if type(operand) is InsertValue:
                    uses[id(operand)] -= 1
    for block in {struct.parent for struct in structs if id(struct) in unread}:
        block.instructions[:] = [part for part in block.instructions if id(part) not in unread]


class Parts:
    """A flat array without an owner that is only passed on to a function."""

    def __init__(self, itemsize: int, address: object, count: object) -> None:
        from llvmlite import ir

        owner, item = ir.IntType(8).as_pointer()(None), count.type(itemsize)
        self.parts = (owner, owner, count, item, address, (count,), (item,))


def is_flat(kind: object) -> bool:
    """Whether an array of Numba's type `kind` is its address and its size."""
    from numba.core import types

    return type(kind) is types.Array and kind.ndim == 1 and kind.layout == "C"


def flat_words(builder: object, kind: object, value: object) -> list:
    """The words to pass for a value: address and size of a flat array."""
    return [data(builder, value), size(builder, value)] if is_flat(kind) else [value]


def of_words(context: object, kind: object, words: list) -> object:
    """The value of the first of `words`, which are removed from the list: an array that is only passed on."""
    if not is_flat(kind):
        return words.pop(0)
    itemsize = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    return Parts(itemsize, words.pop(0), words.pop(0))


def elements(builder: object, values: object) -> list:
    """The elements of a tuple."""
    from numba.core import cgutils

    known = getattr(values, "elements", None)
    return cgutils.unpack_tuple(builder, values) if known is None else known


def same_pointer(original: Callable) -> Callable:
    """`IRBuilder.bitcast`, without an instruction for a pointer to another type: LLVM's pointers have none."""
    from llvmlite import ir
    from llvmlite.ir.instructions import AllocaInstr

    def bitcast(self: object, value: object, kind: object, name: str = "") -> object:
        if not (isinstance(value, ir.NamedValue) and value.type.is_pointer and kind.is_pointer) or value.type == kind:
            return original(self, value, kind, name)
        alias = copy.copy(value)
        alias.type = kind
        if isinstance(value, AllocaInstr) and not kind.is_opaque:
            alias.allocated_type = kind.pointee  # the type of what is loaded from it
        return alias

    return bitcast
