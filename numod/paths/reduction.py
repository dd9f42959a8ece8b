"""`numod.nn._reduction`: codes of the losses' reductions, which model files convert."""

from __future__ import annotations

from ..errors import warn_caller

_CODES = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """The code of a reduction: 0 for "none", 1 for "mean", 2 for "sum". Raises ValueError for others."""
    if reduction not in _CODES:
        raise ValueError(f"{reduction} is not a valid value for reduction; expected one of {', '.join(_CODES)}")
    return _CODES[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """The reduction that the deprecated arguments `size_average` and `reduce` mean."""
    reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    if emit_warning:
        warn_caller(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """The code of `legacy_get_string`."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
