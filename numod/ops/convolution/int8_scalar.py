"""The convolution of bytes without vectors: by elements for any device, and for small processors."""

from __future__ import annotations

from ...kernel.language import float32, int32, int64, parallel_range, uintp
from ...kernel.library.arithmetic import round_small


def plain_convolution(
    x, weight, offset, multiplier, out, images, height, width, channels, out_height, out_width, filters, taps_y, taps_x,
    step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
):  # fmt: skip
    """out (N, OH, OW, O) = the integers of the convolution of x, element by element. Pixels outside are `fill`."""
    depth = channels // groups
    for task in parallel_range(images * out_height * out_width * filters):
        index, total = int64(task), int32(0)
        f, pixel = index % filters, index // filters
        column, row, image = pixel % out_width, pixel // out_width % out_height, pixel // (out_width * out_height)
        for tap in range(taps_y * taps_x):
            y, x_at = row * step_y - pad_y + tap // taps_x * gap_y, column * step_x - pad_x + tap % taps_x * gap_x
            inside = 0 <= y < height and 0 <= x_at < width
            start = ((image * height + y) * width + x_at) * channels + f // (filters // groups) * depth
            for c in range(depth):
                value = int32(x[start + c]) if inside else int32(fill)
                total += value * int32(weight[(f * taps_y * taps_x + tap) * depth + c])
        value = float32(total + offset[f]) * multiplier[f]
        out[index] = int32(round_small(min(max(value, float32(low - zero)), float32(high - zero)))) + int32(zero)


def scalar_convolution(
    x, weight, offset, multiplier, out, images, height, width, channels, out_height, out_width, filters, taps_y, taps_x,
    step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
    *, scaled,
):  # fmt: skip
    """As `plain_convolution`, for processors without vectors: few instructions, with 32-bit indices, and no scratch.

    Taps from `first` to `last` are inside of the image. `scaled` is a function of `requantize`.
    """
    tall, wide, out_wide, depth = int32(height), int32(width), int32(out_width), int32(channels // groups)
    filters_each, line, row_size = int32(filters // groups), int32(taps_x * depth), int32(width * channels)
    pixel_size, step, tap_step = int32(channels), int32(step_x), int32(gap_x * channels)
    gap, line_gap, padding, outer = int32(gap_x), int32(gap_y), int32(pad_x), int32(fill)
    least, most, middle = int32(low - zero), int32(high - zero), int32(zero)
    for task in parallel_range(images * out_height):
        image_at = int32(int64(task) // out_height * tall * row_size)
        top, target = int32(int64(task) % out_height * step_y - pad_y), int32(int64(task) * out_wide * filters)
        for column in range(out_wide):
            left, first, last = int32(column * step - padding), int32(0), int32(taps_x)
            while first < last and int32(left + int32(first * gap)) < int32(0):
                first = int32(first + 1)
            while last > first and int32(left + int32(int32(last - 1) * gap)) >= wide:
                last = int32(last - 1)
            weight_at, f, channel = int32(0), int32(0), int32(0)
            for _ in range(int32(groups)):
                start = int32(image_at + int32(int32(left * pixel_size) + channel))
                for _ in range(filters_each):
                    total, y = int32(offset[uintp(f)]), top
                    for _ in range(int32(taps_y)):
                        begin, end, outside = int32(0), int32(0), int32(0)
                        if int32(0) <= y and y < tall:
                            begin, end = int32(first * depth), int32(last * depth)
                            source = int32(start + int32(y * row_size))
                            if groups == 1 and gap_x == 1:  # the line is contiguous
                                for k in range(begin, end):
                                    product = int32(x[uintp(int32(source + k))]) * int32(
                                        weight[uintp(int32(weight_at + k))]
                                    )
                                    total = int32(total + product)
                            else:
                                for c in range(depth):
                                    at = int32(int32(source + c) + int32(first * tap_step))
                                    for k in range(int32(begin + c), end, depth):
                                        total = int32(
                                            total + int32(x[uintp(at)]) * int32(weight[uintp(int32(weight_at + k))])
                                        )
                                        at = int32(at + tap_step)
                        for k in range(begin):
                            outside = int32(outside + weight[uintp(int32(weight_at + k))])
                        for k in range(end, line):
                            outside = int32(outside + weight[uintp(int32(weight_at + k))])
                        total = int32(total + int32(outer * outside))
                        weight_at, y = int32(weight_at + line), int32(y + line_gap)
                    out[uintp(target)] = scaled(total, multiplier[uintp(f)], least, most) + middle
                    f, target = int32(f + 1), int32(target + 1)
                channel = int32(channel + depth)
