"""The base class of users' exponential families, with an entropy from the log normalizer."""

from __future__ import annotations

from ..autograd import enable_grad, grad
from ..core import Tensor
from .distribution import Distribution


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), theta> - F(theta) + k(x)).

    A subclass defines `_natural_params` theta, `_log_normalizer` F, and the mean of k. numod's own distributions have
    explicit formulas.

    Example:

        >>> from numod.distributions import Normal, ExponentialFamily
        >>> isinstance(Normal(0.0, 1.0), ExponentialFamily)
        False
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The natural parameters."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """The logarithm of the normalization constant."""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        """The expectation of k."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """F(theta) - <theta, dF/dtheta> - E[k].

        Nielsen and Nock, Entropies and cross-entropies of exponential families, 2010.
        """
        with enable_grad():
            theta = [natural_param.detach().requires_grad_() for natural_param in self._natural_params]
            normalizer = self._log_normalizer(*theta)
            gradients = grad(normalizer.sum(), theta, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for param, gradient in zip(theta, gradients):
            result = result - (param * gradient).reshape((*self._batch_shape, -1)).sum(-1)
        return result
