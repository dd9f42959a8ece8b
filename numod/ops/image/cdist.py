"""Pairwise p-norm distances between rows, in one pass and without storing differences.

Dense rows are seen as x (batch, n, width) and y (batch, m, width). Sums are in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import fabs, inf, sqrt

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float64, int64, parallel_range, real, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device
from ..linalg.tril_triu import triangle


def cdist_kernel(x, y, out, tasks, run, n, m, width, p, *, PAIRS):
    """out (batch, n, m) = (sum |x - y|^p)^(1/p) over the width; p < 0 means infinity: the maximum.

    Each task computes `run` neighbours of a row of out. With PAIRS, the batch is 1 and out has only the elements above
    the diagonal, row by row.
    """
    for task in parallel_range(tasks):
        first = int64(task) * run
        line, start = first // m, first % m
        end, out_at = start + run, line * m
        if PAIRS:
            start, out_at = max(start, line + 1), line * (2 * m - line - 1) // 2 - line - 1
        x_at = line * width
        y_at = (line // n * m + start) * width
        for column in range(start, end):
            result = float64(0)
            for k in range(width):
                difference = fabs(float64(x[uintp(x_at + k)]) - float64(y[uintp(y_at + k)]))
                if p == float64(2):
                    result += difference * difference
                elif p == float64(1):
                    result += difference
                elif p < float64(0):
                    result = difference if difference > result or difference != difference else result
                elif p == float64(0):
                    result += float64(difference != float64(0))
                else:
                    result += difference**p
            if p == float64(2):
                result = sqrt(result)
            elif p > float64(0) and p != float64(1):
                result = result ** (float64(1) / p)
            out[uintp(out_at + column)] = result
            y_at += width


def cdist_gradient_kernel(g, x, y, distance, out, total, run, n, m, width, p):
    """out (batch, n, width) = the gradient of x: the sum over m of g * d distance / dx; 0 for equal rows.

    g, distance (batch, n, m); y is transposed to (batch, width, m).
    """
    for task in parallel_range(total):
        element = int64(task) * run
        row = element // width
        y_at = ((row // n) * width + element % width) * m
        value = float64(x[uintp(element)])
        result = float64(0)
        for j in range(m):
            length = float64(distance[uintp(row * m + j)])
            difference = value - float64(y[uintp(y_at + j)])
            size = fabs(difference)
            sign = float64(1) if difference > float64(0) else (float64(-1) if difference < float64(0) else float64(0))
            weight = float64(0)
            if p == float64(1):
                weight = sign
            elif p == float64(2):
                weight = float64(real(difference) / real(length if length != float64(0) else 1))
            elif p < float64(0):
                weight = sign * float64(real(size) == real(length))
            elif length != float64(0) and size != float64(0):
                weight = sign * (size / length) ** (p - float64(1))
            result += float64(g[uintp(row * m + j)]) * weight
        out[uintp(element)] = result


class Cdist(Op):
    """Distances (batch, n, m) of dense x (batch, n, width) and y (batch, m, width); `p` from 0 to infinity."""

    takes = "x[b n w]:f y[b m w]; p=number"
    inputs, attributes = ("x", "y"), ("p",)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, y), (p,) = arguments, attributes
        out = layout((*x.shape[:2], y.shape[1]), x.dtype, single_device(self.name, [x, y]))
        return _distances(self.name, (x, y), out, (x.shape[1], y.shape[1], x.shape[2]), p, False)


class Pdist(Op):
    """Distances (n * (n - 1) / 2) of each row of a dense x (n, width) to the rows after it; `p` from 0 to infinity."""

    takes = "x[n w]:f; p=number"
    inputs, attributes = ("x",), ("p",)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (n, width) = arguments, arguments[0].shape
        return _distances(
            self.name, (x,), layout((n * (n - 1) // 2,), x.dtype, x.device), (n, n, width), *attributes, True
        )


class CdistGradient(Op):
    """The gradient of x for distances; takes y transposed. Not differentiable: then it is composed of other ops."""

    takes = "d_out[b n m]:f x[b n w] transposed[b w m] distance[b n m]; p=number"
    inputs, attributes, differentiable = ("d_out", "x", "transposed", "distance"), ("p",), False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (d_out, x, *_), (p,) = arguments, attributes
        out = layout(x.shape, x.dtype, x.device)
        return _plan(self.name, cdist_gradient_kernel, arguments, out, out.size, 1, (*d_out.shape[1:], x.shape[2]), p)


def _distances(
    name: str, inputs: tuple[Layout, ...], out: Layout, sizes: tuple[int, int, int], p: float, pairs: bool
) -> Plan:
    n, m, _ = sizes
    elements, run = n * m if pairs else out.size, 1 if out.device.backend.is_gpu else m
    plan = _plan(name, partial(cdist_kernel, PAIRS=pairs), (inputs[0], inputs[-1]), out, elements, run, sizes, p)
    if len(inputs) == 2:
        return plan
    launch = plan.launch
    return Plan(plan.layout, lambda x, out, *numbers: launch(x, x, out, *numbers), plan.constants)


def _plan(
    name: str,
    kernel: Callable,
    inputs: tuple[Layout, ...],
    out: Layout,
    elements: int,
    run: int,
    sizes: tuple[int, int, int],
    p: float,
) -> Plan:
    """A plan for a kernel over `elements`; each task computes `run` of them."""
    if out.size == 0:
        return Plan(out, lambda *_: None)
    signature = bind.signature(*[out] * (len(inputs) + 1), numbers=5, others=["float64"])
    p = -1.0 if p == inf else float(p)
    # compile-time constants for common norms, whose loops LLVM can vectorise
    known = {"p": np.float64(p)} if p in (-1.0, 0.0, 1.0, 2.0) else {}
    n, m, width = sizes
    launch = bind.launcher(
        out.device, name, specialized(kernel, **known), signature, out.dtype, n * m * (width or 1), build.FAST_REDUCTION
    )
    return Plan(out, launch, (elements // run, run, *sizes, p))


def _x_gradient(g: object, x: object, y: object, out: object, p: float, recording: bool) -> object:
    if p and recording:
        return (g.unsqueeze(-1) * _slope(x.unsqueeze(2) - y.unsqueeze(1), out.unsqueeze(-1), p)).sum(2)
    return (
        cdist_gradient.apply((g.contiguous(), x, y.transpose(1, 2).contiguous(), out), (p,))
        if p
        else g.new_zeros(x.shape)
    )


def _slope(difference: object, distance: object, p: float) -> object:
    """The derivative of distances by the differences of rows; 0 for equal rows."""
    sign, size = difference.sign(), difference.abs()
    if p == inf:
        return sign * (size == distance)
    differs = (distance != 0) & (size != 0)
    return sign * ((size / distance.where(differs, 1)).where(differs, 0 if p >= 1 else 1) ** (p - 1)).where(differs, 0)


def _y_gradient(g: object, x: object, y: object, out: object, p: float, recording: bool) -> object:
    return _x_gradient(g.transpose(1, 2).contiguous(), y, x, out.transpose(1, 2).contiguous(), p, recording)


def _pairs_gradient(g: object, x: object, out: object, p: float, recording: bool) -> object:
    """The gradient of `cdist` for symmetric matrices of gradients and distances."""
    n = x.shape[0]
    rows, columns = triangle.apply((), (dtypes.int64, x.device, n, n, 0, True)).unbind()
    halves = [
        values.new_zeros(n * n).index_copy_(0, rows * n + columns, values).view(n, n)
        for values in (g.contiguous(), out)
    ]
    g, out = [(half + half.T).unsqueeze(0) for half in halves]
    return _x_gradient(g, x.unsqueeze(0), x.unsqueeze(0), out, p, recording).squeeze(0)


cdist, pdist = Cdist("cdist"), Pdist("pdist")
pdist.gradients = {"x": _pairs_gradient}
cdist.gradients = {"x": _x_gradient, "y": _y_gradient}
cdist_gradient = CdistGradient("cdist_gradient")
