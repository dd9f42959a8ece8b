"""Padding of up to three neighbouring dimensions of a dense tensor seen as (outer, n0, n1, n2), by a number or by elements of its own. Public functions are in `core.shapes` and `nn`."""

from __future__ import annotations

import re
from math import prod

from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from .op import Op, Plan

# the element of n that stands at place k, for the modes that repeat elements
PLACES = {
    "reflect": "n - 1 - abs(n - 1 - abs(k))",
    "replicate": "k * ((k > 0) & (k < n)) + (n - 1) * (k >= n)",
    "circular": "k % n",
}


def padded_rows(x, out, value, outer, n0, n1, n2, m0, m1, m2, b0, b1, b2):
    """out (outer, m0, m1, m2) = x (outer, n0, n1, n2) after b0, b1, b2 more elements along each: `value`, or elements of x. What lies within is copied as a run."""
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
                    out[uintp(target + k)] = value
            else:
                for k in range(first):
                    out[uintp(target + k)] = value if CONSTANT else x[uintp(source + place_in(k - b2, n2))]
                for k in range(first, last):
                    out[uintp(target + k)] = x[uintp(source + k - b2)]
                for k in range(last, m2):
                    out[uintp(target + k)] = value if CONSTANT else x[uintp(source + place_in(k - b2, n2))]


def padded_elements(x, out, value, outer, n0, n1, n2, m0, m1, m2, b0, b1, b2):
    """The same with a GPU thread an element."""
    for task in parallel_range(outer * m0 * m1 * m2):
        element = int64(task)
        i2 = element % m2 - b2
        i1 = element // m2 % m1 - b1
        i0 = element // (m2 * m1) % m0 - b0
        if CONSTANT and ((i0 < 0) | (i0 >= n0) | (i1 < 0) | (i1 >= n1) | (i2 < 0) | (i2 >= n2)):
            out[uintp(element)] = value
        else:
            out[uintp(element)] = x[uintp(((element // (m2 * m1 * m0) * n0 + place_in(i0, n0)) * n1 + place_in(i1, n1)) * n2 + place_in(i2, n2))]


def gradient(g: object, layout: Layout, before: tuple, after: tuple, mode: str) -> object:
    """The part of g that was copied; what repeats an element is added to it, dimension by dimension."""
    if mode == "constant":
        return pad.apply((g.contiguous(), 0), (tuple(-n for n in before), tuple(-n for n in after), mode))
    for d, n in enumerate(layout.shape):
        if before[d] or after[d]:
            places = eval(PLACES[mode], {"k": g.new_arange(g.shape[d]) - before[d], "n": n, "abs": abs})  # the kernel's own formula
            g = g.new_zeros((*g.shape[:d], n, *g.shape[d + 1 :])).index_add_(d, places, g)
    return g


class Pad(Op):
    """A dense x with `before` and `after` more (or, negative, fewer) elements in each dimension; parameter `mode` is "constant" (of `value`) or one of PLACES.

    Only three neighbouring dimensions may change, and where elements repeat the last three. The caller checks the sizes.
    """

    inputs, parameters, gradients = ("x", "value"), ("before", "after", "mode"), {"x": gradient}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, (before, after, mode) = arguments[0], parameters
        shape = tuple(map(sum, zip(before, x.shape, after)))
        out = layout(shape, x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        end = max([d for d in range(x.ndim) if before[d] or after[d]], default=0) + 1 if mode == "constant" else x.ndim
        (n, m, b), inner = [((fill,) * 3 + tuple(each[:end]))[-3:] for each, fill in ((x.shape, 1), (shape, 1), (before, 0))], prod(x.shape[end:])
        sizes = prod(x.shape[: max(end - 3, 0)]), *n[:2], n[2] * inner, *m[:2], m[2] * inner, *b[:2], b[2] * inner
        text = bind.source_of(padded_elements if x.device.backend.FLAT else padded_rows).replace("CONSTANT", str(mode == "constant"))
        text = re.sub(r"place_in\((.*?), (n\d)\)", lambda found: _place(mode, *found.groups()), text)
        array, number = f"{x.storage.name}[]", "float64" if x.dtype.is_floating_point else "complex128" if x.dtype.is_complex else "int64"
        return Plan(out, bind.launcher(x.device, f"pad_{mode}", text, ", ".join([array, array, number, *["int64"] * len(sizes)]), x.dtype, out.size), sizes)


def _place(mode: str, k: str, n: str) -> str:
    return f"({re.sub(r'[kn]', lambda name: f'({k})' if name[0] == 'k' else n, PLACES[mode])})" if mode in PLACES else k


pad = Pad("pad")
