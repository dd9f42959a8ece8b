"""The geometric distribution of the number of failures before a success."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..core import Tensor, functions as f
from ..core.create.random import rand
from ..ops.divergence import geometric_entropy
from ..ops.special import xlog1py
from . import constraints as c
from .probs_or_logits import ProbsOrLogits


class Geometric(ProbsOrLogits):
    """The number of failures before the first success, with probability `probs` in each trial.

    Example:

        >>> torch.distributions.Geometric(torch.tensor(0.25)).mean
        tensor(3.)
    """

    arg_constraints, support = {"probs": c.unit_interval, "logits": c.real}, c.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all()._observe():
            raise ValueError(
                f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                f"distribution {self!r} to be positive "
                f"but found invalid values:\n{self.probs[self.probs <= 0]}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        probs = self._repeated(self.probs, sample_shape)
        u = rand(probs.shape, dtype=probs.dtype, device=probs.device).clamp_min(dtypes.finfo(probs.dtype).tiny)
        return (u.log() / (-probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        success, failure = self._log_both()
        value, failure = f.broadcast_tensors(value, failure)
        return value * f.where((failure == -math.inf) & (value == 0), failure.new_zeros(()), failure) + success

    def entropy(self) -> Tensor:
        logits = self.logits  # this caches the logits, as PyTorch's entropy does
        if self._by_logits:
            return geometric_entropy(logits)
        return -self.probs.log() - xlog1py(1 - self.probs, -self.probs) / self.probs
