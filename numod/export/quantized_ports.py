"""Quantized tensors as inputs and results of captured programs, which compute with their integers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import dtypes
from ..core.quantized import per_tensor_affine
from ..core.quantized.tensor import QuantizedTensor, Quantizer, wrap_integers
from ..core.tensor import Tensor
from ..graph.values.pytree import replace

_DTYPES = {"uint8": dtypes.quint8, "int8": dtypes.qint8, "int32": dtypes.qint32}
Scales = Mapping[str, tuple[float, int]]


def integers_of(tensors: list[Tensor], scales: Scales, names: list[str]) -> list[Tensor]:
    """The inputs with integers in place of quantized tensors. Raises RuntimeError for those of unrecorded scales."""
    return [
        _integers(tensor, scales.get(f"input{k}"), names[k]) if isinstance(tensor, QuantizedTensor) else tensor
        for k, tensor in enumerate(tensors)
    ]


def _integers(tensor: QuantizedTensor, recorded: tuple[float, int] | None, name: str) -> Tensor:
    if recorded is None:
        raise RuntimeError(
            f"{name} was recorded without a scale of the whole tensor, got a quantized tensor: pass its integers or "
            f"floats, as recorded ({name}.int_repr() or {name}.dequantize()), or capture the module again"
        )
    quantizer, (scale, zero_point) = tensor._quantizer, recorded
    came = "scales of channels"
    if not quantizer.scheme.is_per_channel:
        came = f"{quantizer.scale} and {quantizer.zero_point}"
        if quantizer.zero_point == zero_point and math.isclose(quantizer.scale, scale, rel_tol=1e-6):
            return tensor._integers
    raise RuntimeError(
        f"{name} was recorded with scale {scale} and zero point {zero_point}, got {came}: quantize it with the "
        "recorded ones, or capture the module again"
    )


def with_scales(result: Any, inputs: list[Tensor], scales: Scales) -> Any:
    """The results as quantized tensors, unless quantized inputs were passed as plain integers."""
    if any(f"input{k}" in scales and not isinstance(tensor, QuantizedTensor) for k, tensor in enumerate(inputs)):
        return result
    count = -1

    def wrapped(leaf: Any) -> Any:
        nonlocal count
        count += isinstance(leaf, Tensor)
        if not isinstance(leaf, Tensor) or f"output{count}" not in scales:
            return leaf
        return wrap_integers(leaf, Quantizer(_DTYPES[leaf.dtype.name], per_tensor_affine, *scales[f"output{count}"]))

    return replace(result, wrapped)
