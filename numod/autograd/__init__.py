"""Automatic differentiation: the tape, the backward engine, grad modes, user-defined functions, gradient checks.

Gradient formulas are in `ops`.

`tape` has the nodes that `core.apply` records, `views_and_writes` those of in-place writes, `engine` computes gradients
from them, `modes` switches recording on and off. On these stand `function` (operations with a gradient of the user's),
`graph` (hooks and edges), `functional` and `forward_ad` (derivatives of functions), `gradcheck` and `anomaly`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable

from ..core import changes
from ..core.extensions import extensions
from ..core.tensor import Tensor
from . import early_kernels as early_kernels, engine as engine, forward_ad, functional, graph, tape
from .anomaly import (
    detect_anomaly,
    is_anomaly_check_nan_enabled,
    is_anomaly_enabled,
    set_anomaly_enabled,
    set_detect_anomaly,
)
from .engine import backward, grad
from .function import Function
from .gradcheck import gradcheck, gradgradcheck
from .modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from .tape import Handle, expose, hook_on, hooks_of
from .variable import Variable

__all__ = [
    "Function", "Handle", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_anomaly_check_nan_enabled", "is_anomaly_enabled",
    "is_grad_enabled", "is_inference_mode_enabled", "no_grad", "set_anomaly_enabled", "set_detect_anomaly",
    "set_grad_enabled", "set_multithreading_enabled", "tape",
]  # fmt: skip


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Add the gradients of this tensor to `.grad` of the leaves it was computed from. See `numod.autograd.backward`.

    Example:

        >>> x = torch.tensor([2.0, 3.0], requires_grad=True)
        >>> (x ** 2).sum().backward()
        >>> x.grad
        tensor([4., 6.])
    """
    backward(self, gradient, retain_graph, create_graph, inputs)


def _register_hook(self: Tensor, hook: Callable) -> Handle:
    """Call `hook(grad)` when this tensor's gradient is computed; a result other than None replaces the gradient.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: 10 * grad)
        >>> x.sum().backward()
        >>> x.grad
        tensor([10., 10.])
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self._layout.batch is not None:
        extensions.check_leaves((self,))  # gradients of its numbers would pass the hook by
    if self.grad_fn is not None:
        expose(self)
        return hook_on(self, hook)
    if self._in_snapshot:
        changes.note()
    if self._hooks is None:
        self._hooks = {}
    return Handle.add(self._hooks, hook)


def _register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> Handle:
    """Call `hook(self)` when a gradient has been added to this leaf's `.grad`. What it returns is not used.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda x: x.grad.mul_(0.5))
        >>> x.sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if self._in_snapshot:
        changes.note()
    if self._after_hooks is None:
        self._after_hooks = {}
    return Handle.add(self._after_hooks, hook)


def _retain_grad(self: Tensor) -> None:
    """Keep the gradient of a computed tensor in `.grad`.

    Example:

        >>> x = torch.ones(2, requires_grad=True)
        >>> y = x * 2
        >>> y.retain_grad()
        >>> y.sum().backward()
        >>> y.grad
        tensor([1., 1.])
    """
    if not self.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if self.grad_fn is not None and not self._retains_grad:
        expose(self)
        self._retains_grad = True
        hooks_of(self._node).retain[self._output] = weakref.ref(self)


Tensor.backward, Tensor.register_hook, Tensor.retain_grad = _backward, _register_hook, _retain_grad
Tensor.register_post_accumulate_grad_hook = _register_post_accumulate_grad_hook
