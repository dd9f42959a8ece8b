"""Conversions from and to Python numbers, NumPy, other devices and pickles.

(Other libraries: see `exchange`.) None detaches a tensor silently.
"""

from __future__ import annotations

from mmap import mmap

import numpy as np

from ...device import Storage
from ...device.device import Device
from ...device.layout import layout
from ...device.storage import lend, share
from ...dtypes import dtype as DType
from ...ops import table
from ...ops.op import Op
from ...ops.view import View
from .. import changes
from ..apply import apply, state
from ..listeners import active_listeners, listeners
from ..create.creation import empty
from ..extensions import extensions
from ..tensor import Tensor, fields_of, own_attributes, wrap
from ..create.values import from_array, from_numpy


class Move(Op):
    """The op that copies to another device.

    It is recorded like any op, but carried out by the back ends, without a kernel.
    """

    inputs, attributes, wide_unsigned = ("x",), ("device",), True
    gradients = {"x": lambda g, layout: g.to(device=layout.device)}


move_op = Move("to_device")


def move(input: Tensor, device: Device, non_blocking: bool = False) -> Tensor:
    """A contiguous copy of `input` on `device`.

    `non_blocking`: pinned memory is read asynchronously, and must not be written meanwhile.
    """
    source = input.contiguous()
    shape = layout(source.shape, source.dtype, device)
    data = source._storage.data[source._offset : source._offset + shape.size]
    if device.type == "cuda" and source.is_pinned():
        data_on_device = device.backend.upload_pinned(data, not non_blocking)
    else:
        host = source.device.backend.download(data)
        data_on_device = device.backend.upload(
            host if source.device.type != "cpu" or device.type != "cpu" else host.copy()
        )
    result = wrap(Storage(data_on_device), shape, 0)
    if state.grad_enabled and input.requires_grad:
        extensions.record(move_op, (input,), [input._layout], (device,), result)
    for listener in active_listeners() if listeners else ():
        listener(move_op, (input,), (device,), (result,), False)
    return result


def numpy(self: Tensor, *, force: bool = False) -> np.ndarray:
    """The memory as a NumPy array.

    Raises RuntimeError for tensors that require gradients and TypeError off the CPU, unless `force` copies.

    Example:

        >>> torch.tensor([1.0, 2.0]).numpy().dtype
        dtype('float32')
    """
    if force:
        self = self.detach().cpu()
    layout_ = self._layout
    if self.requires_grad and state.grad_enabled:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if layout_.device.type != "cpu":
        raise TypeError(
            f"can't convert {layout_.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host "
            "memory first."
        )
    if layout_.dtype.numpy is None:
        raise TypeError(
            f"Got unsupported ScalarType {layout_.dtype.short}: NumPy has no such dtype; convert with .float() first"
        )
    later = _read_later(self, "numpy") if listeners else None
    if later is not None:
        return later
    array = _values(self)
    if not self._storage.lent:  # after the array was made, since it ends when no array is left
        lend(self._storage)
    return array


def _values(self: Tensor) -> np.ndarray:
    """The memory of a CPU tensor as an array of NumPy's dtype."""
    array, numpy_dtype = raw(self), self._layout.dtype.numpy
    return array if numpy_dtype is array.dtype else array.view(numpy_dtype)


def raw(self: Tensor) -> np.ndarray:
    """The memory of a CPU tensor as an array in its storage dtype: bool as bytes, 16-bit floats as bits."""
    self_layout = self._layout
    if self_layout.device.type == "meta":
        self_layout.device.backend.download(None)
    size = self_layout.dtype.itemsize
    return np.ndarray(
        self_layout.shape,
        self_layout.storage,
        self._storage.data,
        self._offset * size,
        tuple([s * size for s in self_layout.strides]),
    )


def item(self: Tensor) -> float | int | bool:
    """The value of a tensor of one element, as a Python number.

    Example:

        >>> torch.tensor([2.5]).item()
        2.5
    """
    if self._layout.is_host_number and not listeners:  # what a training loop calls for each batch
        return self._storage.data.item(self._offset)
    later = _read_later(self, "item") if listeners and self._layout.size == 1 and self._layout.batch is None else None
    return value(self, "item()") if later is None else later


def value(self: Tensor, how: str) -> float | int | bool:
    """The value of a one-element tensor.

    `how` is what the user called, for the message where reading is refused.
    """
    self_layout = self._layout
    if self_layout.size != 1:
        raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
    if self_layout.device.type == "meta":
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if self_layout.batch is not None:
        return self_layout.batch.common_value(self)
    for listener in active_listeners() if listeners else ():
        branched = getattr(listener, "branched", None)
        if branched is not None:
            branched(self, how)
    return observe(self)


def observe(self: Tensor) -> float | int | bool:
    """`item` for checks of the library: a recorded program repeats the check in each run, and raises if the outcome
    differs.
    """
    self_layout = self._layout
    if self_layout.batch is not None:
        return self_layout.batch.common_value(self)
    if self_layout.dtype.compute is not self_layout.dtype:
        self = apply(table.copy, (self.detach(),), (self_layout.dtype.compute,))
    value = peek(self)
    for listener in active_listeners() if listeners else ():
        watch = getattr(listener, "observe", None)
        if watch is not None:
            watch(self, value)
    return value


def peek(self: Tensor) -> float | int | bool:
    """The value of the tensor's first element; listeners are not notified."""
    self_layout, data, offset = self._layout, self._storage.data, self._offset
    value = (
        data.item(offset)
        if self_layout.device.type == "cpu"
        else self_layout.device.backend.download(data[offset : offset + 1]).item()
    )
    return bool(value) if self_layout.dtype.kind == "b" else value


def _read_later(self: Tensor, method: str) -> object:
    """A recorder's lazy scalar for values that are read after the run; None if nothing records.

    Raises RuntimeError if the recorder does not support it.
    """
    for listener in active_listeners():
        read = getattr(listener, "read", None)
        later = read(self, method) if read is not None else None
        if later is not None:
            return later
    _refuse_trace(f"{method}()")
    return None


def _refuse_trace(method: str) -> None:
    for listener in active_listeners():
        refuse = getattr(listener, "refuse", None)
        if refuse is not None:
            refuse(method)


def tolist(self: Tensor) -> list | float | int | bool:
    """Nested lists of Python numbers.

    Example:

        >>> torch.tensor([[1, 2], [3, 4]]).tolist()
        [[1, 2], [3, 4]]
    """
    later = _read_later(self, "tolist") if listeners else None
    if later is not None:
        return later
    self_layout = self._layout
    if self_layout.device.type != "cpu" or self_layout.dtype.compute is not self_layout.dtype:
        return self.detach().cpu().to(self_layout.dtype.compute).numpy().tolist()
    return _values(self).tolist()


def array(self: Tensor, dtype: object = None, copy: bool | None = None) -> np.ndarray:
    """NumPy's `__array__`. Raises ValueError if `copy=False` is not possible."""
    _refuse_trace("conversion to a NumPy array")
    result = self.numpy()
    if dtype is not None and result.dtype != dtype:
        if copy is False:
            raise ValueError(f"a copy is needed to convert {result.dtype} to {np.dtype(dtype)}")
        return result.astype(dtype)
    return result.copy() if copy else result


def wrap_array(
    self: Tensor, result: np.ndarray, context: object = None, return_scalar: bool = False
) -> Tensor | np.ndarray:
    """NumPy's `__array_wrap__`: a ufunc's result as a tensor that shares its memory, if there is such a dtype."""
    try:
        return from_numpy(np.asarray(result))
    except TypeError:  # uint16, say
        return result


def reduce_ex(self: Tensor, protocol: int) -> tuple:
    """Pickle a tensor as values (sizes on the meta device), memory order and flags.

    History and shared memory are not kept.
    """
    attributes = own_attributes(self) | ({"_grad": self._grad} if "_grad" in fields_of(self) else {})
    _refuse_trace("pickling")
    is_permuted = self._layout.packed and not self._layout.dense
    order = tuple(sorted(range(self.ndim), key=lambda dim: (-self.stride(dim), dim))) if is_permuted else None
    in_memory_order = self.detach().permute(*order) if is_permuted else self.detach()
    values = tuple(in_memory_order.shape) if self.is_meta else raw(in_memory_order.cpu().contiguous())
    return _unpickled, (type(self), values, self.dtype, str(self.device), self.requires_grad, order), attributes or None


def _unpickled(
    cls: type,
    values: np.ndarray | tuple[int, ...],
    dtype: DType,
    device: str,
    requires_grad: bool,
    order: tuple[int, ...] | None = None,
) -> Tensor:
    dense = (
        empty(values, dtype=dtype, device=device)
        if isinstance(values, tuple)
        else from_array(np.array(values, order="C"), dtype)
    )
    result = in_order(dense, order).to(device=Device(device))._alias(cls)
    result._requires_grad = requires_grad
    return result


def in_order(dense: Tensor, order: tuple[int, ...] | None) -> Tensor:
    """A pickled tensor with its dimensions in this order in memory."""
    return dense if order is None else dense.permute(*map(order.index, range(len(order))))


def deepcopy(self: Tensor, memo: dict) -> Tensor:
    """A copy of a leaf, with its gradient.

    Raises RuntimeError for a computed tensor, whose history stays with the original.

    The whole storage is copied, once: copies of tensors that share memory share theirs.
    """
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            "If you were attempting to deepcopy a "
            "module, this may be because of a computed tensor that it keeps, such as one of a parametrization by "
            "hand; detach() it, or remove it before."
        )
    from copy import deepcopy as copy_of

    memory = self._storage
    if id(memory) not in memo:
        memo[id(memory)] = self.detach().as_strided((memory.data.size,), (1,), 0).clone()
    result = memo[id(memory)].as_strided(self.shape, self.stride(), self.storage_offset())._alias(type(self))
    result._requires_grad = self._requires_grad
    memo[id(self)] = result
    result._grad = copy_of(self._grad, memo)
    fields_of(result).update({name: copy_of(value, memo) for name, value in own_attributes(self).items()})
    return result


def share_memory_(self: Tensor) -> Tensor:
    """Move the storage, with all views of it, into memory shared with processes forked later; nothing on CUDA.

    A tensor sent to a process is still copied.
    """
    data = self._storage.data
    if not is_shared(self):
        pages = np.frombuffer(mmap(-1, max(data.nbytes, 1)), data.dtype, data.size)
        pages[...] = data
        self._storage.data = pages
        share(self._storage)
        changes.note()
    return self


def is_shared(self: Tensor) -> bool:
    """Whether the memory is shared with forked processes; always True on CUDA.

    Example:

        >>> torch.ones(2).is_shared()
        False
    """
    memory = None if self.is_cuda else self._storage.data.base
    # not a subclass: that would be a block of `device.host_memory`
    return self.is_cuda or type(getattr(memory, "obj", memory)) is mmap


def apply_view(self: Tensor, op: View, attributes: tuple) -> Tensor:
    """Apply a view op given as an object, for gradients of views."""
    return apply(op, (self,), attributes)


Tensor.numpy, Tensor.item, Tensor.tolist, Tensor._view, Tensor._observe = numpy, item, tolist, apply_view, observe
Tensor.share_memory_, Tensor.is_shared = share_memory_, is_shared
Tensor.__array__, Tensor.__array_wrap__ = array, wrap_array
Tensor.__reduce_ex__, Tensor.__deepcopy__ = reduce_ex, deepcopy
