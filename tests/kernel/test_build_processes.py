"""Kernels in several processes, odd environments, and the import of the compiler."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import numod
from numod.device import cpu
from numod.kernel import build as builder


def empty(path):
    path.write_bytes(b"")


WORK = """
import numod
from numod.kernel.build import statistics
x = numod.arange(12, dtype=numod.float32).view(3, 4).requires_grad_()
((x * 2).exp() @ numod.ones(4, 2)).log().sum().backward()
print([round(v, 4) for row in x.grad.tolist() for v in row])
print(statistics.compiled, statistics.loaded)
"""


def python(code, *flags, remove=(), **variables):
    environment = {**os.environ, "PYTHONPATH": str(Path(numod.__file__).parents[1]), **variables}
    environment = {name: value for name, value in environment.items() if name not in remove}
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def output(process, warning=False):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err[-3000:]
    assert "set NUMOD_CACHE_DIR" in err if warning else not err
    return out.splitlines()


def test_processes_fill_one_cache_at_once_and_the_next_compiles_nothing(tmp_path):
    folder = tmp_path / "shared"
    runs = [output(process) for process in [python(WORK, NUMOD_CACHE_DIR=str(folder)) for _ in range(4)]]
    assert len({run[0] for run in runs}) == 1
    assert sorted({path.suffix for path in folder.iterdir()}) == [".kernel", ".key"]
    values, counts = output(python(WORK, NUMOD_CACHE_DIR=str(folder)))
    compiled, loaded = map(int, counts.split())
    assert values == runs[0][0] and compiled == 0 and loaded == len(list(folder.glob("*.kernel")))


SMALL = """
import numod
from numod.kernel.build import statistics
print((numod.arange(3) + 1).tolist(), statistics.compiled > 0)
"""


@pytest.mark.parametrize("case", ["empty", "no_home", "home_is_no_folder", "relative"])
def test_odd_environments(tmp_path, case):
    remove = {
        "no_home": ("HOME", "NUMOD_CACHE_DIR", "XDG_CACHE_HOME"),
        "home_is_no_folder": ("NUMOD_CACHE_DIR", "XDG_CACHE_HOME"),
    }.get(case, ())
    variables = {
        "empty": {"NUMOD_CACHE_DIR": ""},
        "home_is_no_folder": {"HOME": "/dev/null"},
        "relative": {"NUMOD_CACHE_DIR": "relative/cache"},
    }.get(case, {})
    if case == "no_home":  # the home of the password file is not this test's to fill
        variables = {"XDG_CACHE_HOME_UNUSED": ""}
        code = "import os, pwd\npwd.getpwuid = lambda uid: (_ for _ in ()).throw(KeyError(uid))\n" + SMALL
    else:
        code = f"import os\nos.chdir({str(tmp_path)!r})\n" + SMALL
    assert output(python(code, remove=remove, **variables), warning=case in ("no_home", "home_is_no_folder")) == [
        "[1, 2, 3] True"
    ]
    assert (tmp_path / "relative" / "cache").is_dir() == (case == "relative")


def test_a_working_directory_that_was_deleted(tmp_path):
    code = (
        "import os, numba, "
        f"numod\nos.mkdir({str(tmp_path / 'gone')!r})\nos.chdir({str(tmp_path / 'gone')!r})\nos.rmdir(os.getcwd())\n"
        + SMALL
    )
    assert output(python(code, NUMOD_CACHE_DIR="relative"), warning=True) == ["[1, 2, 3] True"]


def test_import_does_not_import_numba():
    code = (
        "import sys, numod\nprint(sorted(name for name in ('numba', 'llvmlite', 'torch', 'scipy') if name in "
        "sys.modules))"
    )
    assert output(python(code)) == ["[]"]


def test_control_c_waits_while_numba_is_imported():
    """It would stay half imported: no kernel could be built in this process any more."""
    code = """
import signal, sys
import numod

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "numba.core.types":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
try:
    numod.ones(3) + 1
except KeyboardInterrupt:
    print((numod.ones(3) + 1).tolist())
"""
    assert output(python(code)) == ["[2.0, 2.0, 2.0]"]


def test_creating_and_viewing_does_not_import_numba():
    code = """
import sys, numpy, numod
x = numod.from_numpy(numpy.ones((2, 3)))
x.t()[1].numpy(), x.tolist(), numod.nn.ReLU(), numod.empty(3)
print('numba' in sys.modules)
"""
    assert output(python(code)) == ["False"]


def test_without_the_compiler_it_says_so(monkeypatch):
    from numba import config

    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    with pytest.raises(RuntimeError, match="NUMBA_DISABLE_JIT is set"):
        builder.build(cpu, "nothing", "def kernel(x):\n    x[0] = 12321.0\n", "float32[]")


def test_a_fork_waits_for_kernels_that_another_thread_begins_meanwhile(monkeypatch):
    """The child has no threads that could complete them."""
    unfinished, begun = [], iter(["kernel"])

    class Lock:
        def acquire(self):
            unfinished.extend(begun)

        def release(self):
            pass

    monkeypatch.setattr(builder, "_unfinished", unfinished)
    monkeypatch.setattr(builder, "complete_all", unfinished.clear)
    monkeypatch.setattr(builder, "unforked", Lock())
    builder._leave_parent()
    assert not unfinished and not list(begun)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_waits_for_modules_that_another_thread_imports():
    started, done = threading.Event(), []

    def load():
        with builder.unforked:
            started.set()
            threading.Event().wait(0.05)  # lets the other thread come to its fork
            done.append(True)

    loader = threading.Thread(target=load)
    loader.start()
    started.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if done and builder.unforked.acquire(blocking=False) else 1)
    loader.join()
    assert os.waitpid(child, 0)[1] == 0
