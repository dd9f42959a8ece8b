"""Base class of MultivariateNormal and Wishart: a covariance, its inverse, or its Cholesky factor as parameter.

Not a distribution.
"""

from __future__ import annotations

from ..core import Tensor
from ..core.linalg.decompositions import cholesky
from ..core.linalg.linear_algebra import cholesky_inverse, inv
from . import constraints as c
from .distribution import Distribution
from .utils import lazy_property


class WithCovariance(Distribution):
    """A distribution with one of the parameters below (..., K, K); the others are computed on first use."""

    matrix_constraints = {
        "covariance_matrix": c.positive_definite,
        "precision_matrix": c.positive_definite,
        "scale_tril": c.lower_cholesky,
    }

    @staticmethod
    def _matrix(error: type[Exception], **forms: Tensor | None) -> tuple[str, Tensor]:
        """The name and value of the specified form. Raises `error` unless there is exactly one."""
        specified = [(name, value) for name, value in forms.items() if value is not None]
        if len(specified) != 1:
            raise error("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = specified
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        return name, matrix

    def _factor(self, name: str, matrix: Tensor) -> None:
        """Compute the lower Cholesky factor of the covariance; that of an inverse P is (chol(P reversed)
        reversed)^-T.
        """
        if name == "precision_matrix":
            matrix = inv(cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT.contiguous())
        self._unbroadcasted_scale_tril = cholesky(matrix) if name == "covariance_matrix" else matrix

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
        return cholesky_inverse(self._unbroadcasted_scale_tril)
