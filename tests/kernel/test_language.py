"""Kernels run as plain Python and compute the same values as compiled.

The bodies of `kernel.language` and `kernel.registers.primitives` stand for what the back end compiles. Shapes are small, since an
element of a product takes microseconds here. Seconds, about: 5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from selection import every

from numod import dtypes
from numod.device import device
from numod.device.layout import layout
from numod.kernel import specialize
from numod.ops.convolution import col2im, convolution as ops, depthwise, implicit_gemm, winograd
from numod.ops.image import pooling

CPU = device("cpu")
HOMES = [ops, col2im, depthwise, implicit_gemm, winograd]


def in_python(kernel: Callable, **values: object) -> Callable:
    """A launcher that calls the function itself, with the numbers that stand for fields as one tuple."""
    kernel, values = specialize._unwrapped(kernel, values)
    values = {name: value for name, value in values.items() if name in specialize._compile_time(kernel)}
    kinds = {name: kernel.__globals__[kind] for name, kind in kernel.__annotations__.items()}

    def launch(*arguments: object) -> None:
        rest, grouped = list(arguments), []
        for name in specialize._positional(kernel):
            count = len(kinds[name]._fields) if name in kinds else 1
            grouped.append(kinds[name](*rest[:count]) if name in kinds else rest[0])
            del rest[:count]
        assert not rest
        kernel(*grouped, **values)

    return launch


def both(
    monkeypatch: pytest.MonkeyPatch, op: object, arrays: list[np.ndarray], attributes: tuple
) -> tuple[list, list, list[str]]:
    """The results of an op by its compiled kernel and by its function, and the names of the functions that ran."""
    layouts, ran = tuple(layout(array.shape, KINDS[array.dtype.name], CPU) for array in arrays), []

    def run() -> list[np.ndarray]:
        plan = op.prepare(layouts, attributes)
        outs = plan.layout if isinstance(plan.layout, tuple) else (plan.layout,)
        results = [np.zeros(out.size, out.storage) for out in outs]
        plan.launch(*[array.ravel() for array in arrays], *results, *plan.constants)
        return results

    compiled = run()

    def launcher(
        name: str,
        kernel: Callable,
        out: object,
        storages: tuple,
        work: int,
        finish: object = None,
        fastmath: object = None,
        **values: object,
    ) -> Callable:
        ran.append(kernel.__name__)
        return in_python(kernel, **values)

    def specialized(kernel: Callable) -> Callable:
        ran.append(specialize._unwrapped(kernel, {})[0].__name__)
        return kernel

    with monkeypatch.context() as patch:
        for home in HOMES:
            patch.setattr(home, "launcher", launcher)
        if op in POOLS:
            patch.setattr(pooling, "specialized", specialized)
            patch.setattr(pooling.bind, "launcher", lambda device, name, kernel, *_: in_python(kernel))
        return compiled, run(), ran


KINDS = {"float32": dtypes.float32, "float64": dtypes.float64, "int64": dtypes.int64, "int32": dtypes.int32}
POOLS = {
    pooling.max_pool,
    pooling.max_pool_values,
    pooling.average_pool,
    pooling.average_pool_gradient,
    pooling.place_gradient,
}


def numbers(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.random.default_rng(3).integers(-4, 5, shape).astype(kind)  # small integers: sums are exact in any order


PLAIN = ((1, 1), (1, 1), (1, 1), 1, None)
CONVOLUTIONS = {
    "forward_direct": (ops.convolution, [numbers(2, 2, 4, 5, kind="int64"), numbers(4, 1, 3, 2, kind="int64")],
        ((1, 2), (1, 0), (1, 1), 2, None)),
    "input_direct": (ops.convolution_input, [numbers(1, 2, 3, 3, kind="int64"), numbers(2, 2, 2, 2, kind="int64")],
        ((1, 1), (0, 0), (1, 1), 1, (1, 2, 4, 4))),
    "weight_direct": (ops.convolution_weight, [numbers(1, 2, 3, 3, kind="int64"), numbers(1, 2, 4, 4, kind="int64")],
        ((1, 1), (0, 0), (1, 1), 1, (2, 2, 2, 2))),
    "forward_grid": (ops.convolution, [numbers(2, 2, 5, 5), numbers(3, 2, 3, 3)], ((2, 1), (1, 1), (1, 2), 1, None)),
    "input_grid": (ops.convolution_input, [numbers(1, 3, 3, 3), numbers(3, 3, 3, 3)],
        ((2, 2), (1, 1), (1, 1), 1, (1, 3, 5, 5))),
    "weight_grid": (ops.convolution_weight, [numbers(1, 3, 4, 4), numbers(1, 3, 4, 4)],
        ((1, 1), (1, 1), (1, 1), 1, (3, 3, 3, 3))),
    "weight_lines": (ops.convolution_weight, [numbers(1, 2, 4, 4), numbers(1, 2, 4, 4)],
        ((1, 1), (1, 1), (1, 1), 1, (2, 2, 3, 3))),
    "add_windows": (ops.convolution_input, [numbers(1, 128, 1, 1), numbers(128, 4, 4, 4)],
        ((2, 2), (0, 0), (1, 1), 1, (1, 4, 4, 4))),
    "depthwise_kernel": (ops.convolution, [numbers(1, 16, 4, 4), numbers(16, 1, 3, 3)],
        ((1, 1), (1, 1), (1, 1), 16, None)),
    "depthwise_weight_kernel": (ops.convolution_weight, [numbers(1, 16, 4, 4), numbers(1, 16, 4, 4)],
        ((1, 1), (1, 1), (1, 1), 16, (16, 1, 3, 3))),
    "winograd_kernel": (ops.convolution, [numbers(1, 16, 4, 32), numbers(16, 16, 3, 3)], PLAIN),
    "winograd_weight_kernel": (ops.convolution_weight, [numbers(1, 16, 4, 4), numbers(1, 16, 4, 4)],
        (*PLAIN[:4], (16, 16, 3, 3))),
}  # fmt: skip


# tiles also multiply columns of scratch memory beyond the result, whose values are arbitrary
@pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning")
@pytest.mark.parametrize("name", every(2, CONVOLUTIONS, others=pytest.mark.fuzz))
def test_convolutions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, plain, ran = both(monkeypatch, *CONVOLUTIONS[name])
    assert ran == [name]
    np.testing.assert_array_equal(plain[0], compiled[0])


def windows(kernel: int, stride: int, padding: int, out: int) -> tuple:
    return (kernel,) * 2, (stride,) * 2, (padding,) * 2, (1, 1), (out, out)


POOLINGS = {
    "max_pool_kernel": (pooling.max_pool, [numbers(2, 5, 5, kind="int64")], windows(3, 2, 1, 3)),
    "max_pool_rows_with_indices": (pooling.max_pool, [numbers(2, 5, 5)], windows(3, 2, 1, 3)),
    "max_pool_rows": (pooling.max_pool_values, [numbers(2, 9, 9)], windows(3, 3, 0, 3)),
    "average_kernel": (pooling.average_pool, [numbers(2, 5, 5, kind="int64")], (*windows(2, 1, 0, 4), True, 1)),
    "average_pool_rows": (pooling.average_pool, [numbers(2, 5, 5)], (*windows(4, 1, 2, 6), True, 0)),
    "average_planes": (pooling.average_pool, [numbers(2, 4, 4)], (*windows(4, 4, 0, 1), True, 0)),
    "average_planes_gradient": (pooling.average_pool_gradient, [numbers(2, 1, 1)], (*windows(4, 4, 0, 4), True, 0)),
    "average_gradient_kernel": (pooling.average_pool_gradient, [numbers(2, 4, 4)], (*windows(2, 1, 0, 5), True, 0)),
    "place_gradient_kernel": (pooling.place_gradient, [numbers(2, 2, 2), np.full((2, 2, 2), 5, "int32")],
        windows(2, 2, 0, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", POOLINGS)
def test_poolings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, plain, ran = both(monkeypatch, *POOLINGS[name])
    assert ran == [name]
    for result, wanted in zip(plain, compiled):
        np.testing.assert_array_equal(result, wanted)


def test_adaptive_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, plain, _ = both(
        monkeypatch, pooling.average_pool, [numbers(2, 5, 5)], ((1, 1), (0, 0), (0, 0), (1, 1), (2, 3), True, 0)
    )
    np.testing.assert_allclose(plain[0], compiled[0], rtol=1e-6)
