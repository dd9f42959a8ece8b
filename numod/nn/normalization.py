"""Normalisation layers: batch, instance, layer, group, root-mean-square and local response, and their lazy forms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import Tensor, empty, ones, tensor, zeros
from .. import dtypes
from ..errors import SINGLE_INT, plain, warn_caller
from . import functional as F
from . import init
from .lazy import LazyLayer, lazy_form
from .module import Module
from .parameter import Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LocalResponseNorm", "RMSNorm",
]  # fmt: skip


class _Affine(Module):
    """Base class of layers with an optional weight and bias that scale and shift."""

    def reset_parameters(self) -> None:
        """Weight 1, bias 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _Norm(_Affine):
    """Base class with running statistics as buffers, weight and bias, for `num_features` channels."""

    _version = 2  # of the state dict: since 2 it contains num_batches_tracked
    dims: tuple[int, ...] = ()

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        self._make(device, dtype, bias)
        self.reset_parameters()

    def _make(self, device: Any, dtype: Any, bias: bool) -> None:
        n, options = self.num_features, {"device": device, "dtype": dtype}
        self.register_parameter("weight", Parameter(empty(n, **options)) if self.affine else None)
        self.register_parameter("bias", Parameter(empty(n, **options)) if self.affine and bias else None)
        self.register_buffer("running_mean", zeros(n, **options) if self.track_running_stats else None)
        self.register_buffer("running_var", ones(n, **options) if self.track_running_stats else None)
        self.register_buffer(
            "num_batches_tracked", tensor(0, dtype=dtypes.int64, device=device) if self.track_running_stats else None
        )

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, no batches."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Reset statistics and parameters to their initial values."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.dims:
            wanted = " or ".join(f"{ndim}D" for ndim in self.dims)
            raise ValueError(f"expected {wanted} input (got {input.ndim}D input)")

    def extra_repr(self) -> str:
        settings = f"eps={self.eps}, momentum={self.momentum}, affine={self.affine}, bias={self.bias is not None}"
        return f"{self.num_features}, {settings}, track_running_stats={self.track_running_stats}"

    def _load_from_state_dict(self, state_dict: dict, prefix: str, local_metadata: dict, *others: Any) -> None:
        version = local_metadata.get("version")
        if (
            (version is None or version < 2)
            and self.track_running_stats
            and prefix + "num_batches_tracked" not in state_dict
        ):
            state_dict[prefix + "num_batches_tracked"] = (
                self.num_batches_tracked if self.num_batches_tracked is not None else tensor(0)
            )
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *others)


class _BatchNorm(_Norm):
    """Normalizes channels by the batch's statistics in training, and by the running ones in evaluation.

    With `momentum=None` the running statistics are a cumulative average over all batches.
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        factor = self._count_batch()
        if isinstance(factor, Tensor):
            return self._averaged(input, factor)
        use_batch_stats = self.training or (self.running_mean is None and self.running_var is None)
        uses_running = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if uses_running else None,
            self.running_var if uses_running else None,
            self.weight,
            self.bias,
            use_batch_stats,
            factor,
            self.eps,
        )

    def _count_batch(self) -> float | Tensor:
        """Count a batch in training. Returns the update factor of the running statistics.

        Without a momentum it is 1 / number of batches, as a tensor, so that compiled steps do not make it a constant.
        """
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                return (1.0 / self.num_batches_tracked.double()).to(self.running_mean.dtype)
        return 0.0 if self.momentum is None else self.momentum

    def _averaged(self, input: Tensor, factor: Tensor) -> Tensor:
        """Batch norm in training whose update factor is a tensor."""
        statistics = [statistic.clone() for statistic in (self.running_mean, self.running_var)]
        result = F.batch_norm(input, *statistics, self.weight, self.bias, True, 1.0, self.eps)
        for running, statistic in zip((self.running_mean, self.running_var), statistics):
            running.lerp_(statistic, factor)
        return result


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L). Ioffe and Szegedy, 2015.

    Example:

        >>> nn.BatchNorm1d(1)(torch.tensor([[1.0], [3.0]]))
        tensor([[-1.0000],
                [ 1.0000]], grad_fn=<NativeBatchNormBackward0>)
    """

    dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of (N, C, H, W).

    Example:

        >>> nn.BatchNorm2d(3)(torch.ones(2, 3, 4, 4)).shape
        numod.Size([2, 3, 4, 4])
    """

    dims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W).

    Example:

        >>> nn.BatchNorm3d(3)(torch.ones(2, 3, 2, 4, 4)).shape
        numod.Size([2, 3, 2, 4, 4])
    """

    dims = (5,)


class _InstanceNorm(_Norm):
    """Normalizes each channel of each sample separately; in evaluation by running statistics if they are tracked."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        batched = input.ndim == max(self.dims)
        channel_dim = 1 if batched else 0
        if input.shape[channel_dim] != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={channel_dim} to match num_features ({self.num_features}), but got: "
                    f"{input.shape[channel_dim]}."
                )
            warn_caller(
                f"input's size at dim={channel_dim} does not match num_features ({self.num_features}), which is not "
                "used because affine=False."
            )
        use_input_stats = self.training or not self.track_running_stats
        result = F.instance_norm(
            input if batched else input.unsqueeze(0),
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            use_input_stats,
            self.momentum if self.momentum is not None else 0.0,
            self.eps,
        )
        return result if batched else result.squeeze(0)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, C, L) or (C, L). Ulyanov, Vedaldi and Lempitsky, 2016.

    Example:

        >>> nn.InstanceNorm1d(3)(torch.ones(2, 3, 4)).shape
        numod.Size([2, 3, 4])
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization of (N, C, H, W) or (C, H, W).

    Example:

        >>> nn.InstanceNorm2d(3)(torch.ones(2, 3, 4, 4)).shape
        numod.Size([2, 3, 4, 4])
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W).

    Example:

        >>> nn.InstanceNorm3d(3)(torch.ones(2, 3, 4, 4, 4)).shape
        numod.Size([2, 3, 4, 4, 4])
    """

    dims = (4, 5)


class LayerNorm(_Affine):
    """Normalizes the last dimensions (`normalized_shape`) to mean 0 and variance 1, then scales and shifts them.

    Ba, Kiros and Hinton, 2016.

    Example:

        >>> nn.LayerNorm(2)(torch.tensor([[1.0, 3.0]]))
        tensor([[-1.0000,  1.0000]], grad_fn=<NativeLayerNormBackward0>)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (
            (plain(normalized_shape),) if isinstance(normalized_shape, SINGLE_INT) else tuple(normalized_shape)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        make = lambda wanted: Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if wanted else None  # noqa: E731
        self.register_parameter("weight", make(elementwise_affine))
        self.register_parameter("bias", make(elementwise_affine and bias))
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divides the last dimensions by their root mean square, then scales them. Zhang and Sennrich, 2019.

    Example:

        >>> nn.RMSNorm(2)(torch.tensor([[3.0, 4.0]])).detach()
        tensor([[0.8485, 1.1314]])
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (
            (plain(normalized_shape),) if isinstance(normalized_shape, SINGLE_INT) else tuple(normalized_shape)
        )
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.register_parameter(
            "weight",
            Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None,
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalizes groups of channels, then scales and shifts each channel. Wu and He, 2018.

    Example:

        >>> nn.GroupNorm(2, 4)(torch.ones(1, 4, 3, 3)).shape
        numod.Size([1, 4, 3, 3])
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.register_parameter(
            "weight", Parameter(empty(num_channels, device=device, dtype=dtype)) if affine else None
        )
        self.register_parameter(
            "bias", Parameter(empty(num_channels, device=device, dtype=dtype)) if affine and bias else None
        )
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """x / (k + alpha * mean of squares over `size` neighbouring channels) ** beta. Krizhevsky et al., 2012.

    Example:

        >>> nn.LocalResponseNorm(2)(torch.ones(1, 4, 3, 3)).shape
        numod.Size([1, 4, 3, 3])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """LocalResponseNorm for (N, C, H, W) with a symmetric neighbourhood.

    For an even `size` the neighbourhood has size - 1 channels, but the sum is still divided by `size`.

    Example:

        >>> nn.CrossMapLRN2d(2)(torch.ones(1, 4, 2, 2)).shape
        numod.Size([1, 4, 2, 2])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead.")
        width = self.size - 1 + self.size % 2
        return F.local_response_norm(input, width, self.alpha * width / self.size, self.beta, self.k)


class _LazyNorm(LazyLayer):
    """A normalization that takes `num_features`, the number of channels, from its first input."""

    inferred = "num_features"

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(0, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _make(self, device: Any, dtype: Any, bias: bool) -> None:
        for name, wanted in (("weight", self.affine), ("bias", self.affine and bias)):
            self.register_parameter(name, UninitializedParameter(device=device, dtype=dtype) if wanted else None)
        for name in ("running_mean", "running_var"):
            self.register_buffer(
                name, UninitializedBuffer(device=device, dtype=dtype) if self.track_running_stats else None
            )
        self.register_buffer(
            "num_batches_tracked", tensor(0, dtype=dtypes.int64, device=device) if self.track_running_stats else None
        )

    def initialize_parameters(self, input: Tensor) -> None:
        """Set `num_features` from the input."""
        if self.has_uninitialized_params():
            self.num_features = input.shape[1]
            for tensor in (self.weight, self.bias, self.running_mean, self.running_var):
                if tensor is not None:
                    tensor.materialize((self.num_features,))
            self.reset_parameters()


LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    lazy_form(layer, _LazyNorm) for layer in (BatchNorm1d, BatchNorm2d, BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    lazy_form(layer, _LazyNorm) for layer in (InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)
)
