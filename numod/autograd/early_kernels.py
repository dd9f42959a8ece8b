"""Kernels of gradients, begun while LLVM works on the kernels of the forward pass.

In a process without a cache, the first call of an op waits until LLVM has compiled its kernels. Meanwhile, Python
translates those that the op's gradients will need, and LLVM goes on with them in the background. To find them, the
gradient formulas run once with tensors that have a layout but no memory: ops plan, which builds their kernels, and
launch nothing. A kernel that was begun in vain costs time only, so this begins when an optimizer is made: then a
backward pass is likely.
"""

from __future__ import annotations

from contextlib import suppress

from ..core import apply as dispatch
from ..core.extensions import extensions
from ..core.listeners import muted
from ..core.tensor import Tensor
from ..device import Layout, Storage, background
from ..device.device import foreseen_cpu
from ..device.layout import layout
from ..kernel import build
from ..ops.op import Op, Plan
from . import tape
from .backward_pass import converted

_expected = False  # whether gradients are likely to be computed


def expect_gradients(expected: bool = True) -> None:
    """Begin the kernels of gradients early from now on, or no longer."""
    global _expected
    _expected = expected


def plan_with_gradients(op: Op, inputs: tuple, layouts: tuple, attributes: tuple) -> Plan:
    """The plan of an op that will be recorded. While LLVM works on kernels, those of its gradients are begun."""
    if not _expected or op.is_view or op.reports or not background.helps() or not _on_cpu(layouts):
        return op.plan(layouts, attributes)
    with build.ahead() as kernels:
        plan = op.plan(layouts, attributes)
    if background.works() and tape.packing is None:
        with suppress(Exception):  # whatever it is, the backward pass will say
            _begin_gradients(op, inputs, attributes, plan)
        with build.ahead(), muted(), suppress(Exception):
            extensions.begin_layers()
    if all(kernel.finish is None for kernel in kernels):
        return plan
    return op.plan(layouts, attributes)  # launches of the first plan would test whether LLVM has finished


def _on_cpu(layouts: tuple) -> bool:
    return all(argument.device.type == "cpu" for argument in layouts if isinstance(argument, Layout))


def _begin_gradients(op: Op, inputs: tuple, attributes: tuple, plan: Plan) -> None:
    """Run the gradient formulas of an op without memory, for a gradient of its first result."""
    several = isinstance(plan.layout, tuple)
    grad_enabled, dispatch.state.grad_enabled = dispatch.state.grad_enabled, False
    try:
        with build.ahead(), muted(), background.later():
            foreseen = tuple(
                [without_memory(x._layout, x.requires_grad) if isinstance(x, Tensor) else x for x in inputs]
            )
            results = tuple([without_memory(result) for result in (plan.layout if several else (plan.layout,))])
            layouts = [x._layout if isinstance(x, Tensor) else type(x) for x in foreseen]
            tape.record(op, foreseen, layouts, attributes, results if several else results[0])
            if results[0]._node is not None:
                gradient = without_memory(results[0]._layout)
                for k, part in results[0]._node.backward([gradient, *[None] * (len(results) - 1)]):
                    converted(part, layouts[k])
    finally:
        dispatch.state.grad_enabled = grad_enabled


def without_memory(original: Layout, requires_grad: bool = False) -> Tensor:
    """A tensor like those of a layout on the CPU, without memory."""
    tensor = object.__new__(Tensor)
    tensor._layout = layout(original.shape, original.dtype, foreseen_cpu(), original.strides)
    tensor._storage = Storage(foreseen_cpu().empty(original.extent, original.storage))
    tensor._requires_grad = requires_grad
    return tensor


extensions.provide(plan_with_gradients=plan_with_gradients)
