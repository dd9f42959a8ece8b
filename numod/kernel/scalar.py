"""Device functions that kernels call besides those of `math`: random bits, and mathematics that `math` lacks. Their text is copied into each kernel.

Written for every target: plain arithmetic on numbers, or on one row of a flat array (from `base` in steps of `step`); no exceptions. Float literals take the
kernel's `real` type.
"""

from __future__ import annotations

functions: dict[str, object] = {}
wide: set[object] = set()  # functions whose float literals stay float64
inlined: set[object] = set()  # functions that a processor's kernels hold wherever they call them


def scalar(function: object) -> object:
    """Make a function callable from kernels."""
    functions[function.__name__] = function
    return function


def wide_scalar(function: object) -> object:
    """Make a function callable from kernels that computes in float64 whatever the kernel's type."""
    wide.add(function)
    return scalar(function)


def inlined_scalar(function: object) -> object:
    """Make a function callable from kernels that LLVM finds too long to inline, though a loop around it becomes vectors only where it is."""
    inlined.add(function)
    return scalar(function)


@inlined_scalar
def philox(seed, counter, lane):
    """Word `lane` % 4 of the 128 random bits of Philox4x32-10 for key seed and counter (counter, lane // 4). Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011."""
    key0 = uint64(seed) & uint64(0xFFFFFFFF)
    key1 = uint64(seed) >> uint64(32)
    c0 = uint64(counter) & uint64(0xFFFFFFFF)
    c1 = uint64(counter) >> uint64(32)
    c2 = uint64(lane) >> uint64(2)
    c3 = uint64(0)
    for _ in range(10):
        product0 = uint64(0xD2511F53) * c0
        product1 = uint64(0xCD9E8D57) * c2
        c0 = (product1 >> uint64(32)) ^ c1 ^ key0
        c1 = product1 & uint64(0xFFFFFFFF)
        c2 = (product0 >> uint64(32)) ^ c3 ^ key1
        c3 = product0 & uint64(0xFFFFFFFF)
        key0 = (key0 + uint64(0x9E3779B9)) & uint64(0xFFFFFFFF)
        key1 = (key1 + uint64(0xBB67AE85)) & uint64(0xFFFFFFFF)
    low, high = c0 | (c1 << uint64(32)), c2 | (c3 << uint64(32))
    return ((high if lane & 2 else low) >> (uint64(lane & 1) << uint64(5))) & uint64(0xFFFFFFFF)


@scalar
def unit(high, low):
    """A number in [0, 1) from two random words: 24 bits of the first in float32, 53 bits of both in float64."""
    value = real(int64(high >> uint64(8))) * 5.9604644775390625e-08
    if 1.0 + 1e-12 != 1.0:
        value = value + real(int64(((high & uint64(255)) << uint64(21)) | (low >> uint64(11)))) * 1.1102230246251565e-16
    return value


@inlined_scalar
def random_pair(seed, offset, index):
    """64 random bits for element `index`: two words of counter offset + index."""
    high = philox(seed, int64(offset) + int64(index), 0)
    low = philox(seed, int64(offset) + int64(index), 1)
    return (high << uint64(32)) | low


@inlined_scalar
def random_uniform(seed, offset, index):
    """A number in [0, 1), exact in the kernel's type; float32 and float64 agree in the leading 24 bits."""
    counter = int64(offset) + (int64(index) >> 2)
    lane = int64(index) & 3
    return unit(philox(seed, counter, lane), philox(seed, counter, lane + 4))


@inlined_scalar
def random_normal(seed, offset, index):
    """A standard normal number (Box and Muller, 1958), from the words of counter offset + index."""
    counter = int64(offset) + int64(index)
    u = unit(philox(seed, counter, 0), philox(seed, counter, 1))
    v = unit(philox(seed, counter, 2), philox(seed, counter, 3))
    return sqrt(-2.0 * log(1.0 - u)) * cos(6.283185307179586 * v)


@inlined_scalar
def random_below(seed, offset, index, bound):
    """An integer in [0, bound): 64 random bits modulo bound (bias below bound / 2^64)."""
    return int64((random_pair(seed, offset, index) >> uint64(1)) % uint64(bound))


@scalar
def lifted_exp(x):
    """exp(x) for x <= 0, times a power of two that `lifted_exp(0.0)` tells: so great a one that none is subnormal, and one scaling is enough."""
    return exp(x)


@scalar
def exp2(x):
    """2 to the power x, where the target has no function of its own."""
    return 2.0**x


@scalar
def power(x, y):
    """x to the power y, where the target has no function of its own."""
    return x**y


@scalar
def normal_cdf(x):
    """The share of a standard normal distribution below x, for float32 to an absolute error of 1e-8."""
    return 0.5 * erfc(-0.7071067811865476 * x)


@scalar
def erfinv(x):
    """Inverse error function: Winitzki's approximation (2008), then Newton steps with the true erf; exact to rounding inside (-1, 1)."""
    if x <= -1.0 or x >= 1.0 or x != x:
        return copysign(real(1e400), x) if (x == 1.0 or x == -1.0) else real(1e400) - real(1e400)
    logarithm = log1p(-x * x)
    middle = 4.330746750799873 + 0.5 * logarithm
    value = copysign(sqrt(sqrt(middle * middle - logarithm * 6.802721088435375) - middle), x)
    for _ in range(3):
        error = erf(value) - x if fabs(x) < 0.5 else ((1.0 - fabs(x)) - erfc(fabs(value))) * copysign(real(1.0), x)
        value = value - error * 0.886226925452758 * exp(value * value)
    return value


@scalar
def round_even(x):
    """Nearest integer, halves to even, the sign of zero kept."""
    low = floor(x)
    part = x - low
    up = part > 0.5 or (part == 0.5 and low - 2.0 * floor(0.5 * low) != 0.0)
    return copysign(low + 1.0 if up else low, x)


@scalar
def float_remainder(x, y):
    """C's fmod: exact, with the sign of x. (Numba lacks math.fmod; between positive numbers % is the same.)"""
    return copysign(fabs(x) % fabs(y), x)


@scalar
def floor_quotient(x, y):
    """Quotient rounded towards minus infinity, exact where it is an integer; x / 0 is an infinity or NaN, as in PyTorch."""
    if y == 0.0:
        return x / y
    part = float_remainder(x, y)
    quotient = (x - part) / y
    if part != 0.0 and (y < 0.0) != (part < 0.0):
        quotient = quotient - 1.0
    if quotient == 0.0:
        return copysign(real(0.0), x / y)
    low = floor(quotient)
    return low + 1.0 if quotient - low > 0.5 else low


@scalar
def modulus(x, y):
    """Remainder with the sign of the divisor."""
    part = float_remainder(x, y)
    return part + y if part != 0.0 and (y < 0.0) != (part < 0.0) else part


@scalar
def truncated(x, y):
    """Integer quotient rounded towards zero; 0 where the divisor is 0 (the caller refuses that first)."""
    if y == 0:
        return 0 * x
    quotient = x // y
    return quotient + 1 if quotient < 0 and quotient * y != x else quotient


@scalar
def larger(x, y):
    """The greater of two; NaN where one is."""
    return x if (x > y) | (x != x) else y


@scalar
def smaller(x, y):
    """The lesser of two; NaN where one is."""
    return x if (x < y) | (x != x) else y


@scalar
def greatest(x, base, n, step):
    """The greatest of n elements; NaN where there is one."""
    high = x[uintp(base)]
    for k in range(n):
        high = larger(high, x[uintp(base + k * step)])
    return high


@scalar
def sum_of_exp(x, base, n, step, high):
    """exp(x - high), summed."""
    total = real(0.0)
    for k in range(n):
        total += lifted_exp(x[uintp(base + k * step)] - high)
    return total / lifted_exp(real(0.0))


@scalar
def write_softmax(x, out, base, n, step, weight):
    """out = weight * exp(x - max) / sum(exp(x - max))."""
    high = greatest(x, base, n, step)
    total = real(0.0)
    for k in range(n):
        value = lifted_exp(x[uintp(base + k * step)] - high)
        out[uintp(base + k * step)] = value
        total += value
    scale = weight / total
    for k in range(n):
        out[uintp(base + k * step)] *= scale
    return total


@scalar
def first_column(task, tiles, n, inner, columns):
    """Of x (outer, n, inner) and results (outer, inner): where the columns of a task begin in a result and in x, and how many they are."""
    first = task % tiles * columns
    return task // tiles * inner + first, task // tiles * n * inner + first, min(columns, inner - first)


@scalar
def highest_of_columns(x, base, n, inner, width, highs, place):
    """highs[place:] (width) = the greatest of the n elements of each column, which are `inner` apart; NaN where there is one."""
    for j in range(width):
        highs[uintp(place + j)] = x[uintp(base + j)]
    for k in range(1, n):
        for j in range(width):
            highs[uintp(place + j)] = larger(highs[uintp(place + j)], x[uintp(base + k * inner + j)])


@scalar
def sum_exp_of_columns(x, base, n, inner, width, highs, totals, place):
    """totals[place:] (width) = exp(x - high), summed over each column."""
    for j in range(width):
        totals[uintp(place + j)] = 0.0
    for k in range(n):
        for j in range(width):
            totals[uintp(place + j)] += lifted_exp(x[uintp(base + k * inner + j)] - highs[uintp(place + j)])
    for j in range(width):
        totals[uintp(place + j)] = totals[uintp(place + j)] / lifted_exp(real(0.0))


@scalar
def exp_of_columns(x, base, n, inner, width, highs, totals, place, out):
    """out = exp(x - high) and totals[place:] (width) their sums over each column, both lifted."""
    for j in range(width):
        totals[uintp(place + j)] = 0.0
    for k in range(n):
        for j in range(width):
            value = lifted_exp(x[uintp(base + k * inner + j)] - highs[uintp(place + j)])
            out[uintp(base + k * inner + j)] = value
            totals[uintp(place + j)] += value


@scalar
def scale_columns(out, base, n, inner, width, factors, place):
    """out *= each column's factor."""
    for k in range(n):
        for j in range(width):
            out[uintp(base + k * inner + j)] *= factors[uintp(place + j)]


@scalar
def greatest_in_line(x, base, n, step):
    """`greatest` where step is 1, of a processor with `kernel.lines`, as the next two; without NaN."""
    return greatest_of_line(x, base, n)


@scalar
def sum_of_exp_in_line(x, base, n, step, high):
    """The same as `sum_of_exp`."""
    return sum_lifted(x, base, n, high) / lifted_exp(real(0.0))


@scalar
def write_softmax_in_line(x, out, base, n, step, weight):
    """The same as `write_softmax`."""
    total = lift_line(x, base, out, base, n, greatest_of_line(x, base, n))
    scale_line(out, base, out, base, n, weight / total)
    return total


@scalar
def from_float16(bits):
    """The float32 of IEEE binary16 bits: its exponent is moved by a multiplication, which also normalises subnormals."""
    magnitude = (uint32(bits) & uint32(0x7FFF)) << uint32(13)
    value = bits32(float_of_bits32(magnitude) * float_of_bits32(uint32(0x77800000)))  # 2 ** 112
    value = value | uint32(0x7F800000) if magnitude >= uint32(0x0F800000) else value
    return float_of_bits32(value | ((uint32(bits) & uint32(0x8000)) << uint32(16)))


@scalar
def to_float16(x):
    """The IEEE binary16 bits nearest to a float32, halves to even; subnormals are rounded by adding 0.5, whose last place is theirs."""
    bits = bits32(float32(x))
    sign = bits & uint32(0x80000000)
    magnitude = bits ^ sign
    small = bits32(float_of_bits32(magnitude) + float_of_bits32(uint32(0x3F000000))) - uint32(0x3F000000)
    normal = (max(magnitude, uint32(0x38800000)) - uint32(0x38000000) + uint32(0xFFF) + ((magnitude >> uint32(13)) & uint32(1))) >> uint32(13)
    result = small if magnitude < uint32(0x38800000) else normal
    large = uint32(0x7E00) if magnitude > uint32(0x7F800000) else uint32(0x7C00)
    result = large if magnitude >= uint32(0x47800000) else result
    return uint16(result | (sign >> uint32(16)))


@scalar
def from_bfloat16(bits):
    """The float32 whose upper half these bits are."""
    return float_of_bits32(uint32(uint32(bits) << uint32(16)))


@scalar
def to_bfloat16(x):
    """The upper half of the nearest float32 with an empty lower half, halves to even."""
    bits = bits32(float32(x))
    rounded = (bits + uint32(0x7FFF) + ((bits >> uint32(16)) & uint32(1))) >> uint32(16)
    return uint16(uint32(0x7FC0) if x != x else rounded)


@scalar
def elements_of_triangle(rows, columns):
    """Elements in rows of 1, 2, 3, ... elements, of which no row has more than `columns`; none for less than one row."""
    few = min(max(rows, 0), columns)
    return few * (few + 1) // 2 + (max(rows, 0) - few) * columns


@scalar
def window_start(o, n, out, stride, pad, step):
    """The first element of window `o` inside the input; windows with stride 0 divide the input evenly."""
    first = o * stride - pad if stride > 0 else o * n // out
    return first if first >= 0 else first + (step - 1 - first) // step * step


@scalar
def window_stop(o, n, out, stride, pad, step, kernel):
    """One past the last element of window `o` inside the input."""
    last = o * stride - pad + (kernel - 1) * step + 1 if stride > 0 else ((o + 1) * n + out - 1) // out
    return min(last, n)


@scalar
def first_window(k, n, out, stride, pad, step, kernel):
    """The first window that can hold element k."""
    return max((k + pad - (kernel - 1) * step + stride - 1) // stride, 0) if stride > 0 else k * out // n


@scalar
def last_window(k, n, out, stride, pad):
    """One past the last window that can hold element k."""
    return min((k + pad) // stride + 1, out) if stride > 0 else ((k + 1) * out + n - 1) // n


@scalar
def window_size(o, n, stride, pad, kernel, inside, counts_borders):
    """Elements that a mean over the window divides by."""
    first = o * stride - pad
    return min(first + kernel, n + pad) - first if counts_borders != 0 and stride > 0 else inside


@scalar
def fill_windows(table, depth, height, kernel_d, kernel_h, out_d, out_h, stride_d, stride_h, pad_d, pad_h, step_d, step_h, counts_borders):
    """table (out_h + out_d, 3) = of each window along the height, then the depth: its first element, how many are inside, and what a mean divides by."""
    for o in range(out_h + out_d):
        if o < out_h:
            at, n, out, stride, pad, step, kernel = o, height, out_h, stride_h, pad_h, step_h, kernel_h
        else:
            at, n, out, stride, pad, step, kernel = o - out_h, depth, out_d, stride_d, pad_d, step_d, kernel_d
        first = window_start(at, n, out, stride, pad, step)
        count = max(0, (window_stop(at, n, out, stride, pad, step, kernel) - first + step - 1) // step)
        table[uintp(3 * o)], table[uintp(3 * o + 1)] = first, count
        table[uintp(3 * o + 2)] = window_size(at, n, stride, pad, kernel, count, counts_borders)


@scalar
def next_line(oh, od, at, out_h, out_d, plane):
    """The output line after (od, oh), and where its plane begins: divisions would take longer than the line."""
    oh += 1
    if oh < out_h:
        return oh, od, at
    return (0, od + 1, at) if od + 1 < out_d else (0, 0, at + plane)


@scalar
def row_sum(x, base, n):
    """The sum of x[base : base + n], in blocks of 512 that join a float64: the error does not grow with n."""
    total = float64(0)
    for low in range(0, n, 512):
        part = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            part += x[uintp(base + k)]
        total += float64(part)
    return total


@scalar
def moments(x, base, n, before, mean, squares):
    """Of `before` elements and x[base : base + n] together: their mean, and the sum of their squares about it, from those of the former.

    Blocks of 512 are read twice while they are in the nearest cache, and join as Chan, Golub and LeVeque do (1983): longer rows are read once.
    """
    for low in range(0, n, 512):
        high = min(low + 512, n)
        part = x.dtype.type(0)
        for k in range(low, high):
            part += x[uintp(base + k)]
        count = float64(high - low)
        level = float64(part) / count
        middle = real(level)
        rest = x.dtype.type(0)
        for k in range(low, high):
            rest += (x[uintp(base + k)] - middle) * (x[uintp(base + k)] - middle)
        apart = level - mean
        share = count / (before + count)
        squares += float64(rest) + apart * (apart * before * share)
        mean += apart * share
        before += count
    return mean, squares


@scalar
def write_scaled(x, out, base, n, middle, scale, shift):
    """out = (x - middle) * scale + shift, from `base` on: a loop of its own is vectorised whatever stands around it."""
    for k in range(n):
        out[uintp(base + k)] = (x[uintp(base + k)] - middle) * scale + shift


@scalar
def slope_sums(g, x, base, n, middle):
    """The sums of g and of g * (x - middle), in blocks as in row_sum."""
    first = float64(0)
    second = float64(0)
    for low in range(0, n, 512):
        a = x.dtype.type(0)
        b = x.dtype.type(0)
        for k in range(low, min(low + 512, n)):
            a += g[uintp(base + k)]
            b += g[uintp(base + k)] * (x[uintp(base + k)] - middle)
        first += float64(a)
        second += float64(b)
    return first, second


@scalar
def write_slopes(g, x, out, base, n, middle, factor, scale, level, slope):
    """out = scale * (g * factor - level - (x - middle) * slope), likewise a loop of its own."""
    for k in range(n):
        out[uintp(base + k)] = scale * (g[uintp(base + k)] * factor - level - (x[uintp(base + k)] - middle) * slope)


@scalar
def log_add(a, b):
    """log(exp(a) + exp(b)), also where one or both are -inf."""
    high = max(a, b)
    low = min(a, b)
    return high if low == -1e400 else high + log1p(exp(low - high))


@scalar
def sigmoid_of(x):
    """1 / (1 + exp(-x)) without overflow."""
    part = exp(-fabs(x))
    return (1.0 if x >= 0.0 else part) / (1.0 + part)
