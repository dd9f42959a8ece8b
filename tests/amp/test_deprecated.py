"""The names of autocast and GradScaler of earlier PyTorch versions."""

from __future__ import annotations

import pytest

import numod


def test_older_names_of_switches():
    with pytest.warns(DeprecationWarning, match="Please use numod.get_autocast_dtype"):
        numod.get_autocast_cpu_dtype()


@pytest.mark.filterwarnings("ignore:numod.*autocast:DeprecationWarning")
def test_older_names_of_switches_do_what_the_newer_do():
    assert (
        numod.get_autocast_gpu_dtype() is numod.float16
        and numod.get_autocast_cpu_dtype() is numod.bfloat16
        and not numod.is_autocast_cpu_enabled()
    )
    with numod.autocast("cpu", numod.float16):
        assert numod.is_autocast_cpu_enabled() and numod.get_autocast_cpu_dtype() is numod.float16


def test_deprecated_decorators_of_cuda():
    for decorate in (numod.cuda.amp.custom_fwd, numod.cuda.amp.custom_bwd):
        with pytest.warns(FutureWarning, match="args..., device_type='cuda'"):
            assert callable(decorate(lambda ctx, x: x))
