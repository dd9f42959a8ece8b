"""Run a user's script as Python would run it."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from .. import tracebacks

_RUNNERS = {__file__, runpy.__file__, runpy.run_path.__code__.co_filename}  # the last is <frozen runpy>


def problem(script: str, as_module: bool) -> str:
    """Why there is no such script, or module where `as_module`; "" if there is.

    Of `package.module`, only the package is looked for: to find the module would run the package's code.
    """
    if not as_module:
        return "" if os.path.isfile(script) else f"there is no file {script}"
    try:
        with _first_on_path(os.getcwd()):
            is_there = importlib.util.find_spec(script.partition(".")[0]) is not None
    except (ImportError, ValueError) as error:
        return f"there is no module {script}: {error}"
    return "" if is_there else f"there is no module {script} in this folder, nor on Python's path"


@contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    before, sys.path[0] = sys.path[0], folder
    try:
        yield
    finally:
        sys.path[0] = before


def run_script(script: str, arguments: list[str], context: AbstractContextManager, as_module: bool = False) -> int:
    """Run a script inside `context`, or a module or package as `python -m` does, and return its exit code.

    The code is 2 if it is missing, 1 if it raises (its traceback is printed), 130 if it is interrupted. A script gets
    its own `sys.argv`, and its folder is first on `sys.path`; of a module, it is the working folder. A process that
    the script has forked ends here, with its own code: the report is the parent's.
    """
    if reason := problem(script, as_module):
        print(reason, file=sys.stderr)
        return 2
    process = os.getpid()
    code = _code_of(script, arguments, context, as_module)
    if os.getpid() != process:
        raise SystemExit(code)
    return code


def _code_of(script: str, arguments: list[str], context: AbstractContextManager, as_module: bool) -> int:
    before, sys.argv = sys.argv, [script, *arguments]
    try:
        with _first_on_path(os.getcwd() if as_module else os.path.dirname(os.path.abspath(script))), context:
            if as_module:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")
        return 0
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except Exception as error:  # the script may raise anything
        frames = _frames_of_script(error.__traceback__)
        error.__suppress_context__ |= frames is None  # raised by `runpy`, as for a module that does not exist
        tracebacks.print_exception(error.with_traceback(frames))
        return 1
    finally:
        sys.argv = before


def _frames_of_script(frames: TracebackType | None) -> TracebackType | None:
    """The frames from the script's first on, without those of numod and of `runpy` before it."""
    while frames is not None and frames.tb_frame.f_code.co_filename in _RUNNERS:
        frames = frames.tb_next
    return frames
