"""`numod.cuda` where there is no device: questions are answered, what needs one says how to get it."""

from __future__ import annotations

import pytest

import numod
from numod import cuda

pytestmark = pytest.mark.skipif(cuda.is_available(), reason="there is a device, or the simulator")


def test_questions_are_answered():
    assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
    assert cuda.memory_allocated() == cuda.max_memory_reserved() == 0 and set(cuda.memory_stats().values()) == {0}
    assert cuda.get_arch_list() == [] and not cuda.is_bf16_supported()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()


def test_seeding_changes_nothing():
    numod.manual_seed(3)
    expected = numod.rand(2).tolist()
    numod.manual_seed(3)
    cuda.manual_seed(4)
    cuda.manual_seed_all(5)
    assert numod.rand(2).tolist() == expected


@pytest.mark.parametrize("use", [
    lambda: numod.zeros(2, device="cuda"), lambda: numod.zeros(2).cuda(), lambda: cuda.Stream(), lambda: cuda.Event(), lambda: cuda.current_device(),
    lambda: cuda.synchronize(), lambda: cuda.mem_get_info(), lambda: cuda.get_device_properties(), lambda: numod.nn.Linear(2, 2).to("cuda"),
])  # fmt: skip
def test_errors_without_a_device_say_how_to_get_one(use):
    with pytest.raises(RuntimeError, match=r"NVIDIA driver.*NUMBA_ENABLE_CUDASIM"):
        use()


def test_a_second_device_is_refused():
    with pytest.raises(RuntimeError, match="invalid device ordinal 1.*CUDA_VISIBLE_DEVICES"):
        cuda.set_device(1)
    with pytest.raises(RuntimeError, match="invalid device ordinal 2.*CUDA_VISIBLE_DEVICES"):
        numod.zeros(3, device="cuda:2")
    with pytest.raises(ValueError, match="Expected a cuda device"):
        cuda.synchronize("cpu")


def test_memory_is_pinned_only_for_a_device():
    x = numod.ones(2)
    assert not x.is_pinned()
    with pytest.raises(RuntimeError, match="needs a CUDA device"):
        x.pin_memory()
