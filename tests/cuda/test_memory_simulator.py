"""Device memory, streams and sharing, in the simulator or on a GPU."""

from __future__ import annotations

import gc
import warnings
from contextlib import suppress

import numpy as np
import pytest

import numod
from numod import cuda
from numod.utils.data import DataLoader, TensorDataset

pytestmark = [
    pytest.mark.cudasim,
    pytest.mark.cuda,
    pytest.mark.skipif(not cuda.is_available(), reason="needs a GPU, or NUMBA_ENABLE_CUDASIM=1"),
]


def test_memory_is_counted_and_used_again():
    gc.collect()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    x = numod.ones(1000, device="cuda")
    address, part = x.data_ptr(), x[10:20]
    assert cuda.memory_allocated() == before + 4096 <= cuda.memory_reserved()
    del x
    gc.collect()
    assert cuda.memory_allocated() == before + 4096 and part.sum().item() == 10  # a view keeps the whole
    del part
    gc.collect()
    assert cuda.memory_allocated() <= before and cuda.max_memory_allocated() >= before + 4096
    assert numod.zeros(1000, device="cuda").data_ptr() == address


def test_training_keeps_memory_level():
    model = numod.nn.Sequential(numod.nn.Linear(3, 4), numod.nn.ReLU(), numod.nn.Linear(4, 1)).cuda()
    optimizer = numod.optim.Adam(model.parameters())
    levels = []
    for _ in range(4):
        optimizer.zero_grad()
        model(numod.ones(2, 3, device="cuda")).sum().backward()
        optimizer.step()
        gc.collect()
        levels.append(cuda.memory_allocated())
    assert levels[1] == levels[2] == levels[3]


def test_a_limit_gives_an_error_with_sizes_and_nothing_is_lost():
    kept_alive = numod.arange(5, device="cuda")
    cuda.set_per_process_memory_fraction(0.0)
    try:
        with pytest.raises(cuda.OutOfMemoryError, match=r"Tried to allocate 4\.00 MiB"):
            numod.ones(1 << 20, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    assert numod.ones(1 << 10, device="cuda").sum().item() == 1024 and kept_alive.tolist() == [0, 1, 2, 3, 4]


def test_streams_and_events():
    stream, before = cuda.Stream(), cuda.current_stream()
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    x = numod.arange(7, device="cuda")
    stream.wait_stream(before)
    start.record()
    with cuda.stream(stream):
        assert cuda.current_stream() == stream != before
        y = x * 2
        assert y.cpu().tolist() == [0, 2, 4, 6, 8, 10, 12]
    assert cuda.current_stream() == before == cuda.default_stream()
    before.wait_stream(stream)
    end.record()
    end.synchronize()
    assert (y + 1).sum().item() == 49 and start.elapsed_time(end) >= 0 and end.query() and stream.query()
    with pytest.raises(ValueError, match="enable_timing"):
        cuda.Event().elapsed_time(end)


def test_a_stream_is_left_also_by_an_error():
    before = cuda.current_stream()
    with pytest.raises(KeyError), cuda.stream(cuda.Stream()):
        raise KeyError
    assert cuda.current_stream() == before


def test_pinned_batches():
    x = numod.arange(6.0)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.pin_memory() is pinned
    assert pinned.to("cuda", non_blocking=True).cpu().tolist() == x.tolist()
    for (batch,) in DataLoader(TensorDataset(x), batch_size=3, pin_memory=True):
        assert batch.is_pinned() and batch.cuda().sum().item() in (3, 12)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool"])
def test_dlpack(dtype):
    x = numod.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(numod, dtype)).cuda()
    y = numod.from_dlpack(numod.to_dlpack(x.t()))
    assert (
        y.device == x.device
        and y.dtype is x.dtype
        and y.data_ptr() == x.data_ptr()
        and y.cpu().tolist() == x.t().cpu().tolist()
    )
    assert x.__dlpack_device__() == (2, 0)


@pytest.mark.parametrize(("change", "offset", "error", "text"), [
    ({"strides": (-4,)}, 20, ValueError, "not negative"), ({"shape": (2,), "strides": (6,)}, 0, ValueError, "whole elements"),
    ({"shape": (2,)}, 2, ValueError, "not aligned"), ({"typestr": ">f4"}, 0, TypeError, "'>f4'"),
])  # fmt: skip
def test_memory_that_kernels_cannot_read_is_refused(change, offset, error, text):
    x = numod.arange(6, dtype=numod.float32, device="cuda")
    array = type(
        "Array",
        (),
        {"__cuda_array_interface__": {**x.__cuda_array_interface__, "data": (x.data_ptr() + offset, False), **change}},
    )()
    with pytest.raises(error, match=text):
        numod.as_tensor(array)


def test_the_cuda_array_interface():
    class Foreign:
        def __init__(self, tensor):
            self.__cuda_array_interface__ = tensor.__cuda_array_interface__

    x = numod.arange(6.0, device="cuda").reshape(2, 3)
    y = numod.as_tensor(Foreign(x.t()), device="cuda")
    assert y.data_ptr() == x.data_ptr() and y.cpu().tolist() == x.t().cpu().tolist()
    assert numod.tensor(Foreign(x)).data_ptr() != x.data_ptr()
    foreign = Foreign(x)
    foreign.__cuda_array_interface__ |= {"version": 3, "stream": 1}
    assert numod.as_tensor(foreign).data_ptr() == x.data_ptr()
    foreign.__cuda_array_interface__["mask"] = foreign
    with pytest.raises(NotImplementedError, match="masked arrays"):
        numod.as_tensor(foreign)
    assert x.__cuda_array_interface__["typestr"] == "<f4" and x.__cuda_array_interface__["strides"] is None
    with pytest.raises(RuntimeError, match="requires grad"):
        _ = numod.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__


def test_the_device():
    assert cuda.device_count() == 1 and cuda.current_device() == 0 and cuda.get_device_name()
    free, total = cuda.mem_get_info()
    assert 0 < free <= total == cuda.get_device_properties(0).total_memory
    major, minor = cuda.get_device_capability()
    assert cuda.get_arch_list() == [f"sm_{major}{minor}"]
    with cuda.device(0), cuda.device_of(numod.ones(1)):
        assert numod.ones(1, device="cuda").get_device() == 0
    assert isinstance(cuda.device, type) and cuda.device("cuda:0").idx == 0 and cuda.device(None).idx == -1


def test_one_stream_of_random_numbers():
    cuda.manual_seed(11)
    state = cuda.get_rng_state()
    first = numod.rand(5, device="cuda").cpu().numpy()
    cuda.set_rng_state(state)
    np.testing.assert_array_equal(numod.rand(5).numpy(), first)


def test_errors_of_kernels_are_raised_later_and_the_device_remains_usable(monkeypatch):
    reports, x = numod.device("cuda").backend.reports(), numod.arange(12.0, device="cuda").reshape(4, 3)
    # as on a GPU, where the launch returns before the kernel runs
    monkeypatch.setattr(reports, "raise_reported", lambda: None)
    rows = x[numod.tensor([1, 7, -1], device="cuda")]
    loss = numod.nn.functional.cross_entropy(x, numod.tensor([0, 1, -100, 2], device="cuda"))
    monkeypatch.undo()
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 4.*CUDA_LAUNCH_BLOCKING"):
        rows.cpu()
    assert rows.tolist() == x[[1, 0, -1]].tolist() and loss.isfinite()
    for use, error, words in [
        (
            lambda: numod.nn.functional.cross_entropy(x, numod.tensor([0, 3, 1, 1], device="cuda")),
            IndexError,
            "Target 3 is out of bounds for 3 classes",
        ),
        (
            lambda: numod.nn.functional.nll_loss(x, numod.tensor([0, -1, 1, 1], device="cuda"), x[0]),
            IndexError,
            "Target -1 is out of bounds",
        ),
        (
            lambda: numod.nn.functional.embedding(numod.tensor([-1], device="cuda"), x),
            IndexError,
            "index -1 is out of bounds",
        ),
        (lambda: x.gather(1, numod.tensor([[3]], device="cuda")), RuntimeError, "index 3 is out of bounds"),
        (lambda: numod.nn.functional.binary_cross_entropy(x, x), RuntimeError, "between 0 and 1"),
        (lambda: numod.bernoulli(x), RuntimeError, "p_in"),
    ]:
        with pytest.raises(error, match=words):
            use()
            cuda.synchronize()
        with suppress(error):  # on a GPU one use may find two things wrong, and each is told
            cuda.synchronize()


def test_types_name_the_device() -> None:
    x = numod.ones(2)
    y = numod.cuda.FloatTensor([1, 2])
    assert (
        y.is_cuda
        and y.type() == "numod.cuda.FloatTensor"
        and isinstance(y, numod.cuda.FloatTensor)
        and not isinstance(y, numod.FloatTensor)
    )
    assert (
        x.type(numod.cuda.LongTensor).device.type
        == x.type("torch.cuda.HalfTensor").device.type
        == y.type(numod.int32).device.type
        == "cuda"
    )
    assert y.type(numod.FloatTensor).device.type == y.type("torch.FloatTensor").device.type == "cpu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the name is deprecated
        try:
            numod.set_default_tensor_type(numod.cuda.FloatTensor)
            assert numod.ones(2).is_cuda
        finally:
            numod.set_default_tensor_type(numod.FloatTensor)
    assert not numod.ones(2).is_cuda
