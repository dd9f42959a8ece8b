"""What the files `test_ptx_machine*` share: their markers, comparisons with the CPU and counts of accesses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import config

pytest.importorskip("numba_cuda", reason="needs the extra: pip install -e '.[cuda]'")
from ptx_machine import Machine

PTX = [
    pytest.mark.ptx,
    pytest.mark.skipif(config.cuda_simulator(), reason="the simulator has no PTX"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.usefixtures("machine"),
]
HALVES = (numod.float16, numod.bfloat16)


def same(actual: numod.Tensor, expected: numod.Tensor, tolerance: float = 1e-5) -> None:
    assert actual.device.type == "cuda" and actual.dtype is expected.dtype and actual.shape == expected.shape
    actual, expected = (tensor.detach().cpu() for tensor in (actual, expected))
    if actual.is_floating_point() or actual.is_complex():
        actual, expected = (
            tensor.to(numod.complex128 if tensor.is_complex() else numod.float64) for tensor in (actual, expected)
        )
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=tolerance, atol=tolerance)


def check(function: Callable, *tensors: numod.Tensor, tolerance: float = 1e-5, gradients: bool = True) -> None:
    """`function` gives the same on the device, and so do its gradients for a fixed weight of the results."""
    ends = []
    for device in ("cpu", "cuda"):
        leaves = [
            tensor.detach().to(device).requires_grad_(gradients and tensor.is_floating_point()) for tensor in tensors
        ]
        out = function(*leaves)
        outs = [*out] if isinstance(out, tuple | list) else [out]
        asked = [out for out in outs if out.requires_grad]
        if asked:
            sum((tensor * weight(tensor.shape, tensor.dtype).to(device)).sum() for tensor in asked).backward()
        ends.append([*outs, *(leaf.grad for leaf in leaves if leaf.grad is not None)])
    assert len(ends[0]) == len(ends[1])
    for expected, actual in zip(*ends):
        same(actual, expected, tolerance)


def weight(shape: tuple, dtype: numod.dtype) -> numod.Tensor:
    return ((numod.arange(int(np.prod(shape)), dtype=numod.float64) * 0.7).sin() + 0.2).reshape(shape).to(dtype)


def made(*shape: int, dtype: numod.dtype = numod.float32) -> numod.Tensor:
    numod.manual_seed(sum(shape))
    return (numod.randn(*shape) * 2).to(dtype)


def counted(machine: Machine, function: Callable) -> Counter:
    """Instructions and memory traffic of what `function` launches, its kernels built before."""
    function()
    machine.counts = Counter()
    try:
        function()
        return machine.counts
    finally:
        machine.counts = None
