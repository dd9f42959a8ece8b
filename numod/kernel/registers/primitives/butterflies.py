"""The stages of fast Fourier transforms, in plain Python."""

from __future__ import annotations

import cmath
import math

from . import lanes_of


def rows_in(x, x_at, step, n, re, re_at, im, im_at):
    """re, im (n, lanes) = n complex numbers of each row; rows are `step` numbers apart, one in each lane."""
    _complex_in(x, x_at, 2, step, n, re, re_at, im, im_at)


def columns_in(x, x_at, step, n, re, re_at, im, im_at):
    """Like `rows_in`, for neighbouring columns, whose successive numbers are `step` apart."""
    _complex_in(x, x_at, step, 2, n, re, re_at, im, im_at)


def rows_out(re, re_at, im, im_at, n, x, x_at, step, scale):
    """The reverse of `rows_in`, times the scale."""
    _complex_out(re, re_at, im, im_at, n, x, x_at, 2, step, scale)


def columns_out(re, re_at, im, im_at, n, x, x_at, step, scale):
    """The reverse of `columns_in`, times the scale."""
    _complex_out(re, re_at, im, im_at, n, x, x_at, step, 2, scale)


def stage(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, radix, m, run, turn):
    """A stage of a fast Fourier transform: transforms of `radix` registers that are m * run apart, times powers of
    roots of unity.
    """
    for p in range(m):
        for j in range(run):
            terms = [
                complex(re[re_at + k], im[im_at + k])
                for k in range(p * run + j, p * run + j + radix * m * run, m * run)
            ]
            for q in range(radix):
                total = sum(term * cmath.exp(-2j * math.pi * q * k / radix) for k, term in enumerate(terms))
                total *= complex(roots[2 * p * q * turn], roots[2 * p * q * turn + 1])
                at = (p * radix + q) * run + j
                to_re[to_re_at + at], to_im[to_im_at + at] = total.real, total.imag


def to_half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n):
    """Twice the first n + 1 numbers of the spectra of 2 n real numbers, from the spectra of these numbers as n complex
    pairs.
    """
    _half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n, n + 1, -1j)


def from_half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n):
    """The reverse of `to_half`."""
    _half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n, n, 1j)


def _half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n, count, unit):
    lanes = lanes_of(re)
    for k in range(count):
        root = cmath.exp((-1j if unit == -1j else 1j) * math.pi * k / n)
        for lane in range(lanes):
            low, high = (
                (k % n if unit == -1j else k) * lanes + lane,
                ((n - k) % n if unit == -1j else n - k) * lanes + lane,
            )
            x, y = complex(re[re_at + low], im[im_at + low]), complex(re[re_at + high], -im[im_at + high])
            total = x + y + unit * root * (x - y)
            to_re[to_re_at + k * lanes + lane], to_im[to_im_at + k * lanes + lane] = total.real, total.imag


def _complex_in(x, x_at, next_number, next_lane, n, re, re_at, im, im_at):
    lanes = lanes_of(x)
    for k in range(n):
        for lane in range(lanes):
            at = x_at + k * next_number + lane * next_lane
            re[re_at + k * lanes + lane], im[im_at + k * lanes + lane] = x[at], x[at + 1]


def _complex_out(re, re_at, im, im_at, n, x, x_at, next_number, next_lane, scale):
    lanes = lanes_of(x)
    for k in range(n):
        for lane in range(lanes):
            at = x_at + k * next_number + lane * next_lane
            x[at], x[at + 1] = re[re_at + k * lanes + lane] * scale, im[im_at + k * lanes + lane] * scale
