"""What public functions do with quantized tensors: a table from a function's name to a rule.

Functions that only move elements, or compare them, run on the integers. Functions whose results have the input's scale
are computed in float32 and quantized again; sigmoid and tanh have fixed scales, as in PyTorch. All others raise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from math import prod
from typing import Any


from ... import dtypes
from ...errors import normalize_dim
from .. import changes, overrides, signatures
from ..create.creation import full
from ..create.values import as_tensor
from ..tensor import Tensor, fields_of
from .pooling import is_quantized, pools_bytes, zero_of_bytes
from .products import dynamic_linear
from .schemes import per_tensor_affine
from .tensor import PackedTensor, QuantizedTensor, Quantizer, moved, refuse, wrap_integers

# functions that move or select elements, for per-tensor schemes
_MOVING = """view reshape flatten t transpose swapaxes swapdims permute movedim moveaxis unsqueeze squeeze expand
    expand_as select narrow chunk split tensor_split unbind repeat flip roll index_select gather unflatten view_as
    reshape_as __getitem__ as_strided sort topk max min amax amin kthvalue median channel_shuffle pixel_shuffle
    pixel_unshuffle repeat_interleave take masked_select diagonal tile ravel detach clone contiguous requires_grad_
    hsplit vsplit dsplit fliplr flipud msort argsort diag diagonal_copy t_copy unbind_copy positive adjoint conj
    conj_physical resolve_conj resolve_neg real to_dense alias_copy detach_copy atleast_1d atleast_2d atleast_3d
    broadcast_tensors unfold rot90 resize cpu cuda alias squeeze_copy narrow_copy data __get__.data __get__.T __get__.mT
    __get__.H __get__.mH empty_like""".split()
_MAXIMA = "max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d".split()
# of these, those that keep the channels of a per-channel scheme
_KEEPING = """detach clone contiguous requires_grad_ cpu cuda data __get__.data empty_like to positive conj
    conj_physical resolve_conj resolve_neg to_dense alias alias_copy detach_copy real""".split()
# functions whose in-place form changes the shape
_RESHAPING = "t transpose swapaxes swapdims squeeze unsqueeze detach resize".split()
# functions that keep the shape, too: of a packed tensor they copy the bytes
_SAME = "detach clone requires_grad_ cpu cuda data __get__.data alias to".split()
# functions that are computed in float32, with the scale of the input for the result
_REQUANTIZED = """mean avg_pool1d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool3d
    interpolate upsample upsample_nearest upsample_bilinear grid_sample leaky_relu elu hardtanh relu6 clamp clip
    clamp_min clamp_max threshold celu hardswish gelu std
    dropout dropout1d dropout2d dropout3d feature_dropout nan_to_num pad""".split()
_FIXED = {"sigmoid": (1 / 256, 0), "hardsigmoid": (1 / 256, 0), "tanh": (1 / 128, 128)}  # scale, zero point of quint8
_COMPARING = "eq ne lt le gt ge __eq__ __ne__ __lt__ __le__ __gt__ __ge__ equal allclose isclose".split()
# functions of the values that return no tensor
_READING = "item tolist __contains__ __bool__ __float__ __int__ __format__ var".split()
# methods of the class
_OF_CLASS = """dequantize int_repr qscheme q_scale q_zero_point q_per_channel_scales q_per_channel_zero_points
    q_per_channel_axis""".split()
# functions that read the shape or the storage
_ASKING = """size stride dim ndimension numel nelement is_contiguous element_size storage_offset data_ptr get_device
    is_floating_point is_complex __len__ is_inference is_shared is_pinned untyped_storage _is_view __hash__
    storage retain_grad register_hook __dir__ dim_order is_tensor is_conj is_neg is_distributed dense_dim
    sparse_dim share_memory_""".split()


def call(func: Callable, path: str, args: tuple, kwargs: dict) -> Any:
    """The result of a public function of which an argument is a quantized tensor."""
    name, short, rule = _rule_of(path)
    args, kwargs = _in_order(func, args, kwargs) if kwargs else (args, kwargs)
    if kwargs and any(isinstance(value, QuantizedTensor) for value in kwargs.values()):
        refuse(f"{name}.{next(iter(kwargs))}")
    if short is not name and short in _RESHAPING:
        return _become(args[0], rule(func, short, (args[0].detach(), *args[1:]), kwargs))
    result = rule(func, name, args, kwargs)
    if short is not name and name not in _RULES:
        return _write(args[0], result)
    return result


@cache
def _rule_of(path: str) -> tuple[str, str, Callable]:
    """(the name in the table, the same without an underscore of functions in place, the rule) of a public function."""
    name = path.rpartition(".")[2]
    if name in ("__get__", "__set__", "__delete__"):
        name = f"{name}.{path.split('.')[-2]}"
    short = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    rule = _RULES.get(name) or _RULES.get(short)
    if rule is None:
        rule = _ask if name.startswith(("__get__", "__set__")) else lambda *_: refuse(name)
    return name, short, rule


def _in_order(func: Callable, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments with as many as possible by position, where the rules look for them."""
    signature = signatures.of(func)
    if signature is None:
        return args, kwargs
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # the function will say so, or takes any number of arguments
        return args, kwargs
    return bound.args, bound.kwargs


def _write(target: QuantizedTensor, result: QuantizedTensor) -> QuantizedTensor:
    target._write(result._integers)
    return target


def _become(target: QuantizedTensor, result: QuantizedTensor) -> QuantizedTensor:
    """Give a tensor the memory, shape and scale of another."""
    parts = fields_of(result)
    fields_of(target).update({name: parts[name] for name in _PARTS if name in parts})
    changes.note()
    return target


_PARTS = "_storage", "_layout", "_offset", "_integers", "_bytes", "_quantizer"


def _ask(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    with overrides.DisableTorchFunctionSubclass():
        return func(*args, **kwargs)


def _of_class(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """What the class itself has, such as `q_scale`, also by the function of that name."""
    source = next(iter((*args, *kwargs.values())))
    if isinstance(source, QuantizedTensor):
        return getattr(QuantizedTensor, name)(source)
    return _ask(func, name, args, kwargs)


def _move(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    source = next(arg for arg in args if isinstance(arg, QuantizedTensor))
    quantizer = source._quantizer
    if name in _SAME and isinstance(source, PackedTensor) and not kwargs:
        return source._rewrapped(func(source._memory, *args[1:]))
    result = func(*map(_integers, args), **kwargs)
    if quantizer.scheme.is_per_channel and name not in _KEEPING:
        if name in _SPLITTING:
            return _parts(name, args, kwargs, quantizer, result)
        quantizer = _moved_channels(name, args, kwargs, quantizer, result)
    return _wrap(result, quantizer)


_SPLITTING = "split chunk unbind tensor_split hsplit vsplit dsplit".split()


def _arguments(args: tuple, kwargs: dict, names: str) -> list:
    """The arguments after the first one, in the order of their names."""
    values = {**dict(zip(names.split(), args[1:])), **kwargs}
    return [values[name] for name in names.split()]


def _slices(ndim: int, dim: int, start: Any, stop: int) -> tuple:
    dim = normalize_dim(dim, ndim)
    return (*[slice(None)] * dim, slice(start, stop))


def _viewed(quantizer: Quantizer, shape: tuple[int, ...], result: tuple[int, ...], name: str) -> Quantizer:
    """The quantizer of a view in which the channels still are one dimension."""
    before, channels = prod(shape[: quantizer.axis]), shape[quantizer.axis]
    axes = [dim for dim, size in enumerate(result) if size == channels and prod(result[:dim]) == before]
    if not axes:
        raise RuntimeError(
            f"{name}(): the shape {result} has no dimension for the {channels} channels of this per-channel quantized "
            "tensor; call dequantize() first"
        )
    return replace(quantizer, axis=axes[0])


def _parts(name: str, args: tuple, kwargs: dict, quantizer: Quantizer, parts: tuple) -> tuple:
    """The parts that a splitting function made, each with its channels' scales."""
    shape = tuple(args[0].shape)
    default = {"hsplit": min(1, len(shape) - 1), "vsplit": 0, "dsplit": 2}.get(name)
    dim = kwargs.get("dim", next(iter(args[1 if name == "unbind" else 2 :]), 0)) if default is None else default
    result, start = [], 0
    for part in parts:
        stop = start + (1 if name == "unbind" else part.shape[dim])
        index = _slices(len(shape), dim, start, stop)
        index = (*index[:-1], start) if name == "unbind" else index
        result.append(wrap_integers(part, _indexed(quantizer, shape, index)))
        start = stop
    return tuple(result)


def _moved_channels(name: str, args: tuple, kwargs: dict, quantizer: Quantizer, result: Any) -> Quantizer:
    """The quantizer after a permutation or in a view. Raises RuntimeError for what mixes channels."""
    args = (*args, *kwargs.values())  # the dims of a method that takes any number of them have a name, too
    ndim = args[0].dim()
    order = list(range(ndim))
    if name in ("__get__.T", "__get__.H"):
        order.reverse()
    elif name in ("__get__.mT", "__get__.mH"):
        order[-2:] = order[:-3:-1]
    elif name in ("t", "transpose", "swapaxes", "swapdims"):
        first, second = args[1:3] if name != "t" else (0, ndim - 1)
        order[first], order[second] = order[second], order[first]
    elif name == "__getitem__":
        return _indexed(quantizer, tuple(args[0].shape), args[1])
    elif name == "select":
        return _indexed(quantizer, tuple(args[0].shape), (slice(None),) * normalize_dim(args[1], ndim) + (args[2],))
    elif name == "narrow":
        dim, start, length = _arguments(args, kwargs, "dim start length")
        return _indexed(quantizer, tuple(args[0].shape), _slices(ndim, dim, start, start + length))
    elif name in ("view", "reshape", "flatten", "unflatten", "view_as", "reshape_as"):
        return _viewed(quantizer, tuple(args[0].shape), tuple(result.shape), name)
    elif name == "unsqueeze":
        return replace(quantizer, axis=quantizer.axis + (normalize_dim(args[1], ndim + 1) <= quantizer.axis))
    elif name == "squeeze":
        return _squeezed(quantizer, tuple(args[0].shape), args[1:])
    elif name == "permute":
        order = args[1] if isinstance(args[1], (tuple, list)) else args[1:]
    else:
        raise RuntimeError(
            f"{name}(): a per-channel quantized tensor has a scale per channel: it can be copied, permuted, viewed, "
            "split and indexed; call dequantize() first"
        )
    return moved(quantizer, tuple(order))


def _indexed(quantizer: Quantizer, shape: tuple[int, ...], index: Any) -> Quantizer:
    """The quantizer of a per-channel tensor's part."""
    parts = index if isinstance(index, tuple) else (index,)
    if not all(part is None or part is Ellipsis or _is_basic(part) for part in parts):
        raise RuntimeError(
            f"__getitem__(): a per-channel quantized tensor takes integers and slices, got {index!r}; call "
            "dequantize() first"
        )
    parts = _for_each_dim(parts, len(shape))
    position = [number for number, part in enumerate(parts) if part is not None][quantizer.axis]
    channels = parts[position]
    if isinstance(channels, int):
        scale, zero = quantizer.scale[channels].item(), quantizer.zero_point[channels].item()
        return Quantizer(quantizer.dtype, per_tensor_affine, scale, int(zero) if zero % 1 == 0 else zero)
    axis = sum(not isinstance(part, int) for part in parts[:position])
    return replace(quantizer, scale=quantizer.scale[channels], zero_point=quantizer.zero_point[channels], axis=axis)


def _is_basic(part: Any) -> bool:
    return isinstance(part, slice) or (isinstance(part, int) and not isinstance(part, bool))


def _for_each_dim(parts: tuple, ndim: int) -> tuple:
    """An index with a part for each dimension, and None for new ones, without an Ellipsis."""
    missing = (slice(None),) * (ndim - sum(map(_is_basic, parts)))
    where = next((number for number, part in enumerate(parts) if part is Ellipsis), len(parts))
    return (*parts[:where], *missing, *parts[where + 1 :])


def _squeezed(quantizer: Quantizer, shape: tuple[int, ...], dims: tuple) -> Quantizer:
    chosen = dims[0] if dims else range(len(shape))
    removed = {normalize_dim(dim, len(shape)) for dim in ([chosen] if isinstance(chosen, int) else chosen)}
    removed = {dim for dim in removed if shape[dim] == 1}
    if quantizer.axis in removed:
        raise RuntimeError("Squeeze is only possible on non-axis dimension for Per-Channel Quantized Tensors.")
    return replace(quantizer, axis=quantizer.axis - sum(dim < quantizer.axis for dim in removed))


def _integers(argument: Any) -> Any:
    return argument._integers if isinstance(argument, QuantizedTensor) else argument


def _wrap(result: Any, quantizer: Quantizer) -> Any:
    """Integers as quantized tensors; indices and numbers stay as they are."""
    if isinstance(result, Tensor):
        return wrap_integers(result, quantizer) if result.dtype is quantizer.dtype.integers else result
    if isinstance(result, (tuple, list)):
        parts = [_wrap(part, quantizer) for part in result]
        return type(result)._make(parts) if hasattr(result, "_make") else type(result)(parts)
    return result


def _join(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    """cat and stack: tensors of another scale are requantized to the first's."""
    tensors, *others = args
    if not all(isinstance(member, QuantizedTensor) for member in tensors):
        refuse(name)
    quantizer = tensors[0]._quantizer
    if quantizer.scheme.is_per_channel:
        refuse(name)
    integers = [
        member._integers if member._quantizer.same_as(quantizer) else quantizer.quantize(member.dequantize())._integers
        for member in tensors
    ]
    return wrap_integers(func(integers, *others, **kwargs), quantizer)


def _requantize(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    quantizer = next(arg._quantizer for arg in args if isinstance(arg, QuantizedTensor))
    if kwargs.get("dtype") is not None:
        short = getattr(kwargs["dtype"], "short", kwargs["dtype"])
        raise RuntimeError(f"ScalarType {short} is not supported in new_qtensor; call dequantize() for a float result")
    result = func(*map(_value, args), **kwargs)
    if quantizer.scheme.is_per_channel and result.shape != args[0].shape:
        raise RuntimeError(
            f"{name}(): the result of a per-channel quantized tensor would have other channels; call dequantize() first"
        )
    return _in_place(func, args, kwargs, quantizer.quantize(result))


def _in_place(func: Callable, args: tuple, kwargs: dict, result: QuantizedTensor) -> QuantizedTensor:
    """The result; with `inplace=True` the first argument, which has become it."""
    names = tuple(getattr(signatures.of(func), "parameters", ()))
    if "inplace" not in names:
        return result
    if not (args[names.index("inplace")] if len(args) > names.index("inplace") else kwargs.get("inplace")):
        return result
    source = args[0]
    return _write(source, result) if source._quantizer.same_as(result._quantizer) else _become(source, result)


def _average(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """Means of windows, with the scale of the input."""
    source = args[0]
    quantizer = source._quantizer
    if quantizer.scheme.is_per_channel or not pools_bytes(source._integers, 2) or kwargs.get("out") is not None:
        return _requantize(func, name, args, kwargs)
    token = zero_of_bytes.set(quantizer.zero_point)
    try:
        return wrap_integers(func(source._integers, *args[1:], **kwargs), quantizer)
    finally:
        zero_of_bytes.reset(token)


def _maximum(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    """The maxima of windows, which are elements of the input."""
    token = is_quantized.set(True)
    try:
        return _move(func, name, args, kwargs)
    finally:
        is_quantized.reset(token)


def _relu(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    source = args[0]
    if source._quantizer.scheme.is_per_channel:
        refuse(name)
    result = wrap_integers(source._integers.clamp_min(source.q_zero_point()), source._quantizer)
    return _write(source, result) if kwargs.get("inplace") or args[1:2] == (True,) else result


def _fixed(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    if name not in _FIXED:  # in place: the result has another scale
        refuse(name)
    source = args[0]
    scale, zero_point = _FIXED[name]
    if source.dtype is dtypes.qint8:
        zero_point -= 128
    elif source.dtype is dtypes.qint32:
        scale, zero_point = scale / 2**24, 0
    quantizer = Quantizer(source.dtype, per_tensor_affine, scale, zero_point)
    return _in_place(func, args, kwargs, quantizer.quantize(func(source.dequantize())))


def _value(argument: Any) -> Any:
    return argument.dequantize() if isinstance(argument, QuantizedTensor) else argument


def _on_values(func: Callable, name: str, args: tuple, kwargs: dict) -> Any:
    return func(*map(_value, args), **kwargs)


def _equal(func: Callable, name: str, args: tuple, kwargs: dict) -> bool:
    first, second = args
    if not (isinstance(first, QuantizedTensor) and isinstance(second, QuantizedTensor)):
        return False
    same = first._quantizer.same_as(second._quantizer) or _same_channels(first._quantizer, second._quantizer)
    return same and func(first._integers, second._integers)


def _same_channels(first: Quantizer, second: Quantizer) -> bool:
    if first.scheme is not second.scheme or first.dtype is not second.dtype or first.axis != second.axis:
        return False
    if not first.scheme.is_per_channel:
        return False
    return first.scale.equal(second.scale) and first.zero_point.equal(second.zero_point)


_COPY_TO_FLOATS = (
    "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a float Tensor "
    "from a quantized Tensor"
)


def _copy(func: Callable, name: str, args: tuple, kwargs: dict) -> Tensor:
    """copy_: floats are quantized with the target's scale; a quantized source brings its scale with it."""
    target, source = args[:2]
    if not isinstance(target, QuantizedTensor):
        raise RuntimeError(_COPY_TO_FLOATS)
    if isinstance(source, QuantizedTensor):
        if source.dtype is not target.dtype:
            raise RuntimeError(f"Quantized copy only works with the same dtype, got {target.dtype} and {source.dtype}")
        target._quantizer = source._quantizer
        changes.note()
    quantized = (
        source if isinstance(source, QuantizedTensor) else target._quantizer.quantize(source.expand(target.shape))
    )
    return _write(target, quantized)


def _set_data(func: Callable, name: str, args: tuple, kwargs: dict) -> None:
    """target.data = value: its memory and its scale."""
    target, value = args
    if not (isinstance(target, QuantizedTensor) and isinstance(value, QuantizedTensor)):
        raise RuntimeError(f"incompatible tensor type: cannot set the data of a {target.dtype} to {value.dtype}")
    with overrides.DisableTorchFunctionSubclass():
        func(target, value)
    func(target._memory, value._memory)
    target._quantizer = value._quantizer
    changes.note()


def _assigned(value: Any, quantizer: Quantizer, shape: tuple[int, ...]) -> Tensor:
    """The integers that a quantizer makes of a value, broadcast to a shape."""
    if isinstance(value, QuantizedTensor):
        if value._quantizer.same_as(quantizer):
            return value._integers
        value = value.dequantize()
    values = value.float() if isinstance(value, Tensor) else as_tensor(value, dtype=dtypes.float32)
    while values.ndim > len(shape) and len(values) == 1:
        values = values[0]
    return quantizer.quantize(values.expand(shape))._integers


def _set_item(func: Callable, name: str, args: tuple, kwargs: dict) -> None:
    """target[index] = value, with the target's scale."""
    target, index, value = args
    if not isinstance(target, QuantizedTensor):
        raise RuntimeError(_COPY_TO_FLOATS)
    part, integers = target[index], target._integers
    func(integers, index, _assigned(value, part._quantizer, tuple(part.shape)))
    if isinstance(target, PackedTensor):
        target._write(integers)


def _put(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    """index_put: values with the target's scale."""
    target, indices, value, *others = args
    if not isinstance(target, QuantizedTensor) or target._quantizer.scheme.is_per_channel:
        refuse(name)
    integers = target._integers
    part = integers[tuple(indices)]
    result = func(integers, indices, _assigned(value, target._quantizer, tuple(part.shape)), *others, **kwargs)
    if not name.endswith("_"):
        return wrap_integers(result, target._quantizer)
    return _write(target, wrap_integers(result, target._quantizer)) if isinstance(target, PackedTensor) else target


def _masked_fill(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    target, mask, value = args
    if not isinstance(target, QuantizedTensor):
        refuse(name)
    filled = target._quantizer.quantize(full(target.shape, float(value)))._integers
    return wrap_integers(target._integers.where(~mask, filled), target._quantizer)


def _fill(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    target, value = args
    if not isinstance(target, QuantizedTensor):
        return func(target, _value(value))
    return _write(target, target._quantizer.quantize(full(target.shape, float(value))))


def _to(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    if any(isinstance(value, dtypes.dtype) for value in (*args, *kwargs.values())):
        raise RuntimeError("to(): a quantized tensor has no other dtype; dequantize() returns its values as float32")
    return _move(func, name, args, kwargs)


def _type(func: Callable, name: str, args: tuple, kwargs: dict) -> str | QuantizedTensor:
    source, *kinds = *args, *kwargs.values()
    if not kinds or kinds[0] is None:
        return f"numod.quantized.{source.dtype.short}Tensor"
    return source if kinds[0] is source.dtype else _to_float(func, name, args, kwargs)


def _empty_like(func: Callable, name: str, args: tuple, kwargs: dict) -> QuantizedTensor:
    dtype = kwargs.pop("dtype", None)
    if dtype not in (None, args[0].dtype):
        raise RuntimeError(
            "It is currently not supported to specify a dtype that doesn't match the input tensor's dtype via "
            f"empty_like, got {dtype} for {args[0].dtype}; quantize the result of dequantize()"
        )
    return _move(func, name, args, kwargs)


def _to_float(func: Callable, name: str, args: tuple, kwargs: dict) -> None:
    raise RuntimeError(f"{name}(): a quantized tensor has no other dtype; dequantize() returns its values as float32")


def _to_numpy(func: Callable, name: str, args: tuple, kwargs: dict) -> None:
    dtype = args[0].dtype
    raise TypeError(f"Got unsupported ScalarType {dtype.short}; convert dequantize() or int_repr() to NumPy")


def _linear(func: Callable, name: str, args: tuple, kwargs: dict) -> Tensor:
    """A float input times a quantized weight."""
    x, weight, *bias = (*args, *kwargs.values())
    if isinstance(x, QuantizedTensor) or not isinstance(weight, QuantizedTensor):
        refuse("linear")
    return dynamic_linear(x, weight, *bias)


_RULES: dict[str, Callable] = {
    **dict.fromkeys(_ASKING, _ask),
    **dict.fromkeys(_OF_CLASS, _of_class),
    **dict.fromkeys(_MOVING, _move),
    **dict.fromkeys(_MAXIMA, _maximum),
    **dict.fromkeys(_REQUANTIZED, _requantize),
    **dict.fromkeys(_FIXED, _fixed),
    **dict.fromkeys((*_COMPARING, *_READING), _on_values),
    **dict.fromkeys(("cat", "stack", "concat", "concatenate", "hstack", "vstack"), _join),
    **dict.fromkeys(("float", "double", "half", "int", "long", "char", "byte", "bfloat16"), _to_float),
    "type": _type,
    "empty_like": _empty_like,
    **dict.fromkeys(("numpy", "__array__"), _to_numpy),
    "linear": _linear,
    "relu": _relu,
    "avg_pool2d": _average,
    "adaptive_avg_pool2d": _average,
    "equal": _equal,
    "copy_": _copy,
    "__set__.data": _set_data,
    "fill_": _fill,
    "__setitem__": _set_item,
    "index_put_": _put,
    "index_put": _put,
    "masked_fill": _masked_fill,
    "requires_grad_": _ask,
    "to": _to,
}
