"""Elementwise arithmetic, comparison and logic, conversions, and products of matrices."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

import numod
import numod.nn.functional as F

from ...core import Tensor
from ...dtypes import dtype
from ..registry import operator
from . import unsigned
from .unsigned import in_int64, in_order


def unary(names: str, function: Callable, since: int = 1) -> None:
    """Enter a function of one tensor. Versions before 6 have the attribute consumed_inputs, which means nothing."""

    def compute(x: Tensor) -> Tensor:
        return function(x)

    def compute_in_old_version(x: Tensor, *, consumed_inputs: list[int] | None = None) -> Tensor:
        return function(x)

    operator(names, since)(compute_in_old_version)
    operator(names, max(since, 6))(compute)


def binary(name: str, function: Callable, since: int = 1) -> None:
    """Enter a function of two tensors. Versions before 7 broadcast the second along `axis`, if told to."""

    def compute(a: Tensor, b: Tensor) -> Tensor:
        return function(a, b)

    def compute_in_old_version(
        a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0, consumed_inputs: list[int] | None = None
    ) -> Tensor:
        return function(a, _aligned(b, a.ndim, axis) if broadcast else b)

    if since < 7:
        operator(name, since)(compute_in_old_version)
    operator(name, max(since, 7))(compute)


def _aligned(b: Tensor, ndim: int, axis: int | None) -> Tensor:
    """`b` with as many dimensions of size 1 behind it as place its first at `axis` of `ndim`."""
    if axis is None:
        return b
    axis = axis + ndim if axis < 0 else axis
    return b.reshape(*b.shape, *[1] * (ndim - axis - b.ndim))


def divide(a: Tensor, b: Tensor) -> Tensor:
    """Quotient; of integers rounded towards zero."""
    return a / b if a.dtype.is_floating_point or a.dtype.is_complex else numod.div(a, b, rounding_mode="trunc")


def power(a: Tensor, b: Tensor) -> Tensor:
    """a ** b in the dtype of `a`."""
    return numod.pow(a, b).to(a.dtype) if a.dtype is not b.dtype else numod.pow(a, b)


def reciprocal(x: Tensor) -> Tensor:
    """1 / x."""
    return numod.reciprocal(x)


for _names, _function in {
    "Abs": in_int64(numod.abs, lambda x: x),
    "Ceil": numod.ceil,
    "Exp": numod.exp,
    "Floor": numod.floor,
    "Log": numod.log,
    "Neg": numod.neg,
    "Reciprocal": reciprocal,
    "Sqrt": numod.sqrt,
    "Not": numod.logical_not,
    "Acos": numod.acos,
    "Acosh": numod.acosh,
    "Asin": numod.asin,
    "Asinh": numod.asinh,
    "Atan": numod.atan,
    "Atanh": numod.atanh,
    "Cos": numod.cos,
    "Cosh": numod.cosh,
    "Sin": numod.sin,
    "Sinh": numod.sinh,
    "Tan": numod.tan,
    "Erf": numod.erf,
    "Sign": in_int64(numod.sign, unsigned.sign),
    "Round": numod.round,
    "IsNaN": numod.isnan,
    "BitwiseNot": in_int64(numod.bitwise_not),
    "Det": numod.det,
}.items():
    unary(_names, _function)
for _names, _function in {
    "Add": in_int64(numod.add),
    "Sub": in_int64(numod.sub),
    "Mul": numod.mul,
    "Div": in_int64(divide, unsigned.divide),
    "Pow": power,
    "And": numod.logical_and,
    "Or": numod.logical_or,
    "Xor": numod.logical_xor,
    "Equal": numod.eq,
    "Greater": in_int64(numod.gt, in_order(numod.gt)),
    "Less": in_int64(numod.lt, in_order(numod.lt)),
}.items():
    binary(_names, _function)
for _names, _function in {
    "GreaterOrEqual": in_int64(numod.ge, in_order(numod.ge)),
    "LessOrEqual": in_int64(numod.le, in_order(numod.le)),
    "BitwiseAnd": numod.bitwise_and,
    "BitwiseOr": numod.bitwise_or,
    "BitwiseXor": numod.bitwise_xor,
}.items():
    binary(_names, _function, 12)


def _enter_variadic(name: str, function: Callable) -> None:
    def compute(first: Tensor, *others: Tensor) -> Tensor:
        return reduce(function, others, first)

    def compute_in_old_version(first: Tensor, *others: Tensor, consumed_inputs: list[int] | None = None) -> Tensor:
        return reduce(function, others, first)

    operator(name, 1)(compute_in_old_version)
    operator(name, 6)(compute)


maximum = in_int64(numod.maximum, in_order(numod.maximum))
minimum = in_int64(numod.minimum, in_order(numod.minimum))
_enter_variadic("Max", maximum)
_enter_variadic("Min", minimum)
_enter_variadic("Sum", numod.add)


@operator("Mean")
def mean(first: Tensor, *others: Tensor, consumed_inputs: list[int] | None = None) -> Tensor:
    """The mean of tensors that broadcast."""
    return reduce(numod.add, others, first) / (1 + len(others))


@operator("Mod", since=10)
def modulo(a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    """The remainder with the divisor's sign, or with the dividend's as C's fmod."""
    return numod.fmod(a, b) if fmod else _remainder(a, b)


_remainder = in_int64(numod.remainder, unsigned.remainder)


@operator("BitShift", since=11)
def shift_bits(x: Tensor, count: Tensor, *, direction: str) -> Tensor:
    """Shift to the "LEFT" or "RIGHT"."""
    if direction not in ("LEFT", "RIGHT"):
        raise ValueError(f"direction must be LEFT or RIGHT, got {direction}")
    return _shift_left(x, count) if direction == "LEFT" else _shift_right(x, count)


_shift_left = in_int64(numod.bitwise_left_shift)
_shift_right = in_int64(numod.bitwise_right_shift, unsigned.shift_right)


@operator("Clip", since=1)
def clip_in_old_version(
    x: Tensor, *, min: float = -np.inf, max: float = np.inf, consumed_inputs: list[int] | None = None
) -> Tensor:
    """Before version 11 the limits are attributes."""
    return numod.clamp(x, min, max)


@operator("Clip", since=11)
def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """`x` within its limits; the upper one where they cross."""
    x = x if low is None else maximum(x, low.reshape(()))
    return x if high is None else minimum(x, high.reshape(()))


@operator("IsInf", since=10)
def is_infinite(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    """Where `x` is infinite, of the signs asked for."""
    if detect_negative and detect_positive:
        return numod.isinf(x)
    if not detect_negative and not detect_positive:
        return numod.zeros_like(x, dtype=numod.bool)
    return numod.isposinf(x) if detect_positive else numod.isneginf(x)


@operator("Where", since=9)
def where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """`a` where the condition holds, else `b`."""
    return numod.where(condition, a, b)


@operator("Cast", since=6)
def cast(x: Tensor, *, to: dtype, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """`x` in another dtype."""
    return x.to(to)


@operator("Cast", since=1)
def cast_in_old_version(x: Tensor, *, to: str) -> Tensor:
    """Before version 6 the dtype is a name."""
    names = {"float": "float32", "double": "float64"}
    return x.to(numod.dtypes.ALL[names.get(to.lower(), to.lower())])


@operator("CastLike", since=15)
def cast_like(x: Tensor, target: Tensor, *, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """`x` in the dtype of `target`."""
    return x.to(target.dtype)


@operator("BitCast", since=26)
def reinterpret(x: Tensor, *, to: dtype) -> Tensor:
    """The bits of `x` as another dtype of the same size."""
    if to.itemsize != x.dtype.itemsize:
        raise ValueError(f"dtypes of different sizes, {x.dtype} and {to}")
    return x.contiguous().view(to)


@operator("MatMul")
def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Batched product of matrices."""
    return numod.matmul(a, b)


@operator("Gemm", since=1)
def gemm_in_old_version(
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    broadcast: int = 0,
) -> Tensor:
    """Before version 7."""
    return gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Gemm", since=7)
def gemm(
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """alpha a b + beta c, of matrices that may be transposed first."""
    a = a.T if transA else a
    if transB and alpha == 1 and (c is None or (beta == 1 and c.ndim == 1 and c.shape[0] == b.shape[0])):
        return F.linear(a, b, c)
    product = a @ (b.T if transB else b)
    product = product if alpha == 1 else alpha * product
    return product if c is None else product + (c if beta == 1 else beta * c)


@operator("Einsum", since=12)
def einsum(*operands: Tensor, equation: str) -> Tensor:
    """Einstein's summation."""
    return numod.einsum(equation.replace(" ", ""), *operands)


@operator("CumSum", since=11, host="axis")
def cumsum(x: Tensor, axis: np.ndarray, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Sums of all elements before, with or without each element's own."""
    return _cumulative(numod.cumsum, 0, x, int(axis.reshape(())), exclusive, reverse)


@operator("CumProd", since=26, host="axis")
def cumprod(x: Tensor, axis: np.ndarray, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """Products of all elements before, with or without each element's own."""
    return _cumulative(numod.cumprod, 1, x, int(axis.reshape(())), exclusive, reverse)


def _cumulative(function: Callable, start: int, x: Tensor, axis: int, exclusive: int, reverse: int) -> Tensor:
    x = x.flip(axis) if reverse else x
    out = function(x, axis, dtype=x.dtype)
    if exclusive:
        first = numod.full_like(x.narrow(axis, 0, 1), start) if x.shape[axis] else x
        out = numod.cat([first, out.narrow(axis, 0, max(x.shape[axis] - 1, 0))], axis)
    return out.flip(axis) if reverse else out
