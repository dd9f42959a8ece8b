"""`numod.ops.quantized`: PyTorch's operators of quantized tensors, which some programs call directly.

Each is a layer or a function of `nn.quantized` with the scale of its result as an argument. What `linear_prepack` and
its relatives return stands for PyTorch's packed parameters: a pair of weight and bias, or a layer.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from ....core import Tensor
from ....core.attributes import refuse_plain
from ....core.quantized import (
    QuantizedTensor,
    Quantizer,
    dynamic_linear,
    per_tensor_affine,
    per_tensor_symmetric,
    quantized_linear,
)
from ....nn import functional as F
from ....nn.recurrent_cells import step_cell
from . import dynamic, embedding_operators
from .convolution import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvAdd2d,
    ConvAddReLU2d,
    ConvReLU1d,
    ConvReLU2d,
    ConvReLU3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from .embedding_operators import (  # noqa: F401  operators of the namespace
    embedding_4bit,
    embedding_bag_2bit_prepack,
    embedding_bag_2bit_rowwise_offsets,
    embedding_bag_2bit_unpack,
    embedding_bag_4bit,
    embedding_bag_4bit_prepack,
    embedding_bag_4bit_rowwise_offsets,
    embedding_bag_4bit_unpack,
    embedding_bag_byte,
    embedding_bag_byte_prepack,
    embedding_bag_byte_rowwise_offsets,
    embedding_bag_byte_unpack,
    embedding_bag_prepack,
    embedding_bag_unpack,
    embedding_byte,
)
from .functional import convolution_layer
from .functional_modules import QFunctional
from .packed_params import ConvPackedParams, PackedParams, settings_operators

Pair = tuple[Tensor, "Tensor | None"]  # weight and bias


def _expect_quantized(name: str, value: Any) -> None:
    if not isinstance(value, QuantizedTensor):
        refuse_plain(name, value)


def _quantize(values: Tensor, like: Tensor, scale: float, zero_point: int) -> Tensor:
    _expect_quantized("an operator of torch.ops.quantized", like)
    return Quantizer(like.dtype, per_tensor_affine, float(scale), int(zero_point)).quantize(values)


def _with_name(function: Any, name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return function


# ---- arithmetic


def _arithmetic(name: str) -> Any:
    method, has_relu = name.split("_")[0], "relu" in name

    def of_tensors(qa: Tensor, qb: Tensor, scale: float | None = None, zero_point: int | None = None) -> Tensor:
        if scale is None or zero_point is None:
            raise RuntimeError(f"quantized::{name}: two tensors need the result's scale and zero point, or out")
        module = QFunctional()
        module.set_output(float(scale), int(zero_point))
        result = getattr(module, method)(qa, qb)
        return result.relu() if has_relu else result

    def with_number(qa: Tensor, b: Any) -> Tensor:
        qa, b = (qa, b) if isinstance(qa, QuantizedTensor) else (b, qa)
        for value in (qa, b) if isinstance(b, Tensor) and b.numel() != 1 else (qa,):
            _expect_quantized(f"'quantized::{name}'", value)
        result = getattr(QFunctional(), f"{method}_scalar")(qa, b.item() if isinstance(b, Tensor) else b)
        return result.relu() if has_relu else result

    def function(qa: Any, qb: Any = None, *numbers: Any, b: Any = None, out: Any = None, **by_name: Any) -> Tensor:
        qb = b if qb is None else qb
        if len(numbers) == 1 and isinstance(numbers[0], Tensor):
            out = numbers[0]
        both = isinstance(qa, QuantizedTensor) and isinstance(qb, QuantizedTensor)
        if out is not None:
            result = of_tensors(qa, qb, out.q_scale(), out.q_zero_point()) if both else with_number(qa, qb)
            return out.copy_(result)
        return of_tensors(qa, qb, *numbers, **by_name) if both else with_number(qa, qb)

    return _with_name(
        function, name,
        f"`{method}` of two quantized tensors with the scale of the result, or of one and a number; `out` takes it.",
    )  # fmt: skip


(
    add, add_out, add_relu, add_relu_out, add_scalar, add_scalar_out, add_scalar_relu, add_scalar_relu_out, mul,
    mul_out, mul_relu, mul_relu_out, mul_scalar, mul_scalar_out, mul_scalar_relu, mul_scalar_relu_out,
) = (
    _arithmetic(f"{method}{ending}")
    for method in ("add", "mul")
    for ending in ("", "_out", "_relu", "_relu_out", "_scalar", "_scalar_out", "_scalar_relu", "_scalar_relu_out")
)  # fmt: skip


def matmul(qa: Tensor, qb: Tensor, scale: float, zero_point: int) -> Tensor:
    """qa @ qb, with the scale of the result."""
    for value in (qa, qb):
        _expect_quantized("'quantized::matmul'", value)
    if qa.dtype is not qb.dtype:
        raise RuntimeError(f"MatMul operands should have same data type, got {qa.dtype} and {qb.dtype}.")
    if any(value.qscheme() not in (per_tensor_affine, per_tensor_symmetric) for value in (qa, qb)):
        raise RuntimeError("Only per-tensor quantization is supported in Matmul.")
    return _quantize(qa.dequantize() @ qb.dequantize(), qa, scale, zero_point)


def cat(qx: Sequence[Tensor], dim: int, scale: float | None = None, zero_point: int | None = None) -> Tensor:
    """The tensors one after the other, by default with the scale of the first."""
    module, first = QFunctional(), qx[0]
    module.set_output(
        first.q_scale() if scale is None else scale, first.q_zero_point() if zero_point is None else zero_point
    )
    return module.cat(list(qx), dim)


def cat_relu(qx: Sequence[Tensor], dim: int, scale: float | None = None, zero_point: int | None = None) -> Tensor:
    """`cat` and ReLU."""
    return cat(qx, dim, scale, zero_point).relu()


# ---- functions of one tensor: those with a scale, and those that keep the input's


def hardswish(input: Tensor, output_scale: float, output_zero_point: int) -> Tensor:
    """`nn.functional.hardswish`, with the scale of the result."""
    return _quantize(F.hardswish(input.dequantize()), input, output_scale, output_zero_point)


def sigmoid(qx: Tensor, output_scale: float, output_zero_point: int) -> Tensor:
    """`sigmoid`, with the scale of the result."""
    return _quantize(qx.dequantize().sigmoid(), qx, output_scale, output_zero_point)


def celu(self: Tensor, output_scale: float, output_zero_point: int, alpha: float = 1) -> Tensor:
    """`nn.functional.celu`, with the scale of the result."""
    return _quantize(F.celu(self.dequantize(), alpha), self, output_scale, output_zero_point)


def elu(
    self: Tensor,
    output_scale: float,
    output_zero_point: int,
    alpha: float = 1,
    scale: float = 1,
    input_scale: float = 1,
) -> Tensor:
    """`nn.functional.elu`, with the scale of the result: scale * (x, or alpha * (exp(x * input_scale) - 1))."""
    x = self.dequantize()
    values = scale * x.where(x > 0, alpha * (x * input_scale).expm1())
    return _quantize(values, self, output_scale, output_zero_point)


def leaky_relu(qx: Tensor, negative_slope: float, inplace: bool, output_scale: float, output_zero_point: int) -> Tensor:
    """`nn.functional.leaky_relu`, with the scale of the result."""
    return _quantize(F.leaky_relu(qx.dequantize(), negative_slope), qx, output_scale, output_zero_point)


def prelu(qx: Tensor, weight: Tensor, output_scale: float, output_zero_point: int) -> Tensor:
    """`nn.functional.prelu` with a quantized weight, with the scale of the result."""
    return _quantize(F.prelu(qx.dequantize(), weight.dequantize()), qx, output_scale, output_zero_point)


def softmax(qx: Tensor, dim: int, output_scale: float, output_zero_point: int) -> Tensor:
    """`softmax`, with the scale of the result."""
    return _quantize(qx.dequantize().softmax(dim), qx, output_scale, output_zero_point)


def dropout(
    self: Tensor, output_scale: float, output_zero_point: int, p: float = 0.5, training: bool = False
) -> Tensor:
    """The input: quantized models are for inference."""
    return self


def relu6(qx: Tensor, inplace: bool = False) -> Tensor:
    """`nn.functional.relu6`, with the scale of the input."""
    return qx.copy_(F.relu6(qx)) if inplace else F.relu6(qx)


def threshold(qx: Tensor, threshold: float, value: float) -> Tensor:
    """`nn.functional.threshold`, with the scale of the input."""
    return F.threshold(qx, threshold, value)


def clamp(qx: Tensor, min: float | None = None, max: float | None = None) -> Tensor:
    """`clamp`, with the scale of the input."""
    return qx.clamp(min, max)


def _pool(name: str) -> Any:
    def function(
        qx: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
    ) -> Tensor:
        return getattr(F, name)(qx, kernel_size, stride or kernel_size, padding, dilation, ceil_mode)

    return _with_name(function, name, f"`nn.functional.{name}`, with the scale of the input.")


max_pool1d, max_pool2d = _pool("max_pool1d"), _pool("max_pool2d")


# ---- normalization


def _batch_norm(name: str) -> Any:
    def function(
        qx: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        eps: float,
        output_scale: float,
        output_zero_point: int,
    ) -> Tensor:
        values = F.batch_norm(qx.dequantize(), mean, var, weight, bias, False, 0.0, eps)
        return _quantize(values.relu() if "relu" in name else values, qx, output_scale, output_zero_point)

    return _with_name(function, name, "`nn.functional.batch_norm` by running statistics, with the scale of the result.")


(
    batch_norm, batch_norm_relu, batch_norm1d, batch_norm1d_relu, batch_norm2d, batch_norm2d_relu, batch_norm3d,
    batch_norm3d_relu,
) = (_batch_norm(f"batch_norm{dims}{relu}") for dims in ("", "1d", "2d", "3d") for relu in ("", "_relu"))  # fmt: skip


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """`nn.functional.layer_norm`, with the scale of the result."""
    values = F.layer_norm(input.dequantize(), normalized_shape, weight, bias, eps)
    return _quantize(values, input, output_scale, output_zero_point)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """`nn.functional.group_norm`, with the scale of the result."""
    values = F.group_norm(input.dequantize(), num_groups, weight, bias, eps)
    return _quantize(values, input, output_scale, output_zero_point)


def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
    output_scale: float,
    output_zero_point: int,
) -> Tensor:
    """`nn.functional.instance_norm`, with the scale of the result."""
    values = F.instance_norm(input.dequantize(), weight=weight, bias=bias, eps=eps)
    return _quantize(values, input, output_scale, output_zero_point)


# ---- linear


def linear_prepack(W: Tensor, B: Tensor | None = None) -> Pair:
    """Weight and bias, for `linear` and `linear_dynamic`. Kernels pack a weight at its first use."""
    _expect_quantized("'quantized::linear_prepack'", W)
    return PackedParams((W, B))


def _pair(packed: Any) -> Pair:
    if not isinstance(packed, (tuple, list)):
        raise RuntimeError(f"expected what linear_prepack returns as W_prepack, got {type(packed).__name__}")
    return packed


def linear_prepack_fp16(W: Tensor, B: Tensor | None = None) -> Pair:
    """The weight in float16 and the bias, for `linear_dynamic_fp16`."""
    return PackedParams((W.half(), B))


def linear_unpack(W_prepack: Pair) -> Pair:
    """Weight and bias."""
    return tuple(_pair(W_prepack))


def linear_unpack_fp16(W_prepack: Pair) -> Pair:
    """The weight in float32, rounded to float16, and the bias."""
    return W_prepack[0].float(), W_prepack[1]


def linear(X: Tensor, W_prepack: Pair, Y_scale_i: float, Y_zero_point_i: int) -> Tensor:
    """x @ weight.T + bias for a quantized x, with the scale of the result."""
    return quantized_linear(X, *_pair(W_prepack), float(Y_scale_i), int(Y_zero_point_i), False)


def linear_relu(X: Tensor, W_prepack: Pair, Y_scale_i: float, Y_zero_point_i: int) -> Tensor:
    """`linear` and ReLU."""
    return quantized_linear(X, *_pair(W_prepack), float(Y_scale_i), int(Y_zero_point_i), True)


def _float_linear(x: Tensor, packed: Pair) -> Tensor:
    weight, bias = _pair(packed)
    return F.linear(x.dequantize(), weight.dequantize(), bias)


def linear_tanh(X: Tensor, W_prepack: Pair, Y_scale_i: float, Y_zero_point_i: int) -> Tensor:
    """`linear` and Tanh."""
    return _quantize(_float_linear(X, W_prepack).tanh(), X, Y_scale_i, Y_zero_point_i)


def linear_leaky_relu(
    X: Tensor, W_prepack: Pair, Y_scale_i: float, Y_zero_point_i: int, negative_slope: float
) -> Tensor:
    """`linear` and LeakyReLU."""
    return _quantize(F.leaky_relu(_float_linear(X, W_prepack), negative_slope), X, Y_scale_i, Y_zero_point_i)


def linear_dynamic(X: Tensor, W_prepack: Pair, reduce_range: bool = False) -> Tensor:
    """x @ weight.T + bias for a float x, which is quantized by its range, to 7 bits if it is reduced."""
    return dynamic_linear(X, *_pair(W_prepack), reduce_range)


def linear_relu_dynamic(X: Tensor, W_prepack: Pair, reduce_range: bool = False) -> Tensor:
    """`linear_dynamic` and ReLU."""
    return linear_dynamic(X, W_prepack, reduce_range).relu()


def linear_dynamic_fp16(X: Tensor, W_prepack: Pair) -> Tensor:
    """x @ weight.T + bias for a float x and a weight of float16."""
    return F.linear(X, W_prepack[0].float(), W_prepack[1])


def linear_relu_dynamic_fp16(X: Tensor, W_prepack: Pair) -> Tensor:
    """`linear_dynamic_fp16` and ReLU."""
    return linear_dynamic_fp16(X, W_prepack).relu()


def linear_dynamic_fp16_unpacked_weight(X: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """x @ weight.T + bias for a float x and a weight that is rounded to float16."""
    return linear_dynamic_fp16(X, linear_prepack_fp16(weight, bias))


# ---- convolution


def _prepack(kind: type, name: str) -> Any:
    def function(weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int) -> Any:
        return ConvPackedParams(convolution_layer(kind, weight, bias, stride, padding, dilation, groups))

    def transposed(
        weight: Tensor,
        bias: Tensor | None,
        stride: Any,
        padding: Any,
        output_padding: Any,
        dilation: Any,
        groups: int,
    ) -> Any:
        layer = convolution_layer(kind, weight, bias, stride, padding, dilation, groups)
        layer.output_padding = tuple(output_padding)
        return ConvPackedParams(layer)

    function = transposed if "transpose" in name else function
    return _with_name(function, name, "Weights and settings of a convolution, for the operators that take them packed.")


conv1d_prepack, conv2d_prepack, conv3d_prepack = (
    _prepack(kind, f"conv{n}d_prepack") for n, kind in enumerate((Conv1d, Conv2d, Conv3d), 1)
)
conv_transpose1d_prepack, conv_transpose2d_prepack, conv_transpose3d_prepack = (
    _prepack(kind, f"conv_transpose{n}d_prepack")
    for n, kind in enumerate((ConvTranspose1d, ConvTranspose2d, ConvTranspose3d), 1)
)
conv_prepack = conv2d_prepack


def _unpack(name: str) -> Any:
    def function(packed_weights: Any) -> Pair:
        return packed_weights.unpack()

    return _with_name(function, name, "Weight and bias of a packed convolution.")


(
    conv_unpack, conv1d_unpack, conv2d_unpack, conv3d_unpack, conv_transpose1d_unpack, conv_transpose2d_unpack,
    conv_transpose3d_unpack,
) = map(
    _unpack,
    "conv_unpack conv1d_unpack conv2d_unpack conv3d_unpack conv_transpose1d_unpack conv_transpose2d_unpack "
    "conv_transpose3d_unpack".split(),
)  # fmt: skip


def _of(kind: type, packed: Any, name: str) -> Any:
    """A copy of a packed convolution, of this class: its relatives have the same settings."""
    if not isinstance(packed, ConvPackedParams):
        raise RuntimeError(
            f"{name}: expected what a conv_prepack returns, or a convolution layer's _packed_params, got "
            f"{type(packed).__name__}"
        )
    layer = copy.copy(packed.layer)
    layer.__class__ = kind
    return layer


def _convolution(kind: type, name: str) -> Callable:
    def function(qx: Tensor, packed_weight: Any, output_scale: float, output_zero_point: int) -> Tensor:
        layer = _of(kind, packed_weight, name)
        layer.set_output(float(output_scale), int(output_zero_point))
        return layer(qx)

    return _with_name(function, name, "A packed convolution of a quantized input, with the scale of the result.")


conv1d, conv2d, conv3d = (_convolution(kind, f"conv{n}d") for n, kind in enumerate((Conv1d, Conv2d, Conv3d), 1))
conv1d_relu, conv2d_relu, conv3d_relu = (
    _convolution(kind, f"conv{n}d_relu") for n, kind in enumerate((ConvReLU1d, ConvReLU2d, ConvReLU3d), 1)
)
conv_transpose1d, conv_transpose2d, conv_transpose3d = (
    _convolution(kind, f"conv_transpose{n}d")
    for n, kind in enumerate((ConvTranspose1d, ConvTranspose2d, ConvTranspose3d), 1)
)


def _with_sum(kind: type, name: str) -> Any:
    def function(qx: Tensor, qaccum: Tensor, packed_weight: Any, output_scale: float, output_zero_point: int) -> Tensor:
        layer = _of(kind, packed_weight, name)
        layer.set_output(float(output_scale), int(output_zero_point))
        return layer(qx, qaccum)

    return _with_name(function, name, "A packed convolution of one input plus another, with the scale of the result.")


conv2d_add, conv2d_add_relu = _with_sum(ConvAdd2d, "conv2d_add"), _with_sum(ConvAddReLU2d, "conv2d_add_relu")


def _dynamic_convolution(name: str) -> Any:
    kind = getattr(dynamic, f"Conv{'Transpose' if 'transpose' in name else ''}{name[-10:-8]}")

    def function(qx: Tensor, packed_weight: Any, reduce_range: bool = False) -> Tensor:
        return _of(kind, packed_weight, name)(qx, reduce_range)

    return _with_name(function, name, "A packed convolution of a float input, which is quantized by its range.")


(
    conv1d_dynamic, conv2d_dynamic, conv3d_dynamic, conv_transpose1d_dynamic, conv_transpose2d_dynamic,
    conv_transpose3d_dynamic,
) = (_dynamic_convolution(f"conv{kind}{n}d_dynamic") for kind in ("", "_transpose") for n in (1, 2, 3))  # fmt: skip


# ---- recurrent cells


def _cell(mode: str, name: str) -> Any:
    def step(
        input: Tensor, hx: Any, w_ih: Pair, w_hh: Pair, bias_ih: Tensor | None = None, bias_hh: Tensor | None = None
    ) -> Any:
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        gates = dynamic_linear(input, w_ih[0], w_ih[1] if bias_ih is None else bias_ih)
        result = step_cell(mode, gates, states, w_hh[0], w_hh[1] if bias_hh is None else bias_hh)
        return result if mode == "LSTM" else result[0]

    def others(
        input: Tensor, hx: Any, w_ih: Pair, w_hh: Pair, b_ih: Tensor | None = None, b_hh: Tensor | None = None
    ) -> Any:
        return step(input, hx, w_ih, w_hh, b_ih, b_hh)

    return _with_name(
        step if mode == "LSTM" else others, name, f"One step of a {mode} cell with quantized weights for a float input."
    )


(
    quantized_lstm_cell_dynamic,
    quantized_gru_cell_dynamic,
    quantized_rnn_relu_cell_dynamic,
    quantized_rnn_tanh_cell_dynamic,
) = (
    _cell(mode, f"quantized_{name}_cell_dynamic")
    for mode, name in (("LSTM", "lstm"), ("GRU", "gru"), ("RNN_RELU", "rnn_relu"), ("RNN_TANH", "rnn_tanh"))
)

globals().update(settings_operators())
_HOMES = (__name__, embedding_operators.__name__, PackedParams.__module__)
for _value in [value for name, value in globals().items() if callable(value) and not name.startswith("_")]:
    if getattr(_value, "__module__", None) in _HOMES and not isinstance(_value, type):
        _value.default = _value  # the overload that programs name
