"""`python -m numod profile script.py`: run a script under the profiler; a table, an HTML page and a trace. Only the command."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from .averages import time_text


def add_command(commands: argparse._SubParsersAction) -> None:
    """Register `profile`."""
    parser = commands.add_parser("profile", help="run a script and show where its time goes: a table, an HTML page, a trace for Perfetto")
    parser.add_argument("--output", metavar="NAME", help="names of the files: NAME.html and NAME.trace.json (default: the script's, here, with _profile)")
    parser.add_argument("--sort", metavar="COLUMN", default="self_cpu_time_total", help="what the table is sorted by (default: %(default)s)")
    parser.add_argument("--rows", metavar="N", type=int, default=15, help="rows of the table (default: %(default)s)")
    parser.add_argument("--lines", action="store_true", help="a row per line of your code that calls an op")
    parser.add_argument("--no-stack", dest="stack", action="store_false", help="without lines of code, which cost the most to record")
    parser.add_argument("script", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from .profile import profile
    from .report import kinds

    if not os.path.isfile(options.script):
        print(f"profile: there is no file {options.script}", file=sys.stderr)
        return 2
    prof = profile(record_shapes=True, with_flops=True, profile_memory=True, with_stack=options.stack, with_jit=True)
    code = _run_script(prof, options.script, options.arguments)
    lines = {"group_by_stack_n": 1} if options.lines else {}
    print("  ".join(f"{kind} {time_text(time)}" for kind, time in kinds(prof.events()) if time))
    print(_modules(prof.events()))
    print(prof.key_averages(**lines).table(sort_by=options.sort, row_limit=options.rows))
    name = options.output or f"{os.path.splitext(os.path.basename(options.script))[0]}_profile"
    prof.export_html(f"{name}.html", title=f"{options.script}: where its time goes")
    prof.export_chrome_trace(f"{name}.trace.json")
    print(f"{name}.html        open it in a browser\n{name}.trace.json  open it at https://ui.perfetto.dev")
    return code


def _modules(events: list) -> str:
    """The modules that took longest, their own part without the modules in them."""
    from .report import modules

    rows = [(path, kind, calls, own, backward) for path, kind, calls, _, own, backward, *_ in modules(events)]
    rows = sorted(rows, key=lambda row: -row[3])[:5]
    if not rows:
        return ""
    head = f"{'module':<40}{'class':<20}{'calls':>7}{'own forward':>14}{'backward':>14}\n"
    return head + "".join(f"{path[-39:]:<40}{kind[:19]:<20}{calls:>7}{time_text(own):>14}{time_text(backward):>14}\n" for path, kind, calls, own, backward in rows)


def _run_script(prof: object, script: str, arguments: list[str]) -> int:
    """The script's exit code. It finds its own arguments and, first on the path, its own folder."""
    before = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(os.path.abspath(script))
    try:
        with prof:
            runpy.run_path(script, run_name="__main__")
        return 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.argv, sys.path[0] = before
