"""Student's t distribution."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from ..core.create.random import randn
from ..ops.density import student_log_density
from . import constraints as c
from .chi2 import Chi2
from .distribution import Distribution
from .entropies import student_entropy
from .utils import broadcast_all


class StudentT(Distribution):
    """Student's t with `df` degrees of freedom, shifted by `loc` and scaled by `scale`.

    Example:

        >>> torch.distributions.StudentT(torch.tensor(3.0)).variance
        tensor(3.)
    """

    arg_constraints, support, has_rsample = {"df": c.positive, "loc": c.real, "scale": c.positive}, c.real, True

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return f.where(self.df <= 1, self.loc * float("nan"), self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        wide = self.scale**2 * self.df / (self.df - 2)
        return f.where(
            self.df > 2, wide, f.where(self.df > 1, wide.new_full((), math.inf), wide.new_full((), math.nan))
        )

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = Chi2(self.df).rsample(sample_shape)
        return (
            self.loc + self.scale * randn(shape, dtype=self.loc.dtype, device=self.loc.device) * (z / self.df).rsqrt()
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return student_log_density((value - self.loc) / self.scale, self.df) - self.scale.log()

    def entropy(self) -> Tensor:
        return self.scale.log() + student_entropy(self.df)
