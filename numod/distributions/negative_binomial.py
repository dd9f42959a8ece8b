"""The negative binomial distribution of the number of successes before some failures."""

from __future__ import annotations

from typing import Any

from ..core import Tensor, functions as f
from ..core.create.sampling import poisson, standard_gamma
from ..ops.table import logsigmoid
from . import constraints as c
from .probs_or_logits import ProbsOrLogits
from .utils import broadcast_all


class NegativeBinomial(ProbsOrLogits):
    """The number of successes, with probability `probs` each, before `total_count` failures.

    It is a Poisson distribution with gamma distributed rate.

    Example:

        >>> torch.distributions.NegativeBinomial(3, torch.tensor(0.5)).mean
        tensor(3.)
    """

    arg_constraints = {"total_count": c.greater_than_eq(0), "probs": c.half_open_interval(0.0, 1.0), "logits": c.real}
    support = c.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        value = self._take(probs, logits)
        self.total_count, value = broadcast_all(total_count, value)
        self.total_count = self.total_count.to(value.dtype)
        self._param = self.__dict__["probs" if probs is not None else "logits"] = value
        super().__init__(value.shape, validate_args=validate_args)

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        rates = standard_gamma(self.total_count.detach().expand(shape).contiguous()) * self.logits.detach().exp()
        return poisson(rates)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        log_probability = n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        return log_probability + f.where(
            n + value == 0.0, ways.new_zeros(()), ways
        )  # with 0 failures there is no success
