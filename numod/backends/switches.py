"""Switches of the top namespace that trade accuracy or repeatability for speed.

They are remembered; the precision of products and the order of sums by index are what kernels ask for.
"""

from __future__ import annotations


from ..errors import warn_caller
from .. import dtypes
from ..kernel import tensor_cores
from ..ops.index import indexing

_PRECISIONS = ("highest", "high", "medium")
_MODES = {"default": 0, "warn": 1, "error": 2}
_together = 1


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was given; "highest" at the start.

    Example:

        >>> torch.get_float32_matmul_precision()
        'highest'
    """
    return tensor_cores.precision


def set_float32_matmul_precision(precision: str) -> None:
    """The precision of matrix products of float32:

    "highest", or "high" or "medium", with which GPUs from 8.0 on round factors to tf32, of 10 bits behind the first.

    Sums are in float32. Convolutions and other devices compute in float32 in any case.

    Example:

        >>> torch.set_float32_matmul_precision("highest")
    """
    if precision in _PRECISIONS:
        tensor_cores.precision = precision
        _forget_plans()
    else:
        warn_caller(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call "
            "has no effect."
        )


def _forget_plans() -> None:
    """Have ops choose their kernels again."""
    for forget in dtypes.on_default_change:
        forget()


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same results in every run.

    All ops give them but those that add floats by index on a GPU, whose order is left to chance unless this is on:
    index_add, scatter_add, index_put with `accumulate`, bincount with weights, and the gradients of embedding, gather
    and indexing. It takes the parallelism from all but the columns, so it is slow there.

    Example:

        >>> torch.use_deterministic_algorithms(True)
        >>> torch.are_deterministic_algorithms_enabled()
        True
        >>> torch.use_deterministic_algorithms(False)
    """
    set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether `use_deterministic_algorithms` is on.

    Example:

        >>> torch.are_deterministic_algorithms_enabled()
        False
    """
    return indexing.deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether it is on with `warn_only`.

    Example:

        >>> torch.is_deterministic_algorithms_warn_only_enabled()
        False
    """
    return indexing.deterministic == 1


def get_deterministic_debug_mode() -> int:
    """0 off, 1 warn only, 2 on.

    Example:

        >>> torch.get_deterministic_debug_mode()
        0
    """
    return indexing.deterministic


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """`use_deterministic_algorithms` by number, or as "default", "warn" or "error".

    Example:

        >>> torch.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    number = _MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if number not in _MODES.values():
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, 2, `default`, `warn`, `error`, but got {debug_mode}"
        )
    indexing.deterministic = number
    _forget_plans()


def set_num_interop_threads(num_threads: int) -> None:
    """The number of ops that may run at once, which PyTorch's interpreter makes use of.

    Ops run one after the other here.
    """
    global _together
    if not isinstance(num_threads, int):
        raise TypeError(f"set_num_interop_threads expects an int, but got {type(num_threads).__name__}")
    if num_threads <= 0:
        raise RuntimeError("set_num_interop_threads expects a positive integer")
    _together = num_threads


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was given; 1 at the start.

    Example:

        >>> torch.get_num_interop_threads() >= 1
        True
    """
    return _together


def set_flush_denormal(mode: bool) -> bool:
    """False: numbers below the smallest normal one are kept as they are, whatever is asked for.

    Example:

        >>> torch.set_flush_denormal(False)
        False
    """
    return False
