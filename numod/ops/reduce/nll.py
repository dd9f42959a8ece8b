"""Negative log-likelihood loss per target, summed or averaged, in one pass, and its gradient, on the CPU.

On other devices the loss is composed of other ops. x (N, C, ...), target (N, ...) of int64, weight (C) or None. Targets
that equal `ignore_index` are left out.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import float64, int64, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan
from .softmax import split


def nll_kernel(x, target, weight, loss, weight_sum, invalid, outer, n, inner, ignored, weighted, mean, per_target):
    """loss () = the sum or mean of -weight * x at the targets; if `per_target`, loss (N, ...) = -weight * x.

    weight_sum () = the sum of weights, invalid () = the number of targets outside [0, n).
    """
    total, total_weight, outside = float64(0), float64(0), int64(0)
    for position in range(outer * inner):
        chosen, loss_of_target = target[uintp(position)], float64(0)
        if chosen != ignored:
            if chosen < 0 or chosen >= n:
                outside += 1
            else:
                factor = float64(weight[uintp(chosen)]) if weighted != 0 else float64(1)
                loss_of_target = -factor * float64(
                    x[uintp((position // inner * n + chosen) * inner + position % inner)]
                )
                total_weight += factor
        if per_target != 0:
            loss[uintp(position)] = loss_of_target
        total += loss_of_target
    weight_sum[0], invalid[0] = total_weight, outside
    if per_target == 0:
        loss[0] = total / total_weight if mean != 0 else total


def nll_gradient_kernel(g, target, weight, weight_sum, out, outer, n, inner, ignored, weighted, mean, per_target):
    """out (N, C, ...) = -weight * g at the targets, divided by `weight_sum` if `mean`, and 0 elsewhere.

    g is (N, ...) if `per_target`, else ().
    """
    for k in range(outer * n * inner):
        out[uintp(k)] = 0
    total_weight = weight_sum[0] if mean != 0 else float64(1)
    for position in range(outer * inner):
        chosen = target[uintp(position)]
        if chosen != ignored:
            factor = float64(weight[uintp(chosen)]) if weighted != 0 else float64(1)
            out[uintp((position // inner * n + chosen) * inner + position % inner)] = (
                -factor * float64(g[uintp(position if per_target != 0 else 0)]) / total_weight
            )


class Nll(Op):
    """(loss, weight_sum, invalid): the loss, the sum of the weights used, and the number of targets out of range."""

    takes = "x[n c *s]:f target[n *s]:int64 weight?[c]; ignore_index=int reduction=none|mean|sum"
    inputs = ("x", "target", "weight")
    outputs = ("loss", "weight_sum", "invalid")
    attributes = ("ignore_index", "reduction")
    results_with_gradient = 1
    gradients = {
        "x": lambda grads, target, weight, weight_sum, layout, ignore_index,
        reduction: nll_gradient.apply((grads[0].contiguous(), target, weight, weight_sum),
            (ignore_index, reduction, tuple(layout.shape))),
    }  # fmt: skip

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, target, weight = arguments
        results = (
            layout(target.shape if attributes[1] == "none" else (), x.dtype, x.device),
            layout((), dtypes.float64, x.device),
            layout((), dtypes.int64, x.device),
        )
        signature = bind.signature(x, "int64", x, x, "float64", "int64", numbers=7)
        return Plan(results, *_launch(self.name, nll_kernel, signature, x, x.shape, weight, attributes))


class NllGradient(Op):
    """The gradient of `Nll`, of shape `shape`. Its own gradient is the loss of its gradient."""

    takes = (
        "d_out[*g]:f target[n *s]:int64 weight?[_] weight_sum[]:float64; ignore_index=int reduction=none|mean|sum "
        "shape=0..^*"
    )
    inputs, attributes = ("d_out", "target", "weight", "weight_sum"), ("ignore_index", "reduction", "shape")
    gradients = {
        "d_out": lambda g, target, weight, ignore_index, reduction: nll.apply(
            (g.contiguous(), target, weight), (ignore_index, reduction)
        )[0]
    }

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        _, reduction, shape = attributes
        if len(shape) < 2 or (shape[0], *shape[2:]) != (sizes["n"], *sizes["s"]):
            return (
                f"attribute 'shape' must be that of the target {(sizes['n'], *sizes['s'])} with the classes as "
                f"dimension 1, got {shape}"
            )
        if isinstance(arguments[2], Layout) and arguments[2].size != shape[1]:
            return f"weight must have {shape[1]} elements, got {arguments[2].size}"
        wanted = (sizes["n"], *sizes["s"]) if reduction == "none" else ()
        return None if sizes["g"] == wanted else f"d_out must be of shape {wanted}, got {sizes['g']}"

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """See `Op.further_limits`."""
        return {1: (attributes[2][1], attributes[0])}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        d_out, _, weight, _ = arguments
        out = layout(attributes[2], d_out.dtype, d_out.device)
        signature = bind.signature(d_out, "int64", d_out, "float64", d_out, numbers=7)
        return Plan(out, *_launch(self.name, nll_gradient_kernel, signature, d_out, out.shape, weight, attributes))


def _launch(
    name: str, kernel: Callable, signature: str, first: Layout, shape: tuple, weight: Layout | type, attributes: tuple
) -> tuple:
    """A launcher and its constants: (outer, classes, inner) of `shape`, then those of the kernel.

    Without a weight, the first array is passed instead and not read.
    """
    ignore_index, reduction, *_ = attributes
    is_weighted = isinstance(weight, Layout)
    run = bind.launcher(first.device, name, specialized(kernel), signature, first.dtype, 0)
    constants = (*split(shape, 1), ignore_index, int(is_weighted), int(reduction == "mean"), int(reduction == "none"))
    if is_weighted:
        return run, constants
    return (lambda first, target, *others: run(first, target, first, *others)), constants


nll, nll_gradient = Nll("nll_loss"), NllGradient("nll_loss_gradient")
