"""Products of bytes and of packed integers with exact 32-bit sums, in plain Python."""

from __future__ import annotations

import numpy as np

from ...language import emitted
from .. import byte_tiles
from .. import depthwise_bytes as depthwise_words
from .. import limb_dots as limb_dot_products
from ..vectors import host


def byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth):
    """c (rows, panel) = a (rows, depth) @ b (depth, panel), of words with `byte_tiles.group()` integers."""
    for i in range(byte_tiles.shape().rows):
        for j in range(byte_tiles.shape().panel):
            words = [(a[a_at + i * a_row + k], b[b_at + k * b_step + j]) for k in range(depth)]
            c[c_at + i * c_row + j] = sum(_dot_of_words(*pair, byte_tiles.group()) for pair in words)


def _byte_rows(name, vectors, compact):
    def byte_rows(
        a, a_at, a_row, a_segment, b, b_at, added, added_at, scales, scales_at, out, out_at, out_row, depth, segments,
        valid, columns, least, most, zero,
    ):  # fmt: skip
        """out (valid, columns) = round((a @ b + added) * scales) in [least, most], plus zero: integers of a byte."""
        for i in range(valid):
            for j in range(columns):
                total = int(added[added_at + j])
                for k in range(segments * depth):
                    start = a_at + i * a_row + k // depth * a_segment
                    total += _word_product(a, start, k % depth, b[b_at + k * _panel(vectors) + j], compact)
                value = np.float32(total) * np.float32(scales[scales_at + j])
                out[out_at + i * out_row + j] = int(np.rint(min(max(value, least), most))) + zero

    byte_rows.__name__ = f"{name}{vectors}"
    return emitted(byte_rows)


def _panel(vectors):
    return vectors * host().width // 4


# for panels of 1 to 4 vectors
byte_rows, byte_few_rows, byte_row = (
    {n: _byte_rows(name, n, name == "byte_row") for n in range(1, 5)}
    for name in ("byte_rows", "byte_few_rows", "byte_row")
)


def _byte_floats(name, vectors):
    def byte_floats(
        a, a_at, a_row, b, b_at, added, added_at, scales, scales_at, shifts, shifts_at, factors, factors_at, out,
        out_at, out_row, depth, valid, columns,
    ):  # fmt: skip
        """out (valid, columns) = float(a @ b + added) * (scales * factor of the row) + shifts."""
        for i in range(valid):
            for j in range(columns):
                total = int(added[added_at + j])
                for k in range(depth):
                    total += _word_product(a, a_at + i * a_row, k, b[b_at + k * _panel(vectors) + j], True)
                scale = np.float32(scales[scales_at + j]) * np.float32(factors[factors_at + i])
                out[out_at + i * out_row + j] = np.float32(total) * scale + shifts[shifts_at + j]

    byte_floats.__name__ = f"{name}{vectors}"
    return emitted(byte_floats)


byte_floats, byte_float_row = (
    {n: _byte_floats(name, n) for n in range(1, 5)} for name in ("byte_floats", "byte_float_row")
)


def _limb_dots(bits):
    def limb_dots(
        weight, w_at, step, limbs, l_at, limb_step, starts, s_at, scale, c_at, zero, z_at, totals, t_at, out, out_at,
        valid, groups, size,
    ):  # fmt: skip
        """out (valid) = the sums over groups of scale * (starts + limbs @ weights - zero * totals)."""
        half = size // 2
        for i in range(valid):
            total, at = np.float32(0), w_at + i * step
            for g in range(groups):
                factor = scale[c_at + i * groups + g]
                total -= factor * zero[z_at + i * groups + g] * totals[t_at + g]
                for q in range(limb_dot_products.LIMBS):
                    dot, first = int(starts[s_at + 3 * g + q]) if bits == 8 else 0, l_at + q * limb_step + g * size
                    for k in range(size):
                        byte = int(weight[at + (g * size + k if bits == 8 else g * half + k % half)])
                        value = byte + 128 if bits == 8 else byte >> (4 if k >= half else 0) & 15
                        dot += value * int(limbs[first + k])
                    total += np.float32(256.0**q) * np.float32(dot) * factor
            out[out_at + i] = total

    limb_dots.__name__ = "limb_dots" if bits == 8 else "limb_dots4"
    return emitted(limb_dots)


limb_dots, limb_dots4 = map(_limb_dots, (8, 4))


def depthwise_bytes(
    x, x_at, taps, t_at, groups, weight, w_at, added, added_at, scales, scales_at, out, out_at, columns, least, most,
    zero,
):  # fmt: skip
    """out (columns) = round((sum + added) * scales) in [least, most], plus zero: the sums over taps of x * weight."""
    count = host().width // 4
    for number in range(4 * count):
        vector, lane, total = number // count, number % count, int(added[added_at + number])
        channel = depthwise_words.channel_of(vector, lane)
        for tap in range(4 * groups):
            word = int(weight[w_at + (tap // 4 * 4 + vector) * count + lane])
            total += int(x[x_at + int(taps[t_at + tap]) + channel]) * _signed(word >> tap % 4 * 8, 8)
        if channel < columns:
            value = np.float32(total) * np.float32(scales[scales_at + number])
            out[out_at + channel] = int(np.rint(min(max(value, least), most))) + zero


def _word_product(a, a_at, word, right, compact):
    """The dot product of word `word` of a, counted from element `a_at`, with a word of weights."""
    return _dot_of_words(a[a_at:].view(np.uint32)[word], right, byte_tiles.group(compact))


def _dot_of_words(left, right, group):
    """The dot product of two words: of unsigned by signed bytes, or of signed 16-bit numbers."""
    first = _unsigned if group == 4 else _signed
    bits, left, right = 32 // group, int(left), int(right)
    return sum(first(left >> bits * q, bits) * _signed(right >> bits * q, bits) for q in range(group))


def _unsigned(word, bits):
    return word & ((1 << bits) - 1)


def _signed(word, bits):
    word = _unsigned(word, bits)
    return word - (1 << bits) if word >> (bits - 1) else word
