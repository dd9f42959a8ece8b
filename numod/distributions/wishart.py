"""The Wishart distribution of covariances estimated from normal vectors."""

from __future__ import annotations

import math

from ..errors import warn_caller
from ..core import Tensor, arange, functions as f
from ..core.linalg.linear_algebra import cholesky_solve, slogdet
from ..core.create.random import randn
from ..dtypes import finfo
from . import constraints as c
from .chi2 import Chi2
from .covariance import WithCovariance
from .exp_family import ExponentialFamily


class Wishart(WithCovariance, ExponentialFamily):
    """Positive definite matrices (..., P, P): X X^T with `df` columns of normal vectors.

    The vectors have a covariance, a precision, or the covariance's lower Cholesky factor. Raises ValueError unless
    df > P - 1.

    Example:

        >>> torch.distributions.Wishart(torch.tensor(2.0), torch.eye(2)).mean
        tensor([[2., 0.],
                [0., 2.]])
    """

    arg_constraints = {**WithCovariance.matrix_constraints, "df": c.greater_than(0)}
    support, has_rsample = c.positive_definite, True

    def __init__(
        self,
        df: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = self._matrix(
            AssertionError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        df = df if isinstance(df, Tensor) else matrix.new_full((), float(df))
        batch, event = f.broadcast_shapes(matrix.shape[:-2], df.shape), matrix.shape[-2:]
        self.df = df.expand(batch)
        if bool((self.df <= event[-1] - 1).any()):
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event[-1] - 1}.")
        self.__dict__[name] = matrix = matrix.expand((*batch, *event))
        if bool((self.df < event[-1]).any()):
            warn_caller("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        super().__init__(batch, event, validate_args=validate_args)
        self._factor(name, matrix)

    def _of_matrices(self, factor: Tensor) -> Tensor:
        return factor.unsqueeze(-1).unsqueeze(-1)

    @property
    def mean(self) -> Tensor:
        return self._of_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self._event_shape[-1] - 1
        return self._of_matrices(f.where(factor <= 0, math.nan, factor)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(0, -2, -1)
        return self._of_matrices(self.df) * (v**2 + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: tuple = (), max_try_correction: int | None = None) -> Tensor:
        """Draw by Bartlett's decomposition.

        Singular samples are drawn again, with a warning, at most `max_try_correction` times.
        """
        sample = self._bartlett(sample_shape)
        for attempt in range(10 if max_try_correction is None else max_try_correction):
            is_valid = self.support.check(sample.detach())
            if bool(is_valid.all()):
                break
            if not attempt:
                warn_caller("Singular sample detected.")
            sample = f.where(self._of_matrices(is_valid), sample, self._bartlett(sample_shape))
        return sample

    def _bartlett(self, sample_shape: tuple) -> Tensor:
        low, size = self._unbroadcasted_scale_tril, self._event_shape[-1]
        chi2 = Chi2(self.df.unsqueeze(-1) - arange(size, dtype=low.dtype, device=low.device))
        lengths = chi2.rsample(sample_shape).sqrt().clamp_min(finfo(low.dtype).eps)
        noise = (
            randn(self._extended_shape(sample_shape), dtype=low.dtype, device=low.device).tril(-1)
            + lengths.diag_embed()
        )
        root = low @ noise
        return root @ root.mT

    def _half_log_determinant(self) -> Tensor:
        """Half of log |2 covariance|."""
        return 0.5 * self._event_shape[-1] * math.log(2) + self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(
            -1
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        df, p, low = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        shape = f.broadcast_shapes(value.shape, low.shape)
        trace = cholesky_solve(value.expand(shape), low.expand(shape)).diagonal(0, -2, -1).sum(-1)
        return (
            (df - p - 1) / 2 * slogdet(value).logabsdet
            - trace / 2
            - df * self._half_log_determinant()
            - f.mvlgamma(df / 2, p)
        )

    def entropy(self) -> Tensor:
        df, p = self.df, self._event_shape[-1]
        digammas = ((df / 2).unsqueeze(-1) - 0.5 * arange(p, dtype=df.dtype, device=df.device)).digamma().sum(-1)
        return (p + 1) * self._half_log_determinant() + f.mvlgamma(df / 2, p) - (df - p - 1) / 2 * digammas + df * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x, y), p = natural_params, self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (p * math.log(2) - slogdet(-2 * x).logabsdet) + f.mvlgamma(half, p)
