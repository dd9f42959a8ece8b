"""Which frozen weights are packed without their zeros: those whose sparse product is faster here, by a measurement."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from math import prod

import numpy as np

from ... import dtypes
from ...core import ones
from ...core.apply import apply
from ...core.tensor import Tensor
from ...device import Layout
from ...ops.convolution import convolution, sparse as sparse_convolution
from ...kernel.any_size import for_all_sizes
from ...kernel.registers.sparse_windows import runs as has_windows
from ...ops.matmul import sparse, sparse_windows
from ...ops.op import Op, Packing

LEAST_ZEROS = 0.5  # the part of a weight that must be zero for a measurement
_ROUNDS, _CALLS, _LEAST_SECONDS = 5, 3, 2e-4  # of a measurement: the least calls and time of one timing
_measured: dict[tuple, int] = {}  # the number of the form that was chosen


def sparse_packing(op: Op, layouts: tuple, attributes: tuple, weight: Tensor, dense: Packing | None) -> Packing | None:
    """How to pack the weight of a linear layer or a convolution of one tap without its zeros.

    None where the dense product is not slower; `dense` is how that is packed.
    """
    x = layouts[0]
    if op is convolution.convolution and not sparse_convolution.fits(x, layouts[1], attributes):
        return None
    if x.dtype is not dtypes.float32 or x.device.type != "cpu" or not x.size:
        return None
    values = weight.detach().numpy()
    if values.ndim < 2 or np.count_nonzero(values) > (1 - LEAST_ZEROS) * values.size:
        return None
    capacity = sparse.capacity_of(values.reshape(len(values), -1))
    key = op, x.shape, weight.shape, capacity, for_all_sizes.get()
    packings = _packings(op, x, weight.detach(), capacity)
    if key not in _measured:
        best = 0
        for number, packing in enumerate(packings, 1):
            fastest = packings[best - 1] if best else dense
            if _is_faster(op, layouts, attributes, weight.detach(), packing, fastest):
                best = number
        _measured[key] = best
    return packings[_measured[key] - 1] if _measured[key] else None


def _packings(op: Op, x: Layout, weight: Tensor, capacity: int) -> list[Packing]:
    """The sparse forms of a weight that a product can take."""
    if op is convolution.convolution:
        return [Packing(1, sparse.pack_sparse, (capacity,), sparse_convolution.sparse_convolution)]
    packings = [Packing(1, sparse.pack_sparse, (capacity,), sparse.sparse_linear)]
    if prod(x.shape[:-1]) == 1 and has_windows() and not for_all_sizes.get():
        steps = sparse_windows.capacity_of(apply(sparse_windows.pack_windows, (weight,), (0,)).numpy(), len(weight))
        packings.append(Packing(1, sparse_windows.pack_windows, (steps,), sparse_windows.window_linear))
    return packings


def _is_faster(
    op: Op, layouts: tuple, attributes: tuple, weight: Tensor, packing: Packing, dense: Packing | None
) -> bool:
    """Whether a layer with the packed weight takes less time than the dense one, in turns; each takes its best."""
    inputs = [ones(*layout.shape) if isinstance(layout, Layout) else None for layout in layouts]
    inputs[1], forms = weight, []
    for chosen in (packing, dense):
        if chosen is None:
            forms.append((op, inputs))
        else:
            forms.append((chosen.product, (*inputs, apply(chosen.op, (weight,), chosen.attributes))))
    sparse, other = (functools.partial(apply, form, tensors, attributes) for form, tensors in forms)
    return is_faster(sparse, other)


def is_faster(one: Callable[[], object], other: Callable[[], object]) -> bool:
    """Whether `one` takes less time than `other`, in turns; each takes its best."""
    functions, times = (one, other), [float("inf")] * 2
    counts = [max(_CALLS, int(_LEAST_SECONDS / max(_seconds(function, 1), 1e-7))) for function in functions]
    for _ in range(_ROUNDS):
        for k, function in enumerate(functions):
            times[k] = min(times[k], _seconds(function, counts[k]))
    return times[0] < times[1]


def _seconds(function: Callable[[], object], count: int) -> float:
    """The time of a call, of `count` calls after another one."""
    function()
    start = time.perf_counter()
    for _ in range(count):
        function()
    return (time.perf_counter() - start) / count
