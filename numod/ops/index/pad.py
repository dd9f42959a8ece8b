"""Padding of up to three neighbouring dimensions of a dense tensor, seen as (outer, n0, n1, n2), with a number or with
its own elements.
"""

from __future__ import annotations

from math import prod

from ...device.layout import layout
from ...kernel import bind, writer
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan

_MAX_PADDING = 1 << 40  # limit of the elements added on one side


# The index of the element of n that is at place k, in each mode


def same_place(k, n):
    return k


def reflected(k, n):
    return n - 1 - abs(n - 1 - abs(k))


def replicated(k, n):
    return k * ((k > 0) & (k < n)) + (n - 1) * (k >= n)


def wrapped(k, n):
    return k % n


PLACES = {"constant": same_place, "reflect": reflected, "replicate": replicated, "circular": wrapped}


def candidate(c, i, n, b):
    """Candidate c for the places that repeat element i of n: its own, one of the b before, or one after."""
    return i + b if c == 0 else c - 1 if c <= b else c - 1 - max(b, 0) + max(n + b, 0)


def padded_rows(x, out, value, outer, n0, n1, n2, m0, m1, m2, b0, b1, b2, *, CONSTANT, place_in, number, stored):
    """out (outer, m0, m1, m2) = x (outer, n0, n1, n2) with b0, b1, b2 elements before it along each dimension.

    Padding is `value` or elements of x; elements of x are copied as runs.
    """
    filling = stored(number(value))
    first = min(max(b2, 0), m2)
    last = max(min(n2 + b2, m2), first)
    for task in parallel_range(outer * m0):
        i0 = int64(task) % m0 - b0
        plane = (int64(task) // m0) * n0 + place_in(i0, n0)
        for row in range(m1):
            i1 = row - b1
            source = (plane * n1 + place_in(i1, n1)) * n2
            target = (int64(task) * m1 + row) * m2
            if CONSTANT and ((i0 < 0) | (i0 >= n0) | (i1 < 0) | (i1 >= n1)):
                for k in range(m2):
                    out[uintp(target + k)] = filling
            else:
                for k in range(first):
                    out[uintp(target + k)] = filling if CONSTANT else x[uintp(source + place_in(k - b2, n2))]
                for k in range(first, last):
                    out[uintp(target + k)] = x[uintp(source + k - b2)]
                for k in range(last, m2):
                    out[uintp(target + k)] = filling if CONSTANT else x[uintp(source + place_in(k - b2, n2))]


def padded_elements(x, out, value, outer, n0, n1, n2, m0, m1, m2, b0, b1, b2, *, CONSTANT, place_in, number, stored):
    """`padded_rows` for a GPU, with one thread per element."""
    filling = stored(number(value))
    for task in parallel_range(outer * m0 * m1 * m2):
        element = int64(task)
        i2 = element % m2 - b2
        i1 = element // m2 % m1 - b1
        i0 = element // (m2 * m1) % m0 - b0
        if CONSTANT and ((i0 < 0) | (i0 >= n0) | (i1 < 0) | (i1 >= n1) | (i2 < 0) | (i2 >= n2)):
            out[uintp(element)] = filling
        else:
            out[uintp(element)] = x[
                uintp(
                    ((element // (m2 * m1 * m0) * n0 + place_in(i0, n0)) * n1 + place_in(i1, n1)) * n2
                    + place_in(i2, n2)
                )
            ]


def gathered_back(g, out, outer, n0, n1, n2, m0, m1, m2, b0, b1, b2, width, *, place_in, place_of):
    """out (outer, n0, n1, n2) = the sum over the copies of each element of g (outer, m0, m1, m2). A task computes
    `width` neighbours of a row.

    Along a dimension the candidates for copies are the element's own place, and the b before and m - n - b after the
    tensor.
    """
    for task in parallel_range(outer * n0 * n1 * (n2 // width)):
        base = int64(task) * width
        start, i1, i0, plane = base % n2, base // n2 % n1, base // (n2 * n1) % n0, base // (n2 * n1 * n0)
        for k in range(width):
            out[uintp(base + k)] = 0
        for c0 in range(1 + max(b0, 0) + max(m0 - n0 - b0, 0)):
            k0 = place_of(c0, i0, n0, b0)
            for c1 in range(1 + max(b1, 0) + max(m1 - n1 - b1, 0)):
                k1 = place_of(c1, i1, n1, b1)
                if (
                    (k0 >= 0)
                    & (k0 < m0)
                    & (k1 >= 0)
                    & (k1 < m1)
                    & (place_in(k0 - b0, n0) == i0)
                    & (place_in(k1 - b1, n1) == i1)
                ):
                    source, target = ((plane * m0 + k0) * m1 + k1) * m2, base - start
                    for k in range(max(start + b2, 0), min(start + width + b2, m2)):
                        out[uintp(target + k - b2)] += g[uintp(source + k)]
                    for c2 in range(1, 1 + max(b2, 0) + max(m2 - n2 - b2, 0)):
                        k2 = place_of(c2, start, n2, b2)
                        i2 = place_in(k2 - b2, n2)
                        if (i2 >= start) & (i2 < start + width):
                            out[uintp(target + i2)] += g[uintp(source + k2)]


def gradient(g: object, before: tuple, after: tuple, mode: str) -> object:
    """The gradient of x: the part of g without the padding, plus the elements of g that repeat elements of x."""
    if mode == "constant":
        return pad.apply((g.contiguous(), 0), (tuple(-n for n in before), tuple(-n for n in after), mode))
    return pad_back.apply((g.contiguous(),), (before, after, mode))


def _sizes(shape: tuple, padded: tuple, before: tuple, end: int) -> tuple:
    """outer, n0, n1, n2, m0, m1, m2, b0, b1, b2 for the dimensions up to `end`; the last includes all that follow."""
    n, m, b = [((filler,) * 3 + tuple(values[:end]))[-3:] for values, filler in ((shape, 1), (padded, 1), (before, 0))]
    inner = prod(shape[end:])
    return prod(shape[: max(end - 3, 0)]), *n[:2], n[2] * inner, *m[:2], m[2] * inner, *b[:2], b[2] * inner


class Pad(Op):
    """A dense x with `before` and `after` more elements in each dimension (fewer if negative); `mode` is a key of
    PLACES, "constant" pads with `value`.

    Only three neighbouring dimensions may change; in other modes only the last three.
    """

    takes = "x[*s]:buwifc value#; before=int^s after=int^s mode=constant|reflect|replicate|circular"
    wide_unsigned = True
    inputs, attributes, gradients, upcasts_half = ("x", "value"), ("before", "after", "mode"), {"x": gradient}, False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return _misfit(sizes["s"], *attributes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, (before, after, mode) = arguments[0], attributes
        shape = tuple(map(sum, zip(before, x.shape, after)))
        out = layout(shape, x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        end = max([d for d in range(x.ndim) if before[d] or after[d]], default=0) + 1 if mode == "constant" else x.ndim
        sizes = _sizes(x.shape, shape, before, end)
        kernel, kind = padded_elements if x.device.backend.is_gpu else padded_rows, x.dtype.compute.storage
        stored = writer.store_function(x.dtype)
        text = specialized(kernel, CONSTANT=mode == "constant", place_in=PLACES[mode], number=kind, stored=stored)
        number = "float64" if x.dtype.is_floating_point else "complex128" if x.dtype.is_complex else "int64"
        signature = bind.signature(x, x, others=[number, *["int64"] * len(sizes)])
        return Plan(out, bind.launcher(x.device, f"pad_{mode}", text, signature, x.dtype, out.size), sizes)


class PadBack(Op):
    """The gradient of `Pad` in modes that repeat elements."""

    takes = "g[*s]:buifc; before=int^s after=int^s mode=constant|reflect|replicate|circular"
    inputs, attributes = ("g",), ("before", "after", "mode")
    gradients = {"g": lambda g, before, after, mode: pad.apply((g.contiguous(), 0), (before, after, mode))}

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        shape = tuple(m - a - b for m, a, b in zip(sizes["s"], *attributes[:2]))
        return (
            _misfit(shape, *attributes)
            if min(shape, default=0) >= 0
            else f"attributes 'before' and 'after' take more than {sizes['s']}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (g,), (before, after, mode) = arguments, attributes
        out = layout(tuple(m - a - b for m, a, b in zip(g.shape, before, after)), g.dtype, g.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        sizes = _sizes(out.shape, g.shape, before, g.ndim)
        numbers = (*sizes, 1 if g.device.backend.is_gpu else sizes[3])
        text = specialized(gathered_back, place_in=PLACES[mode], place_of=candidate)
        signature = bind.signature(g, g, numbers=len(numbers))
        return Plan(out, bind.launcher(g.device, f"pad_back_{mode}", text, signature, g.dtype, g.size), numbers)


def _misfit(shape: tuple, before: tuple, after: tuple, mode: str) -> str | None:
    """An error message if a tensor of this shape cannot be padded so, else None."""
    changed = [d for d, n in enumerate(shape) if before[d] or after[d]]
    if changed and (changed[-1] if mode == "constant" else len(shape) - 1) - changed[0] > 2:
        return (
            f"attributes 'before' and 'after' must change three neighbouring dimensions at most, got {before} and "
            f"{after}"
        )
    limit = {"reflect": lambda n: n - 1, "circular": lambda n: n}.get(mode, lambda n: _MAX_PADDING)
    if any(a < -n or b < -n or a + n + b < 0 or max(a, b) > limit(n) for n, a, b in zip(shape, before, after)):
        return f"attributes 'before' and 'after' must fit the sizes {shape}, got {before} and {after}"
    return "x must have elements to repeat" if mode != "constant" and changed and 0 in shape else None


pad, pad_back = Pad("pad"), PadBack("pad_back")
