"""Fisher's and Snedecor's F distribution."""

from __future__ import annotations

from ..core import Tensor, functions as f
from ..dtypes import finfo
from . import constraints as c
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared variables, each divided by its degrees of freedom, `df1` and `df2`.

    Example:

        >>> torch.distributions.FisherSnedecor(torch.tensor(1.0), torch.tensor(4.0)).mean
        tensor(2.)
    """

    arg_constraints, support, has_rsample = {"df1": c.positive, "df2": c.positive}, c.positive, True

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = (Gamma(df * 0.5, df) for df in (self.df1, self.df2))
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return f.where(self.df2 > 2, self.df2 / (self.df2 - 2), float("nan"))

    @property
    def mode(self) -> Tensor:
        return f.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), float("nan"))

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        return f.where(b > 4, 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4)), float("nan"))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        tiny = finfo(self.df1.dtype).tiny
        return (self._gamma1.rsample(sample_shape) / self._gamma2.rsample(sample_shape).clamp_min(tiny)).clamp_min(tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return (
            (a + b).lgamma()
            - a.lgamma()
            - b.lgamma()
            + a * ratio.log()
            + (a - 1) * value.log()
            - (a + b) * (ratio * value).log1p()
        )
