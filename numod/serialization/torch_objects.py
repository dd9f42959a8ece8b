"""The globals allowed in a PyTorch checkpoint, and their numod equivalents.

The unpickler and the file format are in other files. All functions treat their arguments as untrusted, since the file's
author chooses them.
"""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Set
from enum import Enum, EnumMeta
from math import prod
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np

from .. import dtypes
from ..core.create.memory import empty_strided
from ..core.convert.storages import TypedStorage
from ..core.quantized.schemes import SCHEMES, qscheme
from ..core.tensor import FIELDS, Tensor, fields_of, wrap
from ..device import Size
from ..device.device import Device
from ..device.layout import layout
from ..formats import ABSENT as ABSENT_LAYOUTS, layout as Layout, strided
from ..nn.parameter import Parameter
from .keys import checked_key
from .pickle_reader import Allowed, Call
from .refusal import shorten
from .safe_globals import allowed, allowed_global, is_allowed, renamed

_LAYOUTS = {absent.name: absent for absent in (strided, *ABSENT_LAYOUTS.values())}
_MAX_DIMENSIONS = 64
_MAX_ELEMENTS = 1 << 60
_UNSUPPORTED_STORAGES = (
    "ComplexHalf", "UInt16", "UInt32", "UInt64",
)  # fmt: skip

_resolved_elements: WeakKeyDictionary[TypedStorage, dict[frozenset[str], Tensor]] = WeakKeyDictionary()


class StorageType:
    """A storage class: its name, the dtype of its elements if numod has it, and their quantized dtype if any."""

    def __init__(self, name: str, kind: dtypes.dtype | None, quantized: dtypes.QuantizedDtype | None = None) -> None:
        self.name, self.kind, self.quantized = name, kind, quantized


class Stored:
    """A storage in the file: its type, key, size, and `values`, a flat tensor that is read on first use."""

    def __init__(self, kind: StorageType, count: int, location: str, read: Callable[[Stored], Tensor]) -> None:
        self.kind, self.count, self.location, self._read = kind, count, location, read
        self._values: Tensor | None = None
        self._object: TypedStorage | None = None

    @property
    def values(self) -> Tensor:
        """The elements, on the requested device. Raises ValueError for an unsupported dtype."""
        if self.kind.kind is None:
            hint = (
                "in PyTorch, save the result of dequantize()"
                if self.kind.name.startswith("Q")
                else f"it has {', '.join(dtypes.ALL)}"
            )
            raise ValueError(f"it holds a {self.kind.name}, and numod has no such dtype; {hint}")
        if self._values is None:
            self._values = self._read(self)
        return self._values

    @property
    def object(self) -> TypedStorage:
        """The storage as an object, for pickles that contain storages themselves."""
        if self._object is None:
            values = self.values
            self._object = TypedStorage(values if values.numel() == len(values._storage.data) else values.clone())
            self._object.quantized = self.kind.quantized
        return self._object


def find_global(module: str, name: str) -> object:
    """numod's equivalent of a global. Raises ValueError for names that are not in the table; nothing is imported."""
    module, name = renamed(module, name)
    known_global = GLOBALS.get(f"{module}.{name}")
    if known_global is not None:
        return known_global
    user_global = allowed_global(module, name)
    if user_global is not None:
        return Allowed(name, user_global)
    if (module, name) == ("builtins", "getattr") and any(isinstance(value, EnumMeta) for value in allowed.values()):
        return Call(name, _member)
    _refuse_global(module, name)


def _refuse_global(module: str, name: str) -> NoReturn:
    raise ValueError(
        f"the file refers to {module[:100]}.{name[:100]}, which load does not accept: it reads only plain data, and "
        "imports and runs no code. "
        "In the program that wrote the file, save plain data, such as model.state_dict(). Or allow this class with "
        "numod.serialization.add_safe_globals, if it is safe with any arguments. Or load the file with "
        "weights_only=False, if you trust its author to run any code on this machine"
    )


def build(target: object, state: object) -> None:
    """Set the state of a new object of a supported type.

    Supported are OrderedDict (`_metadata` of a state dict), NumPy's dtype and array, and classes that the user allows.
    """
    if type(target) is OrderedDict:
        if type(state) is not dict:
            raise ValueError("the state of an OrderedDict must be a dict")
        if isinstance(state.get("_metadata"), Mapping):
            target._metadata = state["_metadata"]
    elif isinstance(target, np.dtype):
        if not (
            type(state) is tuple
            and len(state) == 8
            and state[0] == 3
            and state[1] in ("<", ">", "|", "=")
            and state[2:] == (None, None, None, -1, -1, 0)
        ):
            raise ValueError("a NumPy dtype with fields is not supported")
        target.__setstate__(state)
    elif type(target) is np.ndarray:
        _set_array(target, state)
    elif is_allowed(type(target)):
        _set_attributes(target, state)
    else:
        raise ValueError(f"the state of a {type(target).__name__} cannot be set")


def _set_attributes(target: object, state: object) -> None:
    """As pickle does: call `__setstate__`, or set attributes from a dict or from a pair of dicts (for slots)."""
    if hasattr(target, "__setstate__"):
        target.__setstate__(state)
        return
    for part in state if type(state) is tuple and len(state) == 2 else (state,):
        if not (
            part is None
            or (
                type(part) is dict and all(type(name) is str and name not in ("__class__", "__dict__") for name in part)
            )
        ):
            raise ValueError(f"the state of a {type(target).__name__} is not a dict of attributes")
        for name, value in (part or {}).items():
            object.__setattr__(target, name, value)


def is_index(value: object) -> bool:
    """Whether `value` is an int valid as a size or offset."""
    return type(value) is int and 0 <= value < _MAX_ELEMENTS


def _are_indices(values: object) -> bool:
    return (
        isinstance(values, (tuple, list))
        and len(values) <= _MAX_DIMENSIONS
        and all(is_index(value) for value in values)
    )


def window(values: Tensor, offset: object, shape: object, strides: object) -> Tensor:
    """A view of the flat `values`, row-major if `strides` is None. Raises ValueError if it exceeds the storage."""
    _check_window(offset, shape, strides)
    form = layout(tuple(shape), values.dtype, values.device, None if strides is None else tuple(strides))
    if form.extent and offset + form.extent > values.numel():
        raise ValueError(f"it reaches to element {offset + form.extent} of a storage of {values.numel()}")
    return wrap(values._storage, form, values._offset + (offset if form.extent else 0))


def _check_window(offset: object, shape: object, strides: object) -> None:
    if not (
        is_index(offset)
        and _are_indices(shape)
        and (strides is None or (_are_indices(strides) and len(shape) == len(strides)))
    ):
        raise ValueError(
            "offset, sizes and strides must be non-negative integers, as many sizes as strides, 64 at most"
        )
    if prod(size or 1 for size in shape) >= _MAX_ELEMENTS:
        raise ValueError("the sizes are larger than any memory")


def _rebuild_tensor(
    storage: object, offset: object, shape: object, strides: object, lazily: Set[str] = frozenset()
) -> Tensor:
    if not isinstance(storage, TypedStorage) or strides is None:
        raise ValueError("a tensor without a storage or strides")
    return window(_resolved(storage, frozenset(lazily)) if lazily else storage.elements, offset, shape, strides)


def _resolved(storage: TypedStorage, lazily: frozenset[str]) -> Tensor:
    """The elements of a storage, conjugated or negated.

    They are computed once for all tensors of the storage, since a file may have many, or one that is expanded to any
    size.
    """
    resolved = _resolved_elements.setdefault(storage, {})
    if lazily not in resolved:
        elements = storage.elements.conj() if "conj" in lazily else storage.elements
        resolved[lazily] = -elements if "neg" in lazily else elements
    return resolved[lazily]


def _rebuild_tensor_v2(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    requires_grad: object,
    hooks: object = None,
    metadata: object = None,
) -> Tensor:
    """A tensor. PyTorch conjugates or negates some tensors lazily; numod does so in memory."""
    lazily = {name for name, on in metadata.items() if on} if isinstance(metadata, dict) else set()
    if not lazily <= {"conj", "neg"}:
        raise ValueError(f"a tensor with metadata {shorten(metadata)}")
    return _rebuild_tensor(storage, offset, shape, strides, lazily).requires_grad_(requires_grad is True)


def _rebuild_tensor_v3(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    requires_grad: object,
    hooks: object,
    kind: object,
    *_: object,
) -> Tensor:
    """A tensor whose dtype has no storage class in PyTorch: the storage is of bytes."""
    if not (isinstance(kind, dtypes.dtype) and kind.name in dtypes.ALL):
        name = kind.name if isinstance(kind, (StorageType, dtypes.dtype)) else "storage without a dtype"
        raise ValueError(f"it holds {name}, and numod has no such dtype; it has {', '.join(dtypes.ALL)}")
    if not isinstance(storage, TypedStorage) or strides is None:
        raise ValueError("a tensor without a storage or strides")
    return window(_read_as(storage, kind), offset, shape, strides).requires_grad_(requires_grad is True)


def _read_as(storage: TypedStorage, kind: dtypes.dtype) -> Tensor:
    """The bytes of a storage as elements of a dtype: one tensor for all that share the storage."""
    resolved, key = _resolved_elements.setdefault(storage, {}), frozenset([kind.name])
    if key not in resolved:
        elements = storage.elements
        if elements.dtype is not dtypes.uint8 or elements.numel() % kind.itemsize:
            raise ValueError(f"a storage of {elements.numel()} {elements.dtype} elements for a tensor of {kind.name}")
        aligned = elements.data_ptr() % kind.itemsize == 0
        resolved[key] = (elements if aligned else elements.clone()).view(kind)
    return resolved[key]


def _rebuild_qtensor(
    storage: object,
    offset: object,
    shape: object,
    strides: object,
    quantizer: object,
    requires_grad: object = False,
    hooks: object = None,
) -> Tensor:
    dtype = getattr(storage, "quantized", None)
    if type(quantizer) is not tuple or not 3 <= len(quantizer) <= 4 or type(quantizer[0]) is not qscheme:
        raise ValueError("a quantized tensor without a scheme, a scale and a zero point")
    scheme, scale, zero_point, *axis = quantizer
    is_packed = dtype is not None and dtype.bits < 8
    integers = _packed_bytes(storage, offset, dtype) if is_packed else _rebuild_tensor(storage, offset, shape, strides)
    parts = scheme.name, scale, zero_point, *(axis or [0])
    return quantized_tensor(integers, dtype, *parts, shape if is_packed else None)


def _packed_bytes(storage: TypedStorage, offset: object, dtype: dtypes.QuantizedDtype) -> Tensor:
    """The bytes of a packed quantized tensor, whose file counts offsets in integers."""
    per_byte = 8 // dtype.bits
    if not is_index(offset) or offset % per_byte:
        raise ValueError(f"a {dtype.name} tensor that does not start at a byte")
    count = storage.elements.numel() - offset // per_byte
    return _rebuild_tensor(storage, offset // per_byte, (max(count, 0),), (1,))


def quantized_tensor(
    integers: object,
    dtype: object,
    scheme: object,
    scale: object,
    zero_point: object,
    axis: object = 0,
    shape: object = None,
) -> Tensor:
    """The quantized tensor of parts from a file. Raises ValueError for parts that do not fit together.

    `shape`: of a packed tensor, whose integers are bytes.
    """
    from ..core.quantized import Quantizer
    from ..core.quantized.schemes import SCHEMES
    from ..core.quantized.tensor import wrap_bytes, wrap_integers

    if not isinstance(dtype, dtypes.QuantizedDtype) or getattr(integers, "dtype", None) is not dtype.integers:
        raise ValueError("a quantized tensor whose integers are not of its dtype")
    if dtype.bits < 8:
        _check_packed(integers, dtype, shape)
    shape = tuple(shape if dtype.bits < 8 else integers.shape)
    if type(scheme) is not str or scheme not in SCHEMES:
        raise ValueError(f"a quantized tensor of the scheme {shorten(scheme)}")
    if SCHEMES[scheme].is_per_channel:
        _check_channels(shape, scale, zero_point, axis)
        shifted = zero_point.is_floating_point()
        scheme = "per_channel_affine_float_qparams" if shifted else "per_channel_affine"
        scale, zero_point = (scale.float(), zero_point.float()) if shifted else (scale.double(), zero_point.long())
    elif type(scale) is not float or type(zero_point) is not int:
        raise ValueError("a quantized tensor whose scale is not a float, or whose zero point is not an int")
    elif not dtypes.RANGES[dtype.integers][0] <= zero_point <= dtypes.RANGES[dtype.integers][1]:
        raise ValueError(f"a quantized tensor whose zero point, {zero_point}, is out of the range of its dtype")
    quantizer = Quantizer(dtype, SCHEMES[scheme], scale, zero_point, axis)
    return wrap_bytes(integers, shape, quantizer) if dtype.bits < 8 else wrap_integers(integers, quantizer)


def _check_packed(packed: Tensor, dtype: dtypes.QuantizedDtype, shape: object) -> None:
    from ..core.quantized.tensor import byte_count

    _check_window(0, shape, (1,) * len(shape) if type(shape) is tuple else None)
    if packed.ndim != 1 or packed.numel() < byte_count(shape, dtype.bits):
        raise ValueError(f"{packed.numel()} bytes for a {dtype.name} tensor of the shape {shorten(shape)}")


def _check_channels(shape: tuple[int, ...], scale: object, zero_point: object, axis: object) -> None:
    if not (type(axis) is int and 0 <= axis < len(shape)):
        raise ValueError(f"a quantized tensor of {len(shape)} dimensions with channels along {shorten(axis)}")
    for vector in (scale, zero_point):
        if not isinstance(vector, Tensor) or vector.is_quantized or tuple(vector.shape) != (shape[axis],):
            raise ValueError("a quantized tensor without a scale and a zero point for each channel")


def _rebuild_meta_tensor(kind: object, shape: object, strides: object, requires_grad: object) -> Tensor:
    if not isinstance(kind, dtypes.dtype) or isinstance(kind, dtypes.AbsentDtype) or strides is None:
        raise ValueError("a tensor on the meta device without a dtype that numod has, or without strides")
    _check_window(0, shape, strides)
    return empty_strided(shape, strides, dtype=kind, device="meta").requires_grad_(requires_grad is True)


def _rebuild_parameter(data: object, requires_grad: object, hooks: object, state: object = None) -> Parameter:
    if not isinstance(data, Tensor):
        raise ValueError("a Parameter without a tensor")
    return _with_attributes(Parameter(data.detach(), requires_grad is True), state)


def _rebuild_from_type(function: object, kind: object, arguments: object, state: object) -> Tensor:
    """A tensor with attributes that user code has set on it."""
    user_class = kind if isinstance(kind, type) and issubclass(kind, Tensor) and is_allowed(kind) else None
    if (
        not isinstance(function, Call)
        or not function.name.startswith("_rebuild")
        or type(arguments) is not tuple
        or not (user_class or kind in (_TENSOR, _PARAMETER))
    ):
        raise ValueError("a tensor of a class that is neither Tensor nor Parameter, nor a subclass that is allowed")
    result = function.function(*arguments)
    if user_class:
        return _with_attributes(result._alias(user_class).requires_grad_(result.requires_grad), state, "")
    return _with_attributes(result if kind is _TENSOR or isinstance(result, Parameter) else Parameter(result), state)


def _with_attributes(tensor: Tensor, state: object, private: str = "_") -> Tensor:
    """Set the attributes of a state on the tensor.

    Attributes that the class defines, and names that begin with `private`, are skipped.
    """
    for name, value in state.items() if type(state) is dict else ():
        if (
            type(name) is str
            and name.isidentifier()
            and not (private and name.startswith(private))
            and name not in FIELDS
            and not hasattr(Tensor, name)
        ):
            fields_of(tensor)[name] = value
    return tensor


def _layout_named(name: object) -> Layout:
    """PyTorch's layout with this name."""
    if type(name) is not str or name.removeprefix("torch.") not in _LAYOUTS:
        raise ValueError(f"{shorten(name)} is not a layout of tensors")
    return _LAYOUTS[name.removeprefix("torch.")]


def _encode(text: object, encoding: object) -> bytes:
    """The bytes that pickle protocol 2 encodes as text."""
    if type(text) is not str or encoding not in ("latin1", "latin-1"):
        raise ValueError("bytes that are not written as latin1")
    return text.encode("latin1")


def _bytearray(data: object = b"") -> bytearray:
    if type(data) is not bytes:  # bytes(int) would allocate that many bytes
        raise ValueError("a bytearray that is not made of bytes")
    return bytearray(data)


def _members(items: object = ()) -> list:
    if not isinstance(items, (list, tuple, set)):
        raise ValueError("a set that is not made of a list")
    return [checked_key(item) for item in items]


def _counter(counts: object = None) -> Counter:
    if counts is not None and type(counts) is not dict:
        raise ValueError("a Counter that is not made of a dict")
    return Counter(counts)


def _complex(real: object, imaginary: object) -> complex:
    if type(real) is not float or type(imaginary) is not float:
        raise ValueError("a complex number that is not made of floats")
    return complex(real, imaginary)


def _size(sizes: object = ()) -> Size:
    if not isinstance(sizes, (list, tuple)) or not all(type(size) is int for size in sizes):
        raise ValueError("a Size that is not made of integers")
    return Size(sizes)


def _device(kind: object, index: object = None) -> Device:
    if type(kind) is not str or len(kind) > 100 or not (index is None or is_index(index)):
        raise ValueError("a device without a name")
    return Device(kind, None if kind == "cpu" else index)


def _member(kind: object, name: object) -> Enum:
    """A member of an enumeration that the user allows; early versions of Python 3.11 pickle it as a `getattr` call."""
    if not (isinstance(kind, EnumMeta) and is_allowed(kind) and type(name) is str and name in kind.__members__):
        _refuse_global("builtins", "getattr")
    return kind.__members__[name]


def number_dtype(code: object, *_: object) -> np.dtype:
    """A NumPy dtype of numbers from its code, such as "<f8", as a new object. Raises ValueError for other codes."""
    if type(code) is not str or not re.fullmatch(r"[<>|=]?[biufc]\d{1,2}", code):
        raise ValueError(f"{shorten(code)} is not a NumPy dtype of numbers")
    return np.dtype(code, copy=True)


def _numpy_scalar(kind: object, data: object) -> np.generic:
    if not isinstance(kind, np.dtype) or type(data) is not bytes or len(data) != kind.itemsize:
        raise ValueError("a NumPy scalar whose bytes do not fit its dtype")
    return np.frombuffer(data, kind)[0]


def _numpy_array(kind: object, shape: object, code: object) -> np.ndarray:
    return np.empty(0, np.uint8)  # the result of `_reconstruct` before its state is set


def _set_array(target: np.ndarray, state: object) -> None:
    if type(state) is not tuple or len(state) != 5:
        raise ValueError("the state of a NumPy array must have 5 parts")
    version, shape, kind, fortran, data = state
    if not (
        type(version) is int
        and version == 1
        and _are_indices(shape)
        and isinstance(kind, np.dtype)
        and type(fortran) is bool
        and type(data) is bytes
    ):
        raise ValueError("a NumPy array that is not an array of numbers")
    if (
        prod(size or 1 for size in shape) * kind.itemsize >= _MAX_ELEMENTS
        or prod(shape) * kind.itemsize != len(data)
        or not target.flags.owndata
    ):
        raise ValueError("a NumPy array whose bytes do not fit its shape")
    target.__setstate__((version, tuple(shape), kind, fortran, data))


def _ordered_dict(pairs: object = ()) -> OrderedDict:
    """An OrderedDict; Python 2 wrote its items as a list of lists."""
    if not isinstance(pairs, (list, tuple)) or not all(
        type(pair) in (list, tuple) and len(pair) == 2 for pair in pairs
    ):
        raise ValueError("an OrderedDict that is not made of pairs")
    return OrderedDict((checked_key(key), value) for key, value in pairs)


_TENSOR = Call("Tensor", lambda *_: _refuse_class("Tensor"))
_PARAMETER = Call("Parameter", lambda *_: _refuse_class("Parameter"))


def _refuse_tensor(kind: str, instead: str) -> NoReturn:
    raise ValueError(f"a {kind} tensor, which numod does not support; in PyTorch, save the result of {instead}")


def _refuse_class(name: str) -> None:
    raise ValueError(f"a {name} created by calling its class")


TENSOR_FUNCTIONS: dict[str, Callable] = {
    "torch._utils._rebuild_tensor": _rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3,
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor,
    "torch._utils._rebuild_qtensor": _rebuild_qtensor,
    "torch._utils._rebuild_parameter": _rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": _rebuild_parameter,
    "torch._tensor._rebuild_from_type_v2": _rebuild_from_type,
}
_FUNCTIONS: dict[str, Callable] = {
    **TENSOR_FUNCTIONS,
    "torch._utils._rebuild_sparse_tensor": lambda *_: _refuse_tensor("sparse", "to_dense()"),
    "torch._utils._rebuild_sparse_csr_tensor": lambda *_: _refuse_tensor("sparse", "to_dense()"),
    "torch._utils._rebuild_nested_tensor": lambda *_: _refuse_tensor("nested", "to_padded_tensor(0)"),
    "collections.OrderedDict": _ordered_dict,
    "collections.Counter": _counter,
    "torch.Size": _size,
    "torch.device": _device,
    "torch.serialization._get_layout": _layout_named,
    "_codecs.encode": _encode,
    "builtins.bytearray": _bytearray,
    "builtins.set": lambda items=(): set(_members(items)),
    "builtins.frozenset": lambda items=(): frozenset(_members(items)),
    "builtins.complex": _complex,
    "numpy.dtype": number_dtype,
    "numpy._core.multiarray.scalar": _numpy_scalar,
    "numpy._core.multiarray._reconstruct": _numpy_array,
}


class _VersionText(str):
    """PyTorch's `torch.__version__` in a file, which is read as plain text."""

    def __new__(cls, text: str) -> str:
        if type(text) is not str:
            raise ValueError(f"a version of PyTorch must be text, got {type(text).__name__}")
        return text


GLOBALS: dict[str, Any] = {
    **{path: Call(path.rpartition(".")[2], function) for path, function in _FUNCTIONS.items()},
    **{
        f"torch.{row.short}Storage": StorageType(f"{row.short}Storage", row)
        for row in dtypes.ALL.values()
        if row.kind != "w"
    },
    **{f"torch.{name}Storage": StorageType(f"{name}Storage", None) for name in _UNSUPPORTED_STORAGES},
    **{f"torch.{name}": row for name, row in {**dtypes.ALL, **dtypes.QUANTIZED, **dtypes.ABSENT}.items()},
    "torch.storage.UntypedStorage": StorageType("UntypedStorage", dtypes.uint8),
    **{
        f"torch.{row.short}Storage": StorageType(f"{row.short}Storage", row.integers, row)
        for row in dtypes.QUANTIZED.values()
    },
    **{f"torch.{name}": scheme for name, scheme in SCHEMES.items()},
    "torch.Tensor": _TENSOR,
    "torch.torch_version.TorchVersion": Allowed("TorchVersion", _VersionText),
    "torch.nn.parameter.Parameter": _PARAMETER,
    "numpy.ndarray": Call("ndarray", lambda *_: _refuse_class("ndarray")),
}
