"""What a user sees of a compilation, and how it is interrupted. Three small kernels are compiled."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from numod.device import cpu, progress, signals
from numod.kernel import build

SOURCE = "def kernel(x, out):\n    for i in range(out.size):\n        out[i] = x[i] * {} + x[0]\n"


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("NUMOD_QUIET", raising=False)
    monkeypatch.delenv("TERM", raising=False)
    stream = Terminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream))  # pytest replaces sys.stderr
    monkeypatch.setattr(progress, "_wait", progress._Wait())
    monkeypatch.setattr(progress, "SILENT_SECONDS", -1.0)
    return stream


def shown(line: str) -> str:
    """What shows a line at the cursor, without a break at the margin, and goes back."""
    return f"\x1b7\x1b[?7l{line}\x1b[?7h\x1b8"


ERASED = "\x1b[K"


def test_a_line_is_shown_and_erased(terminal):
    with progress.compiling("add_1"):
        assert terminal.getvalue() == shown("compiling kernels 1 … add_1")
        progress.checkpoint()
        with progress.compiling("inner"):
            pass
    with progress.compiling("mul_2"):
        pass
    lines = "compiling kernels 1 … add_1", "compiling kernels 2 … mul_2"
    assert terminal.getvalue() == "".join(shown(line) + ERASED for line in lines)


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="needs POSIX signals")
def test_the_line_makes_room_for_what_a_handler_writes(terminal):
    line = shown("compiling kernels 1 … add_1")
    before = signal.signal(signal.SIGUSR1, lambda number, frame: terminal.write("tick "))
    try:
        with signals.waiting(), progress.compiling("add_1"):
            signal.raise_signal(signal.SIGUSR1)
            progress.checkpoint()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert terminal.getvalue() == line + ERASED + "tick " + line + ERASED


def test_kernels_that_are_expected_are_counted(terminal):
    with progress.expecting(3):
        progress.loaded()
        with progress.compiling("add"), progress.expecting(9):
            pass
    line = "compiling kernels 2/3 … add"
    assert terminal.getvalue() == shown(line) + ERASED


def test_a_short_wait_shows_nothing(terminal, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 1e9)
    with progress.compiling("add"):
        progress.checkpoint()
    assert terminal.getvalue() == ""


def test_quiet_and_no_terminal(terminal, monkeypatch):
    monkeypatch.setenv("NUMOD_QUIET", "1")
    with progress.compiling("add"):
        pass
    monkeypatch.delenv("NUMOD_QUIET")
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(progress.sys, "stderr", stream)
        with progress.compiling("add"):
            pass
        assert stream is None or stream.getvalue() == ""
    assert terminal.getvalue() == ""


def test_other_threads_show_nothing(terminal):
    def run() -> None:
        with progress.compiling("add"):
            progress.checkpoint()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert terminal.getvalue() == ""


def test_an_encoding_without_the_sign(terminal):
    terminal.encoding = None
    with progress.compiling("add"):
        assert terminal.getvalue() == shown("compiling kernels 1 ... add")


@pytest.mark.parametrize("columns, width", [(0, 40), (200, 100), (40, 20), (30, 20), (10, 9)])
def test_the_line_fits_into_a_narrow_terminal(terminal, monkeypatch, columns, width):
    terminal.fileno = lambda: 2
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((columns, 24)))
    line = ("compiling kernels 1 … " + "x" * 200)[:width]
    with progress.compiling("x" * 200):
        assert terminal.getvalue() == shown(line)
    assert terminal.getvalue() == shown(line) + ERASED


@pytest.mark.parametrize("columns", [1, 2, 9])
def test_a_terminal_of_few_columns_shows_nothing(terminal, monkeypatch, columns):
    terminal.fileno = lambda: 2
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((columns, 24)))
    with progress.compiling("add"):
        progress.checkpoint()
    assert terminal.getvalue() == ""


def test_a_terminal_without_control_sequences(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    line = "compiling kernels 1 … add"
    with progress.compiling("add"):
        pass
    assert terminal.getvalue() == (line + "\b" * 25) + " " * 25 + "\b" * 25


@pytest.fixture
def uncached(monkeypatch):
    """Kernels are not on the disk."""
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")


def interrupted_build(monkeypatch, factor: int, at: int, number: int) -> int:
    """Build a kernel with a signal at one of the compiler's checkpoints; returns how many it passed."""
    passed, usual = [], progress.checkpoint

    def checkpoint() -> None:
        passed.append(1)
        if len(passed) == at:
            signal.raise_signal(number)
        usual()

    with monkeypatch.context() as patch:
        patch.setattr(progress, "checkpoint", checkpoint)
        try:
            build.build(cpu, "interrupted", SOURCE.format(factor), "float64[], float64[]")
        finally:
            count = len(passed)
            patch.undo()
    return count


def test_control_c_ends_a_compilation_and_leaves_the_compiler_sound(uncached, monkeypatch):
    from numod.device import background

    for at in (1, 15):
        with pytest.raises(KeyboardInterrupt):
            interrupted_build(monkeypatch, 40001, at, signal.SIGINT)
    usual = background.Queue.finish

    def finish(self, task: object = None) -> None:  # a signal while LLVM works
        signal.raise_signal(signal.SIGINT)
        usual(self, task)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(background.Queue, "finish", finish)
        build.build(cpu, "interrupted", SOURCE.format(40001), "float64[], float64[]")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    kernel = build.build(cpu, "interrupted", SOURCE.format(40001), "float64[], float64[]")
    out = np.empty(3)
    kernel.launch(np.arange(1.0, 4.0), out)
    assert out.tolist() == [40002, 80003, 120004]


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="needs SIGALRM")
def test_exceptions_of_handlers_arrive_unchanged_and_others_go_on(uncached, monkeypatch):
    class Late(Exception):
        pass

    def late(number: int, frame: object) -> None:
        raise Late

    came = []
    before = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(Late):
            interrupted_build(monkeypatch, 40003, 10, signal.SIGALRM)
        signal.signal(signal.SIGALRM, lambda number, frame: came.append(number))
        assert interrupted_build(monkeypatch, 40003, 10, signal.SIGALRM) > 10 and came == [signal.SIGALRM]
    finally:
        signal.signal(signal.SIGALRM, before)


TERMINAL = """
import sys
from numod.device import cpu, progress
from numod.kernel import build
progress.SILENT_SECONDS = -1.0
build.build(cpu, "shown", "def kernel(x):\\n    x[0] = 40005.0\\n", "float64[]")
sys.stderr.write("done")
"""


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo terminal")
def test_on_a_terminal():
    terminal, end = os.openpty()
    try:
        environment = {**os.environ, "NUMOD_CACHE_DIR": "", "NUMOD_QUIET": "0", "TERM": "xterm"}
        subprocess.run(
            [sys.executable, "-c", TERMINAL], stderr=end, stdout=end, env=environment, timeout=120, check=True
        )
        output = os.read(terminal, 10000).decode()
    finally:
        os.close(end)
        os.close(terminal)
    assert output.startswith("\x1b7\x1b[?7lcompiling kernels 1 … shown_") and output.endswith("\x1b8\x1b[Kdone")


IMPORTED = """
import signal
import numod
from numod.device import compiler, target
usual = target.in_thread
def interrupted(function):
    usual(function)
    signal.raise_signal(signal.SIGINT)
target.in_thread = interrupted
try:
    numod.ones(3)
except KeyboardInterrupt:
    print(compiler.prepare.cache_info().currsize, end=" ")
target.in_thread = usual
print(numod.ones(3).exp().log().tolist())
"""


def test_an_interrupt_while_numba_is_imported_does_not_wait_for_the_compiler():
    environment = {**os.environ, "NUMOD_CACHE_DIR": ""}
    command = [sys.executable, "-c", IMPORTED]
    printed = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=True).stdout
    assert printed == "0 [1.0, 1.0, 1.0]\n"
