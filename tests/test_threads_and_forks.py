"""Threads and forks: large kernels in threads and in forked children, and all kinds of work by 2 and 8 threads at once
(`shared/threaded`).

Nothing aborts, hangs, raises or warns, and values are those of one thread. Of the work at once a sample takes five
seconds here; all of it, with the marker `threads`, about six minutes on two cores that nobody else uses; with
NUMOD_TEST_REPEATS=20 about an hour.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import threaded

import numod

REPEATS = int(os.environ.get("NUMOD_TEST_REPEATS", "2"))  # of what runs in processes of its own

START = """
import os, sys, threading
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
    "child": "print(work(), in_child(work), work())",
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
build.listeners.append(lambda kernel: (building.set(), forked.wait(90)) if threading.current_thread() is builder else None)
builder = threading.Thread(target=lambda: (numod.arange(3, dtype=numod.int16) * 3).tolist())
builder.start()
building.wait(90)
def child():
    signal.alarm(60)
    return (numod.arange(3, dtype=numod.int8) * 5).tolist() == [0, 5, 10]
print(in_child(child))
forked.set()
builder.join()""",
    "child_of_a_parent_that_factors": """
from numod.device import blas
entered, leave = threading.Event(), threading.Event()
other = threading.Thread(target=lambda: blas.limited(lambda a: (entered.set(), leave.wait(90)), [numod.eye(2).numpy()]))
before = blas._controls() and blas._controls()[0]()
other.start()
entered.wait(90)
def child():
    x = numod.eye(600, dtype=numod.float64)
    return (before is None or blas._controls()[0]() == before) and numod.linalg.eigvalsh(2 * x).sum().item() == 1200
print(in_child(child))
leave.set()
other.join()""",
    "child_of_a_parent_that_makes_a_launcher": """
from numod.device.threads import Gated
entered, leave = threading.Event(), threading.Event()
make = lambda: entered.set() or leave.wait(90) or print
other = threading.Thread(target=lambda: Gated(make, make))
other.start()
entered.wait(90)
def child():
    import signal
    signal.alarm(60)
    return Gated(lambda: print, lambda: print).divided is print
print(in_child(child))
leave.set()
other.join()""",
    "the_end_behind_a_launch": "print(work(), flush=True)\nsys.exit()",
    "child_first": "print(in_child(work), in_child(lambda: in_threads(4)), work())",
}  # fmt: skip


SAMPLE = {"threads", "child", "child_first", "child_of_a_busy_parent", "the_end_behind_a_launch"}


def run(code):
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(numod.__file__).parents[1]),
        "NUMOD_NUM_THREADS": "2",
    }
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize(
    "part", [part if part in SAMPLE else pytest.param(part, marks=pytest.mark.threads) for part in PARTS]
)
def test_no_abort_and_right_results(part):
    result = run(PARTS[part])
    assert result.returncode == 0, f"exit {result.returncode}: {result.stderr[-2000:]}"
    assert set(result.stdout.split()) == {"True"}


IMPORTING = """
import os, signal, threading
from numod.kernel import build
import logging  # whose lock a fork takes, too, in the order of the imports
held, forking = threading.Event(), threading.Event()

def importing():
    with build.unforked:
        held.set()
        forking.wait(90)
        logging.getLogger("imported")

os.register_at_fork(before=forking.set)
signal.alarm(90)
thread = threading.Thread(target=importing)
thread.start()
held.wait(90)
pid = os.fork()
if pid == 0:
    os._exit(0)
thread.join()
print(os.waitpid(pid, 0)[1] == 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_while_another_thread_imports_numba():
    environment = {**os.environ, "PYTHONPATH": str(Path(numod.__file__).parents[1])}
    completed = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", IMPORTING],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert completed.stdout == "True\n", f"exit {completed.returncode}: {completed.stderr[-2000:]}"


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


@pytest.fixture
def switching():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("work", threaded.HERE, ids=lambda work: work.__name__)
def test_a_sample_of_work_at_once(work, switching):
    work(4, 1)


@pytest.mark.threads
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("work", threaded.HERE, ids=lambda work: work.__name__)
def test_work_at_once(work, count, switching):
    for repeat in range(20):
        work(count, repeat)


FRESH = """
import os, queue, signal, sys, threading, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", category=DeprecationWarning)
sys.setswitchinterval(1e-6)
import numod, threaded
from numod.kernel import build

N = int(sys.argv[1])

def compile_some(k, repeat=0):
    function, x = lambda x: (x * (k + 2) + repeat).sin().sum(0), numod.ones(3, 2 + repeat)
    compiled = numod.compile(function)
    return all(numod.allclose(compiled(x), function(x)) for _ in range(2))

def begin(repeats, daemon=False):
    "N threads that compile, and what they find. The first kernel is being built."
    building, found = queue.SimpleQueue(), []  # which has no lock that a fork could leave taken
    build.listeners.append(building.put)
    threads = [threading.Thread(target=lambda k=k: found.extend(compile_some(k, r) for r in range(repeats)), daemon=daemon) for k in range(N)]
    for thread in threads: thread.start()
    building.get(timeout=60)
    return threads, found

def end(threads, found, repeats):
    for thread in threads: thread.join(120)
    return found == [True] * (N * repeats)
"""
IN_A_PROCESS = {
    "a_cold_cache": """
for work in (threaded.compiled_first_use, threaded.new_dtypes, threaded.training, threaded.several_functions):
    work(N, 1)
print(True)""",
    "the_end_of_the_program": "begin(2)\nprint(True)",
    "the_end_with_daemons": "begin(50, daemon=True)\nprint(True)",
    "exit_functions": """
import atexit
begin(50, daemon=True)
atexit.register(lambda: print(numod.ones(2).mul(3).tolist() == [3, 3]))
sys.exit(0)""",
    "forks": """
threads, found = begin(4)
good = []
for r in range(5):
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        os._exit(0 if compile_some(100, r) and compile_some(r, 0) else 1)
    good.append(os.waitpid(pid, 0)[1] == 0)
print(end(threads, found, 4) and all(good))""",
    "interrupts": """
def interrupt(number, frame): raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
threads, found = begin(3)
came = 0
for r in range(6):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 * 4**r)
        while True: compile_some(50, r)
    except KeyboardInterrupt:
        came += 1
print(came == 6 and end(threads, found, 3) and all(compile_some(50, r) for r in range(6)))""",
    "data_loaders": """
threads, found = begin(4)
load = lambda workers: [each.tolist() for each in numod.utils.data.DataLoader(threaded.Squares(), batch_size=4, num_workers=workers)]
print(all(load(2) == load(0) for _ in range(3)) and end(threads, found, 4))""",
}


@pytest.mark.threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("part", IN_A_PROCESS)
def test_while_threads_compile(part, count, tmp_path):
    shared = Path(__file__).parent / "shared"
    for repeat in range(REPEATS):
        environment = {
            **os.environ,
            "PYTHONPATH": f"{Path(numod.__file__).parents[1]}{os.pathsep}{shared}",
            "NUMOD_CACHE_DIR": str(tmp_path / str(repeat)),
        }
        completed = subprocess.run(
            [sys.executable, "-c", FRESH + IN_A_PROCESS[part], str(count)],
            capture_output=True,
            text=True,
            env=environment,
            timeout=900,
        )
        assert (completed.returncode, completed.stdout, completed.stderr) == (0, "True\n", "")
