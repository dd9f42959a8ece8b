"""Running a user's script as Python would run it."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from contextlib import AbstractContextManager


def run_script(path: str, arguments: list[str], within: AbstractContextManager) -> int:
    """Run a script and return its exit code: 2 if the file is missing, 1 if it raises (with its traceback printed), 130
    if it is interrupted.

    It gets its own `sys.argv` and its own folder first on `sys.path`. It runs within the context `within`.
    """
    if not os.path.isfile(path):
        print(f"there is no file {path}", file=sys.stderr)
        return 2
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [path, *arguments], os.path.dirname(os.path.abspath(path))
    try:
        with within:
            runpy.run_path(path, run_name="__main__")
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    except Exception as error:  # whatever the script raises is its own
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code.co_filename != path:
            place = place.tb_next  # without our own frames
        traceback.print_exception(error.with_traceback(place))
        return 1
    finally:
        sys.argv, sys.path[0] = before
