"""The categorical distribution of a class index."""

from __future__ import annotations

from typing import Any

from .. import dtypes
from ..core import Tensor, arange, functions as f
from ..core.create.random import rand
from . import constraints as c
from .probs_or_logits import ProbsOrLogits


class Categorical(ProbsOrLogits):
    """One of the classes 0 to K - 1, with `probs` or `logits` (..., K), which are normalized.

    Example:

        >>> torch.distributions.Categorical(torch.tensor([0.25, 0.75])).log_prob(torch.tensor(1)).exp()
        tensor(0.7500)
    """

    binary, has_enumerate_support = False, True
    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        value = self._take(probs, logits)
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    @c.dependent_property(is_discrete=True)
    def support(self) -> Any:
        """0 to K - 1."""
        return c.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, float("nan"))

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        edges = self.probs.detach().cumsum(-1)
        u = rand((*sample_shape, *self._batch_shape, 1), dtype=edges.dtype, device=edges.device) * edges[..., -1:]
        return (edges <= u).sum(-1).clamp_max(self._num_events - 1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = value.to(dtypes.int64).unsqueeze(-1)
        shape = f.broadcast_shapes(value.shape[:-1], self.logits.shape[:-1])
        return self.logits.expand((*shape, self._num_events)).gather(-1, value.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.logits.clamp_min(dtypes.finfo(self.logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
