"""Functions of complex numbers, in terms of the real ones that every target has. Their text becomes part of kernels, as that of `scalar`."""

from __future__ import annotations

from .scalar import scalar


@scalar
def complex_quotient(x, y):
    """x / y, where nothing overflows on the way (Smith, Algorithm 116, 1962). A quotient by 0 has infinite or NaN parts."""
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
    """exp(x); of a real number real, even where it is infinite."""
    length = exp(x.real)
    return complex(length * cos(x.imag), length * sin(x.imag) if x.imag != 0.0 else x.imag)


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
    if a == 0.0 and b == 0.0:
        return complex(real(0.0), b)
    root = sqrt(0.5 * (hypot(a, b) + fabs(a)))
    other = 0.5 * b / root
    return complex(root, other) if a >= 0.0 else complex(fabs(other), copysign(root, b))


@scalar
def complex_power(x, y):
    """x to the power y: the principal branch."""
    if y.real == 0.0 and y.imag == 0.0:
        return complex(real(1.0), real(0.0))
    if x.real == 0.0 and x.imag == 0.0:
        return complex(real(0.0) ** y.real, real(0.0))
    length, angle = log(hypot(x.real, x.imag)), atan2(x.imag, x.real)
    size = exp(y.real * length - y.imag * angle)
    turn = y.imag * length + y.real * angle
    return complex(size * cos(turn), size * sin(turn))


@scalar
def complex_sin(x):
    """sin(x)."""
    return complex(sin(x.real) * cosh(x.imag), cos(x.real) * sinh(x.imag))


@scalar
def complex_cos(x):
    """cos(x)."""
    return complex(cos(x.real) * cosh(x.imag), -sin(x.real) * sinh(x.imag))


@scalar
def complex_sinh(x):
    """sinh(x)."""
    return complex(sinh(x.real) * cos(x.imag), cosh(x.real) * sin(x.imag))


@scalar
def complex_cosh(x):
    """cosh(x)."""
    return complex(cosh(x.real) * cos(x.imag), sinh(x.real) * sin(x.imag))


@scalar
def complex_tanh(x):
    """tanh(x), which is 1 or -1 far from the imaginary axis (Kahan, Branch Cuts for Complex Elementary Functions, 1987)."""
    if fabs(x.real) > 40.0:
        return complex(copysign(real(1.0), x.real), copysign(real(0.0), x.imag))
    tangent, s = tan(x.imag), sinh(x.real)
    slope = 1.0 + tangent * tangent
    rho = sqrt(1.0 + s * s)
    below = 1.0 + slope * s * s
    return complex(slope * rho * s / below, tangent / below)


@scalar
def complex_tan(x):
    """tan(x) = -i tanh(i x)."""
    turned = complex_tanh(complex(-x.imag, x.real))
    return complex(turned.imag, -turned.real)


@scalar
def complex_sign(x):
    """x / |x|; 0 of 0."""
    length = hypot(x.real, x.imag)
    return complex(x.real / length, x.imag / length) if length != 0.0 else complex(real(0.0), real(0.0))


@scalar
def complex_isinf(x):
    """Whether a part is infinite."""
    return fabs(x.real) == real(1e400) or fabs(x.imag) == real(1e400)
