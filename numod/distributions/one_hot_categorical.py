"""The categorical distribution over one-hot vectors."""

from __future__ import annotations

from ..core import Tensor, arange, eye
from . import constraints as c
from .categorical import Categorical
from .distribution import Distribution


class OneHotCategorical(Distribution):
    """A Categorical whose values are one-hot vectors.

    Example:

        >>> torch.distributions.OneHotCategorical(torch.tensor([0.25, 0.75])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints, support, has_enumerate_support = {"probs": c.simplex, "logits": c.real_vector}, c.one_hot, True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)
    mean = property(lambda self: self._categorical.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Tensor:
        return self._hot(self.probs.argmax(-1))

    def _hot(self, index: Tensor) -> Tensor:
        return (index.unsqueeze(-1) == arange(self._event_shape[0])).to(self._categorical._param.dtype)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self._categorical._param.dtype).reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical with the straight-through gradient estimator. Bengio, Leonard and Courville, 2013.

    Example:

        >>> from numod.distributions import OneHotCategoricalStraightThrough
        >>> OneHotCategoricalStraightThrough(torch.tensor([0.5, 0.5])).rsample().sum()
        tensor(1.)
    """

    has_rsample = True

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())
