"""Integer division by the processor's scalar instruction, for processors without a vector form.

Without AVX-512's 64-bit conversions and products, the arithmetic of `library.arithmetic` took four times as long (Zen
3).
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ..device import target

formulas: dict[str, Callable] = {}


def truncated(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The int64 quotient rounded towards zero; 0 where the divisor is 0."""
    quotient, _, sign = _divided(builder, x, y)
    return _signed(builder, quotient, sign, y)


def whole_quotient(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> ir.Value:
    """The int64 quotient rounded towards minus infinity; 0 where the divisor is 0."""
    quotient, rest, sign = _divided(builder, x, y)
    inexact = builder.sext(builder.icmp_signed("!=", rest, rest.type(0)), x.type)
    return _signed(builder, builder.sub(quotient, builder.and_(inexact, sign)), sign, y)


def _divided(builder: ir.IRBuilder, x: ir.Value, y: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """(quotient of the absolute values, remainder, -1 if the signs of x and y differ else 0).

    The division is unsigned: LLVM's code first tests whether both numbers fit into 32 bits, where the instruction is
    faster, and for negative numbers in random order that branch would be mispredicted.
    """
    last = x.type(x.type.width - 1)
    signs = [builder.ashr(value, last) for value in (x, y)]
    dividend, divisor = (builder.sub(builder.xor(value, sign), sign) for value, sign in zip((x, y), signs))
    # the instruction traps for a divisor of 0
    divisor = builder.select(builder.icmp_signed("==", y, y.type(0)), y.type(1), divisor)
    quotient = builder.udiv(dividend, divisor)
    return quotient, builder.sub(dividend, builder.mul(quotient, divisor)), builder.xor(*signs)


def _signed(builder: ir.IRBuilder, quotient: ir.Value, sign: ir.Value, y: ir.Value) -> ir.Value:
    """The quotient with its sign, and 0 where the divisor is 0."""
    return builder.select(
        builder.icmp_signed("==", y, y.type(0)), y.type(0), builder.sub(builder.xor(quotient, sign), sign)
    )


if "+avx512dq" not in target.features().split(","):
    formulas = {function.__name__: function for function in (truncated, whole_quotient)}
