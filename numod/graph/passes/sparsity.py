"""Which frozen weights are packed without their zeros: those whose sparse product is faster here, by a measurement."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import numpy as np

from ... import dtypes
from ...core import deferred, ones
from ...core.apply import apply
from ...core.tensor import Tensor
from ...device import Layout
from ...ops.matmul import matmul, sparse
from ...ops.op import Packing

LEAST_ZEROS = 0.5  # the part of a weight that must be zero for a measurement
_ROUNDS, _CALLS = 5, 3
_measured: dict[tuple, bool] = {}


def sparse_packing(layouts: tuple, weight: Tensor, dense: Packing | None) -> Packing | None:
    """How to pack a linear layer's weight without its zeros; None where the dense product is not slower.

    `dense` is how its product with the zeros is packed.
    """
    x = layouts[0]
    if x.dtype is not dtypes.float32 or x.device.type != "cpu" or not x.size:
        return None
    values = weight.detach().numpy()
    if values.ndim != 2 or np.count_nonzero(values) > (1 - LEAST_ZEROS) * values.size:
        return None
    capacity = sparse.capacity_of(values)
    packing = Packing(1, sparse.pack_sparse, (capacity,), sparse.sparse_linear)
    key = x.shape, weight.shape, capacity
    if key not in _measured:
        _measured[key] = _is_faster(layouts, weight.detach(), packing, dense)
    return packing if _measured[key] else None


def _is_faster(layouts: tuple, weight: Tensor, packing: Packing, dense: Packing | None) -> bool:
    """Whether a layer with the packed weight takes less time than the dense one, in turns; each takes its best."""
    x = layouts[0]
    rows, bias = ones(*x.shape), ones(weight.shape[0]) if isinstance(layouts[2], Layout) else None
    forms = []
    for chosen in (packing, dense):
        if chosen is None:
            forms.append((matmul.linear, (rows, weight, bias)))
        else:
            packed = apply(chosen.op, (weight,), chosen.attributes)
            forms.append((chosen.product, (rows, weight, bias, packed)))
    sparse, other = (functools.partial(apply, op, inputs) for op, inputs in forms)
    return is_faster(sparse, other)


def is_faster(one: Callable[[], object], other: Callable[[], object]) -> bool:
    """Whether `one` takes less time than `other`, in turns; each takes its best."""
    times = [float("inf")] * 2
    for _ in range(_ROUNDS):
        for k, function in enumerate((one, other)):
            function()
            deferred.run_all()  # its kernels are complete now, and the next calls do not wait
            start = time.perf_counter()
            for _ in range(_CALLS):
                function()
            times[k] = min(times[k], time.perf_counter() - start)
    return times[0] < times[1]
