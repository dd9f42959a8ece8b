"""Continuous relaxations of Bernoulli, and their logits. Maddison, Mnih and Teh, 2017; Jang, Gu and Poole, 2017."""

from __future__ import annotations

from typing import Any

from ..core import Tensor
from ..core.create.random import rand
from ..ops.table import logsigmoid
from . import constraints as c
from .probs_or_logits import ProbsOrLogits
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import clamp_probs


class LogitRelaxedBernoulli(ProbsOrLogits):
    """The logit of a RelaxedBernoulli: a logistic variable around `logits`, divided by the temperature."""

    arg_constraints, support = {"probs": c.unit_interval, "logits": c.real}, c.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    def expand(self, batch_shape: tuple, _instance: Any = None) -> Any:
        result = self._expanded(batch_shape, _instance)
        result.temperature = self.temperature  # shared by all distributions of the batch
        return result

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        logits = self.logits.expand(self._extended_shape(sample_shape))
        u = clamp_probs(rand(logits.shape, dtype=logits.dtype, device=logits.device))
        return (u.log() - (-u).log1p() + logits) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        gap = self.logits - value * self.temperature
        scale = self.temperature if isinstance(self.temperature, Tensor) else value.new_full((), self.temperature)
        return scale.log() + logsigmoid(gap) + logsigmoid(-gap)


class RelaxedBernoulli(TransformedDistribution):
    """Values between 0 and 1; lower temperatures move them closer to the ends.

    Example:

        >>> torch.distributions.RelaxedBernoulli(torch.tensor(0.5), torch.tensor([0.25, 0.75])).sample().shape
        numod.Size([2])
    """

    arg_constraints, support = {"probs": c.unit_interval, "logits": c.real}, c.unit_interval
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)
