"""Tables of embeddings in 8 or 4 bits, each row with a scale of its own; what is looked up becomes floats."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, arange, tensor
from ....core.quantized import QuantizedTensor, per_channel_affine_float_qparams, quantize_per_channel
from ....nn import functional as F
from ....nn.module import Module
from .base import expect_quantized, quantize_weight, refuse_float_weight

TABLE_DTYPES = dtypes.quint8, dtypes.quint4x2


def expect_table(weight: Any) -> QuantizedTensor:
    """`weight`. Raises RuntimeError for what is no table whose rows have scales."""
    if expect_quantized(weight, "weight").qscheme() is not per_channel_affine_float_qparams:
        raise RuntimeError(
            "Expect embedding_bag weights to be quantized using kPerChannelAffineFloatQParams: pass float zero points "
            f"to quantize_per_channel; the scheme is {weight.qscheme()}"
        )
    return weight


def reduce_rows(
    rows: Tensor,
    indices: Tensor,
    offsets: Tensor | None,
    mode: str,
    per_sample_weights: Tensor | None,
    include_last_offset: bool,
) -> Tensor:
    """Sums or means of rows that were looked up for all indices."""
    places = arange(indices.numel()).reshape(indices.shape)
    return F.embedding_bag(
        places, rows.reshape(-1, rows.shape[-1]), offsets, mode=mode, per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
    )  # fmt: skip


def unpruned(indices: Tensor, mapping: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Numbers of the rows that are left of a pruned table, and 0 instead of 1 where a row is none of them.

    `mapping` has the number of each row of the whole table, or -1; PyTorch takes [0] for a table that is not pruned.
    """
    if mapping is None or (mapping.numel() == 1 and mapping.item() == 0):
        return indices, None
    rows = mapping[indices.long()].to(indices.dtype)
    return rows.clamp_min(0), (rows >= 0).float()


class EmbeddingPackedParams(Module):
    """The quantized weight of an embedding, under PyTorch's names in a state dict."""

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: dtypes.dtype = dtypes.quint8) -> None:
        super().__init__()
        if dtype not in TABLE_DTYPES:
            raise NotImplementedError(
                f"Unsupported dtype on quantized embedding! Supports quint8 and quint4x2. Got dtype: {dtype}"
            )
        self.dtype = dtype
        ones, zeros = tensor([1.0] * num_embeddings), tensor([0.0] * num_embeddings)
        values = ones[:, None].expand(num_embeddings, embedding_dim)
        self._packed_weight = quantize_per_channel(values, ones, zeros, 0, dtype)

    def set_weight(self, weight: QuantizedTensor) -> None:
        """Set the quantized weight."""
        self._packed_weight = weight

    def _weight(self) -> QuantizedTensor:
        return self._packed_weight

    def forward(self, x: Tensor) -> Tensor:
        return x

    def _save_to_state_dict(self, destination: dict, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"], destination[prefix + "_packed_weight"] = self.dtype, self._packed_weight

    def _load_from_state_dict(
        self, state_dict: dict, prefix: str, metadata: dict, strict: bool, missing: list, *others: Any
    ) -> None:
        self.dtype = state_dict.pop(prefix + "dtype", self.dtype)
        if prefix + "_packed_weight" in state_dict:
            self.set_weight(expect_quantized(state_dict.pop(prefix + "_packed_weight"), prefix + "_packed_weight"))
        else:
            missing.append(prefix + "_packed_weight")
        super()._load_from_state_dict(state_dict, prefix, metadata, strict, missing, *others)

    def __repr__(self) -> str:
        return repr(self._packed_weight)


class Embedding(Module):
    """A table of rows of 8 or 4 bits, each with a scale of its own; the rows that are looked up become floats."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: QuantizedTensor | None = None,
        dtype: dtypes.dtype = dtypes.quint8,
    ) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is None:
            return
        if tuple(_weight.shape) != (num_embeddings, embedding_dim):
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim: "
                f"{tuple(_weight.shape)} and {(num_embeddings, embedding_dim)}"
            )
        self.set_weight(expect_quantized(_weight, "_weight"))

    def _get_name(self) -> str:
        return f"Quantized{type(self).__name__}"

    def extra_repr(self) -> str:
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def weight(self) -> QuantizedTensor:
        """The quantized table."""
        return self._packed_params._weight()

    def set_weight(self, w: QuantizedTensor) -> None:
        """Set the quantized table."""
        self._packed_params.set_weight(w)

    def _load_from_state_dict(self, state_dict: dict, prefix: str, *others: Any) -> None:
        refuse_float_weight(state_dict, prefix)
        super()._load_from_state_dict(state_dict, prefix, *others)

    def _looked_up(self, indices: Tensor) -> Tensor:
        """The rows of these indices, as floats."""
        return self.weight().rows_of_table(indices.reshape(-1)).reshape(*indices.shape, self.embedding_dim)

    def forward(self, indices: Tensor) -> Tensor:
        return self._looked_up(indices)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Any:
        """The quantized table of a float one."""
        observer = mod.weight_fake_quant if hasattr(mod, "weight_fake_quant") else mod.qconfig.weight()
        observer(mod.weight)
        if observer.dtype not in TABLE_DTYPES:
            raise AssertionError(
                f"The only supported dtypes for nnq.{cls.__name__} are numod.quint8 and numod.quint4x2, got "
                f"{observer.dtype}"
            )
        result = cls(mod.num_embeddings, mod.embedding_dim, dtype=observer.dtype)
        result.set_weight(quantize_weight(mod.weight.float(), observer))
        for name in ("mode", "include_last_offset"):
            if hasattr(mod, name):
                setattr(result, name, getattr(mod, name))
        return result

    @classmethod
    def from_reference(cls, ref_embedding: Module) -> Any:
        """The quantized table of a reference layer."""
        result = cls(ref_embedding.num_embeddings, ref_embedding.embedding_dim, dtype=ref_embedding.weight_dtype)
        result.set_weight(ref_embedding.get_quantized_weight())
        for name in ("mode", "include_last_offset"):
            if hasattr(ref_embedding, name):
                setattr(result, name, getattr(ref_embedding, name))
        return result


class EmbeddingBag(Embedding):
    """Sums or means of rows of a table of 8 or 4 bits."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "sum",
        sparse: bool = False,
        _weight: QuantizedTensor | None = None,
        include_last_offset: bool = False,
        dtype: dtypes.dtype = dtypes.quint8,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.pruned_weights = False  # as in PyTorch, compressed_indices_mapping counts where this is True

    def forward(
        self,
        indices: Tensor,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
    ) -> Tensor:
        indices, is_left = unpruned(indices, compressed_indices_mapping if self.pruned_weights else None)
        rows = self._looked_up(indices)
        rows = rows if is_left is None else rows * is_left[..., None]
        return reduce_rows(rows, indices, offsets, self.mode, per_sample_weights, self.include_last_offset)
