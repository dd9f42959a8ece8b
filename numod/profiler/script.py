"""Run a user's script as Python would run it."""

from __future__ import annotations

import os
import runpy
import sys
from contextlib import AbstractContextManager

from .. import tracebacks


def run_script(path: str, arguments: list[str], context: AbstractContextManager) -> int:
    """Run a script inside `context` and return its exit code.

    The code is 2 if the file is missing, 1 if the script raises (its traceback is printed), 130 if it is interrupted.
    The script gets its own `sys.argv`, and its folder is first on `sys.path`.
    """
    if not os.path.isfile(path):
        print(f"there is no file {path}", file=sys.stderr)
        return 2
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [path, *arguments], os.path.dirname(os.path.abspath(path))
    try:
        with context:
            runpy.run_path(path, run_name="__main__")
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except Exception as error:  # the script may raise anything
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename != path:
            frames = frames.tb_next  # skip numod's own frames
        tracebacks.print_exception(error.with_traceback(frames))
        return 1
    finally:
        sys.argv, sys.path[0] = before
