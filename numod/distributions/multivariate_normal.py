"""The normal distribution of vectors."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from ..core.decompositions import cholesky
from ..core.linear_algebra import inv, solve_triangular
from ..core.random import randn
from . import constraints as c
from .distribution import Distribution
from .utils import lazy_property


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc` (..., K) and a covariance, a precision, or the covariance's lower Cholesky factor `scale_tril`."""

    arg_constraints = {"loc": c.real_vector, "covariance_matrix": c.positive_definite, "precision_matrix": c.positive_definite, "scale_tril": c.lower_cholesky}
    support, has_rsample = c.real_vector, True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch, k = f.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]), loc.shape[-1]
        self.__dict__[name] = matrix = matrix.expand((*batch, k, k))
        self.loc = loc.expand((*batch, k))
        super().__init__(batch, (k,), validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            flipped = cholesky(matrix.flip((-2, -1)))
            self._unbroadcasted_scale_tril = inv(flipped.flip((-2, -1)).mT.contiguous())

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The covariance's lower Cholesky factor."""
        return self._unbroadcasted_scale_tril

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """scale_tril @ scale_tril.mT."""
        return self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        return inv(self.covariance_matrix)

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
        solved = solve_triangular(low.expand((*shape, *low.shape[-2:])), difference.unsqueeze(-1), upper=False).squeeze(-1)
        half = low.diagonal(0, -2, -1).log().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + (solved**2).sum(-1)) - half

    def entropy(self) -> Tensor:
        half = self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half
