"""Kernels of a module's layers, begun while LLVM works on those of the first one.

In a process without a cache, the first op of a training step waits until LLVM has compiled its kernels. Meanwhile the
layers of the module run with tensors that have a layout but no memory (`autograd.early_kernels`), so that Python
translates their kernels and LLVM goes on with them. They run in the order in which they are registered, nearly always
that of their calls. Only layers of `nn` without other effects run, and none with hooks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from weakref import WeakSet

from ..autograd.early_kernels import without_memory
from ..core import Tensor, overrides
from ..core.extensions import extensions
from . import activation, calling, convolution, embedding, linear, normalization, pooling
from .module import Module
from .registry import fields_of

_FILES = activation, convolution, embedding, linear, normalization, pooling
# these draw random numbers, or may warn
_LEFT_OUT = {
    "RReLU", "FractionalMaxPool2d", "FractionalMaxPool3d", "Softmax", "LogSoftmax", "Softmin", "EmbeddingBag",
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
}  # fmt: skip
_FORWARD = {layer: layer.forward for file in _FILES for layer in (getattr(file, name) for name in file.__all__)
            if layer.__name__ not in _LEFT_OUT}  # fmt: skip
_begun: WeakSet[Module] = WeakSet()  # the modules whose layers were begun


def begin_layers() -> None:
    """Begin the kernels of the layers of the outermost module that this thread calls, once for each module."""
    calls = [frame for frame in _frames() if frame.f_code is Module.__call__.__code__]
    if not calls or overrides.state.modes:  # they would be told of calls that are none of the program's
        return
    outermost = calls[-1].f_locals
    # `arguments` in the profiler's code, which replaces that of the module
    module, *arguments = outermost.get("arguments") or (outermost["self"], *outermost["args"])
    inputs = [x for x in arguments if isinstance(x, Tensor)]
    if module in _begun or not inputs:
        return
    _begun.add(module)
    _begin(module, without_memory(inputs[0]._layout, inputs[0].requires_grad))


def _begin(module: Module, x: Tensor) -> None:
    """Begin the kernels of a module's layers, of which the first gets x."""
    for layer in module.modules():
        if _is_plain(layer):
            with suppress(Exception):  # a layer that does not come next
                x = _result(layer, x)


def _frames() -> Iterator:
    """The frames of the calls that are under way on this thread, innermost first."""
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _is_plain(layer: Module) -> bool:
    """Whether a call of the layer has no effect but its result, or only on its buffers."""
    kind = type(layer)
    return (
        _FORWARD.get(kind) is not None
        and kind.forward is _FORWARD[kind]
        and "forward" not in fields_of(layer)
        and not calling.watch_calls(layer)
    )


def _result(layer: Module, x: Tensor) -> Tensor:
    """What a layer returns, without memory. The layer remains as it is: a copy runs, whose tensors have no memory."""
    copy, tensors = object.__new__(type(layer)), {**layer._parameters, **layer._buffers}
    fields = {
        name: without_memory(tensor._layout, tensor.requires_grad)
        for name, tensor in tensors.items()
        if tensor is not None
    }
    fields_of(copy).update({**fields_of(layer), **fields})
    return copy.forward(x)


extensions.provide(begin_layers=begin_layers)
