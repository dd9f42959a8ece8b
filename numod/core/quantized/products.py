"""Products with a quantized weight: static ones give a quantized result, dynamic ones a float one.

x @ w.T with x = sx * (a - zx) and w = sw * b is sx * sw * (a @ b.T - zx * sum(b)): an int8 product with 32-bit sums
(`ops.matmul.int8`), and a pointwise row after it. Weights with zero points go through float32.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...ops import quantize as rows
from ...ops.convolution.int8 import byte_convolution
from ...ops.matmul.int8 import byte_product
from ...ops.pointwise import Pointwise
from ..apply import apply
from ..listeners import listeners
from ..tensor import Tensor, fields_of
from .schemes import per_tensor_affine
from .tensor import QuantizedTensor, Quantizer, wrap_integers

_MOST_REQUANTIZERS = 8  # of a weight: more than its layer has scales and biases


class WeightParts:
    """What products need of a quantized weight (out, in, ...): integers as a matrix, their sums, the scales.

    The matrix is (in, out); of a convolution's weight its rows are ordered by tap, then by channel.

    `requantizers` has the constants of the latest static products, each with the bias and its state.
    """

    def __init__(self, weight: QuantizedTensor) -> None:
        integers = weight._integers
        self.matrix = integers.movedim(1, -1).reshape(integers.shape[0], -1).t()
        self.sums = self.matrix.sum(0, dtype=dtypes.int32)
        scale, zero_point = weight._quantizer.scale, weight._quantizer.zero_point
        self.is_symmetric = not (_memory(zero_point).any() if isinstance(zero_point, Tensor) else zero_point)
        self.scale = (
            scale.float() if isinstance(scale, Tensor) else self.sums.new_full((1,), scale, dtype=dtypes.float32)
        )
        self.requantizers: dict[tuple, tuple[Tensor | None, tuple, tuple[Tensor, Tensor]]] = {}

    def requantizer(self, x: Quantizer, bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        """Offsets (int32) and multipliers of the sums, for a result of this scale."""
        if listeners:  # a recorded program computes its own
            return self.new_requantizer(x, bias, scale)
        key = x.scale, x.zero_point, scale, id(bias)
        state = () if bias is None else (bias._storage, bias._storage.version)
        cached = self.requantizers.get(key)
        if cached is None or cached[1] != state:
            if len(self.requantizers) == _MOST_REQUANTIZERS:
                del self.requantizers[next(iter(self.requantizers))]
            # the entry keeps the bias alive, so that no other tensor has its id
            cached = self.requantizers[key] = bias, state, self.new_requantizer(x, bias, scale)
        return cached[2]

    def new_requantizer(self, x: Quantizer, bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        """Compute the offsets and multipliers that `requantizer` caches."""
        steps = self.scale * x.scale
        offset = self.sums * -x.zero_point
        if bias is not None:
            bias = bias.detach()
            steps = self.fitting(steps, bias, x.scale)
            offset = offset + (bias / steps).round().to(dtypes.int32)
        return offset, steps / scale

    def fitting(self, steps: Tensor, bias: Tensor, scale: float) -> Tensor:
        """The steps of the sums, greater where the bias in steps would leave no room in 32 bits for the products.

        That is where a channel's weights are zero or nearly so: beside the bias its products do not count. The
        memory decides whether anything is changed, so that programs of other layers have no op more.
        """
        limit = float(max((1 << 31) - (1 << 17) * self.matrix.shape[0], 1 << 30))
        least = abs(_memory(self.scale)).min(initial=1.0) * scale
        if not abs(_memory(bias)).max(initial=0.0) > limit * least:
            return steps
        return steps.maximum(bias.abs() / limit)


def _memory(tensor: Tensor) -> np.ndarray:
    """The numbers in a tensor's memory. A read that programs do not record: weights of a program do not change."""
    return tensor.device.backend.download(tensor._storage.data)


def parts_of(weight: QuantizedTensor) -> WeightParts:
    """The parts of a weight, computed once for each state of its memory."""
    fields = fields_of(weight)
    known = fields.get("_parts")
    version = weight._integers._storage.version
    if known is None or known[0] != version:
        known = version, WeightParts(weight)
        if not listeners:
            fields["_parts"] = known
    return known[1]


def uses_integers(x: QuantizedTensor, weight: QuantizedTensor) -> bool:
    """Whether the int8 product takes these."""
    return (
        weight.dtype is dtypes.qint8
        and x.dtype is not dtypes.qint32
        and parts_of(weight).is_symmetric
        and weight._quantizer.scheme.is_per_channel * weight._quantizer.axis == 0
    )


def static_product(
    matrix: Tensor, x: Quantizer, weight: QuantizedTensor, bias: Tensor | None, out: Quantizer, relu: bool
) -> Tensor:
    """Integers of `out` for the rows of a matrix (rows, in) of integers of `x`, times a weight (out, in)."""
    parts = parts_of(weight)
    offset, multiplier = parts.requantizer(x, bias, out.scale)
    total = apply(byte_product, (matrix, parts.matrix))
    return requantized(total, offset, multiplier, out, relu)


def static_convolution(
    x: Tensor, x_quantizer: Quantizer, weight: QuantizedTensor, bias: Tensor | None, out: Quantizer, relu: bool,
    settings: tuple,
) -> Tensor:  # fmt: skip
    """Integers (N, H, W, O) of `out` for images (N, H, W, C). `settings`: stride, padding, dilation, groups."""
    parts = parts_of(weight)
    offset, multiplier = parts.requantizer(x_quantizer, bias, out.scale)
    low, high = out.limits
    filters = parts.matrix.t().reshape(weight.shape[0], *((1,) * (4 - weight.ndim)), *weight.shape[2:], weight.shape[1])
    zero = out.zero_point
    limits = x_quantizer.zero_point, zero, max(low, zero) if relu else low, high
    scales = multiplier.expand(weight.shape[0]).contiguous()
    return apply(byte_convolution, (x, filters.contiguous(), offset, scales), (*settings, *limits))


def requantized(total: Tensor, offset: Tensor, multiplier: Tensor, out: Quantizer, relu: bool) -> Tensor:
    """Integers of `out` for the sums of a product."""
    low, high = out.limits
    row: Pointwise = rows.requantize[out.dtype.integers.name]
    return apply(row, (total, offset, multiplier, out.zero_point, max(low, out.zero_point) if relu else low, high))


def quantized_linear(
    x: QuantizedTensor, weight: QuantizedTensor, bias: Tensor | None, scale: float, zero_point: int, relu: bool = False
) -> QuantizedTensor:
    """x @ weight.T + bias, (…, in) -> (…, out), quantized with this scale and zero point."""
    out = Quantizer(x.dtype, per_tensor_affine, scale, zero_point)
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            "Could not run 'quantized::linear' with arguments from the 'CPU' backend: a quantized layer needs a "
            "quantized input; put a QuantStub before it"
        )
    if not uses_integers(x, weight):
        values = x.dequantize().matmul(weight.dequantize().t())
        values = values if bias is None else values + bias
        return out.quantize(values.relu() if relu else values)
    matrix = x._integers.reshape(-1, x.shape[-1])
    integers = static_product(matrix, x._quantizer, weight, bias, out, relu)
    return wrap_integers(integers.reshape(*x.shape[:-1], weight.shape[0]), out)


def dynamic_linear(x: Tensor, weight: QuantizedTensor, bias: Tensor | None = None, reduce_range: bool = True) -> Tensor:
    """x @ weight.T + bias in float32, (…, in) -> (…, out): x is quantized with the scale of its own range."""
    if not (weight.dtype is dtypes.qint8 and parts_of(weight).is_symmetric and x.numel() and x.shape[-1]):
        values = x.matmul(weight.dequantize().t())
        return values if bias is None else values + bias
    parts, last = parts_of(weight), 127 if reduce_range else 255
    low, high = x.detach().aminmax()
    scale = apply(rows.range_scale, (low, high, last))
    zero = apply(rows.range_zero, (low, scale, last))
    integers = apply(rows.to_integers["uint8"], (x.detach(), scale, zero, 0, last))
    total = apply(byte_product, (integers.reshape(-1, x.shape[-1]), parts.matrix))
    shift = 0.0 if bias is None else bias
    result = apply(rows.dequantize_product, (total, parts.sums, zero, scale, parts.scale, shift))
    return result.reshape(*x.shape[:-1], weight.shape[0])


def dynamic_rows_linear(x: Tensor, integers: Tensor, weight_scale: Tensor, bias: Tensor | None) -> Tensor:
    """x @ w.T + bias, (…, in) -> (…, out), for an int8 w (out, in): each row of x has a scale; zero is the middle."""
    matrix = x.detach().float().reshape(-1, x.shape[-1])
    scale = (matrix.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
    rounded = apply(rows.to_integers["int8"], (matrix, scale, 0, -127, 127))
    total = apply(byte_product, (rounded, integers.t()))
    shift = 0.0 if bias is None else bias.detach()
    result = apply(rows.dequantize_product, (total, 0, 0, scale, weight_scale, shift))
    return result.reshape(*x.shape[:-1], integers.shape[0]).to(x.dtype)
