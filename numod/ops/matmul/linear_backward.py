"""The gradients of small linear maps in one kernel: three ops would cost more in Python overhead than in arithmetic.

Large ones use `matmul`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan

_SMALL = 1 << 12  # multiply-adds up to which one pass beats three products


def linear_gradient_kernel(g, x, weight, d_x, d_weight, d_bias, rows, outputs, size, with_x):
    """d_x (rows, size) = g (rows, outputs) @ weight (outputs, size), d_weight = g transposed @ x, d_bias = the sum of
    g's rows.
    """
    for o in range(outputs):
        total = g[uintp(o)]
        for j in range(size):
            d_weight[uintp(o * size + j)] = g[uintp(o)] * x[uintp(j)]
        for row in range(1, rows):
            value = g[uintp(row * outputs + o)]
            total += value
            for j in range(size):
                d_weight[uintp(o * size + j)] += value * x[uintp(row * size + j)]
        d_bias[uintp(o)] = total
    if with_x:
        for row in range(rows):
            for j in range(size):
                d_x[uintp(row * size + j)] = g[uintp(row * outputs)] * weight[uintp(j)]
            for o in range(1, outputs):
                for j in range(size):
                    d_x[uintp(row * size + j)] += g[uintp(row * outputs + o)] * weight[uintp(o * size + j)]


class LinearGradient(Op):
    """(d_x, d_weight, d_bias) of dense g (..., outputs), x (..., size) and weight (outputs, size); without d_x where
    weight is None.
    """

    takes = "given[*l o]:f x[*l i] weight?[o i];"
    inputs, outputs, differentiable = ("given", "x", "weight"), ("d_x", "d_weight", "d_bias"), False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        g, x, weight = arguments
        (*lines, outputs), size, with_x = g.shape, x.shape[-1], isinstance(weight, Layout)
        results = (
            *((x,) if with_x else ()),
            *[layout(shape, x.dtype, x.device) for shape in ((outputs, size), (outputs,))],
        )
        signature = bind.signature(*[x] * 6, numbers=4)
        run = bind.launcher(
            x.device, self.name, specialized(linear_gradient_kernel), signature, x.dtype, 1, build.FAST_REDUCTION
        )
        constants = (prod(lines), outputs, size, int(with_x))
        if with_x:
            return Plan(results, run, constants)
        # the placeholders for weight and d_x are not accessed
        return Plan(results, lambda g, x, d_weight, d_bias: run(g, x, x, g, d_weight, d_bias, *constants))


def joined(apart: dict[str, Callable]) -> dict[tuple[str, ...], Callable]:
    """Gradients of linear's inputs together, from those of each input `apart`, which serve where one pass would not pay
    or is to be differentiated.
    """

    def of_all(g: object, x: object, weight: object, recording: bool) -> tuple:
        if recording or not _is_small(g, x, weight):
            return apart["x"](g, weight), apart["weight"](g, x), apart["bias"](g)
        return linear_gradient.apply((g, x, weight))

    def of_parameters(g: object, x: object, recording: bool) -> tuple:
        if recording or not _is_small(g, x, x):
            return apart["weight"](g, x), apart["bias"](g)
        return linear_gradient.apply((g, x, None))

    return {("x", "weight", "bias"): of_all, ("weight", "bias"): of_parameters}


def _is_small(g: object, x: object, weight: object) -> bool:
    """Whether the kernel fits: dense floats of one kind in the CPU's memory, and not many."""
    own, first, last = g._layout, x._layout, weight._layout
    return (
        0 < own.size * first.shape[-1] <= _SMALL
        and own.dense
        and first.dense
        and last.dense
        and own.device.type == "cpu"
    )


linear_gradient = LinearGradient("linear_gradient")
