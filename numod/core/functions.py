"""Operations on tensors as functions: argument handling around ops, and ops composed of others. `methods` makes them Tensor methods."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from .. import dtypes
from ..dtypes import dtype as DType
from ..errors import normalize_dim, normalize_dims
from ..ops import indexing as ix
from ..ops import join, matmul as mm, reduction as r, scan, softmax as sm, table as t, view as v
from .apply import apply, apply_into
from .creation import _shape, arange, full, zeros
from .tensor import Tensor

Dims = int | Sequence[int] | None
mm.Matmul.compute = staticmethod(apply)

# ---- pointwise: what a row alone does not say


def add(input: Tensor, other: Tensor | float, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """input + alpha * other."""
    return write_out(t.add if alpha == 1 else t.add_scaled, (input, other) if alpha == 1 else (input, other, alpha), out)


def sub(input: Tensor, other: Tensor | float, *, alpha: float = 1, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """input - alpha * other."""
    for each in (input, other):
        if (isinstance(each, Tensor) and each.dtype is dtypes.bool_) or isinstance(each, bool):
            raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. Use the `^` or `logical_xor()` operator instead.")
    return write_out(t.sub if alpha == 1 else t.add_scaled, (input, other) if alpha == 1 else (input, other, -alpha), out)


def pow(input: Tensor | float, exponent: Tensor | float, *, out: Tensor | None = None) -> Tensor:  # noqa: A001, A002
    """input ** exponent. Raises RuntimeError for an integer to a negative integer number."""
    if isinstance(exponent, (int, float)) and isinstance(input, Tensor):
        if exponent == 2:
            return write_out(t.square, (input,), out)
        if isinstance(exponent, int) and exponent < 0 and not input.is_floating_point():
            raise RuntimeError("Integers to negative integer powers are not allowed.")
    return write_out(t.pow, (input, exponent), out)


def div(input: Tensor, other: Tensor | float, *, rounding_mode: str | None = None, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """input / other; `rounding_mode` "floor" or "trunc" rounds the quotient."""
    rows = {None: t.div, "floor": t.floor_divide, "trunc": t.trunc_divide}
    if rounding_mode not in rows:
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")
    return write_out(rows[rounding_mode], (input, _divisor(input, other) if rounding_mode else other), out)


def floor_divide(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """Quotient rounded towards minus infinity."""
    return write_out(t.floor_divide, (input, _divisor(input, other)), out)


def remainder(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """Remainder with the sign of `other`."""
    return write_out(t.remainder, (input, _divisor(input, other)), out)


def fmod(input: Tensor, other: Tensor | float, *, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """Remainder with the sign of `input`."""
    return write_out(t.fmod, (input, _divisor(input, other)), out)


def _divisor(input: Tensor | float, other: Tensor | float) -> Tensor | float:  # noqa: A002
    """`other`; RuntimeError where integers would be divided by zero, which has no result."""
    integer = all(not each.is_floating_point() if isinstance(each, Tensor) else isinstance(each, int) for each in (input, other))
    if integer and (bool((other == 0).any()) if isinstance(other, Tensor) else other == 0):
        raise RuntimeError("ZeroDivisionError: integer division or remainder by zero")
    return other


def clamp(input: Tensor, min: Tensor | float | None = None, max: Tensor | float | None = None, *, out: Tensor | None = None) -> Tensor:  # noqa: A002
    """Elements below `min` become min, above `max` max; either may be None."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None".replace("torch", "numod"))
    if max is None:
        return write_out(t.clamp_min, (input, min), out)
    return write_out(t.clamp_max, (input, max), out) if min is None else write_out(t.clamp, (input, min, max), out)


def round(input: Tensor, *, decimals: int = 0, out: Tensor | None = None) -> Tensor:  # noqa: A001, A002
    """Nearest integer (or multiple of 10^-decimals), halves to even."""
    if decimals == 0:
        return write_out(t.round, (input,), out)
    scale = 10.0**abs_(decimals)
    return t.round(input * scale) / scale if decimals > 0 else t.round(input / scale) * scale


abs_ = abs


def where(condition: Tensor, input: Tensor | float | None = None, other: Tensor | float | None = None) -> Tensor | tuple[Tensor, ...]:  # noqa: A002
    """`input` where condition, else `other`; with condition alone, the places where it is true."""
    if input is None:
        return nonzero(condition, as_tuple=True)
    if condition.dtype not in (dtypes.bool_, dtypes.uint8):
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {condition.dtype.short}")
    return t.where(condition, input, other)


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:  # noqa: A002
    """NaN and infinities replaced; by default 0 and the greatest and least finite numbers."""
    if not input.is_floating_point():
        return input.clone()
    info = dtypes.finfo(input.dtype)
    return t.nan_to_num(input, 0.0 if nan is None else nan, info.max if posinf is None else posinf, info.min if neginf is None else neginf)


def bitwise_not(input: Tensor) -> Tensor:  # noqa: A002
    """Bits inverted; of a bool, the opposite."""
    return t.logical_not(input) if input.dtype is dtypes.bool_ else t.bitwise_not(input)


def logit(input: Tensor, eps: float | None = None) -> Tensor:  # noqa: A002
    """log(x / (1 - x)), x kept within [eps, 1 - eps] where eps is given."""
    return t.logit(input if eps is None else clamp(input, eps, 1.0 - eps))


def masked_fill(input: Tensor, mask: Tensor, value: Tensor | float) -> Tensor:  # noqa: A002
    """`value` where mask, else `input`; the dtype is that of input."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}")
    return apply(t.where, (mask, value, input), (input.dtype,))


def write_out(op: object, inputs: tuple, out: Tensor | None) -> Tensor:
    """The result of a pointwise op, or `out` filled with it (resized if it is empty)."""
    if out is None:
        return op(*inputs)
    result_shape = op(*inputs).shape if out.numel() == 0 else out.shape
    if out.shape != result_shape:
        out.data = zeros(result_shape, dtype=out.dtype, device=out.device)
    apply_into(op, inputs, (out,))
    return out


def equal(input: Tensor, other: Tensor) -> bool:  # noqa: A002
    """Whether shapes and all elements agree."""
    return input.shape == other.shape and bool((input == other).all())


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:  # noqa: A002
    """|input - other| <= atol + rtol * |other|, or equal infinities, or both NaN where `equal_nan`."""
    close = (input == other) | ((input - other).abs() <= atol + rtol * other.abs()) & t.isfinite(input) & t.isfinite(other)
    return close | (t.isnan(input) & t.isnan(other)) if equal_nan else close


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:  # noqa: A002
    """Whether all elements are close."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


# ---- dtype, device, memory


def to(input: Tensor, *arguments: object, dtype: DType | None = None, device: object = None, non_blocking: bool = False, copy: bool = False) -> Tensor:  # noqa: A002
    """In another dtype and on another device: to(dtype), to(device), to(device, dtype), to(other). Itself where nothing changes, unless `copy`."""
    from ..device.device import Device

    for each in arguments:
        if isinstance(each, DType):
            dtype = each
        elif isinstance(each, Tensor):
            dtype, device = each.dtype, each.device
        elif isinstance(each, bool):
            non_blocking = each
        elif each is not None:
            device = each
    device = input.device if device is None else Device(device)
    dtype = dtype or input.dtype
    if not isinstance(dtype, DType):
        raise TypeError(f"to(): dtype must be a numod dtype, got {dtype!r}")
    result = input if device is input.device else _moved(input, device)
    if dtype is not input.dtype:
        result = apply(t.copy, (result,), (dtype,))
    return input.clone() if result is input and copy else result


def _moved(input: Tensor, device: object) -> Tensor:  # noqa: A002
    from .transfer import move

    return move(input, device)


def clone(input: Tensor) -> Tensor:  # noqa: A002
    """A copy with memory of its own."""
    return apply(t.copy, (input,))


def contiguous(input: Tensor) -> Tensor:  # noqa: A002
    """Itself where row-major without gaps, else a copy that is."""
    return input if input._layout.dense else _dense_copy(input)


def _dense_copy(input: Tensor) -> Tensor:  # noqa: A002
    """A row-major copy. (A clone of a transposed tensor keeps its strides.)"""
    if not input._layout.packed:
        return apply(t.copy, (input,))
    return apply(join.cat, (input.unsqueeze(0),), (0,)).squeeze(0)


def copy_(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Fill with `src`, which broadcasts and is converted; returns self."""
    if not isinstance(src, Tensor):
        raise TypeError(f"copy_(): argument 'src' must be Tensor, not {type(src).__name__}")
    src = src if src.device is self.device else src.to(device=self.device)
    src = src.expand(self.shape) if src.shape != self.shape else src
    apply_into(t.copy, (src,), (self,), (self.dtype,))
    return self


# ---- views and shapes


def view(input: Tensor, *shape: int | DType) -> Tensor:  # noqa: A002
    """The same elements in another shape, without copying. Raises RuntimeError where the strides do not allow it."""
    sizes = _resolved(input, shape)
    if v.view_strides(input._layout, sizes) is None:
        raise RuntimeError(
            f"view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous subspaces): "
            f"{tuple(input.shape)} with strides {input.stride()} as {sizes}. Use .reshape(...) instead."
        )
    return apply(v.reshape, (input,), (sizes,))


def reshape(input: Tensor, *shape: int) -> Tensor:  # noqa: A002
    """The same elements in another shape; a view where possible. One size may be -1."""
    sizes = _resolved(input, shape)
    if v.view_strides(input._layout, sizes) is None:
        input = _dense_copy(input)  # noqa: A001
    return apply(v.reshape, (input,), (sizes,))


def _resolved(input: Tensor, shape: tuple) -> tuple[int, ...]:  # noqa: A002
    """A shape with -1 filled in. Raises RuntimeError where the number of elements differs."""
    sizes = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    try:
        sizes = tuple([n.__index__() for n in sizes])
    except AttributeError:
        raise TypeError(f"reshape(): sizes must be ints, got {sizes!r}") from None
    known = prod(n for n in sizes if n != -1)
    if -1 in sizes:
        if sizes.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        if known == 0:
            raise RuntimeError(f"cannot reshape tensor of {input.numel()} elements into shape {list(sizes)} because the unspecified dimension size -1 can be any value")
        sizes = tuple(input.numel() // known if n == -1 else n for n in sizes)
    if prod(sizes) != input.numel() or any(n < 0 for n in sizes):
        raise RuntimeError(f"shape '{list(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else list(shape)}' is invalid for input of size {input.numel()}")
    return sizes


def permute(input: Tensor, *dims: int) -> Tensor:  # noqa: A002
    """Dimensions in the given order."""
    dims = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
    if len(dims) != input.ndim:
        raise RuntimeError(f"permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. "
                           f"input.dim() = {input.ndim} is not equal to len(dims) = {len(dims)}".replace("(sparse_coo)", ""))
    return apply(v.permute, (input,), (normalize_dims(dims, input.ndim),))


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:  # noqa: A002
    """Two dimensions exchanged."""
    dim0, dim1 = normalize_dim(dim0, input.ndim), normalize_dim(dim1, input.ndim)
    dims = list(range(input.ndim))
    if dims:
        dims[dim0], dims[dim1] = dim1, dim0
    return apply(v.permute, (input,), (tuple(dims),))


def t_(input: Tensor) -> Tensor:  # noqa: A002
    """A matrix transposed; a vector or scalar itself."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1) if input.ndim == 2 else input


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:  # noqa: A002
    """Dimensions moved to other places, the rest in order."""
    source, destination = normalize_dims(source, input.ndim), normalize_dims(destination, input.ndim)
    if len(source) != len(destination):
        raise RuntimeError(f"movedim: Invalid source or destination dims: {source} and {destination} differ in length")
    order: list[int | None] = [None] * input.ndim
    for s, d in zip(source, destination):
        order[d] = s
    rest = iter(d for d in range(input.ndim) if d not in source)
    return permute(input, [next(rest) if d is None else d for d in order])


def expand(input: Tensor, *sizes: int) -> Tensor:  # noqa: A002
    """Sizes of 1 repeated without copying; -1 keeps a size."""
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    return input if sizes == input.shape else apply(v.expand, (input,), (sizes,))


def expand_as(input: Tensor, other: Tensor) -> Tensor:  # noqa: A002
    """Expanded to the shape of `other`."""
    return expand(input, other.shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:  # noqa: A002
    """Expanded to `size`."""
    return expand(input, tuple(size))


def sum_to_size(input: Tensor, *size: int) -> Tensor:  # noqa: A002
    """Summed over the dimensions along which a tensor of `size` would be broadcast."""
    size = tuple(size[0]) if len(size) == 1 and isinstance(size[0], Sequence) else size
    lead = input.ndim - len(size)
    dims = tuple(range(lead)) + tuple(d + lead for d, n in enumerate(size) if n == 1 and input.shape[d + lead] != 1)
    if not dims:
        return input
    return apply(r.sum, (input,), (dims, True, input.dtype)).reshape(size)


def unsqueeze(input: Tensor, dim: int) -> Tensor:  # noqa: A002
    """A dimension of size 1 inserted before `dim`."""
    return apply(v.unsqueeze, (input,), (normalize_dim(dim, input.ndim + 1),))


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:  # noqa: A002
    """Dimensions of size 1 removed, all or the given ones."""
    return apply(v.squeeze, (input,), (normalize_dims(dim, input.ndim),))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:  # noqa: A002
    """Dimensions start_dim to end_dim (inclusive) as one."""
    start, end = normalize_dim(start_dim, input.ndim), normalize_dim(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input.ndim == 0:
        return reshape(input, 1)
    shape = input.shape
    return input if start == end else reshape(input, (*shape[:start], prod(shape[start : end + 1]), *shape[end + 1 :]))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:  # noqa: A002
    """One dimension as several."""
    dim = normalize_dim(dim, input.ndim)
    sizes = tuple(sizes)
    sizes = tuple(input.shape[dim] // -prod(sizes) if n == -1 else n for n in sizes)
    if prod(sizes) != input.shape[dim]:
        raise RuntimeError(f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({input.shape[dim]}) in the input tensor")
    return reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


def ravel(input: Tensor) -> Tensor:  # noqa: A002
    """All elements in one dimension."""
    return reshape(input, -1)


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:  # noqa: A002
    """`length` elements of a dimension from `start` on."""
    dim = normalize_dim(dim, input.ndim)
    if input.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = input.shape[dim]
    if not -size <= start <= size:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-size}, {size}], but got {start})")
    start = start + size if start < 0 else start
    if length < 0 or start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return apply(v.slice_, (input,), (dim, start, length, 1))


def select(input: Tensor, dim: int, index: int) -> Tensor:  # noqa: A002
    """One element of a dimension, which disappears."""
    if input.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(dim, input.ndim)
    n = input.shape[dim]
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {n}")
    return apply(v.select, (input,), (dim, index % n))


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:  # noqa: A002
    """Any sizes and strides over the storage. Raises RuntimeError where they would leave it."""
    offset = input._offset if storage_offset is None else storage_offset
    size, stride = tuple(size), tuple(stride)
    reach = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if prod(size) else 0
    if min(stride, default=0) < 0 or offset < 0 or offset + reach > input._storage.data.size:
        raise RuntimeError(f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset} are out of bounds for storage of {input._storage.data.size} elements")
    return apply(v.as_strided, (input,), (size, stride, offset - input._offset))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:  # noqa: A002
    """The diagonal of two dimensions, as a view with it as last dimension."""
    dim1, dim2 = normalize_dim(dim1, input.ndim), normalize_dim(dim2, input.ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(v.diagonal, (input,), (offset, dim1, dim2))


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of a size (the last may be smaller), or of the given sizes, along a dimension; views."""
    dim = normalize_dim(dim, tensor.ndim)
    n, sizes = tensor.shape[dim], split_size_or_sections
    if isinstance(sizes, int):
        if sizes <= 0 and n:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={sizes}")
        sizes = [min(sizes, n - start) for start in range(0, n, sizes)] if n else [0]
    elif sum(sizes) != n:
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), but got split_sizes={list(sizes)}")
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return tuple(narrow(tensor, dim, start, size) for start, size in zip(starts, sizes))


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:  # noqa: A002
    """At most `chunks` parts of equal size, the last perhaps smaller; views."""
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[normalize_dim(dim, input.ndim)]
    return split(input, max(1, -(-n // chunks)), dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:  # noqa: A002
    """The slices along a dimension; views."""
    dim = normalize_dim(dim, input.ndim)
    return tuple(select(input, dim, k) for k in range(input.shape[dim]))


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along a dimension. Empty one-dimensional tensors are left out, as in PyTorch."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("cat(): expected a non-empty list of Tensors")
    for each in tensors:
        if not isinstance(each, Tensor):
            raise TypeError(f"expected Tensor as element in argument 0, but got {type(each).__name__}")
        if each.ndim == 0:
            raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated; use stack()")
    kept = tuple(each for each in tensors if each.shape != (0,)) or tensors[:1]
    return apply(join.cat, kept, (normalize_dim(dim, kept[0].ndim),))


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for k, each in enumerate(tensors):
        if each.shape != tensors[0].shape:
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 and {list(each.shape)} at entry {k}")
    dim = normalize_dim(dim, tensors[0].ndim + 1)
    return apply(join.cat, tuple(unsqueeze(each, dim) for each in tensors), (dim,))


def flip(input: Tensor, *dims: int) -> Tensor:  # noqa: A002
    """Elements in reverse order along dimensions; a copy."""
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
    for dim in normalize_dims(tuple(dims), input.ndim):
        n = input.shape[dim]
        input = index_select(input, dim, arange(n - 1, -1, -1, device=input.device) if n else arange(0, device=input.device))  # noqa: A001
    return input if dims and input.ndim else input.clone()


def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:  # noqa: A002
    """Elements moved along dimensions, those that fall off re-entering; without dims, over all elements in order."""
    if dims is None:
        return roll(input.flatten(), shifts, 0).reshape(input.shape)
    shifts, dims = (tuple([each] if isinstance(each, int) else each) for each in (shifts, dims))
    if len(shifts) != len(dims):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for shift, dim in zip(shifts, dims):
        n = input.shape[normalize_dim(dim, input.ndim)]
        cut = -shift % n if n else 0
        input = cat((narrow(input, dim, cut, n - cut), narrow(input, dim, 0, cut)), dim) if cut else input  # noqa: A001
    return input.clone() if all(shift == 0 for shift in shifts) else input


def pad_constant(input: Tensor, pad: Sequence[int], value: float = 0.0) -> Tensor:  # noqa: A002
    """Borders of `value`: pad = (left, right, top, bottom, ...) from the last dimension on; negative sizes crop."""
    pad = tuple(pad)
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise RuntimeError(f"Padding length must be divisible by 2 and at most twice the number of the dimension of the input, got {len(pad)} for {input.ndim} dimensions")
    for k in range(len(pad) // 2):
        dim = input.ndim - 1 - k
        before, after = pad[2 * k], pad[2 * k + 1]
        if input.shape[dim] + before + after < 0:
            raise RuntimeError(f"The input size {input.shape[dim]}, plus negative padding {before} and {after}, resulted in a negative output size")
        input = narrow(input, dim, max(0, -before), input.shape[dim] - max(0, -before) - max(0, -after))  # noqa: A001
        edges = [full((*input.shape[:dim], max(0, n), *input.shape[dim + 1 :]), value, dtype=input.dtype, device=input.device) for n in (before, after)]
        input = cat((edges[0], input, edges[1]), dim)  # noqa: A001
    return input


def repeat(input: Tensor, *repeats: int) -> Tensor:  # noqa: A002
    """The tensor repeated along each dimension (new ones in front)."""
    repeats = tuple(repeats[0]) if len(repeats) == 1 and isinstance(repeats[0], Sequence) else repeats
    if len(repeats) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(repeats) - input.ndim) + tuple(input.shape)
    spread = input.reshape([m for n in shape for m in (1, n)]).expand([m for k, n in zip(repeats, shape) for m in (k, n)])
    return _dense_copy(spread).reshape([k * n for k, n in zip(repeats, shape)])


# ---- reductions


def _reduce(op: r.Reduction, input: Tensor, dim: Dims, keepdim: bool, dtype: DType | None = None) -> Tensor:  # noqa: A002
    dims = normalize_dims(None if dim is None or dim == () or dim == [] else dim, input.ndim)
    if op.identity is None or isinstance(op.identity, str):
        for d in dims:
            if input.shape[d] == 0:
                raise IndexError(f"{op.name}(): Expected reduction dim {d} to have non-zero size.")
    return apply(op, (input,), (tuple(sorted(dims)), keepdim, dtype))


def sum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:  # noqa: A001, A002
    """Sum over dimensions (all by default); integers and bool give int64."""
    return _reduce(r.sum, input, dim, keepdim, dtype)


def mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Mean over dimensions (all by default) of a floating tensor."""
    return _reduce(r.mean, input, dim, keepdim, dtype)


def prod_(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Product over a dimension (all by default); integers and bool give int64."""
    return _reduce(r.prod_, input, dim, keepdim, dtype)


def amax(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Maximum over dimensions; the gradient is shared evenly between equal ones."""
    return _reduce(r.amax, input, dim, keepdim)


def amin(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Minimum over dimensions; the gradient is shared evenly between equal ones."""
    return _reduce(r.amin, input, dim, keepdim)


def any_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Whether any element is true (not zero)."""
    return _reduce(r.any_, input, dim, keepdim)


def all_(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Whether all elements are true (not zero)."""
    return _reduce(r.all_, input, dim, keepdim)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Index of the greatest element along a dimension, or in the flattened tensor."""
    return _arg(scan.argmax, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Index of the least element along a dimension, or in the flattened tensor."""
    return _arg(scan.argmin, input, dim, keepdim)


def _arg(op: scan.ArgExtremum, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:  # noqa: A002
    if dim is None:
        if not input.numel():
            raise IndexError(f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
        flat = apply(op, (contiguous(input).reshape(-1),), (0, False))
        return flat.reshape([1] * input.ndim) if keepdim else flat
    return apply(op, (contiguous(input),), (normalize_dim(dim, input.ndim), keepdim))


class ValuesIndices(tuple):
    """A pair of tensors, `values` and `indices`."""

    __slots__ = ()
    values = property(lambda self: self[0])
    indices = property(lambda self: self[1])

    def __repr__(self) -> str:
        return f"numod.return_types.max(\nvalues={self[0]!r},\nindices={self[1]!r})"


def max(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:  # noqa: A001, A002
    """The greatest element; with `dim`, (values, indices) along it; with a tensor, the elementwise maximum."""
    return _extremum(r.amax, argmax, t.maximum, input, dim, keepdim)


def min(input: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | ValuesIndices:  # noqa: A001, A002
    """The least element; with `dim`, (values, indices) along it; with a tensor, the elementwise minimum."""
    return _extremum(r.amin, argmin, t.minimum, input, dim, keepdim)


def _extremum(whole: r.Reduction, place: Callable, pointwise: object, input: Tensor, dim: object, keepdim: bool) -> Tensor | ValuesIndices:  # noqa: A002
    if isinstance(dim, Tensor):
        return pointwise(input, dim)
    if dim is None:
        if not input.numel():
            raise RuntimeError(f"{whole.name[1:]}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
        return _reduce(whole, input, None, False)
    indices = place(input, dim, True)
    values = gather(input, dim, indices) if input.ndim else input
    return ValuesIndices((values, indices) if keepdim or not input.ndim else (squeeze(values, dim), squeeze(indices, dim)))


def var(input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Tensor:  # noqa: A002
    """Variance over dimensions, divided by n - correction (1 by default); two passes, so that a large mean does no harm."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
    dims = normalize_dims(None if dim is None or dim == () or dim == [] else dim, input.ndim)
    count = prod(input.shape[d] for d in dims)
    total = sum(t.square(input - mean(input, dims, True)), dims, keepdim)
    rest = count - correction
    return total / (rest if rest > 0 else 0.0)


def std(input: Tensor, dim: Dims = None, unbiased: bool | None = None, keepdim: bool = False, *, correction: float | None = None) -> Tensor:  # noqa: A002
    """Square root of `var`."""
    return t.sqrt(var(input, dim, unbiased, keepdim, correction=correction))


def var_mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1) -> tuple[Tensor, Tensor]:  # noqa: A002
    """(variance, mean)."""
    return var(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


def std_mean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, correction: float = 1) -> tuple[Tensor, Tensor]:  # noqa: A002
    """(standard deviation, mean)."""
    return std(input, dim, keepdim=keepdim, correction=correction), mean(input, dim, keepdim)


def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:  # noqa: A002
    """log(sum(exp(x))) over dimensions, shifted by the maximum so that nothing overflows."""
    dims = normalize_dims(dim, input.ndim)
    if prod(input.shape[d] for d in dims) == 0:
        return t.log(sum(t.exp(input), dims, keepdim))
    high = amax(input, dims, True).detach()
    high = masked_fill(high, t.isinf(high), 0.0)
    result = t.log(sum(t.exp(input - high), dims, True)) + high
    return result if keepdim else squeeze(result, dims)


def norm(input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False) -> Tensor:  # noqa: A002
    """Vector norm over dimensions: (sum |x|^p)^(1/p), p = inf the greatest, p = 0 the number of nonzeros."""
    p = 2.0 if p in (None, "fro", 2) else float(p)
    if not input.is_floating_point():
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point tensor as input. Got {input.dtype.short}")
    if p == 2.0:
        return _reduce(r.norm2, input, dim, keepdim)
    if p == 1.0:
        return _reduce(r.norm1, input, dim, keepdim)
    if p in (float("inf"), float("-inf")):
        return (amax if p > 0 else amin)(t.abs(input), dim, keepdim)
    if p == 0.0:
        return sum((input != 0).to(input.dtype), dim, keepdim)
    return t.pow(sum(t.pow(t.abs(input), p), dim, keepdim), 1.0 / p)


def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:  # noqa: A002
    """Number of elements that are not zero."""
    return sum(input != 0, dim)


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Running sum along a dimension; integers and bool give int64."""
    input = input if dtype is None else to(input, dtype)  # noqa: A001
    return apply(scan.cumsum, (contiguous(input),), (normalize_dim(dim, input.ndim),))


# ---- products


def matmul(input: Tensor, other: Tensor) -> Tensor:  # noqa: A002
    """Product with PyTorch's broadcasting: (..., M, K) @ (..., K, N) -> (..., M, N); vectors are rows on the left, columns on the right."""
    if not isinstance(other, Tensor):
        raise TypeError(f"matmul(): argument 'other' must be Tensor, not {type(other).__name__}")
    if input.ndim >= 2 and other.ndim >= 2:
        return apply(mm.matmul, (input, other), (False, False))
    if input.ndim == 0 or other.ndim == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {input.ndim}D and {other.ndim}D")
    result = apply(mm.matmul, (unsqueeze(input, 0) if input.ndim == 1 else input, unsqueeze(other, 1) if other.ndim == 1 else other), (False, False))
    result = squeeze(result, -1) if other.ndim == 1 else result
    return squeeze(result, -1 if other.ndim > 1 else 0) if input.ndim == 1 and result.ndim and other.ndim == 1 else squeeze(result, -2) if input.ndim == 1 else result


def mm_(input: Tensor, mat2: Tensor) -> Tensor:  # noqa: A002
    """Product of two matrices."""
    _expect_ndim("mm", 2, input, mat2)
    return apply(mm.matmul, (input, mat2), (False, False))


def bmm(input: Tensor, mat2: Tensor) -> Tensor:  # noqa: A002
    """Products of matrices in equal batches, (B, M, K) @ (B, K, N)."""
    _expect_ndim("bmm", 3, input, mat2)
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{input.shape[0]}, {input.shape[2]}] but got: {list(mat2.shape[:2])}.")
    return apply(mm.matmul, (input, mat2), (False, False))


def mv(input: Tensor, vec: Tensor) -> Tensor:  # noqa: A002
    """Matrix times vector."""
    _expect_ndim("mv", 2, input)
    _expect_ndim("mv", 1, vec)
    return matmul(input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:  # noqa: A002
    """Product of two vectors."""
    _expect_ndim("dot", 1, input, tensor)
    return matmul(input, tensor)


def outer(input: Tensor, vec2: Tensor) -> Tensor:  # noqa: A002
    """All products of elements of two vectors."""
    _expect_ndim("outer", 1, input, vec2)
    return t.mul(unsqueeze(input, 1), vec2)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:  # noqa: A002
    """beta * input + alpha * mat1 @ mat2."""
    product = mm_(mat1, mat2)
    return add(product if alpha == 1 else product * alpha, input if beta == 1 else input * beta)


def _expect_ndim(name: str, ndim: int, *tensors: Tensor) -> None:
    for each in tensors:
        if each.ndim != ndim:
            raise RuntimeError(f"{name}: expected {ndim}D tensors, got a {each.ndim}D tensor of shape {tuple(each.shape)}; numod.matmul takes any number of dimensions")


# ---- softmax


def softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """exp(x) / sum(exp(x)) along a dimension."""
    return apply(sm.softmax, (contiguous(input if dtype is None else to(input, dtype)),), (normalize_dim(dim, input.ndim),))


def log_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:  # noqa: A002
    """Logarithm of softmax, without its rounding."""
    return apply(sm.log_softmax, (contiguous(input if dtype is None else to(input, dtype)),), (normalize_dim(dim, input.ndim),))


# ---- reading and writing by index tensors


def check_bounds(name: str, index: Tensor, size: int, dim: int, negative: bool = False) -> Tensor:
    """`index` with negative places counted from the front. Raises IndexError, before any launch, where one lies outside."""
    if not index.numel():
        return index
    low, high = int(amin(index)), int(amax(index))
    if high >= size or low < (-size if negative else 0):
        raise IndexError(f"{name}: index {high if high >= size else low} is out of bounds for dimension {dim} with size {size}")
    return t.where(index < 0, index + size, index) if low < 0 else index


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:  # noqa: A002
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on: shaped like `index`, which may not exceed input in other dimensions."""
    dim = normalize_dim(dim, input.ndim)
    if input.ndim == 0 or index.ndim != input.ndim:
        if input.ndim == 0 and index.ndim <= 1:
            return gather(reshape(input, 1), 0, reshape(index, -1)).reshape(index.shape)
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    index = contiguous(check_bounds("gather()", index, input.shape[dim], dim))
    return apply(ix.gather, (contiguous(_like_index("gather", input, index, dim)), index), (dim,))


def _like_index(name: str, tensor: Tensor, index: Tensor, dim: int) -> Tensor:
    """`tensor` cut to the sizes of `index` in all dimensions but `dim`."""
    for d, (n, m) in enumerate(zip(tensor.shape, index.shape)):
        if m > n and d != dim:
            raise RuntimeError(f"{name}: Size does not match at dimension {d} expected index {list(index.shape)} to be smaller than self {list(tensor.shape)} apart from dimension {dim}")
        if m < n and d != dim:
            tensor = narrow(tensor, d, 0, m)
    return tensor


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:  # noqa: A002
    """The slices of a dimension named by a vector of indices."""
    if index.ndim > 1:
        raise IndexError(f"index_select(): Index is supposed to be a vector, got shape {tuple(index.shape)}")
    dim = normalize_dim(dim, input.ndim)
    index = contiguous(check_bounds("index_select()", index, input.shape[dim] if input.ndim else 1, dim))
    source = contiguous(input) if input.ndim else reshape(input, 1)
    result = apply(ix.index_select, (source, index if index.ndim else reshape(index, 1)), (dim,))
    return result if input.ndim else reshape(result, index.shape)


def _write(op: ix.Write, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Write through a dense tensor; into any other by way of a dense copy."""
    index, source = contiguous(index), contiguous(source)
    if self._layout.dense:
        apply_into(op, (self, index, source), (self,), (dim,))
        return self
    dense = _dense_copy(self)
    apply_into(op, (dense, index, source), (dense,), (dim,))
    return copy_(self, dense)


def index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: float = 1) -> Tensor:
    """self[index[k]] += alpha * source[k] along a dimension, in order."""
    dim = normalize_dim(dim, self.ndim)
    index = check_bounds("index_add_()", _vector("index_add_", self, dim, index, source), self.shape[dim], dim)
    return _write(ix.index_add, self, dim, index, source if alpha == 1 else source * alpha)


def index_copy_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """self[index[k]] = source[k] along a dimension, in order."""
    dim = normalize_dim(dim, self.ndim)
    index = check_bounds("index_copy_()", _vector("index_copy_", self, dim, index, source), self.shape[dim], dim)
    return _write(ix.index_copy, self, dim, index, source)


def index_fill_(self: Tensor, dim: int, index: Tensor, value: float) -> Tensor:
    """self[index[k]] = value along a dimension."""
    dim = normalize_dim(dim, self.ndim)
    shape = (*self.shape[:dim], index.numel(), *self.shape[dim + 1 :])
    value = value.item() if isinstance(value, Tensor) else value
    return index_copy_(self, dim, index, full(shape, value, dtype=self.dtype, device=self.device))


def _vector(name: str, self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got shape {tuple(index.shape)}")
    expected = (*self.shape[:dim], index.numel(), *self.shape[dim + 1 :])
    if source.shape != expected:
        raise IndexError(f"{name}(): expected source of shape {expected} for self {tuple(self.shape)} and {index.numel()} indices at dim {dim}, got {tuple(source.shape)}")
    return reshape(index, -1)


def scatter_(self: Tensor, dim: int, index: Tensor, src: Tensor | float, *, reduce: str | None = None) -> Tensor:
    """self[index[i][j]][j] = src[i][j] for dim 0, and so on; `reduce="add"` adds."""
    if reduce not in (None, "add"):
        raise RuntimeError(f"scatter_: reduce argument must be None or 'add', got {reduce!r}")
    src = src if isinstance(src, Tensor) else full(index.shape, src, dtype=self.dtype, device=self.device)
    return _scatter(ix.scatter if reduce is None else ix.scatter_add, self, dim, index, src)


def scatter_add_(self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """self[index[i][j]][j] += src[i][j] for dim 0, and so on, in order."""
    return _scatter(ix.scatter_add, self, dim, index, src)


def _scatter(op: ix.Write, self: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    dim = normalize_dim(dim, self.ndim)
    if not index.ndim == self.ndim == src.ndim:
        raise RuntimeError(f"Index tensor must have the same number of dimensions as self tensor: {index.ndim}, {self.ndim} and src {src.ndim}")
    if any(m > n for m, n in zip(index.shape, src.shape)):
        raise RuntimeError(f"Expected index {list(index.shape)} to be no larger than src {list(src.shape)}")
    index = check_bounds(f"{op.name}()", index, self.shape[dim] if self.ndim else 1, dim)
    part = _like_index(op.name, self, index, dim)
    for d, n in enumerate(index.shape):
        src = src if src.shape[d] == n else narrow(src, d, 0, n)
    _write(op, part, dim, index, src)
    return self


def masked_select(input: Tensor, mask: Tensor) -> Tensor:  # noqa: A002
    """The elements where mask, in one dimension."""
    if mask.dtype is not dtypes.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    from ..ops.pointwise import broadcast_shapes

    shape = broadcast_shapes("masked_select", [input.shape, mask.shape])
    return index_select(reshape(expand(input, shape), -1), 0, _places_of(expand(mask, shape)))


def _places_of(mask: Tensor) -> Tensor:
    """Flat places of the true elements."""
    flat = reshape(contiguous(mask), -1)
    before = apply(scan.cumsum, (flat,), (0,))
    total = int(before[-1]) if flat.numel() else 0
    return apply(ix.nonzero, (flat, before), (total,))


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:  # noqa: A002
    """Places of the nonzero elements, (count, ndim), or a tuple of one vector per dimension."""
    places = _places_of(input if input.dtype is dtypes.bool_ else input != 0)
    columns = []
    for d in range(input.ndim - 1, -1, -1):
        columns.append(places % input.shape[d])
        places = t.floor_divide(places, input.shape[d])
    columns.reverse()
    if as_tuple:
        return tuple(columns) if columns else (zeros(places.shape[0], dtype=dtypes.int64),)
    return stack(columns, 1) if columns else zeros(places.shape[0], 0, dtype=dtypes.int64)
