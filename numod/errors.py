"""Checks and error types used in more than one place. numod raises the same exception types as PyTorch."""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Iterable
from functools import cache


class _Single(type):
    """The type of zero-dimensional objects that can be an index: NumPy integers, tensors and arrays with one."""

    def __instancecheck__(cls, value: object) -> bool:
        return hasattr(value, "__index__") and getattr(value, "ndim", 1) == 0


SINGLE_INT = (int, _Single("Single", (), {}))  # types of a single number, where a sequence is also accepted


def plain(value: object) -> object:
    """`value`, as an int where it is another kind of integer.

    Raises TypeError for tensors and arrays of other numbers.
    """
    return operator.index(value) if value.__class__ is not int and isinstance(value, SINGLE_INT) else value


def plain_sizes(name: str, value: object, optional: bool = False) -> int | tuple:
    """A size, or a tuple of sizes, with integers of other types as ints; an entry may be None if `optional`.

    Raises TypeError for floats, bools and values that are neither integers nor sequences. `name` is the argument's.
    """
    if value.__class__ is int or (value.__class__ is tuple and all([size.__class__ is int for size in value])):
        return value
    if hasattr(type(value), "__number__"):  # of a recording
        return value
    if value.__class__ is not bool and isinstance(value, SINGLE_INT):
        return operator.index(value)
    # sets and dicts have no order of sizes
    if isinstance(value, str) or hasattr(value, "keys") or not hasattr(value, "__getitem__"):
        raise TypeError(f"argument '{name}' must be int or tuple of ints, not {type(value).__name__}")
    sizes = list(value)
    for k, size in enumerate(sizes):
        if size.__class__ is int or hasattr(type(size), "__number__") or (optional and size is None):
            continue
        if size.__class__ is bool or not isinstance(size, SINGLE_INT):
            raise TypeError(f"argument '{name}' must be tuple of ints, but found {type(size).__name__} at pos {k}")
        sizes[k] = operator.index(size)
    return tuple(sizes)


def normalize_dim(dim: int, ndim: int, name: str = "dim") -> int:
    """`dim` counted from the front.

    Raises IndexError where it lies outside `[-ndim, ndim)`; a scalar counts as one dimension.
    """
    if dim.__class__ is not int:
        if dim.__class__ is bool or not isinstance(dim, SINGLE_INT):
            raise TypeError(f"{name} must be an int, got {type(dim).__name__}")
        dim = operator.index(dim)
    limit = ndim or 1
    if not -limit <= dim < limit:
        if not -1 << 63 <= dim < 1 << 63:
            raise ValueError(f"Overflow when unpacking long long: {name} is {dim}")
        raise IndexError(f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})")
    return dim % limit


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the line outside this package that the call came from."""
    level, frame = 2, sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == __package__:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def warn_deprecated(old: str, new: str) -> None:
    """PyTorch's warning of a public function that has a successor."""
    warn_caller(f"numod.{old} is deprecated in favor of numod.{new} and will be removed in a future release.")


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
    if isinstance(dims, SINGLE_INT):
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

    # called wherever it is constructed: a recorded program is valid for such matrices only
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
    "sparse tensors; a dense one is torch.zeros(size).index_put_(tuple(indices), values, accumulate=True)": (
        "sparse sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_compressed_tensor hspmm "
        "smm sspaddmm"
    ),
}


def absent(name: str) -> str:
    """What to say after the name of a part of PyTorch that is left out as a whole; nothing for other names."""
    return next((f"; numod has no {kind}" for kind, names in _ABSENT.items() if name in names.split()), "")


def suggestion(name: str, names: Iterable[str]) -> str:
    """What to say after a misspelled name of a namespace with more names than Python itself searches (750).

    Only names with the same first letter and a similar length are compared, since `hasattr` comes here too.
    """
    from difflib import get_close_matches

    similar = [other for other in names if other[:1] == name[:1] != "_" and abs(len(other) - len(name)) < 3]
    return "".join(f". Did you mean: '{match}'?" for match in get_close_matches(name, similar, 1, 0.75))


class NameOnly(type):
    """A placeholder for an unsupported class of PyTorch, for annotations, base classes, keys and `isinstance`.

    There are no instances; attributes are placeholders too. Calling one raises NotImplementedError.
    """

    def __call__(cls, *arguments: object, **kwargs: object) -> None:
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


class DistError(RuntimeError):
    """An error of process groups: `numod.distributed.DistError`. A compiled function does not try again after one."""


def warn_caller_once(message: str, category: type[Warning] = UserWarning) -> None:
    """`warn_caller`, once per process and message, or each time after `set_warn_always(True)`."""
    if _warn_always or message not in _warned_once:
        _warned_once.add(message)
        warn_caller(message, category)


_warn_always = False
_warned_once: set[str] = set()


def set_warn_always(b: bool) -> None:
    """Whether warnings that PyTorch gives once per process are given each time.

    Example:

        >>> torch.set_warn_always(False)
    """
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was given.

    Example:

        >>> torch.is_warn_always_enabled()
        False
    """
    return _warn_always
