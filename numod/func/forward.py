"""Derivatives along directions: jvp, linearize, jacfwd.

They use backward mode twice: a vector-Jacobian product is linear in its weights, so its gradient with respect to the
weights is the derivative along a direction.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import autograd
from ..autograd import enable_grad, inference_mode
from ..autograd.forward_ad import vjp_of_weights
from ..autograd.tape import edge_to, with_edge
from ..core import Tensor, zeros_like
from .gradients import Argnums, _Call, _positions, _tensors_of, jacrev
from .trees import leaves, map_leaves

__all__ = ["jacfwd", "jvp", "linearize"]


def _writable(primals: Any) -> Any:
    """The arguments as results of an op, which may be modified in place."""
    return map_leaves(lambda leaf: with_edge(leaf, edge_to(leaf)), primals)


def _called(name: str, func: Callable, primals: tuple, has_aux: bool) -> _Call:
    if not isinstance(primals, tuple) or not primals:
        raise RuntimeError(
            f"{name}: Expected primals to be a non-empty tuple. E.g. it should be valid to call f(*primals)."
        )
    call = _Call(name, has_aux, list(primals))
    call.run(func, _writable(tuple(call.inputs)), {})
    _tensors_of(call)
    return call


def _checked(name: str, call: _Call, tangents: Any) -> list[Tensor]:
    tangent_leaves, input_leaves = leaves(tangents), leaves(call.inputs)
    if len(tangent_leaves) != len(input_leaves):
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            "tuple of 3 tensors, tangents also must be."
        )
    for tangent, like in zip(tangent_leaves, input_leaves):
        if tangent.shape != like.shape:
            raise RuntimeError(
                f"{name}: Expected primals and tangents to have the same shapes, got {tuple(like.shape)} and "
                f"{tuple(tangent.shape)}"
            )
    return [tangent.clone() if tangent.is_inference() else tangent for tangent in tangent_leaves]


def _skeleton(tree: Any) -> Any:
    return map_leaves(lambda _: None, tree)


class _Linear:
    """The derivative of a call's outputs as a function of a direction."""

    def __init__(self, call: _Call) -> None:
        self.call, inputs = call, leaves(call.inputs)
        outputs = leaves(call.output)
        with enable_grad():
            self.weights = [zeros_like(output).detach().requires_grad_() for output in outputs]
            differentiable = [(out, weight) for out, weight in zip(outputs, self.weights) if out.requires_grad]
            if not differentiable:
                self.pulled: Any = []
                return
            outs, weights = zip(*differentiable)
            self.pulled = vjp_of_weights(outs, inputs, weights, materialize_grads=True)

    def along(self, directions: list[Tensor], recorded: bool) -> Any:
        """The derivatives, in the structure of the outputs."""
        # the gradient may be a weight itself
        pairs = [
            (gradient, direction) for gradient, direction in zip(self.pulled, directions) if gradient.requires_grad
        ]
        if not pairs:
            return map_leaves(lambda gradient: zeros_like(gradient).detach(), self.call.output)
        gradients, used_directions = zip(*pairs)
        remaining = iter(
            autograd.grad(
                gradients,
                self.weights,
                used_directions,
                retain_graph=True,
                create_graph=recorded,
                materialize_grads=True,
            )
        )
        return map_leaves(lambda _: next(remaining), self.call.output)


@inference_mode(False)
def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """(`func(*primals)`, its derivative along `tangents`), both with the output's structure; then aux if `has_aux`.

    Example:

        >>> from numod.func import jvp
        >>> jvp(lambda x: x**2, (torch.tensor(3.0),), (torch.tensor(1.0),))
        (tensor(9.), tensor(6.))
    """
    name = "jvp(f, primals, tangents)"
    if isinstance(primals, tuple) and _skeleton(primals) != _skeleton(tangents):
        raise RuntimeError(
            f"{name}: Expected primals and tangents to have the same python structure. For example, if primals is a "
            "tuple of 3 tensors, tangents also must be."
        )
    call = _called(name, func, primals, has_aux)
    if strict and not all(leaf.requires_grad for leaf in leaves(call.output)):
        raise RuntimeError(f"{name}: an output of f is independent of the inputs, which strict=True forbids")
    directions = _checked(name, call, tangents)
    result = call.outside(call.output), _Linear(call).along(directions, call.recorded(*directions))
    return (*result, call.outside(call.aux)) if has_aux else result


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """`func(*primals)`, and a function from tangents to the derivative along them, which does not call `func` again.

    Example:

        >>> from numod.func import linearize
        >>> value, tangent = linearize(lambda x: x**2, torch.tensor(3.0))
        >>> tangent(torch.tensor(1.0))
        tensor(6.)
    """
    name = "linearize(f, *primals)"
    call = _called(name, func, primals, False)
    linear = _Linear(call)

    def along(*tangents: Any) -> Any:
        directions = _checked(name, call, tangents)
        return linear.along(directions, call.recorded(*directions))

    return call.outside(call.output), along


def jacfwd(func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """`jacrev`, which has the same results. numod has no forward mode that would be faster for few inputs.

    Example:

        >>> from numod.func import jacfwd
        >>> jacfwd(lambda x: x**2)(torch.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.wraps(func)
    def written(*args: Any, **kwargs: Any) -> Any:
        positions = _positions(argnums, len(args))
        return func(*[_writable(arg) if k in positions else arg for k, arg in enumerate(args)], **kwargs)

    return jacrev(written, argnums, has_aux=has_aux)
