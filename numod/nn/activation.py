"""Activations as modules: settings with PyTorch's names and defaults for the functions of `functional`."""

from __future__ import annotations

from typing import Any

from ..errors import warn_caller
from ..core import Tensor, empty
from . import functional as F
from . import init
from .parameter import Parameter
from .settings import Described

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU", "LogSigmoid",
    "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(Described):
    """Base class: a function of the input and a few settings, shown in the repr (`inplace` only if it is True)."""

    def _set(self, **settings: Any) -> None:
        super().__init__()
        for name, value in settings.items():
            setattr(self, name, value)

    def extra_repr(self) -> str:
        return ", ".join(
            filter(None, [super().extra_repr(), "inplace=True" if getattr(self, "inplace", False) else ""])
        )


class _InPlaceActivation(_Activation):
    """An activation whose only setting is whether it overwrites its input."""

    def __init__(self, inplace: bool = False) -> None:
        self._set(inplace=inplace)


class ReLU(_InPlaceActivation):
    """max(x, 0).

    Example:

        >>> nn.ReLU()(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class Threshold(_Activation):
    """x where it is greater than `threshold`, otherwise `value`.

    Example:

        >>> nn.Threshold(0.1, 20.0)(torch.tensor([0.0, 1.0]))
        tensor([20.,  1.])
    """

    _shown = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        self._set(threshold=threshold, value=value, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class RReLU(_Activation):
    """x where positive, otherwise x times a slope: random in [lower, upper] in training, their mean in evaluation.

    Example:

        >>> nn.RReLU().eval()(torch.tensor([-1.0, 2.0]))
        tensor([-0.2292,  2.0000])
    """

    _shown = ("lower", "upper")

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        self._set(lower=lower, upper=upper, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(_Activation):
    """x clamped to [min_val, max_val].

    Example:

        >>> nn.Hardtanh()(torch.tensor([-2.0, 0.5, 2.0]))
        tensor([-1.0000,  0.5000,  1.0000])
    """

    _shown = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        for old, new, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warn_caller(f"keyword argument `{old}` is deprecated and renamed to `{new}`", FutureWarning)
        min_val, max_val = min_val if min_value is None else min_value, max_val if max_value is None else max_value
        self._set(min_val=min_val, max_val=max_val, inplace=inplace)
        if max_val <= min_val:
            raise AssertionError(f"max_val ({max_val}) must be greater than min_val ({min_val})")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """x clamped to [0, 6].

    Example:

        >>> nn.ReLU6()(torch.tensor([-1.0, 2.0, 8.0]))
        tensor([0., 2., 6.])
    """

    _shown = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)).

    Example:

        >>> nn.Sigmoid()(torch.tensor([-1.0, 0.0]))
        tensor([0.2689, 0.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.sigmoid()


class Hardsigmoid(_InPlaceActivation):
    """x / 6 + 1 / 2 clamped to [0, 1].

    Example:

        >>> nn.Hardsigmoid()(torch.tensor([-4.0, 0.0, 4.0]))
        tensor([0.0000, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Tanh(_Activation):
    """The hyperbolic tangent of x.

    Example:

        >>> nn.Tanh()(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return input.tanh()


class SiLU(_InPlaceActivation):
    """x sigmoid(x), also called swish.

    Example:

        >>> nn.SiLU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.2689,  1.7616])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlaceActivation):
    """x tanh(softplus(x)).

    Example:

        >>> nn.Mish()(torch.tensor([-1.0, 2.0]))
        tensor([-0.3034,  1.9440])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardswish(_InPlaceActivation):
    """x hardsigmoid(x). Howard et al., Searching for MobileNetV3, 2019.

    Example:

        >>> nn.Hardswish()(torch.tensor([-4.0, 1.5, 4.0]))
        tensor([-0.0000, 1.1250, 4.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class ELU(_Activation):
    """x where positive, otherwise alpha (exp(x) - 1).

    Example:

        >>> nn.ELU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_Activation):
    """x where positive, otherwise alpha (exp(x / alpha) - 1).

    Example:

        >>> nn.CELU()(torch.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """

    _shown = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self._set(alpha=alpha, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class SELU(_InPlaceActivation):
    """ELU scaled to preserve mean 0 and variance 1. Klambauer et al., Self-normalizing neural networks, 2017.

    Example:

        >>> nn.SELU()(torch.tensor([-1.0, 2.0]))
        tensor([-1.1113,  2.1014])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class GLU(_Activation):
    """a sigmoid(b), for the two halves a, b of x along `dim`.

    Example:

        >>> nn.GLU()(torch.tensor([1.0, 2.0, 0.0, 0.0]))
        tensor([0.5000, 1.0000])
    """

    _shown = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        self._set(dim=dim)

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class GELU(_Activation):
    """x times the standard normal cumulative distribution function of x, exactly or with `approximate="tanh"`.

    Example:

        >>> nn.GELU()(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([-0.1587,  0.0000,  0.8413])
    """

    _shown = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        self._set(approximate=approximate)

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)


class _Shrink(_Activation):
    def __init__(self, lambd: float = 0.5) -> None:
        self._set(lambd=lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """x where |x| > lambd, otherwise 0.

    Example:

        >>> nn.Hardshrink()(torch.tensor([-1.0, 0.2, 2.0]))
        tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """x shrunk towards zero by `lambd`: sign(x) max(|x| - lambd, 0).

    Example:

        >>> nn.Softshrink()(torch.tensor([-1.0, 0.2, 2.0]))
        tensor([-0.5000,  0.0000,  1.5000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(_Activation):
    """x where positive, otherwise negative_slope x.

    Example:

        >>> nn.LeakyReLU(0.1)(torch.tensor([-1.0, 2.0]))
        tensor([-0.1000,  2.0000])
    """

    _shown = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self._set(negative_slope=negative_slope, inplace=inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class PReLU(_Activation):
    """x where positive, otherwise weight x, with a learned weight for all channels or for each, (num_parameters).

    Example:

        >>> nn.PReLU()(torch.tensor([-1.0, 2.0])).detach()
        tensor([-0.2500,  2.0000])
    """

    _shown = ("num_parameters",)

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        self._set(num_parameters=num_parameters, init=init)
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reset the slopes to `init`."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class LogSigmoid(_Activation):
    """log sigmoid(x).

    Example:

        >>> nn.LogSigmoid()(torch.tensor([0.0, -100.0]))
        tensor([  -0.6931, -100.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softplus(_Activation):
    """log(1 + exp(beta x)) / beta, or x itself where beta x is greater than `threshold`.

    Example:

        >>> nn.Softplus()(torch.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """

    _shown = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self._set(beta=beta, threshold=threshold)

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class Softsign(_Activation):
    """x / (1 + |x|).

    Example:

        >>> nn.Softsign()(torch.tensor([-1.0, 3.0]))
        tensor([-0.5000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(_Activation):
    """x - tanh(x).

    Example:

        >>> nn.Tanhshrink()(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class _AlongDimension(_Activation):
    _shown = ("dim",)

    def __init__(self, dim: int | None = None) -> None:
        self._set(dim=dim)


class Softmax(_AlongDimension):
    """exp(x) divided by its sum along `dim`.

    Example:

        >>> nn.Softmax(dim=1)(torch.tensor([[1.0, 1.0, 1.0, 1.0]]))
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class LogSoftmax(_AlongDimension):
    """log softmax(x) along `dim`.

    Example:

        >>> nn.LogSoftmax(dim=1)(torch.zeros(1, 4))
        tensor([[-1.3863, -1.3863, -1.3863, -1.3863]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmin(_AlongDimension):
    """softmax(-x) along `dim`.

    Example:

        >>> nn.Softmin(dim=0)(torch.tensor([0.0, 1.0]))
        tensor([0.7311, 0.2689])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class Softmax2d(_Activation):
    """Softmax over the channels of (N, C, H, W) or (C, H, W).

    Example:

        >>> nn.Softmax2d()(torch.zeros(1, 4, 1, 1)).flatten()
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.ndim}D instead")
        return F.softmax(input, -3)
