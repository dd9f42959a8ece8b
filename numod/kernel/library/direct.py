"""Device functions that compute a convolution by its definition.

Each computes a row of the output, a plane of the input's gradient, or one element of the weight's gradient. Rows,
planes and elements are counted over all images and groups.

Only elements inside the input are multiplied: the zeros of a border times an infinity would be NaN.
"""

from __future__ import annotations

from typing import NamedTuple

from ..language import uintp
from ..scalar import rolled_scalar, shared_scalar


class Geometry(NamedTuple):
    """The sizes of a convolution.

    Channels and features are those of one group; spatial dimensions that are missing have size and stride 1.
    """

    images: int
    groups: int
    channels: int
    features: int
    depth: int  # of the input, as height and width
    height: int
    width: int
    kernel_d: int
    kernel_h: int
    kernel_w: int
    out_d: int
    out_h: int
    out_w: int
    stride_d: int
    stride_h: int
    stride_w: int
    pad_d: int
    pad_h: int
    pad_w: int
    step_d: int  # dilation: how far apart neighbouring elements of the kernel read
    step_h: int
    step_w: int


@rolled_scalar
def convolve_row(x, weight, out, out_row, conv: Geometry):
    """Compute a row of out. Each tap adds a part of a row of the input times one weight."""
    oh = out_row % conv.out_h
    od = (out_row // conv.out_h) % conv.out_d
    feature = out_row // (conv.out_h * conv.out_d)
    image_group = feature // conv.features
    base = out_row * conv.out_w
    for ow in range(conv.out_w):
        out[uintp(base + ow)] = 0
    for c in range(conv.channels):
        for a in range(conv.kernel_d):
            d = od * conv.stride_d - conv.pad_d + a * conv.step_d
            for b in range(conv.kernel_h):
                h = oh * conv.stride_h - conv.pad_h + b * conv.step_h
                if 0 <= d < conv.depth and 0 <= h < conv.height:
                    source = (((image_group * conv.channels + c) * conv.depth + d) * conv.height + h) * conv.width
                    tap = (
                        ((feature % (conv.groups * conv.features)) * conv.channels + c) * conv.kernel_d + a
                    ) * conv.kernel_h + b
                    for k in range(conv.kernel_w):
                        shift = k * conv.step_w - conv.pad_w
                        low = max(0, -(shift // conv.stride_w))
                        high = min(conv.out_w, (conv.width - 1 - shift) // conv.stride_w + 1)
                        value = weight[uintp(tap * conv.kernel_w + k)]
                        if conv.stride_w == 1:
                            for ow in range(low, high):
                                out[uintp(base + ow)] += value * x[uintp(source + shift + ow)]
                        else:
                            for ow in range(low, high):
                                out[uintp(base + ow)] += value * x[uintp(source + shift + ow * conv.stride_w)]


@shared_scalar
def convolve_plane_back(g, weight, out, plane, conv: Geometry):
    """Compute a plane of the input's gradient. Each tap adds rows of g times one weight."""
    group = plane // conv.channels
    base = plane * conv.depth * conv.height * conv.width
    for k in range(conv.depth * conv.height * conv.width):
        out[uintp(base + k)] = 0
    for o in range(conv.features):
        for row in range(conv.out_d * conv.out_h):
            source = ((group * conv.features + o) * conv.out_d * conv.out_h + row) * conv.out_w
            for a in range(conv.kernel_d):
                d = (row // conv.out_h) * conv.stride_d - conv.pad_d + a * conv.step_d
                for b in range(conv.kernel_h):
                    h = (row % conv.out_h) * conv.stride_h - conv.pad_h + b * conv.step_h
                    if 0 <= d < conv.depth and 0 <= h < conv.height:
                        target = base + (d * conv.height + h) * conv.width
                        tap = (
                            (((group % conv.groups) * conv.features + o) * conv.channels + plane % conv.channels)
                            * conv.kernel_d
                            + a
                        ) * conv.kernel_h + b
                        for k in range(conv.kernel_w):
                            shift = k * conv.step_w - conv.pad_w
                            low = max(0, -(shift // conv.stride_w))
                            high = min(conv.out_w, (conv.width - 1 - shift) // conv.stride_w + 1)
                            value = weight[uintp(tap * conv.kernel_w + k)]
                            if conv.stride_w == 1:
                                for ow in range(low, high):
                                    out[uintp(target + shift + ow)] += value * g[uintp(source + ow)]
                            else:
                                for ow in range(low, high):
                                    out[uintp(target + shift + ow * conv.stride_w)] += value * g[uintp(source + ow)]


@rolled_scalar
def correlate_tap(g, x, tap, conv: Geometry):
    """Element `tap` of the weight's gradient: the sum of g times the input, shifted by the element's tap."""
    k = tap % conv.kernel_w
    b = (tap // conv.kernel_w) % conv.kernel_h
    a = (tap // (conv.kernel_w * conv.kernel_h)) % conv.kernel_d
    channel = (tap // (conv.kernel_w * conv.kernel_h * conv.kernel_d)) % conv.channels
    feature = tap // (conv.kernel_w * conv.kernel_h * conv.kernel_d * conv.channels)
    shift = k * conv.step_w - conv.pad_w
    low = max(0, -(shift // conv.stride_w))
    high = min(conv.out_w, (conv.width - 1 - shift) // conv.stride_w + 1)
    total = g.dtype.type(0)
    for image in range(conv.images):
        for row in range(conv.out_d * conv.out_h):
            d = (row // conv.out_h) * conv.stride_d - conv.pad_d + a * conv.step_d
            h = (row % conv.out_h) * conv.stride_h - conv.pad_h + b * conv.step_h
            if 0 <= d < conv.depth and 0 <= h < conv.height:
                source = (
                    (((image * conv.groups + feature // conv.features) * conv.channels + channel) * conv.depth + d)
                    * conv.height
                    * conv.width
                    + h * conv.width
                    + shift
                )
                g_row = ((image * conv.groups * conv.features + feature) * conv.out_d * conv.out_h + row) * conv.out_w
                if conv.stride_w == 1:
                    for ow in range(low, high):
                        total += g[uintp(g_row + ow)] * x[uintp(source + ow)]
                else:
                    for ow in range(low, high):
                        total += g[uintp(g_row + ow)] * x[uintp(source + ow * conv.stride_w)]
    return total
