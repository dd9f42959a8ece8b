"""Dot products of packed weights with numbers of 24 bits, by VNNI's products of bytes.

A number is three signed digits ("limbs") of base 256, in three arrays; a weight is a byte, or two of 4 bits in a byte.
Products of bytes have exact 32-bit sums, so a row of weights is multiplied as fast as memory delivers it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from . import byte_tiles
from .vectors import Writer, primitive

LIMBS, ROWS = 3, 2  # digits of a number; rows of weights that share the loads of the digits


def runs() -> bool:
    """Whether the processor has the instructions."""
    return byte_tiles.products() == byte_tiles.VNNI


@cache
def functions() -> dict[str, Callable]:
    """limb_dots(weight, at, step, limbs, at, limb_step, starts, at, scale, at, zero, at, totals, at, out, at, valid,
    groups, size): for rows i < valid (at most ROWS), out[at + i] = the sum over groups g of scale[g] * (dot(g) -
    zero[g] * totals[g]), where dot(g) is the sum over q of 256^q * (starts[3 g + q] + limb q of the group . its weights
    + 128).

    `size` columns are in a group, whose weights are bytes of int8; rows of weights are `step` bytes apart. In
    `limb_dots4` weights are pairs of 4 bits, which are not moved by 128, so that `starts` is not read: byte i of a
    group has columns i and i + size / 2. The bytes of a group fill whole registers.
    """
    if not runs():
        return {}
    text = (
        "weight[w_at], step, limbs[l_at], limb_step, starts[s_at], scale[c_at], zero[z_at], totals[t_at], out[out_at], "
        "valid, groups, size"
    )
    return {name: primitive(name, text, partial(emit, bits)) for name, bits in (("limb_dots", 8), ("limb_dots4", 4))}


def emit(bits, writer, weight, weight_step, limbs, limb_step, starts, scale, zero, totals, out, valid, groups, size):
    """Write limb_dots or limb_dots4. A missing row repeats the first."""
    builder, ir = writer.builder, writer.ir
    byte, word = Writer(builder, ir.IntType(8)), Writer(builder, ir.IntType(32))
    floats = Writer(builder, ir.FloatType(), word.lanes)
    bytes_of_group = size if bits == 8 else builder.sdiv(size, word.number(2))
    rows = [word.within(i, valid) for i in range(ROWS)]
    weights = [byte.at(weight, (weight_step, row)) for row in rows]
    scales, zeros = ([floats.at(array, (groups, row)) for row in rows] for array in (scale, zero))

    def words(value: object) -> object:
        return builder.bitcast(value, word.vector)

    def add(sums: list, values: list, at: object) -> list:
        limb = [words(byte.load(limbs, at, (limb_step, q))) for q in range(LIMBS)]
        return [
            [
                byte_tiles.add_products(word, byte_tiles.VNNI, total, words(value), digits)
                for total, digits in zip(totals_of_row, limb)
            ]
            for totals_of_row, value in zip(sums, values)
        ]

    def group(g: object, state: list) -> list:
        first, column = builder.mul(g, bytes_of_group), builder.mul(g, size)
        starting = [word.zeros] * LIMBS
        if bits == 8:
            lane = ir.Constant(ir.IntType(32), 0)
            starting = [
                builder.insert_element(word.zeros, word.element_at(starts, (g, LIMBS), q), lane) for q in range(LIMBS)
            ]

        def step(k: object, sums: list) -> list:
            values = [byte.load(row, builder.add(first, k)) for row in weights]
            at = builder.add(column, k)
            if bits == 8:
                sign = ir.Constant(byte.vector, [128] * byte.lanes)
                return add(sums, [builder.xor(value, sign) for value in values], at)
            low, four = ir.Constant(byte.vector, [15] * byte.lanes), word.splat(ir.Constant(word.element, 4))
            sums = add(sums, [builder.and_(value, low) for value in values], at)
            high = [builder.bitcast(builder.lshr(words(value), four), byte.vector) for value in values]
            return add(sums, [builder.and_(value, low) for value in high], builder.add(at, bytes_of_group))

        sums = word.loop(0, bytes_of_group, byte.lanes, [list(starting) for _ in weights], step)
        base, results = floats.splat(ir.Constant(floats.element, 256.0)), []
        for row, (total, scale_of_row) in enumerate(zip(sums, scales)):
            *lower, value = [builder.sitofp(limb, floats.vector) for limb in total]
            for limb in reversed(lower):
                value = floats.multiply_add(value, base, limb)
            results.append(floats.multiply_add(value, floats.splat(floats.element_at(scale_of_row, g)), state[row]))
        return results

    def shift(g: object, state: list) -> list:
        mask = floats.first(builder.sub(groups, g))
        total = floats.load(totals, g, mask=mask)
        return [
            builder.fsub(sum_, builder.fmul(builder.fmul(*[floats.load(row, g, mask=mask) for row in pair]), total))
            for sum_, *pair in zip(state, scales, zeros)
        ]

    sums = word.loop(0, groups, 1, [floats.zeros] * ROWS, group)
    sums = word.loop(0, groups, floats.lanes, sums, shift)
    floats.rows(ROWS, valid, lambda i: builder.store(floats.across(builder.fadd, sums[i]), floats.at(out, i)))
