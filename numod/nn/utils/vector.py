"""Parameters as one flat vector, and back, for methods that treat a model as a point in space."""

from __future__ import annotations

from collections.abc import Iterable

from ...core import Tensor, cat

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters flattened and concatenated, (total,).

    Gradients flow through. Raises TypeError for several devices.

    Example:

        >>> nn.utils.parameters_to_vector(nn.Linear(2, 3).parameters()).shape
        numod.Size([9])
    """
    parameters = list(parameters)
    _require_one_device(parameters)
    return cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set each parameter's data to its part of `vec`, (total,). The parameters then share memory with `vec`.

    Example:

        >>> layer = nn.Linear(2, 1)
        >>> nn.utils.vector_to_parameters(torch.tensor([1.0, 2.0, 3.0]), layer.parameters())
        >>> layer.bias
        Parameter containing:
        tensor([3.], requires_grad=True)
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected a Tensor, but got: {type(vec).__name__}")
    parameters = list(parameters)
    _require_one_device(parameters)
    start = 0
    for parameter in parameters:
        parameter.data = vec[start : start + parameter.numel()].reshape(parameter.shape).data
        start += parameter.numel()


def _require_one_device(parameters: list[Tensor]) -> None:
    devices = {str(parameter.device) for parameter in parameters}
    if len(devices) > 1:
        raise TypeError(
            f"Found parameters on different devices, {' and '.join(sorted(devices))}; this is not supported, move "
            "them first."
        )
