"""Functions that kernels share are compiled once, and the compiler leaves the user's own use of Numba alone."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext

import numba
import numpy as np
import pytest
from numba.core import compiler_lock

from numod.device import compiler, cpu, division, signals, wrapper
from numod.kernel import build, inspection, specialize

HELPER = "@device_function\ndef {name}(x):\n    return x * {factor}\n"
AMID = """
@device_function
def plus(x, y):
    return x + y

def kernel(x, out):
    for i in range(out.size):
        out[i] = plus(x[i], {}.0) if i // 2 < 9 else x[i] % 3.0
"""
PARTS = """
@shared_function
def first(x):
    return x + {0}.0

@shared_function
def second(x):
    return x * 2.0 if x < 9.0 else x * {0}.0

@shared_function
def third(x):
    return -x if x < {0}.0 else x

def kernel(x, out):
    for i in range(out.size):
        out[i] = first(x[i]) + second(x[i]) - third(x[i]) - x[i]
"""
KERNEL = "def kernel(x, out):\n    for i in range(out.size):\n        out[i] = {name}(x[i]) + {more}\n"


def helper(name: str, factor: str, **more: object) -> object:
    space = {**cpu.namespace(), "__name__": __name__, **more}
    exec(HELPER.format(name=name, factor=factor), space)  # our own text
    return space[name]


def test_equal_helpers_are_one() -> None:
    assert helper("thrice", "3") is helper("thrice", "3")
    assert helper("thrice", "3") is not helper("thrice", "4")
    assert helper("thrice", "3", device_function=compiler.device_function(shared=True)) is not helper("thrice", "3")
    fast = compiler.device_function(fastmath={"contract"})
    assert (
        helper("thrice", "3", device_function=fast)
        is helper("thrice", "3", device_function=fast)
        is not helper("thrice", "3")
    )
    assert helper("scaled", "scale", scale=cpu.namespace()["float32"]) is not helper(
        "scaled", "scale", scale=cpu.namespace()["float64"]
    )


def test_helpers_of_names_that_come_later_are_their_own() -> None:
    assert helper("later", "unknown") is not helper("later", "unknown")


def test_kernels_with_helpers_of_one_name_compute_their_own() -> None:
    x, out = np.arange(3, dtype=np.float32), np.empty(3, np.float32)
    for factor, more, expected in (("3", "1", [1, 4, 7]), ("5", "1", [1, 6, 11]), ("3", "2", [2, 5, 8])):
        text = HELPER.format(name="times", factor=factor) + KERNEL.format(name="times", more=more)
        build.build(cpu, "times", text, "float32[], float32[]").launch(x, out)
        assert out.tolist() == expected


def test_machine_code_of_shared_functions_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    text = HELPER.replace("device", "shared").format(name="doubled", factor="2")
    kernels = [
        build.build(cpu, "doubling", text + KERNEL.format(name="doubled", more=more), "float64[], float64[]")
        for more in ("11", "13")
    ]
    assert {*kernels[0].shared} == {*kernels[1].shared} and not {*kernels[0].symbols} & {*kernels[1].symbols}
    assert wrapper.TAKE_ARGUMENTS in kernels[0].shared and any("doubled" in name for name in kernels[0].shared)
    x, out = np.arange(3.0), np.empty(3)
    for kernel, more in zip(kernels, (11, 13)):
        kernel.launch(x, out)
        assert out.tolist() == [more, more + 2, more + 4]
        code = inspection.machine_code(kernel)
        assert "doubled" in code.assembly and code.llvm.count("define") > 2


def test_users_compile_their_own_functions_before_and_after() -> None:
    script = """
import numpy as np
from numba import njit
assert njit(lambda x: x + 1)(2) == 3
import numod
assert numod.ones(3).exp().sum() > 8
assert njit(lambda n: np.arange(n)[::-1].copy())(3).tolist() == [2, 1, 0]
"""
    subprocess.run([sys.executable, "-c", script], check=True, env={**os.environ, "NUMOD_CACHE_DIR": ""})


USER_THREAD = """
import threading
import numpy as np
from numba import njit
import numod
x, results = np.eye(3), []
other = threading.Thread(target=lambda: results.append(njit(lambda x: np.asfortranarray(x) + 1)(x)))
other.start()
numod.ones(3).exp()
other.join()
assert (results[0] == x + 1).all()
"""


def test_users_compile_their_own_functions_meanwhile() -> None:
    """Numba's compiler is started by both threads."""
    environment = {**os.environ, "NUMOD_CACHE_DIR": ""}
    finished = subprocess.run([sys.executable, "-c", USER_THREAD], env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


NEEDS_BLAS = """
import sys
import numpy as np
from numba import njit
import numod
numod.ones(2) + 1
assert "scipy.linalg" not in sys.modules
x = np.arange(9.0).reshape(3, 3)
assert (njit(lambda x: np.dot(x, x))(x) == x @ x).all()
assert "scipy.linalg" in sys.modules
"""


def test_scipy_is_imported_only_for_users_functions_that_need_its_blas() -> None:
    pytest.importorskip("scipy")
    environment = {**os.environ, "NUMOD_CACHE_DIR": ""}
    finished = subprocess.run([sys.executable, "-c", NEEDS_BLAS], env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


NEEDS_NO_BLAS = """
import importlib.abc, sys
import numpy as np
from numba import njit
import numod

class Broken(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.startswith("scipy.linalg"):
            raise ImportError("built for another NumPy")

sys.meta_path.insert(0, Broken())
numod.ones(2) + 1
x = np.arange(3.0)
assert (njit(lambda x: np.convolve(x, x))(x) == np.convolve(x, x)).all()
try:
    njit(lambda x: np.dot(x, x))(x)
except ImportError as error:
    assert "scipy" in str(error)
else:
    raise AssertionError
"""


def test_users_functions_that_can_do_without_blas_do_so_where_scipy_is_broken() -> None:
    environment = {**os.environ, "NUMOD_CACHE_DIR": ""}
    finished = subprocess.run([sys.executable, "-c", NEEDS_NO_BLAS], env=environment, capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr


def test_kernels_and_their_parts_share_helpers() -> None:
    text = "@device_function\ndef of_both(x):\n    return x + 1\n"
    loop = (
        "def {name}(first_turn, last_turn, out):\n    for i in range(first_turn, last_turn):\n        out[i] = "
        "of_both(out[i])\n"
    )
    main = "def kernel(out):\n    out[0] = of_both(out[0])\n    divide({name}, out.size, 1, (out,))\n"
    name, x = f"{division.LOOP_PREFIX}_0", np.zeros(3, np.float32)
    made = []
    from numba.core.typing import templates

    before = templates._OverloadFunctionTemplate._build_impl
    templates._OverloadFunctionTemplate._build_impl = lambda self, *args: (
        made.append(getattr(self.key, "__name__", "")),
        before(self, *args),
    )[1]
    try:
        build.build(cpu, "shares", text + loop.format(name=name) + main.format(name=name), "float32[]", True).launch(x)
    finally:
        templates._OverloadFunctionTemplate._build_impl = before
    assert x.tolist() == [2, 1, 1] and made.count("of_both") <= 1


def test_texts_end_where_functions_do() -> None:
    def several(
        x: object,
    ) -> object:  # a comment

        # and one
        return [
            x,
        ]

    assert specialize._source_of(several).rstrip().endswith("]")
    assert specialize._source_of(several).startswith("def several(\n")


DEEP = """
import numod
def deep(levels):
    return deep(levels - 1) if levels else (numod.ones(3) + 1).sum().item()
for levels in (990, 960, 930, 900, 870, 840):
    try:
        deep(levels)
        break
    except RecursionError:
        pass
print((numod.ones(3) + 1).sum().item())
"""


def test_a_first_call_deep_in_a_recursion_does_not_spoil_numba(tmp_path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", DEEP],
        env={**os.environ, "NUMOD_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert finished.stdout.strip() == "6.0", finished.stderr


def build_with_handler(
    monkeypatch: pytest.MonkeyPatch, factor: int, at: int, handler: Callable[[], None], text: str = AMID
) -> list:
    """Build a kernel, at one of the checkpoints of which a signal comes; returns what it makes of 1 and 2."""
    passed, deliver = [], signals.deliver

    def delivering() -> None:
        passed.append(signals.around is compiler.suspended)
        if sum(passed) == at:
            signal.raise_signal(signal.SIGUSR1)
        deliver()

    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    before = signal.signal(signal.SIGUSR1, lambda number, frame: handler())
    try:
        with monkeypatch.context() as patch:
            patch.setattr(signals, "deliver", delivering)
            kernel = build.build(cpu, "amid", text.format(factor), "float64[], float64[]")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sum(passed) >= at and signals.around is nullcontext
    out = np.empty(2)
    kernel.launch(np.array([1.0, 2.0]), out)
    return out.tolist()


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
@pytest.mark.parametrize("at", [1, 7, 13, 20])
def test_a_signals_handler_compiles_as_usual_in_the_middle_of_a_kernel(
    monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    results = []

    def handler() -> None:
        floor_divide = numba.njit(lambda x, y: x // y)
        with pytest.raises(ZeroDivisionError):  # not as in kernels
            floor_divide(1, 0)
        results.append(floor_divide(-7, 2))
        out = np.empty(2)
        build.build(cpu, "amid", AMID.format(50_000 + at), "float64[], float64[]").launch(np.array([3.0, 4.0]), out)
        results.append(out.tolist())

    assert build_with_handler(monkeypatch, 60_000 + at, at, handler) == [60_001.0 + at, 60_002.0 + at]
    assert gc.isenabled()
    assert results == [-4, [50_003.0 + at, 50_004.0 + at]]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_a_handler_that_needs_the_kernel_that_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    out = np.empty(1)

    def handler() -> None:
        build.build(cpu, "amid", AMID.format(70_000), "float64[], float64[]").launch(np.array([1.0]), out)

    assert build_with_handler(monkeypatch, 70_000, 20, handler) == [70_001.0, 70_002.0] and out.tolist() == [70_001.0]


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_a_handler_that_launches_the_kernel_that_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    with build.ahead():
        kernel = build.build(cpu, "amid", AMID.format(80_000), "float64[], float64[]")
    outs, finish, compiled = np.empty((2, 1)), kernel.finish, build.statistics.compiled

    def interrupted() -> Callable:
        kernel.finish = finish
        signal.raise_signal(signal.SIGUSR1)
        signals.deliver()
        return finish()

    kernel.finish = interrupted
    before = signal.signal(signal.SIGUSR1, lambda number, frame: kernel.launch(np.array([1.0]), outs[0]))
    try:
        kernel.launch(np.array([2.0]), outs[1])
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert outs.tolist() == [[80_001.0], [80_002.0]] and build.statistics.compiled == compiled + 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("at, ahead", [(5, False), (40, False), (6, True)])
def test_a_child_that_a_handler_forks_goes_on_with_the_kernel(
    monkeypatch: pytest.MonkeyPatch, at: int, ahead: bool
) -> None:
    """Also while background threads, which it does not have, work on a part of the kernel."""
    children, passed, result = [], False, [90_003.0 + at, 90_006.0 + at]

    def handler() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # threads
            children.append(os.fork())
        if children == [0]:
            signal.alarm(60)  # ends a child that hangs

    try:
        with build.ahead() if ahead else nullcontext():
            passed = build_with_handler(monkeypatch, 90_000 + at, at, handler, PARTS) == result
    finally:
        if children == [0]:
            os._exit(not passed)
    assert passed and os.waitpid(children[0], 0)[1] == 0


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_a_handler_that_switches_garbage_collection_off_and_on(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        build_with_handler(monkeypatch, 70_001, 5, gc.disable)
        assert not gc.isenabled()
        build_with_handler(monkeypatch, 70_002, 5, gc.enable)
        assert gc.isenabled()
    finally:
        gc.enable()


def test_a_wait_for_numbas_lock_ends_with_a_signal() -> None:
    """Another thread compiles a function of the user's for a long time."""
    lock, taken, ended = compiler_lock.global_compiler_lock, threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            taken.set()
            ended.wait(60)

    class Lock:
        """The lock, which a signal comes to wait for."""

        def acquire(self, timeout: float) -> bool:
            signal.raise_signal(signal.SIGINT)
            return lock._lock.acquire(timeout=timeout)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(60)
    try:
        with pytest.raises(KeyboardInterrupt), signals.waiting(), signals.locked(Lock()):
            pass
    finally:
        ended.set()
        thread.join()
