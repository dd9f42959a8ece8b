"""Arithmetic that emits LLVM instructions.

Calling a formula once with `Number`s inlines it as straight-line code into the kernel that calls it.

The loop vectoriser widens such code to the machine's full vector width. Compared with text compiled by Numba,
operations keep IEEE rounding whatever fast-math flags the kernel has, so that error-free transformations survive; and
no types are inferred, which is most of Numba's compile time.
"""

from __future__ import annotations

from llvmlite import ir

INF, NAN = float("inf"), float("nan")
# has no effect on these operations, but Numba adds the kernel's fast-math flags to every instruction without flags
_FLAGS = ("arcp",)
_MANTISSA = {32: 23, 64: 52}


class Number:
    """An LLVM value (float, signed integer or bool, or a vector of them) of the kernel being built; operators append
    instructions to it.
    """

    __slots__ = ("builder", "raw")

    def __init__(self, builder: ir.IRBuilder, raw: ir.Value) -> None:
        self.builder, self.raw = builder, raw

    @property
    def element(self) -> ir.Type:
        """The scalar type, or the element type of a vector."""
        return self.raw.type.element if isinstance(self.raw.type, ir.VectorType) else self.raw.type

    @property
    def width(self) -> int:
        """Width of the scalar type in bits."""
        if isinstance(self.element, ir.FloatType):
            return 32
        if isinstance(self.element, ir.DoubleType):
            return 64
        return self.element.width

    @property
    def mantissa(self) -> int:
        """Explicit bits of the significand: 23 or 52."""
        return _MANTISSA[self.width]

    @property
    def is_float(self) -> bool:
        """Whether it is a float (not an integer or bool)."""
        return not isinstance(self.element, ir.IntType)

    def __add__(self, other: Operand) -> Number:
        return self._arithmetic("fadd", "add", other)

    def __radd__(self, other: Operand) -> Number:
        return self + other

    def __sub__(self, other: Operand) -> Number:
        return self._arithmetic("fsub", "sub", other)

    def __rsub__(self, other: Operand) -> Number:
        return like(self, other) - self

    def __mul__(self, other: Operand) -> Number:
        return self._arithmetic("fmul", "mul", other)

    def __rmul__(self, other: Operand) -> Number:
        return self * other

    def __truediv__(self, other: Operand) -> Number:
        return Number(self.builder, self.builder.fdiv(self.raw, like(self, other).raw, flags=("contract",)))

    def __rtruediv__(self, other: Operand) -> Number:
        return like(self, other) / self

    def __neg__(self) -> Number:
        return Number(self.builder, self.builder.fneg(self.raw))

    def __lshift__(self, count: int) -> Number:
        return self._arithmetic("", "shl", count)

    def __rshift__(self, count: int) -> Number:
        return self._arithmetic("", "ashr", count)

    def __and__(self, other: Operand) -> Number:
        return self._arithmetic("", "and_", other)

    def __or__(self, other: Operand) -> Number:
        return self._arithmetic("", "or_", other)

    def __xor__(self, other: Operand) -> Number:
        return self._arithmetic("", "xor", other)

    def __lt__(self, other: Operand) -> Number:
        return self._compare("<", other)

    def __le__(self, other: Operand) -> Number:
        return self._compare("<=", other)

    def __gt__(self, other: Operand) -> Number:
        return self._compare(">", other)

    def __ge__(self, other: Operand) -> Number:
        return self._compare(">=", other)

    def __eq__(self, other: Operand) -> Number:
        return self._compare("==", other)

    def __ne__(self, other: Operand) -> Number:
        return self._compare("!=", other)

    __hash__ = None

    def _arithmetic(self, of_floats: str, of_integers: str, other: Operand) -> Number:
        operands = self.raw, like(self, other).raw
        raw = (
            getattr(self.builder, of_floats)(*operands, flags=_FLAGS)
            if self.is_float
            else getattr(self.builder, of_integers)(*operands)
        )
        return Number(self.builder, raw)

    def _compare(self, sign: str, other: Operand) -> Number:
        operands = sign, self.raw, like(self, other).raw
        if not self.is_float:
            return Number(self.builder, self.builder.icmp_signed(*operands))
        # NaN differs from everything
        compare = self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered
        return Number(self.builder, compare(*operands, flags=_FLAGS))


Operand = Number | float | int | bool


def like(model: Number, value: Operand) -> Number:
    """`value` itself if it is a Number, else a constant of the type of `model`."""
    if isinstance(value, Number):
        return value
    if not model.is_float and value >= 1 << (model.width - 1):
        value -= 1 << model.width
    value = float(value) if model.is_float else value
    return Number(
        model.builder,
        ir.Constant(
            model.raw.type, [value] * model.raw.type.count if isinstance(model.raw.type, ir.VectorType) else value
        ),
    )


def _of(element: ir.Type, model: Number) -> ir.Type:
    """`element`, or a vector of it with as many lanes as `model`."""
    return ir.VectorType(element, model.raw.type.count) if isinstance(model.raw.type, ir.VectorType) else element


def choose(model: Number, single: object, double: object) -> object:
    """`single` or `double`, by the width of `model`."""
    return single if model.width == 32 else double


def where(condition: Number, x: Operand, y: Operand) -> Number:
    """x where the condition holds, else y; both are computed. At least one is a Number."""
    model = x if isinstance(x, Number) else y
    return Number(model.builder, model.builder.select(condition.raw, like(model, x).raw, like(model, y).raw))


def library(name: str, *arguments: Number) -> Number:
    """LLVM's intrinsic of this name.

    Those that lower to calls of the C library (not `fmuladd`, `fma`, `sqrt`, `floor` and the like) keep a loop scalar.
    """
    first = arguments[0]
    name = (
        f"llvm.{name}.{f'v{first.raw.type.count}' if isinstance(first.raw.type, ir.VectorType) else ''}f{first.width}"
    )
    module = first.builder.module
    function = module.globals.get(name) or ir.Function(
        module, ir.FunctionType(first.raw.type, [argument.raw.type for argument in arguments]), name
    )
    return Number(first.builder, first.builder.call(function, [argument.raw for argument in arguments]))


def by_power_of_two(x: Number, n: Number) -> Number:
    """x * 2^n for 32-bit integers n, rounded once.

    A vector instruction with AVX-512 (`vectors.host`), elsewhere a call of the C library.
    """
    count = f"v{x.raw.type.count}" if isinstance(x.raw.type, ir.VectorType) else ""
    module, name = x.builder.module, f"llvm.ldexp.{count}f{x.width}.{count}i32"
    function = module.globals.get(name) or ir.Function(
        module, ir.FunctionType(x.raw.type, [x.raw.type, n.raw.type]), name
    )
    return Number(x.builder, x.builder.call(function, [x.raw, n.raw]))


def multiply_add(x: Number, y: Operand, z: Operand) -> Number:
    """x * y + z, fused (rounded once) where the machine has such an instruction."""
    return library("fmuladd", x, like(x, y), like(x, z))


def polynomial(x: Number, coefficients: tuple[float, ...]) -> Number:
    """c0 + c1 x + c2 x^2 + ... by Estrin's scheme (1960): pairs, pairs of pairs and so on, for a short chain of
    dependent instructions.
    """
    terms = list(coefficients)
    while len(terms) > 1:
        if len(terms) == 3:  # by Horner's scheme as soon, and without the square
            terms[1:] = [multiply_add(x, terms[2], terms[1])]
        terms = [
            multiply_add(x, *reversed(terms[k : k + 2])) if k + 1 < len(terms) else terms[k]
            for k in range(0, len(terms), 2)
        ]
        x = x * x if len(terms) > 1 else x
    return terms[0]


def bits(x: Number) -> Number:
    """The bits of a float as an integer."""
    return Number(x.builder, x.builder.bitcast(x.raw, _of(ir.IntType(x.width), x)))


def number(bits: Number) -> Number:
    """The float of these bits."""
    return Number(
        bits.builder, bits.builder.bitcast(bits.raw, _of(ir.FloatType() if bits.width == 32 else ir.DoubleType(), bits))
    )


def widened(x: Number) -> Number:
    """A float32 as float64."""
    return Number(x.builder, x.builder.fpext(x.raw, _of(ir.DoubleType(), x)))


def narrowed(x: Number) -> Number:
    """The float32 nearest to a float64, or the lower half of a 64-bit integer."""
    return Number(
        x.builder,
        x.builder.fptrunc(x.raw, _of(ir.FloatType(), x))
        if x.is_float
        else x.builder.trunc(x.raw, _of(ir.IntType(32), x)),
    )


def _sign(x: Number) -> int:
    return 1 << (x.width - 1)


def absolute(x: Number) -> Number:
    """x with its sign bit cleared, also of NaN."""
    return number(bits(x) & (_sign(x) - 1))


def with_sign(magnitude: Number, x: Number) -> Number:
    """`magnitude`, whose sign bit must be clear, with the sign of x."""
    return number(bits(magnitude) | (bits(x) & _sign(x)))


def at_most(x: Number, limit: float) -> Number:
    """The lesser of two; NaN stays."""
    return where(x > limit, limit, x)


def at_least(x: Number, limit: float) -> Number:
    """The greater of two; NaN stays."""
    return where(x < limit, limit, x)
