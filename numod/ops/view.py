"""Views: ops that change only the layout. Each is a rule from a layout to (shape, strides, offset).

The default gradient writes `g` to the same view of a zero tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..device import Layout
from ..device.layout import dense_strides, layout
from .op import Op, Plan

rows: dict[str, View] = {}


class View(Op):
    """A view by a rule `(layout, *attributes) -> (shape, strides, offset)`.

    A gradient rule may take `g`, the input's `layout` and the attributes. `of_part`: whether the view may leave out
    elements.
    """

    inputs = ("x",)
    is_view = True
    upcasts_half = False
    wide_unsigned = True

    def __init__(self, name: str, attributes: str, rule: Callable, gradient: Callable | None) -> None:
        super().__init__(name)
        code = rule.__code__
        self.rule = rule
        self.attributes = code.co_varnames[1 : code.co_argcount]
        self.takes = f"x[*s]~:any; {attributes}"
        self.of_part, self.gradients = gradient is None, {"x": gradient or self._scatter()}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        shape, strides, offset = self.rule(x, *attributes)
        return Plan(layout(tuple(shape), x.dtype, x.device, tuple(strides)), None, offset=offset if x.size else 0)

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`. Whether a view lies within its tensor's memory is checked in `graph.ir.verify`."""
        return _MISFITS[self.name](arguments[0], *attributes) if self.name in _MISFITS else None

    def _scatter(self) -> Callable:
        def gradient(g: object, layout: Layout, *attributes: object) -> object:
            d_x = g.new_zeros(layout.shape)
            d_x._view(self, attributes).copy_(g)
            return d_x

        return _NamedArguments(gradient, ("g", "layout", *self.attributes))


class _NamedArguments:
    """A function of `*arguments` with the argument names that `Op` reads."""

    def __init__(self, function: Callable, attributes: tuple[str, ...]) -> None:
        self.function, self.argument_names = function, attributes

    def __call__(self, *arguments: object) -> object:
        return self.function(*arguments)


def view(name: str, attributes: str, gradient: Callable | None = None) -> Callable[[Callable], View]:
    """Decorator: make a rule a view op; `attributes` are in the notation of `contract`."""

    def make(rule: Callable) -> View:
        rows[name] = View(name, attributes, rule, gradient)
        return rows[name]

    return make


def _slice_misfit(x: Layout, dim: int, start: int, length: int, step: int) -> str | None:
    n = x.shape[dim] if x.ndim else 0
    fits = x.ndim and (not length or start + (length - 1) * step < n)
    return None if fits else f"attribute 'length' must end within {n}, got {length} from {start} on, every {step}"


def _view_misfit(x: Layout, shape: tuple) -> str | None:
    fits = prod(shape) == x.size and view_strides(x, shape) is not None
    return (
        None
        if fits
        else f"attribute 'shape' must be a shape that x, {tuple(x.shape)} with strides {x.strides}, can be viewed as, "
        f"got {shape}"
    )


_MISFITS: dict[str, Callable] = {  # errors of attributes whose types are right
    "permute": lambda x, dims: (
        None
        if sorted(dims) == list(range(x.ndim))
        else f"attribute 'dims' must be the {x.ndim} dimensions in some order, got {dims}"
    ),
    "slice": _slice_misfit,
    "select": lambda x, dim, index: (
        None
        if x.ndim and index < x.shape[dim]
        else f"attribute 'index' must be in {tuple(x.shape)[dim:][:1]}, got {index}"
    ),
    "unsqueeze": lambda x, dim: None if dim <= x.ndim else f"attribute 'dim' must be at most {x.ndim}, got {dim}",
    "view": _view_misfit,
    "as_strided": lambda x, shape, strides, offset: (
        None if len(shape) == len(strides) else "attribute 'strides' must have an entry for each size"
    ),
    "diagonal": lambda x, offset, dim1, dim2: (
        None if x.ndim > 1 and dim1 != dim2 else "attributes 'dim1' and 'dim2' must be two dimensions"
    ),
}


@view("permute", "dims=axis^*", lambda g, dims: g.permute(sorted(range(len(dims)), key=dims.__getitem__)))
def permute(x: Layout, dims: tuple) -> tuple:
    """Permute dimensions."""
    return [x.shape[d] for d in dims], [x.strides[d] for d in dims], 0


@view("expand", "shape=-1..^*", lambda g, layout: g.sum_to_size(layout.shape))
def expand(x: Layout, shape: tuple) -> tuple:
    """Expand dimensions of size 1 without copying; new dimensions come first; -1 keeps a size."""
    missing = len(shape) - x.ndim
    if missing < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(shape)}) must be greater or equal to the number of "
            f"dimensions in the tensor ({x.ndim})"
        )
    sizes, strides = [], []
    for d, wanted in enumerate(shape):
        n, s = (x.shape[d - missing], x.strides[d - missing]) if d >= missing else (1, 0)
        if wanted == -1 and d < missing:
            raise RuntimeError(
                f"The expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {d}"
            )
        wanted = n if wanted == -1 else wanted
        if wanted != n and n != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing size ({n}) at non-singleton "
                f"dimension {d}. Target sizes: {list(shape)}. Tensor sizes: {list(x.shape)}"
            )
        sizes.append(wanted)
        strides.append(s if wanted == n and d >= missing else 0)
    return sizes, strides, 0


@view("slice", "dim=axis start=0.. length=0.. step=1..")
def slice_(x: Layout, dim: int, start: int, length: int, step: int) -> tuple:
    """`length` elements of a dimension from `start`, every `step`-th. The caller ensures that they are in range."""
    shape, strides = list(x.shape), list(x.strides)
    offset = start * strides[dim] if length else 0
    shape[dim], strides[dim] = length, strides[dim] * step
    return shape, strides, offset


@view("select", "dim=axis index=0..")
def select(x: Layout, dim: int, index: int) -> tuple:
    """Select one index of a dimension, which is removed."""
    return x.shape[:dim] + x.shape[dim + 1 :], x.strides[:dim] + x.strides[dim + 1 :], index * x.strides[dim]


@view("unsqueeze", "dim=0..", lambda g, dim: g.squeeze(dim))
def unsqueeze(x: Layout, dim: int) -> tuple:
    """Insert a dimension of size 1."""
    stride = x.shape[dim] * x.strides[dim] if dim < x.ndim else 1
    return (*x.shape[:dim], 1, *x.shape[dim:]), (*x.strides[:dim], stride, *x.strides[dim:]), 0


@view("squeeze", "dims=axis^*", lambda g, layout: g.reshape(layout.shape))
def squeeze(x: Layout, dims: tuple) -> tuple:
    """Remove dimensions of size 1."""
    remaining = [d for d in range(x.ndim) if d not in dims or x.shape[d] != 1]
    return [x.shape[d] for d in remaining], [x.strides[d] for d in remaining], 0


@view("view", "shape=0..^*", lambda g, layout: g.reshape(layout.shape))
def reshape(x: Layout, shape: tuple) -> tuple:
    """View as another shape; the caller has checked with `view_strides` that this is possible."""
    return shape, view_strides(x, shape), 0


@view(
    "as_strided",
    "shape=0..^* strides=0..^* offset=int",
    lambda g, layout, shape, strides, offset: spread(g, layout, shape, strides, offset),
)
def as_strided(x: Layout, shape: tuple, strides: tuple, offset: int) -> tuple:
    """Any shape and strides over the storage; `offset` is relative to the first element of x."""
    return shape, strides, offset


@view("diagonal", "offset=int dim1=axis dim2=axis")
def diagonal(x: Layout, offset: int, dim1: int, dim2: int) -> tuple:
    """The diagonal of two dimensions as the last dimension."""
    rows_, columns = x.shape[dim1], x.shape[dim2]
    length = max(0, min(rows_, columns - offset) if offset >= 0 else min(rows_ + offset, columns))
    start = offset * x.strides[dim2] if offset >= 0 else -offset * x.strides[dim1]
    remaining = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    shape = [x.shape[d] for d in remaining] + [length]
    return shape, [x.strides[d] for d in remaining] + [x.strides[dim1] + x.strides[dim2]], start if length else 0


def view_strides(x: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides that give `x` the new shape without copying, or None.

    Walks both shapes from the last dimension: each run of contiguous old dimensions must be covered exactly by new
    ones.
    """
    if x.dense or x.size == 0:
        return dense_strides(shape)
    strides = [0] * len(shape)
    new = len(shape) - 1
    step, run, filled = x.strides[-1], 1, 1
    for old in range(x.ndim - 1, -1, -1):
        run *= x.shape[old]
        if old and (x.shape[old - 1] == 1 or x.strides[old - 1] == run * step):
            continue
        while new >= 0 and (filled < run or shape[new] == 1):
            strides[new] = filled * step
            filled *= shape[new]
            new -= 1
        if filled != run:
            return None
        if old:
            step, run, filled = x.strides[old - 1], 1, 1
    return tuple(strides) if new < 0 else None


def spread(g: object, whole: Layout, shape: tuple, strides: tuple, offset: int) -> object:
    """The gradient of `as_strided`: a tensor of layout `whole` that is zero outside the view (shape, strides, offset)
    and `g` inside.
    """
    low = min(0, offset)
    part = layout(tuple(shape), whole.dtype, whole.device, tuple(strides))
    if part.overlapping:
        repeated = [d for d, s in enumerate(strides) if s == 0 and shape[d] > 1]
        g = g.sum(repeated, keepdim=True) if repeated else g
        shape = tuple(1 if d in repeated else n for d, n in enumerate(shape))
        part = layout(shape, whole.dtype, whole.device, tuple(strides))
    storage = g.new_zeros(max(whole.extent, offset + part.extent) - low)
    if part.overlapping:
        storage_indices = storage._places(shape, strides, offset - low)
        storage.index_add_(0, storage_indices.reshape(-1), g.reshape(-1))
    else:
        storage.as_strided(shape, strides, offset - low).copy_(g)
    if whole.overlapping:  # elements of the input that share memory share the gradient equally
        visits = storage.new_zeros(storage.shape).index_add_(
            0, storage._places(whole.shape, whole.strides, -low).reshape(-1), storage.new_ones(whole.size)
        )
        storage = storage / visits.clamp_(min=1)
    return storage.as_strided(whole.shape, whole.strides, -low)
