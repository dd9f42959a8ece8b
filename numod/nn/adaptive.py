"""Adaptive softmax for many classes of unequal frequency.

Frequent classes are in the head, the rest in tail clusters with smaller projections.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from typing import Any

from .. import dtypes
from ..core import Tensor, cat
from . import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]

_ASMoutput = namedtuple("_ASMoutput", ["output", "loss"])


class AdaptiveLogSoftmaxWithLoss(Module):
    """(N, in_features) and classes (N) -> (log-probability of each class, mean loss).

    Classes are sorted by decreasing frequency; `cutoffs` (ascending) are the first classes of the tails. Grave et al.,
    Efficient softmax approximation for GPUs, 2017.

    Example:

        >>> m = nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs=[5, 10])
        >>> m(torch.ones(3, 16), torch.tensor([0, 6, 15])).output.shape
        numod.Size([3])
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            cutoffs != sorted(set(cutoffs))
            or min(cutoffs) <= 0
            or max(cutoffs) > n_classes - 1
            or any(int(c) != c for c in cutoffs)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size, self.n_clusters = cutoffs[0], len(cutoffs)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for k in range(self.n_clusters):
            inner_size = int(in_features // (div_value ** (k + 1)))
            size = self.cutoffs[k + 1] - self.cutoffs[k]
            self.tail.append(
                Sequential(
                    Linear(in_features, inner_size, bias=False, device=device, dtype=dtype),
                    Linear(inner_size, size, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new values."""
        self.head.reset_parameters()
        for first, second in self.tail:
            first.reset_parameters()
            second.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        single = target_.ndim == 0
        if input_.ndim != (1 if single else 2) or (not single and input_.shape[0] != target_.shape[0]):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if target_.dtype not in (dtypes.int32, dtypes.int64):
            raise RuntimeError(f"gather(): Expected dtype int32/int64 for index, got {target_.dtype}")
        x, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        log_probs = self._full_log_prob(x, self.head(x))
        if ((target < 0) | (target >= self.n_classes)).any()._observe():
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{target.min().item()}, "
                f"{target.max().item()}] were found. "
            )
        output = log_probs.gather(1, target.to(dtypes.int64).unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.squeeze(0) if single else output, (-output).mean())

    def _full_log_prob(self, x: Tensor, head: Tensor) -> Tensor:
        """Log-probabilities of all classes. A tail class's is the sum of its own and its cluster's."""
        head_log_probs = F.log_softmax(head, 1)
        parts = [head_log_probs[:, : self.shortlist_size]]
        for k, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(x), 1) + head_log_probs[:, self.shortlist_size + k].unsqueeze(1))
        return cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """(N, in_features) -> (N, n_classes)."""
        return self._full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most probable class of each row."""
        return self.log_prob(input).argmax(1)
