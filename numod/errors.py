"""Checks and error types used in more than one place. numod raises the same exception types as PyTorch."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache


class _Single(type):
    """Of what has no dimensions and can be an index: NumPy's integers, and tensors and arrays of one."""

    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "__index__") and getattr(value, "ndim", 1) == 0


WHOLE = (int, _Single("Single", (), {}))  # types of what is one number where several may stand


def plain(value: object) -> object:
    """`value`, as an int where it is another kind of integer.

    Raises TypeError for tensors and arrays of other numbers.
    """
    return operator.index(value) if value.__class__ is not int and isinstance(value, WHOLE) else value


def normalize_dim(dim: int, ndim: int, what: str = "dim") -> int:
    """`dim` counted from the front.

    Raises IndexError where it lies outside `[-ndim, ndim)`; a scalar counts as one dimension.
    """
    if dim.__class__ is not int:
        if dim.__class__ is bool or not isinstance(dim, WHOLE):
            raise TypeError(f"{what} must be an int, got {type(dim).__name__}")
        dim = operator.index(dim)
    limit = ndim or 1
    if not -limit <= dim < limit:
        if not -1 << 63 <= dim < 1 << 63:
            raise ValueError(f"Overflow when unpacking long long: {what} is {dim}")
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim % limit


@cache
def every_dim(ndim: int) -> tuple[int, ...]:
    """All dimensions of a tensor of `ndim`."""
    return tuple(range(ndim))


def normalize_dims(dims: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Distinct dimensions counted from the front; None means all of them.

    Raises IndexError and RuntimeError (repeated) as PyTorch does.
    """
    if dims is None:
        return every_dim(ndim)
    if isinstance(dims, WHOLE):
        return (normalize_dim(dims, ndim),) if ndim else normalize_dims((dims,), ndim)
    dims = (dims,) if not isinstance(dims, (tuple, list)) else dims
    result = tuple(normalize_dim(dim, ndim) for dim in dims)
    if len(set(result)) != len(result):
        twice = next(dim for dim in result if result.count(dim) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims: {tuple(dims)}")
    return tuple(dim for dim in result if ndim)


class LinAlgError(RuntimeError):
    """A matrix without the factorisation asked for: singular, or not positive definite.

    `numod.linalg.LinAlgError`, as PyTorch has it.
    """

    # called wherever one is made: what is recorded holds for such matrices only
    listeners: list[Callable[[], None]] = []

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)
        for listener in tuple(self.listeners):
            listener()


class OutOfMemoryError(RuntimeError, MemoryError):
    """A device, or the host, has no room for a tensor.

    `numod.OutOfMemoryError` and `numod.cuda.OutOfMemoryError`, as PyTorch has it.
    """


_ABSENT = {
    "sparse tensors": """sparse sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor
        sparse_compressed_tensor hspmm smm sspaddmm""",
}


def absent(name: str) -> str:
    """What to say after the name of a part of PyTorch that is left out as a whole; nothing for other names."""
    return next((f"; numod has no {kind}" for kind, names in _ABSENT.items() if name in names.split()), "")


class NameOnly(type):
    """The class of names of PyTorch's that stand for nothing here, in annotations, as base classes, keys and for
    `isinstance`: there are no instances, and what is asked of one is another. Calling one raises NotImplementedError.
    """

    def __call__(cls, *arguments: object, **named: object) -> None:
        raise NotImplementedError(f"numod has no {cls._path}: {cls._instead}")

    def __getattr__(cls, name: str) -> NameOnly:
        if name.startswith("__"):
            raise AttributeError(f"{cls._path} has no attribute '{name}'")
        return name_only(f"{cls._path}.{name}", cls._instead)


@cache
def name_only(path: str, instead: str) -> NameOnly:
    """The name at PyTorch's path, such as `distributed.device_mesh.DeviceMesh`; `instead` is what the error tells to
    do.
    """
    home, _, name = path.rpartition(".")
    return NameOnly(
        name,
        (),
        {"_path": path, "_instead": instead, "__module__": f"numod.{home}", "__doc__": f"Only a name: {instead}."},
    )
