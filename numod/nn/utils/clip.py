"""Gradient clipping: limits the gradients of a step.

`foreach` is accepted for compatibility with PyTorch; there is one implementation.
"""

from __future__ import annotations

import types
from collections.abc import Iterable

from ...errors import warn_caller
from ...autograd import no_grad
from ...core import Tensor, stack, tensor
from ...core.listeners import with_gradients

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of all `tensors` as one vector: a scalar on the first tensor's device, zero if there are none.

    Example:

        >>> nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])])
        tensor(5.)
    """
    tensors, norm_type = _as_list(tensors), float(norm_type)
    if not tensors:
        return tensor(0.0)
    norms = [tensor.norm(norm_type).to(tensors[0].device) for tensor in tensors]
    total = stack(norms).norm(norm_type)
    if error_if_nonfinite and not total.isfinite()._observe():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale the gradients by `max_norm / total_norm` if that is below one.

    Example:

        >>> weight = nn.Parameter(torch.ones(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grads_with_norm_([weight], 1.0, torch.tensor(5.0))
        >>> weight.grad
        tensor([0.6000, 0.8000])
    """
    # the factor is applied even if it is one, since reading its value would wait for the device
    factor = (max_norm / (total_norm + 1e-6)).clamp(max=1.0)
    for gradient in _gradients(parameters):
        gradient.mul_(factor.to(gradient.device))


@no_grad()
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients so that their total norm is at most `max_norm`. Returns the norm before scaling.

    Example:

        >>> w = nn.Parameter(torch.ones(2))
        >>> w.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grad_norm_([w], max_norm=1.0)
        tensor(5.)
        >>> w.grad
        tensor([0.6000, 0.8000])
    """
    original = parameters
    parameters = _as_list(parameters)
    if isinstance(original, types.GeneratorType) and not parameters:
        warn_caller("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(parameters, max_norm, total)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Deprecated name of `clip_grad_norm_`.

    Example:

        >>> weight = nn.Parameter(torch.ones(2))
        >>> weight.grad = torch.tensor([3.0, 4.0])
        >>> nn.utils.clip_grad_norm_([weight], 1.0)
        tensor(5.)
    """
    warn_caller("`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of the gradients to ±clip_value.

    Example:

        >>> w = nn.Parameter(torch.ones(2))
        >>> w.grad = torch.tensor([3.0, 0.5])
        >>> nn.utils.clip_grad_value_([w], 1.0)
        >>> w.grad
        tensor([1.0000, 0.5000])
    """
    for gradient in _gradients(parameters):
        gradient.clamp_(min=-clip_value, max=clip_value)


def _as_list(tensors: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    return [with_gradient.grad for with_gradient in with_gradients(_as_list(parameters))]
