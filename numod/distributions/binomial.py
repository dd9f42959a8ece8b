"""The binomial distribution of the number of successes."""

from __future__ import annotations

from typing import Any

from ..core import Tensor, arange
from ..core.create.sampling import binomial
from ..ops.table import logsigmoid
from . import constraints as c
from .probs_or_logits import ProbsOrLogits
from .utils import broadcast_all


class Binomial(ProbsOrLogits):
    """The number of successes in `total_count` trials with probability `probs` each.

    Example:

        >>> torch.distributions.Binomial(10, torch.tensor(0.5)).mean
        tensor(5.)
    """

    has_enumerate_support = True
    arg_constraints = {"total_count": c.nonnegative_integer, "probs": c.unit_interval, "logits": c.real}

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        value = self._take(probs, logits)
        self.total_count, value = broadcast_all(total_count, value)
        self.total_count = self.total_count.to(value.dtype)
        self._param = self.__dict__["probs" if probs is not None else "logits"] = value
        super().__init__(value.shape, validate_args=validate_args)

    @c.dependent_property(is_discrete=True)
    def support(self) -> Any:
        """0 to total_count."""
        return c.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp_max(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        probs, counts = self._repeated(self.probs, sample_shape), self._repeated(self.total_count, sample_shape)
        return binomial(counts.detach(), probs.detach())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logsigmoid(self.logits) + (n - value) * logsigmoid(-self.logits)

    def _values(self, method: str) -> Tensor:
        """0 to total_count, (total_count + 1, 1, ...), if all counts are equal."""
        most = int(self.total_count.max())
        if bool((self.total_count != most).any()):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return arange(most + 1, dtype=self._param.dtype, device=self._param.device).reshape(
            (-1,) + (1,) * len(self._batch_shape)
        )

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self._values("enumerate_support")
        return values.expand((-1, *self._batch_shape)) if expand else values

    def entropy(self) -> Tensor:
        log_probs = self.log_prob(self._values("entropy"))
        return -(log_probs.exp() * log_probs).sum(0)
