"""Launches that wait for their kernels: the same results in the same order, whoever reads or writes the memory."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

import numod
from numod.ao.quantization import measure
from numod.core import deferred
from numod.device import background, storage
from numod.graph.passes.sparsity import is_faster
from numod.kernel import build
from numod.ops.op import _forget_plans as forget_plans


@pytest.fixture(autouse=True)
def waiting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every launch waits, as if its kernel were new."""
    monkeypatch.setattr(deferred, "waits", bool)
    monkeypatch.setattr(background, "suits", lambda: True)
    monkeypatch.setattr(background, "is_busy", lambda: True)
    monkeypatch.setattr(storage, "addressed", False)
    monkeypatch.setattr(build, "listeners", [])
    forget_plans()  # of other tests: an op with a plan launches at once
    yield
    deferred.run_all()


def test_launches_wait_until_a_value_is_read() -> None:
    x = numod.tensor([1.0, -2.0, 3.0])
    y = (x * 2).relu() + x
    assert len(deferred._queue) == 3
    assert y.tolist() == [3.0, -2.0, 9.0] and not deferred._queue and not deferred._hidden


def test_writes_keep_their_place() -> None:
    x = numod.tensor([1.0, 2.0])
    y = x * 2
    x.add_(1)
    z = x * 2
    x[0] = 7.0
    assert (y.tolist(), z.tolist(), x.tolist()) == ([2, 4], [4, 6], [7, 3])


def test_writes_by_launches_that_do_not_wait_come_later() -> None:
    x = numod.tensor([1.0, 2.0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(deferred, "waits", lambda complete: False)
        x.mul_(1)  # its plan is known now
    y = x * 3
    assert deferred._queue
    x.mul_(10)
    assert y.tolist() == [3, 6] and x.tolist() == [10, 20]


def test_memory_that_others_refer_to_is_used_at_once() -> None:
    for size in (3, 1 << 18):  # NumPy's memory, the pool's
        x = numod.ones(size)
        array = x.numpy()
        y = x * 2
        assert not deferred._queue
        array[:] = 5
        x.add_(1)
        assert array[0] == 6 and y[0].item() == 2
    array = np.ones(3, np.float32)
    y = numod.from_numpy(array) * 2
    array[:] = 5
    assert y.tolist() == [2, 2, 2]


def test_nothing_waits_once_an_address_is_known() -> None:
    x = numod.ones(3)
    x.add_(1)
    assert deferred._queue
    assert x.data_ptr()
    x.add_(1)
    assert not deferred._queue


def test_gradients_and_updates_are_those_of_launches_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def trained() -> list:
        numod.manual_seed(0)
        model = numod.nn.Sequential(
            numod.nn.Conv2d(1, 3, 3), numod.nn.BatchNorm2d(3), numod.nn.ReLU(), numod.nn.Flatten(),
            numod.nn.Linear(48, 4),
        )  # fmt: skip
        optimizer = numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            numod.nn.functional.cross_entropy(model(numod.randn(2, 1, 6, 6)), numod.tensor([1, 3])).backward()
            optimizer.step()
        return [value.tolist() for value in model.state_dict().values()]

    later = trained()
    monkeypatch.setattr(deferred, "waits", lambda complete: False)
    assert trained() == later


def test_numbers_that_overflow_are_handled_by_the_call() -> None:
    x = numod.tensor([1.0]) + 0
    assert deferred._queue
    assert (x * 2**63).item() == 2.0**63


def test_an_error_of_a_launch_is_raised_once() -> None:
    x = numod.ones(11) + 1
    launch, arguments = deferred._queue[-1]
    deferred._queue[-1] = (lambda *a: 1 / 0, arguments)
    with pytest.raises(ZeroDivisionError):
        x.tolist()
    assert len(x.tolist()) == 11


def test_other_threads_read_results() -> None:
    y, values = numod.ones(3) * 2, []
    thread = threading.Thread(target=lambda: values.extend((y + 1).tolist()))
    thread.start()
    thread.join()
    assert values == [3, 3, 3] and not deferred._queue


def test_launches_of_other_threads_do_not_wait() -> None:
    lengths: list[int] = []
    thread = threading.Thread(target=lambda: (numod.ones(5) * 2, lengths.append(len(deferred._queue))))
    thread.start()
    thread.join()
    assert lengths == [0]


def test_an_interrupt_between_launches_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numod.zeros(7)  # of a size whose plans no other test makes
    for _ in range(4):
        x.add_(1)
    usual, count = build.complete_all, len(deferred._queue)

    def interrupted() -> None:
        usual()
        launch, arguments = deferred._queue[1]
        deferred._queue[1] = (lambda *a: (launch(*a), signal.raise_signal(signal.SIGINT)), arguments)

    monkeypatch.setattr(build, "complete_all", interrupted)
    with pytest.raises(KeyboardInterrupt):
        x.tolist()
    assert len(deferred._queue) == count - 2
    monkeypatch.undo()
    assert x.tolist() == [4] * 7


def test_results_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MOST_BYTES", 100)
    x = numod.ones(10)
    assert len(deferred._queue) == 1
    _ = x + 1, x + 2
    assert not deferred._queue


def test_nothing_waits_when_all_kernels_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numod.ones(13)
    assert len(deferred._queue) == 1
    monkeypatch.undo()
    _ = x + 1, x + 2
    assert not deferred._queue


def test_another_default_dtype_makes_other_plans() -> None:
    x = numod.tensor([1, 2])
    assert (x / 2).dtype is numod.float32 and deferred._queue
    numod.set_default_dtype(numod.float64)
    try:
        assert (x / 2).dtype is numod.float64
    finally:
        numod.set_default_dtype(numod.float32)
    assert (x / 2).dtype is numod.float32


def test_data_stay_visible_until_another_thread_has_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread hides data with the lock."""
    y, usual, owned = numod.ones(3) * 2, deferred.run_all, []
    monkeypatch.setattr(deferred, "run_all", lambda: (usual(), owned.append(deferred._lock._is_owned())))
    thread = threading.Thread(target=y.tolist)
    thread.start()
    thread.join()
    assert owned == [True]


def test_an_interrupt_while_a_launch_is_appended_hides_the_data(monkeypatch: pytest.MonkeyPatch) -> None:
    x, usual = numod.zeros(3), deferred._hide
    assert x.tolist() == [0] * 3
    monkeypatch.setattr(deferred, "_hide", lambda memory: (signal.raise_signal(signal.SIGINT), usual(memory)))
    with pytest.raises(KeyboardInterrupt):
        x.add_(1)
    monkeypatch.undo()
    assert x.tolist() == [1] * 3


def test_plans_are_remembered_when_nothing_can_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "is_busy", lambda: False)
    x = numod.from_numpy(np.ones(3, np.float32))
    for _ in range(2):
        assert (x * 3).tolist() == [3] * 3
        assert not deferred._plans


def test_inputs_that_only_launches_keep_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred, "MOST_BYTES", 10_000)
    for _ in range(100):
        numod.tensor(np.ones(1000, np.float32)).sum()
        assert len(deferred._queue) < 5
    weight = numod.tensor(np.ones(10_000, np.float32))  # it is alive in any case
    for _ in range(5):
        weight.sum()
    assert len(deferred._queue) >= 4


def test_copies_of_hidden_storages_are_usual_ones() -> None:
    for make in (copy.copy, copy.deepcopy, lambda memory: pickle.loads(pickle.dumps(memory))):
        x = numod.ones(3)
        memory = x.untyped_storage()
        x.add_(1)
        assert type(memory) is deferred.Hidden and repr(type(memory)) == repr(storage.Storage)
        copied = make(memory)
        assert type(copied) is storage.Storage and copied.data.tolist() == x.tolist() == [2] * 3


def test_timings_begin_without_launches_that_wait() -> None:
    waiting: list[int] = []

    def call(*_: object) -> None:
        waiting.append(len(deferred._queue))
        numod.ones(3) * 2

    is_faster(call, call)
    assert waiting[:2] == [0, 0]  # the first call compiles kernels, the second one is timed
    waiting.clear()
    measure.seconds(call, numod.ones(1))
    assert waiting[1] == 0
    waiting.clear()
    numod.utils.benchmark.Timer("call()", globals={"call": call}).timeit(3)
    assert len(waiting) == 5 and waiting[0] == waiting[2] == 0  # two calls to compile kernels, three that are timed
    numod.cpu.synchronize()
    assert not deferred._queue


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_the_results() -> None:
    y = numod.ones(3) * 2
    assert deferred._queue
    pid = os.fork()
    if pid == 0:
        os._exit(0 if y.tolist() == [2, 2, 2] and (y + 1).tolist() == [3, 3, 3] else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_compiled_function_reads_what_waited() -> None:
    weight = numod.ones(3)
    compiled = numod.compile(lambda x: x * weight, options={"linked": True})
    x = numod.tensor([1.0, 2.0, 3.0])
    for _ in range(3):
        weight.add_(1)
        expected = [value * weight[0].item() for value in (1, 2, 3)]
        weight.mul_(1)
        assert compiled(x).tolist() == expected


def test_failed_checks_are_raised_by_the_call() -> None:
    with pytest.raises(IndexError):
        numod.nn.functional.cross_entropy(numod.randn(2, 3), numod.tensor([1, 3]))
    with pytest.raises(numod.linalg.LinAlgError):
        numod.linalg.cholesky(-numod.eye(3))


COLD = """
import numod
from numod.device import background
from numod.kernel import build
from numod.ops.op import _forget_plans as forget_plans
background.suits = background.is_busy = lambda: True
x = numod.tensor([1.0, -2.0])
y = x.relu() + x.tanh() * x.exp()
assert build.unfinished(), "nothing was compiled ahead"
"""


@pytest.mark.parametrize("end", ["assert abs(y[0].item() - 3.070) < 1e-3", "", "import os; assert os.fork() or True"])
def test_a_process_without_a_cache_compiles_ahead(end: str) -> None:
    """It reads the result, or ends while LLVM works, or forks meanwhile."""
    finished = subprocess.run(
        [sys.executable, "-c", COLD + end], env={**os.environ, "NUMOD_CACHE_DIR": ""}, capture_output=True, text=True
    )
    assert (finished.returncode, finished.stderr) == (0, "")


DEFAULT = """
import numod
from numod.core import deferred
x = numod.tensor([1.0, -2.0])
y = x.relu() + x.tanh()
assert not deferred._queue and not deferred._hidden
"""


def test_launches_do_not_wait_by_default() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "NUMOD_COMPILE_AHEAD"}
    finished = subprocess.run([sys.executable, "-c", DEFAULT], env={**environment, "NUMOD_CACHE_DIR": ""})
    assert finished.returncode == 0
