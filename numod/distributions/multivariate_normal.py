"""The normal distribution of vectors."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from ..core.linalg.linear_algebra import solve_triangular
from ..core.create.random import randn
from . import constraints as c
from .covariance import WithCovariance


class MultivariateNormal(WithCovariance):
    """Normal vectors with mean `loc` (..., K), and a covariance, a precision, or a Cholesky factor `scale_tril`.

    Example:

        >>> torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2)).log_prob(torch.zeros(2))
        tensor(-1.8379)
    """

    arg_constraints = {"loc": c.real_vector, **WithCovariance.matrix_constraints}
    support, has_rsample = c.real_vector, True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = self._matrix(
            ValueError, covariance_matrix=covariance_matrix, precision_matrix=precision_matrix, scale_tril=scale_tril
        )
        batch, k = f.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]), loc.shape[-1]
        self.__dict__[name] = matrix = matrix.expand((*batch, k, k))
        self.loc = loc.expand((*batch, k))
        super().__init__(batch, (k,), validate_args=validate_args)
        self._factor(name, matrix)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: (self._unbroadcasted_scale_tril**2).sum(-1))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        noise = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        difference = value - self.loc
        low = self._unbroadcasted_scale_tril
        shape = difference.shape[:-1]
        solved = solve_triangular(low.expand((*shape, *low.shape[-2:])), difference.unsqueeze(-1), upper=False).squeeze(
            -1
        )
        half = low.diagonal(0, -2, -1).log().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + (solved**2).sum(-1)) - half

    def entropy(self) -> Tensor:
        half = self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
