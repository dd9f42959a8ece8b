"""The kernel builder: its key, damaged or missing cache folders, and processes that share a folder."""

import errno
import hashlib
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import numod
from numod.device import cpu
from numod.kernel import build as builder
from numod.kernel import cache, entry, seal, trust
from numod.kernel.divide import divided

SOURCE = "def kernel(x, out):\n    for i in range(out.shape[0]):\n        out[i] = x[i] + 1\n"
SIGNATURE = "float32[], float32[]"


class Fresh:
    """A builder that has built nothing yet, with a folder of its own."""

    def __init__(self, monkeypatch, folder):
        self.folder = Path(folder)
        self.monkeypatch = monkeypatch
        monkeypatch.setenv("NUMOD_CACHE_DIR", str(folder))
        self.forget()

    def forget(self):
        """As in a new process."""
        self.monkeypatch.setattr(builder, "_built", {})
        self.monkeypatch.setattr(trust, "_open_folder", None)
        cache._warn_once.cache_clear()

    def build(self, source=SOURCE, signature=SIGNATURE, **options):
        return builder.build(cpu, "sample", source, signature, **options)

    def files(self):
        """The entries."""
        return sorted(self.folder.glob("*.kernel"))


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    return Fresh(monkeypatch, tmp_path / "cache")


def result(kernel, *numbers, dtype=np.float32):
    x = np.arange(5, dtype=dtype)
    out = np.empty(5, dtype=dtype)
    kernel.launch(x, out, *numbers)
    return out.tolist()


RIGHT = [1.0, 2.0, 3.0, 4.0, 5.0]


# ---- the key; `compile` is not called, so these cost nothing


@pytest.fixture
def keys(monkeypatch):
    """The key of a kernel that is not compiled."""
    monkeypatch.setattr(builder, "_built", {})
    monkeypatch.setattr(builder, "_make", lambda backend, kernel, fastmath, alone: kernel)

    def key(source=SOURCE, signature=SIGNATURE, **options):
        return builder.build(cpu, "sample", source, signature, **options).key

    return key


def test_the_key_is_that_of_its_inputs(keys):
    assert keys() == keys()
    different = [
        keys(),
        keys(source=SOURCE + "\n"),
        keys(source=SOURCE.replace("+ 1", "+ 2")),
        keys(signature="float64[], float64[]"),
        keys(parallel=True),
        keys(fastmath=frozenset()),
        keys(fastmath=builder.FAST_REDUCTION),
    ]
    assert len(set(different)) == len(different)


def test_the_key_changes_with_versions_and_processor(keys, monkeypatch):
    before = keys()
    with monkeypatch.context() as patch:
        patch.setattr(numod, "__version__", "999")
        assert keys() != before
    with monkeypatch.context() as patch:
        patch.setattr(builder, "VERSION", "other")
        assert keys() != before
    with monkeypatch.context() as patch:
        patch.setattr(cpu, "identity", lambda: "another processor")
        assert keys() != before
    assert keys() == before


def test_the_identity_names_what_compiled_code_depends_on():
    import llvmlite
    import numba

    assert (
        sys.implementation.cache_tag in cpu.identity()
        and numba.__version__ in cpu.identity()
        and llvmlite.__version__ in cpu.identity()
    )


def test_the_name_carries_the_key(keys, monkeypatch):
    kernel = builder.build(cpu, "sample", SOURCE, SIGNATURE)
    assert kernel.name.startswith("sample_") and kernel.key[:16] in kernel.name


# ---- compiled, cached, loaded


def test_a_kernel_is_compiled_once_and_then_loaded(fresh):
    compiled, loaded = builder.statistics.compiled, builder.statistics.loaded
    kernel = fresh.build()
    assert result(kernel) == RIGHT and not kernel.cached and fresh.build() is kernel
    assert len(fresh.files()) == 1
    fresh.forget()
    again = fresh.build()
    assert again is not kernel and again.cached and result(again) == RIGHT
    assert (builder.statistics.compiled, builder.statistics.loaded) == (compiled + 1, loaded + 1)
    assert kernel in builder.kernels() or again in builder.kernels()


def test_signals_wait_for_the_kernel(fresh, monkeypatch):
    """An exception of a handler in the midst of the compiler would be lost in LLVM's callbacks, or free a module
    twice.
    """
    steps, usual = [], cache.KernelCache.save

    def save(self, *arguments):
        steps.append("begun")
        signal.raise_signal(signal.SIGINT)
        steps.append("finished")
        return usual(self, *arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cache.KernelCache, "save", save)
        fresh.build()
    assert steps == ["begun", "finished"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert result(fresh.build()) == RIGHT


def test_serial_and_parallel_variants_are_apart(fresh):
    def both() -> tuple:
        return fresh.build(), fresh.build(
            divided(SOURCE.replace("range(", "parallel_range(")), f"{SIGNATURE}, int64", parallel=True
        )

    for cached in (False, True):
        serial, parallel = both()
        assert serial.cached == parallel.cached == cached and len(fresh.files()) == 2
        assert result(serial) == RIGHT
        assert all(result(parallel, threads) == RIGHT for threads in (1, 2))
        fresh.forget()


def test_the_folder_is_private_and_holds_no_leftovers(fresh):
    fresh.build()
    assert stat.S_IMODE(fresh.folder.stat().st_mode) & 0o077 == 0
    assert sorted(path.suffix for path in fresh.folder.iterdir()) == [".kernel", ".key"]
    assert stat.S_IMODE((fresh.folder / seal.NAME).stat().st_mode) == 0o600


def test_listeners_hear_of_kernels(fresh):
    active_listeners = []
    builder.listeners.append(active_listeners.append)
    try:
        kernel = fresh.build()
        fresh.build()
    finally:
        builder.listeners.remove(active_listeners.append)
    assert active_listeners == [kernel]


def test_an_error_in_the_source_reaches_the_caller_and_leaves_nothing(fresh):
    with pytest.raises(Exception, match="undefined_name"):
        fresh.build(SOURCE.replace("+ 1", "+ undefined_name"))
    assert fresh.files() == []
    assert result(fresh.build()) == RIGHT


# ---- damage


def cut(path):
    path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])


def cut_short(path):
    path.write_bytes(path.read_bytes()[:20])


def empty(path):
    path.write_bytes(b"")


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def foreign(path):
    path.write_bytes(b"not a kernel at all" * 100)


def a_pickle(path):
    """As older versions wrote them: a digest of the key and the pickle in front. It must not be read."""
    payload = pickle.dumps(Planted())
    path.write_bytes(hashlib.sha256(path.stem.rpartition("_")[2].encode() + payload).digest() + payload)


class Planted:
    def __reduce__(self):
        return os._exit, (3,)


def without_a_seal(path):
    path.write_bytes(entry.dump(entry.parse(path.read_bytes())))


def with_another_seal(path):
    path.write_bytes(entry.dump(entry.parse(path.read_bytes()), os.urandom(32)))


def writable_by_others(path):
    path.chmod(0o666)


def a_pipe(path):
    path.unlink()
    os.mkfifo(path)


def a_folder(path):
    path.unlink()
    path.mkdir()


def a_link(path):
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize(
    "damage",
    [
        cut,
        cut_short,
        empty,
        flip,
        foreign,
        a_pickle,
        without_a_seal,
        with_another_seal,
        writable_by_others,
        a_pipe,
        a_folder,
        a_link,
    ],
    ids=lambda function: function.__name__,
)
def test_a_damaged_entry_is_compiled_again(fresh, damage):
    fresh.build()
    (path,) = fresh.files()
    damage(path)
    fresh.forget()
    kernel = fresh.build()
    assert not kernel.cached and result(kernel) == RIGHT and kernel.why.startswith("entry not used: ")
    if damage is not a_folder:
        fresh.forget()
        assert fresh.build().cached


def test_the_entry_of_another_kernel_is_not_taken(fresh):
    fresh.build()
    (first,) = fresh.files()
    other = SOURCE.replace("+ 1", "+ 2")
    fresh.build(other)
    (second,) = set(fresh.files()) - {first}
    shutil.copy(first, second)
    fresh.forget()
    kernel = fresh.build(other)
    assert result(kernel) == [2.0, 3.0, 4.0, 5.0, 6.0] and kernel.why == "entry not used: it is another kernel's"


# ---- the key of the folder


def unreadable(path):
    path.chmod(0o644)


def too_long(path):
    path.write_bytes(bytes(33))


def a_link_elsewhere(path):
    path.symlink_to(path.rename(path.with_name("elsewhere")))


@pytest.mark.parametrize(
    "damage", [cut, empty, too_long, unreadable, a_link_elsewhere], ids=lambda function: function.__name__
)
def test_an_unusable_key_is_replaced_with_a_warning(fresh, damage):
    fresh.build()
    key = fresh.folder / seal.NAME
    before = key.read_bytes()
    damage(key)
    fresh.forget()
    with pytest.warns(UserWarning, match=r"the key of the kernel cache .*/cache is replaced.*seal\.key") as warned:
        kernel = fresh.build()
    assert not kernel.cached and result(kernel) == RIGHT and "seal.key" in kernel.why and len(warned) == 1
    assert stat.S_IMODE(key.lstat().st_mode) == 0o600 and key.read_bytes() not in (before, bytes(32))
    fresh.forget()
    assert fresh.build().cached


def test_without_the_key_nothing_is_loaded_and_another_is_made(fresh):
    fresh.build()
    (fresh.folder / seal.NAME).unlink()
    fresh.forget()
    kernel = fresh.build()
    assert not kernel.cached and result(kernel) == RIGHT and kernel.why.startswith("entry not used")
    fresh.forget()
    assert fresh.build().cached


def test_a_key_that_cannot_be_replaced_means_memory_only(fresh):
    fresh.folder.mkdir(mode=0o700)
    (fresh.folder / seal.NAME).mkdir()
    with pytest.warns(UserWarning, match="compiled kernels cannot be kept in .*/cache"):
        assert result(fresh.build()) == RIGHT
    assert fresh.files() == []


def test_a_full_disk_is_told_once(fresh, monkeypatch):
    def full(self, *arguments, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(trust.Folder, "write", full)
    with pytest.warns(
        UserWarning, match="cannot be kept in .*/cache, so every process compiles them again: No space left on device"
    ) as warned:
        assert result(fresh.build()) == RIGHT and result(fresh.build(SOURCE.replace("+ 1", "+ 3"))) != RIGHT
    assert len(warned) == 1


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="needs POSIX users")
def test_a_folder_that_root_filled_serves_other_users(fresh, monkeypatch):
    """They cannot read the key: that root owns the folder and the file, and that nobody else can write, is enough.

    What is missing is not kept, silently.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root")
    fresh.build()
    (path,) = fresh.files()
    (fresh.folder / seal.NAME).unlink()
    fresh.forget()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    kernel = fresh.build()
    assert kernel.cached and result(kernel) == RIGHT
    assert result(fresh.build(SOURCE.replace("+ 1", "+ 3"))) != RIGHT and fresh.files() == [path]
    os.chown(path, 54322, -1)
    fresh.forget()
    assert fresh.build().why == "entry not used: it belongs to another user (uid 54322)"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX permissions")
def test_entries_serve_other_users(fresh):
    before = os.umask(0o022)
    try:
        fresh.build()
    finally:
        os.umask(before)
    assert {oct(path.stat().st_mode & 0o777) for path in fresh.files()} == {"0o644"}  # once they may enter the folder


def test_strange_files_beside_the_entries_do_no_harm(fresh):
    fresh.folder.mkdir(mode=0o700)
    (fresh.folder / "readme.txt").write_text("mine")
    (fresh.folder / "left.tmp").write_bytes(b"torn")
    assert result(fresh.build()) == RIGHT and (fresh.folder / "readme.txt").read_text() == "mine"


# ---- folders that cannot be used


@pytest.mark.parametrize("case", ["below_a_file", "a_file", "proc", "too_deep", "gone", "readonly"])
def test_an_unusable_folder_means_memory_only(monkeypatch, tmp_path, case):
    (tmp_path / "file").write_text("")
    folder = {
        "below_a_file": tmp_path / "file" / "cache",
        "a_file": tmp_path / "file",
        "proc": "/proc/numod",
        "too_deep": f"{tmp_path}/{'a/' * 3000}",
        "gone": tmp_path / "gone",
        "readonly": tmp_path / "readonly",
    }[case]
    fresh = Fresh(monkeypatch, folder)
    if case == "readonly":
        fresh.folder.mkdir(mode=0o500)
    if case == "gone":  # between the look at the folder and the writing
        usual = cache.KernelCache._read
        monkeypatch.setattr(
            cache.KernelCache, "_read", lambda *arguments: (usual(*arguments), shutil.rmtree(folder))[0]
        )
        fresh.folder.mkdir(mode=0o700)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert result(fresh.build()) == RIGHT
    assert case != "gone" or len(fresh.files()) == 1  # made again
    assert not (tmp_path / "a").exists()


def test_an_unusable_folder_is_told_of_once(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    fresh = Fresh(monkeypatch, tmp_path / "file" / "cache")
    with pytest.warns(UserWarning, match="file/cache, so every process .* NUMOD_CACHE_DIR") as warned:
        assert result(fresh.build()) == RIGHT and result(fresh.build(SOURCE.replace("+ 1", "+ 3"))) != RIGHT
    assert len(warned) == 1


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o720, 0o702, 0o1777], ids=oct)
def test_a_folder_others_can_write_is_refused_with_a_warning(fresh, mode):
    fresh.build()
    fresh.folder.chmod(mode)
    before = {path: path.stat().st_mtime_ns for path in fresh.folder.iterdir()}
    fresh.forget()
    with pytest.warns(
        UserWarning,
        match=rf"cannot be kept in .*/cache, .*other users can write to it \(mode {mode:04o}; try chmod go-w\)",
    ) as warned:
        kernel = fresh.build()
        fresh.build(SOURCE.replace("+ 1", "+ 3"))
    assert not kernel.cached and result(kernel) == RIGHT and len(warned) == 1
    assert {path: path.stat().st_mtime_ns for path in fresh.folder.iterdir()} == before
    fresh.folder.chmod(0o755)
    fresh.forget()
    assert fresh.build().cached


def test_the_folder_may_be_removed_and_the_variable_changed_meanwhile(fresh, monkeypatch, tmp_path):
    fresh.build()
    shutil.rmtree(fresh.folder)
    fresh.build(SOURCE.replace("+ 1", "+ 2"))
    assert len(fresh.files()) == 1
    monkeypatch.setenv("NUMOD_CACHE_DIR", str(tmp_path / "another"))
    fresh.build(SOURCE.replace("+ 1", "+ 3"))
    assert len(fresh.files()) == 1 and len(list((tmp_path / "another").glob("*.kernel"))) == 1


def test_a_missing_folder_is_made_with_its_parents(monkeypatch, tmp_path):
    fresh = Fresh(monkeypatch, tmp_path / "a" / "b" / "c")
    fresh.build()
    assert len(fresh.files()) == 1


# ---- processes


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
