"""Dual tensors (a value and its directional derivative): PyTorch's forward-mode interface, implemented by reverse mode.

Inside `dual_level` a dual is a leaf of the tape. A result's tangent is computed when `unpack_dual` asks for it: the
vector-Jacobian product v^T J is linear in v, so differentiating it again with respect to v gives the Jacobian-vector
product (the double-backward trick, as in `func.jvp`).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

from ..core.create.creation import zeros_like
from ..core.tensor import Tensor
from . import function
from .engine import grad
from .modes import enable_grad, is_grad_enabled
from .tape import edge_to, with_edge

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """(primal, tangent): a value and its directional derivative; tangent is None if the value does not depend on a
    dual.
    """

    primal: Tensor
    tangent: Tensor | None


class _ThreadState(threading.local):
    """Per thread, for the current level: the duals, their nodes, the tensors to differentiate by, and the tangents.

    None outside of a level.
    """

    level: list[tuple] | None = None


_thread_state = _ThreadState()


def enter_dual_level() -> int:
    """Enter a level; returns its number."""
    if _thread_state.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _thread_state.level = []
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Exit the level, and drop its tangents."""
    _check_level(level)
    _thread_state.level = None


class dual_level:
    """Context manager for a level."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A dual of `tensor` with direction `tangent`, of the same shape.

    Raises RuntimeError outside a level, ValueError for integers.
    """
    _check_level(level)
    for name, operand in (("primal", tensor), ("tangent", tangent)):
        if not operand.dtype.differentiable:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {operand.dtype}")
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            "supported. "
            f"Tensor is of size {list(tensor.shape)} while the given forward gradient is of size {list(tangent.shape)}."
        )
    with enable_grad():
        source = dual = tensor.view_as(tensor)
        if not tensor.requires_grad:
            source = tensor.detach().requires_grad_()
            dual = with_edge(tensor, (source, 0))  # a result, so that it can be modified in place
    _thread_state.level.append((dual, dual._node, source, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value and the tangent of a tensor computed from duals."""
    if _thread_state.level is None:
        return UnpackedDualTensor(tensor, None)
    recorded = is_grad_enabled() and _depends_on_more(tensor)
    tangent_of_dual = next(
        (tangent for dual, node, _, tangent in _thread_state.level if dual is tensor and dual.grad_fn is node), None
    )
    return UnpackedDualTensor(
        with_edge(tensor, edge_to(tensor)) if recorded else tensor.detach(),
        _tangent(tensor, recorded) if tangent_of_dual is None else tangent_of_dual,
    )


def _depends_on_more(tensor: Tensor) -> bool:
    """Whether a tensor depends on differentiable tensors other than the leaves of the duals."""
    dual_leaves = {id(source) for _, _, source, _ in _thread_state.level if source.is_leaf}
    edges = [edge_to(tensor)]
    seen = set()
    while edges:
        edge = edges.pop()
        if edge is None or id(edge[0]) in seen or id(edge[0]) in dual_leaves:
            continue
        if isinstance(edge[0], Tensor):
            return True
        seen.add(id(edge[0]))
        edges += edge[0].edges
    return False


def _tangent(tensor: Tensor, recorded: bool) -> Tensor | None:
    """The tangent of a tensor at the current level; None if it depends on no dual number."""
    if not (_thread_state.level and tensor.requires_grad):
        return None
    _, _, sources, tangents = zip(*_thread_state.level)
    with enable_grad():
        weight = zeros_like(tensor).detach().requires_grad_()
        gradients = vjp_of_weights((tensor,), sources, (weight,), allow_unused=True)
    if all(gradient is None for gradient in gradients):
        return None
    linear = [
        (gradient, tangent)
        for gradient, tangent in zip(gradients, tangents)
        if gradient is not None and gradient.requires_grad
    ]
    if not linear:
        return zeros_like(tensor).detach()
    outputs, directions = zip(*linear)
    recorded = recorded or any(direction.requires_grad for direction in directions)
    return grad(outputs, weight, directions, retain_graph=True, create_graph=recorded, materialize_grads=True)[0]


def vjp_of_weights(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], weights: Sequence[Tensor], **options: bool
) -> tuple[Tensor | None, ...]:
    """The product of weights and Jacobian, to be differentiated by the weights only.

    A Function's `jvp` then replaces its backward.
    """
    old_value, function.thread_state.transposing = function.thread_state.transposing, True
    try:
        return grad(outputs, inputs, weights, retain_graph=True, create_graph=True, **options)
    finally:
        function.thread_state.transposing = old_value


def _check_level(level: int | None) -> None:
    if _thread_state.level is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
