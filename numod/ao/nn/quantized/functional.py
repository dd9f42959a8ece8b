"""Functions of quantized tensors: those with a weight take the scale of their result, the others keep the input's."""

from __future__ import annotations

from typing import Any

from .... import dtypes
from ....core import Tensor
from ....core.quantized import QuantizedTensor, Quantizer, per_tensor_affine, quantized_linear
from ....nn import functional as F
from ....nn.module import Module
from .convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "avg_pool2d", "avg_pool3d", "celu", "clamp", "conv1d", "conv2d",
    "conv3d", "elu", "hardsigmoid", "hardswish", "hardtanh", "interpolate", "leaky_relu", "linear", "max_pool1d",
    "max_pool2d", "threshold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip


def linear(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, scale: float | None = None, zero_point: int | None = None
) -> Tensor:
    """input @ weight.T + bias, (…, in) -> (…, out). The scale is by default the input's."""
    scale = input.q_scale() if scale is None else scale
    return quantized_linear(input, weight, bias, scale, input.q_zero_point() if zero_point is None else zero_point)


def convolution_layer(
    kind: type, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int = 1
) -> Any:
    """A quantized convolution with this weight and these settings; an int holds for all dimensions."""
    layer = kind.__new__(kind)
    Module.__init__(layer)
    dims, transposed = weight.ndim - 2, issubclass(kind, ConvTranspose1d.__base__)
    layer.kernel_size, layer.groups, layer.padding_mode = tuple(weight.shape[2:]), groups, "zeros"
    channels = weight.shape[0], weight.shape[1] * groups
    layer.in_channels, layer.out_channels = channels if transposed else channels[::-1]
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "output_padding": 0}
    for name, value in settings.items():
        setattr(layer, name, (value,) * dims if isinstance(value, int) else tuple(value))
    layer.set_weight_bias(weight, bias)
    layer.set_output(1.0, 0)
    return layer


def _convolution(kind: type, name: str) -> Any:
    def convolution(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        scale: float = 1.0,
        zero_point: int = 0,
        dtype: dtypes.dtype = dtypes.quint8,
    ) -> Tensor:
        if padding_mode != "zeros":
            raise NotImplementedError("Only zero-padding is supported!")
        layer = convolution_layer(kind, weight, bias, stride, padding, dilation, groups)
        layer.set_output(scale, zero_point)
        return layer(input)

    convolution.__name__ = convolution.__qualname__ = name
    convolution.__doc__ = f"{kind.__name__} of a quantized input and weight, with the scale of the result."
    return convolution


conv1d, conv2d, conv3d = _convolution(Conv1d, "conv1d"), _convolution(Conv2d, "conv2d"), _convolution(Conv3d, "conv3d")


def _check(input: Tensor, name: str) -> None:
    if not isinstance(input, QuantizedTensor):
        raise ValueError(f"Input to 'quantized.{name}' must be quantized!")


def _keeping_scale(name: str) -> Any:
    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not name.startswith("max_pool"):  # which PyTorch does not check
            _check(input, name)
        return getattr(F, name)(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`nn.functional.{name}` of a quantized input; the result has its scale."
    return function


def _with_scale(name: str) -> Any:
    def function(input: Tensor, scale: float, zero_point: int, *args: Any, **kwargs: Any) -> Tensor:
        _check(input, name)
        values = getattr(F, name)(input.dequantize(), *args, **kwargs)
        return Quantizer(input.dtype, per_tensor_affine, scale, zero_point).quantize(values)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`nn.functional.{name}` of a quantized input, with the scale of the result."
    return function


adaptive_avg_pool2d, adaptive_avg_pool3d = _keeping_scale("adaptive_avg_pool2d"), _keeping_scale("adaptive_avg_pool3d")
avg_pool2d, avg_pool3d = _keeping_scale("avg_pool2d"), _keeping_scale("avg_pool3d")
max_pool1d, max_pool2d = _keeping_scale("max_pool1d"), _keeping_scale("max_pool2d")
hardsigmoid, hardtanh, threshold = (_keeping_scale(name) for name in ("hardsigmoid", "hardtanh", "threshold"))
celu, elu, hardswish = _with_scale("celu"), _with_scale("elu"), _with_scale("hardswish")
interpolate, upsample = _keeping_scale("interpolate"), _keeping_scale("upsample")


def leaky_relu(
    input: Tensor,
    negative_slope: float = 0.01,
    inplace: bool = False,
    scale: float | None = None,
    zero_point: int | None = None,
) -> Tensor:
    """`nn.functional.leaky_relu` of a quantized input; the scale of the result is by default the input's."""
    _check(input, "leaky_relu")
    if scale is None or zero_point is None:
        return F.leaky_relu(input, negative_slope, inplace)
    return _with_scale("leaky_relu")(input, scale, zero_point, negative_slope)


def clamp(input: Tensor, min_: float, max_: float) -> Tensor:
    """The values in [min_, max_]; the result has the input's scale."""
    _check(input, "clamp")
    return input.clamp(min_, max_)


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Bilinear interpolation with aligned corners; the result has the input's scale."""
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Interpolation by the nearest value; the result has the input's scale."""
    return interpolate(input, size, scale_factor, mode="nearest")
