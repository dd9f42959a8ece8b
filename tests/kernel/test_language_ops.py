"""Kernels of ops run as plain Python and compute the same values as compiled.

`test_language` has the convolutions.

Shapes are small, since each element takes microseconds in Python. Takes about 10 s, mostly compilation.
"""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod.device import device
from numod.device.layout import layout
from numod.kernel import bind, specialize
from numod.ops.image import cdist as distance, grid_sample, interpolate as resample
from numod.ops.index import indexing, pad, scatter_reduce
from numod.ops.matmul import matmul, split_k, tiled, gemv
from numod.ops.sequence import rnn_layer
from numod.ops import sampling
from numod.ops.sort import topk as select
from numod.ops.reduce import softmax  # fmt: skip

MODULES = (
    distance,
    grid_sample,
    indexing,
    matmul,
    pad,
    split_k,
    tiled,
    gemv,
    rnn_layer,
    resample,
    sampling,
    scatter_reduce,
    select,
    softmax,
    sys.modules["numod.ops.sort.radix_keys"],
)
CPU = device("cpu")


def in_python(kernel: Callable, values: dict) -> Callable:
    """A launcher that calls the function itself; attributes that stand for several names take as many arguments as one
    tuple.
    """
    kernel, values = specialize._unwrapped(kernel, values)
    constants = {name: value for name, value in values.items() if name in specialize._compile_time(kernel)}

    def launch(*arguments: object) -> None:
        rest, passed = list(arguments), []
        for name in specialize._positional(kernel):
            names = values.get(name)
            if isinstance(names, tuple):
                passed.append(namedtuple("Names", names)(*rest[: len(names)]))
                del rest[: len(names)]
            else:
                passed.append(rest.pop(0))
        assert not rest
        kernel(*passed, **constants)

    return launch


def results(op: object, arrays: list[np.ndarray], attributes: tuple) -> list[np.ndarray]:
    kinds = {"float32": numod.float32, "int64": numod.int64, "int32": numod.int32}
    plan = op.prepare(tuple(layout(array.shape, kinds[array.dtype.name], CPU) for array in arrays), attributes)
    outs = plan.layout if isinstance(plan.layout, tuple) else (plan.layout,)
    made = [np.zeros(out.size, out.storage) for out in outs]
    plan.launch(*[array.ravel().copy() for array in arrays], *made, *plan.constants)
    return made


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(-4, 5, shape).astype("float32")


def places(below: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(6).integers(0, below, shape)


def lengths() -> np.ndarray:
    return np.array([3, 2])


CASES = {
    "cdist_kernel": (distance.cdist, [numbers(2, 3, 4), numbers(2, 2, 4)], (2.0,)),
    "gather_runs_kernel": (indexing.gather, [numbers(3, 5), places(5, 3, 2)], (1,)),
    "index_select_kernel": (indexing.index_select, [numbers(3, 5), places(5, 4)], (1,)),
    "bag_kernel": (indexing.bag, [numbers(4, 3), places(4, 5), np.array([0, 2, 5]), numbers(5)], (True,)),
    "scatter_reduce_kernel": (
        scatter_reduce.scatter_reduce,
        [numbers(3, 4), places(3, 5, 4), numbers(5, 4)],
        (0, "amax"),
    ),
    "gathered_back": (pad.pad_back, [numbers(2, 3, 4)], ((0, 1, 1), (0, 1, 2), "circular")),
    "log_softmax_kernel": (softmax.log_softmax, [numbers(3, 5)], (1,)),
    "sample_kernel": (
        grid_sample.grid_sample,
        [numbers(1, 2, 4, 4), numbers(1, 2, 3, 2) / 4],
        ("bilinear", "reflection", False, (0, 0)),
    ),
    "resample_last_kernel": (resample.resample, [numbers(3, 5), places(5, 4, 2), numbers(4, 2)], (1, 4, False)),
    "product_rows": (matmul.matmul, [numbers(2, 3), numbers(3, 4)], (False, False)),
    "vector_rows": (matmul.matmul, [numbers(1, 64), numbers(64, 64)], (False, False)),
    "forward": (
        rnn_layer.lstm_layer,
        [numbers(5, 12) / 4, numbers(12, 3) / 4, numbers(3, 3), numbers(3, 3), lengths()],
        ((3, 2), False, True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_kernel_as_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op, arrays, attributes = CASES[name]
    compiled, ran = results(op, arrays, attributes), []

    def launcher(device: object, called: str, function: tuple, *rest: object) -> Callable:
        return function

    def specialized(kernel: Callable, **values: object) -> Callable:
        ran.append(specialize._unwrapped(kernel, {})[0].__name__)
        return in_python(kernel, values)

    with monkeypatch.context() as patch:
        patch.setattr(bind, "launcher", launcher)
        patch.setattr(indexing, "by_half_registers", lambda kernel: kernel)
        for module in MODULES:
            if hasattr(module, "specialized"):
                patch.setattr(module, "specialized", specialized)
        plain = results(op, arrays, attributes)
    assert name in ran
    for python, wanted in zip(plain, compiled):
        np.testing.assert_allclose(python, wanted, rtol=1e-5, atol=1e-6)
