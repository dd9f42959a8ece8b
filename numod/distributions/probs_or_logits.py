"""The base class of discrete distributions parameterized by `probs` or `logits`."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor
from ..ops.table import binary_cross_entropy_with_logits, logsigmoid
from .distribution import Distribution
from .utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits


def bce(logits: Tensor, value: Tensor) -> Tensor:
    """-(value log p + (1 - value) log(1 - p)), computed from logits."""
    return binary_cross_entropy_with_logits(logits, value, 1.0)


class ProbsOrLogits(Distribution):
    """A distribution with `probs` or `logits`; the other one is computed on first use."""

    binary = True

    def _take(self, probs: Any, logits: Any) -> Tensor:
        """Store and return the parameter that was given."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if probs is not None else ("logits", logits)
        if not self.binary:
            if value.ndim < 1:
                raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
            value = (
                value / value.sum(-1, keepdim=True) if name == "probs" else value - value.logsumexp(-1, keepdim=True)
            )
        else:
            (value,) = broadcast_all(value)
        self.__dict__[name] = self._param = value
        return value

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter that was given."""
        return self._param.shape

    @lazy_property
    def logits(self) -> Tensor:
        """The logits of the probabilities."""
        return probs_to_logits(self.probs, self.binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, self.binary)

    @property
    def _by_logits(self) -> bool:
        """Whether the logits were given. Logits computed from probabilities are clamped and so not exact."""
        return self.__dict__.get("logits") is self._param

    def _log_both(self) -> tuple[Tensor, Tensor]:
        """log p and log(1 - p) of two outcomes, from the given parameter: a sigmoid of logits may round to 0 or 1."""
        if self._by_logits:
            return logsigmoid(self.logits), logsigmoid(-self.logits)
        none, all_ = (
            self.probs == 0,
            self.probs == 1,
        )  # their logarithms must have no gradient instead of an infinite one
        success, failure = self.probs.masked_fill(none, 1.0).log(), (-self.probs.masked_fill(all_, 0.0)).log1p()
        return success.masked_fill(none, -math.inf), failure.masked_fill(all_, -math.inf)

    def _complement(self) -> Tensor:
        """1 - p of two outcomes, from the given parameter."""
        return (-self.logits).sigmoid() if self._by_logits else 1 - self.probs

    def _repeated(self, value: Tensor, sample_shape: tuple) -> Tensor:
        return value.detach().expand((*sample_shape, *value.shape))
