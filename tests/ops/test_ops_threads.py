"""Results and gradients are bitwise equal for any number of threads, with tensors large enough to use all threads."""

from __future__ import annotations


import numpy as np
import pytest
from selection import every

import numod
from numod.device import threads as device_threads
from numod.device.threads import Crew, Gated, most
from numod.nn import functional as F

OPS = {
    "pointwise": (lambda x, y: (x * y).exp() - x, (400, 500), (500,)),
    "strided": (lambda x, y: x.t() * y, (400, 500), (500, 400)),
    "rows": (lambda x: x.softmax(1).std(1), (400, 500)),
    "columns": (lambda x: F.log_softmax(x, 0).amax(0), (400, 500)),
    "cumulative": (lambda x: x.cumsum(1).sort(0)[0], (400, 500)),
    "cross_entropy": (lambda x: F.cross_entropy(x, numod.arange(400) % 500), (400, 500)),
    "product": (lambda x, y: x @ y, (150, 200), (200, 300)),
    "norms": (lambda x: F.batch_norm(F.layer_norm(x, (40, 40)), None, None, training=True), (4, 32, 40, 40)),
    "pools": (lambda x: F.max_pool2d(x, 3, 2, 1).sum() + F.avg_pool2d(x, 2).square().sum(), (4, 16, 64, 64)),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (2, 8, 48, 48), (16, 8, 3, 3)),
    "chunks of a convolution's gradient": (lambda x, w: F.conv2d(x, w, padding=1), (4, 16, 30, 30), (32, 16, 3, 3)),
    "windows that nearly cover": (lambda x, w: F.conv2d(x, w), (8, 3, 20, 60), (48, 3, 4, 57)),
    "strided convolution": (lambda x, w: F.conv2d(x, w, stride=2, groups=4), (2, 16, 50, 50), (8, 4, 3, 3)),
    "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (2, 4, 130, 32)),
}


@pytest.fixture(autouse=True)
def free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches that do not notice what else runs on this machine."""
    patient = Crew()
    patient.LATE = 1 << 62
    monkeypatch.setattr(device_threads, "_crew", patient)


def test_a_crew_that_loses_time_shrinks_and_grows_again() -> None:
    now = [0]
    crew = Crew(lambda: now[0])
    assert crew.size(8) == 8
    crew.note(8, Crew.LATE)  # threads that had to be woken
    crew.note(8, -1000)  # and then helped
    crew.note(8, 1000)
    assert crew.size(8) == 8
    crew.note(8, 4_000_000)
    assert crew.size(8) == 4 and crew.size(2) == 2
    crew.note(4, 4_000_000)
    crew.note(2, 4_000_000)
    assert crew.size(8) == 1
    now[0] += crew.PATIENCE * 4_100_000
    assert [crew.size(8) for _ in range(4)] == [2, 4, 8, 8]
    assert crew.report(8) == (6, 5, 12_000_000 + Crew.LATE + 1000, 4, 8, 8)


def test_waiting_cost_is_reported_in_words() -> None:
    crew = Crew(lambda: 0)
    crew.note(2, -1000)
    before = crew.report(2)
    assert str(before) == "1 parallel launches, no time lost by waiting; launches use 2 of 2 threads now"
    crew.note(2, 4_200_000)
    assert crew.size(2) == 1
    assert str(crew.report(2).since(before)) == (
        "1 parallel launches, of which 1 lost 4.2 ms by waiting: other programs held the cores, or threads had to be "
        "woken; "
        "1 more launches got fewer threads therefore; launches use 1 of 2 threads now"
    )
    assert "one thread" in str(crew.report(1))


def test_small_losses_add_up_and_gains_make_up_for_them() -> None:
    losing, even = Crew(lambda: 0), Crew(lambda: 0)
    for _ in range(3):
        losing.note(2, Crew.LATE // 2)
        even.note(2, Crew.LATE // 2)
        even.note(2, -Crew.LATE)
    assert (losing.size(2), even.size(2)) == (1, 2)


@pytest.mark.parametrize("name", every(2, OPS, others=pytest.mark.fuzz))
def test_one_thread_and_two_agree(name: str) -> None:
    function, *shapes = OPS[name]
    generator, before = np.random.default_rng(0), numod.get_num_threads()
    arrays = [generator.standard_normal(shape).astype(np.float32) for shape in shapes]
    results = []
    try:
        for threads in (1, 2):
            numod.set_num_threads(threads)
            inputs = [numod.tensor(array, requires_grad=True) for array in arrays]
            out = function(*inputs)
            (out * out).sum().backward()
            results.append([out.detach().numpy(), *(input.grad.numpy() for input in inputs)])
    finally:
        numod.set_num_threads(before)
    for alone, shared in zip(*results):
        assert np.isfinite(alone).all() and (alone == shared).all()


def test_only_the_kernel_that_is_used_is_built() -> None:
    before, built, calls = numod.get_num_threads(), [], []

    def make(kind: str) -> object:
        return lambda: built.append(kind) or (lambda *arguments: calls.append(arguments))

    try:
        numod.set_num_threads(1)
        gated = Gated(make("divided"), make("serial"))
        gated(7)
        assert built == ["serial"] and calls == [(7,)]
        numod.set_num_threads(before)
        gated(7)
        gated(7)
        assert built == (["serial", "divided"] if before > 1 else ["serial"]) and calls[1:] == 2 * [
            (7, most()) if before > 1 else (7,)
        ]
    finally:
        numod.set_num_threads(before)


def test_a_launch_in_the_midst_of_another_has_one_thread_and_an_interrupted_one_leaves_the_gate_open() -> None:
    counts: list[int] = []

    def interrupted(count: int) -> None:
        counts.append(count)
        if len(counts) == 1:
            gated()
            raise KeyboardInterrupt

    gated = Gated(lambda: interrupted, lambda: interrupted)
    if numod.get_num_threads() == 1:
        pytest.skip("one thread")
    with pytest.raises(KeyboardInterrupt):
        gated()
    gated()
    assert counts == [most(), 1, most()]
