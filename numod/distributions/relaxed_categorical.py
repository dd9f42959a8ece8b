"""Continuous relaxations of one-hot categories, and their logarithms.

Maddison, Mnih and Teh, 2017; Jang, Gu and Poole, 2017.
"""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor
from ..core.create.random import rand
from . import constraints as c
from .categorical import Categorical
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform
from .utils import clamp_probs


class ExpRelaxedCategorical(Distribution):
    """The logarithms of a RelaxedOneHotCategorical's values."""

    # the exponentials sum to 1
    arg_constraints, support = {"probs": c.simplex, "logits": c.real_vector}, c.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: tuple, _instance: Any = None) -> Any:
        result = self._expanded(batch_shape, _instance)
        result.temperature = self.temperature  # shared by all distributions of the batch
        return result

    param_shape = property(lambda self: self._categorical.param_shape)
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self._event_shape[0]
        temperature = self.temperature if isinstance(self.temperature, Tensor) else value.new_full((), self.temperature)
        return (
            (self.logits - value * temperature).log_softmax(-1).sum(-1) + math.lgamma(k) + (k - 1) * temperature.log()
        )


class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors on the simplex; lower temperatures move them closer to its corners.

    Example:

        >>> torch.distributions.RelaxedOneHotCategorical(torch.tensor(0.5), torch.ones(3)).sample().sum()
        tensor(1.)
    """

    arg_constraints, support = {"probs": c.simplex, "logits": c.real_vector}, c.simplex
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(
            ExpRelaxedCategorical(temperature, probs, logits, validate_args),
            ExpTransform(),
            validate_args=validate_args,
        )

    temperature = property(lambda self: self.base_dist.temperature)
    probs = property(lambda self: self.base_dist.probs)
    logits = property(lambda self: self.base_dist.logits)
