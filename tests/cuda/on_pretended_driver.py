"""What `test_driver` runs in a process of its own: the whole back end on `ptx_machine`."""

from __future__ import annotations

import ctypes
import os
import threading
import warnings

import numpy as np

warnings.simplefilter("ignore")
from ptx_machine import STREAM, Machine  # noqa: E402


class Slow(Machine):
    """One whose events have always still to come, and whose clock stands."""

    def cuEventQuery(self, event: int) -> int:
        return 600

    def cuEventElapsedTime(self, out: object, first: int, second: int) -> None:
        out[0] = 1.5

    def waits(self) -> int:
        """Calls in which the host waited for the device."""
        return sum(
            self.calls[name]
            for name in (
                "cuCtxSynchronize",
                "cuMemcpyHtoD_v2",
                "cuMemcpyDtoH_v2",
                "cuStreamSynchronize",
                "cuEventSynchronize",
            )
        )


MACHINE = Slow()
installed = MACHINE.installed()
installed.__enter__()

import numod  # noqa: E402
from numod import cuda, nn, optim  # noqa: E402


def last_launch() -> tuple[list[int], list[int]]:
    """The words that the last kernel was given, and its blocks and threads."""
    words, *grid = MACHINE.last
    return np.frombuffer(words, np.uint64).tolist(), grid


def array(tensor: numod.Tensor) -> list[int]:
    """How Numba passes a flat array: meminfo, parent, size, itemsize, data, shape, stride."""
    size = len(tensor._storage.data)
    return [0, 0, size, tensor.dtype.itemsize, tensor.data_ptr(), size, tensor.dtype.itemsize]


assert (
    cuda.is_available()
    and cuda.get_device_capability() == (8, 0)
    and cuda.get_device_properties().multi_processor_count == 132
    and cuda.get_device_properties().L2_cache_size > 0
)
assert (
    cuda.get_device_properties().shared_memory_per_block_optin == 166912
    and cuda.get_device_properties().max_threads_per_block == 1024
)
values = [0.5, 1.0, -2.0, 3.0, 4.0, 5.0, 6.0]
x = numod.tensor(values).cuda()
assert x.cpu().tolist() == values and x[2:5].cpu().tolist() == values[2:5]

y = x + x  # the driver knows from the PTX how many words a kernel takes, and kept as many
assert last_launch() == ([*array(x), *array(x), *array(y), 7], [1, 256]), last_launch()
z = x * 2.0
words, _ = last_launch()
assert (
    words[:14] == [*array(x), *array(z)]
    and ctypes.c_double.from_buffer(ctypes.c_uint64(words[14])).value == 2.0
    and words[15] == 7
)

a, b = numod.zeros(130, 70).cuda(), numod.zeros(70, 200).cuda()
c = a @ b
words, grid = last_launch()
assert (
    grid == [3 * 4, 256]
    and words[:21] == [*array(a), *array(b), *array(c)]
    and words[28:] == [1, 130, 200, 70, 1, 0, 0, 70, 1, 0, 0, 200, 1]
), (words, grid)

model = nn.Sequential(
    nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Dropout(), nn.Flatten(), nn.Linear(18, 3)
).cuda()
words_of = nn.Embedding(5, 25).cuda()
optimizer = optim.Adam([*model.parameters(), *words_of.parameters()])
scaler = numod.amp.GradScaler("cuda", enabled=False)
target, text = numod.tensor([0, 2]).cuda(), numod.tensor([4, 0]).cuda()


def step() -> numod.Tensor:
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(words_of(text).reshape(2, 1, 5, 5)), target) + nn.functional.nll_loss(
        model(x[:1].expand(2, 1, 5, 5)), target
    )
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    return loss


losses, waits = [step()], MACHINE.waits()
losses += [step(), step()]
batch = numod.ones(3).pin_memory()
there = batch.to("cuda", non_blocking=True)
assert MACHINE.waits() == waits  # nothing in a step waits for the GPU, and no copy of pinned memory that need not
assert (
    there.cpu().tolist() == [1, 1, 1] and batch.cuda(non_blocking=False).shape == (3,) and MACHINE.waits() == waits + 2
)
assert len(x.device.backend._pending_copies) == 1  # the pinned memory stays for as long as the device may read it

stream, event = cuda.Stream(), cuda.Event(enable_timing=True)
with cuda.stream(stream):
    event.record()
    w = x * 3.0
    assert w.cpu().shape == (7,) and cuda.current_stream().cuda_stream == STREAM
stream.wait_stream(cuda.default_stream())
event.synchronize()
assert event.elapsed_time(event) == 1.5 and not event.query()
cuda.synchronize()

assert len({cuda.Stream().cuda_stream for _ in range(70)}) <= 32 and len(x.device.backend._streams) == 32

reader = numod.ones(2, device="cuda")
reader.record_stream(stream)
del reader
assert len(x.device.backend.pool()._waiting) == 1  # its memory waits for the stream
cuda.synchronize()

pinned = numod.ones(3).pin_memory()
assert pinned.is_pinned() and pinned.cuda().cpu().tolist() == [1, 1, 1]
try:
    numod.empty(1 << 28, device="cuda")
    raise AssertionError("there is no room for that")
except numod.OutOfMemoryError as error:
    assert "Tried to allocate 1.00 GiB" in str(error)
try:  # whose size in 64 bits is 4096
    numod.ones(1, dtype=numod.float64, device="cuda").expand((1 << 61) + 512).clone()
    raise AssertionError("there is no room for that either")
except numod.OutOfMemoryError as error:
    assert "Tried to allocate 19327352832.00 GiB" in str(error), error

half = numod.tensor(0.5, requires_grad=True)  # the CPU's tensors without dimensions go with any
(x * half).sum().backward()
assert half.grad.device.type == "cpu" and half.grad.item() == sum(values)
for other in (numod.tensor(2.0), numod.tensor(2.0, dtype=numod.float64), numod.tensor(2)):
    for actual in (
        x * other,
        other * x,
        x.clone().mul_(other),
        numod.lerp(x * 0, x, other),
        numod.where(x == x, x * other, other),
    ):
        assert (
            actual.device.type == "cuda"
            and actual.dtype is numod.float32
            and actual.tolist() == [2 * value for value in values]
        )
target_of = x.clone()
target_of[1] = numod.tensor(7.0)
assert (
    target_of.masked_fill(x < 0, numod.tensor(8.0)).tolist() == [0.5, 7.0, 8.0, 3.0, 4.0, 5.0, 6.0]
    and x[numod.tensor(1)].item() == 1.0
)
for wrong in (
    lambda: numod.tensor(1.0).add_(x[0]),
    lambda: x + numod.ones(7),
    lambda: numod.binomial(numod.abs(x), numod.ones(7)),
    lambda: x.copysign_(numod.ones(1)),
):
    try:
        wrong()
        raise AssertionError("kernels cannot read the CPU's memory, nor what runs there write the GPU's")
    except RuntimeError as error:
        assert "Expected all tensors to be on the same device" in str(error), error

seen = []
thread = threading.Thread(target=lambda: seen.append((x + x).cpu().shape))
thread.start()
thread.join()
assert seen == [(7,)]  # a thread of its own has the context too

MACHINE.here.context = 2  # as another library leaves it that uses another GPU
assert (x + x).cpu().shape == (7,)
MACHINE.here.context = 2
assert x.cpu().tolist() == values

child = os.fork()
if child == 0:
    try:
        x + x
    except RuntimeError as error:
        os._exit(0 if "forked subprocess" in str(error) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0

shared = numod.from_dlpack(numod.to_dlpack(x))
assert shared.data_ptr() == x.data_ptr() and shared.cpu().tolist() == values
before = cuda.memory_allocated()
del y, z, w, c
assert cuda.memory_allocated() < before
freed = MACHINE.calls["cuMemFree_v2"]
thread = threading.Thread(target=cuda.empty_cache)  # a thread that did nothing on the device before
thread.start()
thread.join()
assert MACHINE.calls["cuMemFree_v2"] > freed

wrong = numod.device("cuda").backend.reports()
wrong.words[:2] = 1, 9  # as a kernel would write
try:
    x.cpu()
    raise AssertionError("what a kernel reported is told")
except (IndexError, RuntimeError) as error:
    assert "CUDA_LAUNCH_BLOCKING" in str(error)

nothing = numod.zeros(0, 3).cuda()
assert (
    (nothing + 1).cpu().shape == (0, 3)
    and (nothing @ numod.zeros(3, 2).cuda()).shape == (0, 2)
    and nothing.sum().shape == ()
)
MACHINE.broken = 700
for use in (lambda: x + x, cuda.synchronize):
    try:
        use()
        raise AssertionError("a broken context is told")
    except RuntimeError as error:
        assert "CUDA error: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS in cu" in str(
            error
        ) and "CUDA_LAUNCH_BLOCKING=1" in str(error)
print("all right")
