"""The multinomial distribution of counts of classes."""

from __future__ import annotations

import math

from ..core import Tensor, arange, functions as f
from . import constraints as c
from .binomial import Binomial
from .categorical import Categorical
from .distribution import Distribution


class Multinomial(Distribution):
    """The number of occurrences of each class in `total_count` draws from a Categorical.

    Example:

        >>> torch.distributions.Multinomial(10, torch.tensor([0.25, 0.75])).mean
        tensor([2.5000, 7.5000])
    """

    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    support = c.dependent_property(lambda self: c.multinomial(self.total_count), is_discrete=True, event_dim=1)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return (drawn.unsqueeze(-1) == arange(self._event_shape[0])).sum(0).to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = f.broadcast_tensors(self.logits, value)
        logits = f.where((value == 0) & (logits == -math.inf), logits.new_zeros(()), logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = arange(n + 1, dtype=self.probs.dtype).reshape((-1,) + (1,) * self.probs.ndim)
        probabilities = Binomial(n, self.probs, validate_args=False).log_prob(counts).exp()
        return (
            n * self._categorical.entropy() - math.lgamma(n + 1) + (probabilities * (counts + 1).lgamma()).sum((0, -1))
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
