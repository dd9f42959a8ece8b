"""`numod.device`: a device type and an index. Not its memory or kernels: `backend` gives the module that has those."""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import cpu

if TYPE_CHECKING:
    from .backend import Backend

_TYPES = ("cpu", "cuda", "meta")
_known: dict[tuple[str, int | None], Device] = {}


class _Defaults(threading.local):
    """Default devices per thread: the last of `stack` is the innermost `with device:`."""

    stack: tuple = ()


_defaults = _Defaults()
on_default_change: list = []  # called after this thread's default device has changed


class Device:
    """A place for tensors: `device("cpu")`, `device("cuda", 0)`, `device("cuda:0")`. Equal devices are one object.

    Raises RuntimeError for an unknown type or a malformed index.
    """

    __slots__ = ("type", "index", "_backend", "empty")

    def __new__(cls, type: str | int | Device = "cpu", index: int | None = None) -> Device:
        if isinstance(type, Device):
            return type
        device = _known.get((type, index))
        return device if device is not None else cls._create(*_parse(type, index))

    @classmethod
    def _create(cls, kind: str, index: int | None) -> Device:
        self = _known.get((kind, index))
        if self is None:
            self = object.__new__(cls)
            self.type, self.index, self._backend = kind, index, None
            self.empty = cpu.empty if kind == "cpu" else self._empty_elsewhere
            self = _known.setdefault((kind, index), self)  # that of another thread, where this was later
        return self

    @property
    def backend(self) -> Backend:
        """The module that holds this device's memory and compiles its kernels.

        Raises RuntimeError for a GPU that is not the first.
        """
        if self._backend is None:
            if self.index:
                raise RuntimeError(
                    f"CUDA error: invalid device ordinal {self.index}; a process has one GPU here, cuda:0. "
                    "Choose which by CUDA_VISIBLE_DEVICES before it starts"
                )
            self._backend = cpu if self.type == "cpu" else importlib.import_module(f"{__package__}.{self.type}")
        return self._backend

    @property
    def has_memory(self) -> bool:
        """Whether its tensors have memory; launches on others do nothing."""
        return self.type != "meta"

    def allocator(self, size: int) -> Callable:
        """The allocator for buffers of `size` bytes; it is called with a count and a storage dtype."""
        return self.backend.allocator(size)

    def _empty_elsewhere(self, count: int, storage_dtype: object) -> object:
        return self.backend.empty(count, storage_dtype)

    def __enter__(self) -> Device:
        """Make new tensors here: `with device("meta"): model = Model()`."""
        _make_here((*_defaults.stack, self))
        return self

    def __exit__(self, *exception: object) -> None:
        _make_here(_defaults.stack[:-1])

    def __call__(self, function: Callable) -> Callable:
        """As a decorator: new tensors of every call are made here."""

        @functools.wraps(function)
        def wrapped(*arguments: object, **kwargs: object) -> object:
            with self:
                return function(*arguments, **kwargs)

        return wrapped

    def __repr__(self) -> str:
        index = "" if self.index is None else f", index={self.index}"
        return f"device(type='{self.type}'{index})"

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __reduce__(self) -> tuple:
        return Device, (self.type, self.index)


def _parse(kind: str | int, index: int | None) -> tuple[str, int | None]:
    """(type, index) in normal form: CPU and meta have no index, CUDA devices always have one."""
    if isinstance(kind, int) and not isinstance(kind, bool):
        kind, index = "cuda", kind
    if not isinstance(kind, str):
        raise TypeError(f"device() expects a string or an int, got {type(kind).__name__}")
    name, colon, number = kind.partition(":")
    if colon and (index is not None or not number.isdigit()):
        raise RuntimeError(f"Invalid device string: '{kind}'; expected a form such as 'cpu', 'cuda' or 'cuda:0'")
    if name not in _TYPES:
        raise RuntimeError(f"Expected one of {', '.join(_TYPES)} device type at start of device string: {kind}")
    index = int(number) if colon else index
    if index is not None and (not isinstance(index, int) or index < 0):
        raise RuntimeError(f"Device index must not be negative, got {index!r}")
    if name != "cuda":
        return name, None
    return name, index or 0


class _Foreseen(Device):
    """The CPU as the device of tensors without memory: ops plan, and build kernels, as on the CPU, but nothing runs."""

    __slots__ = ()
    has_memory = False

    def allocator(self, size: int) -> Callable:
        return self.empty


_CPU = Device("cpu")


@functools.cache
def foreseen_cpu() -> Device:
    """The device of tensors that only show which kernels an op on the CPU would need."""
    from . import meta

    device = object.__new__(_Foreseen)
    device.type, device.index, device._backend, device.empty = "cpu", None, cpu, meta.empty
    return device


def default_device() -> Device:
    """Where tensors are made when no device is named.

    Example:

        >>> torch.get_default_device()
        device(type='cpu')
    """
    return _defaults.stack[-1] if _defaults.stack else _CPU


def set_default_device(device: Device | str | int | None) -> None:
    """Make new tensors on `device` where none is named, on this thread; None: on the CPU again.

    An active `with device:` takes precedence.

    Example:

        >>> torch.set_default_device("cpu")
    """
    _make_here(() if device is None else (Device(device),))


def _make_here(stack: tuple[Device, ...]) -> None:
    _defaults.stack = stack
    for note in on_default_change:
        note()
