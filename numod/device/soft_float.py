"""Software floating point for processors without an FPU: the functions that LLVM calls, as the ARM and RISC-V ABIs name
them.

Numbers are IEEE's float32 and float64, with subnormals. Results are rounded to nearest, ties to even. All functions
take and return the bits as integers, as both ABIs pass them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial


@dataclass(frozen=True)
class Format:
    """A floating-point format: the number of bits, and of stored mantissa bits."""

    width: int
    mantissa: int

    @property
    def greatest(self) -> int:
        """The stored exponent of infinity."""
        return (1 << (self.width - 1 - self.mantissa)) - 1

    @property
    def bias(self) -> int:
        """The stored exponent of 1."""
        return self.greatest >> 1

    @property
    def infinity(self) -> int:
        """The bits of infinity."""
        return self.greatest << self.mantissa

    @property
    def nan(self) -> int:
        """The bits of a quiet NaN."""
        return self.infinity | 1 << (self.mantissa - 1)


SINGLE, DOUBLE = Format(32, 23), Format(64, 52)
_GUARD = 3  # bits below the mantissa for rounding; the last one is sticky


class Bits:
    """An unsigned integer in a function being generated, with Python's operators."""

    def __init__(self, builder: object, value: object) -> None:
        self.builder, self.value = builder, value

    @cached_property
    def width(self) -> int:
        """The number of bits."""
        return self.value.type.width

    def constant(self, number: int) -> Bits:
        """A constant of this width."""
        return Bits(self.builder, self.value.type(number & ((1 << self.width) - 1)))

    def _with(self, other: Bits | int, method: str) -> Bits:
        other = other if isinstance(other, Bits) else self.constant(other)
        return Bits(self.builder, getattr(self.builder, method)(self.value, other.value))

    def _compare(self, other: Bits | int, sign: str, signed: bool = False) -> Bits:
        other = other if isinstance(other, Bits) else self.constant(other)
        compare = self.builder.icmp_signed if signed else self.builder.icmp_unsigned
        return Bits(self.builder, compare(sign, self.value, other.value))

    def __add__(self, other: Bits | int) -> Bits:
        return self._with(other, "add")

    def __sub__(self, other: Bits | int) -> Bits:
        return self._with(other, "sub")

    def __mul__(self, other: Bits | int) -> Bits:
        return self._with(other, "mul")

    def __and__(self, other: Bits | int) -> Bits:
        return self._with(other, "and_")

    def __or__(self, other: Bits | int) -> Bits:
        return self._with(other, "or_")

    def __xor__(self, other: Bits | int) -> Bits:
        return self._with(other, "xor")

    def __lshift__(self, other: Bits | int) -> Bits:
        return self._with(other, "shl")

    def __rshift__(self, other: Bits | int) -> Bits:
        return self._with(other, "lshr")

    def __lt__(self, other: Bits | int) -> Bits:
        return self._compare(other, "<")

    def __gt__(self, other: Bits | int) -> Bits:
        return self._compare(other, ">")

    def __ge__(self, other: Bits | int) -> Bits:
        return self._compare(other, ">=")

    def equals(self, other: Bits | int) -> Bits:
        """Whether both are equal."""
        return self._compare(other, "==")

    def below(self, other: Bits | int) -> Bits:
        """Whether it is less, compared as signed integers."""
        return self._compare(other, "<", True)

    def differs(self, other: Bits | int) -> Bits:
        """Whether the two are not equal."""
        return self._compare(other, "!=")

    def choose(self, yes: Bits, no: Bits | int) -> Bits:
        """`yes` where this condition holds, else `no`."""
        no = no if isinstance(no, Bits) else yes.constant(no)
        return Bits(self.builder, self.builder.select(self.value, yes.value, no.value))

    def to(self, width: int) -> Bits:
        """Zero-extended or truncated to `width` bits."""
        from llvmlite import ir

        if width == self.width:
            return self
        change = self.builder.zext if width > self.width else self.builder.trunc
        return Bits(self.builder, change(self.value, ir.IntType(width)))

    def zeros(self) -> Bits:
        """The number of leading zero bits."""
        from llvmlite import ir

        return Bits(self.builder, self.builder.ctlz(self.value, ir.IntType(1)(0)))

    def sticky(self, shift: Bits) -> Bits:
        """Shifted right by less than its width; the last bit is set if any lost bit was."""
        lost = (self & ((self.constant(1) << shift) - 1)).differs(0)
        return (self >> shift) | lost.to(self.width)


@dataclass
class _Number:
    """The parts of a number: `exponent` as stored, but at least 1; `mantissa` with its leading bit."""

    sign: Bits
    exponent: Bits
    mantissa: Bits
    magnitude: Bits


def _parts(form: Format, x: Bits) -> _Number:
    magnitude = x & ((1 << (form.width - 1)) - 1)
    exponent, fraction = magnitude >> form.mantissa, x & ((1 << form.mantissa) - 1)
    normal = exponent.differs(0)
    mantissa = normal.choose(fraction | 1 << form.mantissa, fraction)
    return _Number(x & 1 << (form.width - 1), normal.choose(exponent, 1), mantissa, magnitude)


def _normal(form: Format, x: _Number) -> _Number:
    """Normalise the mantissa of subnormal numbers too; the exponent may become negative."""
    shift = x.mantissa.zeros() - (form.width - 1 - form.mantissa)
    shift = x.mantissa.equals(0).choose(shift.constant(0), shift)
    return _Number(x.sign, x.exponent - shift, x.mantissa << shift, x.magnitude)


def _rounded(form: Format, sign: Bits, exponent: Bits, mantissa: Bits) -> Bits:
    """The rounded number with these parts.

    The mantissa has `_GUARD` extra bits. Its leading bit may be one bit higher, or lower if the exponent is 1.
    """
    carry = (mantissa >> (form.mantissa + _GUARD + 1)) & 1
    mantissa, exponent = (mantissa >> carry) | (mantissa & carry), exponent + carry
    small = exponent.below(1)
    far = small.choose(exponent.constant(1) - exponent, 0)
    far = far.below(form.width - 1).choose(far, form.width - 1)
    mantissa, exponent = mantissa.sticky(far), small.choose(exponent.constant(1), exponent)
    remainder, rounded_down = mantissa & ((1 << _GUARD) - 1), mantissa >> _GUARD
    half = 1 << (_GUARD - 1)
    up = (remainder > half) | (remainder.equals(half) & (rounded_down & 1).differs(0))
    bits = ((exponent - 1) << form.mantissa) + rounded_down + up.to(form.width)
    return sign | exponent.below(form.greatest).choose(bits, form.infinity)


def _is_nan(form: Format, x: _Number) -> Bits:
    return x.magnitude > form.infinity


def _add(form: Format, x: Bits, y: Bits) -> Bits:
    """Write x + y: the smaller number is shifted, and the sum is normalised and rounded."""
    a, b = _parts(form, x), _parts(form, y)
    swap = a.magnitude < b.magnitude
    x, y = swap.choose(y, x), swap.choose(x, y)
    a, b = _parts(form, x), _parts(form, y)
    distance = a.exponent - b.exponent
    distance = (distance < form.width - 1).choose(distance, form.width - 1)
    high, low = a.mantissa << _GUARD, (b.mantissa << _GUARD).sticky(distance)
    same = a.sign.equals(b.sign)
    total = same.choose(high + low, high - low)
    shift = total.zeros() - (form.width - 1 - form.mantissa - _GUARD)
    max_shift = a.exponent - 1
    shift = shift.below(0).choose(shift.constant(0), shift)
    shift = (shift < max_shift).choose(shift, max_shift)
    result = _rounded(form, a.sign, a.exponent - shift, total << shift)
    result = total.equals(0).choose(same.choose(a.sign, 0), result)
    is_nan = _is_nan(form, a) | (a.magnitude.equals(form.infinity) & b.magnitude.equals(form.infinity) & (same ^ 1))
    is_infinite = a.magnitude.equals(form.infinity)
    return is_nan.choose(x.constant(form.nan), is_infinite.choose(x, result))


def _subtract(form: Format, x: Bits, y: Bits) -> Bits:
    return _add(form, x, y ^ 1 << (form.width - 1))


def _high_product(x: Bits, y: Bits) -> Bits:
    """The upper half of a product; its last bit is set if the lower half is not 0."""
    if x.width == 32:
        wide = x.to(64) * y.to(64)
        high, low = (wide >> 32).to(32), wide.to(32)
    else:
        mask = (1 << 32) - 1
        a, b, c, d = x >> 32, x & mask, y >> 32, y & mask
        low_product, first, second = b * d, a * d, b * c
        middle = (low_product >> 32) + (first & mask) + (second & mask)
        high = a * c + (first >> 32) + (second >> 32) + (middle >> 32)
        low = (middle << 32) | (low_product & mask)
    return high | low.differs(0).to(x.width)


def _multiply(form: Format, x: Bits, y: Bits) -> Bits:
    a, b = _normal(form, _parts(form, x)), _normal(form, _parts(form, y))
    sign = a.sign ^ b.sign
    shift = form.width + _GUARD - form.mantissa  # of both mantissas together
    product = _high_product(a.mantissa << shift // 2, b.mantissa << (shift - shift // 2))
    result = _rounded(form, sign, a.exponent + b.exponent - form.bias, product)
    is_zero = a.magnitude.equals(0) | b.magnitude.equals(0)
    is_infinite = a.magnitude.equals(form.infinity) | b.magnitude.equals(form.infinity)
    is_nan = _is_nan(form, a) | _is_nan(form, b) | (is_zero & is_infinite)
    result = is_infinite.choose(sign | form.infinity, is_zero.choose(sign, result))
    return is_nan.choose(x.constant(form.nan), result)


def _loop(count: int, initial: list[Bits], step: Callable[[list[Bits]], list[Bits]]) -> list[Bits]:
    """The values after `count` applications of `step`."""
    from llvmlite import ir

    builder = initial[0].builder
    before, body = builder.block, builder.append_basic_block()
    after = builder.append_basic_block()
    builder.branch(body)
    builder.position_at_end(body)
    kinds = [value.value.type for value in initial]
    phis = [builder.phi(kind) for kind in kinds]
    number = builder.phi(ir.IntType(32))
    for phi, value in zip(phis, initial):
        phi.add_incoming(value.value, before)
    number.add_incoming(ir.IntType(32)(0), before)
    updated = step([Bits(builder, phi) for phi in phis])
    for phi, value in zip(phis, updated):
        phi.add_incoming(value.value, body)
    next_number = builder.add(number, ir.IntType(32)(1))
    number.add_incoming(next_number, body)
    builder.cbranch(builder.icmp_unsigned("<", next_number, ir.IntType(32)(count)), body, after)
    builder.position_at_end(after)
    return updated


def _divide(form: Format, x: Bits, y: Bits) -> Bits:
    """Write x / y: a digit of the quotient for each iteration of a loop."""
    a, b = _normal(form, _parts(form, x)), _normal(form, _parts(form, y))
    sign = a.sign ^ b.sign
    a_is_less = a.mantissa < b.mantissa
    remainder = a.mantissa << a_is_less.to(form.width)

    def step(state: list[Bits]) -> list[Bits]:
        remainder, quotient = state
        fits = remainder >= b.mantissa
        rest_after = fits.choose(remainder - b.mantissa, remainder)
        return [rest_after << 1, (quotient << 1) | fits.to(form.width)]

    remainder, quotient = _loop(form.mantissa + _GUARD + 1, [remainder, x.constant(0)], step)
    exponent = a.exponent - b.exponent + form.bias - a_is_less.to(form.width)
    result = _rounded(form, sign, exponent, quotient | remainder.differs(0).to(form.width))
    x_is_zero, y_is_zero = a.magnitude.equals(0), b.magnitude.equals(0)
    x_is_infinite, y_is_infinite = a.magnitude.equals(form.infinity), b.magnitude.equals(form.infinity)
    is_nan = _is_nan(form, a) | _is_nan(form, b) | (x_is_zero & y_is_zero) | (x_is_infinite & y_is_infinite)
    result = (x_is_infinite | y_is_zero).choose(sign | form.infinity, (x_is_zero | y_is_infinite).choose(sign, result))
    return is_nan.choose(x.constant(form.nan), result)


def _root(form: Format, x: Bits) -> Bits:
    a = _normal(form, _parts(form, x))
    distance = a.exponent - form.bias  # of a signed number
    odd = distance & 1
    digit_count = form.mantissa + _GUARD + 1
    mantissa = a.mantissa << odd

    def step(state: list[Bits]) -> list[Bits]:  # one digit of the root, from two bits of the mantissa
        remainder, root, digits = state
        remainder = (remainder << 2) | (digits >> (form.width - 2))
        trial = (root << 2) | 1
        fits = remainder >= trial
        return [fits.choose(remainder - trial, remainder), (root << 1) | fits.to(form.width), digits << 2]

    aligned = mantissa << (form.width - 2 - form.mantissa)
    remainder, root, _ = _loop(digit_count, [x.constant(0), x.constant(0), aligned], step)
    half = Bits(x.builder, x.builder.ashr((distance - odd).value, x.value.type(1)))
    result = _rounded(form, x.constant(0), half + form.bias, root | remainder.differs(0).to(form.width))
    is_nan = _is_nan(form, a) | (a.sign.differs(0) & a.magnitude.differs(0))
    is_unchanged = a.magnitude.equals(0) | x.equals(form.infinity)
    return is_nan.choose(x.constant(form.nan), is_unchanged.choose(x, result))


def _order(form: Format, x: Bits) -> Bits:
    """A signed integer that orders like the number."""
    a = _parts(form, x)
    return a.sign.differs(0).choose(x.constant(0) - a.magnitude, a.magnitude)


def _unordered(form: Format, x: Bits, y: Bits) -> Bits:
    return _is_nan(form, _parts(form, x)) | _is_nan(form, _parts(form, y))


def _compared(form: Format, x: Bits, y: Bits, kind: str) -> Bits:
    """1 if `kind` holds of x and y ("eq", "lt", ..., or "un": either is NaN), else 0."""
    a, b, is_nan = _order(form, x), _order(form, y), _unordered(form, x, y)
    if kind == "un":
        return is_nan.to(32)
    result = {"eq": a.equals(b), "lt": a.below(b), "gt": b.below(a)}.get(kind)
    if result is None:
        result = (b.below(a) if kind == "le" else a.below(b)) ^ 1
    return (result & (is_nan ^ 1)).to(32)


def _sign_of_difference(form: Format, x: Bits, y: Bits, if_nan: int) -> Bits:
    """Below 0, 0 or above 0, as libgcc's comparisons; `if_nan` if either is NaN."""
    a, b = _order(form, x), _order(form, y)
    one = a.constant(0).to(32) + 1
    sign = a.below(b).choose(one - 2, b.below(a).choose(one, 0))
    return _unordered(form, x, y).choose(one + (if_nan - 1), sign)


def _from_integer(form: Format, x: Bits, signed: bool) -> Bits:
    negative = x.below(0) if signed else x.constant(0).differs(0)
    size = negative.choose(x.constant(0) - x, x).to(64)
    shift = size.zeros()
    shift = (shift < 63).choose(shift, 63)
    mantissa = (size << shift).sticky(size.constant(63 - form.mantissa - _GUARD)).to(form.width)
    exponent = shift.constant(form.bias + 63) - shift
    sign = negative.to(form.width) << (form.width - 1)
    return size.equals(0).choose(mantissa.constant(0), _rounded(form, sign, exponent.to(form.width), mantissa))


def _to_integer(form: Format, x: Bits, width: int, signed: bool) -> Bits:
    a = _parts(form, x)
    distance = (a.exponent - form.bias).to(64) if form.width == 64 else _extended(a.exponent - form.bias)
    mantissa = a.mantissa.to(64)
    far = distance.below(63).choose(distance, 63)
    left, right = far - form.mantissa, far.constant(form.mantissa) - far
    magnitude = left.below(0).choose(mantissa >> (right & 63), mantissa << (left & 63))
    result = distance.below(0).choose(magnitude.constant(0), magnitude)
    if signed:
        result = a.sign.differs(0).choose(result.constant(0) - result, result)
    return result.to(width)


def _extended(x: Bits) -> Bits:
    from llvmlite import ir

    return Bits(x.builder, x.builder.sext(x.value, ir.IntType(64)))


def _widened(x: Bits) -> Bits:
    a = _normal(SINGLE, _parts(SINGLE, x))
    sign = a.sign.to(64) << 32
    exponent = _extended(a.exponent) + (DOUBLE.bias - SINGLE.bias)
    result = (exponent << 52) + ((a.mantissa.to(64) << 29) & ((1 << 52) - 1))
    result = (a.magnitude.equals(0)).choose(result.constant(0), result)
    result = a.magnitude.equals(SINGLE.infinity).choose(result.constant(DOUBLE.infinity), result)
    return sign | _is_nan(SINGLE, a).choose(result.constant(DOUBLE.nan), result)


def _narrowed(x: Bits) -> Bits:
    a = _parts(DOUBLE, x)
    sign = (a.sign >> 32).to(32)
    mantissa = a.mantissa.sticky(a.mantissa.constant(DOUBLE.mantissa - SINGLE.mantissa - _GUARD)).to(32)
    exponent = (a.exponent - (DOUBLE.bias - SINGLE.bias)).to(32)
    result = _rounded(SINGLE, sign, exponent, mantissa)
    result = a.magnitude.equals(DOUBLE.infinity).choose(sign | SINGLE.infinity, result)
    return _is_nan(DOUBLE, a).choose(result.constant(SINGLE.nan), result)


def _product(x: Bits, y: Bits) -> Bits:
    """x * y of 64 bits by products of 16 bits, for processors that multiply 32 bits only."""
    x_low, y_low = x.to(32), y.to(32)
    x_high, y_high = (x >> 32).to(32), (y >> 32).to(32)
    a, b, c, d = x_low >> 16, x_low & 0xFFFF, y_low >> 16, y_low & 0xFFFF
    least, first, second = b * d, a * d, b * c
    middle = (least >> 16) + (first & 0xFFFF) + (second & 0xFFFF)
    low = (middle << 16) | (least & 0xFFFF)
    high = a * c + (first >> 16) + (second >> 16) + (middle >> 16) + x_low * y_high + x_high * y_low
    return (high.to(64) << 32) | low.to(64)


def _shifted(x: Bits, count: Bits, kind: str) -> Bits:
    """x of 64 bits shifted, by shifts of 32 bits."""
    low, high = x.to(32), (x >> 32).to(32)
    few, far = count & 31, (count & 32).differs(0)
    none = few.equals(0)
    builder, sign = x.builder, x.builder.ashr(high.value, high.value.type(31))
    if kind == "left":
        carried = none.choose(low.constant(0), low >> ((low.constant(32) - few) & 31))
        near_low, near_high = low << few, (high << few) | carried
        far_low, far_high = low.constant(0), low << few
    else:
        carried = none.choose(low.constant(0), high << ((low.constant(32) - few) & 31))
        filled = high >> few if kind == "right" else Bits(builder, builder.ashr(high.value, few.value))
        near_low, near_high = (low >> few) | carried, filled
        far_low, far_high = filled, low.constant(0) if kind == "right" else Bits(builder, sign)
    return (far.choose(far_high, near_high).to(64) << 32) | far.choose(far_low, near_low).to(64)


def _leading_zeros(x: Bits) -> Bits:
    """The number of leading zeros of 32 bits, by bisection."""
    count = x.constant(0)
    for half in (16, 8, 4, 2, 1):
        none = (x >> (32 - half)).equals(0)
        count, x = count + none.choose(x.constant(half), 0), none.choose(x << half, x)
    return count + x.equals(0).to(32)


def text_of(name: str) -> str | None:
    """The LLVM text of a function; None if the name is unknown."""
    from llvmlite import ir

    if name not in _BY_NAME:
        return None
    widths, result, write = _BY_NAME[name]
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(ir.IntType(result), [ir.IntType(kind) for kind in widths]), name)
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(write(*[Bits(builder, argument) for argument in function.args]).value)
    function.linkage = "weak"
    text = re.sub(r"^(target .*|; Module.*)$", "", str(module), flags=re.M)
    return text.replace("define weak ", "define weak hidden ").replace(")\n{", ") nounwind noinline {")


def _table() -> dict[str, tuple]:
    """By name of a runtime function: (widths of its arguments, width of its result, function that writes it)."""
    functions: dict[str, tuple] = {}
    arithmetic = {"add": _add, "sub": _subtract, "mul": _multiply, "div": _divide}
    for form, arm, gnu in ((SINGLE, "f", "sf"), (DOUBLE, "d", "df")):
        width = form.width
        for word, write in arithmetic.items():
            functions[f"__aeabi_{arm}{word}"] = functions[f"__{word}{gnu}3"] = (
                (width, width),
                width,
                partial(write, form),
            )
        for kind in ("eq", "lt", "le", "ge", "gt", "un"):
            functions[f"__aeabi_{arm}cmp{kind}"] = (width, width), 32, partial(_compared, form, kind=kind)
        for kind in ("eq", "ne", "lt", "le"):
            functions[f"__{kind}{gnu}2"] = (width, width), 32, partial(_sign_of_difference, form, if_nan=1)
        for kind in ("gt", "ge"):
            functions[f"__{kind}{gnu}2"] = (width, width), 32, partial(_sign_of_difference, form, if_nan=-1)
        functions[f"__unord{gnu}2"] = (width, width), 32, partial(_compared, form, kind="un")
        for size, letter, suffix in ((32, "i", "si"), (64, "l", "di")):
            for signed in (True, False):
                to = partial(_to_integer, form, width=size, signed=signed)
                come = partial(_from_integer, form, signed=signed)
                u, uns = ("", "") if signed else ("u", "uns")
                unsigned = "un" if not signed else ""
                functions[f"__aeabi_{arm}2{u}{letter}z"] = functions[f"__fix{uns}{gnu}{suffix}"] = (width,), size, to
                functions[f"__aeabi_{u}{letter}2{arm}"] = functions[f"__float{unsigned}{suffix}{gnu}"] = (
                    (size,),
                    width,
                    come,
                )
    functions["__aeabi_f2d"] = functions["__extendsfdf2"] = (32,), 64, _widened
    functions["__aeabi_d2f"] = functions["__truncdfsf2"] = (64,), 32, _narrowed
    functions["__clzsi2"] = (32,), 32, _leading_zeros
    functions["__aeabi_lmul"] = functions["__muldi3"] = (64, 64), 64, _product
    for arm, gnu, kind in (("llsl", "ashl", "left"), ("llsr", "lshr", "right"), ("lasr", "ashr", "signed")):
        functions[f"__aeabi_{arm}"] = functions[f"__{gnu}di3"] = (64, 32), 64, partial(_shifted, kind=kind)
    functions["numod_root_f32"], functions["numod_root_f64"] = (
        ((32,), 32, partial(_root, SINGLE)),
        ((64,), 64, partial(_root, DOUBLE)),
    )
    return functions


_BY_NAME = _table()
