"""Quantized tensors: integers and a scale.

`schemes` has the quantization schemes, `tensor` the class, `products` and `convolutions` what layers compute,
`operations` the table of functions that work on quantized tensors, `functions` the public functions that make them,
`training` those that only round, `optimized` searches ranges. The formulas are rows of `ops.quantize`.
"""

from __future__ import annotations

from .convolutions import Settings, records_float_layers, static_convolution, static_transposed_convolution
from .functions import (
    _choose_qparams_per_tensor,
    _empty_affine_quantized,
    _empty_per_channel_affine_quantized,
    _make_per_channel_quantized_tensor,
    _make_per_tensor_quantized_tensor,
    choose_parameters,
    dequantize,
    int_repr,
    q_per_channel_axis,
    q_per_channel_scales,
    q_per_channel_zero_points,
    q_scale,
    q_zero_point,
    quantize_per_channel,
    quantize_per_tensor,
    quantize_per_tensor_dynamic,
    range_parameters,
)
from .optimized import best_range, choose_qparams_optimized
from .products import (
    dynamic_layer,
    dynamic_linear,
    dynamic_rows_linear,
    quantized_linear,
    runs_layer,
    uses_integers,
    zero_state,
)
from .schemes import (
    per_channel_affine,
    per_channel_affine_float_qparams,
    per_channel_symmetric,
    per_tensor_affine,
    per_tensor_symmetric,
    qscheme,
)
from .tensor import Quantizer, QuantizedTensor
from .training import (
    _fake_quantize_learnable_per_channel_affine,
    _fake_quantize_learnable_per_tensor_affine,
    fake_quantize_per_channel_affine,
    fake_quantize_per_tensor_affine,
    fused_moving_avg_obs_fake_quant,
    move_averages,
)

__all__ = [
    "QuantizedTensor", "Quantizer", "Settings",
    "_choose_qparams_per_tensor", "_empty_affine_quantized", "_empty_per_channel_affine_quantized",
    "_fake_quantize_learnable_per_channel_affine",
    "_fake_quantize_learnable_per_tensor_affine", "_make_per_channel_quantized_tensor",
    "_make_per_tensor_quantized_tensor", "best_range", "choose_parameters", "choose_qparams_optimized",
    "dequantize", "dynamic_layer", "dynamic_linear", "dynamic_rows_linear",
    "fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine", "fused_moving_avg_obs_fake_quant",
    "int_repr", "move_averages", "per_channel_affine",
    "per_channel_affine_float_qparams", "per_channel_symmetric", "per_tensor_affine", "per_tensor_symmetric",
    "q_per_channel_axis", "q_per_channel_scales", "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme",
    "quantize_per_channel", "quantize_per_tensor", "quantize_per_tensor_dynamic", "quantized_linear",
    "range_parameters", "records_float_layers", "runs_layer", "static_convolution", "static_transposed_convolution",
    "uses_integers", "zero_state",
]  # fmt: skip
