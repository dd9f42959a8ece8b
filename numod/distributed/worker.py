"""What `mpiexec` starts on each rank: sets the environment and runs the script. A rank that fails ends all."""

from __future__ import annotations

import os
import pickle
import runpy
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing import spawn

from .engine import abort
from .environment import set_up

_FRAMES = ("<frozen runpy>", __file__)  # are left out of tracebacks


def guarded(function: Callable[[], object]) -> None:
    """Call a function. If it raises, or exits with another code than 0, print its traceback and end all ranks."""
    try:
        function()
    except SystemExit as error:
        if error.code not in (None, 0):
            if not isinstance(error.code, int):
                print(error.code, file=sys.stderr)
            end_all(error.code if isinstance(error.code, int) else 1)
        raise
    except BaseException as error:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename in _FRAMES:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)
        end_all(130 if isinstance(error, KeyboardInterrupt) else 1)


def end_all(code: int) -> None:
    """End all ranks: by MPI where it runs, else by a signal to this process, after which mpiexec ends the others."""
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        abort(code)
    sys.stdout.flush()
    sys.stderr.flush()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)


def _run_script(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
        runpy.run_path(arguments[0], run_name="__main__")


def _call_function(path: str) -> None:
    """Call function(rank, *arguments), which `spawn` has written to a file. An error is written to a second file."""
    with open(path, "rb") as file:
        preparation, payload = pickle.load(file)
    spawn.prepare(preparation)
    rank = int(os.environ["RANK"])
    try:
        function, arguments = pickle.loads(payload)
        function(rank, *arguments)
    except BaseException:
        with open(f"{path}.{rank}", "w") as file:
            file.write(traceback.format_exc())
        raise


def main(arguments: list[str]) -> None:
    """Set up the rank, and run what the command line says."""
    for stream in (sys.stdout, sys.stderr):
        # so that the ranks' lines are printed whole and at once
        stream.reconfigure(line_buffering=True, write_through=False)
    set_up()
    if arguments[0] == "--local-rank":
        script = 2 if arguments[1] in ("-m", "--no_python") else 1
        arguments = [*arguments[1 : script + 1], f"--local-rank={os.environ['LOCAL_RANK']}", *arguments[script + 1 :]]
    if arguments[0] == "--no_python":
        os.execvp(arguments[1], arguments[1:])
    if arguments[0] == "--function":
        guarded(lambda: _call_function(arguments[1]))
    else:
        guarded(lambda: _run_script(arguments))


if __name__ == "__main__":
    del sys.path[0]  # the folder where Python started: `-m` puts it there, a script's Python would not
    main(sys.argv[1:])
