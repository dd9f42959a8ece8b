"""Writes checkpoints that PyTorch reads: the zip archive of `torch.save`.

`torch.load(weights_only=True)` accepts plain data, except frozensets and NumPy scalars, which PyTorch users have to
allow explicitly. Other objects are pickled by the names of their classes.
"""

from __future__ import annotations

import gzip
import io
import pickle
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any, BinaryIO

import numpy as np

from .. import dtypes
from ..core.overrides import overrides
from ..core.convert.storages import TypedStorage
from ..core.quantized.schemes import qscheme
from ..core.tensor import Tensor, own_attributes, wrap
from ..device import Size, Storage
from ..device.device import Device
from ..device.layout import layout
from ..formats import layout as Layout
from ..nn.parameter import Parameter, UninitializedTensorMixin
from ..version import Release
from .saveable import is_number_array, saveable_quantizer

_ALIGNMENT = 64  # of each storage in the file, for memory mapping
_LOCAL_HEADER_BYTES = 30


class _Forward:
    """A file that is only appended to: any object with `write`.

    It hides `seek` of objects such as gzip files, which report that they can seek but cannot go back to complete a
    header.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._write, self._position = file.write, 0
        self.flush = getattr(file, "flush", lambda: None)

    def write(self, data: bytes | memoryview) -> int:
        """Write all of the bytes; the return value of the object's own `write` is ignored."""
        self._write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        """The number of bytes written."""
        return self._position


class _Name:
    """A global of PyTorch, by name only: nothing is imported."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:  # `pickle` wants something callable
        raise TypeError(f"{self.module}.{self.name} is only a name")


class _StorageOf:
    """A placeholder for the storage of a tensor in the pickle. `short`: PyTorch's name of the dtype."""

    def __init__(self, tensor: Tensor, short: str = "") -> None:
        self.tensor, self.short = tensor, short or tensor.dtype.short
        # PyTorch has no storage class for these dtypes: their storages are bytes, and the tensor names the dtype
        self.untyped = tensor.dtype.kind == "w"


_names: dict[tuple[str, str], _Name] = {}


def _name(module: str, name: str) -> _Name:
    """One object per name, so that the pickle writes it once."""
    return _names.setdefault((module, name), _Name(module, name))


class _Pickler(pickle._Pickler):
    """A pickler in Python, since the one in C cannot write a global that it cannot import."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, protocol=2)
        # by id: (key in the archive, storage, a tensor on its memory)
        self.storages: dict[int, tuple[str, Storage, Tensor]] = {}

    def persistent_id(self, obj: object) -> tuple | None:
        """The persistent id of a storage: its type, key, device and number of elements."""
        if isinstance(obj, _StorageOf):
            kind, size = ("torch.storage Untyped", obj.tensor.itemsize) if obj.untyped else (f"torch {obj.short}", 1)
            return self._stored(obj.tensor._storage, obj.tensor, f"{kind}Storage", size)
        if isinstance(obj, TypedStorage):
            return self._stored(obj.untyped(), obj.elements, f"torch {obj.dtype.short}Storage")
        return self._stored(obj, _bytes_of(obj), "torch.storage UntypedStorage") if isinstance(obj, Storage) else None

    def _stored(self, storage: Storage, tensor: Tensor, kind: str, size: int = 1) -> tuple:
        """The persistent id of a storage.

        `tensor` views its memory, `kind` is the module and name of its class; its elements count as `size` each.
        """
        key, _, first = self.storages.setdefault(id(storage), (str(len(self.storages)), storage, tensor))
        if first.dtype is not tensor.dtype:
            raise RuntimeError(
                f"save: two objects view one storage as {first.dtype} and as {tensor.dtype}, which the format cannot "
                "hold; clone one of them"
            )
        return "storage", _name(*kind.split()), key, str(tensor.device), size * len(tensor._storage.data)

    def reducer_override(self, obj: object) -> Any:
        """The reduction of `obj` to PyTorch's globals; NotImplemented for numbers, text and plain containers."""
        family = next(
            (kind for kind in (Parameter, Tensor, np.generic, np.dtype) if issubclass(type(obj), kind)), type(obj)
        )
        reduce = _REDUCED.get(family)
        if isinstance(obj, UninitializedTensorMixin) or (
            isinstance(obj, (np.generic, np.dtype, np.ndarray)) and not is_number_array(obj)
        ):
            return NotImplemented
        return NotImplemented if reduce is None else reduce(obj)

    def _save_name(self, obj: _Name) -> None:
        self.write(f"c{obj.module}\n{obj.name}\n".encode())
        self.memoize(obj)

    def _save_dtype(self, obj: dtypes.dtype | qscheme) -> None:
        self.save(_name("torch", obj.name))

    def _save_version(self, obj: Release) -> None:
        self.save(str.__str__(obj))  # the characters, as text that PyTorch reads too

    dispatch[_Name] = _save_name
    dispatch[Release] = _save_version
    dispatch |= dict.fromkeys((dtypes.dtype, dtypes.AbsentDtype, dtypes.QuantizedDtype, qscheme), _save_dtype)


def _bytes_of(storage: Storage) -> Tensor:
    """A tensor of the bytes of a storage on the CPU."""
    if not isinstance(storage.data, np.ndarray):
        raise TypeError("save: an untyped storage of a GPU cannot be saved; save the tensor")
    return wrap(Storage(storage.data.view(np.uint8)), layout((storage.nbytes(),), dtypes.uint8, Device("cpu")), 0)


def _reduce_tensor(tensor: Tensor) -> tuple:
    """The tensor's reduction, with its class if that overrides functions; the reader must allow the class."""
    if tensor.is_quantized:
        return _reduce_quantized(tensor)
    function, arguments = _reduce_plain(tensor)
    if not overrides(type(tensor)):
        return function, arguments
    kind = _name(type(tensor).__module__, type(tensor).__qualname__)
    return _name("torch._tensor", "_rebuild_from_type_v2"), (function, kind, arguments, own_attributes(tensor))


def _reduce_quantized(tensor: Tensor) -> tuple:
    integers, quantizer, is_packed = tensor._memory, saveable_quantizer(tensor), tensor.dtype.bits < 8
    parts = _name("torch", quantizer.scheme.name), quantizer.scale, quantizer.zero_point
    parts += (quantizer.axis,) if quantizer.scheme.is_per_channel else ()
    if is_packed and integers.storage_offset():  # PyTorch counts offsets in integers
        integers = integers.clone()
    layout_of = tensor._layout if is_packed else integers._layout
    window = integers.storage_offset(), tuple(layout_of.shape), tuple(layout_of.strides)
    storage = _StorageOf(integers, quantizer.dtype.short)
    return _name("torch._utils", "_rebuild_qtensor"), (storage, *window, parts, False, OrderedDict())


def _reduce_plain(tensor: Tensor) -> tuple:
    if tensor.device.type == "meta":
        arguments = tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad
        return _name("torch._utils", "_rebuild_meta_tensor_no_storage"), arguments
    window = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()), tensor.requires_grad, OrderedDict())
    rebuild, attributes = _name("torch._utils", "_rebuild_tensor_v2"), own_attributes(tensor)
    if tensor.dtype.kind == "w":
        rebuild, window = _name("torch._utils", "_rebuild_tensor_v3"), (*window, tensor.dtype)
    if attributes:
        return _name("torch._tensor", "_rebuild_from_type_v2"), (
            rebuild,
            _name("torch", "Tensor"),
            (_StorageOf(tensor), *window),
            attributes,
        )
    return rebuild, (_StorageOf(tensor), *window)


def _reduce_parameter(parameter: Parameter) -> tuple:
    arguments = parameter.detach(), parameter.requires_grad, OrderedDict()
    attributes = own_attributes(parameter)
    return (
        (_name("torch._utils", "_rebuild_parameter_with_state"), (*arguments, attributes))
        if attributes
        else (_name("torch._utils", "_rebuild_parameter"), arguments)
    )


def _reduce_ordered_dict(values: OrderedDict) -> tuple:
    state = {"_metadata": values._metadata} if hasattr(values, "_metadata") else None
    return _name("collections", "OrderedDict"), (), state, None, iter(values.items())


def _reduce_numpy_dtype(kind: np.dtype) -> tuple:
    order = "|" if kind.itemsize == 1 else "<"
    return (
        _name("numpy", "dtype"),
        (f"{kind.kind}{kind.itemsize}", False, True),
        (3, order, None, None, None, -1, -1, 0),
    )


def _reduce_numpy_array(array: np.ndarray) -> tuple:
    state = (1, array.shape, array.dtype.newbyteorder("<"), False, _little(array).tobytes())
    return _name("numpy._core.multiarray", "_reconstruct"), (_name("numpy", "ndarray"), (0,), b"b"), state


def _little(values: np.ndarray | np.generic) -> np.ndarray:
    return np.asarray(values).astype(values.dtype.newbyteorder("<"), copy=False)


_REDUCED: dict[type, Callable[[Any], tuple]] = {
    Tensor: _reduce_tensor,
    Parameter: _reduce_parameter,
    OrderedDict: _reduce_ordered_dict,
    Counter: lambda counts: (_name("collections", "Counter"), (dict(counts),)),
    Size: lambda size: (_name("torch", "Size"), (tuple(size),)),
    Device: lambda device: (
        _name("torch", "device"),
        (device.type,) if device.index is None else (device.type, device.index),
    ),
    complex: lambda number: (_name("__builtin__", "complex"), (number.real, number.imag)),
    bytes: lambda data: (_name("_codecs", "encode"), (data.decode("latin1"), "latin1")),
    bytearray: lambda data: (_name("__builtin__", "bytearray"), (bytes(data),)),
    set: lambda members: (_name("__builtin__", "set"), (list(members),)),
    frozenset: lambda members: (_name("__builtin__", "frozenset"), (list(members),)),
    Layout: lambda form: (_name("torch.serialization", "_get_layout"), (f"torch.{form.name}",)),
    np.dtype: _reduce_numpy_dtype,
    np.generic: lambda number: (
        _name("numpy._core.multiarray", "scalar"),
        (number.dtype.newbyteorder("<"), _little(number).tobytes()),
    ),
    np.ndarray: _reduce_numpy_array,
}


def write_archive(obj: object, file: BinaryIO) -> None:
    """Write `obj` as `torch.save` does. Shared storages stay shared; whole storages are written."""
    pickled = io.BytesIO()
    pickler = _Pickler(pickled)
    try:
        pickler.dump(obj)
    except RecursionError:
        raise ValueError("save: the object is nested too deeply") from None
    complete = all(hasattr(file, name) for name in ("seek", "tell", "flush")) and not isinstance(file, gzip.GzipFile)
    with zipfile.ZipFile(file if complete else _Forward(file), "w", zipfile.ZIP_STORED) as archive:
        _add(archive, "data.pkl", pickled.getbuffer())
        _add(archive, "byteorder", sys.byteorder.encode())
        for key, _, tensor in pickler.storages.values():
            values = np.ascontiguousarray(tensor.device.backend.download(tensor._storage.data))
            _add(archive, f"data/{key}", values.view(np.uint8).data)
        _add(archive, "version", b"3\n")


def _add(archive: zipfile.ZipFile, record: str, data: bytes | memoryview) -> None:
    """Add a member whose bytes start at a multiple of 64, by padding the extra field of its header."""
    member = zipfile.ZipInfo(f"archive/{record}")
    begin = archive.fp.tell() + _LOCAL_HEADER_BYTES + len(member.filename) + 4
    padding = -begin % _ALIGNMENT
    member.extra = b"FB" + padding.to_bytes(2, "little") + b"\0" * padding
    archive.writestr(member, data)
