"""Lookup tables of vectors: Embedding and EmbeddingBag."""

from __future__ import annotations

from typing import Any

from ..core import Tensor, empty
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter
from .settings import unusual

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """Base class with `weight` (num_embeddings, embedding_dim).

    It is initialized from the normal distribution, with zeros in row `padding_idx`.
    """

    def _make(
        self,
        count: int,
        size: int,
        padding_idx: int | None,
        weight: Tensor | None,
        freeze: bool,
        device: Any,
        dtype: Any,
    ) -> None:
        """Set the attributes that Embedding and EmbeddingBag share."""
        if padding_idx is not None and not -count <= padding_idx < count:
            raise AssertionError("Padding_idx must be within num_embeddings")
        self.padding_idx = None if padding_idx is None else padding_idx % count
        if weight is None:
            self.weight = Parameter(empty((count, size), device=device, dtype=dtype), requires_grad=not freeze)
            self.reset_parameters()
        else:
            if list(weight.shape) != [count, size]:
                raise AssertionError("Shape of weight does not match num_embeddings and embedding_dim")
            self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw new values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx].fill_(0)


class Embedding(_Table):
    """Rows of `weight` at indices of any shape -> (..., embedding_dim).

    Example:

        >>> nn.Embedding(10, 3)(torch.tensor([[1, 2, 4], [4, 3, 9]])).shape
        numod.Size([2, 3, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, _freeze, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self) -> str:
        settings = unusual(self, padding_idx=None, max_norm=None, norm_type=2, scale_grad_by_freq=False, sparse=False)
        return f"{self.num_embeddings}, {self.embedding_dim}{settings}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """A table that holds `embeddings` (count, size)."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        return cls(
            *embeddings.shape,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """The sum, mean or maximum of the rows of each bag -> (bags, embedding_dim).

    Example:

        >>> nn.EmbeddingBag(10, 3, mode="sum")(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2])).shape
        numod.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self._make(num_embeddings, embedding_dim, padding_idx, _weight, False, device, dtype)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        settings = unusual(self, max_norm=None, norm_type=2, scale_grad_by_freq=False)
        return (
            f"{self.num_embeddings}, {self.embedding_dim}{settings}, "
            f"mode={self.mode!r}{unusual(self, padding_idx=None)}"
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """A table that holds `embeddings` (count, size)."""
        if embeddings.ndim != 2:
            raise AssertionError("Embeddings parameter is expected to be 2-dimensional")
        result = cls(
            *embeddings.shape,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        result.weight.requires_grad = not freeze
        return result
