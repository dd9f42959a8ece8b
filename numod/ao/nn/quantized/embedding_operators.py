"""Operators of `numod.ops.quantized` for tables of embeddings, quantized tensors or bytes.

The operators of bytes, such as `embedding_bag_4bit_prepack`, keep the scale and the lowest value of each row in its
last bytes: FBGEMM's format of rows.
"""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor, cat, tensor
from ....core.quantized import best_range
from ....core.quantized.tensor import pack, unpack
from ....formats import contiguous_format
from .embeddings import EmbeddingBag, EmbeddingPackedParams, expect_table, reduce_rows, unpruned

_MODES = ("sum", "mean", "max")
_SMALLEST_RANGE = 1e-8  # is added to the range of a row of 8 bits


def embedding_bag_prepack(weight: Tensor) -> EmbeddingPackedParams:
    """The table, for `embedding_byte`, `embedding_bag_4bit` and their relatives."""
    packed = EmbeddingPackedParams(1, 1)
    packed.set_weight(expect_table(weight))
    return packed


def embedding_bag_unpack(W_prepack: Any) -> Tensor:
    """The quantized table."""
    return _table(W_prepack)


def _table(packed: Any) -> Tensor:
    return packed if isinstance(packed, Tensor) else packed._weight()


def embedding_byte(weight: Any, indices: Tensor, pruned_weights: bool = False) -> Tensor:
    """The rows of a packed table at these indices, as floats."""
    return _bag(weight)._looked_up(indices)


def _bag(packed: Any, mode: str = "sum", include_last_offset: bool = False) -> EmbeddingBag:
    table = _table(packed)
    return EmbeddingBag(
        *table.shape, mode=mode, _weight=table, include_last_offset=include_last_offset, dtype=table.dtype
    )


def embedding_bag_byte(
    weight: Any,
    indices: Tensor,
    offsets: Tensor | None = None,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    pruned_weights: bool = False,
    per_sample_weights: Tensor | None = None,
    compressed_indices_mapping: Tensor | None = None,
    include_last_offset: bool = False,
) -> Tensor:
    """Sums (mode 0) or means (1) of rows of a packed table."""
    layer = _bag(weight, _MODES[mode], include_last_offset)
    layer.pruned_weights = pruned_weights
    return layer(indices, offsets, per_sample_weights, compressed_indices_mapping)


# packed tables know their bits
embedding_4bit, embedding_bag_4bit = embedding_byte, embedding_bag_byte


# ---- rows of bytes


def _expect_floats(name: str, weight: Tensor, multiple: int = 1) -> None:
    if weight.dtype not in (dtypes.float32, dtypes.float16):
        raise RuntimeError(f"'{name}' only support float32 or float16, got {weight.dtype}; convert with .float() first")
    if weight.ndim == 0 or weight.shape[-1] % multiple:
        raise RuntimeError(
            f"{name} only works for the number of columns a multiple of {multiple}, got shape {tuple(weight.shape)}"
        )


def embedding_bag_byte_prepack(weight: Tensor) -> Tensor:
    """A float table as rows of bytes: the integers, then the scale and the lowest value in float32."""
    _expect_floats("embedding_bag_byte_prepack", weight)
    values = weight.float()
    low, span = values.amin(-1, keepdim=True), values.amax(-1, keepdim=True) - values.amin(-1, keepdim=True)
    integers = ((values - low) * (255 / (span + _SMALLEST_RANGE))).round().to(dtypes.uint8)
    return cat([integers, cat([span / 255, low], -1).view(dtypes.uint8)], -1)


def embedding_bag_byte_unpack(weight: Tensor) -> Tensor:
    """The floats of `embedding_bag_byte_prepack`."""
    return _floats(weight, 8)


def _ranges(values: Tensor, bits: int, search: tuple[int, float] | None) -> tuple[Tensor, Tensor]:
    """The least and the greatest value of each row, or what a search with (bins, ratio) finds."""
    if search is None:
        return values.amin(-1, keepdim=True), values.amax(-1, keepdim=True)
    rows = values.detach().reshape(-1, values.shape[-1]).cpu().numpy()
    ends = tensor([best_range(row, *search, bits) for row in rows]).to(values.device)
    return tuple(end.reshape(*values.shape[:-1], 1) for end in ends.unbind(1))


def _prepack_bits(name: str, weight: Tensor, bits: int, search: tuple[int, float] | None) -> Tensor:
    _expect_floats(name, weight, 8 // bits)
    values, last = weight.float(), 2**bits - 1
    low, high = _ranges(values, bits, search)
    low = low.half().float()
    span = high - low
    scale = (span / last).where(span != 0, 1.0).half().float()
    scale = scale.where((scale != 0) & (1 / scale).isfinite(), 1.0)
    integers = ((values - low) * (1 / scale)).round().clamp(0, last).to(dtypes.uint8)
    packed = pack(integers, bits).reshape(*weight.shape[:-1], weight.shape[-1] * bits // 8)
    return cat([packed, cat([scale, low], -1).half().view(dtypes.uint8)], -1)


def embedding_bag_4bit_prepack(
    weight: Tensor, optimized_qparams: bool = False, nbins: int = 200, ratio: float = 0.16
) -> Tensor:
    """A float table as rows of bytes: 4-bit integers, then the scale and the lowest value in float16."""
    search = (nbins, ratio) if optimized_qparams else None
    return _prepack_bits("embedding_bag_4bit_prepack", weight, 4, search)


def embedding_bag_2bit_prepack(
    weight: Tensor, optimized_qparams: bool = False, nbins: int = 200, ratio: float = 0.16
) -> Tensor:
    """A float table as rows of bytes: 2-bit integers, then the scale and the lowest value in float16."""
    search = (nbins, ratio) if optimized_qparams else None
    return _prepack_bits("embedding_bag_2bit_prepack", weight, 2, search)


def embedding_bag_4bit_unpack(weight: Tensor) -> Tensor:
    """The floats of `embedding_bag_4bit_prepack`."""
    return _floats(weight, 4)


def embedding_bag_2bit_unpack(weight: Tensor) -> Tensor:
    """The floats of `embedding_bag_2bit_prepack`."""
    return _floats(weight, 2)


def _floats(rows: Tensor, bits: int) -> Tensor:
    """The values of rows of bytes."""
    kind = dtypes.float32 if bits == 8 else dtypes.float16
    size = 2 * kind.itemsize
    scale, low = rows[..., -size:].clone(memory_format=contiguous_format).view(kind).float().split(1, -1)
    integers = rows[..., :-size]
    return (integers if bits == 8 else unpack(integers, bits)) * scale + low


def _of_bytes(bits: int, name: str) -> Any:
    def function(
        weight: Tensor,
        indices: Tensor,
        offsets: Tensor | None = None,
        scale_grad_by_freq: bool = False,
        mode: int = 0,
        pruned_weights: bool = False,
        per_sample_weights: Tensor | None = None,
        compressed_indices_mapping: Tensor | None = None,
        include_last_offset: bool = False,
    ) -> Tensor:
        indices, is_left = unpruned(indices, compressed_indices_mapping if pruned_weights else None)
        rows = _floats(weight.index_select(0, indices.reshape(-1)), bits)
        rows = rows if is_left is None else rows * is_left.reshape(-1, 1)
        return reduce_rows(rows, indices, offsets, _MODES[mode], per_sample_weights, include_last_offset)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Sums (mode 0) or means (1) of rows of a table of bytes, by the prepack operator of this width."
    return function


embedding_bag_byte_rowwise_offsets, embedding_bag_4bit_rowwise_offsets, embedding_bag_2bit_rowwise_offsets = (
    _of_bytes(bits, f"embedding_bag_{name}_rowwise_offsets") for bits, name in ((8, "byte"), (4, "4bit"), (2, "2bit"))
)
