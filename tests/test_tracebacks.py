"""Uncaught exceptions are shown with the user's frames only; the exception keeps them all."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
import types
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

import numod
from numod import nn, tracebacks
from numod.kernel import bind
from numod.utils import progress

SCRIPT = """
import threading
import numod as torch
from numod import nn

class Net(nn.Module):
    def forward(self, x):
        return x @ torch.ones(5, 5)

def main():
    try:
        nn.Sequential(Net())(torch.ones(2, 3))
    except RuntimeError as error:
        raise ValueError("no result") from error

thread = threading.Thread(target=main)
thread.start()
thread.join()
main()
"""


def files(trace: types.TracebackType | None) -> list[str]:
    return [os.path.basename(frame.filename) for frame in traceback.extract_tb(trace)]


def run(script: Path, **environment: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(numod.__file__).parent.parent), **environment}
    ended = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True)
    assert ended.returncode == 1
    return ended.stderr


def test_a_script_and_its_threads_show_the_users_frames_also_of_causes(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    shown = run(script)
    assert "numod/core" not in shown and shown.count("return x @ torch.ones(5, 5)") == 2
    assert shown.count("NUMOD_FULL_TRACEBACK=1") == 2 and shown.rstrip().endswith("ValueError: no result")
    full = run(script, NUMOD_FULL_TRACEBACK="1")
    assert "numod/core/apply.py" in full and "NUMOD_FULL_TRACEBACK" not in full


def test_an_interrupt_while_a_kernel_is_built_shows_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bind, "_built", types.FunctionType(interrupted.__code__, vars(bind)))
    with pytest.raises(KeyboardInterrupt) as caught:
        numod.ones(3, 7, 1, 11, 1, 2).transpose(0, 3).logaddexp(numod.ones(2))
    assert len(files(caught.tb)) > 5 and files(tracebacks.users_frames(caught.tb)) == ["test_tracebacks.py"]


def test_an_interrupt_while_a_notebook_shows_a_bar_shows_the_users_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames of the kernel, which `progress` calls, are internal; those of a library that the user calls are not."""
    display = types.ModuleType("zmq")
    exec("def send(*arguments, **options):\n    raise KeyboardInterrupt\n", vars(display))
    monkeypatch.setattr(progress, "_print", display.send)
    with pytest.raises(KeyboardInterrupt) as caught:
        for _ in progress(range(3)):
            pass
    assert files(tracebacks.users_frames(caught.tb)) == ["test_tracebacks.py"]
    with pytest.raises(KeyboardInterrupt) as caught:
        display.send()
    assert files(tracebacks.users_frames(caught.tb)) == ["test_tracebacks.py", "<string>"]


def test_exceptions_that_numod_handled_are_not_shown() -> None:
    try:
        raise LookupError("the user's")
    except LookupError:
        with pytest.raises(RuntimeError) as caught:
            numod.ones(2, 3) @ numod.ones(5, 5)
    error, inner = caught.value, KeyError("numod's")
    inner.__traceback__, inner.__context__ = caught.tb.tb_next, error.__context__
    error.__context__ = inner
    with tracebacks.shortened(error) as is_shorter:
        assert is_shorter and isinstance(error.__context__, LookupError) and error.__context__ is not inner
    assert error.__context__ is inner
    inner.__context__ = inner
    with tracebacks.shortened(error):
        assert error.__context__ is None


def test_exceptions_that_the_standard_library_handled_are_shown() -> None:
    with pytest.raises(URLError) as caught:
        urlopen("file:///no/such/file")
    assert isinstance(caught.value.__context__, OSError)
    with tracebacks.shortened(caught.value) as is_shorter:
        assert not is_shorter and isinstance(caught.value.__context__, OSError)


def test_frames_of_the_user_below_numod_remain() -> None:
    class Net(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return sorted([x], key=lambda value: value @ numod.ones(5, 5))[0]

    with pytest.raises(RuntimeError) as caught:
        nn.Sequential(Net())(numod.ones(2, 3))
    assert files(tracebacks.users_frames(caught.tb)) == ["test_tracebacks.py"] * 3


def test_the_exception_keeps_its_frames() -> None:
    with pytest.raises(RuntimeError) as caught:
        numod.ones(2, 3) @ numod.ones(5, 5)
    whole = caught.value.__traceback__
    with tracebacks.shortened(caught.value) as is_shorter:
        assert is_shorter and files(caught.value.__traceback__) == ["test_tracebacks.py"]
    assert caught.value.__traceback__ is whole


def test_a_traceback_of_internal_frames_alone_is_shown_whole() -> None:
    with pytest.raises(RuntimeError) as caught:
        numod.ones(2, 3) @ numod.ones(5, 5)
    inner = caught.tb.tb_next
    assert tracebacks.users_frames(inner) is inner and tracebacks.users_frames(None) is None


def test_causes_that_form_a_cycle_and_members_of_groups() -> None:
    with pytest.raises(RuntimeError) as caught:
        numod.ones(2, 3) @ numod.ones(5, 5)
    group = ExceptionGroup("several", [caught.value])
    caught.value.__context__ = group
    with tracebacks.shortened(group) as is_shorter:
        assert is_shorter and files(caught.value.__traceback__) == ["test_tracebacks.py"]
    caught.value.__context__ = None


def test_ipython_shows_the_users_frames(capsys: pytest.CaptureFixture) -> None:
    pytest.importorskip("IPython")
    program = (  # the debugger still gets all frames
        "from IPython.core.interactiveshell import InteractiveShell as Shell; shell = Shell.instance(colors='nocolor')\n"
        "shell.run_cell('import numod as torch')\nshell.run_cell('torch.ones(2, 3) @ torch.ones(5, 5)')\n"
        "import sys, traceback; assert len(traceback.extract_tb(sys.last_traceback)) > 3\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert not ended.returncode and "shapes cannot be multiplied" in ended.stdout and "numod/core" not in ended.stdout
