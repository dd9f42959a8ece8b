"""Initialization of parameters. Every function fills a tensor in place, records no gradient, and returns the tensor.

`generator` is the source of random numbers; by default that of `manual_seed`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from ..errors import warn_caller
from ..autograd import no_grad
from ..core import Tensor, empty_like, from_numpy, ones_like
from ..core import eye as _identity
from ..core.linalg.decompositions import qr
from ..core.functions import where

__all__ = [
    "calculate_gain", "constant_", "dirac_", "eye_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_",
    "orthogonal_", "sparse_", "trunc_normal_", "uniform_", "xavier_normal_", "xavier_uniform_", "zeros_",
]  # fmt: skip

_GAINS = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4, "sigmoid": 1, "linear": 1} | {
    f"conv{transpose}{n}d": 1 for transpose in ("", "_transpose") for n in (1, 2, 3)
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The recommended gain for a nonlinearity, which preserves the variance.

    `param` is the negative slope of leaky_relu, by default 0.01.

    Example:

        >>> nn.init.calculate_gain("leaky_relu", 0.2)
        1.3867504905630728
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {slope} not a valid number")
        return math.sqrt(2 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}; there are {', '.join(_GAINS)} and leaky_relu")
    return _GAINS[nonlinearity]


# ---- constants and patterns ---------------------------------------------------------------------------


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with `val`.

    Example:

        >>> nn.init.constant_(torch.empty(2), 0.3)
        tensor([0.3000, 0.3000])
    """
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones.

    Example:

        >>> nn.init.ones_(torch.empty(2))
        tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros.

    Example:

        >>> nn.init.zeros_(torch.empty(2))
        tensor([0., 0.])
    """
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a 2-dimensional tensor with the identity matrix.

    Example:

        >>> nn.init.eye_(torch.empty(2, 2)).tolist()
        [[1.0, 0.0], [0.0, 1.0]]
    """
    _require_matrix(tensor)
    return tensor.copy_(_identity(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a convolution weight (out, in, ...) so that it preserves its input channels, within each of `groups`.

    Example:

        >>> nn.init.dirac_(torch.empty(1, 1, 3)).tolist()
        [[[0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"Only tensors with 3, 4, or 5 dimensions are supported, got {tensor.ndim}")
    if tensor.shape[0] % groups != 0:
        raise ValueError(f"dim 0 must be divisible by groups, got {tensor.shape[0]} and {groups}")
    channels = tensor.shape[0] // groups
    center = tuple(size // 2 for size in tensor.shape[2:])
    tensor.zero_()
    for group in range(groups):
        for channel in range(min(channels, tensor.shape[1])):
            tensor[(group * channels + channel, channel, *center)] = 1
    return tensor


# ---- random values
# -----------------------------------------------------------------------------------------------------


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from the uniform distribution on [a, b).

    Example:

        >>> nn.init.uniform_(torch.empty(3, 5), 1.0, 2.0).shape
        numod.Size([3, 5])
    """
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Any = None) -> Tensor:
    """Fill from the normal distribution.

    Example:

        >>> nn.init.normal_(torch.empty(3, 5), std=0.02).shape
        numod.Size([3, 5])
    """
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator: Any = None
) -> Tensor:
    """Fill from the normal distribution truncated to [a, b].

    It uses rejection sampling from the normal distribution, or from the uniform one if [a, b] has little of the mass.

    Example:

        >>> bool(nn.init.trunc_normal_(torch.empty(100)).abs().max() <= 2)
        True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        message = (
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. The distribution of values may be incorrect."
        )
        warn_caller(message)
    if _normal_between(a, b, mean, std) > 0.3:
        return _fill_accepted(
            tensor,
            draw=lambda candidate: candidate.normal_(mean, std, generator=generator),
            accept=lambda candidate: (candidate >= a) & (candidate <= b),
        )
    peak = ((max(a, min(mean, b)) - mean) / std) ** 2

    def accept(candidate: Tensor) -> Tensor:
        density = (0.5 * (peak - ((candidate - mean) / std) ** 2)).exp()
        return empty_like(candidate).uniform_(generator=generator) < density

    return _fill_accepted(tensor, draw=lambda candidate: candidate.uniform_(a, b, generator=generator), accept=accept)


def _normal_between(a: float, b: float, mean: float, std: float) -> float:
    """The probability of [a, b] under the normal distribution."""
    return (math.erf((b - mean) / (std * math.sqrt(2))) - math.erf((a - mean) / (std * math.sqrt(2)))) / 2


def _fill_accepted(tensor: Tensor, draw: Callable[[Tensor], Tensor], accept: Callable[[Tensor], Tensor]) -> Tensor:
    """Redraw rejected elements until all are accepted."""
    if tensor.device.type == "meta":
        return tensor
    values = empty_like(tensor)
    pending = ones_like(values) > 0
    while pending.any():
        candidate = draw(empty_like(values))
        accepted = pending & accept(candidate)
        values = where(accepted, candidate, values)
        pending = pending & ~accepted
    return tensor.copy_(values)


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Uniform in ±gain √(6 / (fan_in + fan_out)) (Glorot & Bengio, Understanding the difficulty of training, 2010).

    Example:

        >>> nn.init.xavier_uniform_(torch.empty(3, 5)).shape
        numod.Size([3, 5])
    """
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Any = None) -> Tensor:
    """Normal with standard deviation gain √(2 / (fan_in + fan_out)) (Glorot & Bengio, 2010).

    Example:

        >>> nn.init.xavier_normal_(torch.empty(3, 5)).shape
        numod.Size([3, 5])
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Uniform in ±gain √(3 / fan) (He et al., Delving deep into rectifiers, 2015).

    `a` is the negative slope of leaky_relu.

    Example:

        >>> nn.init.kaiming_uniform_(torch.empty(3, 5), nonlinearity="relu").shape
        numod.Size([3, 5])
    """
    if _is_empty(tensor):
        return tensor
    bound = math.sqrt(3) * _kaiming_deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator: Any = None
) -> Tensor:
    """Normal with standard deviation gain / √fan (He et al., 2015). `a` is the negative slope of leaky_relu.

    Example:

        >>> nn.init.kaiming_normal_(torch.empty(3, 5), mode="fan_out").shape
        numod.Size([3, 5])
    """
    if _is_empty(tensor):
        return tensor
    return normal_(tensor, 0.0, _kaiming_deviation(tensor, a, mode, nonlinearity), generator)


def _kaiming_deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    return calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    """The fan named by `mode`. Raises ValueError for another name."""
    fans = dict(zip(("fan_in", "fan_out"), _calculate_fan_in_and_fan_out(tensor)))
    if mode.lower() not in fans:
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return fans[mode.lower()]


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Any = None) -> Tensor:
    """Fill with `gain` times a random matrix with orthonormal rows, or columns if it is tall.

    Dimensions after the first are flattened. It is the Q of a QR decomposition of a normal matrix, with unique signs.
    Saxe et al., Exact solutions to the nonlinear dynamics of learning, 2013.

    Example:

        >>> w = nn.init.orthogonal_(torch.empty(3, 3))
        >>> torch.allclose(w @ w.T, torch.eye(3), atol=1e-5)
        True
    """
    if tensor.ndim < 2:
        raise ValueError(f"Only tensors with 2 or more dimensions are supported, got {tensor.ndim}")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.numel() // tensor.shape[0]
    normal = empty_like(tensor, requires_grad=False).normal_(0, 1, generator=generator).cpu().reshape(rows, columns)
    q, r = qr(normal.T if rows < columns else normal)
    q = gain * q * r.diagonal().sign()
    return tensor.copy_((q.T if rows < columns else q).reshape(tensor.shape))


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Any = None) -> Tensor:
    """Fill from the normal distribution, with a fraction `sparsity` of each column set to zero.

    Martens, Deep learning via Hessian-free optimization, 2010.

    Example:

        >>> int((nn.init.sparse_(torch.empty(10, 4), sparsity=0.1) == 0).sum())
        4
    """
    _require_matrix(tensor)
    zeros = math.ceil(sparsity * tensor.shape[0])
    tensor.normal_(0, std, generator=generator)
    order = (
        empty_like(tensor, requires_grad=False)
        .uniform_(generator=generator)
        .cpu()
        .numpy()
        .argsort(axis=0)
        .argsort(axis=0)
    )
    return tensor.mul_(from_numpy(order >= zeros).to(tensor.device))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(fan_in, fan_out): inputs per output and outputs per input, from the shape (out, in, …) of a weight."""
    if tensor.ndim < 2:
        raise ValueError(
            f"Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got {tensor.ndim}"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def _is_empty(tensor: Tensor) -> bool:
    if tensor.numel() == 0:
        warn_caller("Initializing zero-element tensors is a no-op")
    return tensor.numel() == 0


def _require_matrix(tensor: Tensor) -> None:
    if tensor.ndim != 2:
        raise ValueError(f"Only tensors with 2 dimensions are supported, got {tensor.ndim}")


# ---- deprecated names, without the underscore
# -----------------------------------------------------------------------------


# PyTorch's private forms, which copies of its initialisations in model files call


def _no_grad_uniform_(tensor: Tensor, a: float, b: float, generator: Any = None) -> Tensor:
    return uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor: Tensor, mean: float, std: float, generator: Any = None) -> Tensor:
    return normal_(tensor, mean, std, generator)


def _no_grad_trunc_normal_(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Any = None
) -> Tensor:
    return trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_fill_(tensor: Tensor, val: float) -> Tensor:
    return constant_(tensor, val)


def _no_grad_zero_(tensor: Tensor) -> Tensor:
    return zeros_(tensor)


def _deprecated(new: Callable) -> Callable:
    old = new.__name__[:-1]

    @functools.wraps(new)
    def initializer(*args: Any, **kwargs: Any) -> Tensor:
        warn_caller(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new.__name__}`.", FutureWarning)
        return new(*args, **kwargs)

    initializer.__name__ = initializer.__qualname__ = old
    return initializer


uniform, normal, constant, eye, dirac = map(_deprecated, (uniform_, normal_, constant_, eye_, dirac_))
xavier_uniform, xavier_normal = map(_deprecated, (xavier_uniform_, xavier_normal_))
kaiming_uniform, kaiming_normal = map(_deprecated, (kaiming_uniform_, kaiming_normal_))
orthogonal, sparse = map(_deprecated, (orthogonal_, sparse_))
