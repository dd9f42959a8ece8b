"""The LKJ distribution of the Cholesky factors of correlation matrices."""

from __future__ import annotations

import math

from ..autograd import no_grad
from ..core import Tensor, arange, functions as f
from ..core.create.random import randn
from ..dtypes import finfo
from . import constraints as c
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all


class LKJCholesky(Distribution):
    """Lower Cholesky factors (dim, dim) of correlation matrices M with density ~ det(M)^(concentration - 1).

    It is uniform for concentration 1. Lewandowski, Kurowicka and Joe, Generating random correlation matrices based on
    vines and extended onion method, 2009.

    Example:

        >>> torch.distributions.LKJCholesky(3, torch.tensor(0.5)).sample().shape
        numod.Size([3, 3])
    """

    arg_constraints, support = {"concentration": c.positive}, c.corr_cholesky

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim, (self.concentration,) = dim, broadcast_all(concentration)
        rows = arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        rows = f.cat([rows.new_zeros(1), rows])
        # the squared length of each row below the diagonal
        self._beta = Beta(rows + 0.5, (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1) - 0.5 * rows)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape: tuple, _instance: object = None) -> LKJCholesky:
        result = object.__new__(type(self)) if _instance is None else _instance
        LKJCholesky.__init__(result, self.dim, self.concentration.expand(batch_shape), validate_args=False)
        return result

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        """The onion method for all rows at once: a row is a random direction times the root of a Beta variable."""
        with no_grad():
            length = self._beta.sample(sample_shape).unsqueeze(-1)
            direction = randn(self._extended_shape(sample_shape), dtype=length.dtype, device=length.device).tril(-1)
            norm = direction.norm(dim=-1, keepdim=True)
            below = length.sqrt() * direction / f.where(norm == 0, 1.0, norm)
            return below + (1 - (below**2).sum(-1)).clamp_min(finfo(below.dtype).tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """The sum of (2 (concentration - 1) + dim - i) log L_ii, minus the log normalizer (page 1999 of the paper)."""
        self._validate_sample(value)
        order = (
            2 * (self.concentration - 1).unsqueeze(-1)
            + self.dim
            - arange(2, self.dim + 1, device=self.concentration.device)
        )
        log_density, rest = (order * value.diagonal(0, -2, -1)[..., 1:].log()).sum(-1), self.dim - 1
        alpha = self.concentration + 0.5 * rest
        return log_density - (0.5 * rest * math.log(math.pi) + f.mvlgamma(alpha - 0.5, rest) - alpha.lgamma() * rest)
