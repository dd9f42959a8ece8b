"""Large kernels from many threads at once and in forked children, under each of Numba's threading layers: no abort, right results."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import numod

START = """
import os, sys, threading
import numba
import numod

N = 2_000_000

def work():
    x = numod.arange(N, dtype=numod.float32)
    return (x * 2 + 1).sum(dtype=numod.float64).item() == float(N) * N

def in_threads(count):
    found = []
    threads = [threading.Thread(target=lambda: found.extend(work() for _ in range(4))) for _ in range(count)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return len(found) == 4 * count and all(found)

def in_child(function):
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if function() else 2
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0
"""
PARTS = {
    "threads": "print(in_threads(8))",
    "child": "print(work(), numba.threading_layer(), in_child(work), work())",
    "threads_in_a_child": "print(work(), in_child(lambda: in_threads(4)), in_threads(4))",
    "child_of_a_busy_parent": """
busy = threading.Thread(target=lambda: [work() for _ in range(20)])
work()
busy.start()
found = [in_child(work) for _ in range(4)]
busy.join()
print(all(found))""",
    "child_of_a_child": "print(work(), in_child(lambda: in_child(work) and work()))",
    "child_of_a_building_parent": """
import signal
from numod.kernel import build
building, forked = threading.Event(), threading.Event()
build.listeners.append(lambda kernel: (building.set(), forked.wait(60)) if threading.current_thread() is builder else None)
builder = threading.Thread(target=lambda: (numod.arange(3, dtype=numod.int16) * 3).tolist())
builder.start()
building.wait(60)
def child():
    signal.alarm(10)
    return (numod.arange(3, dtype=numod.int8) * 5).tolist() == [0, 5, 10]
print(in_child(child))
forked.set()
builder.join()""",
    "child_of_a_parent_that_factors": """
from numod.device import blas
entered, leave = threading.Event(), threading.Event()
other = threading.Thread(target=lambda: blas.limited(lambda a: (entered.set(), leave.wait(60)), [numod.eye(2).numpy()]))
before = blas._controls() and blas._controls()[0]()
other.start()
entered.wait(60)
def child():
    x = numod.eye(600, dtype=numod.float64)
    return (before is None or blas._controls()[0]() == before) and numod.linalg.eigvalsh(2 * x).sum().item() == 1200
print(in_child(child))
leave.set()
other.join()""",
    "child_of_a_parent_that_makes_a_launcher": """
from numod.device.threads import Gated
entered, leave = threading.Event(), threading.Event()
make = lambda: entered.set() or leave.wait(60) or print
other = threading.Thread(target=lambda: Gated(make, make))
other.start()
entered.wait(60)
def child():
    import signal
    signal.alarm(10)
    return Gated(lambda: print, lambda: print).divided is print
print(in_child(child))
leave.set()
other.join()""",
    "child_first": "print(in_child(work), in_child(lambda: in_threads(4)), work())",
}


def run(code, layer):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(numod.__file__).parents[1]),
        "NUMBA_THREADING_LAYER": layer,
        "NUMBA_NUM_THREADS": "2",
        "NUMOD_NUM_THREADS": "2",
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + code], capture_output=True, text=True, env=environment, timeout=120
    )


@pytest.fixture(scope="module", params=["omp", "workqueue"])
def layer(request):
    probe = f"import numba\nfrom numba.np.ufunc.parallel import _launch_threads\n_launch_threads()\nprint(numba.threading_layer() == {request.param!r})"
    environment = {**os.environ, "NUMBA_THREADING_LAYER": request.param}
    found = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=environment, timeout=120)
    if found.stdout.strip() != "True":
        pytest.skip(f"Numba has no threading layer {request.param} here")
    return request.param


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("part", PARTS)
def test_no_abort_and_right_results(layer, part):
    found = run(PARTS[part], layer)
    assert found.returncode == 0, f"exit {found.returncode}: {found.stderr[-2000:]}"
    assert set(found.stdout.split()) <= {"True", layer}
    assert "True" in found.stdout


IMPORTING = """
import os, signal, threading
from numod.kernel import build
import logging  # whose lock a fork takes, too, in the order of the imports
held, forking = threading.Event(), threading.Event()

def importing():
    with build.unforked:
        held.set()
        forking.wait(60)
        logging.getLogger("imported")

os.register_at_fork(before=forking.set)
signal.alarm(20)
thread = threading.Thread(target=importing)
thread.start()
held.wait(60)
pid = os.fork()
if pid == 0:
    os._exit(0)
thread.join()
print(os.waitpid(pid, 0)[1] == 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_while_another_thread_imports_numba():
    environment = {**os.environ, "PYTHONPATH": str(Path(numod.__file__).parents[1])}
    found = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", IMPORTING], capture_output=True, text=True, env=environment, timeout=120)
    assert found.stdout == "True\n", f"exit {found.returncode}: {found.stderr[-2000:]}"


def test_compiling_while_another_thread_draws():
    def function(x):
        if numod.compiler.is_compiling():
            thread = threading.Thread(target=lambda: numod.rand(5))
            thread.start()
            thread.join()
        return x + numod.rand(2)

    compiled = numod.compile(function)
    assert all(bool((compiled(numod.ones(2)) >= 1).all()) for _ in range(3))


def test_the_number_of_threads():
    before = numod.get_num_threads()
    try:
        numod.set_num_threads(1)
        assert numod.get_num_threads() == 1
        for wrong in (0, -1, 1.5, "2"):
            with pytest.raises((RuntimeError, TypeError)):
                numod.set_num_threads(wrong)
        assert numod.get_num_threads() == 1
    finally:
        numod.set_num_threads(before)
