"""The profiler with kernels of the device `cuda`: in the simulator, or on a GPU."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.profiler import ProfilerActivity, profile, supported_activities

pytestmark = [
    pytest.mark.cudasim,
    pytest.mark.cuda,
    pytest.mark.skipif(not numod.cuda.is_available(), reason="needs a GPU, or NUMBA_ENABLE_CUDASIM=1"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_kernels_on_a_gpu_have_its_time() -> None:
    net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).to("cuda"), numod.ones(2, 3, device="cuda")
    expected = net(x)
    for _ in range(2):  # planned before the profiler, and while it is on
        with profile(with_jit=True) as prof:
            actual = net(x)
            new = (x * 2.5).exp().sum()
        assert numod.equal(actual, expected) and new.item() > 0
        kernels = [event for event in prof.events() if event.category == "kernel"]
        assert len(kernels) >= 5 and all(kernel.device_time_total > 0 for kernel in kernels)
        (relu,) = [event for event in prof.events() if event.name == "numod::relu"]
        assert (
            relu.device_time_total
            == pytest.approx(sum(cpu_child.self_device_time_total for cpu_child in relu.cpu_children))
            and relu.self_device_time_total == 0
        )
        table = prof.key_averages().table(sort_by="cuda_time_total")
        assert " CUDA" in table and max(map(len, table.splitlines())) <= 100
    assert numod.equal(net(x), expected)
    assert ProfilerActivity.CUDA in supported_activities()
