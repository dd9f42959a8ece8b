"""Linear, Bilinear, and layers that only reshape: Identity, Flatten, Unflatten."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor, empty
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .settings import Described

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Identity(Module):
    """Returns its input. It accepts any arguments, so that it can replace another layer.

    Example:

        >>> nn.Identity()(torch.ones(2))
        tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Linear(Module):
    """x @ weight.T + bias, (…, in_features) -> (…, out_features).

    `weight` is (out_features, in_features) and `bias` (out_features), both initialized uniformly in ±1/√in_features.

    Example:

        >>> nn.Linear(20, 30)(torch.ones(128, 20)).shape
        numod.Size([128, 30])
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in_features), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for each output k, (…, in1_features), (…, in2_features) -> (…, out_features).

    Example:

        >>> nn.Bilinear(2, 3, 4)(torch.ones(5, 2), torch.ones(5, 3)).shape
        numod.Size([5, 4])
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got (in1_features={in1_features})")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(empty((out_features, in1_features, in2_features), device=device, dtype=dtype))
        self.register_parameter("bias", Parameter(empty(out_features, device=device, dtype=dtype)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new values."""
        bound = 1 / math.sqrt(self.in1_features)
        for parameter in self.parameters(recurse=False):
            init.uniform_(parameter, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Flatten(Described):
    """Flattens the dimensions from `start_dim` to `end_dim`; by default all but the batch.

    Example:

        >>> nn.Flatten()(torch.ones(2, 3, 4)).shape
        numod.Size([2, 12])
    """

    _shown = ("start_dim", "end_dim")

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


class Unflatten(Described):
    """Splits dimension `dim` into `unflattened_size`, a tuple of ints, one of which may be -1.

    Example:

        >>> nn.Unflatten(1, (2, 3))(torch.ones(4, 6)).shape
        numod.Size([4, 2, 3])
    """

    _shown = ("dim", "unflattened_size")

    def __init__(self, dim: int, unflattened_size: tuple[int, ...]) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                kind = type(size).__name__
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {kind} at pos {position}"
                )
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
