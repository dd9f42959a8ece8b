"""Operators that libraries define in Python, and those in C++ that they look for."""

from __future__ import annotations

import importlib

import pytest

import numod


def test_operators_of_libraries() -> None:
    @numod.library.custom_op("mine::cube", mutates_args=())
    def cube(x: numod.Tensor, times: float = 1.0) -> numod.Tensor:
        return x.detach() ** 3 * times

    assert numod.ops.mine.cube is cube is cube.default
    numod.library.register_fake("mine::cube", lambda x, times: x)
    numod.library.register_autograd(
        "mine::cube", lambda ctx, g: (g * 3 * ctx.saved_tensors[0] ** 2 * ctx.times, None),
        setup_context=lambda ctx, inputs, output: (ctx.save_for_backward(inputs[0]), setattr(ctx, "times", inputs[1])),
    )  # fmt: skip
    x = numod.tensor([1.0, 2.0], requires_grad=True)
    for call in (cube(x, 2.0), numod.ops.mine.cube(x, times=2.0)):
        assert call.tolist() == [2.0, 16.0] and numod.autograd.grad(call.sum(), x)[0].tolist() == [6.0, 24.0]
    for name in ("cube", "attention::cube"):
        with pytest.raises(ValueError, match="a namespace of your own"):
            numod.library.custom_op(name, abs)
    with pytest.raises(RuntimeError, match="there is no operator 'mine::other'"):
        numod.library.register_autograd("mine::other", abs)


def test_torchvision_s_start_finds_no_operators_of_c_and_goes_on() -> None:
    with pytest.raises(OSError, match=r"numod loads no operators written in C\+\+, as those in _C\.so"):
        numod.ops.load_library("_C.so")
    keys = numod._C.DispatchKeySet(numod._C.DispatchKey.AutocastCPU) | numod._C.DispatchKeySet(
        numod._C.DispatchKey.AutocastCUDA
    )
    assert keys == {"AutocastCPU", "AutocastCUDA"}
    importlib.import_module("numod._custom_ops")
