"""The command line and the demo, run as a user runs them, and their output on a terminal and elsewhere."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import numod
from numod import demo
from numod.__main__ import main
from numod.datasets import Digits


def python(*arguments, **variables):
    """A Python process that finds the same numod as this one."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(numod.__file__).parents[1]),
        "PYTHONIOENCODING": "utf-8",
        **variables,
    }
    return subprocess.run([sys.executable, *arguments], capture_output=True, env=environment, timeout=300)


def numod_command(*arguments, **variables):
    return python("-m", "numod", *arguments, **variables)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture(scope="module")
def finished():
    """The demo as it runs by default, in a pipe."""
    return numod_command("demo")


def test_the_demo_succeeds(finished):
    assert finished.returncode == 0, finished.stderr.decode()
    accuracy = re.search(r"accuracy on the test digits: ([\d.]+) %", finished.stdout.decode())
    assert float(accuracy[1]) >= 97


def test_a_pipe_gets_plain_lines(finished):
    assert b"\r" not in finished.stdout
    lines = re.findall(r"^epoch +(\d+)/30  loss \d\.\d{4}  accuracy +[\d.]+ %$", finished.stdout.decode(), re.MULTILINE)
    assert lines == ["3", "6", "9", "12", "15", "18", "21", "24", "27", "30"]


def test_the_demo_saves_draws_and_accounts_for_its_time(finished):
    text = finished.stdout.decode()
    assert "reloaded into a new network: same predictions" in text
    assert re.search(r"^predicted \d +predicted \d +predicted \d +predicted \d$", text, re.MULTILINE)
    assert len(re.findall(r"^true ", text, re.MULTILINE)) == 1
    seconds = {name: float(value) for name, value in re.findall(r"^(\w[\w ]+?)  .* ([\d.]+) s$", text, re.MULTILINE)}
    assert list(seconds) == [
        "Python and imports",
        "kernels compiled",
        "kernels loaded from the cache",
        "training",
        "everything else",
        "total",
    ]
    assert seconds["total"] == pytest.approx(sum(seconds.values()) - seconds["total"], abs=0.04)


def test_the_same_seed_gives_the_same_run(capsys):
    runs = [numod_command("demo", "--epochs", "2", "--seed", "5").stdout.decode()]
    for seed in ("5", "6"):
        assert main(["demo", "--epochs", "2", "--seed", seed]) == 0
        runs.append(capsys.readouterr().out)
    losses = [re.findall(r"loss [\d.]+", run) for run in runs]
    assert losses[0] == losses[1] != losses[2]
    assert len(losses[0]) == 2


def test_output_without_block_characters():
    run = numod_command("demo", "--epochs", "1", PYTHONIOENCODING="ascii")
    assert run.returncode == 0, run.stderr.decode()
    assert b"##" in run.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "required: COMMAND"),
        (["fly"], "invalid choice: 'fly'"),
        (["demo", "now"], "unrecognized arguments: now"),
        (["demo", "--epochs", "0"], "expected a whole number from 1 to 4294967295, got '0'"),
        (["demo", "--epochs", "many"], "expected a whole number from 1"),
        (["demo", "--seed", "-1"], "expected a whole number from 0|expected one argument"),
        (["demo", "--seed", "1" * 5000], "expected a whole number from 0"),
        (["demo", "--device", "abacus"], "invalid choice: 'abacus'"),
    ],
)
def test_bad_arguments(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_device_that_is_not_there(monkeypatch, capsys):
    def no_device(*_, device):
        raise RuntimeError(f"no {device} device")

    monkeypatch.setattr(numod, "empty", no_device)
    with pytest.raises(SystemExit) as exit_:
        main(["demo", "--device", "cuda"])
    assert exit_.value.code == 2
    assert "--device cuda cannot be used here (no cuda device); try --device cpu" in capsys.readouterr().err


def test_bad_arguments_end_the_process_with_code_2():
    run = numod_command("demo", "--epochs", "0")
    assert run.returncode == 2
    assert b"Traceback" not in run.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_does_not_import_numba(arguments):
    program = (
        "import runpy, sys\n"
        f"sys.argv = ['numod', *{arguments!r}]\n"
        "try:\n    runpy.run_module('numod', run_name='__main__')\n"
        "except SystemExit as exit_:\n    sys.exit(exit_.code or 3 * ('numba' in sys.modules))\n"
    )
    run = python("-c", program)
    assert run.returncode == 0, run.stderr.decode()
    assert b"usage: python -m numod" in run.stdout
    assert b"demo" in run.stdout


def test_low_accuracy_fails_with_the_default_epochs_only(monkeypatch, capsys):
    monkeypatch.setattr(demo, "EPOCHS", 1)
    monkeypatch.setattr(demo, "BAR", 1.01)
    assert main(["demo"]) == 1
    assert "is below 101 %" in capsys.readouterr().err
    assert main(["demo", "--epochs", "2"]) == 0
    assert capsys.readouterr().err == ""


def test_interrupt_and_closed_pipe(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run", interrupt)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_a_terminal_gets_one_line_drawn_over(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    terminal = Terminal()
    with demo.Progress(2, terminal) as progress:
        progress.report(1, 0.5, 0.7, 0.5)
        progress.report(2, 1.0, 0.25, 0.975)
    drawn = terminal.getvalue()
    assert drawn.count("\n") == 1
    assert drawn.endswith("\n")
    assert drawn.split("\r")[-1].rstrip() == "█" * 20 + "  epoch 2/2  loss 0.2500  accuracy  97.5 %"


def test_a_narrow_terminal_is_not_wrapped(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    terminal = Terminal()
    with demo.Progress(1, terminal) as progress:
        progress.report(1, 1.0, 0.25, 0.975)
    assert [len(line) for line in terminal.getvalue().split("\r")] == [0, 30]


def test_compiling_is_shown_on_a_terminal():
    class Kernel:
        cached = False

    terminal = Terminal()
    with demo.Progress(1, terminal) as progress:
        progress.kernel_built(Kernel())
    assert "compiling kernels: " in terminal.getvalue()


def test_draw():
    image = numod.linspace(0, 1, 64).reshape(1, 8, 8)
    lines = demo.draw(image, " ░▒▓█")
    assert [len(line) for line in lines] == [16] * 8
    assert lines[0][:2] == "  "
    assert lines[-1][-2:] == "██"


def test_a_mistake_is_shown_where_there_is_one():
    test = Digits(train=False)
    predicted = test.targets.clone()
    predicted[7] = (predicted[7] + 1) % 10
    lines = demo.draw_some(test, predicted, Terminal()).splitlines()
    assert len(lines) == 10
    read, true = (re.findall(r"\d", line) for line in lines[-2:])
    assert read[:3] == true[:3]
    assert read[3] != true[3]
