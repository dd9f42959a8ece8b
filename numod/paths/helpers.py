"""`numod._utils` and its relatives: helpers of PyTorch that libraries import although their names are private."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..autograd.modes import _DecoratorContextManager as _DecoratorContextManager
from ..core.functions import cat
from ..core.tensor import Tensor
from ..cuda import current_device, device_count, is_available
from ..device.device import Device
from ..dtypes import dtype as DType
from ..nn.parameter import Parameter
from .compiler import is_compiling as is_compiling


class ExceptionWrapper:
    """An exception of another thread or process, as text. `reraise()` raises one of its type here."""

    def __init__(self, exc_info: tuple | None = None, where: str = "in background") -> None:
        kind, value, trace = sys.exc_info() if exc_info is None else exc_info
        self.exc_type, self.where = kind, where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self) -> None:
        """Raise an exception of the same type with the original traceback as its text."""
        text = f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}"
        if self.exc_type is KeyError:
            raise KeyError(text)
        try:
            error = self.exc_type(text)
        except Exception:  # a type that is not made from a text
            raise RuntimeError(text) from None
        raise error


class classproperty:
    """A property of a class."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self.fget(owner if owner is not None else type(instance))


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    """The elements of tensors of one dtype in one dimension."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The parts of `flat` in the shapes of `tensors`, as views."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterator[list[Tensor]]:
    """Lists of tensors of one dtype and device, each closed once it has `size_limit` bytes."""
    groups: dict[tuple, list[Tensor]] = {}
    for tensor in tensors:
        group = groups.setdefault((tensor.dtype, tensor.device), [])
        if group and sum(other.nbytes for other in group) + tensor.nbytes > size_limit:
            yield list(group)
            group.clear()
        group.append(tensor)
    yield from (group for group in groups.values() if group)


def _reorder_tensors_as(tensors: Iterable[Tensor], ordered_tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The tensors in the order in which `ordered_tensors` has their dtypes."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for tensor in tensors:
        by_dtype.setdefault(tensor.dtype, []).append(tensor)
    iterators = {dtype: iter(group) for dtype, group in by_dtype.items()}
    return tuple(next(iterators[tensor.dtype]) for tensor in ordered_tensors)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device; with `optional`, None means the current one.

    Raises ValueError for another device than a GPU, unless `allow_cpu`.
    """
    if isinstance(device, int):
        return device
    if device is None and optional:
        return current_device()
    chosen = Device(device) if isinstance(device, str) else device
    if not isinstance(chosen, Device):
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    if chosen.type == "cpu" and not allow_cpu:
        raise ValueError(f"Expected a non cpu device, but got: {device}")
    return -1 if chosen.type == "cpu" else chosen.index if chosen.index is not None else current_device()


def _get_all_device_indices() -> list[int]:
    """The indices of all GPUs."""
    return list(range(device_count()))


def _get_available_device_type() -> str | None:
    """ "cuda" where there is a GPU, else None."""
    return "cuda" if is_available() else None


def _import_dotted_name(name: str) -> Any:
    """The object of a dotted name whose first part is imported, as "numod.nn"."""
    first, *rest = name.split(".")
    value = __import__(first)
    for part in rest:
        value = getattr(value, part)
    return value


def _element_size(dtype: DType) -> int:
    """The number of bytes of an element."""
    return dtype.itemsize


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Parameter:
    """A Parameter of a tensor. PyTorch's pickled parameters call it."""
    return Parameter(data, requires_grad)


def not_none(obj: Any) -> Any:
    """`obj`. Raises TypeError for None."""
    if obj is None:
        raise TypeError("Invariant encountered: value was None when it should not be")
    return obj


def has_triton() -> bool:
    """False: kernels are compiled by Numba."""
    return False


has_triton_package = has_triton


def _device_has_foreach_support(device: Device) -> bool:
    """True: functions such as `_foreach_mul_` take tensors of every device."""
    return True


def _has_foreach_support(tensors: Sequence[Tensor], device: Device) -> bool:
    """Whether all are tensors."""
    return all(tensor is None or isinstance(tensor, Tensor) for tensor in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Device, DType], tuple[list[list[Tensor | None]], list[int]]]:
    """(lists of tensors, positions) for each device and dtype of the first list; other lists are split alike."""
    positions: dict[tuple[Device, DType], list[int]] = {}
    for position, tensor in enumerate(tensorlistlist[0]):
        positions.setdefault((tensor.device, tensor.dtype), []).append(position)
    return {
        key: (
            [[tensors[position] for position in chosen] if tensors else [] for tensors in tensorlistlist],
            chosen if with_indices else [],
        )
        for key, chosen in positions.items()
    }
