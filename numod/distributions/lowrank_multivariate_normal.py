"""The normal distribution of vectors whose covariance is diagonal plus low rank."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from ..core.linalg.decompositions import cholesky
from ..core.linalg.linear_algebra import solve_triangular
from ..core.create.random import randn
from . import constraints as c
from .distribution import Distribution
from .utils import lazy_property


class LowRankMultivariateNormal(Distribution):
    """Normal vectors with mean `loc` (..., K) and covariance W W^T + D.

    W is `cov_factor` (..., K, M), and D has the diagonal `cov_diag` (..., K). By the Woodbury identity only the M x M
    matrix I + W^T D^-1 W is factored.

    Example:

        >>> d = torch.distributions.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(2))
        >>> d.covariance_matrix
        tensor([[2., 1.],
                [1., 2.]])
    """

    arg_constraints = {
        "loc": c.real_vector,
        "cov_factor": c.independent(c.real, 2),
        "cov_diag": c.independent(c.positive, 1),
    }
    support, has_rsample = c.real_vector, True

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.ndim < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if cov_diag.shape[-1:] != event:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        try:
            batch = f.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand((*batch, *event)), cov_diag.expand((*batch, *event))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        super().__init__(batch, event, validate_args=validate_args)

    @lazy_property
    def _capacitance_tril(self) -> Tensor:
        """The lower Cholesky factor of I + W^T D^-1 W."""
        return cholesky(_plus_one(self._scaled() @ self.cov_factor))

    def _scaled(self) -> Tensor:
        """W^T D^-1."""
        return self.cov_factor.mT / self.cov_diag.unsqueeze(-2)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The covariance's lower Cholesky factor:

        D^1/2 that of I + D^-1/2 W W^T D^-1/2, whose eigenvalues are 1 at least.
        """
        root = self.cov_diag.sqrt().unsqueeze(-1)
        factor = self.cov_factor / root
        return root * cholesky(_plus_one(factor @ factor.mT))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """W W^T + D."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The covariance's inverse."""
        half = solve_triangular(self._capacitance_tril, self._scaled(), upper=False)
        return self.cov_diag.reciprocal().diag_embed() - half.mT @ half

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: (self.cov_factor**2).sum(-1) + self.cov_diag)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape, like = self._extended_shape(sample_shape), {"dtype": self.loc.dtype, "device": self.loc.device}
        along = randn((*shape[:-1], self.cov_factor.shape[-1]), **like)
        return (
            self.loc + (self.cov_factor @ along.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * randn(shape, **like)
        )

    def _log_determinant(self) -> Tensor:
        """The log-determinant of the covariance, by the matrix determinant lemma."""
        return 2 * self._capacitance_tril.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        difference = value - self.loc
        along = self._scaled() @ difference.unsqueeze(-1)
        low = self._capacitance_tril.expand((*along.shape[:-2], *self._capacitance_tril.shape[-2:]))
        distance = (difference**2 / self.cov_diag).sum(-1) - (solve_triangular(low, along, upper=False) ** 2).sum(
            (-2, -1)
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_determinant() + distance)

    def entropy(self) -> Tensor:
        return 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_determinant())


def _plus_one(matrix: Tensor) -> Tensor:
    """I + matrix."""
    return matrix + matrix.new_ones(matrix.shape[-1]).diag()
