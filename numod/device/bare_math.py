"""What objects for bare processors bring of a C library's mathematics: rounding, and sine, cosine and tangent in double
precision, which functions such as `tan` and `lgamma` call. (Most formulas are numod's own, `kernel.vector_math`.)
"""

from __future__ import annotations

import struct

_HALF_PI = "0x3FF921FB54442D18", "0x3C91A62633145C07", "0xB91F1976B7ED8FBC"  # pi / 2 as a sum
_SINE = (  # the polynomials of fdlibm, for -pi / 4 to pi / 4
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
    8.33333333332248946124e-03, -1.66666666666666324348e-01,
)  # fmt: skip
_COSINE = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
    -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip


def text_of(name: str) -> str | None:
    """LLVM's text of a function, and declarations of those that it calls; None if there is none of this name."""
    base = name.removesuffix("f")
    if base in ("rint", "nearbyint", "roundeven", "floor", "ceil", "trunc"):
        return _rounding(name, base)
    if base not in ("sin", "cos", "tan"):
        return None
    return _narrow(name, base) if name != base else _tangent() if base == "tan" else _sine_or_cosine(base)


def _rounding(name: str, base: str) -> str:
    """A number with its fraction rounded off: adding and subtracting 2**52 (2**23) rounds to the nearest, even one."""
    kind, suffix, large = (
        ("float", "f32", _hexadecimal(2.0**23)) if name != base else ("double", "f64", _hexadecimal(2.0**52))
    )
    steps = {
        "floor": "  %beyond = fcmp ogt {k} %near, %x\n  %back = fsub {k} %near, 1.0\n",
        "ceil": "  %beyond = fcmp olt {k} %near, %x\n  %back = fadd {k} %near, 1.0\n",
        "trunc": "  %size = call {k} @llvm.fabs.{s}({k} %near)\n  %beyond = fcmp ogt {k} %size, %absolute\n"
        "  %one = call {k} @llvm.copysign.{s}({k} 1.0, {k} %x)\n  %back = fsub {k} %near, %one\n",
    }.get(base, "  %beyond = icmp ne i1 false, false\n  %back = fadd {k} %near, 0.0\n").format(k=kind, s=suffix)
    return f"""
declare {kind} @llvm.fabs.{suffix}({kind})
declare {kind} @llvm.copysign.{suffix}({kind}, {kind})
define weak hidden {kind} @{name}({kind} %x) nounwind {{
  %absolute = call {kind} @llvm.fabs.{suffix}({kind} %x)
  %has_fraction = fcmp olt {kind} %absolute, {large}
  br i1 %has_fraction, label %round, label %whole
whole:
  ret {kind} %x
round:
  %up = fadd {kind} %absolute, {large}
  %rounded = fsub {kind} %up, {large}
  %near = call {kind} @llvm.copysign.{suffix}({kind} %rounded, {kind} %x)
{steps}  %kept = select i1 %beyond, {kind} %back, {kind} %near
  %result = call {kind} @llvm.copysign.{suffix}({kind} %kept, {kind} %x)
  ret {kind} %result
}}
"""


def _polynomial(name: str, coefficients: tuple[float, ...]) -> str:
    """Lines that compute a polynomial of %z by Horner's rule, as %name."""
    lines, last = [], f"{coefficients[0]!r}"
    for k, coefficient in enumerate(coefficients[1:]):
        lines += [f"  %{name}_m{k} = fmul double {_hexadecimal(last) if k == 0 else last}, %z",
            f"  %{name}_a{k} = fadd double %{name}_m{k}, {_hexadecimal(repr(coefficient))}"]  # fmt: skip
        last = f"%{name}_a{k}"
    return "\n".join([*lines, f"  %{name} = fadd double {last}, 0.0"])


def _hexadecimal(number: str | float) -> str:
    return f"0x{struct.unpack('<Q', struct.pack('<d', float(number)))[0]:016X}"


def _sine_or_cosine(base: str) -> str:
    """x - k pi/2, by fused products with a sum of three parts, then a polynomial by the quadrant. Accurate while k
    is an exact double, for |x| < 2**52.
    """
    return f"""
declare double @fma(double, double, double)
declare double @rint(double)
define weak hidden double @{base}(double %x) nounwind {{
  %turns = fmul double %x, {_hexadecimal("0.6366197723675814")}
  %k = call double @rint(double %turns)
  %minus = fneg double %k
  %r0 = call double @fma(double %minus, double {_HALF_PI[0]}, double %x)
  %r1 = call double @fma(double %minus, double {_HALF_PI[1]}, double %r0)
  %r = call double @fma(double %minus, double {_HALF_PI[2]}, double %r1)
  %quarter = fmul double %k, 0.25
  %whole0 = call double @rint(double %quarter)
  %whole4 = fmul double %whole0, 4.0
  %rest = fsub double %k, %whole4
  %finite = fcmp ord double %rest, 0.0
  %safe = select i1 %finite, double %rest, double 0.0
  %signed = fptosi double %safe to i32
  %quadrant = add i32 %signed, {4 + (base == "cos")}
  %z = fmul double %r, %r
{_polynomial("s", _SINE)}
{_polynomial("c", _COSINE)}
  %cube = fmul double %z, %r
  %small = fmul double %cube, %s
  %sine = fadd double %r, %small
  %zz = fmul double %z, %z
  %fourth = fmul double %zz, %c
  %half = fmul double %z, 0.5
  %less = fsub double %fourth, %half
  %cosine = fadd double %less, 1.0
  %odd = and i32 %quadrant, 1
  %is_odd = icmp ne i32 %odd, 0
  %value = select i1 %is_odd, double %cosine, double %sine
  %upper = and i32 %quadrant, 2
  %is_upper = icmp ne i32 %upper, 0
  %negative = fneg double %value
  %result = select i1 %is_upper, double %negative, double %value
  ret double %result
}}
"""


def _tangent() -> str:
    return """
declare double @sin(double)
declare double @cos(double)
define weak hidden double @tan(double %x) nounwind {
  %sine = call double @sin(double %x)
  %cosine = call double @cos(double %x)
  %result = fdiv double %sine, %cosine
  ret double %result
}
"""


def _narrow(name: str, base: str) -> str:
    """The function of single precision, in double precision."""
    return f"""
declare double @{base}(double)
define weak hidden float @{name}(float %x) nounwind {{
  %wide = fpext float %x to double
  %value = call double @{base}(double %wide)
  %result = fptrunc double %value to float
  ret float %result
}}
"""
