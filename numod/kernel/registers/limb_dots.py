"""Dot products of packed weights with numbers of 24 bits, by VNNI's products of bytes.

A number is three signed digits ("limbs") of base 256, in three arrays; a weight is a byte, or two of 4 bits in a byte.
Products of bytes have exact 32-bit sums, so a row of weights is multiplied as fast as memory delivers it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from . import byte_tiles
from .vectors import Writer, primitive

LIMBS = 3


def runs() -> bool:
    """Whether the processor has the instructions."""
    return byte_tiles.group() == 4


@cache
def functions() -> dict[str, Callable]:
    """limb_dots(weight, at, limbs, at, limb_step, starts, at, scale, at, out, at, groups, size): out[at] = the sum over
    groups g of scale[g] times the sum over q of 256^q * (starts[3 g + q] + limb q of the group . its weights + 128).

    `size` columns are in a group, whose weights are bytes of int8; in `limb_dots4` they are pairs of 4 bits, which are
    not moved by 128: byte i of a group has columns i and i + size / 2. The bytes of a group fill whole registers.
    """
    if not runs():
        return {}
    text = "weight[w_at], limbs[l_at], limb_step, starts[s_at], scale[c_at], out[out_at], groups, size"
    return {name: primitive(name, text, partial(emit, bits)) for name, bits in (("limb_dots", 8), ("limb_dots4", 4))}


def emit(bits, writer, weight, limbs, limb_step, starts, scale, out, groups, size):
    """Write limb_dots or limb_dots4."""
    builder, ir = writer.builder, writer.ir
    byte, word = Writer(builder, ir.IntType(8)), Writer(builder, ir.IntType(32))
    floats = Writer(builder, ir.FloatType(), word.lanes)
    sizes = size if bits == 8 else builder.sdiv(size, word.number(2))

    def words(value: object) -> object:
        return builder.bitcast(value, word.vector)

    def add(sums: list, value: object, at: object) -> list:
        return [
            byte_tiles.add_products(word, 4, total, words(value), words(byte.load(limbs, at, (limb_step, q))))
            for q, total in enumerate(sums)
        ]

    def group(g: object, state: list) -> list:
        first, column = builder.mul(g, sizes), builder.mul(g, size)
        starting = [
            builder.insert_element(word.zeros, word.element_at(starts, (g, LIMBS), q), ir.Constant(ir.IntType(32), 0))
            for q in range(LIMBS)
        ]

        def step(k: object, sums: list) -> list:
            value, at = byte.load(weight, builder.add(first, k)), builder.add(column, k)
            if bits == 8:
                sign = ir.Constant(byte.vector, [128] * byte.lanes)
                return add(sums, builder.xor(value, sign), at)
            low = ir.Constant(byte.vector, [15] * byte.lanes)
            pairs = word.splat(ir.Constant(word.element, 4))
            high = builder.bitcast(builder.lshr(words(value), pairs), byte.vector)
            sums = add(sums, builder.and_(value, low), at)
            return add(sums, builder.and_(high, low), builder.add(at, sizes))

        sums = [builder.sitofp(total, floats.vector) for total in word.loop(0, sizes, byte.lanes, starting, step)]
        base = floats.splat(ir.Constant(floats.element, 256.0))
        value = sums[-1]
        for total in sums[-2::-1]:
            value = floats.multiply_add(value, base, total)
        return [floats.multiply_add(value, floats.splat(floats.element_at(scale, g)), state[0])]

    (total,) = word.loop(0, groups, 1, [floats.zeros], group)
    builder.store(floats.across(builder.fadd, total), out)
