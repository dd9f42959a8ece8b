"""Processes that fail, as PyTorch's do."""

from __future__ import annotations

import subprocess
import sys


_FAILING = """
import os, signal, sys, time
import numod.multiprocessing as mp

def fail(number, how):
    if number:
        time.sleep(600)  # ended by the process that started it
    if how == "raise":
        raise ValueError("the reason" * 50_000)  # more than a pipe holds
    os.kill(os.getpid(), signal.SIGKILL) if how == "signal" else os._exit(3)

def square(number, results):
    results.put(number**2)

if __name__ == "__main__":
    from numod.multiprocessing.spawn import ProcessContext, ProcessExitedException, ProcessRaisedException

    for how, kind, text in (
        ("raise", ProcessRaisedException, "-- Process 0 terminated with the following error"),
        ("signal", ProcessExitedException, "process 0 terminated with signal SIGKILL"),
        ("exit", ProcessExitedException, "process 0 terminated with exit code 3"),
    ):
        try:
            mp.start_processes(fail, (how,), 2, start_method="fork")
        except kind as error:
            assert text in str(error) and error.error_index == 0 and error.error_pid > 0, error
            assert how != "raise" or "ValueError: the reason" in str(error)
        else:
            raise AssertionError(how)
    results = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(square, (results,), 2, join=False)
    assert isinstance(context, ProcessContext) and len(context.pids()) == 2
    while not context.join(timeout=60):
        continue
    assert {results.get(), results.get()} == {0, 1}
    print("done")
"""


def test_processes_fail_as_pytorchs(tmp_path) -> None:
    """The error of the first that fails, at once: the others are ended."""
    script = tmp_path / "failing.py"
    script.write_text(_FAILING)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert run.stdout == "done\n", run.stderr
