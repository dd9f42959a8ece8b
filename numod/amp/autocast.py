"""`autocast`: products and convolutions run in 16 bits, losses in float32, for tensors of any float dtype.

`casts` lists the functions.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

from .. import cuda
from ..core.apply import state
from ..core.tensor import Tensor
from ..device.device import Device
from ..dtypes import bfloat16, float16
from ..errors import warn_caller
from ..dtypes import dtype as DType
from . import casts

_defaults: dict[str, DType] = {"cpu": bfloat16, "cuda": float16}


def is_autocast_available(device_type: str) -> bool:
    """Whether the device supports autocast: "cpu" and "cuda" do."""
    return Device(device_type).type in _defaults


def _supported_device_type(device_type: str) -> str:
    """The type of a device that supports autocast. Raises RuntimeError for others."""
    kind = Device(device_type).type
    if kind not in _defaults:
        raise RuntimeError(f"User specified an unsupported autocast device_type '{kind}'")
    return kind


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this thread is inside an autocast for the device, by default "cuda".

    Example:

        >>> torch.is_autocast_enabled()
        False
    """
    return any(device == (device_type or "cuda") for device, _ in state.autocast)


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype that autocast casts to on a device; by default bfloat16 on "cpu" and float16 on "cuda".

    Example:

        >>> torch.get_autocast_dtype("cpu")
        numod.bfloat16
    """
    kind = _supported_device_type(device_type)
    return dict(state.autocast).get(kind, _defaults[kind])


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Make `dtype` the default of autocasts on the device.

    Example:

        >>> torch.set_autocast_dtype("cpu", torch.bfloat16)
    """
    _defaults[_supported_device_type(device_type)] = dtype


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off for this thread, without a context. Deprecated form: the flag alone, for "cuda".

    Example:

        >>> torch.set_autocast_enabled("cpu", False)
    """
    if enabled is None:
        device_type, enabled = "cuda", bool(device_type)
    kind = _supported_device_type(device_type)
    casts.enter(_with(kind, _defaults[kind] if enabled else None))


# ---- deprecated names, each for one device


def _warn_of(old: str, new: str) -> None:
    warn_caller(f"numod.{old} is deprecated. Please use numod.{new} instead.", DeprecationWarning)


def is_autocast_cpu_enabled() -> bool:
    """`is_autocast_enabled("cpu")`

    Example:

        >>> torch.is_autocast_enabled("cpu")
        False
    """
    _warn_of("is_autocast_cpu_enabled()", "is_autocast_enabled('cpu')")
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """`set_autocast_enabled("cpu", enabled)`"""
    _warn_of("set_autocast_cpu_enabled(enabled)", "set_autocast_enabled('cpu', enabled)")
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> DType:
    """`get_autocast_dtype("cpu")`"""
    _warn_of("get_autocast_cpu_dtype()", "get_autocast_dtype('cpu')")
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cpu", dtype)`"""
    _warn_of("set_autocast_cpu_dtype(dtype)", "set_autocast_dtype('cpu', dtype)")
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> DType:
    """`get_autocast_dtype("cuda")`"""
    _warn_of("get_autocast_gpu_dtype()", "get_autocast_dtype('cuda')")
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: DType) -> None:
    """`set_autocast_dtype("cuda", dtype)`"""
    _warn_of("set_autocast_gpu_dtype(dtype)", "set_autocast_dtype('cuda', dtype)")
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of parameters are kept until the outermost autocast ends.

    Example:

        >>> torch.is_autocast_cache_enabled()
        True
    """
    return casts.thread_state.caching


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Keep casts of parameters, or do not.

    Example:

        >>> torch.set_autocast_cache_enabled(True)
    """
    casts.thread_state.caching = bool(enabled)


def clear_autocast_cache() -> None:
    """Drop the casts of parameters that are kept.

    Example:

        >>> torch.clear_autocast_cache()
    """
    casts.forget()


def _with(device: str, dtype: DType | None) -> tuple[tuple[str, DType], ...]:
    """This thread's casts, with others for one device."""
    other_casts = tuple(cast for cast in state.autocast if cast[0] != device)
    return other_casts if dtype is None else (*other_casts, (device, dtype))


class autocast(contextlib.ContextDecorator):
    """A context and decorator in which functions cast their tensors.

    Products are cast to `dtype` (bfloat16 on "cpu", float16 on "cuda"), losses to float32.

    Raises ValueError for a `device_type` that is no string and RuntimeError for an unknown one. Warns, and does
    nothing, for another dtype and for CUDA where there is none.

    Example:

        >>> with torch.autocast("cpu", dtype=torch.bfloat16):
        ...     y = torch.ones(2, 3) @ torch.ones(3, 2)
        >>> y.dtype
        numod.bfloat16
    """

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        self.device = _supported_device_type(device_type)
        self.fast_dtype = get_autocast_dtype(self.device) if dtype is None else dtype
        self.custom_enabled, self._enabled = enabled, enabled and self._possible()
        self._cache_enabled = casts.thread_state.caching if cache_enabled is None else cache_enabled
        self._before: list[tuple] = []

    def _possible(self) -> bool:
        if self.device == "cuda" and not cuda.is_available():
            warn_caller("User provided device_type of 'cuda', but CUDA is not available. Disabling")
            return False
        if self.fast_dtype not in (bfloat16, float16):
            warn_caller(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{self.device.upper()} Autocast only supports dtypes of numod.bfloat16, numod.float16 currently."
            )
            return False
        return True

    def __enter__(self) -> autocast:
        self._before.append(
            (casts.enter(_with(self.device, self.fast_dtype if self._enabled else None)), casts.thread_state.caching)
        )
        casts.thread_state.caching = self._cache_enabled
        return self

    def __exit__(self, *exception: object) -> None:
        before, casts.thread_state.caching = self._before.pop()
        casts.enter(before)
        if not before:
            casts.forget()


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: DType | None = None) -> Callable:
    """A decorator of `Function.forward`: in an autocast, cast its floating tensors to `cast_inputs` and disable
    autocast.

    Without `cast_inputs` it runs unchanged.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *arguments: Any, **kwargs: Any) -> Any:
        inside = is_autocast_enabled(device_type)
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(device_type), inside and cast_inputs is None
        if cast_inputs is None or not inside:
            return fwd(ctx, *arguments, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(ctx, *_cast(arguments, device_type, cast_inputs), **_cast(kwargs, device_type, cast_inputs))

    return forward


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Callable:
    """A decorator of `Function.backward`, which then runs with the autocast that `custom_fwd`'s forward ran with."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *arguments: Any) -> Any:
        with autocast(device_type, ctx._dtype, enabled=ctx._fwd_used_autocast):
            return bwd(ctx, *arguments)

    return backward


def _cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Tensors of the device, in containers too, in `dtype` where they are floating and not float64."""
    if isinstance(value, Tensor):
        eligible = value.is_floating_point() and value.device.type == device_type and value.dtype.itemsize < 8
        return value.to(dtype) if eligible else value
    if isinstance(value, Mapping):
        return {_cast(key, device_type, dtype): _cast(item, device_type, dtype) for key, item in value.items()}
    return (
        type(value)([_cast(item, device_type, dtype) for item in value]) if isinstance(value, (list, tuple)) else value
    )
