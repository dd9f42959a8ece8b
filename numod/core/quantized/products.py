"""Products with a quantized weight: static ones give a quantized result, dynamic ones a float one.

x @ w.T with x = sx * (a - zx) and w = sw * b is sx * sw * (a @ b.T - zx * sum(b)): a product of integers with 32-bit
sums, which `ops.matmul.int8_linear` scales tile by tile. Weights with zero points go through float32.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from ... import dtypes
from ...ops import quantize as rows
from ...ops.matmul import int8_linear
from ...ops.matmul.int8 import byte_product
from ...ops.op import Op, Packing
from ...ops.sequence import int8_layer
from ...ops.view import slice_
from ..apply import apply
from ..derived import data_of, derived
from ..listeners import lies_dense, listeners
from ..tensor import Tensor
from .schemes import per_tensor_affine
from .tensor import QuantizedTensor, Quantizer, wrap_integers


class WeightParts:
    """What products need of a quantized weight (out, in, ...): integers as a matrix, their sums, the scales.

    The matrix is (out, in); of a convolution's weight its columns are ordered by tap, then by channel.
    """

    def __init__(self, weight: QuantizedTensor) -> None:
        integers = weight._integers
        self.matrix = integers.movedim(1, -1).reshape(integers.shape[0], -1).contiguous()
        self.sums = self.matrix.sum(1, dtype=dtypes.int32)
        scale = weight._quantizer.scale
        self.scale = (
            scale.float() if isinstance(scale, Tensor) else self.sums.new_full((1,), scale, dtype=dtypes.float32)
        )
        self.column_scale = self.scale.expand(self.matrix.shape[0]).contiguous()
        self.largest_scale = float(data_of(scale).max(initial=0.0)) if isinstance(scale, Tensor) else scale
        count, channels, *taps = integers.shape if integers.ndim > 2 else (*integers.shape, 1)
        self.filters = self.matrix.reshape(count, *((1,) * (2 - len(taps))), *taps, channels)  # of a convolution

    def shift(self, bias: Tensor | None) -> Tensor:
        """The bias as a row of float32, or zeros."""
        return _row(bias, self.column_scale)

    def rounds_bias(self, x: Quantizer, bias: Tensor | None, scale: float) -> bool:
        """Whether a bias rounded to the steps of the sums moves a result of this scale by more than 1.

        That is where the steps are coarser than the scale, which calibration does not choose.
        """
        return bias is not None and x.scale * self.largest_scale > scale

    def requantizer(self, x: Quantizer, bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        """Offsets (int32) and multipliers of the sums, for a result of this scale."""
        key = "requantizer", x.scale, x.zero_point, scale, id(bias)
        return derived(self.sums, key, partial(self.new_requantizer, x, bias, scale), bias)

    def new_requantizer(self, x: Quantizer, bias: Tensor | None, scale: float) -> tuple[Tensor, Tensor]:
        """Compute the offsets and multipliers that `requantizer` caches."""
        steps = self.scale * x.scale
        offset = self.sums * -x.zero_point
        if bias is not None:
            bias = bias.detach()
            steps = self.fitting(steps, bias, x.scale)
            offset = offset + (bias / steps).round().to(dtypes.int32)
        return offset, (steps / scale).expand(self.matrix.shape[0]).contiguous()

    def fitting(self, steps: Tensor, bias: Tensor, scale: float) -> Tensor:
        """The steps of the sums, greater where the bias in steps would leave no room in 32 bits for the products.

        That is where a channel's weights are zero or nearly so: beside the bias its products do not count. A program
        decides at each run, since the bias may be written to; in eager mode the memory decides whether ops are needed.
        """
        limit = float(max((1 << 31) - (1 << 17) * self.matrix.shape[1], 1 << 30))
        if not listeners:
            least = abs(data_of(self.scale)).min(initial=1.0) * scale
            if not abs(data_of(bias)).max(initial=0.0) > limit * least:
                return steps
        return steps.maximum(bias.abs() / limit)


def apply_packed(op: Op, x: Tensor, weight: Tensor, others: tuple, attributes: tuple) -> Any:
    """An op of x, an int8 weight and others, all contiguous. The weight is packed once for each state of its memory.

    Recorded programs have the weight as it is: freezing packs it.
    """
    packing = None if listeners else op.prepack((x._layout, weight._layout), attributes)
    if packing is None:
        return apply(op, (x, weight, *others), attributes)
    return apply(packing.product, (x, weight, *others, packed_weight(weight, packing)), attributes)


def packed_weight(weight: Tensor, packing: Packing) -> Tensor:
    """A contiguous weight in its packed form."""
    key = packing.op, packing.attributes
    return derived(weight, key, partial(apply, packing.op, (weight,), packing.attributes))


def _row(bias: Tensor | None, like: Tensor) -> Tensor:
    """A bias as a contiguous row of the shape and dtype of another, or zeros. Raises RuntimeError for other shapes."""
    if bias is None:
        return like.new_zeros(like.shape[0])
    if bias._layout is like._layout and not (listeners and bias.requires_grad):  # these ops record no gradients
        return bias
    bias = _plain(bias).to(like.dtype)
    return (bias if bias.shape == like.shape else bias.expand(like.shape)).contiguous()


def _plain(tensor: Tensor) -> Tensor:
    """A tensor without its history."""
    return tensor.detach() if tensor.requires_grad else tensor


def _dense(tensor: Tensor) -> Tensor:
    """A tensor as `contiguous` returns it, without a call for one that is contiguous."""
    return tensor if lies_dense(tensor) else tensor.contiguous()


def parts_of(weight: QuantizedTensor) -> WeightParts:
    """The parts of a weight, computed once for each state of its memory.

    Several weights may have the same integers, such as the one that `mul_scalar` returns: each has its own quantizer.
    """
    quantizer = weight._quantizer
    scale = quantizer.scale if isinstance(quantizer.scale, Tensor) else None
    return derived(weight._integers, ("parts", quantizer), partial(WeightParts, weight), scale)


def uses_integers(x: QuantizedTensor, weight: QuantizedTensor, axis: int = 0) -> bool:
    """Whether the int8 product takes these. `axis`: the dimension of a weight's output channels."""
    return (
        0 not in weight._layout.shape
        and weight._quantizer.dtype is dtypes.qint8
        and x._quantizer.dtype is not dtypes.qint32
        and weight._quantizer.is_symmetric
        and (not weight._quantizer.scheme.is_per_channel or weight._quantizer.axis == axis)
    )


def static_product(
    matrix: Tensor, x: Quantizer, parts: WeightParts, bias: Tensor | None, out: Quantizer, relu: bool
) -> Tensor:
    """Integers of `out` for the rows of a matrix (rows, in) of integers of `x`, times a weight (out, in)."""
    low, high = out.limits
    offset, multiplier = parts.requantizer(x, bias, out.scale)
    zero = out.zero_point
    limits = zero, max(low, zero) if relu else low, high
    return apply_packed(int8_linear.byte_linear, matrix.contiguous(), parts.matrix, (offset, multiplier), limits)


def expect_one_scale(x: Any, name: str) -> None:
    """Raise an error unless x is what static layers take: a quantized tensor of a per-tensor scheme."""
    if not isinstance(x, QuantizedTensor):
        raise NotImplementedError(
            f"Could not run 'quantized::{name}' with arguments from the 'CPU' backend: a quantized layer needs a "
            "quantized input; put a QuantStub before it"
        )
    if x._quantizer.scheme.is_per_channel:
        raise RuntimeError(
            f"quantized::{name}: expected an input with one scale, but its scheme is {x._quantizer.scheme}; quantize "
            "the result of dequantize() by numod.quantize_per_tensor"
        )


def quantized_linear(
    x: QuantizedTensor, weight: QuantizedTensor, bias: Tensor | None, scale: float, zero_point: int, relu: bool = False
) -> QuantizedTensor:
    """x @ weight.T + bias, (…, in) -> (…, out), quantized with this scale and zero point."""
    expect_one_scale(x, "linear")
    out = Quantizer(x._quantizer.dtype, per_tensor_affine, scale, zero_point)
    parts = parts_of(weight) if uses_integers(x, weight) else None
    if parts is None or parts.rounds_bias(x._quantizer, bias, scale):
        values = x.dequantize().matmul(weight.dequantize().t())
        values = values if bias is None else values + bias
        return out.quantize(values.relu() if relu else values)
    integers = x._integers
    shape = integers.shape
    matrix = integers if len(shape) == 2 else integers.reshape(-1, shape[-1])
    result = static_product(matrix, x._quantizer, parts, bias, out, relu)
    return wrap_integers(result if len(shape) == 2 else result.reshape(*shape[:-1], result.shape[1]), out)


def _by_own_range(x: Tensor, last: int) -> tuple[Tensor, Tensor, Tensor]:
    """Integers from 0 to `last`, the scale of the tensor's range, and the zero point."""
    low, high = x.aminmax()
    scale = apply(rows.range_scale, (low, high, last))
    zero = apply(rows.range_zero, (low, scale, last))
    return apply(rows.to_integers["uint8"], (x, scale, zero, 0, last)), scale, zero


def rounded_by_own_range(x: Tensor, reduce_range: bool = True) -> Tensor:
    """The values of `quantize_per_tensor_dynamic(x, quint8, reduce_range)`, by ops that a program can record."""
    if not x.numel():
        return x
    integers, scale, zero = _by_own_range(_plain(x), 127 if reduce_range else 255)
    return (integers.to(scale.dtype) - zero) * scale


def dynamic_linear(x: Tensor, weight: QuantizedTensor, bias: Tensor | None = None, reduce_range: bool = True) -> Tensor:
    """x @ weight.T + bias in float32, (…, in) -> (…, out): x is quantized with the scale of its own range."""
    is_empty = 0 in weight._layout.shape or not x._layout.size
    if is_empty or not (weight._quantizer.dtype is dtypes.qint8 and weight._quantizer.is_symmetric):
        values = x.matmul(weight.dequantize().t())
        return values if bias is None else values + bias
    parts, last = parts_of(weight), 127 if reduce_range else 255
    shape, matrix = x._layout.shape, _plain(x)
    matrix = _dense(matrix if len(shape) == 2 else matrix.reshape(-1, shape[-1]))
    columns = weight._layout.shape[0]
    if matrix._layout.device.type == "cpu" and matrix._layout.dtype is dtypes.float32:
        inputs = parts.column_scale, parts.shift(bias)
        result = apply_packed(int8_linear.dynamic_linear, matrix, parts.matrix, inputs, (last,))
    else:
        integers, scale, zero = _by_own_range(matrix, last)
        total = apply(byte_product, (integers, parts.matrix.t()))
        shift = 0.0 if bias is None else bias
        result = apply(rows.dequantize_product, (total, parts.sums, zero, scale, parts.scale, shift))
    return result if len(shape) == 2 else result.reshape(*shape[:-1], columns)


def dynamic_rows_linear(x: Tensor, integers: Tensor, weight_scale: Tensor, bias: Tensor | None) -> Tensor:
    """x @ w.T + bias, (…, in) -> (…, out), for an int8 w (out, in): each row of x has a scale; zero is the middle."""
    matrix, weight_scale = x.detach().float().reshape(-1, x.shape[-1]).contiguous(), weight_scale.float()
    if matrix.device.type == "cpu":
        others = weight_scale.contiguous(), _row(bias, weight_scale)
        result = apply_packed(int8_linear.dynamic_linear, matrix, integers.contiguous(), others, (0,))
    else:
        scale = (matrix.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
        rounded = apply(rows.to_integers["int8"], (matrix, scale, 0, -127, 127))
        total = apply(byte_product, (rounded, integers.t()))
        shift = 0.0 if bias is None else bias.detach()
        result = apply(rows.dequantize_product, (total, 0, 0, scale, weight_scale, shift))
    return result.reshape(*x.shape[:-1], integers.shape[0]).to(x.dtype)


def runs_layer(x: Tensor, start: tuple, weight: Tensor) -> bool:
    """Whether `dynamic_layer` takes inputs and states like these and this recurrent weight."""
    if not isinstance(weight, QuantizedTensor) or x._layout.device.type != "cpu":
        return False
    is_plain = all([tensor._layout.dtype is dtypes.float32 for tensor in (x, *start)])
    return is_plain and weight._quantizer.dtype is dtypes.qint8 and weight._quantizer.is_symmetric


def dynamic_layer(
    mode: str, gates: Tensor, weight: QuantizedTensor, bias: Tensor | None, start: tuple, reverse: bool
) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """All states (steps * N, H) of an LSTM or GRU layer in one direction, and views of the last ones (N, H).

    States are h, and c of an LSTM. `gates` (steps * N, gates) is the input's part of the gates. The states are
    quantized at each step.
    """
    op, parts = int8_layer.dynamic_lstm if mode == "LSTM" else int8_layer.dynamic_gru, parts_of(weight)
    start = map(_plain, start) if listeners else start  # the op records no gradients
    others = parts.column_scale, parts.shift(bias), *[_dense(state) for state in start]
    states = apply_packed(op, _dense(gates), parts.matrix, others, (127, reverse))
    (rows, _), (batch, _) = gates._layout.shape, others[2]._layout.shape
    if rows == batch:
        return states, states
    bounds = 0, 0 if reverse else rows - batch, batch, 1
    return states, tuple([apply(slice_, (state,), bounds) for state in states])


def zero_state(weight: QuantizedTensor, batch: int, size: int) -> Tensor:
    """Zeros (N, H) as the first state for a recurrent weight, made once for each N. Nothing may write to them."""
    scale = parts_of(weight).column_scale
    return derived(scale, ("zeros", batch, size), lambda: scale.new_zeros((batch, size)))
