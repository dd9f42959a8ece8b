"""Functions of complex numbers, in terms of the real ones that every target has."""

from __future__ import annotations

from math import (
    asinh,
    atan2,
    copysign,
    cos,
    cosh,
    exp,
    expm1,
    fabs,
    hypot,
    log,
    log10,
    log1p,
    log2,
    sin,
    sinh,
    sqrt,
    tan,
)

from ..language import real
from ..scalar import scalar


@scalar
def complex_isinf(x):
    """Whether a part is infinite."""
    return fabs(x.real) == real(1e400) or fabs(x.imag) == real(1e400)


@scalar
def complex_quotient(x, y):
    """x / y, where nothing overflows on the way (Smith, Algorithm 116, 1962).

    A quotient by 0 has infinite or NaN parts.
    """
    a, b, c, d = x.real, x.imag, y.real, y.imag
    if c == 0.0 and d == 0.0:
        return complex(a / fabs(c), b / fabs(d))
    if fabs(c) >= fabs(d):
        ratio = d / c
        scale = c + d * ratio
        return complex((a + b * ratio) / scale, (b - a * ratio) / scale)
    ratio = c / d
    scale = c * ratio + d
    return complex((a * ratio + b) / scale, (b * ratio - a) / scale)


@scalar
def complex_exp(x):
    """exp(x); real for real numbers, even if infinite; 0 if the real part is -inf. C99's values at infinities."""
    length = exp(x.real)
    if x.imag - x.imag != 0.0 and fabs(x.real) == real(1e400):
        return complex(length, length if x.real < 0.0 else x.imag - x.imag)
    factor = real(1.0)
    if length == real(1e400) and x.real < real(1e400):  # cos or sin may bring it back into range
        length = factor = exp(0.5 * x.real)
    return complex(factor * (length * cos(x.imag)), factor * (length * sin(x.imag)) if x.imag != 0.0 else x.imag)


@scalar
def complex_exp2(x):
    """2 to the power x. The factor is real, since a product of complex numbers at infinities is NaN."""
    return complex_exp(complex(0.6931471805599453 * x.real, 0.6931471805599453 * x.imag))


@scalar
def complex_expm1(x):
    """exp(x) - 1 without cancellation near 0."""
    half = sin(0.5 * x.imag)
    return complex(expm1(x.real) * cos(x.imag) - 2.0 * half * half, exp(x.real) * sin(x.imag))


@scalar
def complex_log(x):
    """The principal logarithm, its imaginary part in [-pi, pi]."""
    return complex(log(hypot(x.real, x.imag)), atan2(x.imag, x.real))


@scalar
def complex_log2(x):
    """The logarithm to base 2, part by part: of 0 the real part alone is infinite."""
    return complex(log2(hypot(x.real, x.imag)), 1.4426950408889634 * atan2(x.imag, x.real))


@scalar
def complex_log10(x):
    """The logarithm to base 10."""
    return complex(log10(hypot(x.real, x.imag)), 0.4342944819032518 * atan2(x.imag, x.real))


@scalar
def complex_log1p(x):
    """log(1 + x) without cancellation near 0."""
    a, b = x.real, x.imag
    if fabs(a) < 0.5 and fabs(b) < 0.5:
        return complex(0.5 * log1p(a * (2.0 + a) + b * b), atan2(b, 1.0 + a))
    return complex(log(hypot(1.0 + a, b)), atan2(b, 1.0 + a))


@scalar
def complex_sqrt(x):
    """The principal square root, its real part not negative."""
    a, b = x.real, x.imag
    if a == 0.0 and b == 0.0 or fabs(b) == real(1e400):
        return complex(fabs(b), b)
    root = sqrt(0.5 * (hypot(a, b) + fabs(a)))
    other = 0.5 * b / root
    return complex(root, other) if a >= 0.0 else complex(fabs(other), copysign(root, b))


@scalar
def complex_power(x, y):
    """x to the power y: the principal branch."""
    if y.real == 0.0 and y.imag == 0.0:
        return complex(real(1.0), real(0.0))
    if x.real == 0.0 and x.imag == 0.0:  # exp(y log(0))
        return (
            complex(real(0.0), real(0.0))
            if y.real > 0.0
            else complex(1e400 if y.real < 0.0 else 1e400 - 1e400, 1e400 - 1e400)
        )
    length, angle = log(hypot(x.real, x.imag)), atan2(x.imag, x.real)
    magnitude = exp(y.real * length - y.imag * angle)
    phase = y.imag * length + y.real * angle
    return complex(magnitude * cos(phase), magnitude * sin(phase))


# At infinities and NaN the hyperbolic functions have C99's values (Annex G), and those of angles follow from them.


@scalar
def complex_sinh(x):
    """sinh(x); of a real number real, even where it is infinite."""
    if x.imag - x.imag != 0.0 and (x.real == 0.0 or fabs(x.real) == real(1e400)):
        return complex(x.real, x.imag - x.imag)
    return complex(sinh(x.real) * cos(x.imag), cosh(x.real) * sin(x.imag) if x.imag != 0.0 else x.imag)


@scalar
def complex_cosh(x):
    """cosh(x); of a real number real, even where it is infinite."""
    if x.imag - x.imag != 0.0 and x.real == 0.0:
        return complex(x.imag - x.imag, real(0.0))
    if x.imag - x.imag != 0.0 and fabs(x.real) == real(1e400):
        return complex(fabs(x.real), x.imag - x.imag)
    return complex(
        cosh(x.real) * cos(x.imag),
        sinh(x.real) * sin(x.imag) if x.imag != 0.0 else x.imag * copysign(real(1.0), x.real),
    )


@scalar
def complex_sin(x):
    """sin(x) = -i sinh(i x)."""
    rotated = complex_sinh(complex(-x.imag, x.real))
    return complex(rotated.imag, -rotated.real)


@scalar
def complex_cos(x):
    """cos(x) = cosh(i x)."""
    return complex_cosh(complex(-x.imag, x.real))


@scalar
def complex_tanh(x):
    """tanh(x), which is 1 or -1 far from the imaginary axis (Kahan, Branch Cuts for Complex Elementary Functions,
    1987).
    """
    if fabs(x.real) > 40.0 and x.imag - x.imag == 0.0:
        return complex(copysign(real(1.0), x.real), 4.0 * sin(x.imag) * cos(x.imag) * exp(-2.0 * fabs(x.real)))
    if fabs(x.real) == real(1e400):
        return complex(copysign(real(1.0), x.real), copysign(real(0.0), x.imag))
    if x.real == 0.0 and x.imag - x.imag != 0.0 or x.real != x.real and x.imag == 0.0:
        return complex(x.real, x.imag - x.imag if x.imag != 0.0 else x.imag)
    tangent, s = tan(x.imag), sinh(x.real)
    slope = 1.0 + tangent * tangent
    rho = sqrt(1.0 + s * s)
    below = 1.0 + slope * s * s
    return complex(slope * rho * s / below, tangent / below)


@scalar
def complex_tan(x):
    """tan(x) = -i tanh(i x)."""
    rotated = complex_tanh(complex(-x.imag, x.real))
    return complex(rotated.imag, -rotated.real)


# The inverse functions are Kahan's: the sign of a part that is 0 selects the side of a branch cut, so 1 - x is computed
# part by part.
# At infinities they are C99's (Annex G): the result depends on the direction, as with atan2.


@scalar
def complex_asin(x):
    """The principal arc sine, its real part in [-pi / 2, pi / 2]."""
    if complex_isinf(x):
        return complex(atan2(x.real, fabs(x.imag)), copysign(real(1e400), x.imag))
    if x.real == 0.0 and x.imag != x.imag:
        return complex(x.real, x.imag)
    above, below = complex_sqrt(complex(1.0 + x.real, x.imag)), complex_sqrt(complex(1.0 - x.real, -x.imag))
    return complex(
        atan2(x.real, above.real * below.real - above.imag * below.imag),
        asinh(below.real * above.imag - below.imag * above.real),
    )


@scalar
def complex_acos(x):
    """The principal arc cosine, its real part in [0, pi]."""
    if complex_isinf(x):
        return complex(atan2(fabs(x.imag), x.real), -copysign(real(1e400), x.imag))
    if x.real == 0.0 and x.imag != x.imag:
        return complex(real(1.5707963267948966), x.imag)
    above, below = complex_sqrt(complex(1.0 + x.real, x.imag)), complex_sqrt(complex(1.0 - x.real, -x.imag))
    return complex(2.0 * atan2(below.real, above.real), asinh(above.real * below.imag - above.imag * below.real))


@scalar
def complex_acosh(x):
    """The principal inverse hyperbolic cosine, its real part not negative."""
    if complex_isinf(x):
        return complex(real(1e400), atan2(x.imag, x.real))
    if x.real == 0.0 and x.imag != x.imag:
        return complex(x.imag, real(1.5707963267948966))
    above, below = complex_sqrt(complex(x.real + 1.0, x.imag)), complex_sqrt(complex(x.real - 1.0, x.imag))
    return complex(asinh(below.real * above.real + below.imag * above.imag), 2.0 * atan2(below.imag, above.real))


@scalar
def complex_asinh(x):
    """The principal inverse hyperbolic sine: -i asin(i x)."""
    rotated = complex_asin(complex(-x.imag, x.real))
    return complex(rotated.imag, -rotated.real)


@scalar
def complex_atanh(x):
    """The principal inverse hyperbolic tangent, computed in the first quadrant; the signs are those of x."""
    a, b = fabs(x.real), fabs(x.imag)
    if a > 1e18 or b > 1e18:  # squares may overflow: atanh(x) = i pi / 2 + 1 / x to rounding
        length = hypot(a, b)
        real_part, imaginary = (
            a / length / length if length != real(1e400) else real(0.0),
            real(1.5707963267948966) if b == b and length == length else a + b,
        )
    else:
        real_part = 0.25 * log1p(4.0 * a / ((1.0 - a) * (1.0 - a) + b * b)) if a != 0.0 else a
        imaginary = 0.5 * atan2(2.0 * b, (1.0 - a) * (1.0 + a) - b * b)
    return complex(copysign(real_part, x.real), copysign(imaginary, x.imag))


@scalar
def complex_atan(x):
    """The principal arc tangent: -i atanh(i x)."""
    rotated = complex_atanh(complex(-x.imag, x.real))
    return complex(rotated.imag, -rotated.real)


@scalar
def complex_sign(x):
    """x / |x|; 0 of 0."""
    length = hypot(x.real, x.imag)
    return complex(x.real / length, x.imag / length) if length != 0.0 else complex(real(0.0), real(0.0))
