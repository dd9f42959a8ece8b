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
    parser.add_argument("--rows", metavar="N", type=int, default=15, help="rows of each table (default: %(default)s)")
    parser.add_argument("--perf-map", action="store_true", help="name compiled kernels for Linux perf: perf record -g python -m numod profile --perf-map ...")
    parser.add_argument("--jit-dump", action="store_true", help="write the kernels' code for perf inject --jit: perf record -k mono python -m numod profile --jit-dump ...")
    parser.add_argument("--no-stack", dest="stack", action="store_false", help="without lines of code, which cost the most to record")
    parser.add_argument("script", help="a Python file")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    from .jit_dump import JitDump
    from .perf_map import write_perf_map
    from .profile import profile
    from .report import kinds, lines, modules

    if not os.path.isfile(options.script):
        print(f"profile: there is no file {options.script}", file=sys.stderr)
        return 2
    prof = profile(record_shapes=True, with_flops=True, profile_memory=True, with_stack=options.stack, with_jit=True)
    dump = JitDump() if options.jit_dump else None
    code = _run_script(prof, options.script, options.arguments)
    events = prof.events()
    print(prof.key_averages().table(sort_by=options.sort, row_limit=options.rows))
    print(_table("module", "class", [(*row[:3], row[4], row[6]) for row in modules(events)], options.rows))
    print(_table("line", "function", [row[:5] for row in lines(events)], options.rows))
    print("  ".join(f"{kind} {time_text(time)}" for kind, time in kinds(events) if time) + "\n")
    name = options.output or f"{os.path.splitext(os.path.basename(options.script))[0]}_profile"
    prof.export_html(f"{name}.html", title=f"{options.script}: where its time goes")
    prof.export_chrome_trace(f"{name}.trace.json")
    if options.perf_map:
        print(write_perf_map())
    if dump is not None:
        dump.close()
        print(dump.path)
    print(f"{name}.html        open it in a browser\n{name}.trace.json  open it at https://ui.perfetto.dev")
    return code


def _table(what: str, kind: str, rows: list[tuple], limit: int) -> str:
    """Rows (place, kind, calls, forward time, backward time), the longest first. A module's times are its own, without the modules in it."""
    rows = sorted(rows, key=lambda row: -row[3] - row[4])[:limit]
    shown = [(what, kind, "calls", "forward", "backward")]
    shown += [(_end(place, 46), str(kind)[:20], str(calls), time_text(forward), time_text(backward)) for place, kind, calls, forward, backward in rows]
    return "\n".join(f"{place:<47}{kind:<21}{calls:>7}{forward:>12}{backward:>12}".rstrip() for place, kind, calls, forward, backward in shown) + "\n"


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[3 - width :]


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
