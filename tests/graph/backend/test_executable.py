"""Compiled functions in threads, after forks, in other processes, and when memory moves or a check fails."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pairs import X, Pair, batch, compile, equal, net, step_of

import numod
from numod import nn
from numod.graph import compile as compiled_natively


@pytest.mark.parametrize("linked", [False, None])
def test_threads(linked: bool | None) -> None:
    function = lambda x: (x @ x.t()).tanh().sum(0)  # noqa: E731
    compiled, wrong = compiled_natively(function, options={"linked": linked}), []
    inputs = [X + k for k in range(4)]
    expected = [function(input) for input in inputs]

    def work(k: int) -> None:
        for _ in range(50):
            if not equal(compiled(inputs[k]), expected[k]):
                wrong.append(k)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong


@pytest.mark.parametrize("work", [lambda x: x * 2, lambda x: numod.rand(3) + x])
def test_results_of_other_threads_are_not_frozen(work: Callable) -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(work, x).result() + 1

    with pytest.warns(
        UserWarning, match="runs eagerly from here: a tensor that another thread computed is used at test_executable"
    ):
        compiled = numod.compile(function)
        compiled(numod.ones(3))
    for k in range(3):
        numod.manual_seed(k)
        expected = function(numod.full((3,), float(k)))
        numod.manual_seed(k)
        assert equal(compiled(numod.full((3,), float(k))), expected)
    with pytest.raises(RuntimeError, match="that another thread computed"):
        numod.compile(function, fullgraph=True)(numod.ones(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_after_a_fork() -> None:
    compiled = compile(lambda x: (x * 2).sum(0))
    compiled(X), compiled(X)
    child = os.fork()
    if child == 0:
        os._exit(0 if compiled(X).tolist() == [6.0, 10.0, 14.0] else 1)
    assert os.waitpid(child, 0)[1] == 0


NATIVE = """
import numod, sys
from numod import nn
from numod.kernel import build
model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
model = numod.compile(model)
with numod.no_grad():
    x = numod.ones(1, 4)
    for _ in range(4):
        y = model(x)
    frozen, x = numod.compile(nn.Linear(32, 32), options={"freezing": True}), numod.ones(16, 32)
    for _ in range(3):
        y = frozen(x)
print(build.statistics.compiled)
"""


def test_a_second_process_compiles_nothing(tmp_path: object) -> None:
    environment = {**os.environ, "NUMOD_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", NATIVE], capture_output=True, text=True, check=True, env=environment
        ).stdout
        for _ in range(2)
    ]
    assert int(outputs[0]) > 0 and int(outputs[1]) == 0


def test_memory_that_moves_is_followed() -> None:
    for linked in (False, None):
        model = net()
        compiled = compiled_natively(copy.deepcopy(model), options={"linked": linked})
        x = batch(1)[0]
        with numod.no_grad():
            for _ in range(3):
                assert equal(compiled(x), model(x))
            for module in (model, compiled):
                module.share_memory()
                module[0].weight.mul_(2)
            assert equal(compiled(x), model(x)) and equal(compiled(x), model(x))
    pair = Pair()
    pair.run(1, 2, 3)
    pair.both(
        lambda model, optimizer: setattr(optimizer.state[model[0].weight]["momentum_buffer"], "data", numod.ones(3, 4))
    )
    pair.run(4, 5)


def test_a_failed_check_of_a_native_function_changes_nothing() -> None:
    numod.manual_seed(0)
    models = [nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Dropout(0.5)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    # gradients before a batch norm of two rows are tiny: Adam's steps would depend on rounding
    optimizers = [numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in models]
    eager, native = step_of(models[0], optimizers[0]), compiled_natively(step_of(models[1], optimizers[1]))
    for target in ([0, 1], [1, 0], [1, 1], [0, 2], [1, -100], [0, 1], [-1, 0], [0, 0]):
        outcomes = []
        for step in (eager, native):
            numod.manual_seed(1)
            try:
                outcomes.append((step(X, numod.tensor(target)), numod.default_generator._offset))
            except IndexError as error:
                outcomes.append((str(error), numod.default_generator._offset))
        assert equal(*outcomes) and equal(dict(models[0].state_dict()), dict(models[1].state_dict()))
    assert native.recorded == 1


def test_errors_of_host_calls_are_raised() -> None:
    """A matrix has no factorization at a run: the function handles the error, and earlier writes are undone."""
    for linked in (True, False):
        count = numod.zeros(2), numod.zeros(2)

        def safe(matrix: numod.Tensor, count: numod.Tensor) -> numod.Tensor:
            count += 1
            try:
                return numod.linalg.cholesky(matrix)
            except numod.linalg.LinAlgError:
                return numod.linalg.cholesky(matrix + 2 * numod.eye(2))

        compiled = compiled_natively(safe, options={"linked": linked})
        for k in (1.0, 1.0, 4.0, -1.0, 1.0, -1.0, -1.0, 9.0):
            assert equal(compiled(numod.eye(2) * k, count[0]), safe(numod.eye(2) * k, count[1]))
            assert equal(*count)
        failing = compiled_natively(safe, options={"linked": linked})  # from the first call on
        with pytest.warns(UserWarning, match="LinAlgError"):
            assert equal(failing(-numod.eye(2), count[0]), numod.eye(2))
        for k in (1.0, 4.0, -1.0):
            assert equal(failing(numod.eye(2) * k, count[0]), safe(numod.eye(2) * k, count[1]))
        singular = compiled_natively(lambda x: numod.linalg.inv(x) + 1)
        for k in (1.0, 2.0, 3.0):
            singular(numod.eye(2) * k)
        with pytest.raises(numod.linalg.LinAlgError, match="singular"):
            singular(numod.zeros(2, 2))
        assert singular(numod.eye(2))[0, 0] == 2


def test_a_traced_program_raises_what_a_call_on_the_host_raises() -> None:
    program = numod.graph.trace(lambda x: numod.linalg.cholesky(x) * 2, numod.eye(2))
    for run in (program, numod.graph.Executable(program)):
        with pytest.raises(numod.linalg.LinAlgError, match="positive-definite"):
            run(-numod.eye(2))
