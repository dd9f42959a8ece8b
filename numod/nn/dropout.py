"""Dropout layers: the functions of `functional`, active while `training`."""

from __future__ import annotations

from ..core import Tensor
from . import functional as F
from .settings import Described

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Described):
    """Dropout with probability `p` in training; the identity in evaluation."""

    _shown = ("p", "inplace")
    function = ""

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.function)(input, self.p, self.training, self.inplace)


class Dropout(_Dropout):
    """In training, zeroes each element with probability `p` and divides the others by 1 - p.

    In evaluation it is the identity. Hinton et al., Improving neural networks by preventing co-adaptation of feature
    detectors, 2012.

    Example:

        >>> m = nn.Dropout(0.5).eval()
        >>> m(torch.ones(3))
        tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Dropout of whole channels of (N, C, L) or (C, L).

    Example:

        >>> nn.Dropout1d(0.2)(torch.ones(2, 3, 4)).shape
        numod.Size([2, 3, 4])
    """

    function = "dropout1d"


class Dropout2d(_Dropout):
    """Dropout of whole channels of (N, C, H, W). Tompson et al., 2015.

    Example:

        >>> nn.Dropout2d(0.2)(torch.ones(2, 3, 4, 4)).shape
        numod.Size([2, 3, 4, 4])
    """

    function = "dropout2d"


class Dropout3d(_Dropout):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W).

    Example:

        >>> nn.Dropout3d(0.2)(torch.ones(2, 3, 4, 4, 4)).shape
        numod.Size([2, 3, 4, 4, 4])
    """

    function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that preserves the mean and variance of SELU networks. Klambauer et al., 2017.

    Example:

        >>> m = nn.AlphaDropout(0.5).eval()
        >>> m(torch.ones(3))
        tensor([1., 1., 1.])
    """

    function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels.

    Example:

        >>> nn.FeatureAlphaDropout(0.2)(torch.ones(2, 3, 4)).shape
        numod.Size([2, 3, 4])
    """

    function = "feature_alpha_dropout"
