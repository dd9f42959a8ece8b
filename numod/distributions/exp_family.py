"""The base of exponential families written by users: entropy from the log normaliser. numod's own distributions have
formulas of their own.
"""

from __future__ import annotations

from ..autograd import enable_grad, grad
from ..core import Tensor
from .distribution import Distribution


class ExponentialFamily(Distribution):
    """Densities exp(<t(x), theta> - F(theta) + k(x)).

    A subclass gives `_natural_params` theta, `_log_normalizer` F and the mean of k.
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """The natural parameters."""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """The logarithm of what makes the density integrate to 1."""
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
            normaliser = self._log_normalizer(*theta)
            slopes = grad(normaliser.sum(), theta, create_graph=True)
        result = normaliser - self._mean_carrier_measure
        for each, slope in zip(theta, slopes):
            result = result - (each * slope).reshape((*self._batch_shape, -1)).sum(-1)
        return result
