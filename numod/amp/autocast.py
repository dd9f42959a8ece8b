"""`autocast` for scripts that switch it off, or may go without it. Not a change of dtypes: convert with `.to(dtype)` for that."""

from __future__ import annotations

import contextlib
import warnings

from ..device.device import Device
from ..dtypes import bfloat16, float16, float32
from ..dtypes import dtype as DType


def is_autocast_available(device_type: str) -> bool:
    """False: no device has it."""
    Device(device_type)
    return False


class autocast(contextlib.ContextDecorator):  # noqa: N801  PyTorch's name
    """A context, and a decorator, that changes nothing. Warns where it was asked to: `enabled` with a `dtype` other than float32.

    Raises ValueError for a `device_type` that is no string and RuntimeError for an unknown one.
    """

    def __init__(self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = Device(device_type).type
        self.fast_dtype = dtype or (float16 if self.device == "cuda" else bfloat16)
        if enabled and self.fast_dtype is not float32:
            warnings.warn(
                f"autocast: numod computes in the dtype of its tensors, so nothing will run in {self.fast_dtype} by itself. Convert the model and its inputs "
                "with .to(dtype), or pass enabled=False.",
                stacklevel=2,
            )

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *exception: object) -> None:
        return None
