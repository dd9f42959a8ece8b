"""The Bernoulli distribution of one trial."""

from __future__ import annotations

from typing import Any

from ..core import Tensor, arange, functions as f
from ..core.create.random import rand
from ..ops.divergence import bernoulli_entropy
from ..ops.special import xlog1py
from ..ops.table import xlogy
from . import constraints as c
from .probs_or_logits import ProbsOrLogits, bce


class Bernoulli(ProbsOrLogits):
    """1 with probability `probs`, otherwise 0.

    Example:

        >>> torch.distributions.Bernoulli(torch.tensor(0.25)).log_prob(torch.tensor(1.0)).exp()
        tensor(0.2500)
    """

    arg_constraints, support, has_enumerate_support = {"probs": c.unit_interval, "logits": c.real}, c.boolean, True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode_ = (self.probs >= 0.5).to(self.probs.dtype)
        return f.where(self.probs == 0.5, mode_ * float("nan"), mode_)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        probs = self._repeated(self.probs, sample_shape)
        return (rand(probs.shape, dtype=probs.dtype, device=probs.device) < probs).to(probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = f.broadcast_tensors(self.logits, value)
        return -bce(logits, value)

    def entropy(self) -> Tensor:
        if self._by_logits:
            return bernoulli_entropy(self.logits)
        return -(xlogy(self.probs, self.probs) + xlog1py(1 - self.probs, -self.probs))

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._param.dtype).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
