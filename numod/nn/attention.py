"""Multi-head attention as a layer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from ..core import Tensor, empty
from . import init
from .functional.attention import attend_by_heads
from .linear import Linear
from .module import Module
from .parameter import Parameter

__all__ = ["MultiheadAttention"]
__path__: list[str] = []  # `flex_attention` is below it, as a name (`paths.virtual_modules`)


class SDPBackend(IntEnum):
    """PyTorch's attention kernels. numod has a single one for all of them."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION, OVERRIDEABLE = -1, 0, 1, 2, 3, 4


@contextlib.contextmanager
def sdpa_kernel(backends: list[SDPBackend] | SDPBackend, set_priority: bool = False) -> Iterator[None]:
    """A context that selects attention kernels. It has no effect.

    Raises AssertionError for a value that is not an `SDPBackend`.
    """
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend, got {type(backends).__name__}"
        )
    yield


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear with the name that PyTorch's repr shows."""


class MultiheadAttention(Module):
    """Attention with `num_heads` heads, each over embed_dim / num_heads of the projected inputs.

    Inputs are (L, N, E), (S, N, kdim) and (S, N, vdim), with N first if `batch_first`, or without N. Returns (result,
    weights or None). Vaswani et al., 2017.

    Example:

        >>> x = torch.ones(5, 2, 8)
        >>> output, weights = nn.MultiheadAttention(8, num_heads=2)(x, x, x)
        >>> output.shape, weights.shape
        (numod.Size([5, 2, 8]), numod.Size([2, 5, 5]))
    """

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
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} "
                "instead"
            )
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError(f"embed_dim must be divisible by num_heads, got {embed_dim} and {num_heads}")
        make = lambda *shape: Parameter(empty(shape, device=device, dtype=dtype))  # noqa: E731
        same = self._qkv_same_embed_dim
        for name, shape in (
            ("q_proj_weight", (embed_dim, embed_dim)),
            ("k_proj_weight", (embed_dim, self.kdim)),
            ("v_proj_weight", (embed_dim, self.vdim)),
        ):
            self.register_parameter(name, None if same else make(*shape))
        self.register_parameter("in_proj_weight", make(3 * embed_dim, embed_dim) if same else None)
        self.register_parameter("in_proj_bias", make(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.bias_k, self.bias_v = (make(1, 1, embed_dim), make(1, 1, embed_dim)) if add_bias_kv else (None, None)
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for parameter in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if parameter is not None:
                init.xavier_uniform_(parameter)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for parameter in (self.bias_k, self.bias_v):
            if parameter is not None:
                init.xavier_normal_(parameter)

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
        separate = None if self._qkv_same_embed_dim else (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        return attend_by_heads(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout if self.training else 0.0,
            self.out_proj.weight,
            self.out_proj.bias,
            key_padding_mask,
            need_weights,
            attn_mask,
            separate,
            None,
            None,
            average_attn_weights,
            is_causal,
            self.batch_first,
        )
