"""Negative log-likelihood of classes, of each target or summed or averaged, in one pass, and its gradient, on the CPU.

Elsewhere the loss is composed of other ops.

x (N, C, ...), target (N, ...) of int64, weight (C) or None. Targets that equal `ignore_index` do not count.
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


def nll_kernel(x, target, weight, loss, kept, wrong, outer, n, inner, ignored, weighted, mean, each):
    """loss () = the sum of -weight * x at the targets, or that over their weights; with `each` (N, ...) = those
    numbers; kept () = those weights' sum; wrong () = how many targets lie outside [0, n).
    """
    total, share, outside = float64(0), float64(0), int64(0)
    for place in range(outer * inner):
        chosen, own = target[uintp(place)], float64(0)
        if chosen != ignored:
            if chosen < 0 or chosen >= n:
                outside += 1
            else:
                factor = float64(weight[uintp(chosen)]) if weighted != 0 else float64(1)
                own = -factor * float64(x[uintp((place // inner * n + chosen) * inner + place % inner)])
                share += factor
        if each != 0:
            loss[uintp(place)] = own
        total += own
    kept[0], wrong[0] = share, outside
    if each == 0:
        loss[0] = total / share if mean != 0 else total


def nll_gradient_kernel(g, target, weight, kept, out, outer, n, inner, ignored, weighted, mean, each):
    """out (N, C, ...) = -weight * g at the targets, with `mean` over what `kept` holds; 0 elsewhere. g is () or, with
    `each`, (N, ...).
    """
    for k in range(outer * n * inner):
        out[uintp(k)] = 0
    share = kept[0] if mean != 0 else float64(1)
    for place in range(outer * inner):
        chosen = target[uintp(place)]
        if chosen != ignored:
            factor = float64(weight[uintp(chosen)]) if weighted != 0 else float64(1)
            out[uintp((place // inner * n + chosen) * inner + place % inner)] = (
                -factor * float64(g[uintp(place if each != 0 else 0)]) / share
            )


class Nll(Op):
    """(loss, kept, wrong) of dense tensors."""

    takes = "x[n c *s]:f target[n *s]:int64 weight?[c]; ignore_index=int reduction=none|mean|sum"
    inputs, outputs, parameters = ("x", "target", "weight"), ("loss", "kept", "wrong"), ("ignore_index", "reduction")
    results_with_gradient = 1
    gradients = {
        "x": lambda grads, target, weight, kept, layout, ignore_index,
        reduction: nll_gradient.apply((grads[0].contiguous(), target, weight, kept),
            (ignore_index, reduction, tuple(layout.shape))),
    }  # fmt: skip

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, target, weight = arguments
        results = (
            layout(target.shape if parameters[1] == "none" else (), x.dtype, x.device),
            layout((), dtypes.float64, x.device),
            layout((), dtypes.int64, x.device),
        )
        signature = bind.signature(x, "int64", x, x, "float64", "int64", numbers=7)
        return Plan(results, *_launch(self.name, nll_kernel, signature, x, x.shape, weight, parameters))


class NllGradient(Op):
    """The gradient, of `shape`; its own is the loss of what it is given."""

    takes = (
        "given[*g]:f target[n *s]:int64 weight?[_] kept[]:float64; ignore_index=int reduction=none|mean|sum shape=0..^*"
    )
    inputs, parameters = ("given", "target", "weight", "kept"), ("ignore_index", "reduction", "shape")
    gradients = {
        "given": lambda g, target, weight, ignore_index, reduction: nll.apply(
            (g.contiguous(), target, weight), (ignore_index, reduction)
        )[0]
    }

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        _, reduction, shape = parameters
        if len(shape) < 2 or (shape[0], *shape[2:]) != (sizes["n"], *sizes["s"]):
            return (
                f"attribute 'shape' must be that of the target {(sizes['n'], *sizes['s'])} with the classes as "
                f"dimension 1, got {shape}"
            )
        if isinstance(arguments[2], Layout) and arguments[2].size != shape[1]:
            return f"weight must have {shape[1]} elements, got {arguments[2].size}"
        wanted = (sizes["n"], *sizes["s"]) if reduction == "none" else ()
        return None if sizes["g"] == wanted else f"given must be of shape {wanted}, got {sizes['g']}"

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """As `Op.further_limits`."""
        return {1: (parameters[2][1], parameters[0])}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        given, _, weight, _ = arguments
        out = layout(parameters[2], given.dtype, given.device)
        signature = bind.signature(given, "int64", given, "float64", given, numbers=7)
        return Plan(out, *_launch(self.name, nll_gradient_kernel, signature, given, out.shape, weight, parameters))


def _launch(
    name: str, kernel: Callable, signature: str, first: Layout, shape: tuple, weight: Layout | type, parameters: tuple
) -> tuple:
    """A launcher and its constants; where there is no weight, the first array stands for it and is not read."""
    run = bind.launcher(first.device, name, specialized(kernel), signature, first.dtype, 0)
    constants = (
        *split(shape, 1),
        parameters[0],
        int(isinstance(weight, Layout)),
        int(parameters[1] == "mean"),
        int(parameters[1] == "none"),
    )
    return (
        (run, constants)
        if constants[4]
        else (lambda first, target, *others: run(first, target, first, *others), constants)
    )


nll, nll_gradient = Nll("nll_loss"), NllGradient("nll_loss_gradient")
