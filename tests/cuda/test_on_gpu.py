"""What only a GPU shows: the model zoo trained on it, memory shared with PyTorch, copies and streams that run beside
the host, threads.
"""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import zoo

import numod
from numod import config, cuda

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(config.cuda_simulator() or not cuda.is_available(), reason="needs a GPU"),
]


def trained(name: str, compiled: bool, device: str) -> tuple[list[float], dict[str, numod.Tensor]]:
    """The losses of four steps, and the state behind them, on the CPU."""
    numod.manual_seed(0)
    model, *_ = zoo.MODELS[name](numod)  # weights are drawn on the CPU
    state = copy.deepcopy(model.state_dict())
    with numod.device(device):
        model, inputs, loss_of = zoo.MODELS[name](numod)
    model.load_state_dict(state)
    step, losses = zoo.step_of(model, loss_of, numod.optim.Adam(model.parameters(), lr=1e-4)), []
    step = numod.compile(step) if compiled else step
    with numod.device(device):  # some models make tensors in their forward
        for turn in range(4):
            numod.manual_seed(turn)
            losses.append(step(*inputs).item())
    return losses, {key: tensor.cpu() for key, tensor in model.state_dict().items()}


@pytest.mark.parametrize("name", zoo.MODELS)
def test_the_zoo_trains_as_on_the_cpu(name: str) -> None:
    wanted, state = trained(name, False, "cpu")
    for compiled in (False, True):
        losses, actual = trained(name, compiled, "cuda")
        np.testing.assert_allclose(losses, wanted, rtol=2e-3, atol=1e-4)
        for key, tensor in state.items():
            np.testing.assert_allclose(
                actual[key].float().numpy(), tensor.float().numpy(), rtol=1e-2, atol=2e-3, err_msg=key
            )


def test_memory_is_shared_with_pytorch() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no CUDA")
    mine = numod.arange(6.0, device="cuda").reshape(2, 3)
    theirs = torch.from_dlpack(mine)
    assert theirs.data_ptr() == mine.data_ptr() and theirs.device.type == "cuda" and theirs.tolist() == mine.tolist()
    theirs += 1
    torch.cuda.synchronize()
    assert mine.tolist() == [[1, 2, 3], [4, 5, 6]]
    seen = torch.as_tensor(mine, device="cuda")  # by __cuda_array_interface__
    assert seen.data_ptr() == mine.data_ptr() and seen.tolist() == mine.tolist()
    back = numod.from_dlpack(torch.ones(3, 2, device="cuda").t())
    assert back.device.type == "cuda" and back.shape == (2, 3) and (back @ mine.T).tolist() == [[6, 15], [6, 15]]


def test_copies_and_kernels_run_on_streams_beside_the_host() -> None:
    x = numod.randn(2048, 2048)
    there = x.pin_memory().cuda(non_blocking=True)
    start, end, side = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True), cuda.Stream()
    start.record()
    for _ in range(20):
        product = there @ there
    end.record()
    assert not end.query()  # twenty products take milliseconds, and nothing waits for them
    with cuda.stream(side):
        side.wait_event(end)
        doubled = there * 2
    cuda.synchronize()
    assert end.query() and 0 < start.elapsed_time(end) < 10_000
    np.testing.assert_allclose(product.cpu().numpy(), x.numpy() @ x.numpy(), atol=1e-3)
    assert numod.equal(doubled.cpu(), x * 2)


def test_memory_is_reused_and_reported() -> None:
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    x = numod.zeros(1 << 20, device="cuda")
    address, allocated, most = x.data_ptr(), cuda.memory_allocated(), cuda.max_memory_allocated()
    assert allocated == before + (1 << 22) <= most
    del x
    again = numod.zeros(1 << 20, device="cuda").data_ptr()
    assert again == address and cuda.memory_allocated() == before
    with pytest.raises(numod.OutOfMemoryError, match="Tried to allocate 4096.00 GiB"):
        numod.empty(1 << 40, device="cuda")
    assert numod.ones(3, device="cuda").sum().item() == 3  # goes on


def test_threads_share_the_gpu() -> None:
    def work(seed: int) -> float:
        generator = numod.Generator().manual_seed(seed)
        x = numod.randn(64, 64, generator=generator).cuda()
        for _ in range(50):
            x = (x @ x).tanh()
        return x.sum().item()

    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(work, range(16)))
    assert together == [work(seed) for seed in range(16)]


def test_errors_of_kernels_are_raised() -> None:
    with pytest.raises(IndexError, match="out of bounds|out of range"):
        numod.nn.functional.embedding(numod.tensor([7], device="cuda"), numod.ones(3, 2, device="cuda"))
        cuda.synchronize()
    assert numod.ones(2, device="cuda").sum().item() == 2
