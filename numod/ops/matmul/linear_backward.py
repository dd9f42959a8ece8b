"""The gradients of small linear layers in one kernel: the Python overhead of three ops would exceed the arithmetic.

Large layers use `matmul`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.any_size import for_all_sizes
from ...kernel.language import uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan

_SINGLE_KERNEL_WORK = 1 << 12  # multiply-adds up to which one kernel beats three products


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

    takes = "d_out[*l o]:f x[*l i] weight?[o i];"
    inputs, outputs, differentiable = ("d_out", "x", "weight"), ("d_x", "d_weight", "d_bias"), False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        g, x, weight = arguments
        (*leading, outputs), size, with_x = g.shape, x.shape[-1], isinstance(weight, Layout)
        results = (
            *((x,) if with_x else ()),
            *[layout(shape, x.dtype, x.device) for shape in ((outputs, size), (outputs,))],
        )
        signature = bind.signature(*[x] * 6, numbers=4)
        run = bind.launcher(
            x.device, self.name, specialized(linear_gradient_kernel), signature, x.dtype, 1, build.FAST_REDUCTION
        )
        constants = (prod(leading), outputs, size, int(with_x))
        if with_x:
            return Plan(results, run, constants)
        # the placeholders for weight and d_x are not accessed
        return Plan(results, lambda g, x, d_weight, d_bias: run(g, x, x, g, d_weight, d_bias, *constants))


def joint_gradients(separate: dict[str, Callable]) -> dict[tuple[str, ...], Callable]:
    """Joint gradients of the inputs of `linear`.

    Falls back to the `separate` gradient of each input for large layers and for double backward.
    """

    def gradients_of_all(g: object, x: object, weight: object, recording: bool) -> tuple:
        if recording or not _is_small(g, x, weight):
            return separate["x"](g, weight), separate["weight"](g, x), separate["bias"](g)
        return linear_gradient.apply((g, x, weight))

    def gradients_of_parameters(g: object, x: object, recording: bool) -> tuple:
        if recording or not _is_small(g, x, x):
            return separate["weight"](g, x), separate["bias"](g)
        return linear_gradient.apply((g, x, None))

    return {("x", "weight", "bias"): gradients_of_all, ("weight", "bias"): gradients_of_parameters}


def _is_small(g: object, x: object, weight: object) -> bool:
    """Whether the kernel is the best form: small dense tensors on the CPU."""
    g_layout, x_layout, weight_layout = g._layout, x._layout, weight._layout
    return (
        not for_all_sizes.get()
        and 0 < g_layout.size * x_layout.shape[-1] <= _SINGLE_KERNEL_WORK
        and g_layout.dense
        and x_layout.dense
        and weight_layout.dense
        and g_layout.device.type == "cpu"
    )


linear_gradient = LinearGradient("linear_gradient")
