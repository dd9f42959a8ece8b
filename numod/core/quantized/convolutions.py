"""Convolutions with a quantized weight, of one to three dimensions, also transposed: integers in, integers out.

All use the two-dimensional op `byte_convolution`. The taps along the depth become further channels. A transposed
convolution with stride s is s convolutions for each dimension, one for each residue of the output's position: each
reads every s-th tap.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from itertools import product
from math import gcd, prod
from typing import NamedTuple

from ...ops.convolution.int8 import byte_convolution
from ..derived import derived
from ..shape.joining import cat, stack
from ..tensor import Tensor
from .products import apply_packed, parts_of
from .tensor import QuantizedTensor, Quantizer, wrap_integers

# Whether layers are recorded for ONNX, which has them as float layers between integers.
records_float_layers: ContextVar[bool] = ContextVar("records_float_layers", default=False)


class Settings(NamedTuple):
    """Of a convolution: numbers for each dimension, and the groups."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


def static_convolution(
    x: Tensor, x_quantizer: Quantizer, weight: QuantizedTensor, bias: Tensor | None, out: Quantizer, relu: bool,
    settings: Settings,
) -> Tensor | None:  # fmt: skip
    """Integers (N, *sizes, O) of `out` for images (N, *sizes, C), by filters (O, C / groups, *taps).

    None where the steps of the sums are too coarse for the bias.
    """
    parts = parts_of(weight)
    if parts.rounds_bias(x_quantizer, bias, out.scale):
        return None
    offset, multiplier = parts.requantizer(x_quantizer, bias, out.scale)
    low, high = out.limits
    zero = out.zero_point
    limits = x_quantizer.zero_point, zero, max(low, zero) if relu else low, high
    lines, filters, (stride, padding, dilation, groups) = x.ndim - 2, parts.filters, settings
    if lines == 1:
        x, stride, padding, dilation = x.unsqueeze(1), (1, *stride), (0, *padding), (1, *dilation)
    elif lines == 3:
        x = _depth_as_channels(x, filters.shape[1], settings, x_quantizer.zero_point)
        filters = filters.movedim(1, 3).flatten(3).contiguous()
        depth, stride, padding, dilation = x.shape[1], stride[1:], padding[1:], dilation[1:]
        x = x.flatten(0, 1)
    attributes = stride, padding, dilation, groups, *limits
    result = apply_packed(byte_convolution, x.contiguous(), filters, (offset, multiplier), attributes)
    return result.squeeze(1) if lines == 1 else result.unflatten(0, (-1, depth)) if lines == 3 else result


def _depth_as_channels(x: Tensor, taps: int, settings: Settings, fill: int) -> Tensor:
    """(N, OD, H, W, groups * taps * C / groups) of (N, D, H, W, C): what the taps along the depth read."""
    (stride, padding, dilation), groups = (sizes[0] for sizes in settings[:3]), settings.groups
    if padding:
        border = x.new_full((len(x), padding, *x.shape[2:]), fill)
        x = cat([border, x, border], 1)
    reach = dilation * (taps - 1) + 1
    if x.shape[1] < reach:
        raise RuntimeError(
            f"quantized convolution: a kernel of {taps} is larger than the padded input of depth {x.shape[1]}"
        )
    last = (x.shape[1] - reach) // stride * stride + 1
    x = x.unflatten(-1, (groups, -1))
    return stack([x[:, k * dilation : k * dilation + last : stride] for k in range(taps)], -2).flatten(-3)


def static_transposed_convolution(
    x: Tensor, x_quantizer: Quantizer, weight: QuantizedTensor, bias: Tensor | None, out: Quantizer,
    settings: Settings, output_padding: tuple[int, ...],
) -> Tensor | None:  # fmt: skip
    """Integers (N, *sizes, O) of `out` for images (N, *sizes, C), by a weight (C, O / groups, *taps).

    None where the steps of the sums are too coarse for the bias.
    """
    sizes, taps = x.shape[1:-1], weight._integers.shape[2:]
    out_sizes = [
        (size - 1) * step - 2 * pad + gap * (count - 1) + more + 1
        for size, count, more, step, pad, gap in zip(sizes, taps, output_padding, *settings[:3])
    ]
    if min(out_sizes) < 1:
        raise RuntimeError(f"quantized convolution: the output would have the sizes {tuple(out_sizes)}")
    phases = [
        [_Phase.of(residue, size, of_output, count, step, pad, gap) for residue in range(min(step, of_output))]
        for size, of_output, count, step, pad, gap in zip(sizes, out_sizes, taps, *settings[:3])
    ]
    channels, x = weight._integers.shape[1] * settings.groups, x.contiguous()
    result = None if prod(settings.stride) == 1 else x.new_empty((len(x), *out_sizes, channels))
    for phase in product(*phases):
        if prod(row.count for row in phase):
            plain = Settings(*zip(*[(1, row.padding, row.dilation) for row in phase]), settings.groups)
            filters = _filters(weight, settings.groups, tuple([(row.first, row.step, row.count) for row in phase]))
            integers = static_convolution(x, x_quantizer, filters, bias, out, False, plain)
            if integers is None:
                return None
            for dim, row in enumerate(phase, 1):
                integers = integers.narrow(dim, row.start, row.positions)
        else:  # no tap reaches these positions
            integers = out.quantize(x.new_zeros(channels).float() if bias is None else bias)._integers
        if result is None:
            return integers
        part = result
        for dim, (row, step) in enumerate(zip(phase, settings.stride), 1):
            part = part[(slice(None),) * dim + (slice(row.residue, None, step),)]
        part.copy_(integers)
    return result


class _Phase(NamedTuple):
    """The convolution along a dimension for output positions of a residue: its taps `first`, `first - step`, ...

    Of its results with this padding, the `positions` from `start` are the output's.
    """

    residue: int
    first: int = 0
    step: int = 1
    count: int = 0
    dilation: int = 1
    padding: int = 0
    start: int = 0
    positions: int = 0

    @classmethod
    def of(cls, residue: int, size: int, of_output: int, taps: int, stride: int, padding: int, gap: int) -> _Phase:
        """Position residue + stride * m reads element m + (residue + padding - gap * tap) / stride for such taps."""
        matching = [tap for tap in range(taps) if (residue + padding - gap * tap) % stride == 0]
        if not matching:
            return cls(residue)
        shared, first, count = gcd(stride, gap), matching[-1], len(matching)
        before, positions = (gap * first - residue - padding) // stride, -(-(of_output - residue) // stride)
        after = positions - before + gap // shared * (count - 1) - size
        border = max(before, after, 0)
        return cls(residue, first, stride // shared, count, gap // shared, border, border - before, positions)


def _filters(weight: QuantizedTensor, groups: int, taps: tuple[tuple[int, int, int], ...]) -> QuantizedTensor:
    """The filters (O, C / groups, *counts) of a phase, computed once for each state of the weight's memory."""
    quantizer = weight._quantizer
    known = derived(weight._integers, ("phases", quantizer), dict)
    if (groups, taps) not in known:
        filters = weight._integers.unflatten(0, (groups, -1)).movedim(2, 1).flatten(0, 1)
        for dim, (first, step, count) in enumerate(taps, 2):
            places = filters.new_tensor([first - step * k for k in range(count)]).long()
            filters = filters.index_select(dim, places)
        if quantizer.scheme.is_per_channel:
            quantizer = replace(quantizer, axis=0)
        known[groups, taps] = wrap_integers(filters.contiguous(), quantizer)
    return known[groups, taps]
