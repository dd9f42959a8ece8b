"""Functions of kernels that convolve directly: a line of the output, a plane of the input's gradient, or an element of the weight's, by itself.

Only elements that exist are multiplied: next to an infinity the zeros of a border would make NaN. Every function is told the geometry of
`ops.convolution_direct`; what a kernel's index arithmetic is, stands there.
"""

from __future__ import annotations

from ..scalar import shared_scalar

# The geometry: channels and features are those of one group; places count the lines, planes or elements of all images and groups.


@shared_scalar
def convolve_line(
    x, weight, out, place,
    images, groups, channels, features, depth, height, width, kernel_d, kernel_h, kernel_w, out_d, out_h, out_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w,
):  # fmt: skip
    """Line `place` of out: each tap adds a stretch of a line of the input times its weight."""
    oh = place % out_h
    od = (place // out_h) % out_d
    feature = place // (out_h * out_d)
    image_group = feature // features
    base = place * out_w
    for ow in range(out_w):
        out[uintp(base + ow)] = 0
    for c in range(channels):
        for a in range(kernel_d):
            d = od * stride_d - pad_d + a * step_d
            for b in range(kernel_h):
                h = oh * stride_h - pad_h + b * step_h
                if 0 <= d < depth and 0 <= h < height:
                    source = (((image_group * channels + c) * depth + d) * height + h) * width
                    tap = (((feature % (groups * features)) * channels + c) * kernel_d + a) * kernel_h + b
                    for k in range(kernel_w):
                        shift = k * step_w - pad_w
                        low = max(0, -(shift // stride_w))
                        high = min(out_w, (width - 1 - shift) // stride_w + 1)
                        value = weight[uintp(tap * kernel_w + k)]
                        if stride_w == 1:
                            for ow in range(low, high):
                                out[uintp(base + ow)] += value * x[uintp(source + shift + ow)]
                        else:
                            for ow in range(low, high):
                                out[uintp(base + ow)] += value * x[uintp(source + shift + ow * stride_w)]


@shared_scalar
def convolve_back(
    g, weight, out, place,
    images, groups, channels, features, depth, height, width, kernel_d, kernel_h, kernel_w, out_d, out_h, out_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w,
):  # fmt: skip
    """Plane `place` of out, the input's gradient: each tap adds lines of g times its weight."""
    group = place // channels
    base = place * depth * height * width
    for k in range(depth * height * width):
        out[uintp(base + k)] = 0
    for o in range(features):
        for row in range(out_d * out_h):
            source = ((group * features + o) * out_d * out_h + row) * out_w
            for a in range(kernel_d):
                d = (row // out_h) * stride_d - pad_d + a * step_d
                for b in range(kernel_h):
                    h = (row % out_h) * stride_h - pad_h + b * step_h
                    if 0 <= d < depth and 0 <= h < height:
                        target = base + (d * height + h) * width
                        tap = (
                            (((group % groups) * features + o) * channels + place % channels) * kernel_d + a
                        ) * kernel_h + b
                        for k in range(kernel_w):
                            shift = k * step_w - pad_w
                            low = max(0, -(shift // stride_w))
                            high = min(out_w, (width - 1 - shift) // stride_w + 1)
                            value = weight[uintp(tap * kernel_w + k)]
                            if stride_w == 1:
                                for ow in range(low, high):
                                    out[uintp(target + shift + ow)] += value * g[uintp(source + ow)]
                            else:
                                for ow in range(low, high):
                                    out[uintp(target + shift + ow * stride_w)] += value * g[uintp(source + ow)]


@shared_scalar
def correlate(
    g, x, place,
    images, groups, channels, features, depth, height, width, kernel_d, kernel_h, kernel_w, out_d, out_h, out_w, stride_d, stride_h, stride_w, pad_d, pad_h, pad_w, step_d, step_h, step_w,
):  # fmt: skip
    """Element `place` of the weight's gradient: the sum of the products of g and the input shifted by the element's tap."""
    k = place % kernel_w
    b = (place // kernel_w) % kernel_h
    a = (place // (kernel_w * kernel_h)) % kernel_d
    channel = (place // (kernel_w * kernel_h * kernel_d)) % channels
    feature = place // (kernel_w * kernel_h * kernel_d * channels)
    shift = k * step_w - pad_w
    low = max(0, -(shift // stride_w))
    high = min(out_w, (width - 1 - shift) // stride_w + 1)
    total = g.dtype.type(0)
    for image in range(images):
        for row in range(out_d * out_h):
            d = (row // out_h) * stride_d - pad_d + a * step_d
            h = (row % out_h) * stride_h - pad_h + b * step_h
            if 0 <= d < depth and 0 <= h < height:
                source = (
                    (((image * groups + feature // features) * channels + channel) * depth + d) * height * width
                    + h * width
                    + shift
                )
                given = ((image * groups * features + feature) * out_d * out_h + row) * out_w
                if stride_w == 1:
                    for ow in range(low, high):
                        total += g[uintp(given + ow)] * x[uintp(source + ow)]
                else:
                    for ow in range(low, high):
                        total += g[uintp(given + ow)] * x[uintp(source + ow * stride_w)]
    return total
