"""MultiheadAttention whose projections are linear layers; the attention itself is computed in floats."""

from __future__ import annotations

from typing import Any

from .... import dtypes, nn
from ....core import Tensor, cat, zeros
from ....core.quantized import quantize_per_tensor
from ....nn import functional as F
from ....nn.module import Module
from ..quantized.functional_modules import FloatFunctional
from .lstm import _check_qconfig, prepared

_PROJECTIONS = "linear_Q", "linear_K", "linear_V"


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` with the projections as layers, which observers and `convert` see.

    Example:

        >>> attention = torch.ao.nn.quantizable.MultiheadAttention(8, 2)
        >>> output, weights = attention(*[torch.randn(5, 3, 8)] * 3)
        >>> output.shape, weights.shape
        (numod.Size([5, 3, 8]), numod.Size([3, 5, 5]))
    """

    _FLOAT_MODULE: type = nn.MultiheadAttention

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: dtypes.dtype | None = None,
    ) -> None:
        from ...quantization.stubs import DeQuantStub, QuantStub

        options = {"device": device, "dtype": dtype}
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, **options
        )
        for name, size in zip(_PROJECTIONS, (embed_dim, self.kdim, self.vdim)):
            setattr(self, name, nn.Linear(size, embed_dim, bias=bias, **options))
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, **options)
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output, self.quant_attn_output_weights = QuantStub(), QuantStub()
        self.dequant_q, self.dequant_k, self.dequant_v = DeQuantStub(), DeQuantStub(), DeQuantStub()

    def _get_name(self) -> str:
        return "QuantizableMultiheadAttention"

    @classmethod
    def from_float(cls, other: Module) -> MultiheadAttention:
        """The prepared layer of an `nn.MultiheadAttention` with a `qconfig`."""
        if type(other) is not cls._FLOAT_MODULE:
            raise AssertionError(f"from_float: expected {cls._FLOAT_MODULE.__name__}, got {type(other).__name__}")
        _check_qconfig(other)
        bias = other.in_proj_bias
        result = cls(
            other.embed_dim, other.num_heads, other.dropout, bias is not None, other.bias_k is not None,
            other.add_zero_attn, other.kdim, other.vdim, other.batch_first,
        )  # fmt: skip
        result.bias_k, result.bias_v, result.qconfig = other.bias_k, other.bias_v, other.qconfig
        result.out_proj.weight, result.out_proj.bias = other.out_proj.weight, other.out_proj.bias
        weights = (
            other.in_proj_weight.chunk(3)
            if other._qkv_same_embed_dim
            else (other.q_proj_weight, other.k_proj_weight, other.v_proj_weight)
        )
        biases = [None] * 3 if bias is None else bias.chunk(3)
        for name, weight, part in zip(_PROJECTIONS, weights, biases):
            layer = getattr(result, name)
            layer.weight = nn.Parameter(weight.detach().clone())
            layer.bias = None if part is None else nn.Parameter(part.detach().clone())
        return prepared(result, other.training)

    @classmethod
    def from_observed(cls, other: Module) -> Module:
        """Raises NotImplementedError: `nn.quantized.MultiheadAttention` has it."""
        raise NotImplementedError(
            "It looks like you are trying to prepare an MHA module. Please, see the examples on quantizable MHAs: "
            "from_float makes this layer of an nn.MultiheadAttention, nn.quantized.MultiheadAttention.from_observed "
            "the quantized one of this layer"
        )

    def dequantize(self) -> nn.MultiheadAttention:
        """The float layer with the values of the quantized weights."""
        weights = {name: getattr(self, name)._weight_bias() for name in (*_PROJECTIONS, "out_proj")}
        has_bias = weights["linear_Q"][1] is not None
        result = nn.MultiheadAttention(
            self.embed_dim, self.num_heads, self.dropout, has_bias, self.bias_k is not None, self.add_zero_attn,
            self.kdim, self.vdim, self.batch_first,
        )  # fmt: skip
        if self.bias_k is not None:
            result.bias_k, result.bias_v = nn.Parameter(_value(self.bias_k)), nn.Parameter(_value(self.bias_v))
        weight, bias = weights.pop("out_proj")
        result.out_proj.weight = nn.Parameter(weight.dequantize())
        if bias is not None:
            result.out_proj.bias = nn.Parameter(bias.detach())
        values, biases = zip(*[(weight.dequantize(), bias) for weight, bias in weights.values()])
        if result._qkv_same_embed_dim:
            result.in_proj_weight = nn.Parameter(cat(values))
        else:
            result.q_proj_weight, result.k_proj_weight, result.v_proj_weight = map(nn.Parameter, values)
        if has_bias:
            result.in_proj_bias = nn.Parameter(cat([bias.detach() for bias in biases]))
        return result

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As `nn.MultiheadAttention`, for batches; a causal mask is passed as `attn_mask`."""
        if is_causal:
            raise AssertionError("causal mask not supported by AO MHA module; pass it as attn_mask")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        targets, batch, _ = query.shape
        heads, size = self.num_heads, self.embed_dim // self.num_heads
        _check_masks(attn_mask, key_padding_mask, targets, len(key), batch, heads)
        q = self.q_scaling_product.mul_scalar(self.linear_Q(query), float(size) ** -0.5)
        k, v, further = self._with_constants(self.linear_K(key), self.linear_V(value), batch)
        q, k, v = (x.contiguous().view(-1, batch * heads, size).transpose(0, 1) for x in (q, k, v))
        q, k, v = self.dequant_q(q), self.dequant_k(k), self.dequant_v(v)
        scores = (q @ k.transpose(1, 2)).view(batch, heads, targets, -1)
        for mask in self._masks(attn_mask, key_padding_mask, further, batch):
            scores = scores.masked_fill(mask, float("-inf")) if mask.dtype is dtypes.bool_ else scores + mask
        weights = F.dropout(scores.softmax(-1), self.dropout, self.training)
        output = weights.view(batch * heads, targets, -1) @ v
        output = output.transpose(0, 1).contiguous().view(targets, batch, self.embed_dim)
        output = self.out_proj(self.quant_attn_output(output))
        weights = self.quant_attn_output_weights(weights)
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, (weights.mean(dim=1) if average_attn_weights else weights) if need_weights else None

    def _with_constants(self, k: Tensor, v: Tensor, batch: int) -> tuple[Tensor, Tensor, int]:
        """Keys and values with the biases and zeros at their ends, and the number of these."""
        further = 0
        if self.bias_k is not None and self.bias_v is not None:
            k, v = cat([k, self.bias_k.repeat(1, batch, 1)]), cat([v, self.bias_v.repeat(1, batch, 1)])
            further += 1
        if self.add_zero_attn:
            k, v = (cat([x, _zeros_like_step(x)]) for x in (k, v))
            further += 1
        return k, v, further

    def _masks(self, attn_mask: Tensor | None, padding: Tensor | None, further: int, batch: int) -> list[Tensor]:
        """The masks for scores (batch, heads, targets, sources)."""
        masks = []
        for mask in (attn_mask, padding):
            if mask is None:
                continue
            mask = mask.bool() if mask.dtype is dtypes.uint8 else mask
            if further:
                mask = cat([mask, mask.new_zeros(*mask.shape[:-1], further)], -1)
            if mask.ndim == 3:
                mask = mask.view(batch, self.num_heads, *mask.shape[1:])
            masks.append(mask)
        if padding is not None:
            masks[-1] = masks[-1].unsqueeze(1).unsqueeze(2)
        return masks


def _check_masks(
    mask: Tensor | None, padding: Tensor | None, targets: int, sources: int, batch: int, heads: int
) -> None:
    """Raise for masks that would be broadcast, as PyTorch does."""
    if mask is not None:
        if not (mask.dtype.is_floating_point or mask.dtype in (dtypes.bool_, dtypes.uint8)):
            raise AssertionError(f"Only float and bool types are supported for attn_mask, not {mask.dtype}")
        if mask.ndim not in (2, 3):
            raise RuntimeError(f"attn_mask's dimension {mask.ndim} is not supported; pass a 2D or 3D mask")
        expected = (targets, sources) if mask.ndim == 2 else (batch * heads, targets, sources)
        if tuple(mask.shape) != expected:
            raise RuntimeError(
                f"The size of the {mask.ndim}D attn_mask is not correct: expected {expected}, got {tuple(mask.shape)}"
            )
    if padding is not None and tuple(padding.shape) != (batch, sources):
        raise AssertionError(f"key_padding_mask: expected shape {(batch, sources)}, got {tuple(padding.shape)}")


def _zeros_like_step(x: Tensor) -> Tensor:
    step = zeros(1, *x.shape[1:])
    return quantize_per_tensor(step, x.q_scale(), x.q_zero_point(), x.dtype) if x.is_quantized else step


def _value(tensor: Tensor) -> Tensor:
    return tensor.dequantize() if tensor.is_quantized else tensor.detach()
