"""Scripts: another's Python file, run as Python would run it. Not what is watched meanwhile."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from contextlib import AbstractContextManager


def run_script(path: str, arguments: list[str], within: AbstractContextManager) -> int:
    """The script's exit code: 2 where there is no such file, 1 where it fails (its traceback is printed), 130 where it is interrupted.

    It finds its own arguments and, first on the path, its own folder. `within` is entered around it, and left whatever happens.
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
    except Exception as error:  # noqa: BLE001  whatever the script raises is its own
        place = error.__traceback__
        while place is not None and place.tb_frame.f_code.co_filename != path:
            place = place.tb_next  # our frames say nothing to whoever wrote the script
        traceback.print_exception(error.with_traceback(place))
        return 1
    finally:
        sys.argv, sys.path[0] = before
