"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f, zeros_like
from ..core.create.random import rand
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, probs_to_logits


class ContinuousBernoulli(Distribution):
    """Numbers x in [0, 1] with density ~ probs^x (1 - probs)^(1 - x).

    Between `lims`, around probs = 1/2, the formulas are 0 / 0 and Taylor series replace them. Loaiza-Ganem and
    Cunningham, The continuous Bernoulli, 2019.

    Example:

        >>> torch.distributions.ContinuousBernoulli(torch.tensor(0.25)).sample().shape
        numod.Size([])
    """

    arg_constraints = {"probs": c.unit_interval, "logits": c.real}
    support, has_rsample = c.unit_interval, True

    def __init__(
        self,
        probs: Tensor | float | None = None,
        logits: Tensor | float | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        (param,) = broadcast_all(logits if probs is None else probs)
        if probs is None:
            self.logits = param
        else:
            if validate_args is not None and not self.arg_constraints["probs"].check(param).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(param)
        self._lims = lims
        super().__init__(param.shape, validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """log(probs / (1 - probs))."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The sigmoid of the logits. It is not the mean."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    @property
    def param_shape(self) -> tuple:
        """The shape of the parameter."""
        return self._batch_shape

    def _parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """(where the formulas hold, probs there and the lower limit elsewhere, probs - 1/2)."""
        outside = (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
        return outside, f.where(outside, self.probs, self._lims[0]), self.probs - 0.5

    def _log_norm(self) -> Tensor:
        outside, p, x = self._parts()
        formula = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        return f.where(outside, formula, math.log(2.0) + (4 / 3 + 104 / 45 * x**2) * x**2)

    @property
    def mean(self) -> Tensor:
        outside, p, x = self._parts()
        return f.where(outside, p / (2 * p - 1) + 1 / ((-p).log1p() - p.log()), 0.5 + (1 / 3 + 16 / 45 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        outside, p, x = self._parts()
        formula = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2
        return f.where(outside, formula, 1 / 12 - (1 / 15 - 128 / 945 * x**2) * x**2)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return value * logits - logits.logaddexp(zeros_like(logits)) + self._log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        outside, p, _ = self._parts()
        formula = (p**value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        return f.where(value <= 0, 0.0, f.where(value >= 1, 1.0, f.where(outside, formula, value)))

    def icdf(self, value: Tensor) -> Tensor:
        outside, p, _ = self._parts()
        return f.where(outside, ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p()), value)

    def entropy(self) -> Tensor:
        low, high = (-self.probs).log1p(), self.probs.log()
        return self.mean * (low - high) - self._log_norm() - low
