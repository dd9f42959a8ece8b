"""`Dim` and `dynamic_shapes`, as in PyTorch: which sizes of the inputs may vary between calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.tensor import Tensor
from ..serialization import records


class DimHint:
    """`Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`: how a dimension without a name may vary.

    Call it to set a range: `Dim.DYNAMIC(min=1, max=8)`.
    """

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        """The same hint with a range."""
        return DimHint(self.kind, min, max)

    def __repr__(self) -> str:
        bounds = [f"{name}={size}" for name, size in (("min", self.min), ("max", self.max)) if size is not None]
        return f"DimHint({', '.join([self.kind, *bounds])})"


class Dim:
    """A dimension whose size may vary from `min` to `max` (None: unbounded). Equal names mean equal sizes.

    `2 * batch`, `batch + 1` and `batch - 1` are derived dimensions. Raises AssertionError, as PyTorch does, for a name
    that is not an identifier and for an empty range.
    """

    AUTO, DYNAMIC, STATIC = DimHint("AUTO"), DimHint("DYNAMIC"), DimHint("STATIC")

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        assert isinstance(name, str) and name.isidentifier(), f"Dim name must be a valid identifier, got {name}"
        self.name, self.min, self.max = name, 0 if min is None else min, max
        assert max is None or self.min < max, f"Cannot create Dim with inconsistent min={self.min}, max={max}"

    @property
    def __name__(self) -> str:
        """The name, as PyTorch's dimensions have it."""
        return self.name

    def __repr__(self) -> str:
        low = [f"min={self.min}"] if self.min else []
        high = [] if self.max is None else [f"max={self.max}"]
        return f"Dim({', '.join([repr(self.name), *low, *high])})"

    def __mul__(self, factor: int) -> DerivedDim:
        return DerivedDim(self, 1, 0) * factor

    __rmul__ = __mul__

    def __add__(self, number: int) -> DerivedDim:
        return DerivedDim(self, 1, 0) + number

    def __sub__(self, number: int) -> DerivedDim:
        return DerivedDim(self, 1, 0) + -number


@dataclass(frozen=True)
class DerivedDim:
    """`factor * root + offset`."""

    root: Dim
    factor: int
    offset: int

    @property
    def __name__(self) -> str:
        """The expression, as PyTorch's dimensions have it."""
        product = self.root.name if self.factor == 1 else f"{self.factor}*{self.root.name}"
        return product if not self.offset else f"{product} {'+' if self.offset > 0 else '-'} {abs(self.offset)}"

    def __repr__(self) -> str:
        return self.__name__

    def __mul__(self, factor: int) -> DerivedDim:
        if type(factor) is not int or factor <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {factor} with {self.__name__}, where a positive integer was expected. (Only "
                "increasing linear operations with integer coefficients are supported.)"
            )
        return DerivedDim(self.root, self.factor * factor, self.offset * factor)

    __rmul__ = __mul__

    def __add__(self, number: int) -> DerivedDim:
        if type(number) is not int:
            raise NotImplementedError(
                f"Attempted to add {number} to {self.__name__}, where an integer was expected. (Only increasing linear "
                "operations with integer coefficients are supported.)"
            )
        return DerivedDim(self.root, self.factor, self.offset + number)

    def __sub__(self, number: int) -> DerivedDim:
        return self + -number


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dimensions: `dims("batch", "sequence")`, or `dims("batch sequence")`."""
    return tuple([Dim(name, min=min, max=max) for words in names for name in words.split()])


@dataclass
class Extent:
    """A dynamic dimension of an input: `factor * symbol + offset`.

    `label`: the dimension's name in messages, such as `x.size()[0]`.
    """

    symbol: Symbol
    factor: int
    offset: int
    label: str


@dataclass(eq=False)
class Symbol:
    """A size that may vary. `hint`: the kind of an unnamed dimension, else ""."""

    name: str
    low: int
    high: int | None
    size: int  # the example's
    hint: str = ""
    label: str = ""  # of an unnamed dimension, such as `x.size()[0]`


def read(shapes: Any, args: tuple, kwargs: Mapping[str, Any], names: Sequence[str]) -> list[dict[int, Extent]]:
    """The dynamic dimensions of each tensor among the arguments. `names`: the arguments' names.

    Raises RuntimeError, with PyTorch's messages, for shapes that do not fit the arguments.
    """
    reader = _ShapesReader()
    arguments = {**dict(zip(names, args)), **kwargs}
    if isinstance(shapes, Mapping):
        if set(shapes) != set(arguments):
            raise RuntimeError(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg names "
                f"{list(arguments)} of `inputs`, but here they are {list(shapes)}. Alternatively, you could also "
                "ignore arg names entirely and specify `dynamic_shapes` as a list/tuple matching `inputs`."
            )
        for name, argument in arguments.items():
            reader.read(shapes[name], argument, name, f"dynamic_shapes[{name!r}]")
    elif isinstance(shapes, (tuple, list)):
        reader.read(tuple(shapes), tuple(arguments.values()), tuple(arguments), "dynamic_shapes")
    else:
        raise RuntimeError(
            f"Expecting `dynamic_shapes` to be a dict of argument names, a list or a tuple, got {shapes!r}"
        )
    return reader.tensors


class _ShapesReader:
    """Reads `dynamic_shapes`, and collects the symbols and constraints of the dimensions."""

    def __init__(self) -> None:
        self.tensors: list[dict[int, Extent]] = []
        self.symbols: dict[str, Symbol] = {}
        self.dims: dict[str, Dim] = {}

    def read(self, shapes: Any, argument: Any, name: Any, where: str) -> None:
        """Read the shapes of one argument, which may be a structure of tensors."""
        if isinstance(argument, Tensor):
            self.tensors.append(self._of_tensor(shapes, argument, name, where))
        elif records.is_record(argument):
            self._read_record(shapes, argument, name, where)
        elif isinstance(argument, (tuple, list)):
            self._check_form(shapes, (tuple, list), argument, where)
            for k, part in enumerate(argument):
                inner = name[k] if isinstance(name, tuple) else f"{name}[{k}]"
                self.read(None if shapes is None else shapes[k], part, inner, f"{where}[{k}]")
        elif isinstance(argument, dict):
            self._check_form(shapes, Mapping, argument, where)
            for key, part in argument.items():
                self.read(None if shapes is None else shapes[key], part, f"{name}[{key!r}]", f"{where}[{key!r}]")
        elif shapes is not None:
            raise RuntimeError(
                f"Cannot associate shape {shapes!r} at `{where}` to non-tensor {argument!r} (expected None)"
            )

    def _read_record(self, shapes: Any, record: Any, name: str, where: str) -> None:
        """Read the shapes of a record's fields, for a dataclass those that are not None."""
        parts = records.fields(record)
        if not isinstance(record, tuple):
            parts = {key: part for key, part in parts.items() if part is not None}
        self._check_form(shapes, (tuple, list), parts, where)
        for k, (key, part) in enumerate(parts.items()):
            self.read(None if shapes is None else shapes[k], part, f"{name}.{key}", f"{where}[{k}]")

    def _check_form(self, shapes: Any, kind: Any, argument: Any, where: str) -> None:
        if shapes is None or (isinstance(shapes, kind) and len(shapes) == len(argument)):
            return
        counts = (
            f"{len(argument)} elements, but `{where}` has {len(shapes) if isinstance(shapes, kind) else repr(shapes)}"
        )
        raise RuntimeError(
            f"Detected mismatch between the structure of `inputs` and `dynamic_shapes`: `inputs` has {counts}"
        )

    def _of_tensor(self, shapes: Any, tensor: Tensor, name: str, where: str) -> dict[int, Extent]:
        """The dynamic extents of a tensor's dimensions, as `dynamic_shapes` specifies them."""
        if shapes is None:
            return {}
        if isinstance(shapes, (tuple, list)):
            if len(shapes) != tensor.ndim:
                raise RuntimeError(
                    f"Expected dynamic shape spec {shapes} specified at `{where}` to have the same length as the "
                    f"actual tensor shape {tensor.shape} (expected {tensor.ndim}, but got {len(shapes)} instead)"
                )
            shapes = dict(enumerate(shapes))
        if not isinstance(shapes, Mapping):
            raise RuntimeError(
                f"Unexpected input tensor shape {shapes!r} specified at `{where}` (expected either a list/tuple of "
                "dimensions, or a dict mapping indices to dimensions, where each dimension is an int, a Dim, Dim.AUTO, "
                "Dim.STATIC, or Dim.DYNAMIC)"
            )
        by_dimension = {}
        for index, dim in shapes.items():
            if type(index) is not int or not -tensor.ndim <= index < tensor.ndim:
                raise IndexError(f"{where}: there is no dimension {index!r} in a tensor of shape {tuple(tensor.shape)}")
            index %= tensor.ndim
            extent = self._extent(dim, tensor.shape[index], f"{name}.size()[{index}]", index, shapes, where)
            by_dimension |= {} if extent is None else {index: extent}
        return by_dimension

    def _extent(self, dim: Any, size: int, label: str, index: int, shapes: Any, where: str) -> Extent | None:
        """The extent of one dimension, as `dynamic_shapes` specifies it; None if it is static."""
        if dim is None or (isinstance(dim, DimHint) and dim.kind == "STATIC"):
            return None
        if type(dim) is int:
            if dim != size:
                raise RuntimeError(f"Static shape constraint of {dim} does not match input size of {size}, for {label}")
            return None
        if isinstance(dim, DimHint):
            name = f"size{len(self.symbols)}"
            symbol = self.symbols[name] = Symbol(name, dim.min or 0, dim.max, size, dim.kind, label)
            return Extent(symbol, 1, 0, label)
        if isinstance(dim, Dim):
            dim = DerivedDim(dim, 1, 0)
        if not isinstance(dim, DerivedDim):
            raise RuntimeError(
                f"Unexpected dimension mapped to index {index} in input tensor shape {shapes} specified at `{where}` "
                f"(expected None, an int, a Dim, Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC,  but got {dim!r} instead)"
            )
        return self._derived(dim, size, label)

    def _derived(self, dim: DerivedDim, size: int, label: str) -> Extent:
        """The extent of a dimension that is a linear function of another one."""
        root = dim.root
        known = self.dims.setdefault(root.name, root)
        if (known.min, known.max) != (root.min, root.max):
            raise RuntimeError(f"Found different definitions {known!r} and {root!r} for the same symbolic dimension")
        root_size, rest = divmod(size - dim.offset, dim.factor)
        if rest or root_size < 0:
            raise RuntimeError(
                f"Expected {label} = {size} to be of the form {dim.factor}*{root.name} + {dim.offset}, for an "
                f"integer {root.name}"
            )
        if root_size < root.min or (root.max is not None and root_size > root.max):
            raise RuntimeError(
                f"Constraints violated ({root.name})! {root_size} not in range "
                f"[{root.min}, {'inf' if root.max is None else root.max}], for {label}"
            )
        symbol = self.symbols.setdefault(root.name, Symbol(root.name, root.min, root.max, root_size, "", label))
        if symbol.size != root_size:
            raise RuntimeError(
                f"Constraints violated ({root.name})! The sizes of {root.name} must be equal, but {label} gives "
                f"{root_size} and another dimension {symbol.size}"
            )
        return Extent(symbol, dim.factor, dim.offset, label)
