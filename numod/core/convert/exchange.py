"""Zero-copy exchange with other libraries, on the CPU and on CUDA: DLPack, and `__cuda_array_interface__`.

The structures are those of dlpack.h 1.0. A capsule can be read once; the consumer calls its deleter when done. CPU
tensors with NumPy dtypes are exported through NumPy.
"""

from __future__ import annotations

import ctypes
import weakref
from importlib import import_module
from types import ModuleType
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, py_object
from typing import Any

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.device import Device
from ...device.layout import layout
from ...device.storage import ForeignStorage, lend
from ...dtypes import dtype as DType
from ..listeners import notify_created
from ..tensor import Tensor, wrap

_CPU, _CUDA = 1, 2
_KINDS = {"i": 0, "u": 1, "w": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode
_BFLOAT, _READ_ONLY = 4, 1
_ANY_STREAM = 1  # CUDA's default stream


class _Tensor(Structure):
    _fields_ = [
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16),
        ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64),
    ]  # fmt: skip


class _Managed(Structure):
    _fields_ = [("tensor", _Tensor), ("context", c_void_p), ("deleter", c_void_p)]


class _Versioned(Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", _Tensor),
    ]


_CAPSULES = {b"dltensor": (_Managed, b"used_dltensor"), b"dltensor_versioned": (_Versioned, b"used_dltensor_versioned")}
_api = ctypes.pythonapi
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _api))
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _api))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, ctypes.c_char_p)(("PyCapsule_SetName", _api))
_new_capsule = ctypes.PYFUNCTYPE(py_object, c_void_p, ctypes.c_char_p, c_void_p)(("PyCapsule_New", _api))
_exported: dict[int, tuple] = {}  # by address, until the reader calls the deleter


# ---- out


@ctypes.CFUNCTYPE(None, c_void_p)
def _delete(managed: int) -> None:
    """The deleter of an exported tensor: drops the reference to it."""
    _exported.pop(managed, None)


@ctypes.PYFUNCTYPE(None, c_void_p)
def _forget(capsule: int) -> None:
    """The destructor of a capsule: calls the deleter if nobody consumed the capsule."""
    if _is_valid(capsule, b"dltensor"):
        _exported.pop(_pointer_of(capsule, b"dltensor"), None)


for _callback in (_delete, _forget):  # other libraries may call them during interpreter shutdown
    _api.Py_IncRef(py_object(_callback))


def dlpack(
    self: Tensor,
    *,
    stream: int | None = None,
    max_version: tuple | None = None,
    dl_device: tuple | None = None,
    copy: bool | None = None,
) -> object:
    """DLPack's protocol: a capsule over the tensor's memory.

    Raises BufferError for tensors that require gradients, and if a copy is needed but forbidden.
    """
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not int:
        raise TypeError(f"stream must be ``int`` or ``none``, got {type(stream).__name__}")
    if self.device.type == "cpu" and stream not in (None, -1):
        raise AssertionError(f"stream should be None on cpu, got {stream}")
    target = self.device if dl_device is None or tuple(dl_device) == dlpack_device(self) else _device(*dl_device)
    if target is not self.device or copy:
        if copy is False:
            raise BufferError(f"a tensor on {self.device} cannot be shared with {target} without a copy")
        self = self.to(device=target, copy=True)
    if self.device.type == "cpu" and self.dtype.numpy is not None:
        return self.numpy().__dlpack__(max_version=max_version)
    if self.device.type == "cuda" and stream != -1:
        self.device.backend.synchronize()  # so the data is complete on every stream of the consumer
    return _capsule(self)


def _capsule(self: Tensor) -> object:
    sizes, steps = ((c_int64 * max(self.ndim, 1))(*values) for values in (self.shape, self._layout.strides))
    code = _BFLOAT if self.dtype is dtypes.bfloat16 else _KINDS[self.dtype.kind]
    described = _Tensor(
        self.data_ptr(), *dlpack_device(self), self.ndim, code, 8 * self.dtype.itemsize, 1, sizes, steps, 0
    )
    managed = _Managed(described, None, ctypes.cast(_delete, c_void_p))
    address = ctypes.addressof(managed)
    _exported[address] = managed, sizes, steps, self, self._storage.data  # the memory is lent as long as this lives
    lend(self._storage)
    return _new_capsule(address, b"dltensor", ctypes.cast(_forget, c_void_p))


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """(DLPack device type, index)."""
    return (_CPU, 0) if self.device.type == "cpu" else (_CUDA, self.device.index)


def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """Numba's and CuPy's protocol, version 2.

    Raises AttributeError on the CPU and RuntimeError for tensors that require gradients.
    """
    if self.device.type != "cuda":
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on a tensor of {self.device}. If CUDA data is required use "
            "tensor.cuda() to copy it there."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on a tensor that requires grad. Use tensor.detach() first."
        )
    if self.dtype.numpy is None:
        raise TypeError(f"__cuda_array_interface__ has no {self.dtype}; convert with .float() first, or use DLPack")
    steps = None if self._layout.dense else tuple(step * self.dtype.itemsize for step in self._layout.strides)
    address = self.data_ptr() if self.numel() else 0
    lend(self._storage)
    return {
        "shape": tuple(self.shape),
        "typestr": self.dtype.numpy.str,
        "strides": steps,
        "data": (address, False),
        "version": 2,
    }


# ---- in


def from_dlpack(ext_tensor: Any, *, device: Device | str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object that supports DLPack, or of a DLPack capsule.

    Read-only memory is copied, and all memory with `copy=True`. Raises RuntimeError for a capsule that was read before,
    TypeError for other objects and dtypes, and BufferError if a copy is needed but `copy=False`.

    Example:

        >>> import numpy
        >>> torch.from_dlpack(numpy.ones(2, numpy.float32))
        tensor([1., 1.])
    """
    if isinstance(ext_tensor, Tensor):
        result = ext_tensor.view(ext_tensor.shape)
    elif hasattr(ext_tensor, "__dlpack__"):
        result = _read(_capsule_of(ext_tensor))
    else:
        result = _read(ext_tensor)
    target = result.device if device is None else Device(device)
    if target is not result.device and copy is False:
        raise BufferError(f"memory on {result.device} cannot be shared with {target} without a copy")
    return result.to(device=target, copy=bool(copy))


def _capsule_of(array: Any) -> object:
    """The array's capsule."""
    kwargs = {"stream": _ANY_STREAM} if array.__dlpack_device__()[0] == _CUDA else {}
    try:
        return array.__dlpack__(**kwargs, max_version=(1, 0))
    except TypeError:  # a producer of DLPack before 1.0
        return array.__dlpack__(**kwargs)


def _read(capsule: object) -> Tensor:
    """The tensor of a DLPack capsule, which it marks as used. Raises for memory that numod cannot use."""
    name = next(
        (form for form in _CAPSULES if type(capsule).__name__ == "PyCapsule" and _is_valid(id(capsule), form)), None
    )
    if name is None:
        raise RuntimeError(
            f"from_dlpack: expected an array with __dlpack__ or an unread DLPack capsule, got {capsule!r}; a capsule "
            "can be read only once"
        )
    form, used = _CAPSULES[name]
    managed = form.from_address(_pointer_of(id(capsule), name))
    # these raise for unsupported memory
    dtype = _dtype(managed.tensor)
    source_device = _device(managed.tensor.device_type, managed.tensor.device_id)
    described = managed.tensor
    shape = described.shape[: described.ndim]
    strides = tuple(described.strides[: described.ndim]) if described.strides else None
    if strides is not None and min((step for n, step in zip(shape, strides) if n > 1), default=0) < 0:
        raise ValueError("from_dlpack: negative strides are not supported; copy the array first")
    _rename(capsule, used)
    result = _tensor_over(
        (described.data or 0) + described.byte_offset,
        layout(tuple(shape), dtype, source_device, strides),
        _Owner(managed),
    )
    return result.clone() if name == b"dltensor_versioned" and managed.flags & _READ_ONLY else result


class _Owner:
    """Keeps a producer's memory alive; calls the producer's deleter when it is freed."""

    def __init__(self, managed: _Managed | _Versioned) -> None:
        if managed.deleter:
            delete = ctypes.CFUNCTYPE(None, c_void_p)(managed.deleter)
            weakref.finalize(self, delete, ctypes.addressof(managed)).atexit = False


def _tensor_over(address: int, memory_layout: Layout, owner: object) -> Tensor:
    """A tensor over the memory at `address`, which is valid as long as `owner` exists."""
    if not memory_layout.extent:
        return wrap(ForeignStorage(memory_layout.device.backend.empty(0, memory_layout.storage)), memory_layout, 0)
    if memory_layout.device.type == "cuda":
        # a misaligned access would make the GPU unusable for the whole process
        if address % (memory_layout.dtype.itemsize // (2 if memory_layout.dtype.is_complex else 1)):
            raise ValueError(
                f"memory of {memory_layout.dtype} at {address:#x} is not aligned to its elements, as a GPU requires; "
                "copy the array first"
            )
        return notify_created(
            wrap(
                ForeignStorage(
                    memory_layout.device.backend.adopt(address, memory_layout.extent, memory_layout.storage, owner)
                ),
                memory_layout,
                0,
            ),
            "array",
        )
    memory = (c_uint8 * (memory_layout.extent * memory_layout.dtype.itemsize)).from_address(address)
    memory.owner = owner
    return notify_created(wrap(ForeignStorage(np.frombuffer(memory, memory_layout.storage)), memory_layout, 0), "array")


def _dtype(described: _Tensor) -> DType:
    for value in dtypes.ALL.values():
        code = _BFLOAT if value is dtypes.bfloat16 else _KINDS[value.kind]
        if (code, 8 * value.itemsize, 1) == (described.code, described.bits, described.lanes):
            return value
    raise TypeError(
        f"from_dlpack: numod has no dtype for DLPack's code {described.code} of {described.bits} bits; convert the "
        "array first"
    )


def _device(kind: int, index: int) -> Device:
    if kind not in (_CPU, _CUDA):
        raise BufferError(
            f"from_dlpack: memory must be on the CPU or on a CUDA device, not on DLPack's device type {kind}"
        )
    return Device("cpu") if kind == _CPU else Device("cuda", index)


def from_cuda_array(array: Any) -> Tensor:
    """A tensor over the memory of an object with `__cuda_array_interface__`.

    Raises ValueError for negative or fractional strides, TypeError for other dtypes.
    """
    interface = array.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise NotImplementedError("masked arrays cannot be shared; fill the masked elements first")
    # the producer's stream may still be writing; the default stream does not wait for all streams
    if interface.get("stream") is not None:
        Device("cuda").backend.synchronize()
    if not np.dtype(interface["typestr"]).isnative:
        raise TypeError(
            f"numod has no dtype for bytes in the order of {interface['typestr']!r}; convert the array first"
        )
    dtype, cuda = dtypes.from_numpy(np.dtype(interface["typestr"])), Device("cuda")
    steps = interface.get("strides")
    if steps is not None and any(
        n > 1 and (step < 0 or step % dtype.itemsize) for n, step in zip(interface["shape"], steps)
    ):
        raise ValueError(
            f"strides must be whole elements of {dtype.itemsize} bytes and not negative, got {tuple(steps)}; copy the "
            "array first"
        )
    strides = None if steps is None else tuple(step // dtype.itemsize for step in steps)
    result = _tensor_over(interface["data"][0], layout(tuple(interface["shape"]), dtype, cuda, strides), array)
    return result.clone() if interface["data"][1] else result


def to_dlpack(tensor: Tensor) -> object:
    """A tensor's DLPack capsule.

    Example:

        >>> torch.from_dlpack(torch.to_dlpack(torch.ones(2)))
        tensor([1., 1.])
    """
    return tensor.__dlpack__()


def array_namespace(self: Tensor, /, *, api_version: str | None = None) -> ModuleType:
    """The functions of the array API standard for tensors. Raises ValueError for a version that numod does not have."""
    namespace = import_module(f"{__name__.partition('.')[0]}.array_api")
    versions = ("2021.12", "2022.12", namespace.__array_api_version__)
    if api_version not in (None, *versions):
        raise ValueError(f"__array_namespace__: numod has versions {', '.join(versions)}, got {api_version!r}")
    return namespace


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The array API standard's `to`: the tensor on a device."""
    return self.to(device)


Tensor.__dlpack__, Tensor.__dlpack_device__ = dlpack, dlpack_device
Tensor.__array_namespace__, Tensor.to_device = array_namespace, to_device
Tensor.__cuda_array_interface__ = property(cuda_array_interface)
