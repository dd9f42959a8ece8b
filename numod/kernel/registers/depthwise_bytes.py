"""Depthwise convolution of bytes by VNNI: the bytes of four taps are interleaved, so that a word has one channel's."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from . import byte_tiles
from .vectors import Writer, host, primitive

TAPS = 4  # of a word


def runs() -> bool:
    """Whether the processor has the instructions."""
    return byte_tiles.products() == byte_tiles.VNNI


def channel_of(vector: int, lane: int) -> int:
    """The channel whose sum is in lane `lane` of vector `vector`: registers are interleaved in parts of 16 bytes."""
    return lane // 4 * 16 + vector * 4 + lane % 4


@cache
def functions() -> dict[str, Callable]:
    """depthwise_bytes(x, at, taps, at, groups, weight, at, added, at, scales, at, out, at, columns, least, most, zero):
    a register's worth of channels of one pixel: out (columns; bytes) = round((sum + added) * scales) in [least, most],
    plus zero. The pixel of tap t begins at x_at + taps[t]; weights are words of four taps, (groups, TAPS, lanes);
    these, `added` and `scales` are in the order of `channel_of`.
    """
    text = (
        "x[x_at], taps[t_at], groups, weight[w_at], added[added_at], scales[scales_at], out[out_at], columns, least, "
        "most, zero"
    )
    return {"depthwise_bytes": primitive("depthwise_bytes", text, emit)} if runs() else {}


def emit(writer, x, taps, groups, weight, added, scales, out, columns, least, most, zero):
    """Write depthwise_bytes."""
    builder, ir = writer.builder, writer.ir
    byte, word = Writer(builder, ir.IntType(8)), Writer(builder, ir.IntType(32))
    floats = Writer(builder, ir.FloatType(), word.lanes)

    def interleaved(a: object, b: object, size: int) -> tuple:
        """The low and the high halves of each 16 bytes of two registers, interleaved by elements of `size` bytes."""
        kind = Writer(builder, ir.IntType(8 * size))
        a, b, count = builder.bitcast(a, kind.vector), builder.bitcast(b, kind.vector), 16 // size
        orders = [
            [start + half + k // 2 + k % 2 * kind.lanes for start in range(0, kind.lanes, count) for k in range(count)]
            for half in (0, count // 2)
        ]
        return tuple(builder.bitcast(kind.shuffle(a, b, order), word.vector) for order in orders)

    def group(g: object, sums: list) -> list:
        pixels = [byte.load(x, builder.load(builder.gep(taps, [writer.offset((g, TAPS), q)]))) for q in range(TAPS)]
        pairs = [interleaved(*pixels[k : k + 2], 1) for k in (0, 2)]
        words = [part for low_high in zip(*pairs) for part in interleaved(*low_high, 2)]
        return [
            byte_tiles.add_products(
                word, byte_tiles.VNNI, total, pixel_words, word.load(weight, (g, TAPS * word.lanes), v * word.lanes)
            )
            for v, (total, pixel_words) in enumerate(zip(sums, words))
        ]

    sums = word.loop(0, groups, 1, [word.zeros] * TAPS, group)
    low, high = (floats.splat(builder.sitofp(bound, floats.element)) for bound in (least, most))
    shift, parts = word.splat(builder.trunc(zero, word.element)), []
    part = Writer(builder, ir.IntType(8), word.lanes)
    for v, total in enumerate(sums):
        value = builder.sitofp(builder.add(total, word.load(added, v * word.lanes)), floats.vector)
        value = builder.fmul(value, floats.load(scales, v * word.lanes))
        value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        value = builder.select(builder.fcmp_ordered(">", value, high), high, value)
        rounded = builder.call(floats.declared(f"rint.v{word.lanes}f32", floats.vector, [floats.vector]), [value])
        parts.append(builder.trunc(builder.add(builder.fptosi(rounded, word.vector), shift), part.vector))
    while len(parts) > 1:
        count = parts[0].type.count
        parts = [byte.shuffle(a, b, list(range(2 * count))) for a, b in zip(parts[::2], parts[1::2])]
    source = {channel_of(v, lane): v * word.lanes + lane for v in range(TAPS) for lane in range(word.lanes)}
    undefined = ir.Constant(byte.vector, ir.Undefined)
    result = byte.shuffle(parts[0], undefined, [source[channel] for channel in range(byte.lanes)])
    with builder.if_else(builder.icmp_signed(">=", columns, writer.number(byte.lanes)), likely=True) as (whole, partly):
        with whole:
            byte.store(result, out)
        with partly:
            byte.store_first(result, columns, out)


def lanes() -> int:
    """The channels of a register."""
    return host().width
