"""The dtype table, a row per dtype, and PyTorch's type promotion.

Not where values are converted: that is `ops.pointwise`.
"""

from __future__ import annotations

from math import inf
from types import SimpleNamespace

import numpy as np


class dtype:
    """An element type.

    `numpy` is the type users see (None: NumPy has none); `storage` the type kernels read (bool is stored as bytes,
    16-bit floats as their bits); `compute` the dtype whose arithmetic it has (float32 for 16-bit floats, else itself);
    `real` that of a complex number's parts, else itself. `differentiable`: whether its tensors may require gradients.

    Example:

        >>> torch.float32.itemsize, torch.float32.is_floating_point
        (4, True)
    """

    __slots__ = (
        "name", "numpy", "storage", "compute", "real", "kind", "itemsize", "is_floating_point", "is_signed",
        "is_complex", "differentiable", "short",
    )  # fmt: skip

    def __init__(self, name: str, kind: str, numpy: object, storage: object, short: str) -> None:
        self.name, self.kind, self.short, self.compute, self.real = name, kind, short, self, self
        self.numpy, self.storage = None if numpy is None else np.dtype(numpy), np.dtype(storage)
        self.itemsize = self.storage.itemsize
        self.is_floating_point = kind == "f"
        self.is_signed = kind in "cfi"
        self.is_complex = kind == "c"
        self.differentiable = kind in "cf"

    def __repr__(self) -> str:
        return f"numod.{self.name}"

    def __reduce__(self) -> tuple:
        return _by_name, (self.name,)

    def to_complex(self) -> dtype:
        """The complex dtype with parts of this precision, or at least float32."""
        return self if self.is_complex else complex128 if self is float64 else complex64

    def to_real(self) -> dtype:
        """The dtype of a complex dtype's parts; a real dtype itself."""
        return self.real


# name, kind (b bool, u uint8, w wider unsigned, i signed, f float, c complex), what NumPy shows, what kernels read,
# PyTorch's short name. Few ops take dtypes of kind w, as in PyTorch: rows and ops name them (`ops.op.Op.wide_unsigned`)
_ROWS = [
    dtype("bool", "b", np.bool_, np.uint8, "Bool"),
    dtype("uint8", "u", np.uint8, np.uint8, "Byte"),
    dtype("int8", "i", np.int8, np.int8, "Char"),
    dtype("int16", "i", np.int16, np.int16, "Short"),
    dtype("int32", "i", np.int32, np.int32, "Int"),
    dtype("int64", "i", np.int64, np.int64, "Long"),
    dtype("uint16", "w", np.uint16, np.uint16, "UInt16"),
    dtype("uint32", "w", np.uint32, np.uint32, "UInt32"),
    dtype("uint64", "w", np.uint64, np.uint64, "UInt64"),
    dtype("float16", "f", np.float16, np.uint16, "Half"),
    dtype("bfloat16", "f", None, np.uint16, "BFloat16"),
    dtype("float32", "f", np.float32, np.float32, "Float"),
    dtype("float64", "f", np.float64, np.float64, "Double"),
    dtype("complex64", "c", np.complex64, np.complex64, "ComplexFloat"),
    dtype("complex128", "c", np.complex128, np.complex128, "ComplexDouble"),
]
ALL = {row.name: row for row in _ROWS}


class AbsentDtype(dtype):
    """A dtype of PyTorch that numod does not support; modules that mention it can be imported.

    Asking what a kernel needs raises TypeError.
    """

    __slots__ = ()

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize, self.real = name, itemsize, self
        self.is_floating_point, self.is_complex = name.startswith("float"), name.startswith("complex")
        self.is_signed = self.is_floating_point or self.is_complex or name.startswith("int")

    def __getattr__(self, name: str) -> object:
        if name not in dtype.__slots__:
            raise AttributeError(f"'dtype' object has no attribute '{name}'")
        integers = "quint8" if self.name.startswith("q") else "uint8" if self.name.startswith("u") else "int8"
        replacement = "numod.complex64" if self.is_complex else f"numod.{integers}"
        use = "numod.bfloat16 or numod.float16" if self.is_floating_point else replacement
        raise TypeError(f"numod has no tensors of dtype {self.name}; use {use}")


class QuantizedDtype(dtype):
    """The dtype of a quantized tensor, whose memory holds numbers of the dtype `integers`. Kernels never see it.

    Of `bits` less than 8, a byte holds several integers, the first in its low bits.
    """

    __slots__ = ("integers", "bits")

    def __init__(self, name: str, integers: dtype, short: str, bits: int | None = None) -> None:
        super().__init__(name, "q", integers.numpy, integers.storage, short)
        self.integers, self.bits = integers, bits or 8 * integers.itemsize

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest integer."""
        return (0, 2**self.bits - 1) if self.bits < 8 else RANGES[self.integers]


_EIGHT_BITS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
ABSENT = {
    name: AbsentDtype(name, size)
    for name, size in {
        **dict.fromkeys(_EIGHT_BITS, 1),
        "complex32": 4,
        **{f"{sign}int{bits}": 1 for bits in range(1, 8) for sign in ("", "u")},
    }.items()
}
bool_, uint8, int8, int16, int32, int64, uint16, uint32, uint64, *_floats = _ROWS
float16, bfloat16, float32, float64, complex64, complex128 = _floats
QUANTIZED = {
    row.name: row
    for row in (
        QuantizedDtype("qint8", int8, "QInt8"),
        QuantizedDtype("quint8", uint8, "QUInt8"),
        QuantizedDtype("qint32", int32, "QInt32"),
        QuantizedDtype("quint4x2", uint8, "QUInt4x2", 4),
        QuantizedDtype("quint2x4", uint8, "QUInt2x4", 2),
    )
}
qint8, quint8, qint32, quint4x2, quint2x4 = QUANTIZED.values()
float16.compute = bfloat16.compute = complex64.real = float32
complex128.real = float64
_FROM_NUMPY = {row.numpy: row for row in _ROWS if row.numpy is not None}
_CATEGORY = {"b": 0, "u": 1, "w": 1, "i": 1, "f": 2, "c": 3}
_SCALAR_CATEGORY = {bool: 0, int: 1, float: 2, complex: 3}
_default = float32
on_default_change: list = []  # called after the default dtype has changed
_OF_PYTHON = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(kind: object) -> object:
    """`kind` as a dtype, where users may write a Python type: `dtype=float` is float64, as in NumPy.

    Raises TypeError for other objects; None is returned as it is.
    """
    kind = _OF_PYTHON.get(kind, kind) if kind.__class__ is type else kind
    if kind is not None and not isinstance(kind, dtype):
        raise TypeError(f"argument 'dtype' must be a numod.dtype, such as numod.float32, not {kind!r}")
    if kind.__class__ is QuantizedDtype:
        raise TypeError(f"{kind!r} tensors have a scale: make them by numod.quantize_per_tensor, or dequantize() first")
    return kind


def _by_name(name: str) -> dtype:
    return ALL.get(name) or QUANTIZED.get(name) or ABSENT[name]


def get_default_dtype() -> dtype:
    """The floating dtype of new tensors made from Python floats.

    Example:

        >>> torch.get_default_dtype()
        numod.float32
    """
    return _default


def set_default_dtype(d: dtype) -> None:
    """Make `d` the dtype of new floating tensors. Raises TypeError unless it is a floating dtype.

    Example:

        >>> torch.set_default_dtype(torch.float64)
        >>> torch.tensor(1.5).dtype
        numod.float64
        >>> torch.set_default_dtype(torch.float32)
    """
    global _default
    if not (isinstance(d, dtype) and d.is_floating_point and d.differentiable):
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}; try numod.float64")
    _default = d
    for forget in on_default_change:
        forget()


def from_numpy(numpy_dtype: object) -> dtype:
    """The dtype of a NumPy dtype. Raises TypeError, naming the supported ones, where numod has none."""
    if (known := _FROM_NUMPY.get(numpy_dtype)) is not None:
        return known
    numpy_dtype = np.dtype(numpy_dtype).newbyteorder("=")
    try:
        return _FROM_NUMPY[numpy_dtype]
    except KeyError:
        supported = ", ".join(ALL)
        raise TypeError(
            f"can't convert numpy dtype {numpy_dtype} to a numod dtype. The supported types are: {supported}."
        ) from None


def of_scalar(value: object) -> dtype:
    """The dtype a Python number takes as a tensor of its own."""
    return of_scalar_type(value.__class__)


def of_scalar_type(kind: type) -> dtype:
    """As `of_scalar`, from the number's type. NumPy scalars count as the Python number they are nearest to."""
    category = scalar_category(kind)
    return (bool_, int64, _default, _default.to_complex())[category]


def scalar_category(kind: type) -> int:
    """0 bool, 1 integer, 2 float, 3 complex. Raises TypeError where `kind` is no number type."""
    category = _SCALAR_CATEGORY.get(kind)
    if category is None:
        for base, category in (
            (np.bool_, 0),
            (bool, 0),
            (np.integer, 1),
            (int, 1),
            (np.floating, 2),
            (float, 2),
            (np.complexfloating, 3),
            (complex, 3),
        ):
            if issubclass(kind, base):
                return category
        raise TypeError(f"expected a Tensor or a number, got {kind.__name__}")
    return category


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype both fit in, by PyTorch's table (an integer never widens a float).

    Raises RuntimeError for uint16, uint32 and uint64 with any other dtype than a floating one.

    Example:

        >>> torch.promote_types(torch.int32, torch.float16)
        numod.float16
    """
    if type1 is type2:
        return type1
    for type_ in (type1, type2):
        if not isinstance(type_, dtype):
            raise TypeError(f"promote_types() takes two dtypes, not {type(type_).__name__}")
        if type_.__class__ is QuantizedDtype:
            raise RuntimeError(f"promote_types(): {type_} is a quantized dtype, which has no common dtype with others")
    low, high = sorted((type1, type2), key=_order)
    if "w" in (low.kind, high.kind) and high.kind != "f":
        raise RuntimeError(
            "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote "
            f"{type1.short} and {type2.short}; convert one with .to()"
        )
    if _CATEGORY[high.kind] > _CATEGORY[low.kind]:
        # a complex number's parts are as precise as the other
        return promote_types(high, low.to_complex()) if low.is_floating_point else high
    if "u" in (low.kind, high.kind):  # uint8 with a signed integer: int8 cannot hold 255
        return int16 if high is int8 else high
    # float16 and bfloat16 hold only parts of each other
    return float32 if high.compute is low.compute is not high and low.kind == "f" else high


def _order(row: dtype) -> tuple:
    return _CATEGORY[row.kind], row.itemsize, row.kind == "i"


def result_type(dimensioned: list[dtype], zero_dimensional: list[dtype], scalars: list[type]) -> dtype:
    """PyTorch's promotion: tensors with dimensions decide; zero-dimensional ones, then Python numbers, only raise the
    category.
    """
    result = None
    for group in (dimensioned, zero_dimensional, [of_scalar_type(kind) for kind in scalars]):
        group_result = None
        for dtype_ in group:
            group_result = dtype_ if group_result is None else promote_types(group_result, dtype_)
        if group_result is None:
            continue
        if result is None or _CATEGORY[group_result.kind] > _CATEGORY[result.kind]:
            if result is bool_ and group_result.kind == "w":
                promote_types(result, group_result)  # raises
            result = result.to_complex() if result is not None and result.is_floating_point else group_result
    return result


def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether a result of dtype `from_` may be written to a tensor of dtype `to`: the category must not decrease.

    Raises TypeError if an argument is not a dtype.

    Example:

        >>> torch.can_cast(torch.float64, torch.int32)
        False
    """
    if not (isinstance(from_, dtype) and isinstance(to, dtype)):
        raise TypeError(
            f"can_cast(): arguments 'from_' and 'to' must be numod dtypes, not {type(from_).__name__} and "
            f"{type(to).__name__}"
        )
    return _CATEGORY[to.kind] >= _CATEGORY[from_.kind]


class _Info:
    """The limits of a dtype, with the names of `numpy.finfo` and `numpy.iinfo`."""

    def __init__(self, kind: dtype | None = None) -> None:
        kind = as_dtype(kind.integers if isinstance(kind, QuantizedDtype) else kind)
        kind = kind.real if kind else _default
        if ("f" if kind.is_floating_point else kind.name[0]) not in self._kinds:
            raise TypeError(f"{type(self).__name__} does not describe {kind!r}; use numod.{self._other}")
        info = _LIMITS.get(kind.name) or self._source(kind.name)
        self.dtype, self.bits = kind.name, info.bits
        for name, convert in self._fields.items():
            setattr(self, name, convert(getattr(info, name)))

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name):g}" for name in self._fields)
        return f"{type(self).__name__}({fields}, dtype={self.dtype})"


def _limits(
    bits: int, largest: float, eps: float, smallest: float, resolution: float = 1.0, low: float | None = None
) -> SimpleNamespace:
    low = -largest if low is None else low
    return SimpleNamespace(
        bits=bits, resolution=resolution, min=low, max=largest, eps=eps, smallest_normal=smallest, tiny=smallest
    )


_LIMITS = {  # of formats that NumPy lacks
    "bfloat16": _limits(16, (2.0 - 2.0**-7) * 2.0**127, 2.0**-7, 2.0**-126, 0.01),
    "float8_e4m3fn": _limits(8, 448.0, 2.0**-3, 2.0**-6), "float8_e4m3fnuz": _limits(8, 240.0, 2.0**-3, 2.0**-7),
    "float8_e5m2": _limits(8, 57344.0, 2.0**-2, 2.0**-14), "float8_e5m2fnuz": _limits(8, 57344.0, 2.0**-2, 2.0**-15),
    "float8_e8m0fnu": _limits(8, 2.0**127, 1.0, 2.0**-127, low=2.0**-127),
}  # fmt: skip


class finfo(_Info):
    """Limits of a floating dtype: resolution, min, max, eps, smallest_normal, tiny.

    Example:

        >>> torch.finfo(torch.float32).eps
        1.1920928955078125e-07
    """

    _kinds, _other, _source = "f", "iinfo", staticmethod(np.finfo)
    # a power of 10
    _fields = {
        "resolution": lambda value: float(f"{value:.0e}"),
        **dict.fromkeys(("min", "max", "eps", "smallest_normal", "tiny"), float),
    }


class iinfo(_Info):
    """Limits of an integer dtype: min, max.

    Example:

        >>> torch.iinfo(torch.int8).max
        127
    """

    _kinds, _other, _source = "iu", "finfo", staticmethod(np.iinfo)
    _fields = dict.fromkeys(("min", "max"), int)


RANGES: dict[dtype, tuple[float, float]] = {  # the least and the greatest number that each holds
    row: (0, 1) if row.kind == "b" else (info.min, info.max)
    for row in _ROWS for info in (None if row.kind == "b" else (iinfo if row.kind in "iuw" else finfo)(row.real),)
}  # fmt: skip


def fitting(number: object, kind: dtype) -> object:
    """A Python number converted for `kind`: complex numbers without an imaginary part become real.

    Other objects are returned unchanged. Raises RuntimeError for a number that `kind` cannot represent; infinities and
    NaN are floats.
    """
    if number.__class__ is complex and number.imag == 0 and not kind.is_complex:
        number = number.real
    if number.__class__ not in (int, float, complex) or kind.kind == "b":
        return number
    if number.__class__ is complex:
        fitting(number.real, kind.real)
        fitting(number.imag, kind.real)
        fits = kind.is_complex
    else:
        low, high = RANGES[kind]
        fits = low <= number <= high
        if not fits and kind.differentiable:
            fits = not -inf < number < inf
        elif not fits and kind.kind in "uw" and number.__class__ is int:
            fits = -high <= number < 0  # -1 is the greatest, as in PyTorch
    if not fits:
        raise RuntimeError(f"value cannot be converted to type {kind.name} without overflow")
    return number
