"""Global switches: threads, denormal numbers, seeds, checks, conversion of parameters."""

import pytest

import numod
from numod import nn


def test_switches():
    before = numod.get_num_interop_threads()
    numod.set_num_interop_threads(2)
    assert numod.get_num_interop_threads() == 2 and not numod.set_flush_denormal(True)
    numod.set_num_interop_threads(before)
    generator = numod.Generator().manual_seed(-1)
    assert generator.initial_seed() == 2**64 - 1
    with pytest.raises(RuntimeError, match="three"):
        numod._check(False, lambda: "three")


def test_conversion_may_make_new_parameters():
    future, layer = numod.__future__, nn.Linear(2, 2)
    weight = layer.weight
    weight.grad = numod.ones(2, 2)
    future.set_overwrite_module_params_on_conversion(True)
    try:
        layer.double()
    finally:
        future.set_overwrite_module_params_on_conversion(False)
    assert layer.weight is not weight and weight.dtype is numod.float32 and layer.weight.grad.dtype is numod.float64
    assert layer.to(numod.float32).weight is layer.weight and not future.get_swap_module_params_on_conversion()
